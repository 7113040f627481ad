"""Files of a finished run that are broken, hostile or not what they say: one line that names the file, and exit code 2."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from test_json import valid

import noisymean as nm
from command_line import run

TOLD = ("--learning-rate", "0.1", "--max-grad-norm", "1", "--noise-multiplier", "1")
Change = Callable[[dict[str, Any]], dict[str, Any]]


def made(folder: Path, kind: str = "safetensors", changed: Change | None = None) -> Path:
    """Twelve checkpoints of a run with the denominator 100; the seventh one is changed."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    held: dict[str, Any] = {"w": rng.standard_normal((150, 2)), "b": rng.standard_normal(10)}
    for step in range(12):
        single = {name: one.astype(np.float32) for name, one in held.items()}
        if changed is not None and step == 7:
            single = changed(single)
        file = folder / f"step-{step}.{kind}"
        if kind == "npz":
            np.savez(file, **single)
        else:
            save_file(single, file)
        held = {name: one - 0.1 / 100 * rng.standard_normal(one.shape) for name, one in held.items()}
    return folder


def header(text: bytes, numbers: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + numbers


def zipped(file: Path, **members: bytes) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


def refused(*words: str) -> str:
    """What is said, in one line, and nothing else."""
    done = run("probe-run", *words, *TOLD)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    return done.err


def test_what_they_are_like_when_they_are_whole(tmp_path: Path) -> None:
    for kind in ("npz", "safetensors"):
        low, high = nm.probe_run(
            made(tmp_path / kind, kind), learning_rate=0.1, max_grad_norm=1, noise_multiplier=1
        ).interval or (0, 0)
        assert low < 100 < high


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        ("safetensors", lambda s: {"w": s["w"]}, "step-0.safetensors has b, step-7.safetensors has not"),
        ("npz", lambda s: {"w": s["w"], "bias": s["b"]}, "has"),
        ("safetensors", lambda s: {**s, "w": s["w"].T.copy()}, "[150, 2] in F32 and then [2, 150] in F32"),
        ("safetensors", lambda s: {**s, "b": s["b"].astype(np.float64)}, "[10] in F32 and then [10] in F64"),
        (
            "safetensors",
            lambda s: {**s, "b": s["b"] * np.float32(np.nan)},
            "step-7.safetensors': must be finite weights",
        ),
        ("npz", lambda s: {**s, "b": np.array([{}] * 10, dtype=object)}, "only unpickling could read"),
    ],
)
def test_one_that_is_not_like_the_others(kind: str, changed: Change, said: str, tmp_path: Path) -> None:
    assert said in refused(str(made(tmp_path / "run", kind, changed)))


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("keep", [0, 1, 7, 100, 700, -1, -200])
def test_one_that_ends_early(kind: str, keep: int, tmp_path: Path) -> None:
    file = made(tmp_path / "run", kind) / f"step-7.{kind}"
    file.write_bytes(file.read_bytes()[:keep])
    assert f"step-7.{kind}" in refused(str(tmp_path / "run"))


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_one_with_a_byte_that_is_another(kind: str, tmp_path: Path) -> None:
    """Whatever byte it is: a complaint of one line, or an answer; never a traceback."""
    file = made(tmp_path / "run", kind) / f"step-7.{kind}"
    whole = file.read_bytes()
    for place in range(0, len(whole), 41):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        done = run("probe-run", str(tmp_path / "run"), *TOLD)
        assert done.code in (0, 2), place
        if done.code:
            assert done.err.startswith("error: ")
            assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "members",
    [
        {"w": header(b"__import__('os').mkdir('pwned')\n", b""), "b": b""},
        {"w": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-30, -10), }\n", bytes(1200)), "b": b""},
        {"w": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10**15,), }\n", b""), "b": b""},
        {
            "w": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }\n", bytes(8)),
            "b": b"",
        },
        {"w": bytes(2**26), "b": bytes(2**26)},
        {"w": pickle.dumps([1, 2, 3]), "b": b""},
    ],
)
def test_an_archive_that_lies(members: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    zipped(made(tmp_path / "run", "npz") / "step-7.npz", **members)
    assert "step-7.npz" in refused("run")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("text", [b"\xff" * 64, struct.pack("<Q", 2**60) + b"{}", struct.pack("<Q", 2) + b"[]"])
def test_a_header_that_lies(text: bytes, tmp_path: Path) -> None:
    (made(tmp_path / "run") / "step-7.safetensors").write_bytes(text)
    assert "step-7.safetensors': must be a whole .safetensors file" in refused(str(tmp_path / "run"))


def test_what_would_have_to_be_unpickled_is_refused_with_the_way_out(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    folder = tmp_path / "run"
    folder.mkdir()
    for step in range(3):
        (folder / f"step-{step}.pt").write_bytes(pickle.dumps(Evil()))
    for words in ((str(folder),), (str(folder / "step-1.pt"), str(folder / "step-2.pt"))):
        said = refused(*words)
        assert "safetensors.torch.save_file(state," in said
        assert "weights_only=True" in said
    # one that is named like an array of numbers
    (folder / "step-0.npz").write_bytes(pickle.dumps(Evil()))
    assert "must be a whole .npz file" in refused(str(folder))
    assert not (tmp_path / "pwned").exists()


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe that nobody writes to and a device that never ends are not opened."""
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "endless.safetensors").symlink_to("/dev/zero")
    (tmp_path / "folder.npz").mkdir()
    for name in ("pipe.npz", "endless.safetensors", "folder.npz", "missing.npz"):
        assert "must be an ordinary file" in refused(str(tmp_path / name), str(tmp_path / name)) or name == "folder.npz"
    # nor as one of a folder
    folder = made(tmp_path / "run")
    os.mkfifo(folder / "step-12.safetensors")
    (folder / "step-13.safetensors").symlink_to("/dev/zero")
    assert nm.probe_run(folder, learning_rate=0.1, max_grad_norm=1, noise_multiplier=1).gradients == 11
    assert "must be a folder of .safetensors or .npz files" in refused(str(tmp_path / "folder.npz"))
    assert "must be a folder, or files" in refused("/dev/zero")


def test_which_files_are_meant(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    assert "one state dict alone tells nothing" in refused(str(folder / "step-1.safetensors"))
    assert "must be enough for 8" in refused(*(str(folder / f"step-{i}.safetensors") for i in range(3)))
    for step in range(1, 12, 2):
        (folder / f"step-{step}.safetensors").unlink()
    assert "--every 2 if each is that many steps after the one before" in refused(str(folder))
    deep = tmp_path / "deep" / "checkpoint-1"
    deep.mkdir(parents=True)
    (folder / "step-0.safetensors").rename(deep / "model.safetensors")
    assert "give deep/*/model.safetensors" in refused(str(tmp_path / "deep"))
    twice = made(tmp_path / "twice")
    (twice / "epoch-3.safetensors").write_bytes((twice / "step-3.safetensors").read_bytes())
    assert "has the same number 3" in refused(str(twice))
    same = made(tmp_path / "same")
    (same / "step-4.safetensors").write_bytes((same / "step-3.safetensors").read_bytes())
    assert "no noisy step lies between these" in refused(str(same))


def test_a_list_that_is_no_list_of_files() -> None:
    told: dict[str, Any] = {"learning_rate": 0.1, "max_grad_norm": 1, "noise_multiplier": 1}
    for wrong in ([np.ones(3), np.ones(3)], [1, 2], 7, np.ones((9, 9), dtype=int), []):
        with pytest.raises(nm.InvalidInput):
            nm.probe_run(wrong, **told)
    for array in (np.full((20, 5), np.nan), np.zeros((20, 5))):
        with pytest.raises(nm.InvalidInput):
            nm.probe_run(array, **told)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--momentum", "1"), "--momentum=1"),
        (("--momentum", "0.9", "--every", "2"), "their recursion needs every step"),
        (("--nesterov",), "used with momentum"),
        (("--leave-out", "nothing"), "--leave-out=nothing"),
        (("--mechanism", "asgm"), "divides by another number in each step"),
        (("--mechanism", "easgm"), "--sample-rate"),
        (("--dataset-size", "9"), "a denominator alone has no N"),
        (("--batch-size", "9", "--sample-rate", "0.1"), "give one of the two"),
        (("--confidence", "0.5"), "--confidence=0.5"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in refused(str(made(tmp_path / "run")), *words)


def test_the_command_prints_valid_json(tmp_path: Path) -> None:
    folder = made(tmp_path / "gaps")
    (folder / "step-5.safetensors").unlink()
    assert "must be enough for 8" in refused(str(folder))
    whole = made(tmp_path / "whole")
    for words in (
        (),
        ("--batch-size", "100", "--dataset-size", "1000"),
        ("--mechanism", "easgm", "--sample-rate", "1/10", "--dataset-size", "1000"),
        ("--mechanism", "sgm", "--batch-size", "100"),
    ):
        done = run("probe-run", str(whole), *TOLD, "--json", *words)
        assert done.code == 0, done.err
        record = json.loads(done.out)
        valid("probe-run", record)
        assert record["denominator"]["at_least"] < 100 < record["denominator"]["at_most"]
        assert done.err == ""
