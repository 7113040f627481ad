"""A release of Opacus, in the worker process of `targets.opacus_releases`; gradients go through the release's own hooks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.probe.subject import Adaptation, Knob, Raised, Run
from noisymean.targets.opacus_releases.client import Session, WorkerFault
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.setup import (
    Adaptive,
    AtRate,
    Empty,
    Mode,
    Reduction,
    Rows,
    Sampling,
    Setup,
    Shuffled,
    ThroughLoader,
)
from noisymean.targets.protocol import Neighbour

# little noise on the count, so that what it is divided by can be read
_MOVING = Adaptive(unclipped_num_std=1e-3, clipbound_learning_rate=1.0, target_unclipped_quantile=0.5, moving=True)


@final
@dataclass(frozen=True, kw_only=True)
class OpacusRelease:
    """One release and its options; from 1.0.0 on through `make_private` on an ordinary data loader, as its users do."""

    version: str
    reduction: Reduction = Reduction.MEAN
    poisson: bool = True
    clipping: Clipping = Clipping.FLAT
    grad_sample: GradSample = GradSample.HOOKS

    @property
    def name(self) -> str:
        """The release, and the options that are not its defaults."""
        options = [] if self.reduction is Reduction.MEAN else [f"loss_reduction={self.reduction.value}"]
        options += [] if self.poisson and self.era is not Era.POISSON_FLAG else [f"poisson={self.poisson}"]
        options += [] if self.clipping is Clipping.FLAT else [f"clipping={self.clipping.value}"]
        options += [] if self.grad_sample is GradSample.HOOKS else [f"grad_sample_mode={self.grad_sample.value}"]
        return ", ".join([f"opacus=={self.version}", *options])

    @property
    def era(self) -> Era:
        """How the release is driven."""
        return Release(self.version).era

    @property
    def knob(self) -> Knob:
        """A batch size from 1.0.0 on; before, a rate."""
        return Knob.BATCH_SIZE if self.era is Era.MAKE_PRIVATE else Knob.RATE

    @property
    def elsewhere(self) -> str | None:
        """None."""
        return None

    @property
    def swift(self) -> bool:
        """A round takes a millisecond or more."""
        return False

    @property
    def adaptation(self) -> Adaptation | None:
        """AdaClip's."""
        if self.clipping is not Clipping.ADAPTIVE:
            return None
        return Adaptation(_MOVING.target_unclipped_quantile, _MOVING.clipbound_learning_rate)

    def run(self, run: Run) -> Array:
        """In a session of its own; the row that only D' would have is zero."""
        records, dimension = run.gradients.shape
        rows = np.zeros((records + 1, dimension), np.float32)
        rows[:records] = run.gradients
        try:
            session = Session(self._setup(run, dimension), [rows])
            return np.array(session.release(Neighbour.SMALLER, run.seed, run.rounds))
        except WorkerFault as fault:
            raise Raised(fault.what) from None

    def oversized_batch(self, seed: int) -> str | None:
        """What happens to a batch above the declared size in releases that declare one; None if nothing does."""
        setup = Setup(
            release=self.version, dataset_size=12, source=Rows(12), sampling=AtRate(Fraction(1, 2)), noise_multiplier=0.0,
            max_grad_norm=1.0, mode=Mode.FULL, declared=3,
        )  # fmt: skip
        try:
            Session(setup, [np.eye(13, 12, dtype=np.float32)]).release(Neighbour.SMALLER, seed, 60)
        except WorkerFault as fault:
            return fault.what
        return None

    def _setup(self, run: Run, dimension: int) -> Setup:
        sampling: Sampling
        if run.setting.rate is not None:
            sampling = AtRate(run.setting.rate)
        elif self.poisson:
            sampling = ThroughLoader(run.setting.batch_size or 1)
        else:
            sampling = Shuffled(run.setting.batch_size or 1)
        return Setup(
            release=self.version,
            dataset_size=run.setting.dataset_size,
            source=Rows(dimension),
            sampling=sampling,
            noise_multiplier=run.noise_multiplier,
            max_grad_norm=run.max_grad_norm,
            mode=Mode.FULL,
            reduction=self.reduction,
            poisson=self.poisson if self.era is Era.POISSON_FLAG else True,
            clipping=self.clipping,
            grad_sample=self.grad_sample,
            adaptive=_MOVING if run.moving_bound else Adaptive(),
            empty=Empty.AS_IT_COMES if run.empty_as_it_comes else Empty.PADDED,
        )


def with_options(
    release: OpacusRelease, reduction: str, poisson: bool, clipping: str, grad_sample: str
) -> OpacusRelease:
    """The release with the options of that name; refused if it does not offer them."""
    known = Release(release.version)
    clippings = {one.value: one for one in known.clippings()}
    modes = {one.value: one for one in known.grad_samples() if one is not GradSample.GHOST}
    for name, value, allowed in (
        ("loss_reduction", reduction, [one.value for one in Reduction]),
        ("clipping", clipping, list(clippings)),
        ("grad_sample_mode", grad_sample, list(modes)),
    ):
        if value not in allowed:
            raise InvalidInput(name, value, f"one that opacus=={release.version} offers here: {', '.join(allowed)}")
    if not poisson and known.era in (Era.NO_SAMPLER, Era.SAMPLER):
        raise InvalidInput("poisson", poisson, f"left out for opacus=={release.version}, which has no such option")
    return replace(
        release,
        reduction=Reduction(reduction),
        poisson=poisson,
        clipping=clippings[clipping],
        grad_sample=modes[grad_sample],
    )
