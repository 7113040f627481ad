"""What the rules found, for people: a table of places, what each rule says, its remedy, and the counts.

A place and the line that stands there are below each other, not beside: so both are whole in a narrow window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from noisymean.cli.output import say
from noisymean.cli.tables import Cell, Column, Kind, show
from noisymean.cli.tones import toned
from noisymean.legible import on_a_line
from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Finding, Rule, Severity
from noisymean.lint.pages import section_of
from noisymean.report.lint_marks import Marked, Reading, Silenced

# Lines beyond that are in the JSON.
_MOST_ROWS = 1_000
_MOST_LISTED = 20
_LONGEST = 240
_WIDE = 80
_LONGEST_DETAIL = 1_000


def findings(out: Console, reading: Reading) -> None:
    """Everything but the last line."""
    new = reading.new
    if new:
        # in a narrow window places are whole, each on a line of its own; in a wide one long lines of source are folded
        kind = Kind.PROSE if out.width >= _WIDE else Kind.NAME
        show(out, _columns("place", kind), list(map(_row, new[:_MOST_ROWS])), close=True)
        if len(new) > _MOST_ROWS:
            say(out, f"And {len(new) - _MOST_ROWS:,} findings more: --json and --sarif have all.")
        for rule, those in _by_rule(new):
            _explain(out, rule, those)
    _listed(out, [_ignored(one) for one in reading.ignored])
    _listed(out, [f"silences nothing: {shortened(str(one.place))}: {shortened(one.says)}" for one in reading.idle])
    _listed(out, [f"not read: {shortened(one.file)}: {one.reason}" for one in reading.not_read])


def counts(reading: Reading) -> str:
    """The last line."""
    new = reading.new
    parts = [_severities(new) if new else "No findings" if reading.baseline is None else "No new findings"]
    if reading.baseline is not None:
        parts.append(f"{len(reading.findings) - len(new):,} known to the baseline")
        if reading.gone:
            parts.append(f"{reading.gone:,} of the baseline gone")
    if reading.ignored:
        parts.append(f"{len(reading.ignored):,} ignored")
    parts.append(f"{_count(reading.files, 'file')} checked")
    if reading.not_read:
        parts.append(f"{len(reading.not_read):,} not read")
    return f"{', '.join(parts)}."


def rules(out: Console) -> None:
    """All rules."""
    rows = [(one.id, toned(one.severity.value), f"{one.name}: {one.says}") for one in RULES.values()]
    show(out, _columns("what is wrong"), rows, close=True)


def page(out: Console, rule: Rule) -> None:
    """What the documentation says of one rule, as it is written; the catalogue's words where that is not at hand."""
    say(out, f"{rule.id} {rule.name} ({rule.severity.value})")
    out.print()
    for line in (section_of(rule) or f"{rule.says}\n\n{rule.remedy}").split("\n"):
        if not line or line.startswith((" ", "|")):
            # code, whole, whatever the width: it is to be copied
            out.print(on_a_line(line), soft_wrap=True)
        else:
            say(out, line)


def _row(one: Marked) -> tuple[Cell, ...]:
    rule, place = one.finding.rule, one.finding.place
    where = f"{shortened(str(place))}\n{shortened(place.source.strip())}"
    return rule.id, toned(rule.severity.value), where


def _columns(last: str, kind: Kind = Kind.PROSE) -> tuple[Column, ...]:
    return Column("rule"), Column("severity"), Column(last, kind)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """What can be shown in a row."""
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return on_a_line(text)


def _by_rule(those: Iterable[Marked]) -> Iterator[tuple[Rule, list[Finding]]]:
    found: dict[str, list[Finding]] = {}
    for one in those:
        found.setdefault(one.finding.rule.id, []).append(one.finding)
    for name in sorted(found):
        yield found[name][0].rule, found[name]


def _explain(out: Console, rule: Rule, those: list[Finding]) -> None:
    """One rule: what it says, what is known of each place, the remedy as code, its page."""
    times = "" if len(those) == 1 else f", {len(those):,} times"
    say(out, f"{rule.id} {rule.name}{times}: {rule.says}")
    _listed(out, [_in_particular(one) for one in those if one.details], indent="  ")
    for line in rule.remedy.split("\n"):
        # whole, whatever the width: it is to be copied
        out.print(f"    {on_a_line(line)}", soft_wrap=True)
    say(out, f"  More: noisymean code-audit --explain {rule.id}, or {rule.page}")
    out.print()


def _in_particular(one: Finding) -> str:
    """What is known of one place; a command in it is of no use if it is cut."""
    return f"{shortened(str(one.place))}: {shortened(' '.join(one.details), _LONGEST_DETAIL)}"


def _listed(out: Console, lines: list[str], indent: str = "") -> None:
    """One line each, and how many more there are."""
    for line in lines[:_MOST_LISTED]:
        say(out, f"{indent}- {line}")
    if len(lines) > _MOST_LISTED:
        say(out, f"{indent}- and {len(lines) - _MOST_LISTED:,} more")


def _ignored(one: Silenced) -> str:
    finding = one.marked.finding
    reason = shortened(one.reason) or "no reason is given"
    return f"ignored: {finding.rule.id} at {shortened(str(finding.place))}: {reason}"


def _severities(those: Sequence[Marked]) -> str:
    found = Counter(one.finding.rule.severity for one in those)
    each = ", ".join(_count(found[one], one.value) for one in Severity if found[one])
    return f"{_count(len(those), 'finding')} ({each})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
