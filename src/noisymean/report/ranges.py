"""A run as a range: the truth is from the leakage to the guarantee, and the claim is one point on the same scale.

A bar that starts at zero reads as an amount that is lost. Neither a lower nor an upper bound is such an amount, so what is drawn
is the range between the two, with a tick where the claim is: a tick left of the bar is a claim that is violated, a tick at its
right end or beyond it is one that holds. The geometry is data, for whatever draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from noisymean.accounts import Account
from noisymean.outward import lower_bound, upper_bound
from noisymean.verdict import Word
from noisymean.words import BEYOND_DOUBLES, NONE_KNOWN

# What a scale can begin with: less than that is drawn at its left end. It has at least so many decades between its numbers.
_LEAST, _LEAST_DECADES = 1e-6, 0.7
_MOST_POWER = 307.0


@final
@dataclass(frozen=True)
class Range:
    """What is known of one run at one delta (or epsilon), each number with its text, rounded to its own side."""

    label: str
    claimed: float | None
    # certainly lost: where the bar begins
    low: float | None
    # certainly not exceeded: where it ends; None: nothing is known, the bar is open
    high: float | None
    verdict: Word
    claimed_text: str
    low_text: str
    high_text: str

    @classmethod
    def of(cls, answer: Account, label: str = "") -> Range:
        """The range of an account, with four digits of each number."""
        claimed, low, high = map(answer.value, (answer.claimed, answer.leakage, answer.guarantee))
        return cls(
            label,
            claimed,
            low,
            high,
            answer.verdict,
            BEYOND_DOUBLES if claimed is None else upper_bound(claimed),
            BEYOND_DOUBLES if low is None else lower_bound(low),
            NONE_KNOWN if high is None else upper_bound(high),
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        """Those that are known."""
        return tuple(value for value in (self.claimed, self.low, self.high) if value is not None)


@final
@dataclass(frozen=True)
class Scale:
    """The axis that several ranges share, of powers: a claim and its range can be a factor of a thousand apart."""

    start: float
    end: float

    @classmethod
    def of(cls, ranges: Sequence[Range], *, left: float = 0.15, right: float = 0.2) -> Scale:
        """A share of the axis is left for words on either side; what is zero, or nearly, does not stretch it."""
        numbers = [value for one in ranges for value in one.numbers if value > _LEAST] or [1.0]
        least, largest = math.log10(min(numbers)), math.log10(max(numbers))
        decades = max(largest - least, _LEAST_DECADES)
        middle, whole = 0.5 * (least + largest), decades / (1.0 - left - right)
        start = middle - 0.5 * decades - left * whole
        return cls(10.0**start, 10.0 ** min(start + whole, _MOST_POWER))

    def inside(self, value: float | None) -> float:
        """Where a number is drawn; what is not known, or beyond the scale, at the end of it."""
        return self.end if value is None else min(max(value, self.start), self.end)
