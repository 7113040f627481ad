"""How batches are drawn, from the batches that were seen.

Shuffled: within every epoch each record comes exactly once. Poisson at a rate: who is in the batch, how many are, and who is in
it again in the next round are those of independent draws, at a rate that one law gives for all settings (`RateLaw`), and nobody
is in a batch twice. In parts: each part of the records has a batch of its own at that rate, and one that is empty is drawn again
(processes that each leave out their own empty batches do that), so that |B| is a sum of numbers that are never 0.

    records drawn in all rounds   binomial, at the law's rate; and so for each record by itself
    |B|                           how often each size came, binomial; its mean square about N q, against Chernoff's bound
    |B and the next batch|        binomial, at the square of the rate
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import numpy as np
from scipy import special

from noisymean.probe.chance import binomial_is_improbable, binomial_tails, rate_interval, sum_is_improbable
from noisymean.probe.finding import Bearing, RateLaw, Rates, Remark, Sampling, Severity
from noisymean.probe.laws import Kind, Observed, loader_length, neighbours
from noisymean.probe.records import Axes
from noisymean.targets.protocol import Knob, Setting

Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
_MOST_PARTS = 16
# empty batches that should have come, so that it is no accident that none has
_MISSED = 30.0
# laws by which one record more changes the rate, at some N or at all
_MOVING = (RateLaw.LOADER, RateLaw.SHARE)


def rate_by(law: RateLaw, setting: Setting) -> float | None:
    """The rate at a setting; None where the law does not speak of it."""
    match law:
        case RateLaw.AS_SET:
            return None if setting.rate is None else float(setting.rate)
        case RateLaw.LOADER:
            return 1 / length if (length := loader_length(setting)) else None
        case RateLaw.SHARE:
            return None if setting.batch_size is None else min(1.0, setting.batch_size / setting.dataset_size)
    assert_never(law)


def rates_of(knob: Knob, observed: Sequence[Observed], asked: Sequence[Setting] = ()) -> Rates:
    """How batches are drawn; settings whose releases cannot be read say nothing. `asked` are those of the user's own run."""
    if knob in (Knob.BATCH, Knob.FIXED):
        return Rates(Sampling.GIVEN, None, moves_with_size=False)
    readable = _readable(observed)
    if readable and all(_is_shuffled(one) for one in readable):
        return Rates(Sampling.SHUFFLED, None, moves_with_size=False)
    fitting = [law for law in RateLaw if readable and all(_fits(one, rate_by(law, one.setting)) for one in readable)]
    moved = tuple(_moved(readable))
    if not fitting and (apart := _in_parts(readable)) is not None:
        law, parts = apart
        return Rates(Sampling.PARTS, law, bool(moved) or law in _MOVING, moved, parts=parts)
    if len(fitting) != 1:
        return Rates(Sampling.UNKNOWN, None, moves_with_size=bool(moved), moved=moved)
    law = fitting[0]
    return Rates(Sampling.POISSON, law, bool(moved) or law in _MOVING, moved, _within(readable, law, asked))


def remarks_of(kind: Kind, rates: Rates, observed: Sequence[Observed]) -> list[Remark]:
    """What is wrong with the sampling; a rate that moves is covered where the mechanism is the data loader's."""
    said = []
    known = rates.law is RateLaw.LOADER and kind in (Kind.LOADER, Kind.SGM)
    bearing = Bearing.COVERED if known else Bearing.OPEN
    if rates.moved:
        words = f"one record more changes the sampling rate: {'; '.join(rates.moved)}"
        said.append(Remark(Severity.LEAK, words, bearing))
    elif rates.law in _MOVING:
        # too little was run to see it move, and the law says that it does
        where = ", where b divides N" if rates.law is RateLaw.LOADER else ""
        said.append(
            Remark(Severity.LEAK, f"one record more changes the sampling rate, {rates.law.value}{where}", bearing)
        )
    readable = _readable(observed)
    if any(reading.most > 1 for one in readable if _has_axes(one) for reading in one.readings):
        words = "a record can be drawn more than once into a batch, and then moves the sum by more"
        said.append(Remark(Severity.LEAK, words))
    match rates.sampling:
        case Sampling.SHUFFLED:
            words = "batches are shuffled, not drawn independently: no theorem here covers that"
            said.append(Remark(Severity.LEAK, words))
        case Sampling.PARTS:
            words = f"no batch has fewer than {rates.parts} records, as if each of {rates.parts} parts of them were drawn again"
            said.append(Remark(Severity.LEAK, f"{words} while nobody of it is in the batch"))
        case Sampling.UNKNOWN:
            said.append(_why_unknown(readable))
        case Sampling.POISSON:
            said += [Remark(Severity.LEAK, words) for words in _dependence(readable, rates.law)]
        case Sampling.GIVEN:
            pass
        case _:
            assert_never(rates.sampling)
    return said


def _readable(observed: Sequence[Observed]) -> list[Observed]:
    return [one for one in observed if one.readings and all(reading.finite for reading in one.readings)]


def _has_axes(observed: Observed) -> bool:
    """Whether every record has an axis of its own, so that it is seen by itself."""
    return Axes(observed.setting.dataset_size).count == observed.setting.dataset_size


def _sizes(observed: Observed) -> Numbers:
    return np.array([reading.size for reading in observed.readings], dtype=np.float64)


def _fits(observed: Observed, rate: float | None) -> bool:
    """How many were drawn in all, and how |B| varies."""
    if rate is None:
        return False
    sizes, records = _sizes(observed), observed.setting.dataset_size
    if sizes.max() > records or binomial_is_improbable(sizes.sum(), records * len(sizes), rate):
        return False
    if not 0.0 < rate < 1.0:
        return True
    return _sizes_fit(sizes, _binomial(records, rate))


def _binomial(records: int, rate: float) -> Numbers:
    """The probability of each size from 0 to the number of records."""
    values = np.arange(records + 1.0)
    logs = special.gammaln(records + 1.0) - special.gammaln(values + 1.0) - special.gammaln(records - values + 1.0)
    found: Numbers = np.exp(logs + values * math.log(rate) + (records - values) * math.log1p(-rate))
    return found


def _sizes_fit(sizes: Numbers, chances: Numbers) -> bool:
    """Whether these sizes are independent draws, each with its probability: how often each came, and how they vary."""
    records = len(chances) - 1
    values = np.arange(records + 1.0)
    mean = float(values @ chances)
    # how often each size came: one that is cut off is never seen
    often = np.bincount(sizes.astype(np.intp), minlength=records + 1)
    likely = chances * len(sizes) > 1.0
    counted = zip(often[likely], np.minimum(chances[likely], 1.0), strict=True)
    if any(binomial_is_improbable(count, len(sizes), float(chance), among=records + 1) for count, chance in counted):
        return False
    total = float(((sizes - mean) ** 2).sum())
    return not sum_is_improbable(total, len(sizes), (values - mean) ** 2, chances)


def _in_parts(observed: Sequence[Observed]) -> tuple[RateLaw, int] | None:
    """The rate within each part, and how many parts: as many as the smallest batch that ever came has records."""
    parts = min((int(_sizes(one).min()) for one in observed), default=0)
    if not 2 <= parts <= _MOST_PARTS:
        return None
    fitting = [law for law in RateLaw if all(_fits_parts(one, rate_by(law, one.setting), parts) for one in observed)]
    return (fitting[0], parts) if len(fitting) == 1 else None


def _fits_parts(observed: Observed, rate: float | None, parts: int) -> bool:
    """How |B| varies, if it is a sum over parts of the records, of equal size but for one, in each of which is somebody."""
    sizes, records = _sizes(observed), observed.setting.dataset_size
    if rate is None or sizes.max() > records or records < parts:
        return False
    if not 0.0 < rate < 1.0:
        return bool((sizes == records * rate).all())
    chances: Numbers = np.ones(1)
    for part in range(parts):
        own = _binomial(records // parts + (part < records % parts), rate)
        own[0] = 0.0
        chances = np.convolve(chances, own / own.sum())
    values = np.arange(records + 1.0)
    if sum_is_improbable(float(sizes.sum()), len(sizes), values, chances):
        return False
    return _sizes_fit(sizes, chances)


def _within(observed: Sequence[Observed], law: RateLaw, asked: Sequence[Setting]) -> float | None:
    """How far off, relatively, the rates of N and N + 1 may be: at the user's own sizes, else at the pair measured best."""
    off = {}
    for one in observed:
        if rate := rate_by(law, one.setting):
            low, high = rate_interval(float(_sizes(one).sum()), one.setting.dataset_size * len(one.readings))
            off[one.setting] = max(high / rate - 1.0, 1.0 - low / rate)
    pairs = [(one.setting, other.setting) for _, one, other in neighbours(observed)]
    known = {at: max(off[at], off[more]) for at, more in pairs if at in off and more in off}
    own = [known[at] for at in asked if at in known]
    return max(own) if own else min(known.values(), default=None)


def _why_unknown(observed: Sequence[Observed]) -> Remark:
    """What batches are instead, or the setting that contradicts most clearly what was set."""
    if observed and all(np.ptp(_sizes(one)) == 0.0 for one in observed):
        words = "every batch has the same number of records, as if drawn without replacement or from shuffled epochs"
        return Remark(Severity.LEAK, f"{words}: no theorem here covers that")
    if _never_empty(observed):
        words = (
            "no batch is ever empty: one that would be is left out or drawn again, and records come more often for it"
        )
        return Remark(Severity.LEAK, words)
    worst, least = "", 1.0
    for one in observed:
        count, trials = float(_sizes(one).sum()), one.setting.dataset_size * len(one.readings)
        rate = rate_by(RateLaw.AS_SET, one.setting) or rate_by(RateLaw.LOADER, one.setting)
        if rate is None or not 0.0 < rate < 1.0:
            continue
        chance = float(min(binomial_tails(count, trials, rate)))
        if chance < least:
            low, high = rate_interval(count, trials)
            worst, least = f": at {one.setting} the rate is {low:.4g} to {high:.4g}, where {rate:.4g} was set", chance
    words = (
        f"how batches are drawn{worst if least < 1e-6 else ': it is not Poisson sampling at any rate that is known'}"
    )
    return Remark(Severity.UNKNOWN, words)


def _never_empty(observed: Sequence[Observed]) -> bool:
    """Whether none is, where many should be, and the others are as Poisson sampling has them."""
    missed = 0.0
    for one in observed:
        rate, records, sizes = rate_by(RateLaw.AS_SET, one.setting), one.setting.dataset_size, _sizes(one)
        if rate is None or not 0.0 < rate < 1.0 or sizes.min() == 0.0 or sizes.max() > records:
            return False
        chances = _binomial(records, rate)
        missed += float(chances[0]) * len(sizes)
        chances[0] = 0.0
        if not _sizes_fit(sizes, chances / chances.sum()):
            return False
    return missed > _MISSED


def _dependence(observed: Sequence[Observed], law: RateLaw | None) -> list[str]:
    """Records that are drawn more often than others, and batches that have to do with the one before."""
    unequal = again = False
    for one in observed:
        rate = None if law is None else rate_by(law, one.setting)
        if rate is None or not 0.0 < rate < 1.0 or not _has_axes(one):
            continue
        records, rounds = one.setting.dataset_size, len(one.readings)
        drawn = Counter(axis for reading in one.readings for axis in reading.batch)
        unequal |= binomial_is_improbable([drawn[i] for i in range(records)], rounds, rate, among=records)
        for start in (0, 1):
            # pairs that have no round in common, so that overlaps are independent
            pairs = list(itertools.islice(itertools.pairwise(one.readings), start, None, 2))
            both = sum(len(now.batch & after.batch) for now, after in pairs)
            again |= binomial_is_improbable(both, records * len(pairs), rate**2)
    found = (
        (unequal, "some records are drawn more often than others"),
        (again, "a batch depends on the one before: rounds are not drawn independently"),
    )
    return [words for seen, words in found if seen]


def _moved(observed: Sequence[Observed]) -> list[str]:
    """Pairs of neighbours whose rates differ by more than six standard errors."""
    found = []
    for words, *pair in neighbours(observed):
        trials = np.array([each.setting.dataset_size * len(each.readings) for each in pair])
        rates = np.array([_sizes(each).sum() for each in pair]) / trials
        error = math.sqrt(float((np.abs(rates * (1.0 - rates)) / trials).sum()))
        if abs(rates[0] - rates[1]) > 6.5 * error:
            found.append(f"{words}: {rates[0]:.3g} -> {rates[1]:.3g}")
    return found


def _is_shuffled(observed: Observed) -> bool:
    """Each record exactly once in every epoch."""
    length = loader_length(observed.setting) or (round(1 / observed.setting.rate) if observed.setting.rate else 0)
    if length < 1 or observed.setting.dataset_size != len(frozenset().union(*(r.batch for r in observed.readings))):
        return False
    for start in range(0, len(observed.readings) - length + 1, length):
        seen = [axis for reading in observed.readings[start : start + length] for axis in reading.batch]
        if sorted(seen) != list(range(observed.setting.dataset_size)):
            return False
    return True
