"""What a call of make_private shows of each pitfall, and an optimizer of Opacus that is made by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called
from noisymean.probe.reading.nodes import last_name
from noisymean.scorecard import pitfalls
from noisymean.scorecard.pitfalls import Pitfall
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.follow import FIX, NotFollowed, Run, follow, others_that_train
from noisymean.scorecard.value import Fact, Outcome

# What depends on how the loops train: passed only where they are followed.
OF_STEPS = (
    pitfalls.DENOMINATOR,
    pitfalls.NOISE_APART,
    pitfalls.OTHER_BOUND,
    pitfalls.CLIPPING,
    pitfalls.NO_NOISE,
    pitfalls.SAMPLING,
    pitfalls.RATE,
    pitfalls.SIGMA,
    pitfalls.ACCUMULATION,
    pitfalls.EMPTY,
    pitfalls.SEED,
    pitfalls.REUSED,
    pitfalls.FLOATING,
)
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
_BY_HAND = ("opacus.optimizers.DPOptimizer", "opacus.optimizers.optimizer.DPOptimizer")
_TARGETS = ("target_epsilon", "target_delta", "epochs")
# So many bits cannot be tried one after the other.
_BITS = 60


@final
@dataclass(frozen=True)
class Site:
    """One call of make_private as far as it was followed."""

    call: Called
    run: Run | NotFollowed
    bindings: Bindings

    def fact(self, pitfall: Pitfall, outcome: Outcome, says: str, node: ast.AST | None = None) -> Fact:
        """Of this call, at a node of its file."""
        place = self.bindings.script.text.place(self.call.node if node is None else node)
        return Fact(pitfall, outcome, says, place)

    def passed(self, pitfall: Pitfall, says: str, node: ast.AST | None = None) -> Fact:
        return self.fact(pitfall, Outcome.PASSED, says, node)

    def found(self, pitfall: Pitfall, says: str, node: ast.AST | None = None) -> Fact:
        return self.fact(pitfall, Outcome.FOUND, says, node)

    def unknown(self, pitfall: Pitfall, says: str, node: ast.AST | None = None) -> Fact:
        return self.fact(pitfall, Outcome.NOT_CHECKABLE, says, node)


def sites(bindings: Bindings) -> list[Site]:
    """Every call of make_private in a file; none is followed if anything else in it trains."""
    calls = made_private(bindings.script)
    runs = [follow(one, bindings) for one in calls]
    stray = others_that_train([one for one in runs if isinstance(one, Run)], bindings)
    if stray is not None:
        runs = [stray if isinstance(one, Run) else one for one in runs]
    return [Site(call, run, bindings) for call, run in zip(calls, runs, strict=True)]


def facts(site: Site) -> Iterator[Fact]:
    """One fact for each pitfall of the steps."""
    if isinstance(site.run, NotFollowed):
        yield from (site.unknown(one, f"not followed: {site.run.says}", site.run.node) for one in OF_STEPS)
        yield from _wrong_all_the_same(site)
        return
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
    yield from _randomness(site)


def _wrong_all_the_same(site: Site) -> Iterator[Fact]:
    """What the call itself says, wherever its loops are."""
    for fact in (_noise(site), _sampling(site), *_randomness(site)):
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
    if len(before) != 1:
        return None
    statement = script.parents[before[0]]
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as made) if bindings.is_plain(statement):
            return made
        case _:
            return None


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
    if number <= 0.0:
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
            return site.passed(pitfall, "Opacus draws by Poisson sampling, and every loop trains on its loader")
        case ast.Constant(value=False):
            return site.found(pitfall, "poisson_sampling=False")
        case _:
            return site.unknown(pitfall, "poisson_sampling is not written down as True or False")


def _empty(site: Site, run: Run) -> Fact:
    pitfall, made_up = pitfalls.EMPTY, site.call.keywords.get("rand_on_empty")
    if made_up is not None and not (isinstance(made_up, ast.Constant) and made_up.value is False):
        return site.unknown(pitfall, "rand_on_empty is given")
    if _sampling(site).outcome is not Outcome.PASSED:
        return site.unknown(pitfall, "whether a batch may be empty depends on how batches are drawn")
    if run.is_cut:
        return site.unknown(pitfall, "BatchMemoryManager of Opacus before 1.5 stops at an empty batch")
    return site.passed(pitfall, "the loop takes a step on each batch, also on an empty one", run.loops[0].step)


# --- random numbers -------------------------------------------------------------------------------------------------------


def _randomness(site: Site) -> Iterator[Fact]:
    """Predictable noise, noise that comes again, noise in floating point."""
    engine = _engine(site)
    secure = None if engine is None else next((one.value for one in engine.keywords if one.arg == "secure_mode"), None)
    if isinstance(secure, ast.Constant) and secure.value is True and isinstance(site.run, Run):
        says = "secure_mode=True: random numbers of the operating system"
        yield site.passed(pitfalls.SEED, says, engine)
        yield site.passed(pitfalls.REUSED, says, engine)
        yield site.passed(pitfalls.FLOATING, "secure_mode=True: each noise is a sum of several", engine)
        return
    yield site.unknown(pitfalls.FLOATING, f"secure_mode is not on: {pitfalls.FLOATING.instead}", engine)
    generator = site.call.keywords.get("noise_generator")
    made = None if generator is None else site.bindings.value(generator)
    if isinstance(generator, ast.Name) and isinstance(made, ast.Call):
        yield from _own_generator(site, generator, made, is_off=secure is None)
        return
    where = "torch's global generator" if generator is None else "a generator that is not followed"
    yield site.unknown(pitfalls.SEED, f"the noise comes from {where}, which may be seeded anywhere")
    yield site.unknown(pitfalls.REUSED, f"the noise comes from {where}, which may be started again anywhere")


def _own_generator(site: Site, generator: ast.Name, made: ast.Call, *, is_off: bool) -> Iterator[Fact]:
    """A torch.Generator for the noise: seeded once by the operating system, or not at all."""
    bindings, script = site.bindings, site.bindings.script
    used = [
        script.parents[node]
        for node in script.nodes
        if isinstance(node, ast.Name) and node.id == generator.id and isinstance(node.ctx, ast.Load)
    ]
    seeds = [one for one in used if isinstance(one, ast.Attribute)]
    handed = [one for one in used if not isinstance(one, ast.Attribute)]
    mine = all(isinstance(one, ast.keyword) and one.arg == "noise_generator" for one in handed)
    plain = mine and bindings.comes_from(made.func, "torch.Generator", "torch._C.Generator")
    if plain and not seeds and is_off and not any(True for _ in script.calls_of("fork_rng|set_rng_state")):
        says = "torch.Generator() begins with the same number everywhere, and nothing seeds it"
        yield site.found(pitfalls.SEED, says, made)
        yield site.unknown(pitfalls.REUSED, "two runs of the script have the same noise", made)
        return
    seed = script.parents[seeds[0]] if len(seeds) == 1 else None
    if plain and len(handed) == 1 and isinstance(seed, ast.Call) and _is_entropy(seed, bindings):
        statement = script.statement_of(seed)
        if bindings.is_plain(statement) and statement.lineno < site.call.node.lineno and isinstance(site.run, Run):
            yield site.passed(pitfalls.SEED, "seeded by the operating system, for the noise alone", seed)
            yield site.passed(pitfalls.REUSED, "a generator for the noise alone, seeded once", seed)
            return
    yield site.unknown(pitfalls.SEED, "what seeds the generator of the noise is not followed", made)
    yield site.unknown(pitfalls.REUSED, "what becomes of the generator of the noise is not followed", made)


def _is_entropy(seed: ast.Call, bindings: Bindings) -> bool:
    """`manual_seed(secrets.randbits(63))`, or of int.from_bytes(os.urandom(8)); or `seed()`."""
    match seed:
        case ast.Call(func=ast.Attribute(attr="seed"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="manual_seed"), args=[ast.Call(func=function, args=[bits])]):
            count = bindings.number(bits)
            return bindings.comes_from(function, "secrets.randbits") and count is not None and count >= _BITS
        case ast.Call(
            func=ast.Attribute(attr="manual_seed"),
            args=[
                ast.Call(
                    func=ast.Attribute(attr="from_bytes", value=ast.Name(id="int")),
                    args=[ast.Call(func=function, args=[count]), *_],
                )
            ],
        ):
            found = bindings.number(count)
            return bindings.comes_from(function, "os.urandom") and found is not None and found * 8 >= _BITS
        case _:
            return False


def _engine(site: Site) -> ast.Call | None:
    function = site.call.node.func
    owner = function.value if isinstance(function, ast.Attribute) else None
    made = site.bindings.value(owner) if isinstance(owner, ast.Name) else owner
    return made if isinstance(made, ast.Call) else None


# --- made by hand ---------------------------------------------------------------------------------------------------------


def by_hand(bindings: Bindings) -> Iterator[Fact]:
    """A DPOptimizer that the script makes itself: what it divides by is written down, or not; the rest is not followed."""
    script = bindings.script
    for one in script.calls_of("DPOptimizer"):
        if not one.dotted.startswith("opacus"):
            continue
        place = script.text.place(one.node)
        number = bindings.number(one.keywords.get("expected_batch_size"))
        for pitfall in OF_STEPS:
            known = pitfall is pitfalls.DENOMINATOR and number is not None and number > 0.0
            if known and _is_alone(one, bindings):
                yield Fact(pitfall, Outcome.PASSED, f"divides by {number:g}, a constant", place)
            else:
                says = "an optimizer of Opacus that is made by hand: its loop is not followed"
                yield Fact(pitfall, Outcome.NOT_CHECKABLE, says, place)


def _is_alone(one: Called, bindings: Bindings) -> bool:
    """Whether every step of the file is this optimizer's, and nobody reaches into it."""
    script = bindings.script
    if one.hides or "loss_reduction" in one.keywords or not bindings.comes_from(one.node.func, *_BY_HAND):
        return False
    inner = {
        "expected_batch_size",
        "loss_reduction",
        "grad",
        "summed_grad",
        "scale_grad",
        "add_noise",
        "original_optimizer",
    }
    if bindings.by_text or any(isinstance(node, ast.Attribute) and node.attr in inner for node in script.nodes):
        return False
    steps = [node for node in script.nodes if isinstance(node, ast.Attribute) and node.attr == "step"]
    return bool(steps) and all(bindings.value(node.value) is one.node for node in steps)
