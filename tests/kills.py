"""kill -9 at random moments: nothing lives on, nothing is half-written, and what is resumed is the same, bit for bit.

    python tests/kills.py --moments 20 --seed 1 --kind file --kind dask

    file       an audit of FILE.py:NAME by two isolated processes
    synthetic  an audit of ours with --jobs 2
    dask       an audit on --dask local
    scheduler  an audit on a scheduler that somebody else has started; it is the scheduler that is killed
    reproduce  a quick experiment of the paper with --jobs 2

Each moment kills the main process or, one time in three, one of its workers. An audit is killed again and again and goes on from
its store, until it comes to its end; its answer is then compared with that of one that was left alone. Whatever was started is
known by a word in its environment, which also those inherit that have left for a session of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "NOISYMEAN_KILLS"
# What was killed may take so long to be gone.
PATIENCE = 5.0
# Far beyond what anything here takes: what is still there then hangs.
LONGEST = 300.0
BAD_INPUT = 2

# Known gradients: the optimal test, which is there at once. Sleeping costs nobody a processor.
TARGET = """
import time
import noisymean as nm
from noisymean.targets.protocol import Known, Structure

def release(extra_record, generator):
    time.sleep(0.01)
    batch = generator.random(4 + extra_record) < 0.5
    total = generator.standard_normal(20)
    total[0] += batch[-1] and extra_record
    return total

release.known = Known(
    nm.SGM(dataset_size=4, dimension=20, sample_rate=0.5, noise_multiplier=1.0), 1.0, structured=Structure.ZERO
)
release.claim = (1.0, 1e-5)
"""
_AUDIT = ("--trials", "600", "--seed", "11", "--json")
_SYNTHETIC = (
    *("audit", "synthetic", "--mechanism", "asgm", "--dataset-size", "3", "--dimension", "20000"),
    *("--sample-rate", "0.7", "--noise-multiplier", "10", "--trials", "4000", "--seed", "11", "--json"),
)


# --- processes ------------------------------------------------------------------------------------------------------------


def marked(word: str) -> list[int]:
    """The processes that have this word in their environment, without zombies."""
    found, wanted = [], f"{MARK}={word}".encode()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0") and state(int(place.name)) != "Z":
                found.append(int(place.name))
        except OSError:
            continue
    return sorted(found)


def state(number: int) -> str:
    """R, S, Z ... of a process."""
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


def all_gone(word: str, patience: float = PATIENCE) -> list[int]:
    """Those that are still there after a while; none, if all is well."""
    until = time.monotonic() + patience
    while (there := marked(word)) and time.monotonic() < until:
        time.sleep(0.05)
    return there


@dataclass
class Started:
    """A command line of ours with a word that it and all it starts are known by."""

    words: tuple[str, ...]
    word: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        self.err = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self.out = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "noisymean", *self.words],
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            env={**os.environ, MARK: self.word, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def others(self) -> list[int]:
        """What it has started and is still there."""
        return [number for number in marked(self.word) if number != self.process.pid]

    def wait(self, seconds: float) -> bool:
        """Whether it comes to its end within that time."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def said(self) -> tuple[str, str]:
        """Standard output and standard error."""
        texts = []
        for one in (self.out, self.err):
            one.seek(0)
            texts.append(one.read())
        return texts[0], texts[1]

    def end(self) -> None:
        """Whatever is left of it."""
        for number in marked(self.word):
            kill(number)
        self.process.wait()
        self.out.close()
        self.err.close()


def kill(number: int) -> None:
    """It may be gone before."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


# --- what is killed ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Command lines in a folder: that of the first time and of every other, and what is compared in the end."""

    words: Callable[[Path], tuple[str, ...]]
    answer: Callable[[str, Path], Any]
    # a process other than ours that is killed instead
    scheduler: bool = False


def of_audit(out: str, folder: Path) -> dict[str, Any]:
    """All that an audit answers but its time."""
    return {name: value for name, value in json.loads(out).items() if name != "seconds"}


def of_figure(out: str, folder: Path) -> dict[str, str]:
    """The numbers of an experiment."""
    return {place.name: place.read_text() for place in sorted((folder / "out").glob("*.csv"))}


def in_file(folder: Path) -> tuple[str, ...]:
    """An audit of a file in that folder."""
    target = folder.parent / "mine.py"
    if not target.exists():
        target.write_text(TARGET)
    return ("audit", f"{target}:release", *_AUDIT, *stored(folder))


def stored(folder: Path) -> tuple[str, ...]:
    """From where it goes on."""
    return ("--store", str(folder / "store.sqlite"), "--resume")


def reproduced(folder: Path) -> tuple[str, ...]:
    """A quick experiment."""
    return ("reproduce", "synthetic-dimension", "--quick", "--jobs", "2", "--seed", "3", "--out", str(folder / "out"))


KINDS = {
    "file": Kind(lambda folder: (*in_file(folder), "--jobs", "2"), of_audit),
    "synthetic": Kind(lambda folder: (*_SYNTHETIC, *stored(folder), "--jobs", "2"), of_audit),
    "dask": Kind(lambda folder: (*in_file(folder), "--jobs", "2", "--dask", "local"), of_audit),
    "scheduler": Kind(in_file, of_audit, scheduler=True),
    "reproduce": Kind(reproduced, of_figure),
}


def check_files(folder: Path) -> None:
    """Whatever is there is whole."""
    for place in folder.rglob("*"):
        if place.suffix == ".sqlite":
            with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as database:
                assert database.execute("pragma integrity_check").fetchone() == ("ok",), place
        elif place.suffix == ".json":
            json.loads(place.read_text())


@contextmanager
def a_scheduler(word: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler with one worker, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, MARK: word, "OMP_NUM_THREADS": "1"}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    host, _, port = address.removeprefix("tcp://").partition(":")
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", port, "--no-dashboard"],
        **quiet,
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"], **quiet
    )
    try:
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            try:
                with socket.create_connection((host, int(port)), timeout=1.0):
                    break
            except OSError:
                time.sleep(0.2)
        yield scheduler, address
    finally:
        for one in (worker, scheduler):
            one.kill()
            one.wait()


# --- moments ----------------------------------------------------------------------------------------------------------------


@dataclass
class Kills:
    """Moments of one kind in a folder."""

    kind: str
    folder: Path
    moments: random.Random
    # besides those of the kind
    words: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        alone = self._started(self.folder / "alone")
        assert alone.wait(LONGEST), "it hangs when it is left alone"
        out, err = alone.said()
        assert alone.process.returncode == 0, err
        self.expected = KINDS[self.kind].answer(out, self.folder / "alone")
        self.seconds = time.monotonic() - begun
        self._left(alone)
        alone.end()

    def _started(self, folder: Path, *words: str) -> Started:
        folder.mkdir(exist_ok=True)
        return Started((*KINDS[self.kind].words(folder), *self.words, *words))

    def _left(self, started: Started) -> None:
        left = all_gone(started.word)
        if left:
            names = [Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ") for number in left]
            started.end()
            raise AssertionError(f"{self.kind}: still there after {PATIENCE:g} s: {names}")

    def run(self, count: int) -> Counter[str]:
        """So many moments, each a kill that has happened."""
        number = 0
        while self.counts["kills"] < count:
            number += 1
            folder = self.folder / f"killed-{number}"
            while self.counts["kills"] < count and not self._once(folder):
                pass
            # and to its end, undisturbed
            self._compared(folder)
        return self.counts

    def _compared(self, folder: Path) -> None:
        last = self._started(folder)
        try:
            assert last.wait(LONGEST), f"{self.kind}: it hangs when it goes on"
            out, err = last.said()
            assert last.process.returncode == 0, err
            assert KINDS[self.kind].answer(out, folder) == self.expected, f"{self.kind}: another answer"
            check_files(folder)
            self._left(last)
        finally:
            last.end()
        self.counts["resumed and the same"] += 1

    def _once(self, folder: Path) -> bool:
        """One start and one kill; True if it came to its end before that."""
        if KINDS[self.kind].scheduler:
            return self._without_its_scheduler(folder)
        started = self._started(folder)
        try:
            if started.wait(self.moments.uniform(0.0, 1.1 * self.seconds)):
                assert started.process.returncode == 0, started.said()[1]
                return True
            others = started.others()
            if others and self.moments.random() < 1 / 3:
                kill(self.moments.choice(others))
                self.counts["workers killed"] += 1
                self._ends_well(started)
            else:
                started.process.kill()
                started.process.wait()
                self.counts["main processes killed"] += 1
            self.counts["kills"] += 1
            self._left(started)
            check_files(folder)
        finally:
            started.end()
        return False

    def _ends_well(self, started: Started) -> None:
        """Without one of its processes an audit ends with a line, or goes on without it."""
        assert started.wait(LONGEST), f"{self.kind}: it hangs without one of its processes"
        out, err = started.said()
        code = started.process.returncode
        assert "Traceback" not in err, err
        assert code in (0, BAD_INPUT), (code, err)
        if code == BAD_INPUT:
            assert sum(line.startswith("error: ") for line in err.splitlines()) == 1, err
            assert out == ""

    def _without_its_scheduler(self, folder: Path) -> bool:
        with a_scheduler(secrets.token_hex(8)) as (scheduler, address):
            started = self._started(folder, "--dask", address)
            try:
                if started.wait(self.moments.uniform(0.0, 1.5 * self.seconds)):
                    assert started.process.returncode == 0, started.said()[1]
                    return True
                scheduler.kill()
                self.counts["kills"] += 1
                self.counts["schedulers killed"] += 1
                self._ends_well(started)
                self._left(started)
                check_files(folder)
            finally:
                started.end()
        return False


def main() -> None:
    """The counts of all kinds that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, help="kills of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=[*KINDS], action="append")
    asked = parser.parse_args()
    for kind in asked.kind or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            counts = Kills(kind, Path(folder, kind), random.Random(f"{asked.seed} {kind}")).run(asked.moments)
            found = ", ".join(f"{count} {what}" for what, count in counts.items())
            print(f"{kind}: {found} ({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
