"""The modes of Opacus: frozen values, each by a name, with what its user sets.

All that `make_private` of 1.6.0 offers and that may touch what is released: how per-sample gradients are computed and clipped,
how batches are drawn, split and shared, where the noise comes from. The names are those of the command line, behind `opacus:`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, final

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput
from noisymean.targets.opacus_releases.setup import Reduction
from noisymean.targets.protocol import Calibration

if TYPE_CHECKING:
    from noisymean.targets.opacus_modes.runnable import OpacusMode


class PerSample(Enum):
    """`grad_sample_mode`: how per-sample gradients, or their norms, are computed."""

    HOOKS = "hooks"
    FUNCTORCH = "functorch"
    EXPANDED_WEIGHTS = "ew"
    GHOST = "ghost"
    GHOST_FSDP = "ghost_fsdp"

    @property
    def has_criterion(self) -> bool:
        """Whether clipping is inside the loss, which is then handed to `make_private`."""
        return self in (PerSample.GHOST, PerSample.GHOST_FSDP)


class Clip(Enum):
    """`clipping`."""

    FLAT = "flat"
    PER_LAYER = "per_layer"
    ADAPTIVE = "adaptive"


class Wrapper(Enum):
    """What shares a model out over processes: nothing, Opacus' own class, torch's, or fully sharded parameters."""

    NONE = "one process"
    OPACUS_DDP = "DifferentiallyPrivateDistributedDataParallel"
    TORCH_DDP = "torch.nn.parallel.DistributedDataParallel"
    FSDP = "FSDP2Wrapper"


class Engine(Enum):
    """Whose `make_private` it is."""

    PLAIN = "PrivacyEngine"
    ADAPTIVE = "PrivacyEngineAdaptiveClipping"


# what a user may ask make_private_with_epsilon for
_CALIBRATION = Calibration(target_epsilon=2.0, target_delta=1e-5, epochs=10, accountant="prv")


@final
@dataclass(frozen=True)
class Mode:
    """One way to call `make_private`; all that is not said is left as the library has it."""

    name: str
    way: str
    about: str
    engine: Engine = Engine.PLAIN
    per_sample: PerSample = PerSample.HOOKS
    clip: Clip = Clip.FLAT
    reduction: Reduction = Reduction.MEAN
    poisson: bool = True
    rand_on_empty: bool = False
    wrap_model: bool = True
    wrapper: Wrapper = Wrapper.NONE
    # BatchMemoryManager, with physical batches of at most so many records
    physical: int | None = None
    # make_private_with_epsilon
    calibration: Calibration | None = None
    # whether an empty batch goes through its code; else it raises, as a probe finds
    steps_on_empty: bool = True

    @property
    def processes(self) -> int:
        """How many share a batch."""
        return 1 if self.wrapper is Wrapper.NONE else 2

    def runnable(self) -> OpacusMode:
        """The mode of the installed Opacus, as something that can be probed."""
        from noisymean.targets.opacus_modes.runnable import OpacusMode

        return OpacusMode(self)

    @property
    def differs_in(self) -> tuple[str, ...]:
        """The fields that are not their defaults."""
        plain = [one for one in fields(self) if one.name not in ("name", "way", "about")]
        return tuple(one.name for one in plain if getattr(self, one.name) != one.default)


MODES = (
    Mode("hooks", "make_private, hooks", "as the documentation does it: make_private on an ordinary data loader"),
    Mode("functorch", "functorch", "grad_sample_mode='functorch'", per_sample=PerSample.FUNCTORCH),
    Mode(
        "ew",
        "expanded weights",
        "grad_sample_mode='ew'",
        per_sample=PerSample.EXPANDED_WEIGHTS,
        steps_on_empty=False,
    ),
    Mode("ghost", "ghost clipping", "grad_sample_mode='ghost' and a criterion", per_sample=PerSample.GHOST),
    Mode(
        "per-layer", "clipping per layer", "clipping='per_layer', C/sqrt(2) for each of two layers", clip=Clip.PER_LAYER
    ),
    Mode(
        "adaptive",
        "adaptive clipping",
        "clipping='adaptive', whose bound follows a noisy count of unclipped gradients",
        clip=Clip.ADAPTIVE,
        steps_on_empty=False,
    ),
    Mode(
        "ghost-adaptive",
        "ghost clipping, adaptive",
        "PrivacyEngineAdaptiveClipping, grad_sample_mode='ghost' and a criterion",
        engine=Engine.ADAPTIVE,
        per_sample=PerSample.GHOST,
        steps_on_empty=False,
    ),
    Mode("sum", "loss_reduction='sum'", "loss_reduction='sum'", reduction=Reduction.SUM),
    Mode("no-poisson", "poisson_sampling=False", "poisson_sampling=False on a loader that shuffles", poisson=False),
    Mode(
        "rand-on-empty",
        "rand_on_empty=True",
        "rand_on_empty=True: an empty batch is a batch of random numbers",
        rand_on_empty=True,
    ),
    Mode(
        "wrap-model-false",
        "wrap_model=False",
        "wrap_model=False: hooks on the user's own model",
        wrap_model=False,
    ),
    Mode(
        "ghost-wrap-model-false",
        "ghost clipping, wrap_model=False",
        "grad_sample_mode='ghost', a criterion and wrap_model=False",
        per_sample=PerSample.GHOST,
        wrap_model=False,
    ),
    Mode(
        "batch-memory-manager",
        "BatchMemoryManager",
        "BatchMemoryManager: batches are cut into pieces of at most 4 records",
        physical=4,
    ),
    Mode(
        "ghost-batch-memory-manager",
        "ghost clipping, BatchMemoryManager",
        "grad_sample_mode='ghost' and BatchMemoryManager with pieces of at most 4 records",
        per_sample=PerSample.GHOST,
        physical=4,
    ),
    Mode(
        "with-epsilon",
        "make_private_with_epsilon",
        f"make_private_with_epsilon, {_CALIBRATION}",
        calibration=_CALIBRATION,
    ),
    Mode(
        "ddp",
        "two processes, DPDDP",
        "DifferentiallyPrivateDistributedDataParallel in two processes",
        wrapper=Wrapper.OPACUS_DDP,
    ),
    Mode(
        "ddp-ghost",
        "two processes, DPDDP, ghost clipping",
        "DifferentiallyPrivateDistributedDataParallel in two processes, grad_sample_mode='ghost' and a criterion",
        per_sample=PerSample.GHOST,
        wrapper=Wrapper.OPACUS_DDP,
    ),
    Mode(
        "ddp-per-layer",
        "two processes, torch DDP, per layer",
        "torch's DistributedDataParallel in two processes, clipping='per_layer'",
        clip=Clip.PER_LAYER,
        wrapper=Wrapper.TORCH_DDP,
    ),
    Mode(
        "fsdp",
        "two processes, FSDP, ghost clipping",
        "FSDP2Wrapper in two processes, grad_sample_mode='ghost_fsdp' and a criterion",
        per_sample=PerSample.GHOST_FSDP,
        wrapper=Wrapper.FSDP,
    ),
)
_BY_NAME = {one.name: one for one in MODES}


def mode_named(text: str) -> Mode:
    """The mode in `opacus:NAME`.

    >>> mode_named("opacus:ghost").way
    'ghost clipping'
    """
    word, _, typed = text.partition(":")
    name = written_as(typed, _BY_NAME)
    if word != "opacus" or name is None:
        allowed = f"opacus:NAME with NAME one of {', '.join(_BY_NAME)}"
        raise InvalidInput("target", text, allowed, did_you_mean(typed, _BY_NAME))
    return _BY_NAME[name]
