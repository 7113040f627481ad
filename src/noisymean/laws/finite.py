r"""Finitely many outcomes: their curve, a polygon, and K, a sum of exponentials.

K is also what rules of quadrature are made of, whose nodes are outcomes of their weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.cumulants import ECHO, ROUNDING_OF_K, Cumulants, Line, Moments, SlowDecay
from noisymean.numerics.chi_square import RELATIVE_ERROR
from noisymean.numerics.logs import Array, ComplexArray, log1p_complex
from noisymean.tradeoff import Tails, TradeOff, checked

# Outcomes times points of the contour: beyond, the grid is faster.
_MOST_WORK = 1 << 23


@final
@dataclass(frozen=True, eq=False)
class FiniteOutcomes(TradeOff):
    """T(P, Q) for finitely many outcomes of measure p[i] and q[i].

    P and Q need not be laws: the bounds of `cells` round one up and the other down, which is then short of something.
    """

    p: Array
    q: Array
    short: tuple[float, float] = (0.0, 0.0)
    # relative error of the masses themselves
    error: float = 0.0

    @property
    def relative_error(self) -> float:
        # running sums of so many terms
        return max(RELATIVE_ERROR, 2.3e-16 * self.p.size) + self.error

    @cached_property
    def masses(self) -> tuple[float, float]:
        # pairwise sums: off by a few ulps, which `relative_error` has room for
        return float(np.sum(self.p)), float(np.sum(self.q))

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

    def _line(self, alpha: Array, *, rough: bool = False) -> tuple[Array, Array]:
        value = np.minimum(np.interp(alpha, *self._polygon), 1.0 - alpha)
        return value, self.relative_error * value

    def thresholds(self, alpha: Array) -> Array:
        losses, p, _ = self._cumulated
        finite = np.isfinite(losses)
        if not finite.any():
            return np.zeros_like(alpha)
        return np.asarray(losses[finite][np.searchsorted(-np.exp(p[1][:-1][finite]), -alpha, side="right") - 1])

    def upper(self, alpha: ArrayLike) -> Array:
        # every vertex is a test, and so is every chord: alpha is at most what P says, beta at most what Q says and is short of
        alpha = checked(alpha)
        first, second = self._polygon
        error = 1.0 + self.relative_error
        value = np.interp(alpha, first * error, second * error + self.short[1])
        return np.clip(value, 0.0, 1.0 - alpha)

    @cached_property
    def cumulants(self) -> Cumulants | None:
        """None where an outcome is possible under one of the two only."""
        p, q = np.ravel(self.p), np.ravel(self.q)
        if not ((p > 0.0) & (q > 0.0)).all():
            return None
        return Outcomes(np.log(q) - np.log(p), p, roundings=1 + math.ceil(self.error / ROUNDING_OF_K))

    def tails(self, t: Array) -> Tails:
        losses, p, q = self._cumulated
        index = np.searchsorted(losses, np.asarray(t), side="right")
        return Tails(p[1][index], p[0][index], q[1][index], q[0][index])


def _both_sums(mass: Array) -> Array:
    """Sums of the first i and of the last size - i entries, for i = 0 ... size; log(0) = -inf is meant."""
    first = np.concatenate([[0.0], np.cumsum(mass)])
    last = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    return np.stack([first, last])


@final
@dataclass(frozen=True, eq=False)
class Outcomes(Cumulants):
    """K of finitely many outcomes (or nodes of a quadrature rule) of P-mass `mass` and loss `losses`."""

    losses: Array
    mass: Array
    # given where the masses themselves underflow
    log_mass: Array | None = None
    # how far apart, in deviations, the parts are that these outcomes were cut from
    spread: float = 0.0
    # so few, or so evenly spaced, that they are heard again at large tau
    atoms: bool = False
    # how many times that of K the masses are rounded
    roundings: int = 1

    @property
    def rounds(self) -> int:
        return self.roundings

    @property
    def echo(self) -> float:
        return max(1.0, ECHO * self.spread)

    def valley(self, theta: Array, line: Line) -> Array | float:
        return self.remainder(theta, line).real if self.atoms else 0.0

    @cached_property
    def _log_mass(self) -> Array:
        if self.log_mass is not None:
            return self.log_mass
        with np.errstate(divide="ignore"):
            return np.log(self.mass)

    @cached_property
    def log_masses(self) -> tuple[float, float]:
        value, _ = self._tilted(np.array([0.0, 1.0]))
        return float(value[0]), float(value[1])

    def _tilted(self, theta: Array) -> tuple[Array, Array]:
        exponent = self._log_mass + theta[..., None] * self.losses
        top = exponent.max(axis=-1)
        weights = np.exp(exponent - top[..., None])
        total = weights.sum(axis=-1)
        return top + np.log(total), weights / total[..., None]

    def moments(self, theta: Array) -> Moments:
        value, weights = self._tilted(theta)
        mean = weights @ self.losses
        variance = np.sum(weights * np.square(self.losses - mean[..., None]), axis=-1)
        return Moments(value, mean, variance)

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        _, weights = self._tilted(theta)
        centred = self.losses - (weights @ self.losses)[..., None]
        if theta.size == 1:
            # outcomes that the tilt has made impossible cost time only
            seen = weights[0] > 1e-18
            weights, centred = weights[:, seen], centred[:, seen]
        if centred.size * (line.first + line.nodes) > _MOST_WORK:
            raise SlowDecay
        # e^(iy) - 1 = 2i sin(y/2) e^(iy/2), which does not cancel for small y
        if theta.size == 1:
            return _turned(centred[0], weights[0], line)
        # e^(i tau l / 2) node by node: one complex product instead of a sine and a cosine
        turn = np.exp(0.5j * line.step[..., None] * centred)
        half = np.exp(0.5j * (line.first + 0.5) * line.step[..., None] * centred)
        real, imag = np.empty((line.nodes, theta.size)), np.empty((line.nodes, theta.size))
        for row in range(line.nodes):
            weighted = weights * half.imag
            real[row] = -2.0 * np.einsum("...i,...i->...", weighted, half.imag)
            imag[row] = 2.0 * np.einsum("...i,...i->...", weighted, half.real)
            half *= turn
        return log1p_complex(real, imag)


def _turned(centred: Array, mass: Array, line: Line) -> ComplexArray:
    """log of the sum of mass e^(i tau centred), `centred` of mean zero.

    With tau = a + b, e^(iy) - 1 = uv + u + v for u = e^(i a l) - 1 and v = e^(i b l) - 1: a product of two matrices, and small
    where y is.
    """
    half_step = 0.5 * float(line.step[0]) * centred
    rows = max(1, math.isqrt(line.nodes))
    within = _multiples(_growth(half_step), rows)
    starts = _both(
        _growth((line.first + 0.5) * half_step), _multiples(_growth(rows * half_step), -(-line.nodes // rows))
    )
    weighted = mass * starts
    total = (weighted @ within.T + weighted.sum(axis=1)[:, None] + within @ mass).ravel()[: line.nodes]
    return log1p_complex(total.real[:, None], total.imag[:, None])


def _growth(half_angle: Array) -> ComplexArray:
    """e^(2iy) - 1 = 2i sin(y) e^(iy), which does not cancel for small y."""
    turned = np.exp(1j * half_angle)
    return np.asarray(2j * turned.imag * turned)


def _both(u: ComplexArray, v: ComplexArray) -> ComplexArray:
    """The growth over two angles, one after the other."""
    return np.asarray(u * v + u + v)


def _multiples(growth: ComplexArray, count: int) -> ComplexArray:
    """The growth over 0, 1, ... count - 1 times the angle, by doubling: a product is cheaper than a sine and a cosine."""
    found = np.zeros((count, growth.size), dtype=np.complex128)
    done, over_done = 1, growth
    while done < count:
        found[done : 2 * done] = _both(found[: min(done, count - done)], over_done)
        done, over_done = 2 * done, _both(over_done, over_done)
    return found
