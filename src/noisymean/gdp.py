r"""Gaussian differential privacy of a run: the least mu of a Gaussian curve below its guarantee, and how well that fits.

A run is mu-GDP *up to a slack* eta if T(M(D), M(D'))(alpha) >= G_mu(alpha) - eta at every alpha, for all neighbours, in both
directions; G_mu = T(N(0, 1), N(mu, 1)). The same in deltas: delta(eps) <= delta_mu(eps) + eta for every eps >= 0.

    mu       from deltas that are guaranteed, at a few epsilons; between them the chord in e^eps, which delta lies below
    regret   the largest (delta_mu - delta)/(1 + e^eps): how far, in either error rate, a reader who has mu alone is from the
             curve itself; from deltas that certainly leak, so that what the bounds do not know is in it

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
from scipy.special import log_ndtr, ndtri_exp

from noisymean.accountant import account
from noisymean.accounts import Account, Pair
from noisymean.mechanisms import SGM, Adjacency
from noisymean.numerics.logs import Array
from noisymean.words import Said

# What a Gaussian curve may lie above the guarantee by, at any alpha.
SLACK = 1e-10
# A delta below this many slacks says more than mu does.
_FINEST = 10.0
# The regret below which mu says all there is to say: Gomez et al., arXiv 2503.10945.
SMALL_REGRET = 1e-2
# Accounts that are made at most, and epsilons that are asked first; how far mu and the regret may then be from what they allow.
MOST_ACCOUNTS, _FIRST = 48, 9
_CLOSE_MU, _CLOSE_REGRET = 1e-3, 2e-4
# Of the slack, the part that the floating point of this module may use up.
_ROUNDING = 0.01
# Errors of a part of the regret at larger epsilons than this are not seen: it is less than exp(-40).
_FAR = 40.0
_LARGEST_MU, _HALVINGS = 1e4, 60


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
        """Plain data."""
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
    delta = answer.claimed.delta if answer.asked_delta else answer.guarantee.delta
    if delta is not None and 0.0 < delta < _FINEST * SLACK:
        return GaussianDP(
            None, None, everywhere=everywhere, why=Said("the δ of this account is below what μ is found for")
        )
    if answer.guarantee.epsilon is None and answer.asked_delta:
        return GaussianDP(None, None, everywhere=everywhere, why=Said("no guarantee is known for this run"))
    # where two neighbours were judged, both are again
    pair = answer.pair if len(answer.neighbours) == 1 else None
    largest = _account(answer, pair, delta=0.5 * SLACK).guarantee.epsilon
    if largest is None:
        return GaussianDP(None, None, everywhere=everywhere, why=Said("no finite ε is guaranteed far out on its curve"))

    def profile(epsilon: float) -> Deltas:
        found = _account(answer, pair, epsilon=epsilon)
        progress()
        lost, sound = found.leakage.delta, found.guarantee.delta
        return Deltas(lost or 0.0, 1.0 if sound is None else min(sound, 1.0))

    fitted = fit(profile, largest)
    if fitted is None:
        return GaussianDP(
            None, None, everywhere=everywhere, why=Said("no Gaussian curve that says anything lies below its guarantee")
        )
    mu, regret = fitted
    return (
        GaussianDP(mu, regret, SLACK, everywhere)
        if everywhere is None or mu < everywhere
        else GaussianDP(everywhere, regret, 0.0, everywhere)
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
    return found if Fraction(found) ** 2 >= squares else math.nextafter(found, math.inf)


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
    """(mu, regret) of a curve that has at most slack/2 of delta left at `largest`; None where mu would be beyond all use.

    `profile` answers for the worse of both directions. Epsilons are added where mu, then the regret, is least well known.
    """
    known = {epsilon: profile(epsilon) for epsilon in np.linspace(0.0, largest, _FIRST).tolist()}
    while True:
        points = _known(known, slack)
        mu = _least_mu(partial(_is_below, points, slack))
        if mu is None:
            return None
        regrets, at_points = _regrets(points, mu)
        wanted = _where_unsure(points, mu, slack, regrets, at_points)
        if wanted is None or len(known) >= MOST_ACCOUNTS or wanted in known:
            return mu, float(regrets.max())
        known[wanted] = profile(wanted)


def _known(found: dict[float, Deltas], slack: float) -> _Points:
    """In order; delta falls with epsilon, and the curve is symmetric, which helps at epsilon = 0 where proofs are weak."""
    epsilon = np.array(sorted(found))
    lower = np.array([found[one].lower for one in epsilon.tolist()])
    upper = np.minimum.accumulate(np.array([found[one].upper for one in epsilon.tolist()]))
    upper[-1] = min(upper[-1], 0.5 * slack)
    # the line of slope -e^eps and its mirror image meet on the diagonal
    upper[0] = min(upper[0], float(np.min(1.0 - 2.0 * (1.0 - upper) / (1.0 + np.exp(np.minimum(epsilon, _FAR))))))
    return _Points(epsilon, np.maximum.accumulate(lower[::-1])[::-1], upper)


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
    return bool(np.all(_excess(points, mu, slack) <= 0.0))


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
    """The least mu that is enough, from above; None where none is."""
    high = 1e-6
    while not enough(high):
        high *= 2.0
        if high > _LARGEST_MU:
            return None
    low = 0.5 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _regrets(points: _Points, mu: float) -> tuple[Array, Array]:
    """Of every interval, the most that the regret can be there, and the same at its ends, where it is known best.

    delta is convex in s = e^eps: it is nowhere below the continuation of a chord from the left, nor of one from the right. Over
    each of these lines the regret is largest at an end, or where they cross.
    """
    s = np.exp(np.minimum(points.epsilon, 700.0))
    lower, upper = points.lower, points.upper
    # of a symmetric curve, the steepest that it can be at s = 1
    falls = np.concatenate([[0.5 * (1.0 - lower[0])], (upper[:-2] - lower[1:-1]) / np.diff(s[:-1])])
    rises = np.concatenate([np.maximum(lower[1:-1] - upper[2:], 0.0) / np.diff(s[1:]), [0.0]])
    start, end = s[:-1], s[1:]
    # lower[i] - falls (x - start) = lower[i + 1] + rises (end - x)
    with np.errstate(all="ignore"):
        gap = lower[:-1] - lower[1:] - rises * (end - start)
        crossing = np.clip(np.nan_to_num(start + gap / (falls - rises), nan=0.0, posinf=1e300, neginf=0.0), start, end)
    worst = np.full_like(start, math.exp(-_FAR))
    for x in (start, end, crossing):
        least = np.maximum(lower[:-1] - falls * (x - start), lower[1:] + rises * (end - x))
        worst = np.maximum(worst, (delta_of(mu, np.log(x)) - least) / (1.0 + x))
    at_points = (delta_of(mu, points.epsilon) - lower) / (1.0 + s)
    return worst, np.maximum(at_points[:-1], at_points[1:])


def _where_unsure(points: _Points, mu: float, slack: float, regrets: Array, at_points: Array) -> float | None:
    """The epsilon to ask next; None where more of them would hardly change anything."""
    needed = _least_mu(lambda mu: bool(np.all(points.upper <= delta_of(mu, points.epsilon) + slack)))
    if needed is None or mu > needed * (1.0 + _CLOSE_MU):
        worst = int(np.argmax(_excess(points, mu, slack)))
        return _inside(points, worst, float(_touching(points, mu)[worst]))
    worst = int(np.argmax(regrets))
    if regrets[worst] > max(float(at_points.max()), 0.0) + _CLOSE_REGRET:
        return _inside(points, worst, math.nan)
    return None


def _inside(points: _Points, interval: int, near: float) -> float:
    """Near a place in an interval, but not so near to an end that nothing new is learnt; else its middle."""
    start, end = float(points.epsilon[interval]), float(points.epsilon[interval + 1])
    margin = 0.15 * (end - start)
    return 0.5 * (start + end) if math.isnan(near) else min(max(near, start + margin), end - margin)
