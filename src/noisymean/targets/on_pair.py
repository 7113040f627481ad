"""Anything that runs on records, on a pair of datasets: the same function that a probe takes, as the target of an audit.

Every trial is a run of T rounds from a seed of its own. The mechanism may be told: then the optimal test against it is used. A
test is sound whatever is run, since it is fixed before a trial is seen; told wrongly, it only sees less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import LEAST_NOISE, SGM, Mechanism
from noisymean.numerics.logs import Array
from noisymean.targets import underway
from noisymean.targets.callable_ import attached_claim
from noisymean.targets.claims import claimed_curve
from noisymean.targets.files import check_unchanged, how_to, place_of, sha256_of, trials_of
from noisymean.targets.functions import FunctionOfGradients
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.protocol import (
    BuiltIn,
    Knob,
    Known,
    Neighbour,
    Raised,
    Request,
    Runnable,
    Setting,
    TrialFault,
    check_steps,
)
from noisymean.targets.registry import runnable_named
from noisymean.targets.starts import Start
from noisymean.targets.synthetic import mechanism_at
from noisymean.tradeoff import TradeOff

# Gradients are written out, for D and for D'.
_MOST_NUMBERS = 1 << 27
# By whether the implementation is set by the size of a batch: why the other option says nothing.
_WHY = {True: "it draws its own batches, of this size", False: "records are drawn at this rate and handed to it"}


@final
@dataclass(frozen=True, kw_only=True)
class OnPair:
    """A runnable by its name, as `noisymean probe` takes it, on `dataset_size` records and on one more.

    `rows`, one for each record of D', take the place of gradients of our own making.
    """

    runnable: str
    dataset_size: int
    dimension: int
    noise_multiplier: float
    sample_rate: Fraction | None = None
    batch_size: int | None = None
    max_grad_norm: float = 0.1
    # None: left open, for an audit to choose (`starts`)
    gradients: Start | None = None
    rows: tuple[tuple[float, ...], ...] | None = None
    steps: int = 1
    gradient_seed: int = 0
    mechanism: str | None = None
    # of the file, where it is one
    file: str | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        check_number("noise_multiplier", self.noise_multiplier, least=LEAST_NOISE, most=1e9)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        check_number("dataset_size", self.dataset_size, least=1)
        check_number("dimension", self.dimension, least=1)
        check_steps(self.steps)
        if (self.dataset_size + 1) * self.dimension > _MOST_NUMBERS:
            raise InvalidInput(
                "dimension", self.dimension, f"such that {self.dataset_size + 1} gradients fit into memory",
                "a function of gradients is handed all of them: try fewer records or numbers",
            )  # fmt: skip
        if self.rows is not None and [*map(len, self.rows)] != [self.dimension] * (self.dataset_size + 1):
            raise InvalidInput("rows", len(self.rows), f"{self.dataset_size + 1} rows of {self.dimension} numbers")
        if ".py:" in self.runnable and self.sha256 is None:
            file, attribute = place_of(self.runnable)
            object.__setattr__(self, "runnable", f"{file.resolve()}:{attribute}")
            object.__setattr__(self, "file", str(file.resolve()))
            object.__setattr__(self, "sha256", sha256_of(file))
        if self.gradients is None and (self.mechanism is not None or self.rows is not None):
            # nothing is left to choose
            object.__setattr__(self, "gradients", Start.RANDOM)
        self._check_sampling()
        self.told  # noqa: B018 - a mechanism that does not exist at this size is refused now

    def _check_sampling(self) -> None:
        """The rate or the batch size, whichever the runnable can be told."""
        by_size = self._run.knob is Knob.BATCH_SIZE
        name, value = ("batch_size", self.batch_size) if by_size else ("sample_rate", self.sample_rate)
        other, unused = ("sample_rate", self.sample_rate) if by_size else ("batch_size", self.batch_size)
        if value is None:
            raise InvalidInput(name, None, f"given for {self._run.name}", _WHY[by_size])
        if unused is not None:
            raise InvalidInput(other, unused, f"left out for {self._run.name}", _WHY[by_size])
        if by_size and not 1 <= value <= self.dataset_size:
            raise InvalidInput("batch_size", value, f"a whole number from 1 to {self.dataset_size}")

    @property
    def name(self) -> str:
        what = "given" if self.rows is not None else "any" if self.gradients is None else self.gradients.value
        drawn = f"b={self.batch_size}" if self.sample_rate is None else f"q={float(self.sample_rate):.6g}"
        return (
            f"{self._run.name}, {what} gradients: N={self.dataset_size} n={self.dimension} {drawn}"
            f" sigma={self.noise_multiplier:g} C={self.max_grad_norm:g} T={self.steps}"
        )

    def configuration(self) -> Mapping[str, Any]:
        return {"target": "runnable", **to_plain(self)}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> OnPair:
        """The same, or a complaint that the file has changed meanwhile."""
        if configuration["sha256"] is not None:
            check_unchanged(configuration)
        return from_plain(cls, configuration)

    @cached_property
    def _run(self) -> Runnable:
        return runnable_named(self.runnable, BuiltIn(self.noise_multiplier, self.max_grad_norm))

    def _setting(self, size: int) -> Setting:
        return Setting(size, self.sample_rate, self.batch_size)

    @cached_property
    def _gradients(self) -> Array:
        """Of D', before clipping."""
        if self.rows is not None:
            return np.asarray(self.rows, np.float64)
        count, start = self.dataset_size + 1, self.gradients or Start.RANDOM
        return start.rows(count, self.dimension, self.max_grad_norm, self.gradient_seed, self._usual_batch)

    @property
    def _usual_batch(self) -> float:
        """Records in a batch of D, on average."""
        return float(self.batch_size or self.dataset_size * (self.sample_rate or 1))

    def pairs(self) -> Sequence[OnPair]:
        """One for each start, where none is given."""
        return self._pairs

    def unchosen(self) -> OnPair:
        """Random directions, where nothing is chosen: no gradient is zero, which some functions divide by."""
        return replace(self, gradients=self.gradients or Start.RANDOM)

    @cached_property
    def _pairs(self) -> Sequence[OnPair]:
        if self.gradients is not None:
            return ()
        made = [replace(self, gradients=start) for start in Start]
        for one in made:
            # a file is executed once
            vars(one)["_run"] = self._run
        return made

    def pulls(self) -> Array:
        """The record's gradient, and what the others have in common."""
        rows = self._gradients
        return np.stack([rows[-1], rows[:-1].mean(axis=0)])

    def scales(self) -> tuple[float, ...]:
        """Of the noise of a sum, and of that sum over the usual batch."""
        noise = self.noise_multiplier * self.max_grad_norm
        return 1.0, noise, noise / self._usual_batch

    @cached_property
    def told(self) -> Mechanism | None:
        """The mechanism that it is said to be."""
        if self.mechanism is None:
            return None
        return mechanism_at(self.mechanism, self._setting(self.dataset_size), self.dimension, self.noise_multiplier)

    def known(self) -> Known | None:
        """Gradients are known; the mechanism only if it was told."""
        if self.told is None:
            return None
        if self.rows is None and self.gradients is not None and self.gradients.structure is not None:
            return Known(self.told, self.max_grad_norm, structured=self.gradients.structure, told=True)
        lengths = np.linalg.norm(self._gradients, axis=1, keepdims=True)
        clipped = self._gradients * np.minimum(1.0, self.max_grad_norm / np.maximum(lengths, 1e-300))
        return Known(self.told, self.max_grad_norm, gradients=clipped, told=True)

    def claim(self) -> TradeOff | None:
        """What the function carries; else SGM at its rate, b/N where a batch size is set (no loader samples at more)."""
        if isinstance(self._run, FunctionOfGradients):
            carried = attached_claim(self._run.release, self._run.name)
            if carried is not None:
                return carried
        rate = self.sample_rate if self.sample_rate is not None else Fraction(self.batch_size or 1, self.dataset_size)
        return claimed_curve(self.told or SGM(sample_rate=rate, noise_multiplier=self.noise_multiplier), self.steps)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        size = neighbour.size(self.dataset_size)
        setting = self._setting(size)

        def once(source: np.random.Generator, index: int) -> Array:
            seed = int(source.integers(1 << 63))
            try:
                return self._once(self._request(setting, self._gradients[:size], seed))
            except Raised as fault:
                raise TrialFault(index, f"{fault}; {how_to(source)}") from fault

        # where there is nothing to hide, no noise may be what it does: that is for the attacker to see
        silent = neighbour is Neighbour.SMALLER and not self._gradients[:size].any()
        shape = (self.steps, self.dimension + self.beside())
        return trials_of(once, shape, generator, trials, may_be_constant=silent)

    def _request(self, setting: Setting, gradients: Array, seed: int) -> Request:
        return Request(setting, gradients, self.noise_multiplier, self.max_grad_norm, self.steps, seed)

    def _once(self, request: Request) -> Array:
        """A run; what comes beside the release is seen as well, unless the mechanism is told and the test is made for it."""
        if self.told is not None or not isinstance(self._run, FunctionOfGradients):
            return self._run.run(request)
        found, unit = self._run.parts(request)
        return np.array([np.append(one.release * unit, one.beside) for one in found])

    def beside(self) -> int:
        """Numbers that come beside the release, by a first run."""
        return self._beside

    @cached_property
    def _beside(self) -> int:
        if self.told is not None or not isinstance(self._run, FunctionOfGradients):
            return 0
        size = self.dataset_size
        try:
            with underway.doing(underway.Stage.FIRST_RUN):
                return (
                    int(self._once(self._request(self._setting(size), self._gradients[:size], 0)).shape[1])
                    - self.dimension
                )
        except Raised:
            # it is said of a trial, which can be run again
            return 0
