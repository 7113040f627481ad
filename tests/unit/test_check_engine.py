"""The scorecard of a run with Opacus: what the run shows passes, what somebody only says or nobody looked at does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, Subset

import noisymean as nm
from noisymean.integrations.opacus import Accountant, allocation_loader, fix
from noisymean.scorecard import Outcome, Scorecard
from opacus_training import FEATURES, PARAMETERS, private, train
from scorecards import found, passed

# of Opacus: that its random numbers are not secure, and that a hook will not fire
pytestmark = pytest.mark.filterwarnings("ignore")

# 103 records in batches of 10: 11 batches, a denominator of int(103 / 11) = 9
RECORDS, BATCH = 103, 10
OF_THE_OPTIMIZER = {"P02", "P03", "P05"}
OF_THE_STEPS = {"P06", "P10", "P11", "P13"}


@pytest.fixture(autouse=True)
def another_seed() -> None:
    """`private` seeds torch with 0 while it makes records; a seed that cannot be found by trying is set by each test."""
    torch.manual_seed(0)


def step(model: Any, optimizer: Any, batch: Any) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def why(card: Scorecard, pitfall: str) -> str:
    return card[pitfall].why


# --- as it is usually run ----------------------------------------------------------------------------------------------


def test_an_ordinary_run() -> None:
    engine, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 3)
    card = nm.check(engine, data_loader=loader)
    assert {"P01", "P07"} <= found(card)
    assert why(card, "P01").startswith("divides by 9,")
    # Opacus' own accountant looks at no step
    assert passed(card) == OF_THE_OPTIMIZER
    assert card.counts[Outcome.PASSED] == len(OF_THE_OPTIMIZER)
    again = nm.check(optimizer, data_loader=loader)
    assert [one.outcome for one in again.rows] == [one.outcome for one in card.rows]


def test_fixed_and_watched() -> None:
    _, model, optimizer, loader = private(RECORDS, sample_rate="1/10", accountant=Accountant())
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 12)
    card = nm.check(optimizer, data_loader=loader)
    assert passed(card) == {"P01", "P07"} | OF_THE_OPTIMIZER | OF_THE_STEPS
    # the records of these tests come from the seed 0
    assert found(card) == {"P12"}
    # nobody sees where a noise multiplier of 1 comes from, and an engine has no delta
    assert {"P08", "P09"} <= {one.pitfall.id for one in card.rows if one.outcome is Outcome.NOT_CHECKABLE}


def test_fixed_and_not_watched() -> None:
    _, model, optimizer, loader = private(RECORDS, sample_rate="1/10")
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 3)
    assert passed(nm.check(optimizer, data_loader=loader)) == {"P01", "P07"} | OF_THE_OPTIMIZER


def test_before_the_first_step_nothing_of_the_steps_is_passed() -> None:
    _, _, optimizer, loader = private(RECORDS, sample_rate="1/10", accountant=Accountant())
    fix(optimizer, denominator=10, data_loader=loader)
    assert not passed(nm.check(optimizer, data_loader=loader)) & OF_THE_STEPS


def test_without_the_loader() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 2)
    card = nm.check(optimizer, dataset_size=RECORDS)
    assert not passed(card) & {"P06", "P07", "P10", "P11"}
    with pytest.raises(InvalidInput, match="dataset_size"):
        nm.check(optimizer)


def test_what_is_only_said_is_not_passed() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 2)
    card = nm.check(optimizer, dataset_size=RECORDS, sampling="poisson", noise_multiplier=1.0)
    assert not passed(card) & {"P06", "P07", "P08", "P10", "P11"}


# --- pitfalls ----------------------------------------------------------------------------------------------------------


def test_a_loader_that_is_not_poisson() -> None:
    for loader, words in (
        (None, "cyclic"),
        (DataLoader(private(RECORDS, batch_size=BATCH)[3].dataset, batch_size=BATCH, shuffle=True), "shuffle"),
    ):
        _, model, optimizer, ours = private(RECORDS, batch_size=BATCH, loader=loader, poisson_sampling=False)
        train(model, optimizer, ours, 3)
        card = nm.check(optimizer, data_loader=ours)
        assert "P06" in found(card)
        assert why(card, "P06").startswith(words)


def test_our_accountant_counts_an_allocation_as_that() -> None:
    data = private(RECORDS, batch_size=BATCH)[3].dataset
    generator = torch.Generator().manual_seed(5)
    mine = allocation_loader(data, batches=10, generator=generator)
    for accountant, outcome in ((Accountant(), Outcome.PASSED), (None, Outcome.FOUND)):
        _, model, optimizer, loader = private(RECORDS, loader=mine, accountant=accountant, poisson_sampling=False)
        fix(optimizer, denominator=10, data_loader=loader)
        train(model, optimizer, loader, 10)
        assert nm.check(optimizer, data_loader=loader)["P06"].outcome is outcome


@pytest.mark.parametrize("watched", [True, False])
def test_batches_put_together_for_a_step(watched: bool) -> None:
    _, model, optimizer, loader = private(
        RECORDS, batch_size=BATCH, poisson_sampling=False, accountant=Accountant() if watched else None
    )
    for first, second in zip(*[itertools.islice(loader, 4)] * 2, strict=True):
        optimizer.zero_grad()
        for features, labels in (first, second):
            nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    card = nm.check(optimizer, data_loader=loader)
    assert "P10" in found(card)
    assert "P11" not in passed(card)


def test_a_batch_that_is_used_twice() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())
    for batch in itertools.islice(loader, 3):
        step(model, optimizer, batch)
        step(model, optimizer, batch)
    card = nm.check(optimizer, data_loader=loader)
    assert "P10" in found(card)
    assert not passed(card) & {"P06", "P07", "P10", "P11"}


def test_batches_of_another_loader() -> None:
    """The loader that is shown is right, and the steps are not on it."""
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())
    for batch in itertools.islice(DataLoader(loader.dataset, batch_size=BATCH), 3):
        step(model, optimizer, batch)
    assert not passed(nm.check(optimizer, data_loader=loader)) & {"P06", "P10", "P11"}
    # with Opacus' own accountant nobody has looked
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    for batch in itertools.islice(DataLoader(loader.dataset, batch_size=BATCH), 3):
        step(model, optimizer, batch)
    assert not passed(nm.check(optimizer, data_loader=loader)) & {"P06", "P10", "P11"}


def test_batches_that_are_cut_are_one() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as cut:
        for batch in cut:
            step(model, optimizer, batch)
    assert {"P06", "P10", "P11"} <= passed(nm.check(optimizer, data_loader=loader))


def test_empty_batches() -> None:
    """One record a batch: every third batch is empty."""
    for leave_out, outcome in ((True, Outcome.FOUND), (False, Outcome.PASSED)):
        _, model, optimizer, loader = private(20, sample_rate="1/20", accountant=Accountant())
        fix(optimizer, denominator=1)
        for batch in itertools.islice(loader, 18):
            if len(batch[0]) or not leave_out:
                step(model, optimizer, batch)
        assert nm.check(optimizer, data_loader=loader)["P11"].outcome is outcome


def test_records_that_are_made_up() -> None:
    _, model, optimizer, loader = private(20, batch_size=1, rand_on_empty=True)
    train(model, optimizer, loader, 2)
    card = nm.check(optimizer, data_loader=loader)
    assert {"P06", "P11"} <= found(card)


def test_noise_from_the_records() -> None:
    told: dict[str, Any] = {"target_epsilon": 2.0, "target_delta": 1e-5, "epochs": 2}
    engine, _, _, loader = private(RECORDS, batch_size=BATCH, accountant="rdp")
    model = nn.Linear(FEATURES, 2)
    _, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(loader.dataset, batch_size=BATCH),
        max_grad_norm=1.0,
        **told,
    )
    assert "P08" in found(nm.check(optimizer, data_loader=loader, **told))
    # nobody says what it was calibrated to
    assert nm.check(optimizer, data_loader=loader)["P08"].outcome is Outcome.NOT_CHECKABLE


def test_delta_over_the_records() -> None:
    _, _, optimizer, loader = private(RECORDS, batch_size=BATCH)
    assert "P09" in found(nm.check(optimizer, data_loader=loader, delta=1 / RECORDS))
    assert nm.check(optimizer, data_loader=loader, delta=1e-5)["P09"].outcome is Outcome.NOT_CHECKABLE


def test_no_noise() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, noise_multiplier=0.0)
    train(model, optimizer, loader, 2)
    assert "P05" in found(nm.check(optimizer, data_loader=loader))


def test_the_noise_is_taken_out() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())

    def add_no_noise() -> None:
        for parameter in optimizer.params:
            parameter.grad = parameter.summed_grad.clone()

    optimizer.add_noise = add_no_noise
    train(model, optimizer, loader, 2)
    assert "P05" in found(nm.check(optimizer, data_loader=loader))


def test_noise_that_comes_again() -> None:
    source = torch.Generator().manual_seed(9)
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant(), noise_generator=source)
    for batch in itertools.islice(loader, 2):
        source.manual_seed(9)
        step(model, optimizer, batch)
    assert "P13" in found(nm.check(optimizer, data_loader=loader))


def test_seeds() -> None:
    for source, outcome in (
        (torch.Generator(), Outcome.FOUND),
        (torch.Generator().manual_seed(42), Outcome.FOUND),
        # 2^62 and more: nobody tries them, and nobody sees where it comes from
        (torch.Generator().manual_seed(2**62 + 12_345), Outcome.NOT_CHECKABLE),
    ):
        _, _, optimizer, loader = private(RECORDS, batch_size=BATCH, noise_generator=source)
        assert nm.check(optimizer, data_loader=loader)["P12"].outcome is outcome


def test_another_bound_than_that_of_the_noise() -> None:
    _, _, optimizer, loader = private(RECORDS, batch_size=BATCH, max_grad_norm=[1.0, 1.0], clipping="per_layer")
    optimizer.max_grad_norm = 0.1
    assert "P03" in found(nm.check(optimizer, data_loader=loader))


def test_a_denominator_that_somebody_set() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    optimizer.expected_batch_size = 37
    assert nm.check(optimizer, data_loader=loader)["P01"].outcome is Outcome.NOT_CHECKABLE
    fix(optimizer, denominator=37)
    # the promise is void
    optimizer.expected_batch_size = 38
    assert "P01" not in passed(nm.check(optimizer, data_loader=loader))
    train(model, optimizer, loader, 1)
    assert "P01" not in passed(nm.check(optimizer, data_loader=loader))


def test_steps_before_the_fix_stay_what_they_were() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 3)
    fix(optimizer, denominator=9)
    train(model, optimizer, loader, 3)
    assert "P01" in found(nm.check(optimizer, data_loader=loader))


def test_an_optimizer_of_ones_own() -> None:
    class Mine(DPOptimizer):
        def scale_grad(self) -> None:
            pass

    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    optimizer.__class__ = Mine
    assert not passed(nm.check(optimizer, data_loader=loader)) & ({"P01"} | OF_THE_OPTIMIZER)
    optimizer.__class__ = DPOptimizer
    optimizer.scale_grad = lambda: None
    assert not passed(nm.check(optimizer, data_loader=loader)) & ({"P01"} | OF_THE_OPTIMIZER)
    assert model is not None


def test_a_checkpoint_that_was_told() -> None:
    """A history that somebody writes: nobody has looked at one of its steps."""
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())
    train(model, optimizer, loader, 2)
    accountant = Accountant(dataset_size=RECORDS, dimension=PARAMETERS)
    accountant.history = [(1.0, 1 / 11, 5)]
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 2)
    assert not passed(nm.check(optimizer, data_loader=loader)) & OF_THE_STEPS


def test_batch_normalization() -> None:
    """Opacus refuses it when the model is made private; one that comes later is seen."""
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    card = nm.check(optimizer, data_loader=loader)
    assert card["P15"].outcome is Outcome.NOT_CHECKABLE
    model.add_module("norm", nn.BatchNorm1d(2))
    card = nm.check(optimizer, data_loader=loader)
    assert "P15" in found(card)
    assert "BatchNorm1d" in why(card, "P15")


def test_another_dataset_under_the_loader() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 1)
    part = DataLoader(Subset(loader.dataset, range(50)), batch_size=BATCH)
    with pytest.raises(InvalidInput, match="data_loader"):
        nm.check(optimizer, data_loader=part)


def test_a_gradient_that_is_no_number_passes_the_clipping() -> None:
    """What is said of Opacus under P17."""
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    features, labels = next(iter(loader))
    features[0] = float("nan")
    step(model, optimizer, (features, labels))
    assert optimizer.params[0].grad.isnan().any()
    assert nm.check(optimizer, data_loader=loader)["P17"].outcome is Outcome.NOT_CHECKABLE


# --- what may be handed over -------------------------------------------------------------------------------------------


def test_complaints_are_one_line() -> None:
    with pytest.raises(InvalidInput, match=r"engine_or_optimizer|optimizer"):
        nm.check(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), dataset_size=3)
    with pytest.raises(InvalidInput, match="exclude"):
        nm.check(object(), exclude=["tests/*"])


def test_the_last_line_says_that_nothing_was_trained() -> None:
    _, _, optimizer, loader = private(RECORDS, batch_size=BATCH)
    card = nm.check(optimizer, data_loader=loader)
    assert card.last.endswith("nothing was trained to see it.")
    assert card.name == "DPOptimizer"
    assert card.to_dict()["subject"] == "engine"


def test_a_loss_that_is_a_sum_is_not_seen_and_so_no_bound_is_passed() -> None:
    """Opacus multiplies by |B| what comes back of the loss: of a sum, one record's gradient is |B| times as long before it is clipped."""
    lengths = []
    for size in (2, 8):
        _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
        torch.manual_seed(1)
        features, labels = torch.randn(1, FEATURES).repeat(size, 1), torch.zeros(size, dtype=torch.long)
        nn.functional.cross_entropy(model(features), labels, reduction="sum").backward()
        lengths.append(float(model._module.weight.grad_sample[0].norm()))
        assert nm.check(optimizer, data_loader=loader)["P04"].outcome is Outcome.NOT_CHECKABLE
    assert lengths[1] == pytest.approx(4 * lengths[0], rel=1e-4)
