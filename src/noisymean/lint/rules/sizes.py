"""What is known of a data loader: how many records, in batches of which size; only what is written down."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import final

from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope, last_name, names_in

# Training sets whose number of records everybody knows: (train, test).
_KNOWN = {
    "MNIST": (60_000, 10_000),
    "FashionMNIST": (60_000, 10_000),
    "KMNIST": (60_000, 10_000),
    "CIFAR10": (50_000, 10_000),
    "CIFAR100": (50_000, 10_000),
    "SVHN": (73_257, 26_032),
    "STL10": (5_000, 8_000),
}
WRAPPERS = re.compile(r"tqdm|trange|enumerate|iter|zip|list|cycle|islice|track|progress_bar")
_ROWS = re.compile(r"randn|rand|zeros|ones|empty|randint|arange|range|full|standard_normal")
HELD_OUT = re.compile(
    r"(?<!la)(?<!con)(?<!fas)test|(^|[_xy])val(id\w*|_|$|\d|set|loader|data|ds|dl)|eval|dev_|holdout|held|shadow|query|reference",
    re.IGNORECASE,
)


# Where make_private has its loader if it is told by position: after the model and the optimizer.
LOADER_AT = 2


@final
@dataclass(frozen=True)
class Loader:
    """A data loader as it is written down; None is not known."""

    node: ast.Call
    records: int | None
    batch_size: int | None
    drop_last: bool


def looped_over(node: ast.expr) -> list[str]:
    """The names that a loop goes through, `self.loader` as well, whatever counts or shows them."""
    match node:
        case ast.Name() | ast.Attribute():
            return [ast.unparse(node)]
        case ast.Call(func=function, args=arguments) if WRAPPERS.fullmatch(last_name(function)):
            return [name for one in arguments for name in looped_over(one)]
        case ast.NamedExpr(value=inside):
            return looped_over(inside)
        case _:
            return []


def loader_of(call: Called, script: Script) -> Loader | None:
    """The loader that make_private is given."""
    given = call.argument(LOADER_AT, "data_loader")
    made = None if given is None else made_by(given, call.scope, script)
    return None if made is None else as_loader(made, script)


def made_by(node: ast.expr, scope: Scope, script: Script, depth: int = 6) -> Called | None:
    """The one call that a name or an expression is the result of."""
    match node:
        case ast.Call(func=function):
            made = script.call_at.get(node)
            returned = script.syntax.returned.get(last_name(function), []) if depth else []
            if made is None or script.syntax.defined[made.name] != 1 or len(returned) != 1:
                return made
            # a function of this file gives back what another call makes
            return made_by(returned[0].expression, returned[0].scope, script, depth - 1) or made
        case ast.Name(id=name) if depth and (at := scope.visible(name, looped=False)) is not None:
            values = [one for one in at.assigned.get(name, []) if one.index is None]
            if name in at.parameters():
                values = script.syntax.passed(name, at)
            return made_by(values[0].expression, values[0].scope, script, depth - 1) if len(values) == 1 else None
        case ast.Attribute() if depth:
            values = script.syntax.attributes(node, scope)
            return made_by(values[0].expression, values[0].scope, script, depth - 1) if len(values) == 1 else None
        case _:
            return None


def as_loader(call: Called, script: Script) -> Loader | None:
    """What a call of DataLoader says."""
    if not call.name.endswith("DataLoader"):
        return None
    data = call.argument(0, "dataset")
    size = call.argument(1, "batch_size")
    return Loader(
        call.node,
        None if data is None else records_in(data, call.scope, script),
        1 if size is None else script.whole(size, call.scope),
        script.constant(call.keywords.get("drop_last"), call.scope) is True,
    )


def records_in(node: ast.expr, scope: Scope, script: Script) -> int | None:
    """How many records a dataset has, where that can be read."""
    call = made_by(node, scope, script)
    if call is None:
        return None
    if call.name in _KNOWN and script.imports("torchvision"):
        train = script.constant(call.argument(1, "train"), call.scope)
        split = script.constant(call.keywords.get("split"), call.scope)
        is_test = train is False or split == "test"
        return _KNOWN[call.name][is_test]
    if call.name == "Subset" and len(call.arguments) == 2:
        return _rows(call.arguments[1], call.scope, script)
    if call.name == "TensorDataset" and call.arguments:
        return _rows(call.arguments[0], call.scope, script)
    return None


def _rows(node: ast.expr, scope: Scope, script: Script) -> int | None:
    """The first dimension of an array that is made up, or the length of a list."""
    if isinstance(node, ast.List | ast.Tuple):
        return len(node.elts) or None
    call = made_by(node, scope, script)
    if call is None or not _ROWS.fullmatch(call.name):
        return None
    first = call.argument(0, "size")
    if call.name in ("arange", "range"):
        return script.whole(first, call.scope) if len(call.arguments) == 1 else None
    if call.name == "randint" and "size" not in call.keywords:
        first = call.arguments[-1] if call.arguments else None
    if isinstance(first, ast.Tuple | ast.List) and first.elts:
        first = first.elts[0]
    return script.whole(first, call.scope)


def is_held_out(call: Called, script: Script) -> bool:
    """Whether a loader is for testing, by the name it gets or by what it goes through."""
    statement = script.statement_of(call.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    called = [name for one in targets for name in names_in(one)]
    data = call.argument(0, "dataset")
    through = [] if data is None else names_in(data)
    if any(map(HELD_OUT.search, [*called, *through])):
        return True
    made = None if data is None else made_by(data, call.scope, script)
    return made is not None and script.constant(made.keywords.get("train"), made.scope) is False
