r"""Both tails of the noncentral chi-square law, by one contour integral that suits every regime.

Notation. 2Y ~ noncentral chi-square with 2k degrees of freedom (`half_dof` k > 0) and noncentrality
2x (x >= 0). Its Laplace transform is closed, so with c > 1

    P[Y <= y] = 1/(2 pi i) \int_{c - i inf}^{c + i inf} exp(phi(S) - x - y) dS / (S - 1),
    phi(S) = y S + x/S - k log S,

and for 0 < c < 1 the same integral is -P[Y > y]. The saddle point S0 solves y = x/S0^2 + k/S0. We
integrate along the parabola S = S0 (1 + iu)^2, on which, with b = x/S0, v = iu and z = 1 + v,

    phi(S) - phi(S0) = growth(z) = b (z - 1/z)^2 + k (z^2 - 1 - 2 log z),
    dS/(S - p)       = (1/(v - w) + 1/(2 + v + w)) dv,          w = sqrt(p/S0) - 1,

which decays like a Gaussian for every k and x, has no cancellation, and puts the pole p at v = w in
closed form. The midpoint rule then converges geometrically; a pole closer to the path than the rule
can see is added back as its residue, 1/(1 + exp(2 pi |w| / h)). With tilt = log(S0/p) the size of the
integrand at the saddle, relative to the pole, is exp(L),

    L = -4 b sinh(tilt/2)^2 - k (tilt + expm1(-tilt)) <= 0,

so that everything is a function of (k, b, tilt): a caller who knows the tilt without cancellation gets
full *relative* accuracy, at one degree of freedom or 10^12, at noncentrality 0 or 10^20, at probability
one half or 10^-300. docs/numerics.md has the error analysis and the measurements.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from noisymean.numerics.logs import Array, log1mexp, log1pmx, x_minus_arctan

# |computed - exact| <= RELATIVE_ERROR * exact, for tails above 1e-300 (measured in docs/numerics.md).
RELATIVE_ERROR = 2e-12

# The rule's own error and the cut of the integrand are both exp(-_DECAY) of the integrand's peak.
_DECAY = 38.0
# Candidate half-widths of the strip in which the integrand is followed off the real axis.
_STRIPS = (0.85, 0.7, 0.5, 0.3)
# Outside of these an upper tail is below exp(-10^100) and a lower one below exp(-690 k): nothing is left to tell.
_TILTS = (-300.0, 690.0)
# Elements handled at once: keeps the (nodes x elements) work arrays inside the cache.
_BLOCK = 2048
# Elements of a block share their nodes when their curvatures agree to this factor.
_SHARED_NODES = 2.0


def saddle(half_dof: ArrayLike, x: ArrayLike, excess: ArrayLike) -> tuple[Array, Array]:
    """(b, tilt) of the tails at y = k + x + `excess`; the mean of Y is k + x, so `excess` is y's distance from it.

    Passing the distance and not y itself is what keeps the tilt accurate near the mean. y <= 0 gives tilt = inf.
    """
    k, x, excess = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (half_dof, x, excess)))
    y = k + x + excess
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(k * k + 4.0 * x * np.maximum(y, 0.0))
        near = np.log1p(-excess / (y * (1.0 + 2.0 * x / (k + root))))
        position = (k + root) / (2.0 * y)
        tilt = np.where(np.abs(near) < 0.5, near, np.log(position))
        # nothing is below 0, and nothing to speak of 10^100 times above the mean
        beyond = excess > 1e100 * (k + x)
        tilt = np.where(y > 0.0, np.where(beyond, -np.inf, tilt), np.inf)
        b = np.where((y > 0.0) & ~beyond, x / position, 0.0)
    return b, tilt


def log_tails(half_dof: ArrayLike, b: ArrayLike, *tilts: ArrayLike) -> list[tuple[Array, Array]]:
    """(log P[Y <= y], log P[Y > y]) for each tilt, in the saddle coordinates of this module's docstring.

    Several tilts are several poles on the same saddle: they share the integrand, so two laws that are exponential
    tilts of one another cost little more than one.
    """
    arrays = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (half_dof, b, *tilts)))
    shape = arrays[0].shape
    k, b, *poles = (a.ravel() for a in arrays)
    tilt = np.stack(poles)
    small = np.empty_like(tilt)
    for start in range(0, k.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        small[:, block] = _log_small_tails(k[block], b[block], tilt[:, block])
    other = log1mexp(np.minimum(small, 0.0))
    lower, upper = np.where(tilt > 0.0, small, other), np.where(tilt > 0.0, other, small)
    return [(low.reshape(shape), up.reshape(shape)) for low, up in zip(lower, upper, strict=True)]


def _log_small_tails(k: Array, b: Array, tilts: Array) -> Array:
    """log of the tail on the far side of the mean: the lower one where tilt > 0, else the upper one."""
    finite = np.isfinite(tilts).all(axis=0)
    tilts = np.where(finite, np.clip(tilts, *_TILTS), 0.5)
    step, reach = _step_and_reach(k, b)
    if np.max(step) < _SHARED_NODES * np.min(step):
        step = np.min(step, keepdims=True)
    nodes = int(np.ceil(np.max(reach / step)))
    u = (np.arange(nodes)[:, None] + 0.5) * step
    square = u * u
    inverse = 1.0 / (1.0 + square)
    shrink = square * inverse * inverse
    modulus = np.exp(-b * (shrink * (4.0 + square * (3.0 + square))) - k * (square + np.log1p(square)))
    phase = b * (2.0 * u * shrink * (2.0 + square)) + k * (2.0 * x_minus_arctan(u))
    real, imag = modulus * np.cos(phase), modulus * (u * np.sin(phase))
    result = np.empty_like(tilts)
    for row, tilt in enumerate(tilts):
        gap = np.expm1(-tilt)
        # Re[(1/(v - w) + 1/(2 + v + w)) (real + i imag)] at v = iu, with w(2 + w) = gap
        offset = square + gap
        integrand = ((square - gap) * real + (offset + 2.0) * imag) / (offset * offset + 4.0 * square)
        total = np.sum(integrand, axis=0) * (2.0 * step / np.pi)
        w = np.expm1(-0.5 * tilt)
        log_peak = -4.0 * b * np.sinh(0.5 * tilt) ** 2 + k * np.where(tilt > 1.0, -(tilt + gap), log1pmx(gap))
        result[row] = log_peak + np.log(np.where(tilt > 0.0, total, -total) + _residue(k, b, w, step, log_peak))
    return np.where(finite, result, -np.inf)


def _residue(k: Array, b: Array, w: Array, step: Array, log_peak: Array) -> Array:
    """What the midpoint rule misses of a pole near the path, relative to the integrand's peak.

    The strip in which the rule is followed ends where growth' = 2 pi / step; a pole beyond it is not enclosed.
    """
    z = 1.0 + w
    slope = 2.0 * np.abs(z - 1.0 / z) * (k + b * (1.0 + 1.0 / (z * z)))
    turns = 2.0 * np.pi * np.abs(w) / step
    enclosed = slope * step < 2.0 * np.pi
    exponent = np.where(enclosed, -(turns + log_peak), -np.inf)
    return np.exp(exponent) / (1.0 + np.exp(-turns))


def _step_and_reach(k: Array, b: Array) -> tuple[Array, Array]:
    """The widest step with error exp(-_DECAY), and the u beyond which the integrand is below that."""
    curvature = 4.0 * b + 2.0 * k
    step = np.zeros_like(k)
    for width in (*_STRIPS, np.minimum(0.5, np.sqrt(_DECAY / curvature))):
        z = 1.0 - width
        growth = b * (z - 1.0 / z) ** 2 - 2.0 * k * (log1pmx(-width) - 0.5 * np.square(width))
        step = np.maximum(step, 2.0 * np.pi * width / (_DECAY + growth))
    square = _DECAY / curvature
    for _ in range(4):
        decay = b * (4.0 + square * (3.0 + square)) / (1.0 + square) ** 2 + k * (1.0 + np.log1p(square) / square)
        square = _DECAY / decay
    return step, np.sqrt(square)
