"""What Opacus 1.x makes of an ordinary data loader: rate, denominator and possibly noise, all from N and b."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import final

from noisymean.checks import real, switch, whole
from noisymean.choices import written_as
from noisymean.errors import InvalidInput, Undefined
from noisymean.mechanisms.base import LARGEST_DATASET, DatasetDenominator, register
from noisymean.mechanisms.rates import ToldRate
from noisymean.mechanisms.sampling import Sampling
from noisymean.words import EpochsDiffer, LoaderRuns, NoiseFollowsSize, Note, ToldAnotherRate

# Those of the engine of Opacus.
_ACCOUNTANTS = ("prv", "rdp", "gdp")
_CALIBRATION = ("target_epsilon", "target_delta", "epochs", "accountant")


@final
@dataclass(frozen=True)
class LoaderRun:
    """What Opacus 1.x makes of a data loader, in its own floating point."""

    loader_length: int
    sample_rate: float
    steps_per_epoch: int
    accountant_rate: ToldRate
    expected_batch_size: int


@final
@register
@dataclass(frozen=True, kw_only=True)
class OpacusLoader(DatasetDenominator):
    """DP-SGD through Opacus 1.x's `make_private` on an ordinary data loader: q and the denominator both come from N and b.

    With L = ceil(N/b) (floor(N/b) if the loader drops its last batch) the sampler's rate is 1/L, it takes int(1/(1/L)) steps an
    epoch, and the optimizer divides by int(N * (1/steps)), everything in binary floating point, reproduced here to the bit.
    Adding a record can move L, and with it q.

    >>> OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0).runs
    ((0.01, 600), (0.009900990099009901, 594))

    With `make_private_with_epsilon` the noise comes from L as well: give `target_epsilon`, `target_delta` ("1/N" for the recipe
    of that name), `epochs` and the `accountant` of the engine instead of a noise multiplier, and the installed Opacus calibrates
    for each number of records.
    """

    dataset_size: int
    batch_size: int
    dimension: int
    noise_multiplier: float = math.nan
    drop_last: bool = False
    target_epsilon: float | None = None
    target_delta: float | str | None = None
    epochs: int | None = None
    accountant: str | None = None
    # shuffle or cyclic: poisson_sampling=False on a loader that shuffles, or does not
    sampling: Sampling | str = Sampling.POISSON
    unsaid = ("sampling",)
    samplings = (Sampling.POISSON, Sampling.SHUFFLE, Sampling.CYCLIC)
    name = "opacus-loader"
    denominator = "what Opacus 1.x makes of N and b"
    rate_option = "--dataset-size and --batch-size"
    rate_from_size = True
    rate_source = "Opacus computes it from N and b"

    def __post_init__(self) -> None:
        self._fix_sampling()
        self._fix(dataset_size=whole("dataset_size", self.dataset_size, 1, LARGEST_DATASET))
        self._fix(drop_last=switch("drop_last", self.drop_last))
        most = self.dataset_size if self.drop_last else self.dataset_size + 1
        self._fix(batch_size=whole("batch_size", self.batch_size, 1, most))
        told = {name: getattr(self, name) for name in _CALIBRATION}
        if self.is_calibrated:
            self._calibrate(told)
        elif not self._has_noise:
            raise InvalidInput("noise_multiplier", None, "given", "or target_epsilon, target_delta and epochs")
        elif any(value is not None for value in told.values()):
            extra = next(name for name, value in told.items() if value is not None)
            raise InvalidInput(extra, told[extra], "left out without target_epsilon", "the noise is given")
        super().__post_init__()

    def _calibrate(self, told: dict[str, object]) -> None:
        self._fix(target_epsilon=real("target_epsilon", self.target_epsilon, above=0.0, most=1e6))
        self._fix(accountant=_accountant(self.accountant), epochs=whole("epochs", self.epochs, 1, 10**9))
        if not (isinstance(self.target_delta, str) and self.target_delta == "1/N"):
            self._fix(target_delta=real("target_delta", told["target_delta"], above=0.0, most=1.0, remedy='or "1/N"'))
        near = [self.dataset_size + i for i in (0, 1, -1) if self.dataset_size + i >= self.least_size]
        if self._has_noise and self.noise_multiplier not in map(self.noise_at, near):
            raise InvalidInput(
                "noise_multiplier", self.noise_multiplier, "left out with target_epsilon", "one of the two"
            )
        self._fix(noise_multiplier=self.noise_at(self.dataset_size))

    @property
    def _has_noise(self) -> bool:
        """Whether a noise multiplier was given, whatever it is."""
        return not (isinstance(self.noise_multiplier, float) and math.isnan(self.noise_multiplier))

    @property
    def size_of_batches(self) -> int:
        """The batch size that the data loader was given."""
        return self.batch_size

    @property
    def drops_last(self) -> bool:
        """Whether the data loader drops a last batch that is not full."""
        return self.drop_last

    @property
    def is_calibrated(self) -> bool:
        """Whether the noise is computed from the number of records."""
        return self.target_epsilon is not None

    @property
    def least_size(self) -> int:
        """A loader that drops its last batch needs a whole one."""
        return self.batch_size if self.drop_last else 1

    def run(self, size: int) -> LoaderRun:
        """What a dataset of `size` records gives."""
        length = size // self.batch_size if self.drop_last else -(-size // self.batch_size)
        if length == 0:
            raise Undefined(
                "batch_size", self.batch_size, f"<= {size}", "a loader that drops its last batch has no other here"
            )
        rate = 1 / length
        # a sampler of Opacus' own reads its length off the rate; a loader that stays the user's has it
        steps = int(1 / rate) if self.is_poisson else length
        told = 1 / steps
        return LoaderRun(length, rate, steps, ToldRate(told), int(size * told))

    @property
    def runs(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """(sample rate, denominator) on D and on D'; Opacus may divide by 0."""
        before, after = self.run(self.dataset_size), self.run(self.dataset_size + 1)
        return (before.sample_rate, before.expected_batch_size), (after.sample_rate, after.expected_batch_size)

    def rate_at(self, size: int) -> Fraction:
        """1/L, the exact value of its binary float."""
        return Fraction(self.run(size).sample_rate)

    @property
    def sample_rate(self) -> Fraction:
        """The sampler's rate on D."""
        return self.rate

    def told_rate(self) -> ToldRate:
        """One over the steps of an epoch."""
        return self.run(self.dataset_size).accountant_rate

    def noise_at(self, size: int) -> float:
        """As it was given, or calibrated to `size` records."""
        if not self.is_calibrated:
            return self.noise_multiplier
        delta = 1.0 / size if self.target_delta == "1/N" else float(self.target_delta or 0.0)
        # Opacus is asked, which the mathematics does not import
        opacus = import_module("noisymean.opacus_noise")
        rate = self.run(size).sample_rate
        return float(opacus.noise_multiplier(self.target_epsilon, delta, rate, self.epochs, self.accountant or "prv"))

    def denominator_at(self, size: int) -> Fraction:
        """int(N/steps), which Opacus really divides by, also where it is 0."""
        found = self.run(size).expected_batch_size
        if found == 0:
            raise Undefined(
                "batch_size",
                self.batch_size,
                "such that int(N/steps) >= 1",
                f"at N={size} Opacus divides by zero and releases non-finite gradients",
            )
        return Fraction(found)

    def steps_in(self, epochs: float) -> int:
        """The number of steps in so many epochs, as Opacus counts them."""
        return math.ceil(epochs * self.run(self.dataset_size).steps_per_epoch)

    def constants_for_opacus(self) -> tuple[Fraction, int]:
        """The rate that its sampler has on this dataset, and the batch size that was asked for."""
        return Fraction(1, self.run(self.dataset_size).loader_length), self.batch_size

    def notes(self) -> tuple[Note, ...]:
        """What Opacus computes with one record less, with this number, and with one more."""
        size = self.dataset_size
        sizes = range(max(size - 1, self.least_size), size + 2)
        runs = {one: self.run(one) for one in sizes}
        here = runs[size]
        found: list[Note] = [
            LoaderRuns(tuple((one, run.loader_length, run.expected_batch_size) for one, run in runs.items()))
        ]
        if here.accountant_rate != ToldRate(here.sample_rate):
            found.append(ToldAnotherRate(here.loader_length, here.steps_per_epoch))
        if self.target_epsilon is not None:
            found.append(NoiseFollowsSize(self.target_epsilon, tuple((one, self.noise_at(one)) for one in sizes)))
        steps = tuple(dict.fromkeys(run.steps_per_epoch for run in runs.values()))
        if len(steps) > 1:
            found.append(EpochsDiffer(steps))
        return tuple(found)

    def rate_in_words(self) -> str:
        """The sampling rate, and that it comes from the number of batches."""
        return f"1/{self.run(self.dataset_size).loader_length}, one over the number of batches"

    def denominator_in_words(self) -> str:
        """The denominator, and that Opacus computes it from the number of records."""
        divided = self.run(self.dataset_size).expected_batch_size
        return f"{divided:,}, which Opacus computes from the number of records"

    def noise_in_words(self) -> tuple[str, str]:
        """The noise multiplier, and the option or the calibration that it comes from."""
        if not self.is_calibrated:
            return super().noise_in_words()
        target = f"{self.noise_multiplier:g}, calibrated to epsilon = {self.target_epsilon:g}"
        return f"{target}, and so to the number of records", "what it was calibrated to"


def _accountant(given: object) -> str:
    """The accountant of the engine by its name, prv where none is said."""
    if given is None:
        return _ACCOUNTANTS[0]
    found = written_as(given, _ACCOUNTANTS) if isinstance(given, str) else None
    if found is None:
        raise InvalidInput("accountant", given, f"one of {', '.join(_ACCOUNTANTS)}")
    return found
