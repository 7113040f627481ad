"""What source code divides by, for people: a table of its divisions, the answer, and why it is that one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from noisymean.cli.lint_shown import shortened
from noisymean.cli.output import say
from noisymean.cli.tones import Tone, marked
from noisymean.probe.conclusions import Denominator, read_mechanism, read_verdict
from noisymean.probe.laws import Kind
from noisymean.probe.reading import CONSTANTS, OF_THE_DATA, Origin, Role, Source, Statement, Sure

_FEW_ROWS, _MOST_ROWS = 3, 20
_LONGEST = 120
# Columns of a terminal: those of `what` with all gaps, and the fewest that `by` is read in.
_OTHERS, _LEAST_BY = 16, 18

_TONES = {
    Denominator.DATA_DEPENDENT: Tone.BAD,
    Denominator.CONSTANT: Tone.GOOD,
    Denominator.UNKNOWN: Tone.OPEN,
}


def divisions(out: Console, name: str, source: Source, place: Path) -> None:
    """Everything that is said of the divisions; `place` is what to probe, where reading is not enough."""
    verdict = read_verdict(source)
    files = "1 file" if source.files == 1 else f"{source.files:,} files"
    word = _word(verdict, read_mechanism(source))
    say(out, marked(f"{name}: {word}; {files} read, nothing of it was run.", word, _TONES[verdict]))
    shown = _worth_a_row(source)
    if shown:
        out.print(_table(shown, out.width))
    left = len(source.statements) - len(shown)
    if left:
        why = (
            ", perhaps not of anything noisy," if all(at in shown for at in source.statements if _is_noisy(at)) else ""
        )
        more = f"One division more{why} is" if left == 1 else f"{left:,} divisions more{why} are"
        say(out, f"{more} listed by --json.")
    for sentence in _explained(source, verdict, place):
        say(out, sentence)
    for unreadable in source.unreadable:
        say(out, f"- not read: {unreadable}")


def _worth_a_row(source: Source) -> list[Statement]:
    """All divisions where they are few; else those that are known to be of something noisy, by numbers of the data first."""
    if len(source.statements) <= _FEW_ROWS:
        return [*source.statements]
    noisy = [one for one in source.statements if _is_noisy(one)]
    if len(noisy) <= _MOST_ROWS:
        return noisy
    chosen = {*sorted(range(len(noisy)), key=lambda at: not OF_THE_DATA & {*noisy[at].origins})[:_MOST_ROWS]}
    return [one for at, one in enumerate(noisy) if at in chosen]


def _is_noisy(one: Statement) -> bool:
    return one.sure is not Sure.UNSURE


def _table(those: Sequence[Statement], width: int) -> Table:
    """A row for each statement, with everything that it divides by."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for one in those:
        key = (
            shortened(one.place),
            shortened(one.text, _LONGEST),
            one.role.value,
            one.sure.value,
        )
        rows.setdefault(key, []).append(shortened(one.divided_by, _LONGEST))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # the two short columns are never broken, and by what they leave a place is whole
    left = width - max(len(sure) for *_, sure in rows) - _OTHERS
    most_by = max(len(one) for several in rows.values() for one in several)
    least_place = min(left - _LEAST_BY, max(len(place) for place, *_ in rows))
    by_width = min(most_by, left - max(least_place, left // 2))
    table.add_column(
        "divides at", overflow="fold", width=min(left - by_width, max(len(one) for key in rows for one in key))
    )
    table.add_column("what", no_wrap=True)
    table.add_column("by", overflow="fold", width=by_width)
    table.add_column("sure", no_wrap=True)
    for (place, text, role, sure), by in rows.items():
        table.add_row(f"{place}\n{text}", role, "\n".join(by), sure)
    return table


def _word(verdict: Denominator, kind: Kind) -> str:
    match verdict:
        case Denominator.DATA_DEPENDENT:
            return "depends on the data" + ("" if kind is Kind.UNKNOWN else f" ({kind.value.upper()})")
        case Denominator.CONSTANT:
            return "a constant (SGM)"
        case Denominator.UNKNOWN:
            return "unknown"


def _explained(source: Source, verdict: Denominator, place: Path) -> Iterator[str]:
    """Why the answer is what it is, and what to do where reading is not enough."""
    noisy = [one for one in source.statements if one.role is not Role.UNCLEAR]
    match verdict:
        case Denominator.DATA_DEPENDENT:
            used = {origin for one in noisy for origin in one.origins if origin in OF_THE_DATA}
            named = " or ".join(sorted(one.value for one in used))
            is_noise = not any(one.role is Role.GRADIENT and OF_THE_DATA & set(one.origins) for one in noisy)
            where = " (the noise; the gradients' own mean was not found)" if is_noise else ""
            yield f"The denominator is {named}{where}{', which depends on how it is used' if len(used) > 1 else ''}."
        case Denominator.CONSTANT:
            used = {origin for one in noisy for origin in one.origins}
            yield f"The denominator is {' or '.join(sorted(one.value for one in used))}."
            if Origin.CALLER in used:
                yield "Whether the caller takes it from the data is not known here."
        case Denominator.UNKNOWN:
            yield _not_understood(source)
    unclear = [one for one in source.statements if not set(one.origins) <= CONSTANTS | OF_THE_DATA]
    if verdict is Denominator.DATA_DEPENDENT and unclear:
        yield f"Of {len(source.statements):,} divisions {len(unclear):,} were not understood."
    if verdict is Denominator.UNKNOWN:
        target = place if place.suffix == ".py" else "FILE.py"
        yield f"Running it tells more: 'noisymean probe {target}:NAME', NAME being a function that does one step."


def _not_understood(source: Source) -> str:
    """What keeps reading from an answer."""
    unclear = [one for one in source.statements if not set(one.origins) <= CONSTANTS]
    if source.unreadable:
        return "Not all of the source could be read."
    if not source.statements:
        return "No division of gradients or noise was found; it may be there in a form that is not recognised."
    if not unclear:
        return "No division of something noisy was found; it may be there in a form that is not recognised."
    count = "One division was" if len(unclear) == 1 else f"{len(unclear):,} divisions were"
    return f"{count} not understood: what is divided, or where the number comes from that it is divided by."
