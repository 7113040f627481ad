r"""Gaussian differential privacy of a run: the least mu of a Gaussian curve below its guarantee, and how well that fits.

A run is mu-GDP *up to a slack* eta if T(M(D), M(D'))(alpha) >= G_mu(alpha) - eta at every alpha, for all neighbours, in both
directions; G_mu = T(N(0, 1), N(mu, 1)). The same in deltas: delta(eps) <= delta_mu(eps) + eta for every eps >= 0.

    mu       from deltas that are guaranteed, at a few epsilons; between them the chord in e^eps, which delta lies below
    regret   the largest (delta_mu - delta)/(1 + e^eps), which is the least kappa with f(alpha + kappa) - kappa <= G_mu(alpha)
             (Gomez et al., arXiv 2503.10945), for the curve f of the run; from deltas that certainly leak, so that what the
             bounds do not know is in it

Both are proved in docs/accountant.md, "One number for the whole curve", which also says why there is a slack: the curve of
subsampled rounds is below every G_mu of a smaller mu than that without subsampling, far out, where nothing is ever seen of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, final

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from noisymean.accountant import account
from noisymean.accounts import Account, Pair
from noisymean.mechanisms import SGM, Adjacency
from noisymean.numerics.logs import Array
from noisymean.outward import at_least
from noisymean.words import Said
from noisymean.written import exactly

# What a Gaussian curve may lie above the guarantee by, at any alpha.
SLACK = 1e-10
# A delta below this many slacks says more than mu does.
_FINEST = 10.0
# The regret below which mu says all there is to say: Gomez et al., arXiv 2503.10945.
SMALL_REGRET = 1e-2
# Above this mu both error rates of an attack may be less than the slack at once: nothing is said any more.
LARGEST_MU = -2.0 * float(ndtri(SLACK))
# Accounts that are made at most, those of them for mu, and epsilons that are asked first.
MOST_ACCOUNTS, _FOR_MU, _FIRST = 64, 50, 13
# How far mu, as a share, and the regret may be from what is known of them at the epsilons that were asked.
_CLOSE_MU, _CLOSE_REGRET, _CLOSE_SHARE = 1e-3, 2e-4, 0.02
# Of the slack, the part that the floating point of this module may use up.
_ROUNDING = 0.01
# The regret at larger epsilons than this is not looked at: it is less than exp(-40), whatever the curves are.
_FAR = 40.0
_HALVINGS = 60


class Deltas(NamedTuple):
    """delta at an epsilon: certainly lost, and guaranteed not to be exceeded."""

    lower: float
    upper: float


@final
@dataclass(frozen=True)
class GaussianDP:
    """mu and its regret, each rounded up when shown; None with the reason where no mu is known.

    `everywhere` is a mu that needs no slack, where one is proved.
    """

    mu: float | None
    regret: float | None
    slack: float = SLACK
    everywhere: float | None = None
    why: Said | None = None

    @property
    def fits(self) -> bool:
        """Whether mu stands for the whole curve."""
        return self.regret is not None and self.regret < SMALL_REGRET

    def to_dict(self) -> dict[str, object]:
        """mu, its regret and how far it holds, as plain data for JSON."""
        return {
            "mu": self.mu,
            "regret": self.regret,
            "slack": self.slack,
            "mu_without_slack": self.everywhere,
            "why": None if self.why is None else str(self.why),
        }


def gaussian_dp(answer: Account, progress: Callable[[], None] = lambda: None) -> GaussianDP:
    """mu-GDP of the run that was accounted for, for the same neighbours; up to some dozens of accounts are made for it.

    >>> import noisymean as nm
    >>> found = gaussian_dp(nm.account(nm.SGM(sample_rate=1, noise_multiplier=10), steps=100, delta=1e-5))
    >>> round(found.mu, 9), found.regret, found.slack
    (1.0, 0.0, 0.0)
    """
    everywhere = _everywhere(answer)
    if everywhere is not None and all(_takes_all(one.mechanism, answer.adjacency) for one in answer.segments):
        return GaussianDP(everywhere, 0.0, 0.0, everywhere)
    unknown = partial(GaussianDP, None, None, everywhere=everywhere)
    delta = answer.claimed.delta if answer.asked_delta else answer.guarantee.delta
    if delta is not None and 0.0 < delta < _FINEST * SLACK:
        return unknown(why=Said(f"{_EXCEPT}, and the δ of this account is too close to that"))
    if answer.asked_delta and answer.value(answer.guarantee) is None:
        return unknown(why=Said("no guarantee is known for this run"))
    # where two neighbours were judged, both are again
    pair = answer.pair if len(answer.neighbours) == 1 else None
    far_out = _account(answer, pair, delta=0.5 * SLACK)
    largest = far_out.value(far_out.guarantee)
    if largest is None:
        return unknown(why=Said("no finite ε is guaranteed far out on the curve of this run"))

    def profile(epsilon: float) -> Deltas:
        found = _account(answer, pair, epsilon=epsilon)
        progress()
        lost, sound = found.leakage.delta, found.guarantee.delta
        return Deltas(max(lost or 0.0, 0.0), 1.0 if sound is None else min(sound, 1.0))

    fitted = fit(profile, largest)
    if fitted is None:
        return unknown(why=_too_large())
    mu, regret = fitted
    if everywhere is None or mu < everywhere:
        return GaussianDP(mu, regret, SLACK, everywhere)
    return GaussianDP(everywhere, regret, 0.0, everywhere)


_EXCEPT = f"it would be found up to {exactly(SLACK)}"


def _too_large() -> Said:
    """Why nothing is said of a larger mu."""
    return Said(
        f"none up to {at_least(LARGEST_MU, '.3g')} is known to hold, and with a larger one both error rates of an attack may be"
        f" below {exactly(SLACK)}, which is as far as μ is looked for"
    )


def _account(
    answer: Account, pair: Pair | None, *, delta: float | None = None, epsilon: float | None = None
) -> Account:
    return account(answer.segments, delta=delta, epsilon=epsilon, adjacency=answer.adjacency, pair=pair)


# --- closed form ---------------------------------------------------------------------------------------------------------


def _everywhere(answer: Account) -> float | None:
    """The mu of the noisy sum of all records, which rounds on a part of them lose no more than; None for other mechanisms."""
    if answer.adjacency is Adjacency.REPLACE_ONE or not all(isinstance(one.mechanism, SGM) for one in answer.segments):
        return None
    if not all(one.mechanism.is_poisson or _takes_all(one.mechanism, answer.adjacency) for one in answer.segments):
        return None
    squares = sum(Fraction(steps) / Fraction(one.noise_multiplier) ** 2 for one, steps in answer.segments)
    found = math.sqrt(squares)
    # rounded up, exactly
    while Fraction(found) ** 2 < squares:
        found = math.nextafter(found, math.inf)
    return found


def _takes_all(mechanism: object, adjacency: Adjacency) -> bool:
    """Whether every batch is the whole dataset, over a constant."""
    if not isinstance(mechanism, SGM):
        return False
    return mechanism.rate == 1 if mechanism.is_poisson else mechanism.draws_all(adjacency)


# --- from deltas at a few epsilons -----------------------------------------------------------------------------------------


class _Points(NamedTuple):
    """What is known, by epsilon."""

    epsilon: Array
    lower: Array
    upper: Array


def fit(profile: Callable[[float], Deltas], largest: float, slack: float = SLACK) -> tuple[float, float] | None:
    """(mu, regret) of a curve that has at most slack/2 of delta left at `largest`; None where mu would say nothing.

    `profile` answers for the worse of both directions. Epsilons are added where mu, then the regret, is least well known.
    """
    known = {epsilon: profile(epsilon) for epsilon in np.linspace(0.0, largest, _FIRST).tolist()}
    while True:
        points = _known(known, slack)
        # what no number of further epsilons would make smaller
        needed = _least_mu(partial(_is_below_at_points, points, slack))
        if needed is None:
            return None
        mu = _least_mu(partial(_is_below, points, slack))
        wanted = None
        if (mu is None or mu > needed * (1.0 + _CLOSE_MU)) and len(known) < _FOR_MU:
            wanted = _where_mu_is_lost(points, LARGEST_MU if mu is None else mu, slack)
        if mu is not None and (wanted is None or wanted in known):
            wanted = _where_unsure(points, mu)
        if wanted is None or wanted in known or len(known) >= MOST_ACCOUNTS:
            return None if mu is None else (mu, _regret(points, mu, slack))
        known[wanted] = profile(wanted)


def _known(found: dict[float, Deltas], slack: float) -> _Points:
    """In order; delta falls with epsilon, and the curve is symmetric, which helps at epsilon = 0 where proofs are weak."""
    epsilon = np.array(sorted(found))
    lower = np.array([found[one].lower for one in epsilon.tolist()])
    upper = np.array([found[one].upper for one in epsilon.tolist()])
    # the line of slope -e^eps and its mirror image meet on the diagonal; where e^eps is cut off nothing is gained
    upper[0] = min(upper[0], float(np.min(1.0 - 2.0 * (1.0 - upper) / (1.0 + np.exp(np.minimum(epsilon, _FAR))))))
    upper[-1] = min(upper[-1], 0.5 * slack)
    return _Points(epsilon, np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper))


def delta_of(mu: float, epsilon: Array) -> Array:
    """delta(epsilon) of T(N(0, 1), N(mu, 1)).

    >>> delta_of(1.0, np.array([0.0, 1.0])).round(6).tolist()
    [0.382925, 0.126937]
    """
    middle = epsilon / mu
    lost = np.exp(log_ndtr(0.5 * mu - middle)) - np.exp(epsilon + log_ndtr(-0.5 * mu - middle))
    return np.asarray(np.clip(lost, 0.0, 1.0))


def _is_below(points: _Points, slack: float, mu: float) -> bool:
    """Whether the curve of mu lies below the guarantee, up to the slack."""
    return bool(np.all(_excess(points, mu, slack) <= 0.0)) and _is_below_at_points(points, slack, mu)


def _is_below_at_points(points: _Points, slack: float, mu: float) -> bool:
    """The same, of the epsilons that were asked alone."""
    return bool(np.all(points.upper - delta_of(mu, points.epsilon) <= slack * (1.0 - _ROUNDING)))


def _excess(points: _Points, mu: float, slack: float) -> Array:
    """Of every chord between two points, how far it is above delta_mu and the slack where it is furthest above."""
    start, width = points.epsilon[:-1], np.diff(points.epsilon)
    fall = points.upper[:-1] - points.upper[1:]
    at = _touching(points, mu) - start
    # (e^at - 1)/(e^width - 1)
    part = np.exp(at - width) * np.expm1(-at) / np.expm1(-width)
    return np.asarray(points.upper[:-1] - fall * part - delta_of(mu, start + at) - slack * (1.0 - _ROUNDING))


def _touching(points: _Points, mu: float) -> Array:
    """Where delta_mu is as steep as the chord: chord minus delta_mu is concave in e^eps, and largest there."""
    start, width = points.epsilon[:-1], np.diff(points.epsilon)
    with np.errstate(divide="ignore"):
        log_slope = np.log(points.upper[:-1] - points.upper[1:]) - points.epsilon[1:] - np.log(-np.expm1(-width))
        at = -mu * (ndtri_exp(np.minimum(log_slope, 0.0)) + 0.5 * mu)
    # a chord that does not fall is furthest above at its end
    return np.asarray(np.clip(np.where(np.isnan(at), points.epsilon[1:], at), start, points.epsilon[1:]))


def _least_mu(enough: Callable[[float], bool]) -> float | None:
    """The least mu that is enough, from above; None where none is that says anything."""
    high = 1e-6
    while not enough(high):
        if high >= LARGEST_MU:
            return None
        high = min(2.0 * high, LARGEST_MU)
    low = 0.5 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class _Part(NamedTuple):
    """Of an interval between two epsilons: the most that the regret can be in it, and what it is at its ends at most."""

    most: float
    at_ends: float


def _regret(points: _Points, mu: float, slack: float) -> float:
    """The most that the regret can be anywhere."""
    last = float(points.epsilon[-1])
    beyond = float(delta_of(mu, points.epsilon[-1:])[0]) / (1.0 + math.exp(min(last, _FAR)))
    parts = [one.most for one in _parts(points, mu)]
    return max(*parts, beyond, math.exp(-_FAR)) + _ROUNDING * slack if parts else beyond + _ROUNDING * slack


def _parts(points: _Points, mu: float) -> list[_Part]:
    """The regret in each interval that begins where it can be seen.

    delta is convex in s = e^eps: it is nowhere below the continuation of a chord from the left, nor of one from the right. Over
    each of these lines the regret is largest at an end, or where they cross.
    """
    epsilon, lower, upper = points
    # a point further out stands for one at _FAR: what is certainly lost there is no more, what is guaranteed may be
    s = np.exp(np.minimum(epsilon, _FAR))
    found = []
    for i in range(len(s) - 1):
        if epsilon[i] >= _FAR:
            break
        # of a symmetric curve, the steepest that it can be at s = 1
        falls = 0.5 * (1.0 - lower[0]) if i == 0 else (upper[i - 1] - lower[i]) / (s[i] - s[i - 1])
        rises = 0.0
        if i + 2 < len(s) and epsilon[i + 2] <= _FAR:
            rises = max(lower[i + 1] - upper[i + 2], 0.0) / (s[i + 2] - s[i + 1])
        start, end = float(s[i]), float(s[i + 1])
        # lower[i] - falls (x - start) = lower[i + 1] + rises (end - x); parallel lines are compared at the ends
        steeper = float(falls - rises)
        crossing = start
        if steeper > 0.0:
            crossing = min(max(start + float(lower[i] - lower[i + 1] - rises * (end - start)) / steeper, start), end)
        x = np.array([start, end, crossing])
        least = np.maximum(lower[i] - falls * (x - start), lower[i + 1] + rises * (end - x))
        each = (delta_of(mu, np.log(x)) - least) / (1.0 + x)
        at_ends = (delta_of(mu, np.log(x[:2])) - lower[i : i + 2]) / (1.0 + x[:2])
        found.append(_Part(float(each.max()), float(at_ends.max())))
    return found


def _where_mu_is_lost(points: _Points, mu: float, slack: float) -> float:
    """In the interval whose chord asks for the largest mu."""
    worst = int(np.argmax(_excess(points, mu, slack)))
    return _inside(points, worst, math.nan)


def _where_unsure(points: _Points, mu: float) -> float | None:
    """The epsilon to ask next for the regret; None where more of them would hardly change it."""
    parts = _parts(points, mu)
    if not parts:
        return None
    worst = max(range(len(parts)), key=lambda i: parts[i].most)
    seen = max(0.0, *(one.at_ends for one in parts))
    return _inside(points, worst, math.nan) if parts[worst].most > seen * (1.0 + _CLOSE_SHARE) + _CLOSE_REGRET else None


def _inside(points: _Points, interval: int, near: float) -> float:
    """Near a place in an interval, but not so near to an end that nothing new is learnt; else its middle."""
    start, end = float(points.epsilon[interval]), float(points.epsilon[interval + 1])
    margin = 0.15 * (end - start)
    return 0.5 * (start + end) if math.isnan(near) else min(max(near, start + margin), end - margin)
