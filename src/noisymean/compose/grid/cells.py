r"""Which cells to cut a round's loss into: narrow where the tilted loss has its mass, wide where it has little.

A cell of width h and tilted mass m adds about m h^2 / 6 to the variance of a round (or takes half of that away). With a given
number of cells the sum of m h^2 is least where each cell has the same share of the integral of (m/h)^(1/3): then losses of
order 1e-8 that nearly every round has and losses of order 1 that few have are both followed as well as they matter. Any cells
are sound, these are only good ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.compose.grid.discretize import MEETING, Atoms, from_tails
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, Tails, TradeOff

# Where a one-round loss may begin and end, and up to where it is looked at closely; so many looks for each power of ten.
_LARGEST, _LARGE = 15.0, 2.0
_CLOSE_LOOKS, _FAR_LOOKS = 24, 6
# Every how many of them are looked at first.
_STRIDE = 8
# The smallest loss of a round that is told from 0, over the root of the number of rounds.
_SMALLEST = 1e-6
# Share of the cells that goes to all scouted ones alike, so that no range is left without any.
_EVEN = 0.25


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Edges and the tails there."""

    curve: TradeOff
    edges: Array
    tails: Tails

    def atoms(self, side: Side, *, at_edges: bool = False) -> Atoms:
        """The loss on these cells, to a stated side."""
        return from_tails(self.curve, self.edges, self.tails, side, at_edges=at_edges)

    def refined(self, tilts: Sequence[tuple[float, float]], number: int, step: float = 0.0) -> Cells:
        """As many cells in the same range, each with its share of what they cost; with a `step`, edges are multiples of it.

        For each (theta, top) as many are meant for the law of losses up to `top`, tilted by theta.
        """
        above, below = self.tails.q_above, self.tails.q_below
        share = np.full(self.edges.size - 1, _EVEN / (self.edges.size - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            # log masses of the cells, from the smaller tail; digits do not matter here
            mass = np.where(
                below[1:] < above[1:], np.exp(below[1:]) - np.exp(below[:-1]), np.exp(above[:-1]) - np.exp(above[1:])
            )
            log_cost = np.log(np.maximum(mass, 0.0)) + 2.0 * np.log(np.diff(self.edges))
        for theta, top in tilts:
            cost = log_cost + 0.5 * theta * (self.edges[1:] + self.edges[:-1])
            cost = np.where(self.edges[:-1] < top, cost, -np.inf)
            if np.isfinite(cost.max()):
                one = np.exp((cost - cost.max()) / 3.0)
                share += (1.0 - _EVEN) / len(tilts) * one / float(one.sum())
        reached = np.concatenate([[0.0], np.cumsum(share)])
        inner = np.interp(np.linspace(0.0, reached[-1], number + 1)[1:-1], reached, self.edges)
        edges = np.concatenate([self.edges[:1], inner, self.edges[-1:]])
        if step:
            edges = step * np.unique(np.rint(edges / step))
            # MEETING are among the multiples, but for rounding
            edges = edges[(np.abs(edges[:, None] - MEETING) > 0.5 * step).all(axis=1)]
        edges = np.union1d(edges, MEETING)
        return Cells(self.curve, edges, self.curve.tails(edges))


@final
@dataclass(frozen=True, eq=False)
class Scouted:
    """`count` rounds of one curve, looked at on a logarithmic scale."""

    count: int
    curve: TradeOff

    def cells(self, log_delta: float) -> Cells:
        """The scouted cells outside of which Q has mass below e^(log_delta - 23)/count above, and 1e-18/count below.

        Tails far away may be dear: every few scouts say between which ones to look.
        """
        few, between = self._scouts[::_STRIDE], np.isin(self._scouts, MEETING)
        low, high = self._range(self._few_tails, log_delta)
        between |= (self._scouts >= few[low]) & (self._scouts <= few[high])
        edges = self._scouts[between]
        tails = self.curve.tails(edges)
        low, high = self._range(tails, log_delta)
        chosen = np.isin(edges, MEETING)
        chosen[low : max(high, low + 1) + 1] = True
        return Cells(self.curve, edges[chosen], Tails(*(side[chosen] for side in tails)))

    def is_beyond(self, log_delta: float) -> bool:
        """Whether all of the loss is beyond every scout."""
        low, high = self._range(self._few_tails, log_delta)
        return low == high

    def _range(self, tails: Tails, log_delta: float) -> tuple[int, int]:
        last = tails.q_above.size - 1
        low = int(np.searchsorted(tails.q_below, -41.0 - math.log(self.count))) - 1
        high = int(np.searchsorted(-tails.q_above, 23.0 - log_delta + math.log(self.count)))
        # beyond the last finite loss there is nothing to tell
        high = min(high, int(np.searchsorted(-tails.p_above, np.inf)))
        return min(max(low, 0), last), min(high, last)

    @cached_property
    def _scouts(self) -> Array:
        least = math.log10(_SMALLEST / math.sqrt(self.count))
        near = np.logspace(least, _LARGE, math.ceil(_CLOSE_LOOKS * (_LARGE - least)))
        far = np.logspace(_LARGE, _LARGEST, math.ceil(_FAR_LOOKS * (_LARGEST - _LARGE)))
        sizes = np.concatenate([near, far[1:]])
        return np.union1d(np.concatenate([-sizes, sizes]), MEETING)

    @cached_property
    def _few_tails(self) -> Tails:
        return self.curve.tails(self._scouts[::_STRIDE])
