r"""Trade-off functions as values: f(alpha), inverse, symmetrised, mixed, and (epsilon, delta) both ways.

Notation. f = T(P, Q), alpha = P[reject], beta = Q[accept]. With the loss l = log dQ/dP, the likelihood-ratio test at
threshold t rejects when l > t and its errors are

    alpha(t) = P[l > t],      beta(t) = Q[l <= t].

They lie on the curve, and the line of slope -e^t through them supports it (Neyman and Pearson). That one map, t to the
four tails, is all that a trade-off function has to provide; the rest follows without grids:

    f(alpha)      = sup_t  beta(t) + e^t (alpha(t) - alpha)          a supremum of lines: every t is a lower bound
    delta(eps)    = 1 - beta(eps) - e^eps alpha(eps)                 Dong, Roth and Su 2022, Proposition 6
    T(Q, P)       : l -> -l, P <-> Q
    revealed mix  : tails add (the paper's Lemma "joint concavity", equal to its Lemma "min over allocations")
    f (x) f'      : losses add, and with them K; some laws have a closed `power`

An atom of the loss, such as the identity's at 0, needs no care: its line *is* the curve between two contact points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri

from noisymean.cumulants import Cumulants
from noisymean.errors import InvalidInput, check_number, check_probability
from noisymean.looked import LARGEST_EXPONENT, MANY, Looked
from noisymean.numerics.chi_square import RELATIVE_ERROR
from noisymean.numerics.inversion import bracket_decreasing, solve_decreasing
from noisymean.numerics.logs import Array, log_difference

# Losses beyond this are reported as infinite.
LARGEST_EPSILON = 1e9
# A handful of rounds, and as many of a law whose K is dear as a lattice is faster for.
A_HANDFUL, A_FEW_DOZEN = 12, 64
# |log delta - goal| from which on Newton's step is the distance.
_NEARLY_MET = 0.01


class Side(Enum):
    """Which way a number may be off: a guarantee is rounded up, a leakage down."""

    BELOW = "below"
    NEAREST = "nearest"
    ABOVE = "above"


class Tails(NamedTuple):
    """Natural logarithms of P[l > t], P[l <= t], Q[l > t], Q[l <= t]."""

    p_above: Array
    p_below: Array
    q_above: Array
    q_below: Array


class Excess(NamedTuple):
    """Natural logarithms of delta(eps), of Q[l > eps], and of their difference e^eps P[l > eps], which is minus delta's slope."""

    delta: float
    above: float
    slope: float


def excess_of_tails(epsilon: float, tails: Tails) -> Excess:
    """From the tails at one threshold."""
    above, slope = float(tails.q_above[0]), epsilon + float(tails.p_above[0])
    return Excess(float(log_difference(above, slope)), above, slope)


class Law(ABC):
    """A pair (P, Q), as sums over rounds need it: the curve of one round, and K."""

    @abstractmethod
    def one_round(self) -> TradeOff:
        """T(P, Q), for questions in both directions."""

    def at_alpha(self) -> TradeOff:
        """T(P, Q) for f(alpha) alone, where that is known better: losses far out may be off by more than their delta is."""
        return self.one_round()

    def several(self) -> TradeOff:
        """A curve that stands for a round in a sum on a grid: it bounds T(P, Q) from the same side, and may be coarser."""
        return self.one_round()

    @property
    def cumulants(self) -> Cumulants | None:
        """K of the finite losses, for sums over many rounds; None where only a grid can add them up."""
        return None

    @property
    def coarse(self) -> bool:
        """Whether `several` and `cumulants` are of less than `one_round` is."""
        return False

    def power(self, count: int) -> Law | None:
        """`count` rounds as one law, where that is closed; None where it is not."""
        return None

    @property
    def slow_rounds(self) -> int:
        """Of so many rounds K tends to decay slowly, or to be dear: a lattice is asked before a contour integral is tried."""
        return 0

    def in_parts(self) -> tuple[Law, ...]:
        """Independent laws whose product this is, or bounds from the same side, for sums that add them one by one.

        None at all where they would say much less than the whole.
        """
        return (self,)

    def backward(self) -> Law:
        """What to use where D is told from D': another law where a bound rounds P and Q to sides. From P to Q in either."""
        return self


class TradeOff(Law):
    """T(P, Q) for some pair of distributions, given by the tails of its privacy loss."""

    @final
    def one_round(self) -> TradeOff:
        """The curve itself."""
        return self

    @abstractmethod
    def tails(self, t: Array) -> Tails:
        """The four log tails at thresholds t (any shape)."""

    @property
    def slack(self) -> float:
        """Bound on what the tails leave out, as a share of the line's largest value min(1, e^t)."""
        return 0.0

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of each tail."""
        return RELATIVE_ERROR

    @property
    def masses(self) -> tuple[float, float]:
        """What the two tails of P, and of Q, add up to: 1 for laws, not quite for bounds of them."""
        return 1.0, 1.0

    @property
    def short(self) -> tuple[float, float]:
        """What P and Q are short of where they are lower bounds of laws: an error that no test of ours has counted."""
        return 0.0, 0.0

    @property
    def terms(self) -> int:
        """How many closed forms a tail is the sum of: what evaluating it costs."""
        return 1

    @final
    def inverse(self) -> TradeOff:
        """T(Q, P), the reflection of the curve in the diagonal."""
        return self.forward if isinstance(self, Inverse) else Inverse(self)

    @final
    def __call__(self, alpha: ArrayLike) -> Array:
        """f(alpha): the least false negative rate at false positive rate alpha."""
        value, _ = self._line(checked(alpha))
        return np.clip(value, 0.0, 1.0)

    @final
    def lower(self, alpha: ArrayLike) -> Array:
        """A number that is never above f(alpha): rounding and left-out mass are subtracted."""
        value, margin = self._line(checked(alpha), rough=True)
        return np.clip(value - margin, 0.0, 1.0)

    def upper(self, alpha: ArrayLike) -> Array:
        """A number that is never below f(alpha): the chord between two tests on either side of it, rounded up."""
        alpha = checked(alpha)
        value = np.where(alpha >= 1.0, 0.0, self._at_zero() + self.relative_error + self.slack)
        inner = (alpha > 0.0) & (alpha < 1.0)
        if inner.any():
            a = alpha[inner]
            looked = Looked(self)
            # P[l > first] >= alpha >= P[l > second]
            if a.size < MANY:
                first, second = bracket_decreasing(looked.log_odds, np.log(a) - np.log1p(-a))
            else:
                first, second = looked.look_around(a)
            more, less = looked.tails(first), looked.tails(second)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                a_more, a_less = np.exp(more.p_above), np.exp(less.p_above)
                b_more, b_less = np.exp(more.q_below), np.exp(less.q_below)
                share = np.clip((a - a_less) / (a_more - a_less), 0.0, 1.0)
                share = np.where(np.isfinite(share), share, 0.0)
                t = np.minimum(second, LARGEST_EXPONENT)
                # twice this covers both tests, however far apart they are (docs/numerics.md, "Margins")
                margin = self.relative_error * (b_less + np.exp(t) * a_less) + self.slack * np.exp(np.minimum(t, 0.0))
            value[inner] = share * b_more + (1.0 - share) * b_less + 2.0 * margin
        return np.clip(value + self.short[1], 0.0, 1.0 - alpha)

    def _line(self, alpha: Array, *, rough: bool = False) -> tuple[Array, Array]:
        """The supporting line nearest to contact at alpha: its value there, and its numerical error.

        Curves that have f(alpha) in closed form give that instead. A `rough` one may be of a test beside it where there are many
        alphas: every line is a bound from below.
        """
        inner = (alpha > 0.0) & (alpha < 1.0)
        value = np.where(alpha >= 1.0, 0.0, self._at_zero())
        margin = np.where(alpha >= 1.0, 0.0, self.relative_error + self.slack)
        if inner.any():
            a = alpha[inner]
            looked = Looked(self)
            if rough and a.size >= MANY:
                first, second = looked.look_around(a)
                (left, left_margin), (right, right_margin) = (self._through(looked, t, a) for t in (first, second))
                # without its slope the line of a test that errs less than alpha would be too high
                right = np.where(second > LARGEST_EXPONENT, 0.0, right)
                nearer = left - left_margin > right - right_margin
                value[inner] = np.where(nearer, left, right)
                margin[inner] = np.where(nearer, left_margin, right_margin)
            else:
                t = solve_decreasing(looked.log_odds, np.log(a) - np.log1p(-a))
                value[inner], margin[inner] = self._through(looked, t, a)
        return value, margin

    @final
    def _through(self, looked: Looked, t: Array, alpha: Array) -> tuple[Array, Array]:
        """The supporting lines of the tests at t, at alpha, and their numerical errors."""
        tails = looked.tails(t)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            beta, scaled = np.exp(tails.q_below), np.exp(np.minimum(t, LARGEST_EXPONENT) + tails.p_above)
            slope = np.where(t > LARGEST_EXPONENT, 0.0, np.exp(np.minimum(t, LARGEST_EXPONENT)))
            margin = self.relative_error * (beta + scaled) + self.slack * np.exp(np.minimum(t, 0.0))
        return beta + slope * (np.exp(tails.p_above) - alpha), margin

    def thresholds(self, alpha: Array) -> Array:
        """Losses t of which P has alpha beyond, nearly: the slopes -e^t of the curve there."""
        return solve_decreasing(Looked(self).log_odds, np.log(alpha) - np.log1p(-alpha))

    @final
    def _at_zero(self) -> float:
        """f(0) = Q[the loss is finite]."""
        return float(np.exp(self.tails(np.array([1e300])).q_below[0]))

    @final
    def log_delta(self, epsilon: ArrayLike, side: Side = Side.NEAREST) -> Array:
        """log delta(epsilon), for losses of any sign, on the stated side of the truth."""
        epsilon = np.asarray(check_number("epsilon", epsilon), dtype=np.float64)
        if epsilon.size == 1:
            excess = self._excess(float(epsilon.flat[0]), reverse=False)
            return np.full(epsilon.shape, self._on_side(excess, side))
        tails = self.tails(epsilon)
        value = log_difference(tails.q_above, epsilon + tails.p_above)
        if side is not Side.NEAREST:
            with np.errstate(divide="ignore"):
                error = np.logaddexp(np.log(2.0 * self.relative_error) + tails.q_above, np.log(self.slack))
            value = np.logaddexp(value, error) if side is Side.ABOVE else log_difference(value, error)
        return value

    def _excess(self, epsilon: float, *, reverse: bool) -> Excess:
        """delta(eps) and its slope, of T(P, Q) or of T(Q, P), where they are known otherwise than as a difference of tails."""
        return excess_of_tails(epsilon, (self.inverse() if reverse else self).tails(np.array([epsilon])))

    @final
    def _on_side(self, excess: Excess, side: Side) -> float:
        """log delta, what the tails may be off by added or taken away."""
        if side is Side.NEAREST:
            return excess.delta
        # of each of the two tails, and the larger is Q's
        error = math.log(2.0 * self.relative_error) + excess.above
        if (slack := self.slack) > 0.0:
            error = float(np.logaddexp(error, math.log(slack)))
        if side is Side.ABOVE:
            return float(np.logaddexp(excess.delta, error))
        return excess.delta + math.log(-math.expm1(error - excess.delta)) if error < excess.delta else -math.inf

    def seen_at_once(self, epsilon: float, log_delta: float, *, reverse: bool) -> bool | None:
        """Whether delta(epsilon) <= e^log_delta, where less than delta itself will do to see it; None where it will not.

        A yes is proved; a no is only very likely, and costs nothing but what a smaller bound would have been worth.
        """
        return None

    @final
    def delta(self, epsilon: ArrayLike, side: Side = Side.NEAREST) -> Array:
        """The least delta for which Q <= e^epsilon P + delta holds on all sets. The other direction: inverse()."""
        return np.exp(np.minimum(self.log_delta(epsilon, side), 0.0))

    @final
    def epsilon(self, delta: float, side: Side = Side.NEAREST) -> float:
        """The least epsilon >= 0 for which Q <= e^epsilon P + delta holds on all sets; inf if there is none."""
        delta = float(checked(delta, "delta"))
        if delta == 0.0:
            raise InvalidInput("delta", delta, "> 0", "losses are unbounded, so no finite epsilon has delta = 0")
        return self.epsilon_of_log(float(np.log(delta)), side)

    @final
    def epsilon_of_log(self, goal: float, side: Side = Side.NEAREST, *, near: float | None = None) -> float:
        """`epsilon` for a delta = e^goal that may be too small to be written down; `near` is where the search begins.

        Newton's method on log delta, whose slope -e^eps alpha(eps)/delta(eps) is at hand, inside a bracket.
        """
        low, high = 0.0, math.inf
        zero_is_known = False
        epsilon = near if near is not None and 0.0 < near < math.inf else self._epsilon_guess(goal, reverse=False)
        before = math.inf
        for _ in range(200):
            excess = self._excess(epsilon, reverse=False)
            value = self._on_side(excess, side)
            low, high = (epsilon, high) if value > goal else (low, epsilon)
            if high == 0.0:
                return 0.0
            steepness = excess.slope - value if math.isfinite(value) else -math.inf
            slope = math.exp(min(steepness, LARGEST_EXPONENT))
            step = (value - goal) / slope if slope > 0.0 else math.nan
            if (
                # where delta is flat it is met far from the least epsilon
                (abs(value - goal) <= 10.0 * self.relative_error and math.isfinite(step))
                # far from its goal delta may be so steep that a step says nothing
                or (abs(step) <= 1e-11 * epsilon and abs(value - goal) <= _NEARLY_MET)
                or high - low <= 1e-12 * low
            ):
                break
            if low > LARGEST_EPSILON:
                return low if side is Side.BELOW else float("inf")
            if math.isinf(high):
                # where delta is still near 1 its logarithm is flat and Newton knows no measure
                epsilon = min(epsilon + max(step, 0.0) if math.isfinite(step) else math.inf, 4.0 * max(low, 1e-3))
            elif low < epsilon + step < high and abs(step) <= 0.9 * before:
                epsilon, before = epsilon + step, abs(step)
            else:
                before = math.inf
                if low == 0.0 and not zero_is_known:
                    # far below the answer a composed loss is slow to evaluate: ask there only when the search leads there
                    epsilon, zero_is_known = 0.0, True
                else:
                    epsilon = math.sqrt(low * high) if high > 4.0 * low > 0.0 else 0.5 * (low + high)
        else:
            step = math.nan
        # the step that was left, and rounding, on the safe side
        margin = 1e-12 * epsilon + (2.0 * abs(step) if math.isfinite(step) else high - low)
        return {Side.BELOW: max(0.0, epsilon - margin), Side.NEAREST: epsilon, Side.ABOVE: epsilon + margin}[side]

    def _epsilon_guess(self, log_delta: float, *, reverse: bool) -> float:
        """A first guess for `epsilon`; `reverse` for the other direction."""
        return 1.0

    @final
    def advantage(self) -> float:
        """max over tests of 1 - alpha - beta: delta at epsilon = 0, the total variation distance."""
        return float(self.delta(0.0))

    @final
    def bayes_error(self, prior: float = 0.5) -> float:
        """Least average error of an attacker who holds `prior` for P: min over t of prior*alpha + (1-prior)*beta."""
        prior = float(checked(prior, "prior"))
        if prior in (0.0, 1.0):
            return 0.0
        tails = self.tails(np.array([np.log(prior) - np.log1p(-prior)]))
        return float(prior * np.exp(tails.p_above[0]) + (1.0 - prior) * np.exp(tails.q_below[0]))

    @final
    def gdp_mu(self, alpha: ArrayLike) -> Array:
        """The mu whose G_mu passes through (alpha, f(alpha))."""
        alpha = np.asarray(alpha, dtype=np.float64)
        return np.asarray(-ndtri(alpha) - ndtri(self(alpha)), dtype=np.float64)

    @final
    def gdp_bounds(self, least_error: float = 1e-6, points: int = 401) -> tuple[float, float]:
        """Least and largest `gdp_mu` at `points` tests whose two errors both exceed `least_error`.

        As far as these tests see, the curve lies above G_mu for every mu above the second number, and below it for every mu
        below the first.
        """
        first, last = -ndtri(least_error), ndtri(least_error)
        alpha = log_ndtr(-np.linspace(first, last, points))
        values = self(np.exp(alpha))
        usable = (values > least_error) & (values < 1.0)
        mu = -ndtri(np.exp(alpha[usable])) - ndtri(values[usable])
        if mu.size == 0:
            return float("inf"), float("inf")
        return float(mu.min()), float(mu.max())


def checked(value: ArrayLike, name: str = "alpha") -> Array:
    """An array of probabilities; else InvalidInput."""
    return np.asarray(check_probability(name, value), dtype=np.float64)


@final
@dataclass(frozen=True)
class Inverse(TradeOff):
    """T(Q, P) of a given T(P, Q)."""

    forward: TradeOff

    def tails(self, t: Array) -> Tails:
        p_above, p_below, q_above, q_below = self.forward.tails(-np.asarray(t))
        return Tails(q_below, q_above, p_below, p_above)

    @property
    def slack(self) -> float:
        return self.forward.slack

    @property
    def masses(self) -> tuple[float, float]:
        p, q = self.forward.masses
        return q, p

    @property
    def short(self) -> tuple[float, float]:
        p, q = self.forward.short
        return q, p

    @property
    def terms(self) -> int:
        return self.forward.terms

    @property
    def relative_error(self) -> float:
        return self.forward.relative_error

    def _epsilon_guess(self, log_delta: float, *, reverse: bool) -> float:
        return self.forward._epsilon_guess(log_delta, reverse=not reverse)

    def _excess(self, epsilon: float, *, reverse: bool) -> Excess:
        return self.forward._excess(epsilon, reverse=not reverse)

    def seen_at_once(self, epsilon: float, log_delta: float, *, reverse: bool) -> bool | None:
        return self.forward.seen_at_once(epsilon, log_delta, reverse=not reverse)
