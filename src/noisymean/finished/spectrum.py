r"""What is left of a run when slow drift and leading directions are taken out: noise, and what cannot be told from it.

Write G for the T x n matrix of the g_t, G = M + s Z with s = sigma C / c, Z standard normal, and M the clipped sums over c.

1. Slow drift. The rows of the orthonormal cosine transform of length T are waves over time. The expected gradient moves little
   from step to step, so it lies in the slow ones: the first quarter of them is dropped. What stays is H, of T' = 3T/4 rows. The
   transform of Z is again standard normal.
2. Leading directions. Batches differ most along a few directions of the gradients. A singular value of H that noise alone has
   with probability below e^(-MARGIN^2/2) is taken out: the largest one of a T' x n normal matrix is above
   sqrt(n) + sqrt(T') + x with probability e^(-x^2/2) at most.
3. The rest is E, the sum of the squares of the other singular values. With theta_i^2 what the i-th direction holds besides noise,
   taking it out takes n + T' + n T' s^2 / theta_i^2 of the noise along, so that E is s^2 times a chi-square variable with

       nu = n T' - sum_i (n + T' + n T' s^2 / theta_i^2)

   degrees of freedom, plus what is left of M. docs/probe-run.md has the derivation.

All this needs the T' x T' matrix H H^T only, which is added up over blocks of columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.fft import dct, idct

from noisymean.errors import InvalidInput
from noisymean.finished.series import Block
from noisymean.numerics.logs import Array

SLOW = 0.25
MARGIN = 3.5
LEAST_STEPS = 8


@final
@dataclass(frozen=True)
class Rest:
    """The mean square of a number that is noise, by so many degrees of freedom, after some directions were taken out."""

    variance: float
    degrees: float
    directions: int


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """What was added up over all columns."""

    steps: int
    fast: int
    parameters: int
    gram: Array
    # the energy of the fast part of each step, and how much of a step the fast part is
    each_step: Array
    shares: Array
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
        rows, wide = self.fast, self.parameters
        values = np.maximum(np.linalg.eigvalsh(self.gram)[::-1], 0.0)
        taken, degrees = 0, float(rows * wide)
        variance = float(values.sum()) / degrees
        edge = (math.sqrt(wide) + math.sqrt(rows) + MARGIN) ** 2
        most = min(rows, wide) // 2
        while taken < most and values[taken] > variance * edge:
            taken += 1
            rest = float(values[taken:].sum())
            # degrees of freedom and variance depend on each other, weakly
            for _ in range(20):
                over = values[:taken] / variance - wide - rows
                signal = (over + np.sqrt(np.maximum(over**2 - 4.0 * wide * rows, 0.0))) / 2.0
                degrees = rows * wide - float(np.sum(wide + rows + wide * rows / np.maximum(signal, 1.0)))
                if degrees <= 0.0:
                    raise _too_little(self)
                variance = rest / degrees
        return Rest(variance, degrees, taken)


def spectrum(blocks: Iterable[Block], steps: int) -> Spectrum:
    """All blocks, added up."""
    if steps < LEAST_STEPS:
        raise InvalidInput(
            "checkpoints", f"{steps} gradients", f"enough for {LEAST_STEPS}", "give more consecutive checkpoints"
        )
    slow = max(2, math.ceil(SLOW * steps))
    fast = steps - slow
    gram, each_step = np.zeros((fast, fast)), np.zeros(steps)
    tensors: dict[str, tuple[float, int]] = {}
    parameters = still = zeros = 0
    rounding = 0.0
    for block in blocks:
        waves = dct(block.gradients, axis=0, norm="ortho")
        quick = waves[slow:]
        gram += quick @ quick.T
        energy = float(np.einsum("ij,ij->", quick, quick))
        waves[:slow] = 0.0
        again = idct(waves, axis=0, norm="ortho", overwrite_x=True)
        each_step += np.einsum("ij,ij->i", again, again)
        before, count = tensors.get(block.tensor, (0.0, 0))
        tensors[block.tensor] = before + energy, count + quick.shape[1]
        parameters += quick.shape[1]
        still, zeros, rounding = still + block.still, zeros + block.zeros, rounding + block.rounding
    if parameters == 0:
        raise InvalidInput("checkpoints", "no weight ever changes", "of a run that was trained")
    basis = dct(np.eye(steps), axis=0, norm="ortho")[:slow]
    shares = 1.0 - np.einsum("ij,ij->j", basis, basis)
    return Spectrum(
        steps, fast, parameters, gram, each_step, shares, tensors, still, zeros, rounding / parameters
    )  # fmt: skip


def _too_little(seen: Spectrum) -> InvalidInput:
    return InvalidInput(
        "checkpoints", f"{seen.steps} gradients of {seen.parameters} numbers", "enough to tell noise from gradients",
        "give more consecutive checkpoints",
    )  # fmt: skip
