"""From the TARGET of an audit and its options to the thing that is audited.

To add a target: a builder that takes the name and what was typed, and a line in BUILDERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any, TypeVar, final

from noisymean.cli import values
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.wants import Missing, option, refused
from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta
from noisymean.mechanisms import KINDS, SGM, exact_rate
from noisymean.targets import entry, files
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.functions import is_builder, takes_gradients
from noisymean.targets.protocol import Structure, Target
from noisymean.targets.records import Gradients
from noisymean.targets.registry import NAMES as LIBRARIES
from noisymean.targets.registry import first_word
from noisymean.tradeoff import TradeOff

Choice = TypeVar("Choice", bound=Enum)


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
    images: str | None = None
    data_dir: str | None = None
    loss_reduction: str = "mean"
    poisson: bool = True
    mode: str = "replay"
    denominator: str = "paper"
    device: str = "auto"

    @classmethod
    def of(cls, options: Mapping[str, Any], seed: int) -> Typed:
        """Those among all options of the command."""
        return cls(seed=seed, **{one.name: options[one.name] for one in fields(cls) if one.name != "seed"})

    def only(self, kind: str, *used: str) -> None:
        """Complain about an option that means nothing to this kind of target: silence would look like an answer."""
        for field in fields(self):
            value = getattr(self, field.name)
            default = None if field.default is MISSING else field.default
            if field.name not in (*used, "seed") and value != default:
                typed = "--no-poisson" if field.name == "poisson" else option(field.name)
                raise InvalidInput(field.name, value, f"left out: {kind} does not use it", f"drop {typed}")

    def need(self, *names: str) -> None:
        """Complain about an option without which nothing can be run."""
        for name in names:
            if getattr(self, name) is None:
                raise Missing(name, "to run it")

    def settings(self) -> dict[str, Any]:
        """The numbers of a run on gradients of our making, those that were typed."""
        read: dict[str, Callable[[str, str], Any]] = {
            "dataset_size": values.whole, "dimension": values.whole, "steps": values.whole, "batch_size": values.whole,
            "noise_multiplier": values.number, "max_grad_norm": values.number,
            "sample_rate": lambda name, text: exact_rate(values.rate(name, text)),
        }  # fmt: skip
        typed = {name: getattr(self, name) for name in read}
        return {name: read[name](name, text) for name, text in typed.items() if text is not None}


_RUN = (
    "dataset_size",
    "dimension",
    "sample_rate",
    "batch_size",
    "noise_multiplier",
    "max_grad_norm",
    "gradients",
    "steps",
)


def _choice(name: str, text: str, allowed: type[Choice]) -> Choice:
    if text not in {one.value for one in allowed}:
        raise refused(name, text)
    return allowed(text)


def _synthetic(text: str, typed: Typed) -> Target:
    typed.only("a synthetic target", "mechanism", *_RUN)
    typed.need("mechanism", "noise_multiplier", "dataset_size", "dimension")
    names = ("dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier")
    mechanism = mechanism_of(name=str(typed.mechanism), **{name: getattr(typed, name) for name in names})
    kind = _choice("gradients", typed.gradients or Gradients.RANDOM.value, Gradients)
    rest = {name: value for name, value in typed.settings().items() if name in ("max_grad_norm", "steps")}
    return entry.target_of(mechanism, gradients=kind, gradient_seed=typed.seed, **rest)


def _opacus(text: str, typed: Typed) -> Target:
    """A release on gradients with a structure, for any N: the library's own engine, loader and step."""
    from noisymean.targets.opacus_releases.setup import Mode, Reduction

    if typed.mechanism is not None:
        raise InvalidInput("mechanism", typed.mechanism, "left out: the release decides it", "drop --mechanism")
    typed.only("a release of Opacus", *_RUN, "loss_reduction", "poisson", "mode", "device")
    typed.need("dataset_size", "dimension", "noise_multiplier")
    if (typed.sample_rate is None) == (typed.batch_size is None):
        raise Missing("batch_size", "or --sample-rate: exactly one of the two")
    return entry.target_of(
        text,
        **typed.settings(),
        gradients=_choice("structure", typed.gradients or "zero", Structure),
        mode=_choice("mode", typed.mode, Mode),
        reduction=_choice("loss_reduction", typed.loss_reduction, Reduction),
        poisson=typed.poisson,
        device=typed.device,
    )


def _method(text: str, typed: Typed) -> Target:
    """A published method on real images, at the paper's settings unless others are given."""
    from noisymean.paper.dpsur import Denominator
    from noisymean.paper.methods import dpsur_method, opacus_method
    from noisymean.targets.opacus_releases.setup import Mode, Reduction

    name, _, release = text.partition("==")
    own = ("denominator",) if name == "dpsur" else ("loss_reduction", "poisson", "mode", "device")
    typed.only(name, "dataset_size", "sample_rate", "noise_multiplier", "max_grad_norm", "images", "data_dir", *own)
    settings, images = {**typed.settings(), "data_dir": typed.data_dir}, typed.images or "mnist"
    if name == "dpsur":
        if release:
            raise InvalidInput("target", text, "dpsur without a release", "its step is its own, not that of Opacus")
        return dpsur_method(images, denominator=_choice("denominator", typed.denominator, Denominator), **settings)
    return opacus_method(
        name,
        images,
        release=release or None,
        mode=_choice("mode", typed.mode, Mode),
        reduction=_choice("loss_reduction", typed.loss_reduction, Reduction),
        poisson=typed.poisson,
        device=typed.device,
        **settings,
    )


def _in_file(text: str, typed: Typed) -> Target:
    """A function of gradients, the one that a probe takes; or one that has datasets of its own."""
    file, attribute = files.place_of(text)
    function = files.loaded(file, attribute)
    if not takes_gradients(function) and not is_builder(function):
        typed.only("a callable", "sample_rate", "noise_multiplier")
        return UserCallable.of(file, attribute)
    typed.only("a function of gradients", "mechanism", *_RUN)
    typed.need("dataset_size", "dimension", "noise_multiplier")
    if typed.mechanism is not None and typed.mechanism not in KINDS:
        raise InvalidInput("mechanism", typed.mechanism, f"one of {', '.join(KINDS)}", "or left out: a test is learned")
    return entry.target_of(
        text,
        **typed.settings(),
        mechanism=typed.mechanism,
        gradients=_choice("gradients", typed.gradients or Gradients.RANDOM.value, Gradients),
        gradient_seed=typed.seed,
    )


BUILDERS: dict[str, Callable[[str, Typed], Target]] = {
    "synthetic": _synthetic,
    "opacus": _opacus,
    **dict.fromkeys(("dpsgd-hf", "dpsur", "dp-feta", "privimage"), _method),
}
NAMES = ("synthetic", *LIBRARIES, "FILE.py:NAME")


def target_of(text: str, typed: Typed) -> Target:
    """A target by name, or FILE.py:NAME."""
    if ".py:" in text:
        return _in_file(text, typed)
    word = first_word(text)
    if word not in BUILDERS or (word == "synthetic" and text != word):
        raise InvalidInput("target", text, f"one of {', '.join(NAMES)}", "e.g. noisymean audit mine.py:release")
    return BUILDERS[word](text, typed)


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
        return entry.claim_of(claimed, target.steps)
    return target.claim()
