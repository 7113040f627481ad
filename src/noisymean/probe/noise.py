"""The noise: that it is there, that it is what was set at several sigma and C, and that every number of it is drawn anew.

    axes of nobody, sigma = 10^-6   its deviation in every round, against what the gradients of that round are divided by
    records next to nothing         a release is noise on all axes: its deviation at several sigma and C, on each axis; whether it
                                    is normal, and whether axes or rounds have anything to do with each other

A release of noise times c / (sigma C) is a row of standard normal numbers; c is read off gradients, never off noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import DEVIATIONS, chi_square_range, is_normal, least_correlation
from noisymean.probe.digits import remarks_of_digits
from noisymean.probe.finding import Level, Noise, Remark, Severity
from noisymean.probe.full import Full
from noisymean.probe.laws import Observed
from noisymean.probe.records import BOUND, NOISE, SPARE, UNTOUCHED, bare_gradients, faint_gradients, gradients_together
from noisymean.probe.runs import designed
from noisymean.targets.protocol import Raised, Runnable

ASKED = 1.0
_LEAST_ROUNDS = 20
# single precision
_ROUNDING = 1e-3
# of sigma C: what is less is no noise, but what gradients leave
_NEXT_TO_NOTHING = 1e-6
# of which every one is compared with every other
_COMPARED = 300
_NONE = "no noise is added"
_NOW_AND_THEN = "some rounds are released without noise"
_ELSEWHERE = "noise is added only where the batch has a gradient: a coordinate without one shows that it has none"
_FOLLOWS = "the noise follows the gradients: next to none where they are next to nothing"
_NOT_SHARED = "the noise is not divided by what the gradients are divided by"
# by the power of |B| that the noise is divided by
_BY_SIZE = {
    1.0: "the noise is divided by the size of the batch, which the gradients are not",
    0.5: "the noise is divided by the root of the size of the batch, which the gradients are not",
    -0.5: "the noise grows with the root of the size of the batch, as if every record had its own",
    -1.0: "the noise grows with the size of the batch, which the gradients do not",
}


def noise_of(
    subject: Runnable,
    observed: Sequence[Observed],
    full: Full | None,
    *,
    bound: float,
    asked: float,
    seed: int,
    rounds: int,
) -> tuple[Noise, list[Remark]]:
    """What the noise is, and what is wrong with it; `bound` is the effective one over C."""
    shares, beside = _beside_gradients(observed)
    if beside is not None and beside.scale == 0.0:
        return Noise(None, 0.0, 0.0, asked, fresh=None), [_of_no_noise(subject, full, asked, seed)]
    said = _of_sharing(shares, observed)
    said += _of_rounds(map(_spares, observed))
    if full is None:
        said.append(Remark(Severity.UNKNOWN, "with all records in the batch its noise could not be measured"))
        return Noise(shares, None, 1.0, asked, fresh=None), said
    levels, rows = [] if beside is None else [beside], []
    few, many = max(_LEAST_ROUNDS, rounds // 2), max(_LEAST_ROUNDS, rounds * (2 if subject.is_fast else 1))
    wanted = ((asked, 0.1, many), (asked, 8.0, many), (asked / 4.0, BOUND, few), (4.0 * asked, BOUND, few))
    faint, bare = faint_gradients(), bare_gradients()
    digits: list[Array] = []
    for part, (sigma, at, count) in enumerate(wanted):
        rows_of = bare if at == BOUND else faint
        try:
            releases = designed(subject, full.setting, rows_of, seed + part, count, noise=sigma, bound=at)
        except Raised as fault:
            said.append(Remark(Severity.FAULT, f"at sigma = {sigma:g} and C = {at:g} it {fault}"))
            continue
        found: Array = releases * (full.divisors[at] * bound / (sigma * at))
        scale = float(np.sqrt(np.mean(found**2)))
        levels.append(Level(sigma, at, scale, _error(found.size)))
        if math.isfinite(scale) and scale > _NEXT_TO_NOTHING:
            rows.append(found / scale)
            if at == BOUND:
                digits.append(releases[:, UNTOUCHED])
    if shares is not False:
        # without one denominator for both there is nothing to measure it by
        said += _of_levels(levels)

    def dense() -> Array | None:
        try:
            return designed(subject, full.setting, gradients_together(seed, ()), seed + 50, few, noise=asked)
        except Raised:
            return None

    again = _of_rounds(rows)
    # noise that is used again says nothing of how its numbers are distributed
    wrong = [*again, *_of_coordinates(rows), *([] if again else remarks_of_digits(digits, dense))]
    if wrong:
        # which is why its deviation changes from round to round
        said = [one for one in said if one.words != _NOT_SHARED]
    said += wrong
    mine = [one for one in levels if one.noise_multiplier == asked]
    at_asked = math.sqrt(sum(one.scale**2 for one in mine) / len(mine)) if mine else None
    error = _error(len(mine) * many * faint.shape[1]) if mine else 1.0
    fresh = None if not rows else not wrong
    return Noise(shares, at_asked, error, asked, tuple(levels), fresh), list(dict.fromkeys(said))


def _of_no_noise(subject: Runnable, full: Full | None, asked: float, seed: int) -> Remark:
    """Where there is none at the prober's own sigma: whether there is at the one asked for, and on which coordinates."""
    if full is None:
        return Remark(Severity.LEAK, _NONE)
    least = _NEXT_TO_NOTHING * asked * BOUND / abs(full.divisors[BOUND])
    try:
        faint = designed(subject, full.setting, faint_gradients(), seed, 2, noise=asked)[:, UNTOUCHED]
    except Raised:
        return Remark(Severity.LEAK, _NONE)
    return Remark(Severity.LEAK, _ELSEWHERE if np.abs(faint[0] - faint[1]).max() > least else _NONE)


def _error(numbers: int) -> float:
    """By how much the deviation of so many numbers may be off by chance."""
    low, high = chi_square_range(numbers)
    return max(1.0 - math.sqrt(low), math.sqrt(high) - 1.0) + _ROUNDING


def _spares(observed: Observed) -> Array:
    """The axes of nobody, each round over its own deviation."""
    rows = [
        one.spare * (one.noise / (NOISE * BOUND))
        for one in observed.readings
        # what is no noise is told of empty batches
        if one.spare is not None and one.noise and not one.foreign
    ]
    return np.array(rows).reshape(-1, SPARE)


def _beside_gradients(observed: Sequence[Observed]) -> tuple[bool | None, Level | None]:
    """Whether c/c' is the same in all rounds, whatever N, c and |B| are; and how much noise that is, 0 without any."""
    groups: dict[tuple[object, int, float], list[float]] = {}
    bare = rounds = 0
    for one in observed:
        for reading in one.readings:
            if reading.clipped is None:
                continue
            rounds += 1
            if reading.noise is None:
                bare += 1
                continue
            key = (one.setting, reading.size, float(f"{reading.clipped:.3g}"))
            groups.setdefault(key, []).append((reading.clipped / reading.noise) ** 2)
    if rounds and bare == rounds:
        return None, Level(NOISE, BOUND, 0.0, 0.0)
    if rounds < 10 or not groups:
        return None, None
    total = sum(map(len, groups.values()))
    square = sum(map(sum, groups.values())) / total
    # the mean over all rounds is itself a little off
    slack = DEVIATIONS * math.sqrt(2.0 / (SPARE * total)) + _ROUNDING
    shares = bare == 0
    for squares in groups.values():
        low, high = chi_square_range(SPARE * len(squares), among=len(groups))
        if not low * (1.0 - slack) <= sum(squares) / len(squares) / square <= high * (1.0 + slack):
            shares = False
    low, high = chi_square_range(SPARE, among=total)
    for squares in groups.values():
        # each round by itself: now more, now less
        if min(squares) < low * (1.0 - slack) * square or max(squares) > high * (1.0 + slack) * square:
            shares = False
    return shares, Level(NOISE, BOUND, math.sqrt(square), _error(SPARE * total))


def _of_sharing(shares: bool | None, observed: Sequence[Observed]) -> list[Remark]:
    if shares is None:
        return [Remark(Severity.UNKNOWN, "what the noise is divided by was not seen")]
    if shares:
        return []
    if any(one.clipped and one.noise is None for each in observed for one in each.readings):
        return [Remark(Severity.LEAK, _NOW_AND_THEN)]
    both = [
        (one.size, one.clipped, one.noise)
        for each in observed
        for one in each.readings
        if one.clipped and one.noise and one.size
    ]
    sizes, gradients, noises = (np.array(column, dtype=np.float64) for column in zip(*both, strict=True))
    spread = DEVIATIONS / math.sqrt(2.0 * SPARE)
    words = _NOT_SHARED
    for power, said in _BY_SIZE.items():
        if _goes_with(noises, sizes**power, spread) and not _goes_with(gradients, sizes**power, spread):
            words = said
    return [Remark(Severity.LEAK, words)]


def _goes_with(values: Array, expected: Array, spread: float) -> bool:
    """Whether one is a constant times the other, as far as a round shows it."""
    ratios = values / expected
    return bool(np.ptp(ratios) / ratios.mean() < 2.0 * spread)


def _of_levels(levels: Sequence[Level]) -> list[Remark]:
    """Deviations that are not what was set, at the sigma and C where they are not."""
    wrong = [one for one in levels if not one.fits]
    if not wrong:
        return []
    if all(one.scale == 0.0 for one in levels):
        return [Remark(Severity.LEAK, _NONE)]
    loud, faint = ([one for one in levels if (one.noise_multiplier == NOISE) is own] for own in (True, False))
    if faint and all(one.fits for one in loud) and all(one.scale < 1e-3 for one in faint):
        # at the prober's own sigma gradients are long
        return [Remark(Severity.LEAK, _FOLLOWS)]
    severity = Severity.LEAK if any(one.scale < 1.0 for one in wrong) else Severity.FAULT
    scales = [one.scale for one in levels]
    if len(wrong) == len(levels) and max(scales) <= min(scales) * (1.0 + 2.0 * max(one.error for one in levels)):
        words = f"the noise is {wrong[0].scale:.3g} times what was asked for, sigma C at every sigma and C that was run"
        return [Remark(severity, words)]
    where = "; ".join(
        f"{one.scale:.3g} times at sigma = {one.noise_multiplier:g} and C = {one.max_grad_norm:g}" for one in wrong
    )
    return [Remark(severity, f"the noise is not sigma C, but {where}")]


def _of_rounds(runs: Iterable[Array]) -> list[Remark]:
    """Noise that comes again: two rounds that are alike, or each a little like the one before."""
    runs = [one for one in runs if len(one) > 1]
    for rows in runs:
        few = rows[:_COMPARED]
        lengths = np.linalg.norm(few, axis=1)
        alike = np.abs(few @ few.T) / np.outer(lengths, lengths)
        np.fill_diagonal(alike, 0.0)
        pairs = len(few) * (len(few) - 1) // 2
        if alike.max() > least_correlation(few.shape[1], pairs * len(runs)):
            words = "noise is used again: rounds of one run have the same noise, or a part of it"
            return [Remark(Severity.LEAK, words)]
    # pooled over the runs, so that a little is seen
    for lag in (1, 2, 3):
        found = sum(float((rows[lag:] * rows[:-lag]).sum()) for rows in runs if len(rows) > lag)
        terms = sum(rows[lag:].size for rows in runs if len(rows) > lag)
        if terms > 10_000 and abs(found) > DEVIATIONS * math.sqrt(terms):
            words = f"the noise of a round depends on that of {lag} round{'s' if lag > 1 else ''} before"
            return [Remark(Severity.LEAK, words)]
    return []


def _of_coordinates(runs: Sequence[Array]) -> list[Remark]:
    """Noise that is not one normal number for each axis, all of the same deviation, on their own."""
    if not runs:
        return []
    rows = np.concatenate(runs)
    count, wide = rows.shape
    squares = (rows**2).mean(axis=0)
    low, high = chi_square_range(count, among=wide)
    if squares.min() < low or squares.max() > high:
        least, most = math.sqrt(squares.min()), math.sqrt(squares.max())
        words = f"axes do not have the same noise: {least:.2g} to {most:.2g} times what they have on average"
        return [Remark(Severity.LEAK, words)]
    alike = np.abs(rows.T @ rows) / count
    np.fill_diagonal(alike, 0.0)
    together = rows.sum(axis=1) / math.sqrt(wide)
    low, high = chi_square_range(count)
    next_to = float((rows[:, 1:] * rows[:, :-1]).sum()) / math.sqrt(count * (wide - 1))
    if (
        # deviations of the axes are a little off one
        alike.max() > 1.5 * least_correlation(count, wide * wide // 2)
        or not low <= float((together**2).mean()) <= high
        or abs(next_to) > DEVIATIONS
    ):
        return [Remark(Severity.LEAK, "the noise of one axis depends on that of others")]
    if not is_normal(rows):
        return [Remark(Severity.LEAK, "the noise is not normal")]
    return []
