r"""The paper's visual estimate of its ceiling: a Berry-Esseen bound for f^(x)m (Dong, Roth and Su 2022, Theorem 5).

Notation. f = T(N(0,1), N(0,s^2)) with s = K/(K+1), loss l(z) = -log s - (c/2) z^2, c = s^-2 - 1, and the symmetric
bar f = max(f, f^-1). Let t* be the fixed point, 2 Phi(t*) - 1 = 2 - 2 Phi(t*/s). Left of it bar f is f, right of it
f^-1, so every functional of bar f is an integral over |z| <= t* under P of l and, weighted by e^l = dQ/dP, of -l:

    kl      = E[ l (e^l - 1) ],   kappa_2 = E[ l^2 (1 + e^l) ],   kappa_3 = E[ |l + kl|^3 + e^l |l - kl|^3 ]   (over |z| <= t*).

For m = n - 1 copies mu = 2 m kl / sqrt(m (kappa_2 - kl^2)), gamma = 0.56 m kappa_3 / (m (kappa_2 - kl^2))^1.5, and
bar f^(x)m(alpha) <= G_mu(alpha - gamma) + gamma on [gamma, 1 - gamma].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr

from noisymean.laws.closed import Gaussian
from noisymean.numerics.logs import Array

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
BERRY_ESSEEN = 0.56


@final
@dataclass(frozen=True)
class CentralLimit:
    """G_mu(alpha - gamma) + gamma, mixed with Id for ASGM; NaN outside [gamma, 1 - gamma]."""

    kl: float
    kappa2: float
    kappa3: float
    mu: float
    gamma: float
    rate: float = 1.0

    def __call__(self, alpha: ArrayLike) -> Array:
        alpha = np.asarray(alpha, dtype=np.float64)
        inside = (alpha >= self.gamma) & (alpha <= 1.0 - self.gamma) & (self.gamma < 0.5)
        value = np.full(alpha.shape, np.nan)
        bound = Gaussian(self.mu)(np.where(inside, alpha - self.gamma, 0.5)) + self.gamma
        value[inside] = (self.rate * bound + (1.0 - self.rate) * (1.0 - alpha))[inside]
        return value


def central_limit(step: float, copies: int, *, rate: float = 1.0) -> CentralLimit:
    """kl, kappa_2, kappa_3, mu and gamma for `copies` of bar f at K = `step`; `rate` is the weight of the curve against Id."""
    inverse = 1.0 / step
    log_scale = -float(np.log1p(inverse))
    c = inverse * (2.0 + inverse)
    # fixed point of f: alpha = f(alpha)
    fixed = float(brentq(lambda t: ndtr(t) + ndtr(t * (1.0 + inverse)) - 1.5, 0.0, 5.0, xtol=1e-15))

    def integral(function: Array, low: float, high: float) -> float:
        return float(function @ _WEIGHTS) * 0.5 * (high - low)

    def on(low: float, high: float) -> tuple[Array, Array]:
        z = low + 0.5 * (high - low) * (_NODES + 1.0)
        return -log_scale - 0.5 * c * z * z, np.exp(-0.5 * z * z) * np.sqrt(2.0 / np.pi)

    loss, density = on(0.0, fixed)
    kl = integral(loss * np.expm1(loss) * density, 0.0, fixed)
    kappa2 = integral(loss**2 * (1.0 + np.exp(loss)) * density, 0.0, fixed)
    # |l - kl| has a kink where l = kl, |l + kl| where l = -kl; integrate each side of it
    kinks = [float(np.sqrt(2.0 * (-log_scale - level) / c)) for level in (kl, -kl) if level < -log_scale]
    edges = sorted({0.0, fixed, *(kink for kink in kinks if 0.0 < kink < fixed)})
    kappa3 = 0.0
    for low, high in pairwise(edges):
        loss, density = on(low, high)
        kappa3 += integral((np.abs(loss + kl) ** 3 + np.exp(loss) * np.abs(loss - kl) ** 3) * density, low, high)
    variance = copies * (kappa2 - kl * kl)
    return CentralLimit(
        kl=kl,
        kappa2=kappa2,
        kappa3=kappa3,
        mu=2.0 * copies * kl / float(np.sqrt(variance)),
        gamma=BERRY_ESSEEN * copies * kappa3 / variance**1.5,
        rate=rate,
    )
