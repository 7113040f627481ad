"""The work that a question costs, counted: numbers that are transformed, and numbers at which a tail is looked up or worked out.

Nearly all of the time of a slow account goes to these. They are counted where they are asked for, so that the count is the same
on every machine and under every load: what a test of seconds is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy import fft

from noisymean.compose.engine import _found_slow
from noisymean.compose.grid.lattice import _looked_at
from noisymean.laws.across import TabulatedPair
from noisymean.laws.gaussian import GaussianPairs
from noisymean.runs import _guarantees, _of_drawn


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How many numbers of each kind were worked on; what was remembered of questions before is forgotten first."""
    for remembered in (_found_slow, _looked_at, _guarantees, _of_drawn):
        remembered.cache_clear()
    done = Counter[str]()

    def counting(kind: str, inner: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        def counted_one(*given: Any, **named: Any) -> Any:
            done[kind] += size(*given, **named)
            return inner(*given, **named)

        return counted_one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fft, "rfft", counting("transformed", fft.rfft, lambda x, *_, **__: int(np.size(x))))
        patch.setattr(fft, "irfft", counting("transformed", fft.irfft, lambda x, *_, **__: 2 * int(np.size(x))))
        read = counting("read off", TabulatedPair.probabilities, lambda _, t: int(np.size(t)))
        patch.setattr(TabulatedPair, "probabilities", read)
        tails = counting("closed", GaussianPairs.tails, lambda one, t: int(np.size(t)) * one.terms)
        patch.setattr(GaussianPairs, "tails", tails)
        yield done
