"""Audits of batches that are not drawn by Poisson sampling: what is drawn, the optimal test of it, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

import noisymean as nm
from noisymean.audit import audit, distinguisher
from noisymean.audit.epochs import EpochPair
from noisymean.audit.laws import KnownPair
from noisymean.audit.reference import closed_form, pair_of, reference, weighted
from noisymean.errors import InvalidInput, Undefined
from noisymean.laws.closed import Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import Adjacency, Mechanism, Sampling
from noisymean.numerics.logs import Array
from noisymean.targets import registry
from noisymean.targets.batches import Batches
from noisymean.targets.protocol import Known, Neighbour, Structure
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic

SAMPLINGS = [one for one in Sampling if one is not Sampling.POISSON]
ADJACENCIES = [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE]
KINDS: dict[str, Any] = {"sgm": nm.SGM, "easgm": nm.EASGM, "asgm": nm.ASGM, "feasgm": nm.FEASGM}


def mechanism(
    sampling: Sampling, size: int = 6, batch: int = 2, n: int = 2, kind: str = "sgm", sigma: float = 1.0, **more: Any
) -> Mechanism:
    """Batches of that size; where the rate says it all it is 1/t with t batches."""
    if kind == "opacus-loader":
        return nm.OpacusLoader(
            dataset_size=size, dimension=n, batch_size=batch, noise_multiplier=sigma, sampling=sampling, **more
        )
    rate = f"1/{-(-size // batch)}" if sampling is Sampling.BALLS_IN_BINS else f"{batch}/{size}"
    sized: dict[str, Any] = {} if sampling in (Sampling.BALLS_IN_BINS, Sampling.POISSON) else {"batch_size": batch}
    return KINDS[kind](
        dataset_size=size, dimension=n, sample_rate=rate, noise_multiplier=sigma, sampling=sampling, **sized, **more
    )


# --- what is drawn -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("drop", [False, True])
def test_each_record_is_in_one_batch_of_an_epoch(sampling: Sampling, drop: bool) -> None:
    if drop and not sampling.is_cut:
        return
    size, batch, trials = 7, 3, 3000
    one = mechanism(sampling, size, batch, drop_last=drop)
    length = {Sampling.FIXED_SIZE: 1, Sampling.BALLS_IN_BINS: 3}.get(sampling, 2 if drop else 3)
    steps = 2 * length + 1
    batches = Batches(one, size, steps, True)
    members = batches.members(np.random.default_rng(1), trials).reshape(trials, steps, size)
    for first in (0, length):
        times = members[:, first : first + length].sum(axis=1)
        match sampling:
            case Sampling.FIXED_SIZE:
                assert (members.sum(axis=2) == batch).all()
                assert members.mean(axis=(0, 1)) == pytest.approx(np.full(size, batch / size), abs=0.02)
            case Sampling.BALLS_IN_BINS:
                assert (times == 1).all()
            case _:
                sizes = members[:, first : first + length].sum(axis=2)
                assert (sizes == ([3, 3] if drop else [3, 3, 1])).all()
                assert (times <= 1).all()
                assert drop or (times == 1).all()
    if sampling is Sampling.CYCLIC:
        assert (members == members[0]).all()
        # the record, the last column, comes first
        assert members[0, :, -1].tolist() == [1, *[0] * (length - 1)] * 2 + [1]
        assert members[0, 0].tolist() == [1, 1, 0, 0, 0, 0, 1]
        return
    chance = {Sampling.BALLS_IN_BINS: 1 / 3}.get(sampling, 3 / 7)
    # five deviations of 3,000 draws
    assert members[:, 0].mean(axis=0) == pytest.approx(np.full(size, chance), abs=0.046)
    if sampling is Sampling.SHUFFLE:
        together = (members[:, 0, 0] * members[:, 0, 1]).mean()
        assert together == pytest.approx(3 * 2 / (7 * 6), abs=0.033)
        # epochs are shuffled anew
        assert (members[:, 0, 0] * members[:, length, 0]).mean() == pytest.approx((3 / 7) ** 2, abs=0.036)


@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize("record", [False, True])
def test_counts_follow_the_law_of_members(sampling: Sampling, record: bool) -> None:
    size, batch, steps, trials = 5, 2, 5, 4000
    batches = Batches(mechanism(sampling, size, batch), size, steps, record)
    members = batches.members(np.random.default_rng(1), trials)
    own = members[:, -1] if record else np.zeros(len(members))
    others, counted = batches.counts(np.random.default_rng(2), trials)
    expected = (members.sum(axis=1) - own).reshape(trials, steps)
    found = others.reshape(trials, steps)
    assert counted.reshape(trials, steps).mean(axis=0) == pytest.approx(
        own.reshape(trials, steps).mean(axis=0), abs=0.056
    )
    assert found.mean(axis=0) == pytest.approx(expected.mean(axis=0), abs=0.12)
    # of two batches of an epoch, one has what the other has not
    assert np.cov(found.T) == pytest.approx(np.cov(expected.T), abs=0.12)


def test_no_dataset_is_too_large_to_be_counted() -> None:
    for sampling in SAMPLINGS:
        one = mechanism(sampling, 10**12, 10**6)
        others, record = Batches(one, 10**12, 3, True).counts(np.random.default_rng(1), 2)
        assert others.shape == record.shape == (6,)
        assert others.sum() > 5.9e6


# --- the optimal test --------------------------------------------------------------------------------------------------


def epochs_written_out(one: Mechanism, size: int) -> Iterator[tuple[float, list[set[int]]]]:
    """Probability and batches of every epoch of records 0 ... size - 1; the record is 0."""
    batch = one.size_of_batches
    match one.drawn:
        case Sampling.SHUFFLE | Sampling.CYCLIC:
            orders = list(permutations(range(size))) if one.drawn is Sampling.SHUFFLE else [tuple(range(size))]
            for order in orders:
                cut = [set(order[at : at + batch]) for at in range(0, size, batch)]
                yield 1 / len(orders), [part for part in cut if len(part) == batch or not one.drops_last]
        case Sampling.FIXED_SIZE:
            for order in permutations(range(size), batch):
                yield 1 / (comb(size, batch) * np.prod(range(1, batch + 1))), [set(order)]
        case Sampling.BALLS_IN_BINS:
            length = one.rate.denominator
            for bins in product(range(length), repeat=size):
                yield length**-size, [{who for who in range(size) if bins[who] == j} for j in range(length)]


def normal_density(x: Array, scale: float) -> float:
    return float(np.exp(-(x @ x) / (2.0 * scale**2))) / (2.0 * np.pi * scale**2) ** (x.size / 2)


def plain_divisor(one: Mechanism, size: int, batch: int) -> float:
    match one.name:
        case "easgm":
            return float(size * one.rate)
        case "feasgm":
            return max(int(size * one.rate), 1)
        case "asgm":
            return max(batch, 1)
        case "opacus-loader":
            length = size // one.size_of_batches if one.drops_last else -(-size // one.size_of_batches)
            return int(size * (1 / length))
    return 1.0


def plain_density(one: Mechanism, rows: Array, bound: float, x: Array) -> float:
    """log density of a run x, of shape (steps, n), on records with these gradients; the record's is the first."""
    size, total, at = len(rows), 0.0, 0
    written = list(epochs_written_out(one, size))
    while at < len(x):
        density, length = 0.0, len(written[0][1])
        here = x[at : at + length]
        for weight, batches in written:
            term = weight
            for output, batch in zip(here, batches, strict=False):
                divisor = plain_divisor(one, size, len(batch))
                mean = sum((rows[who] for who in batch), start=np.zeros(x.shape[1])) / divisor
                scale = one.noise_multiplier * bound / divisor
                term *= normal_density(output - mean, scale)
            density += term
        total += float(np.log(density))
        at += length
    return total


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", [*KINDS, "opacus-loader"])
@pytest.mark.parametrize("between", ADJACENCIES, ids=lambda one: one.value)
@pytest.mark.parametrize("structure", [Gradients.ZERO, Gradients.ALIGNED, Gradients.OPPOSED])
@pytest.mark.parametrize(("size", "batch", "drop"), [(4, 1, False), (4, 2, False), (3, 2, False), (4, 3, True)])
def test_log_ratio_is_that_of_densities_written_out(
    sampling: Sampling, kind: str, between: Adjacency, structure: Gradients, size: int, batch: int, drop: bool
) -> None:
    """Rounds that end within an epoch, batches that are dropped, epochs that are longer on D', denominators that move."""
    if kind == "opacus-loader" and not sampling.is_cut:
        return
    if between is Adjacency.ADD_REMOVE and not drop:
        size = {1: 3, 2: 2}[batch] if size == 4 else size
    one = mechanism(sampling, size, batch, kind=kind, sigma=0.8, drop_last=drop and sampling.is_cut)
    target = Synthetic(mechanism=one, gradients=structure, max_grad_norm=0.5, steps=7, adjacency=between)
    if sampling is Sampling.BALLS_IN_BINS and (structure is not Gradients.ZERO or kind == "asgm"):
        with pytest.raises(Undefined, match="learned distinguisher"):
            EpochPair(target.known())
        return
    added = structure.structure.datasets
    axis = 0.5 * np.eye(2)[0]
    others = size if between is Adjacency.ADD_REMOVE else size - 1
    larger = np.array([added.new * axis] + [added.shared * axis] * others)
    smaller = larger[1:] if between is Adjacency.ADD_REMOVE else np.array([0.0 * axis, *larger[1:]])
    pair = pair_of(target.known())
    assert isinstance(pair, EpochPair)
    for neighbour in Neighbour:
        outputs = target.release(neighbour, np.random.default_rng(3), 2)
        found = pair.log_ratio(pair.statistics(outputs), 7)
        for ratio, x in zip(found, outputs, strict=True):
            expected = plain_density(one, larger, 0.5, x) - plain_density(one, smaller, 0.5, x)
            assert ratio == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("between", ADJACENCIES, ids=lambda one: one.value)
@pytest.mark.parametrize("neighbour", list(Neighbour))
def test_simulated_statistics_follow_the_law_of_real_releases(
    sampling: Sampling, between: Adjacency, neighbour: Neighbour
) -> None:
    """A p-value below 1e-6 would be no accident."""
    structure = Gradients.ZERO if sampling is Sampling.BALLS_IN_BINS else Gradients.OPPOSED
    one = mechanism(sampling, 7, 2, n=5, kind="easgm", sigma=0.7)
    target = Synthetic(mechanism=one, gradients=structure, steps=6, adjacency=between)
    pair = pair_of(target.known())
    real = pair.statistics(target.release(neighbour, np.random.default_rng(5), 3000))
    drawn = pair.draw(neighbour, np.random.default_rng(6), 3000, 6)
    assert real.shape == drawn.shape
    for column in range(2):
        for step in range(6):
            assert ks_2samp(real[step::6, column], drawn[step::6, column]).pvalue > 1e-6
    assert ks_2samp(pair.log_ratio(real, 6), pair.log_ratio(drawn, 6)).pvalue > 1e-6


def test_runs_without_chance_are_gaussian() -> None:
    """One batch an epoch, or the records in their order: T(N(0, 1), N(mu, 1)), and the simulation agrees."""
    alpha = np.array([0.01, 0.1, 0.5, 0.9])
    for sampling, size, batch, steps, mu in (
        (Sampling.SHUFFLE, 3, 3, 1, 0.5),
        (Sampling.SHUFFLE, 3, 3, 4, 1.0),
        (Sampling.FIXED_SIZE, 3, 3, 4, 1.0),
        (Sampling.CYCLIC, 6, 2, 3, 0.5),
        # a started epoch has used the record
        (Sampling.CYCLIC, 6, 2, 4, np.sqrt(0.5)),
    ):
        target = Synthetic(mechanism=mechanism(sampling, size, batch, sigma=2.0), gradients=Gradients.OPPOSED)
        truth = reference(target.known(), steps, np.random.default_rng(1))
        assert truth.closed_form
        assert isinstance(truth.curve, Gaussian)
        assert truth.curve.mu == pytest.approx(mu, rel=1e-12)
        assert weighted(*truth.losses)(alpha) == pytest.approx(Gaussian(mu)(alpha), abs=0.01)


def test_shuffled_batches_of_one_epoch_against_the_largest_of_the_rounds() -> None:
    """delta(0) lies above that of the attacker who sees the largest round, and below that of one who knows the batch."""
    target = Synthetic(mechanism=mechanism(Sampling.SHUFFLE, 40, 4), gradients=Gradients.OPPOSED, steps=10)
    truth = reference(target.known(), 10, np.random.default_rng(1))
    assert not truth.closed_form
    rng = np.random.default_rng(2)
    rounds = -rng.standard_normal((200_000, 10))
    highest = [(rounds + shift * (np.arange(10) == 0)).max(axis=1) for shift in (1.0, 2.0)]
    cut = np.linspace(0.0, 6.0, 200)
    seen = max(float((highest[1] > c).mean() - (highest[0] > c).mean()) for c in cut)
    assert seen < truth.curve.advantage() + 0.01
    assert truth.curve.advantage() < Gaussian(1.0).advantage()
    # and it is more than what Poisson sampling at that rate would lose
    assert truth.curve.advantage() > 1.9 * float(target.claim().delta(0.0))


def test_a_fixed_size_round_is_a_subsampled_gaussian_of_twice_the_shift() -> None:
    """One record added to others that are its opposite: (1 - q) Id + q G_{2/sigma}."""
    one = mechanism(Sampling.FIXED_SIZE, 5, 2)
    target = Synthetic(mechanism=one, gradients=Gradients.OPPOSED, adjacency=Adjacency.ADD_REMOVE)
    truth = reference(target.known(), 1, np.random.default_rng(1))
    alpha = np.array([0.01, 0.1, 0.5, 0.9])
    assert truth.curve(alpha) == pytest.approx(Subsampled(Gaussian(2.0), 2 / 6)(alpha), abs=0.01)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("gradients", list(Gradients))
def test_poisson_batches_of_a_zeroed_record(kind: str, gradients: Gradients) -> None:
    one = mechanism(Sampling.POISSON, 3, 2, kind=kind, sigma=0.8)
    target = Synthetic(mechanism=one, gradients=gradients, max_grad_norm=0.5, steps=2, adjacency=Adjacency.ZERO_OUT)
    known = target.known()
    larger = gradients.rows(3, 2, 0.5, 0)
    smaller = np.array([*larger[:-1], np.zeros(2)])
    pair = KnownPair(known)
    for neighbour in Neighbour:
        outputs = target.release(neighbour, np.random.default_rng(3), 4)
        for ratio, x in zip(pair.log_ratio(pair.statistics(outputs), 2), outputs, strict=True):
            expected = sum(
                sign * plain_poisson(one, rows, 0.5, row) for row in x for sign, rows in ((1, larger), (-1, smaller))
            )
            assert ratio == pytest.approx(expected, abs=1e-9)
        drawn = pair.draw(neighbour, np.random.default_rng(4), 3000, 1)
        real = pair.statistics(target.release(neighbour, np.random.default_rng(5), 3000))
        assert ks_2samp(pair.log_ratio(real, 1), pair.log_ratio(drawn, 1)).pvalue > 1e-6


def plain_poisson(one: Mechanism, rows: Array, bound: float, x: Array) -> float:
    total, q, size = 0.0, float(one.rate), len(rows)
    for batch in product((0, 1), repeat=size):
        count = sum(batch)
        divisor = plain_divisor(one, size, count)
        scale = one.noise_multiplier * bound / divisor
        mean = np.array(batch) @ rows / divisor
        density = normal_density(x - mean, scale)
        total += q**count * (1 - q) ** (size - count) * density
    return float(np.log(total))


def test_a_zeroed_record_among_zeros_has_the_curve_that_is_claimed() -> None:
    one = mechanism(Sampling.POISSON, 4, 2, kind="easgm")
    known = Known(one, 1.0, structured=Structure.ZERO, adjacency=Adjacency.ZERO_OUT)
    truth = reference(known, 1, np.random.default_rng(1))
    assert truth.closed_form
    assert truth.curve == Subsampled(Gaussian(1.0), 0.5)
    assert weighted(*truth.losses).advantage() == pytest.approx(truth.curve.advantage(), abs=0.01)
    aligned = Known(one, 1.0, structured=Structure.ALIGNED, adjacency=Adjacency.ZERO_OUT)
    assert closed_form(aligned) is None


# --- no law of Poisson sampling where there is none --------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_laws_of_poisson_sampling_are_refused(sampling: Sampling) -> None:
    target = Synthetic(mechanism=mechanism(sampling), gradients=Gradients.ZERO)
    known = target.known()
    for refuses in (KnownPair, closed_form):
        with pytest.raises(Undefined, match=f"sampling='{sampling.value}'"):
            refuses(known)
    with pytest.raises(Undefined, match="distinguisher='paper': must be likelihood-ratio or learned"):
        distinguisher("paper", target)
    with pytest.raises(Undefined, match="sampling='poisson'"):
        EpochPair(Known(mechanism(Sampling.POISSON), 1.0, structured=Structure.ZERO))
    random = Synthetic(mechanism=mechanism(sampling))
    with pytest.raises(Undefined, match="gradients='random'"):
        distinguisher("likelihood-ratio", random)
    assert distinguisher(None, random).name == "learned"


def test_pairs_that_are_not_run_are_refused() -> None:
    with pytest.raises(Undefined, match="adjacency='replace-one'"):
        Synthetic(mechanism=mechanism(Sampling.SHUFFLE), adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(Undefined, match="adjacency='replace-one'"):
        KnownPair(Known(mechanism(Sampling.POISSON), 1.0, structured=Structure.ZERO, adjacency=Adjacency.REPLACE_ONE))
    empty = nm.SGM(dataset_size=0, dimension=2, sample_rate="1/2", noise_multiplier=1.0)
    with pytest.raises(Undefined, match="dataset_size=0"):
        Synthetic(mechanism=empty, adjacency=Adjacency.ZERO_OUT)
    # a batch that the smaller dataset cannot fill
    with pytest.raises(InvalidInput, match="batch_size=3"):
        Synthetic(mechanism=nm.SGM(
            dataset_size=2, dimension=2, sample_rate=1, noise_multiplier=1.0, sampling="fixed-size", batch_size=3
        ), adjacency=Adjacency.ADD_REMOVE)  # fmt: skip
    # nobody knows how seven records are cut into two batches
    unknown = nm.SGM(dataset_size=7, dimension=2, sample_rate="1/2", noise_multiplier=1.0, sampling="shuffle")
    with pytest.raises(Undefined, match="batch_size=None"):
        Synthetic(mechanism=unknown)


# --- audits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize("between", [None, *ADJACENCIES])
def test_a_target_survives_its_configuration(sampling: Sampling, between: Adjacency | None) -> None:
    for gradients in Gradients:
        target = Synthetic(mechanism=mechanism(sampling, 7, 2), gradients=gradients, steps=3, adjacency=between)
        again = registry.rebuilt(target.configuration())
        assert again == target
        one, other = (t.release(Neighbour.SMALLER, np.random.default_rng(1), 3) for t in (target, again))
        assert one.shape == (3, 3, 2)
        assert np.array_equal(one, other)


def test_what_need_not_be_said_is_not() -> None:
    plain = Synthetic(mechanism=mechanism(Sampling.POISSON)).configuration()
    assert set(plain) == {"target", "mechanism", "gradients", "max_grad_norm", "steps", "gradient_seed"}
    assert "sampling" not in plain["mechanism"]
    zeroed = Synthetic(mechanism=mechanism(Sampling.POISSON), adjacency=Adjacency.ZERO_OUT)
    assert zeroed.configuration()["adjacency"] == "zero-out"
    shuffled = Synthetic(mechanism=mechanism(Sampling.SHUFFLE))
    assert shuffled.configuration()["adjacency"] == "zero-out"
    assert "shuffle batches, zero-out" in shuffled.name
    assert Synthetic(mechanism=mechanism(Sampling.SHUFFLE, kind="asgm")).between is Adjacency.ADD_REMOVE


def test_shuffled_batches_break_what_is_claimed_for_poisson_sampling() -> None:
    """sigma = 1 and ten batches: one epoch is enough. Records that are allocated at random keep the claim."""
    settings: dict[str, Any] = {"seed": 1, "trials": 4000, "steps": 10}
    shuffled = audit(mechanism(Sampling.SHUFFLE, 40, 4), gradients="opposed", **settings)
    assert shuffled.verdict.word == "violated"
    assert shuffled.power > 0.7
    assert shuffled.distinguisher == "likelihood-ratio"
    for gradients, chosen in (("zero", "likelihood-ratio"), ("opposed", "learned")):
        thrown = audit(mechanism(Sampling.BALLS_IN_BINS, 40, 4), gradients=gradients, **settings)
        assert thrown.verdict.word == "not-violated"
        assert thrown.distinguisher == chosen
    poisson = audit(
        mechanism(Sampling.POISSON, 40, 4), gradients="opposed", adjacency="zero-out", **settings
    )  # fmt: skip
    assert poisson.verdict.word == "not-violated"


def test_a_learned_test_sees_shuffled_batches_too() -> None:
    found = audit(
        mechanism(Sampling.SHUFFLE, 40, 4, sigma=0.5), "learned", gradients="opposed", steps=10, seed=1, trials=4000
    )
    assert found.verdict.word == "violated"
