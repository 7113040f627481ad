"""A target whose adversary sees where each release is centred, cheap, and with a claim that is the whole truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from scipy.stats import chi2

from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Centre, Known, Neighbour
from noisymean.tradeoff import Tails, TradeOff


@final
@dataclass(frozen=True, kw_only=True)
class Scales:
    """Noise of scale 1 on D and of scale `ratio` on D', about a mean, and a batch that moves it along `moving` axes."""

    numbers: int = 60
    moving: int = 5
    ratio: float = 1.0
    steps: int = 1
    name: str = "scales"

    @property
    def dimension(self) -> int:
        return self.numbers

    def configuration(self) -> Mapping[str, Any]:
        return {"target": "scales", **asdict(self)}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Scales:
        return cls(**{name: value for name, value in configuration.items() if name != "target"})

    def known(self) -> Known | None:
        return None

    def claim(self) -> TradeOff:
        """Of one step: what is moved by the batch says nothing, and of the rest the length is sufficient."""
        return Lengths(self.numbers - self.moving, self.ratio)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        scale = self.ratio if neighbour is Neighbour.LARGER else 1.0
        noise = scale * generator.standard_normal((trials, self.steps, self.numbers))
        batch = 40.0 * generator.standard_normal((trials, self.steps, self.moving)) @ self._directions
        return np.asarray(self._mean + noise + batch)

    def centres(self, outputs: Array) -> Iterator[Centre]:
        for _ in outputs:
            yield Centre(self._mean, self._directions)

    @property
    def _mean(self) -> Array:
        return 7.0 * np.random.default_rng(1).standard_normal(self.numbers)

    @property
    def _directions(self) -> Array:
        rows = np.random.default_rng(2).standard_normal((self.numbers, self.moving))
        return np.asarray(np.linalg.qr(rows)[0].T)


@final
@dataclass(frozen=True)
class Lengths(TradeOff):
    """T(P, Q) for |x|^2 of m normal numbers of scale 1 and of scale r >= 1: log dQ/dP = |x|^2 (1 - r^-2) / 2 - m log r."""

    numbers: int
    ratio: float

    def tails(self, t: Array) -> Tails:
        if self.ratio == 1.0:
            above, below = np.where(t < 0.0, 0.0, -np.inf), np.where(t < 0.0, -np.inf, 0.0)
            return Tails(above, below, above, below)
        square = self.ratio**2
        length = np.maximum(2.0 * (t + self.numbers * math.log(self.ratio)) / (1.0 - 1.0 / square), 0.0)
        mine, other = chi2(self.numbers), chi2(self.numbers, scale=square)
        return Tails(mine.logsf(length), mine.logcdf(length), other.logsf(length), other.logcdf(length))
