"""What an optimizer of Opacus shows of itself: the only place that reads its attributes, all of them there since 1.0.0.

`expected_batch_size` is the share of one worker; the gradients of W workers are averaged: the sum is divided by W times as much.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from types import FrameType
from typing import Any, final

import opacus
from opacus.optimizers import DPOptimizer

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.sampler import UNKNOWN, Drawn

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

    def plain(self) -> dict[str, Any]:
        """For a checkpoint: numbers and text only."""
        return {**asdict(self), "drawn": self.drawn.plain()}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Seen:
        """The inverse of `plain`."""
        known = {one.name for one in fields(cls)}
        if not known >= set(plain):
            raise InvalidInput(
                "state_dict", ", ".join(sorted(set(plain) - known)), "written by this release of noisymean"
            )
        drawn = Drawn.from_plain(plain["drawn"]) if "drawn" in plain else UNKNOWN
        return cls(**{**plain, "public": Public(**plain.get("public", {})), "drawn": drawn})


@final
@dataclass(frozen=True)
class Told:
    """Who counts the steps of an optimizer, at which sampling rate, and how batches are drawn, if that was seen."""

    accountant: Any
    sample_rate: float
    drawn: Drawn = UNKNOWN


def see(optimizer: Any, *, accumulated: int = 1, drawn: Drawn = UNKNOWN) -> Seen:
    """What `optimizer` divides by now, how many numbers it releases, and of which batches, if that is known."""
    need_optimizer(optimizer)
    public: Public = getattr(optimizer, PROMISE, Public())
    denominator = None
    if optimizer.loss_reduction == "mean":
        denominator = float(optimizer.expected_batch_size) * workers(optimizer)
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
    )


def batch_of(optimizer: Any) -> int | None:
    """Records in the batch of this step; None where the optimizer does not show them, or not all of them."""
    if optimizer._is_last_step_skipped or optimizer.accumulated_iterations != 1:
        return None
    shown: Any = getattr(optimizer.params[0], "grad_sample", None)
    shown = shown[0] if isinstance(shown, list) and len(shown) == 1 else shown
    return int(shown.shape[0]) if hasattr(shown, "shape") and shown.ndim else None


@final
@dataclass(frozen=True)
class Made:
    """What make_private was doing when it asked for a hook: its data loader, and whether it was told an epsilon."""

    loader: Any = None
    calibrated: bool = False


def made_by(frame: FrameType | None) -> Made:
    """From the frame that asks for a hook: nothing else is told which loader it made."""
    if frame is None or frame.f_code.co_name != "make_private" or "data_loader" not in frame.f_locals:
        return Made()
    outer = frame.f_back
    calibrated = outer is not None and outer.f_code.co_name == "make_private_with_epsilon"
    return Made(frame.f_locals["data_loader"], calibrated)


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


def optimizer_of(accountant: Any) -> Any:
    """The optimizer whose steps `accountant` counts: an engine keeps no reference to it."""
    found = [
        one for one in _optimizers(gc.get_objects()) if (at := told(one)) is not None and at.accountant is accountant
    ]
    if len(found) != 1:
        how_many = "no optimizer" if not found else f"{len(found)} optimizers"
        raise InvalidInput(
            "engine_or_optimizer", f"an engine with {how_many}", "an engine with one", "pass the optimizer itself"
        )
    return found[0]


def _optimizers(objects: Iterable[object]) -> list[Any]:
    # type() and not isinstance, which asks lazy objects for their __class__ and so wakes them
    return [one for one in objects if issubclass(type(one), DPOptimizer)]


def workers(optimizer: Any) -> int:
    """Processes whose gradients are averaged."""
    return int(getattr(optimizer, "world_size", 1))


def is_adaptive(optimizer: Any) -> bool:
    """Whether a noisy count of unclipped gradients is released as well, over |B|."""
    return hasattr(optimizer, "unclipped_num_std")


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in opacus.__version__.split(".") if part.isdigit())
