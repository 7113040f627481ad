"""Print rows and keep them: results/NAME.json for programs, results/NAME.md for people."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def forget() -> None:
    """What the package keeps between two questions: a fresh process has none of it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "noisymean":
            for found in vars(module).values():
                if callable(clear := getattr(found, "cache_clear", None)):
                    clear()


# Seconds for which short work is repeated: on a machine that others use, the least of three runs of a millisecond says little.
_LONG_ENOUGH = 1.0


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least of a few runs, ours or a peer's, after one to warm up; what the package has kept of it is thrown away."""
    work()
    best, spent, done = float("inf"), 0.0, 0
    while done < repeats or spent < _LONG_ENOUGH:
        forget()
        start = time.perf_counter()
        work()
        took = time.perf_counter() - start
        best, spent, done = min(best, took), spent + took, done + 1
    return best


def publish(name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The table on standard output and in both files, with machine and date."""
    where = f"{platform.machine()}, Python {platform.python_version()}, {date.today().isoformat()}"
    lines = [f"# {title}", "", where, "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    records = [dict(zip(header, row, strict=True)) for row in rows]
    (RESULTS / f"{name}.json").write_text(json.dumps({"where": where, "rows": records}, indent=1), encoding="utf-8")
    print(text)
