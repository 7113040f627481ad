"""Clipping and noise in steps of one's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import followed
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.rules.together import together_of
from noisymean.lint.rules.wholes import whole_of
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope

# What clips and adds noise out of sight.
_LIBRARIES = (
    "opacus",
    "tensorflow_privacy",
    "jax_privacy",
    "objax",
    "pfl",
    "fastDP",
    "private_transformers",
    "dp_transformers",
    "pyvacy",
)
_CLIPS = re.compile(r"clip|shrink|shorten|bound|project|limit|truncat|rescale|normali[sz]e", re.IGNORECASE)
_OPTIMIZERS = re.compile(r"\w*sgd|adam\w*|nadam\w*|rmsprop|adagrad|lion|lamb|lars|yogi|momentum|chain|radam|fromage")


def unclipped(script: Script) -> Iterator[Finding]:
    """NM031: noise on gradients, and nothing that clips in what belongs together with it and computes them."""
    noise = noise_of(script)
    if script.imports(*_LIBRARIES) or not noise.is_private:
        return
    seen: set[Scope] = set()
    for one in noise.additions:
        around = together_of(script).of(one.node)
        if one.scope in seen:
            continue
        seen.add(one.scope)
        if noise.computes_gradients(around) and not noise.clips(together_of(script).called(one.node)):
            yield script.found("NM031", one.node)


def unbounded(script: Script) -> Iterator[Finding]:
    """NM031: a sum of chosen rows that was followed from where they are chosen to its noise."""
    for node in followed.unbounded(script):
        if not _may_be_clipped(node, script):
            yield script.found("NM031", node)


def _may_be_clipped(node: ast.AST, script: Script) -> bool:
    """Whether something that is called on the way to a sum may clip it out of sight: by its name, or by a norm in its body."""
    called = together_of(script).called(node, alone=True)
    norms = any(script.scope_of(one) in called for one in noise_of(script).by_norm)
    return norms or any(
        _CLIPS.search(one.name) and one.scope in called and not _is_of_a_module(one, script) for one in script.calls
    )


def _is_of_a_module(call: Called, script: Script) -> bool:
    """`np.clip`, whose result is followed."""
    return call.owner is not None and script.syntax.is_module(call.owner)


def batch_clipped(script: Script) -> Iterator[Finding]:
    """NM033: the only clipping is that of all gradients together, and noise is added to them.

    Where the function that adds the noise clips, it is asked alone: another one may do the same in another way.
    """
    noise = noise_of(script)
    if script.imports(*_LIBRARIES) or not noise.is_private:
        return
    seen: set[ast.AST] = set()
    for node in followed.whole_batch(script):
        if node not in seen:
            seen.add(node)
            yield script.found("NM033", node)
    for one in noise.additions:
        own = frozenset({one.scope})
        for scopes in (own, together_of(script).of(one.node)):
            whole: list[ast.AST] = [call.node for call in noise.whole if call.scope in scopes]
            if not whole and noise.computes_gradients(together_of(script).of(one.node)):
                whole = [node for node in whole_of(script) if script.scope_of(node) in scopes]
            single = any(script.scope_of(node) in scopes for node in noise.by_record)
            lines = {getattr(each, "lineno", 0) for each in seen}
            if whole and not single and whole[0] not in seen and getattr(whole[0], "lineno", 0) not in lines:
                seen.add(whole[0])
                yield script.found("NM033", whole[0])
            if whole:
                break


def without_noise(script: Script) -> Iterator[Finding]:
    """NM032: single records are clipped and steps are taken, and no noise in what belongs together with that."""
    noise = noise_of(script)
    if script.imports(*_LIBRARIES) or not noise.is_private or _optax_may_add_noise(script):
        return
    seen: set[frozenset[Scope]] = set()
    for node in noise.by_record:
        around = together_of(script).of(node)
        if around in seen:
            continue
        seen.add(around)
        if noise.takes_steps(around) and not noise.is_noisy(around):
            yield script.found("NM032", _where(node, around, script))


def _where(node: ast.AST, around: frozenset[Scope], script: Script) -> ast.AST:
    """Where the noise is missing: at the bound if its function takes the step as well, else at the step of what belongs to it."""
    outermost = node
    for one in script.ancestors(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            outermost = one
    if outermost is node:
        return node
    inside = set(script.work.walk(outermost))
    taken = [one for one in noise_of(script).steps if script.scope_of(one) in around]
    if any(one in inside for one in taken):
        return node
    return taken[0] if taken else node


def _optax_may_add_noise(script: Script) -> bool:
    """Whether steps of optax are taken with something that is not in view, or that is called noise or DP."""
    if not script.imports("optax"):
        return False
    top = script.syntax.scopes[script.tree]
    made = any(one.dotted.startswith("optax.") and _OPTIMIZERS.fullmatch(one.name) for one in script.calls)
    added = any(re.search(r"noise|dpsgd|differentially", one.name) for one in script.calls if "optax" in one.dotted)
    return not made or added or noise_of(script).is_noisy([top])


EACH = (unclipped, unbounded, batch_clipped, without_noise)
