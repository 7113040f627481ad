"""The run that is judged is the run that ran: every way of using Opacus 1.x, and what may be said of it.

*holds* and a finite guarantee are for Poisson sampling without made-up records, noise that does not come from N or is known to, and
a number of records at which nothing moves. The numbers that may be said come from the noisy sum at the sampler's rate. Batches that
are not drawn so have numbers of their own (test_opacus_sampling.py), which are never those of the noisy sum.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import noisymean as nm
from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from noisymean.grounds import About, Known
from noisymean.integrations.opacus import Accountant, fix, inspect, poisson_loader, register
from noisymean.integrations.opacus.sampler import contradiction
from noisymean.opacus_noise import may_be_calibrated
from opacus_training import FEATURES, PARAMETERS, private, train
from truth import Mixture, Pair, Truth

DELTA = 1e-5
TARGET: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": DELTA, "epochs": 10}
# With batches of 10: 103 records in 11 batches or 10 whole ones, nothing moves; 100 records, everything does.
STILL, MOVING = 103, 100


def data(records: int) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(records, FEATURES), torch.randint(0, 2, (records,)))


class Run:
    """One way of using Opacus, trained for a few steps."""

    def __init__(
        self, records: int, *, poisson: bool, drop_last: bool, made: str, mode: str, accountant: str, fixed: str
    ) -> None:
        model = nn.Linear(FEATURES, 2)
        loader = DataLoader(data(records), batch_size=10, drop_last=drop_last)
        self.engine, ours = PrivacyEngine(accountant="rdp"), Accountant(batch_size=10, drop_last=drop_last)
        if accountant == "before":
            self.engine.accountant = ours
        given: dict[str, Any] = {
            "module": model,
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
            "data_loader": loader,
            "max_grad_norm": 1.0,
            "poisson_sampling": poisson,
            "grad_sample_mode": mode,
        }
        if mode == "ghost":
            given["criterion"] = nn.CrossEntropyLoss()
        if made == "make_private_with_epsilon":
            result = self.engine.make_private_with_epsilon(**given, **TARGET)
        else:
            result = self.engine.make_private(**given, noise_multiplier=1.0, rand_on_empty=made == "rand_on_empty")
        self.model, self.optimizer, self.loader = result[0], result[1], result[-1]
        self.criterion = result[2] if mode == "ghost" else nn.CrossEntropyLoss()
        if accountant == "after":
            self.engine.accountant = ours
        if fixed == "before":
            self.fix()
        self.train(2)
        if fixed == "between":
            self.fix()
        self.train(2)

    def fix(self) -> None:
        fix(self.optimizer, denominator=7)

    def train(self, steps: int) -> None:
        batches: Iterator[Any] = iter(self.loader)
        for _ in range(steps):
            features, labels = next(batches)
            self.optimizer.zero_grad()
            self.criterion(self.model(features), labels).backward()
            self.optimizer.step()


AXES: dict[str, tuple[Any, ...]] = {
    "records": (STILL, MOVING),
    "poisson": (True, False),
    "drop_last": (False, True),
    "made": ("make_private", "rand_on_empty", "make_private_with_epsilon"),
    "mode": ("hooks", "functorch", "ghost"),
    "accountant": ("before", "after", "never"),
    "fixed": ("never", "before", "between"),
}
# Every two values of the last four axes meet once; the others are chosen so that numbers come out as often as they may.
FEW = [
    (STILL, True, False, "make_private", "hooks", "before", "never"),
    (STILL, True, True, "make_private", "functorch", "after", "before"),
    (MOVING, True, False, "make_private", "ghost", "never", "between"),
    (STILL, True, False, "rand_on_empty", "hooks", "after", "between"),
    (STILL, False, True, "rand_on_empty", "functorch", "never", "never"),
    (STILL, True, False, "rand_on_empty", "ghost", "before", "before"),
    (STILL, True, True, "make_private_with_epsilon", "hooks", "never", "before"),
    (STILL, True, False, "make_private_with_epsilon", "functorch", "before", "between"),
    (MOVING, False, True, "make_private_with_epsilon", "ghost", "after", "never"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", FEW, ids=lambda way: "-".join(map(str, way)))
def test_nothing_is_promised_of_another_run_in_a_few(way: tuple[Any, ...]) -> None:
    check_promises(*way)


def test_the_few_have_every_value() -> None:
    assert [set(column) for column in zip(*FEW, strict=True)] == [set(values) for values in AXES.values()]
    for first, second in itertools.combinations(range(3, 7), 2):
        assert len({(one[first], one[second]) for one in FEW}) == 9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", list(itertools.product(*AXES.values())), ids=lambda way: "-".join(map(str, way)))
def test_nothing_is_promised_of_another_run(way: tuple[Any, ...]) -> None:
    check_promises(*way)


def check_promises(
    records: int, poisson: bool, drop_last: bool, made: str, mode: str, accountant: str, fixed: str
) -> None:
    """Whatever was asked of Opacus: numbers for the run that they are for, and none for any other."""
    options = {
        "poisson": poisson,
        "drop_last": drop_last,
        "made": made,
        "mode": mode,
        "accountant": accountant,
        "fixed": fixed,
    }
    if made == "make_private_with_epsilon" and accountant == "before":
        # it makes another accountant by name, and this one's is not known
        with pytest.raises(InvalidInput, match="registered before make_private_with_epsilon"):
            Run(records, **options)  # type: ignore[arg-type]
        return
    if fixed != "never" and accountant == "before" and poisson and made == "rand_on_empty":
        with pytest.raises(InvalidInput, match="one that draws in a way that is known"):
            Run(records, **options)  # type: ignore[arg-type]
        return
    run = Run(records, **options)  # type: ignore[arg-type]
    known = poisson and made == "make_private" and records == STILL
    # batches in order, two of an epoch and then two of another one: whoever has looked knows that no epoch came to its end
    cut = not poisson and made != "make_private_with_epsilon" and accountant != "before" and fixed != "between"
    rate = Fraction(1, 11 if records == STILL and not drop_last else 10)
    truth = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=1.0), steps=4, delta=DELTA).guarantee.epsilon

    shown = {"data_loader": run.loader, "batch_size": 10, "drop_last": drop_last}
    seen = inspect(run.optimizer, **shown, delta=DELTA)
    assert seen.taken == 4
    if known:
        assert (seen.verdict, seen.spent.guarantee) == ("holds", pytest.approx(truth, rel=1e-6))
        assert not [ground for ground in seen.spent.grounds if ground.known is Known.ASSUMED]
    elif cut:
        assert seen.verdict != "holds"
        assert seen.verdict == "undetermined" or "if every step is one new batch of this loader, every epoch" in str(
            seen
        )
        assert truth < seen.spent.leakage
        assert seen.spent.guarantee is None or seen.spent.leakage <= seen.spent.guarantee
    else:
        assert seen.verdict != "holds"
        # one record more or less moves the rate: that is covered, and never by the noisy sum's own number
        covered = poisson and made == "make_private" and seen.spent.guarantee is not None
        assert seen.spent.guarantee is None or (covered and truth < seen.spent.leakage < seen.spent.guarantee)
    if not cut and (not poisson or made == "rand_on_empty"):
        # nor is anything certain to be lost
        assert (seen.verdict, seen.spent.leakage) == ("undetermined", None)
    if accountant != "before":
        # nobody has seen the loader
        blind = inspect(run.optimizer, dataset_size=records, delta=DELTA)
        assert (blind.verdict, blind.spent.guarantee, blind.spent.leakage) == ("undetermined", None, None)
        assert "pass data_loader=" in str(blind)
    if accountant == "before":
        assert inspect(run.optimizer, delta=DELTA).verdict == seen.verdict
        epsilon = run.engine.get_epsilon(DELTA)
        promised = math.inf if seen.spent.guarantee is None else seen.spent.guarantee
        assert epsilon == pytest.approx(promised, rel=1e-6)
    elif accountant == "after":
        with pytest.raises(InvalidInput, match="must be set before make_private"):
            run.engine.get_epsilon(DELTA)
        with pytest.raises(InvalidInput, match="must be set before make_private"):
            run.engine.accountant.spent(DELTA)
        with pytest.raises(InvalidInput, match="no optimizer"):
            inspect(run.engine, **shown)
    if made == "make_private_with_epsilon" and poisson:
        told = inspect(run.optimizer, **shown, delta=DELTA, **TARGET)
        assert told.verdict == ("holds" if records == STILL else told.verdict)
        assert told.spent.guarantee is not None or records == MOVING


# --- the sampler -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poisson", [True, False])
def test_other_samplers_are_poisson_only_through_make_private(poisson: bool) -> None:
    dataset = data(STILL)
    weighted = DataLoader(dataset, batch_size=10, sampler=WeightedRandomSampler(torch.ones(STILL).tolist(), STILL))
    _, model, optimizer, loader = private(STILL, loader=weighted, poisson_sampling=poisson)
    train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader, dataset_size=STILL)
    assert found.verdict == ("holds" if poisson else "undetermined")
    assert ("WeightedRandomSampler" in str(found)) == (not poisson)


class Stream(IterableDataset[Any]):
    def __len__(self) -> int:
        return STILL

    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.randn(FEATURES), i % 2) for i in range(STILL)])


def test_a_stream_is_not_poisson() -> None:
    _, model, optimizer, loader = private(STILL, loader=DataLoader(Stream(), batch_size=10), poisson_sampling=False)
    train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader, dataset_size=STILL)
    assert (found.verdict, found.spent.guarantee, found.spent.leakage) == ("undetermined", None, None)
    assert "no Poisson sampling" in str(found)


def test_batches_of_another_loader_are_found_out_by_their_sizes() -> None:
    accountant = Accountant()
    _, model, optimizer, loader = private(STILL, batch_size=10, accountant=accountant)
    train(model, optimizer, loader, 40)
    assert math.isfinite(accountant.get_epsilon(DELTA))
    # make_private has made a Poisson loader, but the old one is trained on
    ordinary = DataLoader(loader.dataset, batch_size=10)
    train(model, optimizer, ordinary, 66)
    with pytest.warns(UserWarning, match="of 106 batches had 10 records each: not Poisson sampling"):
        assert accountant.get_epsilon(DELTA) == math.inf
    assert inspect(optimizer, data_loader=loader).verdict == "undetermined"


def test_sizes_of_poisson_batches_are_never_found_out() -> None:
    """A thousand runs; the bound is for one in 10^9."""
    from collections import Counter

    generator = np.random.default_rng(5)
    for records, rate, steps in (
        (103, 1 / 11, 60),
        (60_000, 0.01, 200),
        (1000, 0.5, 30),
        (500, 1.0, 40),
        (50, 0.02, 99),
    ):
        for _ in range(200):
            sizes = Counter(generator.binomial(records, rate, steps).tolist())
            assert contradiction(sizes, records, rate) is None
    assert contradiction(Counter({64: 15, 47: 1}), 1007, 1 / 16) is not None


def test_said_and_seen() -> None:
    _, model, optimizer, loader = private(STILL, batch_size=10)
    train(model, optimizer, loader, 2)
    told = inspect(optimizer, dataset_size=STILL, sampling="poisson")
    assert told.verdict == "holds"
    by = {ground.about: ground.known for ground in told.spent.grounds}
    assert list(by) == list(About)
    assert by[About.SAMPLER] is by[About.RECORDS] is Known.TOLD
    shuffled = inspect(optimizer, dataset_size=STILL, sampling="shuffle", batch_size=10)
    assert (shuffled.verdict, shuffled.spent.grounds[0].known) == ("violated", Known.TOLD)
    with pytest.raises(InvalidInput, match="batch_size=None: must be given where batches are cut"):
        inspect(optimizer, dataset_size=STILL, sampling="shuffle")
    with pytest.raises(InvalidInput, match="dataset_size=102: must be the records of the data loader, 103"):
        inspect(optimizer, data_loader=loader, dataset_size=102)
    # make_private made a loader of another rate than the one that is shown
    other = private(STILL, batch_size=20)[3]
    assert "the data loader samples at the rate" in str(inspect(optimizer, data_loader=other))
    text = str(inspect(optimizer, data_loader=loader))
    assert "it rests on\n  sampler: Poisson (seen: UniformWithReplacementSampler of the data loader)" in text
    assert "  adjacency: one record added or removed (told: what the claim is made for)" in text


# --- the fix -----------------------------------------------------------------------------------------------------------


def test_a_rate_is_public_only_if_the_loader_was_given_it() -> None:
    _, model, optimizer, loader = private(600, batch_size=6)
    with pytest.raises(InvalidInput, match="this loader's rate comes from the number of records"):
        fix(optimizer, denominator=6, sample_rate="1/100", data_loader=loader)
    with pytest.raises(InvalidInput, match=r"must be the rate of the data loader, 0\.01"):
        fix(optimizer, denominator=6, sample_rate="1/99")
    fix(optimizer, denominator=6, sample_rate="1/100")
    train(model, optimizer, loader, 2)
    # said without a loader, and the loader says otherwise
    found = inspect(optimizer, data_loader=loader)
    assert (found.verdict, found.spent.guarantee) == ("undetermined", None)
    assert "the sampling rate is 0.01 on 600 records and" in str(found)
    ours = Accountant()
    _, model, optimizer, loader = private(600, batch_size=6, accountant=ours)
    with pytest.raises(InvalidInput, match="this loader's rate comes from the number of records"):
        fix(optimizer, denominator=6, sample_rate="1/100")


def test_steps_before_a_fix_stay_what_they_were() -> None:
    for accountant in (None, Accountant()):
        _, model, optimizer, loader = private(100, sample_rate="1/10", accountant=accountant)
        train(model, optimizer, loader, 3)
        fix(optimizer, denominator=10, data_loader=loader)
        train(model, optimizer, loader, 2)
        found = inspect(optimizer, data_loader=loader)
        assert [(one.steps, one.seen.public.denominator) for one in found.stretches] == [(3, None), (2, 10.0)]
        # three rounds of FEASGM at 99 -> 100 records are in it
        assert found.verdict == "violated"
        assert "denominator: 10, but not from the first step on" in str(found)


# --- the noise ---------------------------------------------------------------------------------------------------------


def test_without_noise_nothing_is_private() -> None:
    _, model, optimizer, loader = private(STILL, batch_size=10, noise_multiplier=0.0)
    train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader)
    assert (found.verdict, found.spent.claimed, found.spent.guarantee) == ("undetermined", math.inf, None)
    assert "no noise was added, so nothing is private" in str(found)


def test_what_the_search_of_opacus_can_end_in() -> None:
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in (0.7, 3.0, 9.0, 40.0):
            for rate in (0.1, 1 / 101):
                assert may_be_calibrated(
                    get_noise_multiplier(
                        target_epsilon=epsilon, target_delta=DELTA, sample_rate=rate, epochs=3, accountant="rdp"
                    )
                )
    for typed in (0.3, 0.5, 0.7, 0.8, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0, 0.8655):
        assert not may_be_calibrated(typed)


def test_noise_that_may_come_from_the_records_has_to_be_explained() -> None:
    _, model, optimizer, loader = private(STILL, batch_size=10, noise_multiplier=1.25)
    train(model, optimizer, loader, 2)
    unknown = inspect(optimizer, data_loader=loader)
    assert (unknown.verdict, unknown.spent.guarantee) == ("undetermined", None)
    assert "may have been calibrated to an epsilon" in str(unknown)
    assert inspect(optimizer, data_loader=loader, noise_multiplier=1.25).verdict == "holds"
    with pytest.raises(InvalidInput, match=r"must be the one that gives 1\.25"):
        inspect(optimizer, data_loader=loader, batch_size=10, **TARGET)
    with pytest.raises(InvalidInput, match="target_delta=None: must be given with the others"):
        inspect(optimizer, data_loader=loader, target_epsilon=3.0, epochs=1)


def test_calibrated_by_this_accountant_from_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    for constants, verdict in (
        ({"denominator": 10, "sample_rate": "1/10"}, "holds"),
        ({"sample_rate": "1/10"}, "undetermined"),
    ):
        name = register(dataset_size=STILL, dimension=PARAMETERS, **constants)
        model = nn.Linear(FEATURES, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = PrivacyEngine(accountant=name)
            model, optimizer, loader = engine.make_private_with_epsilon(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                data_loader=poisson_loader(data(STILL), sample_rate="1/10"),
                max_grad_norm=1.0,
                target_epsilon=3.0,
                target_delta=DELTA,
                epochs=1,
                epsilon_tolerance=0.1,
            )
        fix(optimizer, denominator=10)
        train(model, optimizer, loader, 10)
        assert inspect(optimizer, data_loader=loader).verdict == verdict
        if verdict == "holds":
            assert engine.get_epsilon(DELTA) == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("accountant", "sigmas"), [("rdp", (0.8655, 0.8630)), ("prv", (0.81543, 0.81299))])
def test_noise_calibrated_to_the_length_of_the_loader(accountant: str, sigmas: tuple[float, float]) -> None:
    """The published pair: 100 batches, and 101; and the truth of the pair that it makes, by independent code."""
    mechanism = nm.OpacusLoader(dataset_size=1000, batch_size=10, dimension=3, accountant=accountant, **TARGET)
    assert mechanism.noises == pytest.approx(sigmas, abs=6e-5)
    (first_rate, before), (rate, after) = mechanism.runs
    sigma, sigma_with = mechanism.noises
    shrink, scale = before / after, (before / after) * (sigma_with / sigma)
    sizes = np.arange(0.0, 120.0)

    def mixture(shared: float, at: float, width: float, factor: float) -> Mixture:
        """The sum of a batch of records that are `shared` each, over the noise on D."""
        weights = binom.logpmf(sizes, 1000, at) if shared else np.zeros(1)
        means = factor * (sizes if shared else np.zeros(1)) / sigma
        return Mixture(weights, means, np.full_like(means, width))

    def on(shared: float, new: float, dimension: int = 3) -> Pair:
        p, a = mixture(shared, first_rate, 1.0, 1.0), mixture(shared, rate, scale, shrink)
        return Pair(p, a, a._replace(means=a.means + shrink * new / sigma), rate, math.log(scale), dimension - 1)

    for steps in (1, 12):
        highest = 0.0
        lowest = 0.0
        pairs = [on(0.0, new) for new in (1.0, 0.75, 0.5, 0.25)] + [on(1.0, 1.0), on(1.0, -1.0)]
        pairs.append(on(0.0, 1.0, 2)._replace(beside=on(1.0, 0.0, 2)))
        for pair in pairs:
            it = Truth(pair, steps, 1e-4)
            for backward in (False, True):
                low, high = it.epsilon(1e-4, backward=backward)
                lowest, highest = max(low, lowest), max(high, highest)
        found = nm.account(mechanism, steps=steps, delta=1e-4, pair="larger")
        leaked = found.leakage.epsilon
        assert leaked is not None
        assert lowest * (1 - 2e-3) <= leaked <= highest * (1 + 1e-9)
        assert found.guarantee.epsilon is not None
        assert highest <= found.guarantee.epsilon
        assert found.verdict == "violated"


def opacus_makes(records: int, *, drop_last: bool, delta: float | str) -> tuple[float, float, float]:
    """(rate, denominator, noise) of make_private_with_epsilon on batches of 10, in Opacus' own words."""
    from opacus.accountants.utils import get_noise_multiplier

    length = records // 10 if drop_last else math.ceil(records / 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = get_noise_multiplier(
            target_epsilon=1.0,
            target_delta=1 / records if delta == "1/N" else float(delta),
            sample_rate=1 / length,
            epochs=1,
            accountant="rdp",
        )
    return 1 / length, int(records * (1 / int(1 / (1 / length)))), noise


@pytest.mark.parametrize(
    ("records", "dimension", "drop_last", "delta"),
    [
        # rate, denominator and noise move; rate and noise; the noise alone
        (100, 1, False, DELTA),
        (109, 2, True, DELTA),
        pytest.param(21, 2, False, "1/N", marks=pytest.mark.slow),
    ],
)
def test_the_pair_of_calibrated_noise_by_quadrature(
    records: int, dimension: int, drop_last: bool, delta: float | str
) -> None:
    """D is released as N(0, I) in units of its noise, D' as a mixture of N(m u, s^2 I): integrated on a grid, both directions."""
    (first_rate, before, sigma), (rate, after, other) = (
        opacus_makes(size, drop_last=drop_last, delta=delta) for size in (records, records + 1)
    )
    assert sigma != other
    # the sum over c, the noise sigma C over c
    scale, shrink = (other / after) / (sigma / before), before / after
    along = np.linspace(-12.0, 30.0, 20_001 if dimension == 1 else 2101)
    across = np.array([0.0]) if dimension == 1 else np.linspace(-9.0, 9.0, 241)
    cell = (along[1] - along[0]) * (1.0 if dimension == 1 else across[1] - across[0])

    def normal(mean: float, width: float, aside: float = 0.0) -> Any:
        squares = ((along - mean) ** 2)[:, None] + ((across - aside) ** 2)[None, :]
        return np.exp(-0.5 * squares / width**2) / (2 * math.pi * width**2) ** (dimension / 2)

    def of_ones(at: float, factor: float, width: float, new: float = 0.0, aside: float = 0.0) -> Any:
        """Records of D that are C each, and `new` and `aside` of another one: batches of all sizes that matter."""
        sizes = (size for size in range(records + 1) if binom.pmf(size, records, at) > 1e-10)
        return sum(
            binom.pmf(size, records, at) * normal(factor * (size + new) / sigma, width, factor * aside / sigma)
            for size in sizes
        )

    def epsilon(first: Any, second: Any, at: float) -> float:
        low, high = 0.0, 60.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            found = float(np.maximum(first - math.exp(middle) * second, 0.0).sum()) * cell
            low, high = (middle, high) if found > at else (low, middle)
        return low

    without, at = normal(0.0, 1.0), 1e-4
    truth = 0.0
    for new in (1.0, 0.75, 0.5, 0.25):
        joined = (1 - rate) * normal(0.0, scale) + rate * normal(shrink * new / sigma, scale)
        truth = max(truth, epsilon(joined, without, at), epsilon(without, joined, at))
    # the other pairs: D's gradients are all C u, the new one is the same, its opposite, or orthogonal
    without = of_ones(first_rate, 1.0, 1.0)
    for new, aside in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0))[: 3 if dimension > 1 else 2]:
        joined = (1 - rate) * of_ones(rate, shrink, scale) + rate * of_ones(rate, shrink, scale, new, aside)
        truth = max(truth, epsilon(joined, without, at), epsilon(without, joined, at))
    loader = nm.OpacusLoader(
        dataset_size=records, batch_size=10, dimension=dimension, drop_last=drop_last, target_epsilon=1.0,
        target_delta=delta, epochs=1, accountant="rdp",
    )  # fmt: skip
    leaked = nm.account(loader, steps=1, delta=at, pair="larger").leakage.epsilon
    assert leaked is not None
    assert truth * 0.995 <= leaked <= truth * (1 + 1e-4)
    # one record fewer is a pair of its own, with its own noise: nothing is kept of the other's
    fewer = nm.account(loader, steps=1, delta=at, pair="smaller").on_pair
    assert isinstance(fewer, nm.OpacusLoader)
    assert fewer.noises == (opacus_makes(records - 1, drop_last=drop_last, delta=delta)[2], sigma)
    # and the claim is made at the noise that the user has, whatever pair is looked at
    claim = nm.account(
        nm.SGM(sample_rate=Fraction(loader.run(records).accountant_rate.value), noise_multiplier=sigma),
        steps=1,
        delta=at,
    )
    assert nm.account(loader, steps=1, delta=at, pair="smaller").claimed == claim.claimed
    for adjacency in (nm.Adjacency.ZERO_OUT, nm.Adjacency.REPLACE_ONE):
        found = nm.account(loader, steps=1, delta=at, adjacency=adjacency)
        plain = nm.SGM(sample_rate=Fraction(loader.run(records).sample_rate), noise_multiplier=sigma)
        same = nm.account(plain, steps=1, delta=at, adjacency=adjacency)
        assert (found.leakage.epsilon, found.guarantee.epsilon) == (same.leakage.epsilon, same.guarantee.epsilon)


def test_noise_calibrated_to_one_over_the_records() -> None:
    """delta = 1/N moves the noise where L stays, sooner or later."""
    sizes = range(1002, 1009)
    loaders = [
        nm.OpacusLoader(
            dataset_size=size,
            batch_size=10,
            dimension=50,
            target_epsilon=1.0,
            target_delta="1/N",
            epochs=1,
            accountant="rdp",
        )
        for size in sizes
    ]
    for loader in loaders:
        assert loader.noise_moves == (loader.noises[0] != loader.noises[1])
        assert not loader.rate_moves
        found = nm.account(loader, steps=5, delta=1e-5, pair="larger")
        assert (found.guarantee.epsilon is None) == loader.noise_moves
        assert found.verdict == "holds" or loader.noise_moves or loader.runs[0] != loader.runs[1]


def test_complaints_about_calibration_are_one_line() -> None:
    plain = {"dataset_size": 100, "batch_size": 10, "dimension": 3}
    for more, words in (
        ({}, "noise_multiplier=None: must be given"),
        ({"epochs": 3, "noise_multiplier": 1.0}, "epochs=3: must be left out without target_epsilon"),
        ({**TARGET, "noise_multiplier": 1.0}, "noise_multiplier=1.0: must be left out with target_epsilon"),
        ({**TARGET, "epochs": None}, "epochs=None: must be a whole number"),
        ({**TARGET, "accountant": "magic"}, "accountant='magic': must be one of prv, rdp, gdp"),
        (
            {"noise_multiplier": 1.0, "drop_last": True, "batch_size": 101},
            "batch_size=101: must be a whole number from 1",
        ),
    ):
        with pytest.raises(InvalidInput) as fault:
            nm.OpacusLoader(**{**plain, **more})
        assert words in str(fault.value)
        assert "\n" not in str(fault.value)


def test_a_loader_that_drops_its_last_batch() -> None:
    """105 records in batches of 10: 10 batches, not 11; at 109 -> 110 the rate moves."""
    loader = nm.OpacusLoader(dataset_size=105, batch_size=10, dimension=3, noise_multiplier=1.0, drop_last=True)
    assert loader.runs == ((0.1, 10), (0.1, 10))
    moving = nm.OpacusLoader(dataset_size=109, batch_size=10, dimension=3, noise_multiplier=1.0, drop_last=True)
    assert moving.runs == ((0.1, 10), (1 / 11, 10))
    assert nm.account(moving, steps=3, delta=DELTA).guarantee.epsilon is not None
    # without nine of its ten records there is no batch
    assert (
        nm.account(
            nm.OpacusLoader(dataset_size=10, batch_size=10, dimension=3, noise_multiplier=1.0, drop_last=True),
            steps=1,
            delta=DELTA,
        ).pair.value
        == "larger"
    )


@pytest.mark.parametrize("maximum", [1, 4])
def test_batches_that_are_cut_for_memory(maximum: int) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    accountant = Accountant()
    _, model, optimizer, loader = private(STILL, batch_size=10, accountant=accountant)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=maximum, optimizer=optimizer) as cut:
        train(model, optimizer, cut, 200)
        found = inspect(optimizer, data_loader=cut)
    assert found.verdict == "holds"
    assert len(accountant) < 200


def test_a_simulation_is_of_the_loader_that_was_asked_for() -> None:
    from noisymean.mechanisms import moving_pair
    from noisymean.targets.protocol import Neighbour
    from noisymean.targets.records import Gradients
    from noisymean.targets.synthetic import Synthetic

    given: dict[str, Any] = {"dataset_size": 10, "batch_size": 10, "dimension": 3}
    dropping = nm.OpacusLoader(**given, noise_multiplier=1.0, drop_last=True)
    target = Synthetic(mechanism=dropping, gradients=Gradients.ZERO)
    assert Synthetic.from_configuration(target.configuration()).mechanism == dropping
    # with one record fewer there is no batch
    assert moving_pair(dropping) is dropping
    # noise that follows the number of records is that of each dataset
    calibrated = nm.OpacusLoader(**given, accountant="rdp", **TARGET)
    simulated = Synthetic(mechanism=calibrated, gradients=Gradients.ZERO, max_grad_norm=1.0)
    for neighbour, size, sigma in zip(Neighbour, (10, 11), calibrated.noises, strict=True):
        released = simulated.release(neighbour, np.random.default_rng(3), 4_000)[:, 0, 1:]
        expected = sigma / calibrated.run(size).expected_batch_size
        # 8,000 normal numbers: their deviation is known to 0.8 %, six of which happen once in 10^9
        assert released.std() == pytest.approx(expected, rel=0.05)
