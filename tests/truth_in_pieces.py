"""The settings of `tests/property/test_truth.py` in pieces that resume: hours of them, one line of JSON for each.

    python tests/truth_in_pieces.py --first 0 --last 20000 --share 0/2 --out truth-0.jsonl
    python tests/truth_in_pieces.py --of lift_cases --last 2000 --out lift.jsonl

A line that is there is not worked out again. At the end: how many were looked at, and every fault.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "property")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=["test_truth", "lift_cases"], default="test_truth", help="whose settings")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=20_000, help="one past the last setting")
    parser.add_argument("--share", default="0/1", help="0/2: every second setting, from the first; 1/2: the others")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON; what is there is kept")
    options = parser.parse_args()
    judged = importlib.import_module(options.of)
    part, parts = map(int, options.share.split("/"))
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {line["number"] for line in known}
    with options.out.open("a") as out:
        for number in range(options.first, options.last):
            if number % parts != part or number in done:
                continue
            began = time.monotonic()
            try:
                found = list(judged.faults(number))
            except Exception as error:
                found = [f"{number} {judged.random_setting(number)}: {error!r}"]
            known.append({"number": number, "faults": found, "seconds": round(time.monotonic() - began, 2)})
            out.write(json.dumps(known[-1]) + "\n")
            out.flush()
            print(
                f"\r{len(known)} settings, {sum(bool(it['faults']) for it in known)} with faults",
                end="",
                file=sys.stderr,
            )
    faults = [fault for line in known for fault in line["faults"]]
    print(f"\n{len(known)} settings, {len(faults)} faults", *faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
