"""delta and its slope by one contour integral: against the two tails, closed forms and fifty digits; what is refused."""

from __future__ import annotations

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import many_rounds_oracles as reference
import oracles
from noisymean.compose import one_line
from noisymean.compose.contour import Composed
from noisymean.compose.engine import Rounds
from noisymean.compose.one_line import Lines
from noisymean.cumulants import Cumulants, SlowDecay, Sum
from noisymean.laws.closed import Gaussian
from noisymean.laws.finite import Outcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.tradeoff import Excess, Side, excess_of_tails

REVERSE = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


def of(cumulants: Cumulants | None) -> Cumulants:
    assert cumulants is not None
    return cumulants


def subsampled(rate: float, sigma: float, rounds: int) -> Sum:
    return Sum(((rounds, of(Subsampled(Gaussian(1.0 / sigma), rate).cumulants)),))


def shifted(mu: float, rounds: int) -> Sum:
    return Sum(((rounds, of(gaussian_pair(1, mu, 1.0).cumulants)),))


SUMS = {
    "gaussian": shifted(0.1, 100),
    "many": subsampled(0.01, 1.0, 1_000),
    "small losses": subsampled(0.005, 10.0, 200),
    "large losses": subsampled(0.01, 0.8, 10_000),
    "scale": Sum(((25, of(gaussian_pair(40, 0.2, log_scale=-math.log1p(1 / 30)).cumulants)),)),
    "a wider Q": Sum(((25, of(gaussian_pair(40, 0.2, log_scale=math.log1p(1 / 30)).cumulants)),)),
}


@REVERSE
@pytest.mark.parametrize("name", SUMS)
def test_is_the_difference_of_the_two_tails(name: str, reverse: bool) -> None:
    curve = Composed(SUMS[name])
    lines = Lines(SUMS[name], reverse)
    moments = SUMS[name].moments(np.array([0.0, 1.0]))
    mean, deviation = (-moments.mean[0] if reverse else moments.mean[1]), math.sqrt(float(moments.variance.max()))
    for deviations in (0.1, 0.5, 0.6, 1.0, 3.0, 6.0, 0.2):
        epsilon = float(mean + deviations * deviation)
        found = lines.excess(epsilon)
        assert found is not None
        tails = (curve.inverse() if reverse else curve).tails(np.array([epsilon]))
        expected = excess_of_tails(epsilon, tails)
        assert found.above == pytest.approx(expected.above, abs=1e-9)
        assert found.slope == pytest.approx(expected.slope, abs=1e-9)
        # the difference of two tails that nearly cancel has fewer digits
        lost = math.exp(expected.above - expected.delta)
        assert found.delta == pytest.approx(expected.delta, abs=1e-9 + 1e-11 * lost)


@pytest.mark.parametrize("epsilon", [0.6, 1.0, 3.0, 8.0, 20.0])
def test_fifty_digits(epsilon: float) -> None:
    """100 rounds of G_0.1 are G_1: delta = Phi(1/2 - eps) - e^eps Phi(-1/2 - eps), and its slope."""
    lines = Lines(shifted(0.1, 100), reverse=False)
    found = lines.excess(epsilon)
    assert found is not None
    above = oracles.normal_cdf(mpf("0.5") - mpf(epsilon))
    slope = mpmath.exp(epsilon) * oracles.normal_cdf(-mpf("0.5") - mpf(epsilon))
    for value, exact in zip(found, (above - slope, above, slope), strict=True):
        assert abs(mpmath.expm1(mpf(value) - mpmath.log(exact))) < 1e-11


@REVERSE
def test_one_line_serves_a_whole_search(reverse: bool) -> None:
    lines = Lines(shifted(0.1, 100), reverse)
    guess = lines.guess(math.log(1e-5))
    [line] = lines._found
    for near in (-0.9, -0.3, 0.0, 0.4, 0.9):
        epsilon = guess + near * line.tilt.deviation
        found = lines.excess(epsilon)
        assert found is not None
        assert found.delta == pytest.approx(math.log(float(Gaussian(1.0).delta(epsilon))), abs=1e-10)
    assert lines._found == [line]


@pytest.mark.parametrize("log_delta", [-8.0, -11.5, -20.0])
@pytest.mark.parametrize("name", SUMS)
def test_the_first_guess_is_nearly_the_answer(name: str, log_delta: float) -> None:
    lines = Lines(SUMS[name], reverse=False)
    found = lines.excess(lines.guess(log_delta))
    assert found is not None
    assert abs(found.delta - log_delta) < max(1.0, 0.2 * abs(log_delta))


def test_far_below_its_mean_nothing_is_said() -> None:
    lines = Lines(shifted(1.0, 400), reverse=False)
    assert lines.excess(150.0) is not None
    assert lines.excess(50.0) is None
    assert float(Composed(shifted(1.0, 400)).log_delta(50.0)) == pytest.approx(0.0, abs=1e-9)


def test_an_atom_is_refused() -> None:
    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    lines = Lines(Sum(((2, Outcomes(np.log(q / p), p)),)), reverse=False)
    with pytest.raises(SlowDecay):
        lines.excess(0.5)


def test_masses_that_are_not_seen_are_refused() -> None:
    class Off(Cumulants):
        def moments(self, theta):  # type: ignore[no-untyped-def]
            inside = SUMS["gaussian"].moments(theta)
            return inside._replace(value=inside.value - 1e-3)

        def remainder(self, theta, line):  # type: ignore[no-untyped-def]
            return SUMS["gaussian"].remainder(theta, line)

    with pytest.raises(SlowDecay):
        Lines(Off(), reverse=False).excess(1.0)


def test_a_step_that_is_too_wide_is_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(SUMS["gaussian"], reverse=False)
    lines.guess(math.log(1e-5))
    [line] = lines._found
    fresh = partial(one_line._OneLine, line.generating, False, line.tilt, line.near, line.far)
    monkeypatch.setattr(one_line, "STEPS", (2.0,))
    assert fresh().at(line.tilt.mean) is None
    monkeypatch.setattr(one_line, "STEPS", (2.0, 0.3))
    refined = fresh()
    assert refined.at(line.tilt.mean) == line.at(line.tilt.mean)
    assert len(refined._rules) == 2


def test_a_sum_that_rounding_has_eaten_is_refused() -> None:
    """Twelve deviations beside its line a sum is e^-72 of its terms."""
    lines = Lines(SUMS["gaussian"], reverse=False)
    lines.guess(math.log(1e-5))
    [line] = lines._found
    assert line.at(line.tilt.mean + 12.0 * line.tilt.deviation) is None


@pytest.mark.parametrize(("rate", "sigma", "rounds"), [(256 / 60_000, 0.46, 500), (0.01, 0.62, 100), (0.041, 1.7, 8)])
def test_few_participations_lie_inside_the_grid(rate: float, sigma: float, rounds: int) -> None:
    """A thousand nodes and more, where the bell has a long foot."""
    run = Rounds(((rounds, Subsampled(Gaussian(1.0 / sigma), rate)),))
    for direction in (run, run.inverse()):
        low, high = (direction.epsilon(1e-5, side) for side in (Side.BELOW, Side.ABOVE))
        assert high - low < 1e-8
        assert direction.grid.epsilon(1e-5, Side.BELOW) <= high
        assert low <= direction.grid.epsilon(1e-5, Side.ABOVE)


class TestSeenAtOnce:
    @REVERSE
    @pytest.mark.parametrize("name", SUMS)
    def test_never_contradicts_delta(self, name: str, reverse: bool) -> None:
        lines = Lines(SUMS[name], reverse)
        epsilon = lines.guess(-11.5)
        found = lines.excess(epsilon)
        assert isinstance(found, Excess)
        answers = [lines.at_most(epsilon, found.delta + nats) for nats in (-8.0, -3.0, -0.01, 0.01, 3.0, 8.0)]
        assert True not in answers[:3]
        assert False not in answers[3:]
        assert answers[0] is False
        assert answers[-1] is True

    def test_chernoff_is_a_bound_by_fourier_inversion(self) -> None:
        lines = Lines(subsampled(0.2, 5.0, 60), reverse=False)
        line = reference.subsampled_gaussian(0.2, 5.0)
        for epsilon in (1.0, 1.5, 2.0):
            exact = math.log(reference.delta([(60, line)], epsilon))
            for nats in np.linspace(-3.0, 0.0, 7):
                assert lines.at_most(epsilon, exact + float(nats) - 1e-6) is not True
