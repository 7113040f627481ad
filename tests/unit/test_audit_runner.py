"""Who computes the blocks, and when it is stopped, changes nothing: not one bit."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.distributed import LocalCluster

import noisymean as nm
from noisymean.audit import Dask, Processes, Store, audit, distinguisher, runner
from noisymean.audit.trials import Block, Plan, generator, plan, run_block
from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Neighbour
from noisymean.targets.synthetic import Synthetic


def a_target(n: int = 50) -> Synthetic:
    mechanism = nm.ASGM(dataset_size=3, dimension=n, sample_rate="0.7", noise_multiplier=10.0)
    return Synthetic(mechanism=mechanism)


def a_plan(name: str = "paper", trials: int = 2100) -> Plan:
    target = a_target()
    return plan(target, distinguisher(name, target), seed=5, trials=trials)


def features(finished: runner.Finished) -> Array:
    ordered = sorted(finished.blocks, key=lambda block: block.index)
    return np.vstack([np.vstack([block.smaller, block.larger]) for block in ordered])


@pytest.mark.parametrize("name", ["likelihood-ratio", "paper", "learned"])
def test_two_processes_give_the_same_bits(name: str) -> None:
    what = a_plan(name)
    assert np.array_equal(features(runner.run(what, Processes(1))), features(runner.run(what, Processes(2))))


@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same_bits() -> None:
    what = a_plan()
    expected = features(runner.run(what, Processes(1)))
    assert np.array_equal(expected, features(runner.run(what, Dask("local", 2))))
    # somebody else's scheduler, by its address
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        assert np.array_equal(expected, features(runner.run(what, Dask(cluster.scheduler_address))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["no-such-scheme", "tcp://127.0.0.1:1"])
def test_a_scheduler_that_is_not_there(address: str) -> None:
    with pytest.raises(InvalidInput, match="dask="):
        next(Dask(address, patience=0.5).run(a_plan(), [0]))


def test_blocks_share_the_trials_out() -> None:
    what = a_plan(trials=2101)
    runs = [what.runs(block) for block in range(what.blocks)]
    assert sum(map(sum, runs)) == 2101
    assert all(0 <= a - b <= 1 for a, b in runs)
    assert run_block(what, what.blocks - 1).trials == sum(runs[-1])


def test_the_stream_of_a_seed() -> None:
    """What the first numbers of a block are is a promise to every store there is: a change needs a new STREAM."""
    first = generator(7, 3, 1).standard_normal(2)
    again = np.random.Generator(np.random.SFC64(np.random.SeedSequence(7, spawn_key=(3, 1)))).standard_normal(2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, generator(7, 3, 0).standard_normal(2))


def test_cutting_for_the_cache_changes_nothing() -> None:
    """The same stream in one go and in pieces: 40,000 numbers are more than are drawn at once."""
    mechanism = nm.SGM(dataset_size=2, dimension=40_000, sample_rate="0.5", noise_multiplier=3.0)
    target = Synthetic(mechanism=mechanism, max_grad_norm=0.2)
    found = target.release(Neighbour.LARGER, np.random.default_rng(3), 2)
    source = np.random.default_rng(3)
    members = (source.random((2, 3)) < 0.5).astype(float)
    noise = source.standard_normal((2, 40_000))
    assert found[:, 0] == pytest.approx(members @ target.known().gradients + 0.2 * 3.0 * noise, abs=1e-12)


class StoppedAfter:
    """Workers that are interrupted by the user after a few blocks."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, what: Plan, indices: Sequence[int]) -> Iterator[Block]:
        for index in indices[: self.count]:
            yield run_block(what, index)
        raise KeyboardInterrupt


def test_an_interrupted_audit_reports_and_can_go_on(tmp_path: Path) -> None:
    target = a_target()
    rule = distinguisher(None, target)
    whole = audit(target, rule, seed=5, trials=2100)
    store = Store.at(tmp_path / "s")
    part = audit(target, rule, seed=5, trials=2100, workers=StoppedAfter(2), store=store)
    assert part.interrupted
    assert part.finished == 1000
    assert part.found.judged == 1000
    assert part.verdict is not None
    rest = audit(target, rule, seed=5, trials=2100, store=store, resume=True)
    assert not rest.interrupted
    assert rest.found.alpha == whole.found.alpha
    assert rest.found.delta_lower == whole.found.delta_lower
    with pytest.raises(KeyboardInterrupt):
        audit(target, rule, seed=5, trials=2100, workers=StoppedAfter(0))


def test_numbers_that_make_no_plan() -> None:
    with pytest.raises(InvalidInput, match="trials=1"):
        a_plan(trials=1)
    with pytest.raises(InvalidInput, match="seed=-1"):
        plan(a_target(), distinguisher(None, a_target()), seed=-1, trials=10)
    with pytest.raises(InvalidInput, match="jobs=0"):
        Processes(0)


COMMAND = [
    "audit",
    "synthetic",
    "--mechanism",
    "asgm",
    "--dataset-size",
    "3",
    "--dimension",
    "20000",
    "--sample-rate",
    "0.7",
    "--noise-multiplier",
    "10",
    "--trials",
    "1500",
    "--seed",
    "11",
    "--json",
]


def noisymean(*words: str) -> list[str]:
    return [sys.executable, "-m", "noisymean", *COMMAND, *words]


def outcome(*words: str) -> dict[str, Any]:
    done = subprocess.run(noisymean(*words), capture_output=True, text=True, check=True, timeout=120)
    record = json.loads(done.stdout)
    return {key: value for key, value in record.items() if key != "seconds"}


def killed_and_resumed(folder: Path, kills: int, seed: int) -> None:
    expected, moments = outcome(), random.Random(seed)
    for number in range(kills):
        store = folder / f"store-{number}"
        process = subprocess.Popen(noisymean("--store", str(store), "--resume"), stdout=subprocess.DEVNULL)
        # importing takes about a second, the trials another
        time.sleep(moments.uniform(0.5, 2.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert outcome("--store", str(store), "--resume") == expected


def test_killed_at_random_moments_the_result_is_the_same(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, kills=2, seed=1)


@pytest.mark.slow
def test_killed_at_twenty_random_moments_the_result_is_the_same(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, kills=20, seed=2)


def blocks_in(path: Path) -> int:
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as database:
        return database.execute("select count(*) from blocks").fetchone()[0]


def test_control_c_reports_what_is_there(tmp_path: Path) -> None:
    store = tmp_path / "s"
    words = noisymean("--store", str(store), "--trials", "300000")
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background job inherits that Ctrl-C is ignored; a user's command does not
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while blocks_in(store) < 2 and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    record = json.loads(out)
    assert record["interrupted"]
    assert 0 < record["trials"] < 300_000
    assert "add --resume --seed 11 to go on" in err
