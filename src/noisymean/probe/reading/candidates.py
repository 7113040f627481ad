"""Which divisions matter: what each divides, by what, and how sure that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import TypeAlias, final

from noisymean.probe.reading.flow import Contents, Flow, by_name
from noisymean.probe.reading.nodes import Division, Product, Scope, Trail, Value, last_name, names_in, parts
from noisymean.probe.reading.origins import DEPTH, Origins
from noisymean.probe.reading.source import CONSTANTS, OF_THE_DATA, Origin, Role, Statement, Sure
from noisymean.probe.reading.syntax import NOT_SIZES, Syntax
from noisymean.probe.reading.work import Exhausted

_PLACEHOLDER = re.compile(r"^[gvx]$")
_SIZE = re.compile(
    r"batch|bsize|bsz|normalize_by|normalizer|denominator|sample_size|lot_size|num_(samples|examples|records)",
    re.IGNORECASE,
)
# What is measured of a run and not released by it. A learning rate is not among them: it multiplies what is released.
_MEASURED = re.compile(
    r"loss|accura|^acc$|_acc$|correct|metric|elapsed|seconds|duration|^time|_time$|perplex|auc|f1|precision|recall|score|throughput"
    r"|percent|progress|speed|(sample|sampling|hit|error)_?rate|^q$|^delta$|steps|epochs?$|^eps(ilon)?$|hits|total_seen",
    re.IGNORECASE,
)
_LOSS = re.compile(r"loss(?!_?(scale|factor|weight))|accura|perplex|auc$", re.IGNORECASE)
_SETTING = re.compile(
    r"batch|size|epoch|steps|num|^[nbltq]$|lot|len|total|dataset|data|loader|range|float|int|math|ceil", re.IGNORECASE
)
# A factor of this name may be a reciprocal; a step length or a noise multiplier is none.
_FACTOR = re.compile(r"scal|inv|recip|factor|coef|weight|normali", re.IGNORECASE)
_KEEPS_VALUE = re.compile(
    r"float|min|max|minimum|maximum|clamp|clip|tensor|as_tensor|array|asarray|abs|float32|float64|sqrt|where|stop_gradient"
)
_DEVIATION = re.compile(r"noise_(mult|s)|stddev|sigma|^std$", re.IGNORECASE)
_PRINTS = re.compile(r"print|debug|info|warning|error|log|set_postfix|set_description|add_scalars?")
_LONGEST = 200
# above the line, if anything is, and below it
_Fraction: TypeAlias = tuple[Value | None, Value]


@final
class Candidates:
    """The divisions of a package that are, or may be, of something noisy."""

    def __init__(self, syntax: Syntax) -> None:
        self._syntax, self._flow = syntax, Flow(syntax)
        # denominators that were met as a factor already: they are not listed twice
        self._met: set[ast.AST] = set()
        # scopes in which noise or gradients are handled, or near by
        self._handles: dict[Scope, bool] = {}
        self._near: dict[Scope, bool] = {}

    def statements(self) -> Iterator[Statement]:
        """All of them; products first, since a reciprocal belongs to what it multiplies."""
        for product in self._syntax.products:
            yield from self._followed(product, self._product(product))
        for division in self._syntax.divisions:
            if division.by is None:
                yield from self._followed(division, self._mean(division))
            elif division.by not in self._met:
                yield from self._followed(division, self._division(division, division.by))

    def _followed(self, at: Division | Product, found: Iterator[Statement]) -> list[Statement]:
        """What is found at one place; where it leads further than anything is followed, its file was not read to the end."""
        file = at.scope.module
        self._syntax.work.begin(file)
        try:
            return list(found)
        except (Exhausted, RecursionError):
            self._syntax.unfollowed.add(file)
            return []

    # --- x / n ---------------------------------------------------------------------------------------------------------

    def _division(self, one: Division, by: ast.expr) -> Iterator[Statement]:
        role, sure = self._what(one, one.divided)
        origins = self._origins(by, one)
        if role is None and any(_DEVIATION.search(name) for name in names_in(one.divided)):
            # sigma C / n is the noise of a mean
            role, sure = (Role.NOISE, Sure.NAMED) if _is_sized(by) or origins & OF_THE_DATA else (None, sure)
        if role is not None and sure is Sure.FOLLOWED and self._is_measured(one):
            role = role if self._contents(one) is Contents.NOISE else None
        if role is not None:
            split = NOT_SIZES.search(last_name(by)) and origins <= CONSTANTS
            if not split and not self._clips(one, origins):
                yield self._statement(one, one.divided, by, role, origins, sure)
        elif self._may_matter(one, by, origins):
            yield self._statement(one, one.divided, by, Role.UNCLEAR, origins, Sure.UNSURE)

    def _what(self, at: Division | Product, node: ast.expr) -> tuple[Role | None, Sure]:
        """What is divided, by name or by following it."""
        contents = self._flow.of(Value(node, at.scope))
        # of what is printed, names tell nothing: the norm of something noisy is not released
        named = None if _is_printed(at.statement) else _role(at, node)
        if named is not None:
            return named, Sure.NAMED
        return (Role.GRADIENT, Sure.FOLLOWED) if contents >= Contents.GRADIENT else (None, Sure.UNSURE)

    def _clips(self, one: Division | Product, origins: set[Origin]) -> bool:
        """Divided by a norm while there is no noise in it yet."""
        if Origin.NORM not in origins or origins - CONSTANTS - {Origin.NORM}:
            return False
        line = getattr(one.statement, "lineno", 0)
        nodes = [one.divided] if isinstance(one, Division) else [one.left, one.right]
        return all(self._flow.of(Value(node, one.scope), before=line) is not Contents.NOISE for node in nodes)

    def _may_matter(self, one: Division, by: ast.expr, origins: set[Origin]) -> bool:
        """Whether something that is not seen to be noisy might be, and is divided by what might follow the data."""
        if origins <= CONSTANTS | {Origin.NORM} or self._is_measured(one):
            return False
        if isinstance(one.node, ast.BinOp) and isinstance(one.node.op, ast.FloorDiv):
            # arithmetic with whole numbers
            return False
        return _is_sized(by) or bool(origins & (OF_THE_DATA | {Origin.PASSED})) or self._near_noise(one.scope)

    def _is_measured(self, one: Division) -> bool:
        """A loss, an accuracy, a rate: unless it is propagated back, as a loss is that is scaled before clipping."""
        if self._is_propagated_back(one):
            return False
        if _is_printed(one.statement):
            return True
        # a sum of gradients and something else is not measured, whatever the something is called
        mixed = isinstance(one.divided, ast.BinOp) and self._contents(one) >= Contents.GRADIENT
        if not mixed and any(_MEASURED.search(name) for name in names_in(one.divided)):
            return True
        results = _assigned(one.statement)
        if any(map(_LOSS.search, results)):
            return True
        # other names of the result tell only if nothing of an array is in it
        if not all(map(_SETTING.search, names_in(one.divided))) and self._contents(one) is not Contents.OTHER:
            return False
        if isinstance(one.statement, ast.Return | ast.Expr) and one.scope.name:
            results.append(one.scope.name)
        return any(_MEASURED.search(name) for name in results)

    def _is_propagated_back(self, one: Division) -> bool:
        backwards = {(id(one.scope), name) for name in _assigned(one.statement)} & self._syntax.backwards
        return one.node in self._syntax.backward_nodes or bool(backwards)

    def _contents(self, one: Division) -> Contents:
        return self._flow.of(Value(one.divided, one.scope))

    def _near_noise(self, scope: Scope) -> bool:
        """Whether the function, one around it or one that calls it, handles noise or gradients."""
        if scope not in self._near:
            called = self._syntax.calls.get(scope.name, []) if scope.name else []
            around = dict.fromkeys((*scope.outwards(), *(caller for _, caller in called)))
            self._syntax.work.spend(len(called) + len(around))
            self._near[scope] = any(map(self._handles_noise, around))
        return self._near[scope]

    def _handles_noise(self, scope: Scope) -> bool:
        if scope not in self._handles:
            self._handles[scope] = any(map(_is_named, scope.names))
        return self._handles[scope]

    # --- x.mean(0) -----------------------------------------------------------------------------------------------------

    def _mean(self, one: Division) -> Iterator[Statement]:
        if isinstance(one.node, ast.Call) and last_name(one.node.func) in self._syntax.defined:
            # a function of the package that is called average
            return
        role, sure = self._what(one, one.divided)
        over_records = _axis(one.node) == 0
        if role is not None and _role(one, one.divided) is None and self._is_measured(one):
            role = role if self._contents(one) is Contents.NOISE else None
        matters = over_records and not self._is_measured(one) and self._near_noise(one.scope)
        if role is None and not matters and not self._is_propagated_back(one):
            return
        origins = {Origin.BATCH if over_records and role is not None else Origin.UNKNOWN}
        yield self._statement(one, one.divided, None, role or Role.UNCLEAR, origins, sure)

    # --- x * (1 / n) ---------------------------------------------------------------------------------------------------

    def _product(self, one: Product) -> Iterator[Statement]:
        for what, factor in ((one.left, one.right), (one.right, one.left)):
            if isinstance(factor, ast.Constant) or isinstance(what, ast.Constant):
                continue
            role, sure = self._what(one, what)
            contents = self._flow.of(Value(what, one.scope))
            measured = any(_MEASURED.search(name) for name in (*names_in(what), *names_in(factor)))
            hardly = measured and sure is not Sure.NAMED and contents is not Contents.NOISE
            if role is None or hardly or self._flow.of(Value(factor, one.scope)) >= Contents.GRADIENT:
                continue
            found = list(self._reciprocals(Value(factor, one.scope), Trail(DEPTH)))
            for above, below in found:
                origins = self._origins(below.expression, one, below.scope)
                varies = above is not None and self._origins(above.expression, one, above.scope) - CONSTANTS
                if origins <= CONSTANTS and varies:
                    # a constant below and something else above
                    origins = origins | {Origin.UNKNOWN}
                self._met.add(below.expression)
                if not self._clips(one, origins):
                    yield self._statement(one, what, below.expression, role, origins, sure)
            if not found and contents is Contents.NOISE:
                origins = self._origins(factor, one)
                strange = any(_FACTOR.search(name) or _SIZE.search(name) for name in names_in(factor))
                if origins & OF_THE_DATA or (strange and not origins <= CONSTANTS):
                    yield self._statement(one, what, factor, Role.UNCLEAR, {Origin.UNKNOWN}, Sure.UNSURE)

    def _reciprocals(self, value: Value, trail: Trail) -> Iterator[_Fraction]:
        """The fractions that a factor is made of: what is above and what is below the line."""
        node, scope = value.expression, value.scope
        self._syntax.work.spend()
        if trail.depth == 0:
            return
        match node:
            case ast.BinOp(op=ast.Div(), left=above, right=below):
                yield Value(above, scope), Value(below, scope)
                if isinstance(above, ast.BinOp):
                    yield from self._reciprocals(Value(above, scope), trail.on())
            case ast.BinOp(op=ast.Pow(), left=below, right=ast.UnaryOp(op=ast.USub())):
                yield None, Value(below, scope)
            case ast.BinOp(op=ast.Mult() | ast.Sub() | ast.Add()) | ast.UnaryOp() | ast.IfExp():
                yield from self._reciprocals_in([Value(one, scope) for one in parts(node)], trail)
            case ast.Call():
                yield from self._reciprocals_of_call(node, scope, trail)
            case ast.Name(id=name):
                yield from self._reciprocals_in(self._values_of_name(name, scope, trail), trail)
            case ast.Attribute():
                yield from self._reciprocals_in(self._values_of_attribute(node, scope, trail), trail)

    def _reciprocals_in(self, values: list[Value], trail: Trail) -> Iterator[_Fraction]:
        for one in values:
            yield from self._reciprocals(one, trail.on())

    def _values_of_name(self, name: str, scope: Scope, trail: Trail) -> list[Value]:
        """What a variable is assigned, or is passed as a parameter; nothing the second time."""
        at = scope.visible(name, looped=False)
        if at is None or not trail.first(name, id(at)):
            return []
        return [*at.assigned.get(name, []), *(self._syntax.passed(name, at) if name in at.parameters() else [])]

    def _values_of_attribute(self, node: ast.Attribute, scope: Scope, trail: Trail) -> list[Value]:
        """What an attribute is assigned, or returns if it is a property; nothing the second time."""
        name = node.attr
        if not trail.first(name, 0):
            return []
        computed = self._syntax.returned.get(name, []) if name in self._syntax.properties else []
        return [*self._syntax.attributes(node, scope), *computed]

    def _reciprocals_of_call(self, call: ast.Call, scope: Scope, trail: Trail) -> Iterator[_Fraction]:
        name, arguments = last_name(call.func), [Value(one, scope) for one in call.args]
        if name in ("reciprocal", "reciprocal_", "rsqrt"):
            owner = [Value(call.func.value, scope)] if isinstance(call.func, ast.Attribute) else []
            for inside in (arguments or owner)[:1]:
                yield None, inside
        elif name in ("pow", "power") and len(arguments) == 2 and isinstance(call.args[1], ast.UnaryOp):
            yield None, arguments[0]
        elif name in ("div", "divide", "true_divide", "truediv") and len(arguments) == 2:
            yield arguments[0], arguments[1]
        elif name in self._syntax.defined:
            if trail.first(f"{name}()", 0):
                yield from self._reciprocals_in(self._syntax.returned.get(name, []), trail)
        elif _KEEPS_VALUE.fullmatch(name):
            yield from self._reciprocals_in(arguments, trail)

    # --- what is said --------------------------------------------------------------------------------------------------

    def _origins(self, by: ast.expr, at: Division | Product, scope: Scope | None = None) -> set[Origin]:
        follow = Origins(self._syntax, at.scope, at.in_rounds)
        found = follow.of(Value(by, scope or at.scope), Trail(DEPTH)) or {Origin.UNKNOWN}
        if self._syntax.by_text and found <= CONSTANTS and not isinstance(by, ast.Constant):
            found = found | {Origin.UNKNOWN}
        # 0 before a count begins, 1 in place of an empty batch
        return found - {Origin.NUMBER} if found & OF_THE_DATA else found

    def _statement(
        self, at: Division | Product, what: ast.expr, by: ast.expr | None, role: Role, origins: set[Origin], sure: Sure
    ) -> Statement:
        shown_by = "its own number of entries" if by is None else _text(by)
        text, line = _text(at.statement), getattr(at.statement, "lineno", 0)
        if isinstance(at.statement, _BLOCKS) or len(text) > _LONGEST:
            text = f"mean of {_text(what)}" if by is None else f"{_text(what)} / {shown_by}"
            line = what.lineno
        ordered = tuple(sorted(origins, key=lambda origin: origin.value))
        if sure is Sure.NAMED and (by is None or not _is_sized(by)):
            sure = Sure.FOLLOWED
        noisy = self._flow.of(Value(what, at.scope)) is Contents.NOISE
        return Statement(at.scope.module, line, text, role, shown_by, ordered, sure, noisy, at.guards)


_BLOCKS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.With,
    ast.For,
    ast.If,
    ast.While,
    ast.Try,
    ast.Module,
)


def _is_sized(node: ast.expr) -> bool:
    """Called like a size."""
    return any(_SIZE.search(name) and not NOT_SIZES.search(name) for name in names_in(node))


@lru_cache(maxsize=1024)
def _text(node: ast.AST) -> str:
    """On one line."""
    try:
        return " ".join(ast.unparse(node).split())
    except RecursionError:
        return "(too long to be shown)"


def _assigned(statement: ast.AST) -> list[str]:
    """The names in what a statement assigns to."""
    match statement:
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return list(names_in(target))
        case _:
            return []


def _is_printed(statement: ast.AST) -> bool:
    """A line for a log."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and bool(_PRINTS.fullmatch(last_name(call.func)))


def _axis(node: ast.AST) -> int | None:
    """The axis of a mean, if it is told."""
    if not isinstance(node, ast.Call):
        return None
    named = [one.value for one in node.keywords if one.arg in ("axis", "dim")]
    is_method = isinstance(node.func, ast.Attribute) and not isinstance(node.args[0] if node.args else None, ast.Name)
    told = named or node.args[0 if is_method else 1 :][:1]
    return next((one.value for one in told if isinstance(one, ast.Constant) and isinstance(one.value, int)), None)


def _role(at: Division | Product, node: ast.expr) -> Role | None:
    """By name alone."""
    names = names_in(node)
    if any("unclipped" in name for name in names):
        return Role.COUNT
    divided = [name for name in names if _is_named(name)]
    placeholder = any(_PLACEHOLDER.match(name) for name in names)
    if placeholder and not divided:
        divided = [name for name in names_in(at.statement) if _is_named(name)]
        divided += [] if divided else _function_names(at.scope)
    if not divided:
        return None
    bare = all(re.search(r"noise|stddev", name) and "grad" not in name for name in divided)
    return Role.NOISE if bare and not placeholder else Role.GRADIENT


def _is_named(name: str) -> bool:
    return not _PLACEHOLDER.match(name) and by_name(name) >= Contents.GRADIENT


def _function_names(scope: Scope) -> list[str]:
    """What the function around a placeholder, and the one around that, work on."""
    around = takewhile(lambda at: at.function is not None, islice(scope.outwards(), 2))
    return [name for at in around for name in (*at.parameters(), at.name) if name and _is_named(name)]
