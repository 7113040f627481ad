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
has infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import log_ndtr

from noisymean.cumulants import Cumulants, LineCumulants
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array, log_weighted_sum
from noisymean.tradeoff import Tails, TradeOff


@final
@dataclass(frozen=True, eq=False)
class SizeRevealed(TradeOff):
    """T(P, Q) of this module's docstring; sizes[i] carries P-mass weights[i] and, with the new record, joined[i]."""

    rate: float
    shift: float
    sizes: Array
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
        return int(self.sizes.size)

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
            normal = -0.5 * x * x - 0.9189385332046727
            shared = weights + normal
            return shared if empty == 0.0 else np.vstack([shared, math.log(empty) + normal])

        # beyond these the rule over sizes is not to be trusted; any line within them is as exact, if slower
        tilts = (-binomial.LARGEST_TILT, binomial.LARGEST_TILT)
        return LineCumulants(log_density, loss, 0.0, 1.0, min(2.0, 0.9 * math.pi / shift), shift, tilts)


def size_revealed(dataset_size: int, rate: float, noise_multiplier: float, *, rounds: int = 1) -> SizeRevealed:
    """The dimension-free guarantee of ASGM for |D| = `dataset_size`; for several `rounds` the sizes can be tilted."""
    shift = 2.0 / noise_multiplier
    spread = binomial.deviation(dataset_size, rate)
    # x_k moves by log(k/(N+1-k))/m: over one deviation of k by spread * (1/k + 1/(N+1-k)) / m
    slope = (
        1.0 / binomial.small_size(dataset_size, rate) + 1.0 / binomial.small_size(dataset_size, 1.0 - rate)
    ) / shift
    nodes = (
        binomial.nodes(dataset_size, rate, roughness=float(slope) * spread)
        if rounds == 1
        else binomial.tiltable(dataset_size, rate)
    )
    odds = nodes.sizes / (dataset_size + 1.0 - nodes.sizes)
    # mass of (k, new record in) is q Bin(k-1) = (1-q) r_k Bin(k)
    joined = (1.0 - rate) * odds * nodes.weights if rate < 1.0 else np.zeros_like(nodes.weights)
    full_batch = rate ** (dataset_size + 1)
    return SizeRevealed(rate, shift, nodes.sizes, odds, nodes.weights, joined, full_batch, nodes.slack)
