"""What is known of a run with Opacus: its stretches, what was said about it, and what it was on each pair of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

from noisymean.integrations.opacus.seen import Seen
from noisymean.mechanisms import LEAST_NOISE, SGM, Mechanism, Sampling
from noisymean.opacus_noise import may_be_calibrated
from noisymean.runs import Run


class Unknown(Exception):
    """No mechanism of ours describes this; the message says why."""


@final
@dataclass(frozen=True)
class CalibratedTo:
    """What make_private_with_epsilon was told, and with whose accountant it calibrated. A `delta` that is written as text is a
    constant, or 1/N; of a number that is 1/N here nobody knows."""

    epsilon: float
    delta: float | str
    epochs: int
    accountant: str

    def deltas(self, size: int) -> tuple[float | str, ...]:
        """What delta may have been, on `size` records."""
        if self.delta == "1/N":
            return ("1/N",)
        value = float(self.delta)
        return (value, "1/N") if not isinstance(self.delta, str) and value == 1.0 / size else (value,)


@final
@dataclass(frozen=True)
class Facts:
    """What is known of a run beside its steps; None where nobody said.

    `noise` are noise multipliers that were chosen without looking at the data, `target` what they were calibrated to otherwise.
    """

    dataset_size: int
    batch_size: int | None = None
    drop_last: bool | None = None
    noise: tuple[float, ...] = ()
    target: CalibratedTo | None = None

    def noise_is_known(self, stretch: Stretch) -> bool:
        """Whether it is known where the noise comes from."""
        sigma, from_records = stretch.noise_multiplier, stretch.seen.noise_from_records
        if self.target is not None or sigma in self.noise:
            return True
        return not may_be_calibrated(sigma) if from_records is None else not from_records


def constants(noise: float | Sequence[float] | None) -> tuple[float, ...]:
    """One noise multiplier, or those of a schedule."""
    if noise is None:
        return ()
    return (float(noise),) if isinstance(noise, int | float) else tuple(float(one) for one in noise)


class Loaded(NamedTuple):
    """A data loader that make_private may have been given."""

    batch_size: int
    drop_last: bool


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
    def by_epochs(self) -> bool:
        """Whether a record is in one batch of an epoch, so that whole epochs count."""
        return self.seen.drawn.sampling in (Sampling.SHUFFLE, Sampling.CYCLIC, Sampling.BALLS_IN_BINS)

    @property
    def in_epoch(self) -> int:
        """Steps of an epoch."""
        return max(round(1 / self.sample_rate), 1)

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

    @property
    def is_poisson(self) -> bool:
        """Whether it is known, and every batch drawn by Poisson sampling."""
        return self.segments is not None and all(one.is_poisson for one, _ in self.segments)

    @property
    def run(self) -> Run:
        """The segments together; only where they are known."""
        return Run.of(self.segments or ()).merged()


class Source(NamedTuple):
    """What is known of a data loader: the rate that the accountant was told, and what was seen of its sampler."""

    sample_rate: float
    sampled: float | None
    records: int | None
    is_cut: bool
    batch_size: int | None
    drop_last: bool | None
