"""What an audit that found nothing cannot have seen: values, each of which makes its sentence.

`not-violated` is a statement about the runs that were judged, on one pair of datasets, by one test. What else would have to be
looked at is said with the answer, and not left to the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from noisymean.audit.sight import PROBABILITY, least_event
from noisymean.outward import at_least, at_most

if TYPE_CHECKING:
    from noisymean.audit.result import Audit


@final
@dataclass(frozen=True)
class OtherPairs:
    """One pair of datasets was run."""

    chosen_among: int

    def __str__(self) -> str:
        among = f", chosen among {self.chosen_among} on trials that were not judged" if self.chosen_among else ""
        return (
            f"other datasets: one pair was run{among}; a record that acts only on others, at another N or only where batches"
            " are empty does not show"
        )


@final
@dataclass(frozen=True)
class Rare:
    """So many runs on each dataset were judged: of what is rarer, none may have been among them."""

    runs: int

    def __str__(self) -> str:
        # (1 - 3/m)^m is at most e^-3, 5 %
        return f"what happens in fewer than 1 of {max(self.runs // 3, 1):,} runs, or only after more than one run has"


@final
@dataclass(frozen=True)
class Generators:
    """Trials are drawn from seeds of ours."""

    def __str__(self) -> str:
        return (
            "where random numbers come from outside of an audit: a seed that is known or used again, and noise whose last bits"
            " tell it"
        )


@final
@dataclass(frozen=True)
class SmallDelta:
    """A worse mechanism would have had to show that much at the claimed epsilon; None: no delta would have been seen."""

    epsilon: float
    delta: float | None
    probability: float

    def __str__(self) -> str:
        at = f"at the claimed epsilon = {at_most(self.epsilon, '.4g')}"
        if self.delta is None:
            return f"any delta {at}: these are too few runs for it"
        return (
            f"a delta below {at_least(self.delta, '.4g')} {at}: from there on an event of D' alone is seen, with probability"
            f" {100.0 * self.probability:g} %, if the test looks for it"
        )


@final
@dataclass(frozen=True)
class Taught:
    """The test was learned, from releases alone."""

    trials: int

    def __str__(self) -> str:
        return f"what {self.trials:,} trials did not teach the test; the optimal one needs to know the mechanism"


Unseen: TypeAlias = OtherPairs | Rare | Generators | SmallDelta | Taught


def small_delta(found: Audit) -> SmallDelta:
    """Of the claim of this audit, with as many runs as were judged."""
    epsilon = found.claimed_epsilon
    assert epsilon is not None
    return SmallDelta(epsilon, least_event(found), PROBABILITY)


def unseen(found: Audit) -> list[Unseen]:
    """All of it, what is particular to this audit first."""
    said: list[Unseen] = []
    if found.claim is not None:
        said.append(small_delta(found))
    if found.found.judged < found.finished:
        said.append(Taught(found.finished - found.found.judged))
    return [*said, Rare(found.found.judged // 2), OtherPairs(found.pairs), Generators()]
