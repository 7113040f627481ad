"""The linter of call sites, measured: precision and recall on scripts whose faults were written down before it was run.

    python -m benchmarks.lint_precision [--corpus DIR] [--set dev|held_out|unseen] [--json | --keep [NAME]]

Two origins. `tests/held_out` has small files of our own with their labels. `tests/held_out/real.json` names real scripts by
repository, path and sha256, with labels and without their text: DIR holds them as DIR/SET/OWNER+REPO/PATH. What DIR does not
hold is counted and said. `dev` was looked at while rules were written; `held_out` and `unseen` were labelled before the linter
was run on them, and what was measured first is kept.

A label and a finding belong together if file and rule agree and the label's line is on the finding's statement or within two
lines of it. Each label takes one finding and each finding one label; a further finding of the same fault counts neither way, and
nor does one that only meets a place which is written down as debatable.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks.table import publish

HERE = Path(__file__).resolve().parent.parent / "tests" / "held_out"
SETS = ("dev", "held_out", "unseen")
# A finding is shown at its statement's first line; a label may name any line of the statement, or the one beside it.
SLACK = 2
# A first measurement is made once: what is measured later, after rules were changed, is kept under another name.
TITLES = {
    "lint_held_out_first": "The linter on labelled scripts: held_out, measured for the first time",
    "lint_unseen_first": "The linter on labelled scripts: unseen, measured for the first time",
    "lint_precision": "The linter on labelled scripts, today",
}


class Origin(Enum):
    """Who wrote the scripts."""

    OWN = "own"
    REAL = "real"


@dataclass(frozen=True)
class Place:
    """A line of a file, or of a notebook's code cell; both from 1."""

    line: int
    cell: int | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Place:
        return cls(record["line"], record.get("cell"))

    def __str__(self) -> str:
        return str(self.line) if self.cell is None else f"cell {self.cell}, line {self.line}"


@dataclass(frozen=True)
class Label:
    """One fault that is there: any of its places will do."""

    rule: str
    places: tuple[Place, ...]
    why: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Label:
        further = tuple(Place.of(one) if isinstance(one, Mapping) else Place(one) for one in record.get("also", ()))
        return cls(record["rule"], (Place.of(record), *further), record["why"])


@dataclass(frozen=True)
class Finding:
    """What the linter says: a rule and the lines of one statement."""

    rule: str
    start: Place
    end: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Finding:
        end = record.get("end_line") or record["line"]
        if record.get("cell") is None:
            return cls(record["rule"], Place(record["line"]), end)
        first = record["cell_line"]
        return cls(record["rule"], Place(first, record["cell"]), first + end - record["line"])

    def meets(self, label: Label) -> bool:
        return self.rule == label.rule and any(self._at(place) for place in label.places)

    def _at(self, place: Place) -> bool:
        if place.cell != self.start.cell:
            return False
        return self.start.line - 1 <= place.line <= self.end + 1 or abs(place.line - self.start.line) <= SLACK


@dataclass(frozen=True)
class Script:
    """One file with what is known of it."""

    set: str
    origin: Origin
    folder: Path
    name: str
    labels: tuple[Label, ...]
    debatable: tuple[Label, ...]
    sha256: str | None = None

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def __str__(self) -> str:
        return f"{self.set}/{self.name}" if self.origin is Origin.OWN else f"{self.set}/{self.folder.name}/{self.name}"


@dataclass
class Counts:
    """Faults found, faults missed, findings of none."""

    found: int = 0
    missed: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float | None:
        return self.found / (self.found + self.wrong) if self.found + self.wrong else None

    @property
    def recall(self) -> float | None:
        return self.found / (self.found + self.missed) if self.found + self.missed else None

    def record(self) -> dict[str, float | int | None]:
        return {
            "found": self.found, "missed": self.missed, "wrong": self.wrong, "precision": self.precision, "recall": self.recall
        }  # fmt: skip


@dataclass
class Measured:
    """Counts by rule and origin, and every disagreement with its place."""

    counts: dict[tuple[str, str, Origin], Counts] = field(default_factory=dict)
    wrong: list[tuple[Script, Finding]] = field(default_factory=list)
    missed: list[tuple[Script, Label]] = field(default_factory=list)
    debatable: list[tuple[Script, Finding]] = field(default_factory=list)
    files: int = 0
    absent: list[Script] = field(default_factory=list)
    changed: list[Script] = field(default_factory=list)
    failed: list[tuple[Path, str]] = field(default_factory=list)
    unlabelled: list[tuple[Path, str]] = field(default_factory=list)

    def at(self, script: Script, rule: str) -> Counts:
        return self.counts.setdefault((script.set, rule, script.origin), Counts())

    def total(self, sets: str | None = None, rule: str | None = None, origin: Origin | None = None) -> Counts:
        out = Counts()
        for (of_set, of_rule, of_origin), one in self.counts.items():
            if sets in (None, of_set) and rule in (None, of_rule) and origin in (None, of_origin):
                out = Counts(out.found + one.found, out.missed + one.missed, out.wrong + one.wrong)
        return out

    def rules(self) -> list[str]:
        return sorted({rule for _, rule, _ in self.counts})

    def of(self, script: Script, findings: Sequence[Finding]) -> None:
        """Compare what was found in one file with what is there."""
        self.files += 1
        taken = _pairs(script.labels, findings)
        for number, label in enumerate(script.labels):
            if number in taken:
                self.at(script, label.rule).found += 1
            else:
                self.at(script, label.rule).missed += 1
                self.missed.append((script, label))
        for finding in findings:
            if any(finding.meets(label) for label in script.labels):
                continue
            if any(finding.meets(label) for label in script.debatable):
                self.debatable.append((script, finding))
            else:
                self.at(script, finding.rule).wrong += 1
                self.wrong.append((script, finding))


def _pairs(labels: Sequence[Label], findings: Sequence[Finding]) -> dict[int, int]:
    """As many labels as can have a finding of their own: label to finding."""
    meets = [[j for j, finding in enumerate(findings) if finding.meets(label)] for label in labels]
    owner: dict[int, int] = {}

    def place(label: int, tried: set[int]) -> bool:
        for j in meets[label]:
            if j not in tried:
                tried.add(j)
                if j not in owner or place(owner[j], tried):
                    owner[j] = label
                    return True
        return False

    for label in range(len(labels)):
        place(label, set())
    return {label: finding for finding, label in owner.items()}


def scripts(sets: Iterable[str], corpus: Path | None) -> Iterator[Script]:
    """Our own files, then those that real.json names."""
    chosen = tuple(sets)
    for name in chosen:
        folder = HERE / name
        for file, entry in json.loads((folder / "labels.json").read_text(encoding="utf-8")).items():
            yield Script(name, Origin.OWN, folder, file, _labels(entry["labels"]), _labels(entry["debatable"]))
    for entry in json.loads((HERE / "real.json").read_text(encoding="utf-8")):
        if entry["set"] in chosen:
            folder = (corpus or Path()) / entry["set"] / entry["repo"].replace("/", "+")
            labels, debatable = _labels(entry["labels"]), _labels(entry["debatable"])
            yield Script(entry["set"], Origin.REAL, folder, entry["path"], labels, debatable, entry["sha256"])


def _labels(records: Iterable[Mapping[str, Any]]) -> tuple[Label, ...]:
    return tuple(Label.of(record) for record in records)


def audited(folder: Path) -> list[dict[str, Any]]:
    """What `noisymean code-audit . --json` finds in FOLDER; RuntimeError with its last line if it prints no JSON.

    Run there, since places are told from where it is run: each is then as labels name it.
    """
    command = [str(Path(sys.executable).with_name("noisymean")), "code-audit", ".", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    try:
        answer = json.loads(done.stdout)
        return list(answer["findings"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(f"exit code {done.returncode}: {said[-1] if said else error!r}") from error


def measure(wanted: Iterable[Script], corpus: Path | None) -> Measured:
    """One run of the command for each folder."""
    measured = Measured()
    folders: dict[Path, list[Script]] = {}
    for script in wanted:
        if (script.origin is Origin.REAL and corpus is None) or not script.path.is_file():
            measured.absent.append(script)
            continue
        if script.sha256 not in (None, hashlib.sha256(script.path.read_bytes()).hexdigest()):
            measured.changed.append(script)
            continue
        folders.setdefault(script.folder, []).append(script)
    for done, (folder, those) in enumerate(folders.items(), 1):
        print(f"{done} of {len(folders)}: {folder.name}", file=sys.stderr)
        try:
            found = audited(folder)
        except RuntimeError as error:
            measured.failed.append((folder, str(error)))
            continue
        known = {script.name for script in those}
        measured.unlabelled += [(folder, one["file"]) for one in found if one["file"] not in known]
        for script in those:
            measured.of(script, [Finding.of(one) for one in found if one["file"] == script.name])
    return measured


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _row(name: str, counts: Counts) -> list[str]:
    return [
        name,
        str(counts.found),
        str(counts.missed),
        str(counts.wrong),
        _share(counts.precision),
        _share(counts.recall),
    ]


def table(measured: Measured, sets: Sequence[str]) -> list[list[str]]:
    """Overall, by origin and set, and by rule."""
    rows = [_row("all", measured.total())]
    rows += [_row(f"{name}, {origin.value}", measured.total(name, None, origin)) for name in sets for origin in Origin]
    return rows + [_row(rule, measured.total(None, rule)) for rule in measured.rules()]


def lines(measured: Measured) -> Iterator[str]:
    """What disagrees, and what was not measured, one line each."""
    for script, finding in measured.wrong:
        yield f"wrong: {script}:{finding.start}: {finding.rule}"
    for script, label in measured.missed:
        yield f"missed: {script}:{label.places[0]}: {label.rule}, {label.why}"
    for script, finding in measured.debatable:
        yield f"debatable, not counted: {script}:{finding.start}: {finding.rule}"
    for script in measured.changed:
        yield f"not measured, its sha256 is another: {script}"
    for folder, said in measured.failed:
        yield f"not measured, the command failed: {folder.name}: {said}"
    for folder, file in measured.unlabelled:
        yield f"a finding in a file without labels, not counted: {folder.name}/{file}"
    for script in measured.absent:
        yield f"absent: {script}"
    yield (
        f"{measured.files} files measured; {len(measured.absent)} absent, {len(measured.changed)} changed, "
        f"{len(measured.failed)} folders failed."
    )


def record(measured: Measured, sets: Sequence[str]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": 1,
        "sets": list(sets),
        "files": measured.files,
        "all": measured.total().record(),
        "by_set": {n: {o.value: measured.total(n, None, o).record() for o in Origin} for n in sets},
        "by_rule": {rule: measured.total(None, rule).record() for rule in measured.rules()},
        "wrong": [{"file": str(s), "rule": f.rule, "at": str(f.start)} for s, f in measured.wrong],
        "missed": [{"file": str(s), "rule": x.rule, "at": str(x.places[0]), "why": x.why} for s, x in measured.missed],
        "debatable": [{"file": str(s), "rule": f.rule, "at": str(f.start)} for s, f in measured.debatable],
        "absent": [str(one) for one in measured.absent],
        "changed": [str(one) for one in measured.changed],
        "failed": [{"folder": folder.name, "said": said} for folder, said in measured.failed],
        "unlabelled": [f"{folder.name}/{file}" for folder, file in measured.unlabelled],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and with --keep write the table to results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lint_precision", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="the texts that real.json names, as DIR/SET/OWNER+REPO/PATH"
    )
    parser.add_argument("--set", choices=SETS, help="only this set [default: all]")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--keep",
        nargs="?",
        const="lint_precision",
        metavar="NAME",
        help="write the table to benchmarks/results as NAME [without one: %(const)s]",
    )
    chosen = parser.parse_args(arguments)
    sets = SETS if chosen.set is None else (chosen.set,)
    measured = measure(scripts(sets, chosen.corpus), chosen.corpus)
    if chosen.json:
        print(json.dumps(record(measured, sets), ensure_ascii=False))
        return
    header, rows = ["what", "found", "missed", "wrong", "precision", "recall"], table(measured, sets)
    if chosen.keep is not None:
        publish(
            chosen.keep, TITLES.get(chosen.keep, f"The linter on labelled scripts: {', '.join(sets)}"), header, rows
        )
    else:
        widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
        for row in (header, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for line in lines(measured):
        print(line)


if __name__ == "__main__":
    main()
