r"""Certified leakage: explicit pairs of datasets for a mechanism, each an upper bound on every guarantee.

The family (docs/theory.md, "Certified leakage"): all gradients of D are zero or all are one vector, the new record's is a
multiple of it. Which of them leaks most depends on n, N and q, so the best is taken; any of them is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.errors import Undefined
from noisymean.laws.on_a_line import REACH, ExplicitPair, LineMixture
from noisymean.mechanisms import BatchDenominator, DatasetDenominator, Mechanism, Neighbours
from noisymean.noisy_sum import noisy_sum
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.pairs import Added, Replaced
from noisymean.tradeoff import TradeOff

# Pairs whose batch means spread over more sizes than this are left out, in one round and in many: the spread itself hides the
# new record.
_MOST_SIZES, _MOST_SIZES_COMPOSED = 4096, 64
# Mass of batch sizes that one round of that many leaves out.
_MISSED = 1e-40
# Sizes of a batch that are looked at one by one where the denominator may be any function of them.
_MOST_ENUMERATED = 20_000
# With more distinct scales than this the attacker on ASGM looks at x1 only: rho says little about one record in so many.
_MOST_SCALES = 64
# How many values of alpha are looked at to see which pairs matter.
_SCREEN = 17
# (gradient of D's records, of the new one), in units of C.
_ALL_ZERO = ((0.0, 1.0), (0.0, 0.75), (0.0, 0.5), (0.0, 0.25))
_ALIGNED = ((1.0, -1.0), (1.0, -0.5), (1.0, 1.0))
_OF_A_BATCH = ((1.0, -1.0), (1.0, -0.5), (0.0, 1.0))


def explicit_pairs(mechanism: Mechanism) -> list[ExplicitPair]:
    """The family that `leakage` takes the best of: D all-zero or all aligned, the new record's gradient from -C to C."""
    match mechanism:
        case DatasetDenominator():
            return list(_by_dataset(mechanism))
        case BatchDenominator():
            return list(_by_batch(mechanism))
    raise TypeError(f"{type(mechanism).__name__} divides neither by a function of N nor by one of |B|")


def _by_dataset(mechanism: DatasetDenominator) -> Iterator[ExplicitPair]:
    """One scale on each side."""
    moved, one = mechanism.neighbours, binomial.Nodes(np.zeros(1), np.ones(1), 0.0)
    still = moved.growth == 0 and not mechanism.noise_moves
    for shared, new in _ALL_ZERO[:1] if still else _ALL_ZERO:
        yield _on_sizes(mechanism, moved, shared, new, one)
    if still or mechanism.rate_moves or mechanism.noise_moves or mechanism.dataset_size is None:
        return
    count, q = mechanism.dataset_size, mechanism.rate_with
    first, last = binomial.effective_range(count, q)
    many = last - first >= _MOST_SIZES_COMPOSED
    if last - first < _MOST_SIZES:
        sizes = binomial.enumerated(count, q, _MISSED if many else binomial.NEVER_MISSED)
        for shared, new in _ALIGNED:
            yield _on_sizes(mechanism, moved, shared, new, sizes, once=many)


def _on_sizes(
    mechanism: DatasetDenominator,
    moved: Neighbours,
    shared: float,
    new: float,
    nodes: binomial.Nodes,
    *,
    once: bool = False,
) -> ExplicitPair:
    """A batch of k records has the mean shared*k on D; on D' the same, with the new record or without it, over c'/c."""
    sigma, q = moved.noises[0], moved.rates[1]
    shrink, scale = math.exp(moved.log_shrink), math.exp(moved.log_scale)
    # the origin is the middle of D's means, and 1 - c/c' is exact, so that s * size and size never cancel
    means = shared * nodes.sizes - shared * float(nodes.sizes[np.argmax(nodes.weights)])
    shrunk = means - shared * nodes.sizes * float(moved.growth / (1 + moved.growth))
    with_new = np.concatenate([shrunk, shrunk + shrink * new])
    weights = np.concatenate([(1.0 - q) * nodes.weights, q * nodes.weights])
    return ExplicitPair(
        Added(shared, new),
        mechanism.dimension or 1,
        LineMixture(nodes.weights, means / sigma, np.ones_like(means)).present(),
        LineMixture(weights, with_new / sigma, np.full_like(with_new, scale)).present(),
        log_scale=moved.log_scale,
        left_out=nodes.slack,
        once=once,
        moved=abs(new) * shrink / (sigma * scale),
    )


def _by_batch(mechanism: BatchDenominator) -> Iterator[ExplicitPair]:
    """A scale for each size of the batch."""
    q, sigma, count = mechanism.q, mechanism.one_noise(), mechanism.dataset_size or 0
    first, last = binomial.effective_range(count, q)
    if mechanism.divides_by_size:
        # a threshold lies within REACH + 2/sigma deviations of a mean, all of them proportional to 1/size
        nodes = binomial.lattice(count, q, steepness=(REACH + 2.0 / sigma) / max(count * q, 1.0))
    elif last - first > _MOST_ENUMERATED:
        raise Undefined(
            "dataset_size", count, f"small enough for at most {_MOST_ENUMERATED} sizes of a batch",
            f"a denominator {mechanism.denominator} is looked at size by size",
        )  # fmt: skip
    else:
        nodes = binomial.enumerated(count, q, binomial.NEVER_MISSED if last - first < _MOST_SIZES else _MISSED)
    sizes, weights = nodes.sizes, nodes.weights
    divisor, divisor_with = mechanism.divisor(sizes), mechanism.divisor(sizes + 1.0)
    # every batch is the whole dataset: one scale on each side, and their ratio must not be rounded to an ulp of 1
    log_scales = -np.log1p((divisor_with - divisor) / divisor)
    log_scale = float(log_scales[weights > 0.0][0]) if q == 1.0 else None
    for shared, new in _OF_A_BATCH:
        # the origin is the mean of a batch that is divided by its size, so that nothing cancels where all are
        means = shared * (sizes - divisor) / (divisor * sigma)
        means_with = (new - shared + shared * (sizes + 1.0 - divisor_with)) / (divisor_with * sigma)
        p = LineMixture(weights, means, 1.0 / divisor)
        with_new = LineMixture(
            np.concatenate([(1.0 - q) * weights, q * weights]),
            np.concatenate([means, means_with]),
            np.concatenate([p.scales, 1.0 / divisor_with]),
        )
        yield ExplicitPair(
            Added(shared, new),
            mechanism.dimension or 1,
            p.present(),
            with_new.present(),
            log_scale=log_scale,
            line_only=last - first >= _MOST_SCALES,
            left_out=nodes.slack,
            moved=float(np.max(np.abs(means_with - means) * divisor_with, where=weights > _MISSED, initial=0.0)),
        )


def replaced_pair(mechanism: Mechanism) -> ExplicitPair:
    """The noisy sum when a record with gradient -C*u is replaced by one with C*u, every other being zero."""
    q, shift = mechanism.q, 1.0 / mechanism.noise_multiplier
    weights = np.array([1.0 - q, q])
    before, after = (LineMixture(weights, np.array([0.0, end]), np.ones(2)).present() for end in (-shift, shift))
    return ExplicitPair(Replaced(-1.0, 1.0), 1, before, after, log_scale=0.0)


@final
@dataclass(frozen=True)
class Leakage:
    """Curves of explicit pairs: no guarantee can be above any of them."""

    pairs: tuple[ExplicitPair, ...]
    curves: tuple[TradeOff, ...]

    def upper(self, alpha: ArrayLike) -> Array:
        """The least false negative rate that one of the attackers achieves, rounded up."""
        return self.best(alpha)[0]

    def best(self, alpha: ArrayLike) -> tuple[Array, Array]:
        """(values, index of the pair that attains each)."""
        alpha = np.asarray(alpha, dtype=np.float64)
        contenders = self._contenders(alpha)
        values = np.stack([self.curves[i].upper(alpha) for i in contenders])
        winner = np.argmin(values, axis=0)
        return values.min(axis=0), np.asarray(contenders)[winner]

    def _contenders(self, alpha: Array) -> list[int]:
        """Pairs that matter on a thinned alpha: leaving a pair out never makes the result unsound."""
        if len(self.curves) == 1 or alpha.size <= _SCREEN:
            return list(range(len(self.curves)))
        thinned = np.unique(np.quantile(alpha, np.linspace(0.0, 1.0, _SCREEN)))
        values = np.stack([curve.upper(thinned) for curve in self.curves])
        least = values.min(axis=0)
        chosen = [int(np.argmax((values <= least).sum(axis=1)))]
        while True:
            # how far the chosen ones are from the best, as a share of what is left to lose
            gap = (values[chosen].min(axis=0) - least) / np.maximum(np.minimum(least, 1.0 - thinned - least), 1e-12)
            worst = int(np.argmax(gap))
            if gap[worst] < 1e-3:
                return chosen
            chosen.append(int(np.argmin(values[:, worst])))


def leakage(mechanism: Mechanism) -> Leakage:
    """The best attacker of the family of explicit pairs, on one round."""
    pairs = explicit_pairs(mechanism)
    if mechanism.is_sum:
        # the pair (0, C u) attains the SGM curve exactly
        return Leakage((pairs[0],), (noisy_sum(mechanism),))
    return Leakage(tuple(pairs), tuple(pair.curve for pair in pairs))
