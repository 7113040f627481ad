r"""Batches that are not drawn by Poisson sampling: explicit pairs and proofs for each way, each with its adjacency.

In units of the noise of D a full gradient has length 1/sigma. t batches in an epoch; a started epoch counts whole in a guarantee.
Proofs are in docs/theory.md, "Batches that are not drawn by Poisson sampling".

Neighbours of one size (zero-out, replace-one): N is public, so every denominator is a constant here.

    shuffle, cyclic   the order revealed, a record is in one batch of an epoch: one Gaussian shift each
    balls-in-bins     the pair of `laws.allocation`, which is attained; or the bin revealed
    fixed-size        the pair of `laws.without_replacement`; or the batch revealed

One record added or removed, N against N + 1:

    balls-in-bins     the same pair; where the denominator moves, a chain through D over the denominator of D'
    fixed-size        a batch of D' is one of D, but with probability b/(N+1) the new record has taken another's place: exact
    shuffle, cyclic   the new record takes another's place, and that one goes where there is one more place; all batch sizes are
                      known, so a denominator that moves shifts the mean of every step by as much as its batch can add up to

Explicit pairs are attacks on the same: an attacker on an epoch sees the largest of its t sums (`laws.largest`), or their sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeAlias, assert_never, final

import numpy as np

from noisymean.errors import InvalidInput, Undefined, Unproved
from noisymean.laws.allocation import allocation
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import GaussianPairs, across_only, gaussian_pair
from noisymean.laws.largest import Shifted, largest
from noisymean.laws.line_mixture import LineMixture
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.laws.subsampled import Subsampled
from noisymean.laws.without_replacement import Shifts, without_replacement
from noisymean.mechanisms import Adjacency, BatchDenominator, Cut, DatasetDenominator, Mechanism, Sampling
from noisymean.numerics import binomial
from noisymean.pairs import ALL_ZERO, ZEROED_OUT, Added, Alternating, Datasets, Replaced, ReplacedAmong
from noisymean.tradeoff import Law, Side
from noisymean.words import BatchesMove, ProofName

Parts: TypeAlias = tuple[tuple[int, Law], ...]

# Batch sizes that are exceeded in a whole run with this probability are left out, and charged.
_NEVER = 1e-18


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


def attacks(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> list[Attack]:
    """Explicit pairs for so many steps; where neighbours differ in size, `dataset_size` is that of the smaller one."""
    if adjacency is Adjacency.ADD_REMOVE:
        return list(_added(mechanism, steps).attacks())
    return list(_of_one_size(mechanism, steps, adjacency).attacks())


def proofs(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> list[Proof]:
    """Proofs for so many steps, each sound by itself. Unproved where there is none."""
    if adjacency is Adjacency.ADD_REMOVE:
        return list(_added(mechanism, steps).proofs())
    return list(_of_one_size(mechanism, steps, adjacency).proofs())


@final
@dataclass(frozen=True)
class _Epochs:
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
        """Epochs in all."""
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

    def allocation(self, shift: float, side: Side) -> Parts:
        """Random allocation to the batches of each epoch."""
        rest = self.rest
        # a batch that is all of the epoch is the Gaussian mechanism
        whole = Gaussian(shift) if self.batches == 1 else allocation(shift, self.batches, self.batches, side)
        return self.parts(whole, allocation(shift, self.batches, rest, side) if rest else None)


def _epochs(mechanism: Mechanism, steps: int) -> _Epochs:
    return _Epochs(mechanism.batches_in_epoch, steps)


# --- neighbours of one size ----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _OfOneSize:
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
        """Of a batch of fixed size."""
        one = self.mechanism
        if one.batch_size is not None and one.dataset_size is not None:
            return float(Fraction(min(one.batch_size, one.dataset_size), one.dataset_size))
        return one.q

    @property
    def _present(self) -> tuple[float, float]:
        """The probability that a record is in one of the batches of an epoch, as others may be dropped; and in the first."""
        one = self.mechanism
        if one.batch_size is None or one.dataset_size is None:
            return 1.0, 1.0 / one.batches_in_epoch
        cut = one.cut(one.dataset_size)
        each = cut.size / one.dataset_size
        return (cut.full * each if one.drop_last else 1.0), min(each, 1.0)

    def attacks(self) -> Iterator[Attack]:
        epochs, unit = _epochs(self.mechanism, self.steps), self._unit
        match self.mechanism.drawn:
            case Sampling.CYCLIC:
                yield Attack(self._alone, ((epochs.begun, Gaussian(self._own)),))
            case Sampling.SHUFFLE:
                # of all others -C u a batch without the record is the same in D and D'
                ends = ((self.before + 1.0) * unit, (self.after + 1.0) * unit)
                present, each = self._present
                yield Attack(self._opposed, epochs.largest(present, each, *ends))
                if present == 1.0:
                    yield from self._summed(epochs, self._opposed)
            case Sampling.BALLS_IN_BINS:
                if self.before == 0.0:
                    yield Attack(self._alone, epochs.allocation(self._own, Side.BELOW))
                else:
                    ends = (self.before * unit, self.after * unit)
                    yield Attack(self._alone, epochs.largest(1.0, 1.0 / epochs.batches, *ends))
                    yield from self._summed(epochs, self._alone)
            case Sampling.FIXED_SIZE:
                yield Attack(self._alone, ((self.steps, self._mixed(self.before, self.after, self._alone)),))
                pair = self._mixed(self.before + 1.0, self.after + 1.0, self._opposed)
                yield Attack(self._opposed, ((self.steps, pair),))
            case Sampling.POISSON:
                raise TypeError("Poisson sampling is analysed elsewhere")
            case _ as never:
                assert_never(never)

    def _summed(self, epochs: _Epochs, datasets: Datasets) -> Iterator[Attack]:
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
        epochs, own = _epochs(self.mechanism, self.steps), self._own
        once = Proof(ProofName.ONCE, ((epochs.begun, Gaussian(own)),))
        match self.mechanism.drawn:
            case Sampling.CYCLIC | Sampling.SHUFFLE:
                yield once
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
        weights, shifts = np.array([1.0 - rate, rate]), np.array([0.0, own])
        yield Proof(ProofName.BATCH, ((self.steps, GaussianPairs(1, weights, shifts, np.zeros(2))),))


def _of_one_size(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> _OfOneSize:
    _need_known(mechanism)
    return _OfOneSize(mechanism, steps, 0.0 if adjacency is Adjacency.ZERO_OUT else -1.0, 1.0)


def _need_known(mechanism: Mechanism) -> None:
    """Undefined where the size of a batch, which it is divided by, is random."""
    if mechanism.drawn is Sampling.BALLS_IN_BINS and isinstance(mechanism, BatchDenominator):
        raise Undefined(
            "sampling", mechanism.drawn.value, f"another for {mechanism.name.upper()}",
            f"its denominator {mechanism.denominator} is random, and nobody has analysed that",
        )  # fmt: skip


# --- one record added or removed -----------------------------------------------------------------------------------------


def _added(mechanism: Mechanism, steps: int) -> _Cut | _Allocated | _FixedSize:
    _need_known(mechanism)
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
    """A batch of `before` records on D and `after` on D'; what becomes of sums and of the noise."""

    before: int
    after: int
    shrink: float
    log_scale: float


def _step(mechanism: Mechanism, size: int, before: int, after: int) -> _Step:
    """Batches of these sizes on `size` records and on one more."""
    c, c_with = (
        float(mechanism.divisors(size + i, np.array([float(batch)]))[0]) for i, batch in enumerate((before, after))
    )
    noise, noise_with = mechanism.noises
    log_shrink = -math.log1p((c_with - c) / c)
    return _Step(before, after, math.exp(log_shrink), log_shrink + math.log1p((noise_with - noise) / noise))


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
        epochs = _Epochs(self._cuts[1].batches, self.steps)
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
        return self._full.log_scale == 0.0 and self._full.shrink == 1.0

    def attacks(self) -> Iterator[Attack]:
        full, last = self._full, self._last
        count, _, lasts = self._counts
        # every gradient is C v: a sum is the size of its batch, which nobody has to guess
        shift = abs(full.shrink - 1.0) * full.before
        of_last = 0.0 if last is None else abs(last.shrink * last.after - last.before)
        yield Attack(Added(1.0, 1.0), self._product((count, full, shift), (lasts, last, of_last)))
        if self._moves or not self._cuts[0].full:
            return
        if self.mechanism.drawn is Sampling.SHUFFLE:
            yield self._opposed()
        elif self._constant:
            # a last batch that is divided by its own size is not looked at
            seen = last if last is not None and last.log_scale == 0.0 else None
            yield Attack(Alternating(), self._product((count, full, 2.0), (lasts, seen, 1.0)))

    def _opposed(self) -> Attack:
        """The new record is opposed to all others: the full batch that has it is 2 C behind, over its denominator."""
        full, cut, unit = self._full, self._cuts[0], self._unit
        epochs = _Epochs(cut.batches, self.steps)

        def of(count: int) -> Law | None:
            if not count:
                return None
            there = count * cut.size / (self.size + 1)
            mean, scale = (1.0 - full.shrink) * full.before * unit, math.exp(full.log_scale)
            return largest(count, Shifted(0.0), Shifted(2.0 * full.shrink * unit, there, scale, mean))

        whole = of(cut.full)
        assert whole is not None, "there are full batches"
        across = (self._dimension - 1) * self._counts[0] if full.log_scale else 0
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
        off = abs(full.shrink - 1.0)
        swapped = off * (full.before - 1) + full.shrink + 1.0
        grown = 0.0 if last is None else abs(last.shrink - 1.0) * last.before + last.shrink
        yield Proof(
            ProofName.SWAPPED,
            self._product((count - swaps, full, off * full.before), (swaps, full, swapped), (lasts, last, grown)),
        )


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
        batch = self.mechanism.batch_size
        if batch is None or batch > self.size:
            raise Undefined(
                "batch_size", batch, f"from 1 to {self.size} for one record added or removed", "b is a public constant"
            )
        return batch

    @property
    def _exact(self) -> Law | None:
        """Where the denominator stays: the noisy sum with a step of 2 C, at the rate of D'."""
        if (self._step.shrink, self._step.log_scale) != (1.0, 0.0):
            return None
        return Subsampled(Gaussian(2.0 / self.mechanism.noises[0]), self._batch / (self.size + 1))

    def _pair(self, shift: float) -> Law:
        unit, dimension = 1.0 / self.mechanism.noises[0], self.mechanism.dimension or 1
        return gaussian_pair(dimension, shift * unit, log_scale=self._step.log_scale)

    def attacks(self) -> Iterator[Attack]:
        if (exact := self._exact) is not None:
            yield Attack(Added(1.0, -1.0), ((self.steps, exact),))
            return
        yield Attack(Added(1.0, 1.0), ((self.steps, self._pair(abs(self._step.shrink - 1.0) * self._batch)),))

    def proofs(self) -> Iterator[Proof]:
        if (exact := self._exact) is not None:
            yield Proof(ProofName.TAKEN, ((self.steps, exact),))
            return
        step = self._step
        swapped = abs(step.shrink - 1.0) * (self._batch - 1) + step.shrink + 1.0
        yield Proof(ProofName.SWAPPED, ((self.steps, self._pair(swapped)),))


@final
@dataclass(frozen=True)
class _Allocated:
    """Records allocated at random to t batches, against the same with one record more."""

    mechanism: Mechanism
    steps: int

    @property
    def _same(self) -> _OfOneSize:
        """A record that is not there and one whose gradient is zero are the same to a sum."""
        return _OfOneSize(self.mechanism, self.steps, 0.0, 1.0)

    @cached_property
    def _log_scale(self) -> float:
        if not isinstance(self.mechanism, DatasetDenominator):
            raise TypeError(f"{type(self.mechanism).__name__} divides by no function of N")
        return self.mechanism.neighbours.log_scale

    @property
    def _stays(self) -> bool:
        return not self.mechanism.size_matters or self._log_scale == 0.0

    def attacks(self) -> Iterator[Attack]:
        if self._stays:
            yield from (Attack(ALL_ZERO, one.parts) for one in self._same.attacks())
            return
        epochs, scale = _epochs(self.mechanism, self.steps), math.exp(self._log_scale)
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
        allocated = _epochs(self.mechanism, self.steps).allocation(1.0 / self.mechanism.noises[0], Side.ABOVE)
        size = self.mechanism.dataset_size or 0
        # D over its own denominator -> D over that of D' -> D'; and D -> D' over the denominator of D -> D' over its own
        yield Proof(ProofName.CHAIN, allocated, ((1, self._rescaled(size)),))
        yield Proof(ProofName.CHAIN, ((1, self._rescaled(size + 1)),), allocated)

    def _rescaled(self, size: int) -> Law:
        """One dataset over both denominators, the batches revealed: all of a run as one pair.

        The sizes of an epoch add up to N, so their squares to N times the largest at the most.
        """
        mechanism = self.mechanism
        epochs = _epochs(mechanism, self.steps)
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
