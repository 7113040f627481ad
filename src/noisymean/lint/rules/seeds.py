"""Seeds, keys and generators of the noise: written down in the source, or used again in the next round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import followed
from noisymean.lint.rules.kept import kept
from noisymean.lint.rules.noise import Addition, noise_of
from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.rules.rounds import is_round
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope, Value, last_name, names_in

_SEEDS = re.compile(
    r"manual_seed(_all)?|seed|PRNGKey|default_rng|RandomState|set_seed|seed_everything|set_random_seed|Generator|key|PRNGSequence"
)
_SPLITS = ("split", "fold_in", "next", "clone", "next_rng_key", "array", "asarray")
_OPTAX = re.compile(r"dpsgd|differentially_private_aggregate")
# What adds noise with a key that it is handed, and what such keys are called where it is not said what for.
_PRIVATIZERS = re.compile(r"\w*privatizer\w*|isotropic_\w*noise\w*|\w*gaussian_noise\w*")
_NOISE_KEYS = re.compile(r"prng_key|noise_(key|seed|rng|prng|generator)")


def constant_seed(script: Script) -> Iterator[Finding]:
    """NM034, at the seed."""
    if not noise_of(script).is_private:
        return
    seen: set[int] = set()
    for node in (
        *_own_seeds(script),
        *_counted_seeds(script),
        *_handed_seeds(script),
        *_global_seeds(script),
        *_told_seeds(script),
    ):
        if node.lineno not in seen:
            seen.add(node.lineno)
            yield script.found("NM034", node)


def _own_seeds(script: Script) -> Iterator[ast.expr]:
    """Of the generators and keys that the noise is drawn with."""
    for draw in _noisy_draws(script):
        source = _source(draw, script)
        if source is not None:
            yield from _constant_seeds(source, draw.scope, script)
    for call in made_private(script):
        given = call.keywords.get("noise_generator")
        if given is not None:
            yield from _constant_seeds(given, call.scope, script)


def _counted_seeds(script: Script) -> Iterator[ast.expr]:
    """The same where the seed is the number of the round, or made of it and of constants: anybody can count."""
    for draw in _noisy_draws(script):
        source = _source(draw, script)
        for call in [] if source is None else _makers(source, draw.scope, script):
            seed = call.argument(0, "seed")
            if seed is not None and _is_counted(seed, call.scope, script):
                yield call.node


def _makers(source: ast.expr, scope: Scope, script: Script) -> Iterator[Called]:
    """The calls that give a generator or a key its seed, in the function that draws with it."""
    values = [Value(source, scope)]
    if isinstance(source, ast.Name) and (at := scope.visible(source.id, looped=False)) is not None:
        values = at.assigned.get(source.id, [])
        for call in script.calls_of("manual_seed|seed"):
            owned = isinstance(call.owner, ast.Name) and call.owner.id == source.id
            if owned and call.scope.visible(source.id, looped=False) is at:
                yield call
    for value in values[:4]:
        call_there = script.call_at.get(value.expression)
        if call_there is not None and _SEEDS.fullmatch(call_there.name):
            yield call_there


def _is_counted(node: ast.expr, scope: Scope, script: Script, depth: int = 6) -> bool:
    """Constants, and numbers that count rounds from a constant on."""
    script.work.spend()
    if depth == 0:
        return False
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.BinOp(left=left, right=right):
            return all(_is_counted(one, scope, script, depth - 1) for one in (left, right))
        case ast.Name(id=name):
            at = scope.visible(name)
            if at is None:
                return False
            if name in at.looped and not at.assigned.get(name):
                return all(_counts_up(one.expression) for one in at.looped[name])
            values = at.assigned.get(name, [])
            if name in at.parameters():
                values = [*values, *script.syntax.passed(name, at)]
            known = [
                one.index is None and _is_counted(one.expression, one.scope, script, depth - 1) for one in values[:6]
            ]
            return bool(known) and all(known) and len(values) < 6
        case _:
            return False


def _counts_up(over: ast.expr) -> bool:
    """`range(steps)`; what else a loop goes through is not known."""
    return isinstance(over, ast.Call) and last_name(over.func) in ("range", "trange", "arange")


def _handed_seeds(script: Script) -> Iterator[ast.expr]:
    """Of the keys and generators that are handed to what adds the noise."""
    for call in script.calls:
        if script.syntax.defined[call.name]:
            continue
        adds_noise = bool(_PRIVATIZERS.fullmatch(call.name))
        given = next((value for name, value in call.keywords.items() if _NOISE_KEYS.fullmatch(name)), None)
        if given is None and adds_noise:
            given = call.argument(1, "key", "rng", "generator")
        if given is not None:
            yield from _constant_seeds(given, call.scope, script)
        seed = call.keywords.get("seed") if call.name == "DPKerasConfig" else None
        if seed is not None and _is_whole_number(seed, call.scope, script):
            yield call.node


def _is_whole_number(node: ast.expr | None, scope: Scope, script: Script) -> bool:
    value = script.constant(node, scope)
    return isinstance(value, int) and not isinstance(value, bool)


def _noisy_draws(script: Script) -> list[Called]:
    """The draws that end up on gradients."""
    noise = noise_of(script)
    behind: set[ast.AST] = set()
    for one in noise.additions:
        behind.update(_nodes_behind(one.noise, one.scope, script, 8))
    return [one for one in noise.draws if one.node in behind]


def _nodes_behind(node: ast.expr, scope: Scope, script: Script, depth: int) -> Iterator[ast.AST]:
    """The calls in an expression, in what its names are assigned and in what its functions return."""
    if depth == 0:
        return
    for one in script.work.walk(node):
        values: list[Value] = []
        match one:
            case ast.Name(id=name) if (at := scope.visible(name)) is not None:
                values = [*at.assigned.get(name, []), *at.looped.get(name, [])]
            case ast.Call(func=function):
                yield one
                name = last_name(function)
                values = script.syntax.returned.get(name, []) if name in script.syntax.defined else []
            case ast.Attribute():
                values = script.syntax.attributes(one, scope)
            case _:
                pass
        for value in values[:5]:
            if value.expression is not node:
                yield from _nodes_behind(value.expression, value.scope, script, depth - 2 if depth > 1 else 0)


def _source(draw: Called, script: Script) -> ast.expr | None:
    """The generator or the key of a draw; None for the global one."""
    if (given := draw.keywords.get("generator") or draw.keywords.get("key") or draw.keywords.get("rng")) is not None:
        return given
    if re.match(r"jax\.random|jax\.numpy|jrandom", draw.dotted) or ("jax" in draw.dotted and "random" in draw.dotted):
        return draw.argument(0)
    if draw.name in ("sample", "rsample"):
        # a distribution has no generator of its own
        return None
    owner = draw.owner
    is_own = (
        owner is not None
        and not script.syntax.is_module(owner)
        and isinstance(owner, ast.Name | ast.Attribute | ast.Call)
    )
    return owner if is_own and draw.name not in ("normal_",) else None


def _constant_seeds(node: ast.expr, scope: Scope, script: Script, depth: int = 10) -> Iterator[ast.expr]:
    """The calls with a constant seed that a generator or a key comes from."""
    script.work.spend()
    if depth == 0:
        return
    values: list[Value] = []
    match node:
        case ast.Call():
            yield from _seeds_of_call(node, scope, script, depth)
        case ast.Name(id=name):
            at, bound = script.bound(name, scope)
            if at is not None:
                values = [*bound, *at.looped.get(name, [])]
                values += script.syntax.passed(name, at) if name in at.parameters() else []
            yield from _seeded(name, script)
        case ast.Attribute(attr=name):
            values = script.syntax.attributes(node, scope)
            yield from _seeded(name, script)
        case ast.Subscript(value=inside) | ast.Starred(value=inside):
            values = [Value(inside, scope)]
    for value in values[:6]:
        if value.expression is not node:
            yield from _constant_seeds(value.expression, value.scope, script, depth - 1)


def _seeds_of_call(node: ast.Call, scope: Scope, script: Script, depth: int) -> Iterator[ast.expr]:
    """The call itself, if it is told a constant seed; else what it splits or returns."""
    call = script.call_at.get(node)
    if call is None:
        return
    if call.name in _SPLITS:
        inside = node.args[:1] or ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
        for one in inside:
            yield from _constant_seeds(one, scope, script, depth - 1)
    elif _SEEDS.fullmatch(call.name) and (seed := call.argument(0, "seed")) is not None:
        if isinstance(script.constant(seed, call.scope), int):
            yield node
    elif call.name in script.syntax.defined:
        for value in script.syntax.returned.get(call.name, [])[:3]:
            yield from _constant_seeds(value.expression, value.scope, script, depth - 1)


def _seeded(name: str, script: Script) -> Iterator[ast.expr]:
    """`generator.manual_seed(0)` as a statement of its own."""
    for call in script.calls_of("manual_seed|seed"):
        if (
            call.owner is not None
            and last_name(call.owner) == name
            and isinstance(script.constant(call.argument(0, "seed"), call.scope), int)
        ):
            yield call.node


def _global_seeds(script: Script) -> Iterator[ast.expr]:
    """Of the generators that a package keeps, where the noise comes from one of these."""
    kinds = {_package(draw) for draw in _noisy_draws(script) if _source(draw, script) is None}
    if any(_draws_globally(one, script) for one in made_private(script)):
        kinds.add("torch")
    if not kinds:
        return
    for call in script.calls_of(r"manual_seed(_all)?|seed|set_seed|seed_everything|set_random_seed"):
        seeds = "torch" if "torch" in call.dotted else "numpy" if "numpy" in call.dotted else "any"
        seeds = "random" if call.dotted == "random.seed" else "tensorflow" if "tensorflow" in call.dotted else seeds
        known = call.dotted or call.name in ("set_seed", "seed_everything")
        owner_is_module = call.owner is None or script.syntax.is_module(call.owner) or bool(call.dotted)
        own = "Generator" in call.dotted
        constant = isinstance(script.constant(call.argument(0, "seed"), call.scope), int)
        if constant and known and owner_is_module and not own and (seeds in kinds or seeds == "any"):
            yield call.node


def _draws_globally(call: Called, script: Script) -> bool:
    """Whether Opacus takes its noise from torch's own generator."""
    return not {"noise_generator"} & call.keywords.keys() and not any(
        script.constant(one.keywords.get("secure_mode"), one.scope) is True for one in script.calls_of("PrivacyEngine")
    )


def _package(draw: Called) -> str:
    for name in ("torch", "numpy", "tensorflow", "random"):
        if draw.dotted.startswith(name):
            return name
    return "torch" if draw.name in ("normal_", "randn_like", "randn", "sample", "rsample") else "unknown"


def _told_seeds(script: Script) -> Iterator[ast.expr]:
    """`optax.contrib.dpsgd(..., seed=0)`."""
    for call in script.calls_of(_OPTAX.pattern):
        position = 3 if call.name == "dpsgd" else 2
        seed = call.argument(position, "seed", "key")
        if seed is None or not script.imports("optax"):
            continue
        if isinstance(script.constant(seed, call.scope), int):
            yield call.node
        else:
            yield from _constant_seeds(seed, call.scope, script)


# --- noise that comes again ---------------------------------------------------------------------------------------------


def reused(script: Script) -> Iterator[Finding]:
    """NM035: drawn before the loop that adds it; the same key, or the same seed, in every round."""
    if not noise_of(script).is_private:
        return
    seen: set[int] = set()
    draws = _noisy_draws(script)
    again = (*_drawn_before(script), *_same_key(draws, script), *_seeded_again(draws, script))
    for node in (*again, *followed.remembered(script), *followed.repeated(script), *kept(script)):
        if node.lineno not in seen:
            seen.add(node.lineno)
            yield script.found("NM035", node)


def _drawn_before(script: Script) -> Iterator[ast.expr]:
    noise = noise_of(script)
    for one in noise.additions:
        loops = [loop for loop in script.loops_around(one.node) if is_round(loop)]
        outer = loops[-1] if loops else None
        for name, scope in _noise_names(one):
            values = [value for value in scope.assigned.get(name, []) if noise.is_drawn(value.expression, value.scope)]
            if not values or len(values) < len(scope.assigned.get(name, [])):
                continue
            elsewhere = scope.function is not one.scope.function and one.scope.function is not None
            if elsewhere and not _calls_around(values[0].expression, script):
                # a function that is called in every round, and noise that was drawn around it once
                if scope.function is None:
                    yield values[0].expression
            elif outer is not None and not any(_inside(value.expression, outer, script) for value in values):
                yield values[0].expression
    yield from _kept_on_self(script)


def _noise_names(one: Addition) -> Iterator[tuple[str, Scope]]:
    for name in names_in(one.noise):
        at = one.scope.visible(name, looped=False)
        if at is not None and name not in at.parameters():
            yield name, at


def _kept_on_self(script: Script) -> Iterator[ast.expr]:
    """`self.noise` that is drawn when the object is made, and never again."""
    noise = noise_of(script)
    for one in noise.additions:
        if one.scope.name == "__init__":
            continue
        behind = [one.noise]
        for name in names_in(one.noise):
            at = one.scope.visible(name)
            # for p, z in zip(self.parameters, self.noises)
            behind += [] if at is None else [value.expression for value in at.looped.get(name, ())]
        for node in (each for start in behind for each in script.work.walk(start)):
            if not isinstance(node, ast.Attribute) or last_name(node.value) != "self":
                continue
            values = script.syntax.attributes(node, one.scope)
            drawn = [value for value in values if noise.is_drawn(value.expression, value.scope)]
            if drawn and all(value.scope.name in ("__init__", "setup", "reset", "build") for value in drawn):
                yield drawn[0].expression


def _calls_around(node: ast.expr, script: Script) -> bool:
    """Whether an expression stands in a function itself, which may be called in every round."""
    return script.function_of(node) is not None


def _same_key(draws: list[Called], script: Script) -> Iterator[ast.expr]:
    """A key of jax that is the same in every round of a loop around a draw."""
    for draw in draws:
        key = _source(draw, script)
        if key is not None and "jax" in draw.dotted:
            key = _split_from(key, draw, script)
            yield from _unsplit(key, draw.node, script, draw.node)
            # a caller further out may make another key for each call
            if _is_from_around(key, draw.scope, script) and _in_rounds(script.function_of(draw.node), script, 0):
                yield draw.node


def _split_from(key: ast.expr, draw: Called, script: Script) -> ast.expr:
    """What the keys of the parts of one step are split from: `for v, k in zip(leaves, split(key, n))` around the draw."""
    if not isinstance(key, ast.Name):
        return key
    for around in script.ancestors(draw.node):
        if isinstance(around, ast.ListComp | ast.GeneratorExp):
            for part in around.generators:
                over = _element(key.id, part.target, part.iter)
                at = script.scope_of(around).visible(over.id, looped=False) if isinstance(over, ast.Name) else None
                values = at.assigned.get(over.id, []) if at is not None and isinstance(over, ast.Name) else []
                made = values[0].expression if len(values) == 1 and values[0].index is None else over
                if isinstance(made, ast.Call) and last_name(made.func) == "split" and made.args:
                    return made.args[0]
        if isinstance(around, ast.stmt):
            break
    return key


def _element(name: str, target: ast.expr, over: ast.expr) -> ast.expr | None:
    """What a name of a comprehension goes through, alone or as one of several."""
    match target, over:
        case ast.Name(id=own), _ if own == name:
            return over
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=several):
            return next((each for one, each in zip(names, several, strict=False) if last_name(one) == name), None)
        case _:
            return None


def _is_from_around(key: ast.expr, scope: Scope, script: Script, depth: int = 6) -> bool:
    """Whether a key comes from around the function that draws with it, unchanged or split in the same way at every call."""
    script.work.spend()
    match key:
        case ast.Name(id=name) if depth:
            at, values = script.bound(name, scope)
            if at is None or name in at.looped or any(name in one.shared for one in scope.outwards()):
                return False
            if at.function is script.function_of(key):
                several = len(values) != 1 or name in at.parameters()
                return not several and _is_from_around(values[0].expression, values[0].scope, script, depth - 1)
            # what is called in between has parameters of its own; what a loop binds is another one in each round
            inside = isinstance(at.function, ast.Lambda) or any(script.loops_around(one.expression) for one in values)
            return not inside and bool(values) and any(_makes_keys(one.expression) for one in values)
        case ast.Subscript(value=inside, slice=ast.Constant()):
            return _is_from_around(inside, scope, script, depth - 1)
        case ast.Call(func=function, args=[first, *rest]) if last_name(function) in ("split", "fold_in", "clone"):
            same = all(isinstance(one, ast.Constant) for one in rest)
            return same and _is_from_around(first, scope, script, depth - 1)
        case _:
            return False


def _makes_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("PRNGKey", "key", "split", "fold_in", "clone")


def _unsplit(key: ast.expr, node: ast.AST, script: Script, said: ast.expr, depth: int = 3) -> Iterator[ast.expr]:
    """Where the key of a draw at `node` does not change with the rounds around it, or around the calls of its function."""
    loops = [loop for loop in script.loops_around(node) if is_round(loop)]
    root = _root(key, loops[-1] if loops else None, script.scope_of(node), script)
    if root is None or depth == 0:
        return
    if loops:
        yield said
        return
    scope = script.scope_of(node).visible(root.id)
    function = script.function_of(node)
    if scope is None or function is None or scope.function is not function or root.id not in scope.parameters():
        return
    for call, at in script.syntax.calls.get(function.name, [])[:4]:
        called = script.call_at.get(call)
        given = None if called is None else called.argument(scope.position(root.id), root.id)
        if isinstance(given, ast.Name) and at is not scope:
            yield from _unsplit(given, call, script, call, depth - 1)


def _root(key: ast.expr, loop: ast.AST | None, scope: Scope, script: Script, depth: int = 6) -> ast.Name | None:
    """The name of a key that comes from outside of the loop and that this one is made of in the same way every time."""
    script.work.spend()
    match key:
        case ast.Name(id=name) if depth and (at := scope.visible(name)) is not None:
            if name in at.looped:
                return None
            values = [one for one in at.assigned.get(name, []) if loop is None or _inside(one.expression, loop, script)]
            if not values:
                return key
            if len(values) > 1 or any(name in names_in(one.expression) for one in values):
                # key, used = split(key)
                return key if loop is None and name in at.parameters() else None
            return _root(values[0].expression, loop, values[0].scope, script, depth - 1)
        case ast.Subscript(value=inside, slice=ast.Constant()):
            return _root(inside, loop, scope, script, depth)
        case ast.Call(func=function, args=[first, *rest]) if last_name(function) in ("split", "fold_in", "clone"):
            return (
                _root(first, loop, scope, script, depth) if all(isinstance(one, ast.Constant) for one in rest) else None
            )
        case _:
            return None


def _seeded_again(draws: list[Called], script: Script) -> Iterator[ast.expr]:
    """A constant seed inside of the loop, or inside of the function that draws."""
    for draw in draws:
        source = _source(draw, script)
        seeds = list(_constant_seeds(source, draw.scope, script)) if source is not None else []
        if source is None:
            seeds = [one for one in _global_seeds(script) if script.function_of(one) is script.function_of(draw.node)]
        for seed in seeds:
            again = any(is_round(loop) for loop in script.loops_around(seed))
            function = script.function_of(seed)
            same = function is not None and function is script.function_of(draw.node)
            around = any(is_round(loop) for loop in script.loops_around(draw.node))
            if again or (same and not around and _in_rounds(function, script)):
                yield seed


def _in_rounds(function: ast.FunctionDef | ast.AsyncFunctionDef | None, script: Script, depth: int = 3) -> bool:
    """Whether a function is called in a loop over rounds; one that nobody here calls is a step of somebody's."""
    if function is None:
        return False
    calls = script.syntax.calls.get(function.name, [])
    if not calls:
        return bool(re.search(r"step|update|noise|privat|release", function.name))
    for call, _ in calls[:9]:
        caller = script.function_of(call)
        if any(is_round(loop) for loop in script.loops_around(call)):
            return True
        if depth and caller is not None and caller is not function and _in_rounds(caller, script, depth - 1):
            return True
    return False


def _inside(node: ast.AST, loop: ast.AST, script: Script) -> bool:
    return any(one is loop for one in script.ancestors(node))


EACH = (constant_seed, reused)
