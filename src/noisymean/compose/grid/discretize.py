r"""One round's loss on cells of any widths, as finitely many atoms, to a stated side; both sides are off by O(width^2).

With u = e^t, delta is a convex function of u, delta(u) = Q[l > t] - u P[l > t] = 1 - u + (u P[l <= t] - Q[l <= t]).

- **Above** (leaks more): chords between the values of delta at the edges, each value rounded up ("connect the dots", Doroshenko
  et al. 2022). Chords through upper bounds of a convex function are above it, whichever edges are used, so an edge where
  rounding made a dent is left out. The pair whose delta this is has its atoms at the edges, and mass at infinity.
- **Below** (leaks less): only the tests at the edges, each point (P[l > t], Q[l > t]) moved under the curve by its rounding. A
  cell becomes one atom at the logarithm of its mean ratio, wherever in the cell that is. Again any edges may be left out.

- **Subsampled**, T(P, (1-r) P + r Q), either way round: T(P, Q) is cut, and its atoms are mixed. Mixing commutes with whatever
  makes one pair of another, so the side stays, and the digits of a small r do too.

The rounding of the tails is charged here, to values of delta and not to positions in cells: where the cells are much narrower
than the digits of a tail can tell, its effect on a mean loss is the rounding times the spread of the losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from noisymean.laws.subsampled import Subsampled
from noisymean.numerics.logs import Array, log_difference, log_mean_exp
from noisymean.tradeoff import Inverse, Side, Tails, TradeOff

# Rounding of exponentials, differences and slopes for each edge, as a share of the tails that they are made of.
_ROUNDING = 5e-16
# The two tails of delta meet at one of the edges, at the latest where e^t >= 3: further right there would be no digits left.
MEETING = (0.0, 1.5)
# What a sum of masses may be off by.
_OF_MASSES = 1e-13
# Beyond every finite loss.
_BEYOND = 1e300
# What an exponential may lose where it is too small to be written down.
_LEAST = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Atoms:
    """Q-masses at rising losses, and at +infinity; `p_infinite` is the P-mass at -infinity, where Q has none.

    delta of any sum with it is off by at most `left_out` beside the side that it was made for.
    """

    losses: Array
    mass: Array
    infinite: float
    left_out: float
    p_infinite: float = 0.0

    @cached_property
    def log_mass(self) -> Array:
        """Logarithms of the masses."""
        with np.errstate(divide="ignore"):
            return np.log(self.mass)

    def tilted(self, theta: float) -> tuple[float, Array]:
        """log E[e^(theta l)] over finite losses, and the law with these weights."""
        exponent = self.log_mass + theta * self.losses
        top = float(exponent.max(initial=-math.inf))
        if math.isinf(top):
            return -math.inf, np.zeros_like(exponent)
        weights = np.exp(exponent - top)
        total = float(np.sum(weights))
        return top + math.log(total), weights / total

    def log_mgf(self, theta: float, first: int = 0) -> float:
        """log E[e^(theta l)] over finite losses from the given one on."""
        exponent = self.log_mass[first:] + theta * self.losses[first:]
        # a law may have no atom that a float can hold
        top = float(exponent.max(initial=-math.inf))
        return top if math.isinf(top) else top + math.log(float(np.exp(exponent - top).sum()))

    def up_to(self, cut: float) -> Atoms:
        """The finite losses below `cut` alone."""
        number = int(np.searchsorted(self.losses, cut))
        return Atoms(self.losses[:number], self.mass[:number], 0.0, 0.0)


def discretize(curve: TradeOff, edges: Array, side: Side, *, at_edges: bool = False) -> Atoms:
    """The loss of T(P, Q) under Q on the cells between rising edges."""
    edges = np.union1d(edges, MEETING)
    return from_tails(curve, edges, curve.tails(edges), side, at_edges=at_edges)


def from_tails(curve: TradeOff, edges: Array, tails: Tails, side: Side, *, at_edges: bool = False) -> Atoms:
    """The same where the tails at the edges, MEETING among them, are known; atoms `at_edges` from below, too."""
    match curve:
        case Subsampled(base=base, rate=rate) if 0.0 < rate < 1.0:
            atoms = discretize(base, _unmixed(edges, rate), side, at_edges=at_edges)
            return _mixed(atoms, rate, curve.slack, side)
        case Inverse(forward=Subsampled(base=base, rate=rate)) if 0.0 < rate < 1.0:
            # the atoms of T(P, Q) are turned round with their masses
            atoms = discretize(base, _unmixed(-edges[::-1], rate), side, at_edges=at_edges)
            return _mixed(atoms, rate, curve.slack, side, reverse=True)
    rounding = curve.relative_error + _ROUNDING * (8 + edges.size)
    if side is Side.ABOVE:
        return _chords(edges, tails, rounding, curve.slack, curve.masses)
    if at_edges:
        return _under(edges, tails, rounding, curve.slack, curve.masses)
    # a tail of P that is too small to be told is not zero: at infinity is what Q has beyond every loss
    beyond = float(curve.tails(np.array([_BEYOND])).q_above[0])
    return _tests(edges, tails, rounding, curve.slack, curve.masses, beyond)


def _unmixed(edges: Array, rate: float) -> Array:
    """Losses l of T(P, Q) for which log(1 - rate + rate e^l) is an edge, nearly: any edges are sound."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        near = np.log1p(np.expm1(np.minimum(edges, 30.0)) / rate)
        losses = np.where(edges < 30.0, near, edges - math.log(rate))
    losses = np.unique(losses[np.isfinite(losses)])
    return losses if losses.size else np.zeros(1)


def _mixed(atoms: Atoms, rate: float, slack: float, side: Side, *, reverse: bool = False) -> Atoms:
    """The atoms of (P, (1-r) P + r Q), or of ((1-r) P + r Q, P), from those of (P, Q)."""
    sign = 1.0 if side is Side.ABOVE else -1.0
    kept = atoms.mass > 0.0
    at, q = atoms.losses[kept], atoms.mass[kept]
    # an exponent of size |l| has so many digits less
    rounding = 1.0 + sign * 4e-16 * (4.0 + np.abs(at))
    p = np.exp(np.log(q) - at) * rounding
    losses = log_mean_exp(rate, at)
    # where Q has nothing, P has the least loss there is; left out, it only leaks less
    if side is Side.ABOVE and atoms.p_infinite > 0.0:
        losses = np.concatenate([[math.log1p(-rate)], losses])
        p, q = np.concatenate([[atoms.p_infinite * (1.0 + 1e-15)], p]), np.concatenate([[0.0], q])
    if reverse:
        return Atoms(-losses[::-1], p[::-1], 0.0, slack)
    return Atoms(losses, (1.0 - rate) * p + rate * q, rate * atoms.infinite, slack)


def _chords(edges: Array, tails: Tails, rounding: float, slack: float, masses: tuple[float, float]) -> Atoms:
    q_above, p_above, q_below, p_below = _grown(edges, tails)
    delta = np.maximum(q_above - p_above, 0.0) + rounding * (q_above + p_above)
    delta = np.where(np.isneginf(tails.q_above), 0.0, np.minimum(delta + _LEAST, 1.0))
    excess = np.maximum(p_below - q_below, 0.0) + rounding * (p_below + q_below)
    excess = np.where(np.isneginf(tails.p_below), 0.0, excess + _LEAST)
    # measures that are not quite laws: delta exceeds 1 - u by what they are off by, too
    more_of_q, less_of_p = max(masses[1] - 1.0, 0.0), max(1.0 - masses[0], 0.0)
    if more_of_q or less_of_p:
        # further right it is not used
        excess += more_of_q + np.exp(np.minimum(edges, MEETING[1])) * less_of_p
    # delta itself above its middle, what it exceeds 1 - u by below: each has its digits where its two tails are small
    return _bent(edges, delta, excess, _middle(edges, q_above + p_above <= q_below + p_below), slack)


def _under(edges: Array, tails: Tails, rounding: float, slack: float, masses: tuple[float, float]) -> Atoms:
    """Chords below delta: its values at the edges, less what it may sag between them.

    docs/accountant.md, "Few rounds on a lattice", has the proof.
    """
    q_above, p_above, q_below, p_below = _grown(edges, tails)
    gap = np.diff(edges)
    with np.errstate(over="ignore", invalid="ignore"):
        wider, narrower = np.expm1(gap), -np.expm1(-gap)
        # P of the cell times its width in u, from the tails on either side of it: it sags by no more than a quarter of that
        by_above = (1.0 + rounding) * p_above[:-1] * wider - (1.0 - rounding) * p_above[1:] * narrower
        by_below = (1.0 + rounding) * p_below[1:] * narrower - (1.0 - rounding) * p_below[:-1] * wider
        sag = 0.25 * (1.0 + 1e-12) * np.maximum(np.fmin(by_above, by_below), 0.0)
        rise = np.expm1(edges)
        less_of_q, more_of_p = max(1.0 - masses[1], 0.0), max(masses[0] - 1.0, 0.0)
        # what P is short of counts for it; sums of masses have all but the last digits
        less_of_p = max(1.0 - masses[0] - _OF_MASSES, 0.0)
        missing = less_of_q + np.exp(np.minimum(edges, MEETING[1])) * (more_of_p - less_of_p)
        sags = np.maximum(np.append(sag, 0.0), np.append(0.0, sag))
        delta = q_above - p_above - rounding * (q_above + p_above) - sags
        excess = p_below - q_below - rounding * (p_below + q_below) - sags - missing
    least_delta, least_excess = np.maximum(-rise, 0.0), np.maximum(rise, 0.0)
    meet = _middle(edges, q_above + p_above <= q_below + p_below)
    upper = np.arange(edges.size) >= meet
    # where nothing is left of it delta >= (1 - u)+ is, and then on both sides of that edge
    nothing = np.where(upper, ~(delta > least_delta), ~(excess > least_excess))
    nothing[-1] = True
    nothing = nothing | np.append(nothing[1:], False) | np.append(False, nothing[:-1])
    delta, excess = np.where(nothing, least_delta, delta), np.where(nothing, least_excess, excess)
    # left of the first edge 1 - u itself, where it begins there, else the tangent: what is lost of Q by that is left out
    plain, tangent = nothing & (edges <= 0.0), (1.0 - rounding) * p_above
    shallow = (1.0 + rounding) * p_below + np.exp(np.minimum(edges, MEETING[1])) * max(1.0 - masses[0], 0.0)
    shallow, steep = np.where(plain, 0.0, shallow), np.where(plain, np.exp(np.minimum(edges, 0.0)), tangent)
    # delta falls, so from u = 1 on it is no less than further right; left of an edge that is raised to that, no more than that
    start = max(meet, int(np.searchsorted(edges, 0.0)))
    if np.max(delta[start:]) - delta[start] <= q_below[start]:
        # to raise the first one would cost all that is left of it
        delta[start:] = np.minimum(delta[start:], delta[start])
    level = np.maximum.accumulate(delta[start:][::-1])[::-1]
    raised = np.flatnonzero(level > delta[start:])
    if raised.size:
        steep[start + raised] = tangent[start + raised]
        lowered = raised[raised > 0]
        level[lowered - 1] = level[lowered]
        delta[start:] = level
        if raised[0] == 0:
            edges, delta, excess = edges[start:], delta[start:], excess[start:]
            shallow, steep, meet = shallow[start:], steep[start:], 0
    return _bent(edges, delta, excess, meet, slack, (shallow, steep))


def _grown(edges: Array, tails: Tails) -> tuple[Array, Array, Array, Array]:
    """Q[l > t], e^t P[l > t], Q[l <= t], e^t P[l <= t]."""
    with np.errstate(over="ignore"):
        return (
            np.exp(tails.q_above),
            np.exp(edges + tails.p_above),
            np.exp(tails.q_below),
            np.exp(edges + tails.p_below),
        )


def _middle(edges: Array, upper: NDArray[np.bool_]) -> int:
    """The first edge whose upper tails are the lesser; for measures that are short of P it could lie too far right."""
    first = int(np.argmax(upper)) if upper.any() else upper.size - 1
    return min(first, int(np.searchsorted(edges, MEETING[1])))


def _bent(
    t: Array, delta: Array, excess: Array, meet: int, slack: float, first: tuple[Array, Array] | None = None
) -> Atoms:
    """The pair whose delta is made of chords: an atom wherever they bend.

    The first chord is that from (0, 1), or one of which `first` tells u times its slope, plus u and negated.
    """
    known = 0
    while True:
        # one value where the two meet, and never below 1 - u; infinite only if there is no edge further left
        with np.errstate(over="ignore"):
            rise = float(np.expm1(t[meet]))
        by_excess = excess[meet] - rise if meet < known else -math.inf
        # from below no edge may rise once another beside it is gone: the chord that was below it need not be any more
        delta[meet] = by_excess if first is not None and meet < known else max(delta[meet], -rise, by_excess)
        excess[meet] = delta[meet] + rise
        # of one edge alone the mass is what does not escape to infinity
        if t.size == 1:
            mass = 1.0 - delta if first is None else first[1]
        else:
            mass = _bends(t, delta, excess, meet, float((first or (excess,))[0][0]))
            if first is not None and meet == 0:
                with np.errstate(over="ignore"):
                    mass[0] = first[1][0] - (delta[0] - delta[1]) / np.expm1(t[1] - t[0])
        # an edge where the chords bend down is no corner of a convex function; of neighbours the worst goes first
        padded = np.concatenate([[0.0], mass, [0.0]])
        dents = (mass < 0.0) & (mass <= padded[:-2]) & (mass <= padded[2:])
        if not dents.any():
            # the first chord is the one from (0, 1): what P has there and Q has not
            p_infinite = math.exp(min(math.log(excess[0]) - t[0], 0.0)) if excess[0] > 0.0 else 0.0
            return Atoms(t, mass, float(delta[-1]), slack, p_infinite)
        known = int(np.sum(~dents[:meet]))
        t, delta, excess = t[~dents], delta[~dents], excess[~dents]
        first = None if first is None else (first[0][~dents], first[1][~dents])
        # the excess has its digits at the edges up to the last one before: better there than too far right
        beyond = known == t.size or t[known] > MEETING[1]
        meet = max(known - 1, 0) if beyond else known


def _bends(t: Array, delta: Array, excess: Array, meet: int, begin: float) -> Array:
    """u times what the slope of the chords rises by at each edge: the Q-masses. Flat behind the last edge."""
    gap = np.diff(t)
    with np.errstate(over="ignore"):
        at_left, at_right = np.expm1(gap), -np.expm1(-gap)
    falls, rises = -np.diff(delta[meet:]), np.diff(excess[: meet + 1])
    # u times the slopes: of delta, negated, on the right; of its excess over 1 - u on the left
    before = np.concatenate([[begin], rises / at_right[:meet], falls / at_right[meet:]])
    behind = np.concatenate([rises / at_left[:meet], falls / at_left[meet:], [0.0]])
    mass = before - behind
    mass[:meet] *= -1.0
    if t[meet] < MEETING[1]:
        mass[meet] = math.exp(t[meet]) - before[meet] - behind[meet]
    else:
        # edges further left were left out: by delta itself, from the one before or from (0, 1)
        last = excess[meet - 1] - math.expm1(t[meet - 1]) if meet else 1.0
        mass[meet] = (last - delta[meet]) / (at_right[meet - 1] if meet else 1.0) - behind[meet]
    return np.asarray(mass)


def _tests(
    edges: Array, tails: Tails, rounding: float, slack: float, masses: tuple[float, float], beyond: float
) -> Atoms:
    less, more = math.log1p(-rounding), math.log1p(rounding)
    q_above, p_above = tails.q_above + less, tails.p_above + more
    q_below, p_below = tails.q_below + more, tails.p_below + less
    upper = np.logaddexp(q_above, p_above) <= np.logaddexp(q_below, p_below)
    first = int(np.argmax(upper)) if upper.any() else edges.size
    # never to reject, and always; logarithms, for P may be e^-1000 where Q lives
    p = np.concatenate([[-np.inf], p_below[:first], p_above[first:], [-np.inf]])
    q = np.concatenate([[-np.inf], q_below[:first], q_above[first:], [-np.inf]])
    # what P has nothing of is at infinity, the rest beyond the last edge is left out: Q's mass at no loss leaks less
    infinite = math.exp(beyond + less) if np.isneginf(tails.p_above[-1]) and first < edges.size else 0.0
    first += 1
    while True:
        p_cells, q_cells = (_log_cells(*it, first)[:-1] for it in zip((p, q), masses, strict=True))
        with np.errstate(invalid="ignore"):
            losses = q_cells - p_cells
            # an edge between two cells is of use if it tells a smaller ratio from a larger one
            bad = ~(np.diff(losses) >= 0.0)
        if not bad.any():
            break
        drop = np.zeros(p.size, dtype=bool)
        # of neighbours every other one: a cell that grew may be good
        place = np.arange(bad.size)
        since = place - np.maximum.accumulate(np.where(bad, -1, place))
        drop[1 : 1 + bad.size] = bad & (since % 2 == 1)
        first -= int(np.sum(drop[:first]))
        p, q = p[~drop], q[~drop]
    seen = np.isfinite(losses)
    return Atoms(losses[seen], np.exp(q_cells[seen]), infinite, slack)


def _log_cells(tail: Array, mass: float, first: int) -> Array:
    """Log masses between neighbours: lower tails before index `first`, upper ones from there on; `mass` is all there is."""
    middle = mass - math.exp(tail[first - 1]) - math.exp(tail[first])
    return np.concatenate(
        [
            log_difference(tail[1:first], tail[: first - 1]),
            [math.log(middle) if middle > 0.0 else -np.inf],
            log_difference(tail[first:-1], tail[first + 1 :]),
        ]
    )
