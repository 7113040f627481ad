"""`noisymean code-audit PATH`: what the rules find in source code and what it divides by. All of it is read, nothing is run."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from noisymean import __version__
from noisymean.cli import gate, lint_shown
from noisymean.cli.divisions_shown import divisions
from noisymean.cli.lint_options import Asked
from noisymean.cli.output import console, emit_json, note, say, written
from noisymean.cli.progress import bar
from noisymean.errors import InvalidInput
from noisymean.lint import linter
from noisymean.lint.findings import Linted, Place
from noisymean.lint.text import Unreadable, parsed
from noisymean.lint.tree import PYTHON, Tree
from noisymean.probe.conclusions import poisson_words, read_mechanism, read_verdict
from noisymean.probe.packages import source_of
from noisymean.probe.reading import (
    Source,
    is_left_out,
    read_modules,
    to_json,
)
from noisymean.report import github, lint_marks, lint_record, sarif
from noisymean.report.files import whole_file
from noisymean.report.lint_marks import Reading, marked

# Divisions are followed through all files at once, which are in memory for that.
_MOST_BYTES = 1 << 24


@final
@dataclass(frozen=True)
class Target:
    """What was typed, and where it is: on this machine already, or a package that was unpacked."""

    typed: str
    path: Path

    @property
    def is_package(self) -> bool:
        return Path(self.typed) != self.path


def read(typed: Sequence[str], asked: Asked, *, as_json: bool) -> tuple[Reading, gate.Judgement]:
    """Everything that is known of these paths and packages, written and printed."""
    targets = [Target(one, source_of(one)) for one in typed]
    linted = _linted(targets, asked.exclude)
    source = read_modules(_modules([one.path for one in targets], asked.exclude))
    if not source.files and not linted.files and not linted.not_read:
        raise InvalidInput(
            "package", shlex.join(typed), "a folder or file with Python source", "give the folder of the package"
        )
    # files and forges know a place by its path from here, people by its path in what they typed
    located = marked(relocated(linted, targets), asked.baseline)
    shown = marked(linted) if asked.baseline is None else _named_as(located, linted)
    _write(located, asked)
    name = typed[0] if len(typed) == 1 else shlex.join(typed)
    verdict = read_verdict(source)
    if as_json:
        emit_json(_record(name, typed, source, located))
    else:
        _print(name, targets, source, shown, commands=located if asked.github else None)
    return located, gate.of_source(name, verdict)


def _linted(targets: Sequence[Target], exclude: Sequence[str]) -> Linted:
    with bar("files", 0) as tell:
        return linter.lint([one.path for one in targets], exclude=exclude, progress=_counting(tell))


def _counting(tell: Callable[..., None]) -> Callable[[int], None]:
    """How many files there are is known at the end only."""
    return lambda done: tell(completed=done, total=None, description=f"{done:,} files")


def _modules(places: Sequence[Path], exclude: Sequence[str]) -> Iterator[tuple[str, ast.Module | None]]:
    """The Python files as source; None for those that could not be read."""
    tree = Tree(places, exclude)
    left = _MOST_BYTES
    for found, data in tree.files():
        if found.is_notebook or (is_left_out(found.name) and found.path not in places):
            continue
        left -= len(data)
        try:
            yield found.name, parsed(found.name, data, notebook=False).tree if left >= 0 else None
        except Unreadable:
            yield found.name, None
    for one in tree.not_read:
        if one.file.endswith(PYTHON):
            yield one.file, None


# --- where files are ---------------------------------------------------------------------------------------------------


def relocated(linted: Linted, targets: Sequence[Target]) -> Linted:
    """The same with files by their paths from the folder in which the command is run; those of packages as they are there."""

    def place(one: Place) -> Place:
        return replace(one, file=_path_of(one.file, targets))

    return replace(
        linted,
        findings=tuple(replace(one, place=place(one.place)) for one in linted.findings),
        ignored=tuple(
            replace(one, finding=replace(one.finding, place=place(one.finding.place))) for one in linted.ignored
        ),
        idle=tuple(replace(one, place=place(one.place)) for one in linted.idle),
        not_read=tuple(replace(one, file=_path_of(one.file, targets)) for one in linted.not_read),
    )


def _path_of(name: str, targets: Sequence[Target]) -> str:
    """A file below one path is named from there, a file below several has the path before it."""
    if len(targets) == 1:
        (only,) = targets
        if only.is_package:
            return name
        path = only.path if not only.path.is_dir() or name == str(only.path) else only.path / name
    else:
        for one in targets:
            before = one.path.as_posix().rstrip("/") + "/"
            if one.is_package and name.startswith(before):
                return f"{one.typed}/{name.removeprefix(before)}"
        path = Path(name)
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _named_as(located: Reading, linted: Linted) -> Reading:
    """What is known of the findings, at the places that people are shown."""
    findings = zip(located.findings, linted.findings, strict=True)
    ignored = zip(located.ignored, linted.ignored, strict=True)
    return replace(
        located,
        findings=tuple(replace(one, finding=finding) for one, finding in findings),
        ignored=tuple(replace(one, marked=replace(one.marked, finding=each.finding)) for one, each in ignored),
        idle=linted.idle,
        not_read=linted.not_read,
    )


# --- files -------------------------------------------------------------------------------------------------------------


def _write(reading: Reading, asked: Asked) -> None:
    if asked.sarif is not None:
        content = json.dumps(sarif.log(reading, __version__), indent=1, allow_nan=False).encode("ascii") + b"\n"
        _write_file("--sarif", asked.sarif, content)
        note(f"SARIF written to {asked.sarif}")
    if asked.write_baseline is not None:
        _write_file("--write-baseline", asked.write_baseline, lint_marks.written(reading, __version__))
        note(f"baseline written to {asked.write_baseline}")


def _write_file(name: str, path: Path, content: bytes) -> None:
    with written(name, path), whole_file(path) as stream:
        stream.write(content)


def _record(name: str, typed: Sequence[str], source: Source, reading: Reading) -> dict[str, object]:
    concluded = {"package": name, "paths": [*typed], "verdict": read_verdict(source).value}
    plain = to_json(source)
    poisson = {"poisson": poisson_words(source), "poisson_read": plain["poisson"]}
    return {
        **concluded,
        "mechanism": read_mechanism(source).value,
        **plain,
        **poisson,
        **lint_record.record(reading),
        "version": __version__,
    }


# --- for people --------------------------------------------------------------------------------------------------------


def _print(name: str, targets: Sequence[Target], source: Source, reading: Reading, *, commands: Reading | None) -> None:
    out = console()
    before, after = github.quiet() if commands is not None else ("", "")
    if before:
        print(before)
    lint_shown.findings(out, reading)
    if source.files:
        divisions(out, name, source, targets[0].path if len(targets) == 1 else Path())
    say(out, lint_shown.counts(reading))
    if after:
        print(after)
    if commands is not None:
        for line in github.commands(commands):
            print(line)
