r"""A run accounted for: what is claimed, what certainly leaks, what is guaranteed, side by side.

    claimed    the noisy sum at the rate that is told: the number that accountants report
    leakage    the run on an explicit pair of datasets: a lower bound on every true guarantee
    guarantee  a sound upper bound, the best of the proofs of docs/accountant.md

Every epsilon is the larger of the two directions (D from D', D' from D); leakage is rounded down, guarantee up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

from noisymean.accounts import Account, Bound, Pair, PairBounds
from noisymean.checks import member, real
from noisymean.compose.chained import ChainedRounds, improved, improved_delta
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.errors import InvalidInput, Undefined, Unproved
from noisymean.lifted import LiftedRounds
from noisymean.mechanisms import SGM, Adjacency, Mechanism, Sampling, with_public_size
from noisymean.pairs import ALL_ZERO, ZEROED_OUT, Datasets
from noisymean.rate_chain import RateChained
from noisymean.runs import Run
from noisymean.tradeoff import LARGEST_EPSILON, Side
from noisymean.verdict import Claim, check_order, decide
from noisymean.words import (
    HoldsForOthers,
    Note,
    NotPoisson,
    OneSize,
    OnlyAdded,
    ProofName,
    Reason,
    ReplacedIsBoth,
    Said,
    SizeIsPublic,
    TooLarge,
)

SMALLEST_DELTA = 1e-200


@final
@dataclass(frozen=True)
class Question:
    """Epsilon at a delta above 0, or delta at an epsilon: exactly one of the two is given."""

    delta: float | None = None
    epsilon: float | None = None

    @classmethod
    def of(cls, delta: float | None, epsilon: float | None) -> Question:
        """What a user asks, or a complaint."""
        if delta is None and epsilon is None:
            raise InvalidInput("delta", None, "given, or epsilon in its place", "e.g. delta=1e-5")
        if delta is not None and epsilon is not None:
            raise InvalidInput("epsilon", epsilon, "left out where delta is given", "give either, not both")
        if delta is not None:
            return cls(
                delta=real("delta", delta, least=SMALLEST_DELTA, most=1.0, remedy="delta = 0 has no finite epsilon")
            )
        return cls(epsilon=real("epsilon", epsilon, least=0.0, most=1e6))

    def ask(self, curve: DeltaCurve, side: Side) -> float:
        """The answer for one direction."""
        if self.delta is not None:
            return curve.epsilon(self.delta, side)
        return math.exp(min(curve.log_delta(self.epsilon or 0.0, side), 0.0))

    def worst(self, curve: DeltaCurve, side: Side, already: float = -math.inf) -> float:
        """The larger of the two directions and of what is known `already`; no more work than it takes to see which that is."""
        return self.worse(curve.inverse(), side, self.worse(curve, side, already))

    def worse(self, curve: DeltaCurve, side: Side, already: float) -> float:
        """The larger of this direction and of what is known `already`."""
        return already if self.no_more(curve, already, side) else max(already, self.ask(curve, side))

    def no_more(self, curve: DeltaCurve, answer: float, side: Side = Side.ABOVE) -> bool:
        """One evaluation at the answer instead of a search for another that would be smaller."""
        return self.delta is not None and answer > 0.0 and bool(curve.at_most(answer, math.log(self.delta), side=side))

    def interval(self, rounds: Rounds) -> tuple[float, float]:
        """(lower, upper) end of the larger of the two directions; the lower end of the one that looks larger is one for both."""
        back = rounds.inverse()
        upper = self.ask(rounds, Side.ABOVE)
        if self.no_more(back, upper) or (other := self.ask(back, Side.ABOVE)) <= upper:
            return self._lower(rounds, upper), upper
        return self._lower(back, other), other

    def _lower(self, rounds: Rounds, upper: float) -> float:
        if self.delta is None:
            return self.ask(rounds, Side.BELOW)
        return rounds.epsilon(self.delta, Side.BELOW, near=upper)

    def bound(self, value: float | None, pair: Datasets | None = None, proofs: tuple[ProofName, ...] = ()) -> Bound:
        """The answer beside what was asked."""
        if self.delta is not None:
            return Bound(epsilon=value, delta=self.delta, pair=pair, proofs=proofs)
        return Bound(epsilon=self.epsilon, delta=value, pair=pair, proofs=proofs)


def claimed_interval(run: Run, question: Question) -> tuple[float, float]:
    """What an accountant of the noisy sum reports, rounded down and up."""
    return question.interval(run.merged().claimed())


class Leaked(NamedTuple):
    """The most that one of the explicit pairs gives away, which one, and whether it is D that is told from D' by it."""

    value: float
    pair: Datasets
    reverse: bool = False


def leaked(run: Run, question: Question, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Leaked:
    """The most that one of the explicit pairs gives away."""
    most = Leaked(-math.inf, ALL_ZERO)
    for datasets, rounds in run.merged().leakages(adjacency):
        ways = (rounds.inverse(), rounds) if most.reverse else (rounds, rounds.inverse())
        for way in ways:
            if question.delta is not None and most.value > LARGEST_EPSILON:
                # whichever pair leaks more, such a number says it all
                return most
            found = question.worse(way, Side.BELOW, most.value)
            if found > most.value:
                most = Leaked(found, datasets, way.reverse)
    return most


class Proved(NamedTuple):
    """An upper bound, and what it rests on."""

    value: float
    proofs: tuple[ProofName, ...] = ()


def guaranteed(
    run: Run,
    question: Question,
    *,
    reverse: bool = False,
    leaked: float = -math.inf,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Proved:
    """The best proof in the worse direction; inf where no epsilon up to the largest is proved, Undefined where there is none.

    The direction that is told to leak more goes first: of the other one it takes less to see that it is no worse. Where delta is
    what is asked for, chains, which are slow then, are not tried beside a proof that says hardly more than what is `leaked`.
    """
    enough = -math.inf if question.delta is not None else _HARDLY_MORE * leaked
    first = guaranteed_one_way(run, question, reverse=reverse, enough=enough, adjacency=adjacency)
    second = guaranteed_one_way(run, question, reverse=not reverse, enough=first.value, adjacency=adjacency)
    return max(first, second, key=lambda one: one.value)


def guaranteed_one_way(
    run: Run,
    question: Question,
    *,
    reverse: bool,
    enough: float = -math.inf,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Proved:
    """The least that is proved for one direction, D' told from D or D from D' (`reverse`), or what is no more than `enough`."""
    found = [one.inverse() if reverse else one for one in run.guarantees(adjacency)]
    # those that take longest come last and have to be better
    found.sort(key=lambda one: _COST[type(one.curve)])
    best = Proved(math.inf)
    for one in found:
        if question.no_more(one.curve, enough):
            return Proved(enough, one.proofs)
        if question.delta is None:
            value = improved_delta(one.curve, best.value, question.epsilon or 0.0)
        else:
            value = improved(one.curve, best.value, math.log(question.delta))
        if value < best.value:
            best = Proved(value, one.proofs)
        if best.value <= enough:
            break
    return best


# No proof is looked for that could only save a thousandth of delta.
_HARDLY_MORE = 1.001
# The order in which proofs are asked: the lift is nearly always the best, chains are slow.
_COST: dict[type, int] = {LiftedRounds: 0, Rounds: 1, RateChained: 2, ChainedRounds: 3}


def account(
    run: Mechanism | Iterable[tuple[Mechanism, int]],
    *,
    steps: int | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    adjacency: Adjacency | str | None = None,
    pair: Pair | str | None = None,
) -> Account:
    """Claimed, leaked and guaranteed epsilon at `delta` (or the three deltas at `epsilon`) of a run.

    That is `steps` rounds of a mechanism, or a schedule, a list of (mechanism, steps). `dataset_size` is the number of records of
    the user's dataset. One may be added or one removed: the answer is the worse of the two, unless `pair` ("smaller" or "larger")
    asks for one of them. `adjacency` is what neighbours differ in: one record added or removed, unless it is said, or unless
    batches are cut from the dataset or of a fixed size, and divided by a constant: then it is one record zeroed out, and a claim,
    which is for one added or removed, holds only if you say that it is for these.

    >>> import noisymean as nm
    >>> run = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10)
    >>> nm.account(run, steps=200, delta=1e-5).verdict
    'violated'

    A noise schedule:

    >>> quiet, loud = (nm.SGM(sample_rate=0.01, noise_multiplier=sigma) for sigma in (1.5, 1.0))
    >>> nm.account([(quiet, 500), (loud, 500)], delta=1e-5).verdict
    'holds'
    """
    question = Question.of(delta, epsilon)
    asked = Run.of(run, steps)
    told = None if adjacency is None else member("adjacency", adjacency, Adjacency)
    adjacency = told or asked.adjacency
    # the claim is made on the user's dataset at the rate that the accountant is told, whatever is compared with it
    claimed = claimed_interval(asked, question)
    pairs, unjudged = _pairs(asked, adjacency, pair)
    found = {which: _on_pair(one, asked, question, claimed, adjacency) for which, one in pairs.items()}
    worst = max(
        found, key=lambda which: (found[which].leaked, math.inf if found[which].sound is None else found[which].sound)
    )
    sound = _worst_of(list(found.values()))
    for which, one in found.items():
        # on each pair by itself: the worse of two may hide it
        check_order(one.leaked, one.sound, f"{pairs[which].segments}, delta={delta}, epsilon={epsilon}")
    claim = Claim(*claimed, all(one.is_the_claim for one in found.values()))
    verdict = decide(claim, found[worst].leaked, None if sound is None else sound.value)
    remarks = (*_notes(asked, adjacency), *unjudged)
    if verdict == "holds" and told is None and adjacency is not Adjacency.ADD_REMOVE:
        # a promise for one kind of neighbours is none for another, and nobody has said that it is for these
        verdict, remarks = "undetermined", (HoldsForOthers(adjacency.value, adjacency.change), *remarks)
    return Account(
        segments=asked.segments,
        claimed=question.bound(claimed[1]),
        leakage=question.bound(found[worst].leaked, found[worst].pair),
        guarantee=question.bound(sound.value, proofs=sound.proofs) if sound else question.bound(None),
        claimed_lower=question.bound(claimed[0]),
        verdict=verdict,
        remarks=remarks,
        pair=worst,
        neighbours=tuple(
            PairBounds(
                which,
                pairs[which].dataset_size,
                question.bound(one.leaked, one.pair),
                question.bound(one.sound, proofs=one.proofs),
            )
            for which, one in found.items()
        ),
        asked_delta=delta is not None,
        unproved=tuple(dict.fromkeys(one.unproved for one in found.values() if one.unproved)),
        adjacency=adjacency,
        adjacency_told=told is not None,
    )


def _worst_of(found: list[_Found]) -> Proved | None:
    """The largest; unknown if one of them is."""
    known = [Proved(one.sound, one.proofs) for one in found if one.sound is not None]
    return max(known, key=lambda one: one.value) if len(known) == len(found) else None


def _pairs(run: Run, adjacency: Adjacency, asked: Pair | str | None) -> tuple[dict[Pair, Run], tuple[Note, ...]]:
    """The run on each pair of neighbours, by the size of the smaller dataset, and what must be said of one left out."""
    wanted = None if asked is None else member("pair", asked, Pair)
    size = run.dataset_size
    if not run.size_moves or adjacency is not Adjacency.ADD_REMOVE:
        # the noisy sum does not know N, and neighbours of one size have no other
        return {wanted or Pair.LARGER: run}, ()
    both = pairs_of(run)
    if Pair.SMALLER not in both:
        if wanted is Pair.SMALLER:
            raise Undefined("pair", "smaller", f"larger at dataset_size={size}", "no record can be taken away")
        return both, (OnlyAdded(size),) if wanted is None and size else ()
    return (both if wanted is None else {wanted: both[wanted]}), ()


def pairs_of(run: Run) -> dict[Pair, Run]:
    """A run on a user's dataset, as one on each pair of neighbours: its dataset_size is that of the smaller of the two.

    The noisy sum does not know N. Where no record can be taken away there is one pair only.
    """
    fewer = run.fewer()
    return {Pair.LARGER: run} if fewer is None else {Pair.LARGER: run, Pair.SMALLER: fewer}


@final
@dataclass(frozen=True)
class _Found:
    """What is known of one pair of neighbours; `is_the_claim`: it is the noisy sum at the rate that was told."""

    leaked: float
    pair: Datasets
    sound: float | None
    unproved: Reason | None = None
    proofs: tuple[ProofName, ...] = ()
    is_the_claim: bool = False


def _on_pair(run: Run, asked: Run, question: Question, claimed: tuple[float, float], adjacency: Adjacency) -> _Found:
    if not run.is_poisson:
        if not all(isinstance(one, SGM) and one.draws_all(adjacency) for one in run.mechanisms):
            return _best_known(run, question, adjacency)
        # nothing is drawn: the noisy sum of all records
        run = run.mapped(SGM(sample_rate=1, noise_multiplier=one.noise_multiplier) for one in run.mechanisms)
    run = run.mapped(with_public_size(one, adjacency) for one in run.mechanisms).merged()
    if adjacency is Adjacency.REPLACE_ONE:
        # one record removed, another added: two links of the noisy sum
        replaced, rounds = run.replaced()
        link = run.truth()
        sound = question.worst(ChainedRounds(link.inverse(), link), Side.ABOVE)
        return _Found(question.worst(rounds, Side.BELOW), replaced, *_finite(Proved(sound, (ProofName.CHAIN,))))
    if run.is_sum:
        # all-zero D against the same with one C*u attains the curve of the noisy sum: one number, three names
        same = run.sums() == asked.told_sums()
        low, high = claimed if same else question.interval(run.truth())
        pair: Datasets = ZEROED_OUT if adjacency is Adjacency.ZERO_OUT else ALL_ZERO
        return _Found(low, pair, *_finite(Proved(high, (ProofName.NOISY_SUM,))), is_the_claim=same)
    return _best_known(run, question, adjacency)


def _best_known(run: Run, question: Question, adjacency: Adjacency) -> _Found:
    """The most that an explicit pair gives away, and the least that is proved."""
    most, pair, reverse = leaked(run, question, adjacency)
    if question.delta is not None and most > LARGEST_EPSILON:
        # no bound that a number is found for could be above it
        return _Found(most, pair, *_finite(Proved(math.inf)))
    try:
        proved = guaranteed(run, question, reverse=reverse, leaked=most, adjacency=adjacency)
        return _Found(most, pair, *_finite(proved))
    except Unproved as fault:
        return _Found(most, pair, None, fault.reason)
    except Undefined as fault:
        return _Found(most, pair, None, Said(str(fault)))


def _finite(sound: Proved) -> tuple[float | None, Reason | None, tuple[ProofName, ...]]:
    return (sound.value, None, sound.proofs) if math.isfinite(sound.value) else (None, TooLarge(), ())


def alternatives(answer: Account) -> tuple[Account, ...]:
    """What the same noise would cost over a constant denominator if batches were drawn by Poisson sampling, or allocated.

    For whoever draws them in another way: nothing where the claim holds, or where the batches of an epoch are not known.
    """
    if answer.sampling is Sampling.POISSON or answer.verdict == "holds" or len(answer.segments) > 1:
        return ()
    one = answer.mechanism
    # allocation has whole batches in an epoch
    rates = {Sampling.POISSON: one.rate, Sampling.BALLS_IN_BINS: Fraction(1, one.batches_in_epoch)}
    ways = [way for way in rates if way is not one.drawn or one.size_matters]
    delta, epsilon = (answer.claimed.delta, None) if answer.asked_delta else (None, answer.claimed.epsilon)
    return tuple(
        account(
            SGM(sample_rate=rates[way], noise_multiplier=one.noise_multiplier, sampling=way),
            steps=answer.steps,
            delta=delta,
            epsilon=epsilon,
            adjacency=Adjacency.ADD_REMOVE,
        )
        for way in ways
    )


def _notes(run: Run, adjacency: Adjacency) -> tuple[Note, ...]:
    told = dict.fromkeys(note for one in run.mechanisms for note in one.notes())
    if not run.is_poisson:
        public = () if adjacency is Adjacency.ADD_REMOVE else (OneSize(adjacency.value, adjacency.change),)
        return (NotPoisson(run.mechanisms[0].drawn.in_words), *public, *told)
    match adjacency:
        case Adjacency.ADD_REMOVE:
            return tuple(told)
        case Adjacency.ZERO_OUT:
            return (SizeIsPublic(), *told)
        case Adjacency.REPLACE_ONE:
            return (ReplacedIsBoth(), *told)
