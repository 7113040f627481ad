r"""The trade-off curve of a sum of rounds, traced by its tests.

Each threshold t gives one point (alpha(t), beta(t)), so no inversion is needed. Between two points of a *leakage* or *claimed*
curve the chord is used, which randomising between the two tests achieves; for a *guarantee* the highest of the supporting lines,
which no test can beat.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from noisymean.compose.contour import Composed
from noisymean.compose.engine import Rounds
from noisymean.cumulants import SlowDecay
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, TradeOff

_DEVIATIONS = 9.0
_SMALLEST = 1e-12
_RAREST = 1e-300
# Alphas up to which lines are looked for that touch the curve there, and how often the gap between tests is halved for it.
_FEW, _NEARER = 16, 4
# Thresholds for one contour integral: the slowest of them decides how long it takes.
_TOGETHER = 8
# A rate below which a picture shows nothing.
_SEEN = 1e-4


def traced(rounds: Rounds, alpha: Array, points: int, *, chord: bool) -> Array:
    """f(alpha) from tests at many thresholds: the chords between them for leakage, their supporting lines for guarantees."""
    side = Side.ABOVE if chord else Side.BELOW
    if (few := rounds.curve_of_few(alpha, side)) is not None:
        return few
    # the lines of tests that err less than any alpha are of no use; a chord may need one from further out
    least = 0.0 if chord else _least(alpha)
    deviations = min(_DEVIATIONS, 1.0 - float(ndtri(least)))
    try:
        curve = rounds.tradeoff()
        with np.errstate(all="ignore"):
            t, log_alpha, log_beta = _tests(curve, _thresholds(curve, points, deviations), math.log(max(_SEEN, least)))
    except SlowDecay:
        return rounds.grid.curve(alpha, side)
    if not chord:
        lines = _lines(curve, t, log_alpha, log_beta, alpha)
        if alpha.size <= _FEW:
            lines = _refined(curve, t, lines, alpha)
        return np.asarray(np.clip(lines.max(axis=0), 0.0, 1.0))
    points_alpha, points_beta, _, margin = _points(curve, t, log_alpha, log_beta)
    points_beta = points_beta + 2.0 * margin + curve.short[1]
    # a test that errs too rarely for a float still errs: at alpha = 0 itself it is not allowed
    points_alpha = np.maximum(points_alpha, _RAREST)
    x, y = np.concatenate([[1.0], points_alpha, [0.0]]), np.concatenate([[0.0], points_beta, [1.0]])
    return np.asarray(np.clip(np.interp(alpha, x[::-1], y[::-1]), 0.0, 1.0 - alpha))


def _points(curve: TradeOff, t: Array, log_alpha: Array, log_beta: Array) -> tuple[Array, Array, Array, Array]:
    """alpha, beta, slope of the supporting line, and what the tails may be off by (docs/numerics.md, "Margins")."""
    alpha, beta = np.exp(log_alpha), np.exp(log_beta)
    with np.errstate(over="ignore"):
        slope = np.exp(np.minimum(t, 700.0))
        return alpha, beta, slope, curve.relative_error * (beta + slope * alpha) + curve.slack * np.minimum(slope, 1.0)


def _lines(curve: TradeOff, t: Array, log_alpha: Array, log_beta: Array, at: Array) -> Array:
    """The supporting line of every test (a row), at every alpha."""
    alpha, beta, slope, margin = _points(curve, t, log_alpha, log_beta)
    with np.errstate(over="ignore"):
        return np.asarray((beta - margin)[:, None] + slope[:, None] * (alpha[:, None] - at))


def _refined(curve: TradeOff, t: Array, lines: Array, alpha: Array) -> Array:
    """Beside the lines, those of tests nearer and nearer to the contact at each of a few alphas."""
    gap = float(np.max(np.diff(t)))
    for _ in range(_NEARER):
        gap *= 0.5
        best = t[np.argmax(lines, axis=0)]
        nearer = np.unique(np.concatenate([best - gap, best + gap]))
        try:
            with np.errstate(all="ignore"):
                tails = curve.tails(nearer)
        except SlowDecay:
            break
        t = np.concatenate([t, nearer])
        lines = np.concatenate([lines, _lines(curve, nearer, tails.p_above, tails.q_below, alpha)])
    return lines


def _tests(curve: TradeOff, t: Array, log_seen: float) -> tuple[Array, Array, Array]:
    """(t, log alpha, log beta), from the middle outwards in small parts, each end given up where it becomes slow.

    Any set of tests is sound. SlowDecay where what is left would be seen to be missing.
    """
    parts = np.array_split(t, -(-t.size // _TOGETHER))
    middle = len(parts) // 2
    found = []
    for outwards in (range(middle, len(parts)), range(middle - 1, -1, -1)):
        for index in outwards:
            try:
                tails = curve.tails(parts[index])
            except SlowDecay:
                break
            found.append((parts[index], tails.p_above, tails.q_below))
    found.sort(key=lambda part: float(part[0][0]))
    if not found or max(found[-1][1][-1], found[0][2][0]) > log_seen:
        raise SlowDecay
    kept, log_alpha, log_beta = (np.concatenate(side) for side in zip(*found, strict=True))
    return kept, log_alpha, log_beta


def _least(alpha: Array) -> float:
    """The least of all error rates that are looked at."""
    inner = alpha[(alpha > 0.0) & (alpha < 1.0)]
    return float(np.min(np.minimum(inner, 1.0 - inner), initial=0.5))


def _thresholds(curve: TradeOff, points: int, deviations: float) -> Array:
    """From well below the loss's mean under P to well above that under Q."""
    if isinstance(curve, Composed):
        moments = curve.generating.moments(np.array([0.0, 1.0]))
        reach = deviations * np.sqrt(moments.variance)
        return np.linspace(moments.mean[0] - reach[0], moments.mean[1] + reach[1], points)
    scale = max(curve.epsilon(_SMALLEST), curve.inverse().epsilon(_SMALLEST), 1e-9)
    return np.linspace(-scale, scale, points)
