"""A subject that is asked something else than the prober asks, or whose releases are read otherwise; releases out of all size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.finding import Remark, Severity
from noisymean.probe.full import RECORDS, everyone
from noisymean.probe.records import BOUND, NOISE, Axes
from noisymean.targets.protocol import Knob, Raised, Request, Runnable

# squares of numbers that are larger, or of what they divide, are none
_LARGEST = 1e50


def as_it_is(run: Request) -> Request:
    """The same."""
    return run


@final
@dataclass(frozen=True, eq=False)
class Through(Runnable):
    """A subject whose requests go through `ask`, and whose releases through `read`."""

    subject: Runnable
    read: Callable[[Array, Request], Array]
    ask: Callable[[Request], Request] = as_it_is
    is_fast = True

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def knob(self) -> Knob:
        return self.subject.knob

    @property
    def unseen_randomness(self) -> str | None:
        return self.subject.unseen_randomness

    @property
    def is_loud(self) -> bool:
        """Whether its noise is built in, and taken out by running it twice."""
        return bool(getattr(self.subject, "is_loud", False))

    def run(self, run: Request) -> Array:
        return self.read(self.subject.run(self.ask(run)), run)


def of_usual_size(subject: Runnable, seed: int) -> tuple[Runnable, list[Remark]]:
    """The subject, its releases multiplied by a power of two where squares of them are nothing, or infinite."""
    if not subject.is_fast:
        return subject, []
    rows = Axes(RECORDS).gradients()
    try:
        found = subject.run(Request(everyone(subject), rows, NOISE, BOUND, 1, seed, alone=True))
    except Raised:
        # the rest of the probe says so
        return subject, []
    largest = float(np.abs(np.where(np.isfinite(found), found, 0.0)).max(initial=0.0))
    if largest == 0.0 or 1.0 / _LARGEST < largest < _LARGEST:
        return subject, []
    power = -math.frexp(largest)[1]
    words = f"what is released is about {largest:.2g} in size: it is read times 2^{power}, and so is the denominator"
    return Through(subject, lambda releases, _: np.ldexp(releases, power)), [Remark(Severity.NOTE, words)]
