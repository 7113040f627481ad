"""What attacks and proofs are made of: laws for the batches of each epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

from noisymean.laws.allocation import allocation, is_computed
from noisymean.laws.closed import Gaussian
from noisymean.laws.largest import Shifted, largest
from noisymean.laws.scores import scores
from noisymean.mechanisms import Mechanism
from noisymean.pairs import Datasets
from noisymean.tradeoff import Law, Side
from noisymean.words import ProofName

Parts: TypeAlias = tuple[tuple[int, Law], ...]

# A shift, in deviations, that no other batch comes near: then the largest says it all, and no scores are looked at.
STANDS_OUT = 8.0


class Proof(NamedTuple):
    """Laws that dominate a run: by themselves, or after a `first` link, P to P' (`back`: the same laws told from Q to P)."""

    name: ProofName
    parts: Parts
    first: Parts = ()
    back: bool = False


class Attack(NamedTuple):
    """An explicit pair of datasets, and the loss of what is looked at."""

    datasets: Datasets
    parts: Parts


@final
@dataclass(frozen=True)
class Epochs:
    """`steps` batches, t of which are an epoch."""

    batches: int
    steps: int

    @property
    def whole(self) -> int:
        """Epochs that came to their end."""
        return self.steps // self.batches

    @property
    def rest(self) -> int:
        """Batches of one that did not."""
        return self.steps % self.batches

    @property
    def begun(self) -> int:
        """The number of epochs that are begun, the last of which may be a part."""
        return self.whole + (self.rest > 0)

    def parts(self, whole: Law, rest: Law | None) -> Parts:
        """A law for each whole epoch, and one for the rest."""
        found = [(self.whole, whole)] if self.whole else []
        if self.rest and rest is not None:
            found.append((1, rest))
        return tuple(found)

    def largest(self, present: float, each: float, p: float, q: float) -> Parts:
        """The maximum of each epoch: one of its batches is shifted by p or by q.

        The record is `present` in a whole epoch, and in each of its first batches with the probability `each`.
        """
        rest = None
        if self.rest:
            partly = min(self.rest * each, present)
            rest = largest(self.rest, Shifted(p, partly), Shifted(q, partly))
        return self.parts(largest(self.batches, Shifted(p, present), Shifted(q, present)), rest)

    def scored(self, present: float, p: float, q: float) -> Parts:
        """The sum of the scores of all batches of a whole epoch; an epoch that was broken off is not looked at."""
        if not self.whole or self.batches == 1:
            return ()
        return ((self.whole, scores(self.batches, Shifted(p, present), Shifted(q, present))),)

    def allocation(self, shift: float, side: Side) -> Parts:
        """Random allocation to the batches of each epoch. Of too little noise what is easily told: the largest, or all."""
        rest = self.rest
        if self.batches > 1 and not is_computed(shift):
            if side is Side.BELOW:
                return self.largest(1.0, 1.0 / self.batches, 0.0, shift)
            return self.parts(Gaussian(shift), Gaussian(shift))
        # a batch that is all of the epoch is the Gaussian mechanism
        whole = Gaussian(shift) if self.batches == 1 else allocation(shift, self.batches, self.batches, side)
        return self.parts(whole, allocation(shift, self.batches, rest, side) if rest else None)


def epochs_of(mechanism: Mechanism, steps: int) -> Epochs:
    """The batches of each epoch, and those of the last one that was broken off."""
    return Epochs(mechanism.batches_in_epoch, steps)
