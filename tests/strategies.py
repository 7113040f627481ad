"""What hypothesis draws: mechanisms, curves, gradients. Sizes stay where a curve takes milliseconds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import noisymean as nm
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.tradeoff import TradeOff


def log_floats(low: float, high: float) -> SearchStrategy[float]:
    """Floats whose logarithm is spread evenly."""
    return st.floats(np.log(low), np.log(high)).map(lambda e: float(np.exp(e)))


def log_integers(low: int, high: int) -> SearchStrategy[int]:
    """Whole numbers whose logarithm is spread evenly, both ends likely."""
    return st.one_of(
        st.integers(low, min(high, low + 4)), log_floats(max(low, 1), high).map(lambda v: min(max(round(v), low), high))
    )


def log_scales(least: float = -0.7, most: float = 0.7) -> SearchStrategy[float]:
    """log s, either sign unless bounded, never closer to 0 than a denominator of 10^7 puts it, but for 0 itself."""
    return st.floats(least, most).map(lambda v: 0.0 if v == 0.0 else float(np.copysign(max(abs(v), 1e-7), v)))


def rates(low: str = "1e-4") -> SearchStrategy[Fraction]:
    """Sampling rates as short decimals, with the ends and their neighbourhoods."""
    inner = st.integers(1, 9_999).map(lambda i: Fraction(i, 10_000))
    edges = st.sampled_from([Fraction(low), Fraction("0.999"), Fraction(1), Fraction(1, 2), Fraction(1, 3)])
    return st.one_of(inner, edges)


sigmas = log_floats(0.3, 50.0)
dimensions = log_integers(1, 10**6)
dataset_sizes = log_integers(1, 3_000)


def mechanisms(
    *kinds: type, sizes: SearchStrategy[int] = dataset_sizes, dims: SearchStrategy[int] = dimensions
) -> SearchStrategy[Any]:
    """A mechanism of one of the given kinds (all three by default)."""
    return st.one_of(
        *(
            st.builds(kind, dataset_size=sizes, dimension=dims, sample_rate=rates(), noise_multiplier=sigmas)
            for kind in kinds or (nm.EASGM, nm.ASGM, nm.FEASGM)
        )
    )


def alpha_lists() -> SearchStrategy[np.ndarray]:
    """A few false positive rates, sorted, tails included."""
    one = st.one_of(st.floats(0.001, 0.999), log_floats(1e-10, 1e-2))
    return st.lists(one, min_size=3, max_size=6, unique=True).map(lambda values: np.array(sorted(values)))


def outcomes() -> SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Two laws on two to seven outcomes, zeros included."""

    def normalised(size: int) -> SearchStrategy[np.ndarray]:
        parts = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
        return parts.map(lambda v: np.array(v, dtype=float) / sum(v))

    return st.integers(2, 7).flatmap(lambda size: st.tuples(normalised(size), normalised(size)))


def simple_curves() -> SearchStrategy[TradeOff]:
    """Curves with closed or short forms."""
    return st.one_of(
        st.just(Identity()),
        st.floats(0.01, 4.0).map(Gaussian),
        st.builds(EpsilonDelta, st.floats(0.0, 3.0), st.floats(0.0, 0.5)),
        st.builds(Subsampled, st.floats(0.05, 4.0).map(Gaussian), st.floats(0.01, 0.99)),
        st.builds(
            gaussian_pair,
            dimension=st.integers(2, 400),
            shift=st.one_of(st.just(0.0), log_floats(1e-5, 4.0)),
            log_scale=log_scales(),
        ),
        outcomes().map(lambda pair: FiniteOutcomes(*pair)),
    )


def gradient_sets(most: int = 4, dimension: int | None = None) -> SearchStrategy[np.ndarray]:
    """N + 1 gradients of norm at most 1, the new record's last, N from 1 to `most`."""

    def rows(shape: tuple[int, int]) -> SearchStrategy[np.ndarray]:
        count, size = shape
        entries = st.lists(st.integers(-100, 100), min_size=count * size, max_size=count * size)
        return entries.map(lambda values: clipped(np.array(values).reshape(count, size) / 100.0))

    columns = st.just(dimension) if dimension else st.integers(1, 5)
    return st.tuples(st.integers(2, most + 1), columns).flatmap(rows)


def clipped(rows: np.ndarray) -> np.ndarray:
    """Each row scaled down to norm 1 if it is longer."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
