"""Statements of a function, one after the other, with the helpers of the same file that it calls.

Loops are gone through twice, so that what one round leaves behind meets the next. Of branches both are taken, and what may be
noisy or clipped is believed to be. A function that nobody here calls is gone through by itself.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from fractions import Fraction
from typing import final

from noisymean.lint.constants import arithmetic
from noisymean.lint.script import Script
from noisymean.lint.walked import spelled
from noisymean.lint.walked.applied import Applied
from noisymean.lint.walked.calls import Calls
from noisymean.lint.walked.frames import Defined, Env, Frame, Lost
from noisymean.lint.walked.loops import Kind, Loops
from noisymean.lint.walked.sums import Arithmetic, Beside, Seen
from noisymean.lint.walked.things import (
    OTHER,
    Compared,
    Norm,
    Ratio,
    Rows,
    Shape,
    Thing,
    constant,
    merged,
    number,
)
from noisymean.probe.reading.nodes import last_name, names_in

# How many expressions of one file are evaluated, and how deep helpers go.
MOST = 30_000
_DEEPEST = 5


@final
class Walker:
    """Of one file."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.loops = Loops(script)
        self.steps = 0
        self.called: set[ast.AST] = set()
        self.depth = 0
        # functions that are gone through for one record, since something maps them over all
        self.mapped = 0
        self.repeating = False
        self.pending: list[tuple[Defined, Frame]] = []
        self.applied = Applied(self)
        self._begin(script.tree)

    def _begin(self, function: ast.AST) -> Seen:
        self.seen = Seen(function)
        self.arithmetic = Arithmetic(self.seen, (function,))
        self.calls = Calls(self.arithmetic, self.value, self.script.syntax.is_module)
        return self.seen

    def root(self, function: Defined | ast.Module, frame: Frame) -> Seen:
        """A function by itself, or the top of the file."""
        seen = self._begin(function)
        if not isinstance(function, ast.Module):
            self.called.add(function)
            self.parameters(function, frame)
        self.frame = frame
        self.block(function.body)
        return seen

    def parameters(self, function: Defined, frame: Frame) -> None:
        given = function.args
        plain = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        for one in plain:
            frame.env.setdefault(one.arg, self.named(one.arg))
        pairs = [*zip([*given.posonlyargs, *given.args][::-1], given.defaults[::-1], strict=False)]
        pairs += [
            (one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
        ]
        outside = replace(self.arithmetic, within=())
        for one, value in pairs:
            if isinstance(value, ast.Constant):
                continue
            self.frame = Frame({}, frame.around)
            within, self.arithmetic.within = self.arithmetic.within, outside.within
            made = self.value(value)
            self.arithmetic.within = within
            if made.pure:
                frame.env[one.arg] = made

    def named(self, name: str) -> Thing:
        if spelled.is_gradient(name):
            return Thing(gradient=True, rows=Rows.EACH if spelled.EACH.search(name) else Rows.UNKNOWN, name=name)
        return replace(number(name), layers=bool(spelled.LAYERS.fullmatch(name)))

    # --- statements -----------------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        """Statement by statement, until one leaves."""
        for one in body:
            if self.frame.left:
                return
            self.statement(one)

    def statement(self, node: ast.stmt) -> None:
        """Whatever it does."""
        self._spend()
        match node:
            case ast.Assign(targets=targets, value=value):
                made = self.value(value)
                for target in targets:
                    self.bind(target, made)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, self.value(value))
            case ast.AugAssign():
                self.augmented(node)
            case ast.Return() | ast.Continue() | ast.Break() | ast.Raise():
                self._leave(node)
            case ast.Expr(value=value):
                self.value(value)
            case _:
                self._block_of(node)

    def _leave(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return) and node.value is not None:
            given = self.value(node.value)
            things = given.items if given.items is not None else (given,)
            self.seen.beside.append(Beside(node, tuple(things), self.arithmetic.within))
            self.frame.given.append(given)
        self.frame.left = True

    def _block_of(self, node: ast.stmt) -> None:
        """A statement with others in it."""
        match node:
            case ast.If():
                self._branches(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self.value(item.context_expr)
                self.block(body)
            case ast.Try(body=body, finalbody=final):
                self.block(body)
                self.block(final)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.frame.env[node.name] = Thing(function=node)
                if self.frame not in [frame for function, frame in self.pending if function is node]:
                    self.pending.append((node, self.frame))
            case _:
                pass

    def augmented(self, node: ast.AugAssign, at: ast.AST | None = None) -> None:
        value, before = self.value(node.value), self.value(node.target)
        match node.op:
            case ast.Add() | ast.Sub():
                kind = self.loops.innermost(self.arithmetic.within)
                made = self.arithmetic.add(before, value, at or node)
                outside = isinstance(node.target, ast.Name | ast.Attribute)
                if isinstance(made.special, Norm) and kind is Kind.LAYERS:
                    made = replace(made, special=replace(made.special, layer=False))
                elif outside and value.rows is Rows.ONE and self.loops.is_in(self.arithmetic.within, Kind.RECORDS):
                    made = self.arithmetic.summed(replace(made, rows=Rows.ONE), node)
            case ast.Mult():
                made = self.arithmetic.multiply(before, value, node)
            case ast.Div():
                made = self.arithmetic.divide(before, value, node)
            case ast.Pow() if value.value is not None and abs(value.value) < 9:
                made = self.arithmetic.power(before, Fraction(value.value).limit_denominator(8))
            case _:
                made = OTHER
        self.bind(node.target, made)

    def _branches(self, node: ast.If) -> None:
        test, env = self.value(node.test), self.frame.env
        ends: list[Env] = []
        for body, holds in ((node.body, True), (node.orelse, False)):
            self.frame.env = dict(env)
            tests = self.arithmetic.tests
            if isinstance(test.special, Compared):
                held = test.special if holds else replace(test.special, larger=not test.special.larger)
                self.arithmetic.tests = (*tests, held)
            self.block(body)
            self.arithmetic.tests = tests
            if not self.frame.left:
                ends.append(self.frame.env)
            self.frame.left = False
        if node.body and isinstance(node.body[-1], ast.Break | ast.Return):
            self.seen.leaves.append((node, test))
        if not ends:
            self.frame.left = True
        first, last = (ends[0], ends[-1]) if ends else (env, env)
        self.frame.env = env
        for name in {**first, **last}:
            env[name] = merged(first.get(name), last.get(name)) if len(ends) > 1 else last[name]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        over = OTHER if isinstance(node, ast.While) else self.value(node.iter)
        kind = self.loops.kind(node, over)
        within, again = self.arithmetic.within, self.repeating
        self.arithmetic.within = (*within, node)
        for _ in range(1 if again else 2):
            self.repeating = True
            if not isinstance(node, ast.While):
                self.bind(node.target, self.loops.element(over, kind, node))
            self.block(node.body)
            self.frame.left = False
        self.repeating, self.arithmetic.within = again, within
        if not isinstance(node, ast.While):
            self._give_back(node.target, node.iter)

    def _give_back(self, target: ast.expr, over: ast.expr) -> None:
        """`for total, p in zip(totals, params): total += ...` changes what is in the list."""
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match target, over:
            case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=lists):
                pairs = [*zip(names, lists, strict=False)]
            case ast.Name(), ast.Name():
                pairs = [(target, over)]
        for name, several in pairs:
            if isinstance(name, ast.Name) and isinstance(several, ast.Name):
                one, kept = self.frame.env.get(name.id), self.frame.look(several.id)
                if (
                    one is not None
                    and kept is not None
                    and (kept.each is not None or kept.zero)
                    and (one.noisy or one.clip)
                ):
                    self.frame.env[several.id] = replace(kept, each=one, zero=False, layers=True)

    def bind(self, target: ast.expr, thing: Thing) -> None:
        """A name, or several, get a value."""
        match target:
            case ast.Name(id=name):
                self.frame.env[name] = self._promised(thing) if self._promises(name, thing) else thing
            case ast.Attribute():
                self.frame.env[self._key(target)] = thing
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for at, part in enumerate(parts):
                    self.bind(part, self._part(thing, at))
            case ast.Subscript(value=inner):
                kept = self.value(inner)
                if thing.gradient and (kept.zero or kept.items == ()):
                    single = thing.rows is Rows.ONE and self.loops.is_in(self.arithmetic.within, Kind.RECORDS)
                    self.bind(inner, replace(thing, layer=False, rows=Rows.EACH if single else thing.rows))
                elif thing.gradient or thing.pure:
                    self.bind(inner, replace(kept, each=merged(kept.each, thing), zero=False))
            case ast.Starred(value=inner):
                self.bind(inner, thing)

    def _promised(self, thing: Thing) -> Thing:
        return replace(thing, gradient=True, rows=Rows.ONE if self.mapped > 0 else thing.rows)

    def _promises(self, name: str, thing: Thing) -> bool:
        """Whether a name says that something unknown is gradients."""
        told = thing.gradient or thing.special or thing.pure or thing.zero or thing.value is not None
        several = thing.items is not None or thing.each is not None or thing.function is not None
        return not told and not several and not thing.count and not thing.statistic and spelled.is_gradient(name)

    def _part(self, thing: Thing, at: int) -> Thing:
        if thing.items is not None:
            return thing.items[at] if at < len(thing.items) else OTHER
        if isinstance(thing.special, Shape):
            return self.calls.rows_of(thing.special.of, "len") if at == 0 else OTHER
        return thing if thing.handed else thing.each or (thing if thing.gradient else OTHER)

    def _key(self, node: ast.Attribute) -> str:
        """`self.noise` is one thing; `p.grad` is that of whatever layer."""
        owner = self.value(node.value) if not isinstance(node.value, ast.Name) or node.value.id != "self" else OTHER
        return f".{node.attr}" if owner.layer else ast.unparse(node)

    # --- expressions ----------------------------------------------------------------------------------------------------

    def _spend(self) -> None:
        self.steps += 1
        self.script.work.spend()
        if self.steps > MOST:
            raise Lost

    def value(self, node: ast.expr) -> Thing:
        """What an expression is."""
        self._spend()
        match node:
            case ast.Constant(value=bool() | str() | bytes() | None):
                return OTHER
            case ast.Constant(value=int() | float() as known):
                return constant(float(known)) if abs(known) < 1e300 else OTHER
            case ast.Name(id=name):
                found = self.frame.look(name)
                return found if found is not None else self.named(name)
            case ast.Attribute():
                return self._attribute(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp(operand=inside):
                thing = self.value(inside)
                return (
                    replace(thing, value=-thing.value)
                    if thing.value is not None and isinstance(node.op, ast.USub)
                    else thing
                )
            case ast.Call():
                return self.applied.of(node)
            case ast.Subscript():
                return self._element(node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compared(self.value(left), self.value(right), operator)
            case ast.IfExp(test=test, body=one, orelse=other):
                return self.calls.either(self.value(test), self.value(one), self.value(other))
            case _:
                return self._collected(node)

    def _collected(self, node: ast.expr) -> Thing:
        match node:
            case ast.Tuple(elts=several) | ast.List(elts=several):
                return Thing(items=tuple(map(self.value, several))) if several else Thing(zero=True, each=None)
            case ast.Dict(values=several):
                return Thing(items=tuple(map(self.value, several)))
            case (
                ast.ListComp(elt=inside)
                | ast.GeneratorExp(elt=inside)
                | ast.DictComp(value=inside)
                | ast.SetComp(elt=inside)
            ):
                return self._comprehension(node, inside)
            case ast.Lambda():
                return Thing(function=node)
            case ast.NamedExpr(target=target, value=value):
                made = self.value(value)
                self.bind(target, made)
                return made
            case ast.BoolOp(values=several):
                for one in several:
                    self.value(one)
                return OTHER
            case ast.JoinedStr(values=several):
                shown = [self.value(one.value) for one in several if isinstance(one, ast.FormattedValue)]
                return Thing(items=tuple(shown))
            case ast.Starred(value=inside) | ast.Await(value=inside):
                return self.value(inside)
            case _:
                return OTHER

    def _comprehension(self, node: ast.AST, inside: ast.expr) -> Thing:
        env, within = self.frame.env, self.arithmetic.within
        self.frame.env = dict(env)
        layers, records = False, False
        for part in getattr(node, "generators", []):
            over = self.value(part.iter)
            kind = self.loops.kind(part, over)
            layers, records = layers or kind is Kind.LAYERS or over.layers, records or kind is Kind.RECORDS
            self.arithmetic.within = (*self.arithmetic.within, part)
            self.bind(part.target, self.loops.element(over, kind, part))
        each = self.value(inside)
        self.frame.env, self.arithmetic.within = env, within
        if records and each.gradient and each.rows is Rows.UNKNOWN:
            each = replace(each, rows=Rows.ONE)
        return Thing(each=each, layers=layers)

    def _attribute(self, node: ast.Attribute) -> Thing:
        key = self._key(node)
        found = self.frame.look(key)
        if found is not None:
            return found
        name = node.attr
        owner = OTHER if last_name(node.value) == "self" else self.value(node.value)
        if name == "shape":
            return Thing(special=Shape(owner))
        if name in ("T", "data", "real"):
            return owner
        if name in ("size", "nbytes") and owner.mask:
            return self.calls.rows_of(owner, key)
        if name == "grad_sample":
            return Thing(gradient=True, rows=Rows.EACH, layer=owner.layer)
        if name in ("grad", "summed_grad"):
            single = self.is_single(node)
            return Thing(gradient=True, rows=Rows.ONE if single else Rows.UNKNOWN, layer=owner.layer)
        if spelled.is_gradient(name):
            return Thing(gradient=True, rows=Rows.EACH if spelled.EACH.search(name) else Rows.UNKNOWN)
        if spelled.LAYERS.fullmatch(name):
            return replace(number(key), layers=True)
        return number(key)

    def is_single(self, node: ast.AST) -> bool:
        """Whether gradients are those of single records here."""
        if self.mapped > 0:
            return True
        return self.loops.is_in(self.arithmetic.within, Kind.RECORDS) or self.loops.noise.goes_by_record(node)

    def _binary(self, node: ast.BinOp) -> Thing:
        one, other = self.value(node.left), self.value(node.right)
        known = arithmetic(node.op, one.value, other.value)
        if isinstance(known, int | float):
            return constant(float(known))
        match node.op:
            case ast.Add() | ast.Sub():
                if one.each is not None and other.each is not None:
                    return one
                return self.arithmetic.add(one, other, node, ast.unparse(node) if len(names_in(node)) < 9 else "")
            case ast.Mult():
                return self.arithmetic.multiply(one, other, node, same=ast.dump(node.left) == ast.dump(node.right))
            case ast.Div():
                return self.arithmetic.divide(one, other, node)
            case ast.FloorDiv():
                return replace(number(ast.unparse(node)), count=one.count)
            case ast.Pow() if other.value is not None and abs(other.value) < 9:
                return self.arithmetic.power(one, Fraction(other.value).limit_denominator(8))
            case ast.MatMult():
                return self.calls.over_records(one, other, node) or OTHER
            case _:
                return OTHER

    def _compared(self, one: Thing, other: Thing, operator: ast.cmpop) -> Thing:
        if isinstance(operator, ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            larger = isinstance(operator, ast.Gt | ast.GtE)
            if isinstance(one.special, Norm):
                return Thing(special=Compared(one.special, other, larger), statistic=one.statistic)
            if isinstance(other.special, Norm):
                return Thing(special=Compared(other.special, one, not larger), statistic=other.statistic)
            if isinstance(one.special, Ratio | Thing) or isinstance(other.special, Ratio):
                return OTHER
            if one.pure or other.pure:
                return Thing(mask=True)
        return Thing(statistic=(one.statistic or other.statistic) and not (one.noisy or other.noisy))

    def _element(self, node: ast.Subscript) -> Thing:
        owner, chosen = self.value(node.value), node.slice
        if isinstance(owner.special, Shape):
            if isinstance(chosen, ast.Constant) and chosen.value == 0:
                return self.calls.rows_of(owner.special.of, ast.unparse(node))
            return (
                Thing(special=Shape(owner.special.of, whole=False))
                if isinstance(chosen, ast.Slice)
                else number(ast.unparse(node))
            )
        if isinstance(chosen, ast.Tuple):
            return self._sliced(owner, chosen)
        if isinstance(chosen, ast.Constant):
            if owner.items is not None and isinstance(chosen.value, int) and chosen.value < len(owner.items):
                return owner.items[chosen.value]
            return owner.each or (
                replace(owner, rows=Rows.ONE) if owner.gradient and owner.rows is Rows.EACH else owner
            )
        if isinstance(chosen, ast.Slice):
            return owner
        index = self.value(chosen)
        if index.mask:
            return replace(owner, chosen=index.name != "picked", rows=Rows.EACH if owner.gradient else owner.rows)
        if owner.each is not None:
            return owner.each
        counted = (
            isinstance(chosen, ast.Name) and owner.gradient and self.loops.is_in(self.arithmetic.within, Kind.RECORDS)
        )
        return replace(owner, rows=Rows.ONE) if counted else owner

    def _sliced(self, owner: Thing, chosen: ast.Tuple) -> Thing:
        """`x[:, None]` is x; `x[:, a:b]` are some of its columns."""
        cut = any(
            isinstance(one, ast.Slice) and (one.lower is not None or one.upper is not None) for one in chosen.elts[1:]
        )
        first = self.value(chosen.elts[0]) if not isinstance(chosen.elts[0], ast.Slice) else OTHER
        owner = replace(owner, chosen=owner.chosen or (first.mask and first.name != "picked"))
        cut = cut or any(isinstance(one, ast.Name) and self.value(one).layer for one in chosen.elts[1:])
        return replace(owner, layer=True) if cut and owner.gradient else owner
