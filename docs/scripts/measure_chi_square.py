"""Measure noisymean.numerics.chi_square against mpmath, and scipy beside it; prints the table of docs/numerics.md.

    python docs/scripts/measure_chi_square.py

Every row is a law (degrees of freedom, noncentrality) and nine points from 8 deviations below its mean to 8 above. The
reference has 40 digits and shares nothing with the library: the closed form at one degree of freedom, the incomplete gamma
function when the noncentrality is 0, else the Poisson mixture of gamma laws, or, when that has too many terms, Bromwich's
integral along a straight vertical line by Gauss-Legendre panels.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import mpmath as mp
import numpy as np
from scipy import stats

from noisymean.numerics.chi_square import log_tails, saddle

mp.mp.dps = 40

LAWS = [
    (1, 0.0),
    (1, 3.0),
    (1, 3.6e7),
    (1, 1e20),
    (3, 0.0),
    (20, 0.0),
    (20, 16.0),
    (20, 1e4),
    (99, 3.6e7),
    (26_010, 0.0),
    (26_010, 900.0),
    (26_010, 3.6e7),
    (1_485_217, 3.6e7),
    (10**8, 0.0),
    (10**9, 1e12),
    (10**12, 1e14),
]
# Where the tails are followed down to 1e-286.
FAR_LAWS = [(1, 3.0), (1, 3.6e7), (20, 16.0), (26_010, 0.0), (26_010, 3.6e7), (10**9, 1e12)]
FAR = (-36.0, -30.0, -20.0, -12.0, 12.0, 20.0, 30.0, 36.0)
DEVIATIONS = (-8.0, -5.0, -3.0, -1.0, 0.25, 1.0, 3.0, 5.0, 8.0)
REPEATS = 400
# Beyond this noncentrality scipy takes from a tenth of a second a value to forever.
LARGEST_FOR_SCIPY = 1e9


def main() -> None:
    """Print the table."""
    print(f"{'dof':>8} {'noncentrality':>13} {'ours':>8} {'scipy':>8} {'ours, us':>9} {'scipy, us':>9}")
    for dof, noncentrality in LAWS:
        k, x = 0.5 * dof, 0.5 * noncentrality
        deviation = np.sqrt(k + 2.0 * x)
        excess = np.array([z * deviation for z in DEVIATIONS])
        # a lower tail that does not reach 8 deviations is followed towards 0 instead
        bottom = (k + x) * np.array([1e-1, 1e-3, 1e-6])
        excess = np.unique(np.where(k + x + excess > 0.0, excess, np.resize(bottom, excess.size) - (k + x)))
        exact = [reference(k, x, e) for e in excess]
        ours, our_time = timed(lambda e, k=k, x=x: our_tails(k, x, e), excess)
        line = f"{dof:8.3g} {noncentrality:13.3g} {worst(ours, exact):8.0e}"
        if noncentrality > LARGEST_FOR_SCIPY:
            print(f"{line} {'-':>8} {our_time:9.1f} {'-':>9}")
            continue
        theirs, their_time = timed(lambda e, k=k, x=x: scipy_tails(k, x, e), excess)
        print(f"{line} {worst(theirs, exact):8.0e} {our_time:9.1f} {their_time:9.1f}")
    print("far tails, smallest probability and worst relative error:")
    for dof, noncentrality in FAR_LAWS:
        k, x = 0.5 * dof, 0.5 * noncentrality
        far = np.array([z * np.sqrt(k + 2.0 * x) for z in FAR])
        far = far[k + x + far > 0.0]
        exact = [reference(k, x, e) for e in far]
        shown = [i for i, value in enumerate(exact) if value > 1e-300]
        error = worst(our_tails(k, x, far)[shown], [exact[i] for i in shown])
        print(f"{dof:8.3g} {noncentrality:13.3g} {float(min(exact[i] for i in shown)):8.0e} {error:8.0e}")


def our_tails(k: float, x: float, excess: np.ndarray) -> np.ndarray:
    """The smaller tail at each point."""
    b, tilt = saddle(k, x, excess)
    ((lower, upper),) = log_tails(k, b, tilt)
    return np.exp(np.where(tilt > 0.0, lower, upper))


def scipy_tails(k: float, x: float, excess: np.ndarray) -> np.ndarray:
    """The same from scipy."""
    law = stats.ncx2(2.0 * k, 2.0 * x) if x > 0.0 else stats.chi2(2.0 * k)
    y = 2.0 * (k + x + excess)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.where(excess < 0.0, law.cdf(y), law.sf(y))


def timed(tails: Callable[[np.ndarray], np.ndarray], excess: np.ndarray) -> tuple[np.ndarray, float]:
    """The values, and microseconds for one of them in an array of many."""
    many = np.tile(excess, REPEATS)
    start = time.perf_counter()
    values = tails(many)
    return values[: excess.size], (time.perf_counter() - start) / many.size * 1e6


def worst(values: np.ndarray, exact: list[mp.mpf]) -> float:
    """Largest relative error."""
    return max(float(abs(mp.mpf(float(value)) / truth - 1)) for value, truth in zip(values, exact, strict=True))


def reference(k: float, x: float, excess: float) -> mp.mpf:
    """The tail on the far side of the mean of Y at k + x + excess."""
    k, x, excess = mp.mpf(k), mp.mpf(x), mp.mpf(float(excess))
    y = k + x + excess
    low = excess < 0
    if k == mp.mpf(1) / 2:
        root, centre = mp.sqrt(2 * y), mp.sqrt(2 * x)
        if low:
            return difference_of_normals(-root - centre, root - centre)
        return mp.ncdf(centre - root) + mp.ncdf(-root - centre)
    if x == 0 and k < 10**5:
        return mp.gammainc(k, 0, y, regularized=True) if low else mp.gammainc(k, y, mp.inf, regularized=True)
    if x < 10**4 and k < 10**3:
        return poisson_mixture(k, x, y, low)
    return vertical_line(k, x, y, low)


def difference_of_normals(a: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Phi(b) - Phi(a) without cancellation for a tiny gap."""
    if b - a < mp.mpf("1e-3"):
        return mp.quad(mp.npdf, [a, b])
    return mp.ncdf(b) - mp.ncdf(a)


def poisson_mixture(k: mp.mpf, x: mp.mpf, y: mp.mpf, low: bool) -> mp.mpf:
    """sum over j of Poisson(x)(j) times the tail of a gamma law with shape k + j."""
    spread = 14 * mp.sqrt(x) + 100
    first, last = max(0, int(x - spread)), int(x + spread)
    tail = mp.gammainc(k + first, 0, y, regularized=True)
    if not low:
        tail = 1 - tail if tail < 0.5 else mp.gammainc(k + first, y, mp.inf, regularized=True)
    weight = mp.exp(first * mp.log(x) - x - mp.loggamma(first + 1))
    step = mp.exp((k + first) * mp.log(y) - y - mp.loggamma(k + first + 1))
    total = mp.mpf(0)
    for j in range(first, last + 1):
        total += weight * tail
        tail = tail - step if low else tail + step
        weight *= x / (j + 1)
        step *= y / (k + j + 1)
    return total


def vertical_line(k: mp.mpf, x: mp.mpf, y: mp.mpf, low: bool) -> mp.mpf:
    """Bromwich's integral through the saddle point, straight up."""
    saddle_point = (k + mp.sqrt(k * k + 4 * x * y)) / (2 * y)

    def exponent(s: mp.mpc) -> mp.mpc:
        return y * s + x / s - k * mp.log(s) - x - y

    peak = exponent(saddle_point)
    width = 1 / mp.sqrt(2 * x / saddle_point**3 + k / saddle_point**2)
    distance = abs(saddle_point - 1)

    def integrand(tau: mp.mpf) -> mp.mpf:
        s = mp.mpc(saddle_point, tau)
        return (mp.exp(exponent(s) - peak) / (s - 1)).real

    # panels fine enough for the pole, then for the Gaussian
    edges = [mp.mpf(0), *(distance * mp.mpf(2) ** j for j in range(-1, 12) if distance * mp.mpf(2) ** j < width)]
    edges += [width * j / 2 for j in range(1, 41)]
    total = mp.quad(integrand, edges) / mp.pi * mp.exp(peak)
    return total if low else -total


if __name__ == "__main__":
    main()
