"""One record added or removed: N against N + 1, and what is divided by may move."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, assert_never, final

import numpy as np

from noisymean.batches.epochs import STANDS_OUT, Attack, Epochs, Parts, Proof, epochs_of
from noisymean.batches.one_size import OfOneSize, need_known
from noisymean.errors import InvalidInput, Undefined, Unproved
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import GaussianPairs, across_only, gaussian_pair
from noisymean.laws.largest import Shifted, largest
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.laws.scores import scores
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import Cut, DatasetDenominator, Mechanism, Sampling
from noisymean.mechanisms.base import need_same
from noisymean.numerics import binomial
from noisymean.pairs import ALL_ZERO, Added, Alternating
from noisymean.tradeoff import Law, Side
from noisymean.words import BatchesMove, ProofName

# Batch sizes that are exceeded in a whole run with this probability are left out, and charged.
_NEVER = 1e-18


def added(mechanism: Mechanism, steps: int) -> _Cut | _Allocated | _FixedSize:
    """The neighbours of a mechanism whose dataset_size is that of the smaller one."""
    need_known(mechanism)
    match mechanism.drawn:
        case Sampling.SHUFFLE | Sampling.CYCLIC:
            return _Cut(mechanism, steps, _size(mechanism))
        case Sampling.BALLS_IN_BINS:
            return _Allocated(mechanism, steps)
        case Sampling.FIXED_SIZE:
            return _FixedSize(mechanism, steps, _size(mechanism))
        case Sampling.POISSON:
            raise TypeError("Poisson sampling is analysed elsewhere")
        case _ as never:
            assert_never(never)


def _size(mechanism: Mechanism) -> int:
    if mechanism.dataset_size is None:
        raise InvalidInput(
            "dataset_size", None, f"given for one record added to {mechanism.drawn.value} batches",
            "or ask for zero-out adjacency",
        )  # fmt: skip
    return mechanism.dataset_size


class _Step(NamedTuple):
    """A batch of `before` records on D and `after` on D'; what becomes of sums, r, and of the noise, s.

    `less` is 1 - r, which is small and keeps its digits.
    """

    before: int
    after: int
    less: float
    log_scale: float

    @property
    def shrink(self) -> float:
        """r = c/c'."""
        return 1.0 - self.less

    @property
    def off(self) -> float:
        """|r - 1|."""
        return abs(self.less)

    @property
    def grown(self) -> float:
        """r k' - k: how far the sum moves if all gradients are one vector."""
        return (self.after - self.before) - self.less * self.after


def _step(mechanism: Mechanism, size: int, before: int, after: int) -> _Step:
    """Batches of these sizes on `size` records and on one more."""
    # exactly: c and c' may agree in all digits of a float
    c, c_with = (mechanism.exact_divisor(size + i, batch) for i, batch in enumerate((before, after)))
    noise, noise_with = mechanism.noises
    log_shrink = -math.log1p((c_with - c) / c)
    return _Step(before, after, -math.expm1(log_shrink), log_shrink + math.log1p((noise_with - noise) / noise))


@final
@dataclass(frozen=True)
class _Cut:
    """A dataset of N records cut into batches, in its order or shuffled, against one of N + 1."""

    mechanism: Mechanism
    steps: int
    size: int

    @cached_property
    def _cuts(self) -> tuple[Cut, Cut]:
        return self.mechanism.cut(self.size), self.mechanism.cut(self.size + 1)

    @property
    def _unit(self) -> float:
        return 1.0 / self.mechanism.noises[0]

    @property
    def _dimension(self) -> int:
        return self.mechanism.dimension or 1

    @property
    def _moves(self) -> bool:
        """Whether there is one batch more: then D has full batches only."""
        before, after = self._cuts
        return before.batches != after.batches

    @cached_property
    def _full(self) -> _Step:
        size = self._cuts[0].size
        return _step(self.mechanism, self.size, size, size)

    @cached_property
    def _last(self) -> _Step | None:
        """The batch that differs in size: the last one, which grows, or is there in D' only and small beside a full one of D."""
        before, after = self._cuts
        if self._moves:
            return _step(self.mechanism, self.size, before.size, after.last) if after.last else None
        # a last batch may grow to a full one
        return _step(self.mechanism, self.size, before.last, after.last or after.size) if before.last else None

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """Steps with full batches on both sides, epochs begun among them, and steps at which sizes differ; counted on D'."""
        epochs = Epochs(self._cuts[1].batches, self.steps)
        last = epochs.whole if self._last else 0
        return self.steps - last, epochs.begun, last

    def _product(self, *rows: tuple[int, _Step | None, float]) -> Parts:
        """So many steps, each with its shift in units of C; those of one scale are one pair, in all of their dimensions."""
        squares: dict[float, list[tuple[int, float]]] = {}
        for count, step, shift in rows:
            if count > 0 and step is not None:
                squares.setdefault(step.log_scale, []).append((count, shift * self._unit))
        found: list[tuple[int, Law]] = []
        for log_scale, those in squares.items():
            total, count = math.sqrt(math.fsum(n * shift**2 for n, shift in those)), sum(n for n, _ in those)
            if log_scale == 0.0:
                found.append((1, Gaussian(total)))
            elif total == 0.0:
                found.append((1, across_only(self._dimension * count, log_scale)))
            else:
                found.append((1, gaussian_pair(self._dimension * count, total, log_scale=log_scale)))
        return tuple(found)

    @property
    def _constant(self) -> bool:
        """Whether nothing but the batches themselves moves."""
        return self._full.log_scale == 0.0 and self._full.less == 0.0

    def attacks(self) -> Iterator[Attack]:
        full, last = self._full, self._last
        count, _, lasts = self._counts
        # every gradient is C v: a sum is the size of its batch, which nobody has to guess
        shift = full.off * full.before
        of_last = 0.0 if last is None else abs(last.grown)
        yield Attack(Added(1.0, 1.0), self._product((count, full, shift), (lasts, last, of_last)))
        if not self._cuts[0].full:
            return
        if self.mechanism.drawn is Sampling.SHUFFLE:
            yield self._opposed()
            if not self._moves:
                yield from self._scored()
        elif self._constant:
            # a last batch that is divided by its own size is not looked at, nor epochs that do not begin together
            seen = last if last is not None and last.log_scale == 0.0 and not self._moves else None
            count = min(count, self._cuts[0].full) if self._moves else count
            yield Attack(Alternating(), self._product((count, full, 2.0), (lasts, seen, 1.0)))

    def _opposed(self) -> Attack:
        """The new record is opposed to all others: the full batch that has it is 2 C behind, over its denominator."""
        full, cut, unit = self._full, self._cuts[0], self._unit
        # where an epoch has one batch more, those of D and D' begin together once
        seen = min(self.steps, cut.full) if self._moves else self.steps
        epochs = Epochs(cut.batches, seen)

        def of(count: int) -> Law | None:
            if not count:
                return None
            there = count * cut.size / (self.size + 1)
            mean, scale = full.less * full.before * unit, math.exp(full.log_scale)
            return largest(count, Shifted(0.0), Shifted(2.0 * full.shrink * unit, there, scale, mean))

        whole = of(cut.full)
        assert whole is not None, "there are full batches"
        across = (self._dimension - 1) * (seen if self._moves else self._counts[0]) if full.log_scale else 0
        beside = ((1, across_only(across, full.log_scale)),) if across else ()
        return Attack(Added(1.0, -1.0), (*beside, *epochs.parts(whole, of(min(epochs.rest, cut.full)))))

    def proofs(self) -> Iterator[Proof]:
        before, after = self._cuts
        if self._moves:
            raise Unproved(BatchesMove(before.batches, after.batches))
        full, last = self._full, self._last
        count, begun, lasts = self._counts
        shuffled = self.mechanism.drawn is Sampling.SHUFFLE
        if shuffled and last is None and self._constant:
            # one of its places is among those that are dropped
            there = before.full * before.size / (self.size + 1)
            yield Proof(ProofName.TAKEN, ((begun, Subsampled(Gaussian(2.0 * self._unit), there)),))
        # the batch in which a record has taken another's place: of each epoch one, or in order all of them
        swaps = (min(begun, count) if shuffled else count) if before.full else 0
        off = full.off
        swapped = off * (full.before - 1) + full.shrink + 1.0
        grown = 0.0 if last is None else last.off * last.before + last.shrink
        yield Proof(
            ProofName.SWAPPED,
            self._product((count - swaps, full, off * full.before), (swaps, full, swapped), (lasts, last, grown)),
        )

    def _scored(self) -> Iterator[Attack]:
        """The same pair over a constant: all full batches of a whole epoch, each with its score."""
        cut, step = self._cuts[0], 2.0 * self._unit
        epochs = Epochs(cut.batches, self.steps)
        if self._constant and epochs.whole and cut.full > 1 and step < STANDS_OUT:
            there = cut.full * cut.size / (self.size + 1)
            law = scores(cut.full, Shifted(0.0), Shifted(step, there))
            yield Attack(Added(1.0, -1.0), ((epochs.whole, law),))


@final
@dataclass(frozen=True)
class _FixedSize:
    """b of N records against b of N + 1."""

    mechanism: Mechanism
    steps: int
    size: int

    @cached_property
    def _step(self) -> _Step:
        batch = self._batch
        return _step(self.mechanism, self.size, batch, batch)

    @property
    def _batch(self) -> int:
        batch = self.mechanism.size_of_batches
        if batch is None or batch > self.size:
            raise Undefined(
                "batch_size", batch, f"from 1 to {self.size} for one record added or removed", "b is a public constant"
            )
        return batch

    @property
    def _taken(self) -> Law:
        """Over one denominator: the noisy sum with a step of 2 C, at the rate of D'."""
        return Subsampled(Gaussian(2.0 / self.mechanism.noises[1]), self._batch / (self.size + 1))

    @property
    def _exact(self) -> Law | None:
        """Where the denominator stays."""
        return self._taken if (self._step.less, self._step.log_scale) == (0.0, 0.0) else None

    def _pair(self, shift: float) -> Law:
        unit, dimension = 1.0 / self.mechanism.noises[0], self.mechanism.dimension or 1
        return gaussian_pair(dimension, shift * unit, log_scale=self._step.log_scale)

    def attacks(self) -> Iterator[Attack]:
        if (exact := self._exact) is not None:
            yield Attack(Added(1.0, -1.0), ((self.steps, exact),))
            return
        yield Attack(Added(1.0, 1.0), ((self.steps, self._pair(self._step.off * self._batch)),))
        yield Attack(Added(1.0, -1.0), ((self.steps, self._opposed()),))

    def _opposed(self) -> Law:
        """All gradients of D are C v and the new one is opposed: with the rate of D' its batch is 2 C behind."""
        step, unit, rate = self._step, 1.0 / self.mechanism.noises[0], self._batch / (self.size + 1)
        scale, usual = math.exp(step.log_scale), step.less * self._batch * unit
        one, two = np.ones(1), np.array([1.0 - rate, rate])
        means = np.array([usual, usual + 2.0 * step.shrink * unit])
        return ExplicitPair(
            Added(1.0, -1.0),
            self.mechanism.dimension or 1,
            LineMixture(one, np.zeros(1), one).present(),
            LineMixture(two, means, np.full(2, scale)).present(),
            log_scale=step.log_scale,
        )

    def proofs(self) -> Iterator[Proof]:
        if (exact := self._exact) is not None:
            yield Proof(ProofName.TAKEN, ((self.steps, exact),))
            return
        step = self._step
        off = step.off
        swapped = off * (self._batch - 1) + step.shrink + 1.0
        yield Proof(ProofName.SWAPPED, ((self.steps, self._pair(swapped)),))
        # D over its own denominator -> D over that of D', batches revealed -> D'
        yield Proof(ProofName.CHAIN, ((self.steps, self._taken),), ((self.steps, self._pair(off * self._batch)),))


@final
@dataclass(frozen=True)
class _Allocated:
    """Records allocated at random to t batches, against the same with one record more."""

    mechanism: Mechanism
    steps: int

    @property
    def _same(self) -> OfOneSize:
        """A record that is not there and one whose gradient is zero are the same to a sum."""
        return OfOneSize(self.mechanism, self.steps, 0.0, 1.0)

    @cached_property
    def _log_scale(self) -> float:
        if not isinstance(self.mechanism, DatasetDenominator):
            raise TypeError(f"{type(self.mechanism).__name__} divides by no function of N")
        moved = self.mechanism.neighbours
        # sums and noise are scaled by one number: so it is unless the noise itself moves
        need_same(moved.rates, moved.noises)
        return moved.log_scale

    @property
    def _stays(self) -> bool:
        return not self.mechanism.size_matters or self._log_scale == 0.0

    def attacks(self) -> Iterator[Attack]:
        if self._stays:
            yield from (Attack(ALL_ZERO, one.parts) for one in self._same.attacks())
            return
        epochs, scale = epochs_of(self.mechanism, self.steps), math.exp(self._log_scale)
        unit = 1.0 / self.mechanism.noises[0]
        whole = largest(epochs.batches, Shifted(0.0), Shifted(scale * unit, 1.0, scale))
        rest = None
        if epochs.rest:
            rest = largest(epochs.rest, Shifted(0.0), Shifted(scale * unit, epochs.rest / epochs.batches, scale))
        across = (self.mechanism.needed_dimension - 1) * self.steps
        # the noise across, which is all that the denominator shows, beside the batch with the record
        yield Attack(ALL_ZERO, ((1, across_only(across, self._log_scale)), *epochs.parts(whole, rest)))
        everywhere = self.mechanism.needed_dimension * self.steps
        yield Attack(Added(0.0, 0.0), ((1, across_only(everywhere, self._log_scale)),))

    def proofs(self) -> Iterator[Proof]:
        if self._stays:
            yield from self._same.proofs()
            return
        allocated = epochs_of(self.mechanism, self.steps).allocation(1.0 / self.mechanism.noises[0], Side.ABOVE)
        size = self.mechanism.dataset_size or 0
        # D over its own denominator -> D over that of D' -> D'; and D -> D' over the denominator of D -> D' over its own
        yield Proof(ProofName.CHAIN, allocated, ((1, self._rescaled(size)),))
        yield Proof(ProofName.CHAIN, ((1, self._rescaled(size + 1)),), allocated)

    def _rescaled(self, size: int) -> Law:
        """One dataset over both denominators, the batches revealed: all of a run as one pair.

        The sizes of an epoch add up to N, so their squares to N times the largest at the most.
        """
        mechanism = self.mechanism
        epochs = epochs_of(mechanism, self.steps)
        _, most = binomial.effective_range(size, float(mechanism.rate), _NEVER / self.steps)
        off = -math.expm1(self._log_scale) / mechanism.noises[0]
        total = abs(off) * math.sqrt(epochs.begun * size * min(most, size))
        return GaussianPairs(
            mechanism.needed_dimension * self.steps,
            np.ones(1),
            np.array([total]),
            np.array([self._log_scale]),
            left_out=_NEVER,
        )
