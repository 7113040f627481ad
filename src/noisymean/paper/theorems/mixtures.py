"""Lemmas and theorems on trade-off functions themselves: mixtures of laws, and Gaussians (Sections 2 and 3 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import RevealedMixture
from noisymean.numerics.logs import Array
from noisymean.paper.theorems.theorem import ALPHA, EQUAL, Evaluation, along, lemma, theorem


def _mixtures(generator: np.random.Generator) -> Iterator[tuple[str, Array, list[tuple[Array, Array]]]]:
    """Weights and pairs of laws on six outcomes."""
    for number_of in (2, 3, 5):
        weights = generator.dirichlet(np.ones(number_of))
        pairs = [(generator.dirichlet(np.ones(6)), generator.dirichlet(np.ones(6))) for _ in range(number_of)]
        yield f"{number_of} random laws on 6 outcomes", weights, pairs


def _revealed(weights: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The curve of the mixture whose component is shown."""
    return RevealedMixture(tuple(weights.tolist()), tuple(FiniteOutcomes(p, q) for p, q in pairs))(ALPHA)


@lemma("Jensen", "Section 2.3", "Hiding which component was drawn can only help privacy.")
def jensen(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The component shown, against hidden."""
    for setting, weights, pairs in _mixtures(generator):
        p, q = (sum(w * pair[side] for w, pair in zip(weights, pairs, strict=True)) for side in (0, 1))
        hidden = FiniteOutcomes(np.asarray(p), np.asarray(q))
        yield from along(setting, _revealed(weights, pairs), hidden(ALPHA))


@lemma(
    "zero",
    "Section 2.1",
    "Composed ever more often, any curve but the identity tends to 0, exponentially fast.",
    EQUAL,
    tolerance=2e-2,
    remark="Left: the fall of log f per factor. Right: the divergence, its limit.",
)
def zero(generator: np.random.Generator) -> Iterator[Evaluation]:
    """Stein: at a fixed level -log f falls by the divergence of P from Q with every factor."""
    for scale in (0.5, 0.8, 0.9):
        divergence = np.log(scale) + 0.5 / scale**2 - 0.5
        few = int(40.0 / divergence)
        logs = [np.log(gaussian_pair(count, 0.0, log_scale=float(np.log(scale)))(0.5)) for count in (few, 4 * few)]
        fall = float((logs[0] - logs[1]) / (3 * few))
        yield Evaluation(f"N(0,1) against N(0, {scale:g}^2)", float(few), fall, float(divergence))


@lemma(
    "min_equal",
    "Section 3",
    "With the component shown, the curve is the least weighted sum over all ways to divide the level.",
    EQUAL,
)
def min_equal(generator: np.random.Generator) -> Iterator[Evaluation]:
    """One threshold for all components against a search over allocations of the level; curves in closed form."""
    for mu, nu, weight in ((0.2, 1.5, 0.3), (0.5, 2.0, 0.5), (1.0, 3.0, 0.8)):
        curves = (gaussian_pair(1, mu, log_scale=0.0), gaussian_pair(1, nu, log_scale=0.0))
        by_threshold = RevealedMixture((weight, 1.0 - weight), curves)(ALPHA)
        by_search = [_least(alpha, weight, mu, nu) for alpha in ALPHA.tolist()]
        yield from along(f"G_{mu:g} and G_{nu:g}, weight {weight:g}", by_threshold, np.array(by_search))


def _least(alpha: float, weight: float, mu: float, nu: float) -> float:
    """min of w G_mu(a) + (1-w) G_nu(b) over w a + (1-w) b = alpha."""

    def value(a: float) -> float:
        b = (alpha - weight * a) / (1.0 - weight)
        return float(weight * ndtr(-ndtri(a) - mu) + (1.0 - weight) * ndtr(-ndtri(b) - nu))

    low, high = max(0.0, (alpha - (1.0 - weight)) / weight), min(1.0, alpha / weight)
    return float(minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).fun)


@lemma("Order_in_trade-off", "Section 3", "A lower component makes the revealed mixture lower.")
def order(generator: np.random.Generator) -> Iterator[Evaluation]:
    """With one component, against the same component seen less clearly."""
    for setting, weights, pairs in _mixtures(generator):
        p, q = pairs[0]
        # seen through a channel that now and then forgets the outcome, a pair is told apart less well
        blurred = [((0.7 * p + 0.3 / 6.0), (0.7 * q + 0.3 / 6.0)), *pairs[1:]]
        yield from along(setting, _revealed(weights, pairs), _revealed(weights, blurred))


@lemma("Upper_bound", "Section 3", "The revealed mixture is at most the weighted sum of the curves at equal levels.")
def upper_bound(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The revealed mixture, against the weighted sum at equal levels."""
    for setting, weights, pairs in _mixtures(generator):
        mean = sum(w * FiniteOutcomes(p, q)(ALPHA) for w, (p, q) in zip(weights, pairs, strict=True))
        yield from along(setting, _revealed(weights, pairs), np.asarray(mean))


@theorem("bound", "Section 3", "With a scale below 1, the curve falls as the mean moves away.", tolerance=2e-8)
def falls_with_shift(generator: np.random.Generator) -> Iterator[Evaluation]:
    """A mean further away, against a nearer one."""
    for scale in (0.5, 0.8, 0.99):
        for small, large in pairwise((0.0, 0.1, 0.5, 1.0, 3.0)):
            near, far = (gaussian_pair(1, mu, log_scale=float(np.log(scale)))(ALPHA) for mu in (small, large))
            yield from along(f"scale {scale:g}, mean {large:g} against {small:g}", far, near)


@theorem("bound_fix_variance", "Section 3", "Without a mean, the curve falls as the scale falls from 1.")
def falls_with_scale(generator: np.random.Generator) -> Iterator[Evaluation]:
    """A smaller scale, against a larger one."""
    for narrow, wide in pairwise((0.1, 0.5, 0.8, 0.99, 1.0)):
        # in closed form: the ball of level alpha is the same for both
        radius = ndtri(0.5 + 0.5 * ALPHA)
        curves = (2.0 * ndtr(-radius / scale) for scale in (narrow, wide))
        yield from along(f"scale {narrow:g} against {wide:g}", *curves)
