"""Theorems on T rounds: Appendices A.1, A.2 and B of the paper. Where `at` is an epsilon, the sides are 1 - delta."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from noisymean.ceilings import ceiling_clt
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import ASGM, EASGM, FEASGM
from noisymean.numerics.logs import Array
from noisymean.paper.theorems.one_round import Averaged, made, words
from noisymean.paper.theorems.theorem import ALPHA, Evaluation, along, passage, theorem
from noisymean.runs import Run
from noisymean.tradeoff import Side

STEPS = 200
_EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


def _runs() -> Iterator[tuple[Averaged, int]]:
    yield made(EASGM, 4, 30, "0.5"), 3
    yield made(EASGM, 59_999, 26_010, "0.005"), STEPS
    yield made(FEASGM, 140_199, 26_010, "0.005"), STEPS
    yield made(ASGM, 3, 30, "0.5"), 3


def _one_minus_delta(curve: DeltaCurve, side: Side) -> Array:
    return np.array([-np.expm1(min(curve.log_delta(float(e), side), 0.0)) for e in _EPSILONS])


@theorem(
    "comparison_theorem",
    "Appendix A.1",
    "Over T rounds, hiding batch and membership can only help privacy.",
    remark="Left: 1 - delta with everything shown. Right: 1 - delta on an explicit pair, nothing shown.",
)
def hidden_above_transparent(generator: np.random.Generator) -> Iterator[Evaluation]:
    """Everything shown, against an explicit pair with nothing shown."""
    for mechanism, steps in _runs():
        shown = _one_minus_delta(Run.of(mechanism, steps).transparent(), Side.ABOVE)
        for pair in explicit_pairs(mechanism)[:1]:
            hidden = _one_minus_delta(Rounds(((steps, pair),)), Side.BELOW)
            yield from along(f"{words(mechanism)}, {steps} rounds, {pair.datasets}", shown, hidden, _EPSILONS)


@passage(
    "upper bound, T rounds",
    "Appendix A.1 and B, Theorems FEASGM_Upperbound_T_round and EASGM_ASGM_Upperbound_T_round",
    "The composed bound is above the composed guarantee, for all three mechanisms.",
    remark="For ASGM too, which the paper leaves without a curve.",
)
def transparent_below_ceiling(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The composed guarantee, against the composed ceiling."""
    for mechanism, steps in _runs():
        bound = Run.of(mechanism, steps).ceiling()
        assert bound is not None
        shown = _one_minus_delta(Run.of(mechanism, steps).transparent(), Side.ABOVE)
        yield from along(f"{words(mechanism)}, {steps} rounds", shown, _one_minus_delta(bound, Side.BELOW), _EPSILONS)


def _estimate_above_ceiling(kind: type[EASGM] | type[FEASGM], generator: np.random.Generator) -> Iterator[Evaluation]:
    """The composed ceiling, against its estimate."""
    for size, dimension in ((999, 26_010), (140_199, 26_010), (140_199, 1_485_217)):
        mechanism = made(kind, size, dimension, "0.005")
        exact, estimate = Run.of(mechanism, STEPS).ceiling(), ceiling_clt(mechanism, STEPS)
        if exact is not None and estimate is not None:
            yield from along(f"{words(mechanism)}, {STEPS} rounds", exact.tradeoff()(ALPHA), estimate(ALPHA))


feasgm_estimate = passage(
    "estimate, T rounds (FEASGM)",
    "Appendix A.2, Theorem upperbound_estimate_T_round",
    "The estimate over T (n - 1) copies bounds FEASGM's composed bound from above.",
)(partial(_estimate_above_ceiling, FEASGM))
easgm_estimate = passage(
    "estimate, T rounds (EASGM)",
    "Appendix B, Corollary EASGM_upperbound_estimate_T_round",
    "The same for EASGM.",
)(partial(_estimate_above_ceiling, EASGM))
