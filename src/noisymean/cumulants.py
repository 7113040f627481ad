r"""Cumulant generating functions of privacy losses: what adds up over rounds.

For a round with loss l = log dQ/dP let K(theta) = log E_P[e^(theta l)] = log of the integral of p^(1-theta) q^theta.
Rounds are independent given the pair of datasets, so T rounds have T K, different rounds the sum.

K(0) and K(1) are the logarithms of the masses that P and Q have where the loss is finite. They are 0 for two probability laws,
but not always: a batch of all N + 1 records is possible under Q only, and a bound may be a pair of measures that are no longer
laws (P rounded up, Q rounded down). So every K states them, `log_masses`, and whoever takes a complement takes it to them.

The contour integral of `compose.contour` needs K at a real tilt theta and, along the line theta + i tau, only what is left
after its value and slope are taken out,

    remainder(theta, tau) = K(theta + i tau) - K(theta) - i tau K'(theta),

which every law's K computes without cancellation: multiplied by 10^6 rounds it still has its digits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from noisymean.numerics.logs import Array, ComplexArray


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
    def left_out(self) -> float:
        """Mass that K does not account for, under P or Q: it is charged to every bound."""
        return 0.0

    @property
    def infinite(self) -> float:
        """The Q-mass of an infinite loss, which K does not see."""
        return 0.0

    @property
    def rounds(self) -> int:
        """How many roundings K is a sum of."""
        return 1

    @property
    def echo(self) -> float:
        """Up to how many times as far out as it first falls silent e^K may be heard again (docs/accountant.md, "Echoes")."""
        return 1.0

    def valley(self, theta: Array, line: Line) -> Array | float:
        """What of the remainder's real part says nothing of larger tau: that of atoms, which come back and back."""
        return 0.0


# What the rounding of one round's K adds to the relative error of the tails.
ROUNDING_OF_K = 1e-15
# Parts of a loss that lie so many of their own deviations apart echo for this share of that number.
ECHO = 0.6


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

    def valley(self, theta: Array, line: Line) -> Array | float:
        return sum((count * part.valley(theta, line) for count, part in self.parts), start=0.0)

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

    @property
    def left_out(self) -> float:
        return sum(count * part.left_out for count, part in self.parts)

    @property
    def infinite(self) -> float:
        if any(part.infinite >= 1.0 for _, part in self.parts):
            return 1.0
        return -math.expm1(sum(count * math.log1p(-part.infinite) for count, part in self.parts))
