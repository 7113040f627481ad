r"""Characteristic functions of atoms that lie on no grid, at the frequencies of a grid, and the kernels that put sums on it.

An atom at h (n + r), |r| <= 1/2, contributes e^(-i w h n) e^(-i w h r) at frequency w, and |w h r| <= pi/2, so a Taylor series in
r of two dozen terms is exact to the last digit: one FFT for each power of r. Everything is measured from a loss next to which
most of the mass lies, and the 1 which that mass contributes is left out: psi = phi - 1 keeps its digits however little the
rest weighs, and (1 + psi)^T does however large T is.

A sum of off-grid atoms has no transform of its own on the grid. Two things are done to it, each of which can only leak more:
composing it with a Gaussian mechanism of small mu = v, loss N(v^2/2, v^2), whose transform vanishes beyond the grid's highest
frequency; and splitting each loss between its two neighbours on the grid so that both masses are kept, whose transform is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import erfc

from noisymean.numerics.logs import Array, ComplexArray

# (pi/2)^k / k! is below 1e-17 from here on.
_TERMS = 23
# The series ends where a term is this share of the transform, and what is left is less than twice that.
_NOTHING = 1e-17
_ULP = 2.3e-16


class Transform(NamedTuple):
    """Transform of masses at their distances from a center, and a bound on the error of each of its values."""

    values: ComplexArray
    error: float


def frequencies(width: int) -> Array:
    """w h of the coefficients of a real transform of `width` points."""
    return np.asarray((2.0 * np.pi / width) * np.arange(width // 2 + 1))


def transform(distance: Array, mass: Array, width: int, *, less_total: bool) -> Transform:
    """Transform of masses at distances in steps of the grid; beyond `width` they wrap around. `less_total`: minus their sum."""
    node = np.rint(distance)
    rest = distance - node
    index = (node % width).astype(np.int64)
    turn = -1j * frequencies(width)
    psi = np.zeros(turn.size, dtype=np.complex128)
    error = 0.0
    nothing = _NOTHING * float(np.sum(mass * (np.minimum(np.abs(distance), 1.0) if less_total else 1.0)))
    # Horner from the last term; powers of w h r alternate in nothing that could cancel more than e^(pi/2)
    for power, weights in reversed(list(enumerate(_moments(rest, mass, nothing)))):
        vector = np.bincount(index, weights, minlength=width)
        if power == 0 and less_total:
            # without a difference of large numbers
            vector[0] = -float(np.sum(mass[index != 0]))
        psi *= turn
        psi += fft.rfft(vector)
        size = float(np.sum(np.abs(weights if power > 0 else vector)))
        error += math.pi**power * (3.0 * math.log2(width) + 8.0 + power) * size
    return Transform(psi, _ULP * error + 2.0 * nothing)


def _moments(rest: Array, mass: Array, nothing: float) -> list[Array]:
    """mass r^k / k! for every power k of the series, of which the last is nothing."""
    terms = [mass]
    while len(terms) <= _TERMS and math.pi ** (len(terms) - 1) * float(np.sum(np.abs(terms[-1]))) > nothing:
        terms.append(terms[-1] * rest / len(terms))
    return terms


def gaussian_kernel(w: Array, step: float, theta: float, deviation: float) -> ComplexArray:
    """E[e^(theta U - i w U)] of U = N(v^2/2, v^2), the loss of a Gaussian mechanism with mu = v."""
    zeta = theta - 1j * w / step
    return np.asarray(np.exp(0.5 * deviation**2 * zeta * (1.0 + zeta)))


def splitting_kernel(w: Array, step: float, theta: float) -> ComplexArray:
    """Transform of x -> e^(-theta x) a(x) / step, with a(x) the share of a loss that goes to the grid point x below it.

    a(x) = (e^-x - e^-h)/(1 - e^-h) for 0 <= x <= h keeps both masses; for a point above, 1 - a(x + h).
    """
    zeta = theta - 1j * w / step
    product = np.expm1(zeta * step) * np.expm1(-(1.0 + zeta) * step)
    return np.asarray(product / (zeta * (1.0 + zeta) * np.expm1(-step) * step))


def aliased(width: int, ratio: float) -> float:
    """Bound on the sum over the grid of what the Gaussian of deviation `ratio` steps has beyond the highest frequency."""
    highest = ratio * math.pi
    beyond = math.sqrt(0.5 / math.pi) / ratio * float(erfc(highest / math.sqrt(2.0)))
    return width * beyond + 2.0 * math.exp(-0.5 * highest**2)
