"""The options of `noisymean code-audit` about its rules: where findings go, which are known, and when one is an exit code.

--fail-on SEVERITY
    1   a finding of that severity or a worse one that no comment silences and no baseline knows
    2   none, but a file was not read: nothing is known of it
    0   else

It comes before --fail-on-violation, which is about what the code divides by. The output is written first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, final

import typer

from noisymean.choices import did_you_mean, written_as
from noisymean.cli import values
from noisymean.cli.complaints import WANTED, OutOfPlace, option
from noisymean.cli.gate import FOUND, Unjudged
from noisymean.cli.lint_shown import shortened
from noisymean.cli.options import Group, flag, from_names, of_option, text
from noisymean.cli.output import in_a_folder, note
from noisymean.errors import InvalidInput
from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Rule, Severity
from noisymean.lint.tree import MOST_BYTES
from noisymean.report.lint_marks import Known, Reading, known


@dataclass(frozen=True, kw_only=True)
class Checks(Group):
    """The options, as they were typed."""

    sarif: Annotated[str | None, text("FILE", "Also write the findings as SARIF 2.1.0.")] = None
    github: Annotated[
        bool, flag("--github", "Also print the findings as workflow commands, which GitHub shows at the lines.")
    ] = False
    baseline: Annotated[str | None, text("FILE", "Findings that FILE knows are not new.")] = None
    write_baseline: Annotated[str | None, text("FILE", "Write the findings of now into FILE, for --baseline.")] = None
    exclude: Annotated[
        list[str] | None,
        text("PATTERN", "Leave out files or folders, e.g. 'tests/*'; may be given more than once."),
    ] = None
    fail_on: Annotated[
        str | None,
        text(
            "SEVERITY",
            "Exit with 1 at a new finding that is an error, a warning or worse, or a note.",
            autocompletion=of_option("fail_on"),
        ),
    ] = None
    list_rules: Annotated[bool, flag("--list-rules", "List the rules, and read nothing.")] = False
    explain: Annotated[
        str | None,
        text(
            "RULE",
            "Show the page of one rule, e.g. NM001: an example, the remedy, when it is no fault.",
            autocompletion=from_names([name for one in RULES.values() for name in (one.id, one.name)]),
        ),
    ] = None

    def rule(self) -> Rule | None:
        """The rule to be explained."""
        if self.explain is None:
            return None
        ids = {name: one.id for one in RULES.values() for name in (one.id, one.name)}
        found = written_as(self.explain, ids)
        if found is None:
            remedy = did_you_mean(self.explain, ids) or WANTED["explain"].remedy("")
            raise InvalidInput("explain", self.explain, WANTED["explain"].allowed, remedy)
        return RULES[ids[found]]

    def first(self) -> str | None:
        """The option that was given, as it is typed; None if there is none."""
        given = (one.name for one in fields(self) if getattr(self, one.name) != one.default)
        return next((option(name) for name in given), None)

    def read(self, *, json: bool) -> Asked:
        """The options checked, and the baseline read, before anything else is."""
        if json and self.github:
            raise OutOfPlace("--github", "left out with --json", "run it once for each")
        sarif, write_baseline = _target("sarif", self.sarif), _target("write_baseline", self.write_baseline)
        if sarif is not None and sarif == write_baseline:
            raise InvalidInput("--sarif", str(sarif), "another file than that of --write-baseline", "give each its own")
        return Asked(
            sarif=sarif,
            github=self.github,
            baseline=None if self.baseline is None else known(self.baseline),
            write_baseline=write_baseline,
            exclude=tuple(self.exclude or ()),
            fail_on=None if self.fail_on is None else values.choice("fail_on", self.fail_on, Severity),
        )


@final
@dataclass(frozen=True)
class Asked:
    """The same, read."""

    sarif: Path | None
    github: bool
    baseline: Known | None
    write_baseline: Path | None
    exclude: tuple[str, ...]
    fail_on: Severity | None

    def check(self, reading: Reading) -> None:
        """Leave with the exit code that --fail-on asks for; return where that is 0. After the output, never before."""
        if self.fail_on is None:
            return
        bad = [one for one in reading.new if one.finding.rule.severity.rank <= self.fail_on.rank]
        if bad:
            # nothing that is quoted from a file: this line stands outside of what keeps a runner from obeying text
            counts = Counter(one.finding.rule.id for one in bad)
            named = ", ".join(
                name if count == 1 else f"{name} ({count:,} times)" for name, count in sorted(counts.items())
            )
            what = "finding" if reading.baseline is None else "new finding"
            note(f"failed: --fail-on {self.fail_on.value}: {len(bad):,} {what}{'s' * (len(bad) > 1)}: {named}")
            raise typer.Exit(FOUND)
        unknown = [one for one in reading.not_read if not one.is_link]
        if unknown:
            first, more = unknown[0], f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
            raise Unjudged(
                f"--fail-on {self.fail_on.value}: nothing is known of {shortened(first.file)}{more}: not read ({first.reason});"
                " mend it, or leave it out with --exclude"
            )


def _target(name: str, typed: str | None) -> Path | None:
    """Where a file is to go: whatever is there already must be one, or it would be replaced by one; and no source."""
    if typed is None:
        return None
    path = Path(typed)
    try:
        wrong = path.name == "" or path.suffix in MOST_BYTES or (path.exists() and not path.is_file())
    except (OSError, ValueError):
        wrong = True
    if wrong:
        raise InvalidInput(option(name), typed, "an ordinary file that is no source", f"e.g. {option(name)} found.json")
    return in_a_folder(option(name), path)
