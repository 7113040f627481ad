"""A package of images -> the cache, in stages, each of which is whole or not there.

1. `npm pack` or `apt-get download` puts the archive into a folder of its own (an interrupted download is begun again);
2. the archive is checked against its sha256 and kept, so that an interruption after this point costs no second download;
3. it is unpacked, turned into four arrays, and the finished folder is renamed into its place.

The clients are called by the package's name, with argument lists; which registry they ask is their own configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.folder import cache_folder
from noisymean.paper.data.catalogue import Client, Dataset, named
from noisymean.paper.data.folder import idx_pair, is_cached, stored
from noisymean.paper.data.formats import Bytes, read_labels, read_strip

Progress = Callable[[str, float], None]

_POLL = 0.1
_NEITHER = "or copy the set from elsewhere in torchvision's layout and give its folder with --data-dir"


class FetchFailed(NoisymeanError):
    """A package could not be obtained, or is not the one that was expected."""


def fetch(name: str, progress: Progress = lambda stage, fraction: None) -> Path:
    """The folder of the set, fetched now if it is not there; `progress` is told the stage and how much of it is done."""
    dataset = named(name)
    if is_cached(dataset):
        return stored(dataset)
    archive = _archive(dataset, progress)
    progress("unpacking", 0.0)
    place = stored(dataset)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".unpacking-") as name_of_scratch:
        scratch = Path(name_of_scratch)
        finished = scratch / "finished"
        finished.mkdir()
        raw = _unpack(dataset, archive, scratch)
        for number, part in enumerate(("train", "test")):
            images, labels = _arrays(dataset, raw, part == "train")
            expected = (dataset.train if part == "train" else dataset.test, *dataset.shape)
            if images.shape != expected or labels.shape != expected[:1]:
                raise FetchFailed(f"{dataset.package}: {part} images of shape {images.shape}; must be {expected}")
            np.save(finished / f"{part}_images.npy", images, allow_pickle=False)
            np.save(finished / f"{part}_labels.npy", labels, allow_pickle=False)
            progress("unpacking", (number + 1) / 2)
        try:
            finished.rename(place)
        except OSError:
            # another process was faster, and its folder is as whole as ours
            if not place.is_dir():
                raise
    archive.unlink(missing_ok=True)
    return place


def _archive(dataset: Dataset, progress: Progress) -> Path:
    """The package's file, verified."""
    downloads = cache_folder() / "data" / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    kept = downloads / f"{dataset.name}-{dataset.sha256[:12]}"
    if kept.is_file() and _sha256(kept) == dataset.sha256:
        return kept
    with tempfile.TemporaryDirectory(dir=downloads, prefix=f".{dataset.name}-") as folder:
        obtained = _download(dataset, Path(folder), progress)
        progress("checking", 0.0)
        found = _sha256(obtained)
        if found != dataset.sha256:
            raise FetchFailed(
                f"{dataset.package}: sha256 {found[:16]}... of {obtained.name}; must be {dataset.sha256[:16]}...; "
                f"the package has changed or was damaged on its way: try again, {_NEITHER}"
            )
        os.replace(obtained, kept)
    return kept


def _download(dataset: Dataset, folder: Path, progress: Progress) -> Path:
    """Run the client in `folder` and watch the bytes arrive."""
    for program in (dataset.client.value, *(("dpkg-deb",) if dataset.client is Client.APT else ())):
        if shutil.which(program) is None:
            raise InvalidInput(
                "dataset", dataset.name, f"fetched with {program}, which is not installed", f"install it, {_NEITHER}"
            )
    match dataset.client:
        case Client.NPM:
            # a cache inside the folder: the bytes can be seen arriving, and nothing is left behind
            command = ["npm", "pack", "--silent", "--ignore-scripts", "--cache", str(folder / "cache"), dataset.package]
            pattern = "*.tgz"
        case Client.APT:
            command = ["apt-get", "download", "--quiet", "--quiet", dataset.package]
            pattern = "*.deb"
    with (folder / "log").open("w+b") as log:
        client = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while client.poll() is None:
                progress("downloading", min(_arrived(folder) / dataset.bytes, 0.99))
                time.sleep(_POLL)
        finally:
            if client.poll() is None:
                client.terminate()
                client.wait()
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
    found = sorted(folder.glob(pattern))
    if client.returncode != 0 or len(found) != 1:
        # the last line that says something; a client's own log names are of no use to the reader
        reason = next(
            (line.strip() for line in reversed(said) if line.strip() and "log" not in line), "no reason given"
        )
        raise FetchFailed(f"{' '.join(command[:2])} {dataset.package}: {reason}; check the network, {_NEITHER}")
    progress("downloading", 1.0)
    return found[0]


def _arrived(folder: Path) -> int:
    # a file may be renamed between being listed and being measured: this only feeds a progress bar
    with contextlib.suppress(OSError):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(dataset: Dataset, archive: Path, scratch: Path) -> Path:
    """The package's files; only regular ones, and only below `scratch`."""
    match dataset.client:
        case Client.NPM:
            with tarfile.open(archive) as package:
                for member in package.getmembers():
                    name = Path(member.name)
                    if member.isreg() and ".." not in name.parts and not name.is_absolute():
                        source = package.extractfile(member)
                        if source is not None:
                            target = scratch / name
                            target.parent.mkdir(parents=True, exist_ok=True)
                            with source, target.open("wb") as file:
                                shutil.copyfileobj(source, file)
            return scratch / "package"
        case Client.APT:
            done = subprocess.run(
                ["dpkg-deb", "-x", str(archive), str(scratch / "package")],
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
            if done.returncode != 0:
                raise FetchFailed(f"dpkg-deb -x {archive.name}: {done.stderr.decode(errors='replace').strip()}")
            return scratch / "package" / "usr" / "share" / "datasets" / "fashion-mnist"


def _arrays(dataset: Dataset, raw: Path, train: bool) -> tuple[Bytes, Bytes]:
    if dataset.name == "cifar10":
        strips = [f"data_batch_{number}.png" for number in range(1, 6)] if train else ["test_batch.png"]
        labels = read_labels(raw / ("train_lables.json" if train else "test_lables.json"))  # the package's spelling
        return np.concatenate([read_strip(raw / name) for name in strips]), labels
    return idx_pair(raw / "data" if dataset.client is Client.NPM else raw, train)
