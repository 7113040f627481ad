"""What a step does to its arrays, as it was followed: which noise meets which bound, and what is given back beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from noisymean.lint.findings import Finding
from noisymean.lint.rules import blocks
from noisymean.lint.rules.noise import DRAWS, noise_of
from noisymean.lint.script import Script
from noisymean.lint.walked.sums import Added, Seen
from noisymean.lint.walked.things import DRAWN, HANDED, Clip, Norm, Rows, Scale, Thing, drawn, exponent
from noisymean.lint.walked.walk import walked
from noisymean.lint.walked.walker import Walker
from noisymean.probe.reading.nodes import names_in

# The noise multiplier, whatever else a deviation is called; and names that promise it.
_SIGMA = re.compile(r"sigma|noise_?mult\w*|multiplier|^z$|^nm$|noise_factor", re.IGNORECASE)
_MULTIPLIER = re.compile(r"noise_?mult\w*", re.IGNORECASE)
_SIZE = re.compile(r"batch|^lot|(^|_)size$|^bs$|^B$|\|B\||^len\(", re.IGNORECASE)
# Who each adds a share of the noise, and how often a step is broken up.
_SHARES = re.compile(
    r"worker|client|user|party|parties|node|device|world|rank|micro|accum|server|shard|layer|param|group", re.IGNORECASE
)
_OF_LAYERS = re.compile(r"layer|each|per_|group|block|share|split", re.IGNORECASE)
_LOCAL = re.compile(r"local|client|user|device|federat", re.IGNORECASE)
# Whatever could be noise, of any law.
_MAY_DRAW = rf"{DRAWS.pattern}|uniform_?|rand(_like)?|random(_sample)?|trunc\w*normal\w*|triangular|exponential"
_WRONG_NORMS = {"1", "inf", "squares", "coordinates"}


@lru_cache(maxsize=1)
def seen_in(script: Script) -> tuple[list[Seen], Walker | None]:
    """What was followed in a file that trains with DP; nothing where it speaks of no noise and no bound."""
    if not noise_of(script).is_private or next(script.calls_of(_MAY_DRAW), None) is None:
        return [], None
    return walked(script)


def _bound(added: Added) -> Clip | None:
    return added.target.clip


def _name(scale: Scale) -> str | None:
    """Of a bound that is one name and nothing else."""
    return scale[0][0] if len(scale) == 1 and scale[0][1] == 1 else None


def half(script: Script) -> Iterator[Finding]:
    """NM044."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            if any(draw.half for draw in one.noise.draws) and (one.target.gradient or one.target.clip):
                yield script.found("NM044", one.node)


def other_laws(script: Script) -> Iterator[Finding]:
    """NM046: the scale is that of a Gaussian of DP-SGD, and the numbers are not normal."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            sigma = any(_SIGMA.search(name) for name, _ in one.noise.scale)
            clip = _bound(one)
            if clip is None or not sigma:
                continue
            laws = {draw.law for draw in one.noise.draws}
            if "normal" in laws and not any(draw.cut for draw in one.noise.draws):
                continue
            if laws <= {"laplace"} and clip.norm is not None and clip.norm.order == "1":
                continue
            yield script.found("NM046", one.node)


def scales(script: Script) -> Iterator[Finding]:
    """NM026: sigma or the bound with another exponent than one, or a size under a root."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            if _scale_is_wrong(one):
                yield script.found("NM026", one.node)


def _scale_is_wrong(one: Added) -> bool:
    clip, scale = _bound(one), one.noise.scale
    if any(name in ("?", DRAWN, HANDED) for name, _ in scale) or any(name == "?" for name, _ in one.target.scale):
        return False
    sigmas = [(name, power) for name, power in scale if _SIGMA.search(name)]
    if len(sigmas) != 1 or one.noise.draws[0].law != "normal":
        return False
    (sigma, power) = sigmas[0]
    if power in (2, Fraction(1, 2)):
        return True
    if clip is None or power != 1:
        return False
    for name, root in scale:
        if abs(root) == Fraction(1, 2) and _SIZE.search(name) and not _SHARES.search(name):
            return True
    bound = _name(clip.bound.scale)
    if bound is None or clip.limit not in ("right", "none"):
        return False
    found = exponent(scale, bound) - exponent(one.target.scale, bound)
    if found in (-1, 2):
        return True
    others = [name for name, _ in scale if name not in (sigma, bound)]
    return found == 0 and bool(_MULTIPLIER.search(sigma)) and not any(not _SIZE.search(name) for name in others)


def whole_batch(script: Script) -> Iterator[ast.AST]:
    """Where a sum over records is clipped that nothing had clipped before, and noise is added to it."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = one.target.clip
            if clip is not None and clip.array.rows is Rows.SUM and clip.array.clip is None and not clip.array.noisy:
                yield clip.node


def layers(script: Script) -> Iterator[Finding]:
    """NM041: what belongs to one layer has the whole bound, and the noise is made for one bound."""
    for seen in seen_in(script)[0]:
        bounds = {clip for one in seen.added if (clip := one.target.clip) is not None}
        noises = [one.noise.scale for one in seen.added]
        for clip in seen.clips:
            name = _name(clip.bound.scale)
            if (
                not clip.layer
                or name is None
                or not clip.bound.name
                or _OF_LAYERS.search(name)
                or clip.bound.layer
                or clip.bound.value is not None
            ):
                continue
            if not _may_be_whole(clip) or not any(exponent(scale, name) == 1 and len(scale) == 2 for scale in noises):
                continue
            if bounds and clip.limit == "right":
                yield script.found("NM041", clip.node)


def _may_be_whole(clip: Clip) -> bool:
    return clip.array.rows is not Rows.SUM and clip.array.clip is None


def other_norms(script: Script) -> Iterator[Finding]:
    """NM042: the norm that is bounded is not the Euclidean one, and the noise is Gaussian."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = _bound(one)
            if clip is None or clip.norm is None or clip.norm.order not in _WRONG_NORMS or clip.limit == "wrong":
                continue
            if any(draw.law != "normal" for draw in one.noise.draws):
                continue
            name = _name(clip.bound.scale)
            if name is not None and exponent(one.noise.scale, name) == 1:
                yield script.found("NM042", clip.node)


def across(script: Script) -> Iterator[Finding]:
    """NM043: the norm is taken along the records, or of all of them at once, and their rows are summed afterwards."""
    for seen in seen_in(script)[0]:
        noisy = {one.target.clip for one in seen.added}
        for one in seen.summed:
            clip = one.thing.clip
            if clip is None or clip not in noisy or clip.norm is None or not isinstance(clip.norm, Norm):
                continue
            if clip.norm.of.rows in (Rows.ONE, Rows.SUM) or one.thing.rows is Rows.ONE or clip.layer:
                continue
            # without an axis it is seen that there is a row for each record
            whole = clip.norm.axis is None and clip.norm.order != "coordinates" and clip.norm.of.rows is Rows.EACH
            if clip.norm.axis == 0 or whole:
                yield script.found("NM043", clip.node)


def wrong_way(script: Script) -> Iterator[Finding]:
    """NM045: the larger of one and C over the norm; gradients grow and none is cut off."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = _bound(one)
            if clip is not None and clip.limit == "wrong":
                yield script.found("NM045", clip.node)


def beside(script: Script) -> Iterator[Finding]:
    """NM047: how many were drawn, or what is made of their gradients, is given back beside what is noisy."""
    for seen in seen_in(script)[0]:
        for one in seen.beside:
            exact = [thing for thing in one.things if _is_exact(thing, counts_only=one.told)]
            noisy = [thing for thing in one.things if thing.noisy]
            if not exact or not seen.added:
                continue
            around = any(set(one.within) <= set(added.within) for added in seen.added)
            if isinstance(one.node, ast.Return) and not _is_last(one.node, seen, script):
                continue
            if (noisy and not one.told) or (one.told and around):
                yield script.found("NM047", one.node)


def _is_last(node: ast.Return, seen: Seen, script: Script) -> bool:
    """Whether it leaves the file there: what a caller here does with a number is the caller's."""
    function = script.function_of(node)
    return function is seen.function and not (function is not None and script.syntax.calls.get(function.name))


def _is_exact(thing: Thing, *, counts_only: bool) -> bool:
    if thing.noisy:
        return False
    counted = thing.count and exponent(thing.scale, DRAWN) > 0
    return counted or (not counts_only and thing.statistic and not thing.mask)


def for_each(script: Script) -> Iterator[Finding]:
    """NM048: every record gets noise of its own, and then they are summed."""
    for seen in seen_in(script)[0]:
        if any(_LOCAL.search(name) for name in _names_around(seen, script)):
            continue
        for one in seen.summed:
            if one.thing.clip is None or not one.thing.noisy or one.thing.clip.array.noisy:
                continue
            for added in seen.added:
                same = set(added.noise.draws) & set(one.thing.draws)
                rows = any(draw.each for draw in same) or (one.thing.rows is Rows.ONE and bool(same))
                if same and rows and added.target.rows is not Rows.SUM:
                    yield script.found("NM048", added.node)


def _names_around(seen: Seen, script: Script) -> list[str]:
    function = seen.function
    own = [function.name] if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return [*own, script.scope_of(function).owner, *names_in(function)]


def before(script: Script) -> Iterator[Finding]:
    """NM049: what is clipped has its noise already."""
    for seen in seen_in(script)[0]:
        for clip in seen.clips:
            if not clip.array.noisy or clip.array.clip is not None or clip.array.pure:
                continue
            bounds = {name for name, _ in clip.bound.scale}
            scales = [one.noise.scale for one in seen.added if set(one.noise.draws) & set(clip.array.draws)]
            # noise of other kinds, on what is searched for, say, has no bound in its scale
            if any(
                {name for name, _ in one} & bounds and any(_SIGMA.search(name) for name, _ in one) for one in scales
            ):
                yield script.found("NM049", clip.node)


def adaptive(script: Script) -> Iterator[Finding]:
    """NM052: the bound is a statistic of the norms of this batch."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = _bound(one)
            if clip is not None and clip.bound.statistic and not clip.bound.noisy:
                yield script.found("NM052", clip.node)


def centred(script: Script) -> Iterator[Finding]:
    """NM053: rows are joined to their own mean, or divided by how they scatter, before each is clipped."""
    for node in moved(script):
        yield script.found("NM053", node)


def moved(script: Script) -> Iterator[ast.AST]:
    """Where rows are joined to a statistic of all of them."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = _bound(one)
            if clip is not None and clip.array.centred is not None:
                yield clip.array.centred


def computed(script: Script) -> Iterator[ast.AST]:
    """Where the statistics are computed that rows are joined to."""
    for seen in seen_in(script)[0]:
        yield from seen.computed


def follows(script: Script) -> Iterator[Finding]:
    """NM027: the noise, or what is noisy, times a number of those who were drawn."""
    for seen in seen_in(script)[0]:
        for one in seen.scaled:
            yield script.found("NM027", one.node)
        for added in seen.added:
            if drawn(added.noise.scale) > max(drawn(added.target.scale), Fraction(0)):
                yield script.found("NM027", added.node)


def sometimes(script: Script) -> Iterator[Finding]:
    """NM051: noise only where a counter says so, and a step in any case."""
    for around, _, target in _counted(script):
        if target is None:
            yield script.found("NM051", around if isinstance(around, ast.If) else script.statement_of(around))


def repeated(script: Script) -> Iterator[ast.expr]:
    """Draws that are made every so often, and added as a whole in the steps in between."""
    for around, draw, target in _counted(script):
        if target is not None and blocks.is_whole(target, around, script):
            yield draw


def _counted(script: Script) -> Iterator[tuple[ast.If | ast.IfExp, ast.Call, ast.expr | None]]:
    """Noise that waits for a counter: where, which draw, and what keeps it for the steps in between if anything does."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            if not (one.target.gradient or one.target.clip):
                continue
            here = blocks.every_so_often(one.node, script)
            for draw in one.noise.draws:
                around = here or blocks.every_so_often(draw.node, script)
                if around is not None:
                    yield around, draw.node, None if here is not None else blocks.keeps(draw.node, around, script)


def are_alike(node: ast.AST, script: Script) -> bool:
    """Whether noise and what it is added to have been divided by the same, as far as both were followed."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            clip = one.target.clip
            if one.node is node and clip is not None:
                bound = {name for name, _ in clip.bound.scale}
                others = [each for each in one.noise.scale if each[0] not in bound and not _SIGMA.search(each[0])]
                targets = [each for each in one.target.scale if each[0] not in bound]
                return others == targets and all(name != "?" for name, _ in others)
    return False


def cancelled(script: Script) -> set[ast.stmt]:
    """Where sums are divided by what they are multiplied by again before there is noise: statements that divide by nothing."""
    found: set[ast.stmt] = set()
    kept: set[ast.stmt] = set()
    for seen in seen_in(script)[0]:
        again = frozenset[str]().union(*(one.sizes for one in seen.divided if one.again))
        left = {name for one in seen.added for name, power in one.target.scale + one.noise.scale if power < 0}
        for one in seen.divided:
            if not one.again:
                gone = seen.added and one.sizes <= again and not one.sizes & left and "?" not in one.sizes
                (found if gone else kept).add(script.statement_of(one.node))
    return found - kept


def stops(script: Script) -> Iterator[Finding]:
    """NM054: a run ends by what was computed without noise."""
    for seen in seen_in(script)[0]:
        for node, test in seen.leaves:
            inside = any(isinstance(one, ast.Break) for one in node.body)
            if inside and test.statistic and not test.noisy and seen.added:
                yield script.found("NM054", node)


def unbounded(script: Script) -> Iterator[ast.AST]:
    """Where rows are chosen, summed and get noise that is made for a bound, and none has been clipped."""
    for seen in seen_in(script)[0]:
        for one in seen.added:
            target = one.target
            names = [name for name, _ in one.noise.scale]
            told = any(re.search(r"clip|max_grad|max_norm|bound", name, re.IGNORECASE) for name in names)
            chosen = target.chosen and target.rows is Rows.SUM and not target.noisy
            if target.clip is None and target.gradient and told and chosen and not seen.clips:
                yield one.node


def draws(script: Script) -> list[ast.Call]:
    """The draws that end up on gradients."""
    found = [draw.node for seen in seen_in(script)[0] for one in seen.added for draw in one.noise.draws]
    return list(dict.fromkeys(found))


def remembered(script: Script) -> Iterator[ast.expr]:
    """Draws that are older than the round, or the call, in which they are added."""
    found, walker = seen_in(script)
    for seen in found if walker is not None else ():
        for one in seen.added:
            if walker is None or not (one.target.gradient or one.target.clip):
                continue
            rounds = {*walker.loops.rounds(one.within), *one.within[:1]}
            for draw in one.noise.draws:
                if isinstance(one.within[0], ast.Module) and draw.within[:1] == one.within[:1]:
                    rounds -= {one.within[0]}
                if rounds - set(draw.within):
                    yield draw.node


EACH = (
    half, other_laws, scales, layers, other_norms, across, wrong_way, beside, for_each, before, adaptive, centred, follows,
    sometimes, stops,
)  # fmt: skip
