"""What stands around loops that train: errors that are swallowed, derivatives by hand, engines that go elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from noisymean.scorecard.source.bindings import Bindings

# Modules whose functions differentiate or step without a `.backward()` or a `.step()` in the file.
_DIFFERENTIATE = ("torch.autograd", "torch.func", "functorch", "torch.optim.optimizer")
# What may be entered around a loop or a step without swallowing an error, or starting random numbers again.
_HARMLESS = (
    *("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.no_grad", "torch.inference_mode"),
    *("torch.profiler.profile", "torch.profiler.record_function", "torch.enable_grad", "tqdm.tqdm", "tqdm.auto.tqdm"),
)
_ENGINE = frozenset({"make_private", "make_private_with_epsilon", "get_epsilon", "accountant"})
_OPTIMIZERS = "torch.optim."


def differentiates(node: ast.AST) -> bool:
    """An import of what takes derivatives, or is called at each step of every optimizer."""
    match node:
        case ast.ImportFrom(module=str() as module):
            whole = (module, *(f"{module}.{one.name}" for one in node.names))
            return any(one == place or one.startswith(f"{place}.") for one in whole for place in _DIFFERENTIATE)
        case ast.Import(names=names):
            return any(
                one.name == place or one.name.startswith(f"{place}.") for one in names for place in _DIFFERENTIATE
            )
        case _:
            return False


def engine_elsewhere(engine: ast.expr, bindings: Bindings) -> ast.AST | None:
    """Where an engine is handed to somebody, or more is asked of it than to make private and to account."""
    if not isinstance(engine, ast.Name):
        return None
    for node in bindings.scan():
        if isinstance(node, ast.Name) and node.id == engine.id and isinstance(node.ctx, ast.Load):
            parent = bindings.script.parents[node]
            if not isinstance(parent, ast.Attribute) or parent.attr not in _ENGINE:
                return node
            if isinstance(parent.ctx, ast.Store) and parent.attr != "accountant":
                return node
    return None


def is_used_up(parameters: ast.Attribute, bindings: Bindings) -> bool:
    """`SGD(model.parameters())`, `sum(p.numel() for p in model.parameters())`: nobody keeps them, to change them later."""
    script = bindings.script
    for one in script.ancestors(parameters):
        match one:
            case ast.Call(func=function):
                dotted = script.dotted(function, script.scope_of(one))
                if dotted.startswith(_OPTIMIZERS) and bindings.comes_from(function, dotted):
                    return True
            case ast.GeneratorExp(elt=counted) | ast.ListComp(elt=counted):
                match counted:
                    case ast.Call(func=ast.Attribute(attr="numel", value=ast.Name()), args=[], keywords=[]):
                        return True
                    case _:
                        return False
            case ast.stmt():
                return False
            case _:
                pass
    return False


def disturbed(loop: ast.For, bindings: Bindings, manages: Callable[[ast.expr], bool]) -> ast.AST | None:
    """What may swallow an error of a step or start random numbers again: around a loop, in it, or around its function's calls."""
    for node in _around(loop, bindings, set()):
        match node:
            case ast.Try(handlers=[_, *_]) | ast.TryStar() | ast.AsyncWith():
                return node
            case ast.With(items=items):
                for one in items:
                    made = one.context_expr
                    known = isinstance(made, ast.Call) and bindings.comes_from(made.func, *_HARMLESS)
                    if not known and not manages(made):
                        return made
            case _:
                pass
    return None


def _around(node: ast.AST, bindings: Bindings, seen: set[str]) -> Iterator[ast.AST]:
    script = bindings.script
    if isinstance(node, ast.For):
        script.work.spend(100)
        yield from ast.walk(node)
    for one in script.ancestors(node):
        yield one
        if isinstance(one, ast.FunctionDef) and one.name not in seen:
            seen.add(one.name)
            for call, _ in script.syntax.calls.get(one.name, []):
                yield from _around(call, bindings, seen)
