"""What is said around the training: delta, for which neighbours, losses that are shown, layers in which records meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.rules.noise import noise_of
from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called
from noisymean.probe.reading.nodes import last_name, names_in
from noisymean.scorecard import pitfalls
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.value import Fact, Outcome

# Calls that turn a delta into an epsilon, each with the place of delta among its arguments.
REPORTS = {
    "get_epsilon": 0,
    "get_privacy_spent": 0,
    "get_epsilon_and_optimal_order": 0,
    "compute_epsilon": -1,
    "compute_dp_sgd_privacy": 4,
    "compute_dp_sgd_privacy_statement": 4,
    "compute_eps_poisson": -1,
    "compute_eps_uniform": -1,
}
# Others that are told one.
_TOLD = {"make_private_with_epsilon": -1, "get_noise_multiplier": -1}
_OURS = ("account", "calibrate")
_RELATION = ("neighboring_relation", "adjacency", "neighbouring_relation")
_NEIGHBOURS = re.compile(
    r"neighbou?r(ing|hood|s)?\b|adjacen|add[-_ /]*(or|and)?[-_ /]*remov|replace[-_ ]one|zero[-_ ]out|substitut",
    re.IGNORECASE,
)
_SHOWS = re.compile(
    r"print|info|debug|warning|log|log_metric|log_metrics|add_scalar|add_scalars|set_postfix|set_postfix_str|set_description|write"
)
_DELTA = re.compile(r"(^|_)delta$", re.IGNORECASE)
# What a function is worth, of the work that a file may take.
_FUNCTION = 200
_CROSSING = re.compile(r"(Sync|Lazy)?BatchNorm(1d|2d|3d|alization)?|batch_norm")


def deltas(bindings: Bindings) -> Iterator[Fact]:
    """Every delta that an accountant or a calibration is told."""
    for call in bindings.script.calls:
        ours = call.name not in _OURS or call.dotted.startswith("noisymean")
        places = {**REPORTS, **_TOLD, **dict.fromkeys(_OURS, -1)}
        if not ours or call.name not in places or bindings.script.syntax.defined[call.name]:
            yield from _other_delta(call, bindings)
            continue
        told = call.argument(places[call.name], "delta", "target_delta")
        if told is None and not call.hides:
            continue
        yield _delta(told, call, bindings)


def _other_delta(call: Called, bindings: Bindings) -> Iterator[Fact]:
    """Whatever else is told a delta may be an accountant that is not known here: it has to be a constant as well."""
    for name, told in call.keywords.items():
        if _DELTA.search(name) and bindings.number(told) is None:
            says = "what this is, and where its delta comes from, is not in view"
            yield Fact(pitfalls.DELTA, Outcome.NOT_CHECKABLE, says, bindings.script.text.place(call.node))


def _delta(told: ast.expr | None, call: Called, bindings: Bindings) -> Fact:
    place = bindings.script.text.place(call.node)
    number = bindings.number(told)
    if number is not None and bindings.is_quotient(told):
        says = f"delta is {number:g}, a quotient: whether it is one over the number of records is not in view"
        return Fact(pitfalls.DELTA, Outcome.NOT_CHECKABLE, says, place)
    if number is not None and not call.hides:
        return Fact(pitfalls.DELTA, Outcome.PASSED, f"delta is {number:g}, a constant", place)
    if told is not None and bindings.script.is_of_the_data(told, call.scope):
        return Fact(pitfalls.DELTA, Outcome.FOUND, "delta is computed from the data", place)
    return Fact(pitfalls.DELTA, Outcome.NOT_CHECKABLE, "where delta comes from is not in view", place)


def neighbours(bindings: Bindings) -> Iterator[Fact]:
    """Every epsilon that is asked for: whether it is said for which neighbours."""
    script, spoken = bindings.script, _spoken_of(bindings)
    for call in script.calls:
        ours = call.name in _OURS and call.dotted.startswith("noisymean")
        if not ours and (call.name not in REPORTS or script.syntax.defined[call.name]):
            continue
        place, pitfall = script.text.place(call.node), pitfalls.NEIGHBOURS
        if ours:
            yield Fact(pitfall, Outcome.PASSED, "the answer of noisymean says for which", place)
        elif (stated := _relation(call, bindings)) is not None:
            yield Fact(pitfall, Outcome.PASSED, f"stated: {stated}", place)
        elif spoken is not None:
            says = f"line {spoken} speaks of neighbours; whether it is right is not seen"
            yield Fact(pitfall, Outcome.NOT_CHECKABLE, says, place)
        else:
            yield Fact(pitfall, Outcome.FOUND, "an epsilon, and nothing in the file says for which neighbours", place)


def _relation(call: Called, bindings: Bindings) -> str | None:
    """The relation that the call, or the accountant that it is a method of, is told."""
    owner = call.owner
    made = None if owner is None else bindings.value(owner)
    for one in (call.node, made if isinstance(made, ast.Call) else None):
        for keyword in [] if one is None else one.keywords:
            if keyword.arg in _RELATION and isinstance(keyword.value, ast.Attribute):
                root = keyword.value.value
                if isinstance(root, ast.Name | ast.Attribute) and last_name(root) in (
                    "NeighboringRelation",
                    "Adjacency",
                ):
                    return keyword.value.attr
    return None


def _spoken_of(bindings: Bindings) -> int | None:
    lines = bindings.script.text.lines
    return next((one.line for one in lines if _NEIGHBOURS.search(one.text)), None)


def metrics(bindings: Bindings) -> Iterator[Fact]:
    """A training loss that is shown: what is propagated back, or adds it up."""
    script = bindings.script
    losses = {
        node.value.id
        for node in script.nodes
        if isinstance(node, ast.Attribute) and node.attr == "backward" and isinstance(node.value, ast.Name)
    }
    if not losses:
        return
    sums = set(losses)
    for node in script.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(id=name), value=value) if losses & set(names_in(value)):
                sums.add(name)
            case ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=name)), args=[value]):
                sums |= {name} if losses & set(names_in(value)) else set()
            case _:
                pass
    for call in script.calls:
        shown = [*call.arguments, *call.keywords.values()]
        if (
            _SHOWS.fullmatch(call.name)
            and any(sums & set(names_in(one)) for one in shown)
            and _in_training(call, bindings)
        ):
            place = script.text.place(call.node)
            yield Fact(pitfalls.METRICS, Outcome.FOUND, "a training loss is shown as it is", place)


def _in_training(call: Called, bindings: Bindings) -> bool:
    """Whether the function around it propagates back: elsewhere the same name may be of a test set."""
    script = bindings.script
    script.work.spend(_FUNCTION)
    around = script.function_of(call.node) or script.tree
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(around))


def crossing(bindings: Bindings) -> Iterator[Fact]:
    """Batch normalization beside steps of one's own: its statistics are kept without noise. Opacus refuses it by itself."""
    script = bindings.script
    if made_private(script) or script.imports("opacus") or not noise_of(script).additions:
        return
    for call in script.calls_of(_CROSSING.pattern):
        place = script.text.place(call.node)
        yield Fact(pitfalls.CROSSING, Outcome.FOUND, f"{call.name} looks at all records of a batch together", place)
