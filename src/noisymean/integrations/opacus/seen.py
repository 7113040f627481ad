"""What an optimizer of Opacus shows of itself: the only place that reads its attributes, all of them there since 1.0.0.

`expected_batch_size` is the share of one worker; the gradients of W workers are averaged: the sum is divided by W times as much.
"""

from __future__ import annotations

import gc
import inspect
import math
from dataclasses import asdict, dataclass, field, fields, replace
from types import FrameType
from typing import Any, final

import opacus
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.sampler import UNKNOWN, Drawn
from noisymean.mechanisms.sampling import Sampling

try:
    from opacus.utils import fast_gradient_clipping_utils as _ghost
except ImportError:
    # releases before 1.5 have no ghost clipping
    _ghost = None

GHOST = "with ghost clipping the loss has to be the criterion that make_private returned"
# What an optimizer does with gradients; `step` itself is wrapped by the schedulers of torch.
_ITS_OWN = ("pre_step", "clip_and_accumulate", "accumulate", "add_noise", "scale_grad", "zero_grad")
# Where `fix` leaves its promise on the optimizer.
PROMISE = "noisymean_public"
# And what the steps before it were like, for accountants that do not look.
EARLIER = "noisymean_before_the_fix"
# Up to 1.5.4 adaptive clipping shows the noise of the gradients alone, not that of gradients and count together.
_INFLATED_UNTIL = (1, 5, 4)


@final
@dataclass(frozen=True)
class Public:
    """Numbers that were chosen without looking at the data; None where nothing is promised."""

    denominator: float | None = None
    sample_rate: float | None = None


@final
@dataclass(frozen=True)
class Seen:
    """How one step was released. `denominator` is None where the sum itself is. `announced`: nobody looked, it was told."""

    denominator: float | None
    dimension: int | None
    # moves with every step of adaptive clipping, and matters to no bound: noise and sensitivity share it
    max_grad_norm: float | None = field(default=None, compare=False)
    accumulated: int = 1
    divides_count: bool = False
    public: Public = Public()
    drawn: Drawn = UNKNOWN
    announced: bool = False
    # where the noise comes from: the number of records, public constants, or nobody knows
    noise_from_records: bool | None = None
    # why this step is not the one that is analysed; empty if nothing speaks against it
    fault: str = ""
    # a noisy count of unclipped gradients is released beside their sum; a gradient that is zero is among them
    counts: bool = False

    def plain(self) -> dict[str, Any]:
        """For a checkpoint: numbers and text only."""
        return {**asdict(self), "drawn": self.drawn.plain()}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Seen:
        if unknown := ", ".join(sorted(set(plain) - {one.name for one in fields(cls)})):
            raise InvalidInput("state_dict", unknown, "written by this release of noisymean")
        drawn = Drawn.from_plain(plain["drawn"]) if "drawn" in plain else UNKNOWN
        return cls(**{**plain, "public": Public(**plain.get("public", {})), "drawn": drawn})


@final
@dataclass(frozen=True)
class Told:
    """Who counts the steps of an optimizer, at which sampling rate, and how batches are drawn, if that was seen."""

    accountant: Any
    sample_rate: float
    drawn: Drawn = UNKNOWN
    noise_from_records: bool | None = None


def see(optimizer: Any, *, accumulated: int = 1, drawn: Drawn = UNKNOWN, clips: Any = None) -> Seen:
    """What `optimizer` divides by now, how many numbers it releases, and of which batches, if that is known.

    `clips` is the module that clips in its place (ghost clipping); None if it does so itself.
    """
    need_optimizer(optimizer)
    public: Public = getattr(optimizer, PROMISE, Public())
    denominator = None
    if optimizer.loss_reduction == "mean":
        denominator = float(optimizer.expected_batch_size) * workers(optimizer)
        if abs(denominator - round(denominator)) <= 1e-12 * denominator:
            # a share of a whole number, put together again
            denominator = float(round(denominator))
        if public.denominator is not None and public.denominator != denominator:
            # somebody has changed it since: the promise is void
            public = replace(public, denominator=None)
    return Seen(
        denominator=denominator,
        dimension=sum(int(parameter.numel()) for parameter in optimizer.params),
        max_grad_norm=float(optimizer.max_grad_norm),
        accumulated=accumulated,
        divides_count=is_adaptive(optimizer) and public.denominator is None,
        public=public,
        drawn=drawn,
        fault=changed(optimizer) or clipped_otherwise(optimizer, clips) or _drawn_by_each(optimizer, drawn),
        counts=is_adaptive(optimizer),
    )


def changed(optimizer: Any) -> str:
    """Why this is not an optimizer of Opacus', whatever it inherits."""
    if not type(optimizer).__module__.startswith("opacus."):
        return f"a {type(optimizer).__name__} of your own: nobody knows what it does with gradients and noise"
    replaced = [name for name in _ITS_OWN if name in vars(optimizer)]
    return f"{replaced[0]} of the optimizer was replaced by another function" if replaced else ""


def _drawn_by_each(optimizer: Any, drawn: Drawn) -> str:
    """Why a record may be in several batches of an epoch: each worker has a loader of its own, with its own random numbers."""
    if workers(optimizer) == 1 or drawn.sampling in (None, Sampling.POISSON):
        return ""
    return f"each of {workers(optimizer)} workers draws its own batches: a record may be in several of one step"


def clipped_otherwise(optimizer: Any, clips: Any) -> str:
    """Why the noise is not scaled by what gradients are clipped to: they are two numbers, and schedulers move one of them."""
    if hasattr(optimizer, "_adjusted_noise_multiplier") or (clips is not None and is_adaptive(clips)):
        return (
            "adaptive ghost clipping releases a count with noise of |B|/20 records, which no noise multiplier pays for"
        )
    if clips is None and is_ghost(optimizer):
        return f"nothing clips: {GHOST}"
    bound = float(optimizer.max_grad_norm)
    if hasattr(optimizer, "max_grad_norms"):
        clipped = math.hypot(*(float(one) for one in optimizer.max_grad_norms))
    else:
        clipped = float(getattr(clips, "max_grad_norm", bound))
    if abs(clipped - bound) <= 1e-6 * bound:
        return ""
    return f"gradients are clipped to {clipped:g}, and the noise is for {bound:g}: max_grad_norm of the optimizer was changed"


def batch_of(optimizer: Any) -> int | None:
    """Records in the batch of this step; None where the optimizer does not show them, or not all of them."""
    if optimizer._is_last_step_skipped or optimizer.accumulated_iterations != 1 or workers(optimizer) > 1:
        return None
    shown: Any = getattr(optimizer.params[0], "grad_sample", None)
    shown = shown[0] if isinstance(shown, list) and len(shown) == 1 else shown
    return int(shown.shape[0]) if hasattr(shown, "shape") and shown.ndim else None


@final
@dataclass(frozen=True, eq=False)
class Made:
    """What make_private was doing when it asked for a hook: its data loader, optimizer and module, and the delta that the noise
    was calibrated to."""

    loader: Any = None
    optimizer: Any = None
    module: Any = None
    calibrated: bool = False
    target_delta: Any = None


def made_by(frame: FrameType | None) -> Made:
    """From the frame that asks for a hook: nothing else is told which loader it made."""
    if frame is None or frame.f_code is not PrivacyEngine.make_private.__code__:
        # somebody else's function, whose variables may mean anything
        return Made()
    seen = frame.f_locals
    outer: FrameType | None = frame
    # an engine of the user's may come in between
    while outer is not None and outer.f_code.co_name != "make_private_with_epsilon":
        outer = outer.f_back
    return Made(
        seen.get("data_loader"),
        seen.get("optimizer"),
        seen.get("module"),
        outer is not None,
        None if outer is None else outer.f_locals.get("target_delta"),
    )


def noise_of(optimizer: Any, recorded: float | None = None) -> float:
    """The noise multiplier of all that a step releases together; of now, or of a step whose accountant has `recorded` it."""
    noise = float(optimizer.noise_multiplier if recorded is None else recorded)
    if is_adaptive(optimizer) and _version() <= _INFLATED_UNTIL and noise > 0.0:
        # Andrew et al. 2021, Theorem 1, read backwards
        return float((noise**-2 + (2.0 * optimizer.unclipped_num_std) ** -2) ** -0.5)
    return noise


def told(optimizer: Any) -> Told | None:
    """What make_private has attached; None if nothing, or nothing that we know."""
    hook = optimizer.step_hook
    if isinstance(getattr(hook, "told", None), Told):
        return hook.told  # type: ignore[no-any-return]
    if not inspect.isfunction(hook):
        return None
    # IAccountant.get_optimizer_hook_fn closes over exactly these two
    names = inspect.getclosurevars(hook).nonlocals
    return Told(names["self"], float(names["sample_rate"])) if {"self", "sample_rate"} <= set(names) else None


def earlier_of(optimizer: Any) -> list[tuple[int, Seen]]:
    """Steps before each fix, and how they were released."""
    return list(getattr(optimizer, EARLIER, ()))


def steps_of(accountant: Any) -> int:
    """Steps that any accountant has counted."""
    return sum(steps for _, _, steps in history_of(accountant))


def history_of(accountant: Any) -> list[tuple[float, float, int]]:
    """(noise multiplier, sampling rate, steps) of each stretch, from one of Opacus' own accountants."""
    # 1.0: `steps` is the history of the rdp accountant, and the number of steps of the gdp one
    found = getattr(accountant, "history", getattr(accountant, "steps", []))
    if isinstance(found, int):
        found = [(accountant.noise_multiplier, accountant.sample_rate, found)] if found else []
    return [(float(sigma), float(rate), int(steps)) for sigma, rate, steps in found]


def need_optimizer(optimizer: Any) -> None:
    """Complain unless make_private has returned it."""
    if not isinstance(optimizer, DPOptimizer):
        raise InvalidInput(
            "optimizer", type(optimizer).__name__, "a DPOptimizer of Opacus 1.x", "pass what make_private returned"
        )


def optimizers_of(accountant: Any) -> list[Any]:
    """The optimizers whose steps `accountant` counts: nobody else keeps a list of them."""
    return [one for one in _instances(DPOptimizer) if (at := told(one)) is not None and at.accountant is accountant]


def optimizer_of(accountant: Any) -> Any:
    """The optimizer whose steps `accountant` counts: an engine keeps no reference to it."""
    found = optimizers_of(accountant)
    if len(found) != 1:
        how_many = "no optimizer" if not found else f"{len(found)} optimizers"
        raise InvalidInput(
            "engine_or_optimizer", f"an engine with {how_many}", "an engine with one", "pass the optimizer itself"
        )
    return found[0]


def clipper_of(optimizer: Any) -> Any:
    """What clips in the optimizer's place: the loss of ghost clipping keeps both; None if the optimizer clips."""
    if _ghost is None or not is_ghost(optimizer):
        return None
    losses = [one for one in _instances(_ghost.DPLossFastGradientClipping) if one.optimizer is optimizer]
    # the adaptive one says so
    return next((one if is_adaptive(one) else one.module for one in losses), None)


def made_poisson(optimizer: Any) -> bool:
    """Whether make_private was told to make a loader of its own: then it forbids the module to accumulate gradients."""
    return any(not getattr(one, "grad_accumulation_allowed", True) for one in models_of(optimizer))


def models_of(optimizer: Any) -> list[Any]:
    """The modules that have the parameters of `optimizer`; it keeps no reference to them."""
    first = optimizer.params[0]
    return [one for one in _instances(torch.nn.Module) if any(each is first for each in one.parameters())]


def is_ghost(optimizer: Any) -> bool:
    """Whether it leaves the clipping to the module."""
    return "FastGradientClipping" in type(optimizer).__name__


def _instances(kind: type) -> list[Any]:
    # type() and not isinstance, which asks lazy objects for their __class__ and so wakes them
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def workers(optimizer: Any) -> int:
    """Processes whose gradients are averaged."""
    return int(getattr(optimizer, "world_size", 1))


def is_adaptive(optimizer: Any) -> bool:
    """Whether a noisy count of unclipped gradients is released as well, over |B|."""
    return hasattr(optimizer, "unclipped_num_std") or hasattr(optimizer, "target_unclipped_quantile")


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in opacus.__version__.split(".") if part.isdigit())
