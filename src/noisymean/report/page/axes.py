"""Ticks of an axis: few enough that their labels never meet, and written as people write numbers.

Plotly labels 2 and 5 between the powers of ten, and every second tenth on a short axis; on a low picture, or on a phone, they
run into each other. Here the ticks are chosen first and there are at most a handful of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from noisymean.written import plain, power

# Less than this is drawn as zero: whoever draws divides by the length of an axis.
SEEN = 1e-290
# On a log axis over less than this many powers of ten the powers alone would be too few.
_SHORT = 1.7
# From here on, or below, all labels of an axis are powers.
_LONG, _TINY = 1e5, 1e-3
# Every so many powers of ten have a tick.
_STRIDES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300)


def log_axis(low: float, high: float, most: int = 6) -> dict[str, Any]:
    """An axis of powers from `low` to `high`, both above 0."""
    ticks = log_ticks(low, high, most)
    powers = ticks[0] < _TINY or ticks[-1] >= _LONG
    texts = [_power(tick) if powers else plain(f"{tick:g}") for tick in ticks]
    span = [math.log10(low), math.log10(high)]
    return {"type": "log", "range": span, "tickvals": ticks, "ticktext": texts, "tickangle": 0}


def linear_axis(low: float, high: float, most: int = 6) -> dict[str, Any]:
    """An even axis from `low` to `high`."""
    ticks = linear_ticks(low, high, most)
    texts = [plain(f"{tick:.12g}") for tick in ticks]
    return {"type": "linear", "range": [low, high], "tickvals": ticks, "ticktext": texts, "tickangle": 0}


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten, every so many of them; on a short axis 2 and 5 times them, or even steps.

    >>> log_ticks(0.5, 500.0), log_ticks(3.0, 60.0), log_ticks(1e-60, 1.0, 4)
    ([1.0, 10.0, 100.0], [5.0, 10.0, 20.0, 50.0], [1e-60, 1e-40, 1e-20, 1.0])
    """
    first, last = math.log10(low), math.log10(high)
    decades = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
    if last - first >= _SHORT:
        stride = next(one for one in _STRIDES if one * most >= last - first)
        return [float(f"1e{exponent}") for exponent in decades if exponent % stride == 0]
    around = range(math.floor(first), math.ceil(last) + 1)
    ticks = [float(f"{digit}e{power}") for power in around for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if 2 <= len(ticks) <= most else linear_ticks(low, high, most)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """1, 2 or 5 times a power of ten apart.

    >>> linear_ticks(0.0, 7.2), linear_ticks(59_790, 60_200, 4)
    ([0.0, 2.0, 4.0, 6.0], [59800.0, 60000.0, 60200.0])
    """
    step = _nice((high - low) / most)
    digits = max(0, 1 - math.floor(math.log10(step)))
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, digits) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def around(values: Sequence[float], below: float, above: float, least: float = 0.5) -> tuple[float, float]:
    """Limits of a log axis: room on both sides of the values, in parts of their span of powers, which is `least` at least."""
    low, high = math.log10(min(values)), math.log10(max(values))
    span = max(high - low, least)
    # not beyond what a double holds
    return 10.0 ** max(low - below * span, -300.0), 10.0 ** min(high + above * span, 300.0)


def _nice(step: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step * (1.0 - 1e-9))


def _power(tick: float) -> str:
    """10⁻⁵, 2·10⁻⁵; 1 and 10 as they are."""
    digits, exponent = f"{tick:.6e}".split("e")
    if int(exponent) in (0, 1):
        return f"{tick:g}"
    raised = power(int(exponent))
    return raised if float(digits) == 1.0 else f"{float(digits):g}·{raised}"
