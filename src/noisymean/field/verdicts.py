"""From what was found to the words of a row: is it exposed, through what, and what does the one run really lose.

Exposed is a statement about one record more: whether it changes the denominator, the rate or the noise besides adding its own
clipped gradient. A sampler that is not the one that a claim is about is another matter, and shows in what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never, final

from noisymean.accountant import account
from noisymean.accounts import Account
from noisymean.errors import NoisymeanError
from noisymean.field.claims import Assumed, Claim
from noisymean.field.cohorts import Cohorts, Drawn
from noisymean.field.denominators import Denominator
from noisymean.field.question import BATCH, DELTA, DIMENSION, NOISE, NUMBERS, RATE, RECORDS, STEPS
from noisymean.field.rows import Exposed, Lost, Sampler
from noisymean.mechanisms import KINDS, SGM, Mechanism, OpacusLoader, Sampling
from noisymean.probe.finding import Finding
from noisymean.probe.judgement import judged
from noisymean.probe.laws import Kind
from noisymean.targets.protocol import Calibration

_DRAWN = {
    Drawn.IN_ORDER: Sampler.IN_ORDER,
    Drawn.SHUFFLED: Sampler.SHUFFLED,
    Drawn.FIXED_SIZE: Sampler.FIXED_SIZE,
    Drawn.WITH_REPLACEMENT: Sampler.WITH_REPLACEMENT,
    Drawn.UNKNOWN: Sampler.UNKNOWN,
}
_ACCOUNTED = {
    Sampler.SHUFFLED: Sampling.SHUFFLE,
    Sampler.IN_ORDER: Sampling.CYCLIC,
    Sampler.FIXED_SIZE: Sampling.FIXED_SIZE,
}
# single precision, and a millionth of noise
_EXACT = 1e-3


@final
@dataclass(frozen=True)
class Exposure:
    """The word, and through what or why not."""

    word: Exposed
    because: str


def drawn_as(cohorts: Cohorts | None) -> Sampler:
    """What was read off batches, in the words of a row."""
    return Sampler.UNKNOWN if cohorts is None else _DRAWN[cohorts.drawn]


def exposure(finding: Finding, denominator: Denominator, cohorts: Cohorts | None, sampler: Sampler) -> Exposure:
    """Whether one record more changes more than what it adds."""
    through = [words for words in (_by_rate(finding, sampler), _by_noise(finding)) if words]
    if finding.noise.shares_denominator is False and not _is_of_one_size(cohorts):
        if sampler is Sampler.GIVEN and denominator.kind is Kind.ASGM and not through:
            words = "gradients are divided by |B| and the noise is not: exposed where |B| is not what the caller has declared"
            return Exposure(Exposed.CALLER, words)
        apart = f"the noise is not divided by what gradients are; {_open(finding, denominator)}"
        return _yes([*through, apart]) if through else Exposure(Exposed.UNKNOWN, apart)
    match denominator.kind:
        case Kind.SGM:
            fixed = f"divided by {denominator.words}, the same for N and N + 1 records and for every batch that was run"
            if denominator.raised:
                settings = len(denominator.raised) + len(denominator.seen)
                fixed += f" (at {len(denominator.raised)} of {settings} settings it raised)"
        case Kind.ASGM if sampler is Sampler.GIVEN:
            words = "divided by |B|: exposed where the caller's batches vary in size, as Poisson batches do"
            return Exposure(Exposed.CALLER, words) if not through else _yes([*through, words])
        case Kind.ASGM | Kind.EASGM | Kind.FEASGM | Kind.LOADER | Kind.INDEPENDENT:
            return _yes([f"the denominator is {denominator.words}", *through])
        case Kind.UNKNOWN if _is_of_one_size(cohorts) and cohorts is not None and cohorts.divided_by is not None:
            fixed = (
                f"divided by {cohorts.divided_by[0]:g} = b at N and N + 1: every cohort has b members, repeats counted;"
                " what the probe remarks about noise and scaling comes from members that are drawn twice"
            )
        case Kind.UNKNOWN:
            if through:
                return _yes(through)
            return Exposure(Exposed.UNKNOWN, _open(finding, denominator))
        case _:
            assert_never(denominator.kind)
    if through:
        return _yes(through)
    if sampler is Sampler.UNKNOWN:
        # whether a rate follows N is not known either
        return Exposure(Exposed.UNKNOWN, f"{fixed}; how its batches are drawn was not established")
    return Exposure(Exposed.NO, fixed)


def _yes(through: list[str]) -> Exposure:
    return Exposure(Exposed.YES, "; ".join(through))


def _is_of_one_size(cohorts: Cohorts | None) -> bool:
    """Whether every batch had b records and was divided by b, at N and at N + 1."""
    if cohorts is None or cohorts.divided_by is None or cohorts.sizes != (cohorts.size, cohorts.size):
        return False
    return all(abs(value / cohorts.size - 1.0) < _EXACT for value in cohorts.divided_by)


def _by_rate(finding: Finding, sampler: Sampler) -> str | None:
    """A rate that follows the number of records; where batches have one size there is none."""
    if sampler not in (Sampler.POISSON, Sampler.PARTS) or not finding.rates.moves_with_size:
        return None
    law = "" if finding.rates.law is None else f", {finding.rates.law.value}"
    return f"the sampling rate follows N{law}"


def _by_noise(finding: Finding) -> str | None:
    moved = [one for one in finding.noise.calibrated if one.moves]
    return "the noise multiplier follows N: it is calibrated to the rate" if moved else None


def _open(finding: Finding, denominator: Denominator) -> str:
    moved = finding.clipping.sensitivity
    more = f"; one record moves the clipped sum by at least {moved:.3f} C" if moved and moved > 1.0 + _EXACT else ""
    return f"{denominator.words}{more}"


# --- what is lost ------------------------------------------------------------------------------------------------------


def lost_of(
    finding: Finding,
    denominator: Denominator,
    sampler: Sampler,
    calibration: Calibration | None,
    claims: tuple[Claim, ...],
) -> Lost | None:
    """The three numbers of the one run, as far as what was found is covered; None where nothing here covers it."""
    stated = max((one.epsilon for one in claims if one.assumes is Assumed.POISSON), default=0.0)
    if calibration is not None:
        return _of_calibrated(finding, denominator, sampler, calibration)
    if finding.kind.value in KINDS:
        found = judged(finding, NUMBERS, steps=STEPS, delta=DELTA).run
        if found is None or found.account is None:
            why = "" if found is None else found.because
            drawn = Sampler.POISSON.value
            return Lost(finding.kind.value, drawn, "add-remove", STEPS, None, None, None, "undetermined", why)
        return _lost(found.account, found.because, Sampler.POISSON, stated, finding.kind.value)
    return _of_other_batches(finding, denominator, sampler, stated)


def _of_calibrated(finding: Finding, denominator: Denominator, sampler: Sampler, asked: Calibration) -> Lost | None:
    """The loader's mechanism with noise that follows its rate, over the epochs that it was calibrated to."""
    if denominator.kind is not Kind.LOADER or sampler is not Sampler.POISSON:
        return None
    mechanism = OpacusLoader(
        dataset_size=RECORDS, batch_size=BATCH, dimension=DIMENSION,
        target_epsilon=asked.target_epsilon, target_delta=asked.target_delta, epochs=asked.epochs, accountant=asked.accountant,
    )  # fmt: skip
    answer = account(mechanism, steps=mechanism.steps_in(asked.epochs), delta=asked.target_delta)
    because = f"calibrated to {asked}" if not finding.doubts else finding.reasons
    return _lost(answer, because, sampler, asked.target_epsilon, mechanism.name, guaranteed=not finding.doubts)


def _of_other_batches(finding: Finding, denominator: Denominator, sampler: Sampler, stated: float) -> Lost | None:
    """Batches that no probe has a theorem for: what is certainly lost by the same sum under them, and no guarantee."""
    drawn = _ACCOUNTED.get(sampler)
    bound, noise = finding.clipping.bound, finding.noise
    as_set = noise.shares_denominator is True and noise.scale is not None and abs(noise.scale - 1.0) <= noise.error
    if drawn is None or not as_set or bound is None or abs(bound - 1.0) > _EXACT:
        return None
    mechanism: Mechanism
    match denominator.kind:
        case Kind.SGM:
            mechanism = SGM(sample_rate=RATE, noise_multiplier=NOISE, sampling=drawn)
        case Kind.LOADER if drawn is Sampling.SHUFFLE:
            mechanism = OpacusLoader(
                dataset_size=RECORDS, batch_size=BATCH, dimension=DIMENSION, noise_multiplier=NOISE, sampling=drawn
            )
        case _:
            return None
    try:
        answer = account(mechanism, steps=STEPS, delta=DELTA)
    except NoisymeanError:
        return None
    words = f"batches are {drawn.in_words}, and the claim is for Poisson batches"
    return _lost(answer, words, sampler, stated, mechanism.name, guaranteed=False)


def _lost(
    answer: Account, because: str, sampler: Sampler, stated: float, name: str, *, guaranteed: bool = True
) -> Lost:
    """An account as a row has it; it is violated only if more is lost than the library's own accounting says, too."""
    claimed, leaked = answer.claimed.epsilon, answer.leakage.epsilon
    verdict: str = answer.verdict
    if verdict == "violated" and (leaked is None or leaked <= stated):
        verdict = "undetermined"
    if verdict == "holds" and not guaranteed:
        verdict = "undetermined"
    return Lost(
        mechanism=name,
        sampler=sampler.value,
        adjacency=answer.adjacency.value,
        steps=answer.steps,
        claimed=claimed,
        leakage=leaked,
        guarantee=answer.guarantee.epsilon if guaranteed else None,
        verdict=verdict,
        because=because,
    )
