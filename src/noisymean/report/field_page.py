"""The field as one self-contained page: the table, then for each row what its accounting says and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from noisymean.field.rows import Exposed, Row
from noisymean.report import field_words as words
from noisymean.report import page as pages

# A denominator that stays is good news only of a claim that holds: batches may be drawn otherwise than is claimed.
_LOOKS = {Exposed.YES: "bad", Exposed.CALLER: "unknown", Exposed.UNKNOWN: "unknown", Exposed.NO: ""}
_OF_CLAIMS = {"violated": "bad", "holds": "good", "undetermined": "unknown"}


@final
@dataclass(frozen=True)
class Line:
    """One row of the table."""

    library: str
    way: str
    exposed: str
    look: str
    divides_by: str
    batches: str
    claimed: str
    leaked: str
    guaranteed: str
    verdict: str
    look_of_verdict: str


@final
@dataclass(frozen=True)
class Shown:
    """One row below the table."""

    title: str
    facts: tuple[tuple[str, str], ...]
    claims: tuple[str, ...]
    statements: tuple[str, ...]
    remarks: tuple[str, ...]
    evidence: tuple[tuple[str, ...], ...]


def page(rows: Sequence[Row], *, command: str) -> str:
    """The whole page; what is shown is what `--json` prints."""
    dates = sorted({one.date for one in rows})
    return pages.render(
        "field.html",
        title="The field, by running it",
        subtitle=f"{len(rows)} ways of {len({one.library for one in rows})} libraries",
        command=command,
        counts=words.counts(rows),
        run=words.the_run(),
        when=" to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "",
        lines=[_line(one) for one in rows],
        rows=[_shown(one) for one in rows],
    )


def _line(row: Row) -> Line:
    ran = row.observed is not None
    return Line(
        library=row.library if row.version is None else f"{row.library} {row.version}",
        way=row.way,
        exposed=row.exposed.value,
        look=_LOOKS[row.exposed],
        divides_by=words.divides_by(row),
        batches=row.sampler.value if ran else words.NONE,
        claimed=words.claimed(row),
        leaked=words.leaked(row.lost),
        guaranteed=words.guaranteed(row.lost),
        verdict=words.verdict(row),
        look_of_verdict="" if not words.is_claimed(row) or row.lost is None else _OF_CLAIMS[row.lost.verdict],
    )


def _shown(row: Row) -> Shown:
    title = f"{row.name}, {row.exposed.value}"
    found = row.observed
    if found is None:
        return Shown(title, (("exposed", row.because), ("not run", row.fault or "")), (), (), (), ())
    facts = (
        ("exposed", f"{row.exposed.value}: {row.because}"),
        *found.finding.facts(),
        ("the one run", words.lost_words(row)),
        ("run on", f"{row.date}, {row.seconds:.0f} s, {', '.join(f'{name} {value}' for name, value in row.packages.items())}"),
    )  # fmt: skip
    if found.told is not None:
        told = (
            f"noise multiplier {found.told.noise_multiplier:.4g}, rate {found.told.sample_rate:.4g} at {found.told.run}"
        )
        facts = (*facts, ("its accountant is told", told))
    return Shown(
        title=title,
        facts=facts,
        claims=tuple(words.claim_words(one) for one in found.claims),
        statements=tuple(f"{one.place}: {one.text}" for one in found.divides_at),
        remarks=tuple(f"{one.severity.value}: {one.words}" for one in found.finding.remarks),
        evidence=tuple(tuple(row) for row in found.finding.seen().rows),
    )
