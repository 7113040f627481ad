"""The paper's guarantee for *given* gradients: Eq. lower_bound_EASGM, Low_ASGM, per_pair_FEASGM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.gaussian import GaussianPairs
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.mechanisms import BatchDenominator, DatasetDenominator, need_mechanism
from noisymean.numerics.logs import Array
from noisymean.proofs import log_ratio
from noisymean.tradeoff import TradeOff

LARGEST_ENUMERATION = 20
# Distinct shifts above which a mixture is compressed.
_MOST_SHIFTS = 4096


def per_pair(
    mechanism: DatasetDenominator | BatchDenominator,
    gradients: ArrayLike | None = None,
    *,
    gram: ArrayLike | None = None,
) -> TradeOff:
    """The paper's guarantee for *given* clipped gradients: sound for this pair, with the batch revealed.

    `gradients` has one row for each record of D', the new one last, in units of the clipping bound C; `gram` is the matrix of
    their inner products, for when they are too long to hold. All 2^N batches are enumerated.
    """
    need_mechanism(mechanism)
    mechanism.need_poisson()
    inner = _gram_matrix(gradients, gram)
    count = inner.shape[0] - 1
    if count != mechanism.dataset_size:
        expected = (mechanism.dataset_size or 0) + 1
        raise InvalidInput("gradients", f"{count + 1} rows", f"dataset_size + 1 = {expected} rows")
    if count > LARGEST_ENUMERATION:
        raise Undefined(
            "dataset_size",
            count,
            f"<= {LARGEST_ENUMERATION} for per_pair, which enumerates 2^N batches",
            "use guarantee (every pair), ceiling (every pair, optimistic) or leakage (explicit pairs) for larger datasets",
        )
    sizes, sum_square, with_new = _subset_sums(inner)
    new_square = inner[-1, -1]
    q, sigma, dimension = mechanism.q, mechanism.noises[0], mechanism.needed_dimension
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(sizes * np.log(q) + np.where(sizes < count, (count - sizes) * np.log1p(-q), 0.0))

    def shift(new: Array | float, batch: Array | float) -> Array:
        """|new * g_new - batch * (sum over B)| for every batch B, in deviations of the noise."""
        square = new * new * new_square - 2.0 * new * batch * with_new + batch * batch * sum_square
        return np.asarray(np.sqrt(np.maximum(square, 0.0))) / sigma

    if isinstance(mechanism, BatchDenominator):
        mechanism.one_noise()
        divisor, divisor_with = mechanism.divisor(sizes), mechanism.divisor(sizes + 1.0)
        growth = (divisor_with - divisor) / divisor
        shifts = shift(1.0 / (1.0 + growth), growth / (1.0 + growth))
        batch = _compressed(dimension, weights, shifts, -np.log1p(growth))
        return RevealedMixture((1.0 - q, q), (Identity(), batch))
    big_k = mechanism.neighbours.big_k()
    if big_k is None:
        return Subsampled(Gaussian(float(np.sqrt(new_square)) / sigma), q)
    shifts = np.concatenate([shift(0.0, 1.0), shift(big_k, 1.0)]) / (big_k + 1.0)
    both = np.concatenate([(1.0 - q) * weights, q * weights])
    return _compressed(dimension, both, shifts, np.full_like(shifts, log_ratio(big_k)))


def _gram_matrix(gradients: ArrayLike | None, gram: ArrayLike | None) -> Array:
    if gradients is None and gram is None:
        raise InvalidInput("gradients", None, "given, or gram in their place", "one row for each record of D'")
    if gradients is not None and gram is not None:
        raise InvalidInput("gram", "a matrix", "left out where gradients are given", "give one of the two")
    if gradients is not None:
        rows = np.asarray(check_number("gradients", gradients), dtype=np.float64)
        matrix = rows @ rows.T if rows.ndim == 2 else rows
    else:
        matrix = np.asarray(check_number("gram", gram), dtype=np.float64)  # type: ignore[arg-type]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise InvalidInput("gradients", f"shape {matrix.shape}", "a matrix with one row for each record of D'")
    longest = float(np.sqrt(np.max(np.diag(matrix))))
    if longest > 1.0 + 1e-9:
        raise InvalidInput(
            "gradients", f"norm {longest:g}", "at most 1 (the clipping bound)", "clip them and divide by C first"
        )
    return np.asarray(matrix)


def _subset_sums(inner: Array) -> tuple[Array, Array, Array]:
    """(|B|, |sum over B|^2, <sum over B, new>) for every subset B of the first N records, by doubling."""
    count = inner.shape[0] - 1
    sizes, squares, cross = np.zeros(1), np.zeros(1), np.zeros(1)
    for record in range(count):
        projections = np.zeros(1)
        for earlier in range(record):
            projections = np.concatenate([projections, projections + inner[earlier, record]])
        sizes = np.concatenate([sizes, sizes + 1.0])
        squares = np.concatenate([squares, squares + 2.0 * projections + inner[record, record]])
        cross = np.concatenate([cross, cross + inner[record, count]])
    return sizes, np.maximum(squares, 0.0), cross


def _compressed(dimension: int, weights: Array, shifts: Array, log_scales: Array) -> GaussianPairs:
    """The same mixture with at most _MOST_SHIFTS components of each scale.

    Where there are more, neighbouring shifts are merged at the *largest* of them: the curve falls with the shift
    (paper, Theorem bound), so the result is still a lower bound.
    """
    parts = []
    for scale in np.unique(log_scales):
        mine = log_scales == scale
        order = np.argsort(shifts[mine])
        ordered, mass = shifts[mine][order], weights[mine][order]
        if ordered.size > _MOST_SHIFTS:
            cuts = np.unique(
                np.searchsorted(ordered, np.linspace(ordered[0], ordered[-1], _MOST_SHIFTS + 1)[1:], side="right")
            )
            edges = np.concatenate([[0], cuts])
            kept = [(lo, hi) for lo, hi in pairwise(edges) if hi > lo]
            mass = np.array([mass[lo:hi].sum() for lo, hi in kept])
            ordered = np.array([ordered[hi - 1] for _, hi in kept])
        parts.append((mass, ordered, np.full_like(ordered, scale)))
    mass, shifts, log_scales = (np.concatenate(column) for column in zip(*parts, strict=True))
    return GaussianPairs(dimension, mass, shifts, log_scales)
