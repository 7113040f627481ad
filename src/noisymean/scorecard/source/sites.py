"""Calls of make_private, each as far as it is followed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import final

from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called
from noisymean.scorecard import pitfalls
from noisymean.scorecard.pitfalls import Pitfall
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.follow import NotFollowed, Run, follow, others_that_train
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


def engine_of(site: Site) -> ast.Call | None:
    """The call that made the engine, if it is in view."""
    function = site.call.node.func
    owner = function.value if isinstance(function, ast.Attribute) else None
    made = site.bindings.value(owner) if isinstance(owner, ast.Name) else owner
    return made if isinstance(made, ast.Call) else None


def is_secure(site: Site) -> bool:
    """Whether the engine has random numbers of the operating system, for the noise and for the batches."""
    engine = engine_of(site)
    switches = [] if engine is None else [one.value for one in engine.keywords if one.arg == "secure_mode"]
    return any(isinstance(one, ast.Constant) and one.value is True for one in switches)
