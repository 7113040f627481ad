"""Rates that Opacus 1.x can sample at: 1/L, the length of a data loader, which it reads back as int(1/(1/L)).

For some L that is L - 1 (93, 99, 105, ...), and the accountant is then told another rate than the sampler has.
"""

from __future__ import annotations

import math
from fractions import Fraction


def is_recovered(length: int) -> bool:
    """Whether Opacus finds the length again in floating point."""
    return int(1 / (1 / length)) == length


def steps_at_most(rate: Fraction) -> int:
    """The least L that is recovered and whose rate 1/L is no larger than `rate`: what holds at `rate` holds at it too.

    >>> steps_at_most(Fraction(256, 3125)), steps_at_most(Fraction(1, 93)), steps_at_most(Fraction(1))
    (13, 94, 1)
    """
    length = math.ceil(1 / rate)
    while not is_recovered(length):
        length += 1
    return length
