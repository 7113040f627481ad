"""A finished full reproduction, kept beside the documents: the numbers of every experiment, the page, and what it was made with.

    noisymean reproduce all --jobs 2 --out out
    python docs/scripts/artefact_of_the_reproduction.py out

writes docs/reproduced: NAME.csv of every experiment and index.html as the run left them, and made.json: the date, versions,
which columns are words, and how many statements agree, differ or are not decided. It refuses a quick run, one that is not
finished, and a page that prints commands with a folder of this machine. tests/unit/test_reproduced.py judges the numbers again
with the criteria of today.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noisymean.paper.experiments import EXPERIMENTS
from noisymean.paper.rows import Table, Value
from noisymean.paper.statements import Answer

KEPT = Path(__file__).parents[1] / "reproduced"
PAGE, MADE = "index.html", "made.json"


def counts(tables: dict[str, Table]) -> dict[str, int]:
    """How many of the paper's statements agree, differ and are not decided, by these rows."""
    answers = [
        statement.compare(table).answer for name, table in tables.items() for statement in EXPERIMENTS[name].statements
    ]
    return {one.value: answers.count(one) for one in Answer}


def read(folder: Path, name: str, words: Sequence[str]) -> Table:
    """The rows of an experiment; all columns but those of words are numbers."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return Table(
            {key: text if key in words else _number(text) for key, text in row.items()}
            for row in csv.DictReader(stream)
        )


def _number(text: str) -> Value:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def keep(source: Path, target: Path) -> None:
    """Copy the numbers and the page of a full run, and say what they were made with."""
    saved = {name: _saved(source / f"{name}.json") for name in EXPERIMENTS}
    if "--out /" in (source / PAGE).read_text(encoding="utf-8"):
        sys.exit(
            "the page prints a folder of this machine: run 'noisymean reproduce all --out out' again, which keeps all rows"
        )
    target.mkdir(exist_ok=True)
    tables, experiments = {}, {}
    for name, plain in saved.items():
        shutil.copyfile(source / f"{name}.csv", target / f"{name}.csv")
        words = _columns_of_words(plain)
        tables[name] = read(target, name, words)
        experiments[name] = {"rows": len(tables[name]), "words": words}
    shutil.copyfile(source / PAGE, target / PAGE)
    keys = [plain["key"] for plain in saved.values()]
    if any({**key, "experiment": ""} != {**keys[0], "experiment": ""} for key in keys):
        sys.exit(f"{source} holds experiments of different runs: run 'noisymean reproduce all' to its end")
    made = {
        "command": "noisymean reproduce all --jobs 2",
        "date": datetime.fromtimestamp((source / PAGE).stat().st_mtime, UTC).date().isoformat(),
        "seed": keys[0]["seed"],
        "versions": {"noisymean": keys[0]["noisymean"], "python": keys[0]["python"], **keys[0]["packages"]},
        "code": keys[0]["code"],
        "statements": counts(tables),
        "experiments": experiments,
    }
    (target / MADE).write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{target}: {made['statements']}")


def _saved(path: Path) -> dict[str, Any]:
    """The rows of a finished experiment, as the run saved them."""
    if not path.is_file():
        sys.exit(f"{path} is missing: run 'noisymean reproduce all' to its end")
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if plain["key"]["quick"]:
        sys.exit(f"{path} is of a quick run: run it without --quick")
    return plain


def _columns_of_words(plain: dict[str, Any]) -> list[str]:
    """A column is words or numbers throughout; the file of comma-separated values does not tell which."""
    found = []
    for place, name in enumerate(plain["columns"]):
        kinds = {isinstance(row[place], str) for row in plain["rows"]}
        if len(kinds) > 1:
            sys.exit(f"column {name} of {plain['key']['experiment']} has words and numbers")
        if kinds == {True}:
            found.append(name)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("say the folder of a finished 'noisymean reproduce all'")
    keep(Path(sys.argv[1]), KEPT)
