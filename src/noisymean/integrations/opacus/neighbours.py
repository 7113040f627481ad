r"""From what was seen of a run on N records to the mechanisms that it and its neighbours run.

The training set has N records, so it is D' of the pair (N-1, N) and D of the pair (N, N+1); both count. What the run would have
been on the other dataset follows from where its numbers came from:

    denominator                          sampling rate         mechanism
    sum, or a public constant            public                SGM
    sum, or a public constant            1/ceil(N/b)           SGM where N+-1 leaves the rate alone, else none that we know
    int(N/L)                             1/ceil(N/b)           OpacusLoader: what make_private does
    floor(N q)                           public                FEASGM
    N q                                  public                EASGM

The batch size b is not kept by Opacus. From N and L = ceil(N/b) it is known up to a small range, at the ends of which the rate
may move with N and inside of which it does not: all of the cases are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import final

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.seen import Seen
from noisymean.mechanisms import EASGM, FEASGM, LEAST_NOISE, SGM, Mechanism, OpacusLoader, exact_rate

_MOST_CASES = 27


class Unknown(Exception):
    """No mechanism of ours describes this; the message says why."""


@final
@dataclass(frozen=True)
class Stretch:
    """Steps of one kind: the noise, the rate that the accountant was told, how many, and what the optimizer showed."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    seen: Seen

    @property
    def noisy(self) -> bool:
        """Whether there is any privacy to speak of."""
        return self.noise_multiplier >= LEAST_NOISE

    @property
    def claim(self) -> SGM:
        """What an accountant of the noisy sum takes it for."""
        return SGM(sample_rate=Fraction(self.sample_rate), noise_multiplier=self.noise_multiplier)


@final
@dataclass(frozen=True)
class Case:
    """One pair of neighbours under one possible batch size of each loader; |D| = smaller."""

    smaller: int
    segments: tuple[tuple[Mechanism, int], ...] | None
    why_not: str = ""


def cases(stretches: Sequence[Stretch], dataset_size: int, batch_size: int | None) -> list[Case]:
    """Every pair that the training set belongs to, under every batch size that it may have had."""
    loaded = (one for one in stretches if one.seen.public.sample_rate is None and one.seen.accumulated == 1)
    moving = sorted({one.sample_rate for one in loaded})
    choices = [batch_sizes(dataset_size, rate, batch_size) for rate in moving]
    if len(list(product(*choices))) > _MOST_CASES:
        raise InvalidInput("batch_size", None, f"given for a run with {len(moving)} sampling rates")
    found = dict[Case, None]()
    for smaller in (dataset_size, dataset_size - 1):
        for chosen in product(*choices) if smaller >= 1 else ():
            sizes = dict(zip(moving, chosen, strict=True))
            found[_case(stretches, dataset_size, smaller, sizes)] = None
    return list(found)


def _case(stretches: Sequence[Stretch], dataset_size: int, smaller: int, sizes: dict[float, int]) -> Case:
    try:
        segments = tuple(
            (mechanism_of(one, dataset_size, smaller, sizes.get(one.sample_rate)), one.steps) for one in stretches
        )
    except Unknown as reason:
        return Case(smaller, None, str(reason))
    return Case(smaller, segments)


def mechanism_of(stretch: Stretch, dataset_size: int, smaller: int, batch_size: int | None) -> Mechanism:
    """What ran on the training set, as a mechanism on the pair (smaller, smaller + 1). Unknown where there is none."""
    seen, rate = stretch.seen, stretch.sample_rate
    if not stretch.noisy:
        raise Unknown("no noise was added")
    if seen.accumulated > 1:
        raise Unknown(f"{seen.accumulated} batches were drawn for one step: a record may be in several of them")
    if seen.divides_count:
        raise Unknown("adaptive clipping divides its noisy count by the size of the batch")
    constant = seen.denominator is None or seen.public.denominator is not None
    if batch_size is None:
        return _at_public_rate(stretch, dataset_size, smaller, constant=constant)
    if batch_size > smaller:
        # one batch is all of the records, with one more as well
        return _at_public_rate(stretch, dataset_size, smaller, constant=constant)
    loader = OpacusLoader(
        dataset_size=smaller,
        batch_size=batch_size,
        # which a constant does not care about
        dimension=1 if constant else _dimension(seen),
        noise_multiplier=stretch.noise_multiplier,
    )
    if not constant and loader.run(dataset_size).expected_batch_size != seen.denominator:
        raise Unknown(_strange(seen, dataset_size, rate))
    if not constant:
        return loader
    if loader.rate_moves:
        (before, _), (after, _) = loader.runs
        raise Unknown(f"the sampling rate is {before:.6g} on {smaller} records and {after:.6g} on {smaller + 1}")
    # the sampler's rate: the accountant's is never smaller
    return SGM(sample_rate=loader.rate, noise_multiplier=stretch.noise_multiplier)


def _at_public_rate(stretch: Stretch, dataset_size: int, smaller: int, *, constant: bool) -> Mechanism:
    seen, sigma = stretch.seen, stretch.noise_multiplier
    rate = as_written(stretch.sample_rate)
    if constant:
        return SGM(sample_rate=rate, noise_multiplier=sigma)
    floor = FEASGM(dataset_size=smaller, dimension=_dimension(seen), sample_rate=rate, noise_multiplier=sigma)
    if (dataset_size * rate) // 1 == seen.denominator:
        return floor
    if seen.denominator is not None and abs(float(dataset_size * rate) - seen.denominator) <= 1e-9 * seen.denominator:
        return EASGM(dataset_size=smaller, dimension=_dimension(seen), sample_rate=rate, noise_multiplier=sigma)
    raise Unknown(_strange(seen, dataset_size, stretch.sample_rate))


def as_written(rate: float) -> Fraction:
    """1/L where the float is 1/L, which has no short decimal; else the decimal.

    >>> as_written(1 / 300), as_written(0.003)
    (Fraction(1, 300), Fraction(3, 1000))
    """
    whole = round(1 / rate)
    return Fraction(1, whole) if 1 / whole == rate else exact_rate(rate)


def batch_sizes(dataset_size: int, rate: float, batch_size: int | None) -> list[int]:
    """Batch sizes for which Opacus tells its accountant this rate; one of each behaviour is enough."""
    found = list(dict.fromkeys(_possible(dataset_size, rate)))
    fitting = [size for size in found if batch_size in (None, size)] or (
        [batch_size] if batch_size is not None and _told_rate(dataset_size, batch_size) == rate else []
    )
    if not fitting:
        raise InvalidInput(
            "batch_size" if batch_size is not None else "dataset_size",
            batch_size if batch_size is not None else dataset_size,
            f"such that ceil(dataset_size / batch_size) batches give the rate {rate:.6g}",
            "give the number of training records, and sample_rate= if the loader was given a rate",
        )
    return fitting


def _possible(dataset_size: int, rate: float) -> Iterator[int]:
    steps = round(1 / rate)
    for length in (steps, steps + 1):
        # int(1/(1/L)) is L - 1 for some L
        low = -(-dataset_size // length)
        high = dataset_size + 1 if length == 1 else (dataset_size - 1) // (length - 1)
        for size in (low, (low + high) // 2, high):
            if 1 <= low <= size <= high and _told_rate(dataset_size, size) == rate:
                yield size


def _told_rate(dataset_size: int, batch_size: int) -> float:
    return 1 / int(1 / (1 / -(-dataset_size // batch_size)))


def _dimension(seen: Seen) -> int:
    if seen.dimension is None:
        raise InvalidInput("dimension", None, "the number of trainable parameters", "give it to the accountant")
    return seen.dimension


def _strange(seen: Seen, dataset_size: int, rate: float) -> str:
    return (
        f"the sum is divided by {seen.denominator:g}, which is not what Opacus makes of {dataset_size} records at the rate"
        f" {rate:.6g}: if it is a constant of yours, say so with fix(optimizer, denominator={seen.denominator:g})"
    )


def promised(stretch: Stretch, sample_rate: float | None) -> Stretch:
    """`stretch`, its rate known to be public if it is the one that was promised."""
    if sample_rate != stretch.sample_rate:
        return stretch
    seen = stretch.seen
    return replace(stretch, seen=replace(seen, public=replace(seen.public, sample_rate=sample_rate)))
