r"""Where to look, found on a pilot: trials that are neither learned from nor judged.

A pilot has the same runs on D and on D' from the same seeds, two by two, so what their randomness has in common cancels in the
differences d (it need not: then they are independent, and nothing is lost). Of each coordinate, averaged over the rounds,

    centre, scale    median and median deviation of all runs: a coordinate of another scale, a count beside the gradient, say, is
                     one like the others then
    along            weights of sums of z: the mean of d, shrunk by its own error, once for all coordinates and once for those
                     that stand out; the main components of the runs and of d
    squares          weights of a sum of z^2, found in the same way
    coordinates      those that differ most, each by itself

Whatever is chosen here is fixed before another trial is run, so a poor choice costs power and never soundness. Weights are small
whole numbers: the last bit of a sum, which another machine may have otherwise, does not change what is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisymean.numerics.logs import Array

# Coordinates that are looked at each by itself.
MOST_COORDINATES = 24
# Numbers of a release that a pilot keeps; where there are more, sums of neighbours.
MOST_KEPT = 1 << 16
_WEIGHTS = 127
# Of a normal sample the standard deviation over the median deviation.
_PER_MAD = 1.4826
_SEEN_FOR_SURE = 1e6


def folded(outputs: Array) -> Array:
    """Sums of neighbouring numbers, as many as a pilot keeps, each over the root of how many it has."""
    n = outputs.shape[-1]
    if n <= MOST_KEPT:
        return outputs
    edges = np.linspace(0, n, MOST_KEPT + 1).astype(int)[:-1]
    return np.asarray(np.add.reduceat(outputs, edges, axis=-1) / np.sqrt(np.diff(np.append(edges, n))))


@final
@dataclass(frozen=True)
class Aim:
    """Of each coordinate where it lies and how far it spreads; what is summed up; which are looked at by themselves."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    along: tuple[tuple[int, ...], ...]
    squares: tuple[tuple[int, ...], ...]
    coordinates: tuple[int, ...]

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Aim:
        """From what JSON has made of it."""
        return cls(
            tuple(plain["centre"]),
            tuple(plain["scale"]),
            tuple(map(tuple, plain["along"])),
            tuple(map(tuple, plain["squares"])),
            tuple(plain["coordinates"]),
        )

    def standardised(self, outputs: Array) -> Array:
        """z of what was released, folded."""
        return np.asarray((folded(outputs) - np.array(self.centre)) / np.array(self.scale))

    def features(self, z: Array) -> Array:
        """Averages over the rounds of sums of z and their squares, of sums of z^2, of single coordinates; extremes of sums."""
        sums = np.einsum("tsn,gn->tsg", z, _unit(self.along))
        single = z[:, :, list(self.coordinates)]
        found = [sums, sums * sums, np.einsum("tsn,gn->tsg", z * z, _unit(self.squares)), single, single * single]
        if z.shape[1] > 1:
            # a record is in few of the rounds
            return np.hstack([*(one.mean(axis=1) for one in found), sums.max(axis=1), sums.min(axis=1)])
        return np.hstack([one.mean(axis=1) for one in found])


def aim_of(smaller: Array, larger: Array) -> Aim:
    """What runs of a pilot show, shape (runs, 2, n): the average over the rounds and the root of the mean square."""
    means = np.concatenate([smaller[:, 0], larger[:, 0]])
    roots = np.concatenate([smaller[:, 1], larger[:, 1]])
    centre = np.median(means, axis=0)
    # of one round, not of their average
    spread = np.sqrt(np.maximum(roots * roots - means * means, 0.0) + (means - centre) ** 2)
    scale = _PER_MAD * np.median(spread, axis=0)
    scale = np.where(scale > 0.0, scale, np.sqrt((spread * spread).mean(axis=0)))
    scale = np.where(scale > 0.0, scale, 1.0)
    centre, scale = _rounded(centre), _rounded(scale)
    one, other = ((side[:, 0] - centre) / scale for side in (smaller, larger))
    apart, rising = other - one, other * other - one * one
    pooled = np.clip(np.concatenate([one, other]), -6.0, 6.0)
    seen, swollen = standing_out(apart), standing_out(rising)
    along = [
        *_shrunk(apart.mean(axis=0), seen),
        *_components(pooled - pooled.mean(axis=0), 2),
        *_components(np.clip(apart, -6.0, 6.0), 1),
    ]
    most = np.argsort(-np.maximum(np.abs(seen), np.abs(swollen)), kind="stable")[:MOST_COORDINATES]
    return Aim(
        tuple(centre.tolist()),
        tuple(scale.tolist()),
        tuple(map(_whole, along)),
        tuple(map(_whole, _shrunk(rising.mean(axis=0), swollen))),
        tuple(sorted(most.tolist())),
    )


def standing_out(apart: Array) -> Array:
    """The mean of each column in units of its error; far out where it has none."""
    mean, error = apart.mean(axis=0), apart.std(axis=0) / math.sqrt(max(len(apart) - 1, 1))
    found = np.divide(mean, error, out=np.sign(mean) * _SEEN_FOR_SURE, where=error > 0.0)
    return np.asarray(np.clip(found, -_SEEN_FOR_SURE, _SEEN_FOR_SURE))


def _shrunk(mean: Array, seen: Array) -> list[Array]:
    """Weights by what is likely to be there: 1 - 1/t^2 of what was seen; and of those alone that chance does not explain."""
    kept = np.maximum(0.0, 1.0 - 1.0 / np.maximum(seen * seen, 1e-12))
    outstanding = np.abs(seen) > math.sqrt(2.0 * math.log(max(mean.size, 2)))
    return [mean * kept, mean * outstanding]


def _components(rows: Array, count: int) -> list[Array]:
    """The first few; the sign by the largest weight, so that it is the same wherever it is computed."""
    _, _, found = np.linalg.svd(rows, full_matrices=False)
    chosen = [row * np.sign(row[np.argmax(np.abs(row))]) for row in found[:count]]
    return chosen + [np.zeros(rows.shape[1])] * (count - len(chosen))


def _whole(weights: Array) -> tuple[int, ...]:
    most = float(np.abs(weights).max())
    return tuple(np.round(weights * (_WEIGHTS / most)).astype(int).tolist()) if most > 0.0 else (0,) * weights.size


def _unit(rows: tuple[tuple[int, ...], ...]) -> Array:
    found = np.array(rows, dtype=np.float64)
    return np.asarray(found / np.maximum(np.sqrt((found * found).sum(axis=1, keepdims=True)), 1.0))


def _rounded(values: Array) -> Array:
    """To six digits."""
    return np.array([float(f"{value:.5e}") for value in values.tolist()])
