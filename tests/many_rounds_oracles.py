r"""References for T rounds: plain, slow, and sharing no code with the package (nothing here imports noisymean).

- **Fourier**: delta(eps) in one integral over a vertical line, from densities on a dense grid of x. Multiplying the Laplace
  transforms of (1 - e^(eps - l))_+ and of the law of l gives, with M(theta) = (integral of p^(1-theta) q^theta)^T,

      delta(eps)         = 1/(2 pi i) \int M(theta) e^(-(theta-1) eps) / (theta (theta-1)) dtheta,    Re theta > 1,
      delta_reverse(eps) = 1/(2 pi i) \int M(theta) e^(theta eps)      / (theta (theta-1)) dtheta,    Re theta < 0.

  The package integrates the two tails apart, along the saddle point, by its own nodes; here one line, chosen by a coarse
  search, and nodes until nothing is left.
- **Brute force**: all combinations of finitely many outcomes; quadrature over the first of two rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

Array = NDArray[np.float64]

_NATS = 36.0


@dataclass(frozen=True)
class Line:
    """log densities of P and Q on equally spaced x, and a change of scale log s in `across` more dimensions."""

    x: Array
    step: float
    log_p: Array
    log_q: Array
    across: int = 0
    log_scale: float = 0.0

    def log_mgf(self, theta: complex | float) -> complex:
        """log of the integral of p^(1-theta) q^theta over one round; the branch does not matter after exp(T .)."""
        exponent = (1.0 - theta) * self.log_p + theta * self.log_q
        top = float(np.max(exponent.real))
        total = np.sum(np.exp(exponent - top)) * self.step
        c = np.expm1(-2.0 * self.log_scale)
        # n/2 (theta log(1+c) - log(1+c theta)) for N(0, I) against N(0, s^2 I)
        scale = 0.5 * self.across * (-2.0 * theta * self.log_scale - _log1p(c * theta))
        return complex(top + np.log(total) + scale)


def _log1p(z: complex | float) -> complex:
    """log(1 + z), to the last digit of a small z: it is multiplied by 10^12 coordinates."""
    x, y = z.real, z.imag
    return complex(0.5 * np.log1p(x * (2.0 + x) + y * y), np.arctan2(y, 1.0 + x))


def normal(x: Array, mean: float = 0.0, scale: float = 1.0) -> Array:
    """log density of N(mean, scale^2)."""
    return np.asarray(-0.5 * ((x - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi))


def subsampled_gaussian(rate: float, sigma: float, reach: float = 30.0, points: int = 6_001) -> Line:
    """N(0, 1) against (1-q) N(0, 1) + q N(1/sigma, 1): one round of SGM."""
    return zero_pair(rate, sigma, 1.0, 1, reach, points)


def zero_pair(
    rate: float, sigma: float, scale: float, dimension: int, reach: float = 30.0, points: int = 6_001
) -> Line:
    """D all-zero, the new record's gradient C u: N(0, I) against (1-q) N(0, s^2 I) + q N(s u/sigma, s^2 I)."""
    # a step that is known to the last digit: its relative error is multiplied by the number of rounds
    x, step = np.linspace(-reach, reach + 1.0 / sigma, points, retstep=True)
    out = normal(x, 0.0, scale)
    log_q = out if rate == 0.0 else normal(x, scale / sigma, scale)
    if 0.0 < rate < 1.0:
        log_q = np.logaddexp(np.log1p(-rate) + out, np.log(rate) + log_q)
    return Line(x, float(step), normal(x), log_q, dimension - 1, float(np.log(scale)))


def delta(rounds: Sequence[tuple[int, Line]], epsilon: float, *, reverse: bool = False) -> float:
    """delta(epsilon) of the given counts of rounds, by the integral of this module's docstring."""

    def exponent(theta: complex | float) -> complex:
        tilt = theta * epsilon if reverse else (1.0 - theta) * epsilon
        return sum(count * line.log_mgf(theta) for count, line in rounds) + tilt

    # the end of the domain: 1 + c theta > 0
    c = max((np.expm1(-2.0 * line.log_scale) for _, line in rounds), key=abs)
    if reverse:
        most = 0.999 / c if c > 0.0 else 1e5
    else:
        most = 0.999 / -c - 1.0 if c < 0.0 else 1e5

    def at(excess: float) -> float:
        return -excess if reverse else 1.0 + excess

    def height(log_excess: float) -> float:
        theta = at(float(np.exp(log_excess)))
        return exponent(theta).real - np.log(abs(theta * (theta - 1.0)))

    scan = np.linspace(np.log(1e-3), np.log(most), 60)
    best = scan[int(np.argmin([height(s) for s in scan]))]
    found = minimize_scalar(height, bounds=(best - 0.4, min(best + 0.4, np.log(most))), method="bounded")
    excess = float(np.exp(found.x))
    line, peak = at(excess), exponent(at(excess)).real
    # the distance to the nearest pole, and the width of the bell, both in tau
    bend = 1e-3 * excess
    curvature = (exponent(line + bend).real + exponent(line - bend).real - 2.0 * peak) / bend**2
    step = min(excess / 8.0, 0.2 / np.sqrt(max(curvature, 1e-300)))
    total, node = 0.0, 0
    while True:
        theta = complex(line, (node + 0.5) * step)
        value = np.exp(exponent(theta) - peak) / (theta * (theta - 1.0))
        total += float(value.real)
        node += 1
        if abs(value) * node < np.exp(-_NATS) * abs(total) or node > 200_000:
            break
    return float(np.exp(peak) * total * step / np.pi)


def epsilon(rounds: Sequence[tuple[int, Line]], target: float, high: float, *, reverse: bool = False) -> float:
    """The epsilon <= high with delta(epsilon) = target."""
    goal = np.log(target)

    def miss(e: float) -> float:
        return float(np.log(delta(rounds, e, reverse=reverse)) - goal)

    return float(brentq(miss, 1e-6, high, xtol=1e-12, rtol=1e-12))


# ----------------------------------------------------------------------------------------------------- brute force


def all_outcomes(rounds: Sequence[tuple[int, Array, Array]]) -> tuple[Array, Array]:
    """P- and Q-masses of every combination of outcomes of `count` rounds of each (p, q)."""
    single = [(p, q) for count, p, q in rounds for _ in range(count)]
    p_all, q_all = np.ones(1), np.ones(1)
    for p, q in single:
        p_all, q_all = np.outer(p_all, p).ravel(), np.outer(q_all, q).ravel()
    return p_all, q_all


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    """sum of (q - e^eps p)_+ over all outcomes."""
    return float(np.sum(np.maximum(q - np.exp(epsilon) * p, 0.0)))


def two_subsampled_rounds(rate: float, sigma: float, epsilon: float) -> tuple[mpf, mpf]:
    """delta(eps) of two rounds of SGM in both directions: the first round by quadrature, the second in closed form.

    Given the first loss l the second has to reach eps - l, where delta of one round is (1-q) Id + q G: closed.
    """
    with mp.workdps(25):
        q, m, eps = mpf(rate), 1 / mpf(sigma), mpf(epsilon)

        def ratio(x: mpf) -> mpf:
            return 1 - q + q * mpmath.exp(m * x - m * m / 2)

        def where(e: mpf) -> mpf:
            # ratio(x) = e^e; below 1 - q there is no such x
            inner = (mpmath.exp(e) - (1 - q)) / q
            return (mpmath.log(inner) + m * m / 2) / m if inner > 0 else -mp.inf

        def tail(x: mpf, mean: mpf = mpf(0)) -> mpf:
            return mpmath.ncdf(mean - x) if mpmath.isfinite(x) else mpf(1)

        def one(e: mpf) -> mpf:
            # E_Q[(1 - e^(e - l))_+] = Q[l > e] - e^e P[l > e]
            x = where(e)
            return (1 - q) * tail(x) + q * tail(x, m) - mpmath.exp(e) * tail(x)

        def one_reverse(e: mpf) -> mpf:
            # P[l < -e] - e^e Q[l < -e]
            x = where(-e)
            below_p, below_q = 1 - tail(x), (1 - q) * (1 - tail(x)) + q * (1 - tail(x, m))
            return below_p - mpmath.exp(e) * below_q

        # kinks where the second round's threshold leaves its range
        kink = where(eps - mpmath.log(1 - q))
        ends = sorted({mpf(-14), mpf(-4), mpf(0), m, mpf(4) + m, 14 + m, *([kink] if mpmath.isfinite(kink) else [])})
        forward = mpmath.quad(lambda x: mpmath.npdf(x) * ratio(x) * one(eps - mpmath.log(ratio(x))), ends)
        kink = where(-eps - mpmath.log(1 - q))
        ends = sorted({mpf(-14), mpf(-4), mpf(0), m, mpf(4) + m, 14 + m, *([kink] if mpmath.isfinite(kink) else [])})
        backward = mpmath.quad(lambda x: mpmath.npdf(x) * one_reverse(eps + mpmath.log(ratio(x))), ends)
        return forward, backward


def sizes_and_records(count: int, rate: float) -> list[tuple[int, float]]:
    """(k, Bin(k; count, rate)) by the definition."""
    choose = [1.0]
    for k in range(count):
        choose.append(choose[-1] * (count - k) / (k + 1))
    return [(k, c * rate**k * (1.0 - rate) ** (count - k)) for k, c in enumerate(choose)]


def in_every_order(parts: Sequence[object]) -> list[tuple[object, ...]]:
    """All orders of a few parts."""
    return list(itertools.permutations(parts))


def mp_tilted(
    log_p: Callable[[mpf], mpf],
    log_q: Callable[[mpf], mpf],
    theta: object,
    low: mpf,
    high: mpf,
    *,
    width: object = 1,
    slope: object = 0,
) -> mpf:
    """The integral of p^(1-theta) q^theta by the trapezoidal rule in mpmath's precision.

    The integrands are analytic next to the real line and vanish at both ends; with a step of a ninth of their `width`, less where
    a loss of the given `slope` makes them oscillate, the error is e^(-18 pi d), d > 0.9 widths being how far the nearest
    singularity is.
    """
    t = mpmath.mpmathify(theta)
    nodes = int((high - low) * (9 / mpf(width) + abs(mpmath.im(t)) * slope)) + 1
    step = (high - low) / nodes
    points = (low + i * step for i in range(nodes + 1))
    return step * mpmath.fsum(mpmath.exp((1 - t) * log_p(x) + t * log_q(x)) for x in points)
