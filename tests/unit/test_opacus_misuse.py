"""Opacus used in ways that no accountant analyses: each ends in *undetermined* with the reason, or in an error; never in a number.

103 records in batches of 10: used as it should be, nothing moves with one record more or less, and the claim holds.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from opacus.schedulers import ExponentialGradClip, LambdaNoise
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from noisymean.grounds import About, Known
from noisymean.integrations.opacus import Accountant, NoGuarantee, fix, inspect, poisson_loader, register
from noisymean.integrations.opacus.sampler import contradiction, of_loader
from noisymean.opacus_noise import may_be_calibrated
from opacus_training import FEATURES, PARAMETERS, private, train

# of Opacus: that its random numbers are not secure, and that a hook will not fire
pytestmark = pytest.mark.filterwarnings("ignore")

RECORDS, BATCH, DELTA = 103, 10, 1e-5


def data(records: int = RECORDS) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(records, FEATURES), torch.randint(0, 2, (records,)))


def step(model: Any, optimizer: Any, batch: Any, criterion: Any = nn.functional.cross_entropy) -> None:
    optimizer.zero_grad()
    criterion(model(batch[0]), batch[1]).backward()
    optimizer.step()


def no_number(accountant: Accountant, words: str) -> None:
    with pytest.warns(NoGuarantee, match=words):
        assert accountant.get_epsilon(DELTA) == math.inf


def seen_as_poisson(accountant: Accountant) -> bool:
    return all(one.seen.drawn.poisson and not one.seen.fault for one in accountant.stretches())


def undetermined(found: Any, words: str) -> None:
    assert (found.verdict, found.spent.guarantee, found.spent.leakage) == ("undetermined", None, None)
    assert words in str(found)


# --- batches that are not fresh draws ----------------------------------------------------------------------------------


def twice_each(model: Any, optimizer: Any, loader: Any) -> None:
    for batch in itertools.islice(loader, 3):
        step(model, optimizer, batch)
        step(model, optimizer, batch)


def over_and_over(model: Any, optimizer: Any, loader: Any) -> None:
    for batch in itertools.islice(itertools.cycle(itertools.islice(loader, 4)), 6):
        step(model, optimizer, batch)


def of_another(model: Any, optimizer: Any, loader: Any) -> None:
    for batch in itertools.islice(DataLoader(loader.dataset, batch_size=BATCH), 2):
        step(model, optimizer, batch)


def doubled(model: Any, optimizer: Any, loader: Any) -> None:
    for features, labels in itertools.islice(loader, 2):
        step(model, optimizer, (torch.cat([features, -features]), torch.cat([labels, labels])))


def put_together(model: Any, optimizer: Any, loader: Any) -> None:
    for first, second in zip(*[itertools.islice(loader, 4)] * 2, strict=True):
        optimizer.signal_skip_step(do_skip=True)
        step(model, optimizer, first)
        optimizer.signal_skip_step(do_skip=False)
        step(model, optimizer, second)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (twice_each, "did not draw, or on one for the second time"),
        (over_and_over, "did not draw, or on one for the second time"),
        (of_another, "did not draw, or on one for the second time"),
        (doubled, "and the data loader of make_private drew another batch"),
        (put_together, "several batches were put together for one step"),
    ],
)
@pytest.mark.parametrize("mode", ["hooks", pytest.param("functorch", marks=pytest.mark.slow)])
def test_a_step_is_one_new_batch_of_the_loader(way: Callable[..., None], words: str, mode: str) -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant, grad_sample_mode=mode)
    train(model, optimizer, loader, 2)
    assert inspect(optimizer).verdict == "holds"
    way(model, optimizer, loader)
    no_number(accountant, words)
    if way is of_another:
        undetermined(inspect(optimizer, data_loader=loader), words)


def test_batches_that_nobody_uses_are_no_matter() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    next(iter(loader))
    train(model, optimizer, loader, 3)
    assert len(list(loader)) == 11
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as cut:
        for batch in cut:
            step(model, optimizer, batch)
    for batch in reversed(list(loader)):
        step(model, optimizer, batch)
    assert len(accountant) == 25
    assert seen_as_poisson(accountant)


def test_workers_draw_ahead() -> None:
    accountant = Accountant()
    ordinary = DataLoader(data(), batch_size=BATCH, num_workers=1)
    _, model, optimizer, loader = private(RECORDS, loader=ordinary, accountant=accountant)
    train(model, optimizer, loader, 14)
    assert seen_as_poisson(accountant)


def test_the_same_batches_in_every_epoch() -> None:
    """A generator of the loader's own that is started again; the noise is new each time."""
    accountant, source = Accountant(), torch.Generator()
    ordinary = DataLoader(data(), batch_size=BATCH, generator=source)
    _, model, optimizer, loader = private(RECORDS, loader=ordinary, accountant=accountant)
    for _ in range(2):
        source.manual_seed(3)
        train(model, optimizer, loader, 11)
    no_number(accountant, "the data loader drew the same batches again")
    # where every batch is the whole dataset they are the same by right
    accountant = Accountant()
    _, model, optimizer, loader = private(5, batch_size=6, accountant=accountant)
    for _ in range(20):
        train(model, optimizer, loader, 1)
    assert "drew the same" not in str(inspect(optimizer))


def test_empty_batches_that_are_left_out() -> None:
    """One record a batch: every third batch is empty, and a step on noise alone has to be taken."""
    for leave_out in (False, True):
        accountant = Accountant()
        _, model, optimizer, loader = private(20, sample_rate="1/20", accountant=accountant)
        fix(optimizer, denominator=1)
        for batch in itertools.islice(loader, 18):
            if len(batch[0]) or not leave_out:
                step(model, optimizer, batch)
        if leave_out:
            assert len(accountant) < 18
            no_number(accountant, "an empty batch was left out")
        else:
            assert math.isfinite(accountant.get_epsilon(DELTA))


def test_records_that_are_dropped_or_repeated_when_a_batch_is_put_together() -> None:
    for collate in (lambda batch: default_collate(batch[:3]), lambda batch: default_collate(batch * 2)):
        accountant = Accountant()
        ordinary = DataLoader(data(), batch_size=BATCH, collate_fn=collate)
        _, model, optimizer, loader = private(RECORDS, loader=ordinary, accountant=accountant)
        train(model, optimizer, loader, 4)
        no_number(accountant, "drew another batch")


def test_sizes_that_are_too_many_records() -> None:
    assert contradiction(Counter({18: 3, 20: 4, 22: 5, 16: 3}), 103, 1 / 11) is not None
    assert contradiction(Counter({9: 3, 10: 4, 11: 5, 8: 3}), 103, 1 / 11) is None


# --- the loader --------------------------------------------------------------------------------------------------------


def test_a_loader_that_is_changed_on_the_way() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 3)
    loader.batch_sampler.sample_rate = 0.5
    train(model, optimizer, loader, 1)
    # and changed back
    loader.batch_sampler.sample_rate = 1 / 11
    train(model, optimizer, loader, 3)
    no_number(accountant, "the data loader was changed after make_private")


def test_what_is_shown_or_said_now_counts_against_what_was_seen() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 2)
    ordinary = DataLoader(loader.dataset, batch_size=BATCH, shuffle=True)
    undetermined(inspect(optimizer, data_loader=ordinary), "RandomSampler of the data loader, batches of 10 is shuffle")
    undetermined(inspect(optimizer, sampling="shuffle"), "sampling='shuffle'")
    undetermined(inspect(optimizer, data_loader=loader, sampling="shuffle"), "sampling='shuffle'")
    other = private(RECORDS, batch_size=20)[3]
    undetermined(inspect(optimizer, data_loader=other), "the one that is shown has 103 at 0.166667")
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant(sampling="shuffle"))
    train(model, optimizer, loader, 2)
    undetermined(inspect(optimizer, data_loader=loader), "sampling='shuffle'")
    with pytest.raises(InvalidInput, match=r"sample_rate='1/99': must be the rate of the data loader, 0\.0909"):
        inspect(optimizer, data_loader=loader, sample_rate="1/99")


class Repeating(DataLoader[Any]):
    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        first = next(super().__iter__())
        return iter([first] * len(self))


def test_samplers_that_only_look_like_it() -> None:
    dataset = data(100)

    def of(sampler: Any, kind: Any = DataLoader) -> Any:
        return private(100, loader=kind(dataset, batch_sampler=sampler), poisson_sampling=False)

    sampler = UniformWithReplacementSampler(num_samples=100, sample_rate=0.095)
    _, model, optimizer, loader = of(sampler)
    train(model, optimizer, loader, 2)
    # the accountant is told 1/10, at which the leakage would be more than the truth
    undetermined(inspect(optimizer, data_loader=loader), "the rate 0.095 of the sampler is not 1/L")
    few = UniformWithReplacementSampler(num_samples=97, sample_rate=0.1)
    undetermined(inspect(of(few)[2], data_loader=of(few)[3]), "a sampler of 97 records, and a dataset of 100")
    usual = UniformWithReplacementSampler(num_samples=100, sample_rate=0.1)
    undetermined(inspect(of(usual)[2], data_loader=of(usual, Repeating)[3]), "hands out batches in a way of its own")


def test_the_mark_of_a_public_rate_stays_with_its_loader() -> None:
    marked = poisson_loader(data(100), sample_rate="1/10")
    # another loader that takes over a function of it
    copied = DataLoader(data(100), batch_size=BATCH, worker_init_fn=marked.worker_init_fn)
    same = DataLoader(marked.dataset, batch_size=BATCH, worker_init_fn=marked.worker_init_fn)
    for forged in (copied, same):
        _, _, optimizer, loader = private(100, loader=forged)
        with pytest.raises(InvalidInput, match="this loader's rate comes from the number of records"):
            fix(optimizer, denominator=10, sample_rate="1/10", data_loader=loader)
        assert inspect(fix(optimizer, denominator=10), data_loader=loader).spent.guarantee is None
    # and goes along where it should
    accountant = Accountant()
    _, model, optimizer, loader = private(100, loader=marked, accountant=accountant)
    fix(optimizer, denominator=10)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as cut:
        train(model, optimizer, cut, 5)
        assert of_loader(cut).public_rate
    assert all(one.seen.drawn.public_rate for one in accountant.stretches())


def test_floors_that_opacus_misses_are_not_steps() -> None:
    """1/49 of 98 is 1.9999999999999998 in floating point: at 97 -> 98 records nothing moves, whatever the exact floor does."""
    assert int(98 * (1 / 49)) == 1
    _, model, optimizer, loader = private(97, sample_rate="1/49")
    train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader)
    assert found.verdict == "holds"
    assert found.spent.leakage == pytest.approx(found.spent.claimed, rel=1e-4)


def test_a_subset_is_a_dataset() -> None:
    part = DataLoader(Subset(data(), range(53)), batch_size=5)
    accountant = Accountant()
    private(53, loader=part, accountant=accountant)
    assert accountant.dataset_size == 53


# --- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", [False, True])
def test_noise_that_is_used_again(generator: bool) -> None:
    accountant, source = Accountant(), torch.Generator() if generator else None
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant, noise_generator=source)
    for batch in itertools.islice(loader, 3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        (source or torch.default_generator).manual_seed(7)
        optimizer.step()
    no_number(accountant, "the noise of one step is that of another")


def test_noise_that_starts_again_with_a_checkpoint() -> None:
    """A script that seeds at its beginning and goes on from a checkpoint adds the noise of its first steps once more."""

    def run(state: Any) -> Accountant:
        accountant = Accountant()
        _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
        if state is not None:
            accountant.load_state_dict(state)
        torch.manual_seed(1)
        train(model, optimizer, loader, 2)
        return accountant

    first = run(None)
    assert math.isfinite(first.get_epsilon(DELTA))
    no_number(run(first.state_dict()), "the noise of one step is that of another")
    # loaded before make_private, and with random numbers of its own
    again = Accountant()
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=again)
    torch.manual_seed(2)
    train(model, optimizer, loader, 2)
    assert (len(again), math.isfinite(again.get_epsilon(DELTA))) == (4, True)


def test_noise_that_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)

    def silent() -> None:
        for parameter in optimizer.params:
            parameter.grad = parameter.summed_grad.clone()

    optimizer.add_noise = silent
    train(model, optimizer, loader, 1)
    no_number(accountant, "add_noise of the optimizer was replaced by another function")
    # or further down
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    monkeypatch.setattr(
        "opacus.optimizers.optimizer._generate_noise", lambda reference, **_: torch.zeros_like(reference)
    )
    train(model, optimizer, loader, 1)
    no_number(accountant, "no noise was added, whatever the noise multiplier is")


def test_an_optimizer_of_somebody_elses() -> None:
    class Own(DPOptimizer):
        def clip_and_accumulate(self) -> None:
            super().clip_and_accumulate()

    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    optimizer.__class__ = Own
    train(model, optimizer, loader, 2)
    undetermined(inspect(optimizer, data_loader=loader), "a Own of your own")
    # the schedulers of torch wrap `step`, and that is no matter
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(model, optimizer, loader, 2)
    schedule.step()
    assert inspect(optimizer, data_loader=loader).verdict == "holds"


def test_where_a_noise_multiplier_comes_from() -> None:
    """A search with another tolerance, one of the first releases, one of somebody else's, and a schedule over any of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fine = get_noise_multiplier(
            target_epsilon=3.0,
            target_delta=DELTA,
            sample_rate=1 / 11,
            epochs=2,
            accountant="rdp",
            epsilon_tolerance=1e-12,
        )
    low, high = 0.01, 20.0
    for bit in (0, 0, 0, 0, 1, 0, 1, 1):
        low, high = ((low + high) / 2, high) if bit else (low, (low + high) / 2)
    for searched in (fine, high, 0.8154296875 * 0.99, 0.9437184, 1 / 3):
        assert may_be_calibrated(searched)
    accountant = Accountant()
    _, model, optimizer, loader = private(
        RECORDS, batch_size=BATCH, noise_multiplier=0.8154296875, accountant=accountant
    )
    LambdaNoise(optimizer, noise_lambda=lambda epoch: 0.99)
    train(model, optimizer, loader, 2)
    no_number(accountant, "may have been calibrated")


@pytest.mark.slow
def test_the_noise_of_a_schedule_may_be_said_to_be_constant() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    schedule = LambdaNoise(optimizer, noise_lambda=lambda epoch: 0.99 ** (epoch + 8))
    train(model, optimizer, loader, 2)
    schedule.step()
    train(model, optimizer, loader, 2)
    undetermined(inspect(optimizer, data_loader=loader), "may have been calibrated")
    found = inspect(optimizer, data_loader=loader, noise_multiplier=[0.99**8, 0.99**9])
    assert found.verdict == "holds"
    noise = next(ground for ground in found.spent.grounds if ground.about is About.NOISE)
    assert noise.known is Known.TOLD


class Engine(PrivacyEngine):
    """One more frame between."""

    def make_private(self, **given: Any) -> Any:
        return super().make_private(**given)


@pytest.mark.parametrize(
    ("kind", "delta", "verdict"),
    [
        (Engine, 1 / RECORDS, "undetermined"),
        pytest.param(PrivacyEngine, 1 / RECORDS, "undetermined", marks=pytest.mark.slow),
        pytest.param(Engine, 0.01, "holds", marks=pytest.mark.slow),
    ],
)
def test_calibrated_to_a_delta_of_one_over_the_records(
    kind: type[PrivacyEngine], delta: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    register(dataset_size=RECORDS, dimension=PARAMETERS, denominator=10, sample_rate="1/10")
    model, engine = nn.Linear(FEATURES, 2), kind(accountant="noisymean")
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=poisson_loader(data(), sample_rate="1/10"),
        max_grad_norm=1.0,
        target_epsilon=3.0,
        target_delta=delta,
        epochs=1,
        epsilon_tolerance=0.5,
    )
    fix(optimizer, denominator=10)
    train(model, optimizer, loader, 2)
    assert inspect(optimizer).verdict == verdict


def test_a_number_that_is_one_over_the_records() -> None:
    """epsilon = 1, one epoch, delta = 1/1003: the noise moves with delta, at this N or the next."""
    words = "target_delta=0.000997009 is 1 over the number of records"
    target = {"target_epsilon": 1.0, "target_delta": 1 / 1003, "epochs": 1}
    model, engine = nn.Linear(FEATURES, 2), PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=poisson_loader(data(1003), sample_rate="1/100"),
        max_grad_norm=1.0,
        **target,
    )
    undetermined(inspect(optimizer, data_loader=loader, **target), words)  # type: ignore[arg-type]
    constant = inspect(optimizer, data_loader=loader, **{**target, "target_delta": repr(1 / 1003)})  # type: ignore[arg-type]
    assert words not in str(constant)


# --- clipping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"clipping": "per_layer", "max_grad_norm": [0.6, 0.8]}, {"grad_sample_mode": "ghost"}],
    ids=["per_layer", "ghost"],
)
def test_a_bound_that_moves_for_the_noise_alone(options: dict[str, Any], ours: bool) -> None:
    """Schedulers lower max_grad_norm of the optimizer; layers, and the module of ghost clipping, keep theirs."""
    criterion: Any = nn.functional.cross_entropy
    made = {"max_grad_norm": 1.0, "noise_multiplier": 1.0, **options}
    engine, model = PrivacyEngine(), nn.Linear(FEATURES, 2)
    if ours:
        engine.accountant = Accountant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data(), batch_size=BATCH),
            **made,
        )
        model, optimizer, loader = result[0], result[1], result[-1]
        criterion = result[2] if len(result) == 4 else criterion
        schedule = ExponentialGradClip(optimizer, gamma=0.5)
        for batch in itertools.islice(loader, 2):
            step(model, optimizer, batch, criterion)
        assert inspect(optimizer, data_loader=loader).verdict == "holds"
        schedule.step()
        for batch in itertools.islice(loader, 2):
            step(model, optimizer, batch, criterion)
    undetermined(inspect(optimizer, data_loader=loader), "gradients are clipped to 1, and the noise is for 0.5")


def test_ghost_clipping_without_its_loss() -> None:
    for ours in (True, False):
        engine, model = PrivacyEngine(), nn.Linear(FEATURES, 2)
        if ours:
            engine.accountant = Accountant()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, optimizer, criterion, loader = engine.make_private(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                data_loader=DataLoader(data(), batch_size=BATCH),
                max_grad_norm=1.0,
                noise_multiplier=1.0,
                grad_sample_mode="ghost",
            )
            if ours:
                step(model, optimizer, next(iter(loader)), criterion)
                assert inspect(optimizer).verdict == "holds"
            else:
                # whoever throws it away cannot use it
                del criterion
            step(model, optimizer, next(iter(loader)))
        undetermined(inspect(optimizer, data_loader=loader), "ghost clipping the loss has to be the criterion")


@pytest.mark.parametrize("ours", [False, True])
def test_adaptive_ghost_clipping(ours: bool) -> None:
    engine, model = PrivacyEngineAdaptiveClipping(), nn.Linear(FEATURES, 2)
    if ours:
        engine.accountant = Accountant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer, criterion, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data(503), batch_size=50),
            criterion=nn.CrossEntropyLoss(reduction="mean"),
            max_grad_norm=1.0,
            noise_multiplier=1.0,
            grad_sample_mode="ghost",
        )
        undetermined(inspect(optimizer, data_loader=loader), "adaptive ghost clipping releases a count")
        criterion.criterion.reduction = "none"
        for batch in itertools.islice(loader, 2):
            step(model, optimizer, batch, criterion)
    undetermined(inspect(optimizer, data_loader=loader), "adaptive ghost clipping releases a count")


# --- who counts --------------------------------------------------------------------------------------------------------


def test_a_hook_that_takes_the_place_of_the_accountants() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    counts = optimizer.step_hook
    optimizer.attach_step_hook(lambda _: None)
    train(model, optimizer, loader, 3)
    with pytest.raises(InvalidInput, match="step_hook='replaced'"):
        accountant.get_epsilon(DELTA)
    optimizer.attach_step_hook(counts)
    train(model, optimizer, loader, 3)
    assert math.isfinite(accountant.get_epsilon(DELTA))
    optimizer.attach_step_hook(lambda _: None)
    no_number(accountant, "calls another step hook")


def test_a_history_is_not_written_over() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 3)
    with pytest.raises(InvalidInput, match="history='written over 3 steps'"):
        accountant.history = []
    accountant.history.clear()
    assert len(accountant) == 3
    early = Accountant(dataset_size=RECORDS).state_dict()
    with pytest.raises(InvalidInput, match="must be loaded before the first step; they would be forgotten"):
        accountant.load_state_dict(early)
    assert len(accountant) == 3


def test_one_accountant_of_several_optimizers() -> None:
    engine, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 2)
    assert inspect(optimizer, data_loader=loader).verdict == "holds"
    other = nn.Linear(FEATURES, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other, second, shuffled = engine.make_private(
            module=other,
            optimizer=torch.optim.SGD(other.parameters(), lr=0.1),
            data_loader=DataLoader(loader.dataset, batch_size=BATCH),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )
    assert (second.step_hook is not None, len(shuffled)) == (True, 11)
    undetermined(inspect(optimizer, data_loader=loader), "one accountant counts the steps of several optimizers")


def test_steps_of_another_rate_are_not_of_this_loader() -> None:
    engine, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 2)
    engine.accountant.step(noise_multiplier=1.0, sample_rate=1 / 50)
    found = inspect(optimizer, dataset_size=RECORDS, sampling="poisson")
    undetermined(found, "are of another data loader than the optimizer's")


def test_nobody_has_said_poisson(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered accountant plans with Poisson sampling; of a run that it has not seen it says nothing."""
    from opacus.accountants import create_accountant, registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    name = register(dataset_size=RECORDS, dimension=PARAMETERS, denominator=10, sample_rate="1/11")
    planned = create_accountant(name)
    planned.history = [(1.0, 1 / 11, 2)]
    assert math.isfinite(planned.get_epsilon(DELTA))
    assert planned.spent(DELTA).verdict == "undetermined"

    class Own:
        """An engine that somebody wrote."""

        accountant: Any = create_accountant(name)

        def make_private(self, data_loader: Any) -> Any:
            return self.accountant.get_optimizer_hook_fn(sample_rate=1 / len(data_loader))

    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    optimizer.attach_step_hook(Own().make_private(loader))
    train(model, optimizer, loader, 2)
    no_number(Own.accountant, "nobody has seen the data loader")


def test_what_is_only_seen_afterwards_is_said_to_be() -> None:
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH)
    train(model, optimizer, loader, 2)
    assert "verdict     holds, if every step is one new batch of this loader" in str(
        inspect(optimizer, data_loader=loader)
    )
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=Accountant())
    train(model, optimizer, loader, 2)
    assert "verdict     holds\n" in str(inspect(optimizer, data_loader=loader))


def test_one_record_has_a_neighbour_too() -> None:
    _, model, optimizer, loader = private(1, batch_size=1)
    train(model, optimizer, loader, 1)
    found = inspect(optimizer, data_loader=loader, batch_size=2, drop_last=False)
    assert (found.verdict, found.spent.guarantee) != ("holds", None)
    assert found.spent.guarantee is None
    assert "without its one record there is nothing to load" in str(found)


def test_a_copy_of_what_counts_has_seen_nothing() -> None:
    """Nor does it drag the records along."""
    accountant = Accountant()
    _, model, optimizer, loader = private(RECORDS, batch_size=BATCH, accountant=accountant)
    train(model, optimizer, loader, 2)
    copied = copy.deepcopy(optimizer.step_hook)
    assert loader not in vars(copied.watch).values()
    copied(optimizer)
    counts = copied.told.accountant
    assert (len(counts), len(accountant)) == (3, 2)
    no_number(counts, "the noise of one step is that of another")
    assert counts.stretches()[-1].seen.drawn.poisson is None
    assert math.isfinite(accountant.get_epsilon(DELTA))
