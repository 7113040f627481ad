r"""T rounds: what is claimed, what certainly leaks, what is guaranteed, side by side.

    claimed    T-round SGM: the number that accountants report
    leakage    T rounds on an explicit pair of datasets: a lower bound on every true guarantee
    guarantee  a sound upper bound, the best of the proofs of docs/accountant.md

Every epsilon is the larger of the two directions (D from D', D' from D); leakage is rounded down, guarantee up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from noisymean.accounts import Account, Bound, Neighbour, Pair
from noisymean.compose.engine import Chain, DeltaCurve, Rounds, least_epsilon
from noisymean.errors import InvalidInput, Undefined, Unproved, check_number
from noisymean.many_rounds import claimed_rounds, guarantee_rounds, leakage_rounds, noisy_sum_rounds, replaced_rounds
from noisymean.mechanisms import (
    Adjacency,
    Mechanism,
    ToldRate,
    with_public_size,
)
from noisymean.pairs import ALL_ZERO, ZEROED_OUT, Datasets
from noisymean.tradeoff import Side
from noisymean.verdict import Claim, check_order, decide
from noisymean.words import BeyondDoubles, Note, OnlyAdded, Reason, ReplacedIsBoth, Said, SizeIsPublic

MOST_STEPS = 10**9
SMALLEST_DELTA = 1e-200


@final
@dataclass(frozen=True)
class _Question:
    """delta -> epsilon or epsilon -> delta."""

    delta: float | None
    epsilon: float | None

    def ask(self, curve: DeltaCurve, side: Side) -> float:
        """The answer for one direction."""
        if self.delta is not None:
            return curve.epsilon(self.delta, side)
        assert self.epsilon is not None
        return math.exp(min(curve.log_delta(self.epsilon, side), 0.0))

    def worst(self, curve: DeltaCurve, side: Side, already: float = -math.inf) -> float:
        """The larger of the two directions and of what is known `already`; no more work than it takes to see which that is."""
        for direction in (curve, curve.inverse()):
            if not self.no_more(direction, already):
                already = max(already, self.ask(direction, side))
        return already

    def no_more(self, curve: DeltaCurve, answer: float) -> bool:
        """One evaluation at the answer instead of a search for another that would be smaller."""
        return self.delta is not None and bool(curve.at_most(answer, math.log(self.delta)))

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

    def bound(self, value: float | None, pair: Datasets | None = None) -> Bound:
        """The answer beside what was asked."""
        if self.delta is not None:
            return Bound(epsilon=value, delta=self.delta, pair=pair)
        return Bound(epsilon=self.epsilon, delta=value, pair=pair)


def account(
    mechanism: Mechanism,
    *,
    steps: int,
    delta: float | None = None,
    epsilon: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    pair: Pair | str | None = None,
) -> Account:
    """Claimed, leaked and guaranteed epsilon of `steps` rounds at `delta` (or the three deltas at `epsilon`).

    `mechanism.dataset_size` is the number of records of the user's dataset. One may be added or one removed: the answer is the
    worse of the two, unless `pair` ("smaller" or "larger") asks for one of them.

    >>> import noisymean as nm
    >>> run = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10)
    >>> nm.account(run, steps=200, delta=1e-5).verdict
    'violated'
    """
    question = _question(delta, epsilon)
    steps = _checked_steps(steps)
    # the claim is made on the user's dataset at the rate that the accountant is told, whatever is compared with it
    claimed = question.interval(claimed_rounds(mechanism, steps))
    pairs, unjudged = _pairs(mechanism, adjacency, pair)
    found = [
        _on_pair(with_public_size(one, adjacency), steps, question, mechanism.told_rate(), claimed, adjacency)
        for one in pairs.values()
    ]
    worst = max(
        range(len(found)), key=lambda i: (found[i].leaked, math.inf if found[i].sound is None else found[i].sound)
    )
    leaked, sound = found[worst].leaked, _worst_of([one.sound for one in found])
    for which, one in zip(pairs.values(), found, strict=True):
        # on each pair by itself: the worse of two may hide it
        check_order(one.leaked, one.sound, f"{steps} rounds of {which}, delta={delta}, epsilon={epsilon}")
    claim = Claim(*claimed, all(one.is_the_claim for one in found))
    return Account(
        mechanism=mechanism,
        steps=steps,
        claimed=question.bound(claimed[1]),
        leakage=question.bound(leaked, found[worst].pair),
        guarantee=question.bound(sound),
        claimed_lower=question.bound(claimed[0]),
        verdict=decide(claim, leaked, sound),
        remarks=(*_notes(mechanism, adjacency), *unjudged),
        pair=list(pairs)[worst],
        neighbours=tuple(
            Neighbour(which, one.dataset_size, question.bound(f.leaked, f.pair), question.bound(f.sound))
            for (which, one), f in zip(pairs.items(), found, strict=True)
        ),
        asked_delta=delta is not None,
        unproved=tuple(dict.fromkeys(one.unproved for one in found if one.unproved)),
        adjacency=adjacency,
    )


def _worst_of(bounds: list[float | None]) -> float | None:
    """The largest; unknown if one of them is."""
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) else None


def _pairs(
    mechanism: Mechanism, adjacency: Adjacency, asked: Pair | str | None
) -> tuple[dict[Pair, Mechanism], tuple[Note, ...]]:
    """The mechanism on each pair of neighbours, by the size of the smaller dataset, and what must be said of one left out."""
    try:
        wanted = None if asked is None else Pair(asked)
    except ValueError:
        raise InvalidInput("pair", asked, "smaller or larger", "leave it out for the worse of the two") from None
    if not mechanism.size_matters or adjacency is not Adjacency.ADD_REMOVE:
        # the noisy sum does not know N, and neighbours of one size have no other
        return {wanted or Pair.LARGER: mechanism}, ()
    both, size = pairs_of(mechanism), mechanism.dataset_size
    if Pair.SMALLER not in both:
        if wanted is Pair.SMALLER:
            raise Undefined("pair", "smaller", f"larger at dataset_size={size}", "no record can be taken away")
        return both, (OnlyAdded(size),) if wanted is None and size == 1 else ()
    return (both if wanted is None else {wanted: both[wanted]}), ()


def pairs_of(mechanism: Mechanism) -> dict[Pair, Mechanism]:
    """`mechanism` on a user's dataset, as one on each pair of neighbours: its dataset_size is that of the smaller of the two.

    The noisy sum does not know N. Where no record can be taken away there is one pair only.
    """
    fewer = mechanism.fewer()
    return {Pair.LARGER: mechanism} if fewer is None else {Pair.LARGER: mechanism, Pair.SMALLER: fewer}


@final
@dataclass(frozen=True)
class _Found:
    """What is known of one pair of neighbours; `is_the_claim`: it is the noisy sum at the rate that was told."""

    leaked: float
    pair: Datasets
    sound: float | None
    unproved: Reason | None = None
    is_the_claim: bool = False


def _on_pair(
    mechanism: Mechanism,
    steps: int,
    question: _Question,
    told: ToldRate,
    claimed: tuple[float, float],
    adjacency: Adjacency,
) -> _Found:
    if adjacency is Adjacency.REPLACE_ONE:
        # one record removed, another added: two links of the noisy sum
        exchanged, rounds = replaced_rounds(mechanism, steps)
        link = claimed_rounds(mechanism, steps)
        sound = question.worst(Chain(link.inverse(), link), Side.ABOVE)
        return _Found(question.worst(rounds, Side.BELOW), exchanged.datasets, *_finite(sound))
    if mechanism.is_sum:
        # all-zero D against the same with one C*u attains the curve of the noisy sum: one number, three names
        same = ToldRate(mechanism.rate_with) == told
        low, high = claimed if same else question.interval(noisy_sum_rounds(mechanism, steps))
        pair: Datasets = ZEROED_OUT if adjacency is Adjacency.ZERO_OUT else ALL_ZERO
        return _Found(low, pair, *_finite(high), is_the_claim=same)
    leaked, pair = _leakage(mechanism, steps, question)
    try:
        sound = _guarantee(mechanism, steps, question, reverse=False)
        sound = max(sound, _guarantee(mechanism, steps, question, reverse=True, enough=sound))
    except Unproved as fault:
        return _Found(leaked, pair, None, fault.reason)
    except Undefined as fault:
        return _Found(leaked, pair, None, Said(str(fault)))
    return _Found(leaked, pair, *_finite(sound))


def _finite(sound: float) -> tuple[float | None, Reason | None]:
    return (sound, None) if math.isfinite(sound) else (None, BeyondDoubles())


def _question(delta: float | None, epsilon: float | None) -> _Question:
    if delta is None and epsilon is None:
        raise InvalidInput("delta", None, "given, or epsilon in its place", "e.g. delta=1e-5")
    if delta is not None and epsilon is not None:
        raise InvalidInput("epsilon", epsilon, "left out where delta is given", "give one of the two")
    if delta is not None:
        check_number("delta", delta, least=SMALLEST_DELTA, most=1.0, remedy="delta = 0 has no finite epsilon")
        return _Question(float(delta), None)
    assert epsilon is not None
    check_number("epsilon", epsilon, least=0.0, most=1e6)
    return _Question(None, float(epsilon))


def _checked_steps(steps: int) -> int:
    check_number("steps", steps, least=1, most=MOST_STEPS, remedy="give the number of noisy updates")
    if int(steps) != steps:
        raise InvalidInput("steps", steps, "a whole number")
    return int(steps)


def _leakage(mechanism: Mechanism, steps: int, question: _Question) -> tuple[float, Datasets]:
    """The most that one of the explicit pairs gives away, and which."""
    most: float = -math.inf
    on: Datasets = ALL_ZERO
    for pair, rounds in leakage_rounds(mechanism, steps):
        leaked = question.worst(rounds, Side.BELOW, most)
        if leaked > most:
            most, on = leaked, pair.datasets
    return most, on


def guaranteed_epsilon(mechanism: Mechanism, *, steps: int, delta: float, reverse: bool) -> float:
    """The least epsilon that is proved for one direction: D' told from D, or D from D' (`reverse`)."""
    return _guarantee(mechanism, steps, _Question(delta, None), reverse=reverse)


def _guarantee(
    mechanism: Mechanism, steps: int, question: _Question, *, reverse: bool, enough: float = -math.inf
) -> float:
    """The least that is proved for one direction, or `enough` where that is seen to be a bound."""
    proofs = guarantee_rounds(mechanism, steps)
    proofs = [proof.inverse() for proof in proofs] if reverse else proofs
    if any(question.no_more(proof, enough) for proof in proofs):
        return enough
    if question.delta is not None:
        return least_epsilon(proofs, math.log(question.delta))
    return min(question.ask(proof, Side.ABOVE) for proof in proofs)


def _notes(mechanism: Mechanism, adjacency: Adjacency) -> tuple[Note, ...]:
    match adjacency:
        case Adjacency.ADD_REMOVE:
            return mechanism.notes()
        case Adjacency.ZERO_OUT:
            return (SizeIsPublic(), *mechanism.notes())
        case Adjacency.REPLACE_ONE:
            return (ReplacedIsBoth(), *mechanism.notes())
