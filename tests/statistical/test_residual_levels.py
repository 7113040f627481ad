"""Audits by what is left of a release, where the claim is the whole truth: how often one is wrong, and how much it shows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

from noisymean.audit.distinguishers import Labelled, Residual
from noisymean.audit.estimate import estimate
from noisymean.audit.verdict import judge
from noisymean.targets.protocol import Neighbour
from onlooked import Scales

LEVELS = (0.05, 0.4)


@pytest.mark.parametrize(
    ("ratio", "audits"),
    [(1.0, 60), (1.1, 60), *(pytest.param(ratio, 500, marks=pytest.mark.slow) for ratio in (1.0, 1.02, 1.1, 1.5))],
)
def test_a_claim_that_is_just_true_is_not_called_violated(ratio: float, audits: int) -> None:
    """The statistic is sufficient and the claim is its curve: nothing is in the claim's favour but the limits themselves."""
    target, generator = Scales(ratio=ratio), np.random.default_rng(int(100 * ratio))
    rule, claim = Residual(target), target.claim()
    wrong = dict.fromkeys(LEVELS, 0)
    for _ in range(audits):
        small, large = (rule.features(target.release(side, generator, 100), generator) for side in Neighbour)
        learned, judged = Labelled(small[:20], large[:20]), Labelled(small[20:], large[20:])
        fixed = rule.judge(learned, None)
        for level in LEVELS:
            found = estimate(judged, fixed, confidence=1.0 - level, delta=1e-5)
            wrong[level] += judge(found, claim).word == "violated"
    for level in LEVELS:
        assert wrong[level] <= binom.isf(1e-6, audits, level)


def test_it_shows_nearly_all_that_there_is() -> None:
    """For 600 and 594 in 2,000 numbers, a scale that is 1.01 as large: never more than the truth, and close to it."""
    target = Scales(numbers=2_000, ratio=600 / 594)
    generator, rule = np.random.default_rng(1), Residual(target)
    small, large = (rule.features(target.release(side, generator, 4_000), generator) for side in Neighbour)
    fixed = rule.judge(Labelled(small[:1000], large[:1000]), None)
    found = estimate(Labelled(small[1000:], large[1000:]), fixed, confidence=0.95, delta=1e-5)
    lengths, square = chi2(2_000 - target.moving), target.ratio**2
    # where the densities cross
    at = 2.0 * (2_000 - target.moving) * np.log(target.ratio) / (1.0 - 1.0 / square)
    truth = float(lengths.cdf(at) - lengths.cdf(at / square))
    assert truth == pytest.approx(target.claim().delta(0.0), abs=1e-9)
    # 3,000 judged on each side: the limit lies 0.02 below the estimate, which is off by 0.01 as often as not
    assert truth - 0.06 <= found.delta_lower <= truth
