"""Audits of Opacus as it trains: the verdict and its twin, resumed and in other processes, and the command line."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.audit import Dask, Processes, Store, audit
from noisymean.audit.runner import Workers
from noisymean.cli.app import run
from noisymean.paper.real_training import real_training
from noisymean.targets.opacus_training import OpacusTraining

pytest.importorskip("opacus")

FIXTURES = str(Path(__file__).parents[1] / "fixtures")
SMALL = ["opacus", "--data", "mnist", "--data-dir", FIXTURES, "--dataset-size", "39", "--batch-size", "3"]


def training(**changes: Any) -> OpacusTraining:
    settings: dict[str, Any] = {"dataset_size": 39, "batch_size": 3, "data_dir": FIXTURES, **changes}
    return real_training(**settings)


def stored(path: Path) -> list[Any]:
    """All that a store has of each block."""
    rows = "select block, smaller, larger, features, checksum from blocks order by block"
    return sqlite3.connect(path).execute(rows).fetchall()


@pytest.mark.parametrize("steps", [1, pytest.param(14, marks=pytest.mark.slow)])
def test_the_claim_is_violated_and_that_of_the_twin_is_not(steps: int) -> None:
    """3 and 2, or 3 and 3: the same trials otherwise."""
    for fixed, word in ((False, "violated"), (True, "not-violated")):
        result = audit(training(steps=steps, fixed=fixed), seed=1, trials=60)
        assert result.verdict is not None
        assert result.verdict.word == word
        assert (result.distinguisher, result.found.judged) == ("residual", 48)


def test_what_is_claimed_is_the_noisy_sum_at_the_rate_of_d() -> None:
    """delta(0) of one step is q (2 Phi(1 / (2 sigma)) - 1)."""
    for fixed in (False, True):
        claim = training(fixed=fixed).claim()
        assert claim.delta(0.0) == pytest.approx(0.38292492254802624 / 13, rel=1e-9)
    assert 0.38292492254802624 / 13 < training(steps=20).claim().delta(0.0) < 20 * 0.38292492254802624 / 13


def test_an_audit_that_is_stopped_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, broken = Store.at(tmp_path / "whole.sqlite"), Store.at(tmp_path / "broken.sqlite")
    target = training(steps=2)
    wanted = audit(target, seed=3, trials=60, store=whole)

    def stop(finished: int) -> None:
        if finished >= 14:
            raise KeyboardInterrupt

    # in the middle of what is learned from there is nothing to report
    with pytest.raises(KeyboardInterrupt):
        audit(target, seed=3, trials=60, store=broken, progress=lambda finished: stop(3 * finished))
    part = audit(target, seed=3, trials=60, store=broken, resume=True, progress=stop)
    assert part.interrupted
    assert part.finished == 14
    found = audit(training(steps=2), seed=3, trials=60, store=broken, resume=True)
    assert stored(broken.path) == stored(whole.path)
    assert {**found.to_dict(), "seconds": 0} == {**wanted.to_dict(), "seconds": 0}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [lambda: Processes(2), lambda: Dask("local", 2)], ids=["processes", "dask"])
def test_other_processes_have_the_same_bits(workers: Callable[[], Workers], tmp_path: Path) -> None:
    for name, who in (("here", Processes(1)), ("there", workers())):
        audit(training(steps=3), seed=5, trials=60, workers=who, store=Store.at(tmp_path / name))
    assert stored(tmp_path / "here") == stored(tmp_path / "there")
    assert len(stored(tmp_path / "here")) == 30


@pytest.mark.slow
def test_at_real_size(tmp_path: Path) -> None:
    """60,000 and 60,001 images, some of them often: 30 trials of a step say which it was, and not with constants."""
    with np.load(Path(FIXTURES) / "mnist.npz") as file:
        pixels, labels = file["pixels"], file["labels"]
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        for kind, array in (("images-idx3", pixels[..., 0]), ("labels-idx1", labels)):
            filled = np.resize(array, (count, *array.shape[1:]))
            header = bytes([0, 0, 8, filled.ndim]) + struct.pack(f">{filled.ndim}I", *filled.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + filled.tobytes())
    for fixed, word, divisors in ((False, "violated", (600, 594)), (True, "not-violated", (600, 600))):
        target = real_training(batch_size=600, fixed=fixed, data_dir=str(tmp_path))
        assert (target.dataset_size, target.divisors) == (60_000, divisors)
        result = audit(target, seed=1, trials=60)
        assert result.verdict is not None
        assert result.verdict.word == word


# --- the command ------------------------------------------------------------------------------------------------------


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["audit", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "trials.sqlite")]
    words = [*SMALL, "--steps", "2", "--trials", "60", "--seed", "1", "--json", *store]
    code, out, _ = answered(capsys, *words)
    found = json.loads(out)
    assert code == 0
    assert (found["verdict"], found["distinguisher"], found["trials"]) == ("violated", "residual", 60)
    assert "training cnn-grey on mnist: N=39 b=3 n=26010 sigma=1 C=0.1 T=2" in found["target"]
    code, _, err = answered(capsys, *words)
    assert code == 2
    assert "add --resume" in err
    code, out, _ = answered(capsys, *[word for word in words if word not in ("--seed", "1")], "--resume")
    assert {**json.loads(out), "seconds": 0} == {**found, "seconds": 0}
    assert answered(capsys, *words, "--resume", "--fail-on-violation")[0] == 1
    code, out, _ = answered(capsys, *SMALL, "--fixed", "--trials", "60", "--seed", "1")
    assert code == 0
    assert "rate and denominator fixed" in out
    assert "The claim is not violated" in out


def test_a_thousand_trials_if_nobody_says_how_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Told by the trials that a store would go on with."""

    def stop(*_: object, trials: int, **__: object) -> None:
        raise KeyboardInterrupt(trials)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noisymean.cli.audit.audit", stop)
        code, _, err = answered(capsys, *SMALL, "--seed", "1", "--store", str(tmp_path / "trials.sqlite"))
    assert code == 130
    assert "0 of 1,000 trials are in" in err
    assert "add --resume --seed 1 to go on" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["opacus", "--data", "mnist"], "--batch-size: missing"),
        ([*SMALL, "--dimension", "5"], "drop --dimension"),
        ([*SMALL, "--sample-rate", "0.1"], "drop --sample-rate"),
        ([*SMALL, "--gradients", "zero"], "drop --gradients"),
        ([*SMALL, "--mechanism", "sgm"], "the release decides it"),
        ([*SMALL, "--dataset-size", "40"], "--dataset-size=40: must be at most 39: D' has one record more"),
        ([*SMALL, "--steps", "2000"], "--steps=2000: must be at most 1000"),
        ([*SMALL, "--trials", "5"], "enough to learn from and to judge"),
        ([*SMALL, "--distinguisher", "likelihood-ratio"], "must be residual or learned"),
        ([*SMALL, "--resume"], "--store: missing"),
        (["opacus==1.5", *SMALL[1:]], "must be the installed release"),
        (["opacus", "--data", "cifar10", "--batch-size", "3"], "must be one of mnist, fashion-mnist"),
        (["opacus", "--data", "mnist", "--data-dir", "nowhere", "--batch-size", "3"], "noisymean data fetch mnist"),
        (["opacus", "--fixed", "--dataset-size", "9", "--batch-size", "3"], "drop --fixed"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answered(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
