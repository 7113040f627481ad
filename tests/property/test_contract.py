"""One contract for every trade-off function: whatever class it is, it is convex, decreasing, below Id, and dual to its delta."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean import tradeoff
from noisymean.compose import contour
from noisymean.compose.contour import Composed
from noisymean.cumulants import Cumulants, Line, Moments, Sum
from noisymean.laws import across, closed, finite, gaussian, hulls, size_revealed, subsampled
from noisymean.laws.across import LossOnLine, TabulatedPair
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes, Outcomes
from noisymean.laws.gaussian import GaussianPairCumulants, GaussianPairs
from noisymean.laws.hulls import ConvexHullOfMinimum, from_delta
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.leakage import explicit_pairs
from noisymean.tradeoff import Inverse, TradeOff
from rounds_of import leakage_rounds, sgm_cumulants


def product_pair(size: int, dimension: int, rate: float, sigma: float) -> TradeOff:
    mechanism = nm.EASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return explicit_pairs(mechanism)[0].curve


def cell_pair(size: int, dimension: int, rate: float, sigma: float) -> TradeOff:
    mechanism = nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return explicit_pairs(mechanism)[0].curve


def pairs_of(dimension: int, *parts: tuple[float, float, float]) -> GaussianPairs:
    weights, shifts, scales = (np.array(column) for column in zip(*parts, strict=True))
    return GaussianPairs(dimension, weights, shifts, np.log(scales))


@dataclass(frozen=True, eq=False)
class PartOfQ(Cumulants):
    """K of outcomes beside which Q has an infinite loss."""

    finite: Outcomes
    infinite: float = 0.0

    def moments(self, theta: np.ndarray) -> Moments:
        return self.finite.moments(theta)

    def remainder(self, theta: np.ndarray, line: Line) -> np.ndarray:
        return self.finite.remainder(theta, line)

    @property
    def log_masses(self) -> tuple[float, float]:
        return self.finite.log_masses


def composed(*parts: tuple[int, Cumulants]) -> Composed:
    """With a round of the Gaussian mechanism: an integrand that decays at every threshold, however far out."""
    smooth = GaussianPairCumulants(1.0, np.ones(1), np.array([0.3]), 0.0)
    return Composed(Sum((*parts, (1, smooth))))


def outcomes(p: list[float], q: list[float]) -> Outcomes:
    return Outcomes(np.log(np.array(q) / np.array(p)), np.array(p))


CURVES: dict[str, TradeOff] = {
    "identity": Identity(),
    "gaussian-0": Gaussian(0.0),
    "gaussian-tiny": Gaussian(1e-4),
    "gaussian-1": Gaussian(1.0),
    "gaussian-8": Gaussian(8.0),
    "pure-epsilon": EpsilonDelta(1.0),
    "pure-delta": EpsilonDelta(0.0, 0.3),
    "epsilon-delta": EpsilonDelta(0.5, 0.05),
    "everything": EpsilonDelta(0.0, 1.0),
    "finite": FiniteOutcomes(np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])),
    "finite-disjoint-ends": FiniteOutcomes(np.array([0.4, 0.6, 0.0]), np.array([0.0, 0.7, 0.3])),
    "revealed-gaussians": RevealedMixture((0.2, 0.3, 0.5), (Gaussian(0.1), Gaussian(1.0), Gaussian(4.0))),
    "revealed-with-identity": RevealedMixture((0.6, 0.4), (Identity(), Gaussian(1.0))),
    "revealed-atoms": RevealedMixture((0.5, 0.5), (EpsilonDelta(1.0, 0.1), Gaussian(1.0))),
    "subsampled": Subsampled(Gaussian(1.0), 0.01),
    "subsampled-all": Subsampled(Gaussian(1.0), 1.0),
    "subsampled-none": Subsampled(Gaussian(1.0), 0.0),
    "subsampled-atoms": Subsampled(EpsilonDelta(2.0, 0.1), 0.3),
    "subsampled-pair": Subsampled(pairs_of(20, (1.0, 0.8, 0.8)), 0.5),
    "inverse-subsampled": Inverse(Subsampled(Gaussian(1.0), 0.1)),
    "inverse-pair": Inverse(pairs_of(20, (1.0, 0.8, 0.8))),
    "hull": ConvexHullOfMinimum((EpsilonDelta(2.0), EpsilonDelta(0.1, 0.15), Gaussian(0.7))),
    "hull-of-inverse": ConvexHullOfMinimum((Subsampled(Gaussian(2.0), 0.2), Inverse(Subsampled(Gaussian(2.0), 0.2)))),
    "pair-1d": pairs_of(1, (1.0, 0.5, 0.5)),
    "pair-2d-no-shift": pairs_of(2, (1.0, 0.0, 0.5)),
    "pair-3d-larger-scale": pairs_of(3, (1.0, 0.5, 1.5)),
    "pair-million": pairs_of(10**6, (1.0, 0.3, 0.999)),
    "pairs-mixed-scales": pairs_of(10, (0.5, 0.5, 0.9), (0.3, 0.0, 1.0), (0.2, 1.0, 1.1)),
    "size-revealed-small": size_revealed.size_revealed(4, 0.7, 2.0),
    "size-revealed-empty": size_revealed.size_revealed(0, 0.3, 1.0),
    "size-revealed-full": size_revealed.size_revealed(3, 1.0, 1.0),
    "size-revealed-thinned": size_revealed.size_revealed(20_000, 0.2, 1.0),
    "tabulated-few": TabulatedPair(5, float(np.log(0.8))),
    "tabulated-many": TabulatedPair(1_000, float(np.log(0.99))),
    "line-many": product_pair(30, 1_000, 0.2, 1.0),
    "cells-line": cell_pair(3, 1, 0.5, 1.0),
    "cells-plane": cell_pair(4, 20, 0.7, 2.0),
    "composed-gaussian": composed((25, GaussianPairCumulants(1.0, np.ones(1), np.array([0.2]), 0.0))),
    "composed-pairs": composed((30, GaussianPairCumulants(9.0, np.array([0.4, 0.6]), np.array([0.1, 0.0]), -0.0125))),
    "composed-outcomes": composed((40, outcomes([0.5, 0.3, 0.2], [0.45, 0.3, 0.25]))),
    # a tenth of Q in each of three rounds is beyond every finite loss
    "composed-part-of-q": composed((3, PartOfQ(outcomes([0.6, 0.4], [0.5, 0.4]), infinite=0.1))),
}
# A spline of normal quantiles, good to 1e-11; each of a hundred thousand cells have P rounded up and Q down; everything else is good to rounding.
TOLERANCE = {
    name: 2e-8 if name == "cells-plane" else 1e-10
    for name in CURVES
    if name.startswith(("tabulated", "line", "cells", "composed"))
}
GRID = np.linspace(0.0, 1.0, 101)
EPSILONS = np.array([-4.0, -1.0, -0.1, -1e-3, 1e-3, 0.2, 1.0, 3.0])

every_curve = pytest.mark.parametrize("name", list(CURVES))


def tolerance(name: str) -> float:
    return TOLERANCE.get(name, 2e-12)


def test_every_class_is_in_the_list() -> None:
    modules = (tradeoff, closed, finite, subsampled, gaussian, hulls, across, size_revealed, contour)
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, TradeOff) and not inspect.isabstract(value)
    }
    assert classes <= {type(curve) for curve in CURVES.values()}


@every_curve
def test_between_zero_and_the_identity(name: str, alphas: np.ndarray) -> None:
    values = CURVES[name](alphas)
    assert (values >= 0.0).all()
    assert (values <= 1.0 - alphas + tolerance(name)).all()
    assert values[-1] == 0.0


@every_curve
def test_decreasing(name: str, alphas: np.ndarray) -> None:
    assert (np.diff(CURVES[name](alphas)) <= tolerance(name)).all()


@every_curve
def test_convex(name: str) -> None:
    values = CURVES[name](GRID)
    assert (np.diff(values, 2) >= -4e-10).all()
    # and between neighbours of very different size
    left, right = np.array([1e-9, 1e-6, 1e-3, 0.01, 0.5]), np.array([0.3, 0.7, 0.2, 0.99, 1.0 - 1e-6])
    middle = 0.5 * (left + right)
    curve = CURVES[name]
    assert (curve(middle) <= 0.5 * (curve(left) + curve(right)) + 1e-10).all()


@every_curve
def test_at_zero_what_only_q_produces_is_found(name: str) -> None:
    curve = CURVES[name]
    never_seen_under_p = float(np.exp(curve.tails(np.array([1e12])).q_above[0]))
    assert float(curve(0.0)) == pytest.approx(1.0 - never_seen_under_p, abs=tolerance(name))


@every_curve
def test_sides(name: str, alphas: np.ndarray) -> None:
    curve = CURVES[name]
    values = curve(alphas)
    assert (curve.lower(alphas) <= values).all()
    assert (curve.upper(alphas) >= values).all()
    # splines and cells are charged with more than rounding; at alpha = 0 a curve may jump, and 1 is always an upper bound
    widest = 1e-7 if name.startswith(("tabulated", "line", "cells")) else 1e-9
    inner = alphas > 0.0
    assert ((curve.upper(alphas) - curve.lower(alphas))[inner] <= widest).all()


@every_curve
def test_tails_are_probabilities(name: str) -> None:
    thresholds = np.concatenate([EPSILONS, [-30.0, -1e-9, 1e-9, 30.0]])
    p_above, p_below, q_above, q_below = (np.exp(side) for side in CURVES[name].tails(thresholds))
    np.testing.assert_allclose(p_above + p_below, 1.0, atol=tolerance(name))
    np.testing.assert_allclose(q_above + q_below, 1.0, atol=tolerance(name))
    # above t the likelihood ratio is at least e^t, below it at most
    assert (q_above >= np.exp(thresholds) * p_above - tolerance(name) * np.exp(np.maximum(thresholds, 0.0))).all()
    assert (q_below <= np.exp(thresholds) * p_below + tolerance(name) * np.exp(np.maximum(thresholds, 0.0))).all()


@every_curve
def test_thresholds_touch_the_curve(name: str) -> None:
    """(alpha(t), beta(t)) is a point of the curve."""
    curve = CURVES[name]
    tails = curve.tails(EPSILONS)
    alpha, beta = np.exp(tails.p_above), np.exp(tails.q_below)
    scale = np.maximum(1.0, np.exp(EPSILONS))
    assert (np.abs(curve(np.minimum(alpha, 1.0)) - beta) <= max(1e-10, tolerance(name)) * scale).all()


@every_curve
def test_inverse(name: str) -> None:
    """A point of the curve, reflected, is a point of the inverse: in one coordinate or, where the curve is flat, in the other."""
    curve, alpha = CURVES[name], np.linspace(0.02, 0.98, 25)
    beta = curve(alpha)
    back = curve.inverse()(beta)
    again = curve(back)
    assert (np.minimum(np.abs(back - alpha), np.abs(again - beta)) <= 1e-9).all()


@every_curve
def test_inverse_of_inverse(name: str, alphas: np.ndarray) -> None:
    curve = CURVES[name]
    np.testing.assert_allclose(curve.inverse().inverse()(alphas), curve(alphas), rtol=0.0, atol=10 * tolerance(name))


@every_curve
def test_delta_from_the_curve(name: str) -> None:
    """delta(eps) = max over alpha of 1 - f(alpha) - e^eps alpha, attained at alpha = P[l > eps]."""
    curve = CURVES[name]
    deltas = curve.delta(EPSILONS)
    lines = 1.0 - curve(GRID)[:, None] - np.exp(EPSILONS) * GRID[:, None]
    assert (lines <= deltas + max(1e-10, tolerance(name)) * np.maximum(1.0, np.exp(EPSILONS))).all()
    contact = np.minimum(np.exp(curve.tails(EPSILONS).p_above), 1.0)
    attained = 1.0 - curve(contact) - np.exp(EPSILONS) * contact
    np.testing.assert_allclose(attained, deltas, rtol=0.0, atol=max(1e-9, tolerance(name)))


@every_curve
def test_the_curve_from_delta(name: str) -> None:
    """f(alpha) = sup over eps of 1 - delta(eps) - e^eps alpha: below the curve for any list, close to it for a long one."""
    curve, alpha = CURVES[name], np.linspace(0.05, 0.95, 19)
    epsilons = np.concatenate([np.linspace(-9.0, 9.0, 9_001), np.linspace(-1.0, 1.0, 4_001) * 1e-3])
    recovered = from_delta(alpha, epsilons, curve.delta(epsilons))
    exact = curve(alpha)
    assert (recovered <= exact + max(1e-10, tolerance(name))).all()
    assert (recovered >= exact - 1e-3).all()


@every_curve
def test_swapping_the_two_laws(name: str) -> None:
    """delta of T(Q, P) at eps is 1 - e^eps (1 - delta of T(P, Q) at -eps)."""
    curve = CURVES[name]
    swapped = curve.inverse().delta(EPSILONS)
    expected = 1.0 - np.exp(EPSILONS) * (1.0 - curve.delta(-EPSILONS))
    np.testing.assert_allclose(swapped, expected, rtol=0.0, atol=max(1e-11, tolerance(name)) * np.exp(4.0))


@every_curve
def test_advantage_is_the_largest_gap(name: str) -> None:
    curve = CURVES[name]
    advantage = curve.advantage()
    gaps = 1.0 - GRID - curve(GRID)
    assert gaps.max() <= advantage + tolerance(name)
    assert curve.inverse().advantage() == pytest.approx(advantage, abs=max(1e-10, tolerance(name)))
    assert curve.bayes_error() == pytest.approx(0.5 * (1.0 - advantage), abs=max(1e-10, tolerance(name)))


@every_curve
@pytest.mark.parametrize("delta", [1e-3, 0.05, 0.4])
def test_epsilon_of_delta(name: str, delta: float) -> None:
    """The least epsilon whose delta is at most the one asked for."""
    curve = CURVES[name]
    epsilon = curve.epsilon(delta)
    if epsilon == 0.0:
        assert curve.advantage() <= delta * (1.0 + 1e-9) + 1e-11
    elif np.isinf(epsilon):
        assert float(curve.delta(600.0)) > delta
    else:
        assert float(curve.delta(epsilon * (1.0 + 1e-7))) <= delta * (1.0 + 1e-9)
        assert float(curve.delta(epsilon * (1.0 - 1e-7))) >= delta * (1.0 - 1e-9)


def test_the_list_contains_the_class_for_products() -> None:
    assert isinstance(CURVES["line-many"], LossOnLine)


# --- many rounds: where the integral converges, the same ----------------------------------------------------------------


def rounds_of(kind: Any, steps: int) -> tuple[Cumulants, int]:
    """The loss that each of the numbers of an account comes from."""
    mechanism = kind(dataset_size=400, dimension=900, sample_rate=0.05, noise_multiplier=3.0)
    pair = leakage_rounds(mechanism, steps)[0][1].parts[0][1].cumulants
    assert pair is not None
    return pair, steps


SUMS: dict[str, tuple[Cumulants, int]] = {
    "sum": (sgm_cumulants(0.01, 1.0), 1_000),
    "sum, rate near 1": (sgm_cumulants(0.95, 3.0), 40),
    "easgm": rounds_of(nm.EASGM, 60),
    "asgm": rounds_of(nm.ASGM, 60),
    "sizes": (size_revealed.size_revealed(50, 0.3, 20.0, fine=False).cumulants, 80),
    # (0.7)^5 of Q is beyond the finite losses of a round
    "sizes, part of Q": (size_revealed.size_revealed(4, 0.7, 20.0, fine=False).cumulants, 30),
}


@pytest.mark.parametrize("name", list(SUMS))
def test_sums_of_losses(name: str) -> None:
    once, steps = SUMS[name]
    curve = Composed(Sum(((steps, once),)))
    masses = np.exp(steps * np.array(once.log_masses))
    # what Q has beyond the finite losses is above every threshold
    masses[1] += 1.0 - (1.0 - once.infinite) ** steps
    moments = curve.cumulants.moments(np.array([0.0, 1.0]))
    t = np.concatenate(
        [mean + np.sqrt(variance) * np.arange(-2.0, 2.5) for _, mean, variance in zip(*moments, strict=True)]
    )
    t.sort()
    p_above, p_below, q_above, q_below = (np.exp(side) for side in curve.tails(t))
    np.testing.assert_allclose(p_above + p_below, masses[0], rtol=1e-9)
    np.testing.assert_allclose(q_above + q_below, masses[1], rtol=1e-9)
    assert (np.diff(p_above) <= 0.0).all()
    assert (np.diff(q_above) <= 0.0).all()
    # above t the likelihood ratio is at least e^t, below it at most
    assert (q_above >= np.exp(t) * p_above * (1.0 - 1e-9)).all()
    assert (q_below <= np.exp(t) * p_below * (1.0 + 1e-9)).all()
    # delta(e^t) falls, is convex in e^t, and is that of the other direction seen from the other side
    delta = q_above - np.exp(t) * p_above
    slopes = np.diff(delta) / np.diff(np.exp(t))
    assert (slopes <= 0.0).all()
    assert (np.diff(slopes) >= -1e-9 * np.abs(slopes[:-1])).all()
    swapped = curve.inverse().tails(-t)
    other = np.exp(swapped.q_above) - np.exp(-t) * np.exp(swapped.p_above)
    np.testing.assert_allclose(
        np.exp(t) * other, np.exp(t) * masses[0] - masses[1] + delta, rtol=0.0, atol=1e-9 * np.exp(t.max())
    )
    # twice as many rounds are the rounds twice
    twice, double = Composed(Sum(((steps, once), (steps, once)))), Composed(Sum(((2 * steps, once),)))
    for one, two in zip(twice.tails(t), double.tails(t), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
