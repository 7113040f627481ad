"""From checkpoints and what is told about the run to what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noisymean.checks import of_kind, real, switch, whole
from noisymean.errors import InvalidInput
from noisymean.finished.checkpoints import Checkpoints, found
from noisymean.finished.denominator import Denominator, Told, by_step, denominator, doubt_about, quiet_tensor
from noisymean.finished.found import FinishedRun, Size, Sure
from noisymean.finished.optimizers import Descent, of_name
from noisymean.finished.series import Progress, Run, Updates, array_in
from noisymean.finished.sizes import Kind, Sizes, sizes_of
from noisymean.finished.spectrum import spectrum
from noisymean.mechanisms.base import LARGEST_DATASET
from noisymean.mechanisms.rates import Rate

Source = str | PathLike[str]


def _silent(_: int, __: int) -> None:
    pass


def probe_run(
    checkpoints: Source | Sequence[Source] | Any,
    *,
    learning_rate: float,
    noise_multiplier: float,
    max_grad_norm: float,
    optimizer: str = "sgd",
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    every: int = 1,
    mechanism: str | None = None,
    batch_size: int | None = None,
    sample_rate: Rate | None = None,
    dataset_size: int | None = None,
    leave_out: Sequence[str] = (),
    confidence: float = 0.95,
    progress: Progress = _silent,
) -> FinishedRun:
    """The denominator of a finished run of DP-SGD, read off its checkpoints, and the numbers of records that it comes from.

    `checkpoints` is a folder of state dicts (.safetensors or .npz), a list of such files, one file of updates, or an array of
    updates, T x n. Learning rate, clipping bound and noise multiplier are taken on trust. With the batch size of a data loader,
    or a sampling rate, it also says which N fit; with `dataset_size`, how sure one can be of that N against its neighbours.

    >>> rng = np.random.default_rng(1)
    >>> updates = -0.5 / 600 * rng.standard_normal((40, 5000))
    >>> run = probe_run(updates, learning_rate=0.5, noise_multiplier=1, max_grad_norm=1, batch_size=600, dataset_size=60_000)
    >>> low, high = run.interval
    >>> bool(594 < low < 600 < high)
    True
    """
    of_name(of_kind("optimizer", optimizer, str, "the name of one", "sgd"))
    descent = Descent(
        learning_rate=real("learning_rate", learning_rate),
        momentum=real("momentum", momentum),
        dampening=real("dampening", dampening),
        nesterov=switch("nesterov", nesterov),
        weight_decay=real("weight_decay", weight_decay),
    )
    every = whole("every", every, 1, 10**9)
    if every > 1 and not descent.is_plain:
        raise InvalidInput("every", every, "1 with momentum or weight decay", "their recursion needs every step")
    sizes = sizes_of(mechanism, batch_size, sample_rate)
    told = Told(
        noise_multiplier=real("noise_multiplier", noise_multiplier),
        max_grad_norm=real("max_grad_norm", max_grad_norm),
        batch=None if sizes is None else sizes.told_batch,
        confidence=real("confidence", confidence),
    )
    asked = None if dataset_size is None else whole("dataset_size", dataset_size, 1, LARGEST_DATASET)
    if asked is not None and (sizes is None or sizes.kind is Kind.CONSTANT):
        raise InvalidInput(
            "dataset_size", asked, "given with a batch size or a sampling rate", "a denominator alone has no N"
        )
    series, ordered = _series(checkpoints, descent, every, _names(leave_out))
    seen = spectrum(series.blocks(progress), series.series)
    measured = denominator(seen, told, descent, every)
    doubt = doubt_about(seen, measured)
    runs: tuple[tuple[int, int], ...] = ()
    tried = None
    if sizes is not None and doubt is None:
        runs, tried = sizes.consistent(measured.at_least, measured.at_most, asked)
    return FinishedRun(
        checkpoints=seen.steps if ordered is None else len(ordered.files),
        gradients=seen.steps,
        parameters=seen.parameters,
        descent=descent,
        every=every,
        told=told,
        denominator=measured if doubt is None else None,
        doubt=doubt,
        quiet=quiet_tensor(seen, measured),
        directions=measured.rest.directions,
        steps_from_to=by_step(seen, told),
        sizes=sizes,
        consistent=runs,
        tried=tried,
        sure=None if asked is None or sizes is None or doubt is not None else _sure(asked, sizes, measured),
        gaps=() if ordered is None else ordered.gaps,
        too_short=series.too_short,
        left_out=dict(series.left_out),
        files_left_out=() if ordered is None else ordered.left_out,
        still=seen.still,
        version=import_module("noisymean").__version__,
    )


def _names(leave_out: object) -> tuple[str, ...]:
    """The tensors to be left out."""
    if isinstance(leave_out, str) or not isinstance(leave_out, Sequence):
        raise InvalidInput("leave_out", leave_out, "a list of names of tensors")
    return tuple(of_kind("leave_out", one, str, "the name of a tensor") for one in leave_out)


def _series(
    checkpoints: Source | Sequence[Source] | Any, descent: Descent, every: int, leave_out: tuple[str, ...]
) -> tuple[Run | Updates, Checkpoints | None]:
    if isinstance(checkpoints, str | PathLike):
        checkpoints = [checkpoints]
    if not isinstance(checkpoints, Sequence):
        array = np.asarray(checkpoints)
        if array.ndim != 2 or array.dtype.kind != "f":
            raise InvalidInput("updates", f"shape {array.shape} of {array.dtype}", "an array of T updates of n numbers")
        return _updates(array, descent, every), None
    for one in checkpoints:
        if not isinstance(one, str | PathLike):
            raise InvalidInput(
                "checkpoints",
                f"a list with {type(one).__name__}",
                "files",
                "updates are one array, a row for each step",
            )
    paths = [Path(one) for one in checkpoints]
    if not paths:
        raise InvalidInput("checkpoints", "none", "a folder or files")
    ordered = found(paths, every)
    if len(ordered.files) == 1:
        alone = array_in(ordered.files[0])
        if alone is None:
            raise InvalidInput(
                "checkpoints", ordered.files[0].name, "two and more state dicts, or one array of updates (T x n)",
                "one state dict alone tells nothing",
            )  # fmt: skip
        return _updates(alone, descent, every), None
    return Run(ordered, descent, every, leave_out), ordered


def _updates(array: np.ndarray, descent: Descent, every: int) -> Updates:
    if descent.weight_decay:
        raise InvalidInput(
            "weight_decay", descent.weight_decay, "0 for updates", "it needs the weights: give checkpoints"
        )
    if every != 1:
        raise InvalidInput("every", every, "1 for updates", "each row is one step")
    return Updates(array, descent)


def _sure(asked: int, sizes: Sizes, measured: Denominator) -> Sure:
    low, high = measured.at_least, measured.at_most

    def size(records: int) -> Size:
        c = sizes.denominator_at(records) if records >= 1 else None
        if c is None:
            return Size(records, None, None, fits=False)
        return Size(records, c, measured.log_likelihood(float(c)), fits=low <= c <= high)

    return Sure(size(asked), size(asked - 1), size(asked + 1))
