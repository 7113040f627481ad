"""From the TARGET of an audit and its options to the thing that is audited.

To add a target: a builder that takes `Typed`, and a line in `target_of`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TypeVar, final

from noisymean.cli import values
from noisymean.cli.complaints import Missing, option, refused
from noisymean.cli.mechanism import mechanism_of
from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta
from noisymean.mechanisms import SGM, exact_rate
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.claims import claimed_curve
from noisymean.targets.protocol import Structure, Target
from noisymean.targets.synthetic import Gradients, Synthetic
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

    def only(self, kind: str, *used: str) -> None:
        """Complain about an option that means nothing to this kind of target: silence would look like an answer."""
        for field in fields(self):
            value = getattr(self, field.name)
            default = None if field.default is MISSING else field.default
            if field.name not in (*used, "seed") and value != default:
                typed = "--no-poisson" if field.name == "poisson" else option(field.name)
                raise InvalidInput(field.name, value, f"left out: {kind} does not use it", f"drop {typed}")


def _synthetic(typed: Typed) -> Target:
    typed.only(
        "a synthetic target", "mechanism", "dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier",
        "max_grad_norm", "gradients", "steps",
    )  # fmt: skip
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


def _noise(typed: Typed, default: float) -> float:
    return default if typed.noise_multiplier is None else values.number("noise_multiplier", typed.noise_multiplier)


def _bound(typed: Typed) -> float:
    return 0.1 if typed.max_grad_norm is None else values.number("max_grad_norm", typed.max_grad_norm)


def _choice(name: str, text: str, allowed: type[Choice]) -> Choice:
    if text not in {one.value for one in allowed}:
        raise refused(name, text)
    return allowed(text)


def _opacus(text: str, typed: Typed) -> Target:
    """A release on gradients with a structure, for any N: the library's own engine, loader and step."""
    from noisymean.targets.opacus import Alike, OpacusTarget, release_named
    from noisymean.targets.opacus_releases.setup import AtRate, Mode, Reduction, ThroughLoader

    if typed.mechanism is not None:
        raise InvalidInput("mechanism", typed.mechanism, "left out: the release decides it", "drop --mechanism")
    typed.only(
        "a release of Opacus", "dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier", "max_grad_norm",
        "gradients", "steps", "loss_reduction", "poisson", "mode", "device",
    )  # fmt: skip
    for name in ("dataset_size", "dimension", "noise_multiplier"):
        if getattr(typed, name) is None:
            raise Missing(name, "to run the release")
    if (typed.sample_rate is None) == (typed.batch_size is None):
        raise Missing("batch_size", "or --sample-rate: exactly one of the two")
    return OpacusTarget(
        release_version=release_named(text),
        dataset_size=values.whole("dataset_size", str(typed.dataset_size)),
        records=Alike(
            values.whole("dimension", str(typed.dimension)), _choice("structure", typed.gradients or "zero", Structure)
        ),
        sampling=(
            AtRate(exact_rate(values.rate("sample_rate", typed.sample_rate)))
            if typed.sample_rate is not None
            else ThroughLoader(values.whole("batch_size", str(typed.batch_size)))
        ),
        noise_multiplier=_noise(typed, 1.0),
        max_grad_norm=_bound(typed),
        mode=_choice("mode", typed.mode, Mode),
        reduction=_choice("loss_reduction", typed.loss_reduction, Reduction),
        poisson=typed.poisson,
        device=typed.device,
        steps=1 if typed.steps is None else values.whole("steps", typed.steps),
    )


def _method(text: str, typed: Typed) -> Target:
    """A published method on real images, at the paper's settings unless others are given."""
    from noisymean.paper.dpsur import Denominator
    from noisymean.paper.methods import ASGM_RATE, BOUND, NOISE, RECORDS, dpsur_method, opacus_method
    from noisymean.targets.opacus_releases.setup import Mode, Reduction

    name, _, release = text.partition("==")
    own = ("denominator",) if name == "dpsur" else ("loss_reduction", "poisson", "mode", "device")
    typed.only(name, "dataset_size", "sample_rate", "noise_multiplier", "max_grad_norm", "images", "data_dir", *own)
    if release and name == "dpsur":
        raise InvalidInput("target", text, "dpsur without a release", "its step is its own, not that of Opacus")
    rate = None if typed.sample_rate is None else exact_rate(values.rate("sample_rate", typed.sample_rate))
    size = RECORDS if typed.dataset_size is None else values.whole("dataset_size", typed.dataset_size)
    noise, bound = _noise(typed, NOISE), BOUND if typed.max_grad_norm is None else _bound(typed)
    images = typed.images or "mnist"
    if name == "dpsur":
        return dpsur_method(
            images,
            denominator=_choice("denominator", typed.denominator, Denominator),
            dataset_size=size,
            sample_rate=rate or ASGM_RATE,
            noise_multiplier=noise,
            max_grad_norm=bound,
            data_dir=typed.data_dir,
        )
    return opacus_method(
        name,
        images,
        release=release or None,
        dataset_size=size,
        sample_rate=rate,
        noise_multiplier=noise,
        max_grad_norm=bound,
        mode=_choice("mode", typed.mode, Mode),
        reduction=_choice("loss_reduction", typed.loss_reduction, Reduction),
        poisson=typed.poisson,
        data_dir=typed.data_dir,
        device=typed.device,
    )


METHODS = ("dpsgd-hf", "dpsur", "dp-feta", "privimage")
NAMES = ("synthetic", "opacus", "opacus==X", *METHODS, "FILE.py:NAME")


def target_of(text: str, typed: Typed) -> Target:
    """A target by name, or FILE.py:NAME."""
    name = text.partition("==")[0]
    if text == "synthetic":
        return _synthetic(typed)
    if name == "opacus":
        return _opacus(text, typed)
    if name in METHODS:
        return _method(text, typed)
    file, colon, attribute = text.rpartition(":")
    if not colon or not file.endswith(".py") or not attribute.isidentifier():
        raise InvalidInput("target", text, f"one of {', '.join(NAMES)}", "e.g. noisymean audit mine.py:release")
    if not Path(file).is_file():
        raise InvalidInput("target", text, "a callable in an existing file", f"there is no file {file}")
    typed.only("a callable", "sample_rate", "noise_multiplier")
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
