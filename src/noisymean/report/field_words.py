"""A row of the field in short words, for a terminal, a page and the documents: one home for all three."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from noisymean.field.claims import Claim
from noisymean.field.question import BATCH, DELTA, DIMENSION, NOISE, RECORDS, STEPS
from noisymean.field.rows import Exposed, Lost, Row, Sampler
from noisymean.outward import lower_bound, upper_bound
from noisymean.probe.laws import Kind
from noisymean.written import exactly

NONE = "-"


def the_run() -> str:
    """What all numbers are about."""
    return (
        f"One run: {RECORDS:,} records, batches of {BATCH}, noise multiplier {NOISE:g}, {STEPS} rounds,"
        f" {DIMENSION:,} parameters, delta = {exactly(DELTA)}."
    )


def exposed(row: Row) -> str:
    """In a word or two, for a narrow column."""
    return "caller" if row.exposed is Exposed.CALLER else row.exposed.value


def divides_by(row: Row) -> str:
    """The denominator in a word or two."""
    found = row.observed
    if found is None:
        return NONE
    cohorts, kind = found.cohorts, found.denominator.kind
    if kind is Kind.UNKNOWN and cohorts is not None and cohorts.divided_by is not None and row.exposed is Exposed.NO:
        return "b"
    noise = ", noise not" if kind is Kind.ASGM and found.finding.noise.shares_denominator is False else ""
    return f"{_denominator(kind)}{noise}"


def _denominator(kind: Kind) -> str:
    match kind:
        case Kind.SGM:
            return "a constant"
        case Kind.ASGM:
            return "|B|"
        case Kind.EASGM:
            return "N q"
        case Kind.FEASGM:
            return "floor(N q)"
        case Kind.LOADER:
            return "int(N/L)"
        case Kind.INDEPENDENT:
            return "|B'|"
        case Kind.UNKNOWN:
            return "not known"
    assert_never(kind)


def claimed(row: Row) -> str:
    """What the library's own accounting says, the first of its numbers; without one it claims nothing."""
    claims = () if row.observed is None else row.observed.claims
    return upper_bound(claims[0].epsilon, ".3g") if claims else NONE


def leaked(lost: Lost | None) -> str:
    """What is certainly lost."""
    return NONE if lost is None or lost.leakage is None else lower_bound(lost.leakage, ".3g")


def guaranteed(lost: Lost | None) -> str:
    """What is certainly not exceeded."""
    return NONE if lost is None or lost.guarantee is None else upper_bound(lost.guarantee, ".3g")


def is_claimed(row: Row) -> bool:
    """Whether the library says anything of what it costs, by an accountant or by the noise that it chooses."""
    found = row.observed
    return found is not None and (bool(found.claims) or found.finding.noise.calibrated != ())


def verdict(row: Row) -> str:
    """The word on what the library claims itself; where batches are the caller's, it is about Poisson batches."""
    if row.lost is None or row.observed is None:
        return NONE
    if not is_claimed(row):
        return "it makes none"
    given = " with Poisson batches" if row.sampler is Sampler.GIVEN else ""
    return f"{row.lost.verdict}{given}"


def claim_words(claim: Claim) -> str:
    """One number of an accounting with what it is about."""
    who = "an adjacency that is not named" if claim.adjacency is None else claim.adjacency.value
    where = "" if claim.place is None else f", {claim.place}"
    return (
        f"{claim.accounting}: epsilon {upper_bound(claim.epsilon, '.4g')}; batches {claim.assumes.value}; {who}{where}"
    )


def lost_words(row: Row) -> str:
    """What the one run loses, or why that is not known."""
    lost = row.lost
    if row.observed is None:
        return "It was not run."
    if lost is None:
        return "Not accounted for: no theorem here covers what was found."
    if lost.leakage is None:
        return f"Not accounted for: {lost.because}."
    what = f"{lost.steps:,} rounds of {lost.mechanism}, batches {lost.sampler}, {lost.adjacency}"
    sound = "none known" if lost.guarantee is None else upper_bound(lost.guarantee, ".4g")
    claim = NONE if lost.claimed is None else upper_bound(lost.claimed, ".4g")
    return (
        f"{what}: claimed epsilon {claim}, leakage {lower_bound(lost.leakage, '.4g')}, guarantee {sound}:"
        f" {lost.verdict}; {lost.because}."
    )


def grouped(rows: Iterable[Row]) -> list[str]:
    """A sentence for each, those that are the same of several rows once."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        words = row.because if row.fault is None else f"{row.because}. {row.fault}"
        if row.exposed is Exposed.NO and row.lost is not None and row.lost.verdict == "violated":
            # its claim is not kept all the same
            words = f"{words}; but {row.lost.because}"
        found.setdefault((row.exposed.value, words), []).append(row.name)
    return [f"{', '.join(names)}: {word}: {words}" for (word, words), names in found.items()]


def counts(rows: Iterable[Row]) -> str:
    """How many of each word."""
    every = [row.exposed for row in rows]
    return ", ".join(f"{one.value} ({every.count(one)})" for one in Exposed if one in every)
