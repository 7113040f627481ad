r"""delta(eps) and its slope by one contour integral, along a line that serves every eps near it.

With K as in `contour`, theta0 = 1 + x and x > 0 (D' told from D), the two integrals

    delta(eps)       = 1/(2 pi i) \int e^{K(theta) - (theta-1) eps} dtheta / (theta (theta-1)),
    e^eps P[l > eps] = 1/(2 pi i) \int e^{K(theta) - (theta-1) eps} dtheta / theta  =  -d delta / d eps

have one bell in common, and e^K along the line does not depend on eps: a search for epsilon(delta), on either side, computes K
once. Nothing is subtracted, where the two tails of `contour` nearly cancel. The other direction is theta0 = -x: with theta -> 1 -
theta it has the same form, P and Q exchanged, so here `near` is the pole at the distance x (Q's mass, or P's) and `far` the one
at 1 + x.

The rule is that of `contour`, and its error is bounded as there (`aliases`): where the bound is not small enough the step
shrinks. The line need not run through the saddle point of eps: off by D deviations it loses e^(D^2/2) in precision, so D is kept
below 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from noisymean.compose.aliases import ENOUGH, TRIES, Beside, beside, log_aliases
from noisymean.cumulants import Cumulants, Line, Moments, SlowDecay
from noisymean.numerics.logs import Array, ComplexArray
from noisymean.tradeoff import Excess

# Steps of the rule, in deviations of the tilted loss.
STEPS = (0.3, 0.15, 0.07)
# What a sum may be smaller than its terms by: with it rounding, at most 1e-14 of the terms, is 1e-10 of the sum.
LEAST_OF_TERMS = 1e-4
DECAY = 40.0
_FIRST_NODES = 32
# Beyond, the grid is faster.
_MOST_NODES = 8192
# So many deviations beside its saddle point an eps may be to be read off a line,
_BESIDE = 1.0
# and a line is found to be good enough for the eps that it is made for.
_CENTRED = 0.3
# A line this near to its pole, in deviations, gains nothing from being nearer; far below its mean delta is nearly 1.
_NEAREST = 0.05
_FIRST_STEP = 10.0
_FAR_BELOW = 5.0
# Below e^-10000 a tail's logarithm is all that matters.
_HOPELESS = -1e4
_KEPT = 4
# Nats by which an approximation has to miss to be believed.
_WIDE = 2.0
_NOTHING = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Lines:
    """delta(eps) of a summed loss in one direction: lines found so far, and new ones as they are needed."""

    generating: Cumulants
    reverse: bool

    @cached_property
    def _found(self) -> list[_OneLine]:
        return []

    @cached_property
    def _tilts(self) -> list[_Tilt]:
        """The one that was found last."""
        return []

    @cached_property
    def _poles(self) -> tuple[_Pole, _Pole]:
        """The near one and the far one."""
        poles = self.generating.moments(np.array([0.0, 1.0]))
        if not masses_agree(self.generating, poles):
            raise SlowDecay
        sign = -1.0 if self.reverse else 1.0
        p, q = (
            _Pole(log_mass, sign * float(poles.mean[i]), float(poles.variance[i]))
            for i, log_mass in enumerate(self.generating.log_masses)
        )
        return (p, q) if self.reverse else (q, p)

    @property
    def mean(self) -> float:
        """The mean of the loss on the side that is told apart, with the sign of the direction: beyond it delta is small."""
        return self._poles[0].mean

    @property
    def deviation(self) -> float:
        """The standard deviation of the loss on the same side."""
        return math.sqrt(max(self._poles[0].variance, 0.0))

    @cached_property
    def _room(self) -> float:
        """x lies between 0 and this."""
        low, high = self.generating.domain
        return -low if self.reverse else high - 1.0

    def _tilt(self, x: float) -> _Tilt:
        theta = np.array([-x if self.reverse else 1.0 + x])
        value, mean, variance = self.generating.moments(theta)
        return _Tilt(x, theta, float(value[0]), -float(mean[0]) if self.reverse else float(mean[0]), float(variance[0]))

    def excess(self, epsilon: float) -> Excess | None:
        """The three logarithms; None where delta is nearly 1 or hopelessly small. SlowDecay where no line converges."""
        for line in reversed(self._found):
            if abs(line.tilt.mean - epsilon) <= _BESIDE * line.tilt.deviation and (found := line.at(epsilon)):
                return found
        near, _ = self._poles
        if epsilon < near.mean - _FAR_BELOW * math.sqrt(max(near.variance, 0.0)):
            return None
        tilt = self._saddle(epsilon)
        if tilt.value - tilt.x * epsilon < _HOPELESS:
            return None
        if not tilt.variance > 0.0:
            raise SlowDecay
        line = self._kept(tilt)
        found = line.at(epsilon)
        if found is None:
            raise SlowDecay
        return found

    def hopeless(self, epsilon: float, least: float) -> Excess | None:
        """Chernoff's bound where delta is hopelessly small, with a tail beside it of which no more than `least` is known."""
        if epsilon <= self.mean:
            return None
        tilt = self._saddle(epsilon)
        log_peak = tilt.value - tilt.x * epsilon
        return (
            Excess(log_peak, log_peak - math.log(least), log_peak + math.log(tilt.x)) if log_peak < _HOPELESS else None
        )

    def at_most(self, epsilon: float, log_delta: float) -> bool | None:
        """Whether delta(epsilon) <= e^log_delta, where that takes no integral: yes by Chernoff's bound, no by a wide margin.

        A yes is proved, up to the rounding of K. A no rests on the saddle-point approximation.
        """
        if epsilon <= self._poles[0].mean:
            # about half of all losses are larger
            return False if log_delta < -_WIDE - 1.0 else None
        tilt = self._saddle(epsilon)
        x, log_peak = tilt.x, tilt.value - tilt.x * epsilon
        # (1 - e^-u)+ <= x^x / (1+x)^(1+x) e^(xu) for every u
        if log_peak - x * math.log1p(1.0 / x) - math.log1p(x) <= log_delta:
            return True
        if abs(tilt.mean - epsilon) > _BESIDE * tilt.deviation:
            return None
        return False if log_peak - _log_width(x, tilt.deviation) > log_delta + _WIDE else None

    def _kept(self, tilt: _Tilt) -> _OneLine:
        line = _OneLine(self.generating, self.reverse, tilt, *self._poles)
        self._found.append(line)
        del self._found[:-_KEPT]
        return line

    def _saddle(self, epsilon: float) -> _Tilt:
        """A tilt whose mean is within a fraction of a deviation of epsilon, by bracketed Newton steps; x > 0 in any case."""
        for tilt in self._tilts:
            if abs(tilt.mean - epsilon) <= _CENTRED * tilt.deviation:
                return tilt
        near, _ = self._poles
        deviation = math.sqrt(max(near.variance, 1e-300))
        low, high = min(_NEAREST / deviation, 0.5 * self._room), self._room
        # far out a law is not what it is in its middle: in steps
        x = max(low, min((epsilon - near.mean) / deviation, _FIRST_STEP) / deviation)
        for _ in range(60):
            x = x if x < high else 0.5 * (low + high)
            tilt = self._tilt(x)
            miss = tilt.mean - epsilon
            if abs(miss) <= _CENTRED * tilt.deviation or (miss > 0.0 and x <= low) or tilt.variance <= 0.0:
                break
            low, high = (low, x) if miss > 0.0 else (x, high)
            if high - low <= 1e-12 * low or tilt.value - x * epsilon < _HOPELESS:
                break
            x = min(x - miss / tilt.variance, 4.0 * x)
            x = x if low <= x < high else 0.5 * (low + min(high, 7.0 * low))
        self._tilts[:] = [tilt]
        return tilt

    def guess(self, log_delta: float) -> float:
        """Where delta by saddle-point approximation, e^(K - x eps) / (x (1+x) sqrt(2 pi V)), is what was asked.

        x stands for an epsilon, the mean of its tilt, so that no equation has to be solved for it. The line there is kept.
        """
        near, _ = self._poles
        deviation = math.sqrt(max(near.variance, 1e-300))
        goal = log_delta - near.log_mass
        y = math.sqrt(2.0 * max(-goal, 1e-3))
        for _ in range(3):
            y = math.sqrt(2.0 * max(-goal - _log_width(y / deviation, deviation), 0.02))
        first, last = -math.inf, math.inf
        log_x = math.log(y / deviation)
        tilt = None
        for _ in range(30):
            # x runs over (0, room): half of the way to the end of the domain, then half of the rest, and so on
            share = 1.0 / (1.0 + math.exp(log_x) / self._room)
            x = math.exp(log_x) * share
            tilt = self._tilt(x)
            if not (math.isfinite(tilt.mean) and tilt.variance > 0.0):
                return 1e-3
            miss = tilt.value - x * tilt.mean - _log_width(x, tilt.deviation) - log_delta
            if abs(miss) < _CENTRED * max(x * tilt.deviation, 1.0) or (log_x < -40.0 and miss < 0.0) or log_x > 40.0:
                break
            first, last = (log_x, last) if miss > 0.0 else (first, log_x)
            step = miss / (share * (x * x * tilt.variance + 1.0 + x / (1.0 + x)))
            log_x += min(max(step, -2.0), 2.0)
            if not first < log_x < last:
                log_x = 0.5 * (first + last)
        assert tilt is not None
        if not tilt.mean > 0.0:
            return 1e-3
        if tilt.x * tilt.deviation >= _NEAREST and tilt.value - tilt.x * tilt.mean > _HOPELESS:
            self._kept(tilt)
        return tilt.mean


def _log_width(x: float, deviation: float) -> float:
    # an x is as likely to be much smaller as much larger than the deviation: then delta is nearly Chernoff's bound
    return max(math.log(x * (1.0 + x) * deviation) + _HALF_LOG_TWO_PI, 0.0)


_HALF_LOG_TWO_PI = 0.9189385332046727


class _Pole(NamedTuple):
    """Its mass; mean and variance of the loss there, the sign of the loss being that of the direction."""

    log_mass: float
    mean: float
    variance: float


class _Tilt(NamedTuple):
    """K and its derivatives at the distance x from the near pole; the mean is the eps whose saddle point it is."""

    x: float
    theta: Array
    value: float
    mean: float
    variance: float

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


class _Rule(NamedTuple):
    """Nodes tau, and the integrands there but for e^(i tau (mean - eps)): a row for delta, and one for its slope."""

    step: float
    tau: Array
    rows: ComplexArray
    # the sum of the absolute values of each row
    terms: tuple[float, float]


class _Sums(NamedTuple):
    """delta and its slope beside the integrand's peak, and what the terms of each come to in absolute value."""

    delta: float
    slope: float
    of_delta: float
    of_slope: float


@final
@dataclass(frozen=True, eq=False)
class _OneLine:
    """e^K along one line."""

    generating: Cumulants
    reverse: bool
    tilt: _Tilt
    near: _Pole
    far: _Pole

    @cached_property
    def _rules(self) -> list[_Rule]:
        return []

    def at(self, epsilon: float) -> Excess | None:
        """With the step that was good enough before, or smaller ones; None if none is small enough."""
        for index in range(max(len(self._rules) - 1, 0), len(STEPS)):
            if index == len(self._rules):
                self._rules.append(self._rule(STEPS[index]))
            rule = self._rules[index]
            sums = self._sums(rule, epsilon)
            if self._is_alone(rule.step, epsilon, sums):
                return self._logs(sums, epsilon)
        return None

    def _is_alone(self, step: float, epsilon: float, sums: _Sums) -> bool:
        """Whether aliases and rounding are nothing beside these values; the slope may be negligible itself."""
        delta, slope = sums.delta, max(sums.slope, 1e-3 * sums.delta)
        if not (delta > LEAST_OF_TERMS * sums.of_delta and slope > LEAST_OF_TERMS * sums.of_slope):
            return False
        distance = 2.0 * math.pi / step
        passed = [pole.mean > epsilon - distance for pole in (self.near, self.far)]
        if passed == [False, True]:
            return False
        allowed = math.log(min(delta, slope)) - ENOUGH
        return any(self._log_aliases(away, sum(passed), epsilon, distance) <= allowed for away in TRIES)

    def _log_aliases(self, away: float, passed: int, epsilon: float, distance: float) -> float:
        """Inward before both poles, between them, or beyond."""
        key = away, passed
        if key not in self._known_beside:
            bounds = (0.0, self.tilt.x, 1.0 + self.tilt.x, math.inf)
            self._known_beside[key] = beside(
                self.generating,
                self.tilt.theta,
                np.array([away / self.tilt.deviation]),
                value=np.array([self.tilt.value]),
                outward=np.array([-1.0 if self.reverse else 1.0]),
                inward=(np.array([bounds[passed]]), np.array([bounds[passed + 1]])),
            )
        return float(log_aliases(self._known_beside[key], np.array([epsilon]), np.array([distance]))[0])

    @cached_property
    def _known_beside(self) -> dict[tuple[float, int], Beside]:
        return {}

    def _rule(self, relative_step: float) -> _Rule:
        step = relative_step / self.tilt.deviation
        first, count, loud = 0, _FIRST_NODES, 0
        parts: list[ComplexArray] = []
        while True:
            line = Line(np.array([step]), first, count)
            exponent = self.generating.remainder(self.tilt.theta, line)[:, 0]
            fading = exponent.real - np.ravel(self.generating.valley(self.tilt.theta, line))
            heard = np.flatnonzero(fading >= -DECAY)
            loud = first + int(heard[-1]) + 1 if heard.size else loud
            parts.append(exponent)
            first += count
            # silence may be a valley: it has to last as long as the losses can keep it
            if first > loud * self.generating.echo:
                break
            # at best the exponent falls like a parabola
            if first >= _MOST_NODES or float(fading[-1]) * (_MOST_NODES / first) ** 2 > -DECAY:
                raise SlowDecay
            count = min(max(first // 2, _FIRST_NODES), _MOST_NODES - first)
        exponent = np.concatenate(parts) if len(parts) > 1 else parts[0]
        tau: Array = np.asarray((np.arange(first) + 0.5) * step)
        rows = np.empty((2, first), dtype=np.complex128)
        # kernels 1/(x + i tau) and 1/(1 + x + i tau); exp has no warning to give: the remainder's real part is not positive
        rows[1] = np.exp(exponent.conj() if self.reverse else exponent) / (1.0 + self.tilt.x + 1j * tau)
        rows[0] = rows[1] / (self.tilt.x + 1j * tau)
        rows *= step / math.pi
        of_delta, of_slope = np.abs(rows).sum(axis=1).tolist()
        return _Rule(step, tau, rows, (of_delta, of_slope))

    def _sums(self, rule: _Rule, epsilon: float) -> _Sums:
        drift = self.tilt.mean - epsilon
        turned = rule.rows @ np.exp((1j * drift) * rule.tau)
        delta, slope = turned.real.tolist()
        near, far = self._shares(rule.step, epsilon)
        of_delta, of_slope = rule.terms
        return _Sums(delta + near - far, slope + far, of_delta + near + far, of_slope + far)

    def _shares(self, step: float, epsilon: float) -> tuple[float, float]:
        """What the poles add, beside the peak; nothing where they are not enclosed (docs/numerics.md, "The contour integral")."""
        x = self.tilt.x
        log_peak = self.tilt.value - x * epsilon
        shares = []
        for pole, distance, grown in ((self.near, x, 0.0), (self.far, 1.0 + x, epsilon)):
            turns = 2.0 * math.pi * distance / step
            gap = pole.log_mass + grown - log_peak - turns
            enclosed = abs(pole.mean - epsilon) * step < 2.0 * math.pi and gap > -700.0
            shares.append(math.exp(min(gap, 700.0)) / (1.0 + math.exp(-turns)) if enclosed else 0.0)
        return shares[0], shares[1]

    def _logs(self, sums: _Sums, epsilon: float) -> Excess:
        log_peak = self.tilt.value - self.tilt.x * epsilon
        delta, slope = sums.delta, max(sums.slope, _NOTHING)
        return Excess(log_peak + math.log(delta), log_peak + math.log(delta + slope), log_peak + math.log(slope))


# What K may be off by at its poles, and what rounding adds for each round.
_OFF = 1e-7
_OFF_IN_A_ROUND = 1e-14


def masses_agree(cumulants: Cumulants, poles: Moments) -> bool:
    """Whether K at 0 and 1 is what it has to be: if not, part of a law has not been seen."""
    allowed = _OFF + _OFF_IN_A_ROUND * cumulants.rounds
    return bool(np.all(np.abs(poles.value - cumulants.log_masses) <= allowed))
