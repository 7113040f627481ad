"""Every way of every library, in its real environment: what is released is the closed form of its source, and a row says so.

Environments are built if they are not there, minutes and gigabytes: run by `make test-all` only, skipped with the reason where a
library cannot be had.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest

from noisymean.field import Exposed, Row, chosen
from noisymean.field.rows import Sampler
from noisymean.field.running import row_of
from noisymean.numerics.logs import Array
from noisymean.probe.laws import Kind
from noisymean.targets.libraries.client import dismiss
from noisymean.targets.libraries.environments import ENVIRONMENTS, built
from noisymean.targets.libraries.ways import WAYS, LibraryWay
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.protocol import Raised, Request, Setting

pytestmark = pytest.mark.slow
BOUND, NOISE, ROUNDS, SEED, RATE = 2.0, 1e-6, 12, 11, Fraction(1, 2)
_WIDTH = 400
# six records: three that are clipped, three that are not, with an axis each, and many axes for nobody
LENGTHS = (10.0, 1.0, 2.5, 0.5, 1000.0, 1.5)
GRADIENTS = np.zeros((6, _WIDTH))
GRADIENTS[np.arange(6), np.arange(6)] = LENGTHS
CLIPPED = np.minimum(GRADIENTS, BOUND)
Members: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Released: TypeAlias = Callable[[Members], Array]


def available(name: str) -> LibraryWay:
    way = WAYS[name]
    try:
        built(way.environment)
    except InstallFailed as fault:
        pytest.skip(str(fault))
    return way


def over(divisor: Callable[[int], float]) -> Released:
    """The clipped sum of the records of a batch, over a function of how many they are."""
    return lambda there: CLIPPED[there].sum(axis=0) / divisor(int(there.sum()))


def of_one_microbatch(there: Members) -> Array:
    """The mean of what is not clipped, clipped as one."""
    mean = GRADIENTS[there].mean(axis=0)
    return np.asarray(mean * min(1.0, BOUND / np.linalg.norm(mean)))


def by_examples(there: Members) -> Array:
    """A mean weighted by as many examples as the axis of a record says, of 1 to 3."""
    weights = 1.0 + np.arange(6) % 3
    return np.asarray((weights[there, None] * CLIPPED[there]).sum(axis=0) / weights[there].sum())


# What the source of each says: the release without noise, and what the noise is divided by in a batch of that size.
by_batch, of_batch = over(float), float
HANDED: dict[str, tuple[Released, Callable[[int], float]]] = {
    "optax": (by_batch, of_batch),
    "optax:dpsgd": (by_batch, of_batch),
    "objax": (by_batch, of_batch),
    "tensorflow-privacy": (by_batch, of_batch),
    "tensorflow-privacy:vectorized": (by_batch, of_batch),
    "tensorflow-privacy:model": (by_batch, of_batch),
    "tensorflow-privacy:one-microbatch": (of_one_microbatch, lambda _: 1.0),
    "jax-privacy": (over(lambda _: 12.0), lambda _: 12.0),
    "jax-privacy:padded": (over(lambda _: 12.0), lambda _: 12.0),
    "jax-privacy:sum": (over(lambda _: 1.0), lambda _: 1.0),
    "pfl": (by_batch, of_batch),
    "flwr": (by_batch, lambda _: 8.0),
    "flwr:examples": (by_examples, lambda _: 8.0),
}
DRAWN = ("jax-privacy:keras", "jax-privacy:keras-poisson", "pfl:random", "pfl:minimize-reuse")


def test_every_way_is_here() -> None:
    assert {*HANDED, *DRAWN} == set(WAYS)


def run(way: LibraryWay, setting: Setting, rounds: int, seed: int = SEED) -> Array:
    return way.run(Request(setting, GRADIENTS, NOISE, BOUND, rounds, seed))


@pytest.mark.parametrize("name", HANDED)
def test_a_release_is_the_closed_form_of_its_source(name: str) -> None:
    released = run(available(name), Setting(6, rate=RATE), ROUNDS)
    generator = np.random.default_rng(SEED)
    expected, noise = HANDED[name]
    for row in released:
        there = generator.random(6) < float(RATE)
        if not there.any():
            continue
        # an update is along the gradient or against it
        sign = np.sign(row[:6].sum())
        assert sign * row == pytest.approx(expected(there), abs=20.0 * NOISE * BOUND, rel=1e-4)
        # 394 axes of nobody: their deviation is known to 18 % at five standard errors
        found = float(np.std(row[6:])) * noise(int(there.sum())) / (NOISE * BOUND)
        assert found == pytest.approx(1.0, rel=0.18)


@pytest.mark.parametrize("name", HANDED)
def test_noise_is_its_own_in_every_round_and_comes_from_the_seed(name: str) -> None:
    way, setting = available(name), Setting(6, rate=Fraction(1))
    first, again, other = (run(way, setting, 3, seed)[:, 6:] for seed in (SEED, SEED, SEED + 1))
    assert np.array_equal(first, again)
    rounds = np.vstack([first, other])
    correlations = np.corrcoef(rounds) - np.eye(len(rounds))
    # five standard errors of independent noise
    assert np.abs(correlations).max() < 5.0 / np.sqrt(_WIDTH - 6)


def members(released: Array, size: int) -> Array:
    """How often each record was drawn, of releases over b."""
    return np.asarray(np.rint(released[:, :6] * size / CLIPPED.max(axis=1)), dtype=np.int64)


def test_keras_cuts_an_epoch_into_batches_and_divides_by_the_size_that_was_configured() -> None:
    way = available("jax-privacy:keras")
    counts = members(run(way, Setting(6, batch_size=2), 12), 2)
    assert counts.sum(axis=1).tolist() == [2] * 12
    assert counts.reshape(4, 3, 6).sum(axis=1).tolist() == [[1] * 6] * 4
    # a last batch that is smaller raises
    with pytest.raises(Raised, match="batch size"):
        run(way, Setting(6, batch_size=4), 3)


def test_keras_with_poisson_sampling_divides_batches_of_any_size_by_the_one_that_was_configured() -> None:
    released = run(available("jax-privacy:keras-poisson"), Setting(6, batch_size=2), 60)
    counts = members(released, 2)
    assert set(np.unique(counts)) == {0, 1}
    assert released[:, :6] == pytest.approx(counts * CLIPPED.max(axis=1) / 2.0, abs=20.0 * NOISE * BOUND)
    assert len(set(counts.sum(axis=1))) > 2
    # of 360 coins at 1/3: five standard errors
    assert counts.mean() == pytest.approx(1.0 / 3.0, abs=5.0 * np.sqrt(2.0 / 9.0 / 360.0))


@pytest.mark.parametrize("name", ["pfl:random", "pfl:minimize-reuse"])
def test_a_cohort_of_pfl_has_the_size_that_was_set_and_is_divided_by_it(name: str) -> None:
    counts = members(run(available(name), Setting(6, batch_size=4), 30), 4)
    assert counts.sum(axis=1).tolist() == [4] * 30
    if name == "pfl:random":
        assert counts.max() > 1
    else:
        # in order: users 0 to 3, then 4, 5, 0, 1
        assert counts[:3].tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]]


# --- the rows ----------------------------------------------------------------------------------------------------------

ROWS: dict[str, tuple[Kind, Sampler, Exposed]] = {
    **dict.fromkeys(
        ("optax", "optax:dpsgd", "objax", "tensorflow-privacy", "tensorflow-privacy:vectorized", "tensorflow-privacy:model", "pfl"),
        (Kind.ASGM, Sampler.GIVEN, Exposed.CALLER),
    ),
    "tensorflow-privacy:one-microbatch": (Kind.UNKNOWN, Sampler.GIVEN, Exposed.UNKNOWN),
    **dict.fromkeys(("jax-privacy", "jax-privacy:padded", "jax-privacy:sum"), (Kind.SGM, Sampler.GIVEN, Exposed.NO)),
    "jax-privacy:keras": (Kind.SGM, Sampler.SHUFFLED, Exposed.NO),
    "jax-privacy:keras-poisson": (Kind.SGM, Sampler.POISSON, Exposed.YES),
    "pfl:random": (Kind.UNKNOWN, Sampler.WITH_REPLACEMENT, Exposed.NO),
    "pfl:minimize-reuse": (Kind.SGM, Sampler.IN_ORDER, Exposed.NO),
    "flwr": (Kind.ASGM, Sampler.GIVEN, Exposed.CALLER),
    "flwr:examples": (Kind.UNKNOWN, Sampler.GIVEN, Exposed.UNKNOWN),
}  # fmt: skip


@cache
def found(name: str) -> Row:
    (subject,) = (one for one in chosen([name]) if one.name == name)
    return row_of(subject)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_the_source_says(name: str) -> None:
    available(name)
    row = found(name)
    assert row.fault is None
    assert row.observed is not None
    assert (row.observed.denominator.kind, row.sampler, row.exposed) == ROWS[name]
    # every statement that divides was found in the source that ran, and so was every line of its accounting
    (subject,) = (one for one in chosen([name]) if one.name == name)
    quotes: Any = getattr(subject, "quotes", ())
    assert len(row.observed.divides_at) == len(quotes)
    assert all(claim.place is not None for claim in row.observed.claims)
    assert (row.observed.claims == ()) == (row.library == "optax")


@pytest.mark.parametrize("name", ROWS)
def test_only_a_constant_under_poisson_sampling_has_a_guarantee(name: str) -> None:
    available(name)
    row = found(name)
    holds = name == "jax-privacy:padded"
    assert (row.lost is not None and row.lost.verdict == "holds") == holds
    assert (row.lost is not None and row.lost.guarantee is not None) == holds


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Any:
    yield
    for one in ENVIRONMENTS:
        dismiss(one)
