"""Steps of one's own, calls of other libraries, and training of which nothing was recognised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Script
from noisymean.probe.conclusions import Denominator, read_verdict
from noisymean.probe.reading import Origin, read_modules
from noisymean.probe.reading.nodes import last_name
from noisymean.scorecard import pitfalls
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.sites import OF_STEPS
from noisymean.scorecard.value import Fact, Outcome

_LIBRARIES = (
    "tensorflow_privacy",
    "tf_privacy",
    "objax",
    "jax_privacy",
    "pfl",
    "fastDP",
    "private_transformers",
    "dp_transformers",
    "pyvacy",
    "torchdp",
    "flwr",
)
_OPTAX = re.compile(r"dpsgd|differentially_private_aggregate")
# Gradients that are not written out may be those of a mean.
_DIFFERENTIATES = re.compile(r"backward|grad|value_and_grad|gradient|vjp|vmap|jac\w*|GradientTape|grad_sample")
# What trains, by whatever library.
_TRAINS = re.compile(
    r"backward|apply_gradients|apply_updates|fit|grad|value_and_grad|GradientTape|minimize|train_step|train_on_batch|step|vjp"
)


def trains(script: Script) -> bool:
    """Whether anything in the file is called as training is."""
    return any(_TRAINS.fullmatch(one.name) for one in script.calls)


def own_steps(bindings: Bindings) -> Iterator[Fact]:
    """Noise that the file adds to gradients itself: what is divided by may be in view, the rest is for the prober."""
    script = bindings.script
    additions = noise_of(script).additions
    if not additions:
        return
    place = script.text.place(additions[0].node)
    divided = _divided_by_numbers(bindings)
    for pitfall in OF_STEPS:
        if pitfall is pitfalls.DENOMINATOR and divided is not None:
            yield Fact(
                pitfall,
                Outcome.PASSED,
                f"everything noisy is divided by numbers that are written down: {divided}",
                place,
            )
        else:
            says = f"a step of one's own: {pitfalls.DENOMINATOR.instead}"
            yield Fact(pitfall, Outcome.NOT_CHECKABLE, says, place)


def _divided_by_numbers(bindings: Bindings) -> str | None:
    """What something noisy is divided by, if all of it was understood and is written down."""
    script = bindings.script
    source = read_modules([(script.text.file, script.tree)])
    if read_verdict(source) is not Denominator.CONSTANT or bindings.by_text:
        return None
    if any(set(one.origins) != {Origin.NUMBER} for one in source.statements):
        return None
    noise = noise_of(script)
    # a loss that is a mean is divided by the size of the batch out of sight, unless each record is clipped before the sum
    summed = all(_is_sum(one.gradient) for one in noise.additions) and bool(noise.by_record) and not noise.whole
    if not summed or any(
        _DIFFERENTIATES.fullmatch(last_name(node)) for node in script.nodes if isinstance(node, ast.expr)
    ):
        return None
    noisy = [one for one in source.statements if one.noisy]
    return noisy[0].by if noisy and not bindings.is_set_outside(*(one.by for one in noisy)) else None


def _is_sum(node: ast.expr) -> bool:
    """`clipped.sum(0)`, as it stands."""
    return isinstance(node, ast.Call) and last_name(node.func) == "sum"


def other_libraries(script: Script) -> Iterator[Fact]:
    """Their steps are out of sight."""
    name = next((one for one in _LIBRARIES if script.imports(one)), None)
    if name is None and script.imports("optax") and any(True for _ in script.calls_of(_OPTAX.pattern)):
        name = "optax"
    if name is None:
        return
    says = f"a step of {name}: noisymean probe {name} runs it" if name != "flwr" else "a step of flwr is not in view"
    place = script.text.place(script.tree.body[0]) if script.tree.body else None
    for pitfall in OF_STEPS:
        yield Fact(pitfall, Outcome.NOT_CHECKABLE, says, place)


def unrecognised(script: Script) -> Iterator[Fact]:
    """A file that trains and speaks of privacy, and in which nothing of that was recognised."""
    for pitfall in OF_STEPS:
        says = f"{script.text.file} trains and speaks of privacy; what makes it private is not in view"
        yield Fact(pitfall, Outcome.NOT_CHECKABLE, says)
