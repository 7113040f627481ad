"""leakage over rounds: never above the truth of the pair that it is named after (tests/truth.py), and close to it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean.accountant import Question, leaked
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.laws.orthogonal import OrthogonalPair
from noisymean.leakage import explicit_pairs
from noisymean.pairs import Added, AddedAcross
from noisymean.runs import Run
from noisymean.tradeoff import Side
from rounds_of import pair_rounds
from truth import Configuration, Setting, truth

KINDS: dict[str, Any] = {"easgm": nm.EASGM, "feasgm": nm.FEASGM, "asgm": nm.ASGM}
ROUNDING = 1.0 + 1e-9


def mechanism_of(setting: Setting) -> Any:
    if setting.batch_size is not None:
        return nm.OpacusLoader(
            dataset_size=setting.dataset_size,
            batch_size=setting.batch_size,
            dimension=setting.dimension,
            noise_multiplier=setting.noise_multiplier,
        )
    return KINDS[setting.mechanism](
        dataset_size=setting.dataset_size,
        dimension=setting.dimension,
        sample_rate=setting.sample_rate,
        noise_multiplier=setting.noise_multiplier,
    )


def configuration_of(pair: ExplicitPair | OrthogonalPair) -> Configuration:
    match pair.datasets:
        case AddedAcross(shared, new):
            return Configuration(int(shared), new, orthogonal=True)
        case Added(shared, new):
            return Configuration(int(shared), new)
    raise AssertionError(pair.datasets)


def typed(
    name: str, size: int, dimension: int, rate: str | None, sigma: float, steps: int, batch_size: int | None = None
) -> Setting:
    return Setting(name, size, dimension, Fraction(rate) if rate else None, batch_size, sigma, steps, 1e-5)


@pytest.mark.parametrize(
    "setting",
    [
        typed("easgm", 100, 100, "0.1", 1.0, 10),
        typed("easgm", 300, 200, "0.5", 20.0, 50),
        typed("easgm", 300, 2, "0.3", 4.0, 30),
        typed("easgm", 12, 5, "0.6", 0.4, 3),
        typed("easgm", 40, 30, "0.2", 2.0, 1),
        typed("feasgm", 279, 400, "0.05", 3.0, 20),
        typed("opacus-loader", 200, 50, None, 2.0, 10, batch_size=20),
        typed("opacus-loader", 207, 50, None, 1.0, 10, batch_size=23),
        typed("opacus-loader", 30, 20, None, 5.0, 1, batch_size=15),
    ],
)
def test_sums_of_batches_over_rounds(setting: Setting) -> None:
    """The orthogonal pair, and the opposed one, with rates that move or not, in both directions."""
    pairs = [one for one in explicit_pairs(mechanism_of(setting)) if one.datasets in (AddedAcross(1, 1), Added(1, -1))]
    assert pairs
    for pair in pairs:
        exact, rounds = truth(setting, configuration_of(pair)), pair_rounds(pair, setting.steps)
        for backward, curve in ((False, rounds), (True, rounds.inverse())):
            low, high = exact.epsilon(setting.delta, backward=backward)
            found = curve.epsilon(setting.delta, Side.BELOW)
            assert found <= high * ROUNDING, (pair.datasets, backward)
            assert found >= 0.997 * low - 1e-4, (pair.datasets, backward)


@pytest.mark.parametrize(
    "setting",
    [
        typed("easgm", 30, 12, "0.4", 1.5, 1),
        typed("easgm", 5, 2, "0.5", 0.5, 1),
        typed("feasgm", 39, 90, "0.1", 2.0, 1),
    ],
)
def test_one_round_across(setting: Setting) -> None:
    """The curve of one round, asked for deltas."""
    [pair] = [one for one in explicit_pairs(mechanism_of(setting)) if isinstance(one, OrthogonalPair)]
    exact = truth(setting, configuration_of(pair))
    for backward, curve in ((False, pair.one_round()), (True, pair.backward().one_round().inverse())):
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            low, high = exact.delta(epsilon, backward=backward)
            found = float(curve.delta(epsilon, Side.BELOW))
            assert found <= high * ROUNDING
            assert found >= 0.99 * low - 1e-6


@pytest.mark.parametrize(
    "setting",
    [typed("asgm", 12, 40, "0.3", 1.0, 10), typed("asgm", 6, 2, "0.5", 0.5, 5), typed("asgm", 200, 1, "0.3", 1.0, 40)],
)
def test_batches_over_rounds(setting: Setting) -> None:
    pair = explicit_pairs(mechanism_of(setting))[0]
    exact, rounds = truth(setting, configuration_of(pair)), pair_rounds(pair, setting.steps)
    for backward, curve in ((False, rounds), (True, rounds.inverse())):
        low, high = exact.epsilon(setting.delta, backward=backward)
        found = curve.epsilon(setting.delta, Side.BELOW)
        assert found <= high * ROUNDING
        assert found >= 0.995 * low


@pytest.mark.parametrize(
    ("kind", "size", "dimension", "rate", "sigma", "steps", "known"),
    [
        (nm.EASGM, 60_000, 26_010, "256/60000", 1.0, 3_516, 1.6187),
        (nm.FEASGM, 140_199, 26_010, "0.005", 10.0, 200, 29.831),
        (nm.EASGM, 10_000, 100_000, "0.5", 20.0, 500, 5.2254),
        (nm.EASGM, 1_000, 1_000, "0.05", 1.0, 100, 3.9164),
        (nm.EASGM, 100, 100, "0.1", 1.0, 10, 3.0369),
    ],
)
def test_known_leakages(
    kind: Any, size: int, dimension: int, rate: str, sigma: float, steps: int, known: float
) -> None:
    """Known from a quadrature of all three factors on grids of losses, an earlier computation that shares no code with this."""
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    found, on, _ = leaked(Run.of(mechanism, steps), Question(delta=1e-5))
    assert found <= known + 5e-5 * known
    assert found >= known * (1 - 3e-4)
    assert on == AddedAcross(1.0, 1.0)


def test_the_size_of_a_batch_is_told_by_the_noise() -> None:
    """ASGM on MNIST: with the size revealed the loss is that of the guarantee, and 26,009 dimensions reveal it."""
    mechanism = nm.ASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1.0)
    account = nm.account(mechanism, steps=3_516, delta=1e-5, pair="larger")
    assert account.guarantee.epsilon is not None
    assert account.leakage.epsilon is not None
    assert 1.0 <= account.guarantee.epsilon / account.leakage.epsilon <= 1.01


def test_a_product_too_small_for_a_double_is_not_zero() -> None:
    """One record at q = 1 against two at 1/2, with next to no noise: at P's far side both lines have e^-690 and less."""
    mechanism = nm.OpacusLoader(dataset_size=1, batch_size=1, dimension=43_889, noise_multiplier=0.02)
    account = nm.account(mechanism, steps=1, delta=6.4e-12, pair="larger")
    # the new record is 50 deviations away with probability 1/2, and D's only one likewise
    assert account.leakage.epsilon is not None
    assert 600.0 < account.leakage.epsilon < 2 * 50.0**2


@pytest.mark.parametrize("count", [10**7, 10**9])
def test_more_sizes_than_can_be_summed(count: int) -> None:
    mechanism = nm.EASGM(dataset_size=count, dimension=1_000, sample_rate="1/2", noise_multiplier=1.0)
    assert all(isinstance(pair, ExplicitPair) and pair.p.means.size == 1 for pair in explicit_pairs(mechanism))


def test_outputs_across() -> None:
    """Outputs drawn whole, and as the numbers that tell the two datasets apart: the same losses."""
    mechanism = nm.EASGM(dataset_size=20, dimension=7, sample_rate="1/2", noise_multiplier=2.0)
    [pair] = [one for one in explicit_pairs(mechanism) if isinstance(one, OrthogonalPair)]
    for extra in (False, True):
        outputs = pair.sample(np.random.default_rng(1), 40_000, extra_record=extra)
        assert outputs.shape == (40_000, 7)
        whole = pair.loss(outputs[:, 0], np.square(outputs[:, 1:-1]).sum(axis=1), outputs[:, -1])
        drawn = pair.loss(*pair.draw(np.random.default_rng(2), 40_000, extra_record=extra))
        levels = np.linspace(0.05, 0.95, 19)
        # two samples of 40,000: their distributions differ by 0.02 once in millions
        shares = np.searchsorted(np.sort(drawn), np.quantile(whole, levels)) / drawn.size
        np.testing.assert_allclose(shares, levels, atol=0.02)


@pytest.mark.parametrize(("size", "dimension", "rate", "sigma"), [(999, 100, 0.1, 1.0), (40, 5, 0.5, 0.3)])
def test_pairs_of_a_batch_are_chosen_by_fewer_cells_and_none_is_missed(
    size: int, dimension: int, rate: float, sigma: float
) -> None:
    found = nm.leakage(nm.ASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma))
    alpha = np.linspace(0.0, 1.0, 101)
    each = np.stack([found.curve(index).upper(alpha) for index in range(len(found.pairs))])
    values, winner = found.best(alpha)
    np.testing.assert_allclose(values, each.min(axis=0), rtol=2e-3, atol=1e-9)
    assert np.array_equal(values, each[winner, np.arange(alpha.size)])
    # fewer cells tell an attacker no more than a little less
    rough = np.stack([curve.upper(alpha) for curve in found.rough])
    np.testing.assert_allclose(rough, each, atol=0.03)
