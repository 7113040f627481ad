r"""Certified leakage: explicit pairs of datasets for a mechanism, each an upper bound on every guarantee.

The family (docs/theory.md, "Certified leakage"): all gradients of D are zero or all are one vector, the new record's is a
multiple of it. Which of them leaks most depends on n, N and q, so the best is taken; any of them is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.errors import Undefined
from noisymean.laws.all_zero import all_zero
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import REACH, ExplicitPair
from noisymean.laws.orthogonal import OrthogonalPair
from noisymean.mechanisms import BatchDenominator, DatasetDenominator, Mechanism, Neighbours, need_mechanism
from noisymean.noisy_sum import noisy_sum
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array, log_difference
from noisymean.pairs import Added, AddedAcross, Replaced
from noisymean.tradeoff import TradeOff

# Pairs whose batch sums spread over more sizes than this are left out, and over many rounds those whose variance is so many
# times that of the noise: the spread itself hides the new record.
_MOST_SIZES, _MOST_BLUR = 4096, 4.0
# Below this noise neighbouring sums can be told apart.
_BLURRED = 0.7
# What the sums of batches have to tell, as a share of the rest, for the orthogonal pair to be looked at.
_SHARE = 1e-4
# Sizes of a batch that are looked at one by one where the denominator may be any function of them.
_MOST_ENUMERATED = 20_000
# With more distinct scales than this the attacker on ASGM looks at x1 only,
_MOST_SCALES = 2048
# and where the deviation of the size is below this share of it, of which a deviation of x1 is so many times as much.
_SAME_SIZE = 0.01
# How many values of alpha are looked at to see which pairs matter, and how many times further out than their tests.
_SCREEN, _WIDER = 17, np.array([1.2, 1.5, 2.0])
# Gradients of the new record where D's are zero, where they are one vector, and both for a batch; in units of C.
_ALL_ZERO = (1.0, 0.0)
_ALIGNED = (-1.0, -0.5, 1.0)
_OF_A_BATCH = ((1.0, -1.0), (1.0, -0.5), (0.0, 1.0))


NamedPair: TypeAlias = ExplicitPair | OrthogonalPair


def explicit_pairs(mechanism: Mechanism) -> list[NamedPair]:
    """The family that `leakage` takes the best of: D all-zero or all aligned, the new record's gradient from -C to C."""
    mechanism.need_poisson()
    match mechanism:
        case DatasetDenominator():
            return list(_by_dataset(mechanism))
        case BatchDenominator():
            return list(_by_batch(mechanism))
    raise TypeError(f"{type(mechanism).__name__} divides neither by a function of N nor by one of |B|")


def _by_dataset(mechanism: DatasetDenominator) -> Iterator[NamedPair]:
    """The pairs of a mechanism whose denominator follows from N: one scale of the noise on D and one on D'."""
    moved, dimension = mechanism.neighbours, mechanism.dimension or 1
    same_scale = moved.growth == 0 and not mechanism.noise_moves
    for new in _ALL_ZERO[:1] if same_scale else _ALL_ZERO:
        yield all_zero(moved, dimension, new)
    if mechanism.is_sum or mechanism.dataset_size is None:
        return
    sums = _Sums(moved, mechanism.dataset_size)
    if dimension > 1 and sums.tell(dimension) and (beside := sums.pair(1, 0.0)):
        yield OrthogonalPair(AddedAcross(1.0, 1.0), all_zero(moved, dimension - 1, 1.0), beside)
    for new in _ALIGNED:
        if pair := sums.pair(dimension, new):
            yield pair


@final
@dataclass(frozen=True)
class _Sums:
    """D's gradients are all C v: the sum of a batch of k of them is k C v, in units of the noise of D k/sigma."""

    moved: Neighbours
    count: int

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Of the sum without its noise, on D and on D'."""
        before, after = (binomial.deviation(self.count, rate) / self.moved.noises[0] for rate in self.moved.rates)
        return before**2, (math.exp(self.moved.log_shrink) * after) ** 2

    def tell(self, dimension: int) -> bool:
        """Whether they tell D from D' by more than a share of what the noise and the new record do; all of it roughly."""
        sigma, (before, after) = self.moved.noises[0], self.moved.rates
        log_scale = self.moved.log_scale
        shift = self.count * abs(before - math.exp(self.moved.log_shrink) * after) / sigma
        # noise that is too small to blur neighbouring sums shows the whole shift
        widths = [1.0 + variance if sigma > _BLURRED else 1.0 for variance in self._variances]
        wider = math.log(1.0 + self._variances[1] * math.exp(-2.0 * log_scale)) - math.log1p(self._variances[0])
        told = shift**2 / min(widths) + abs(0.5 * (2.0 * log_scale + wider) ** 2 - 2.0 * log_scale**2)
        return told > _SHARE * (after**2 * math.expm1(min(sigma**-2, 3.0)) + 2.0 * dimension * log_scale**2)

    @cached_property
    def _sizes(self) -> tuple[binomial.Nodes, binomial.Nodes] | None:
        """Of a batch, on D and on D'; None where there are too many."""
        sigma, scale = self.moved.noises[0], math.exp(self.moved.log_scale)
        missed, steepness = _missed(sigma * min(1.0, scale)), max(1.0, 1.0 / scale) / sigma
        for rate in self.moved.rates:
            first, last = binomial.effective_range(self.count, rate, missed)
            if (last - first) * min(steepness, 1.0) > _MOST_SIZES:
                return None
        before, after = (binomial.lattice(self.count, rate, steepness, missed) for rate in self.moved.rates)
        return before, after

    def pair(self, dimension: int, new: float) -> ExplicitPair | None:
        """The new record's gradient is `new` C v. The sum on D' is that of D, with the new record or without it, over c'/c."""
        if self._sizes is None:
            return None
        (before, after), moved = self._sizes, self.moved
        sigma, rate = moved.noises[0], moved.rates[1]
        shrink, scale = math.exp(moved.log_shrink), math.exp(moved.log_scale)
        # the origin is the middle of D's sums, and 1 - c/c' is exact, so that s * size and size never cancel
        middle = float(before.sizes[np.argmax(before.weights)])
        shrunk = after.sizes - middle - after.sizes * float(moved.growth / (1 + moved.growth))
        parts = [(1.0 - rate, 0.0), (rate, shrink * new)] if new else [(1.0, 0.0)]
        weights = np.concatenate([share * after.weights for share, _ in parts])
        sums = np.concatenate([shrunk + moved_by for _, moved_by in parts])
        return ExplicitPair(
            Added(1.0, new),
            dimension,
            LineMixture(before.weights, (before.sizes - middle) / sigma, np.ones_like(before.sizes)).present(),
            LineMixture(weights, sums / sigma, np.full_like(sums, scale)).present(),
            log_scale=moved.log_scale,
            left_out=max(before.slack, after.slack),
            once=new != -1.0 or min(self._variances) > _MOST_BLUR,
            moved=max(abs(new), 1.0) * shrink / (sigma * scale),
        )


def _missed(noise: float) -> float:
    """Mass of batch sizes that may be left out: far below what P has of a cell that Q has 1e-17 of."""
    return max(1e-12 * math.exp(-0.5 * min((REACH + 2.0 / noise) ** 2, 1300.0)), binomial.NEVER_MISSED)


def _by_batch(mechanism: BatchDenominator) -> Iterator[ExplicitPair]:
    """A scale for each size of the batch."""
    q, sigma, count = mechanism.q, mechanism.one_noise(), mechanism.dataset_size or 0
    missed = _missed(sigma)
    first, last = binomial.effective_range(count, q, missed)
    # rho tells the size of the batch, which matters where the noise of likely sizes is not nearly the same
    looks = (mechanism.dimension or 1) > 1 and last - first < _MOST_SCALES
    if mechanism.divides_by_size:
        spread = binomial.deviation(count, q) / max(count * q, 1.0)
        looks = looks and spread > _SAME_SIZE / (1.0 + 2.0 / sigma)
        # a threshold lies within REACH + 2/sigma deviations of a mean, all of them proportional to 1/size
        steepness = (REACH + 2.0 / sigma) / max(count * q, 1.0)
        every = looks or q == 1.0
        nodes = binomial.enumerated(count, q, missed) if every else binomial.lattice(count, q, steepness, missed)
    elif last - first > _MOST_ENUMERATED:
        raise Undefined(
            "dataset_size", count, f"small enough for at most {_MOST_ENUMERATED} sizes of a batch",
            f"a denominator {mechanism.denominator} is looked at size by size",
        )  # fmt: skip
    else:
        nodes = binomial.enumerated(count, q, missed)
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
            line_only=not looks,
            # of batches that are divided by their size the first pair always leaks most
            once=mechanism.divides_by_size and (shared, new) != _OF_A_BATCH[0],
            left_out=nodes.slack,
            moved=float(np.max(np.abs(means_with - means) * divisor_with, where=weights > missed, initial=0.0)),
        )


def replaced_pair(mechanism: Mechanism) -> ExplicitPair:
    """The noisy sum when a record with gradient -C*u is replaced by one with C*u, every other being zero."""
    mechanism.need_poisson()
    q, shift = mechanism.q, 1.0 / mechanism.noise_multiplier
    weights = np.array([1.0 - q, q])
    before, after = (LineMixture(weights, np.array([0.0, end]), np.ones(2)).present() for end in (-shift, shift))
    return ExplicitPair(Replaced(-1.0, 1.0), 1, before, after, log_scale=0.0)


@final
@dataclass(frozen=True)
class Leakage:
    """Curves of explicit pairs: no guarantee can be above any of them."""

    pairs: tuple[NamedPair, ...]
    # to choose among them by; the curves themselves are only made for those that matter
    rough: tuple[TradeOff, ...]
    curve: Callable[[int], TradeOff]

    def upper(self, alpha: ArrayLike) -> Array:
        """The least false negative rate that one of the attackers achieves, rounded up."""
        return self.best(alpha)[0]

    def best(self, alpha: ArrayLike) -> tuple[Array, Array]:
        """(values, index of the pair that attains each)."""
        alpha = np.asarray(alpha, dtype=np.float64)
        contenders = self._contenders(alpha)
        values = np.stack([self.curve(i).upper(alpha) for i in contenders])
        winner = np.argmin(values, axis=0)
        return values.min(axis=0), np.asarray(contenders)[winner]

    def _contenders(self, alpha: Array) -> list[int]:
        """Pairs that matter beside the others: leaving a pair out never makes the result unsound.

        A curve is above another one where its delta is below at every slope, and delta takes no inversion: one look at each.
        """
        inner = alpha[(alpha > 0.0) & (alpha < 1.0)]
        if len(self.rough) == 1 or inner.size <= _SCREEN:
            return list(range(len(self.rough)))
        t = self.rough[0].thresholds(np.quantile(inner, np.linspace(0.0, 1.0, _SCREEN)))
        # others may have their tests further out
        t = np.concatenate([t, t.mean() + np.outer(_WIDER, [np.min(t) - t.mean(), np.max(t) - t.mean()]).ravel()])
        looks = [curve.tails(t) for curve in self.rough]
        deltas = np.stack([np.exp(log_difference(one.q_above, t + one.p_above)) for one in looks])
        # what is left to lose at the test of that slope: its false negatives, and what it tells apart
        left = np.stack([np.exp(np.minimum(one.q_below, log_difference(one.q_above, one.p_above))) for one in looks])
        most = deltas.max(axis=0)
        room = np.maximum(np.take_along_axis(left, deltas.argmax(axis=0)[None], axis=0)[0], 1e-12)
        chosen = [int(np.argmax((deltas >= most).sum(axis=1)))]
        while True:
            gap = (most - deltas[chosen].max(axis=0)) / room
            worst = int(np.argmax(gap))
            if gap[worst] < 1e-3:
                return chosen
            chosen.append(int(np.argmax(deltas[:, worst])))


def leakage(mechanism: Mechanism) -> Leakage:
    """The best attacker of the family of explicit pairs, on one round."""
    need_mechanism(mechanism)
    pairs = explicit_pairs(mechanism)
    if mechanism.is_sum:
        # the pair (0, C u) attains the SGM curve exactly
        attained = noisy_sum(mechanism)
        return Leakage((pairs[0],), (attained,), lambda _: attained)
    return Leakage(tuple(pairs), tuple(pair.rough for pair in pairs), lambda index: pairs[index].curve)
