"""What recognises each rule.

opacus_calls  make_private and what it is handed
deltas        delta, where it is computed
loaders       batches: how they are drawn, and of what size
libraries     the other libraries
denominators  what a noisy mean is divided by, in code of one's own
scales        the scale of the noise beside that of the gradients
steps         clipping and noise
seeds         the seeds of the noise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import deltas, denominators, libraries, loaders, opacus_calls, scales, seeds, steps
from noisymean.lint.script import Script

Looks = Callable[[Script], Iterator[Finding]]
EACH: tuple[Looks, ...] = (
    *opacus_calls.EACH,
    *deltas.EACH,
    *loaders.EACH,
    *libraries.EACH,
    *denominators.EACH,
    *scales.EACH,
    *steps.EACH,
    *seeds.EACH,
)
