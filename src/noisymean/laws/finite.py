"""Finitely many outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.numerics.chi_square import RELATIVE_ERROR
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Tails, TradeOff, checked


@final
@dataclass(frozen=True, eq=False)
class FiniteOutcomes(TradeOff):
    """T(P, Q) for finitely many outcomes of measure p[i] and q[i].

    P and Q need not be laws: the bounds of `cells` round one up and the other down, which is then short of something.
    """

    p: Array
    q: Array
    short: tuple[float, float] = (0.0, 0.0)

    @property
    def relative_error(self) -> float:
        # running sums of so many terms
        return max(RELATIVE_ERROR, 2.3e-16 * self.p.size)

    @cached_property
    def masses(self) -> tuple[float, float]:
        return math.fsum(np.ravel(self.p)), math.fsum(np.ravel(self.q))

    @cached_property
    def _cumulated(self) -> tuple[Array, Array, Array]:
        p, q = np.asarray(self.p, dtype=np.float64).ravel(), np.asarray(self.q, dtype=np.float64).ravel()
        seen = (p > 0.0) | (q > 0.0)
        p, q = p[seen], q[seen]
        with np.errstate(divide="ignore"):
            losses = np.log(q) - np.log(p)
        order = np.argsort(losses, kind="stable")
        with np.errstate(divide="ignore"):
            return losses[order], np.log(_both_sums(p[order])), np.log(_both_sums(q[order]))

    @cached_property
    def _polygon(self) -> tuple[Array, Array]:
        """Vertices (alpha, beta) of the curve, alpha rising."""
        _, p, q = self._cumulated
        return np.exp(p[1])[::-1], np.exp(q[0])[::-1]

    def _line(self, alpha: Array) -> tuple[Array, Array]:
        value = np.minimum(np.interp(alpha, *self._polygon), 1.0 - alpha)
        return value, self.relative_error * value

    def upper(self, alpha: ArrayLike) -> Array:
        # every vertex is a test, and so is every chord: alpha is at most what P says, beta at most what Q says and is short of
        alpha = checked(alpha)
        first, second = self._polygon
        error = 1.0 + self.relative_error
        value = np.interp(alpha, first * error, second * error + self.short[1])
        return np.clip(value, 0.0, 1.0 - alpha)

    def tails(self, t: Array) -> Tails:
        losses, p, q = self._cumulated
        index = np.searchsorted(losses, np.asarray(t), side="right")
        return Tails(p[1][index], p[0][index], q[1][index], q[0][index])


def _both_sums(mass: Array) -> Array:
    """Sums of the first i and of the last size - i entries, for i = 0 ... size; log(0) = -inf is meant."""
    first = np.concatenate([[0.0], np.cumsum(mass)])
    last = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    return np.stack([first, last])
