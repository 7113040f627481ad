"""What is computed for a question: one function for each part of the page.

They run in a worker process that may be stopped at any time. What they `tell` on the way is shown then, and the rest is said
to be missing; so the quick part comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noisymean import curve
from noisymean.accounts import Account
from noisymean.curves import Curves
from noisymean.mechanisms import moving_pair
from noisymean.report.asked_run import AskedRun
from noisymean.run_curves import Growth, RunCurves, run_curves

# False positive rates of the pictures: dense at both ends, where the curves turn.
ALPHA: NDArray[np.float64] = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 101)) ** 2
# Tests that make a curve, to less than the width of its line; numbers of steps on the way to T.
CURVE_POINTS, GROWTH_POINTS = 129, 4

Tell: TypeAlias = Callable[[Any], None]


def whole_run(question: AskedRun, tell: Tell) -> RunCurves:
    """The trade-off curves after all rounds; on the way, those without the guarantee."""
    return run_curves(moving_pair(question.mechanism), ALPHA, steps=question.steps, points=CURVE_POINTS, progress=tell)


def one_round(question: AskedRun, tell: Tell) -> Curves:
    """Every curve of one round."""
    return curve(moving_pair(question.mechanism), ALPHA)


def growth(question: AskedRun, tell: Tell) -> Growth:
    """Epsilon at numbers of steps up to T, evenly spaced in their logarithm; few steps, which can be slow, come last."""
    counts = sorted({round(count) for count in np.geomspace(1, question.steps, min(GROWTH_POINTS, question.steps))})
    found: dict[int, Account] = {}
    for count in dict.fromkeys((counts[-1], counts[0], counts[len(counts) // 2], *reversed(counts))):
        found[count] = replace(question, steps=count).account()
        tell(_grown([found[known] for known in sorted(found)]))
    return _grown([found[count] for count in counts])


def _grown(answers: Sequence[Account]) -> Growth:
    columns = ([getattr(answer, name).epsilon for answer in answers] for name in ("claimed", "leakage", "guarantee"))
    steps = [answer.steps for answer in answers]
    # what is not known is not a number
    return Growth(*(np.array(column, dtype=np.float64) for column in (steps, *columns)))


PARTS: dict[str, Callable[[AskedRun, Tell], Any]] = {
    # claimed, leakage, guarantee, verdict; and the same at another N that says more, None where none does
    "numbers": lambda question, tell: question.account(),
    "elsewhere": lambda question, tell: question.elsewhere(),
    "run": whole_run,
    "one-round": one_round,
    "growth": growth,
}
