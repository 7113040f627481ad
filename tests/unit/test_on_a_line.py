"""on_a_line: never below the exact curve of the two mixtures, and close to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import noisymean as nm
import oracles
from noisymean.compose.contour import Composed
from noisymean.laws.across import TabulatedPair
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import Mechanism
from noisymean.pairs import Added, AddedAcross, Datasets, Replaced
from noisymean.tradeoff import Side
from rounds_of import pair_rounds

# Cutting into cells is a post-processing: never below, and this close where few dimensions make it necessary.
CELLS = 1e-3


def on_axis(mixture: LineMixture, dimension: int = 1) -> oracles.Gaussians:
    means = np.zeros((mixture.means.size, dimension))
    means[:, 0] = mixture.means
    return oracles.Gaussians(mixture.weights, means, mixture.scales)


def simulated_law(kind: type, gradients: np.ndarray, rate: float, sigma: float, size: int) -> oracles.Gaussians:
    """What `kind` releases on `gradients`; `size` is the number of records in the smaller dataset."""
    count = gradients.shape[0]
    if kind is nm.EASGM:
        return oracles.one_round(gradients, rate, sigma, lambda _: count * rate)
    if kind is nm.FEASGM:
        return oracles.one_round(gradients, rate, sigma, lambda _: max(int(count * rate + 1e-12), 1))
    return oracles.one_round(gradients, rate, sigma, lambda batch: max(batch, 1))


def on_one_line(mechanism: Mechanism) -> list[ExplicitPair]:
    return [pair for pair in explicit_pairs(mechanism) if isinstance(pair, ExplicitPair)]


def gradients_of(datasets: Datasets, size: int) -> np.ndarray:
    """N + 1 one-dimensional gradients."""
    assert isinstance(datasets, Added)
    return np.array([[datasets.shared]] * size + [[datasets.new]])


SMALL = [
    (nm.EASGM, 1, 0.5, 1.0),
    (nm.EASGM, 4, 0.7, 2.0),
    (nm.EASGM, 3, 1.0, 0.7),
    (nm.ASGM, 1, 0.5, 1.0),
    (nm.ASGM, 4, 0.7, 2.0),
    (nm.ASGM, 3, 0.9, 0.5),
    (nm.FEASGM, 3, 0.5, 1.0),
    (nm.FEASGM, 4, 0.8, 3.0),
]


@pytest.mark.parametrize(("kind", "size", "rate", "sigma"), SMALL)
def test_datasets_are_the_ones_named_in_one_dimension(kind: Any, size: int, rate: float, sigma: float) -> None:
    """Run the mechanism on the gradients of the named datasets, all 2^N batches; exact curve by quadrature."""
    mechanism = kind(dataset_size=size, dimension=1, sample_rate=rate, noise_multiplier=sigma)
    pairs = explicit_pairs(mechanism)
    assert pairs
    for pair in pairs:
        gradients = gradients_of(pair.datasets, size)
        p = simulated_law(kind, gradients[:-1], rate, sigma, size)
        q = simulated_law(kind, gradients, rate, sigma, size)
        alpha, beta = oracles.line_errors(p, q, points=40_001)
        keep = slice(None, None, 997)
        upper = pair.curve.upper(np.clip(alpha[keep], 0.0, 1.0))
        assert (upper >= beta[keep] - 1e-7).all(), pair.datasets
        assert (upper <= beta[keep] + CELLS).all(), pair.datasets


@pytest.mark.parametrize(
    ("kind", "size", "dimension", "rate", "sigma"),
    [
        (nm.EASGM, 4, 100, 0.5, 1.0),
        (nm.EASGM, 30, 1_000, 0.1, 1.0),
        (nm.EASGM, 99, 20_000, 0.05, 2.0),
        (nm.EASGM, 299, 100_000, 0.02, 10.0),
        (nm.FEASGM, 59, 5_000, 0.5, 0.6),
        (nm.FEASGM, 1_399, 26_010, 0.05, 10.0),
    ],
)
def test_products_with_many_dimensions(kind: Any, size: int, dimension: int, rate: float, sigma: float) -> None:
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    for pair in on_one_line(mechanism):
        p, q = on_axis(pair.p), on_axis(pair.q)
        spread = (1.0 / q.scales[0] ** 2 - 1.0) * np.sqrt(0.5 * dimension)
        thresholds = np.linspace(-3.0, 3.0, 7) * spread - 0.25 * spread**2
        alpha, beta = oracles.product_errors(dimension, p, q, thresholds)
        kept = (alpha > 0.0) & (alpha < 1.0)
        assert kept.sum() >= 4
        assert float(np.max(np.abs(pair.curve(alpha[kept]) - beta[kept]))) <= 1e-10, pair.datasets
        assert (pair.curve.upper(alpha[kept]) >= beta[kept] - 1e-12).all(), pair.datasets


@pytest.mark.thin(3)
@pytest.mark.parametrize("dimension", [2, 3, 4, 5, 6, 10, 33, 64])
@pytest.mark.parametrize(
    ("kind", "size", "rate", "sigma"), [(nm.EASGM, 1, 0.5, 1.0), (nm.EASGM, 4, 0.7, 2.0), (nm.FEASGM, 7, 0.5, 0.5)]
)
def test_products_with_few_dimensions(kind: Any, size: int, dimension: int, rate: float, sigma: float) -> None:
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    for pair in on_one_line(mechanism):
        if pair.q.means.size == 1:
            # closed form (test_gaussian), with an end of the loss that the quadrature does not follow
            continue
        thresholds = np.array([-1.5, -0.7, -0.2, 0.1, 0.5, 1.0])
        alpha, beta = oracles.product_errors(dimension, on_axis(pair.p), on_axis(pair.q), thresholds)
        kept = (alpha > 1e-12) & (alpha < 1.0 - 1e-12)
        upper = pair.curve.upper(alpha[kept])
        assert (upper >= beta[kept] - 1e-10).all(), pair.datasets
        assert (upper <= beta[kept] + CELLS).all(), pair.datasets


@pytest.mark.parametrize(
    ("size", "dimension", "rate", "sigma"), [(4, 20, 0.7, 2.0), (2, 3, 0.5, 1.0), (10, 200, 0.5, 5.0)]
)
def test_asgm_in_the_plane(size: int, dimension: int, rate: float, sigma: float) -> None:
    mechanism = nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    for pair in on_one_line(mechanism):
        alpha, beta = oracles.plane_errors(dimension, on_axis(pair.p, dimension), on_axis(pair.q, dimension))
        at = np.linspace(0.02, 0.98, 25)
        finer = np.interp(at, alpha, beta)
        upper = pair.curve.upper(at)
        # the reference itself is good to a few 1e-6 (by halving its step)
        assert (upper >= finer - 6e-6).all(), pair.datasets
        assert (upper <= finer + CELLS).all(), pair.datasets


def test_one_gaussian_on_each_side_is_closed_form(alphas: np.ndarray) -> None:
    # q = 1, everything aligned against the new record: EASGM's worst pair
    mechanism = nm.EASGM(dataset_size=9, dimension=40, sample_rate=1, noise_multiplier=2.0)
    [opposed] = [p for p in explicit_pairs(mechanism) if p.datasets == Added(1.0, -1.0)]
    # |9 * (-1) - 9| / (10 * 2), scale 9/10
    expected = gaussian_pair(40, 18.0 / 20.0, log_scale=float(np.log(0.9)))
    np.testing.assert_allclose(opposed.curve(alphas), expected(alphas), rtol=1e-11, atol=1e-15)


def test_samples_follow_the_mixture() -> None:
    mixture = LineMixture(np.array([0.25, 0.75]), np.array([0.0, 4.0]), np.array([1.0, 0.5]))
    pair = ExplicitPair(Added(0.0, 0.0), 3, mixture, mixture)
    draws = pair.sample(np.random.default_rng(5), 40_000, extra_record=False)
    assert draws.shape == (40_000, 3)
    # mean 3, variance E[s^2] + var(mean) = 0.4375 + 3; six standard errors
    assert draws[:, 0].mean() == pytest.approx(3.0, abs=6 * np.sqrt(3.4375 / 40_000))
    assert draws[:, 1].var() == pytest.approx(0.4375, rel=0.05)
    assert np.array_equal(draws, pair.sample(np.random.default_rng(5), 40_000, extra_record=True))


@pytest.mark.parametrize("sigma", [1e-3, 1e-2, 0.05])
@pytest.mark.parametrize("kind", [nm.EASGM, nm.FEASGM])
def test_tiny_noise_is_not_worse_than_it_is(kind: Any, sigma: float) -> None:
    """With next to no noise the outputs split into far-apart clusters, some of which one side never visits."""
    size, rate = 3, 0.5
    mechanism = kind(dataset_size=size, dimension=1, sample_rate=rate, noise_multiplier=sigma)
    for pair in explicit_pairs(mechanism):
        gradients = gradients_of(pair.datasets, size)
        p = simulated_law(kind, gradients[:-1], rate, sigma, size)
        q = simulated_law(kind, gradients, rate, sigma, size)
        alpha, beta = oracles.line_errors(p, q, points=80_001)
        at = np.array([0.01, 0.1, 0.2, 0.4, 0.6, 0.9])
        exact = np.interp(at, alpha, beta)
        assert (pair.curve.upper(at) >= exact - 1e-6).all(), pair.datasets


@pytest.mark.parametrize(("count", "dimension"), [(4, 10**6), (60, 10**7), (200, 10**6)])
def test_a_loss_beyond_what_doubles_hold_is_not_overstated(count: int, dimension: int) -> None:
    """Above epsilon = 700 P[l > eps] is no double. Taken as 0 it made the leakage one too large; the integral of K does not need it."""
    mechanism = nm.EASGM(dataset_size=count, dimension=dimension, sample_rate=0.05, noise_multiplier=2.0)
    pair = explicit_pairs(mechanism)[0]
    cumulants = pair_rounds(pair, 1).parts[0][1].cumulants
    assert cumulants is not None
    integral = Composed(cumulants)
    for curve, exact in ((pair.curve, integral), (pair.curve.inverse(), integral.inverse())):
        for delta in (1e-3, 1e-8):
            with np.errstate(all="ignore"):
                truth = exact.epsilon(delta)
            leaked = curve.epsilon(delta, Side.BELOW)
            assert leaked <= truth
            assert leaked >= truth * 0.99 - 15.0


@pytest.mark.parametrize("dof", [1, 2, 3, 7, 63, 64, 100, 600, 4095, 4096, 10**6, 27_291_631])
@pytest.mark.parametrize("records", [1, 2, 3, 60, 10**4])
def test_tables_are_as_good_as_charged(dof: int, records: int) -> None:
    """Against the contour integral (itself against 50 digits: test_chi_square), as far out as probabilities of e^-70."""
    log_scale = -math.log1p(1.0 / records)
    table, exact = TabulatedPair(dof, log_scale), gaussian_pair(dof, 0.0, log_scale=log_scale)
    deviations = math.sqrt(0.5 * dof) * np.linspace(-13.0, 14.0, 2001)
    c, a = math.expm1(-2.0 * log_scale), -math.expm1(2.0 * log_scale)
    for slope in (c, a):
        centre = -dof * log_scale - 0.5 * slope * dof
        t = centre - slope * deviations
        t = t[t < -dof * log_scale - 1e-9 * slope * dof]
        for found, wanted in zip(table.probabilities(t), exact.tails(t), strict=True):
            seen = wanted > -70.0
            assert np.all(np.abs(np.log(found[seen]) - wanted[seen]) <= table.relative_error)


@pytest.mark.parametrize("dof", [1, 2, 7, 63, 64, 300, 599, 870, 5_000, 27_291_631, 10**9])
@pytest.mark.parametrize("records", [1, 3, 60])
def test_grown_tails_are_as_good_as_charged(dof: int, records: int) -> None:
    """e^t P[l > t] and e^-t Q[l <= t] off the table, beside the exact tails they stand for, where those can be told."""
    log_scale = -math.log1p(1.0 / records)
    table, exact = TabulatedPair(dof, log_scale), gaussian_pair(dof, 0.0, log_scale=log_scale)
    for sign, small, large in ((1.0, 0, 2), (-1.0, 3, 1)):
        # where the larger of the two is seen: from its mean outwards
        centre, reach = float(exact.inverse().epsilon(0.5) if sign < 0.0 else exact.epsilon(0.5)), math.sqrt(dof)
        t = sign * np.linspace(max(centre - 5.0 * reach, 0.0), centre + 5.0 * reach, 301)
        tails = exact.tails(t)
        found, wanted = table.log_grown_tail(t, sign), np.minimum(sign * t + tails[small], 0.0)
        charged = table.relative_error + 4e-15 * np.abs(t)
        seen = tails[large] > -80.0
        assert seen.any()
        # not only beside the larger tail: losses of cells are ratios. Too large is safe, and so it is off the table
        assert np.all(found[seen] >= (wanted - charged)[seen])
        inside = seen & (tails[{2: 3, 1: 0}[large]] > -80.0)
        assert np.all(found[inside] <= (wanted + charged)[inside])


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        (Added(0.0, 1.0), "all gradients of D are zero, the added record's has full length C"),
        (Added(0.0, 0.25), "all gradients of D are zero, the added record's has length 0.25 C"),
        (Added(1.0, -1.0), "all gradients of D are one vector of full length C, the added record's is its opposite"),
        (Added(1.0, -0.5), "all gradients of D are one vector of full length C, the added record's is -0.5 times it"),
        (Added(1.0, 1.0), "all gradients of D are one vector of full length C, the added record's is the same"),
        (Added(0.0, 0.0), "all gradients are zero, the added record's as well"),
        (
            AddedAcross(1.0, 1.0),
            "all gradients of D are one vector of full length C, the added record's has full length C and is orthogonal to it",
        ),
        (Replaced(-1.0, 1.0), "all gradients are zero but one, of full length C in D and its opposite in D'"),
    ],
)
def test_a_pair_in_words(datasets: Datasets, said: str) -> None:
    assert str(datasets) == said
