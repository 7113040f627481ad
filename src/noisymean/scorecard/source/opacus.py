"""What a call of make_private shows of each pitfall."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.mechanisms import LEAST_NOISE
from noisymean.probe.reading.nodes import last_name
from noisymean.scorecard import pitfalls
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.follow import FIX, NotFollowed, Run
from noisymean.scorecard.source.losses import is_mean, step_length_of_the_data
from noisymean.scorecard.source.randomness import randomness
from noisymean.scorecard.source.sites import OF_STEPS, Site, engine_of, is_secure
from noisymean.scorecard.source.text import REPORTS
from noisymean.scorecard.value import Fact, Outcome

# What depends on the records that are in a batch.
OF_BATCHES = (pitfalls.CLIPPING, pitfalls.SAMPLING, pitfalls.ACCUMULATION, pitfalls.EMPTY)
# Of these the linter's rules NM001 and NM002 say that they are there whatever is done around the call.
LOOKED_AT = (pitfalls.DENOMINATOR, pitfalls.RATE, pitfalls.SIGMA)
_POISSON_LOADER = (
    "noisymean.integrations.opacus.poisson_loader",
    "noisymean.integrations.opacus.fixing.poisson_loader",
)
_DATA_LOADER = (
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
)
# What else a loader may be told without another record in a batch, or the same one twice.
_NO_MATTER = frozenset(
    {
        *("dataset", "batch_size", "shuffle", "num_workers", "pin_memory", "drop_last", "timeout", "sample_rate"),
        *("persistent_workers", "prefetch_factor", "pin_memory_device"),
    }
)
_ACCOUNTANT = ("noisymean.integrations.opacus.Accountant", "noisymean.integrations.opacus.accountant.Accountant")
# What a loop is worth, of the work that a file may take.
_LOOP = 200
_TARGETS = ("target_epsilon", "target_delta", "epochs")


def facts(site: Site) -> Iterator[Fact]:
    """One fact for each pitfall of the steps."""
    if isinstance(site.run, NotFollowed):
        yield from (site.unknown(one, f"not followed: {site.run.says}", site.run.node) for one in OF_STEPS)
        yield from _wrong_all_the_same(site)
        return
    made = _given(site.run, site.bindings)
    if not _is_plain_loader(made, site.bindings):
        says = "how the loader that make_private is given puts batches together is not in view"
        yield from (site.unknown(one, says, made) for one in OF_BATCHES)
    yield from _of_losses(site, site.run)
    yield _denominator(site, site.run)
    yield site.passed(pitfalls.NOISE_APART, "Opacus adds the noise to the sum and divides both by one number")
    yield site.passed(pitfalls.OTHER_BOUND, "Opacus clips to and scales the noise by one max_grad_norm")
    yield site.passed(pitfalls.CLIPPING, "Opacus clips the gradient of each record, before the sum")
    yield _noise(site)
    yield _sampling(site)
    yield _rate(site, site.run)
    yield _sigma(site, site.run)
    step = site.run.loops[0].step
    yield site.passed(pitfalls.ACCUMULATION, "one step for each batch of the loader that make_private returned", step)
    yield _empty(site, site.run)
    yield from randomness(site)


def _of_losses(site: Site, run: Run) -> Iterator[Fact]:
    """Where what is propagated back, the bound or the step length may follow the size of the batch or the data."""
    bindings = site.bindings
    for loop in run.loops:
        if not is_mean(loop, bindings):
            says = "whether the loss is a mean over the batch, of one record each, is not in view"
            for pitfall in (pitfalls.DENOMINATOR, pitfalls.CLIPPING):
                yield site.unknown(pitfall, says, loop.backward)
    if (step := step_length_of_the_data(bindings)) is not None:
        yield site.unknown(pitfalls.DENOMINATOR, "the length of the step may follow the data", step)
    bound = site.call.keywords.get("max_grad_norm")
    if bound is not None and any(isinstance(one, ast.Call) for one in ast.walk(bound)):
        yield site.unknown(pitfalls.CLIPPING, "where max_grad_norm comes from is not in view", bound)


def _wrong_all_the_same(site: Site) -> Iterator[Fact]:
    """What the call itself says, wherever its loops are."""
    for fact in (_noise(site), _sampling(site), *randomness(site)):
        if fact.outcome is Outcome.FOUND:
            yield fact
    if (step := _now_and_then(site.bindings)) is not None:
        yield site.found(
            pitfalls.ACCUMULATION, "a step once in several batches: a record may be in several of them", step
        )


def _now_and_then(bindings: Bindings) -> ast.AST | None:
    """A step `if (i + 1) % 4 == 0` in a loop that propagates back each time, and nothing of Opacus' that cuts batches."""
    script = bindings.script
    named = {name for scope in script.syntax.scopes.values() for name in scope.names}
    if named & {"BatchMemoryManager", "wrap_data_loader", "signal_skip_step", "virtual_step"}:
        return None
    for call in script.calls_of("step"):
        condition = next((one for one in script.ancestors(call.node) if isinstance(one, ast.If | ast.For)), None)
        loop = next(iter(script.loops_around(call.node)), None)
        if not isinstance(condition, ast.If) or loop is None or call.node.args:
            continue
        counted = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in ast.walk(condition.test))
        script.work.spend(_LOOP)
        outside = [one for part in loop.body if part is not condition for one in ast.walk(part)]
        back = any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in outside)
        owner = "" if call.owner is None else last_name(call.owner)
        if counted and back and re.search(r"opt", owner, re.IGNORECASE):
            return call.node
    return None


# --- the denominator and the rate -----------------------------------------------------------------------------------------


def fixes(bindings: Bindings) -> list[ast.Call]:
    """The calls of our own fix."""
    return [one.node for one in bindings.script.calls_of("fix") if bindings.comes_from(one.node.func, *FIX)]


def _denominator(site: Site, run: Run) -> Fact:
    pitfall, bindings = pitfalls.DENOMINATOR, site.bindings
    own = [one for one in fixes(bindings) if _is_of(one, run)]
    if not own:
        return site.found(pitfall, "divides by the number of records over that of batches: no fix(optimizer, ...)")
    fix = own[0]
    told = next((one.value for one in fix.keywords if one.arg == "denominator"), None)
    if told is not None and bindings.script.is_of_the_data(told, bindings.script.scope_of(fix)):
        return site.found(pitfall, "the denominator that fix is given is computed from the data", fix)
    if len(own) > 1 or not _is_right_after(fix, run, bindings):
        return site.unknown(pitfall, "fix is not called once, right after make_private", fix)
    number = bindings.number(told)
    if number is None or number <= 0.0:
        return site.unknown(pitfall, "where the denominator that fix is given comes from is not in view", fix)
    return site.passed(pitfall, f"divides by {number:g}, a constant (fix)", fix)


def _is_of(fix: ast.Call, run: Run) -> bool:
    match fix.args:
        case [ast.Name(id=name), *_]:
            return name == run.optimizer
        case _:
            return False


def _is_right_after(fix: ast.Call, run: Run, bindings: Bindings) -> bool:
    """In the same block as the call of make_private, with nothing in between that could take a step."""
    script = bindings.script
    statement = script.statement_of(fix)
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    block = _block_of(run.statement, script.parents[run.statement])
    if value is not fix or statement not in block or block.index(statement) < block.index(run.statement):
        return False
    between = block[block.index(run.statement) + 1 : block.index(statement)]
    return not any(isinstance(node, ast.Call | ast.For | ast.While) for one in between for node in ast.walk(one))


def _block_of(statement: ast.stmt, parent: ast.AST) -> list[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def _is_plain_loader(made: ast.Call | None, bindings: Bindings) -> bool:
    """Whether a loader hands out the records that are drawn, each once: what puts batches together is torch's own."""
    if made is None or not bindings.comes_from(made.func, *_DATA_LOADER, *_POISSON_LOADER):
        return False
    return len(made.args) <= 2 and all(one.arg in _NO_MATTER for one in made.keywords)


def _given(run: Run, bindings: Bindings) -> ast.Call | None:
    """The call that made the loader which make_private is given."""
    given = run.call.keywords.get("data_loader")
    if isinstance(given, ast.Call):
        return given
    if not isinstance(given, ast.Name):
        return None
    script = bindings.script
    here = script.scope_of(run.statement)
    bound = [one for one in bindings.nodes(given.id) if script.scope_of(script.parents[one]) is here]
    before = [one for one in bound if getattr(one, "lineno", 0) < run.statement.lineno]
    if len(before) != 1 or _is_touched(given.id, run, bindings):
        return None
    statement = script.parents[before[0]]
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as made) if bindings.is_plain(statement):
            return made
        case _:
            return None


def _is_touched(name: str, run: Run, bindings: Bindings) -> bool:
    """Whether a loader goes anywhere, or is changed, before make_private gets it."""
    script = bindings.script
    here = script.scope_of(run.statement)
    for node in bindings.scan():
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        parent = script.parents[node]
        counts = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
        earlier = script.scope_of(node) is here and node.lineno < run.statement.lineno
        if earlier and not counts:
            return True
    return False


def _public_rate(run: Run, bindings: Bindings) -> float | None:
    """The rate of a poisson_loader, if it is a constant."""
    made = _given(run, bindings)
    if made is None or not bindings.comes_from(made.func, *_POISSON_LOADER) or "poisson_sampling" in run.call.keywords:
        return None
    told = next((one.value for one in made.keywords if one.arg == "sample_rate"), None)
    rate = bindings.rate(told)
    return rate if rate is not None and 0.0 < rate <= 1.0 else None


def _rate(site: Site, run: Run) -> Fact:
    pitfall, bindings = pitfalls.RATE, site.bindings
    rate = _public_rate(run, bindings)
    if rate is not None:
        return site.passed(pitfall, f"the rate is {rate:g}, a constant (poisson_loader)", _given(run, bindings))
    made = _given(run, bindings)
    if made is not None and bindings.comes_from(made.func, *_DATA_LOADER):
        return site.found(pitfall, "the rate is one over the number of batches of this loader", made)
    return site.unknown(pitfall, "the loader that make_private is given is not in view")


# --- noise ----------------------------------------------------------------------------------------------------------------


def _noise(site: Site) -> Fact:
    pitfall = pitfalls.NO_NOISE
    if site.call.name == "make_private_with_epsilon":
        return site.passed(pitfall, "Opacus adds the noise that the epsilon needs")
    number = site.bindings.number(site.call.keywords.get("noise_multiplier"))
    if number is None:
        return site.unknown(pitfall, "the noise multiplier is not a number that is written down, and may be 0")
    if number < LEAST_NOISE:
        return site.found(pitfall, f"the noise multiplier is {number:g}")
    return site.passed(pitfall, f"Opacus adds noise, multiplier {number:g}")


def _sigma(site: Site, run: Run) -> Fact:
    pitfall, bindings = pitfalls.SIGMA, site.bindings
    told = site.call.keywords
    if site.call.name == "make_private_with_epsilon":
        constant = all(bindings.number(told.get(name)) is not None for name in _TARGETS)
        if _public_rate(run, bindings) is not None and constant:
            return site.passed(pitfall, "calibrated for a rate, epochs and targets that are constants")
        if _public_rate(run, bindings) is None:
            return site.found(pitfall, "calibrated for the rate of the loader, which follows the data")
        return site.unknown(pitfall, "where targets or epochs come from is not in view")
    given = told.get("noise_multiplier")
    number = bindings.number(given)
    if number is not None:
        return site.passed(pitfall, f"the noise multiplier is {number:g}, a constant")
    if given is not None and bindings.script.is_of_the_data(given, site.call.scope):
        return site.found(pitfall, "the noise multiplier is computed from the data")
    return site.unknown(pitfall, "where the noise multiplier comes from is not in view")


# --- batches --------------------------------------------------------------------------------------------------------------


def _sampling(site: Site) -> Fact:
    pitfall, told = pitfalls.SAMPLING, site.call.keywords.get("poisson_sampling")
    match told:
        case None | ast.Constant(value=True):
            if not _is_false(site.call.keywords.get("rand_on_empty")):
                return site.unknown(pitfall, "rand_on_empty is given: an empty batch may be replaced")
            if (seed := _seeds_the_batches(site)) is not None:
                return site.unknown(pitfall, "the random numbers that draw the batches are seeded here", seed)
            if (other := _accounts_otherwise(site)) is not None:
                return site.unknown(pitfall, "what is accounted for here is not followed", other)
            return site.passed(pitfall, "Opacus draws by Poisson sampling, and every loop trains on its loader")
        case ast.Constant(value=False):
            return site.found(pitfall, "poisson_sampling=False")
        case _:
            return site.unknown(pitfall, "poisson_sampling is not written down as True or False")


def _is_false(given: ast.expr | None) -> bool:
    """A switch that is off unless somebody says so."""
    return given is None or (isinstance(given, ast.Constant) and given.value is False)


def _seeds_the_batches(site: Site) -> ast.AST | None:
    """A seed of the global generator, which draws the batches where secure mode does not: who knows it knows who was drawn."""
    if is_secure(site):
        return None
    given = site.call.keywords.get("noise_generator")
    own = given.id if isinstance(given, ast.Name) else ""
    for call in site.bindings.script.calls_of(
        r"manual_seed(_all)?|seed|set_seed|seed_everything|set_random_seed|seed_all|set_rng_state(_all)?|fork_rng"
    ):
        if call.owner is None or last_name(call.owner) != own or not own:
            return call.node
    return None


def _accounts_otherwise(site: Site) -> ast.AST | None:
    """An epsilon that is not this engine's, or an accountant that somebody puts in the place of Opacus' own."""
    bindings, script = site.bindings, site.bindings.script
    for node in bindings.scan():
        match node:
            case ast.Attribute(attr="accountant", ctx=ast.Store() | ast.Del()):
                match script.parents[node]:
                    case ast.Assign(value=ast.Call(func=function)) if bindings.comes_from(function, *_ACCOUNTANT):
                        pass
                    case _:
                        return node
            case ast.Call(func=function) if (last_name(function) in REPORTS) and not _is_of_engine(function, site):
                return node
            case _:
                pass
    return None


def _is_of_engine(function: ast.expr, site: Site) -> bool:
    """`engine.get_epsilon`, or that of its accountant."""
    owner = function.value if isinstance(function, ast.Attribute) else None
    if isinstance(owner, ast.Attribute) and owner.attr == "accountant":
        owner = owner.value
    return isinstance(owner, ast.Name) and site.bindings.value(owner) is engine_of(site)


def _empty(site: Site, run: Run) -> Fact:
    pitfall = pitfalls.EMPTY
    if not _is_false(site.call.keywords.get("rand_on_empty")):
        return site.unknown(pitfall, "rand_on_empty is given")
    told = site.call.keywords.get("poisson_sampling")
    if told is not None and not (isinstance(told, ast.Constant) and told.value is True):
        return site.unknown(pitfall, "whether a batch may be empty depends on how batches are drawn")
    if run.is_cut:
        return site.unknown(pitfall, "BatchMemoryManager of Opacus before 1.5 stops at an empty batch")
    return site.passed(pitfall, "the loop takes a step on each batch, also on an empty one", run.loops[0].step)
