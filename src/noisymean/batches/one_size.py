"""Neighbours of one size: one record's gradient is zeroed out or replaced, and every denominator is a constant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never, final

import numpy as np

from noisymean.batches.epochs import STANDS_OUT, Attack, Epochs, Proof, epochs_of
from noisymean.errors import Undefined
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import GaussianPairs
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.laws.subsampled import Subsampled
from noisymean.laws.without_replacement import Shifts, without_replacement
from noisymean.mechanisms import Adjacency, BatchDenominator, Mechanism, Sampling
from noisymean.pairs import ZEROED_OUT, Datasets, Replaced, ReplacedAmong
from noisymean.tradeoff import Law, Side
from noisymean.words import ProofName


@final
@dataclass(frozen=True)
class OfOneSize:
    """One record's gradient is `before` in D and `after` in D', in units of C."""

    mechanism: Mechanism
    steps: int
    before: float
    after: float

    @property
    def _unit(self) -> float:
        return 1.0 / self.mechanism.noises[0]

    @property
    def _own(self) -> float:
        """How far the sum moves if the batch is known to have the record."""
        return (self.after - self.before) * self._unit

    @property
    def _alone(self) -> Datasets:
        return ZEROED_OUT if self.before == 0.0 else Replaced(self.before, self.after)

    @property
    def _opposed(self) -> Datasets:
        """All others are -C u, so that a batch without the record is 1 or 2 further from one with it."""
        return ReplacedAmong(-1.0, self.before, self.after)

    @property
    def _rate(self) -> float:
        """The share of the records that a batch of fixed size has."""
        one = self.mechanism
        if one.size_of_batches is not None and one.dataset_size is not None:
            return float(Fraction(min(one.size_of_batches, one.dataset_size), one.dataset_size))
        return one.q

    def _present(self, side: Side) -> tuple[float, float]:
        """The probability that a record is in one of the batches of an epoch, as others may be dropped; and in the first.

        Where the size of the batches is not known, at the least or at the most: N may be anything that makes t of them. An
        attacker who is told that a record is there less often than it is can throw releases away.
        """
        one = self.mechanism
        if one.size_of_batches is None or one.dataset_size is None:
            t, most = one.batches_in_epoch, side is Side.ABOVE
            if one.drops_last:
                return (1.0, 1.0 / t) if most else (t / (t + 1.0), 1.0 / (t + 1.0))
            return 1.0, 1.0 / max(t - 1.0 if most else t, 1.0)
        cut = one.cut(one.dataset_size)
        each = cut.size / one.dataset_size
        return (cut.full * each if one.drops_last else 1.0), min(each, 1.0)

    def attacks(self) -> Iterator[Attack]:
        epochs, unit = epochs_of(self.mechanism, self.steps), self._unit
        match self.mechanism.drawn:
            case Sampling.CYCLIC:
                yield Attack(self._alone, ((epochs.begun, Gaussian(self._own)),))
            case Sampling.SHUFFLE:
                # of all others -C u a batch without the record is the same in D and D'
                ends = ((self.before + 1.0) * unit, (self.after + 1.0) * unit)
                present, each = self._present(Side.BELOW)
                yield Attack(self._opposed, epochs.largest(present, each, *ends))
                yield from self._scored(epochs, present, ends, self._opposed)
                if present == 1.0:
                    yield from self._summed(epochs, self._opposed)
            case Sampling.BALLS_IN_BINS:
                if self.before == 0.0:
                    yield Attack(self._alone, epochs.allocation(self._own, Side.BELOW))
                else:
                    ends = (self.before * unit, self.after * unit)
                    yield Attack(self._alone, epochs.largest(1.0, 1.0 / epochs.batches, *ends))
                    yield from self._scored(epochs, 1.0, ends, self._alone)
                    yield from self._summed(epochs, self._alone)
            case Sampling.FIXED_SIZE:
                yield Attack(self._alone, ((self.steps, self._mixed(self.before, self.after, self._alone)),))
                pair = self._mixed(self.before + 1.0, self.after + 1.0, self._opposed)
                yield Attack(self._opposed, ((self.steps, pair),))
            case Sampling.POISSON:
                raise TypeError("Poisson sampling is analysed elsewhere")
            case _ as never:
                assert_never(never)

    def _scored(
        self, epochs: Epochs, present: float, ends: tuple[float, float], datasets: Datasets
    ) -> Iterator[Attack]:
        """All batches of a whole epoch, each with its score; where the noise is small, the largest says it all."""
        if max(map(abs, ends)) < STANDS_OUT and (parts := epochs.scored(present, *ends)):
            yield Attack(datasets, parts)

    def _summed(self, epochs: Epochs, datasets: Datasets) -> Iterator[Attack]:
        """The sum of all batches of a whole epoch has the record once, and t times the variance."""
        if epochs.whole and epochs.batches > 1:
            yield Attack(datasets, ((epochs.whole, Gaussian(self._own / math.sqrt(epochs.batches))),))

    def _mixed(self, before: float, after: float, datasets: Datasets) -> Law:
        """The record is in the batch with the probability of the rate, and moves it by `before` or `after`."""
        rate, unit = self._rate, self._unit
        if before == 0.0:
            return Subsampled(Gaussian(after * unit), rate)
        weights = np.array([1.0 - rate, rate])
        p, q = (LineMixture(weights, np.array([0.0, end * unit]), np.ones(2)).present() for end in (before, after))
        return ExplicitPair(datasets, 1, p, q, log_scale=0.0)

    def proofs(self) -> Iterator[Proof]:
        epochs, own = epochs_of(self.mechanism, self.steps), self._own
        once = Proof(ProofName.ONCE, ((epochs.begun, Gaussian(own)),))
        match self.mechanism.drawn:
            case Sampling.CYCLIC:
                yield once
            case Sampling.SHUFFLE:
                # that the record is dropped, or had not come when an epoch was broken off, is revealed as well
                present, each = self._present(Side.ABOVE)
                rest = self._perhaps(min(epochs.rest * each, present))
                yield Proof(ProofName.ONCE, epochs.parts(self._perhaps(present), rest))
            case Sampling.BALLS_IN_BINS:
                amplified = epochs.allocation(self._unit, Side.ABOVE)
                if self.before == 0.0:
                    yield Proof(ProofName.ALLOCATION, amplified)
                else:
                    # one record removed, another added in its place
                    yield Proof(ProofName.CHAIN, amplified, amplified, back=True)
                yield once
            case Sampling.FIXED_SIZE:
                yield from self._of_fixed_size()
            case Sampling.POISSON:
                raise TypeError("Poisson sampling is analysed elsewhere")
            case _ as never:
                assert_never(never)

    def _of_fixed_size(self) -> Iterator[Proof]:
        rate, own, unit = self._rate, self._own, self._unit
        if rate == 1.0:
            yield Proof(ProofName.ONCE, ((self.steps, Gaussian(own)),))
            return
        # the record that is zero takes another's place for a step of C, any other for one of 2 C
        ahead, behind = ((1.0 + abs(end)) * unit for end in (self.after, self.before))
        pair = without_replacement(rate, Shifts(own, ahead), Shifts(own, behind))
        if pair is not None:
            yield Proof(ProofName.TAKEN, ((self.steps, pair),))
        yield Proof(ProofName.BATCH, ((self.steps, self._perhaps(rate)),))

    def _perhaps(self, rate: float) -> Law:
        """A batch, or some of them, known to have the record with this probability, and known when they have it."""
        if rate >= 1.0:
            return Gaussian(self._own)
        return GaussianPairs(1, np.array([1.0 - rate, rate]), np.array([0.0, self._own]), np.zeros(2))


def of_one_size(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> OfOneSize:
    """One record whose gradient is full length in D', and in D zero or the opposite."""
    need_known(mechanism)
    return OfOneSize(mechanism, steps, 0.0 if adjacency is Adjacency.ZERO_OUT else -1.0, 1.0)


def need_known(mechanism: Mechanism) -> None:
    """Undefined where the size of a batch, which it is divided by, is random."""
    if mechanism.drawn is Sampling.BALLS_IN_BINS and isinstance(mechanism, BatchDenominator):
        raise Undefined(
            "sampling", mechanism.drawn.value, f"another for {mechanism.name.upper()}",
            f"its denominator {mechanism.denominator} is random, and nobody has analysed that",
        )  # fmt: skip
