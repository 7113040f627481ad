"""How batches are drawn, from the batches that were seen.

Shuffled: within every epoch each record comes exactly once. Poisson at a rate: the number of records drawn and the variance of
|B| are those of independent draws, to five standard errors, at a rate that one law gives for all settings:

    q            as it was set
    1/ceil(N/b)  a data loader's
    b/N
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from noisymean.probe.finding import Rates, Sampling
from noisymean.probe.laws import Observed, loader_length
from noisymean.probe.subject import Knob, Setting

_ERRORS = 5.0
_LAWS: tuple[tuple[str, Callable[[Setting], float | None]], ...] = (
    ("q as it is set", lambda setting: None if setting.rate is None else float(setting.rate)),
    ("1/ceil(N/b)", lambda setting: 1 / length if (length := loader_length(setting)) else None),
    (
        "b/N",
        lambda setting: None if setting.batch_size is None else min(1.0, setting.batch_size / setting.dataset_size),
    ),
)


def rates_of(knob: Knob, observed: Sequence[Observed]) -> Rates:
    """How batches are drawn; settings whose releases cannot be read say nothing."""
    if knob in (Knob.BATCH, Knob.FIXED):
        return Rates(Sampling.GIVEN, None, moves_with_size=False)
    readable = [one for one in observed if one.readings and all(reading.finite for reading in one.readings)]
    if readable and all(_is_shuffled(one) for one in readable):
        return Rates(Sampling.SHUFFLED, None, moves_with_size=False)
    fitting = [words for words, law in _LAWS if all(_fits(one, law(one.setting)) for one in readable)]
    moved = tuple(_moved(readable))
    if len(fitting) != 1:
        return Rates(Sampling.UNKNOWN, None, moves_with_size=bool(moved), moved=moved)
    return Rates(Sampling.POISSON, fitting[0], moves_with_size=bool(moved), moved=moved)


def _sizes(observed: Observed) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([reading.size for reading in observed.readings], dtype=np.float64)


def _fits(observed: Observed, rate: float | None) -> bool:
    """Mean and variance of |B| against the binomial law's."""
    if rate is None:
        return False
    sizes, records = _sizes(observed), observed.setting.dataset_size
    count, variance = len(sizes), records * rate * (1.0 - rate)
    if variance == 0.0:
        return bool((sizes == records * rate).all())
    # the fourth moment of a binomial law about its mean, for the error of its variance
    fourth = variance * (1.0 + 3.0 * variance * (1.0 - 2.0 / records))
    if abs(sizes.mean() - records * rate) > _ERRORS * math.sqrt(variance / count):
        return False
    squares = ((sizes - records * rate) ** 2).mean()
    return bool(abs(squares - variance) <= _ERRORS * math.sqrt((fourth - variance**2) / count))


def _moved(observed: Sequence[Observed]) -> list[str]:
    """Pairs of neighbours whose rates differ by more than six standard errors."""
    by_setting = {one.setting: one for one in observed}
    found = []
    for setting, one in by_setting.items():
        other = by_setting.get(replace(setting, dataset_size=setting.dataset_size + 1))
        if other is None:
            continue
        before, after = (float(_sizes(each).mean()) / each.setting.dataset_size for each in (one, other))
        error = math.sqrt(
            sum(
                rate * (1.0 - rate) / (each.setting.dataset_size * len(each.readings))
                for rate, each in ((before, one), (after, other))
            )
        )
        if abs(before - after) > 6.0 * error:
            words = f"N={setting.dataset_size} -> {setting.dataset_size + 1} ({str(setting).split()[1]})"
            found.append(f"{words}: {before:.3g} -> {after:.3g}")
    return found


def _is_shuffled(observed: Observed) -> bool:
    """Each record exactly once in every epoch."""
    length = loader_length(observed.setting) or (round(1 / observed.setting.rate) if observed.setting.rate else 0)
    if length < 1 or observed.setting.dataset_size != len(frozenset().union(*(r.batch for r in observed.readings))):
        return False
    epochs = [observed.readings[start : start + length] for start in range(0, len(observed.readings), length)]
    for epoch in epochs:
        if len(epoch) == length:
            seen = Counter(axis for reading in epoch for axis in reading.batch)
            if len(seen) != observed.setting.dataset_size or set(seen.values()) != {1}:
                return False
    return True
