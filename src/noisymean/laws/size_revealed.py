r"""ASGM with the *size* of the batch revealed: a guarantee that does not depend on the dimension.

Tell the attacker |B| and nothing else. Given |B| = k both datasets divide by the same k, so the denominator leaks nothing
more; what is left is the size itself, Bin(N, q) against Bin(N+1, q), and one record exchanged for the new one in a batch of
k out of N + 1: a shift of at most 2C, at rate k/(N+1). The pair

    P: k ~ Bin(N, q),  x ~ N(0, 1)
    Q: the new record is out (1-q): the same;   in (q): k - 1 ~ Bin(N, q),  x ~ N(2/sigma, 1)

dominates T(M(D), M(D')) for every D of size N and every dimension (proof: docs/theory.md, "ASGM: reveal the size"). With
w_k = Bin(k; N, q) the likelihood ratio is

    L(k, x) = (1-q) (1 + r_k e^{m x - m^2/2}),     r_k = k/(N+1-k),   m = 2/sigma,

so {L > t} is {x > x_k(t)} for each k and all four tails are sums over sizes of normal tails. k = N + 1, possible under Q only,
has infinite loss: the finite losses carry 1 - q^(N+1) of Q and all of P.

Two reductions keep the sum short, both sound for both directions and any number of rounds (same place, "Fewer sizes"): fewer
records leak more, so very many may be taken for fewer; and the odds r_k of neighbouring sizes may be spread to two values with
the same mean, because every delta is a convex function of each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from noisymean.cumulants import Cumulants
from noisymean.laws.line_rule import LineCumulants, log_normal
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array, log_weighted_sum
from noisymean.tradeoff import Tails, TradeOff

# Records beyond this deviation of the batch size are not needed.
_MOST_DEVIATION = 20_000.0
# Distance of the nodes in the middle of the batch sizes, in deviations: for one round, for many.
_FINE, _COARSE = 0.02, 0.25
# Deviations up to which they are nearly equally far from each other.
_MIDDLE = 2.0


@final
@dataclass(frozen=True, eq=False)
class SizeRevealed(TradeOff):
    """T(P, Q) of this module's docstring; odds[i] carries P-mass weights[i] and, with the new record, joined[i]."""

    rate: float
    shift: float
    odds: Array
    weights: Array
    joined: Array
    full_batch: float
    left_out: float

    @property
    def slack(self) -> float:
        return self.left_out

    @property
    def terms(self) -> int:
        return int(self.odds.size)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        flat = t.ravel()[None, :]
        # L > e^t  <=>  e^{m x - m^2/2} > (e^t/(1-q) - 1)/r_k; always true when the right side is negative
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            stay = np.log1p(-self.rate)
            excess = np.where(flat > 30.0, flat - stay, np.log(np.expm1(np.minimum(flat, 30.0) - stay)))
            x = (excess - np.log(self.odds)[:, None]) / self.shift + 0.5 * self.shift
            x = np.where(flat <= stay, -np.inf, x)
            logs, logs_joined, full = np.log(self.weights), np.log(self.joined), np.log(self.full_batch)
            out = (log_ndtr(-x), log_ndtr(x))
            joined = (log_ndtr(self.shift - x), log_ndtr(x - self.shift))
            p_above, p_below = (log_weighted_sum(logs, side) for side in out)
            q_above = np.logaddexp(log_weighted_sum(logs + stay, out[0]), log_weighted_sum(logs_joined, joined[0]))
            q_below = np.logaddexp(log_weighted_sum(logs + stay, out[1]), log_weighted_sum(logs_joined, joined[1]))
            q_above = np.logaddexp(q_above, full)
        return Tails(*(np.minimum(side, 0.0).reshape(t.shape) for side in (p_above, p_below, q_above, q_below)))

    @cached_property
    def cumulants(self) -> Cumulants:
        """K of the finite part of the loss, for many rounds."""
        kept = (self.weights > 0.0) & (self.odds > 0.0)
        odds, weights = np.log(self.odds[kept])[:, None], np.log(self.weights[kept])[:, None]
        empty = float(self.weights[self.odds <= 0.0].sum())
        stay, shift = math.log1p(-self.rate), self.shift

        def loss(x: Array) -> Array:
            finite = stay + np.logaddexp(0.0, odds + shift * x - 0.5 * shift * shift)
            return finite if empty == 0.0 else np.vstack([finite, np.full_like(x, stay)])

        def log_density(x: Array) -> Array:
            normal = log_normal(x)
            shared = weights + normal
            return shared if empty == 0.0 else np.vstack([shared, math.log(empty) + normal])

        return LineCumulants(
            log_density,
            loss,
            0.0,
            1.0,
            spread=shift,
            log_finite=math.log1p(-self.full_batch),
            missed=self.left_out,
        )


def size_revealed(dataset_size: int, rate: float, noise_multiplier: float, *, fine: bool = True) -> SizeRevealed:
    """The dimension-free guarantee of ASGM for |D| = `dataset_size`, on more nodes where it is `fine`."""
    # fewer records leak more: beyond this many the size says nothing any more
    enough = _MOST_DEVIATION**2 / (rate * (1.0 - rate)) if rate < 1.0 else math.inf
    count = int(min(dataset_size, max(enough, 1.0)))
    every = binomial.enumerated(count, rate)
    odds = every.sizes / (count + 1.0 - every.sizes)
    weights, odds = _spread(every.weights, odds, _nodes(every.sizes, count, rate, _FINE if fine else _COARSE))
    # mass of (k, new record in) is q Bin(k-1) = (1-q) r_k Bin(k)
    joined = (1.0 - rate) * odds * weights if rate < 1.0 else np.zeros_like(weights)
    # what is left out: the sizes that were not looked at, under P and, one record up, under Q
    return SizeRevealed(rate, 2.0 / noise_multiplier, odds, weights, joined, rate ** (count + 1), 2.0 * every.slack)


def _nodes(sizes: Array, count: int, rate: float, step: float) -> NDArray[np.intp]:
    """Indices of the sizes that are kept: `step` deviations apart in the middle, wider outside, and both ends."""
    deviation = binomial.deviation(count, rate)
    reach = math.asinh(max(sizes[-1] - count * rate, count * rate - sizes[0]) / max(_MIDDLE * deviation, 1e-300))
    wanted = 2 * math.ceil(_MIDDLE * reach / step) + 1
    if deviation == 0.0 or wanted >= sizes.size:
        return np.arange(sizes.size)
    levels = _MIDDLE * np.sinh(np.linspace(-reach, reach, wanted))
    nearest = np.rint(count * rate + deviation * levels - sizes[0]).astype(np.intp)
    return np.unique(np.concatenate([[0, sizes.size - 1], np.clip(nearest, 0, sizes.size - 1)]))


def _spread(weights: Array, odds: Array, kept: NDArray[np.intp]) -> tuple[Array, Array]:
    """Every weight shared out between the nearest kept odds below and above, so that the mean of the odds stays."""
    if kept.size == odds.size:
        return weights, odds
    nodes = odds[kept]
    left = np.clip(np.searchsorted(kept, np.arange(odds.size), side="right") - 1, 0, kept.size - 2)
    share = (odds - nodes[left]) / (nodes[left + 1] - nodes[left])
    mass = np.zeros(kept.size)
    np.add.at(mass, left, weights * (1.0 - share))
    np.add.at(mass, left + 1, weights * share)
    return mass, nodes
