r"""Rounds added up by FFT, with everything that can go wrong inside the bound.

The masses q_j of each round are tilted, q_j e^(theta l_j)/M(theta), before the transform and untilted after it, so that the
part of the sum that decides delta sits in the middle of the window with full *relative* precision. With S the sum, M its total
moment generating function and p_theta the tilted law of S, for any eps and any theta >= 0

    delta(eps) = M e^(-theta eps) * sum over s > eps of p_theta(s) e^(-theta (s-eps)) (1 - e^(eps-s))   +  mass at infinity.

The weights in the sum are at most g(theta) = theta^theta/(1+theta)^(1+theta) <= 1, so M(theta) e^(-theta eps) g(theta) bounds
delta (Chernoff), and the theta that makes it least is the one to use.

The losses of a round lie on no grid: most may be of order 1e-8 and those that decide delta of order 1. Their transform is
exact (module `spectrum`), so is its power, and the sum is put on a grid once, not T times:

- **Above**: S and a Gaussian mechanism of mu = v, a little more than two steps, and split to grid points: delta_v.
- **Below**: 2 delta_v - delta_(cv), c = 2.35, likewise split: what cv adds is more than twice what v and the splitting add.

Both are off by O(step^2). Charged, as shares of M e^(-theta eps): what falls outside of the window or wraps around into it
(Chernoff again), what the Gaussian has beyond the highest frequency, and the rounding of the transforms (proof:
docs/accountant.md). No mass is ever repaired: a negative value stays what it is.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from noisymean.compose.grid.grid_sum import GridSum
from noisymean.compose.grid.spectrum import (
    SMOOTH,
    aliased,
    frequencies,
    gaussian_kernel,
    splitting_kernel,
    transform,
)
from noisymean.compose.grid.window import (
    OUTSIDE,
    SMALLEST_EPSILON,
    Layer,
    TiltedParts,
    Window,
    log_share,
    window_around,
)
from noisymean.numerics.logs import Array, ComplexArray, log1p_complex
from noisymean.tradeoff import Side

_ULP = 2.3e-16
# How much wider than the Gaussian that is added the second one is.
_WIDER = 2.35
# The proof that the lower side is one needs v <= 0.2.
_WIDEST_STEP = 0.2 / SMOOTH
# The largest product of the tilt and the deviation.
_STEEPEST = 2.0
# Deviations of the Gaussian within the window.
_REACH = 9.0
# Points of the transform for one of `size`, least and most, and the width of the bracket that is aimed at.
_POINTS = (2, 16)
_AIM = 5e-5
# delta falls by so many nats over its epsilon, if that is not smaller than can matter.
_FALLS = 5.0
_LEAST_SCALE = 1e-5
_MOST_POINTS = 1 << 20
# A margin of so many points is never too wide.
_LEAST_MARGIN = 1 << 10
# Twice the largest exponent of the smoothing Gaussian's weight.
_HEAVIEST = 600.0


def composed(layer: Layer, window: Window, size: int, side: Side, epsilon: float, weight: float = 1.0) -> GridSum:
    """One layer of the sum in the given window, to the stated side, good for values near `epsilon`.

    `weight` is the share of delta that it may have: what has little need not be known as well.
    """
    while True:
        theta = window.theta
        low, high = window.ends(layer)
        if not math.isfinite(high - low):
            # losses that no float holds apart: there is nothing to put anywhere
            return without_points(layer, theta)
        step = _step(high - low, theta, epsilon, size, weight, math.inf if side is Side.ABOVE else _WIDEST_STEP)
        deviation = SMOOTH * step
        # tilted by more than its deviation the Gaussian would outweigh the sum, or what a double holds
        steepest = min(_STEEPEST, _HEAVIEST / deviation) / deviation
        if theta <= steepest:
            break
        window = window_around(layer, 0.5 * steepest)
    wider = _WIDER * deviation if side is Side.BELOW else deviation
    margin = math.ceil((_REACH * wider + (0.5 + theta) * wider**2) / step) + 2
    if margin * step > max(high - low, _LEAST_MARGIN * step) or (side is Side.BELOW and step > _WIDEST_STEP):
        # a Gaussian wider than all that it smooths shows nothing: Chernoff's bound is one, and nothing is a lower bound too
        return without_points(layer, theta)
    parts = layer.tilted(theta)
    share = math.exp(log_share([(count, large) for count, *_, large in parts]))
    width = fft.next_fast_len(math.ceil((high - low) / step) + 2 * margin, real=True)
    w = frequencies(width)
    sign = 1.0 if side is Side.ABOVE else -1.0
    spectrum, offset, of_spectra = _power(parts, layer.cut, step, w, width, sign)
    start = math.floor((low - offset) / step) - margin
    split, narrow = splitting_kernel(w, step, theta), gaussian_kernel(w, step, theta, deviation)
    if side is Side.ABOVE:
        kernel, scale = narrow, abs(narrow[0])
    else:
        wide = gaussian_kernel(w, step, theta, wider)
        kernel, scale = 2.0 * narrow - wide, 2.0 * abs(narrow[0]) + abs(wide[0])
    scale *= abs(split[0])
    tilted_sum = np.roll(fft.irfft(spectrum * kernel * split, n=width), -start)
    last = 3.0 * math.sqrt(width) * math.log2(width) * _ULP * float(np.linalg.norm(tilted_sum))
    losses = offset + step * (start + np.arange(width))
    # positions are rounded too: all of them are moved to their side, with the masses that they had
    slip = sign * 8.0 * _ULP * (float(np.max(np.abs(losses))) + abs(offset))
    # and so are exponents, in tilted masses and in M alike
    of_masses, of_mgf = 0.0, 0.0
    for count, one, mass, log_mgf, _ in parts:
        rounded = 8.0 * _ULP * count * (1.0 + np.abs(theta * one) + abs(log_mgf)) * mass
        large = one >= layer.cut
        of_masses += float(share * np.sum(rounded[~large]) + np.sum(rounded[large]))
        of_mgf += float(np.sum(rounded))
    return GridSum(
        losses=losses + slip,
        step=step,
        tilted=tilted_sum,
        theta=theta,
        log_mgf=sum(count * log_mgf for count, _, _, log_mgf, _ in parts) + theta * slip,
        share=share,
        error=of_mgf,
        charge=scale * (share * (2.0 * OUTSIDE + 1e-18 + aliased(width, SMOOTH)) + of_masses + of_spectra) + last,
    )


def without_points(layer: Layer, theta: float) -> GridSum:
    """Chernoff's bound from above, and nothing from below: where a layer is not worth a grid."""
    return GridSum(np.zeros(0), 1.0, np.zeros(0), theta, layer.log_mgf(theta), 1e-6, 1.0)


def _power(
    parts: TiltedParts, cut: float, step: float, w: Array, width: int, sign: float
) -> tuple[ComplexArray, float, float]:
    """Transform of the layer's tilted law, from an offset on, and the Euclidean norm of its error once it is smoothed.

    Each loss is moved by its rounding, up or down as `sign` says.
    With phi = inner + large for each part: the product of phi^count, less that of inner^count where there is a cut.
    """
    log_total, log_ratio = np.zeros(w.size, dtype=np.complex128), np.zeros(w.size, dtype=np.complex128)
    offset, errors = 0.0, []
    share = math.exp(log_share([(count, large) for count, *_, large in parts]))
    layered = not math.isinf(cut)
    for count, losses, mass, _, _ in parts:
        # most of the mass of a round is next to its median
        center = float(losses[np.searchsorted(np.cumsum(mass), 0.5)])
        large = (losses >= cut) & layered
        moved = losses + sign * 8.0 * _ULP * (np.abs(losses) + abs(center))
        distance = (moved - center) / step
        inner = transform(distance[~large], mass[~large], width, less_total=True)
        # phi - 1, where the masses of both add up to 1
        psi, of_large, largest = inner.values, 0.0, inner.largest
        if layered:
            outer = transform(distance[large], mass[large], width, less_total=False)
            psi = psi + (outer.values - float(np.sum(mass[large])))
            of_large = outer.error
            largest += outer.largest
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = -outer.values / (1.0 + psi)
            log_ratio += count * log1p_complex(ratio.real, ratio.imag)
        log_one = log1p_complex(psi.real, psi.imag)
        log_total += count * log_one
        offset += count * center
        rounding = 4.0 * _ULP * min(1.0, float(np.max(np.abs(psi))))
        errors.append((count, inner.error + rounding, of_large, largest + rounding, log_one.real))
    if layered and sum(count for count, *_ in parts) == 1:
        # one round with a large loss is that loss
        return outer.values, offset, of_large * math.sqrt(width)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.exp(log_total)
        if layered:
            without = np.exp(log_total + log_ratio)
            near = np.abs(log_ratio) < 0.5
            close = np.where(near, log_ratio, 0.0)
            total = np.where(near, -total * np.expm1(close), total - np.where(np.isfinite(without), without, 0.0))
        # without a cut, errors of phi count as phi^(count - 1) says; with one, their share does, but for frequencies where the
        # difference was taken directly
        plain = ~near if layered else np.ones(w.size, dtype=bool)
    norm = 0.0
    for count, of_inner, of_large, _, one_size in errors:
        # (|phi| + e)^(count-1) <= max(|phi|, 1/2)^(count-1) e^(2 count e)
        others = log_total.real - count * one_size + (count - 1) * np.maximum(one_size, -math.log(2.0))
        size = math.sqrt(2.0 * float(np.sum(np.exp(np.minimum(2.0 * others[plain], 0.0)))))
        norm += count * (of_inner + of_large) * size
        norm += count * (share * of_inner + of_large) * math.sqrt(width) if layered else 0.0
    growth = math.exp(min(2.0 * sum(count * largest for count, _, _, largest, _ in errors), 700.0))
    return total, offset, growth * norm + 8.0 * _ULP * math.sqrt(width) * share


def _step(length: float, theta: float, epsilon: float, size: int, weight: float, widest: float) -> float:
    """The step with which epsilon is off by no more than is aimed at: 1.7 v^2 times a rate at which delta may fall there."""
    rate = 1.0 + theta + _FALLS / max(epsilon, _LEAST_SCALE)
    aim = math.sqrt(_AIM * max(epsilon, SMALLEST_EPSILON) / (1.7 * SMOOTH**2 * rate * weight))
    least = max(_POINTS[0] * math.sqrt(weight), _POINTS[0] / 16)
    finest = length / (_POINTS[1] * size)
    # however little it weighs, the Gaussian must not outweigh it
    step = min(max(aim, finest), length / (least * size), widest, max(0.5 * _STEEPEST / (SMOOTH * theta), finest))
    return max(step, length / _MOST_POINTS)
