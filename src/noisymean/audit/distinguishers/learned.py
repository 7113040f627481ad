r"""A test that is learned, for a target of which only releases are known.

What is looked at comes from `summaries`, which are the same for every target, and from `aim`, which a pilot has found for this
one. A classifier is fitted to that on trials that are set aside (`learner`). It is judged on fresh trials, so a bad choice at any
of the three costs power, never soundness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np

from noisymean.audit.distinguishers import learner, summaries
from noisymean.audit.distinguishers.aim import Aim, aim_of, folded
from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled
from noisymean.audit.reference import Reference
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known, Pulled, Target

# What its features mean. Changes when the same trials would give other numbers.
VERSION = 2
# So many gradients are projected on, each by itself; of more, the record's and the mean of the others.
_FEW_ROWS = 32


@final
@dataclass(frozen=True, eq=False)
class View:
    """What is known of a release before it is made: directions in which it is pulled, scales at which noise may be drawn."""

    rows: Array | None = None
    scales: tuple[float, ...] = (1.0,)

    @classmethod
    def of(cls, target: Target) -> View:
        if isinstance(target, Pulled):
            return cls(_unit(target.pulls()), target.scales())
        return cls(_rows_of(target.known()))


def _rows_of(known: Known | None) -> Array | None:
    """The record's gradient first; None where none is known, or where all are along the first axis."""
    if known is None or known.gradients is None:
        return None
    rows = known.gradients[::-1]
    return _unit(rows if len(rows) <= _FEW_ROWS else np.stack([rows[0], rows[1:].mean(axis=0)]))


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))


@final
@dataclass(frozen=True, eq=False)
class Learned(Distinguisher):
    """Score: the log-odds of a classifier."""

    view: View = field(default_factory=View)
    aim: Aim | None = None
    # trials that found the aim, and were not judged
    piloted: int = 0
    name: ClassVar[str] = "learned"
    training_share: ClassVar[float] = 0.25

    @classmethod
    def on(cls, target: Target) -> Learned:
        """Not aimed yet."""
        return cls(View.of(target))

    def configuration(self) -> Mapping[str, Any]:
        aimed = {} if self.aim is None else {"aim": asdict(self.aim)}
        piloted = {"piloted": self.piloted} if self.piloted else {}
        return {"distinguisher": self.name, "version": VERSION, **piloted, **aimed}

    def aimed(self, aim: Aim | None, piloted: int) -> Learned:
        """The same, with what a pilot has found."""
        return replace(self, aim=aim, piloted=piloted)

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        rows, n = self.view.rows, outputs.shape[-1]
        if rows is not None and rows.shape[1] < n:
            # what comes beside the release is pulled by nothing that is known
            rows = np.pad(rows, ((0, 0), (0, n - rows.shape[1])))
        z = folded(outputs) if self.aim is None else self.aim.standardised(outputs)
        found = [
            summaries.sizes(outputs, z),
            summaries.blocks(z),
            summaries.lattice(outputs, self.view.scales),
            summaries.steps(outputs, None if rows is None else rows[0]),
            # where nothing is known the first axis is the record's: gradients with a structure are along it
            summaries.along(outputs, rows) if rows is not None else summaries.along(outputs[:, :, :1], np.ones((1, 1))),
        ]
        return np.hstack(found if self.aim is None else [*found, self.aim.features(z)])

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        return learner.judge(training)


@final
@dataclass(frozen=True, eq=False)
class Pilot(Distinguisher):
    """What is kept of a pilot: the features of the test that is to be aimed, and (`whole`) the numbers of the release."""

    test: Learned
    # of all stages of the audit together: another number of them is another audit
    trials: int
    whole: bool
    name: ClassVar[str] = "pilot"
    training_share: ClassVar[float] = 0.0
    paired: ClassVar[bool] = True

    def configuration(self) -> Mapping[str, Any]:
        return {"distinguisher": self.name, "version": VERSION, "trials": self.trials, "whole": self.whole}

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        found = self.test.features(outputs, generator)
        if not self.whole:
            return found
        numbers = folded(outputs)
        roots = np.sqrt((numbers * numbers).mean(axis=1))
        many = np.full((len(found), 1), numbers.shape[-1])
        return np.hstack([many, found, numbers.mean(axis=1), roots])

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        raise NotImplementedError("a pilot is not judged")

    @staticmethod
    def aim(kept: Labelled) -> Aim:
        """What the last 2 n numbers of each row show; the first is n."""
        numbers = int(kept.smaller[0, 0])
        smaller, larger = (
            side[:, -2 * numbers :].reshape(len(side), 2, numbers) for side in (kept.smaller, kept.larger)
        )
        return aim_of(smaller, larger)
