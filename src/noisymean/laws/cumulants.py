r"""Cumulant generating functions of privacy losses: what adds up over rounds.

For a round with loss l = log dQ/dP let K(theta) = log E_P[e^(theta l)] = log of the integral of p^(1-theta) q^theta.
Rounds are independent given the pair of datasets, so T rounds have T K, different rounds the sum.

K(0) and K(1) are the logarithms of the masses that P and Q have where the loss is finite. They are 0 for two probability laws,
but not always: a batch of all N + 1 records is possible under Q only, and a bound may be a pair of measures that are no longer
laws (P rounded up, Q rounded down). So every K states them, `log_masses`, and whoever takes a complement takes it to them.

The contour integral of `composition` needs K at a real tilt theta and, along the line theta + i tau, only what is left
after its value and slope are taken out,

    remainder(theta, tau) = K(theta + i tau) - K(theta) - i tau K'(theta),

which every class below computes without cancellation: multiplied by 10^6 rounds it still has its digits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from noisymean.numerics.logs import Array, ComplexArray, log1p_complex, log1pmx, x_minus_arctan

_DECAY = 40.0
_MOST_NODES = 1 << 17
_MOST_SCOUTS = 1 << 14
# Nodes of the rule times points of the contour: beyond, the grid is faster.
_MOST_WORK = 1 << 23
# So many of them are held at once,
_AT_ONCE = 1 << 14
# and so many exponentials are worked out before one is made of another.
_EXACT_TURNS = 8
_FARTHEST = 1e6


class SlowDecay(ArithmeticError):
    """An integrand falls too slowly for the contour integral; use a grid."""


class Moments(NamedTuple):
    """K and its first two derivatives at real tilts: K, mean and variance of the loss under the tilted law."""

    value: Array
    mean: Array
    variance: Array


class Line(NamedTuple):
    """Equally spaced nodes tau_j = (j + 1/2) step, first <= j < first + nodes; a step for each theta."""

    step: Array
    first: int
    nodes: int

    @property
    def tau(self) -> Array:
        """The nodes, along the first axis."""
        return np.asarray((np.arange(self.first, self.first + self.nodes)[:, None] + 0.5) * self.step)


class Cumulants(ABC):
    """K(theta) of one round (or of several, added up)."""

    @abstractmethod
    def moments(self, theta: Array) -> Moments:
        """K, K', K'' at real `theta` of any shape."""

    @abstractmethod
    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        """The remainder of this module's docstring: one row for each node of `line`, one column for each theta."""

    @property
    def domain(self) -> tuple[float, float]:
        """The open interval of real tilts on which K is finite."""
        return -np.inf, np.inf

    @property
    def log_masses(self) -> tuple[float, float]:
        """K(0) and K(1): how much of P and of Q the finite losses carry."""
        return 0.0, 0.0

    @property
    def rounds(self) -> int:
        """How many roundings K is a sum of."""
        return 1

    @property
    def echo(self) -> float:
        """Up to how many times as far out as it first falls silent e^K may be heard again (docs/accountant.md, "Echoes")."""
        return 1.0


# Of the separation of the parts of a loss in their own deviations.
_ECHO = 0.6


@final
@dataclass(frozen=True, eq=False)
class Outcomes(Cumulants):
    """Finitely many outcomes (or nodes of a quadrature rule) of P-mass `mass` and loss `losses`."""

    losses: Array
    mass: Array
    # given where the masses themselves underflow
    log_mass: Array | None = None
    # how far apart, in deviations, the parts are that these outcomes were cut from
    spread: float = 0.0

    @property
    def echo(self) -> float:
        return max(1.0, _ECHO * self.spread)

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


@final
@dataclass(frozen=True, eq=False)
class LineCumulants(Cumulants):
    """A loss that is a smooth function of one number x under P: K by the trapezoidal rule over x.

    `log_density` is that of x under P, `loss` is l(x); a leading axis, if any, is a revealed index. Both are logarithms of sums
    of exponentials beside a parabola,

        log p = -x^2/2 + log sum_i a_i e^(u_i x) + const,
        l = -(bend/2) x^2 + log sum_i b_i e^(v_i x) - log sum_i a_i e^(u_i x) + const,

    positive weights, the u_i within `base_spread` of each other and the v_i within `spread`. Where the second sum is no more than
    1 + e^(log_odds + spread x), that is told: it hardly turns while it is hardly more than 1. docs/numerics.md, "The rule over
    the line", proves from that how fast the rule converges, and the step is chosen for an error of e^-40. The window follows the
    tilt.
    """

    log_density: Callable[[Array], Array]
    loss: Callable[[Array], Array]
    centre: float
    width: float
    spread: float
    base_spread: float = 0.0
    bend: float = 0.0
    tilts: tuple[float, float] = (-np.inf, np.inf)
    log_odds: float = np.inf
    # K(1) where Q has mass at an infinite loss
    log_finite: float = 0.0

    @property
    def domain(self) -> tuple[float, float]:
        return self.tilts

    @property
    def log_masses(self) -> tuple[float, float]:
        return 0.0, self.log_finite

    @property
    def echo(self) -> float:
        # under Q the parabola leaves the line s = (1 + bend)^(-1/2) times as wide, and the parts as much further apart
        wider = max(1.0, (1.0 + self.bend) ** -0.5) if self.bend > -1.0 else math.inf
        return max(1.0, _ECHO * (self.spread + self.base_spread) * wider)

    def _nodes(self, theta: Array, tau_most: float) -> Outcomes:
        # tilts and steps are rounded outward to powers of two, so that neighbouring calls share their nodes
        low, high = _down(float(np.min(theta))), -_down(-float(np.max(theta)))
        low, high = (
            max(low, 0.5 * (self.tilts[0] + float(np.min(theta)))),
            min(high, 0.5 * (self.tilts[1] + float(np.max(theta)))),
        )
        ends = self._both_windows(low, high)
        frequency = self._frequency(low, high, tau_most, ends)
        key = (low, high, 2.0 ** (0.5 * np.ceil(2.0 * np.log2(frequency))))
        if key not in self._cache:
            wanted = (ends[1] - ends[0]) * key[2] / (2.0 * np.pi)
            if not wanted < _MOST_NODES:
                raise SlowDecay
            count = max(16, math.ceil(wanted))
            x, step = np.linspace(*ends, count + 1, retstep=True)
            log_mass = np.ravel(math.log(step) + self.log_density(x))
            self._cache[key] = Outcomes(np.ravel(self.loss(x)), np.exp(log_mass), log_mass)
        return self._cache[key]

    def _frequency(self, low: float, high: float, tau: float, ends: tuple[float, float]) -> float:
        """2 pi over the widest step whose error is e^-_DECAY for tilts from `low` to `high`, x between the ends.

        On the line x + ib the parabola grows by e^((1 + bend theta) b^2/2); a sum of exponentials keeps at least cos(spread b/2)
        of its size, which matters where its exponent is negative, and turns by at most spread b, that of 1 + w by at most
        spread b |w|/(1 - |w|), the parabola of the loss by bend |x| b, all of which tau multiplies.
        """
        ratio = math.exp(min(self.log_odds + self.spread * ends[1], -0.5)) if self.log_odds < np.inf else 1.0
        turning = self.spread * min(1.0, ratio / (1.0 - ratio) if ratio < 0.5 else 1.0)
        farthest = max(abs(ends[0]), abs(ends[1]))
        widest = max(self.spread, self.base_spread)
        stiff = 1.0 + max(self.bend * low, self.bend * high)
        b = min(2.0 / math.sqrt(stiff), 0.5 * math.pi / max(widest, 1e-300))
        growth = 0.5 * stiff * b * b
        for spread, power in ((self.spread, max(-low, 0.0)), (self.base_spread, max(high - 1.0, 0.0))):
            growth -= power * math.log(math.cos(0.5 * spread * b))
        return (_DECAY + growth) / b + tau * (turning + self.base_spread + abs(self.bend) * farthest)

    def _both_windows(self, low: float, high: float) -> tuple[float, float]:
        if (low, high) not in self._windows:
            ends = np.array([self._window(low), self._window(high)])
            self._windows[low, high] = float(ends[:, 0].min()), float(ends[:, 1].max())
        return self._windows[low, high]

    @cached_property
    def _windows(self) -> dict[tuple[float, float], tuple[float, float]]:
        return {}

    @cached_property
    def _cache(self) -> dict[tuple[float, float, float], Outcomes]:
        return {}

    def _window(self, theta: float) -> tuple[float, float]:
        """Where p e^(theta l) is within e^-40 of its largest value.

        With S = 1 + bend theta a tilt leaves deviations of S^(-1/2) and moves mass by up to |theta| slope / S, possibly into a
        second bump there, so that far is always looked at.
        """
        stiff = min(1.0, 1.0 + self.bend * theta)
        reach = 12.0 / math.sqrt(stiff) + 1.2 * abs(theta) * (self.spread + self.base_spread) / (stiff * self.width)
        while True:
            x = self.centre + self.width * np.linspace(-reach, reach, 1 + 2 * int(min(4.0 * reach, _MOST_SCOUTS)))
            exponent = np.atleast_2d(self.log_density(x) + theta * self.loss(x)).max(axis=0)
            inside = np.flatnonzero(exponent > exponent.max() - _DECAY)
            if inside.size and inside[0] > 0 and inside[-1] < x.size - 1:
                return float(x[inside[0] - 1]), float(x[inside[-1] + 1])
            if reach > _FARTHEST:
                raise SlowDecay
            reach *= 2.0

    def moments(self, theta: Array) -> Moments:
        return self._nodes(theta, 0.0).moments(theta)

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        return self._nodes(theta, float(np.max(line.step)) * (line.first + line.nodes)).remainder(theta, line)


@final
@dataclass(frozen=True, eq=False)
class GaussianPairCumulants(Cumulants):
    """N(0, I_n) against N(m, s^2 I_n), mixed over a revealed index: K = log sum_i w_i exp K_i, each K_i closed.

    With c = s^-2 - 1 and S = 1 + c theta, K_i = (n/2) (theta log(1+c) - log S) - mu^2 theta (1-theta) / (2 s^2 S).
    """

    dimension: float
    weights: Array
    shifts: Array
    log_scale: float

    @property
    def _c(self) -> float:
        return float(np.expm1(-2.0 * self.log_scale))

    @property
    def echo(self) -> float:
        if self.weights.size == 1:
            return 1.0
        return max(1.0, _ECHO * float(np.max(self.shifts)) * math.exp(-self.log_scale))

    @property
    def domain(self) -> tuple[float, float]:
        c = self._c
        if c == 0.0:
            return -np.inf, np.inf
        return (-1.0 / c, np.inf) if c > 0.0 else (-np.inf, -1.0 / c)

    def _one(self, theta: Array) -> tuple[Array, Array, Array]:
        """K_i, K_i', K_i'' with the components on the last axis."""
        c, inverse_square = self._c, float(np.exp(-2.0 * self.log_scale))
        theta = theta[..., None]
        big = 1.0 + c * theta
        half = 0.5 * self.dimension
        square = np.square(self.shifts) * inverse_square
        # theta log(1+c) - log(1 + c theta), both second order at theta = 0 and 1
        scale = half * (theta * log1pmx(c) - log1pmx(c * theta))
        value = scale - 0.5 * square * theta * (1.0 - theta) / big
        slope = half * (log1pmx(c) + c * c * theta / big) - 0.5 * square * (1.0 - 2.0 * theta - c * theta**2) / big**2
        curvature = half * np.square(c / big) + square * (1.0 + c) / big**3
        return value, slope, curvature

    def moments(self, theta: Array) -> Moments:
        value, slope, curvature = self._one(theta)
        weights, log_total = self._responsibilities(value)
        mean = np.sum(weights * slope, axis=-1)
        variance = np.sum(weights * (curvature + np.square(slope - mean[..., None])), axis=-1)
        return Moments(log_total, mean, variance)

    def _responsibilities(self, value: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            exponent = np.log(self.weights) + value
        top = exponent.max(axis=-1)
        weights = np.exp(exponent - top[..., None])
        total = weights.sum(axis=-1)
        return weights / total[..., None], top + np.log(total)

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        value, slope, _ = self._one(theta)
        weights, _ = self._responsibilities(value)
        c, inverse_square = self._c, float(np.exp(-2.0 * self.log_scale))
        big = (1.0 + c * theta)[..., None]
        tau = line.tau[..., None]
        z = c * tau / big
        z2 = z * z
        half = 0.5 * self.dimension
        square = np.square(self.shifts) * inverse_square
        # scale part: -(n/2) (log(1 + iz) - iz)
        real = -0.5 * half * np.log1p(z2)
        imag = half * x_minus_arctan(z)
        # shift part: with g(theta) = theta(1-theta)/S, g(theta + i tau) - g - i tau g' = tau^2 (1+c)/S^3 / (1 + iz)
        bend = 0.5 * square * (1.0 + c) * np.square(tau) / (big**3 * (1.0 + z2))
        real, imag = real - bend, imag + bend * z
        if self.weights.size == 1:
            return np.asarray((real + 1j * imag)[..., 0])
        # sum_i w_i exp(R_i + i tau (slope_i - mean)) - 1, then its logarithm
        mean = np.sum(weights * slope, axis=-1)
        angle = imag + tau * (slope - mean[..., None])
        growth = np.expm1(real)
        versine = 2.0 * np.square(np.sin(0.5 * angle))
        total_real = np.sum(weights * (growth - (1.0 + growth) * versine), axis=-1)
        total_imag = np.sum(weights * (1.0 + growth) * np.sin(angle), axis=-1)
        return log1p_complex(total_real, total_imag)


@final
@dataclass(frozen=True)
class Sum(Cumulants):
    """Independent losses added up, each taken `count` times."""

    parts: tuple[tuple[int, Cumulants], ...]

    def moments(self, theta: Array) -> Moments:
        each = [(count, part.moments(theta)) for count, part in self.parts]
        return Moments(*(np.asarray(sum(count * m[i] for count, m in each)) for i in range(3)))

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        return np.asarray(sum(count * part.remainder(theta, line) for count, part in self.parts))

    @property
    def rounds(self) -> int:
        return sum(count * part.rounds for count, part in self.parts)

    @property
    def echo(self) -> float:
        return max((part.echo for _, part in self.parts), default=1.0)

    @property
    def log_masses(self) -> tuple[float, float]:
        each = [(count, part.log_masses) for count, part in self.parts]
        return sum(count * masses[0] for count, masses in each), sum(count * masses[1] for count, masses in each)

    @property
    def domain(self) -> tuple[float, float]:
        domains = [part.domain for _, part in self.parts]
        return max(low for low, _ in domains), min(high for _, high in domains)


def _turned(centred: Array, mass: Array, line: Line) -> ComplexArray:
    """log of the sum of mass e^(i tau centred), `centred` of mean zero; as many nodes together as the cache holds."""
    half_step = 0.5 * float(line.step[0]) * centred
    rows = max(1, min(_AT_ONCE // centred.size, line.nodes))
    # e^(i j step l / 2): one complex product for each node instead of a sine and a cosine
    turns = np.exp(1j * half_step * np.arange(min(rows, _EXACT_TURNS))[:, None])
    while turns.shape[0] < rows:
        turns = np.vstack([turns, turns * np.exp(1j * half_step * turns.shape[0])])[:rows]
    real, imag = np.empty(line.nodes), np.empty(line.nodes)
    for row in range(0, line.nodes, rows):
        half = turns[: line.nodes - row] * np.exp(1j * (line.first + row + 0.5) * half_step)
        weighted = mass * half.imag
        real[row : row + rows] = -2.0 * np.einsum("ji,ji->j", weighted, half.imag)
        imag[row : row + rows] = 2.0 * np.einsum("ji,ji->j", weighted, half.real)
    return log1p_complex(real[:, None], imag[:, None])


def _down(x: float) -> float:
    """The next number below x of the form +-2^i - 1/2 or so: coarse enough to repeat, never above x."""
    if x >= 1.0:
        return math.ldexp(1.0, math.floor(math.log2(x)))
    return -math.ldexp(1.0, math.ceil(math.log2(max(-x, 2.0**-10)))) if x < 0.0 else 0.0
