r"""Which part of a sum is looked at, and where: layers, the tilt of each, and the ends of its window.

No one tilt is good for a sum of many small losses and a few large ones: one that is large enough for the many makes the few
explode. But the sum can be told apart by the largest loss of its rounds. With S_i the one-round law cut off above c_i, the law of
T rounds is S_0^T + (S_1^T - S_0^T) + ..., each term a measure of its own, with its own tilt, window, step and charges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.compose.grid.discretize import Atoms
from noisymean.compose.grid.grid_sum import log_weight
from noisymean.numerics.logs import Array

Parts = Sequence[tuple[int, Atoms]]
TiltedParts = list[tuple[int, Array, Array, float, float]]

# Mass that may be left outside of the window, as a share of Chernoff's bound at the tilt.
OUTSIDE = 1e-15
# Where delta falls off a cliff no tilt is steep enough; digits are left for one with which epsilon is good to five.
_STEEPEST = 1e6
SMALLEST_EPSILON = 0.01
_FACTORS = (4.0, 0.25, 1.5, 1.0 / 1.5, 1.1, 1.0 / 1.1, 1.02, 1.0 / 1.02)
_TILTS = (1e-6, 1e13)


@final
@dataclass(frozen=True, eq=False)
class Layer:
    """Sums of `rounds`, all below `top`, in which at least one loss is `cut` or larger; all of them without a cut."""

    rounds: Parts
    cut: float = -math.inf
    top: float = math.inf

    def of(self, rounds: Parts) -> Layer:
        """The same layer of other rounds."""
        return Layer([(count, loss.up_to(self.top)) for count, loss in rounds], self.cut, self.top)

    def tilted(self, theta: float) -> TiltedParts:
        """For each part: count, losses, tilted masses (they add up to 1), log mgf, and log of the mass from the cut on."""
        return [
            (count, loss.losses, loss.tilted(theta)[1], log_mgf, large)
            for (_, loss), (count, log_mgf, large) in zip(self.rounds, self._logs(theta), strict=True)
        ]

    def _logs(self, theta: float) -> list[tuple[int, float, float]]:
        """For each part: count, log mgf, and log of the tilted mass from the cut on."""
        logs = []
        for (count, loss), first in zip(self.rounds, self._firsts, strict=True):
            log_mgf = loss.log_mgf(theta)
            # of all there is, of nothing, or of a mass that may be too small to be written down
            large = 0.0 if first == 0 else -math.inf
            if 0 < first < loss.losses.size:
                # of a law without mass nothing is large
                large = min(loss.log_mgf(theta, first) - log_mgf, 0.0) if math.isfinite(log_mgf) else -math.inf
            logs.append((count, log_mgf, large))
        return logs

    @cached_property
    def _firsts(self) -> list[int]:
        return [int(np.searchsorted(loss.losses, self.cut)) for _, loss in self.rounds]

    def has_any(self) -> bool:
        """Whether there is a loss in it."""
        return any(loss.mass[np.searchsorted(loss.losses, self.cut) :].any() for _, loss in self.rounds)

    def log_mgf(self, theta: float) -> float:
        """log of the integral of e^(theta s) over this part of the sum."""
        logs = self._logs(theta)
        return sum(count * log_mgf for count, log_mgf, _ in logs) + log_share(
            [(count, large) for count, _, large in logs]
        )


def log_share(large: Sequence[tuple[int, float]]) -> float:
    """log of the tilted probability that at least one loss is large: of counts, and logarithms for one round."""
    if any(math.exp(one) == 1.0 for _, one in large):
        return 0.0
    most = float(np.logaddexp.reduce([math.log(count) + one for count, one in large]))
    if most < -40.0:
        # the sum of the probabilities is as good
        return most
    return math.log(-math.expm1(sum(count * math.log1p(-math.exp(one)) for count, one in large)))


@final
@dataclass(frozen=True)
class Window:
    """Where to look: the tilt, and the two further tilts whose Chernoff bounds fix the ends of the window."""

    theta: float
    below: float
    above: float

    def ends(self, layer: Layer) -> tuple[float, float]:
        """Losses beyond which the tilted sum has less than the share OUTSIDE of its mass on each side."""
        base, nats = layer.log_mgf(self.theta), -math.log(OUTSIDE)
        low = -(layer.log_mgf(self.theta - self.below) - base + nats) / self.below
        return low, (layer.log_mgf(self.theta + self.above) - base + nats) / self.above


def window_at_epsilon(layer: Layer, epsilon: float) -> Window:
    """The window for delta(epsilon); found on coarse cells, it serves all finer ones."""
    best = _descend(lambda tilt: chernoff(layer, tilt, epsilon))
    return window_around(layer, min(best, _STEEPEST / max(epsilon, SMALLEST_EPSILON)))


def window_around(layer: Layer, theta: float) -> Window:
    """The window for a given tilt."""
    base, nats = layer.log_mgf(theta), -math.log(OUTSIDE)
    below = _descend(lambda extra: (layer.log_mgf(theta - extra) - base + nats) / extra, _FACTORS[:4])
    above = _descend(lambda extra: (layer.log_mgf(theta + extra) - base + nats) / extra, _FACTORS[:4])
    return Window(theta, below, above)


def tilt_for(layer: Layer, log_delta: float) -> tuple[float, float]:
    """The tilt that makes Chernoff's bound on epsilon(delta) least, and that bound."""
    theta = _descend(lambda tilt: (chernoff(layer, tilt, 0.0) - log_delta) / tilt)
    return theta, max((chernoff(layer, theta, 0.0) - log_delta) / theta, 0.0)


def chernoff(layer: Layer, theta: float, epsilon: float) -> float:
    """log M(theta) - theta epsilon + log g(theta): at least log delta."""
    return layer.log_mgf(theta) - theta * epsilon + log_weight(theta)


def _descend(bound: Callable[[float], float], factors: Sequence[float] = _FACTORS) -> float:
    """A positive number near the minimum of `bound`, by factors; near is enough, every value is a valid bound."""
    best, x = bound(1.0), 1.0
    for factor in factors:
        # the last thousandth is not worth a tilt that leaves no digits
        while _TILTS[0] < x * factor < _TILTS[1] and (candidate := bound(x * factor)) < best - 1e-4 * max(
            abs(best), 1e-6
        ):
            best, x = candidate, x * factor
    return x


def layers_at(rounds: Parts, epsilon: float) -> list[Layer]:
    """The sum told apart by its largest loss, relative to the epsilon that is looked at."""
    top = max(float(loss.losses[-1]) for _, loss in rounds)
    cuts = [_FIRST_CUT * max(epsilon, _LEAST_CUT)]
    while cuts[-1] * _CUT_RATIO < top:
        cuts.append(cuts[-1] * _CUT_RATIO)
    cuts = [cut for cut in cuts if all(loss.losses[0] < cut for _, loss in rounds) and cut <= top]
    layers, below = [], -math.inf
    for cut in [*cuts, math.inf]:
        layer = Layer([(count, loss.up_to(cut)) for count, loss in rounds], below, cut)
        if layer.has_any():
            layers.append(layer)
        below = cut
    return layers


# The first layer has losses below so many epsilons, and each further one so many times larger ones.
_FIRST_CUT = 0.5
_CUT_RATIO = 4.0
_LEAST_CUT = 1e-6
