"""What is computed for a question: one function for each part of the page.

They run in a worker process that may be stopped at any time. What they `tell` on the way is shown then, and the rest is said
to be missing; so the quick part comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noisymean import curve
from noisymean.accounts import Account
from noisymean.curves import Curves
from noisymean.errors import NoisymeanError
from noisymean.mechanisms import Adjacency, Mechanism, moving_pair
from noisymean.report.asked_run import AskedRun
from noisymean.run_curves import Growth, RunCurves, run_curves

# False positive rates of the pictures: dense at both ends, where the curves turn.
ALPHA: NDArray[np.float64] = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 101)) ** 2
# Tests that make a curve, to less than the width of its line; numbers of steps on the way to T.
CURVE_POINTS, GROWTH_POINTS = 129, 4

Tell: TypeAlias = Callable[[Any], None]
Part: TypeAlias = Callable[[AskedRun, Tell], Any]


def numbers(question: AskedRun, tell: Tell) -> Account:
    """Claimed, leakage, guarantee, verdict."""
    return question.account()


def elsewhere(question: AskedRun, tell: Tell) -> tuple[int, Account] | None:
    """The same at another N that says more, None where none does."""
    return question.elsewhere()


def whole_run(question: AskedRun, tell: Tell) -> RunCurves:
    """The trade-off curves after all rounds; on the way, those without the guarantee."""
    mechanism, adjacency = _drawn(question)
    return run_curves(mechanism, ALPHA, steps=question.steps, points=CURVE_POINTS, progress=tell, adjacency=adjacency)


def one_round(question: AskedRun, tell: Tell) -> Curves:
    """Every curve of one round, which are known for Poisson sampling."""
    mechanism, _ = _drawn(question)
    if not mechanism.is_poisson:
        raise NoisymeanError(
            "The curves of one round are known for Poisson sampling only; those of the whole run are drawn"
        )
    return curve(mechanism, ALPHA)


def growth(question: AskedRun, tell: Tell) -> Growth:
    """Epsilon at numbers of steps up to T, evenly spaced in their logarithm; few steps, which can be slow, come last."""
    counts = sorted({round(count) for count in np.geomspace(1, question.steps, min(GROWTH_POINTS, question.steps))})
    found: dict[int, Account] = {}
    for count in dict.fromkeys((counts[-1], counts[0], counts[len(counts) // 2], *reversed(counts))):
        found[count] = replace(question, steps=count).account()
        tell(_grown([found[known] for known in sorted(found)]))
    return _grown([found[count] for count in counts])


def _drawn(question: AskedRun) -> tuple[Mechanism, Adjacency]:
    """The mechanism whose curves belong to the answer, and its neighbours."""
    adjacency = question.mechanism.adjacency if question.adjacency is None else question.adjacency
    if adjacency is Adjacency.REPLACE_ONE:
        raise NoisymeanError("Curves are not drawn for one record replaced")
    if question.mechanism.is_poisson and adjacency is Adjacency.ADD_REMOVE and question.pair is None:
        # the pair that leaks more is known without the numbers
        return moving_pair(question.mechanism), adjacency
    return question.account().drawn, adjacency


def _grown(answers: Sequence[Account]) -> Growth:
    columns = ([getattr(answer, name).epsilon for answer in answers] for name in ("claimed", "leakage", "guarantee"))
    steps = [answer.steps for answer in answers]
    # what is not known is not a number
    return Growth(*(np.array(column, dtype=np.float64) for column in (steps, *columns)))


PARTS: Mapping[str, Part] = {
    "numbers": numbers,
    "elsewhere": elsewhere,
    "run": whole_run,
    "one-round": one_round,
    "growth": growth,
}
# The one part that is not computed here: whoever starts the page says how (`settings.Commands`).
REPORT = "report"
