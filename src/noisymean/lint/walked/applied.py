"""Functions that are called: those of the file are gone through, lists and maps are put together, others are known by name."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, final

from noisymean.lint.walked import spelled
from noisymean.lint.walked.frames import Defined, Frame
from noisymean.lint.walked.loops import Kind
from noisymean.lint.walked.sums import Beside
from noisymean.lint.walked.things import OTHER, Clip, Norm, Rows, Thing, merged, number
from noisymean.probe.reading.nodes import last_name

if TYPE_CHECKING:
    from noisymean.lint.walked.walker import Walker

# How deep helpers go.
_DEEPEST = 5
# Called like what computes gradients, and computes none.
_SWITCHES = re.compile(r"^(no|zero|enable|is|set|has|requires|log|print|plot|save)_|norm|noise|scal|accum|check|step")
_IN_PLACE: dict[str, ast.operator] = {
    "add_": ast.Add(), "sub_": ast.Sub(), "mul_": ast.Mult(), "div_": ast.Div(), "iadd": ast.Add()
}  # fmt: skip


@final
class Applied:
    """The calls of one walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def of(self, node: ast.Call) -> Thing:
        name = last_name(node.func)
        if isinstance(node.func, ast.Call):
            # vmap(f)(rows), grad(loss)(weights)
            return self._made(node, node.func)
        found = self.walker.frame.look(name) if isinstance(node.func, ast.Name) else None
        function = found.function if found is not None else None
        if function is None and self.walker.script.syntax.defined[name] == 1:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if owner is None or last_name(owner) in ("self", "cls"):
                function = self.walker.loops.functions.get(name)
        if function is not None:
            return self._inline(function, [self.walker.value(one) for one in node.args], node)
        if spelled.TOLD.fullmatch(name):
            self._tell(node, name)
        if name in _IN_PLACE and isinstance(node.func, ast.Attribute) and node.args:
            return self._in_place(node, node.func.value, _IN_PLACE[name])
        special = self._of_lists(node, name)
        return special if special is not None else self.walker.calls.of(node, name) or self._unknown(node, name)

    def _in_place(self, node: ast.Call, owner: ast.expr, operator: ast.operator) -> Thing:
        """`total.add_(g, alpha=a)`."""
        value: ast.expr = node.args[0]
        factor = spelled.keyword(node, "alpha", "value")
        if factor is not None:
            value = ast.BinOp(factor, ast.Mult(), value)
        if isinstance(owner, ast.Name | ast.Attribute | ast.Subscript):
            self.walker.augmented(ast.copy_location(ast.AugAssign(owner, operator, value), node), node)
        return self.walker.value(owner)

    def _tell(self, node: ast.Call, name: str) -> None:
        given = [self.walker.value(one) for one in (*node.args, *(one.value for one in node.keywords))]
        if (
            name == "append"
            and isinstance(node.func, ast.Attribute)
            and not self.walker.script.syntax.is_module(node.func.value)
        ):
            for one in given[:1]:
                kept = self.walker.value(node.func.value)
                kind = self.walker.loops.innermost(self.walker.arithmetic.within)
                records = kind is Kind.RECORDS and one.rows is Rows.UNKNOWN and one.gradient
                one = replace(one, rows=Rows.ONE) if records else one
                if isinstance(node.func.value, ast.Name | ast.Attribute):
                    self.walker.bind(node.func.value, Thing(each=merged(kept.each, one), layers=kind is Kind.LAYERS))
        flat = [each for one in given for each in (one.items if one.items is not None else (one,))]
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "append" and (len(node.args) > 1 or not isinstance(owner, ast.Attribute)):
            # a list of the function's own shows nothing yet
            return
        self.walker.seen.beside.append(Beside(node, tuple(flat), self.walker.arithmetic.within, told=True))

    def _of_lists(self, node: ast.Call, name: str) -> Thing | None:
        arguments = node.args
        match name:
            case "zip":
                several = [self.walker.value(one) for one in arguments if not isinstance(one, ast.Starred)]
                return Thing(items=tuple(several), name="zip", layers=any(one.layers for one in several))
            case "enumerate" if arguments:
                inside = self.walker.value(arguments[0])
                return Thing(items=(number("index"), inside), name="zip", layers=inside.layers)
            case "append" | "concatenate" | "hstack" | "cat" if self._puts_beside(node):
                return None
            case "map" | "tree_map" | "tree_multimap" if len(arguments) > 1:
                return self._mapped(arguments[0], [self.walker.value(one) for one in arguments[1:]], node, Kind.LAYERS)
            case "split" | "array_split" | "hsplit" | "chunk" | "tensor_split" if (
                arguments and spelled.reduced(node, 9) == 1
            ) or name == "hsplit":
                owner = node.func.value if isinstance(node.func, ast.Attribute) else None
                of_module = owner is None or self.walker.script.syntax.is_module(owner)
                whole = self.walker.value(arguments[0] if of_module or owner is None else owner)
                return Thing(each=replace(whole, layer=True), layers=True) if whole.gradient else None
            case "tree_flatten" | "flatten" if arguments and "tree" in ast.unparse(node.func):
                inside = self.walker.value(arguments[0])
                leaves = Thing(each=replace(inside, layer=True), layers=True) if inside.gradient else OTHER
                return Thing(items=(leaves, OTHER))
            case "tree_unflatten" | "unflatten" if len(arguments) > 1 and "tree" in ast.unparse(node.func):
                return self.walker.value(arguments[1])
            case "items" | "values" if isinstance(node.func, ast.Attribute):
                inside = self.walker.value(node.func.value)
                return Thing(items=(OTHER, inside), name="zip", layers=inside.layers) if name == "items" else inside
            case _:
                pass
        if spelled.LAYERS.fullmatch(name):
            inside = self.walker.value(arguments[0]) if arguments else OTHER
            return (
                Thing(each=replace(inside.each or inside, layer=True), layers=True)
                if inside.gradient or inside.each
                else replace(number("layer"), layers=True)
            )
        return None

    def _puts_beside(self, node: ast.Call) -> bool:
        given = [self.walker.value(one) for one in node.args]
        flat = [each for one in given for each in (one.items if one.items is not None else (one,))]
        self.walker.seen.beside.append(Beside(node, tuple(flat), self.walker.arithmetic.within))
        return True

    def _made(self, node: ast.Call, maker: ast.Call) -> Thing:
        """A call of what a call gives."""
        name, things = last_name(maker.func), [self.walker.value(one) for one in node.args]
        if name in ("vmap", "vectorized_map", "pmap") and maker.args:
            return self._mapped(maker.args[0], things, node, Kind.RECORDS)
        if name in ("grad", "value_and_grad", "jacrev", "filter_grad", "filter_value_and_grad"):
            gradient = Thing(gradient=True, rows=Rows.ONE if self.walker.is_single(node) else Rows.UNKNOWN)
            return Thing(items=(OTHER, gradient)) if "value" in name else gradient
        return OTHER

    def _mapped(self, function: ast.expr, things: list[Thing], node: ast.Call, kind: Kind) -> Thing:
        found = self.walker.value(function).function if not isinstance(function, ast.Call) else None
        if isinstance(function, ast.Call) and last_name(function.func) in ("grad", "value_and_grad"):
            return Thing(gradient=True, rows=Rows.EACH) if kind is Kind.RECORDS else OTHER
        if found is None and kind is Kind.RECORDS and things and spelled.NORMS.fullmatch(last_name(function)):
            return Thing(special=Norm(things[0], axis=1))
        if found is None:
            return things[0] if kind is Kind.LAYERS and things and things[0].gradient else OTHER
        if kind is Kind.RECORDS:
            each = [replace(one, rows=Rows.ONE, chosen=False) if one.gradient else one for one in things]
        else:
            each = [replace(one.each or one, layer=True) if one.gradient or one.each else one for one in things]
        self.walker.mapped += kind is Kind.RECORDS
        made = self._inline(found, each, node)
        self.walker.mapped -= kind is Kind.RECORDS
        if kind is Kind.RECORDS:
            return replace(made, rows=Rows.EACH) if made.gradient and made.rows is not Rows.SUM else made
        return replace(made, layer=False) if made.gradient else made

    def _inline(self, function: Defined | ast.Lambda, arguments: list[Thing], call: ast.Call) -> Thing:
        if self.walker.depth >= _DEEPEST:
            return OTHER
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        given = dict(zip(names, arguments, strict=False))
        given |= (
            {one.arg: self.walker.value(one.value) for one in call.keywords if one.arg is not None}
            if not isinstance(function, ast.Lambda)
            else {}
        )
        around, within = self.walker.frame, self.walker.arithmetic.within
        frame = Frame({}, around)
        if not isinstance(function, ast.Lambda):
            self.walker.called.add(function)
            self.walker.parameters(function, frame)
        frame.env.update(given)
        self.walker.frame, self.walker.depth = frame, self.walker.depth + 1
        self.walker.arithmetic.within = (*within, function)
        try:
            if isinstance(function, ast.Lambda):
                return self.walker.value(function.body)
            self.walker.block(function.body)
        finally:
            self.walker.frame, self.walker.depth, self.walker.arithmetic.within = around, self.walker.depth - 1, within
        result: Thing | None = None
        for one in frame.given:
            result = merged(result, one)
        return result or OTHER

    def _unknown(self, node: ast.Call, name: str) -> Thing:
        """A function of somebody else's: gradients by its name, clipped by its name."""
        things = [self.walker.value(one) for one in node.args]
        if name in ("backward", "zero_grad"):
            self.walker.frame.env.pop(".grad", None)
            return OTHER
        if "clip" in name.lower():
            return self._clipped_by_name(node, things)
        if spelled.DIFFERENTIATES.fullmatch(name) and not _SWITCHES.search(name):
            each = bool(spelled.EACH.search(name))
            single = not each and self.walker.is_single(node)
            return Thing(gradient=True, rows=Rows.EACH if each else Rows.ONE if single else Rows.UNKNOWN)
        return OTHER

    def _clipped_by_name(self, node: ast.Call, things: list[Thing]) -> Thing:
        """A function of somebody else's that is called so; one that is handed the parameters of a model clips their gradients."""
        array = next((one for one in things if one.gradient), None)
        bound = spelled.keyword(node, "max_norm", "clip_norm", "max_grad_norm")
        limit = self.walker.value(bound) if bound is not None else things[1] if len(things) > 1 else OTHER
        if array is None:
            single = self.walker.is_single(node)
            array = Thing(gradient=True, rows=Rows.ONE if single else Rows.UNKNOWN, layer=True)
            self.walker.frame.env[".grad"] = replace(array, clip=Clip(node, array, None, limit, "named", layer=False))
            return OTHER
        return replace(array, clip=Clip(node, array, None, limit, "named", layer=False), scale=())
