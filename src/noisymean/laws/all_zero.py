r"""The pair that leaks most, up to coins: all gradients of D are zero, and the new record's is not.

N(0, I) against s Z + r B' e/sigma, from either side. From below it is an explicit pair like others. From above it is what the
theorem of the lift needs: the line of e and the dimensions across it are independent, so they are two laws, and the second has a
closed form. On the line l(x) is a smooth function of one number: K is exact (`line_rule`). For a grid the line is cut into cells.
In each l lies between two ends, and the cell's two masses are split between these: that leaks more, whatever l does in between
(docs/theory.md, "The start in cells").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from noisymean.cumulants import Cumulants
from noisymean.laws.cells import Cells
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import ExplicitPair, from_one_mean
from noisymean.mechanisms import Neighbours
from noisymean.numerics.logs import Array
from noisymean.pairs import Added
from noisymean.tradeoff import A_HANDFUL, Law, TradeOff

# Cells of the line: most of them within so many deviations of a mean, a few until nothing is left.
_CELLS, _MIDDLE = 4096, 9.0
_FAR_CELLS, _END = 256, 38.0
# Rounding of a loss in the middle of a cell, and as a share of it.
_ROUNDING = 1e-14


def all_zero(moved: Neighbours, dimension: int, new: float = 1.0) -> ExplicitPair:
    """From below: the new record's gradient has length `new` C, and is sampled at the rate of D'."""
    sigma, rate = moved.noises[0], moved.rates[1]
    shrink, scale = math.exp(moved.log_shrink), math.exp(moved.log_scale)
    joined = LineMixture(np.array([1.0 - rate, rate]), np.array([0.0, new * shrink / sigma]), np.full(2, scale))
    return ExplicitPair(
        Added(0.0, new),
        dimension,
        LineMixture(np.ones(1), np.zeros(1), np.ones(1)),
        joined.present() if new else LineMixture(np.ones(1), np.zeros(1), np.full(1, scale)),
        log_scale=moved.log_scale,
        moved=abs(new) * shrink / (sigma * scale),
    )


def all_zero_from_above(moved: Neighbours, dimension: int) -> tuple[Law, ...]:
    """The new record's gradient has full length: its line, and what lies across it."""
    line = _new_record(moved.rates[1], math.exp(moved.log_shrink) / moved.noises[0], moved.log_scale)
    if dimension == 1 or moved.log_scale == 0.0:
        return (line,)
    return line, gaussian_pair(dimension - 1, 0.0, log_scale=moved.log_scale)


@final
@dataclass(frozen=True)
class NewRecord(Law):
    """N(0, 1) against (1 - rate) N(0, s^2) + rate N(shift, s^2); every curve leaks at least as much, in this direction."""

    rate: float
    shift: float
    log_scale: float
    # for use by the inverse of its curve
    reverse: bool = False

    def one_round(self) -> TradeOff:
        return self._split

    @property
    def slow_rounds(self) -> int:
        return A_HANDFUL

    def backward(self) -> NewRecord:
        """The same with each cell rounded the other way."""
        return _new_record(self.rate, self.shift, self.log_scale, not self.reverse)

    @cached_property
    def cumulants(self) -> Cumulants:
        return from_one_mean(*self._laws, self.log_scale)

    @property
    def _laws(self) -> tuple[LineMixture, LineMixture]:
        scale = math.exp(self.log_scale)
        return LineMixture(np.ones(1), np.zeros(1), np.ones(1)), LineMixture(
            np.array([1.0 - self.rate, self.rate]), np.array([0.0, self.shift]), np.full(2, scale)
        )

    @cached_property
    def _split(self) -> FiniteOutcomes:
        """Every cell as two outcomes at the ends of its loss, both masses kept; what lies outside as an infinite loss."""
        p, q = self._laws
        edges = self._edges()
        # the sides of a bound from below are the wrong ones here, so they are taken the other way round
        told = Cells(p.cell_masses(edges), q.cell_masses(edges), 0.0, reverse=not self.reverse).one_round()
        at_edges = q.log_density(edges[1:-1]) - p.log_density(edges[1:-1])
        # between two points l leaves their chord by at most |l''| h^2/8, |l''| <= |s^-2 - 1| + (shift/s^2)^2/4
        bend = abs(math.expm1(-2.0 * self.log_scale)) + 0.25 * (self.shift * math.exp(-2.0 * self.log_scale)) ** 2
        rounding = _ROUNDING * (1.0 + np.square(edges[1:-1]))
        beyond = 0.125 * bend * np.square(np.diff(edges[1:-1])) + np.maximum(rounding[1:], rounding[:-1])
        least = np.minimum(at_edges[1:], at_edges[:-1]) - beyond
        most = np.maximum(at_edges[1:], at_edges[:-1]) + beyond
        # what is too small to be told, and what lies beyond the last edges: as if either law had it alone
        told_apart = np.pad((told.p[1:-1] > 0.0) & (told.q[1:-1] > 0.0), 1)
        within = told_apart[1:-1]
        p_split, q_split = _two_ends(told.p[told_apart], told.q[told_apart], least[within], most[within])
        rest = float(told.p[~told_apart].sum()), float(told.q[~told_apart].sum())
        return FiniteOutcomes(np.append(p_split, [rest[0], 0.0]), np.append(q_split, [0.0, rest[1]]))

    def _edges(self) -> Array:
        """From -inf to inf; dense where either law has its mass."""
        scale = max(1.0, math.exp(self.log_scale))
        ends = (min(0.0, self.shift), max(0.0, self.shift))
        middle = np.linspace(ends[0] - _MIDDLE * scale, ends[1] + _MIDDLE * scale, _CELLS + 1)
        far = np.linspace(_MIDDLE, _END, _FAR_CELLS + 1)[1:] * scale
        return np.concatenate([[-np.inf], ends[0] - far[::-1], middle, ends[1] + far, [np.inf]])


@lru_cache(maxsize=32)
def _new_record(rate: float, shift: float, log_scale: float, reverse: bool = False) -> NewRecord:
    """The same object each time: several plans begin with it, and cutting it takes longer than adding it up."""
    return NewRecord(rate, shift, log_scale, reverse)


def _two_ends(p: Array, q: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """(p, q) of outcomes of loss `least` and `most` with the masses of each cell; the ends give way to rounding."""
    own = np.log(q) - np.log(p)
    least, most = np.minimum(least, own), np.maximum(most, own)
    # q = p_1 e^least + p_2 e^most; differences of losses only, which may be hundreds
    with np.errstate(invalid="ignore", divide="ignore"):
        of_q = np.where(most > least, np.expm1(least - own) / np.expm1(least - most), 1.0)
    of_p = of_q * np.exp(own - most)
    lower, upper = p * (1.0 - of_p), p * of_p
    return np.concatenate([lower, upper]), np.concatenate([q * np.exp(least - own) * (1.0 - of_p), q * of_q])
