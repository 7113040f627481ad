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
from noisymean.probe.reading.nodes import Scope, last_name, names_in

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
    """NM001, NM002 and NM016, with the numbers where both are written down."""
    for call in made_private(script):
        loader = sizes.loader_of(call, script)
        details = () if loader is None else _numbers(loader, call, script)
        if call.name == _EPSILON_GIVEN:
            yield script.found("NM002", call.node, *details)
        elif not _is_fixed(script):
            yield script.found("NM001", call.node, *details)
        elif loader is not None and script.constant(call.keywords.get("poisson_sampling"), call.scope) is not False:
            yield script.found("NM016", call.node, *details)


def _is_fixed(script: Script) -> bool:
    """Whether the denominator is made a constant afterwards; the rate is another matter."""
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
    uses = [node for node in script.nodes if isinstance(node, ast.For | ast.Call)]
    for call in made_private(script):
        given = call.argument(sizes.LOADER_AT, "data_loader")
        if not isinstance(given, ast.Name | ast.Attribute):
            continue
        name = ast.unparse(given)
        if _comes_back(script.statement_of(call.node), name):
            continue
        script.work.spend(len(uses))
        trained = [node for node in uses if _trains_on(node, name, script) and not _of_another(node, call, script)]
        if isinstance(given, ast.Attribute):
            trained = _of_object(trained, given, call, uses, script)
        else:
            trained = [one for one in trained if one.lineno > call.node.lineno and _same_name(one, call, given, script)]
        for node in trained:
            yield script.found("NM009", node)


def _comes_back(statement: ast.stmt, name: str) -> bool:
    """Whether the loader is assigned to the same name again, or not in view."""
    if isinstance(statement, ast.Expr):
        # what comes back is thrown away
        return False
    if not isinstance(statement, ast.Assign):
        return True
    if isinstance(statement.targets[0], ast.Name) and isinstance(statement.value, ast.Call):
        # all that comes back has one name; where it is taken apart, the loader gets another value there
        return ast.unparse(statement.targets[0]) == name
    if not isinstance(statement.targets[0], ast.Tuple | ast.List):
        return True
    targets = statement.targets[0].elts
    return any(isinstance(one, ast.Starred) or ast.unparse(one) == name for one in targets)


def _of_another(node: ast.For | ast.Call, call: Called, script: Script) -> bool:
    """Whether a loop trains something else: its steps are those of optimizers that make_private neither takes nor gives back."""
    if not isinstance(node, ast.For):
        return False
    own = {name for one in (*call.arguments, *call.keywords.values()) for name in _named(one)}
    statement = script.statement_of(call.node)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return False
    own |= _named(statement.targets[0])
    scope = script.scope_of(node)
    steps = [
        one.func.value
        for one in script.work.walk(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "step"
    ]
    optimizers = [one.id for one in steps if isinstance(one, ast.Name)]
    if len(optimizers) < len(steps) or not optimizers:
        return False
    return not any(
        name in own or (at := scope.visible(name)) is None or name in at.parameters() or _is_alias(name, at, own)
        for name in optimizers
    )


def _is_alias(name: str, at: Scope, own: set[str]) -> bool:
    """Whether a name is another one for something of these, or made of it: a scheduler of the optimizer."""
    return any(own & _named(one.expression) for one in at.assigned.get(name, []))


def _named(node: ast.expr) -> set[str]:
    """Names of their own, not those of attributes."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _of_object(
    trained: list[ast.For | ast.Call],
    given: ast.Attribute,
    call: Called,
    uses: list[ast.For | ast.Call],
    script: Script,
) -> list[ast.For | ast.Call]:
    """Of an attribute: methods come in any order, so it must never be anything else afterwards.

    Where the loader that came back is trained on as well, what comes when is in view in one function only.
    """
    owner, function = call.scope.owner, script.function_of(call.node)
    for value in script.syntax.attributes(given, call.scope):
        is_made = value.scope.name in ("__init__", "setup", "__post_init__") or value.scope.function is function
        if not is_made or value.line >= call.node.lineno:
            return []
    target = script.statement_of(call.node)
    returned = target.targets[0] if isinstance(target, ast.Assign) else None
    last = ast.unparse(returned.elts[-1]) if isinstance(returned, ast.Tuple) and returned.elts else ""
    both = any(_trains_on(node, last, script) for node in uses) if last else False
    found = []
    for node in trained:
        same = script.function_of(node) is function
        if script.scope_of(node).owner == owner and (node.lineno > call.node.lineno if same else not both):
            found.append(node)
    return found


def _same_name(node: ast.AST, call: Called, given: ast.Name, script: Script) -> bool:
    """Whether the name means the same at both places, and nothing else was assigned to it in between."""
    here = script.scope_of(node).visible(given.id, looped=False)
    if here is not call.scope.visible(given.id, looped=False):
        return False
    first, last = call.node.lineno, getattr(node, "lineno", 0)
    # a name that nothing in this file gives a value comes from elsewhere, and is the same everywhere
    return here is None or not any(first <= one.line <= last for one in here.assigned.get(given.id, []))


def _trains_on(node: ast.AST, name: str, script: Script) -> bool:
    """A loop with a step over it, or a function called like training that is handed it."""
    match node:
        case ast.For(iter=over):
            if name not in sizes.looped_over(over):
                return False
            return any(
                isinstance(one, ast.Attribute) and one.attr in ("backward", "step") for one in script.work.walk(node)
            )
        case ast.Call(func=function, args=arguments):
            called = last_name(function)
            handed = [*arguments, *(one.value for one in node.keywords)]
            there = any(isinstance(one, ast.Name | ast.Attribute) and ast.unparse(one) == name for one in handed)
            trains = bool(_TRAINS.search(called)) and not _EVALUATES.search(called)
            return there and called not in _MADE_PRIVATE and (trains or called == "BatchMemoryManager")
        case _:
            return False


EACH = (make_private, switches, attached, other_loader)
