r"""Gradients of D all along one unit vector v, the new record's along u, orthogonal to v: one round on such a pair, exactly.

Along v the output is a mixture over the sizes of the batch, the same whether the new record is in it or not; in all other
dimensions it is that of an all-zero D. The two are independent on either side, so their losses add, over one round and over many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.cumulants import Sum
from noisymean.laws.across import loss_in_cells
from noisymean.laws.cells import UNDERFLOW, merged
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.numerics.logs import Array
from noisymean.pairs import Datasets
from noisymean.tradeoff import A_HANDFUL, Law, TradeOff


@final
@dataclass(frozen=True, eq=False)
class OrthogonalPair(Law):
    """`beside` is the line v, one dimension; `zero` is the all-zero pair in the n - 1 others."""

    datasets: Datasets
    zero: ExplicitPair
    beside: ExplicitPair
    reverse: bool = False

    @property
    def dimension(self) -> int:
        """How many numbers an output has."""
        return self.zero.dimension + 1

    @property
    def components(self) -> int:
        """Normal laws that one release is looked at under."""
        return self.zero.components + self.beside.components

    @property
    def once(self) -> bool:
        """It is always one to look at over many rounds."""
        return False

    @property
    def left_out(self) -> float:
        """Mass of batch sizes that are not among the components."""
        return self.beside.left_out

    def backward(self) -> OrthogonalPair:
        """The same pair with each cell rounded the other way."""
        return OrthogonalPair(self.datasets, self.zero, self.beside, not self.reverse)

    @cached_property
    def cumulants(self) -> Sum | None:
        """K of the all-zero pair as it is, and of the cell of x.v."""
        zero, beside = (one.backward() if self.reverse else one for one in (self.zero, self.beside))
        if zero.cumulants is None or beside.cumulants is None:
            return None
        return Sum(((1, zero.cumulants), (1, beside.cumulants)))

    @property
    def slow_rounds(self) -> int:
        return A_HANDFUL

    def in_parts(self) -> tuple[Law, ...]:
        """All-zero pair and line, each in its own parts."""
        each = [(one.backward() if self.reverse else one).in_parts() for one in (self.zero, self.beside)]
        return tuple(part for parts in each for part in parts) if all(each) else ()

    def one_round(self) -> TradeOff:
        """What the cells of x.u and of x.v tell, and the rest of the output."""
        return self.curve

    @property
    def rough(self) -> TradeOff:
        """As `curve`: it has no cheaper one."""
        return self.curve

    @cached_property
    def curve(self) -> TradeOff:
        """The trade-off curve of one round."""
        told = [(one.line_cells.backward() if self.reverse else one.line_cells) for one in (self.zero, self.beside)]
        (p_zero, q_zero), (p_beside, q_beside) = (cells.few for cells in told)
        log_p, log_q = merged(np.add.outer(p_zero, p_beside).ravel(), np.add.outer(q_zero, q_beside).ravel())
        p, q = np.exp(log_p), np.exp(log_q)
        # the one that is rounded up is not zero where it is too small for a double
        p, q = (p, np.maximum(q, UNDERFLOW)) if self.reverse else (np.maximum(p, UNDERFLOW), q)
        shorts = [cells.one_round().short for cells in told]
        line = FiniteOutcomes(p, q, (shorts[0][0] + shorts[1][0], shorts[0][1] + shorts[1][1]))
        return loss_in_cells(line, self.zero.dimension - 1, self.zero.log_scale or 0.0)

    def draw(self, generator: np.random.Generator, size: int, *, extra_record: bool) -> tuple[Array, Array, Array]:
        """x.u, the square of what is left without x.u and x.v, and x.v of `size` outputs on D', or on D."""
        along, across = self.zero.draw(generator, size, extra_record=extra_record)
        return along, across, self.beside.draw(generator, size, extra_record=extra_record)[0]

    def sample(self, generator: np.random.Generator, size: int, *, extra_record: bool) -> Array:
        """`size` outputs on D', or on D; u is the first axis and v the last."""
        both = (one.sample(generator, size, extra_record=extra_record) for one in (self.zero, self.beside))
        return np.concatenate(list(both), axis=1)

    def loss(self, along: Array, across: Array, beside: Array) -> Array:
        """log of how much likelier an output is on D' than on D."""
        return self.zero.loss(along, across) + self.beside.loss(beside, np.zeros_like(beside))
