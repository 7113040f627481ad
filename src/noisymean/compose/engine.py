"""Rounds of one or several laws: delta(epsilon) and epsilon(delta) on a stated side, by the engine that fits.

- one round: the one-round curve itself, unless it is known less well than the integral;
- few rounds: a `lattice`, a bracket;
- many rounds: the contour integral of `contour`, exact and independent of their number;
- a loss that is nearly an atom, where that integral converges slowly: the `grid`, a bracket too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar, final

import numpy as np

from noisymean.compose.contour import COMPOSED_ERROR, Composed
from noisymean.compose.grid.composition import GridComposition
from noisymean.compose.grid.lattice import LatticeComposition
from noisymean.cumulants import SlowDecay, Sum
from noisymean.numerics.logs import Array
from noisymean.tradeoff import LARGEST_EPSILON, Law, Side, TradeOff

Result = TypeVar("Result")


class DeltaCurve(Protocol):
    """A two-sided answer about a pair of distributions: the larger side is safe for guarantees, the smaller for leakage."""

    def epsilon(self, delta: float, side: Side) -> float: ...

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float: ...

    def at_most(
        self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE
    ) -> bool | None: ...

    def log_delta(self, epsilon: float, side: Side) -> float: ...

    def inverse(self) -> DeltaCurve: ...


@final
@dataclass(frozen=True, eq=False)
class Rounds:
    """`count` rounds of each law, one after the other on the same pair of datasets; `reverse` swaps the two."""

    parts: tuple[tuple[int, Law], ...]
    reverse: bool = False

    def epsilon(self, delta: float, side: Side, *, near: float | None = None) -> float:
        """epsilon(delta) on the stated side; `near` it, if a number is known that is."""
        return self.epsilon_of_log(math.log(delta), side, near=near)

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        """The same for a delta that may be too small to be written down."""
        if (log_delta, side) not in self._answers:
            self._answers[log_delta, side] = self._epsilon(log_delta, side, near)
        return self._answers[log_delta, side]

    def _epsilon(self, log_delta: float, side: Side, near: float | None) -> float:
        # cells of leakage end where less than this is left
        few = side is Side.ABOVE or log_delta > _LEAST_ON_LATTICE
        known = 0.0

        def on_lattice(lattice: LatticeComposition) -> float | None:
            nonlocal known
            found = lattice.epsilon_of_log(log_delta, side) if few else None
            if found is not None and side is Side.BELOW and found < _TIGHT * (near or math.inf):
                # cells from below may lose the few tests that matter of a loss with many bumps
                most = lattice.epsilon_of_log(log_delta, Side.ABOVE)
                if most is not None and found < _TIGHT * most:
                    known = found
                    return None
            return found

        if self._lattice_first and few and (first := self._few(on_lattice)) is not None:
            return first
        if side is Side.BELOW and (closed := self._closed_part) is not None:
            # all but a closed law looked away from: nothing is lost by it where that one says this much
            least = float(closed.epsilon_of_log(log_delta, side))
            if least > LARGEST_EPSILON:
                return least
        if not self.reverse and self._infinite > 0.0 and math.log(self._infinite) >= log_delta:
            return math.inf
        return self._first_that_works(
            lambda engine: float(engine.epsilon_of_log(log_delta, side, near=near)),
            on_lattice,
            lambda grid: max(grid.epsilon_of_log(log_delta, side), known),
        )

    @cached_property
    def _answers(self) -> dict[tuple[float, Side], float]:
        """Links of several chains, and both directions of a guarantee, ask the same again."""
        return {}

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE) -> bool | None:
        """Whether one evaluation shows that this side of epsilon(delta) is <= epsilon; None where it takes more than that.

        A `rough` look at the grid may see that it is so, never that it is not.
        """
        if not 0.0 < epsilon < math.inf:
            return False

        def few(lattice: LatticeComposition) -> bool | None:
            return lattice.at_most(epsilon, log_delta, side)

        if self._lattice_first and (seen := self._few(few)) is not None:
            return seen
        if (seen := self._seen_at_once(epsilon, log_delta)) is not None:
            return seen
        return self._first_that_works(
            lambda engine: float(engine.log_delta(epsilon, side)) <= log_delta,
            few,
            lambda grid: (rough and grid.at_most(epsilon, log_delta)) or None,
            # an epsilon far from the one that is asked for says little about the next question
            remember=False,
        )

    def _seen_at_once(self, epsilon: float, log_delta: float) -> bool | None:
        """Without an integral, so even where that is slow."""
        if self._exact is None:
            return None
        try:
            with np.errstate(all="ignore"):
                return self._exact.seen_at_once(epsilon, log_delta, reverse=False)
        except SlowDecay:
            return None

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) on the stated side."""
        if (epsilon, side) not in self._deltas:
            self._deltas[epsilon, side] = self._known_delta(epsilon, side)
        return self._deltas[epsilon, side]

    @cached_property
    def _deltas(self) -> dict[tuple[float, Side], float]:
        return {}

    @property
    def is_quick(self) -> bool:
        """Whether a closed form or the contour integral answered, and nothing has to be added up for the next question."""
        return self._exact is not None and not self._slow and not self._lattice_first

    def _known_delta(self, epsilon: float, side: Side) -> float:
        def few(lattice: LatticeComposition) -> float | None:
            found = lattice.log_delta(epsilon, side)
            if found is None or found <= _LEAST_ON_LATTICE:
                return None
            if side is Side.BELOW:
                # losses that the lattice cannot hold are left out from below, and may be all that counts
                above = lattice.log_delta(epsilon, Side.ABOVE)
                if above is None or above - found > _APART:
                    return None
            return found

        if self._lattice_first and (known := self._few(few)) is not None:
            return known
        return self._first_that_works(
            lambda engine: self._log_delta(engine, epsilon, side), few, lambda grid: grid.log_delta(epsilon, side)
        )

    @staticmethod
    def _log_delta(engine: TradeOff, epsilon: float, side: Side) -> float:
        """Where delta is nearly 1 the contour integral may be slow, but delta only falls: one at a larger epsilon is a bound."""
        try:
            return float(engine.log_delta(epsilon, side))
        except SlowDecay:
            for factor in (2.0, 4.0, 8.0, 16.0):
                further = float(engine.log_delta(max(factor * epsilon, factor), Side.BELOW))
                if further > _NEARLY_ONE:
                    return 0.0 if side is Side.ABOVE else further
            raise

    def inverse(self) -> Rounds:
        """The other direction; the same object each time, which remembers what it was asked."""
        return self._inverse

    @cached_property
    def _inverse(self) -> Rounds:
        other = Rounds(self.parts, not self.reverse)
        other.__dict__["_inverse"] = self
        return other

    def tradeoff(self) -> TradeOff:
        """T(P, Q) of all rounds; raises SlowDecay where only the grid converges."""
        if self._exact is None:
            raise SlowDecay
        return self._exact

    def curve_of_few(self, alpha: Array, side: Side) -> Array | None:
        """f(alpha) of few rounds on the stated side, where they are better added up than integrated; None where not."""
        return self._few(lambda lattice: lattice.curve(alpha, side)) if self._lattice_first else None

    @cached_property
    def _exact(self) -> TradeOff | None:
        """The sum in closed form or by the contour integral; None where neither exists."""
        if self.reverse and all(law.backward() is law for _, law in self.parts):
            # one K for both directions
            forward = self._inverse._exact
            return None if forward is None else forward.inverse()
        curve = self._one_round_curve
        as_good = curve is not None and (
            curve.relative_error <= COMPOSED_ERROR or any(law.coarse for _, law in self._laws)
        )
        if not as_good and (cumulants := self._cumulants) is not None:
            curve = Composed(cumulants)
        return curve.inverse() if self.reverse and curve is not None else curve

    @cached_property
    def _laws(self) -> tuple[tuple[int, Law], ...]:
        """The rounds as this direction wants them, closed ones as one round of their power."""
        found = []
        for count, law in self.parts:
            if not count:
                continue
            law = law.backward() if self.reverse else law
            power = law.power(count)
            found.append((count, law) if power is None else (1, power))
        return tuple(found)

    @cached_property
    def _cumulants(self) -> Sum | None:
        each = [(count, law.cumulants) for count, law in self._laws]
        known = tuple((count, one) for count, one in each if one is not None)
        return Sum(known) if len(known) == len(each) else None

    @property
    def _infinite(self) -> float:
        """The Q-mass of an infinite loss that K does not see."""
        return self._exact.generating.infinite if isinstance(self._exact, Composed) else 0.0

    @cached_property
    def _one_round_curve(self) -> TradeOff | None:
        """The curve where there is one round only."""
        once = sum(count for count, _ in self._laws) == 1
        return self._laws[0][1].one_round() if once else None

    @cached_property
    def grid(self) -> GridComposition:
        """The rounds on a grid: a bracket that always exists."""
        curves = tuple((count, law.several()) for count, law in self._laws)
        dearest = max(curve.terms for _, curve in curves)
        grid = GridComposition(curves, min(max(_GRID_WORK // dearest, _FEWEST_POINTS), _MOST_POINTS))
        return grid.inverse() if self.reverse else grid

    @cached_property
    def _closed_part(self) -> TradeOff | None:
        """A part of all rounds of the first law that has a closed form, beside others that have none."""
        if not self._laws or self._one_round_curve is not None:
            return None
        count, law = self._laws[0]
        powers = [power for power in (one.power(count) for one in law.in_parts()) if power is not None]
        if not powers:
            return None
        curve = powers[0].one_round()
        return curve.inverse() if self.reverse else curve

    @cached_property
    def _lattice(self) -> LatticeComposition | None:
        """The rounds on a lattice, where they are not too many; None too for one that has a curve of its own."""
        if sum(count for count, _ in self._laws) > _MOST_ON_LATTICE:
            return None
        each = [(count, law.in_parts()) for count, law in self._laws]
        parts = [(count, one) for count, laws in each for one in laws]
        if sum(count for count, _ in parts) == 1 or not all(laws for _, laws in each):
            return None
        powers = [(count, law, law.power(count)) for count, law in parts]
        curves = tuple(
            (count, law.several()) if power is None else (1, power.one_round()) for count, law, power in powers
        )
        return LatticeComposition(
            tuple((count, curve.inverse()) for count, curve in curves) if self.reverse else curves
        )

    @property
    def _lattice_first(self) -> bool:
        """Whether the contour integral of few rounds is likely to be slow."""
        slow = max((law.slow_rounds for _, law in self.parts), default=0)
        return sum(count for count, _ in self._laws) <= slow and self._lattice is not None

    def _few(self, ask: Callable[[LatticeComposition], Result | None]) -> Result | None:
        """An answer for few rounds; None where there is none."""
        if self._lattice is None:
            return None
        with np.errstate(all="ignore"):
            return ask(self._lattice)

    @property
    def _slow(self) -> list[bool]:
        """Not empty if the contour integral was found to be slow for such rounds."""
        return _found_slow(self.parts, self.reverse)

    def _first_that_works(
        self,
        ask: Callable[[TradeOff], Result],
        ask_lattice: Callable[[LatticeComposition], Result | None],
        ask_grid: Callable[[GridComposition], Result],
        *,
        remember: bool = True,
    ) -> Result:
        if self._exact is not None and not self._slow:
            try:
                with np.errstate(all="ignore"):
                    return ask(self._exact)
            except SlowDecay:
                if remember or self._lattice is not None:
                    # the next question will most likely end here too
                    self._slow.append(True)
        if (few := self._few(ask_lattice)) is not None:
            return few
        if (curve := self._one_round_curve) is not None:
            return ask(curve.inverse() if self.reverse else curve)
        return ask_grid(self.grid)


@lru_cache(maxsize=32)
def _found_slow(parts: tuple[tuple[int, Law], ...], reverse: bool) -> list[bool]:
    """Of rounds of the same laws, which other chains and the other pair of neighbours may have as well."""
    return []


# Rounds that a lattice is for, and the least log delta.
_MOST_ON_LATTICE, _LEAST_ON_LATTICE = 400, -32.0
# Ends of a lattice that are further apart than this, in nats of delta, are looked at on the grid.
_APART = 1.0
# Points of the grid, and evaluations of closed forms on it.
_MOST_POINTS = 1 << 15
_FEWEST_POINTS = 1 << 12
_GRID_WORK = 1 << 17
# A bound from below that is less than this share of the one from above is looked for again on a grid.
_TIGHT = 0.98
# log delta above which nothing is lost by saying 1.
_NEARLY_ONE = -1e-6
