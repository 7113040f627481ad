r"""Few rounds: every loss on one lattice of step h, and one transform for each law.

A handful of rounds needs none of the care that thousands do: with T roundings to multiples of h the bracket is about
T (1 + theta) h^2 / 6 wide in epsilon, less than what off-lattice sums pay for their smoothing, and the transform of a loss on the
lattice is a single FFT. So the question is planned on a few hundred cells of each law by Chernoff's bound, and answered once:

- **Above**: atoms of chords (`discretize`), each split between the two multiples of h around it so that both masses are kept;
- **Below**: chords from below whose corners are multiples of h.

Charged are what Chernoff's bound leaves outside of the window and may wrap around, the rounding of transforms, exponentials and
positions. Where all that is not little beside delta, or the window too long, the answer is None: use `composition`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from noisymean.compose.grid.cells import Cells, Scouted
from noisymean.compose.grid.discretize import MEETING, Atoms
from noisymean.compose.grid.grid_sum import GridSum, LayeredSum
from noisymean.numerics.logs import Array, ComplexArray
from noisymean.tradeoff import Side, TradeOff

_ULP = 2.3e-16
# Share of epsilon that the bracket may be wide, and of a smaller epsilon than that as if it were so large.
_AIM, _SMALL = 2e-5, 1e-4
# Cells of a law on the lattice, and of one with larger losses than this while tilts are looked for.
_CELLS, _COARSE, _LARGE = 2048, 512, 30.0
# Points of the lattice, the share of them that is planned for, by how much wider than wanted a step may be for that, and a step
# beyond which the proofs are not meant.
_MOST_POINTS, _SPARE, _WIDER, _WIDEST = 1 << 19, 0.45, 4.0, 0.25
# Tilts that are looked at, and what is added to or taken from the best one for the ends of the window.
_TILTS = np.exp2(np.arange(-30.0, 42.0) / 3.0)
_FURTHER = np.exp2(np.arange(-12.0, 17.0) / 2.0)
# Mass of the tilted sum outside of the window on each side.
_OUTSIDE = 1e-15
# Share of a step that rounding may move a loss by.
_SLIP = 1e-7
# Nats of delta that the charges may take, or a share of epsilon; by how much less than expected an epsilon may be before the step
# is too wide.
_NOTHING, _OF_EPSILON, _MUCH_LESS, _LESS = 1e-4, 2e-4, 0.5, 0.1
# By how much wider steps are on a first look, and nats of delta that it is not wrong by.
_ROUGH, _CLEARLY = 16.0, 0.5
# Steps that what is moved to the next multiples may be off by.
_STEPS = 4.0
_LOOKS = 5
# Beyond, other engines are quicker and tighter.
_LARGEST_EPSILON = 3e3
# Log delta that a curve goes down to, and points of its lattice.
_LEAST_OF_A_CURVE, _POINTS_OF_A_CURVE = math.log(1e-12), 1 << 15
# Laws are looked at as far out as the next smaller of these deltas says.
_NATS = 16.0


class Plan(NamedTuple):
    """The tilt, the two further ones that say where the window ends, the step, and about how long the window is."""

    theta: float
    below: float
    above: float
    step: float
    span: float


class OnLattice(NamedTuple):
    """Q-masses at some multiples of a step."""

    places: NDArray[np.int64]
    mass: Array
    infinite: float
    left_out: float


@final
@dataclass(frozen=True, eq=False)
class LatticeComposition:
    """`rounds` (count, one-round curve) added up on a lattice; every answer may be None."""

    rounds: tuple[tuple[int, TradeOff], ...]

    def epsilon_of_log(self, log_delta: float, side: Side) -> float | None:
        """epsilon(delta) on the stated side."""
        planned = self._chernoff(log_delta)
        if planned is None:
            return None
        theta, near = planned
        if near == 0.0:
            return 0.0
        if near > _LARGEST_EPSILON:
            return None
        # Chernoff's bound may be several times too large
        rough = self._rough_sum(theta, near, log_delta)
        guess = math.inf if rough is None else rough.epsilon(log_delta, Side.ABOVE, near)
        near = expected = guess if 0.0 < guess < near else near
        for _ in range(_LOOKS):
            total = self._sum(theta, expected, log_delta, side)
            if total is None:
                return None
            found = total.epsilon(log_delta, side, near)
            good = math.isfinite(found) and self._good(total, found)
            if good and (found >= _MUCH_LESS * expected or expected <= _SMALL):
                return found
            if not good and expected <= _SMALL:
                return None
            # of a step that is too wide the laws may tell nothing
            near = found if good and found > 0.0 else near
            expected = max(found if good else 0.0, _LESS * expected, _SMALL)
        return None

    def at_most(self, epsilon: float, log_delta: float, side: Side) -> bool | None:
        """Whether that side of epsilon(delta) is seen to be at most epsilon; no is said, too, where little speaks for it.

        But not where epsilon is a few steps: whatever was moved to the next multiple may be beyond it then.
        """
        if epsilon > _LARGEST_EPSILON or self._nowhere_finite(log_delta):
            return None
        theta, least = self._tilt_at(epsilon, log_delta)
        # Chernoff's bound on atoms from above is one on delta; rounding is less than a millionth
        if math.exp(min(1e-6 + least, 0.0)) + self._ladder(log_delta).infinite <= math.exp(log_delta):
            return True
        rough = self._rough_sum(theta, epsilon, log_delta)
        if rough is not None:
            about = rough.log_delta(epsilon, Side.ABOVE)
            if about <= log_delta:
                return True
            if rough.log_delta(epsilon + _STEPS * rough.layers[0].step, Side.ABOVE) > log_delta + _CLEARLY:
                return False
        total = self._sum_at(epsilon, log_delta, side)
        if total is None:
            return None
        if total.log_delta(epsilon, side) <= log_delta:
            return True
        return False if epsilon >= _STEPS * total.layers[0].step else None

    def log_delta(self, epsilon: float, side: Side) -> float | None:
        """log delta(epsilon) on the stated side."""
        guess = -_NATS
        if self._nowhere_finite(guess):
            return None
        for _ in range(_LOOKS):
            _, least = self._tilt_at(epsilon, guess)
            if least > guess - _NATS:
                break
            # further out than was looked at
            guess = 2.0 * least
        total = self._sum_at(epsilon, guess, side)
        if total is None or not self._good(total, epsilon):
            return None
        return total.log_delta(epsilon, side)

    def _tilt_at(self, epsilon: float, log_delta: float) -> tuple[float, float]:
        """The tilt of the least of Chernoff's bounds on delta(epsilon), and the logarithm of that bound."""
        bounds = self._ladder(log_delta).of_sum + _log_weights(_TILTS) - _TILTS * epsilon
        best = int(np.argmin(bounds))
        return float(_TILTS[best]), float(bounds[best])

    def _sum_at(self, epsilon: float, log_delta: float, side: Side) -> LayeredSum | None:
        """The sum for a question about delta(epsilon), which is about e^log_delta."""
        theta, _ = self._tilt_at(epsilon, log_delta)
        return self._sum(theta, epsilon, log_delta, side)

    def curve(self, alpha: Array, side: Side) -> Array | None:
        """f(alpha) on the stated side."""
        theta = float(_TILTS[0])
        if self._nowhere_finite(_LEAST_OF_A_CURVE):
            return None
        plan = self._plan(theta, 0.0, _LEAST_OF_A_CURVE)
        if not 0.0 < plan.span < _POINTS_OF_A_CURVE * _WIDEST:
            return None
        step = MEETING[1] * 0.5 ** math.floor(math.log2(MEETING[1] * _POINTS_OF_A_CURVE / plan.span))
        if step > _WIDEST:
            return None
        # delta from above is f from below
        total = self._planned_sum(
            plan._replace(step=step), _LEAST_OF_A_CURVE, Side.BELOW if side is Side.ABOVE else Side.ABOVE
        )
        return None if total is None else total.curve(alpha, side)

    def _good(self, total: LayeredSum, epsilon: float) -> bool:
        """Whether charges are little beside delta, or beside epsilon, of which theta nats of delta are worth one."""
        above, below = (total.log_delta(epsilon, side) for side in (Side.ABOVE, Side.BELOW))
        return above - below < max(_NOTHING, _OF_EPSILON * total.layers[0].theta * epsilon)

    # --- plans ------------------------------------------------------------------------------------------------------------

    def _chernoff(self, log_delta: float) -> tuple[float, float] | None:
        """The tilt of the least of Chernoff's bounds on epsilon(delta), and that bound."""
        ladder = self._ladder(log_delta)
        rest = math.exp(log_delta) - ladder.infinite
        if not rest > 0.0:
            return None
        log_deltas = ladder.of_sum + _log_weights(_TILTS)
        if float(np.min(log_deltas)) < math.log(rest) - 1e-6:
            return 0.0, 0.0
        bounds = (log_deltas - math.log(rest)) / _TILTS
        best = int(np.argmin(bounds))
        if not math.isfinite(bounds[best]):
            return None
        return float(_TILTS[best]), float(bounds[best])

    def _nowhere_finite(self, log_delta: float) -> bool:
        """Whether nothing is known of some law but that its loss is at most infinite."""
        looked = (_looked_at(count, curve, _rounded(log_delta)) for count, curve in self.rounds)
        return not all(one.atoms.mass.any() for one in looked)

    def _ladder(self, log_delta: float) -> _Ladder:
        each = [(count, _looked_at(count, curve, _rounded(log_delta))) for count, curve in self.rounds]
        return _Ladder(
            np.asarray(sum(count * one.ladder for count, one in each)),
            -math.expm1(sum(count * math.log1p(-min(one.atoms.infinite, 1.0 - 1e-16)) for count, one in each))
            + sum(count * one.atoms.left_out for count, one in each),
        )

    def _plan(self, theta: float, epsilon: float, log_delta: float, widen: float = 1.0) -> Plan:
        each = [(count, _looked_at(count, curve, _rounded(log_delta)).atoms) for count, curve in self.rounds]
        tilts = np.concatenate([[theta], theta - _FURTHER, theta + _FURTHER])
        values = sum(count * _log_mgf(atoms, tilts) for count, atoms in each)
        assert isinstance(values, np.ndarray)
        room = -math.log(_OUTSIDE) - values[0]
        below, above = np.split(values[1:] + room, 2)
        rounds = sum(count for count, _ in self.rounds)
        step = widen * math.sqrt(6.0 * _AIM * max(epsilon, _SMALL) / ((1.0 + theta) * rounds))
        ends = below / _FURTHER, above / _FURTHER
        span = float(np.min(ends[0]) + np.min(ends[1]))
        # a long window has a wider step before it has none
        step = min(max(step, span / (_SPARE * _MOST_POINTS)), _WIDER * step)
        return Plan(
            theta,
            float(_FURTHER[np.argmin(ends[0])]),
            float(_FURTHER[np.argmin(ends[1])]),
            # 1.5 is a multiple of it, and the next question is likely to find its cells
            MEETING[1] * 0.5 ** math.ceil(math.log2(MEETING[1] / min(step, _WIDEST))),
            span,
        )

    # --- sums -------------------------------------------------------------------------------------------------------------

    def _rough_sum(self, theta: float, epsilon: float, log_delta: float) -> LayeredSum | None:
        """A bound from above on the few cells that were looked at, by a short transform."""
        plan = self._plan(theta, epsilon, log_delta, _ROUGH)
        each = [(count, _looked_at(count, curve, _rounded(log_delta)).atoms) for count, curve in self.rounds]
        return _added([(count, _split(atoms, plan.step, Side.ABOVE)) for count, atoms in each], plan, Side.ABOVE)

    def _sum(self, theta: float, epsilon: float, log_delta: float, side: Side) -> LayeredSum | None:
        return self._planned_sum(self._plan(theta, epsilon, log_delta), log_delta, side)

    def _planned_sum(self, plan: Plan, log_delta: float, side: Side) -> LayeredSum | None:
        key = (plan, _rounded(log_delta), side)
        if key not in self._sums:
            parts = [
                (count, _looked_at(count, curve, _rounded(log_delta)).on_lattice(plan.theta, plan.step, side))
                for count, curve in self.rounds
            ]
            self._sums[key] = _added(parts, plan, side)
        return self._sums[key]

    @cached_property
    def _sums(self) -> dict[tuple[Plan, float, Side], LayeredSum | None]:
        return {}


class _Ladder(NamedTuple):
    """log E[e^(theta sum)] at all of _TILTS, and what no tilt sees."""

    of_sum: Array
    infinite: float


def _rounded(log_delta: float) -> float:
    return _NATS * math.floor(log_delta / _NATS)


@lru_cache(maxsize=128)
def _looked_at(count: int, curve: TradeOff, log_delta: float) -> _Looked:
    """Several sums have a law in common."""
    cells = Scouted(count, curve).cells(log_delta)
    # large losses are scouted less closely than a tilt needs them
    return _Looked(cells.refined(((0.0, math.inf), (1.0, math.inf)), _COARSE) if cells.edges[-1] > _LARGE else cells)


@final
@dataclass(frozen=True, eq=False)
class _Looked:
    """A law on a few cells, and what follows from them."""

    cells: Cells

    @cached_property
    def atoms(self) -> Atoms:
        return self.cells.atoms(Side.ABOVE)

    @cached_property
    def ladder(self) -> Array:
        return _log_mgf(self.atoms, _TILTS)

    def on_lattice(self, theta: float, step: float, side: Side) -> OnLattice:
        """Its atoms at multiples of the step."""
        # cells for a tilt that is about this one will do
        about = 4.0 ** round(0.5 * math.log2(theta))
        key = (about, step, side)
        if key not in self._on:
            if (about, step) not in self._fine:
                self._fine[about, step] = self.cells.refined(((about, math.inf), (0.0, math.inf)), _CELLS, step)
            self._on[key] = _split(self._fine[about, step].atoms(side, at_edges=True), step, side)
        return self._on[key]

    @cached_property
    def _fine(self) -> dict[tuple[float, float], Cells]:
        return {}

    @cached_property
    def _on(self) -> dict[tuple[float, float, Side], OnLattice]:
        return {}


def _split(atoms: Atoms, step: float, side: Side) -> OnLattice:
    """From above each atom goes to both multiples around it, its two masses kept; from below to the one that it is at."""
    kept = atoms.mass > 0.0
    place, mass = atoms.losses[kept] / step, atoms.mass[kept]
    low = np.floor(place + _SLIP)
    index = low.astype(np.int64)
    if side is Side.ABOVE:
        share = np.expm1(step * (1.0 - np.maximum(place - low, 0.0))) / math.expm1(step)
        index = np.concatenate([index, index + 1])
        mass = np.concatenate([mass * share, mass * np.maximum(1.0 - share, 0.0)])
        index, mass = index[mass > 0.0], mass[mass > 0.0]
    return OnLattice(index, mass, atoms.infinite, atoms.left_out)


def _added(parts: list[tuple[int, OnLattice]], plan: Plan, side: Side) -> LayeredSum | None:
    """The sum of all rounds in a window around its tilted mean."""
    theta, step = plan.theta, plan.step
    tilts = np.array([theta, theta - plan.below, theta + plan.above])
    value = np.zeros(3)
    tilted = []
    of_masses = 0.0
    for count, one in parts:
        if not one.mass.size:
            return None
        losses = step * one.places
        exponent = np.log(one.mass) + tilts[:, None] * losses
        top = exponent.max(axis=1)
        weights = np.exp(exponent - top[:, None])
        totals = weights.sum(axis=1)
        logs = top + np.log(totals)
        value += count * logs
        mass = weights[0] / totals[0]
        tilted.append(mass)
        of_masses += 8.0 * _ULP * count * float(mass @ (1.0 + np.abs(theta * losses) + abs(logs[0])))
    nats = -math.log(_OUTSIDE)
    low = -(value[1] - value[0] + nats) / plan.below
    high = (value[2] - value[0] + nats) / plan.above
    points = math.ceil((high - low) / step) + 2
    if not points <= _MOST_POINTS:
        return None
    width = fft.next_fast_len(points, real=True)
    spectrum = np.ones(width // 2 + 1, dtype=np.complex128)
    of_spectra = 0.0
    for (count, one), mass in zip(parts, tilted, strict=True):
        # beyond the width they wrap around
        spectrum *= _power(fft.rfft(np.bincount(one.places % width, mass, minlength=width)), count)
        of_spectra += count * _ULP * (3.0 * math.log2(width) + 16.0)
    start = math.floor(low / step)
    sums = np.roll(fft.irfft(spectrum, n=width), -start)
    last = 3.0 * math.sqrt(width) * math.log2(width) * _ULP * float(np.linalg.norm(sums))
    sign = 1.0 if side is Side.ABOVE else -1.0
    slip = sign * step * _SLIP * (1 + sum(count for count, _ in parts))
    of_spectra *= math.sqrt(width) * (1.0 + 1e-6)
    return LayeredSum(
        (
            GridSum(
                losses=step * (start + np.arange(width)) + slip,
                step=step,
                tilted=sums,
                theta=theta,
                log_mgf=float(value[0]) + theta * slip,
                error=of_masses,
                charge=2.0 * _OUTSIDE * (1.0 + 1e-6) + of_masses + of_spectra + last,
            ),
        ),
        infinite=-math.expm1(sum(count * math.log1p(-min(one.infinite, 1.0 - 1e-16)) for count, one in parts)),
        left_out=sum(count * one.left_out for count, one in parts),
    )


def _power(values: ComplexArray, count: int) -> ComplexArray:
    """values^count by squaring, which is faster than numpy's powers of complex numbers."""
    result = values
    for bit in f"{count:b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * values
    return result


def _log_mgf(atoms: Atoms, tilts: Array) -> Array:
    """log E[e^(theta l)] over finite losses, at many tilts."""
    exponent = atoms.log_mass + tilts[:, None] * atoms.losses
    top = exponent.max(axis=1)
    return np.asarray(top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)))


def _log_weights(theta: Array) -> Array:
    """`log_weight` of many tilts."""
    return np.asarray(-theta * np.log1p(1.0 / theta) - np.log1p(theta))
