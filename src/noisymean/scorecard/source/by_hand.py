"""Optimizers of Opacus that a script makes itself, without make_private."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from noisymean.lint.script import Called
from noisymean.scorecard import pitfalls
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.sites import OF_STEPS
from noisymean.scorecard.value import Fact, Outcome

_BY_HAND = ("opacus.optimizers.DPOptimizer", "opacus.optimizers.optimizer.DPOptimizer")


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
        "signal_skip_step",
        "expected_batch_size",
        "loss_reduction",
        "grad",
        "summed_grad",
        "scale_grad",
        "add_noise",
        "original_optimizer",
    }
    if bindings.by_text or any(isinstance(node, ast.Attribute) and node.attr in inner for node in bindings.scan()):
        return False
    steps = [node for node in script.nodes if isinstance(node, ast.Attribute) and node.attr == "step"]
    backs = [node for node in script.nodes if isinstance(node, ast.Attribute) and node.attr == "backward"]
    if len(steps) != 1 or len(backs) != 1 or bindings.value(steps[0].value) is not one.node:
        return False
    # several of one for one of the other, and the denominator is a multiple
    taken, back = (script.statement_of(node) for node in (steps[0], backs[0]))
    loop = script.parents[taken]
    return isinstance(loop, ast.For) and loop is script.parents[back] and taken in loop.body and back in loop.body
