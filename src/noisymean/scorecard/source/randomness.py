"""Where the noise of a call of make_private comes from: whether it can be predicted, or may come again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from noisymean.scorecard import pitfalls
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.follow import Run
from noisymean.scorecard.source.sites import Site, engine_of, is_secure
from noisymean.scorecard.value import Fact

# So many bits cannot be tried one after the other.
_BITS = 60


def randomness(site: Site) -> Iterator[Fact]:
    """Predictable noise, noise that comes again, noise in floating point."""
    engine = engine_of(site)
    is_off = engine is not None and not any(one.arg in ("secure_mode", None) for one in engine.keywords)
    if engine is not None and is_secure(site) and isinstance(site.run, Run):
        says = "secure_mode=True: random numbers of the operating system"
        yield site.passed(pitfalls.SEED, says, engine)
        yield site.passed(pitfalls.REUSED, says, engine)
        yield site.passed(pitfalls.FLOATING, "secure_mode=True: each noise is a sum of several", engine)
        return
    yield site.unknown(pitfalls.FLOATING, f"secure_mode is not on: {pitfalls.FLOATING.instead}", engine)
    generator = site.call.keywords.get("noise_generator")
    made = None if generator is None else site.bindings.value(generator)
    if isinstance(generator, ast.Name) and isinstance(made, ast.Call):
        yield from _own_generator(site, generator, made, is_off=is_off)
        return
    where = "torch's global generator" if generator is None else "a generator that is not followed"
    yield site.unknown(pitfalls.SEED, f"the noise comes from {where}, which may be seeded anywhere")
    yield site.unknown(pitfalls.REUSED, f"the noise comes from {where}, which may be started again anywhere")


def _own_generator(site: Site, generator: ast.Name, made: ast.Call, *, is_off: bool) -> Iterator[Fact]:
    """A torch.Generator for the noise: seeded once by the operating system, or not at all."""
    bindings, script = site.bindings, site.bindings.script
    used = [
        script.parents[node]
        for node in bindings.scan()
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
            if _is_on_gpu(made):
                yield site.passed(pitfalls.SEED, "seeded by the operating system, for the noise alone", seed)
            else:
                says = "a generator of the CPU uses 32 bits of its seed, which can be tried one after the other"
                yield site.unknown(pitfalls.SEED, says, seed)
            yield site.passed(pitfalls.REUSED, "a generator for the noise alone, seeded once", seed)
            return
    yield site.unknown(pitfalls.SEED, "what seeds the generator of the noise is not followed", made)
    yield site.unknown(pitfalls.REUSED, "what becomes of the generator of the noise is not followed", made)


def _is_on_gpu(made: ast.Call) -> bool:
    """`torch.Generator(device="cuda")`, which uses all bits of a seed; that of the CPU is a Mersenne twister of 32 of them."""
    told = [*made.args, *(one.value for one in made.keywords if one.arg == "device")]
    return any(isinstance(one, ast.Constant) and str(one.value).startswith("cuda") for one in told)


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
