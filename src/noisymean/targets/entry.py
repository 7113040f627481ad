"""From what the caller has to something that can be run: a name, a mechanism, a function, an object."""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from noisymean.checks import member, real, seed_of, whole
from noisymean.errors import InvalidInput, is_number
from noisymean.laws.closed import EpsilonDelta
from noisymean.mechanisms import SGM, Adjacency, Mechanism, exact_rate
from noisymean.targets.claims import claimed_curve
from noisymean.targets.files import loaded, place_of, place_of_function
from noisymean.targets.functions import is_builder, of_callable, takes_gradients
from noisymean.targets.protocol import BuiltIn, Runnable, Structure, Target
from noisymean.targets.records import Gradients
from noisymean.targets.registry import NAMES, first_word, runnable_named
from noisymean.targets.starts import Start
from noisymean.tradeoff import TradeOff

# epsilon, (epsilon, delta), SGM(...) for each round, or a trade-off function
Claim: TypeAlias = TradeOff | SGM | tuple[float, float] | float
_NOTHING = BuiltIn()
# Of a number that has no range of its own here.
_MOST = 10**15
_WHOLE = ("dataset_size", "dimension", "batch_size", "steps")
_REAL = ("noise_multiplier", "max_grad_norm", "delta")
Choice = TypeVar("Choice", bound=Enum)


def runnable_of(thing: Any, built_in: BuiltIn = _NOTHING) -> Runnable:
    """The runnable that a name, an object or a function stands for."""
    if isinstance(thing, Runnable):
        return thing
    if isinstance(thing, str | Path):
        return runnable_named(str(thing), built_in)
    from noisymean.targets import optimizers

    if optimizers.is_engine(thing):
        return optimizers.Engine(thing)
    if optimizers.is_optimizer(thing):
        return optimizers.BuiltOptimizer(lambda size, rate: thing, alone=True, name=type(thing).__name__)
    if not callable(thing):
        allowed = f"{', '.join(NAMES)}, synthetic or FILE.py:NAME, an optimizer, an engine or a function"
        raise InvalidInput("target", type(thing).__name__, allowed)
    return of_callable(thing, "", built_in)


def target_of(thing: Any, *, gradient_seed: int = 0, **settings: Any) -> Target:
    """The target that a mechanism, a name or a function stands for, at these settings; a target is itself.

    A function of (extra_record, generator) has datasets of its own and takes no settings. Everything else runs on gradients of
    our making: `dataset_size`, `dimension`, `sample_rate` or `batch_size`, `noise_multiplier`, and optionally `max_grad_norm`,
    `gradients` (random, zero, aligned, opposed; of a function also spread, long, crowd, or none: an audit chooses), `rows`,
    `steps`, `mechanism` (its name, where it is known). `gradient_seed` chooses random directions.
    """
    settings, gradient_seed = numbers_of(settings), seed_of("gradient_seed", gradient_seed)
    if isinstance(thing, Mechanism):
        from noisymean.targets.synthetic import Synthetic

        return _made(Synthetic, {**settings, "mechanism": thing, "gradient_seed": gradient_seed})
    if not isinstance(thing, str | Path) and hasattr(thing, "configuration"):
        _refuse(settings, "a target has its settings")
        target: Target = thing
        return target
    text = str(thing) if isinstance(thing, str | Path) else ":".join(map(str, place_of_function(thing)))
    if ".py:" in text:
        return _of_file(text, settings, gradient_seed)
    if first_word(text) == "opacus" and ":" not in text:
        return _of_opacus(text, settings)
    # a name that nobody has is complained about before what it would need
    runnable_named(text, _NOTHING)
    return _on_pair(text, settings, gradient_seed)


def _of_file(text: str, settings: dict[str, Any], seed: int) -> Target:
    file, attribute = place_of(text)
    function = loaded(file, attribute)
    if takes_gradients(function) or is_builder(function):
        return _on_pair(text, settings, seed)
    _refuse(settings, "a callable does not use it", "it has datasets of its own; or take gradients")
    from noisymean.targets.callable_ import UserCallable

    return UserCallable.of(file, attribute)


def _on_pair(text: str, settings: dict[str, Any], seed: int) -> Target:
    from noisymean.targets.on_pair import OnPair

    return _made(OnPair, {**settings, "runnable": text, "gradient_seed": seed}, Start)


def _of_opacus(text: str, settings: dict[str, Any]) -> Target:
    """A release on gradients with a structure, for any N: the library's own engine, loader and step."""
    from noisymean.targets.opacus import OpacusRelease, OpacusTarget, release_named
    from noisymean.targets.opacus_releases.setup import AtRate, Mode, Reduction, ThroughLoader
    from noisymean.targets.records import OnOneAxis

    given = dict(settings)
    rate, size = given.pop("sample_rate", None), given.pop("batch_size", None)
    if (rate is None) == (size is None):
        raise InvalidInput("batch_size", size, "given, or sample_rate: exactly one of the two")
    if "dimension" not in given:
        raise InvalidInput("dimension", None, "given, to run the release")
    records = OnOneAxis(given.pop("dimension"), _choice("gradients", given.pop("gradients", "zero"), Structure))
    options: dict[str, Any] = {name: given.pop(name) for name in ("poisson", "device") if name in given}
    enums: dict[str, type[Enum]] = {"mode": Mode, "reduction": Reduction}
    options |= {name: _choice(name, given.pop(name), kind) for name, kind in enums.items() if name in given}
    library = OpacusRelease(version=release_named(text), **options)
    sampling = ThroughLoader(size) if rate is None else AtRate(exact_rate(rate))
    return _made(OpacusTarget, {**given, "library": library, "records": records, "sampling": sampling})


def _made(kind: Any, settings: dict[str, Any], allowed: type[Enum] = Gradients) -> Target:
    """A target of that class; a setting that it does not have, or lacks, is named."""
    known = {one.name: one for one in fields(kind)}
    unknown = {name: value for name, value in settings.items() if name not in known}
    _refuse(unknown, f"{kind.__name__} does not use it")
    for name, one in known.items():
        if name not in settings and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidInput(name, None, "given", f"{kind.__name__} cannot be run without it")
    if settings.get("gradients") is not None:
        settings["gradients"] = _choice("gradients", settings["gradients"], allowed)
    if settings.get("adjacency") is not None:
        settings["adjacency"] = _choice("adjacency", settings["adjacency"], Adjacency)
    if settings.get("sample_rate") is not None:
        settings["sample_rate"] = exact_rate(settings["sample_rate"])
    target: Target = kind(**settings)
    return target


def numbers_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings, those that are numbers of one as Python has it; what range they have is seen where they are used."""
    found = dict(settings)
    for name, value in settings.items():
        if value is not None and name in _WHOLE:
            found[name] = whole(name, value, 0, _MOST)
        elif value is not None and name in _REAL:
            found[name] = real(name, value)
    return found


def _refuse(settings: dict[str, Any], why: str, remedy: str = "") -> None:
    """Complain about the first of these settings, if there are any."""
    for name, value in settings.items():
        raise InvalidInput(name, value, f"left out: {why}", remedy)


def _choice(name: str, value: Any, allowed: type[Choice]) -> Choice:
    """One of an enumeration, or its name."""
    return member(name, value, allowed)


def claim_of(claim: Claim | None, steps: int) -> TradeOff | None:
    """A claim as a curve, however it is written."""
    match claim:
        case None | TradeOff():
            return claim
        case SGM():
            return claimed_curve(claim, steps)
        case (epsilon, delta) if not isinstance(claim, str):
            return EpsilonDelta(
                real("claim_epsilon", epsilon, least=0.0), real("claim_delta", delta, least=0.0, most=1.0)
            )
        case _ if is_number(claim):
            return EpsilonDelta(real("claim_epsilon", claim, least=0.0), 0.0)
        case _:
            raise InvalidInput("claim", claim, "epsilon, (epsilon, delta), SGM(...) or a TradeOff")
