"""Record the SHA-256 of wheels that noisymean downloads and runs, in src/noisymean/targets/wheels/pinned.json.

    python docs/scripts/record_wheels.py --opacus             every release in `releases.VERSIONS` that is not recorded yet
    python docs/scripts/record_wheels.py --environments       the environments of `noisymean field`, resolved anew
    python docs/scripts/record_wheels.py --environments optax only that one

A new release of Opacus is first read (docs/implementations.md), then added to VERSIONS, then recorded, then run. pip is asked by
package name for what it would install here, and on the other systems and versions of Python that are listed below; nothing is
installed. What is recorded once is never changed: another checksum under the same name stops the script. Look at the difference
before it is committed: from then on these files are run on other people's machines.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noisymean.targets.libraries.environments import ENVIRONMENTS, Environment
from noisymean.targets.opacus_releases.releases import VERSIONS

PINNED = Path(__file__).parents[2] / "src" / "noisymean" / "targets" / "wheels" / "pinned.json"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LINUX = ("_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34")
SYSTEMS = {
    "Linux, x86-64": [f"manylinux{one}_x86_64" for one in ("1", "2010", "2014", "_2_5", "_2_12", *LINUX)],
    "Linux, ARM": [f"manylinux{one}_aarch64" for one in ("2014", *LINUX)],
    "macOS, ARM": [f"macosx_{version}_0_{kind}" for version in (11, 12, 13, 14, 15) for kind in ("arm64", "universal2")],
    "Windows": ["win_amd64"],
}  # fmt: skip


def main() -> None:
    """Record what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opacus", action="store_true")
    parser.add_argument("--environments", nargs="*", metavar="LIBRARY")
    asked = parser.parse_args()
    pinned = json.loads(PINNED.read_text(encoding="utf-8")) if PINNED.is_file() else {"environments": {}, "wheels": {}}
    if asked.opacus:
        for version in VERSIONS:
            if f"opacus=={version}" not in pinned["wheels"]:
                add(pinned, wheels([f"opacus=={version}"], "--no-deps"))
    if asked.environments is not None:
        for one in ENVIRONMENTS:
            if not asked.environments or one.library in asked.environments:
                record(pinned, one)
                write(pinned)
    write(pinned)


def record(pinned: dict[str, Any], environment: Environment) -> None:
    """All that is installed in it here, and the wheels of the same versions for others."""
    here = wheels(environment.needs) + wheels(environment.alone, "--no-deps")
    add(pinned, here)
    titles = sorted(title for title, _, _ in here)
    pinned["environments"][environment.title] = titles
    for system, tags in SYSTEMS.items():
        for python in PYTHONS:
            left, absent = list(titles), list[str]()
            # without what it is made for it is no use
            while left and not {*environment.needs, *environment.alone} & {*absent}:
                try:
                    add(pinned, wheels(left, "--no-deps", *elsewhere(python, tags)))
                    break
                except LookupError as refused:
                    name = str(refused)
                    gone = [one for one in left if one.lower() in name.lower()]
                    absent += gone or left
                    left = [one for one in left if one not in absent]
            print(
                f"{environment.title}, {system}, Python {python}: no wheel of {', '.join(absent) or 'none'}", flush=True
            )


def elsewhere(python: str, tags: Iterable[str]) -> list[str]:
    """The options with which pip looks for another machine."""
    return ["--python-version", python, "--implementation", "cp", *(f"--platform={tag}" for tag in tags)]


def wheels(requirements: Sequence[str], *options: str) -> list[tuple[str, str, str]]:
    """NAME==VERSION, the file and its SHA-256, of all that pip would install; LookupError if it has no wheel of one."""
    if not requirements:
        return []
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--ignore-installed",
            "--only-binary=:all:",
        ]
        command += ["--target", nowhere, "--report", str(report), *options, *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise LookupError(said[-1] if said else done.stderr)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = []
    for one in installed:
        name = one["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        file = one["download_info"]["url"].rpartition("/")[2]
        found.append(
            (f"{name}=={one['metadata']['version']}", file, one["download_info"]["archive_info"]["hashes"]["sha256"])
        )
    return found


def add(pinned: dict[str, Any], found: Iterable[tuple[str, str, str]]) -> None:
    """Never another checksum under the same name."""
    for title, file, digest in found:
        files = pinned["wheels"].setdefault(title, {})
        if files.setdefault(file, digest) != digest:
            raise SystemExit(f"{file}: recorded as {files[file]}, and now it is {digest}; find out why")


def write(pinned: dict[str, Any]) -> None:
    """Put the list in its place, without what nothing needs any more."""
    used = {title for titles in pinned["environments"].values() for title in titles}
    kept = {title: files for title, files in pinned["wheels"].items() if title in used or title.startswith("opacus==")}
    text = json.dumps({**pinned, "wheels": kept}, indent=1, sort_keys=True)
    PINNED.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
