r"""From what is left of a run to its denominator: an interval with a stated confidence, and the likelihood of any one.

The rest has variance v = s^2 (1 + kappa) at nu degrees of freedom, with s = sigma C / c. What is left of the sums S_t makes
kappa, which is not negative, and at most

    kappa <= b / (n sigma^2)  +  phi,      phi = lr C G b / (c n (1 - mu)).

The first: a batch that is drawn varies by a covariance of trace sum_i q (1 - q) |g_i|^2 <= b C^2, with b its expected size. The
second, phi: the noise of a step moves the weights, and these the gradients of the next ones, by the curvature of what is
minimised. Of clipped gradients that curvature has a trace of about C times their length before clipping; G = 10 is allowed for
that. Where the mean is curved the other way noise of earlier steps is missing instead of doubled: phi counts in both directions,
and so does the rounding of weights, which may swallow as much as it adds. So there are two statements, each by itself:

    s^2              <= (v + rounding) (1 + phi) / chi2(nu; a)   c is at least ...
    s^2 (1 + kappa)  >= (v - rounding) / chi2(nu; 1 - a)         c is at most ...

The second is asked of the slower and of the faster half of the waves, and the larger c is taken: it is enough that kappa is what
it is said to be in one of them. Gradients that swing to and fro are in the faster one, and look like noise in the whole.

Each is given a quarter of what the confidence leaves, and not the half that would be enough if all were exactly normal. Between
the two nothing tells one c from another: the likelihood is flat there, and falls like that of a chi-square variable outside.
Who has not told b has told that it is the denominator itself, rounded down or not: b < c + 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np
from scipy import special

from noisymean.errors import Undefined, check_number
from noisymean.finished.optimizers import Descent
from noisymean.finished.spectrum import Rest, Spectrum


class Doubt(Enum):
    """Why a run has no one denominator that could be told."""

    VARIES = "varies"
    FOLLOWED = "followed"
    RESTLESS = "restless"
    UNEVEN = "uneven"


@final
@dataclass(frozen=True)
class Quiet:
    """A tensor with so many times the noise of the whole."""

    tensor: str
    ratio: float


# Steps of another noise, or noise that is undone, are seen by chance in one run of a million; the other doubts in one of 1,000.
_LEVEL = 1e-6
_UNEVEN = 1e-3
# Gradients in more directions than this share of all that can be told apart hide as much again in those that cannot.
_MOST_DIRECTIONS = 1 / 3
# The mean length of gradients before they are clipped is taken to be no larger.
LONGEST_GRADIENT = 10.0
# Above these the rounding of weights is no longer small and independent.
_MOST_ROUNDING, _MOST_ZEROS = 0.05, 0.2


@final
@dataclass(frozen=True, kw_only=True)
class Told:
    """What is taken on trust."""

    noise_multiplier: float
    max_grad_norm: float
    # the expected size of a batch, if it is not the denominator
    batch: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_number(
            "noise_multiplier", self.noise_multiplier, least=1e-6, most=1e9, remedy="without noise none is seen"
        )
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        check_number("confidence", self.confidence, least=0.6, most=1.0 - 1e-9)

    @property
    def deviation(self) -> float:
        """That of the noise in the sum."""
        return self.noise_multiplier * self.max_grad_norm


@final
@dataclass(frozen=True)
class Denominator:
    """What a run tells about its denominator c."""

    told: Told
    rest: Rest
    # the whole, and its halves
    parts: tuple[Rest, ...]
    parameters: int
    # the part of the variance that rounding may have added
    rounding: float
    # phi, where a batch has as many records as it is divided by
    each_feedback: float

    def _batch(self, c: float) -> float:
        return c + 1.0 if self.told.batch is None else self.told.batch

    def spread(self, c: float) -> float:
        """The variance of the batches is at most so many times that of the noise."""
        return self._batch(c) / (self.parameters * self.told.noise_multiplier**2)

    def feedback(self, c: float) -> float:
        """At most this share of the noise comes back through the weights, or is undone by them."""
        return self.each_feedback * self._batch(c) / c

    def besides(self, c: float) -> float:
        """All that may be in the rest besides noise, over the noise."""
        return self.spread(c) + self.feedback(c)

    def degrees(self, rest: Rest, c: float) -> float:
        """Those of the rest if the spread of the batches is in it: no direction of it is larger than those taken out."""
        kappa = self.spread(c)
        return rest.degrees / (1.0 + 2.0 * kappa + 2.0 * kappa * math.sqrt(self.parameters / rest.rows))

    @property
    def _level(self) -> float:
        return (1.0 - self.told.confidence) / 4.0

    @property
    def bare(self) -> float:
        """c if the rest were noise alone: the least that is likely, as gradients only add to it."""
        return self.told.deviation / math.sqrt(self.rest.variance)

    @property
    def at_least(self) -> float:
        c = self.bare
        # less c is more feedback, and so less c: each turn ends lower, and above the fixed point
        for _ in range(200):
            before, c = c, self.bare * math.sqrt(_quantile(self.rest.degrees, self._level) / self._missing(c))
            if abs(c - before) <= 1e-12 * c:
                break
        return c

    def _missing(self, c: float) -> float:
        """The noise is at most so many times the rest."""
        return (1.0 + self.rounding / self.rest.variance) * (1.0 + self.feedback(c))

    @property
    def at_most(self) -> float:
        return max(self._at_most(one) for one in self.parts)

    def _at_most(self, rest: Rest) -> float:
        c = self.told.deviation / math.sqrt(rest.variance)
        # the spread grows with c, slower than c^2: each turn ends higher, and below the fixed point
        for _ in range(200):
            high = _quantile(self.degrees(rest, c), 1.0 - self._level)
            square = self.told.deviation**2 * high * (1.0 + self.besides(c)) / (rest.variance - self.rounding)
            before, c = c, math.sqrt(square)
            if abs(c - before) <= 1e-12 * c:
                break
        return c

    def log_likelihood(self, c: float) -> float:
        """Relative to the most likely, so never above 0."""
        square = (self.told.deviation / c) ** 2
        low = square / (self.rest.variance * self._missing(c))
        if low > 1.0:
            return _log_density(self.rest.degrees, low)
        return max(self._log_of_less(one, square, c) for one in self.parts)

    def _log_of_less(self, rest: Rest, square: float, c: float) -> float:
        """As far as this part tells it, of noise that is smaller than what was seen."""
        high = square * (1.0 + self.besides(c)) / (rest.variance - self.rounding)
        return _log_density(self.degrees(rest, c), high) if high < 1.0 else 0.0


def denominator(seen: Spectrum, told: Told, descent: Descent, every: int) -> Denominator:
    """What was seen, with what is told; complains where it does not tell a denominator."""
    rest = seen.rest()
    if seen.zero_share > _MOST_ZEROS or seen.rounding > _MOST_ROUNDING * rest.variance:
        raise Undefined(
            "checkpoints", f"{seen.zero_share:.0%} of all updates are lost in rounding", "of weights finer than the noise",
            "store them in single precision",
        )  # fmt: skip
    returned = feedback_of(descent, every, told)
    return Denominator(told, rest, (rest, *seen.halves()), seen.parameters, seen.rounding, returned / seen.parameters)


def feedback_of(descent: Descent, every: int, told: Told) -> float:
    """At most so many numbers' worth of noise comes back through the weights, from as many records as it is divided by."""
    reach = descent.learning_rate * every / (1.0 - descent.momentum)
    return LONGEST_GRADIENT * told.max_grad_norm * reach


def quiet_tensor(seen: Spectrum, found: Denominator) -> Quiet | None:
    """The tensor that moves less than the noise of the largest c would make it; None if there is none.

    Each tensor has the noise and more, so each says how large c is at least. Where that is above the interval, what is taken for
    granted is wrong: a buffer is among the tensors, or learning rates differ, or gradients are in the rest of the others.
    """
    least = (found.told.deviation / found.at_most) ** 2
    worst: Quiet | None = None
    for name, (energy, size) in seen.tensors.items():
        degrees = float(seen.rows * size)
        low = _quantile(degrees, _UNEVEN / len(seen.tensors)) / (
            1.0 + found.feedback(found.at_least) * seen.parameters / size
        )
        variance = energy / degrees
        if variance + found.rounding < low * least and (worst is None or variance < worst.ratio * found.rest.variance):
            worst = Quiet(name, variance / found.rest.variance)
    return worst


def doubt_about(seen: Spectrum, found: Denominator) -> Doubt | None:
    """What speaks against one denominator, and against what the interval takes for granted."""
    if is_followed(seen, found):
        return Doubt.FOLLOWED
    if not is_steady(seen, found):
        return Doubt.VARIES
    if is_restless(seen, found):
        return Doubt.RESTLESS
    return None if quiet_tensor(seen, found) is None else Doubt.UNEVEN


def is_steady(seen: Spectrum, found: Denominator) -> bool:
    """Whether the noise is the same in all steps, but for what chance and the spread of the batches do to them."""
    relative = _relative(seen)
    spread = max(found.spread(found.bare), _whole(seen) / found.rest.variance - 1.0)
    allowed = 2.0 / seen.parameters + 2.0 * spread**2
    statistic = float(np.sum((relative - 1.0) ** 2)) / allowed
    return float(special.gammaincc(seen.steps / 2.0, statistic / 2.0)) >= _LEVEL


def is_restless(seen: Spectrum, found: Denominator) -> bool:
    """Whether more was taken out of the fast waves than batches explain: then the expected gradient moves fast itself.

    What it has in the directions that were taken out it may have in others as well, and of those nothing is known. Batches that
    differ in one direction only have a chi-square variable there, with a degree of freedom for each wave; in more, less chance.
    """
    taken_out = _whole(seen) / found.rest.variance - 1.0
    most = _quantile(float(seen.rows), 1.0 - _UNEVEN) * found.besides(found.at_most)
    return taken_out > most or found.rest.directions > _MOST_DIRECTIONS * min(seen.rows, seen.parameters)


def is_followed(seen: Spectrum, found: Denominator) -> bool:
    """Whether later gradients undo more of the noise than is allowed for, which makes the rest larger than the noise.

    A gradient that pulls each weight back with a strength e undoes the noise below the frequency e: a slow wave of frequency w
    lacks at most a share e / 2w of it, momentum or not. With all that is allowed, phi n, shared out among the directions as it
    likes, a wave lacks phi / 2w.
    """
    rows = len(seen.slow_rows)
    feedback = found.feedback(found.at_least)
    noise = found.rest.variance * (1.0 - 6.0 * math.sqrt(2.0 / found.rest.degrees)) / (1.0 + feedback)
    chance = _quantile(float(seen.parameters), _LEVEL / rows)
    kept = np.maximum(1.0 - feedback / (2.0 * seen.frequencies), 0.0)
    return bool(np.any(seen.slow_rows / seen.parameters < noise * chance * kept))


def by_step(seen: Spectrum, told: Told) -> tuple[float, float]:
    """The least and the largest denominator of a single step, as the energy of each step has it."""
    each = told.deviation / np.sqrt(_whole(seen) * _relative(seen))
    return float(each.min()), float(each.max())


def _whole(seen: Spectrum) -> float:
    """The mean square with nothing taken out."""
    return float(np.trace(seen.gram)) / (seen.rows * seen.parameters)


def _relative(seen: Spectrum) -> np.ndarray:
    each = seen.each_step / seen.shares
    return np.asarray(each / each.mean())


def _quantile(degrees: float, level: float) -> float:
    """That of a chi-square variable over its degrees of freedom."""
    return 2.0 * float(special.gammaincinv(degrees / 2.0, level)) / degrees


def _log_density(degrees: float, ratio: float) -> float:
    """Log-likelihood of a variance that is `ratio` times the observed one, relative to that one."""
    return -0.5 * degrees * (math.log(ratio) + 1.0 / ratio - 1.0)
