"""What recognises each rule.

opacus_calls  make_private and what it is handed
deltas        delta, where it is computed
loaders       batches: how they are drawn, and of what size
skips         steps that are left out
accounts      what is accounted for, and how batches are drawn
libraries     the other libraries
denominators  what a noisy mean is divided by, in code of one's own
scales        the scale of the noise beside that of the gradients
steps         clipping and noise
followed      what a step does to its arrays, statement by statement
seeds         the seeds of the noise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import (
    accounts,
    deltas,
    denominators,
    followed,
    libraries,
    loaders,
    opacus_calls,
    scales,
    seeds,
    skips,
    steps,
)
from noisymean.lint.script import Script

Looks = Callable[[Script], Iterator[Finding]]
EACH: tuple[Looks, ...] = (
    *opacus_calls.EACH,
    *deltas.EACH,
    *loaders.EACH,
    *skips.EACH,
    *accounts.EACH,
    *libraries.EACH,
    *denominators.EACH,
    *scales.EACH,
    *steps.EACH,
    *followed.EACH,
    *seeds.EACH,
)
