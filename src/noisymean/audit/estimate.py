r"""From scores to statements: what an attacker certainly achieves, at the stated confidence.

alpha_r and beta_r are the upper limits of the error rates. The paper's two equations turn them into lower limits of what is lost,

    eps_L   = max( log (1 - delta - alpha_r)/beta_r, log (1 - delta - beta_r)/alpha_r, 0 )        Eq. audited_epsilon
    delta_L = max( 0, 1 - alpha_r - e^eps beta_r, 1 - beta_r - e^eps alpha_r )                    Eq. audited_delta

at every threshold whose limits hold together (`intervals`). At eps = 0 the number of right guesses bounds 1 - alpha - beta
directly, which is sharper. Each corner (alpha_r, beta_r) is a point on or above T(M(D), M(D')): together they are the audited
curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from noisymean.audit.distinguishers import Judge, Labelled
from noisymean.audit.intervals import Interval, Levels, advantage_limit, two_sided, upper_limit
from noisymean.errors import check_number
from noisymean.laws.closed import Gaussian
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side


def epsilon_lower(alpha: ArrayLike, beta: ArrayLike, delta: float) -> Array:
    """eps_L of the corners (alpha, beta), Eq. audited_epsilon."""
    alpha, beta = np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1.0 - delta - alpha, 0.0)) - np.log(beta)
        other = np.log(np.maximum(1.0 - delta - beta, 0.0)) - np.log(alpha)
    return np.asarray(np.fmax(np.fmax(one, other), 0.0))


def delta_lower(alpha: ArrayLike, beta: ArrayLike, epsilon: float) -> Array:
    """delta_L of the corners (alpha, beta), Eq. audited_delta."""
    alpha, beta, grown = np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64), math.exp(epsilon)
    return np.asarray(np.maximum(np.maximum(1.0 - alpha - grown * beta, 1.0 - beta - grown * alpha), 0.0))


@final
@dataclass(frozen=True)
class Paper:
    """The paper's own choices: a two-sided interval for each rate at the stated confidence, nothing joint, one threshold."""

    epsilon_lower: float
    delta_lower: float


@final
@dataclass(frozen=True)
class Parametric:
    """If, and only if, the pair is some Gaussian one, N(0, 1) against N(mu, 1): mu is at least this."""

    mu_lower: float
    epsilon_lower: float


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """What the judged trials say; all limits but those of `paper` hold together with probability `confidence`."""

    confidence: float
    delta: float
    judged: int
    threshold: float
    alpha: Interval
    beta: Interval
    # 1 - alpha - beta by right guesses
    delta_lower: float
    epsilon_lower: float
    # the corners (alpha_r, beta_r), alpha rising; the main threshold's among them
    corner_alpha: Array
    corner_beta: Array
    paper: Paper
    parametric: Parametric

    def curve(self, alpha: ArrayLike) -> Array:
        """The audited curve: no trade-off function above it is true. Chords between corners are achieved by a coin."""
        alpha = np.asarray(alpha, dtype=np.float64)
        return np.asarray(np.interp(alpha, *lower_hull(self.corner_alpha, self.corner_beta)))


def check_levels(confidence: float, delta: float) -> Levels:
    """The shares of the error, or what is wrong with the question."""
    check_number("delta", delta, least=0.0, most=1.0)
    return Levels(confidence)


def estimate(trials: Labelled, judge: Judge, *, confidence: float, delta: float) -> Estimate:
    """Judge fresh trials with a judge that was fixed before they were seen."""
    levels = check_levels(confidence, delta)
    smaller, larger = judge.score(trials.smaller), judge.score(trials.larger)
    false_positives, false_negatives = int((smaller > judge.threshold).sum()), int((larger <= judge.threshold).sum())
    alpha = two_sided(false_positives, smaller.size, levels.side)
    beta = two_sided(false_negatives, larger.size, levels.side)
    error = 0.5 * (1.0 - confidence)
    single = upper_limit(false_positives, smaller.size, error), upper_limit(false_negatives, larger.size, error)
    pairs = min(smaller.size, larger.size)
    wrong = int((smaller[:pairs] > judge.threshold).sum() + (larger[:pairs] <= judge.threshold).sum())
    guesses = advantage_limit(wrong, pairs, levels.guesses)
    others = _corners(smaller, larger, judge.others, levels.corner(judge.others.size))
    corner_alpha, corner_beta = np.append(others[0], alpha.upper), np.append(others[1], beta.upper)
    order = np.argsort(corner_alpha, kind="stable")
    corner_alpha, corner_beta = corner_alpha[order], corner_beta[order]
    return Estimate(
        confidence=confidence,
        delta=delta,
        judged=int(smaller.size + larger.size),
        threshold=judge.threshold,
        alpha=alpha,
        beta=beta,
        delta_lower=max(guesses, float(delta_lower(corner_alpha, corner_beta, 0.0).max())),
        epsilon_lower=float(epsilon_lower(corner_alpha, corner_beta, delta).max()),
        corner_alpha=corner_alpha,
        corner_beta=corner_beta,
        paper=Paper(float(epsilon_lower(*single, delta)), float(delta_lower(*single, 0.0))),
        parametric=_parametric(corner_alpha, corner_beta, delta),
    )


def _corners(smaller: Array, larger: Array, thresholds: Array, error: float) -> tuple[Array, Array]:
    positives = smaller.size - np.searchsorted(np.sort(smaller), thresholds, side="right")
    negatives = np.searchsorted(np.sort(larger), thresholds, side="right")
    return upper_limit(positives, smaller.size, error), upper_limit(negatives, larger.size, error)


def _parametric(alpha: Array, beta: Array, delta: float) -> Parametric:
    mu = max(0.0, float(np.max(-ndtri(alpha) - ndtri(beta))))
    if mu == 0.0 or delta == 0.0:
        return Parametric(mu, 0.0 if mu == 0.0 else math.inf)
    return Parametric(mu, Gaussian(mu).epsilon(delta, Side.BELOW))


def lower_hull(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Vertices of the convex hull, from below, of the corners with (0, 1) and (1, 0)."""
    points = sorted({(0.0, 1.0), (1.0, 0.0), *zip(alpha.tolist(), beta.tolist(), strict=True)})
    hull: list[tuple[float, float]] = []
    for point in points:
        while hull and hull[-1][0] == point[0] and hull[-1][1] >= point[1]:
            hull.pop()
        if hull and hull[-1][1] <= point[1]:
            continue
        while len(hull) > 1 and _on_or_above_chord(hull[-1], hull[-2], point):
            hull.pop()
        hull.append(point)
    if hull[-1][0] < 1.0:
        hull.append((1.0, 0.0))
    return np.array([a for a, _ in hull]), np.array([b for _, b in hull])


def _on_or_above_chord(middle: tuple[float, float], left: tuple[float, float], right: tuple[float, float]) -> bool:
    return (middle[1] - left[1]) * (right[0] - left[0]) >= (right[1] - left[1]) * (middle[0] - left[0])
