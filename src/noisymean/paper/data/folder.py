"""Where a set is looked for, and how it is handed out.

The cache is a folder of the user's (NOISYMEAN_CACHE, else the platform's place for caches); in it a set is four arrays of bytes
that are mapped, not read. Their SHA-256 is in the catalogue: it is compared when a process first asks for a set, and again when a
file has been touched since. A folder given by hand may also hold the ordinary torchvision layout: MNIST/raw, FashionMNIST/raw,
cifar-10-batches-py; or an excerpt, NAME.npz with `pixels` and `labels`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from noisymean import ordinary
from noisymean.errors import InvalidInput
from noisymean.folder import cache_folder
from noisymean.paper.data.catalogue import ARRAYS, Dataset, named
from noisymean.paper.data.formats import Bytes, read_batch, read_idx


@final
@dataclass(frozen=True, eq=False)
class Images:
    """`pixels` of shape (count, height, width, channels) and `labels` of shape (count,), both bytes."""

    dataset: Dataset
    pixels: Bytes
    labels: Bytes

    def __post_init__(self) -> None:
        if self.pixels.shape[1:] != self.dataset.shape or self.labels.shape != self.pixels.shape[:1]:
            raise InvalidInput(
                self.dataset.name,
                self.pixels.shape,
                f"images of shape {self.dataset.shape}, each with a label",
                f"fetch them with 'noisymean data fetch {self.dataset.name}'",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, count: int) -> Images:
        if not 0 <= count <= len(self):
            allowed = f"a whole number from 0 to {len(self)}, all that {self.dataset.title} has"
            raise InvalidInput("records", count, allowed)
        return Images(self.dataset, self.pixels[:count], self.labels[:count])


def stored(dataset: Dataset) -> Path:
    """The folder of a fetched set; there if and only if it is whole."""
    return cache_folder() / "data" / f"{dataset.name}-{dataset.sha256[:12]}"


def is_cached(dataset: Dataset) -> bool:
    """Whether the set has been fetched."""
    return stored(dataset).is_dir()


def where_to_read(dataset: Dataset, folder: Path | None) -> str | None:
    """The place that the set can be read from: `cache`, the folder if it is there, or none."""
    if is_cached(dataset):
        return "cache"
    if folder is None:
        return None
    try:
        load(dataset.name, train=False, data_dir=folder)
    except InvalidInput:
        return None
    return str(folder)


def load(name: str, *, train: bool = True, data_dir: Path | str | None = None) -> Images:
    """The images of a set, from `data_dir` if given, else from the cache; no network."""
    dataset = named(name)
    if data_dir is not None:
        excerpt = Path(data_dir) / f"{dataset.name}.npz"
        read = _excerpt(excerpt) if train and excerpt.is_file() else _torchvision(dataset, Path(data_dir), train)
        return Images(dataset, *read)
    if not is_cached(dataset):
        raise InvalidInput(
            "dataset",
            name,
            "fetched before it is used",
            f"run 'noisymean data fetch {name}' or give a torchvision folder with --data-dir",
        )
    part = "train" if train else "test"
    return Images(dataset, _verified(dataset, f"{part}_images"), np.array(_verified(dataset, f"{part}_labels")))


def _verified(dataset: Dataset, name: str) -> Bytes:
    """An array of the cache, mapped: of the shape and with the checksum that the catalogue has for it."""
    path = stored(dataset) / f"{name}.npy"
    count = dataset.train if name.startswith("train") else dataset.test
    shape = (count, *dataset.shape) if name.endswith("images") else (count,)
    try:
        with ordinary.opened(path):
            array: Bytes = np.lib.format.open_memmap(path, mode="r")
        # Fortran's order is the same bytes in other places
        as_fetched = array.dtype == np.uint8 and array.shape == shape and array.flags.c_contiguous
        known = as_fetched and _sha256(array, *_state(path)) == dataset.arrays[ARRAYS.index(name)]
    except (OSError, ValueError, EOFError):
        known = False
    if not known:
        allowed = f"the file that was fetched; its bytes are not those of {dataset.title}"
        remedy = f"delete {path.parent} and run 'noisymean data fetch {dataset.name}'"
        raise InvalidInput("file", str(path), allowed, remedy)
    return array


_SEEN: dict[tuple[object, ...], str] = {}


def _sha256(array: Bytes, *state: object) -> str:
    """Of all its bytes: once in a process, as long as nothing has touched the file."""
    if state not in _SEEN:
        _SEEN[state] = hashlib.sha256(array.data).hexdigest()
    return _SEEN[state]


def _state(path: Path) -> tuple[object, ...]:
    found = path.stat()
    return str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _excerpt(path: Path) -> tuple[Bytes, Bytes]:
    """A few images that somebody has put aside."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["pixels"], file["labels"]
    except (KeyError, ValueError, OSError):
        raise InvalidInput("file", path.name, "an archive of `pixels` and `labels`", "or delete it") from None


def _torchvision(dataset: Dataset, root: Path, train: bool) -> tuple[Bytes, Bytes]:
    """The layout that torchvision leaves under `root`; `root` may also be the innermost folder itself."""
    sign = "data_batch_1" if dataset.name == "cifar10" else "train-images-idx3-ubyte"
    folder = next((place for place in (root / dataset.torchvision, root) if _found(place / sign)), None)
    if folder is None:
        raise InvalidInput(
            "data_dir",
            str(root),
            f"a folder that holds {dataset.torchvision}",
            f"or leave it out and run 'noisymean data fetch {dataset.name}'",
        )
    if dataset.name == "cifar10":
        names = [f"data_batch_{number}" for number in range(1, 6)] if train else ["test_batch"]
        parts = [read_batch(_existing(folder / name)) for name in names]
        return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])
    return idx_pair(folder, train)


def idx_pair(folder: Path, train: bool) -> tuple[Bytes, Bytes]:
    """Images with a channel axis, and labels, of MNIST's four files, compressed or not."""
    part = "train" if train else "t10k"
    images, labels = (_existing(folder / f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    return read_idx(images)[..., np.newaxis], read_idx(labels)


def _found(path: Path) -> Path | None:
    """The file, or its compressed form."""
    return next((one for one in (path, path.with_name(f"{path.name}.gz")) if one.is_file()), None)


def _existing(path: Path) -> Path:
    if (found := _found(path)) is None:
        wanted = f"a folder with {path.name} or {path.name}.gz"
        raise InvalidInput("data_dir", str(path.parent), wanted, "copy it there")
    return found
