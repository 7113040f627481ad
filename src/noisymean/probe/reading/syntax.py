"""All modules of a package, collected: what is assigned under which name, what functions return, what is divided.

A division is written in many ways. Collected are: `/`, `//` and their augmented forms; div, divide, true_divide and the like, as
methods and as functions; mean and average; and products, since one of the factors may be a reciprocal.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from typing import final

from noisymean.probe.reading.nodes import (
    Division,
    Function,
    Place,
    Product,
    Scope,
    Value,
    is_module,
    last_name,
    names_in,
)
from noisymean.probe.reading.work import Work

_QUOTIENT = re.compile(
    r"(_foreach_)?(safe_)?(div|divide|true_?div(ide)?|itruediv|__i?truediv__|floor_divide|div_no_nan)(_no_nan)?_?"
)
_MEAN = re.compile(r"(\w+_)?(nan|f)?(mean|average)")
_PRODUCT = re.compile(r"(_foreach_)?(mul|multiply|scalar_mul|scale|tree_scale)_?")
# x.add_(y) leaves y in x as well
_INTO = re.compile(r"(add|sub|copy|append|extend|insert|update|addcmul|addcdiv|normal|__setitem__|fill)_?")
# Factors that say how the work is split up, not how many records there are.
NOT_SIZES = re.compile(
    r"accum\w*_?(iter\w*|steps?|factor)|iteration|world|rank|n(um)?_(gpus|devices|replicas|workers|processes)|device_count|epsilon|eps$|norms?$",
    re.IGNORECASE,
)
# functions that call what they are given on the elements of the rest
_MAPS = re.compile(r"map|scan|loop|apply|reduce|foreach|partial", re.IGNORECASE)
# a loop over the rounds of a run, not over the parts of one round
_ROUNDS = re.compile(r"loader|epochs?$|rounds?$|^((max|num|n|total|train)_)?(steps|iterations|iters)$|^T$")


@final
class Syntax:
    """All modules of a package: what is assigned under which name, what functions return, what is divided."""

    def __init__(self) -> None:
        self.work = Work()
        # files that were not followed to the end
        self.unfollowed: set[str] = set()
        self.modules: dict[str, ast.Module] = {}
        # of the nodes that have one: modules, classes, functions and lambdas
        self.scopes: dict[ast.AST, Scope] = {}
        self._attributes: dict[str, list[tuple[Value, str | None]]] = {}
        self.keywords: dict[str, list[tuple[ast.Call, Value]]] = {}
        self.calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        # attributes that something is added to: `self.count += 1`
        self.counted: set[str] = set()
        # fields of data classes: in which class, and where in its list of them
        self.fields: dict[str, list[tuple[str, int]]] = {}
        self.properties: set[str] = set()
        # names of functions and classes, and in how many places there is one
        self.defined: Counter[str] = Counter()
        self.imported: set[str] = set()
        # functions that are handed on under another name, so that not every call of them is seen
        self.handed_on: set[str] = set()
        # calls to which a function (by name, or a lambda by its node) is handed, beside other arguments
        self.mapped: dict[str | ast.Lambda, list[tuple[ast.Call, Scope]]] = {}
        # names are set by text somewhere, or come from another module unseen: no value in view is the only one
        self.by_text = False
        self._called: set[ast.AST] = set()
        self.returned: dict[str, list[Value]] = {}
        self.divisions: list[Division] = []
        self.products: list[Product] = []
        # what is propagated back through a model: its names by scope, and the nodes in it
        self.backwards: set[tuple[int, str]] = set()
        self.backward_nodes: set[ast.AST] = set()

    def attributes(self, node: ast.Attribute, scope: Scope | None = None) -> list[Value]:
        """What is assigned to any attribute of that name; with a scope, of self by its own class only, if it does that."""
        found = self._attributes.get(node.attr, [])
        self.work.spend(len(found))
        if scope is not None and last_name(node.value) == "self" and scope.owner:
            own = [value for value, owner in found if owner == scope.owner]
            found = [one for one in found if one[1] in (scope.owner, None)] if own else found
        return [value for value, _ in found]

    def passed(self, parameter: str, scope: Scope) -> list[Value]:
        """What the calls of a function hand over for one of its parameters, by position or by keyword."""
        found, position = [], scope.position(parameter)
        calls = self.calls.get(scope.called, []) if scope.called else []
        self.work.spend(len(calls))
        for call, at in calls:
            if 0 <= position < len(call.args):
                found.append(Value(call.args[position], at))
            found += [Value(one.value, at) for one in call.keywords if one.arg == parameter]
        return found

    def is_module(self, node: ast.expr) -> bool:
        """A module by its usual name, or by being imported somewhere in the package."""
        return is_module(node) or (isinstance(node, ast.Name) and node.id in self.imported)

    def makes(self, maker: Scope, made: Scope) -> bool:
        """Whether a function gives back one that is defined in it: what it is told is then fixed for all calls of that."""

        def is_made(node: ast.expr) -> bool:
            return node is made.function or (isinstance(node, ast.Name) and bool(made.name) and node.id == made.name)

        for value in self.returned.get(maker.name, []) if maker.name else []:
            match value.expression if value.scope is maker else None:
                case ast.Tuple(elts=parts) if any(map(is_made, parts)):
                    return True
                case ast.Call(func=function, args=parts) if any(map(is_made, parts)):
                    # jit(step) and Transformation(init, update), not map(step, gradients)
                    name, functions = last_name(function), all(last_name(one) in self.defined for one in parts)
                    if not _MAPS.search(name) and (functions or name[:1].isupper()):
                        return True
                case ast.expr() as expression if is_made(expression):
                    return True
        return False

    def add(self, name: str, module: ast.Module) -> None:
        """One parsed file."""
        self.modules[name] = module
        top = self.scopes[module] = Scope(None, None, name, "")
        self._walk(module, Place(scope=top, guards=(), statement=module, in_rounds=False))

    def _walk(self, node: ast.AST, place: Place) -> None:
        # an annotation neither calls nor hands on what it names
        said = [getattr(node, part, None) for part in ("annotation", "returns")]
        for child in ast.iter_child_nodes(node):
            if child not in said:
                self._child(child, place)

    def _child(self, child: ast.AST, place: Place) -> None:
        scope = place.scope
        here = child if isinstance(child, ast.stmt) else place.statement
        at = place if here is place.statement else replace(place, statement=here)
        self._collect(child, at)
        if isinstance(child, ast.ClassDef):
            self.defined[child.name] += 1
            annotated = [part for part in child.body if isinstance(part, ast.AnnAssign)]
            for position, part in enumerate(annotated):
                self.fields.setdefault(last_name(part.target), []).append((child.name, position))
                if part.value is not None:
                    field = ast.Attribute(part.target, last_name(part.target), ast.Store())
                    self._assign(field, Value(part.value, scope), scope)
            inner = self.scopes[child] = Scope(None, scope, scope.module, child.name)
            self._walk(child, replace(at, scope=inner, guards=(), in_rounds=False, in_loop=False))
        elif isinstance(child, Function):
            inner = self.scopes[child] = Scope(child, scope, scope.module, scope.owner)
            inner.names.update(inner.parameters())
            if not isinstance(child, ast.Lambda):
                self.defined[child.name] += 1
                if any(last_name(one).endswith("property") for one in child.decorator_list):
                    self.properties.add(child.name)
            guards = place.guards if isinstance(child, ast.Lambda) else ()
            self._walk(child, replace(at, scope=inner, guards=guards, in_rounds=False, in_loop=False))
        elif isinstance(child, ast.If):
            self._child(child.test, at)
            test = ast.unparse(child.test)
            for block, said in ((child.body, test), (child.orelse, f"not ({test})")):
                self._walk(ast.Module(body=block, type_ignores=[]), replace(at, guards=(*at.guards, said)))
        elif isinstance(child, ast.For | ast.AsyncFor | ast.While):
            over = child.test if isinstance(child, ast.While) else child.iter
            rounds = place.in_rounds or any(_ROUNDS.search(name) for name in names_in(over))
            self._walk(child, replace(at, in_rounds=rounds, in_loop=True))
        else:
            self._walk(child, at)

    def _call(self, call: ast.Call, at: Place) -> None:
        scope, name = at.scope, last_name(call.func)
        self._called.add(call.func)
        text = name == "setattr" and not (len(call.args) == 3 and isinstance(call.args[1], ast.Constant))
        # model.eval() is no eval
        text = text or (isinstance(call.func, ast.Name) and name in ("exec", "eval", "globals", "locals", "vars"))
        self.by_text = self.by_text or text
        if name in ("isinstance", "issubclass", "super"):
            self._called.update(call.args)
        self.calls.setdefault(name, []).append((call, scope))
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.keywords.setdefault(keyword.arg, []).append((call, Value(keyword.value, scope)))
            for one in call.args if keyword.arg == "out" else []:
                self._assign(keyword.value, Value(one, scope, line=call.lineno), scope)
        for one in (*call.args, *(keyword.value for keyword in call.keywords)):
            key = one if isinstance(one, ast.Lambda) else last_name(one)
            if key and _MAPS.search(name):
                self.mapped.setdefault(key, []).append((call, scope))
        match call.func:
            case ast.Name(id="setattr") if len(call.args) == 3 and isinstance(call.args[1], ast.Constant):
                target = ast.Attribute(call.args[0], str(call.args[1].value), ast.Store())
                self._assign(target, Value(call.args[2], scope, line=call.lineno), scope)
            case ast.Attribute(attr="backward", value=loss):
                self.backward_nodes.update(ast.walk(loss))
                self.backwards |= {(id(scope), name) for name in names_in(loss)}
            case ast.Attribute(attr=attribute, value=owner) if _INTO.fullmatch(attribute):
                if attribute.rstrip("_") in ("add", "sub"):
                    self._counts(owner, scope)
                for one in call.args or [call]:
                    self._assign(owner, Value(one, scope, line=call.lineno), scope)
        self._operation(call, name, at)

    def _operation(self, call: ast.Call, name: str, at: Place) -> None:
        """A quotient, a mean or a product that is written as a call."""
        operands = _operands(call)
        if _QUOTIENT.fullmatch(name) and len(operands) == 2:
            self._divided(operands[0], operands[1], at, call)
        elif _MEAN.fullmatch(name) and operands:
            self._divided(operands[0], None, at, call)
        elif _PRODUCT.fullmatch(name) and len(operands) == 2:
            self._multiplied(operands[0], operands[1], at)
        if len(call.args) == 3 and _QUOTIENT.fullmatch(last_name(call.args[0])):
            # tree_map(divide, x, n)
            self._divided(call.args[1], call.args[2], at, call)
        if name == "partial" and call.args and _QUOTIENT.fullmatch(last_name(call.args[0])):
            # partial(torch.div, other=n): of what is not known yet
            for one in (*call.args[1:], *(keyword.value for keyword in call.keywords)):
                self._divided(call.args[0], one, at, call)
        for keyword in call.keywords:
            # x.add_(y, alpha=a) adds a * y
            for one in call.args if keyword.arg in ("alpha", "value") else []:
                self._multiplied(one, keyword.value, at)

    def _divided(self, what: ast.expr, by: ast.expr | None, at: Place, node: ast.AST) -> None:
        self.divisions.append(Division(what, by, node, **vars(at)))

    def _multiplied(self, left: ast.expr, right: ast.expr, at: Place) -> None:
        self.products.append(Product(left, right, **vars(at)))

    def _collect(self, node: ast.AST, at: Place) -> None:
        """One node, whatever it is: what it names, calls, returns, divides, multiplies or binds."""
        scope = at.scope
        match node:
            case ast.Call():
                self._call(node, at)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                self.imported |= {(one.asname or one.name).partition(".")[0] for one in names}
                self.by_text = self.by_text or any(one.name == "*" for one in names)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                scope.names.add(name)
                if node not in self._called and isinstance(node.ctx, ast.Load):
                    self.handed_on.add(name)
            case ast.Subscript(value=ast.Name(id=name), slice=chosen, ctx=ast.Load()):
                scope.picked.setdefault(name, []).append(chosen)
            case ast.Global(names=shared) | ast.Nonlocal(names=shared):
                scope.shared.update(shared)
            case ast.Return(value=ast.expr() as value) if scope.name:
                self.returned.setdefault(scope.name, []).append(Value(value, scope))
            case ast.BinOp(op=ast.Div() | ast.FloorDiv(), left=left, right=right):
                self._divided(left, right, at, node)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                self._multiplied(left, right, at)
            case _:
                self._bind(node, at)

    def _bind(self, node: ast.AST, at: Place) -> None:
        """A node that gives a name its value."""
        scope = at.scope
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, Value(value, scope, line=node.lineno), scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._assign(target, Value(value, scope, line=node.lineno), scope)
            case ast.AugAssign():
                self._augment(node, at)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                for one in ast.walk(node.target):
                    if isinstance(one, ast.Name):
                        scope.looped.setdefault(one.id, []).append(Value(node.iter, scope))
            case (
                ast.MatchAs(name=str() as name)
                | ast.MatchStar(name=str() as name)
                | ast.MatchMapping(rest=str() as name)
                | ast.ExceptHandler(name=str() as name)
            ):
                scope.looped.setdefault(name, []).append(Value(ast.Constant(None), scope))
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, Value(item.context_expr, scope), scope)

    def _augment(self, node: ast.AugAssign, at: Place) -> None:
        """`x += y`, and its like with other operators."""
        target, operator, value, scope = node.target, node.op, node.value, at.scope
        if isinstance(operator, ast.Div | ast.FloorDiv):
            self._divided(target, value, at, node)
        elif isinstance(operator, ast.Mult):
            self._multiplied(target, value, at)
        if at.in_loop or not isinstance(operator, ast.Div | ast.FloorDiv | ast.Mult):
            self._counts(target, scope)
        if not (NOT_SIZES.search(last_name(value)) and isinstance(operator, ast.Mult | ast.Div | ast.FloorDiv)):
            self._assign(target, Value(value, scope, line=node.lineno), scope)

    def _counts(self, target: ast.expr, scope: Scope) -> None:
        """A name or an attribute that goes up or down."""
        match target:
            case ast.Name(id=name):
                for at in scope.outwards() if name in scope.shared else [scope]:
                    at.counted.add(name)
            case ast.Attribute(attr=name):
                self.counted.add(name)
            case ast.Subscript(value=inner):
                self._counts(inner, scope)

    def _assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = value.expression
                same = isinstance(whole, ast.Tuple) and len(whole.elts) == len(parts)
                for index, part in enumerate(parts):
                    own = whole.elts[index] if same and isinstance(whole, ast.Tuple) else whole
                    self._assign(part, Value(own, scope, None if same else index, value.line), scope)
            case ast.Name(id=name):
                for at in scope.outwards() if name in scope.shared else [scope]:
                    at.assigned.setdefault(name, []).append(value)
            case ast.Attribute(attr=name, value=root):
                owner = scope.owner if last_name(root) == "self" and scope.owner else None
                self._attributes.setdefault(name, []).append((value, owner))
            case ast.Subscript(value=inner) | ast.Starred(value=inner):
                self._assign(inner, value, scope)


def _operands(call: ast.Call) -> list[ast.expr]:
    """Of an operation written as a call: x.div(n), torch.div(x, n), div(x, n), torch.div(x, other=n)."""
    given = [*call.args, *(one.value for one in call.keywords if one.arg in ("other", "x2", "input", "x1", "y"))]
    match call.func:
        case ast.Attribute(attr=name, value=owner) if _MEAN.fullmatch(name) and not is_module(owner):
            # x.mean(0)
            return [owner]
        case ast.Attribute(value=owner) if len(given) < 2 and not is_module(owner):
            return [owner, *given]
        case _:
            return given[:2]
