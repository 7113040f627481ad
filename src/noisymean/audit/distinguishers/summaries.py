r"""What is worth a look in releases of which nothing is known: a few numbers for each run, cheap, each with a bug in mind.

o has shape (runs, T, n). z is o with every coordinate standardised where a pilot has seen it (`aim`), and o itself elsewhere.
What is one number for each round is averaged over the rounds, unless it is said otherwise.

    sizes      log |o|^2, log |z|^2, the largest number, mean, fourth moment, mean |z|, shares beyond 2 and 3: what it is
               divided by, and the law of the noise (a uniform one has no tails)
    blocks     log |z|^2 and the sum in each of eight neighbouring blocks: layers with bounds or noise of their own
    lattice    numbers that are off the grid of half precision, of bfloat16, of four decimals, in units of the scales at which
               noise may have been drawn; zeros and repeated numbers: noise of low precision shows what was added to it. The grid
               of single precision is not looked for, though it leaks as well: it is what every framework draws by default
    steps      cosines of rounds, the distance of the two closest, numbers that two rounds share: noise that comes again
    along      projections on the gradients that are known, the record's with its largest and smallest round
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from noisymean.numerics.logs import Array

_TINY = 1e-300
_BLOCKS = 8
# Rounds that are compared with each other, and numbers of a round that are looked at one by one.
_COMPARED, _LOOKED_AT = 12, 4096
# Among so many numbers of single precision hardly two are equal.
_REPEATED = 256
# A number is on a grid if it is off by no more than rounding.
_ON_GRID = 1e-10
_DECIMALS = 1e4


def sizes(outputs: Array, z: Array) -> Array:
    """Ten numbers that see scale and shape, of any n."""
    n = outputs.shape[-1]
    square = _positive(np.einsum("tsn,tsn->ts", outputs, outputs))
    own = _positive(np.einsum("tsn,tsn->ts", z, z))
    length = np.abs(z)
    # in units of the round's own scale: shape, whatever the scale
    shape = length / np.sqrt(own / n)[..., None]
    return _averaged(
        [
            np.log(square),
            np.log(own),
            np.log(_positive(np.abs(outputs).max(axis=-1))),
            np.log(_positive(length.max(axis=-1))),
            outputs.sum(axis=-1) / np.sqrt(square),
            z.sum(axis=-1) / np.sqrt(n),
            np.log(_positive((shape**4).mean(axis=-1))),
            length.mean(axis=-1) / np.sqrt(own / n),
            (shape > 2.0).mean(axis=-1),
            (length > 3.0).mean(axis=-1),
        ]
    )


def blocks(z: Array) -> Array:
    """Of each block of coordinates its size and its sum; nothing where there are too few."""
    n = z.shape[-1]
    if n < 2 * _BLOCKS:
        return np.empty((len(z), 0))
    edges = np.linspace(0, n, _BLOCKS + 1).astype(int)[:-1]
    each = np.diff(np.append(edges, n))
    square = np.log(_positive(np.add.reduceat(z * z, edges, axis=-1) / each)).mean(axis=1)
    return np.hstack([square, (np.add.reduceat(z, edges, axis=-1) / np.sqrt(each)).mean(axis=1)])


def lattice(outputs: Array, scales: tuple[float, ...]) -> Array:
    """How many numbers are off each grid, as log(1 + count), in units of each scale; how many are zero or come twice."""
    part = outputs[..., :_LOOKED_AT]
    found: list[NDArray[np.bool_]] = [part == 0.0]
    for scale in scales:
        found += _off_grids(part / scale)
    columns = [np.log1p(mask.sum(axis=-1)) for mask in found]
    for values in (part[..., :_REPEATED], np.abs(part[..., :_REPEATED])):
        ordered = np.sort(values, axis=-1)
        columns.append(np.log1p((ordered[..., 1:] == ordered[..., :-1]).sum(axis=-1)))
    return _averaged(columns)


def _off_grids(values: Array) -> list[NDArray[np.bool_]]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        near = [
            values.astype(np.float16).astype(np.float64),
            (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64),
            np.round(values * _DECIMALS) / _DECIMALS,
        ]
        return [~(np.abs(values - one) <= _ON_GRID * np.abs(values)) for one in near]


def steps(outputs: Array, direction: Array | None) -> Array:
    """How alike the rounds of a run are, two by two; nothing where there is one."""
    runs, rounds, _ = outputs.shape
    if rounds < 2:
        return np.empty((runs, 0))
    part = outputs[:, :_COMPARED]
    among = np.einsum("tsn,tun->tsu", part, part)
    square = _positive(np.einsum("tss->ts", among))
    pairs = list(combinations(range(part.shape[1]), 2))
    first, second = np.array(pairs).T
    cosines = among[:, first, second] / np.sqrt(square[:, first] * square[:, second])
    later = outputs[:, 1:] - outputs[:, :-1]
    # by differences: what cancels in them has to cancel to the last bit
    apart = np.stack([_distance(part, one, other) for one, other in pairs], axis=1)
    relative = apart / square.mean(axis=1, keepdims=True)
    closest = relative.argmin(axis=1)
    lag = among[:, np.arange(part.shape[1] - 1), np.arange(1, part.shape[1])]
    columns = [
        (lag / np.sqrt(square[:, 1:] * square[:, :-1])).mean(axis=1),
        cosines.max(axis=1),
        cosines.min(axis=1),
        np.log10(np.maximum(relative.min(axis=1), 1e-32)),
        np.log(_positive(np.einsum("tsn,tsn->ts", later, later))).mean(axis=1),
        np.log1p((later == 0.0).sum(axis=(1, 2))),
    ]
    if direction is not None:
        everyone = np.arange(runs)
        left = part[everyone, second[closest]] - part[everyone, first[closest]]
        along = np.einsum("tn,n->t", left, direction) / np.sqrt(_positive(apart[everyone, closest]))
        columns += [along, np.abs(along)]
    return np.column_stack(columns)


def _distance(part: Array, one: int, other: int) -> Array:
    left = part[:, other] - part[:, one]
    return np.asarray(np.einsum("tn,tn->t", left, left))


def along(outputs: Array, rows: Array) -> Array:
    """Projections on unit rows, the record's own first: averages, and of the record's the square and the extremes."""
    found = np.einsum("tsn,gn->tsg", outputs, rows)
    own = found[:, :, 0]
    columns = [found.mean(axis=1), (own * own).mean(axis=1)[:, None]]
    if outputs.shape[1] > 1:
        columns.append(np.column_stack([own.max(axis=1), own.min(axis=1)]))
    return np.hstack(columns)


def _averaged(columns: list[Array]) -> Array:
    return np.column_stack([column.mean(axis=1) for column in columns])


def _positive(values: Array) -> Array:
    return np.maximum(values, _TINY)
