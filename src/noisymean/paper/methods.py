"""The four published methods that the paper audits, by name, each with its models, its release of Opacus and its defaults.

    dpsgd-hf    Tramer and Boneh 2021     pins 0.13.0 (ASGM); its paper states EASGM, audited on 0.15.0
    dpsur       Fu et al. 2024            an update rule of its own (`dpsur`): |B| as in its paper, |B'| as in its code
    dp-feta     Gong et al. 2025          vendors 1.1.3 (FEASGM); its paper states EASGM, audited on 0.15.0, and on 1.0.x
    privimage   Li et al. 2024            the same, with a model of its own for CIFAR-10

The paper's settings: C = 0.1, sigma = 10, |D| = 4; q = 0.005 for EASGM, 0.7 for ASGM, and 0.5 with |D| = 3 for FEASGM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from noisymean.errors import InvalidInput
from noisymean.paper.data import named
from noisymean.paper.dpsur import Dpsur, DpsurUpdate
from noisymean.paper.photographs import Photographs
from noisymean.targets.device import AUTO
from noisymean.targets.opacus import OpacusRelease, OpacusTarget
from noisymean.targets.opacus_releases.setup import AtRate, Mode, Reduction
from noisymean.targets.protocol import Runnable

EASGM_RATE, ASGM_RATE, FEASGM_RATE = Fraction(1, 200), Fraction(7, 10), Fraction(1, 2)
PAPER: Mapping[str, Any] = {"dataset_size": 4, "noise_multiplier": 10.0, "max_grad_norm": 0.1}


@final
@dataclass(frozen=True)
class Method:
    """What a method trains, and the releases of Opacus it is audited on: the stated mechanism's and the one it pins."""

    name: str
    title: str
    grey: str
    colour: str
    audited: str | None
    pinned: str | None

    def model(self, dataset: str) -> str:
        """The network that it trains on this set."""
        return self.grey if named(dataset).shape[2] == 1 else self.colour


METHODS = {
    method.name: method
    for method in (
        Method("dpsgd-hf", "DPSGD-HF", "cnn-grey", "cnn-colour", "0.15.0", "0.13.0"),
        Method("dpsur", "DPSUR", "cnn-grey", "cnn-colour", None, None),
        Method("dp-feta", "DP-FETA", "unet-grey", "unet-colour", "0.15.0", "1.1.3"),
        Method("privimage", "PrivImage", "unet-grey", "unet-privimage", "0.15.0", "1.1.3"),
    )
}


def method_named(name: str) -> Method:
    """The method of that name.

    >>> method_named("dp-feta").model("cifar10")
    'unet-colour'
    """
    if name not in METHODS:
        raise InvalidInput("method", name, f"one of {', '.join(METHODS)}")
    return METHODS[name]


def method_runnable(name: str) -> Runnable:
    """What the method's own code runs: DPSUR's update, or the release of Opacus that it pins."""
    pinned = method_named(name).pinned
    return DpsurUpdate() if pinned is None else OpacusRelease(version=pinned)


def opacus_method(
    name: str,
    dataset: str,
    *,
    release: str | None = None,
    sample_rate: Fraction | None = None,
    mode: Mode = Mode.REPLAY,
    reduction: Reduction = Reduction.MEAN,
    poisson: bool = True,
    draws: int = 1,
    seed: int = 0,
    data_dir: str | None = None,
    device: str = AUTO,
    **settings: Any,
) -> OpacusTarget:
    """A method built on Opacus, at the release the paper audited unless another is given; the rate follows the release.

    `settings` are `dataset_size`, `noise_multiplier` and `max_grad_norm`, the paper's unless given.
    """
    method = method_named(name)
    if method.audited is None:
        raise InvalidInput("method", name, "built on Opacus", "DPSUR has an update rule of its own: use dpsur_method")
    version = release or method.audited
    return OpacusTarget(
        library=OpacusRelease(version=version, mode=mode, reduction=reduction, poisson=poisson, device=device),
        records=Photographs(dataset=dataset, model=method.model(dataset), seed=seed, draws=draws, data_dir=data_dir),
        sampling=AtRate(sample_rate or _paper_rate(version, poisson)),
        label=method.title,
        **{**PAPER, **settings},
    )


def _paper_rate(version: str, poisson: bool) -> Fraction:
    if version.startswith("1."):
        return FEASGM_RATE
    return EASGM_RATE if version in ("0.14.0", "0.15.0") and poisson else ASGM_RATE


def dpsur_method(dataset: str, *, seed: int = 0, data_dir: str | None = None, **settings: Any) -> Dpsur:
    """DPSUR at the paper's settings, unless other values of its fields are given."""
    model = METHODS["dpsur"].model(dataset)
    records = Photographs(dataset=dataset, model=model, seed=seed, data_dir=data_dir)
    return Dpsur(records=records, **{**PAPER, "sample_rate": ASGM_RATE, **settings})
