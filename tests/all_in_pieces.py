"""All tests, the slow ones and every random example included, in pieces that resume: hours of them.

    python tests/all_in_pieces.py [--out out/test-all.jsonl] [--processes 2] [--for MINUTES]

A piece is a hundred tests, one line of JSON when it is finished. What is there is not run again unless source or tests have changed
since; a piece with a failure is. With --for no piece is begun after so many minutes. At the end: how many passed, failed and were
skipped, how many are left, and every failure; the exit code is 0 if all have passed, 1 if one has failed, 3 if some are left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
AT_ONCE = 100
LEFT = 3
# as `make test` sets it: processes, not threads, share the cores
ENVIRONMENT = {**os.environ, "NOISYMEAN_THOROUGH": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "test-all.jsonl", help="lines of JSON")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--for", dest="minutes", type=float, default=float("inf"), help="begin no piece after so many")
    options = parser.parse_args()
    began, code = time.monotonic(), digest()
    names = collected()
    pieces = [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    known = {line["first"]: line for line in lines(options.out) if line["code"] == code and not line["failures"]}
    with options.out.open("a", encoding="utf-8") as out:
        for number, piece in enumerate(pieces, 1):
            if piece[0] in known or time.monotonic() - began > 60 * options.minutes:
                continue
            start = time.monotonic()
            line = {"first": piece[0], "code": code, **run(piece, options.processes)}
            known[piece[0]] = line
            line["seconds"] = round(time.monotonic() - start)
            out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"piece {number} of {len(pieces)}: {line['counts']}, {line['seconds']} s", flush=True)
    return summed_up(list(known.values()), len(pieces))


def digest() -> str:
    """Of everything that a test reads: what was run with other code is run again."""
    found = hashlib.sha256()
    for folder in ("src", "tests", "docs", "examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".png"):
                found.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def pytest(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def collected() -> list[str]:
    """The names of all tests, in order."""
    result = pytest("--collect-only", "-q", "--no-header")
    names = [line for line in result.stdout.splitlines() if "::" in line]
    if result.returncode or not names:
        sys.exit(result.stdout[-4000:] + result.stderr[-4000:])
    return names


def run(piece: list[str], processes: int) -> dict[str, Any]:
    """A piece in a process of its own, and what became of each test."""
    with tempfile.TemporaryDirectory() as folder:
        told, chosen = Path(folder, "told.xml"), Path(folder, "chosen.txt")
        chosen.write_text("\n".join(piece) + "\n", encoding="utf-8")
        result = pytest("-q", "-n", str(processes), f"--junit-xml={told}", f"@{chosen}")
        cases = ElementTree.parse(told).getroot().iter("testcase") if told.exists() else ()
        counts, failures = Counter[str](), list[str]()
        for case in cases:
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            counts[min(kinds, default="passed")] += 1
            if kinds - {"skipped"}:
                failures.append(f"{case.get('classname')}::{case.get('name')}")
    if result.returncode and not failures:
        failures = [f"pytest ended with {result.returncode}: {result.stdout[-500:]}{result.stderr[-500:]}"]
    if not failures and sum(counts.values()) != len(piece):
        failures = [f"{sum(counts.values())} of {len(piece)} tests were run from {piece[0]} on"]
    return {"counts": dict(counts), "failures": failures}


def summed_up(known: list[dict[str, Any]], pieces: int) -> int:
    total, failures = Counter[str](), [one for line in known for one in line["failures"]]
    for line in known:
        total.update(line["counts"])
    left = pieces - len(known)
    told = ", ".join(f"{count} {word}" for word, count in sorted(total.items()))
    print(f"{told}; {left} of {pieces} pieces left; {sum(line['seconds'] for line in known):,} s")
    print(*failures, sep="\n")
    return 1 if failures else LEFT if left else 0


if __name__ == "__main__":
    sys.exit(main())
