"""What Opacus 1.x makes of N and b, to the bit, and what follows for an account. Facts: run in the released wheels."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import noisymean as nm
from noisymean.errors import InvalidInput, Undefined
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.orthogonal import OrthogonalPair
from noisymean.words import LoaderRuns, ProofName
from rounds_of import leakage_rounds


def loader(size: int, batch: int, *, dimension: int = 26_010, sigma: float = 1.0) -> nm.OpacusLoader:
    return nm.OpacusLoader(dataset_size=size, batch_size=batch, dimension=dimension, noise_multiplier=sigma)


def opacus(size: int, batch: int) -> tuple[float, int, float, int]:
    """DPDataLoader, DPOptimizer and the hook of PrivacyEngine, written out: (q, steps, accountant's q, denominator)."""
    length = math.ceil(size / batch)
    sample_rate = 1 / length
    steps = int(1 / sample_rate)
    return sample_rate, steps, 1 / steps, int(size * (1 / steps))


@pytest.mark.parametrize(
    ("size", "batch", "before", "after"),
    [
        # b divides N: one more record is one more batch, and the denominator falls
        (60_000, 600, (1 / 100, 600), (1 / 101, 594)),
        (600, 60, (1 / 10, 60), (1 / 11, 54)),
        (100, 10, (1 / 10, 10), (1 / 11, 9)),
        # b does not divide N: the rate stays, the denominator steps where L divides N + 1
        (1_007, 64, (1 / 16, 62), (1 / 16, 63)),
        (1_008, 64, (1 / 16, 63), (1 / 16, 63)),
    ],
)
def test_rate_and_denominator(size: int, batch: int, before: tuple[float, int], after: tuple[float, int]) -> None:
    assert loader(size, batch).runs == (before, after)


@pytest.mark.parametrize(("size", "batch", "denominator"), [(98, 2, 1), (12_544, 256, 255)])
def test_the_floor_is_floating_point(size: int, batch: int, denominator: int) -> None:
    """49 batches: 1/49 in binary, times 98, is a hair below 2."""
    assert loader(size, batch).run(size).expected_batch_size == denominator
    assert size // (size // batch) == denominator + 1


def test_a_denominator_of_zero_is_refused() -> None:
    """N = 49, b = 1: Opacus' expected batch size is 0 and its gradients are silently non-finite."""
    broken = loader(49, 1)
    assert broken.run(49).expected_batch_size == 0
    with pytest.raises(Undefined, match=r"^batch_size=1: must be .*divides by zero") as refusal:
        broken.neighbours.big_k()
    assert "\n" not in str(refusal.value)
    with pytest.raises(InvalidInput, match=r"batch_size=1"):
        nm.account(broken, steps=10, delta=1e-5)


def test_sampler_and_accountant_disagree_on_the_rate() -> None:
    wrong = [length for length in range(1, 5_001) if int(1 / (1 / length)) != length]
    assert len(wrong) == 312
    assert wrong[:3] == [93, 99, 105]
    for length in (wrong[0], wrong[100], wrong[-1]):
        run = loader(10 * length, 10).run(10 * length)
        assert run.loader_length == length
        assert run.sample_rate == 1 / length
        assert run.steps_per_epoch == length - 1
        assert run.accountant_rate.value == 1 / (length - 1)


@pytest.mark.parametrize(
    ("size", "batch"), [(1, 1), (7, 3), (930, 10), (59_999, 256), (60_000, 256), (50_000, 4_096), (10**9, 7)]
)
def test_every_field_to_the_bit(size: int, batch: int) -> None:
    run = loader(size, batch).run(size)
    assert (run.sample_rate, run.steps_per_epoch, run.accountant_rate.value, run.expected_batch_size) == opacus(
        size, batch
    )


def test_all_small_loaders_to_the_bit() -> None:
    for size in range(1, 200):
        for batch in range(1, size + 1):
            run = loader(size, batch).run(size)
            assert (run.sample_rate, run.steps_per_epoch, run.accountant_rate.value, run.expected_batch_size) == opacus(
                size, batch
            )


def test_the_exact_value_of_the_binary_rate() -> None:
    assert loader(60_000, 600).rate == Fraction(0.01)
    assert loader(60_000, 600).rate != Fraction(1, 100)


@pytest.mark.parametrize("batch", [0, -1, 602, 2.5, float("nan")])
def test_impossible_batches(batch: float) -> None:
    with pytest.raises(InvalidInput, match=r"batch_size="):
        loader(600, batch)  # type: ignore[arg-type]


class TestAccount:
    def test_where_the_rate_moves_the_guarantee_is_the_lift(self) -> None:
        account = nm.account(loader(60_000, 600), steps=1, delta=1e-5)
        assert account.guarantee.epsilon is not None
        assert account.guarantee.proofs == (ProofName.LIFT,)
        assert LoaderRuns(((59_999, 100, 599), (60_000, 100, 600), (60_001, 101, 594))) in account.remarks
        assert account.pair is nm.Pair.LARGER
        # one per cent in the noise's scale, seen by 26,010 coordinates, in one step
        assert account.claimed.epsilon is not None
        assert account.leakage.epsilon is not None
        assert account.leakage.epsilon > account.claimed.epsilon
        assert account.verdict == "violated"

    def test_leakage_where_the_rate_moves_is_that_of_the_scale(self) -> None:
        """600 -> 594 makes the noise of D' larger by 100/99: at least what the n - 1 other coordinates show."""
        moved = loader(60_000, 600)
        for pair, _ in leakage_rounds(moved, 1):
            assert isinstance(pair, OrthogonalPair) or pair.log_scale == pytest.approx(math.log(600 / 594), rel=1e-12)
        across = gaussian_pair(26_009, 0.0, 600 / 594)
        least = max(across.epsilon(1e-5), across.inverse().epsilon(1e-5))
        leaked = nm.account(moved, steps=1, delta=1e-5).leakage.epsilon
        assert leaked is not None
        assert 0.9 * least < leaked < 2.0 * least

    def test_where_the_denominator_stays_it_is_sgm(self) -> None:
        account = nm.account(loader(1_008, 64), steps=20, delta=1e-5, pair="larger")
        plain = nm.account(nm.SGM(sample_rate=1 / 16, noise_multiplier=1.0), steps=20, delta=1e-5)
        assert account.verdict == "holds"
        for mine, other in ((account.claimed, plain.claimed), (account.leakage, plain.leakage)):
            assert mine.epsilon == pytest.approx(other.epsilon, rel=1e-6)

    def test_where_the_denominator_steps_it_is_feasgm(self) -> None:
        """1007 -> 1008 records at rate 1/16: 62 -> 63, the step that the paper studies."""
        account = nm.account(loader(1_007, 64, dimension=500), steps=50, delta=1e-5, pair="larger")
        step = nm.FEASGM(dataset_size=1_007, dimension=500, sample_rate="1/16", noise_multiplier=1.0)
        assert step.floors == (62, 63)
        floored = nm.account(step, steps=50, delta=1e-5, pair="larger")
        assert account.leakage.epsilon == pytest.approx(floored.leakage.epsilon, rel=1e-9)
        assert account.guarantee.epsilon == pytest.approx(floored.guarantee.epsilon, rel=1e-9)
        assert account.verdict == floored.verdict == "violated"

    def test_the_rate_that_the_accountant_is_told(self) -> None:
        """L = 93: the sampler's rate is 1/93, the accountant's 1/92, and the claim is made with the latter."""
        length = next(length for length in range(1, 5_001) if int(1 / (1 / length)) != length)
        account = nm.account(loader(10 * length - 3, 10, dimension=5), steps=30, delta=1e-5)
        told = nm.account(nm.SGM(sample_rate=Fraction(1, length - 1), noise_multiplier=1.0), steps=30, delta=1e-5)
        assert account.claimed.epsilon == pytest.approx(told.claimed.epsilon, rel=1e-9)
        assert any(f"1/{length}" in note and f"1/{length - 1}" in note for note in account.notes)

    def test_a_batch_an_epoch_has_a_guarantee_without_coins(self) -> None:
        """From a rate of 1 to 1/2: no coins to compare, so both batches are revealed."""
        account = nm.account(loader(600, 600), steps=1, delta=1e-5, pair="larger")
        assert account.guarantee.epsilon is not None
        assert account.guarantee.proofs == (ProofName.COUPLED,)


class TestNearestStep:
    @pytest.mark.parametrize(
        ("size", "rate", "nearest"),
        [
            (140_199, "0.005", 140_199),
            (140_150, "0.005", 140_199),
            (140_050, "0.005", 139_999),
            (140_000, "0.005", 139_999),
            (10, "1/2", 9),
            (11, "1/2", 11),
            (5, "1", 5),
        ],
    )
    def test_by_hand(self, size: int, rate: str, nearest: int) -> None:
        mechanism = nm.FEASGM(dataset_size=size, dimension=1, sample_rate=rate, noise_multiplier=1.0)
        found = mechanism.nearest_step()
        assert found is not None
        assert abs(found - size) == abs(nearest - size)

    @pytest.mark.parametrize("rate", ["0.3", "1/7", "0.999", "0.05", "2/3"])
    def test_by_search(self, rate: str) -> None:
        """The floor is replaced by 1 when it is 0, so 0 -> 1 is no step."""
        q = Fraction(rate)
        steps = [m for m in range(1, 400) if math.floor((m + 1) * q) > max(math.floor(m * q), 1)]
        for size in range(1, 200):
            mechanism = nm.FEASGM(dataset_size=size, dimension=1, sample_rate=rate, noise_multiplier=1.0)
            found = mechanism.nearest_step()
            assert found in steps
            assert abs(found - size) == min(abs(m - size) for m in steps)
