"""Batches that are put together of parts, and made-up records in the place of nobody: found, and not mistaken for what is correct."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from noisymean.cli.gate import Standing, of_probe
from noisymean.errors import Undefined
from noisymean.probe import Kind, probe
from noisymean.probe.finding import Finding, RateLaw, Sampling, Severity
from planted import Array, Generator, Round, flat, poisson, size_of_batch
from probing import leaks

Draw = Callable[[int, float, Generator], Array]


def words_of(finding: Finding) -> str:
    return "; ".join(remark.words for remark in finding.remarks)


def assert_exposed(finding: Finding) -> None:
    """A leak that no analysis covers: no name, no mechanism, no green light."""
    assert finding.kind is Kind.UNKNOWN
    assert finding.doubts
    with pytest.raises(Undefined):
        finding.mechanism(dataset_size=1000, dimension=10, noise_multiplier=1.0, sample_rate="1/100")
    assert of_probe(finding, None, None).standing is Standing.VIOLATED


# --- parts -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InParts:
    """Each part of the records has a batch of its own; drawn again while it is empty, or taken as it is."""

    parts: int
    again: bool = True

    def __call__(self, count: int, rate: float, generator: Generator) -> Array:
        # a deal, as processes do it: every so-and-so-many-th record
        owned = [np.arange(count)[part :: self.parts] for part in range(self.parts)]
        return np.concatenate([self._of(mine, rate, generator) for mine in owned])

    def _of(self, mine: Array, rate: float, generator: Generator) -> Array:
        while True:
            drawn = mine[poisson(len(mine), rate, generator)]
            if len(drawn) or not self.again or not len(mine):
                return drawn


@pytest.mark.parametrize(
    ("parts", "divisor"), [(2, None), (2, size_of_batch), (3, None), pytest.param(4, None, marks=pytest.mark.slow)]
)
def test_parts_that_are_drawn_again_are_found(parts: int, divisor: Callable[[int, int, float], float] | None) -> None:
    release = Round(draw=InParts(parts)) if divisor is None else Round(draw=InParts(parts), divisor=divisor)
    finding = probe(release, seed=0, rounds=60)
    assert (finding.rates.sampling, finding.rates.parts, finding.rates.law) == (Sampling.PARTS, parts, RateLaw.AS_SET)
    assert f"as if each of {parts} parts of them were drawn again while nobody of it is in the batch" in words_of(
        finding
    )
    assert_exposed(finding)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_that_are_taken_as_they_are_are_poisson_sampling(parts: int) -> None:
    """Who draws does not matter, if every record is drawn by itself."""
    finding = probe(Round(draw=InParts(parts, again=False)), seed=0, rounds=60)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())
    assert (finding.rates.sampling, finding.rates.parts) == (Sampling.POISSON, 1)


def one_part_of_a_partition(count: int, rate: float, generator: Generator) -> Array:
    """The records are cut once and for all; a round has one of the pieces."""
    pieces = max(round(1.0 / rate), 1)
    return np.arange(count)[generator.integers(pieces) :: pieces]


@dataclass
class InTurn:
    """The pieces of one partition, one after the other, from the first in every run."""

    taken: int = 0
    size: int = 0

    def __call__(self, count: int, rate: float, generator: Generator) -> Array:
        if count != self.size:
            self.taken, self.size = 0, count
        pieces = max(round(1.0 / rate), 1)
        self.taken += 1
        return np.arange(count)[(self.taken - 1) % pieces :: pieces]


def the_same_positions(count: int, rate: float, generator: Generator) -> Array:
    """Two processes whose generators have one seed: each takes the same places of its half."""
    half = -(-count // 2)
    drawn = poisson(half, rate, generator)
    return np.concatenate([drawn, (drawn + half)[drawn + half < count]])


def not_fewer_than_two(count: int, rate: float, generator: Generator) -> Array:
    while True:
        batch = poisson(count, rate, generator)
        if len(batch) > 1:
            return batch


def another_rate_in_one_part(count: int, rate: float, generator: Generator) -> Array:
    """Even records at half the rate and odd ones at more, so that the mean is about right."""
    rates = np.where(np.arange(count) % 2 == 0, 0.5 * rate, min(1.5 * rate, 1.0))
    return np.flatnonzero(generator.random(count) < rates)


def one_part_is_always_there(count: int, rate: float, generator: Generator) -> Array:
    """The first record stands in where its part has nobody; other parts are what they are."""
    half = -(-count // 2)
    first = poisson(half, rate, generator)
    rest = half + poisson(count - half, rate, generator)
    return np.concatenate([first if len(first) else np.zeros(1, np.intp), rest])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: one_part_of_a_partition,
        lambda: InTurn(),
        lambda: the_same_positions,
        lambda: not_fewer_than_two,
        lambda: another_rate_in_one_part,
        lambda: one_part_is_always_there,
    ],
    ids=["a piece", "in turn", "same positions", "at least two", "unequal parts", "one stands in"],
)
def test_other_ways_to_draw_in_parts_pass_for_nothing(draw: Callable[[], Draw]) -> None:
    finding = probe(Round(draw=draw()), seed=0, rounds=60)
    assert finding.kind is Kind.UNKNOWN
    assert finding.doubts
    assert finding.rates.sampling is not Sampling.PARTS or leaks(finding)
    assert of_probe(finding, None, None).standing is not Standing.CLEAR


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_are_told_from_the_whole_whatever_the_seed(parts: int) -> None:
    for seed in range(1, 31):
        whole = probe(Round(draw=InParts(parts, again=False)), seed=10_000 * seed)
        assert (whole.kind, whole.doubts) == (Kind.SGM, ())
        if parts > 1:
            apart = probe(Round(draw=InParts(parts)), seed=10_000 * seed)
            assert (apart.rates.sampling, apart.rates.parts) == (Sampling.PARTS, parts)


# --- somebody in the place of nobody ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MadeUp:
    """A correct round in which an empty batch is a batch of what `record` makes up, on so many axes."""

    record: Callable[[int, Generator], Array]
    round: Round

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        count, wide = gradients.shape
        batch = flat(gradients, max_grad_norm)[self.round.draw(count, sample_rate, generator)]
        if not len(batch):
            made_up = max_grad_norm * self.record(wide, generator)
            length = float(np.linalg.norm(made_up))
            batch = (made_up * min(1.0, max_grad_norm / length) if length else made_up)[None, :]
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(wide)
        return (batch.sum(axis=0) + noise) / self.round.divisor(len(batch), count, sample_rate)


def zeros_and_ones(wide: int, generator: Generator) -> Array:
    return generator.integers(0, 2, wide).astype(np.float64)


def ones(wide: int, generator: Generator) -> Array:
    return np.ones(wide)


def half_as_long(wide: int, generator: Generator) -> Array:
    return np.full(wide, 0.5 / np.sqrt(wide))


def nothing(wide: int, generator: Generator) -> Array:
    return np.zeros(wide)


def of_any_length(wide: int, generator: Generator) -> Array:
    return generator.uniform(0.1, 0.9) * np.full(wide, 1.0 / np.sqrt(wide))


def now_and_then(wide: int, generator: Generator) -> Array:
    return ones(wide, generator) if generator.random() < 0.5 else nothing(wide, generator)


def next_to_nothing(wide: int, generator: Generator) -> Array:
    """A thousandth of the bound: louder than the noise, and no thousand times."""
    return np.full(wide, 1e-3 / np.sqrt(wide))


DIVISORS = [pytest.param(Round(), id="a constant"), pytest.param(Round(divisor=size_of_batch), id="|B|")]


@pytest.mark.parametrize("release", DIVISORS)
@pytest.mark.parametrize(
    ("record", "words"),
    [
        (zeros_and_ones, "is replaced by a record that nobody has, which has 1.000 C in the sum"),
        (ones, "is replaced by a record that nobody has, which has 1.000 C in the sum"),
        (half_as_long, "is replaced by a record that nobody has, which has 0.500 C in the sum"),
        (of_any_length, "releases more than its noise"),
        (now_and_then, "often is replaced by a record that nobody has, which has 1.000 C in the sum"),
        (next_to_nothing, "is a step of noise alone, divided by about"),
    ],
)
def test_a_record_that_is_made_up_is_found(release: Round, record: Callable[..., Array], words: str) -> None:
    finding = probe(MadeUp(record, release), seed=0, rounds=30)
    assert finding.empty_batch.startswith(words)
    assert any(one.severity is Severity.LEAK and "an empty batch" in one.words for one in finding.doubts)
    assert_exposed(finding)
    # the batches are those that are drawn
    assert finding.rates.sampling is Sampling.POISSON


@pytest.mark.parametrize("release", DIVISORS)
def test_a_record_of_no_weight_is_a_step_of_noise(release: Round) -> None:
    finding = probe(MadeUp(nothing, release), seed=0, rounds=30)
    assert finding.kind is (Kind.SGM if release.divisor is not size_of_batch else Kind.ASGM)
    assert finding.doubts == ()
    assert finding.empty_batch.startswith("is a step of noise alone")


@pytest.mark.slow
@pytest.mark.parametrize("release", DIVISORS)
def test_a_step_of_noise_is_never_taken_for_a_record(release: Round) -> None:
    for seed in range(1, 31):
        finding = probe(MadeUp(nothing, release), seed=10_000 * seed)
        assert finding.doubts == ()


# --- functions that are no mechanism at all --------------------------------------------------------------------------------

STRANGE: dict[str, Callable[[Array, Array], Array]] = {
    "zeros": lambda batch, noise: np.zeros(len(noise)),
    "no numbers": lambda batch, noise: np.full(len(noise), math.nan),
    "no numbers at times": lambda batch, noise: batch.sum(axis=0) + (noise if len(batch) % 3 else math.nan),
    "infinite where nobody is": lambda batch, noise: batch.sum(axis=0) + noise if len(batch) else noise + math.inf,
    "noise alone": lambda batch, noise: noise,
    "no noise": lambda batch, noise: batch.sum(axis=0),
    "too large where nobody is": lambda batch, noise: batch.sum(axis=0) + noise if len(batch) else noise + 1e200,
    "always the same": lambda batch, noise: np.full(len(noise), 3.0),
    "no noise, and somebody where nobody is": lambda batch, noise: (
        batch.sum(axis=0) if len(batch) else noise * 0.0 + 1.0
    ),
    "signs": lambda batch, noise: np.sign(batch.sum(axis=0) + noise),
    "squares": lambda batch, noise: (batch.sum(axis=0) + noise) ** 2,
}


@pytest.mark.parametrize("step", [1e300, 1e-300])
def test_steps_out_of_all_size_are_read_in_another_unit(step: float) -> None:
    """Squares of such numbers are infinite, or nothing."""
    finding = probe(Round(step=step), seed=0, rounds=20)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())
    assert any("in size: it is read times 2^" in remark.words for remark in finding.remarks)


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_mechanism_is_found_to_be_none(name: str) -> None:
    """Without a warning of the arithmetic, which would be an error here."""

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Array:
        batch = flat(gradients, max_grad_norm)[poisson(len(gradients), sample_rate, generator)]
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
        return STRANGE[name](batch, noise)

    finding = probe(release, seed=0, rounds=20)
    assert finding.kind is Kind.UNKNOWN
    assert finding.doubts
    assert of_probe(finding, None, None).standing is not Standing.CLEAR
