"""One contract for every trade-off function: whatever class it is, it is convex, decreasing, below Id, and dual to its delta."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import noisymean as nm
from noisymean import explicit_pair, gaussian_pair, size_revealed, tradeoff
from noisymean.explicit_pair import LossOnLine, TabulatedPair, explicit_pairs
from noisymean.gaussian_pair import GaussianPairs
from noisymean.tradeoff import (
    ConvexHullOfMinimum,
    EpsilonDelta,
    FiniteOutcomes,
    Gaussian,
    Identity,
    Inverse,
    RevealedMixture,
    Subsampled,
    TradeOff,
    from_delta,
)


def product_pair(size: int, dimension: int, rate: float, sigma: float) -> TradeOff:
    mechanism = nm.EASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return explicit_pairs(mechanism)[0].curve


def cell_pair(size: int, dimension: int, rate: float, sigma: float) -> TradeOff:
    mechanism = nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return explicit_pairs(mechanism)[0].curve


def pairs_of(dimension: int, *parts: tuple[float, float, float]) -> GaussianPairs:
    weights, shifts, scales = (np.array(column) for column in zip(*parts, strict=True))
    return GaussianPairs(dimension, weights, shifts, np.log(scales))


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
}
# A spline of normal quantiles, good to 1e-11; each of a hundred thousand cells have P rounded up and Q down; everything else is good to rounding.
TOLERANCE = {
    name: 2e-8 if name == "cells-plane" else 1e-10 for name in CURVES if name.startswith(("tabulated", "line", "cells"))
}
GRID = np.linspace(0.0, 1.0, 101)
EPSILONS = np.array([-4.0, -1.0, -0.1, -1e-3, 1e-3, 0.2, 1.0, 3.0])

every_curve = pytest.mark.parametrize("name", list(CURVES))


def tolerance(name: str) -> float:
    return TOLERANCE.get(name, 2e-12)


def test_every_class_is_in_the_list() -> None:
    modules = (tradeoff, gaussian_pair, explicit_pair, size_revealed)
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
