r"""T rounds, exactly: the tails of a sum of losses by one contour integral along the line through the saddle point.

With K the cumulant generating function of the summed loss l (module `cumulants`) and any theta0 in its domain,

    P[l > t] = 1/(2 pi i) \int e^{K(theta) - theta t} dtheta / theta            (theta0 > 0; for theta0 < 0: -P[l <= t]),
    Q[l > t] = 1/(2 pi i) \int e^{K(theta) - (theta-1) t} dtheta / (theta - 1)  (theta0 > 1; for theta0 < 1: -Q[l <= t]).

P and Q are the measures of `Cumulants.log_masses`, so the other tail is the complement to e^K(0) or e^K(1), and these are the
residues at the poles. theta0 is the saddle point K'(theta0) = t.

Along theta0 + i tau the integrand is a bell, exp(-V tau^2 / 2) near its middle with
V = K''(theta0); the midpoint rule on it converges geometrically, and a pole nearer than the rule can see is put back by its
residue, as in `numerics.chi_square`. The cost does not depend on the number of rounds, of records, or of dimensions.

delta itself, and what a search for epsilon asks, is one integral of `one_line`.

What the rule is off by is bounded (`aliases`): steps shrink until that is below 1e-10, which is charged. The line is cut only
where the integrand has fallen below e^-40 of its peak, and stays there for as long as it may come back (`Cumulants.echo`). Few
rounds of a loss that is nearly an atom decay too slowly for that: they raise `SlowDecay`, and the caller uses the grid instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from noisymean.compose.aliases import ENOUGH, TRIES, beside, log_aliases
from noisymean.compose.one_line import DECAY, LEAST_OF_TERMS, STEPS, Lines, masses_agree
from noisymean.cumulants import ROUNDING_OF_K, Cumulants, Line, Moments, SlowDecay
from noisymean.numerics.logs import Array, log_difference
from noisymean.tradeoff import Excess, Tails, TradeOff, excess_of_tails

_FIRST_NODES = 28
_MOST_NODES = 1024
_BLOCK = 64
# Thresholds that are worth lines of their own: so many, and so many deviations apart on average.
_FEWEST_TOGETHER, _CLOSE = 4, 0.5
_POLES = (0.0, 1.0)
# Tails below e^-100000 are reported by Chernoff's bound: a logarithm of that size has ten digits left after its point.
_HOPELESS = 1.5e5
_HOPELESS_PEAK = -1e5
# Relative error of the tails that is charged to every bound, beside `ROUNDING_OF_K` for each round.
COMPOSED_ERROR = 1e-10


@final
@dataclass(frozen=True, eq=False)
class Composed(TradeOff):
    """T(P, Q) of the summed loss whose cumulant generating function is `generating`."""

    generating: Cumulants

    @property
    def cumulants(self) -> Cumulants:
        return self.generating

    @property
    def slack(self) -> float:
        return self.generating.left_out

    @property
    def relative_error(self) -> float:
        return COMPOSED_ERROR + ROUNDING_OF_K * self.generating.rounds

    @property
    def masses(self) -> tuple[float, float]:
        p, q = (math.exp(log_mass) for log_mass in self.generating.log_masses)
        return p, q + self.generating.infinite

    @property
    def short(self) -> tuple[float, float]:
        p, q = self.generating.log_masses
        return max(-math.expm1(p), 0.0), max(-math.expm1(q) - self.generating.infinite, 0.0)

    @cached_property
    def _lines(self) -> tuple[Lines, Lines]:
        """The contours of the two directions, from P to Q and from Q to P."""
        return Lines(self.generating, reverse=False), Lines(self.generating, reverse=True)

    def _epsilon_guess(self, log_delta: float, *, reverse: bool) -> float:
        return self._lines[reverse].guess(log_delta)

    def _excess(self, epsilon: float, *, reverse: bool) -> Excess:
        lines = self._lines[reverse]
        # from below nothing is left of a bound from above whose tail is known no better than that
        found = lines.excess(epsilon) or lines.hopeless(epsilon, self.relative_error)
        if found is None:
            return excess_of_tails(epsilon, (self.inverse() if reverse else self).tails(np.array([epsilon])))
        infinite = 0.0 if reverse else self.generating.infinite
        if infinite > 0.0:
            log_infinite = math.log(infinite)
            return Excess(np.logaddexp(found.delta, log_infinite), np.logaddexp(found.above, log_infinite), found.slope)
        return found

    def seen_at_once(self, epsilon: float, log_delta: float, *, reverse: bool) -> bool | None:
        # what K leaves out, and what it may be off by, is paid for first
        spent = self.slack + (0.0 if reverse else self.generating.infinite)
        if spent > 0.0 and math.log(spent) >= log_delta:
            return None
        left = -math.expm1(math.log(spent) - log_delta) if spent > 0.0 else 1.0
        return self._lines[reverse].at_most(epsilon, log_delta + math.log(left) - self.relative_error)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        flat = t.ravel()
        sides = np.empty((4, flat.size))
        rest = np.flatnonzero(~self._along_lines(flat, sides))
        for start in range(0, rest.size, _BLOCK):
            block = rest[start : start + _BLOCK]
            sides[:, block] = _tails(self.generating, flat[block])
        if self.generating.infinite > 0.0:
            sides[2] = np.logaddexp(sides[2], math.log(self.generating.infinite))
        return Tails(*sides.reshape((4, *t.shape)))

    def _along_lines(self, t: Array, sides: Array) -> NDArray[np.bool_]:
        """Fills in the tails beyond both means where thresholds lie so close that several share a line, and says which."""
        done = np.zeros(t.size, dtype=bool)
        if t.size < _FEWEST_TOGETHER:
            return done
        for lines in self._lines:
            sign = -1.0 if lines.reverse else 1.0
            outer = np.flatnonzero(sign * t > lines.mean)
            if outer.size < _FEWEST_TOGETHER or float(np.ptp(t[outer])) > _CLOSE * lines.deviation * outer.size:
                continue
            for index in outer[np.argsort(sign * t[outer])]:
                if (found := lines.excess(sign * float(t[index]))) is not None:
                    # P[l > t] and Q[l > t], or Q[l <= t] and P[l <= t]
                    scaled, other = found.slope - sign * t[index], found.above
                    sides[:, index] = (-np.inf, other, -np.inf, scaled) if lines.reverse else (scaled, 0.0, other, 0.0)
                    done[index] = True
        small = np.array([sides[0], sides[2]])
        masses = np.asarray(self.generating.log_masses)[:, None]
        forward, backward = done & (t > self._lines[0].mean), done & (-t > self._lines[1].mean)
        sides[1::2, forward] = log_difference(masses, small[:, forward])
        sides[0::2, backward] = log_difference(masses, sides[1::2, backward])
        return done


def _tails(cumulants: Cumulants, t: Array) -> Array:
    theta = saddle_point(cumulants, t)
    moments = cumulants.moments(theta)
    poles = cumulants.moments(np.array(_POLES))
    if not masses_agree(cumulants, poles):
        raise SlowDecay
    at_poles = poles.mean
    for step in STEPS:
        fine, proved = _small_tails(cumulants, t, theta, moments, at_poles, step)
        if proved:
            break
    else:
        raise SlowDecay
    other = log_difference(np.asarray(cumulants.log_masses)[:, None], fine)
    positive = theta - np.array(_POLES)[:, None] > 0.0
    above, below = np.where(positive, fine, other), np.where(positive, other, fine)
    return np.stack([above[0], below[0], above[1], below[1]])


def saddle_point(cumulants: Cumulants, t: Array) -> Array:
    """theta with K'(theta) = t, by bracketed Newton steps.

    A saddle need not be exact: any theta in the domain is a valid line, the best is only the fastest. Where t is so far out
    that the tail is below e^-_HOPELESS, the search stops early.
    """
    ends = cumulants.domain
    bracket = []
    for sign, start, end in ((-1.0, np.zeros_like(t), ends[0]), (1.0, np.ones_like(t), ends[1])):
        theta = start
        for _ in range(80):
            moments = cumulants.moments(theta)
            short = (sign * (moments.mean - t) < 0.0) & (moments.value - theta * t + np.maximum(t, 0.0) > -_HOPELESS)
            if not short.any():
                break
            further = 2.0 * theta + sign
            if np.isfinite(end):
                further = np.where(sign * (further - end) < 0.0, further, 0.5 * (theta + end))
            theta = np.where(short, further, theta)
        bracket.append(theta)
    low, high = bracket
    theta = 0.5 * (low + high)
    for _ in range(60):
        moments = cumulants.moments(theta)
        miss = moments.mean - t
        high, low = np.where(miss > 0.0, theta, high), np.where(miss > 0.0, low, theta)
        deviation = np.sqrt(np.maximum(moments.variance, 1e-300))
        if np.all((np.abs(miss) < 0.01 * deviation) | (high - low <= 1e-12 * np.abs(theta))):
            return theta
        guess = theta - miss / deviation**2
        theta = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    return theta


def _small_tails(
    cumulants: Cumulants, t: Array, theta: Array, moments: Moments, at_poles: Array, relative_step: float
) -> tuple[Array, bool]:
    """log of the tail beyond t seen from theta, for the two poles: the upper where theta > pole, else the lower.

    And whether aliases and rounding are nothing beside it.
    """
    deviation = np.sqrt(moments.variance)
    step = relative_step / deviation
    drift = moments.mean - t
    sums, terms = np.zeros((len(_POLES), t.size)), np.zeros((len(_POLES), t.size))
    first, count, loud = 0, _FIRST_NODES, 0
    while True:
        line = Line(step, first, count)
        tau, exponent = line.tau, cumulants.remainder(theta, line)
        value = np.exp(exponent.real)
        heard = np.flatnonzero((exponent.real - cumulants.valley(theta, line) >= -DECAY).any(axis=1))
        loud = first + int(heard[-1]) + 1 if heard.size else loud
        phase = exponent.imag + tau * drift
        real, imag = value * np.cos(phase), value * np.sin(phase)
        for row, pole in enumerate(_POLES):
            distance = theta - pole
            square = distance**2 + tau**2
            sums[row] += np.sum((real * distance + imag * tau) / square, axis=0)
            terms[row] += np.sum(value / np.sqrt(square), axis=0)
        # silence may be a valley: it has to last as long as the losses can keep it
        if first + count > loud * cumulants.echo:
            break
        first, count = first + count, 2 * count
        if first > _MOST_NODES:
            raise SlowDecay
    result, proved = np.empty_like(sums), True
    for row, pole in enumerate(_POLES):
        outward = np.where(theta > pole, 1.0, -1.0)
        distance = np.abs(theta - pole)
        log_peak = moments.value - (theta - pole) * t
        turns = 2.0 * np.pi * distance / step
        enclosed = np.abs(at_poles[row] - t) * step < 2.0 * np.pi
        gap = cumulants.log_masses[row] - log_peak
        residue = np.exp(np.where(enclosed, gap - turns, -np.inf)) / (1.0 + np.exp(-turns))
        total = sums[row] * outward * step / np.pi + residue
        with np.errstate(invalid="ignore", divide="ignore"):
            log_total = np.log(total)
        # Chernoff's bound where the tail is too small to matter
        hopeless = log_peak - pole * np.minimum(t, 0.0) + (1.0 - pole) * np.maximum(t, 0.0) < _HOPELESS_PEAK
        result[row] = np.where(hopeless, log_peak, log_peak + log_total)
        inward = np.where(enclosed, distance, 0.0), np.where(enclosed, np.inf, distance)
        alone = np.zeros(t.shape, dtype=bool)
        for away in TRIES:
            around = beside(cumulants, theta, away / deviation, value=moments.value, outward=outward, inward=inward)
            alone |= log_aliases(around, outward * t, 2.0 * np.pi / step) <= log_total - ENOUGH
            if alone.all():
                break
        unrounded = total > LEAST_OF_TERMS * (terms[row] * step / np.pi + residue)
        proved = proved and bool(np.all(hopeless | (alone & unrounded)))
    return result, proved
