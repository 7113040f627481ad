"""What a midpoint rule is off by: bounds against the real error, and a law of two bumps on which two steps agree and are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import many_rounds_oracles as reference
from noisymean.compose import one_line
from noisymean.compose.aliases import TRIES, beside, log_aliases
from noisymean.compose.contour import Composed
from noisymean.compose.engine import Rounds
from noisymean.compose.one_line import Lines
from noisymean.cumulants import Cumulants, Line, SlowDecay, Sum
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.tradeoff import Side

# The tilted law of these rounds has a bump at 0 and one at 5.2.
TWO_BUMPS = Rounds(((12, Subsampled(Gaussian(1.0 / 7.0), 1.0 / 209.0)),))
LOG_DELTA = math.log(1e-10)


def a_hundred() -> Cumulants:
    """100 rounds of G_0.1, which are G_1."""
    one = gaussian_pair(1, 0.1, 1.0).cumulants
    assert one is not None
    return Sum(((100, one),))


@pytest.mark.parametrize("off", [-0.8, 0.0, 0.7])
@pytest.mark.parametrize("step", [0.8, 1.0, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("log_delta", [-5.0, -11.5, -40.0])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_delta_is_off_by_less(reverse: bool, log_delta: float, step: float, off: float) -> None:
    """By a closed form. Before both poles, between and beyond them, as steps and deltas have it."""
    lines = Lines(a_hundred(), reverse)
    tilt = lines._saddle(lines.guess(log_delta))
    line = one_line._OneLine(lines.generating, reverse, tilt, *lines._poles)
    rule = line._rule(step)
    epsilon = tilt.mean + off * tilt.deviation
    sums = line._sums(rule, epsilon)
    peak = tilt.value - tilt.x * epsilon
    delta = math.exp(float(Gaussian(1.0).log_delta(epsilon)) - peak)
    distance = 2.0 * math.pi / rule.step
    passed = sum(pole.mean > epsilon - distance for pole in (line.near, line.far))
    most = min(line._log_aliases(away, passed, epsilon, distance) for away in TRIES)
    error = abs(sums.delta - delta)
    assert error <= math.exp(most) + 1e-12 * delta
    # wide steps have something to bound,
    assert step < 1.5 or error > 1e-7 * delta
    # and a bound that would never let a rule pass is none
    assert most < 12.0 - 20.0 / step


@pytest.mark.parametrize("pole", [0.0, 1.0])
@pytest.mark.parametrize("step", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("theta", [-2.0, -0.4, 0.5, 1.4, 3.0])
def test_a_tail_is_off_by_less(theta: float, step: float, pole: float) -> None:
    """The loss is normal with variance 1 and mean -1/2 under P, 1/2 under Q; the rule is added up here."""
    cumulants = a_hundred()
    at = np.array([theta])
    moments = cumulants.moments(at)
    [t] = moments.mean.tolist()
    outward = math.copysign(1.0, theta - pole)
    line = Line(np.array([step]), 0, 64)
    tau = line.tau[:, 0]
    terms = np.exp(cumulants.remainder(at, line)[:, 0]) / (theta - pole + 1j * tau)
    found = outward * step / math.pi * float(np.sum(terms.real))
    distance = 2.0 * math.pi / step
    enclosed = abs(pole - 0.5 - t) < distance
    log_peak = float(moments.value[0]) - (theta - pole) * t
    away = abs(theta - pole)
    if enclosed:
        found += math.exp(-log_peak - distance * away) / (1.0 + math.exp(-distance * away))
    tail = 0.5 * math.erfc(outward * (t - pole + 0.5) / math.sqrt(2.0)) * math.exp(-log_peak)
    inward = (away, math.inf) if enclosed else (0.0, away)
    bounds = []
    for further in TRIES:
        around = beside(
            cumulants,
            at,
            np.array([further]),
            value=moments.value,
            outward=np.array([outward]),
            inward=(np.array([inward[0]]), np.array([inward[1]])),
        )
        bounds += log_aliases(around, np.array([outward * t]), np.array([distance])).tolist()
    most = min(bounds)
    assert abs(found - tail) <= math.exp(most) + 1e-12 * tail
    assert most < 12.0 - 20.0 / step


def two_bumps() -> Cumulants:
    [(rounds, law)] = TWO_BUMPS.parts
    assert law.cumulants is not None
    return Sum(((rounds, law.cumulants),))


def test_two_bumps_are_seen() -> None:
    with pytest.raises(SlowDecay):
        Composed(two_bumps()).epsilon_of_log(LOG_DELTA, Side.BELOW)
    low, high = (TWO_BUMPS.epsilon_of_log(LOG_DELTA, side) for side in (Side.BELOW, Side.ABOVE))
    # by Fourier inversion, which shares no code with either
    exact = [
        reference.delta([(12, reference.subsampled_gaussian(1.0 / 209.0, 7.0))], epsilon) for epsilon in (low, high)
    ]
    assert exact[0] >= 1e-10 >= exact[1]
    assert high - low < 1e-5 * low


def test_without_the_bound_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule and that of three times its step agree to 1e-4 on a delta that is above the upper end of the grid."""
    monkeypatch.setattr(one_line, "ENOUGH", -1e9)
    lines = Lines(two_bumps(), reverse=False)
    lines.guess(LOG_DELTA)
    [line] = lines._found
    epsilon = 0.013468
    wrong = line.at(epsilon)
    assert wrong is not None
    fine, coarse = (line._sums(line._rule(times * one_line.STEPS[0]), epsilon) for times in (1.0, 3.0))
    assert coarse.delta == pytest.approx(fine.delta, rel=1e-4)
    assert wrong.delta > LOG_DELTA > float(TWO_BUMPS.grid.log_delta(epsilon, Side.ABOVE))
