"""What an optimizer of Opacus shows of itself: the only place that reads its attributes, all of them there since 1.0.0.

`expected_batch_size` is the share of one worker; the gradients of W workers are averaged: the sum is divided by W times as much.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, final

import opacus
from opacus.optimizers import DPOptimizer

from noisymean.errors import InvalidInput

# Where `fix` leaves its promise on the optimizer.
PROMISE = "noisymean_public"
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
    """How one step was released. `denominator` is None where the sum itself is."""

    denominator: float | None
    dimension: int | None
    # moves with every step of adaptive clipping, and matters to no bound: noise and sensitivity share it
    max_grad_norm: float | None = field(default=None, compare=False)
    accumulated: int = 1
    divides_count: bool = False
    public: Public = Public()

    def plain(self) -> dict[str, Any]:
        """For a checkpoint: numbers and text only."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Seen:
        """The inverse of `plain`."""
        known = {one.name for one in fields(cls)}
        if not known >= set(plain):
            raise InvalidInput(
                "state_dict", ", ".join(sorted(set(plain) - known)), "written by this release of noisymean"
            )
        return cls(**{**plain, "public": Public(**plain.get("public", {}))})


@final
@dataclass(frozen=True)
class Told:
    """Who counts the steps of an optimizer, and at which sampling rate."""

    accountant: Any
    sample_rate: float


def see(optimizer: Any, *, accumulated: int = 1) -> Seen:
    """What `optimizer` divides by now, and how many numbers it releases."""
    need_optimizer(optimizer)
    public: Public = getattr(optimizer, PROMISE, Public())
    denominator = None
    if optimizer.loss_reduction == "mean":
        denominator = float(optimizer.expected_batch_size) * workers(optimizer)
        if public.denominator is not None and public.denominator != denominator:
            # somebody has changed it since: the promise is void
            public = Public(None, public.sample_rate)
    return Seen(
        denominator=denominator,
        dimension=sum(int(parameter.numel()) for parameter in optimizer.params),
        max_grad_norm=float(optimizer.max_grad_norm),
        accumulated=accumulated,
        divides_count=is_adaptive(optimizer) and public.denominator is None,
        public=public,
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
