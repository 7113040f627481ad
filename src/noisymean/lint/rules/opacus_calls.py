"""Calls of Opacus: make_private in its two forms, its switches, and the loader that goes in beside the one that comes out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.errors import InvalidInput
from noisymean.lint.findings import Finding
from noisymean.lint.rules import sizes
from noisymean.lint.script import Called, Script
from noisymean.mechanisms import OpacusLoader, Sampling
from noisymean.probe.reading.nodes import last_name, names_in

_MADE_PRIVATE = ("make_private", "make_private_with_epsilon")
_ENGINE = re.compile(r"engine|^pe$|privacy", re.IGNORECASE)
_EPSILON_GIVEN = "make_private_with_epsilon"
# Numbers of records around N at which Opacus is looked at for another rate or denominator.
_LOOKED_AT = 10_000
_TRAINS = re.compile(r"train|fit|epoch|update|step", re.IGNORECASE)
_EVALUATES = re.compile(r"test|val|eval|predict|infer|accuracy|metric|score|visuali|plot|attack|audit", re.IGNORECASE)


def made_private(script: Script) -> list[Called]:
    """Calls of make_private on an engine of Opacus; the library's own plumbing, `self.make_private`, is none."""
    return [one for one in script.calls_of("|".join(_MADE_PRIVATE)) if _is_opacus(one, script)]


def _is_opacus(call: Called, script: Script) -> bool:
    if call.dotted.startswith("opacus."):
        return True
    owner = call.owner
    if (isinstance(owner, ast.Name) and owner.id == "self") or (isinstance(owner, ast.Call) and _is_super(owner)):
        return False
    if "jax_privacy" in call.dotted or script.imports("jax_privacy"):
        return False
    told = call.keywords.keys() & {"data_loader", "max_grad_norm", "target_epsilon", "poisson_sampling", "optimizer"}
    named = owner is not None and any(_ENGINE.search(name) for name in names_in(owner))
    # what is told nothing may still be an engine's by its name, or by what it unpacks
    several = call.hides or len(call.arguments) > 1
    return owner is not None and (bool(told) or named or (several and script.imports("opacus")))


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "super"


def make_private(script: Script) -> Iterator[Finding]:
    """NM001 and NM002, with the numbers where both are written down."""
    for call in made_private(script):
        loader = sizes.loader_of(call, script)
        details = () if loader is None else _numbers(loader, call, script)
        if call.name == _EPSILON_GIVEN:
            yield script.found("NM002", call.node, *details)
        elif not _is_fixed(script):
            yield script.found("NM001", call.node, *details)


def _is_fixed(script: Script) -> bool:
    """Whether the denominator is made a constant afterwards."""
    return any("noisymean" in one.dotted for one in script.calls_of("fix"))


def _numbers(loader: sizes.Loader, call: Called, script: Script) -> tuple[str, ...]:
    """What Opacus makes of N and b, and of one record more or less, to the bit; and the command that says what it costs."""
    if loader.records is None or loader.batch_size is None or loader.batch_size > loader.records:
        return ()
    is_cut = script.constant(call.keywords.get("poisson_sampling"), call.scope) is False
    try:
        made = OpacusLoader(
            dataset_size=loader.records,
            batch_size=loader.batch_size,
            dimension=1,
            noise_multiplier=1.0,
            drop_last=loader.drop_last,
            sampling=Sampling.SHUFFLE if is_cut else Sampling.POISSON,
        )
        found = _compared(made)
    except InvalidInput:
        return ()
    here = f"Here N = {loader.records:,} and b = {loader.batch_size:,}: {found}."
    options = (
        *("--mechanism opacus-loader", f"--dataset-size {loader.records}", f"--batch-size {loader.batch_size}"),
        *(("--drop-last",) if loader.drop_last else ()),
        *(("--sampling shuffle",) if is_cut else ()),
        *("--dimension PARAMETERS", _noise_of(call, script), "--epochs EPOCHS --delta 1e-5"),
    )
    return here, f"What that costs: noisymean account {' '.join(options)}"


def _compared(made: OpacusLoader) -> str:
    """Rate and denominator of N records, and of the nearest number of records that has others."""
    size = made.dataset_size
    here = made.run(size)
    words = f"the rate is 1/{here.loader_length:,} and the denominator {here.expected_batch_size:,}"
    if here.steps_per_epoch != here.loader_length:
        words += f" (its accountant is told 1/{here.steps_per_epoch:,})"
    if here.expected_batch_size == 0:
        words += ", which releases numbers that are not finite"
    for away in range(1, _LOOKED_AT):
        for other, said in ((size + away, "more"), (size - away, "less")):
            if other < made.least_size or (there := made.run(other)) == here:
                continue
            moved = f"1/{there.loader_length:,} and {there.expected_batch_size:,}"
            records = "one record" if away == 1 else f"{away:,} records"
            return f"{words}; with {records} {said} they are {moved}"
    return words


def _noise_of(call: Called, script: Script) -> str:
    """The options for the noise, with what is written down."""

    def given(name: str, otherwise: str) -> str:
        value = script.number(call.keywords.get(name), call.scope)
        return otherwise if value is None or value <= 0 else f"{value:g}"

    if call.name != _EPSILON_GIVEN:
        return f"--noise-multiplier {given('noise_multiplier', 'SIGMA')}"
    epsilon, delta = given("target_epsilon", "EPSILON"), given("target_delta", "DELTA")
    return f"--calibrated-to {epsilon} --calibrated-delta {delta} --calibrated-epochs {given('epochs', 'EPOCHS')}"


def switches(script: Script) -> Iterator[Finding]:
    """NM003 and NM004, and a noise multiplier of zero."""
    private = made_private(script)
    # settings are found where they are handed over; where that is not in view, where they are written down
    named = [one for one in script.calls if one.name != "dict"]
    handed = any(one.keywords.keys() & {"poisson_sampling", "rand_on_empty"} for one in named)
    off: dict[ast.expr, list[tuple[int, Called]]] = {}
    for call in named if handed else script.calls:
        shuffles = call.keywords.get("poisson_sampling")
        if shuffles is None and call.name == "PrivacyEngine" and script.imports("opacus"):
            shuffles = call.keywords.get("poisson")
        is_jax = script.imports("jax_privacy") or "jax_privacy" in call.dotted
        if shuffles is not None and script.constant(shuffles, call.scope) is False and not is_jax:
            written = any(one.value is shuffles for one in call.node.keywords)
            off.setdefault(shuffles, []).append((0 if written else 1 if call in private else 2, call))
        if script.constant(call.keywords.get("rand_on_empty"), call.scope) is True:
            yield script.found("NM004", call.node)
    for calls in off.values():
        # what is handed on and on is one fault: where it is written, else where it comes to the engine
        first = min(near for near, _ in calls)
        for near, call in calls:
            if near == first:
                yield script.found("NM003", call.node)
    for call in private:
        if script.number(call.keywords.get("noise_multiplier"), call.scope) == 0 and not _is_option(call, script):
            yield script.found("NM032", call.node, "Here: the noise multiplier is 0.")


def _is_option(call: Called, script: Script) -> bool:
    """A default of the command line is not what is run."""
    return script.constant(call.keywords["noise_multiplier"], call.scope) is None


def attached(script: Script) -> Iterator[Finding]:
    """NM015: an engine of Opacus before 1.0, which is given a model."""
    for call in script.calls_of("PrivacyEngine"):
        told = call.keywords.keys() & {
            "sample_rate",
            "sample_size",
            "batch_size",
            "alphas",
            "noise_multiplier",
            "module",
        }
        is_old = bool(call.arguments) or bool(told)
        if is_old and (call.dotted.startswith("opacus") or script.imports("opacus", "torchdp")):
            yield script.found("NM015", call.node)


def other_loader(script: Script) -> Iterator[Finding]:
    """NM009: a training loop over the loader that went in, where another one came out."""
    for call in made_private(script):
        given = call.argument(sizes.LOADER_AT, "data_loader")
        statement = script.statement_of(call.node)
        if isinstance(given, ast.Attribute) and last_name(given.value) == "self":
            yield from _other_attribute(given, call, statement, script)
        if not isinstance(given, ast.Name) or _comes_back(statement, given.id):
            continue
        script.work.spend(len(script.nodes) // 10)
        for node in script.nodes:
            at = getattr(node, "lineno", 0)
            if (
                at > call.node.lineno
                and _trains_on(node, given.id, script)
                and _same_name(node, call, given.id, script)
            ):
                yield script.found("NM009", node)


def _other_attribute(given: ast.Attribute, call: Called, statement: ast.stmt, script: Script) -> Iterator[Finding]:
    """The same where the loader is an attribute: methods come in any order, so it must never be anything else afterwards."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    targets = target.elts if isinstance(target, ast.Tuple) else []
    if len(targets) != 3 or any(isinstance(one, ast.Starred) for one in targets):
        return
    owner, name, returned = call.scope.owner, given.attr, last_name(targets[2])
    before = (script.function_of(call.node), None)
    for value in script.syntax.attributes(given, call.scope):
        is_made = value.scope.name in ("__init__", "setup", "__post_init__") and value.line < call.node.lineno
        if not is_made and not (value.scope.function in before and value.line < call.node.lineno):
            return
    loops = [node for node in script.nodes if isinstance(node, ast.For) and script.scope_of(node).owner == owner]
    trained = {one: name for one in loops for name in _attributes_over(one.iter) if _takes_steps(one, script)}
    if returned in trained.values():
        # the loader that came back is trained on as well: what comes when is not in view, but in one function
        loops = [one for one in loops if script.function_of(one) is script.function_of(call.node)]
    for loop in loops:
        same = script.function_of(loop) is script.function_of(call.node)
        if trained.get(loop) == name and (not same or loop.lineno > call.node.lineno):
            yield script.found("NM009", loop)


def _attributes_over(node: ast.expr) -> list[str]:
    """Attributes of self that a loop goes through."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return [name]
        case ast.Call(func=function, args=arguments) if sizes.WRAPPERS.fullmatch(last_name(function)):
            return [name for one in arguments for name in _attributes_over(one)]
        case _:
            return []


def _takes_steps(loop: ast.For, script: Script) -> bool:
    inside = {one.attr for one in script.work.walk(loop) if isinstance(one, ast.Attribute)}
    return bool({"backward", "step"} & inside)


def _comes_back(statement: ast.stmt, name: str) -> bool:
    """Whether the loader is assigned to the same name again, or not in view."""
    if isinstance(statement, ast.Expr):
        # what comes back is thrown away
        return False
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return True
    targets = statement.targets[0].elts
    return any(isinstance(one, ast.Starred) or (isinstance(one, ast.Name) and one.id == name) for one in targets)


def _same_name(node: ast.AST, call: Called, name: str, script: Script) -> bool:
    """Whether the name means the same at both places, and nothing else was assigned to it in between."""
    here, there = script.scope_of(node).visible(name, looped=False), call.scope.visible(name, looped=False)
    if here is not there:
        return False
    first, last = call.node.lineno, getattr(node, "lineno", 0)
    # a name that nothing in this file gives a value comes from elsewhere, and is the same everywhere
    return here is None or not any(first <= one.line <= last for one in here.assigned.get(name, []))


def _trains_on(node: ast.AST, name: str, script: Script) -> bool:
    """A loop with a step over it, or a function called like training that is handed it."""
    match node:
        case ast.For(iter=over):
            return name in sizes.looped_over(over) and _takes_steps(node, script)
        case ast.Call(func=function, args=arguments):
            called = last_name(function)
            handed = [*arguments, *(one.value for one in node.keywords)]
            there = any(isinstance(one, ast.Name) and one.id == name for one in handed)
            return there and bool(_TRAINS.search(called)) and not _EVALUATES.search(called)
        case _:
            return False


EACH = (make_private, switches, attached, other_loader)
