"""From a subject to a finding: run it on the designed settings, read every release, keep what explains all of them.

The settings are pairs N, N + 1 at one rate or batch size, chosen so that N q is no whole number, that it becomes one, that the
batch size divides N, and that a floor in floating point falls short; then all records alike for the sensitivity; then batches
that are mostly empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe import adaptive, remarks
from noisymean.probe.finding import Clipping, Evidence, Finding, Noise, Remark, Severity
from noisymean.probe.laws import LAWS, Kind, Law, Observed, constant_of, is_independent_draw, loader_length
from noisymean.probe.records import BOUND, NOISE, Aligned, Axes, Reading
from noisymean.probe.runs import designed, setting_of
from noisymean.probe.sampling import rates_of
from noisymean.probe.subject import Knob, Raised, Setting, Subject

# Part of the key of cached results: raise it when a finding may change.
VERSION = 2
ROUNDS = 200
_PAIRS: dict[Knob, tuple[tuple[int, Fraction | int], ...]] = {
    Knob.RATE: ((25, Fraction(3, 10)), (29, Fraction(3, 10)), (9, Fraction(1, 2)), (4, Fraction(1, 10))),
    Knob.BATCH: ((25, Fraction(3, 10)), (29, Fraction(3, 10)), (9, Fraction(1, 2)), (4, Fraction(1, 10))),
    Knob.FIXED: ((30, Fraction(3, 10)),),
    # 30 = 3 * 10: one record more makes a fourth batch; 98 * (1/49) and 49 * (1/49) fall short of 2 and 1
    Knob.BATCH_SIZE: ((25, 10), (29, 10), (30, 10), (98, 2), (49, 1)),
}
_ALIKE: dict[Knob, tuple[int, Fraction | int]] = {
    **dict.fromkeys(Knob, (100, Fraction(1, 2))),
    Knob.BATCH_SIZE: (99, 50),
}
_EMPTY: dict[Knob, tuple[int, Fraction | int]] = {**dict.fromkeys(Knob, (3, Fraction(1, 20))), Knob.BATCH_SIZE: (40, 1)}
Progress = Callable[[int, int], None]


def probe_subject(
    subject: Subject,
    *,
    seed: int,
    also: Sequence[Setting] = (),
    rounds: int = ROUNDS,
    progress: Progress = lambda done, total: None,
) -> Finding:
    """What the outputs of `subject` show, on our settings and on those of the user (`also`, each with one record more)."""
    settings = _settings(subject.knob, also)
    total = len(settings) + 3
    observed: list[Observed] = []
    raised: list[Remark] = []
    for done, setting in enumerate(settings):
        progress(done, total)
        try:
            observed.append(observe(subject, setting, seed + done, rounds))
        except Raised as fault:
            raised.append(Remark(Severity.FAULT, f"at {setting} it raises {fault}"))
    if not any(one.readings for one in observed):
        raise Raised(raised[0].words if raised else f"{subject.name}: no release to read")
    observed, bound = _effective_bound(observed)
    law, candidates = _law(observed, fixed=subject.knob is Knob.FIXED)
    noise = _noise(observed)
    progress(total - 3, total)
    clipping = _clipping(subject, observed, law, noise, bound, seed + 1000)
    progress(total - 2, total)
    empty = _empty(subject, seed + 2000)
    progress(total - 1, total)
    rates = rates_of(subject.knob, observed)
    kind, words = _kind(law, candidates, noise, clipping)
    said = [
        *remarks.of_denominator(kind, words, observed),
        *remarks.of_rate(rates.moved),
        *remarks.of_soundness(noise, clipping),
        *remarks.of_floors(law, observed),
        *remarks.of_non_finite(observed),
        *adaptive.remarks(subject, seed + 3000),
        *raised,
    ]
    progress(total, total)
    return Finding(
        target=subject.name,
        kind=kind,
        denominator=words,
        noise=noise,
        clipping=clipping,
        rates=rates,
        empty_batch=empty,
        remarks=tuple(said),
        evidence=tuple(_evidence(one) for one in observed),
        seed=seed,
        candidates=candidates,
    )


def _settings(knob: Knob, also: Sequence[Setting]) -> list[Setting]:
    wanted = [setting_of(size, chosen) for size, chosen in _PAIRS[knob]]
    if knob is Knob.FIXED:
        return wanted
    wanted += also
    pairs = [replace(one, dataset_size=one.dataset_size + more) for one in wanted for more in (0, 1)]
    return list(dict.fromkeys(pairs))


def observe(subject: Subject, setting: Setting, seed: int, rounds: int) -> Observed:
    """One setting, on records with an axis each."""
    axes = Axes(setting.dataset_size)
    releases = designed(subject, setting, axes.gradients(), seed, rounds)
    return Observed(setting, tuple(axes.read(release) for release in releases))


def _effective_bound(observed: Sequence[Observed]) -> tuple[list[Observed], float]:
    """The bound over C. Another bound than C is told from scaling before clipping by the noise, which shows the true c."""
    scales = np.array([one.scale for one in _all(observed) if one.scale is not None])
    ratios = np.array([one.clipped / one.noise for one in _all(observed) if one.clipped and one.noise])
    if not len(scales) or not len(ratios) or np.ptp(scales) > 0.01 * abs(scales.mean()):
        return list(observed), 1.0
    scale = float(scales.mean())
    error = 5.0 * float(ratios.std()) / math.sqrt(len(ratios)) + 0.01
    if abs(scale - 1.0) < 0.01 or abs(float(ratios.mean()) - scale) > error * scale:
        return list(observed), 1.0
    return [replace(one, readings=tuple(_rescaled(r, scale) for r in one.readings)) for one in observed], 1.0 / scale


def _rescaled(reading: Reading, scale: float) -> Reading:
    return replace(
        reading,
        clipped=None if reading.clipped is None else reading.clipped / scale,
        scale=None if reading.scale is None else reading.scale / scale,
    )


def _all(observed: Iterable[Observed]) -> list[Reading]:
    return [reading for one in observed for reading in one.readings]


def _law(observed: Sequence[Observed], *, fixed: bool) -> tuple[Law | None, tuple[str, ...]]:
    """The law that explains every reading; the candidates in words if they disagree about the mechanism."""
    if fixed and len({value for one in observed for value in np.round(one.denominators, 4)}) == 1:
        words = f"{observed[0].denominators[0]:.4g} for every batch; whether it moves with N an optimizer alone does not show"
        return Law(words, Kind.UNKNOWN, _lookup(observed)), ()
    constant = constant_of(observed)
    if constant is not None:
        return Law(constant, Kind.SGM, _lookup(observed)), ()
    fitting = [law for law in LAWS if law.explains(observed)]
    if len({law.kind for law in fitting}) == 1:
        return fitting[0], ()
    if not fitting and is_independent_draw(observed):
        return Law("|B'|, the size of a second, independent batch", Kind.INDEPENDENT, lambda *_: None), ()
    return None, tuple(law.words for law in fitting)


def _lookup(observed: Sequence[Observed]) -> Callable[[Setting, int], float | None]:
    seen = {one.setting.chosen: one.denominators[0] for one in observed if one.denominators}
    values = list(seen.values())
    everywhere = values[0] if np.allclose(values, values[0], rtol=1e-4) else None
    return lambda setting, _: seen.get(setting.chosen, everywhere)


def _noise(observed: Sequence[Observed]) -> Noise:
    """c/c' of each round is 1 up to 4 %: its mean tells the scale, its mean for each c whether it depends on c."""
    both = [(one.clipped, one.clipped / one.noise) for one in _all(observed) if one.clipped and one.noise]
    if len(both) < 10:
        return Noise(None, None, 1.0)
    found, ratios = (np.array(column) for column in zip(*both, strict=True))
    scale = float(ratios.mean())
    spread = 1.0 / math.sqrt(2.0 * 256)
    shares = True
    for value in np.unique(np.round(found, 3)):
        group = ratios[np.abs(found - value) <= 1e-3]
        if len(group) and abs(float(group.mean()) / scale - 1.0) > 6.0 * spread / math.sqrt(len(group)) + 0.005:
            shares = False
    return Noise(shares, scale if shares else None, 5.0 * spread / math.sqrt(len(ratios)))


def _clipping(
    subject: Subject, observed: Sequence[Observed], law: Law | None, noise: Noise, bound: float, seed: int
) -> Clipping:
    """All records alike, as long as clipping just begins: their sum as a function of |B|, and by how much it jumps."""
    words, typical = _scaling(observed)
    size, chosen = _ALIKE[subject.knob]
    setting = setting_of(size, chosen)
    if words == "|B|":
        # clipping is to begin at a batch of the expected size
        length = loader_length(setting)
        typical = size / length if length else float(size * (setting.rate or 0))
    if typical is None:
        return Clipping(None, words, None)
    alike = Aligned(size, bound / typical)
    try:
        releases = designed(subject, setting, alike.gradients(), seed, 200)
    except Raised:
        return Clipping(bound, words, None)
    sums: dict[int, float] = {}
    for release in releases:
        if not np.isfinite(release).all():
            return Clipping(bound, words, None)
        count, along = alike.read(release)
        divisor = None if law is None or not noise.shares_denominator else law.value(setting, count)
        if divisor is None:
            spare = release[1 + size :]
            divisor = NOISE * BOUND / float(np.sqrt(np.mean(spare**2))) if spare.any() else math.nan
        sums.setdefault(count, along * divisor)
    jumps = [abs(sums[count] - sums[count - 1]) for count in sums if count - 1 in sums]
    if not jumps or not np.isfinite(jumps).all():
        return Clipping(bound, words, None)
    if divisor is not None and law is not None and law.kind is not Kind.INDEPENDENT and noise.shares_denominator:
        # the trace takes its part of the length
        return Clipping(bound, words, float(max(jumps)) / (BOUND * math.sqrt(1.0 - alike.trace**2)))
    return Clipping(bound, words, None)


def _scaling(observed: Sequence[Observed]) -> tuple[str | None, float | None]:
    """By what gradients are multiplied before they are clipped: None if by 1; and the typical factor."""
    pairs = [(one.size, one.scale) for one in _all(observed) if one.scale is not None]
    if not pairs:
        return "unknown", None
    sizes, scales = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    for words, expected in ((None, np.ones_like(sizes)), ("|B|", sizes), ("1/|B|", 1.0 / sizes)):
        if _agree(scales, expected):
            return words, float(np.median(expected))
    if _agree(scales, np.full_like(scales, scales.mean())):
        return f"{scales.mean():.4g}", float(scales.mean())
    return "something that varies", float(np.median(scales))


def _agree(found: Array, expected: Array) -> bool:
    """Each within a tenth, all together within a hundredth: where the noise is not divided, small values are noisy."""
    ratio = found / expected
    return bool(np.abs(ratio - 1.0).max() < 0.1 and abs(float(ratio.mean()) - 1.0) < 0.01)


def _empty(subject: Subject, seed: int) -> str:
    """What happens to an empty batch that is handed on as it comes."""
    size, chosen = _EMPTY[subject.knob]
    setting = setting_of(size, chosen)
    axes = Axes(size)
    try:
        releases = designed(subject, setting, axes.gradients(), seed, 60, empty_as_it_comes=True)
    except Raised as fault:
        return f"raises {fault}"
    readings = [axes.read(release) for release in releases]
    if not all(one.finite for one in readings):
        return "releases numbers that are not finite"
    empty = [one for one in readings if one.size == 0]
    if not empty:
        return "is left out"
    if all(one.noise is None for one in empty):
        return "releases zeros, without noise"
    if any(one.noise is None for one in empty):
        return "sometimes releases zeros, without noise"
    divisor = float(np.mean([one.noise for one in empty if one.noise is not None]))
    return f"is a step of noise alone, divided by {divisor:.2g}"


def _kind(law: Law | None, candidates: tuple[str, ...], noise: Noise, clipping: Clipping) -> tuple[Kind, str]:
    """The mechanism's name needs the whole mechanism: denominator, noise over it, and a sensitivity of C."""
    if law is None:
        return Kind.UNKNOWN, f"unknown: {' or '.join(candidates)}" if candidates else "unknown"
    if law.kind is Kind.INDEPENDENT:
        return law.kind, law.words
    sound = noise.shares_denominator and noise.scale is not None and abs(noise.scale - 1.0) <= noise.error + 0.02
    return (law.kind if sound and clipping.sound else Kind.UNKNOWN), law.words


def _evidence(observed: Observed) -> Evidence:
    sizes = [one.size for one in observed.readings if one.finite]
    found = observed.denominators
    if not found:
        words = "none seen"
    elif len(found) == 1:
        words = f"{found[0]:.4g}"
    elif all(math.isclose(value, size, rel_tol=1e-4) for size, value in observed.known):
        words = f"|B|: {found[0]:.4g} to {found[-1]:.4g}"
    else:
        words = f"{found[0]:.4g} to {found[-1]:.4g}"
    return Evidence(
        run=str(observed.setting),
        rounds=len(observed.readings),
        batches=f"{min(sizes)} to {max(sizes)}" if sizes else "none seen",
        denominator=words,
        rate=sum(sizes) / len(sizes) / observed.setting.dataset_size if sizes else None,
        finite=all(one.finite for one in observed.readings),
    )
