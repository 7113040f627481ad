"""From something that can be run to a finding: run it on the designed settings, read every release, keep what explains them all.

The settings are pairs N, N + 1 at one rate or batch size, chosen so that N q is no whole number, that it becomes one, that the
batch size divides N, and that a floor in floating point falls short; two pairs have many rounds, for the rate. Then all records
in every batch, for the noise; records of many lengths, for the sensitivity; batches that are mostly empty; other seeds.

The mechanism is named if each of these was established, and nothing was found that its analysis does not cover.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from noisymean.probe import adaptive, calibrated, remarks
from noisymean.probe.beside import remarks_of_beside
from noisymean.probe.empty import empty_batch
from noisymean.probe.finding import Bearing, Clipping, Evidence, Finding, Noise, Rates, Remark, Sampling
from noisymean.probe.full import full_of
from noisymean.probe.laws import LAWS, DenominatorLaw, Kind, Observed, Value, by_size, constant_of, is_independent_draw
from noisymean.probe.loud import quieted
from noisymean.probe.memory import without_memory
from noisymean.probe.noise import ASKED, noise_of
from noisymean.probe.records import Axes, Reading
from noisymean.probe.runs import OutOfRange, designed, setting_of
from noisymean.probe.sampling import rates_of, remarks_of
from noisymean.probe.seeds import remarks_of_seeds
from noisymean.probe.sensitivity import clipping_of, moved_together, shifted
from noisymean.probe.through import of_usual_size
from noisymean.probe.together import one_by_one, opposites
from noisymean.targets.protocol import Knob, Raised, Runnable, Setting

# Part of the key of cached results: raise it when a finding may change.
VERSION = 7
ROUNDS = 200
_PAIRS: dict[Knob, tuple[tuple[int, Fraction | int], ...]] = {
    Knob.RATE: ((25, Fraction(3, 10)), (29, Fraction(3, 10)), (9, Fraction(1, 2)), (4, Fraction(1, 10))),
    Knob.BATCH: ((25, Fraction(3, 10)), (29, Fraction(3, 10)), (9, Fraction(1, 2)), (4, Fraction(1, 10))),
    Knob.FIXED: ((30, Fraction(3, 10)),),
    # 30 = 3 * 10: one record more makes a fourth batch; 98 * (1/49) and 49 * (1/49) fall short of 2 and 1
    Knob.BATCH_SIZE: ((25, 10), (29, 10), (30, 10), (98, 2), (49, 1)),
}
# Few records show a rate that follows N, many a rate that is a little off. Each with how many times the rounds.
# Batches that are handed over have no rate of their own.
_LONG: dict[Knob, tuple[tuple[int, Fraction | int, int], ...]] = {
    Knob.RATE: ((5, Fraction(1, 2), 5), (300, Fraction(3, 10), 2)),
    Knob.BATCH_SIZE: ((5, 3, 5), (300, 120, 2)),
    Knob.BATCH: (),
    Knob.FIXED: (),
}
# where a round takes the longer the more records there are, and no time else
_LONG_IF_SWIFT: dict[Knob, tuple[tuple[int, Fraction | int, int], ...]] = {
    Knob.RATE: ((5, Fraction(1, 2), 15), (100, Fraction(3, 10), 5)),
    Knob.BATCH_SIZE: ((5, 3, 15), (100, 40, 5)),
    Knob.BATCH: (),
    Knob.FIXED: (),
}
Progress = Callable[[int, int], None]


def probe_runnable(
    subject: Runnable,
    *,
    seed: int,
    also: Sequence[Setting] = (),
    rounds: int = ROUNDS,
    noise_multiplier: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Finding:
    """What the outputs of `subject` show, on our settings and on those of the user (`also`, each with one record more).

    `noise_multiplier` is the one that the user asks about: the noise is measured there, and at others.
    """
    asked = noise_multiplier or ASKED
    readable, before = _readable(subject, seed + 5000)
    if readable is None:
        return _unread(subject, before, asked, seed)
    beside = remarks_of_beside(subject, seed + 6000)
    subject = readable
    settings = _settings(subject, also, rounds)
    total = len(settings) + 4
    observed: list[Observed] = []
    raised: dict[Setting, str] = {}
    # whether what was raised ended the program, and nothing was released
    stops = True
    for done, (setting, count) in enumerate(settings.items()):
        progress(done, total)
        try:
            observed.append(observe(subject, setting, seed + done, count))
        except Raised as fault:
            raised[setting] = str(fault)
            stops = stops and not isinstance(fault, OutOfRange)
    if not any(one.readings for one in observed):
        raise Raised(next((f"at {at} it {words}" for at, words in raised.items()), "releases nothing to read"))
    full = full_of(subject, seed + 500)
    progress(total - 4, total)
    if subject.is_fast and one_by_one(subject, seed + 7000) is False:
        clipping = moved_together(subject, seed + 1000)
        return _moved_only(subject, before + beside + remarks.of_mixture(clipping), clipping, observed, asked, seed)
    if subject.is_fast and opposites(subject, seed + 8000) is False:
        clipping = shifted(subject, seed + 1000)
        return _moved_only(subject, before + beside + remarks.of_shift(clipping), clipping, observed, asked, seed)
    observed, bound = effective_bound(observed)
    law, candidates = _law(observed, fixed=subject.knob is Knob.FIXED)
    noise, of_noise = noise_of(subject, observed, full, bound=bound, asked=asked, seed=seed + 600, rounds=rounds)
    progress(total - 3, total)
    clipping, of_clipping = clipping_of(subject, observed, law, full, bound, seed + 1000)
    progress(total - 2, total)
    rates = rates_of(subject.knob, observed, also)
    empty, of_empty = empty_batch(subject, observed, law, noise, rates.sampling, bound, seed + 2000)
    pairs, of_pairs = calibrated.pairs_of(subject, law, also, seed + 4000)
    progress(total - 1, total)
    said = [
        *before,
        *beside,
        *remarks.of_denominator(law, candidates, noise.shares_denominator, observed),
        *remarks_of(Kind.UNKNOWN if law is None else law.kind, rates, observed),
        *of_noise,
        *of_clipping,
        *remarks.of_signs(observed),
        *remarks.of_floors(law, observed),
        *remarks.of_non_finite(law, observed),
        *remarks_of_seeds(subject, seed + 2500),
        *of_empty,
        *adaptive.remarks(subject, seed + 3000),
        *of_pairs,
        *remarks.of_raised(law, raised, empty if stops else ""),
    ]
    kind, words = _kind(law, candidates, said)
    progress(total, total)
    return Finding(
        target=subject.name,
        kind=kind,
        denominator=words,
        noise=replace(noise, calibrated=pairs),
        clipping=clipping,
        rates=rates,
        empty_batch=empty,
        remarks=tuple(dict.fromkeys(said)),
        evidence=tuple(_evidence(one) for one in observed),
        seed=seed,
        candidates=candidates,
    )


def _readable(subject: Runnable, seed: int) -> tuple[Runnable | None, list[Remark]]:
    """The subject with quiet noise and without a memory, as designed records ask for; None if it cannot be had."""
    near, of_size = of_usual_size(subject, seed)
    quiet, of_noise = quieted(near, seed)
    if quiet is None:
        return None, of_size + of_noise
    steady, of_memory = without_memory(quiet, seed + 100)
    return steady, of_size + of_noise + of_memory


def _unread(subject: Runnable, said: Sequence[Remark], asked: float, seed: int) -> Finding:
    """Nothing can be read off its releases: why, and no more."""
    return Finding(
        target=subject.name,
        kind=Kind.UNKNOWN,
        denominator="unknown",
        noise=Noise(None, None, 1.0, asked),
        clipping=Clipping(None, None, None),
        rates=Rates(Sampling.UNKNOWN, None, moves_with_size=False),
        empty_batch="not seen",
        remarks=tuple(dict.fromkeys(said)),
        evidence=(),
        seed=seed,
    )


def _moved_only(
    subject: Runnable,
    said: Sequence[Remark],
    clipping: Clipping,
    observed: Sequence[Observed],
    asked: float,
    seed: int,
) -> Finding:
    """What one of the records moves, and nothing that would have to be read off it alone."""
    return replace(_unread(subject, said, asked, seed), clipping=clipping, evidence=_rounds_of(observed))


def _settings(subject: Runnable, also: Sequence[Setting], rounds: int) -> dict[Setting, int]:
    """Each with its number of rounds."""
    wanted = [(setting_of(size, chosen), rounds) for size, chosen in _PAIRS[subject.knob]]
    if subject.knob is Knob.FIXED:
        return dict(wanted)
    for size, chosen, times in (_LONG_IF_SWIFT if subject.is_fast else _LONG)[subject.knob]:
        wanted.append((setting_of(size, chosen), rounds * times))
    wanted += [(setting, rounds) for setting in also]
    found: dict[Setting, int] = {}
    for setting, count in wanted:
        for more in (0, 1):
            one = replace(setting, dataset_size=setting.dataset_size + more)
            found[one] = max(count, found.get(one, 0))
    return found


def observe(subject: Runnable, setting: Setting, seed: int, rounds: int) -> Observed:
    """One setting, on records with an axis each."""
    axes = Axes(setting.dataset_size)
    return Observed(setting, axes.read(designed(subject, setting, axes.gradients(), seed, rounds)))


def effective_bound(observed: Sequence[Observed]) -> tuple[list[Observed], float]:
    """The bound over C. Another bound than C is told from scaling before clipping by the noise, which shows the true c."""
    readings = [reading for one in observed for reading in one.readings]
    scales = np.array([one.scale for one in readings if one.scale is not None])
    ratios = np.array([one.clipped / one.noise for one in readings if one.clipped and one.noise])
    if not len(scales) or not len(ratios) or np.ptp(scales) > 0.01 * abs(scales.mean()):
        return list(observed), 1.0
    scale = float(scales.mean())
    error = 5.0 * float(ratios.std()) / math.sqrt(len(ratios)) + 0.01
    if abs(scale - 1.0) < 1e-3 or abs(float(ratios.mean()) - scale) > error * scale:
        return list(observed), 1.0
    return [replace(one, readings=tuple(_rescaled(r, scale) for r in one.readings)) for one in observed], 1.0 / scale


def _rescaled(reading: Reading, scale: float) -> Reading:
    return replace(
        reading,
        clipped=None if reading.clipped is None else reading.clipped / scale,
        scale=None if reading.scale is None else reading.scale / scale,
    )


def _law(observed: Sequence[Observed], *, fixed: bool) -> tuple[DenominatorLaw | None, tuple[str, ...]]:
    """The law that explains every reading; the candidates in words if they disagree about the mechanism."""
    if fixed and len({value for one in observed for value in np.round(one.denominators, 4)}) == 1:
        words = f"{observed[0].denominators[0]:.4g} for every batch; whether it moves with N an optimizer alone does not show"
        return DenominatorLaw(words, Kind.UNKNOWN, _lookup(observed)), ()
    if (constant := constant_of(observed)) is not None:
        return DenominatorLaw(constant, Kind.SGM, _lookup(observed)), ()
    fitting = [fitted for law in LAWS if (fitted := law.fitted(observed)) is not None]
    if len({law.kind for law in fitting}) == 1:
        return fitting[0], ()
    if not fitting and (followed := by_size(observed)) is not None:
        return followed, ()
    if not fitting and is_independent_draw(observed):
        return DenominatorLaw("|B'|, the size of a second, independent batch", Kind.INDEPENDENT, lambda *_: None), ()
    return None, tuple(law.words for law in fitting)


def _lookup(observed: Sequence[Observed]) -> Value:
    seen = {one.setting.chosen: one.denominators[0] for one in observed if one.denominators}
    values = list(seen.values())
    everywhere = values[0] if np.allclose(values, values[0], rtol=1e-4) else None
    return lambda setting, _: seen.get(setting.chosen, everywhere)


def _kind(law: DenominatorLaw | None, candidates: tuple[str, ...], said: Sequence[Remark]) -> tuple[Kind, str]:
    """The mechanism's name needs the whole mechanism: nothing in the open, nothing that is not known."""
    if law is None:
        return Kind.UNKNOWN, f"unknown: {' or '.join(candidates)}" if candidates else "unknown"
    if law.kind is Kind.INDEPENDENT:
        return law.kind, law.words
    doubtful = any(remark.forbids and remark.bearing is Bearing.OPEN for remark in said)
    return (Kind.UNKNOWN if doubtful else law.kind), law.words


def _rounds_of(observed: Sequence[Observed]) -> tuple[Evidence, ...]:
    """What was run, where records cannot be told apart in what came out."""
    return tuple(
        Evidence(str(one.setting), len(one.readings), "not seen", "not seen", None, all(r.finite for r in one.readings))
        for one in observed
    )


def _evidence(observed: Observed) -> Evidence:
    sizes = [one.size for one in observed.readings if one.finite]
    found = observed.denominators
    if not found:
        words = "none seen"
    elif len(found) == 1:
        words = f"{found[0]:.4g}"
    else:
        by_batch = all(math.isclose(value, size, rel_tol=1e-4) for size, value in observed.known)
        words = f"{'|B|: ' if by_batch else ''}{found[0]:.4g} to {found[-1]:.4g}"
    return Evidence(
        run=str(observed.setting),
        rounds=len(observed.readings),
        batches=f"{min(sizes)} to {max(sizes)}" if sizes else "none seen",
        denominator=words,
        rate=sum(sizes) / len(sizes) / observed.setting.dataset_size if sizes else None,
        finite=all(one.finite for one in observed.readings),
        least=found[0] if found else None,
        most=found[-1] if found else None,
    )
