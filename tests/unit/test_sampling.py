"""How batches are drawn: their sizes, epochs and steps, what is refused and in which words, and what is for Poisson sampling only."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean.accountant import alternatives
from noisymean.laws.closed import Gaussian
from noisymean.mechanisms import Cut, Sampling, from_plain
from noisymean.report import account_words
from noisymean.tradeoff import Side

DRAWN = ("shuffle", "fixed-size", "balls-in-bins", "cyclic")
KINDS: tuple[Any, ...] = (nm.SGM, nm.EASGM, nm.FEASGM, nm.ASGM)


def sgm(rate: object = "1/4", sampling: str = "shuffle", **rest: Any) -> nm.SGM:
    return nm.SGM(sample_rate=rate, noise_multiplier=1.0, sampling=sampling, **rest)  # type: ignore[arg-type]


def other_noise(rate: object, **rest: Any) -> nm.SGM:
    return nm.SGM(sample_rate=rate, noise_multiplier=2.0, sampling="shuffle", **rest)  # type: ignore[arg-type]


def sized(kind: Any, sampling: str, **rest: Any) -> nm.Mechanism:
    """100 records, ten in a batch."""
    return kind(dataset_size=100, dimension=3, sample_rate="1/10", noise_multiplier=1.0, sampling=sampling, **rest)


def loader(sampling: str, **rest: Any) -> nm.OpacusLoader:
    return nm.OpacusLoader(
        **{"dataset_size": 10, "batch_size": 3, "dimension": 2, "noise_multiplier": 1.0, "sampling": sampling, **rest}
    )


class TestCuts:
    @pytest.mark.parametrize(
        ("records", "size", "drop_last", "expected", "batches"),
        [
            (10, 5, False, Cut(2, 5, 0), 2),
            (10, 4, False, Cut(2, 4, 2), 3),
            (10, 4, True, Cut(2, 4, 0), 2),
            (3, 4, False, Cut(0, 4, 3), 1),
            (3, 4, True, Cut(0, 4, 0), 0),
            (0, 4, False, Cut(0, 4, 0), 0),
            (10**15, 1, False, Cut(10**15, 1, 0), 10**15),
        ],
    )
    def test_sizes(self, records: int, size: int, drop_last: bool, expected: Cut, batches: int) -> None:
        assert Cut.of(records, size, drop_last=drop_last) == expected
        assert expected.batches == batches

    @pytest.mark.parametrize("drop_last", [False, True])
    @pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
    def test_of_a_mechanism(self, sampling: str, drop_last: bool) -> None:
        run = sgm(sampling=sampling, dataset_size=10, batch_size=4, drop_last=drop_last)
        assert run.cut(10) == Cut(2, 4, 0 if drop_last else 2)
        assert run.cut(11) == Cut(2, 4, 0 if drop_last else 3)
        assert run.batches_in_epoch == (2 if drop_last else 3)

    def test_only_these_are_cut(self) -> None:
        assert {one.value for one in Sampling if one.is_cut} == {"shuffle", "cyclic"}


class TestEpochs:
    @pytest.mark.parametrize("sampling", DRAWN)
    def test_one_over_the_rate(self, sampling: str) -> None:
        run = sgm("1/7", sampling)
        assert run.batches_in_epoch == 7
        assert [run.steps_in(epochs) for epochs in (1, 3, 0.5, 2.5)] == [7, 21, 4, 18]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("sampling", DRAWN)
    def test_the_size_of_a_batch_is_what_n_q_says(self, kind: Any, sampling: str) -> None:
        run = sized(kind, sampling)
        assert run.size_of_batches == (None if sampling == "balls-in-bins" else 10)
        assert run.batches_in_epoch == 10

    @pytest.mark.parametrize("drop_last", [False, True])
    def test_a_size_that_follows_from_the_number_of_batches(self, drop_last: bool) -> None:
        """Against a search through all sizes."""
        for records in range(1, 40):
            for batches in range(1, 45):
                fitting = [
                    size for size in range(1, 80) if Cut.of(records, size, drop_last=drop_last).batches == batches
                ]
                rest: dict[str, Any] = {"dataset_size": records, "drop_last": drop_last}
                if not fitting:
                    with pytest.raises(nm.InvalidInput, match="batches that"):
                        sgm(f"1/{batches}", **rest)
                elif records % batches:
                    # where N q is whole it is the size
                    expected = fitting[0] if len(fitting) == 1 else None
                    assert sgm(f"1/{batches}", **rest).size_of_batches == expected

    def test_epochs_of_a_fixed_size_are_those_of_the_rate(self) -> None:
        assert sgm("2/7", "fixed-size", dataset_size=7, batch_size=2).steps_in(10) == 35

    def test_batches_of_fifteen_out_of_a_hundred(self) -> None:
        run = nm.EASGM(dataset_size=100, dimension=1, sample_rate="3/20", noise_multiplier=1.0, sampling="cyclic")
        assert (run.batch_size, run.batches_in_epoch, run.steps_in(1.5)) == (15, 7, 11)
        dropped = nm.EASGM(
            dataset_size=100, dimension=1, sample_rate="3/20", noise_multiplier=1.0, sampling="cyclic", drop_last=True
        )
        assert (dropped.batches_in_epoch, dropped.steps_in(2)) == (6, 12)

    @pytest.mark.parametrize(("drop_last", "batches", "divisors"), [(False, 4, (2, 2)), (True, 3, (3, 3))])
    def test_of_opacus_loaders(self, drop_last: bool, batches: int, divisors: tuple[int, int]) -> None:
        """ceil or floor of 10/3; int(N/L) for 10 and 11 records."""
        run = loader("shuffle", drop_last=drop_last)
        assert run.batches_in_epoch == run.steps_in(1) == batches
        assert tuple(int(run.denominator_at(size)) for size in (10, 11)) == divisors

    def test_a_loader_of_the_users_has_its_own_length(self) -> None:
        """Opacus' sampler reads 1/(1/49) back as 48 or 49; a loader that stays as it is has 49 batches."""
        for length in (49, 93, 99, 105):
            run = loader("shuffle", dataset_size=10 * length, batch_size=10)
            assert run.steps_in(1) == run.batches_in_epoch == length


class TestNeighbours:
    def test_by_default(self) -> None:
        """A constant hides N, cut batches and batches of a fixed size do not: a record is zeroed out there."""
        found = {one: sgm(sampling=one).adjacency.value for one in (*DRAWN, "poisson")}
        assert found == {
            "shuffle": "zero-out",
            "fixed-size": "zero-out",
            "cyclic": "zero-out",
            "balls-in-bins": "add-remove",
            "poisson": "add-remove",
        }

    @pytest.mark.parametrize("sampling", DRAWN)
    def test_denominators_that_know_the_size(self, sampling: str) -> None:
        assert {sized(kind, sampling).adjacency for kind in KINDS[1:]} == {nm.Adjacency.ADD_REMOVE}

    def test_the_answer_says_so(self) -> None:
        assert nm.account(sgm(), steps=4, delta=1e-5).adjacency is nm.Adjacency.ZERO_OUT
        assert nm.account(sized(nm.FEASGM, "cyclic"), steps=10, delta=1e-5).adjacency is nm.Adjacency.ADD_REMOVE

    def test_of_a_schedule_do_not_follow_from_its_first_segment(self) -> None:
        """Found by a reader: the order of two segments decided between holds and violated."""
        rest: dict[str, Any] = {"dataset_size": 11, "dimension": 1000, "sample_rate": "1/2", "batch_size": 6}
        sum_, mean = (one(**rest, noise_multiplier=1.0, sampling="shuffle") for one in (nm.SGM, nm.EASGM))
        both = [nm.account(list(one), delta=1e-5) for one in (((sum_, 2), (mean, 2)), ((mean, 2), (sum_, 2)))]
        assert {one.adjacency for one in both} == {nm.Adjacency.ADD_REMOVE}
        assert {one.verdict for one in both} == {"violated"}

    def test_nobody_is_told_that_a_claim_holds_for_neighbours_that_were_not_said(self) -> None:
        """Two shuffled batches: less than is claimed for one record zeroed out, and more for one added."""
        run = nm.SGM(dataset_size=11, sample_rate="1/2", noise_multiplier=1.0, sampling="shuffle", batch_size=6)
        asked = {one: nm.account(run, steps=2, delta=1e-5, adjacency=one).verdict for one in nm.Adjacency}
        assert asked == {
            nm.Adjacency.ADD_REMOVE: "violated",
            nm.Adjacency.ZERO_OUT: "holds",
            nm.Adjacency.REPLACE_ONE: "violated",
        }
        unasked = nm.account(run, steps=2, delta=1e-5)
        assert (unasked.verdict, unasked.holds_for_others) == ("undetermined", True)
        assert "give adjacency zero-out if your claim is for one record zeroed out, else add-remove" in str(unasked)
        assert not nm.account(sgm("1/100"), steps=100, delta=1e-5).holds_for_others

    @pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
    def test_another_number_of_batches_is_not_proved(self, sampling: str) -> None:
        run = sgm("1/5", sampling, dataset_size=50, batch_size=10)
        larger = nm.account(run, steps=5, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE, pair="larger")
        assert larger.guarantee.epsilon is None
        assert larger.verdict != "holds"
        smaller = nm.account(run, steps=5, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE, pair="smaller")
        assert smaller.guarantee.epsilon is not None
        both = nm.account(run, steps=5, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE)
        assert both.guarantee.epsilon is None
        assert both.leakage.epsilon == max(smaller.leakage.epsilon, larger.leakage.epsilon)

    @pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
    def test_the_only_record_cannot_be_taken_away(self, sampling: str) -> None:
        """As under Poisson sampling: of one record the pair with one more is judged."""
        run = sgm(1, sampling, dataset_size=1, batch_size=2)
        account = nm.account(run, steps=3, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE)
        assert account.pair is nm.Pair.LARGER


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: sgm("0.3"),
        "sample_rate='3/10': must be 1/t for a whole number t of batches in an epoch of shuffle batches; the nearest below is 1/4",
    ),
    (
        lambda: sgm("0.3", "balls-in-bins"),
        "sample_rate='3/10': must be 1/t for a whole number t of batches in an epoch of balls-in-bins batches;"
        " the nearest below is 1/4",
    ),
    (
        lambda: sgm("1/3", "fixed-size", dataset_size=10),
        "sample_rate='1/3': must be b/N for a whole batch size b; give batch_size",
    ),
    (
        lambda: sgm(sampling="by hand"),
        "sampling='by hand': must be one of poisson, shuffle, fixed-size, balls-in-bins, cyclic for sgm",
    ),
    (
        lambda: loader("fixed-size"),
        "sampling='fixed-size': must be one of poisson, shuffle, cyclic for opacus-loader",
    ),
    (
        lambda: sgm(sampling="poisson", batch_size=3),
        "batch_size=3: must be left out with Poisson sampling; the rate says it all",
    ),
    (
        lambda: sgm(sampling="poisson", drop_last=True),
        "drop_last=True: must be left out with Poisson sampling; the rate says it all",
    ),
    (
        lambda: sgm(sampling="fixed-size", drop_last=True),
        "drop_last=True: must be left out unless batches are cut; shuffle or cyclic",
    ),
    (
        lambda: sgm(sampling="balls-in-bins", dataset_size=16, batch_size=4),
        "batch_size=4: must be left out with balls-in-bins; sizes are random",
    ),
    (
        lambda: sgm("1/1000", dataset_size=10),
        "sample_rate='1/1000': must be one over a number of batches that 10 records can be cut into; give batch_size",
    ),
    (
        lambda: sgm("1/7", "cyclic", dataset_size=10),
        "sample_rate='1/7': must be one over a number of batches that 10 records can be cut into; give batch_size",
    ),
    (
        lambda: sgm("1/2", "fixed-size", dataset_size=0),
        "batch_size=0: must be a whole number from 1 to 1e+15",
    ),
    (
        lambda: nm.account(
            [(sgm("1/2", dataset_size=4, batch_size=2), 2), (other_noise("1/2", dataset_size=4, batch_size=2), 2)],
            delta=1e-5,
            adjacency=nm.Adjacency.ADD_REMOVE,
        ),
        "segments=2: must be one, where one record more changes the number of batches of an epoch; its epochs do not begin with"
        " the segments; or ask for zero-out",
    ),
    (
        lambda: sgm(dataset_size=10, batch_size=0),
        "batch_size=0: must be a whole number from 1 to 1e+15",
    ),
    (
        lambda: sgm(sampling="fixed-size", dataset_size=10, batch_size=12),
        "batch_size=12: must be at most the dataset size 10",
    ),
    (
        lambda: sgm(dataset_size=10, batch_size=11, drop_last=True).batches_in_epoch,
        "batch_size=11: must be <= 10; there is no whole batch, and others are dropped",
    ),
    (
        lambda: sgm().cut(10),
        "batch_size=None: must be known where batches are cut; give the dataset size and the batch size",
    ),
    (
        lambda: nm.account(sgm(), steps=4, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE),
        "dataset_size=None: must be given for one record added to shuffle batches; or ask for zero-out adjacency",
    ),
    (
        lambda: nm.account(sized(nm.ASGM, "balls-in-bins"), steps=10, delta=1e-5),
        "sampling='balls-in-bins': must be another for ASGM; its denominator |B| is random, and nobody has analysed that",
    ),
    (
        lambda: nm.account([(sgm(), 4), (sgm(sampling="poisson"), 4)], delta=1e-5),
        "sampling='poisson, shuffle': must be the same in every segment",
    ),
    (
        lambda: nm.account([(sgm(), 5), (sgm("1/2"), 4)], delta=1e-5),
        "steps=5: must be whole epochs of 4 batches in all segments but the last",
    ),
]


@pytest.mark.parametrize(
    ("ask", "line"), REFUSED, ids=[line.split(":")[0] + str(i) for i, (_, line) in enumerate(REFUSED)]
)
def test_refusals_in_one_line(ask: Callable[[], object], line: str) -> None:
    with pytest.raises(nm.InvalidInput) as caught:
        ask()
    assert str(caught.value) == line


@pytest.mark.parametrize("adjacency", nm.Adjacency)
def test_nobody_has_analysed_the_size_of_a_bin(adjacency: nm.Adjacency) -> None:
    with pytest.raises(nm.Undefined, match="balls-in-bins"):
        nm.account(sized(nm.ASGM, "balls-in-bins"), steps=10, delta=1e-5, adjacency=adjacency)


class TestPlain:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("sampling", DRAWN)
    def test_round_trip(self, kind: Any, sampling: str) -> None:
        run = sized(kind, sampling)
        assert from_plain(run.to_plain()) == run
        assert run.to_plain()["sampling"] == sampling

    @pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
    def test_of_what_is_dropped(self, sampling: str) -> None:
        for run in (
            sized(nm.FEASGM, sampling, drop_last=True),
            sgm(sampling=sampling, dataset_size=10, batch_size=4, drop_last=True),
            loader(sampling, drop_last=True),
        ):
            plain = run.to_plain()
            assert plain["drop_last"] is True
            assert from_plain(plain) == run

    @pytest.mark.parametrize("kind", KINDS)
    def test_poisson_sampling_is_not_said(self, kind: Any) -> None:
        """So that what was written before there were other ways is read, and stays as it is."""
        run = kind(dataset_size=100, dimension=3, sample_rate="1/10", noise_multiplier=1.0)
        assert not {"sampling", "batch_size", "drop_last"} & run.to_plain().keys()
        assert from_plain(run.to_plain()) == run
        assert run == kind(
            dataset_size=100, dimension=3, sample_rate="1/10", noise_multiplier=1.0, sampling=Sampling.POISSON
        )

    def test_by_name_or_by_value(self) -> None:
        assert sgm(sampling="shuffle") == sgm(sampling=Sampling.SHUFFLE)  # type: ignore[arg-type]
        assert hash(sgm(sampling="shuffle")) == hash(sgm(sampling=Sampling.SHUFFLE))  # type: ignore[arg-type]
        assert sgm(sampling="shuffle") != sgm(sampling="cyclic")

    def test_settings_and_the_line(self) -> None:
        run = sized(nm.EASGM, "shuffle")
        assert run.settings()["sampling"] == "shuffle"
        assert run.settings()["batch_size"] == 10
        assert run.in_a_line(greek=False) == "EASGM: N = 100, n = 3, q = 0.1, sigma = 1, shuffle in batches of 10"

    def test_what_is_assumed_of_batches_is_said(self) -> None:
        assert [sgm(sampling=one).batches_in_words() for one in DRAWN] == list(DRAWN)
        cut = sgm(sampling="cyclic", dataset_size=10, batch_size=4, drop_last=True)
        assert cut.batches_in_words() == "cyclic in batches of 4, a smaller last one dropped"
        grounds = account_words.grounds(nm.account(cut, steps=4, delta=1e-5))
        assert grounds[0].value == cut.batches_in_words()


class TestRemedies:
    def test_a_constant_is_not_asked_for_twice(self) -> None:
        remedy = account_words.remedy(nm.account(sgm("1/100"), steps=100, delta=1e-5))
        assert remedy.startswith("draw batches by Poisson sampling (epsilon 0.7181) or random allocation (epsilon 0.62")
        floor = account_words.remedy(nm.account(sized(nm.FEASGM, "shuffle"), steps=10, delta=1e-5))
        assert floor.startswith("divide by a public constant, and draw batches by Poisson sampling (epsilon ")
        assert account_words.remedy(nm.account(sized(nm.FEASGM, "poisson"), steps=10, delta=1e-5)) == (
            "divide by a public constant"
        )

    def test_at_the_rate_of_the_run(self) -> None:
        """4 of 6 records: Poisson sampling at 2/3, as claimed, and allocation to two batches."""
        run = sgm("2/3", "fixed-size", dataset_size=6, batch_size=4)
        poisson, allocated = alternatives(nm.account(run, steps=100, delta=1e-5))
        assert (poisson.mechanism.rate, allocated.mechanism.rate) == (Fraction(2, 3), Fraction(1, 2))

    def test_of_a_schedule(self) -> None:
        """What another way would cost is not worked out, and what to do is the same."""
        other = nm.SGM(sample_rate="1/4", noise_multiplier=2.0, sampling="shuffle")
        remedy = account_words.remedy(nm.account([(sgm(), 4), (other, 4)], delta=1e-5))
        assert remedy == "draw batches by Poisson sampling or random allocation"


POISSON_ONLY: dict[str, Callable[[Any], object]] = {
    "curve": nm.curve,
    "leakage": nm.leakage,
    "guarantee": nm.guarantee,
    "ceiling": nm.ceiling,
    "per_pair": lambda run: nm.per_pair(run, gradients=np.zeros((11, 3))),
}


@pytest.mark.parametrize("name", POISSON_ONLY)
@pytest.mark.parametrize("sampling", DRAWN)
@pytest.mark.parametrize("kind", KINDS)
def test_for_poisson_sampling_only(kind: Any, sampling: str, name: str) -> None:
    """A number for other batches than those that were asked about is none."""
    run = kind(dataset_size=10, dimension=3, sample_rate="1/5", noise_multiplier=1.0, sampling=sampling)
    with pytest.raises(nm.Undefined) as caught:
        POISSON_ONLY[name](run)
    assert str(caught.value).startswith(f"sampling='{sampling}': must be poisson for this")


@pytest.mark.thin(2)
@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 0.01, 0.03, 0.05, 0.1, 1e3, 1e9])
@pytest.mark.parametrize("sampling", DRAWN)
def test_any_noise_that_is_allowed_has_an_answer(sampling: str, sigma: float) -> None:
    run = nm.SGM(sample_rate="1/10", noise_multiplier=sigma, sampling=sampling)
    account = nm.account(run, steps=25, delta=1e-5, adjacency=nm.Adjacency.ZERO_OUT)
    assert account.leakage.epsilon >= 0.0
    assert account.guarantee.epsilon is None or account.leakage.epsilon <= account.guarantee.epsilon


@pytest.mark.parametrize("delta", [1e-200, 1e-60, 0.5, 1.0])
@pytest.mark.parametrize("sampling", DRAWN)
def test_any_delta_that_is_allowed_has_an_answer(sampling: str, delta: float) -> None:
    account = nm.account(sgm("1/10", sampling), steps=25, delta=delta, adjacency=nm.Adjacency.ZERO_OUT)
    assert 0.0 <= account.leakage.epsilon <= account.guarantee.epsilon


@pytest.mark.parametrize("sampling", DRAWN)
def test_a_schedule_of_whole_epochs(sampling: str) -> None:
    """Two halves of a run, of one mechanism, are the run; of two, between those of each alone."""
    one, other = sgm("1/5", sampling), nm.SGM(sample_rate="1/5", noise_multiplier=2.0, sampling=sampling)
    whole = nm.account(one, steps=20, delta=1e-5)
    halves = nm.account([(one, 10), (one, 10)], delta=1e-5)
    assert halves.leakage.epsilon == pytest.approx(whole.leakage.epsilon, rel=1e-9)
    assert halves.guarantee.epsilon == pytest.approx(whole.guarantee.epsilon, rel=1e-9)
    mixed = nm.account([(one, 10), (other, 10)], delta=1e-5)
    assert mixed.guarantee.epsilon < whole.guarantee.epsilon
    assert mixed.leakage.epsilon > nm.account(other, steps=20, delta=1e-5).leakage.epsilon


def test_fixed_sizes_are_of_the_larger_dataset() -> None:
    """b of N + 1: the record that may be taken away is drawn with probability b/N, one that may be added with b/(N+1)."""
    run = sgm(Fraction(1, 2), "fixed-size", dataset_size=4, batch_size=2)
    larger, smaller = (
        nm.account(run, steps=1, epsilon=1.0, adjacency=nm.Adjacency.ADD_REMOVE, pair=pair).guarantee.delta
        for pair in ("larger", "smaller")
    )
    assert smaller / larger > 1.2


@pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
def test_denominators_that_agree_in_all_digits_of_a_float(sampling: str) -> None:
    """N q and (N+1) q at N = 10^15: in one dimension all aligned gradients are a Gaussian shift of b/(N+1)/sigma a step.

    The noise shrinks by 10^-15, which shows nothing. Found by a reader: differences of floats were two percent off.
    """
    size, batch, steps, sigma = 10**15 - 10**6, 999_999_999_001, 10**9, 30.0
    run = nm.EASGM(
        dataset_size=size,
        dimension=1,
        sample_rate="1/1000",
        batch_size=batch,
        noise_multiplier=sigma,
        sampling=sampling,
    )
    found = nm.account(run, steps=steps, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE, pair="larger")
    full = 999 * (steps // 1000)
    last = size - 999 * batch
    shift = math.sqrt(full * (batch / (size + 1)) ** 2 + (steps // 1000) * (1.0 - (last + 1) / (size + 1)) ** 2) / sigma
    assert found.leakage.epsilon == pytest.approx(float(Gaussian(shift).epsilon(1e-5, Side.BELOW)), rel=1e-9)
    assert found.leakage.epsilon <= found.guarantee.epsilon


@pytest.mark.parametrize("sampling", ["shuffle", "cyclic"])
def test_all_records_in_every_batch_are_the_claim(sampling: str) -> None:
    """Nothing is drawn: one number under three names."""
    run = nm.SGM(dataset_size=5, batch_size=7, sample_rate=1, noise_multiplier=1.0, sampling=sampling)
    account = nm.account(run, steps=3, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE)
    assert account.verdict == "holds"
    # a batch that is dropped is none
    dropped = nm.SGM(
        dataset_size=5, batch_size=7, sample_rate=1, noise_multiplier=1.0, sampling=sampling, drop_last=True
    )
    for adjacency in nm.Adjacency:
        with pytest.raises(nm.InvalidInput, match="there is no whole batch"):
            nm.account(dropped, steps=3, delta=1e-5, adjacency=adjacency)
    # one more would be in a batch of its own
    full = nm.SGM(dataset_size=7, batch_size=7, sample_rate=1, noise_multiplier=1.0, sampling=sampling)
    assert nm.account(full, steps=3, delta=1e-5, adjacency=nm.Adjacency.ADD_REMOVE).verdict == "violated"


def test_a_law_whose_losses_no_float_holds_apart() -> None:
    """Was an error: a size of a batch of 3e8 that grows by one, over a thousand steps."""
    run = nm.ASGM(
        dataset_size=309_524_357, dimension=1, sample_rate="1/14", noise_multiplier=87.94, sampling="cyclic",
        batch_size=309_524_357,
    )  # fmt: skip
    found = nm.account(run, steps=1000, epsilon=0.00195, adjacency=nm.Adjacency.ADD_REMOVE, pair="larger")
    assert found.leakage.delta > 0.0
    assert found.guarantee.delta is None


def test_a_lattice_that_shows_little_is_not_all_that_is_known() -> None:
    """Found by a reader: delta >= 1e-8 was certified at epsilon = 1 where .43 is at epsilon = 28, and delta only falls."""
    run = nm.SGM(sample_rate="1/5", noise_multiplier=0.25)
    at = [nm.account(run, steps=24, epsilon=epsilon) for epsilon in (1.0, 26.0, 28.0)]
    for one in at:
        assert 0.99 * one.guarantee.delta <= one.leakage.delta <= one.guarantee.delta
    fixed = nm.ASGM(
        dataset_size=23, dimension=2, batch_size=5, sample_rate="5/23", noise_multiplier=0.5, sampling="fixed-size"
    )
    assert nm.account(fixed, steps=24, epsilon=1.0).verdict == "violated"
