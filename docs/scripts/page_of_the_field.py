"""The tables of docs/field.md, from docs/field.json.

    noisymean field --json > docs/field.json
    python docs/scripts/page_of_the_field.py

Everything between two markers is replaced; what is around them is written by hand. With `--check` nothing is written, and the
exit code is 1 if the page is not what would be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from noisymean.field import Row
from noisymean.report import field_words as words

DOCS = Path(__file__).parents[1]
PAGE, RECORD = DOCS / "field.md", DOCS / "field.json"
MARKERS = "<!-- {}: docs/scripts/page_of_the_field.py -->", "<!-- end of {} -->"


def cell(text: str) -> str:
    """A cell of a table: a bar would end it."""
    return text.replace("|", "\\|")


def line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(cell, cells))} |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join([line(head), f"|{'---|' * len(head)}", *map(line, rows)])


def overview(rows: Sequence[Row]) -> str:
    """A row for each way that was run."""
    return table(
        ("library", "way", "divides by", "batches", "its own ε", "leaked ε", "guaranteed ε", "its claim", "exposed"),
        [
            (
                f"{row.library} {row.version}",
                f"`{row.name}`: {row.way}",
                words.divides_by(row),
                row.sampler.value,
                words.claimed(row),
                words.leaked(row.lost),
                words.guaranteed(row.lost),
                words.verdict(row),
                row.exposed.value,
            )
            for row in rows
            if row.observed is not None
        ],
    )


def claims(rows: Sequence[Row]) -> str:
    """Each number that an accounting gives, once."""
    found = dict.fromkeys((row.library, one) for row in rows if row.observed is not None for one in row.observed.claims)
    return table(
        ("library", "accounting", "ε", "batches that it assumes", "adjacency", "where it says so"),
        [
            (
                library,
                f"`{one.accounting}`",
                f"{one.epsilon:.4g}",
                one.assumes.value,
                "not named" if one.adjacency is None else one.adjacency.value,
                "-" if one.place is None else f"`{one.place}`",
            )
            for library, one in found
        ],
    )


def statements(rows: Sequence[Row]) -> str:
    """Where each library divides, with the ways that run through it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for one in () if row.observed is None else row.observed.divides_at:
            found.setdefault((row.library, one.place, one.text), []).append(row.name)
    return table(
        ("library", "statement", "ways"),
        [
            (library, f"`{place}` `{text}`", f"{len(names)} of {library}" if len(names) > 4 else ", ".join(names))
            for (library, place, text), names in found.items()
        ],
    )


def reasons(rows: Sequence[Row]) -> str:
    """Why a row says what it says; those that say the same together."""
    return "\n".join(f"- {one}." for one in words.grouped(row for row in rows if row.observed is not None))


def missing(rows: Sequence[Row]) -> str:
    """What was not run, and why."""
    return table(
        ("library", "why it was not run", "read of it, not run"),
        [(row.name, row.fault or "", row.read or "-") for row in rows if row.observed is None],
    )


def versions(rows: Sequence[Row]) -> str:
    """When each library was run, with what, and how long it took."""
    found: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row.observed is not None:
            packages = ", ".join(f"{name} {version}" for name, version in row.packages.items())
            key = (row.library, packages, row.date)
            found[key] = found.get(key, 0.0) + row.seconds
    return table(
        ("library", "run with", "on", "seconds"),
        [(library, packages, date, f"{seconds:.0f}") for (library, packages, date), seconds in found.items()],
    )


PARTS = {
    "the table": overview,
    "the reasons": reasons,
    "the claims": claims,
    "the statements": statements,
    "what was not run": missing,
    "the versions": versions,
}


def made(page: str, rows: Sequence[Row]) -> str:
    """The page with its parts made again."""
    for name, part in PARTS.items():
        first, last = (marker.format(name) for marker in MARKERS)
        before, opened, rest = page.partition(first)
        _, closed, after = rest.partition(last)
        if not opened or not closed:
            raise SystemExit(f"{PAGE.name}: {first} ... {last} must be there")
        page = f"{before}{first}\n\n{part(rows)}\n\n{last}{after}"
    return page


def main() -> int:
    """Write the page, or look whether it is what it should be."""
    rows = [Row.from_plain(one) for one in json.loads(RECORD.read_text(encoding="utf-8"))["rows"]]
    page = PAGE.read_text(encoding="utf-8")
    again = made(page, rows)
    if "--check" in sys.argv[1:]:
        return int(again != page)
    PAGE.write_text(again, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
