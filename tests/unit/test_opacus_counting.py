"""Which of the batches that a loader draws are used by a step, and which are left out: what a run by epochs rests on."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opacus")

import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, TensorDataset

import noisymean as nm
from noisymean.errors import InvalidInput
from noisymean.integrations.opacus import Accountant, NoGuarantee, allocation_loader, fix, inspect, poisson_loader
from opacus_training import FEATURES, private, train

pytestmark = pytest.mark.filterwarnings("ignore")

DELTA = 1e-5


def data(records: int) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(records, FEATURES), torch.randint(0, 2, (records,)))


def left(loader: Any, accountant: Any = None, **options: Any) -> tuple[Any, Any]:
    """(model, optimizer) of make_private, which leaves the loader as it is."""
    _, model, optimizer, _ = private(
        len(loader.dataset), loader=loader, accountant=accountant, poisson_sampling=False, **options
    )
    return model, optimizer


def step(model: Any, optimizer: Any, batch: Any) -> None:
    train(model, optimizer, [batch], 1)


def no_number(accountant: Accountant, words: str) -> None:
    with pytest.warns(NoGuarantee, match=words):
        assert accountant.get_epsilon(DELTA) == math.inf


# --- what is left out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", ["allocated", "poisson"])
def test_empty_batches_that_are_left_out(way: str, workers: int) -> None:
    """Found by a reader: nobody noticed where workers draw ahead, nor at the end of the last epoch."""
    accountant = Accountant()
    if way == "allocated":
        loader = allocation_loader(data(20), batches=20, num_workers=workers)
        model, optimizer = left(loader, accountant)
    else:
        loader = poisson_loader(data(20), sample_rate="1/20", num_workers=workers)
        _, model, optimizer, loader = private(20, loader=loader, accountant=accountant)
    fix(optimizer, denominator=1, data_loader=loader)
    torch.manual_seed(5)
    skipped = 0
    for batch in loader:
        if len(batch[1]):
            step(model, optimizer, batch)
        else:
            skipped += 1
    assert skipped
    no_number(accountant, "an empty batch was left out")


def test_only_the_last_ones_are_empty() -> None:
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        accountant = Accountant()
        loader = allocation_loader(data(6), batches=4, generator=generator)
        sizes = [len(batch[1]) for batch in loader]
        if 0 not in sizes[:-1] and sizes[-1] == 0:
            break
    generator.manual_seed(seed)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=1, data_loader=loader)
    batches = list(loader)
    for batch in batches[:-1]:
        step(model, optimizer, batch)
    no_number(accountant, "an empty batch was left out")
    # nor does a checkpoint forget it
    again = Accountant()
    again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    no_number(again, "an empty batch was left out")
    step(model, optimizer, batches[-1])
    assert math.isfinite(accountant.get_epsilon(DELTA))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_full_batch_is_left_out_and_a_smaller_one_used(workers: int) -> None:
    """23 records in batches of 10: without the first one the run is no epoch that was broken off."""
    for skipped, known in ((0, False), (2, True)):
        accountant = Accountant()
        loader = DataLoader(data(23), 10, shuffle=True, num_workers=workers)
        model, optimizer = left(loader, accountant)
        fix(optimizer, denominator=10, data_loader=loader)
        for place, batch in enumerate(loader):
            if place != skipped:
                step(model, optimizer, batch)
        if known:
            run = nm.SGM(dataset_size=23, batch_size=10, sample_rate="1/3", noise_multiplier=1.0, sampling="shuffle")
            broken_off = nm.account(run, steps=2, delta=DELTA, adjacency=nm.Adjacency.ADD_REMOVE)
            assert accountant.get_epsilon(DELTA) == pytest.approx(broken_off.guarantee.epsilon, rel=1e-9)
        else:
            no_number(accountant, "drew another batch for it")


def test_what_is_asked_within_an_epoch_with_workers() -> None:
    """Batches that are drawn ahead and have yet to come are not left out."""
    accountant = Accountant()
    loader = DataLoader(data(23), 10, shuffle=True, num_workers=1)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=10, data_loader=loader)
    for _ in range(2):
        for batch in loader:
            step(model, optimizer, batch)
            assert math.isfinite(accountant.get_epsilon(DELTA))


# --- several batches for one step --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("most", [4, 1000])
def test_a_signal_of_ones_own_beside_the_memory_manager(most: int, workers: int) -> None:
    accountant = Accountant()
    loader = allocation_loader(data(103), batches=10, num_workers=workers)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=10, data_loader=loader)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=most, optimizer=optimizer) as cut:
        for batch in cut:
            optimizer.signal_skip_step(do_skip=True)
            step(model, optimizer, batch)
    no_number(accountant, "put together for one step, by signal_skip_step")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("most", [4, 1000])
def test_the_memory_manager_by_itself(most: int, workers: int) -> None:
    accountant = Accountant()
    loader = allocation_loader(data(103), batches=10, num_workers=workers)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=10, data_loader=loader)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=most, optimizer=optimizer) as cut:
        for _ in range(2):
            for batch in cut:
                step(model, optimizer, batch)
    run = nm.SGM(sample_rate="1/10", noise_multiplier=1.0, sampling="balls-in-bins")
    assert accountant.get_epsilon(DELTA) == pytest.approx(
        nm.account(run, steps=20, delta=DELTA).guarantee.epsilon, rel=1e-9
    )


# --- the same again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "batches"), [(20, 20), (30, 4), (60, 2), (24, 2)])
def test_one_epoch_drawn_twice_is_seen_also_of_few_records(records: int, batches: int) -> None:
    """Twice the same allocation is one epoch at noise/sqrt(2), which loses more than two of them."""
    source = torch.Generator()
    accountant = Accountant()
    loader = allocation_loader(data(records), batches=batches, generator=source)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=1, data_loader=loader)
    for _ in range(2):
        source.manual_seed(0)
        for batch in loader:
            step(model, optimizer, batch)
    no_number(accountant, "drew the same batches again")


def test_few_records_are_not_taken_for_a_repetition() -> None:
    """Of four records in two batches epochs do come again by chance."""
    accountant = Accountant()
    loader = allocation_loader(data(4), batches=2)
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=1, data_loader=loader)
    torch.manual_seed(1)
    train(model, optimizer, loader, 2 * 60)
    assert math.isfinite(accountant.get_epsilon(DELTA))


# --- one loader, several runs ------------------------------------------------------------------------------------------


def test_a_run_that_was_broken_off_is_no_part_of_the_next_one() -> None:
    loader = DataLoader(data(103), 10, shuffle=True)
    first, second = Accountant(), Accountant()
    model, optimizer = left(loader, first)
    torch.manual_seed(5)
    train(model, optimizer, loader, 4)
    before = first.get_epsilon(DELTA)
    again, other = left(loader, second)
    # the random numbers of another run are another matter
    torch.manual_seed(5)
    train(again, other, loader, 11)
    expected = nm.OpacusLoader(
        dataset_size=103, batch_size=10, dimension=2 * FEATURES + 2, noise_multiplier=1.0, sampling="shuffle"
    )
    whole = nm.account(expected, steps=11, delta=DELTA).guarantee.epsilon
    assert second.get_epsilon(DELTA) == pytest.approx(whole, rel=1e-9)
    assert first.get_epsilon(DELTA) == before


def test_two_runs_on_the_same_batches() -> None:
    loader = DataLoader(data(103), 10, shuffle=True)
    first, second = Accountant(), Accountant()
    runs = [left(loader, one) for one in (first, second)]
    for batch in loader:
        for model, optimizer in runs:
            step(model, optimizer, batch)
    assert math.isfinite(first.get_epsilon(DELTA))
    no_number(second, "two accountants count steps on one batch")


def test_copies_of_a_sampler_draw_and_tell_nobody() -> None:
    loader = DataLoader(data(103), 10, shuffle=True)
    accountant = Accountant()
    model, optimizer = left(loader, accountant)
    sampler = loader.batch_sampler
    made = type(sampler)(sampler.sampler, sampler.batch_size, sampler.drop_last)  # type: ignore[call-arg, union-attr]
    for one in (made, copy.copy(sampler), copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert sum(len(batch) for batch in one) == 103
    batch = next(iter(DataLoader(loader.dataset, batch_sampler=copy.copy(sampler))))
    step(model, optimizer, batch)
    no_number(accountant, "did not draw")


# --- loaders that are another one --------------------------------------------------------------------------------------


def test_the_loader_that_was_given_is_not_the_one_that_was_returned() -> None:
    """Poisson sampling is not judged by the shuffled loader that it was made of."""
    for given in (DataLoader(data(103), 10, shuffle=True), allocation_loader(data(103), batches=10)):
        _, model, optimizer, returned = private(103, loader=given)
        train(model, optimizer, returned, 3)
        with pytest.raises(InvalidInput, match="the one that make_private returned"):
            inspect(optimizer, data_loader=given)
        with pytest.raises(InvalidInput, match="the one that make_private returned"):
            fix(optimizer, denominator=10, data_loader=given)
        fix(optimizer, denominator=10, data_loader=returned)
        assert inspect(optimizer, data_loader=returned).taken == 3


class OnlyOne(DataLoader[Any]):
    """One batch of an epoch, again and again."""

    def _get_iterator(self) -> Any:
        return _Same(super()._get_iterator(), len(self))


class _Same:
    def __init__(self, batches: Iterator[Any], count: int) -> None:
        self._batch, self._left = next(batches), count

    def __next__(self) -> Any:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return self._batch

    def __iter__(self) -> _Same:
        return self


def test_ways_to_hand_out_batches_that_are_not_looked_into() -> None:
    strange: list[tuple[Any, str]] = [
        (OnlyOne(data(103), 10, shuffle=True), "hands out batches in a way of its own"),
        (
            DataLoader(data(103), 10, sampler=torch.utils.data.RandomSampler(data(103), num_samples=103)),
            "told to draw 103 of 103",
        ),
        (DataLoader(data(103), 10, shuffle=True, num_workers=1, in_order=False), "in_order=False"),
    ]
    for loader, words in strange:
        model, optimizer = left(loader)
        train(model, optimizer, loader, 11)
        found = inspect(optimizer, data_loader=loader)
        assert (found.verdict, found.spent.guarantee) == ("undetermined", None)
        assert words in str(found)


# --- what is said ------------------------------------------------------------------------------------------------------


def test_numbers_without_a_verdict_have_their_condition() -> None:
    loader = DataLoader(data(97), 10, shuffle=True)
    model, optimizer = left(loader, noise_multiplier=0.1)
    train(model, optimizer, loader, 10)
    found = inspect(optimizer, data_loader=loader)
    assert found.spent.guarantee is not None
    assert "every epoch comes to its end, random numbers are never started again" in str(found)


def test_before_the_first_step_nothing_was_counted() -> None:
    loader = allocation_loader(data(103), batches=10)
    _, optimizer = left(loader)
    fix(optimizer, denominator=10, data_loader=loader)
    found = str(inspect(optimizer, data_loader=loader))
    assert "steps: 10 (told: none was taken so far" in found
    assert "counted by the accountant" not in found
    assert "verdict     holds, if every step is one new batch of this loader, every epoch comes to its end" in found


def test_no_remedy_is_offered_that_was_taken() -> None:
    loader = allocation_loader(data(103), batches=10)
    accountant = Accountant()
    model, optimizer = left(loader, accountant)
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 4)
    train(model, optimizer, loader, 10)
    found = inspect(optimizer, data_loader=loader)
    assert found.verdict == "undetermined"
    assert found.remedy.startswith("none for the loader or the denominator")
    assert "go through each to its end" in str(found)
    assert "rate: 1/10 (seen: a constant that allocation_loader was given)" in str(found)
    assert "sampler: balls-in-bins" in str(found)


def test_one_batch_of_all_records_is_the_claim() -> None:
    for loader in (allocation_loader(data(7), batches=1), DataLoader(data(7), 10, shuffle=True)):
        model, optimizer = left(loader)
        fix(optimizer, denominator=7, data_loader=loader)
        train(model, optimizer, loader, 3)
        assert inspect(optimizer, data_loader=loader).verdict == "holds"
