r"""Characteristic functions of atoms that lie on no grid, at the frequencies of a grid, and the kernels that put sums on it.

Everything is measured from a loss next to which most of the mass lies, and the 1 which that mass contributes is left out: psi =
phi - 1 keeps its digits however little the rest weighs, and (1 + psi)^T does however large T is. So the atoms are told apart:

- **next to it**, not half a step h away: |w d| <= pi/2 for a distance d, a Taylor series of two dozen terms is exact to the
  last digit, and it is one polynomial in w for all of them;
- **the others**: each is spread over the points of a grid of half the step by a Gaussian of variance V h^2, one FFT is taken,
  and the Gaussian's transform is divided out of it (docs/accountant.md, "Atoms between the points", has the proof).

What the second is off by grows with the frequency x = w h, like e^(V x^2/2) where it is rounding. Up to e^(2.4^2 x^2/2) it may:
whatever is made of a transform is multiplied by that of a Gaussian of 2.4 steps, and then it is even.

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

# Deviation in steps of the Gaussian that every sum is smoothed by, which makes up for what errors grow by.
SMOOTH = 2.4
# (pi/2)^k / k! is below 1e-17 from here on.
_TERMS = 23
# The series ends where a term is this share of the transform, and what is left is less than twice that.
_NOTHING = 1e-17
# Variance of the Gaussian that spreads atoms, in steps, half steps that it is followed to either side, and the share of a mass
# that frequencies beyond the grid and points beyond the last are worth once it is smoothed: at most 4e-19 and 2e-19.
_VARIANCE, _SPREAD, _UNSEEN = 0.6, 14, 2e-18
# The same at the highest frequency before it is smoothed: 5.2e-11, and what rounding has grown by there, e^2.97.
_SEEN, _GROWN = 1.2e-10, 20.0
_ULP = 2.3e-16


class Transform(NamedTuple):
    """Transform of masses at their distances from a center.

    Its error is nowhere more than `largest`, and at x no more than `error` times e^(SMOOTH^2 x^2/2).
    """

    values: ComplexArray
    error: float
    largest: float


def frequencies(width: int) -> Array:
    """w h of the coefficients of a real transform of `width` points."""
    return np.asarray((2.0 * np.pi / width) * np.arange(width // 2 + 1))


def transform(distance: Array, mass: Array, width: int, *, less_total: bool) -> Transform:
    """Transform of masses at distances in steps of the grid; beyond `width` they wrap around. `less_total`: minus their sum."""
    x = frequencies(width)
    next_to_it = np.abs(distance) <= 0.5
    psi, error = _polynomial(distance[next_to_it], mass[next_to_it], x, less_total=less_total)
    largest = error
    away = ~next_to_it
    if away.any():
        others = mass[away]
        total = float(np.sum(others))
        psi += _spread(distance[away], others, x, width)
        if less_total:
            psi -= total
        rounding = _ULP * (3.0 * math.log2(2 * width) + 2.0 * _SPREAD + 24.0)
        error += total * (rounding + _UNSEEN)
        largest += total * (_GROWN * rounding + _SEEN)
    return Transform(psi, error, largest)


def _polynomial(distance: Array, mass: Array, x: Array, *, less_total: bool) -> tuple[ComplexArray, float]:
    """Sum of mass e^(-i x d) over distances of at most 1/2, and its error."""
    size = np.abs(distance)
    nothing = _NOTHING * float(np.sum(mass * (size if less_total else 1.0)))
    error = 2.0 * nothing
    # mass d^k / k! for every power k of the series, of which the last is nothing
    terms = mass
    powers: list[float] = []
    while len(powers) <= _TERMS:
        powers.append(float(np.sum(terms)))
        largest = math.pi ** (len(powers) - 1) * float(np.sum(np.abs(terms)))
        if len(powers) > 1 or not less_total:
            error += _ULP * (8.0 + len(powers)) * largest
        if largest <= nothing:
            break
        terms = terms * distance / len(powers)
    if less_total:
        powers[0] = 0.0
    square = -x * x
    psi = np.empty(x.size, dtype=np.complex128)
    psi.real = _horner(powers[::2], square)
    # (-i x)^(2j+1) = -i x (-x^2)^j
    psi.imag = -x * _horner(powers[1::2], square)
    return psi, error


def _horner(coefficients: list[float], y: Array) -> Array:
    total = np.full(y.size, coefficients[-1] if coefficients else 0.0)
    for one in reversed(coefficients[:-1]):
        total *= y
        total += one
    return total


def _spread(distance: Array, mass: Array, x: Array, width: int) -> ComplexArray:
    """The same for any distances, by way of a Gaussian around each."""
    points = 2 * width
    place = np.rint(2.0 * distance)
    aside = distance - 0.5 * place
    half_steps = 0.5 * np.arange(-_SPREAD, _SPREAD + 1)
    exponent = half_steps - aside[:, None]
    exponent *= exponent
    exponent *= -0.5 / _VARIANCE
    weights = np.exp(exponent, out=exponent)
    weights *= mass[:, None]
    first = ((place - _SPREAD) % points).astype(np.int64)
    index = first[:, None] + np.arange(2 * _SPREAD + 1)
    vector = np.bincount(index.ravel(), weights.ravel(), minlength=points + 2 * _SPREAD)
    # what is beyond the last point wraps around
    vector[: vector.size - points] += vector[points:]
    grown = np.exp((0.5 * _VARIANCE) * x * x) / (2.0 * math.sqrt(2.0 * math.pi * _VARIANCE))
    return np.asarray(fft.rfft(vector[:points])[: x.size] * grown)


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
