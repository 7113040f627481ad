"""Denominators as functions of what is public and what is not, and which of them explains what was read.

A law is kept if it gives every denominator that was read, on every dataset and batch, to four digits, up to one factor for
all of them: a step size, which gradients and noise have in common. The designed settings are such that no two laws of different
mechanisms give the same numbers on all of them; if two survive all the same, the answer is that it is not known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias, final

import numpy as np

from noisymean.mechanisms import OpacusLoader
from noisymean.probe.chance import DEVIATIONS
from noisymean.probe.records import TOLERANCE, Reading
from noisymean.targets.protocol import Setting


class Kind(Enum):
    """The mechanism, by its denominator."""

    SGM = "sgm"
    EASGM = "easgm"
    ASGM = "asgm"
    FEASGM = "feasgm"
    LOADER = "opacus-loader"
    INDEPENDENT = "independent"
    UNKNOWN = "unknown"


@final
@dataclass(frozen=True)
class Observed:
    """A setting and what was read in its rounds."""

    setting: Setting
    readings: tuple[Reading, ...]

    @property
    def known(self) -> tuple[tuple[int, float], ...]:
        """(|B|, denominator) of the rounds that show both."""
        return tuple((one.size, one.clipped) for one in self.readings if one.clipped is not None)

    @property
    def denominators(self) -> tuple[float, ...]:
        """Different denominators, in order."""
        found: list[float] = []
        for _, value in self.known:
            if not any(math.isclose(value, other, rel_tol=TOLERANCE) for other in found):
                found.append(value)
        return tuple(sorted(found))


def neighbours(observed: Iterable[Observed]) -> Iterator[tuple[str, Observed, Observed]]:
    """Each setting that was run with one record more as well: the two sizes in words, and what was seen at them."""
    by_setting = {one.setting: one for one in observed}
    for at, one in by_setting.items():
        if (other := by_setting.get(replace(at, dataset_size=at.dataset_size + 1))) is not None:
            yield f"N={at.dataset_size} -> {at.dataset_size + 1} ({str(at).split()[1]})", one, other


Value: TypeAlias = Callable[[Setting, int], float | None]


@final
@dataclass(frozen=True)
class DenominatorLaw:
    """A denominator: in words, as a mechanism, as a function; None where the law does not speak of such a setting."""

    words: str
    kind: Kind
    value: Value

    def fitted(self, observed: Sequence[Observed]) -> DenominatorLaw | None:
        """The law that gives every denominator that was read, with the factor that this takes; None if no factor does."""
        factors = []
        for one in observed:
            for size, found in one.known:
                expected = self.value(one.setting, size)
                if not expected:
                    return None
                factors.append(found / expected)
        if not factors or not _is_one_number(factors):
            return None
        if math.isclose(factors[0], 1.0, rel_tol=TOLERANCE):
            return self
        factor = factors[0]

        def scaled(setting: Setting, size: int) -> float | None:
            return None if (value := self.value(setting, size)) is None else value * factor

        return DenominatorLaw(f"{self.words}, times {factor:.4g}", self.kind, scaled)


def loader_length(setting: Setting) -> int | None:
    """L = ceil(N / b)."""
    return None if setting.batch_size is None else -(-setting.dataset_size // setting.batch_size)


def _by_rate(value: Callable[[Fraction], float]) -> Value:
    """A function of N q."""
    return lambda setting, _: None if setting.rate is None else float(value(setting.dataset_size * setting.rate))


def _by_length(value: Callable[[int, int], float]) -> Value:
    """A function of N and L."""
    return lambda at, _: None if (length := loader_length(at)) is None else float(value(at.dataset_size, length))


def _loader(setting: Setting, _: int) -> float | None:
    if setting.batch_size is None:
        return None
    size = setting.dataset_size
    plain = OpacusLoader(dataset_size=size, batch_size=setting.batch_size, dimension=1, noise_multiplier=1.0)
    return float(plain.run(size).expected_batch_size)


LAWS = (
    DenominatorLaw("|B|, the size of the batch", Kind.ASGM, lambda _, size: float(size)),
    DenominatorLaw("N q", Kind.EASGM, _by_rate(float)),
    DenominatorLaw("floor(N q)", Kind.FEASGM, _by_rate(lambda expected: max(math.floor(expected), 1))),
    DenominatorLaw("int(N * (1/L)) in floating point, L = len(data_loader)", Kind.LOADER, _loader),
    DenominatorLaw("floor(N / L), L = ceil(N / b)", Kind.UNKNOWN, _by_length(operator.floordiv)),
    DenominatorLaw("N / L, L = ceil(N / b)", Kind.UNKNOWN, _by_length(operator.truediv)),
    DenominatorLaw("N, the number of records", Kind.UNKNOWN, lambda setting, _: float(setting.dataset_size)),
    DenominatorLaw(
        "1/|B|: what is released is multiplied by the size of the batch",
        Kind.UNKNOWN,
        lambda _, size: 1.0 / max(size, 1),
    ),
)


def constant_of(observed: Sequence[Observed]) -> str | None:
    """In words, if the denominator is the same for all N and all batches wherever the user's choice is the same."""
    groups: dict[object, list[float]] = {}
    sizes: dict[object, set[int]] = {}
    for one in observed:
        groups.setdefault(one.setting.chosen, []).extend(one.denominators)
        sizes.setdefault(one.setting.chosen, set()).add(one.setting.dataset_size)
    seen = {choice: values for choice, values in groups.items() if values}
    if not any(len(sizes[choice]) > 1 for choice in seen) or not all(map(_is_one_number, seen.values())):
        return None
    values = [group[0] for group in seen.values()]
    return (
        f"{values[0]:.4g}, a constant" if _is_one_number(values) else "a constant for each choice of rate or batch size"
    )


def by_size(observed: Sequence[Observed]) -> DenominatorLaw | None:
    """A law that has no name: every |B| has one denominator, whatever N and the rate are, and not all have the same."""
    seen: dict[int, list[float]] = {}
    for one in observed:
        for size, value in one.known:
            seen.setdefault(size, []).append(value)
    values = {size: found[0] for size, found in sorted(seen.items())}
    often = sum(len(found) > 1 for found in seen.values())
    if often < 3 or not all(map(_is_one_number, seen.values())) or _is_one_number(list(values.values())):
        return None
    few = [size for size in (1, 2, 4, 8) if size in values] or list(values)[:3]
    words = ", ".join(f"{values[size]:.4g} at {size}" for size in few)
    return DenominatorLaw(f"a number that follows |B|: {words}", Kind.UNKNOWN, lambda _, size: values.get(size))


def _is_one_number(values: Sequence[float]) -> bool:
    return all(math.isclose(value, values[0], rel_tol=TOLERANCE) for value in values)


def is_independent_draw(observed: Sequence[Observed]) -> bool:
    """Whole numbers that vary like a batch size of their own: mean and variance of |B|, but no correlation with it."""
    crowded = [one for one in observed if len(one.known) >= 100]
    if not crowded:
        return False
    for one in crowded:
        sizes, found = (np.array(column, dtype=np.float64) for column in zip(*one.known, strict=True))
        # of all rounds: those that show a denominator have a record more
        every = np.array([reading.size for reading in one.readings], dtype=np.float64)
        count = len(sizes)
        if not np.allclose(found, np.rint(found), rtol=TOLERANCE) or found.std() == 0.0 or sizes.std() == 0.0:
            return False
        variance = every.var()
        if abs(np.corrcoef(sizes, found)[0, 1]) > DEVIATIONS / math.sqrt(count):
            return False
        if abs(found.mean() - every.mean()) > DEVIATIONS * math.sqrt(2.0 * variance / count):
            return False
        if abs(found.var() / variance - 1.0) > DEVIATIONS * math.sqrt(4.0 / count):
            return False
    return True
