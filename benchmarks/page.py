"""The results as people read them: docs/benchmarks.md, and the table in README between its two marks.

`python -m benchmarks.page` writes both from `results/`; a test fails when they differ from what it would write.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.table import RESULTS

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
START, END = "<!-- benchmarks: written by `make bench` -->", "<!-- end of benchmarks -->"
ORDER = (
    "many_rounds", "growth", "sandwich", "sampling", "allocation", "one_round", "auditors", "audit_exact_test",
    "audit_whole", "audit_cost", "replay",
)  # fmt: skip
_INTRODUCTION = """# Benchmarks

Everything here is written by one command, `make bench`, which installs the peers and measures them beside us in the same run,
on the same work, accuracy beside speed. Times depend on the machine; ratios less so. No test asserts a time. Settings A, B
and C are the noisy sum with (q, σ, T) = (0.01, 1, 1,000), (0.005, 10, 200) and (0.01, 0.8, 10,000) at δ = 10⁻⁵.

None of the peers models a denominator that depends on the data: they are compared where they can be, on the noisy sum and on
scores.
"""


def rows(name: str) -> tuple[str, list[dict[str, str]]]:
    """(machine and date, rows) of one result."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found["where"], found["rows"]


def page() -> str:
    """All tables."""
    parts = [(RESULTS / f"{name}.md").read_text(encoding="utf-8") for name in ORDER]
    return "\n".join([_INTRODUCTION, *(f"#{part}" for part in parts)])


def summary() -> str:
    """Who takes how long for the same question, and how wide the answer is."""
    where, found = rows("many_rounds")
    table: dict[str, dict[str, dict[str, str]]] = {}
    for row in found:
        setting, _, name = row["accountant"].partition(": ")
        table.setdefault(name, {})[setting] = row
    lines = [
        "| ε of T rounds of the noisy sum | A | B | C | width of the answer |",
        "|---|---|---|---|---|",
    ]
    for name, by_setting in table.items():
        own = name == "noisymean"
        times = [by_setting[s]["time"] if own else f"{by_setting[s]['time / ours']} ×" for s in "ABC"]
        width = by_setting["A"]["width / ours"]
        shown = (
            width.removeprefix("1 (").removesuffix(")") if own else width if "only" in width else f"{width} times ours"
        )
        lines.append(f"| {name} | {' | '.join(times)} | {shown} |")
    said = f"Times of the others as multiples of ours; {where}. All tables: [benchmarks](docs/benchmarks.md)."
    return "\n".join([START, *lines, "", said, END])


def readme() -> str:
    """README with the table as it should be."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + summary() + after


def main() -> None:
    """Write both."""
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")


if __name__ == "__main__":
    main()
