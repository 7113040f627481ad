"""Whether batches and noise come from the seed that is handed over: the same run twice from one seed, and once from another.

Other seed, same noise: it is known to everybody who has the code. Same seed, other noise: it comes from elsewhere, and that it
is not the same in every process, or counted up from a constant, cannot be seen from here.
"""

from __future__ import annotations

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import least_correlation
from noisymean.probe.finding import Remark, Severity
from noisymean.probe.records import Mixed
from noisymean.probe.runs import designed
from noisymean.probe.sensitivity import MIXED
from noisymean.targets.protocol import Knob, Raised, Runnable

_ROUNDS = 12


def remarks_of_seeds(subject: Runnable, seed: int) -> list[Remark]:
    """What is not drawn anew, and what is drawn from elsewhere."""
    setting, mixed = MIXED[subject.knob], Mixed(seed)
    try:
        first, second, other = (
            designed(subject, setting, mixed.gradients(), one, _ROUNDS) for one in (seed, seed, seed + 1)
        )
    except Raised as fault:
        return [Remark(Severity.UNKNOWN, f"whether its noise is drawn anew: it {fault}")]
    said = [] if subject.unseen_randomness is None else [Remark(Severity.UNKNOWN, subject.unseen_randomness)]
    owns = subject.knob not in (Knob.BATCH, Knob.FIXED)
    batches = [mixed.members(one) for one in (first, second, other)]
    noises = [mixed.spare(one) for one in (first, second, other)]
    if not all(np.isfinite(one).all() for one in noises):
        words = "whether its noise is drawn anew: it releases numbers that are not finite"
        return [*said, Remark(Severity.UNKNOWN, words)]
    if owns and np.array_equal(batches[0], batches[2]):
        said.append(Remark(Severity.LEAK, "batches do not depend on the seed: every run has the same ones"))
    if _alike(noises[0], noises[2]):
        said.append(Remark(Severity.LEAK, "the noise does not depend on the seed: every run has the same"))
    tolerance = 1e-4 * float(np.abs(noises[0]).max(initial=0.0))
    if not np.allclose(noises[0], noises[1], rtol=1e-4, atol=tolerance) or (
        owns and not np.array_equal(batches[0], batches[1])
    ):
        what = "noise does" if np.array_equal(batches[0], batches[1]) else "batches and noise do"
        words = f"whether it is the same in every run: its {what} not come from the generator that it is handed"
        said.append(Remark(Severity.UNKNOWN, words))
    return said


def _alike(one: Array, other: Array) -> bool:
    """Whether any round of one run has the noise of any round of the other, or a part of it."""
    lengths = np.outer(np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1))
    if not (lengths > 0.0).all():
        return False
    found = np.abs(one @ other.T) / lengths
    return bool(found.max() > least_correlation(one.shape[1], found.size))
