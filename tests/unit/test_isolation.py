"""Trials in processes of their own: a crash, a hang or a fork is one line that names the trial, and nothing lives on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kills
from noisymean.audit import Audit, Processes, Store, audit, isolation
from noisymean.audit.trials import FaultyTrial
from noisymean.errors import InvalidInput
from noisymean.integrations.pytest_plugin import assert_private
from noisymean.targets.synthetic import Synthetic

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc")

# Known, so that the optimal test is there at once.
SOURCE = """
import ctypes, os, sys, time
import noisymean as nm
from noisymean.targets.protocol import Known, Structure

def numbers(extra_record, generator):
    return generator.standard_normal(20)

def rarely(value):
    return value[0] > 2.0

def release(extra_record, generator):
    value = numbers(extra_record, generator)
    {deed}
    return value

release.known = Known(
    nm.SGM(dataset_size=4, dimension=20, sample_rate=0.5, noise_multiplier=1.0), 1.0, structured=Structure.ZERO
)
release.claim = (1.0, 1e-5)
{then}
"""


def mine(folder: Path, deed: str = "pass", then: str = "") -> str:
    file = folder / "mine.py"
    file.write_text(SOURCE.format(deed=deed, then=then))
    return f"{file}:release"


def audited(target: str, *, trials: int = 200, jobs: int = 1, limit: float | None = None, **more: Any) -> Audit:
    if jobs > 1:
        return audit(target, seed=1, trials=trials, workers=Processes(jobs, True, limit), **more)
    return audit(target, seed=1, trials=trials, isolate=True, trial_timeout=limit, **more)


def first_rare_run(seed: int = 1, per_block: int = 40) -> tuple[int, int, int]:
    """Block, side and run of the first that is rare, by numpy alone: what the line must name."""
    for block in range(100):
        for side in range(2):
            for run in range(per_block // 2):
                sequence = np.random.SeedSequence(seed, spawn_key=(block, side, run))
                if np.random.Generator(np.random.SFC64(sequence)).standard_normal(20)[0] > 2.0:
                    return block, side, run
    raise AssertionError("none is rare")


def test_bits_are_the_same_wherever_it_is_run(tmp_path: Path) -> None:
    target = mine(tmp_path)
    here, apart, two = audit(target, seed=1, trials=200), audited(target), audited(target, jobs=2)
    assert here.found.alpha == apart.found.alpha == two.found.alpha
    assert (here.found.corner_beta == apart.found.corner_beta).all()
    assert (here.found.corner_beta == two.found.corner_beta).all()
    assert here.plan.digest() == apart.plan.digest() == two.plan.digest()


def test_names_of_files_begin_where_the_audit_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits has kept the folder of the audit before; a target's own names begin there, too."""
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        mine(
            folder, deed="import pathlib; assert pathlib.Path('only.txt').read_text() == name", then=f"name = {name!r}"
        )
        (folder / "only.txt").write_text(name)
        monkeypatch.chdir(folder)
        assert audited("mine.py:release", trials=100).verdict is not None
        (folder / "only.txt").unlink()


def test_what_it_prints_is_passed_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # and finds nothing on its standard input, where questions come
    audited(mine(tmp_path, "print('hello', repr(sys.stdin.read())); os.write(1, b'there')"), trials=20)
    out, err = capfd.readouterr()
    assert out == ""
    assert "hello ''" in err
    assert "there" in err


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("ctypes.string_at(0)", "its process ended: SIGSEGV (segmentation fault)"),
        pytest.param("os.abort()", "its process ended: SIGABRT (aborted)", marks=pytest.mark.slow),
        pytest.param("ctypes.CDLL(None)._exit(0)", "its process ended: exit code 0", marks=pytest.mark.slow),
        pytest.param("os.execv('/bin/true', ['true'])", "its process ended: exit code 0", marks=pytest.mark.slow),
        # it holds its pipes open: nobody waits for it
        pytest.param(
            "os.fork() or time.sleep(600); ctypes.string_at(0)",
            "its process ended: SIGSEGV (segmentation fault)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_crash_names_the_trial_and_its_generator(tmp_path: Path, deed: str, said: str) -> None:
    target = mine(tmp_path, f"if rarely(value): {deed}")
    block, side, run = first_rare_run()
    store = Store.at(tmp_path / "store")
    with pytest.raises(FaultyTrial) as caught:
        audited(target, store=store)
    where = (
        f"trial {40 * block + 20 * side + run} (seed 1, block {block}, run {run} on {('D', chr(68) + chr(39))[side]})"
    )
    key = f"Generator(SFC64(SeedSequence(1, spawn_key=({block}, {side}, {run}))))"
    assert str(caught.value) == f"mine.py:release, {where}: {said}; its generator: {key}"
    # all blocks before are kept
    assert store.path.exists() == (block > 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "then", "said"),
    [
        ("ctypes.string_at(0)", "", "in a first run: its process ended: SIGSEGV"),
        ("pass", "ctypes.string_at(0)", "while its file was imported: its process ended: SIGSEGV"),
    ],
)
def test_a_crash_before_the_first_trial(tmp_path: Path, deed: str, then: str, said: str) -> None:
    with pytest.raises(FaultyTrial, match=rf"^mine\.py:release, {said}"):
        audited(mine(tmp_path, deed, then))


@pytest.mark.parametrize(
    ("deed", "jobs"),
    [
        # it holds the interpreter's lock: no other thread of it is ever run again
        ("10 ** (10 ** 9)", 1),
        pytest.param("time.sleep(600)", 2, marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), 19)", 1, marks=pytest.mark.slow),
    ],
)
def test_a_trial_that_hangs_is_ended(tmp_path: Path, deed: str, jobs: int) -> None:
    target = mine(tmp_path, f"if rarely(value): {deed}")
    with pytest.raises(FaultyTrial, match=r"trial \d+ \(seed 1, .*it did not end within 3 seconds \(trial_timeout=3\)"):
        audited(target, limit=3.0, jobs=jobs)


def test_a_limit_that_nothing_keeps_or_that_says_nothing() -> None:
    for limit in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="trial_timeout="):
            Processes(1, trial_timeout=limit)
    import noisymean as nm

    target = Synthetic(mechanism=nm.SGM(dataset_size=3, dimension=5, sample_rate="0.5", noise_multiplier=1.0))
    with pytest.raises(InvalidInput, match=r"trial_timeout=1\.0: must be left out for this target"):
        audit(target, seed=1, trials=100, trial_timeout=1.0)
    with pytest.raises(InvalidInput, match="left out beside workers"):
        audit(target, seed=1, trials=100, isolate=True, workers=Processes(2))


@pytest.mark.parametrize("isolate", [False, True])
def test_a_target_that_forks_goes_on_once(tmp_path: Path, isolate: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """One copy comes back from the release and would go on as well; another stays."""
    kept = tmp_path / "kept"
    forked = f"if rarely(value) and os.fork() == 0: open({str(kept)!r}, 'a').write('x')"
    quiet = audit(mine(tmp_path), seed=1, trials=200)
    found = audit(mine(tmp_path, forked), seed=1, trials=200, isolate=isolate)
    assert found.found.alpha == quiet.found.alpha
    # more than one run is rare, and each has left its mark once: repeated runs come from the check of the seed alone
    runs = sum(
        np.random.Generator(np.random.SFC64(np.random.SeedSequence(1, spawn_key=(block, side, run)))).standard_normal(
            20
        )[0]
        > 2.0
        for block in range(5)
        for side in range(2)
        for run in (0, *range(20))
    )
    until = time.monotonic() + 60.0
    while len(kept.read_text()) < runs and time.monotonic() < until:
        time.sleep(0.05)
    assert len(kept.read_text()) == runs


def test_nobody_waits_for_what_watches_over_it(tmp_path: Path) -> None:
    """A target that waits for whatever children its process has finds those that it has started, and no other."""
    # one that waits has the children of another target
    isolation.dismiss()
    with pytest.raises(FaultyTrial, match=r"trial \d+ .*raised ChildProcessError: "):
        audited(mine(tmp_path, "if rarely(value): os.wait()"))


def test_in_a_test_of_others(tmp_path: Path) -> None:
    with pytest.raises(FaultyTrial, match="SIGSEGV"):
        assert_private(mine(tmp_path, "if rarely(value): ctypes.string_at(0)"), isolate=True)


# --- nothing lives on ---------------------------------------------------------------------------------------------------------

ENDINGS = {"SIGTERM": -15, "SIGHUP": -1, "SIGKILL": -9, "SIGINT": 130}


def left_after(tmp_path: Path, ending: str, deed: str, *words: str) -> None:
    began = tmp_path / "began"
    target = mine(tmp_path, f"open({str(began)!r}, 'a').close(); {deed}")
    started = kills.Started(("audit", target, "--trials", "100000", "--seed", "1", *words))
    try:
        while not began.exists() and started.process.poll() is None:
            time.sleep(0.05)
        assert started.others()
        started.process.send_signal(getattr(signal, ending))
        assert started.wait(60.0)
        assert started.process.returncode == ENDINGS[ending], started.said()
        # /proc is looked at for five seconds and no longer
        assert kills.all_gone(started.word) == []
    finally:
        started.end()


@pytest.fixture
def _interruptible() -> object:
    """A shell's background job inherits that Ctrl-C is ignored; a user's command does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize(
    ("ending", "deed", "words"),
    [
        # a process of its own, started by the target; and a lock that is never given back
        ("SIGKILL", "import subprocess; subprocess.Popen(['sleep', '600']); time.sleep(600)", ("--jobs", "2")),
        *(
            pytest.param(ending, deed, words, marks=pytest.mark.slow)
            for ending in ENDINGS
            for deed, words in (
                ("time.sleep(0.01)", ("--jobs", "2")),
                ("10 ** (10 ** 9)", ()),
                ("time.sleep(0.01)", ("--dask", "local", "--jobs", "2")),
            )
        ),
    ],
)
def test_nothing_lives_on(tmp_path: Path, ending: str, deed: str, words: tuple[str, ...]) -> None:
    left_after(tmp_path, ending, deed, *words)


@pytest.mark.slow
def test_processes_that_wait_end_with_us(tmp_path: Path) -> None:
    """They are kept for the next audit, and not for longer than there may be one."""
    audited(mine(tmp_path), trials=20)
    waiting = [one.worker.process for one in isolation._SPARE]
    assert waiting
    isolation.dismiss()
    assert all(one.poll() is not None for one in waiting)
    assert isolation._SPARE == []


def test_a_worker_without_its_parent_does_not_begin() -> None:
    """It was killed between the start of the worker and its first instruction."""
    begin = str(Path(isolation.__file__).parents[1] / "targets" / "processes" / "begin.py")
    nobody = str(os.getpid() + 1)
    done = subprocess.run([sys.executable, "-P", begin, nobody, "noisymean.audit.worker"], check=False)
    assert done.returncode == 1


# --- kill -9 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_twice_and_resumed(tmp_path: Path) -> None:
    found = kills.Kills("file", tmp_path, random.Random(3), words=("--trials", "200", "--jobs", "1")).run(2)
    assert found["kills"] == 2
    assert found["resumed and the same"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", kills.KINDS)
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    """More of them: python tests/kills.py --moments 100."""
    found = kills.Kills(kind, tmp_path, random.Random(kind)).run(5)
    assert found["kills"] == 5
    assert found["resumed and the same"] >= 1
