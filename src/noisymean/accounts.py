r"""An account as a value: three numbers for a run, the verdict, and how they are shown.

claimed    what an accountant of the noisy sum reports
leakage    what an explicit pair of datasets proves to be lost
guarantee  what is proved not to be exceeded
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, final

from noisymean.errors import Undefined
from noisymean.mechanisms import Adjacency, Mechanism, Sampling, Segment, with_public_size
from noisymean.outward import at_least, at_most
from noisymean.pairs import Datasets
from noisymean.results import Lines, Result, finite
from noisymean.verdict import Word
from noisymean.words import HoldsForOthers, Note, ProofName, Reason
from noisymean.written import plain, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THREE = ("claimed", "leakage", "guarantee")
# In place of a mechanism's name, for several.
SCHEDULE = "schedule"


@final
@dataclass(frozen=True)
class Bound:
    """One of the three numbers: epsilon at the given delta, or delta at the given epsilon. None: not known."""

    epsilon: float | None
    delta: float | None
    pair: Datasets | None = None
    # what a guarantee rests on
    proofs: tuple[ProofName, ...] = ()

    @property
    def proof(self) -> str | None:
        """The names of the proofs, in a line."""
        return " and ".join(self.proofs) or None


class Pair(Enum):
    """The neighbour of a dataset of N records: one record fewer, or one more."""

    SMALLER = "smaller"
    LARGER = "larger"

    @property
    def change(self) -> str:
        """What has become of the one record."""
        return "added" if self is Pair.LARGER else "removed"


@final
@dataclass(frozen=True)
class PairBounds:
    """What is known of one of the two pairs; the size of D = `smaller`, the size of D' = `smaller` + 1."""

    pair: Pair
    smaller: int | None
    leakage: Bound
    guarantee: Bound


@final
@dataclass(frozen=True)
class Account(Result):
    """The three numbers for a run, the verdict, and what has to be said about them.

    A dataset of N records has two neighbours: leakage and guarantee are the worse of both, `pair` is the one that leaks more, and
    `neighbours` has both (or the only one that there is, or that was asked for).
    """

    segments: tuple[Segment, ...]
    claimed: Bound
    leakage: Bound
    guarantee: Bound
    claimed_lower: Bound
    verdict: Word
    remarks: tuple[Note, ...]
    pair: Pair
    neighbours: tuple[PairBounds, ...]
    asked_delta: bool = True
    # why no guarantee is known, where none is
    unproved: tuple[Reason, ...] = ()
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    # or what it is unless it is said
    adjacency_told: bool = True

    @property
    def holds_for_others(self) -> bool:
        """Whether the claim would hold if somebody had said that it is for these neighbours."""
        return any(isinstance(one, HoldsForOthers) for one in self.remarks)

    @property
    def mechanism(self) -> Mechanism:
        """The one that ran; Undefined for a schedule of several, which has `segments`."""
        if len(self.segments) > 1:
            raise Undefined("mechanism", f"{len(self.segments)} segments", "one for this", "account for each by itself")
        return self.segments[0].mechanism

    @property
    def steps(self) -> int:
        """The number of rounds of all segments together."""
        return sum(segment.steps for segment in self.segments)

    @property
    def change(self) -> str:
        """What one record may do in this answer."""
        match self.adjacency:
            case Adjacency.ADD_REMOVE if not any(one.mechanism.knows_size for one in self.segments):
                # the noisy sum is the same pair either way
                return "added or removed"
            case Adjacency.ADD_REMOVE:
                return " or ".join(sorted(one.pair.change for one in self.neighbours))
            case Adjacency.ZERO_OUT | Adjacency.REPLACE_ONE:
                return self.adjacency.change

    @property
    def condition(self) -> str:
        """What no option says and every number needs."""
        return f"for batches {self.sampling.in_words} and one record {self.change}"

    @property
    def sampling(self) -> Sampling:
        """How batches are drawn, throughout."""
        return self.segments[0].mechanism.drawn

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        asked, at = ("delta", self.claimed.delta) if self.asked_delta else ("epsilon", self.claimed.epsilon)
        each = "; ".join(f"{steps:,} rounds of {one.in_a_line(greek=False)}" for one, steps in self.segments)
        return f"{each}, {asked} = {short(at or 0.0)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks, then why there is no guarantee."""
        return (*map(str, self.remarks), *(f"no guarantee: {reason}" for reason in self.unproved))

    def value(self, bound: Bound) -> float | None:
        """The one of epsilon and delta that was asked for; None where it is not known, or beyond double precision."""
        value = bound.epsilon if self.asked_delta else bound.delta
        return None if value is None else finite(value)

    def to_dict(self) -> dict[str, object]:
        """Plain data, as `account --json` prints it."""
        asked = "delta" if self.asked_delta else "epsilon"
        return {
            "mechanism": SCHEDULE if len(self.segments) > 1 else self.mechanism.name,
            "steps": self.steps,
            asked: getattr(self.claimed, asked),
            "claimed": {**self._plain(self.claimed), "lower": self.value(self.claimed_lower)},
            "leakage": self._plain(self.leakage),
            "guarantee": self._plain(self.guarantee),
            "verdict": self.verdict,
            "pair": self.pair.value,
            "neighbours": {
                one.pair.value: {
                    "smaller": one.smaller,
                    "leakage": self._plain(one.leakage),
                    "guarantee": self._plain(one.guarantee),
                }
                for one in self.neighbours
            },
            "notes": list(self.notes),
            "unproved": list(map(str, self.unproved)),
            "settings": None if len(self.segments) > 1 else self.mechanism.settings(),
            "segments": [
                {"mechanism": one.name, "steps": steps, "settings": one.settings()} for one, steps in self.segments
            ],
            "adjacency": self.adjacency.value,
            "sampling": self.sampling.value,
        }

    def _plain(self, bound: Bound) -> dict[str, object]:
        pair = {} if bound.pair is None else {"pair": str(bound.pair), "gradients": asdict(bound.pair)}
        proof = {} if bound.proof is None else {"proof": bound.proof}
        return {"epsilon" if self.asked_delta else "delta": self.value(bound), **pair, **proof}

    def columns(self) -> Mapping[str, Sequence[object]]:
        """A row for each of the three numbers."""
        bounds = (self.claimed, self.leakage, self.guarantee)
        return {
            "name": _THREE,
            "epsilon": [bound.epsilon for bound in bounds],
            "delta": [bound.delta for bound in bounds],
            "pair": [None if bound.pair is None else str(bound.pair) for bound in bounds],
        }

    def lines(self) -> Lines:
        """The three numbers, the verdict and the pair that leaks."""
        bounds = zip(_THREE, (self.claimed, self.leakage, self.guarantee), (at_most, at_least, at_most), strict=True)
        rows = [
            (name, "none known" if (value := self.value(bound)) is None else plain(rounded(value)))
            for name, bound, rounded in bounds
        ]
        return Lines(
            self.heading,
            ("", "epsilon" if self.asked_delta else "delta"),
            rows,
            [
                f"The claim holds, {self.condition}." if self.verdict == "holds" else f"The claim is {self.verdict}.",
                f"The leakage is on this pair: {self.leakage.pair}.",
                *([] if self.guarantee.proof is None else [f"The guarantee is proved by: {self.guarantee.proof}."]),
                *(f"- {note}." for note in self.notes),
            ],
        )

    def plot(self) -> Figure:
        """Epsilon against steps, and the trade-off curves after the last step; takes seconds."""
        if self.claimed.delta is None or not self.asked_delta:
            raise Undefined("epsilon", self.claimed.epsilon, "left out for a plot", "which is at a fixed delta")
        # matplotlib is loaded by whoever asks for a figure
        plots = import_module("noisymean.report.run_plots")
        figure: Figure = plots.account_figure(self.drawn, self.steps, self.claimed.delta, adjacency=self.adjacency)
        return figure

    @property
    def drawn(self) -> Mechanism:
        """The mechanism whose curves belong to this answer."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise Undefined(
                "adjacency", "replace-one", "add-remove or zero-out for a plot", "its curves are not computed"
            )
        # the other ways of drawing batches have curves for each adjacency
        return with_public_size(self.on_pair, self.adjacency) if self.on_pair.is_poisson else self.on_pair

    @property
    def on_pair(self) -> Mechanism:
        """The mechanism on the pair that is named: its dataset_size is that of the smaller dataset."""
        size = next(one.smaller for one in self.neighbours if one.pair is self.pair)
        return self.mechanism.resized(size)
