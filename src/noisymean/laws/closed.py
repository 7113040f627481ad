"""Laws whose curve is a formula: the identity, a Gaussian shift, and (epsilon, delta) itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri

from noisymean.errors import check_number, check_probability
from noisymean.numerics.chi_square import RELATIVE_ERROR
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Tails, TradeOff, checked


@final
@dataclass(frozen=True)
class Identity(TradeOff):
    """Id(alpha) = 1 - alpha: nothing leaks. The neutral element of the tensor product."""

    def tails(self, t: Array) -> Tails:
        above = np.where(np.asarray(t) < 0.0, 0.0, -np.inf)
        below = np.where(np.asarray(t) < 0.0, -np.inf, 0.0)
        return Tails(above, below, above, below)

    def _line(self, alpha: Array, *, rough: bool = False) -> tuple[Array, Array]:
        return 1.0 - alpha, np.zeros_like(alpha)

    def upper(self, alpha: ArrayLike) -> Array:
        return 1.0 - checked(alpha)

    def power(self, count: int) -> Identity:
        """The tensor power, again the identity."""
        return self


@final
@dataclass(frozen=True)
class Gaussian(TradeOff):
    """G_mu = T(N(0, 1), N(mu, 1)), the paper's Definition of mu-GDP."""

    mu: float

    def __post_init__(self) -> None:
        check_number("mu", self.mu, least=0.0)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        if self.mu == 0.0:
            return Identity().tails(t)
        with np.errstate(over="ignore"):
            z = t / self.mu
        half = 0.5 * self.mu
        return Tails(log_ndtr(-z - half), log_ndtr(z + half), log_ndtr(half - z), log_ndtr(z - half))

    def _line(self, alpha: Array, *, rough: bool = False) -> tuple[Array, Array]:
        value = ndtr(-ndtri(alpha) - self.mu)
        return value, RELATIVE_ERROR * value

    def upper(self, alpha: ArrayLike) -> Array:
        value, margin = self._line(checked(alpha))
        return np.clip(value + margin, 0.0, 1.0)

    def power(self, count: int) -> Gaussian:
        """G_mu tensored `count` times is G_{mu sqrt(count)}."""
        return Gaussian(self.mu * float(np.sqrt(count)))


@final
@dataclass(frozen=True)
class EpsilonDelta(TradeOff):
    """f_{eps,delta}(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)), the paper's Eq. 1.

    Its extreme pair has losses -inf, -eps, eps and +inf.
    """

    eps: float
    dlt: float = 0.0

    def __post_init__(self) -> None:
        check_number("epsilon", self.eps, least=0.0)
        check_probability("delta", self.dlt)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(divide="ignore"):
            infinite, finite = np.log(self.dlt), np.log1p(-self.dlt)
        odds = np.logaddexp(0.0, self.eps)
        likely, unlikely = finite + self.eps - odds, finite - odds
        high, low = t >= self.eps, t < -self.eps
        between = ~high & ~low
        pick = [high, between, low]
        return Tails(
            np.select(pick, [-np.inf, unlikely, finite]),
            np.select(pick, [0.0, np.logaddexp(infinite, likely), infinite]),
            np.select(pick, [infinite, np.logaddexp(infinite, likely), 0.0]),
            np.select(pick, [finite, unlikely, -np.inf]),
        )

    def power(self, count: int) -> EpsilonDelta | None:
        """Closed only at eps = 0: f_{0,delta} tensored is f_{0, 1-(1-delta)^count}."""
        if self.eps != 0.0:
            return None
        return EpsilonDelta(0.0, float(-np.expm1(count * np.log1p(-self.dlt))))
