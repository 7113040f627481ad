"""Steps of one's own: where noise is drawn and added to gradients, and where gradients are clipped, each record or the batch.

Names and shapes of code decide, so every question has a cautious side. *Noise added to gradients* needs a draw on one side and
gradients on the other. *Clipped record by record* is believed on little evidence, *clipped as a whole* only where nothing of the
file works record by record.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

from noisymean.lint.rules import sizes
from noisymean.lint.rules.bounds import is_of_a_bound
from noisymean.lint.rules.records import goes_by_batch, takes_one_each
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.flow import Contents, Flow
from noisymean.probe.reading.nodes import Scope, Value, last_name, names_in
from noisymean.probe.reading.source import Origin

DRAWS = re.compile(
    r"randn(_like)?|(random_|truncated_|standard_|multivariate_)?normal_?|normal_like|gauss|normalvariate|laplace_?|rsample|sample"
    r"|tree_random_normal\w*|random_normal\w*"
)
_NOISE = re.compile(r"noise|noisy|perturb|gaussian|laplac", re.IGNORECASE)
_ADDERS = re.compile(r"add_?|add_noise\w*|iadd|tree_add|_foreach_add_?|assign_add")
_GRADIENTS = re.compile(
    r"grad|summed|clipped|update|^_?g$|aggregat|_sum$|^sum_|total|accum|averag|^avg|mean|delta_?w|^dw$|^db$|weights?_diff|buffer",
    re.IGNORECASE,
)
_KEEPS = re.compile(
    r"to|astype|cpu|cuda|type|float|double|half|clone|detach|reshape|view|squeeze|unsqueeze|item|numpy|flatten|expand_as|type_as"
    r"|mul_?|multiply_?|div_?|divide_?"
)
_MAKES_ARRAYS = re.compile(r"from_numpy|as_tensor|tensor|asarray|array|FloatTensor|convert_to_tensor")
_DISTRIBUTIONS = re.compile(r"Normal|MultivariateNormal|Laplace|Gaussian")
WHOLE_BATCH = re.compile(
    r"clip_grad_norm_?|clip_by_global_norm|clip_gradients?_norm|clip_grad_value_?|clip_grads?_with_norm_?|clip_by_norm|clip_by_value"
)
_CLIPS = re.compile(r"\w*clip\w*", re.IGNORECASE)
_BY_RECORD = re.compile(
    r"per_?(sample|example|record|user|client|instance)|grad_sample|micro_?batch|vmap|single|individual|each|one_(sample|example|record)|sample_grad"
    r"|example|record|client|user|expanded_weights|jacrev|jacobian",
    re.IGNORECASE,
)
_RECORDS = re.compile(
    r"^(x|y|xs|ys|xb|yb|bx|by|inputs?|targets?|labels?|images?|batch|data|samples?|examples?|records?|clients?|users?|idx|indices|ids|chosen|selected|losses|grads?|per_\w+)$|micro|batch_?size|len|sample|example|record|client|user|cohort|participant|member",
    re.IGNORECASE,
)
_ROUNDS = re.compile(r"loader|epochs?|steps?$|iter|round|num_batches|^T$|train_ds|dataset$|batches", re.IGNORECASE)
_PARAMETERS = re.compile(r"param|layer|module|weight|leaves|named|group", re.IGNORECASE)
_LIMITS = re.compile(r"min|max|minimum|maximum|clamp(_min|_max)?_?|clip_?|where|fmin|fmax|relu")
_DIFFERENTIATES = re.compile(r"(value_and_)?grad|gradient|GradientTape|jacrev|jacobian|vjp|GradValues")
_PACKAGES = ("torch", "jax", "tensorflow", "tf", "autograd", "functorch", "objax", "flax", "haiku", "mlx", "equinox")
_FORMULA = re.compile(r"grad|^d_?[wb]$|^g$", re.IGNORECASE)
_STEPS = re.compile(r"step|apply_gradients|apply_updates|assign_sub|fit")
_TAKES_STEP = re.compile(r"step|apply_gradients|apply_updates|assign_sub")
_STEP_LENGTH = re.compile(r"^(lr|eta|alpha|step_?size|learning_?rate)$|_lr$|^lr_|learning_?rate", re.IGNORECASE)
# Names of what adds noise out of sight.
_NOISY_PARTS = re.compile(r"^DP_?[A-Z]\w*|\w*privati[sz]e\w*|[Pp]rivacy_?[Ee]ngine|^dp_?(optim|sgd|adam)\w*")
# A norm of all gradients is one of gradients, whatever they are called.
_OF_GRADIENTS = re.compile(r"\w*(global_norm|grads?)\w*")
# Numbers that say how much noise there is to be, and accountants: they add none.
_SAYS = re.compile(r"mult|scale|std|stddev|level|sigma|event|account|rdp|epsilon|mechanism$", re.IGNORECASE)


@final
@dataclass(frozen=True, eq=False)
class Addition:
    """Noise added to gradients: at which node, to what, what is drawn, and where."""

    node: ast.AST
    gradient: ast.expr
    noise: ast.expr
    scope: Scope


@final
class Noise:
    """What one file does with noise and bounds."""

    def __init__(self, script: Script) -> None:
        self.script, self.flow = script, Flow(script.syntax)
        # what was asked once: of functions, whether something in them cuts off; of nodes, whether they go by record
        self._limits: dict[ast.AST, bool] = {}
        self._single: dict[ast.AST, bool] = {}
        self._axes: dict[ast.AST, bool] = {}
        self._each: dict[ast.AST, bool] = {}

    # --- noise ----------------------------------------------------------------------------------------------------------

    @cached_property
    def draws(self) -> list[Called]:
        """Calls that draw normal or Laplace numbers; weights that are initialised are none."""
        found = [one for one in self.script.calls_of(DRAWS.pattern) if not re.search(r"\binit\b|initial", one.dotted)]
        return [one for one in found if one.name not in ("sample", "rsample") or self._is_distribution(one)]

    @cached_property
    def _drawn(self) -> frozenset[ast.AST]:
        return frozenset(one.node for one in self.draws)

    def _is_distribution(self, call: Called) -> bool:
        owner = call.owner
        made = self.script.dotted(owner, call.scope) if owner is not None else ""
        return bool(_DISTRIBUTIONS.search(made)) or (
            isinstance(owner, ast.Call) and bool(_DISTRIBUTIONS.search(last_name(owner.func)))
        )

    @cached_property
    def additions(self) -> list[Addition]:
        """Where a draw is added to gradients."""
        return list(self._additions())

    def _additions(self) -> Iterator[Addition]:
        for node in self.script.nodes:
            match node:
                case ast.BinOp(op=ast.Add(), left=left, right=right):
                    yield from self._added(node, left, right)
                case ast.AugAssign(op=ast.Add(), target=target, value=value):
                    yield from self._added(node, target, value)
                case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[first, *rest]) if _ADDERS.fullmatch(
                    name
                ):
                    if rest and self.script.syntax.is_module(owner):
                        yield from self._added(node, first, rest[0])
                    else:
                        yield from self._added(node, owner, first)

    def _added(self, node: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Addition]:
        scope = self.script.scope_of(node)
        for what, noise in ((left, right), (right, left)):
            if not self.is_drawn(noise, scope) or self.is_drawn(what, scope):
                continue
            if self._is_gradient(what, scope) or (self._clips_somewhere and is_of_a_bound(noise, scope, self.script)):
                yield Addition(node, what, noise, scope)
                return

    @cached_property
    def _clips_somewhere(self) -> bool:
        """Whether anything in the file is clipped by its norm: what gets noise that is scaled by a bound is gradients then."""
        return bool(self.by_norm or self.whole or self.by_record)

    def _is_gradient(self, node: ast.expr, scope: Scope) -> bool:
        """By name, or followed; random numbers that nothing was added to, such as made-up data, are none."""
        if any(map(_GRADIENTS.search, names_in(node))):
            return True
        found = self.flow.of(Value(node, scope))
        return found is Contents.GRADIENT or (found is Contents.NOISE and not self._is_made_up(node, scope))

    def _is_made_up(self, node: ast.expr, scope: Scope, depth: int = 4) -> bool:
        """Whether every value of it in view is made of draws alone."""
        self.script.work.spend()
        match node:
            case ast.Name(id=name) if depth and (at := scope.visible(name)) is not None:
                values = at.assigned.get(name, [])
                return bool(values) and all(
                    self._is_made_up(one.expression, one.scope, depth - 1) for one in values[:5]
                )
            case ast.Subscript(value=inside) | ast.UnaryOp(operand=inside):
                return self._is_made_up(inside, scope, depth)
            case ast.BinOp(left=left, right=right):
                return all(
                    self._is_made_up(one, scope, depth) or self.flow.of(Value(one, scope)) < Contents.GRADIENT
                    for one in (left, right)
                )
            case ast.Call(func=function, args=arguments):
                if DRAWS.fullmatch(last_name(function)):
                    return True
                kept = [function.value] if isinstance(function, ast.Attribute) else []
                arrays = [one for one in (*kept, *arguments) if self.flow.of(Value(one, scope)) >= Contents.GRADIENT]
                return bool(arrays) and all(self._is_made_up(one, scope, depth) for one in arrays)
            case _:
                return False

    def is_drawn(self, node: ast.expr, scope: Scope, depth: int = 8) -> bool:
        """Whether it is a draw, whatever it is scaled by."""
        self.script.work.spend()
        if depth == 0:
            return False
        match node:
            case ast.Call(func=function, args=arguments):
                return self._is_draw(node, function, arguments, scope, depth)
            case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
                return self.is_drawn(left, scope, depth - 1) or self.is_drawn(right, scope, depth - 1)
            case ast.UnaryOp(operand=inside) | ast.Subscript(value=inside):
                return self.is_drawn(inside, scope, depth - 1)
            case ast.IfExp(body=one, orelse=other):
                return self.is_drawn(one, scope, depth - 1) or self.is_drawn(other, scope, depth - 1)
            case ast.Name(id=name):
                return self._is_drawn_name(name, scope, depth)
            case ast.Attribute(attr=name):
                own = last_name(node.value) if name == "data" and isinstance(node.value, ast.Attribute) else name
                if _GRADIENTS.search(own) and not _NOISE.search(own):
                    # p.grad += noise leaves gradients in it
                    return False
                values = self.script.syntax.attributes(node, scope)
                if values:
                    return all(self.is_drawn(one.expression, one.scope, depth - 1) for one in values[:5])
                return bool(_NOISE.search(name)) and not re.search(r"mult|scale|std|level|gener|seed", name)
            case ast.ListComp(elt=inside) | ast.GeneratorExp(elt=inside) | ast.DictComp(value=inside):
                return self.is_drawn(inside, scope, depth - 1)
            case _:
                return False

    def _is_draw(self, node: ast.Call, function: ast.expr, arguments: list[ast.expr], scope: Scope, depth: int) -> bool:
        name = last_name(function)
        if DRAWS.fullmatch(name):
            return node in self._drawn
        owner = function.value if isinstance(function, ast.Attribute) else None
        if owner is not None and _KEEPS.fullmatch(name):
            return self.is_drawn(owner, scope, depth - 1)
        if _MAKES_ARRAYS.fullmatch(name) and arguments:
            return self.is_drawn(arguments[0], scope, depth - 1)
        if name in self.script.syntax.defined and (made := self.script.syntax.returned.get(name)):
            return all(self.is_drawn(one.expression, one.scope, depth - 1) for one in made[:5])
        if re.fullmatch(r"(jax\.)?tree_map|map|tree\.map", name) and arguments:
            first = arguments[0]
            return isinstance(first, ast.Lambda) and self.is_drawn(first.body, self.script.scope_of(first), depth - 1)
        # what makes an object draws nothing yet
        if (
            not name[:1].isupper()
            and re.search(r"noise", name, re.IGNORECASE)
            and not re.search(r"^add|apply|with|gradient|multiplier|scale|std", name, re.IGNORECASE)
        ):
            return not any(self._is_gradient(one, scope) and not isinstance(one, ast.Attribute) for one in arguments)
        return False

    def _is_drawn_name(self, name: str, scope: Scope, depth: int) -> bool:
        at = scope.visible(name)
        values = [] if at is None else at.assigned.get(name, [])
        if values:
            return any(self.is_drawn(one.expression, one.scope, depth - 1) for one in values[:5]) and not any(
                self._is_gradient(one.expression, one.scope)
                for one in values[:5]
                if not _NOISE.search(name) and (len(values) > 1 or one.expression not in self._drawn)
            )
        if at is not None and name in at.looped:
            return any(self.is_drawn(one.expression, one.scope, depth - 1) for one in at.looped[name][:5]) or bool(
                re.fullmatch(r"noise|n_?i?", name)
                and any(_NOISE.search(n) for one in at.looped[name] for n in names_in(one.expression))
            )
        return bool(re.fullmatch(r"(\w+_)?noises?", name))

    # --- bounds ---------------------------------------------------------------------------------------------------------

    def clips(self, scopes: Collection[Scope]) -> bool:
        """Whether anything at all is clipped in these, by name or by a norm."""
        if any(_CLIPS.fullmatch(name) for one in scopes for name in one.names):
            return True
        return any(self.script.scope_of(one) in scopes for one in self.by_norm)

    @cached_property
    def by_norm(self) -> list[ast.AST]:
        """Divisions by a norm, or of a norm, that something cuts off: min(1, C / norm), max(1, norm / C), if norm > C."""
        return [
            one.node
            for one in self.script.syntax.divisions
            if one.by is not None and self._is_bound(one.divided, one.by, one.scope, one.node)
        ]

    def _is_bound(self, above: ast.expr, below: ast.expr, scope: Scope, node: ast.AST) -> bool:
        sides = (self.script.origins(one, scope) for one in (above, below))
        if not any(Origin.NORM in one or _norm_named(side) for one, side in zip(sides, (above, below), strict=True)):
            return False
        around = [node, *self.script.ancestors(node)]
        function = self.script.function_of(node) or self.script.tree
        if any(
            isinstance(one, ast.Call) and _LIMITS.fullmatch(last_name(one.func))
            for one in around
            if one is not function
        ):
            return True
        if function not in self._limits:
            self._limits[function] = any(
                (isinstance(one, ast.Call) and bool(_LIMITS.fullmatch(last_name(one.func))))
                or (
                    isinstance(one, ast.Compare)
                    and any(re.search("norm|coef|factor|scale", name) for name in names_in(one))
                )
                for one in self.script.work.walk(function)
            )
        return self._limits[function]

    @cached_property
    def whole(self) -> list[Called]:
        """Calls that clip all gradients together, where nothing around them goes record by record."""
        return [one for one in self.script.calls_of(WHOLE_BATCH.pattern) if not self.goes_by_record(one.node)]

    @cached_property
    def by_record(self) -> list[ast.AST]:
        """Where gradients of single records are clipped."""
        named = [one.node for one in self.script.calls if _CLIPS.fullmatch(one.name) and self._is_by_record(one)]
        found = [*named, *(one for one in self.by_norm if self.goes_by_record(one))]
        return sorted(found, key=lambda one: getattr(one, "lineno", 0))

    def _is_by_record(self, call: Called) -> bool:
        names = [call.name, *(name for one in call.arguments for name in names_in(one))]
        gradients = any(re.search("grad", name, re.IGNORECASE) for name in names) or bool(
            _OF_GRADIENTS.fullmatch(call.name)
        )
        told = any(re.search(r"per_?(sample|example|record)|grad_sample", name, re.IGNORECASE) for name in names)
        return told or (gradients and self.goes_by_record(call.node))

    def goes_by_record(self, node: ast.AST, depth: int = 3) -> bool:
        """Whether a node handles one record at a time: by a loop, by vmap, along the first axis, or by the names around it."""
        if node not in self._single:
            self._single[node] = False
            self._single[node] = self._goes_by_record(node, depth)
        return self._single[node]

    def _goes_by_record(self, node: ast.AST, depth: int) -> bool:
        self.script.work.spend()
        function = self.script.function_of(node)
        statement = self.script.statement_of(node)
        if any(_BY_RECORD.search(name) for name in names_in(statement)) or self._along_an_axis(function or statement):
            return True
        loops = self.script.loops_around(node)
        if any(_over_records(loop) for loop in loops):
            return True
        for one in self.script.ancestors(node):
            if isinstance(one, ast.ListComp | ast.GeneratorExp) and any(_over_records(part) for part in one.generators):
                return True
            if isinstance(one, ast.Lambda) and one in self.script.syntax.mapped:
                return True
        if any(isinstance(loop, ast.For) and self.is_over_records(loop) for loop in loops):
            return True
        if function is None or depth == 0:
            return False
        if re.search(r"per_?(sample|example|record)", self.script.scope_of(node).owner or "", re.IGNORECASE):
            # a method of what is called so: others call it after each record
            return True
        if _BY_RECORD.search(function.name) or any(_BY_RECORD.search(one.arg) for one in function.args.args):
            return True
        if any(
            re.search("vmap|map", last_name(call.func)) for call, _ in self.script.syntax.mapped.get(function.name, [])
        ):
            return True
        called = self.script.syntax.calls.get(function.name, [])
        return any(self.goes_by_record(call, depth - 1) for call, _ in called[:5])

    def is_over_records(self, loop: ast.AST) -> bool:
        """Whether each round of a loop, or of a comprehension, is one record."""
        if _over_records(loop):
            return True
        return isinstance(loop, ast.For) and (self._of_one_record(loop) or self._takes_one_each(loop))

    def _along_an_axis(self, node: ast.AST) -> bool:
        if node not in self._axes:
            self._axes[node] = _spreads(self.script.work.walk(node), " ".join(names_in(node)))
        return self._axes[node]

    def _takes_one_each(self, loop: ast.For) -> bool:
        if loop not in self._each:
            self._each[loop] = takes_one_each(loop, [*self.script.work.walk(loop)])
        return self._each[loop]

    def _of_one_record(self, loop: ast.For) -> bool:
        """Over a loader whose batches have one record."""
        scope = self.script.scope_of(loop)
        for name in sizes.looped_over(loop.iter):
            made = sizes.made_by(ast.copy_location(ast.Name(name, ast.Load()), loop), scope, self.script)
            loader = None if made is None else sizes.as_loader(made, self.script)
            if loader is not None and loader.batch_size == 1:
                return True
        return False

    # --- the step -------------------------------------------------------------------------------------------------------

    @cached_property
    def is_private(self) -> bool:
        """Whether this file trains with DP: it says so, or it bounds gradients and adds noise to them.

        Where only a whole batch is clipped, as others do too, the noise has to be scaled by a bound.
        """
        if self.script.speaks_of_privacy or (bool(self.additions) and bool(self.by_record)):
            return True
        return bool(self.whole) and any(is_of_a_bound(one.noise, one.scope, self.script) for one in self.additions)

    def computes_gradients(self, scopes: Collection[Scope]) -> bool:
        """Whether gradients are computed in any of these: propagated back, by a package that differentiates, or by a formula."""
        return any(self.script.scope_of(one) in scopes for one in self._computed)

    @cached_property
    def _computed(self) -> list[ast.AST]:
        found: list[ast.AST] = []
        for call in self.script.calls:
            package = call.dotted.partition(".")[0]
            if call.name == "backward" or (_DIFFERENTIATES.fullmatch(call.name) and package in _PACKAGES):
                found.append(call.node)
        for node in self.script.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _FORMULA.search(name):
                    if any(_multiplies_matrices(one) for one in self.script.work.walk(value)):
                        found.append(node)
        return found

    @cached_property
    def steps(self) -> list[ast.AST]:
        """The calls that change weights along gradients."""
        return [one.node for one in self.script.calls if _TAKES_STEP.fullmatch(one.name)]

    def takes_steps(self, scopes: Collection[Scope]) -> bool:
        """Whether weights are changed along gradients in any of these."""
        return any(_STEPS.fullmatch(name) for scope in scopes for name in scope.names) or any(
            self.script.scope_of(one) in scopes for one in self._descents
        )

    @cached_property
    def _descents(self) -> list[ast.AST]:
        """`w -= lr * g`, `w = w - lr * g`, `w.add_(g, alpha=-lr)`."""
        found: list[ast.AST] = []
        for node in self.script.nodes:
            match node:
                case ast.AugAssign(op=ast.Sub(), value=value) | ast.BinOp(op=ast.Sub(), right=value):
                    is_step = any(map(_STEP_LENGTH.search, names_in(value)))
                case ast.Call(func=ast.Attribute(attr="add_" | "sub_"), keywords=keywords):
                    is_step = any(one.arg == "alpha" for one in keywords) and any(
                        map(_STEP_LENGTH.search, names_in(node))
                    )
                case _:
                    is_step = False
            if is_step:
                found.append(node)
        return found

    @cached_property
    def speaks_of_noise(self) -> bool:
        """Whether anything is called noise, or drawn."""
        return self.is_noisy(self.script.syntax.scopes.values())

    def is_noisy(self, scopes: Collection[Scope]) -> bool:
        """Whether anything in these is called noise or is drawn, or is somebody's optimizer with DP."""
        if any(one.scope in scopes for one in self.draws):
            return True
        names = {name for one in scopes for name in (*one.names, *one.assigned)}
        made = (name for name in names if name not in self.script.syntax.defined)
        return any(_NOISE.search(name) and not _SAYS.search(name) for name in names) or any(
            _NOISY_PARTS.fullmatch(name) for name in made
        )


def _multiplies_matrices(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.MatMult()) | ast.Attribute(attr="T"):
            return True
        case ast.Call(func=function):
            return last_name(function) in ("dot", "matmul", "einsum", "mm", "outer")
        case _:
            return False


def _norm_named(node: ast.expr) -> bool:
    return any(re.search(r"(^|_)norm|norms?$|^nrm$|magnitude", name, re.IGNORECASE) for name in names_in(node))


def _spreads(nodes: Iterable[ast.AST], names: str) -> bool:
    """Whether norms are taken along an axis, or something is spread over one."""
    for one in nodes:
        match one:
            case ast.Call(func=function, keywords=keywords) if "norm" in last_name(function) or last_name(function) in (
                "sum",
                "einsum",
                "reduce_sum",
            ):
                if any(each.arg in ("dim", "axis") for each in keywords) and "norm" in names:
                    return True
                if last_name(function) == "einsum":
                    return True
            case ast.Call(func=function) if last_name(function) in ("vmap", "jacrev", "vectorized_map"):
                return True
            case _:
                pass
    return False


def _over_records(loop: ast.AST) -> bool:
    """A loop over records, microbatches or clients; not over batches, epochs or parameters."""
    if isinstance(loop, ast.While):
        return False
    over, target = getattr(loop, "iter", None), getattr(loop, "target", None)
    if over is None or target is None or goes_by_batch(over):
        return False
    names = names_in(over)
    if any(map(_ROUNDS.search, names)) or any(map(_PARAMETERS.search, [*names, *names_in(target)])):
        return False
    return any(map(_RECORDS.search, [*names, *names_in(target)]))


@lru_cache(maxsize=1)
def noise_of(script: Script) -> Noise:
    """The same for all rules of one file."""
    return Noise(script)
