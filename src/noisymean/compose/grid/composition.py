r"""`GridComposition`: rounds of trade-off curves added up, asked for epsilon, delta or the curve, to a stated side.

A question is answered in three steps: coarse cells of each round's loss and a rough epsilon; a plan of layers with a tilt and a
window each (`window`); then fine cells (`cells`), atoms to the stated side (`discretize`) and each layer's sum (`put`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.compose.grid.cells import Cells, Scouted
from noisymean.compose.grid.grid_sum import GridSum, LayeredSum
from noisymean.compose.grid.put import composed, without_points
from noisymean.compose.grid.window import (
    SMALLEST_EPSILON,
    Layer,
    Parts,
    Window,
    chernoff,
    layers_at,
    tilt_for,
    window_around,
    window_at_epsilon,
)
from noisymean.errors import check_probability
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, TradeOff

# log delta below which the losses of one round are not followed.
_FAR = -600.0
# The tilt for a whole trade-off curve.
_SLIGHT = 0.05
# Cells of a round while the windows are being looked for.
_COARSE = 1024
# Points of the grid for each cell of a round.
_SIZE_OF_CELL = 4
# Points of the grid, and rounds of guessing, while epsilon is being looked for.
_ROUGH = 1 << 8
_GUESSES = 24
# Share of epsilon to which it has to be found,
_CLOSE = 0.02
# closer where delta falls by more than a few nats in between,
_CLOSEST = 1e-6
_FEW_NATS = 3.0
# or the nats of delta; where delta is flat neither says much of the other,
_NEARLY = 1e-4
# and the share of it by which the fine answer may differ without another look.
_FAR_OFF = 0.03
_LOOKS = 3
# An epsilon that is as good as 0.
_LEAST_EPSILON = 1e-6
# Epsilons that a window may be long,
_LONG = 60.0
_LEAST_SCALE = 1e-5
# and nats of delta that its charges may take.
_NOTHING = 1e-5
# Layers with less than this share of delta, in nats, are not looked at.
_NEGLIGIBLE = -14.0
_LEAST_TILT = 1e-4

Tilts = tuple[tuple[float, float], ...]


class Planned(NamedTuple):
    """A layer, where to look at it, and the share of delta that it may have."""

    layer: Layer
    window: Window
    weight: float


Plan = list[Planned]


class Guess(NamedTuple):
    """Where epsilon(delta) is looked for: `near` this one; `most` is Chernoff's bound on it."""

    coarse: list[tuple[int, Cells]]
    plan: Plan
    near: float
    most: float


@final
@dataclass(frozen=True, eq=False)
class GridComposition:
    """`rounds` (count, one-round curve), composed on a grid of about `size` points around the delta that is asked for."""

    rounds: tuple[tuple[int, TradeOff], ...]
    size: int = 1 << 15

    def epsilon(self, delta: float, side: Side) -> float:
        """epsilon(delta) of the composition on the stated side."""
        return self.epsilon_of_log(math.log(delta), side)

    def epsilon_of_log(self, log_delta: float, side: Side) -> float:
        """The same for a delta that may be too small to be written down."""
        if log_delta not in self._known_guesses:
            coarse = self._coarse(log_delta)
            losses = _atoms(coarse, Side.ABOVE)
            most = _chernoff_epsilon(losses, log_delta)
            plan, near = _roughly(losses, log_delta, most) if math.isfinite(most) else ([], 0.0)
            self._known_guesses[log_delta] = Guess(coarse, plan, near, most)
        known = self._known_guesses[log_delta]
        if not known.plan:
            # infinite, or 0
            return known.most if side is Side.ABOVE and math.isinf(known.most) else 0.0
        plan, near = known.plan, known.near
        best = known.most if side is Side.ABOVE else 0.0
        for _ in range(_LOOKS):
            found = self._fine(known.coarse, plan, near, side).epsilon(log_delta, side, near)
            best = min(best, found) if side is Side.ABOVE else max(best, found)
            if side is Side.BELOW and best == 0.0:
                # the guess was no good: the other side may know better
                found = self.epsilon_of_log(log_delta, Side.ABOVE)
            if abs(found - near) <= _FAR_OFF * max(near, SMALLEST_EPSILON) or not 0.0 < found < math.inf:
                break
            # a window elsewhere may show more
            near, plan = found, _planned(_atoms(known.coarse, Side.ABOVE), found, log_delta)[0]
        return best

    def at_most(self, epsilon: float, log_delta: float) -> bool:
        """Whether a rough look proves epsilon(delta) <= epsilon: a small part of the work of finding it."""
        losses = _atoms(self._coarse(log_delta), Side.ABOVE)
        most = _chernoff_epsilon(losses, log_delta)
        if math.isinf(most):
            return False
        return most <= epsilon or _planned(losses, epsilon, log_delta)[1] <= log_delta

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) of the composition on the stated side."""
        # the losses that matter depend on delta, which is not known yet: twice is enough
        bound = _FAR
        for _ in range(2):
            coarse = self._coarse(bound)
            losses = _atoms(coarse, Side.ABOVE)
            plan, bound = _planned(losses, epsilon, bound)
            bound = max(_FAR, min(bound, 0.0))
        return self._fine(coarse, plan, epsilon, side).log_delta(epsilon, side)

    def curve(self, alpha: ArrayLike, side: Side) -> Array:
        """f(alpha) of the composition, on the stated side."""
        alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
        log_delta = math.log(1e-12)
        if any(one.is_beyond(log_delta) for one in self._scouted):
            # one round alone is beyond every loss that is looked at
            return _anything(alpha, side)
        opposite = Side.ABOVE if side is Side.BELOW else Side.BELOW
        cells = [(count, one.refined([(_SLIGHT, math.inf)], self._number)) for count, one in self._coarse(log_delta)]
        losses = _atoms(cells, opposite)
        whole = Layer([(count, loss.up_to(math.inf)) for count, loss in losses])
        only = composed(whole, window_around(whole, _SLIGHT), self.size, opposite, 1.0)
        if only.losses.size == 0:
            # no grid is wide enough
            return _anything(alpha, side)
        total = _with_infinity([only], losses)
        return total.curve(alpha, side)

    def inverse(self) -> GridComposition:
        """The same rounds told from Q to P instead of from P to Q."""
        return GridComposition(tuple((count, curve.inverse()) for count, curve in self.rounds), self.size)

    def _coarse(self, log_delta: float) -> list[tuple[int, Cells]]:
        """Cells good enough to find the windows on."""
        if log_delta not in self._known_coarse:
            self._known_coarse[log_delta] = self._made_coarse(log_delta)
        return self._known_coarse[log_delta]

    def _made_coarse(self, log_delta: float) -> list[tuple[int, Cells]]:
        scouted = [(one.count, one.cells(log_delta)) for one in self._scouted]
        theta, _ = tilt_for(Layer(_atoms(scouted, Side.ABOVE)), log_delta)
        tilts = ((theta, math.inf), (0.0, math.inf))
        return [(count, cells.refined(tilts, _COARSE)) for count, cells in scouted]

    def _fine(self, coarse: list[tuple[int, Cells]], plan: Plan, epsilon: float, side: Side) -> LayeredSum:
        tilts = tuple((planned.window.theta, planned.layer.top) for planned in plan if planned.weight > 0.0)
        cells = [(count, self._cells(index, one, tilts)) for index, (count, one) in enumerate(coarse)]
        return _sum(_atoms(cells, side), plan, epsilon, self.size, side)

    def _cells(self, index: int, coarse: Cells, tilts: Tilts) -> Cells:
        # the next question is often the other side of the same
        key = (index, tilts, float(coarse.edges[0]), float(coarse.edges[-1]))
        if key not in self._known_cells:
            self._known_cells[key] = coarse.refined(tilts, self._number)
        return self._known_cells[key]

    @property
    def _number(self) -> int:
        return self.size // _SIZE_OF_CELL + _COARSE

    @cached_property
    def _known_coarse(self) -> dict[float, list[tuple[int, Cells]]]:
        return {}

    @cached_property
    def _known_guesses(self) -> dict[float, Guess]:
        return {}

    @cached_property
    def _known_cells(self) -> dict[tuple[int, Tilts, float, float], Cells]:
        return {}

    @cached_property
    def _scouted(self) -> list[Scouted]:
        return [Scouted(count, curve) for count, curve in self.rounds]


def _planned(rounds: Parts, epsilon: float, log_delta: float) -> tuple[Plan, float]:
    """The sum as a whole if it fits a window and the charges are nothing beside delta, else in layers; log delta, roughly."""
    whole = Layer([(count, loss.up_to(math.inf)) for count, loss in rounds])
    window = window_at_epsilon(whole, epsilon)
    first: Plan = [Planned(whole, window, 1.0)]
    total = _sum(rounds, first, epsilon, _ROUGH, Side.ABOVE)
    above, below = (total.log_delta(epsilon, side) for side in (Side.ABOVE, Side.BELOW))
    low, high = window.ends(whole)
    if above - below < _NOTHING and high - low < _LONG * max(epsilon, _LEAST_SCALE):
        return first, above
    second = _layered(rounds, epsilon, log_delta)
    other = _sum(rounds, second, epsilon, _ROUGH, Side.ABOVE).log_delta(epsilon, Side.ABOVE)
    return (second, other) if other < above else (first, above)


def _layered(rounds: Parts, epsilon: float, log_delta: float) -> Plan:
    """Layers, their windows and the share of delta that each may have; a share too small to be looked at is 0."""
    plan = []
    for layer in layers_at(rounds, epsilon):
        window = window_at_epsilon(layer, epsilon)
        nats = chernoff(layer, window.theta, epsilon) - log_delta
        weight = math.exp(min(nats, 0.0)) if nats > _NEGLIGIBLE else 0.0
        if weight == 0.0:
            # the least tilt that shows it, so that a smaller epsilon does not change that
            theta = window.theta
            while theta > _LEAST_TILT and chernoff(layer, 0.5 * theta, epsilon) - log_delta < _NEGLIGIBLE:
                theta *= 0.5
            window = Window(theta, window.below, window.above)
        plan.append(Planned(layer, window, weight))
    return plan


def _sum(rounds: Parts, plan: Plan, epsilon: float, size: int, side: Side) -> LayeredSum:
    """All layers of the plan, which was made for coarser cells of the same rounds."""
    sums = []
    for planned in plan:
        layer, window = planned.layer.of(rounds), planned.window
        if not layer.has_any():
            continue
        if planned.weight > 0.0:
            sums.append(composed(layer, window, size, side, epsilon, planned.weight))
        else:
            sums.append(without_points(layer, window.theta))
    return _with_infinity(sums, rounds)


def _roughly(losses: Parts, log_delta: float, most: float) -> tuple[Plan, float]:
    """Where delta(epsilon) is about e^log_delta, between 0 and `most`, and the plan there; 0 and no plan if delta(0) is less."""
    low, at_low = 0.0, _planned(losses, 0.0, log_delta)[1] - log_delta
    if at_low <= 0.0:
        return [], 0.0
    plan, at_high = _planned(losses, most, log_delta)
    # Chernoff's bound says that much even where the sum shows less
    high, at_high = most, min(at_high - log_delta, -_NOTHING)
    last_low, last_high, drop, kept = at_low, at_high, at_low - at_high, 0
    for _ in range(_GUESSES):
        # near is enough, unless delta falls off a cliff in between
        if high - low < (_CLOSE if drop < _FEW_NATS else _CLOSEST) * high or high < _LEAST_EPSILON:
            break
        # false position, with half of the value of an end that stays (Illinois)
        share = at_low / (at_low - at_high) if math.isfinite(at_high) else 0.5
        middle = low + min(max(share, 0.02), 0.98) * (high - low)
        candidate, value = _planned(losses, middle, log_delta)
        value -= log_delta
        if value > 0.0:
            drop -= last_low - value
            low, at_low, last_low = middle, value, value
            at_high, kept = (0.5 * at_high if kept > 0 else at_high), 1
        else:
            drop -= value - last_high
            high, at_high, last_high, plan = middle, value, value, candidate
            at_low, kept = (0.5 * at_low if kept < 0 else at_low), -1
            if value > -_NEARLY:
                break
    return plan, high


def _chernoff_epsilon(rounds: Parts, log_delta: float) -> float:
    """An upper bound on epsilon(delta); rounding is less than the millionth of delta that is kept back."""
    whole = _with_infinity([], rounds)
    rest = math.exp(log_delta) - whole.infinite - whole.left_out
    if not rest > 0.0:
        return math.inf
    _, bound = tilt_for(Layer(rounds), math.log(rest) - 1e-6)
    return bound


def _with_infinity(sums: list[GridSum], rounds: Parts) -> LayeredSum:
    return LayeredSum(
        tuple(sums),
        infinite=-math.expm1(sum(count * math.log1p(-min(loss.infinite, 1.0 - 1e-16)) for count, loss in rounds)),
        left_out=sum(count * loss.left_out for count, loss in rounds),
    )


def _atoms(cells: list[tuple[int, Cells]], side: Side) -> Parts:
    return [(count, one.atoms(side)) for count, one in cells]


def _anything(alpha: Array, side: Side) -> Array:
    """What holds for any trade-off curve."""
    return np.zeros_like(alpha) if side is Side.BELOW else 1.0 - alpha
