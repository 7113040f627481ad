"""Mixtures of other laws: with the index revealed, and with the new record hidden among those that were not sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.cumulants import Cumulants
from noisymean.errors import check_number, check_probability
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.line_rule import LineCumulants, log_normal
from noisymean.numerics.chi_square import RELATIVE_ERROR
from noisymean.numerics.logs import Array, log_mean_exp, log_weighted_sum
from noisymean.tradeoff import Tails, TradeOff


@final
@dataclass(frozen=True)
class RevealedMixture(TradeOff):
    """T of two mixtures with the same weights whose index the attacker is told.

    The paper's Lemma "joint concavity" (one threshold for all components), equal to its Lemma "min over allocations"
    (the best split of alpha among them).
    """

    weights: tuple[float, ...]
    components: tuple[TradeOff, ...]

    def __post_init__(self) -> None:
        check_number("weights", self.weights, least=0.0)
        if len(self.weights) != len(self.components) or not self.weights:
            raise ValueError(
                f"weights={len(self.weights)}, components={len(self.components)}: give one weight for each"
            )
        if abs(sum(self.weights) - 1.0) > 1e-9:
            raise ValueError(f"weights={self.weights}: they must add up to 1")

    def tails(self, t: Array) -> Tails:
        parts = [component.tails(t) for component in self.components]
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(self.weights))
        return Tails(*(log_weighted_sum(logs, np.stack(side)) for side in zip(*parts, strict=True)))

    @property
    def slack(self) -> float:
        return float(sum(w * c.slack for w, c in zip(self.weights, self.components, strict=True)))

    @property
    def relative_error(self) -> float:
        return max(component.relative_error for component in self.components)

    @property
    def terms(self) -> int:
        return sum(component.terms for component in self.components)


@final
@dataclass(frozen=True)
class Subsampled(TradeOff):
    """(1 - rate) Id + rate f = T(P, (1-rate) P + rate Q): the index is *not* revealed.

    The likelihood ratio 1 - rate + rate L increases with L, so the optimal tests are those of f itself.
    """

    base: TradeOff
    rate: float

    def __post_init__(self) -> None:
        check_probability("rate", self.rate)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        if self.rate == 0.0:
            return Identity().tails(t)
        if self.rate == 1.0:
            return self.base.tails(t)
        # e^s = (e^t - (1 - rate))/rate; below log(1 - rate) every outcome is above the threshold
        floor = np.log1p(-self.rate)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            near = np.log1p(np.expm1(np.minimum(t, 30.0)) / self.rate)
            far = t - np.log(self.rate) + np.log1p(-np.exp(floor - np.maximum(t, 0.0)))
            s = np.where(t > 30.0, far, near)
        s = np.where(t > floor, np.nan_to_num(s, nan=-1e30, neginf=-1e30), -1e30)
        p_above, p_below, q_above, q_below = self.base.tails(s)
        # even a loss of -inf of the base is log(1 - rate) here
        everything = t < floor
        p_above, q_above = np.where(everything, 0.0, p_above), np.where(everything, 0.0, q_above)
        p_below, q_below = np.where(everything, -np.inf, p_below), np.where(everything, -np.inf, q_below)
        stay, move = floor, np.log(self.rate)
        return Tails(
            p_above,
            p_below,
            np.logaddexp(stay + p_above, move + q_above),
            np.logaddexp(stay + p_below, move + q_below),
        )

    @cached_property
    def cumulants(self) -> Cumulants | None:
        """Of the noisy sum, N(0, 1) against (1-q) N(0, 1) + q N(mu, 1); closed at q = 1."""
        if not isinstance(self.base, Gaussian) or self.rate == 0.0:
            return None
        mu, rate = self.base.mu, self.rate
        if rate == 1.0:
            return gaussian_pair(1, mu, 1.0).cumulants
        half = 0.5 * mu * mu
        odds = math.log(rate) - math.log1p(-rate) - half
        return LineCumulants(
            log_normal, lambda x: log_mean_exp(rate, mu * x - half), 0.0, 1.0, spread=mu, log_odds=odds
        )

    @property
    def slow_rounds(self) -> int:
        # while the record has hardly been sampled, the loss of all rounds has nearly an atom
        return int(0.3 / self.rate) if self.rate > 0.0 else 0

    def _line(self, alpha: Array, *, rough: bool = False) -> tuple[Array, Array]:
        value, margin = self.base._line(alpha, rough=rough)
        return (1.0 - self.rate) * (1.0 - alpha) + self.rate * value, self.rate * margin + RELATIVE_ERROR * (
            1.0 - alpha
        )

    @property
    def slack(self) -> float:
        return self.rate * self.base.slack

    @property
    def relative_error(self) -> float:
        return self.base.relative_error

    @property
    def terms(self) -> int:
        return self.base.terms
