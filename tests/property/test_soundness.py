"""No guarantee is above the truth, no leakage below it: against exact curves of tiny rounds, and against one another."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import noisymean as nm
import oracles
import strategies
from effort import examples
from noisymean.laws.size_revealed import size_revealed

KINDS = (nm.EASGM, nm.ASGM, nm.FEASGM)
INNER = np.concatenate([np.logspace(-6, -2, 5), np.linspace(0.03, 0.97, 20), [0.999]])


def always(divisor: float) -> Callable[[int], float]:
    return lambda _: divisor


def laws(mechanism: Any, gradients: np.ndarray) -> tuple[oracles.Gaussians, oracles.Gaussians]:
    """What the mechanism releases on D and on D': every batch, its own mean and scale."""
    q, sigma = mechanism.q, mechanism.noise_multiplier
    released = []
    for rows in (gradients[:-1], gradients):
        if isinstance(mechanism, nm.ASGM):
            released.append(oracles.one_round(rows, q, sigma, lambda size: float(max(size, 1))))
        else:
            share = rows.shape[0] * mechanism.rate
            divisor = float(share) if isinstance(mechanism, nm.EASGM) else float(max(int(share), 1))
            released.append(oracles.one_round(rows, q, sigma, always(divisor)))
    return released[0], released[1]


def round_of(kind: Any, gradients: np.ndarray, rate: Fraction, sigma: float) -> Any:
    count, dimension = gradients.shape
    return kind(dataset_size=count - 1, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


class TestAgainstTheExactCurve:
    """In one dimension the exact T(M(D), M(D')) is a quadrature; cells make it at most too large."""

    @pytest.mark.parametrize("kind", KINDS)
    @examples(25)
    @given(
        gradients=strategies.gradient_sets(dimension=1), rate=strategies.rates(), sigma=strategies.log_floats(0.2, 20.0)
    )
    @example(gradients=np.array([[1.0], [-1.0]]), rate=Fraction(1), sigma=1.0)
    @example(gradients=np.array([[0.0], [1.0]]), rate=Fraction(1, 2), sigma=0.2)
    @example(gradients=np.array([[1.0], [1.0], [1.0], [-1.0]]), rate=Fraction(999, 1000), sigma=5.0)
    def test_one_dimension(self, kind: Any, gradients: np.ndarray, rate: Fraction, sigma: float) -> None:
        mechanism = round_of(kind, gradients, rate, sigma)
        exact = np.interp(INNER, *oracles.line_errors(*laws(mechanism, gradients)))
        for name, bound in (
            ("guarantee", nm.guarantee(mechanism)),
            ("guarantee_tight", nm.guarantee_tight(mechanism)),
            ("per_pair", nm.per_pair(mechanism, gradients)),
        ):
            assert (bound.lower(INNER) <= exact + 1e-12).all(), name
        if kind is nm.ASGM:
            alone = size_revealed(mechanism.dataset_size, mechanism.q, sigma)
            assert (alone.lower(INNER) <= exact + 1e-12).all()

    @pytest.mark.parametrize("kind", KINDS)
    @examples(12)
    @given(
        multiples=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=4),
        dimension=st.sampled_from([2, 3, 20, 200]),
        rate=st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(4, 5), Fraction(1)]),
        sigma=strategies.log_floats(0.5, 10.0),
    )
    def test_gradients_on_a_line_in_many_dimensions(
        self, kind: Any, multiples: list[float], dimension: int, rate: Fraction, sigma: float
    ) -> None:
        gradients = np.zeros((len(multiples), dimension))
        gradients[:, 0] = multiples
        mechanism = round_of(kind, gradients, rate, sigma)
        exact = np.interp(INNER[4:], *oracles.plane_errors(dimension, *laws(mechanism, gradients), points=700))
        for bound in (nm.guarantee(mechanism), nm.guarantee_tight(mechanism), nm.per_pair(mechanism, gradients)):
            assert (bound.lower(INNER[4:]) <= exact + 2e-4).all()

    @pytest.mark.parametrize("kind", KINDS)
    @examples(15)
    @given(gradients=strategies.gradient_sets(), rate=strategies.rates(), sigma=strategies.log_floats(0.2, 20.0))
    def test_given_gradients_are_at_least_as_private_as_the_worst(
        self, kind: Any, gradients: np.ndarray, rate: Fraction, sigma: float
    ) -> None:
        mechanism = round_of(kind, gradients, rate, sigma)
        per_pair, guarantee = nm.per_pair(mechanism, gradients)(INNER), nm.guarantee(mechanism)(INNER)
        assert (per_pair >= guarantee - 2e-8).all()
        ceiling = nm.ceiling(mechanism)
        if ceiling is not None:
            # Theorems upperbound_*: the ceiling bounds the per-pair guarantee, whatever the gradients
            assert (per_pair <= ceiling(INNER) + 2e-8).all()


class TestAgainstOneAnother:
    @pytest.mark.parametrize("kind", KINDS)
    @examples(25)
    @given(data=st.data(), alpha=strategies.alpha_lists())
    def test_order_of_the_curves(self, kind: Any, data: st.DataObject, alpha: np.ndarray) -> None:
        mechanism = data.draw(strategies.mechanisms(kind))
        curves = nm.curve(mechanism, alpha)
        assert (curves.guarantee <= curves.guarantee_tight).all()
        assert (curves.guarantee_tight <= curves.leakage).all()
        assert (curves.leakage <= 1.0 - alpha + 1e-7).all()
        if curves.ceiling is not None:
            assert (curves.guarantee <= curves.ceiling).all()
        if curves.ceiling_clt is not None:
            assert curves.ceiling is not None
            defined = ~np.isnan(curves.ceiling_clt)
            assert (curves.ceiling[defined] <= curves.ceiling_clt[defined] + 1e-11).all()

    @pytest.mark.parametrize("kind", [nm.EASGM, nm.ASGM])
    @pytest.mark.parametrize(
        ("size", "dimension"), [(1, 10_000), (4, 2_000), (99, 50_000), (999, 10**6), (59_999, 10**8)]
    )
    def test_the_central_limit_is_above_the_ceiling_it_estimates(self, kind: Any, size: int, dimension: int) -> None:
        mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=0.7, noise_multiplier=10.0)
        curves = nm.curve(mechanism, points=201)
        assert curves.ceiling is not None
        assert curves.ceiling_clt is not None
        defined = ~np.isnan(curves.ceiling_clt)
        assert defined.sum() > 50
        assert (curves.ceiling[defined] <= curves.ceiling_clt[defined] + 1e-11).all()

    @examples(60)
    @given(
        size=st.one_of(st.integers(0, 4), strategies.log_integers(5, 5_000)),
        dimension=strategies.log_integers(1, 10**6),
        rate=st.one_of(
            strategies.rates(),
            st.sampled_from([Fraction(1, 10**6), Fraction(999_999, 10**6), Fraction(1), Fraction(1, 2)]),
        ),
        sigma=strategies.log_floats(0.05, 200.0),
        alpha=strategies.alpha_lists(),
    )
    @example(size=0, dimension=1, rate=Fraction(1, 2), sigma=1.0, alpha=np.array([0.1, 0.5]))
    @example(size=1, dimension=2, rate=Fraction(999, 1000), sigma=0.1, alpha=np.array([0.01, 0.9]))
    @example(size=3, dimension=10**6, rate=Fraction(1, 10**4), sigma=100.0, alpha=np.array([1e-6, 0.999]))
    @example(size=100_000, dimension=1_000, rate=Fraction(1, 2), sigma=1.0, alpha=np.array([0.2, 0.7]))
    def test_size_revealed_is_not_above_what_an_attacker_achieves(
        self, size: int, dimension: int, rate: Fraction, sigma: float, alpha: np.ndarray
    ) -> None:
        mechanism = nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
        sound = size_revealed(size, mechanism.q, sigma).lower(alpha)
        assert (sound <= nm.leakage(mechanism).upper(alpha)).all()

    @examples(12)
    @given(
        size=strategies.log_integers(1, 5_000),
        few=strategies.log_integers(1, 10**4),
        more=strategies.log_integers(1, 10**4),
        rate=strategies.rates(),
        sigma=strategies.sigmas,
    )
    def test_size_revealed_does_not_depend_on_the_dimension(
        self, size: int, few: int, more: int, rate: Fraction, sigma: float
    ) -> None:
        """However many dimensions: the tight guarantee of ASGM never falls below this one curve."""
        floor = size_revealed(size, float(rate), sigma).lower(INNER)
        for dimension in (few, more):
            mechanism = nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
            assert (nm.guarantee_tight(mechanism).lower(INNER) >= floor).all()

    @examples(30)
    @given(mechanism=strategies.mechanisms(), louder=st.floats(1.0, 5.0), alpha=strategies.alpha_lists())
    def test_more_noise_is_more_private(self, mechanism: Any, louder: float, alpha: np.ndarray) -> None:
        kind = type(mechanism)
        quieter = nm.guarantee(mechanism)(alpha)
        noisier = nm.guarantee(
            kind(
                dataset_size=mechanism.dataset_size,
                dimension=mechanism.dimension,
                sample_rate=mechanism.rate,
                noise_multiplier=mechanism.noise_multiplier * louder,
            )
        )(alpha)
        assert (noisier >= quieter - 2e-8).all()
