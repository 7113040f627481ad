"""What a call gives: reductions, norms, draws, limits, and what only keeps its array."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import final

from noisymean.lint import constants
from noisymean.lint.walked import spelled
from noisymean.lint.walked.sums import Arithmetic
from noisymean.lint.walked.things import (
    DRAWN,
    HALF,
    HANDED,
    OTHER,
    Clip,
    Compared,
    Draw,
    Norm,
    Power,
    Ratio,
    Rows,
    Shape,
    Thing,
    constant,
    merged,
    number,
    to_the,
)

_ONE = Fraction(1)


@final
class Calls:
    """Of one walk; `value` evaluates an expression."""

    def __init__(
        self, arithmetic: Arithmetic, value: Callable[[ast.expr], Thing], is_module: Callable[[ast.expr], bool]
    ):
        self.arithmetic, self.value, self.is_module = arithmetic, value, is_module

    def of(self, call: ast.Call, name: str) -> Thing | None:
        """None where nothing is known of a function of that name."""
        module = isinstance(call.func, ast.Attribute) and self.is_module(call.func.value)
        operands = spelled.arrays_of(call, is_module=module)
        method = isinstance(call.func, ast.Attribute) and not module
        if name in constants.CALLS and not method and not call.keywords:
            known = constants.called(name, [one.value for one in self._things(operands)])
            if known is not None:
                return constant(float(known))
        for pattern, made in self._TABLE:
            if pattern.fullmatch(name):
                found = made(self, call, name, operands, method)
                if found is not None:
                    return found
        return None

    def _things(self, nodes: Sequence[ast.expr]) -> list[Thing]:
        return [self.value(one) for one in nodes]

    # --- draws ----------------------------------------------------------------------------------------------------------

    def draw(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """Random numbers, with their scale and whether there is a row for each record."""
        law = next(
            law
            for law, pattern in (
                ("normal", spelled.NORMAL), ("uniform", spelled.UNIFORM), ("laplace", spelled.LAPLACE), ("cut", spelled.CUT)
            )
            if pattern.fullmatch(name)
        )  # fmt: skip
        arguments = [one for one in call.args if not isinstance(one, ast.Starred)]
        in_place = name.endswith("_") and method
        scale_at = None if re.fullmatch(r"rand\w*|random(_sample)?|standard_\w+", name) else 1
        if isinstance(call.func, ast.Attribute) and "random" in ast.unparse(call.func) and self._is_jax(call):
            scale_at = None
        scale = spelled.keyword(call, "scale", "std", "stddev", "sigma", "cov", "covariance", "high")
        if scale is None and scale_at is not None and len(arguments) > scale_at:
            scale = arguments[scale_at]
        if scale is None and law == "laplace" and len(arguments) > 1:
            scale = arguments[1]
        told = self.value(scale) if scale is not None else Thing(value=1.0)
        if told.special is not None or told.items is not None:
            told = number("?")
        power = HALF if name.startswith("multivariate") else _ONE
        each = any(
            self._has_rows(one, name)
            for one in (*arguments, *(k.value for k in call.keywords if k.arg in ("size", "shape")))
        )
        if in_place and isinstance(call.func, ast.Attribute):
            each = self.value(call.func.value).rows is Rows.EACH
        half = spelled.is_half(spelled.keyword(call, "dtype")) or any(map(spelled.is_half, arguments))
        made = Draw(call, law, each=each, half=half, within=self.arithmetic.within)
        return Thing(draws=(made,), pure=True, scale=to_the(told.scale, power), count=False)

    def _is_jax(self, call: ast.Call) -> bool:
        text = ast.unparse(call.func)
        return text.startswith(("jax.", "jrandom.", "jr."))

    def _has_rows(self, node: ast.expr, name: str) -> bool:
        """Whether a draw of that shape, or like that array, has a row for each record."""
        if isinstance(node, ast.Constant):
            return False
        thing = self.value(node)
        if isinstance(thing.special, Shape) and thing.special.whole:
            return thing.special.of.rows is Rows.EACH
        if thing.items:
            return thing.items[0].count and len(thing.items) > 1
        return name.endswith("_like") and thing.rows is Rows.EACH

    # --- reductions -----------------------------------------------------------------------------------------------------

    def total(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`sum` and `mean`."""
        if not operands:
            return None
        thing, axis = self.value(operands[0]), spelled.reduced(call, 0 if method else 1)
        mean = bool(spelled.MEANS.fullmatch(name))
        if isinstance(thing.special, Power):
            return self._norm_of_power(thing.special, axis, mean=mean)
        if thing.mask:
            return self._counted() if not mean else Thing(statistic=True, count=True)
        if isinstance(thing.special, Compared):
            return Thing(statistic=True)
        if isinstance(thing.special, Norm):
            layers = thing.special.layer and not mean
            whole = replace(thing.special, layer=False)
            return replace(thing, special=whole) if layers else Thing(statistic=True, name=ast.unparse(call))
        if thing.each is not None:
            return self._over_list(thing, call)
        python = isinstance(call.func, ast.Name) and not method
        along = axis == 0 or (python and axis is None and not thing.layer)
        if (thing.gradient or thing.clip is not None) and along and thing.rows is not Rows.SUM:
            return self.arithmetic.summed(thing, call, mean=mean)
        if thing.gradient and not thing.noisy and axis is None:
            return Thing(statistic=True)
        return thing if thing.noisy else replace(thing, special=None)

    def _over_list(self, thing: Thing, call: ast.Call) -> Thing:
        """Of a list: over records, over layers."""
        each = thing.each or OTHER
        if isinstance(each.special, Norm):
            return replace(each, special=replace(each.special, layer=False))
        if each.gradient and not thing.layers:
            return self.arithmetic.summed(each, call)
        return each if each.noisy or each.clip else OTHER

    def _norm_of_power(self, power: Power, axis: int | None, *, mean: bool) -> Thing:
        order = "?" if mean else "2" if power.kind == "squares" else "1"
        return Thing(special=Norm(power.of, order, axis, squared=power.kind == "squares", layer=power.of.layer))

    def spread(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`max`, `median`, `std`: a norm of absolute values, or a statistic of the records."""
        if not operands:
            return None
        python = isinstance(call.func, ast.Name) and not call.keywords
        several = name in spelled.LIMITS and not method and len(operands) > 1
        if several and (python or not self._is_axis(operands[1])):
            return self.arithmetic.limited(self._things(operands), spelled.LIMITS[name])
        thing, axis = self.value(operands[0]), spelled.reduced(call, 0 if method else 1)
        if isinstance(thing.special, Power):
            return Thing(
                special=Norm(
                    thing.special.of,
                    "inf" if thing.special.kind == "absolute" else "?",
                    axis,
                    layer=thing.special.of.layer,
                )
            )
        if isinstance(thing.special, Norm):
            return Thing(statistic=True, name=ast.unparse(call))
        if thing.gradient and axis == 0 and thing.rows is not Rows.SUM:
            return replace(thing, rows=Rows.SUM, statistic=True, computed=call)
        return Thing(statistic=thing.gradient and not thing.noisy, name=ast.unparse(call))

    def _is_axis(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value in (0, 1)

    def norm(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """A norm of an array, or of the norms of its layers."""
        if not operands:
            return None
        thing = self.value(operands[0])
        first = call.args if method else call.args[1:]
        order = spelled.keyword(call, "ord", "p") or (first[0] if first else None)
        axis = spelled.keyword(call, "axis", "dim") or (first[1] if len(first) > 1 else None)
        of, kind, along = thing, spelled.order_of(order), spelled.axis_of(axis)
        inner = thing.each.special if thing.each is not None else thing.special
        if isinstance(inner, Norm):
            same = inner.order == kind == "2" and not inner.squared
            return Thing(special=replace(inner, order="2" if same else "?", layer=False))
        if thing.each is not None:
            # of all layers together
            return Thing(special=Norm(thing.each, kind, along))
        if not (thing.gradient or thing.clip is not None) and thing.items is None and not thing.noisy:
            return (
                Thing(special=Norm(of, kind, along, layer=thing.layer))
                if thing.layer
                else Thing(special=Norm(of, "?", along))
            )
        if thing.rows is Rows.SUM and not thing.noisy:
            return Thing(special=Norm(of, kind, along, layer=thing.layer), statistic=True)
        return Thing(special=Norm(of, kind, along, layer=thing.layer))

    # --- limits ---------------------------------------------------------------------------------------------------------

    def clamp(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """Between two numbers."""
        if not operands:
            return None
        thing, rest = self.value(operands[0]), operands[1:]
        low = spelled.keyword(call, "min", "a_min", "clip_value_min", "min_value")
        high = spelled.keyword(call, "max", "a_max", "clip_value_max", "max_value")
        if rest and name.rstrip("_").endswith("max"):
            high = rest[0]
        elif rest:
            low = rest[0]
            high = rest[1] if len(rest) > 1 else high
        lower, upper = (None if self._is_none(one) else one for one in (low, high))
        if thing.pure:
            return replace(thing, draws=tuple(replace(one, cut=True) for one in thing.draws))
        if isinstance(thing.special, Ratio) and not thing.special.limit:
            return self._clamped_ratio(thing, thing.special, lower, upper)
        if thing.gradient and thing.clip is None and not thing.noisy and lower is not None and upper is not None:
            return self._by_value(call, thing, lower, upper)
        if isinstance(thing.special, Norm) and lower is not None and upper is None:
            return self.arithmetic.limited([thing, self.value(lower)], "max")
        if isinstance(thing.special, Norm) and upper is not None and lower is None:
            return self.arithmetic.limited([thing, self.value(upper)], "min")
        return thing

    def _clamped_ratio(self, thing: Thing, ratio: Ratio, lower: ast.expr | None, upper: ast.expr | None) -> Thing:
        low, high = (None if one is None else self.value(one).value for one in (lower, upper))
        if ratio.inverse:
            limit = "right" if low == 1 else "wrong" if high == 1 else ""
        else:
            limit = "right" if high == 1 else "wrong" if low == 1 else ""
        return replace(thing, special=replace(ratio, limit=limit or "?"))

    def _by_value(self, call: ast.Call, thing: Thing, lower: ast.expr, upper: ast.expr) -> Thing:
        match lower:
            case ast.UnaryOp(op=ast.USub(), operand=inside) if ast.dump(inside) == ast.dump(upper):
                bound = self.value(upper)
                clip = Clip(call, thing, Norm(thing, "coordinates"), bound, "right", thing.layer)
                self.arithmetic.seen.clips.append(clip)
                return replace(thing, clip=clip)
            case _:
                return thing

    def _is_none(self, node: ast.expr | None) -> bool:
        return node is None or (isinstance(node, ast.Constant) and node.value is None)

    def choose(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`where`."""
        things = self._things(operands)
        if len(things) != 3:
            return None
        return self.either(things[0], things[1], things[2])

    def either(self, test: Thing, one: Thing, other: Thing) -> Thing:
        """Of two things, by a test."""
        if isinstance(test.special, Compared):
            for first, ratio, rest in ((True, one, other), (False, other, one)):
                if isinstance(ratio.special, Ratio) and not ratio.special.limit and rest.value == 1:
                    right = first == test.special.larger
                    right = right if not ratio.special.inverse else not right
                    return replace(ratio, special=replace(ratio.special, limit="right" if right else "wrong"))
        if test.mask and other.zero:
            return replace(one, chosen=True)
        return merged(one, other)

    # --- what is kept ---------------------------------------------------------------------------------------------------

    def same(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """The array itself, in another shape or type."""
        if not operands:
            return None
        thing = self.value(operands[0])
        half = spelled.is_half(spelled.keyword(call, "dtype")) or any(
            map(spelled.is_half, call.args[0 if method else 1 :])
        )
        if half and thing.pure:
            return replace(thing, draws=tuple(replace(one, half=True) for one in thing.draws))
        return thing

    def halved(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`.half()`, `jnp.float16(x)`."""
        thing = self.value(operands[0]) if operands else OTHER
        return replace(thing, draws=tuple(replace(one, half=True) for one in thing.draws)) if thing.pure else thing

    def gathered(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """A list made into an array: of records, or of layers."""
        if not operands:
            return None
        thing = self.value(operands[0])
        if thing.items:
            noisy = [one for one in thing.items if one.noisy]
            if noisy:
                return None
            clips = [one for one in thing.items if one.clip is not None]
            return (
                replace(clips[0], layer=False)
                if clips
                else replace(merged(thing.items[0], thing.items[-1]), layer=False)
            )
        if thing.each is None:
            return thing
        if thing.layers:
            return replace(thing.each, layer=False)
        return replace(thing.each, rows=Rows.EACH) if thing.each.rows is Rows.ONE else thing.each

    def zeros(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """Nought everywhere."""
        return Thing(zero=True)

    def ones(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """One everywhere: a number in a product."""
        return Thing(value=1.0)

    def root(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`sqrt`."""
        return self.arithmetic.power(self.value(operands[0]), HALF) if operands else None

    def squared(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`square`, `pow`."""
        if not operands:
            return None
        thing = self.value(operands[0])
        to = self.value(operands[1]).value if len(operands) > 1 else 2 if name.startswith("square") else None
        return (
            self.arithmetic.power(thing, Fraction(to).limit_denominator(8)) if to is not None and abs(to) < 9 else OTHER
        )

    def absolute(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`abs`."""
        thing = self.value(operands[0]) if operands else OTHER
        return Thing(special=Power(thing, "absolute")) if thing.gradient else thing

    # --- records --------------------------------------------------------------------------------------------------------

    def length(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """How many rows there are."""
        return self.rows_of(self.value(operands[0]), ast.unparse(call)) if operands else None

    def rows_of(self, thing: Thing, text: str) -> Thing:
        """The number of rows of an array: of those who were drawn, if these were chosen."""
        if thing.chosen or (thing.mask and thing.count):
            return self._counted()
        return Thing(count=True, scale=((HANDED, _ONE),), name=HANDED) if thing.handed else number(text)

    def _counted(self) -> Thing:
        return Thing(count=True, scale=((DRAWN, _ONE),), name=DRAWN)

    def found(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """The numbers of those who were drawn: their length is how many there are."""
        thing = self.value(operands[0]) if len(operands) == 1 else OTHER
        return Thing(mask=True, count=True, chosen=True) if thing.mask else None

    def counts(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`count_nonzero`."""
        return self._counted() if operands and self.value(operands[0]).mask else None

    def picks(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """Numbers of records by chance; how many there are is told."""
        return Thing(mask=True, name="picked")

    def contracted(self, call: ast.Call, name: str, operands: list[ast.expr], method: bool) -> Thing | None:
        """`einsum`, `tensordot`, `dot`: a sum over records, or a square of a norm."""
        pattern = next(
            (one.value for one in operands if isinstance(one, ast.Constant) and isinstance(one.value, str)), None
        )
        arrays = [one for one in operands if not isinstance(one, ast.Constant)]
        if len(arrays) != 2:
            return None
        same = ast.dump(arrays[0]) == ast.dump(arrays[1])
        one, other = self._things(arrays)
        if same:
            axis = 1 if pattern and not re.search(r"->\s*$", pattern) else None
            return Thing(special=Norm(one, "2", axis, squared=True, layer=one.layer)) if one.gradient else None
        return self.over_records(one, other, call, pattern)

    def over_records(self, one: Thing, other: Thing, node: ast.AST, pattern: str | None = None) -> Thing | None:
        """The sum over records of factors, or of a mask, times rows."""
        for factor, rows in ((one, other), (other, one)):
            fits = isinstance(factor.special, Ratio) or factor.mask
            if fits and (rows.gradient or rows.clip is not None):
                found = self.arithmetic.multiply(factor, rows, node)
                first = "" if pattern is None else re.sub(r"\W", "", pattern.partition(",")[0])[:1]
                kept = pattern is not None and first in pattern.partition("->")[2]
                return found if kept else self.arithmetic.summed(found, node)
        return None

    _TABLE: tuple[tuple[re.Pattern[str], Callable[[Calls, ast.Call, str, list[ast.expr], bool], Thing | None]], ...] = (
        (re.compile("|".join(one.pattern for one in (spelled.NORMAL, spelled.UNIFORM, spelled.LAPLACE, spelled.CUT))), draw),
        (spelled.SUMS, total),
        (spelled.MEANS, total),
        (re.compile("|".join((spelled.SPREADS.pattern, *spelled.LIMITS))), spread),
        (spelled.NORMS, norm),
        (spelled.CLAMPS, clamp),
        (re.compile("where|select"), choose),
        (spelled.FINDS, found),
        (spelled.GATHERS, gathered),
        (re.compile(r"(zeros|empty)(_like)?"), zeros),
        (re.compile(r"ones(_like)?|eye|identity"), ones),
        (re.compile(r"sqrt_?"), root),
        (re.compile(r"square_?|pow_?|power|float_power"), squared),
        (re.compile(r"abs|absolute|fabs|abs_"), absolute),
        (re.compile(r"half|b?float16|bfloat16"), halved),
        (re.compile(r"len"), length),
        (re.compile(r"count_nonzero"), counts),
        (spelled.CHOOSES, picks),
        (re.compile(r"einsum|tensordot|dot|vdot|matmul|inner|mm|mv"), contracted),
        (spelled.SAME, same),
    )  # fmt: skip
