"""Batches and the numbers around them: what is computed from the data, what is left out, how records are drawn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import sizes
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope, last_name, names_in
from noisymean.probe.reading.source import Origin

_DELTA = re.compile(r"(^|_)delta$", re.IGNORECASE)
_BATCH_SIZE = re.compile(r"^(expected_)?batch_size$|^lot_size$|^expected_batch_size$|^num_microbatches$|^normalize_by$")
_EXPECTED = re.compile(r"^expected_batch_size$|^lot_size$")
_CALIBRATES = re.compile(
    r"(get|compute|find|calibrate|search|solve|estimate|opt)\w*(noise|sigma)\w*|\w*calibrate\w*|\w*noise_multiplier_(from|for)\w*|compute_noise"
)
# What accounts for Poisson sampling, by whatever package.
_ACCOUNTS = re.compile(
    r"compute_rdp(_sample_without_replacement|_poisson_subsampled)?|compute_dp_sgd_privacy(_lib|_statement)?|PoissonSampledDpEvent"
    r"|RDPAccountant|PRVAccountant|GaussianAccountant|get_privacy_spent|compute_epsilon|compute_eps_poisson|compute_mu_poisson"
    r"|DPSGDAccountant|compute_dpsgd\w*|get_eps_audit|MomentsAccountant|dpsgd_event|dpsgd_epsilon"
)
_TOLD_A_RATE = re.compile(r"compute_(rdp|dp_?sgd|(eps|mu)_poisson)")
_POISSON = re.compile(
    r"poisson|WithReplacementSampler|DPDataLoader|binomial|bernoulli|make_private|balls_in_bins|random_allocation",
    re.IGNORECASE,
)
_BATCH = re.compile(r"batch|idx|indices|items|examples|records|samples|chosen|selected|drawn", re.IGNORECASE)
_COIN = re.compile(r"rand|random|uniform|random_sample")
_SHUFFLES = re.compile(r"shuffle|permutation|randperm")


def computed_delta(script: Script) -> Iterator[Finding]:
    """NM005, at the place where delta is computed: one over a number of records."""
    if not noise_of(script).is_private:
        return
    for node in script.nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                named = last_name(target)
            case ast.keyword(arg=str() as named, value=value):
                pass
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
                    if _DELTA.search(name) and _is_share(value, script.scope_of(node), script):
                        yield script.found("NM005", value)
                continue
            case _:
                continue
        if _DELTA.search(named) and _is_share(value, script.scope_of(node), script):
            yield script.found("NM005", node)


def _is_share(node: ast.expr, scope: Scope, script: Script, depth: int = 3) -> bool:
    """A number over one of the data, or one of the data to a negative power, perhaps cut off."""
    match node:
        case ast.BinOp(op=ast.Div(), left=above, right=below):
            counts = script.constant(above, scope) is not None or not script.is_of_the_data(above, scope)
            return counts and _counts_records(below, scope, script)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(_is_share(one, scope, script, depth) for one in (left, right))
        case ast.BinOp(op=ast.Pow(), left=base, right=ast.UnaryOp(op=ast.USub())):
            return _counts_records(base, scope, script)
        case ast.Call(func=function, args=arguments) if depth and re.fullmatch(
            r"min|max|float|minimum|pow|power|round", last_name(function)
        ):
            return any(_is_share(one, scope, script, depth - 1) for one in arguments) or (
                last_name(function) in ("pow", "power")
                and bool(arguments)
                and _counts_records(arguments[0], scope, script)
            )
        case ast.Call(func=ast.Name(id=name)) if depth and name in script.syntax.defined:
            returned = script.syntax.returned.get(name, [])[:3]
            return any(_is_share(one.expression, one.scope, script, depth - 1) for one in returned)
        case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, *_, other]) if depth:
            return any(_is_share(each, scope, script, depth - 1) for each in (one, other))
        case _:
            return False


def _counts_records(node: ast.expr, scope: Scope, script: Script) -> bool:
    """Whether it is a number of records, of the dataset or of what is trained on."""
    return script.is_of_the_data(node, scope)


def drop_last(script: Script) -> Iterator[Finding]:
    """NM006, at a loader that is trained on in a file that trains with DP."""
    for call in _loaders(script):
        if script.constant(call.keywords.get("drop_last"), call.scope) is True:
            yield script.found("NM006", call.node)


def weighted(script: Script) -> Iterator[Finding]:
    """NM007, at the sampler of a loader that is trained on; or at the sampler where no loader with it is in view."""
    for call in _loaders(script):
        given = call.argument(-1, "sampler", "batch_sampler")
        made = None if given is None else sizes.made_by(given, call.scope, script)
        if made is not None and "Weighted" in made.name:
            yield script.found("NM007", made.node)


def _loaders(script: Script) -> Iterator[Called]:
    """Loaders of a file that trains with DP: those that are made private where that is in view, else all but held-out ones."""
    if not noise_of(script).is_private:
        return
    private = [loader.node for call in made_private(script) if (loader := sizes.loader_of(call, script)) is not None]
    for call in script.calls_of(r"\w*DataLoader"):
        if call.node in private or (not private and not sizes.is_held_out(call, script)):
            yield call


def batch_size(script: Script) -> Iterator[Finding]:
    """NM008: what an engine, an optimizer, a loader or a step is told as the size of its batches."""
    if not noise_of(script).is_private:
        return
    private = {call.node for call in _loaders(script)}
    for call in script.calls:
        for keyword in call.node.keywords:
            if keyword.arg is None or not _BATCH_SIZE.search(keyword.arg):
                continue
            if call.name.endswith("DataLoader") and (call.node not in private or _reads_everything(call, script)):
                continue
            if _is_private_call(call, keyword.arg, private) and script.is_of_the_data(keyword.value, call.scope):
                yield script.found("NM008", call.node)
        size = call.argument(1) if call.node in private and "batch_size" not in call.keywords else None
        if size is not None and script.is_of_the_data(size, call.scope):
            yield script.found("NM008", size)
    for node in script.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _EXPECTED.search(name):
                if script.is_of_the_data(value, script.scope_of(node)):
                    yield script.found("NM008", node)


def _reads_everything(call: Called, script: Script) -> bool:
    """`DataLoader(data, batch_size=len(data))` of which only the first batch is taken: a way to read a dataset."""
    size, data = call.argument(1, "batch_size"), call.argument(0, "dataset")
    match size:
        case ast.Call(func=ast.Name(id="len"), args=[counted]) if data is not None:
            same = ast.dump(counted) == ast.dump(data)
            return same and any(one.name == "next" for one in script.calls)
        case _:
            return False


def _is_private_call(call: Called, keyword: str, private: set[ast.Call]) -> bool:
    """Whether the size goes into what is drawn or divided, and not into an evaluation."""
    if _EXPECTED.search(keyword) or keyword in ("num_microbatches", "normalize_by"):
        return True
    return call.node in private or bool(
        re.search(r"Optimizer|PrivacyEngine|Sampler|DPKeras|dpsgd|aggregate", call.name)
    )


def calibrated(script: Script) -> Iterator[Finding]:
    """NM010: a noise multiplier that is looked for at a rate of the data."""
    if not noise_of(script).is_private:
        return
    for call in script.calls:
        if not _CALIBRATES.fullmatch(call.name) or call.name.startswith("make_private"):
            continue
        told = [*call.arguments, *(value for name, value in call.keywords.items() if not _DELTA.search(name))]
        if any(_follows_the_data(one, call.scope, script) for one in told if not isinstance(one, ast.Starred)):
            yield script.found("NM010", call.node)


def _follows_the_data(node: ast.expr, scope: Scope, script: Script) -> bool:
    """A number of the data, or a function that makes an event at a rate of the data."""
    if script.is_of_the_data(node, scope):
        return True
    inside = node.body if isinstance(node, ast.Lambda) else None
    events = [inside] if inside is not None else []
    if isinstance(node, ast.Name) and node.id in script.syntax.defined:
        events = [one.expression for one in script.syntax.returned.get(node.id, [])]
    return any(
        script.is_of_the_data(one, script.scope_of(call))
        for event in events
        for call in script.work.walk(event)
        if isinstance(call, ast.Call)
        for one in (*call.args, *(each.value for each in call.keywords))
    )


def skipped(script: Script) -> Iterator[Finding]:
    """NM036: `if len(batch) == 0: continue` and its like, in a loop that trains."""
    if not noise_of(script).is_private:
        return
    for node in script.nodes:
        if not isinstance(node, ast.If):
            continue
        left_out = (_leaves(node.body) and _is_empty(node.test, script) and _in_training(node, script)) or (
            not node.orelse and _is_filled(node.test, script) and _takes_step(node, script)
        )
        if left_out:
            yield script.found("NM036", node)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block goes on with the next round; what it prints or counts before is no matter."""
    if any(isinstance(one, ast.Raise) for one in body):
        return False
    match body[-1]:
        case ast.Continue():
            return True
        case ast.Return(value=value):
            return (
                value is None
                or (isinstance(value, ast.Constant) and value.value is None)
                or isinstance(value, ast.Name | ast.Tuple)
            )
        case _:
            return False


def _is_empty(test: ast.expr, script: Script) -> bool:
    scope = script.scope_of(test)
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            return _is_size(left, scope, script)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return _is_size(left, scope, script)
        case ast.UnaryOp(op=ast.Not(), operand=inside):
            return _is_size(inside, scope, script) or _is_any(inside) or _is_batch(inside, script)
        case ast.BoolOp(values=values):
            return any(_is_empty(one, script) for one in values)
        case _:
            return False


def _is_filled(test: ast.expr, script: Script) -> bool:
    """`if len(batch) > 0:` and its like."""
    scope = script.scope_of(test)
    match test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _is_size(left, scope, script)
        case ast.Compare(left=left, ops=[ast.GtE()], comparators=[ast.Constant(value=1)]):
            return _is_size(left, scope, script)
        case ast.Call():
            return last_name(test.func) == "len" or _is_any(test)
        case _:
            return False


def _takes_step(node: ast.If, script: Script) -> bool:
    """Whether the step itself is inside: noise is added, or an optimizer goes on; in a loop, or in what one calls."""
    inside = set(script.work.walk(node))
    if any(one.node in inside for one in noise_of(script).additions):
        return True
    return any(isinstance(one, ast.Attribute) and one.attr in ("step", "apply_gradients") for one in inside)


def _is_batch(node: ast.expr, script: Script) -> bool:
    """What a loop hands out, called like a batch or the records of one."""
    if not isinstance(node, ast.Name) or not _BATCH.search(node.id):
        return False
    scope = script.scope_of(node).visible(node.id)
    return scope is not None and node.id in scope.looped


def _is_size(node: ast.expr, scope: Scope, script: Script) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        # every so many steps
        return False
    if isinstance(node, ast.Attribute) and node.attr == "size":
        return True
    called = last_name(node.func) if isinstance(node, ast.Call) else ""
    return called in ("numel", "len") or Origin.BATCH in script.origins(node, scope)


def _is_any(node: ast.expr) -> bool:
    """`mask.any()`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "any"


def _in_training(node: ast.If, script: Script) -> bool:
    """Whether the loop, or the function, around it takes steps with noise."""
    function = script.function_of(node)
    around: ast.AST = next(iter(script.loops_around(node)), None) or function or script.tree
    if isinstance(node.body[-1], ast.Continue) and not script.loops_around(node):
        return False
    nodes = set(script.work.walk(around))
    inside = {name.lower() for one in nodes for name in _identifiers(one)}
    takes_steps = any(one.node in nodes for one in noise_of(script).additions) or any(
        re.search(r"noise|^step$|update|apply_gradients|backward|clip", name) for name in inside
    )
    return takes_steps and not re.search(r"eval|test|valid", "" if function is None else function.name)


def _identifiers(node: ast.AST) -> list[str]:
    return [last_name(node)] if isinstance(node, ast.Name | ast.Attribute) else []


def accounted(script: Script) -> Iterator[Finding]:
    """NM037, at the call that accounts: shuffled or ordered batches beside it, and nothing that draws by Poisson sampling."""
    if made_private(script) or script.imports("noisymean") or _draws_poisson(script) or not _shuffles(script):
        return
    seen: set[int] = set()
    for call in script.calls:
        is_step = call.name == "step" and "sample_rate" in call.keywords
        if (is_step or _ACCOUNTS.fullmatch(call.name)) and call.node.lineno not in seen and _subsamples(call, script):
            seen.add(call.node.lineno)
            yield script.found("NM037", call.node)


def _subsamples(call: Called, script: Script) -> bool:
    """Whether it is told a rate or a batch size."""
    told = {*call.keywords, *(name for one in call.arguments for name in names_in(one))}
    rates = re.compile(r"rate|prob|batch|^q$|^n$|sampling", re.IGNORECASE)
    is_own = script.syntax.defined[call.name] and call.name != "step"
    # the numbers themselves, where there are enough of them for a rate
    several = call.name == "PoissonSampledDpEvent" or (_TOLD_A_RATE.match(call.name) and len(call.arguments) >= 3)
    return bool(several or any(map(rates.search, told))) and not is_own


def _draws_poisson(script: Script) -> bool:
    """Poisson sampling by name, or coins: rand(n) < q."""
    named = (name for node in script.nodes for name in _identifiers(node))
    accounting = re.compile(_ACCOUNTS.pattern)
    if any(_POISSON.search(name) and not accounting.fullmatch(name) for name in named):
        return True
    for node in script.nodes:
        match node:
            case ast.Compare(left=ast.Call(func=function), ops=[ast.Lt() | ast.LtE()]) if _COIN.fullmatch(
                last_name(function)
            ):
                return True
    return False


def _shuffles(script: Script) -> bool:
    """Batches that are cut from a shuffled or ordered dataset."""
    for call in script.calls:
        if call.name.endswith("DataLoader") and not sizes.is_held_out(call, script):
            return "sampler" not in call.keywords and "batch_sampler" not in call.keywords
        if _SHUFFLES.fullmatch(call.name):
            return True
        if call.name == "fit" and {"batch_size", "epochs"} & call.keywords.keys():
            return True
    return False


EACH = (computed_delta, drop_last, weighted, batch_size, calibrated, skipped, accounted)
