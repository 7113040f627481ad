"""From the TARGET of an audit and its options to the thing that is audited.

To add a target: a builder that takes `Typed`, and an entry in TARGETS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from noisymean.cli import values
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.wants import Missing, refused
from noisymean.errors import InvalidInput
from noisymean.mechanisms import SGM
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.claims import claimed_curve
from noisymean.targets.protocol import Target
from noisymean.targets.synthetic import Gradients, Synthetic
from noisymean.tradeoff import EpsilonDelta, TradeOff


@final
@dataclass(frozen=True)
class Typed:
    """The options of an audit that describe its target, as text."""

    mechanism: str | None
    dataset_size: str | None
    dimension: str | None
    sample_rate: str | None
    batch_size: str | None
    noise_multiplier: str | None
    max_grad_norm: str | None
    gradients: str | None
    steps: str | None
    seed: int


def _synthetic(typed: Typed) -> Target:
    if typed.mechanism is None:
        raise Missing("mechanism")
    if typed.noise_multiplier is None:
        raise Missing("noise_multiplier")
    for name in ("dataset_size", "dimension"):
        if getattr(typed, name) is None:
            raise Missing(name, "to run the mechanism")
    mechanism = mechanism_of(
        name=typed.mechanism,
        dataset_size=typed.dataset_size,
        dimension=typed.dimension,
        sample_rate=typed.sample_rate,
        batch_size=typed.batch_size,
        noise_multiplier=typed.noise_multiplier,
    )
    kind = typed.gradients or Gradients.RANDOM.value
    if kind not in {gradients.value for gradients in Gradients}:
        raise refused("gradients", kind)
    return Synthetic(
        mechanism=mechanism,
        gradients=Gradients(kind),
        max_grad_norm=0.1 if typed.max_grad_norm is None else values.number("max_grad_norm", typed.max_grad_norm),
        steps=1 if typed.steps is None else values.whole("steps", typed.steps),
        gradient_seed=typed.seed,
    )


TARGETS: dict[str, Callable[[Typed], Target]] = {"synthetic": _synthetic}


def target_of(text: str, typed: Typed) -> Target:
    """A target by name, or FILE.py:NAME."""
    if text in TARGETS:
        return TARGETS[text](typed)
    file, colon, attribute = text.rpartition(":")
    if not colon or not file.endswith(".py") or not attribute.isidentifier():
        raise InvalidInput(
            "target", text, f"{', '.join(TARGETS)} or FILE.py:NAME", "e.g. noisymean audit mine.py:release"
        )
    if not Path(file).is_file():
        raise InvalidInput("target", text, "a callable in an existing file", f"there is no file {file}")
    return UserCallable.of(Path(file), attribute)


def claim_of(target: Target, typed: Typed, epsilon: str | None, delta: str | None) -> TradeOff | None:
    """The claim that the options describe; None: the target's own."""
    if epsilon is not None:
        return EpsilonDelta(
            values.number("claim_epsilon", epsilon), 0.0 if delta is None else values.number("claim_delta", delta)
        )
    if delta is not None:
        raise Missing("claim_epsilon", "--claim-delta needs it")
    if isinstance(target, UserCallable) and typed.noise_multiplier is not None:
        if typed.sample_rate is None:
            raise Missing("sample_rate", "of the claimed noisy sum")
        claimed = SGM(
            sample_rate=values.rate("sample_rate", typed.sample_rate),
            noise_multiplier=values.number("noise_multiplier", typed.noise_multiplier),
        )
        return claimed_curve(claimed, target.steps)
    return target.claim()
