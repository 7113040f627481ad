"""Batches and the numbers around them: what is computed from the data, what is left out, how records are drawn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import sizes
from noisymean.lint.rules.deltas import DELTA
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope
from noisymean.probe.reading.source import Origin

_BATCH_SIZE = re.compile(r"^(expected_)?batch_size$|^lot_size$|^expected_batch_size$|^num_microbatches$|^normalize_by$")
_EXPECTED = re.compile(r"^expected_batch_size$|^lot_size$")
_CALIBRATES = re.compile(
    r"(get|compute|find|calibrate|search|solve|estimate|opt)\w*(noise|sigma)\w*|\w*calibrate\w*|\w*noise_multiplier_(from|for)\w*|compute_noise"
)
_PICKS = re.compile(r"choices?|sample|integers|randint")
_ORDERS = re.compile(r"permutation|randperm|shuffle")
_KERAS_MODELS = re.compile(r"DP(Sequential|Model)")
# The same as a method of settings, which are told before what is counted.
_METHODS = re.compile(r"calibrate\w*|solve\w*")


def drop_last(script: Script) -> Iterator[Finding]:
    """NM006, at a loader that is trained on in a file that trains with DP."""
    for call in _loaders(script):
        if script.constant(call.keywords.get("drop_last"), call.scope) is True:
            yield script.found("NM006", call.node)


def weighted(script: Script) -> Iterator[Finding]:
    """NM007, at the sampler of a loader that is trained on; or at the sampler where no loader with it is in view."""
    for call in _loaders(script):
        given = call.argument(3, "sampler", "batch_sampler")
        made = None if given is None else sizes.made_by(given, call.scope, script)
        if made is not None and "Weighted" in made.name:
            yield script.found("NM007", made.node)


def _loaders(script: Script) -> Iterator[Called]:
    """Loaders of a file that trains with DP: those that are made private where that is in view, else all but held-out ones."""
    if not noise_of(script).is_private:
        return
    private = [loader.node for call in made_private(script) if (loader := sizes.loader_of(call, script)) is not None]
    for call in script.calls_of(r"\w*DataLoader"):
        if call.node in private or (not private and not sizes.is_held_out(call, script)):
            yield call


def batch_size(script: Script) -> Iterator[Finding]:
    """NM008: what an engine, an optimizer, a loader or a step is told as the size of its batches."""
    if not noise_of(script).is_private:
        return
    private = {call.node for call in _loaders(script)}
    for call in script.calls:
        for keyword in call.node.keywords:
            if keyword.arg is None or not _BATCH_SIZE.search(keyword.arg):
                continue
            if call.name.endswith("DataLoader") and (call.node not in private or _reads_everything(call, script)):
                continue
            if _is_private_call(call, keyword.arg, private) and script.is_of_the_data(keyword.value, call.scope):
                yield script.found("NM008", call.node)
        if call.name == "fit" and _fits_privately(call, script):
            told = call.argument(2, "batch_size")
            if told is not None and script.is_of_the_data(told, call.scope):
                yield script.found("NM008", call.node)
        size = call.argument(1) if call.node in private and "batch_size" not in call.keywords else None
        if size is not None and script.is_of_the_data(size, call.scope):
            yield script.found("NM008", size)
    for node in script.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _EXPECTED.search(name):
                if script.is_of_the_data(value, script.scope_of(node)):
                    yield script.found("NM008", node)


def _fits_privately(call: Called, script: Script) -> bool:
    """Whether `fit` is that of a model of TensorFlow Privacy, which clips and adds noise itself."""
    made = None if call.owner is None else sizes.made_by(call.owner, call.scope, script)
    return made is not None and bool(_KERAS_MODELS.fullmatch(made.name)) and script.imports("tensorflow_privacy")


def _reads_everything(call: Called, script: Script) -> bool:
    """`DataLoader(data, batch_size=len(data))` of which only the first batch is taken: a way to read a dataset."""
    size, data = call.argument(1, "batch_size"), call.argument(0, "dataset")
    match size:
        case ast.Call(func=ast.Name(id="len"), args=[counted]) if data is not None:
            same = ast.dump(counted) == ast.dump(data)
            return same and any(one.name == "next" for one in script.calls)
        case _:
            return False


def _is_private_call(call: Called, keyword: str, private: set[ast.Call]) -> bool:
    """Whether the size goes into what is drawn or divided, and not into an evaluation."""
    if _EXPECTED.search(keyword) or keyword in ("num_microbatches", "normalize_by"):
        return True
    return call.node in private or bool(
        re.search(r"Optimizer|PrivacyEngine|Sampler|DPKeras|dpsgd|aggregate", call.name)
    )


def calibrated(script: Script) -> Iterator[Finding]:
    """NM010: a noise multiplier that is looked for at a rate of the data."""
    if not noise_of(script).is_private:
        return
    for call in script.calls:
        if not _CALIBRATES.fullmatch(call.name) or call.name.startswith("make_private"):
            continue
        told = [(one, call.scope) for one in _told(call)]
        if _METHODS.fullmatch(call.name) and call.owner is not None:
            told += _made_with(call.owner, call.scope, script)
        if any(_follows_the_data(one, scope, script) for one, scope in told if not isinstance(one, ast.Starred)):
            yield script.found("NM010", call.node)


def _told(call: Called) -> list[ast.expr]:
    return [*call.arguments, *(value for name, value in call.keywords.items() if not DELTA.search(name))]


def _made_with(node: ast.expr, scope: Scope, script: Script, depth: int = 5) -> Iterator[tuple[ast.expr, Scope]]:
    """What the settings are made with whose method calibrates: `Config(rate=...).calibrate(...)`, and copies of them."""
    values = []
    match node:
        case ast.Call() if (call := script.call_at.get(node)) is not None:
            if script.syntax.defined[call.name] == 0:
                yield from ((one, call.scope) for one in _told(call))
            if call.owner is not None:
                values = [(call.owner, scope)]
            if call.name in ("replace", "evolve", "copy", "deepcopy"):
                values += [(one, scope) for one in call.arguments[:1]]
        case ast.Name(id=name) if (at := scope.visible(name, looped=False)) is not None:
            values = [(one.expression, one.scope) for one in at.assigned.get(name, [])[:3]]
        case ast.Attribute():
            values = [(one.expression, one.scope) for one in script.syntax.attributes(node, scope)[:3]]
        case _:
            pass
    for inside, there in values if depth else []:
        if inside is not node:
            yield from _made_with(inside, there, script, depth - 1)


def _follows_the_data(node: ast.expr, scope: Scope, script: Script) -> bool:
    """A number of the data, or a function that makes an event at a rate of the data."""
    if script.is_of_the_data(node, scope):
        return True
    inside = node.body if isinstance(node, ast.Lambda) else None
    events = [inside] if inside is not None else []
    if isinstance(node, ast.Name) and node.id in script.syntax.defined:
        events = [one.expression for one in script.syntax.returned.get(node.id, [])]
    return any(
        script.is_of_the_data(one, script.scope_of(call))
        for event in events
        for call in script.work.walk(event)
        if isinstance(call, ast.Call)
        for one in (*call.args, *(each.value for each in call.keywords))
    )


def drawn_size(script: Script) -> Iterator[Finding]:
    """NM008 as well: so many records are drawn in a step of one's own as a rate times their number."""
    if not noise_of(script).is_private:
        return
    functions = {one.scope.function for one in noise_of(script).additions} - {None}
    for node in script.nodes:
        size = _drawn_by(node, script)
        function = script.function_of(node)
        if size is None or function not in functions:
            continue
        found = script.origins(size, script.scope_of(node))
        if found & {Origin.EXPECTED, Origin.FLOOR}:
            yield script.found("NM008", node)


def _drawn_by(node: ast.AST, script: Script) -> ast.expr | None:
    """How many are drawn: `choice(n, size=k)`, `sample(range(n), k)`, `permutation(n)[:k]`."""
    match node:
        case ast.Call() if (call := script.call_at.get(node)) is not None and _PICKS.fullmatch(call.name):
            return call.argument(2 if call.name in ("integers", "randint") else 1, "size", "k", "num_samples", "shape")
        case ast.Subscript(value=several, slice=ast.Slice(lower=None, upper=ast.expr() as upper)):
            made = sizes.made_by(several, script.scope_of(node), script)
            return upper if made is not None and _ORDERS.fullmatch(made.name) else None
        case _:
            return None


EACH = (drop_last, weighted, batch_size, drawn_size, calibrated)
