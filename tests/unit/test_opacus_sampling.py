"""Opacus with poisson_sampling=False: how a loader draws is seen, its three numbers are those of `nm.account`, and the remedy works.

103 records in batches of 10 are 11 batches, with one record more or less too.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import noisymean as nm
from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch
from opacus.schedulers import LambdaNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from noisymean.grounds import About, Known
from noisymean.integrations.opacus import (
    Accountant,
    NoGuarantee,
    RandomAllocationSampler,
    allocation_loader,
    fix,
    inspect,
    poisson_loader,
    register,
)
from noisymean.integrations.opacus.sampler import Drawn, agreed, not_cut, of_loader, told
from noisymean.integrations.opacus.seen import Seen
from noisymean.mechanisms import Adjacency, Sampling
from noisymean.outward import at_least, at_most
from opacus_training import FEATURES, PARAMETERS, private, train

# of Opacus: that its random numbers are not secure, and that a hook will not fire
pytestmark = pytest.mark.filterwarnings("ignore")

RECORDS, BATCH, LENGTH, DELTA = 103, 10, 11, 1e-5


def data(records: int = RECORDS) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(records, FEATURES), torch.randint(0, 2, (records,)))


def left(loader: Any, accountant: Any = None, **options: Any) -> tuple[Any, Any, Any]:
    """(model, optimizer, loader) of make_private, which leaves the loader as it is."""
    made = private(len(loader.dataset), loader=loader, accountant=accountant, poisson_sampling=False, **options)
    assert made[3] is loader
    return made[1:]


def shuffled(records: int = RECORDS, batch_size: int = BATCH, **options: Any) -> Any:
    return DataLoader(data(records), batch_size=batch_size, shuffle=True, **options)


def allocated(records: int = RECORDS, batches: int = BATCH, **options: Any) -> Any:
    return allocation_loader(data(records), batches=batches, **options)


def no_number(accountant: Accountant, words: str) -> None:
    with pytest.warns(NoGuarantee, match=words):
        assert accountant.get_epsilon(DELTA) == math.inf
    assert accountant.spent(DELTA).verdict == "undetermined"


def undetermined(found: Any, words: str) -> None:
    assert (found.verdict, found.spent.guarantee, found.spent.leakage) == ("undetermined", None, None)
    assert words in str(found)


# --- how a loader draws ------------------------------------------------------------------------------------------------


def test_each_way_is_seen_for_what_it_is() -> None:
    dataset = data()
    ways: list[tuple[Any, str, int | None, bool | None, float, str]] = [
        (DataLoader(dataset, BATCH, shuffle=True), "shuffle", 10, False, 1 / 11, "RandomSampler of the data loader"),
        (DataLoader(dataset, BATCH, shuffle=True, drop_last=True), "shuffle", 10, True, 1 / 10, "the last one dropped"),
        (DataLoader(dataset, BATCH), "cyclic", 10, False, 1 / 11, "SequentialSampler of the data loader"),
        (
            DataLoader(dataset, batch_sampler=BatchSampler(RandomSampler(dataset), 20, drop_last=False)),
            "shuffle",
            20,
            False,
            1 / 6,
            "batches of 20",
        ),
        (DataLoader(dataset, 200, shuffle=True), "shuffle", 200, False, 1.0, "batches of 200"),
        (allocation_loader(dataset, batches=7), "balls-in-bins", None, None, 1 / 7, "7 batches"),
        (DataLoader(Subset(dataset, range(53)), BATCH), "cyclic", 10, False, 1 / 6, "SequentialSampler"),
    ]
    for loader, sampling, size, drop_last, rate, how in ways:
        drawn = of_loader(loader)
        assert drawn.sampling is Sampling(sampling)
        assert (drawn.batch_size, drawn.drop_last, drawn.rate) == (size, drop_last, rate)
        assert (drawn.records, drawn.known, drawn.poisson) == (len(loader.dataset), Known.SEEN, False)
        assert how in drawn.how
        # a loader whose length is told is one whose rate is
        assert (drawn.public_rate, 1 / len(loader)) == (sampling == "balls-in-bins", rate)
        assert Drawn.from_plain(json.loads(json.dumps(drawn.plain()))) == drawn
    assert of_loader(poisson_loader(dataset, sample_rate="1/10")).sampling is Sampling.POISSON


class Stream(IterableDataset[Any]):
    def __len__(self) -> int:
        return RECORDS

    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.randn(FEATURES), i % 2) for i in range(RECORDS)])


class OwnRandom(RandomSampler):
    pass


class OwnBatches(BatchSampler):
    pass


class OwnAllocation(RandomAllocationSampler):
    pass


class Repeating(DataLoader[Any]):
    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return iter([next(super().__iter__())] * len(self))


def strange_loaders() -> list[tuple[Any, str]]:
    dataset = data()

    def by(sampler: Any) -> Any:
        return DataLoader(dataset, BATCH, sampler=sampler)

    return [
        (by(RandomSampler(dataset, replacement=True)), "with replacement"),
        (by(RandomSampler(dataset, num_samples=50)), "50 of 103 records"),
        (by(RandomSampler(dataset, num_samples=206)), "206 of 103 records"),
        (by(RandomSampler(data(99))), "a sampler of 99 records, and a dataset of 103"),
        (by(SequentialSampler(data(99))), "a sampler of 99 records, and a dataset of 103"),
        (by(OwnRandom(dataset)), "drawn by its OwnRandom"),
        (by(WeightedRandomSampler(torch.ones(RECORDS).tolist(), RECORDS)), "drawn by its WeightedRandomSampler"),
        (by(SubsetRandomSampler(range(RECORDS))), "drawn by its SubsetRandomSampler"),
        (by(list(range(RECORDS))), "drawn by its list"),
        (DataLoader(dataset, batch_sampler=OwnBatches(RandomSampler(dataset), 10, drop_last=False)), "its OwnBatches"),
        (DataLoader(dataset, batch_sampler=OwnAllocation(num_samples=RECORDS, batches=10)), "its OwnAllocation"),
        (
            DataLoader(dataset, batch_sampler=RandomAllocationSampler(num_samples=50, batches=10)),
            "a sampler of 50 records, and a dataset of 103",
        ),
        (allocation_loader(dataset, batches=10, rand_on_empty=True), "a record that is made up"),
        (Repeating(dataset, BATCH, shuffle=True), "hands out batches in a way of its own"),
        (DataLoader(Stream(), batch_size=BATCH), "no Poisson sampling"),
    ]


@pytest.mark.parametrize("ours", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_only_looks_like_it_has_no_number(ours: bool) -> None:
    for loader, words in strange_loaders():
        accountant = Accountant() if ours else None
        model, optimizer, _ = left(loader, accountant)
        train(model, optimizer, loader, 2)
        found = inspect(optimizer, data_loader=loader, batch_size=BATCH, drop_last=False)
        undetermined(found, words)
        # what costs what is not said of a run that nobody knows
        assert "poisson_loader(train_set, sample_rate='1/" in found.remedy
        assert "(epsilon" not in found.remedy
        if accountant is not None:
            no_number(accountant, "no Poisson sampling")
        with pytest.raises(InvalidInput, match="must be one that draws in a way that is known"):
            fix(optimizer, denominator=10, data_loader=loader)


def test_said_and_seen() -> None:
    loader = shuffled()
    model, optimizer, _ = left(loader)
    train(model, optimizer, loader, LENGTH)
    for said in ("poisson", "cyclic", "balls-in-bins", "fixed-size"):
        found = inspect(optimizer, data_loader=loader, sampling=said)
        undetermined(found, f"sampling='{said}' is ")
        assert "one of them is wrong" in str(found)
    same = inspect(optimizer, data_loader=loader, sampling="shuffle")
    assert same.spent == inspect(optimizer, data_loader=loader).spent
    # said alone: the same numbers, told
    alone = inspect(optimizer, dataset_size=RECORDS, sampling="shuffle", batch_size=BATCH, drop_last=False)
    assert (alone.spent.leakage, alone.spent.guarantee) == (same.spent.leakage, same.spent.guarantee)
    assert {ground.about: ground.known for ground in alone.spent.grounds}[About.SAMPLER] is Known.TOLD
    assert "every epoch comes to its end" in str(alone)
    # a rate is not made public by a word: one record more may be another batch
    assert inspect(
        optimizer, dataset_size=RECORDS, sampling="shuffle", batch_size=BATCH, sample_rate="1/11"
    ).mechanisms == (*alone.mechanisms,)
    undetermined(inspect(optimizer, dataset_size=RECORDS, sampling="fixed-size"), "nm.account has numbers")
    undetermined(inspect(optimizer, dataset_size=RECORDS, sampling="balls-in-bins"), "give make_private an allocation_")
    complaints: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 20}, "batch_size=20: must be that of the data loader, 10"),
        ({"drop_last": True}, "drop_last=True: must be that of the data loader, False"),
        ({"dataset_size": 99}, "dataset_size=99: must be the records of the data loader, 103"),
    ]
    for wrong, words in complaints:
        with pytest.raises(InvalidInput, match=words):
            inspect(optimizer, data_loader=loader, **wrong)
    with pytest.raises(InvalidInput, match="batch_size=50: must be such that there are 11 batches"):
        inspect(optimizer, dataset_size=RECORDS, sampling="shuffle", batch_size=50)
    # two accounts of one loader
    assert agreed(of_loader(loader), told("shuffle")) == agreed(told("shuffle"), of_loader(loader)) == of_loader(loader)
    assert agreed(of_loader(shuffled()), of_loader(shuffled(batch_size=11))).sampling is None


# --- three numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shuffle", "drop_last"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("denominator", ["floor", "constant", "sum"])
@pytest.mark.parametrize("ours", [False, True])
def test_three_numbers_and_two_sizes(shuffle: bool, drop_last: bool, denominator: str, ours: bool) -> None:
    loader = DataLoader(data(), BATCH, shuffle=shuffle, drop_last=drop_last)
    options = {"loss_reduction": "sum"} if denominator == "sum" else {}
    accountant = Accountant() if ours else None
    model, optimizer, _ = left(loader, accountant, **options)
    if denominator == "constant":
        fix(optimizer, denominator=10, data_loader=loader)
    steps = 2 * len(loader)
    train(model, optimizer, loader, steps)
    found = inspect(optimizer, data_loader=loader)
    sampling = Sampling.SHUFFLE if shuffle else Sampling.CYCLIC

    def mechanism(smaller: int) -> nm.Mechanism:
        common: dict[str, Any] = {"dataset_size": smaller, "batch_size": BATCH, "noise_multiplier": 1.0}
        common |= {"sampling": sampling, "drop_last": drop_last}
        if denominator == "floor":
            return nm.OpacusLoader(dimension=PARAMETERS, **common)
        return nm.SGM(sample_rate=Fraction(1, len(loader)), **common)

    assert found.mechanisms == (mechanism(RECORDS), mechanism(RECORDS - 1))
    each = [
        nm.account(mechanism(size), steps=steps, delta=DELTA, adjacency=Adjacency.ADD_REMOVE, pair="larger")
        for size in (RECORDS, RECORDS - 1)
    ]
    leaks, sound = zip(*((one.leakage.epsilon, one.guarantee.epsilon) for one in each), strict=True)
    assert found.spent.leakage == pytest.approx(max(leaks), rel=1e-9)
    assert found.spent.guarantee == pytest.approx(max(sound), rel=1e-9)
    claim = nm.account(nm.SGM(sample_rate=Fraction(1, len(loader)), noise_multiplier=1.0), steps=steps, delta=DELTA)
    assert found.spent.claimed == pytest.approx(claim.claimed.epsilon, rel=1e-9)
    assert found.verdict == "violated"
    # nobody has looked at an epoch that another accountant has counted
    assert ("verdict     violated\n" in str(found)) == ours
    assert ("every epoch comes to its end" in str(found)) == (not ours)
    sampler, rate = found.spent.grounds[:2]
    assert (sampler.value, sampler.known, rate.known) == (sampling.value, Known.SEEN, Known.SEEN)
    zeroed = nm.account(
        nm.SGM(
            sample_rate=Fraction(1, len(loader)),
            noise_multiplier=1.0,
            sampling=sampling,
            dataset_size=RECORDS,
            batch_size=BATCH,
            drop_last=drop_last,
        ),
        steps=steps,
        delta=DELTA,
        adjacency=Adjacency.ZERO_OUT,
    )
    assert zeroed.leakage.epsilon is not None
    assert zeroed.guarantee.epsilon is not None
    assert (
        "for neighbours of the same size, one record's gradient set to zero (zero-out): leakage"
        f" {at_least(zeroed.leakage.epsilon)}, guarantee {at_most(zeroed.guarantee.epsilon)}"
    ) in found.spent.notes
    if accountant is not None:
        assert accountant.get_epsilon(DELTA) == found.spent.guarantee


def test_a_number_of_batches_that_moves_has_no_guarantee() -> None:
    loader = shuffled(100)
    model, optimizer, _ = left(loader)
    train(model, optimizer, loader, 10)
    found = inspect(optimizer, data_loader=loader)
    assert (found.verdict, found.spent.guarantee) == ("violated", None)
    assert "100 records against 101: no guarantee is known" in str(found)


def test_before_the_first_step_an_epoch_is_shown() -> None:
    loader = shuffled()
    _, optimizer, _ = left(loader)
    found = inspect(optimizer, data_loader=loader)
    assert (found.taken, found.steps) == (0, LENGTH)
    assert "none so far: what an epoch of them costs is shown" in str(found)


def test_noise_that_is_calibrated_to_the_length_of_the_loader() -> None:
    from opacus import PrivacyEngine

    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": DELTA, "epochs": 1}
    model = nn.Linear(FEATURES, 2)
    model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=shuffled(),
        max_grad_norm=1.0,
        poisson_sampling=False,
        **target,
    )
    train(model, optimizer, loader, LENGTH)
    undetermined(inspect(optimizer, data_loader=loader), "may have been calibrated")
    found = inspect(optimizer, data_loader=loader, **target)
    assert found.verdict == "violated"
    assert found.spent.guarantee is not None


def test_a_count_of_unclipped_gradients_is_no_number_for_one_that_is_zero() -> None:
    adaptive = {
        "clipping": "adaptive",
        "target_unclipped_quantile": 0.5,
        "clipbound_learning_rate": 0.2,
        "max_clipbound": 10.0,
        "min_clipbound": 0.1,
        "unclipped_num_std": 1.0,
    }
    loader = shuffled()
    model, optimizer, _ = left(loader, **adaptive)
    undetermined(inspect(optimizer, data_loader=loader), "divides its noisy count by the size of the batch")
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, LENGTH)
    found = inspect(optimizer, data_loader=loader)
    assert found.verdict == "violated"
    assert "zero-out" not in str(found)


# --- the remedy --------------------------------------------------------------------------------------------------------


def test_the_remedy_as_it_is_printed() -> None:
    """Both of its ways, each with the epsilon that is printed beside it."""
    train_set = data()
    loader = DataLoader(train_set, BATCH, shuffle=True)
    model, optimizer, _ = left(loader)
    train(model, optimizer, loader, 3 * LENGTH)
    remedy = inspect(optimizer, data_loader=loader).remedy
    printed = re.fullmatch(
        r"give make_private (poisson_loader\(.*?\)) \(epsilon (.*?)\), or (allocation_loader\(.*?\)) with (poisson_sampling"
        r"=False) \(epsilon (.*?)\), and take the loader that it returns, then (fix\(.*\))",
        remedy,
    )
    assert printed is not None, remedy
    poisson, costs, allocation, option, less, fixing = printed.groups()
    assert (poisson, allocation) == (
        "poisson_loader(train_set, sample_rate='1/11')",
        "allocation_loader(train_set, batches=11)",
    )
    assert float(less) < float(costs)
    without: dict[str, Any] = {option.split("=")[0]: False}
    for call, options, epsilon in ((poisson, {}, costs), (allocation, without, less)):
        names = {"train_set": train_set, "poisson_loader": poisson_loader, "allocation_loader": allocation_loader}
        accountant = Accountant()
        _, model, optimizer, loader = private(RECORDS, loader=eval(call, names), accountant=accountant, **options)
        eval(fixing, {"fix": fix, "optimizer": optimizer, "loader": loader})
        train(model, optimizer, loader, 3 * LENGTH)
        found = inspect(optimizer, data_loader=loader)
        assert (found.verdict, found.remedy[:11]) == ("holds", "none needed")
        assert at_most(accountant.get_epsilon(DELTA), ".4g") == epsilon


# --- random allocation -------------------------------------------------------------------------------------------------


def test_every_record_is_in_one_batch_and_all_batches_are_as_likely() -> None:
    records, batches, epochs = 60, 7, 2000
    sampler = RandomAllocationSampler(
        num_samples=records, batches=batches, generator=torch.Generator().manual_seed(20260101)
    )
    counts, pairs = np.zeros((records, batches)), np.zeros((batches, batches))
    for _ in range(epochs):
        drawn = list(sampler)
        assert len(drawn) == len(sampler) == batches
        assert sorted(itertools.chain.from_iterable(drawn)) == list(range(records))
        where = {record: at for at, batch in enumerate(drawn) for record in batch}
        for record, at in where.items():
            counts[record, at] += 1
        # two records by themselves, and one record from one epoch to the next
        pairs[where[0], where[59]] += 1
    for found, freedom in ((counts, records * (batches - 1)), (pairs, batches**2 - 1)):
        expected = found.sum() / found.size
        assert chi2.sf(float(((found - expected) ** 2 / expected).sum()), freedom) > 1e-3
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="batches="):
            RandomAllocationSampler(num_samples=5, batches=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="distributed=True: must be left out"):
        allocated(distributed=True)


def test_a_generator_makes_it_repeatable_and_epochs_differ() -> None:
    first, second = (allocated(generator=torch.Generator().manual_seed(3)) for _ in range(2))
    epochs = [[features.clone() for features, _ in loader] for loader in (first, second, first)]
    assert all(torch.equal(one, other) for one, other in zip(epochs[0], epochs[1], strict=True))
    assert [len(one) for one in epochs[0]] != [len(one) for one in epochs[2]]
    assert sum(len(one) for one in epochs[2]) == RECORDS


def test_plain_pytorch_trains_on_it() -> None:
    """Without Opacus' engine, on more batches than there are records: some are empty, the first one may be."""
    loader = allocation_loader(data(5), batches=9, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(FEATURES, 2)
    sizes = Counter[int]()
    for _ in range(4):
        for features, labels in loader:
            assert features.shape == (len(labels), FEATURES)
            assert model(features).shape == (len(labels), 2)
            sizes[len(labels)] += 1
    assert sum(sizes.values()) == 36
    assert sizes[0] > 10


@pytest.mark.parametrize("ours", [False, True])
def test_fixed_it_holds(ours: bool) -> None:
    accountant = Accountant() if ours else None
    loader = allocated()
    model, optimizer, _ = left(loader, accountant)
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 30)
    found = inspect(optimizer, data_loader=loader)
    assert (found.name, found.verdict) == ("SGM", "holds")
    mechanism = nm.SGM(sample_rate="1/10", noise_multiplier=1.0, sampling="balls-in-bins")
    assert found.mechanisms == (mechanism,)
    expected = nm.account(mechanism, steps=30, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    assert found.spent.guarantee == pytest.approx(expected.guarantee.epsilon)
    assert found.spent.leakage == pytest.approx(expected.leakage.epsilon)
    assert found.spent.guarantee < found.spent.claimed
    # Opacus' accountant is told one over the number of batches
    assert found.stretches[0].sample_rate == 1 / 10
    text = str(found)
    assert "sampler: balls-in-bins (seen: RandomAllocationSampler of the data loader, 10 batches)" in text
    assert "rate: 1/10 (seen: a constant that allocation_loader was given)" in text
    # one record that is added is one that was zero: nothing else to say
    assert "zero-out" not in text
    if accountant is not None:
        assert accountant.get_epsilon(DELTA) == found.spent.guarantee
        assert inspect(optimizer).verdict == "holds"


def test_what_opacus_divides_by_is_seen() -> None:
    """int(100/10) is 10, and 9 on 99 records: the floor moves, and with it the noise of every number."""
    for records, verdict in ((100, "violated"), (RECORDS, "holds")):
        loader = allocated(records)
        model, optimizer, _ = left(loader)
        train(model, optimizer, loader, 30)
        found = inspect(optimizer, data_loader=loader)
        assert (found.name, found.verdict) == ("FEASGM", verdict)
        each = [
            nm.account(
                nm.FEASGM(
                    dataset_size=smaller,
                    dimension=PARAMETERS,
                    sample_rate="1/10",
                    noise_multiplier=1.0,
                    sampling="balls-in-bins",
                ),
                steps=30,
                delta=DELTA,
                pair="larger",
            )
            for smaller in (records, records - 1)
        ]
        assert found.spent.leakage == pytest.approx(max(one.leakage.epsilon or 0.0 for one in each), rel=1e-9)
        assert found.spent.guarantee == pytest.approx(max(one.guarantee.epsilon or 0.0 for one in each), rel=1e-9)
        assert "zero-out" in str(found)
        assert found.remedy.endswith("fix(optimizer, denominator=10, data_loader=loader)")
        assert "make_private" not in found.remedy


def test_left_to_make_private_it_is_poisson_sampling_at_a_rate_that_was_given() -> None:
    _, model, optimizer, loader = private(RECORDS, loader=allocated())
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 5)
    found = inspect(optimizer, data_loader=loader)
    assert (found.verdict, found.mechanisms) == ("holds", (nm.SGM(sample_rate="1/10", noise_multiplier=1.0),))


def test_a_step_on_an_empty_batch_is_noise_and_has_to_be_taken() -> None:
    for leave_out in (False, True):
        accountant = Accountant()
        loader = allocated(20, 20)
        model, optimizer, _ = left(loader, accountant)
        fix(optimizer, denominator=1)
        torch.manual_seed(5)
        sizes = []
        for features, labels in loader:
            if leave_out and not len(labels):
                continue
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
            sizes.append(len(labels))
            if not len(labels):
                # nothing but noise over the denominator
                released = torch.cat([parameter.grad.flatten() for parameter in optimizer.params])
                assert 0.5 < float(released.std()) < 1.6
        assert sum(sizes) == 20
        if leave_out:
            no_number(accountant, "an empty batch was left out")
        else:
            assert sizes.count(0) > 3
            assert math.isfinite(accountant.get_epsilon(DELTA))


# --- epochs ------------------------------------------------------------------------------------------------------------


def watched(loader: Any, epochs: int = 1) -> tuple[Accountant, Any, Any]:
    accountant = Accountant()
    model, optimizer, _ = left(loader, accountant)
    train(model, optimizer, loader, epochs * len(loader))
    assert math.isfinite(accountant.get_epsilon(DELTA))
    return accountant, model, optimizer


@pytest.mark.parametrize("make", [shuffled, allocated])
def test_epochs_come_to_their_end(make: Any) -> None:
    loader = make()
    accountant, model, optimizer = watched(loader, 2)
    # the last one may be under way
    train(model, optimizer, loader, 3)
    assert math.isfinite(accountant.get_epsilon(DELTA))
    train(model, optimizer, loader, 1)
    no_number(accountant, "an epoch was begun while")
    # one that is only looked at is no part of the run, between epochs and not within one
    loader = make()
    accountant, model, optimizer = watched(loader)
    next(iter(loader))
    train(model, optimizer, loader, len(loader))
    assert math.isfinite(accountant.get_epsilon(DELTA))
    train(model, optimizer, loader, 1)
    next(iter(loader))
    train(model, optimizer, loader, 1)
    no_number(accountant, "an epoch was begun while")
    # two at a time
    loader = make()
    accountant, model, optimizer = watched(loader)
    for first, second in itertools.islice(zip(loader, loader, strict=True), 2):
        train(model, optimizer, [first, second], 2)
    no_number(accountant, "for the second time|drew another batch")


@pytest.mark.parametrize("make", [shuffled, allocated])
def test_a_step_is_one_new_batch_of_the_loader(make: Any) -> None:
    loader = make()
    accountant, model, optimizer = watched(loader)
    batches = list(loader)
    train(model, optimizer, batches, len(batches))
    assert math.isfinite(accountant.get_epsilon(DELTA))
    train(model, optimizer, batches, 1)
    no_number(accountant, "or on one for the second time")
    loader = make()
    accountant, model, optimizer = watched(loader)
    features, labels = next(iter(loader))
    train(model, optimizer, [(torch.cat([features, features]), torch.cat([labels, labels]))], 1)
    no_number(accountant, "drew another batch|a batch had 20 records")


@pytest.mark.parametrize("make", [shuffled, allocated])
def test_the_same_epoch_again(make: Any) -> None:
    source = torch.Generator()
    loader = make(generator=source)
    accountant, model, optimizer = watched(loader)
    for _ in range(2):
        source.manual_seed(3)
        train(model, optimizer, loader, len(loader))
    no_number(accountant, "the data loader drew the same batches again")
    # in order it is the same by right
    watched(DataLoader(data(), BATCH), 3)


@pytest.mark.parametrize("make", [shuffled, allocated])
def test_a_loader_that_is_changed_on_the_way(make: Any) -> None:
    loader = make()
    accountant, model, optimizer = watched(loader)
    if make is shuffled:
        loader.batch_sampler.sampler = SequentialSampler(loader.dataset)
    else:
        loader.batch_sampler.batches = 20
    train(model, optimizer, loader, 1)
    no_number(accountant, "the data loader was changed after make_private")


def test_noise_that_changes_with_the_epoch_and_within() -> None:
    loader = shuffled()
    accountant, model, optimizer = watched(loader)
    schedule = LambdaNoise(optimizer, noise_lambda=lambda epoch: 2.0**epoch)
    schedule.step()
    train(model, optimizer, loader, LENGTH)
    found = inspect(optimizer, data_loader=loader)
    assert [one.steps for one in found.stretches] == [LENGTH, LENGTH]
    assert (found.verdict, found.spent.guarantee is not None) == ("violated", True)
    batches = iter(loader)
    train(model, optimizer, itertools.islice(batches, 2), 2)
    schedule.step()
    train(model, optimizer, batches, 2)
    no_number(accountant, "in the middle of an epoch")


def test_batches_of_two_ways_one_after_the_other() -> None:
    accountant, _, _ = watched(shuffled())
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    torch.manual_seed(1)
    train(model, optimizer, loader, 2)
    no_number(accountant, "drawn in several ways|a batch had")


@pytest.mark.parametrize("steps", [LENGTH, 4])
def test_checkpoints_are_of_whole_epochs(steps: int) -> None:
    """A run that goes on begins another epoch: after one that was left a record may be in more batches than there are epochs."""
    first = Accountant()
    loader = shuffled()
    model, optimizer, _ = left(loader, first)
    train(model, optimizer, loader, steps)
    again = Accountant()
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert again.get_epsilon(DELTA) == first.get_epsilon(DELTA)
    assert again.state_dict() == first.state_dict()
    loader = shuffled()
    model, optimizer, _ = left(loader, again)
    torch.manual_seed(1)
    train(model, optimizer, loader, 2 * LENGTH)
    if steps == LENGTH:
        expected = nm.OpacusLoader(
            dataset_size=RECORDS, batch_size=BATCH, dimension=PARAMETERS, noise_multiplier=1.0, sampling="shuffle"
        )
        whole = nm.account(expected, steps=3 * LENGTH, delta=DELTA)
        assert again.get_epsilon(DELTA) == pytest.approx(whole.guarantee.epsilon, rel=1e-9)
    else:
        no_number(again, "an epoch was begun while 7 batches")


def test_checkpoints_that_knew_poisson_sampling_only() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 3)
    state = json.loads(json.dumps(accountant.state_dict()))
    epsilon = accountant.get_epsilon(DELTA)

    def old(drawn: dict[str, Any], poisson: bool | None) -> dict[str, Any]:
        kept = ("known", "how", "rate", "records", "public_rate")
        return {"poisson": poisson, **{name: drawn[name] for name in kept}}

    for poisson in (True, False, None):
        seen = [{**one, "drawn": old(one["drawn"], poisson)} for one in state["seen"]]
        for one in seen:
            del one["counts"]
        used = {name: state["used"][name] for name in ("noises", "batches")}
        again = Accountant()
        again.load_state_dict({**state, "seen": seen, "used": used, "drawn": old(state["drawn"], None)})
        assert all(one.seen.drawn.poisson is poisson for one in again.stretches())
        if poisson:
            assert again.get_epsilon(DELTA) == epsilon
        else:
            with pytest.warns(NoGuarantee):
                assert again.get_epsilon(DELTA) == math.inf
    with pytest.raises(InvalidInput, match="written by this release"):
        Drawn.from_plain({**state["drawn"], "surprise": 1})
    assert Seen.from_plain(state["seen"][0]).drawn.sampling is Sampling.POISSON


# --- what else can be done with a loader -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shuffled, allocated])
def test_batches_that_are_cut_for_memory_or_fetched_ahead(make: Any) -> None:
    loader = make()
    accountant, model, optimizer = watched(loader)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as cut:
        for batch in cut:
            train(model, optimizer, [batch], 1)
        found = inspect(optimizer, data_loader=cut)
    assert (found.taken, found.spent.guarantee) == (2 * len(loader), accountant.get_epsilon(DELTA))
    assert found.spent.guarantee is not None
    watched(make(num_workers=1), 2)


def test_several_batches_for_one_step() -> None:
    loader = shuffled()
    accountant, model, optimizer = watched(loader)
    optimizer.zero_grad()
    for features, labels in itertools.islice(loader, 2):
        nn.functional.cross_entropy(model(features), labels).backward()
    optimizer.step()
    no_number(accountant, "2 batches were drawn for one step")


def test_workers_that_draw_for_themselves() -> None:
    for loader in (shuffled(), allocated()):
        model, optimizer, _ = left(loader)
        train(model, optimizer, loader, len(loader))
        optimizer.world_size = 2
        undetermined(inspect(optimizer, data_loader=loader), "each of 2 workers draws its own batches")
        # nor is anything known of the steps before a fix
        fix(optimizer, denominator=10, data_loader=loader)
        undetermined(inspect(optimizer, data_loader=loader), "each of 2 workers draws its own batches")


def test_calibrated_for_random_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    from opacus import PrivacyEngine
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    name = register(dataset_size=RECORDS, denominator=10, sample_rate="1/10", sampling="balls-in-bins")
    engine, model = PrivacyEngine(accountant=name), nn.Linear(FEATURES, 2)
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=allocated(),
        poisson_sampling=False,
        max_grad_norm=1.0,
        target_epsilon=3.0,
        target_delta=DELTA,
        epochs=1,
        epsilon_tolerance=0.1,
    )
    fix(optimizer, denominator=10)
    train(model, optimizer, loader, 10)
    found = inspect(optimizer)
    assert (found.verdict, found.name) == ("holds", "SGM")
    assert 2.9 <= engine.get_epsilon(DELTA) <= 3.0
    # Poisson sampling would have taken more noise
    assert found.spent.claimed > 3.0


def test_sizes_that_are_not_cut() -> None:
    for sizes, why_not in (
        ({10: 20, 3: 2}, None),
        ({10: 20, 4: 1}, "a batch had 4 records: 103 are not cut so into batches of 10"),
        ({0: 1}, "a batch had 0 records"),
    ):
        found = not_cut(Counter(sizes), RECORDS, BATCH, drop_last=False)
        assert found is None if why_not is None else why_not in (found or "")
    assert not_cut(Counter({10: 20, 3: 2}), RECORDS, BATCH, drop_last=True) is not None
    assert not_cut(Counter({7: 2}), 7, BATCH, drop_last=False) is None
    # a loader that is said to be one, and whose batches say otherwise
    accountant = Accountant(sampling="cyclic", batch_size=20, drop_last=False, dataset_size=RECORDS, dimension=3)
    accountant.record(1.0, 1 / 6, None, 17)
    no_number(accountant, "a batch had 17 records")


def test_more_records_in_a_batch_than_there_are() -> None:
    """One batch of all of the records, as many as they are: the denominator moves, and nothing else."""
    loader = shuffled(7)
    model, optimizer, _ = left(loader)
    train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader)
    assert found.verdict != "holds"
    fix(optimizer, denominator=10)
    _, constant, _ = left(loader)
    fix(constant, denominator=10, data_loader=loader)
    # and with a constant it is the Gaussian mechanism, which is what was claimed
    sound = inspect(constant, data_loader=loader)
    assert sound.spent.guarantee == pytest.approx(sound.spent.claimed, rel=1e-3)
