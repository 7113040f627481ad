r"""What is left of a run when slow drift and leading directions are taken out: noise, and what cannot be told from it.

Write G for the T x n matrix of the g_t, G = M + s Z with s = sigma C / c, Z standard normal, and M the clipped sums over c.

1. Slow drift. The rows of the orthonormal cosine transform of length T are waves over time. The expected gradient moves little
   from step to step, so it lies in the slow ones: the first quarter of them is dropped. What stays is H, of T' = 3T/4 rows. The
   transform of Z is again standard normal. Where checkpoints are missing a series ends and another one begins: each has a
   transform of its own, and nothing is supposed about what happened in between.
2. Leading directions. Batches differ most along a few directions of the gradients. A singular value of H that noise alone has
   with probability below e^(-MARGIN^2/2) is taken out: the largest one of a T' x n normal matrix is above
   sqrt(n) + sqrt(T') + x with probability e^(-x^2/2) at most.
3. The rest is E, the sum of the squares of the other singular values. With theta_i^2 what the i-th direction holds besides noise,
   taking it out takes n + T' + n T' s^2 / theta_i^2 of the noise along, so that E is s^2 times a chi-square variable with

       nu = n T' - sum_i (n + T' + n T' s^2 / theta_i^2)

   degrees of freedom, plus what is left of M. docs/probe-run.md has the derivation.

All this needs the T' x T' matrix H H^T only, which is added up over blocks of columns.

4. The rest of the slower and that of the faster half of H are looked at as well: what swings to and fro from step to step, as at
   a learning rate that is a little too large, is in the second, what still drifts in the first.
5. The slow rows are kept as energies: noise that the gradients of later steps undo is missing in them (`is_followed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.fft import dct, idct

from noisymean.errors import InvalidInput
from noisymean.finished.series import LEAST_STEPS, Block
from noisymean.numerics.logs import Array

SLOW = 0.25
MARGIN = 3.5
# The matrix of so many steps squared is held, and its eigenvalues are found.
MOST_STEPS = 5000
# Less than this of the whole is lost in the arithmetic.
_LEAST_REST = 1e-10


@final
@dataclass(frozen=True)
class Rest:
    """The mean square of a number that is noise, by so many degrees of freedom, after some directions were taken out."""

    variance: float
    degrees: float
    directions: int
    rows: int


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """What was added up over all columns."""

    steps: int
    # how many fast waves there are
    rows: int
    parameters: int
    gram: Array
    # the energy of the fast part of each step, and how much of a step the fast part is
    each_step: Array
    shares: Array
    # the slow waves but the constants: their frequencies, in radians for a step, and their energies
    frequencies: Array
    slow_rows: Array
    # which of the fast waves are in the upper half of theirs
    upper: Array
    # per tensor: the energy of its fast part, and its parameters
    tensors: dict[str, tuple[float, int]]
    still: int
    zeros: int
    rounding: float

    @property
    def zero_share(self) -> float:
        """The share of single updates that are exactly zero."""
        return self.zeros / max(1, self.parameters * self.steps)

    def rest(self) -> Rest:
        """The noise, and what cannot be told from it."""
        return self._rest_of(self.gram)

    def halves(self) -> tuple[Rest, ...]:
        """The same of the slower and of the faster half of these waves."""
        return tuple(self._rest_of(self.gram[np.ix_(rows, rows)]) for rows in (np.logical_not(self.upper), self.upper))

    def _rest_of(self, gram: Array) -> Rest:
        rows, wide = len(gram), self.parameters
        if not np.isfinite(gram).all():
            raise _too_far()
        values = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
        taken, degrees = 0, float(rows * wide)
        variance = float(values.sum()) / degrees
        edge = (math.sqrt(wide) + math.sqrt(rows) + MARGIN) ** 2
        most = min(rows, wide) // 2
        while taken < most and values[taken] > variance * edge:
            taken += 1
            rest = float(values[taken:].sum())
            if rest < _LEAST_REST * float(values.sum()):
                raise _too_far()
            # degrees of freedom and variance depend on each other, weakly
            for _ in range(20):
                over = values[:taken] / variance - wide - rows
                signal = (over + np.sqrt(np.maximum(over**2 - 4.0 * wide * rows, 0.0))) / 2.0
                degrees = rows * wide - float(np.sum(wide + rows + wide * rows / np.maximum(signal, 1.0)))
                if degrees <= 0.0:
                    raise _too_little(self)
                variance = rest / degrees
        return Rest(variance, degrees, taken, rows)


def spectrum(blocks: Iterable[Block], series: Sequence[int]) -> Spectrum:
    """All blocks, added up; `series` has the steps that follow each other without a gap."""
    steps = sum(series)
    if steps < LEAST_STEPS:
        raise InvalidInput(
            "checkpoints",
            f"{steps} gradients in a row",
            f"enough for {LEAST_STEPS}",
            "give more consecutive checkpoints",
        )
    if steps > MOST_STEPS:
        raise InvalidInput("checkpoints", f"{steps:,} steps", f"at most {MOST_STEPS:,}", "give a part of the run")
    waves = [_Waves(steps) for steps in series]
    fast = sum(one.steps - one.slow for one in waves)
    gram, each_step = np.zeros((fast, fast)), np.zeros(steps)
    slow_rows = np.zeros(sum(one.slow - 1 for one in waves))
    tensors: dict[str, tuple[float, int]] = {}
    parameters = still = zeros = 0
    rounding = 0.0
    for block in blocks:
        parts = np.split(block.gradients, np.cumsum(series)[:-1])
        turned = [one.of(part) for one, part in zip(waves, parts, strict=True)]
        quick = np.concatenate([part for _, part, _ in turned])
        gram += quick @ quick.T
        each_step += np.concatenate([part for _, _, part in turned])
        slow_rows += np.concatenate([part for part, _, _ in turned])
        energy = float(np.einsum("ij,ij->", quick, quick))
        before, count = tensors.get(block.tensor, (0.0, 0))
        tensors[block.tensor] = before + energy, count + quick.shape[1]
        parameters += quick.shape[1]
        still, zeros, rounding = still + block.still, zeros + block.zeros, rounding + block.rounding
    if parameters == 0:
        raise InvalidInput("checkpoints", "no weight ever changes", "of a run that was trained")
    shares = np.concatenate([one.shares for one in waves])
    frequencies = np.concatenate([one.frequencies for one in waves])
    upper = np.concatenate([np.arange(one.slow, one.steps) >= (one.slow + one.steps) / 2.0 for one in waves])
    return Spectrum(
        steps, fast, parameters, gram, each_step, shares, frequencies, slow_rows, upper, tensors, still, zeros,
        rounding / parameters,
    )  # fmt: skip


@final
class _Waves:
    """The cosine transform of a series, cut into slow and fast."""

    def __init__(self, steps: int) -> None:
        self.steps, self.slow = steps, max(2, math.ceil(SLOW * steps))
        basis = dct(np.eye(steps), axis=0, norm="ortho")[: self.slow]
        self.shares = 1.0 - np.einsum("ij,ij->j", basis, basis)
        self.frequencies = math.pi * np.arange(1, self.slow) / steps

    def of(self, gradients: Array) -> tuple[Array, Array, Array]:
        """The energies of the slow waves but the constant, the fast waves, and the energy of those in each step."""
        waves = dct(gradients, axis=0, norm="ortho")
        quick = waves[self.slow :].copy()
        slow = np.einsum("ij,ij->i", waves[1 : self.slow], waves[1 : self.slow])
        waves[: self.slow] = 0.0
        again = idct(waves, axis=0, norm="ortho", overwrite_x=True)
        return slow, quick, np.einsum("ij,ij->i", again, again)


def _too_far() -> InvalidInput:
    return InvalidInput(
        "checkpoints", f"a weight that moves {_LEAST_REST**-0.5:,.0f} times as far as most", "of a run that was trained",
        "damaged, or broken off: leave out what comes after",
    )  # fmt: skip


def _too_little(seen: Spectrum) -> InvalidInput:
    return InvalidInput(
        "checkpoints", f"{seen.steps} gradients of {seen.parameters} numbers", "enough to tell noise from gradients",
        "give more consecutive checkpoints",
    )  # fmt: skip
