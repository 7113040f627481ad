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

from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.explicit_pair import explicit_pairs
from noisymean.many_rounds import claimed_rounds, guarantee_rounds, leakage_rounds, replaced_rounds
from noisymean.mechanisms import FEASGM, Adjacency, Mechanism, OpacusLoader, is_sum, with_public_size
from noisymean.rounds import Chain, DeltaCurve, Rounds, least_epsilon
from noisymean.tradeoff import Side

MOST_STEPS = 10**9
SMALLEST_DELTA = 1e-200
_UNKNOWN = (
    "the bound exceeds what double precision can hold, or delta is below what the sum over batch sizes is charged with"
)


@final
@dataclass(frozen=True)
class Bound:
    """One of the three numbers: epsilon at the given delta, or delta at the given epsilon. None: not known."""

    epsilon: float | None
    delta: float | None
    pair: str | None = None


@final
@dataclass(frozen=True)
class Account:
    """The three numbers for a run, the verdict, and what has to be said about them."""

    mechanism: Mechanism
    steps: int
    claimed: Bound
    leakage: Bound
    guarantee: Bound
    claimed_lower: Bound
    verdict: str
    notes: tuple[str, ...]
    asked_delta: bool = True


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

    def bound(self, value: float | None, pair: str | None = None) -> Bound:
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
) -> Account:
    """Claimed, leaked and guaranteed epsilon of `steps` rounds at `delta` (or the three deltas at `epsilon`).

    >>> import noisymean as nm
    >>> run = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10)
    >>> nm.account(run, steps=200, delta=1e-5).verdict
    'violated'
    """
    question = _question(delta, epsilon)
    steps = _checked_steps(steps)
    effective = with_public_size(mechanism, adjacency)
    notes = list(_notes(mechanism, adjacency, steps))
    claim = claimed_rounds(effective, steps)
    claimed_low, claimed_high = question.interval(claim)
    sound: float | None
    if adjacency is Adjacency.REPLACE_ONE:
        # one record removed, another added: two links of the noisy sum
        exchanged, rounds = replaced_rounds(effective, steps)
        leaked, pair = question.worst(rounds, Side.BELOW), exchanged.description
        sound = question.worst(Chain(claim.inverse(), claim), Side.ABOVE)
    elif is_sum(effective):
        # all-zero D against the same with one C*u attains the curve of the noisy sum: one number, three names
        leaked, pair, sound = claimed_low, explicit_pairs(effective)[0].description, claimed_high
    else:
        leaked, pair = _leakage(effective, steps, question)
        try:
            sound = _guarantee(effective, steps, question, reverse=False)
            sound = max(sound, _guarantee(effective, steps, question, reverse=True, enough=sound))
        except Undefined as reason:
            sound = None
            notes.append(f"no guarantee: {reason}")
    if sound is not None and not math.isfinite(sound):
        sound = None
        notes.append("no finite guarantee: " + _UNKNOWN)
    return Account(
        mechanism=mechanism,
        steps=steps,
        claimed=question.bound(claimed_high),
        leakage=question.bound(leaked, pair),
        guarantee=question.bound(sound),
        claimed_lower=question.bound(claimed_low),
        verdict=_verdict(claimed_high, leaked, sound, claimed_low),
        notes=tuple(notes),
        asked_delta=delta is not None,
    )


def _verdict(claim: float, leaked: float, sound: float | None, claim_low: float) -> str:
    if leaked > claim * (1.0 + 1e-9):
        return "violated"
    # the claim and the guarantee of SGM itself are the same number, computed twice
    if sound is not None and sound <= claim + 2.0 * abs(claim - claim_low) + 1e-9 * claim:
        return "holds"
    return "undetermined"


def _question(delta: float | None, epsilon: float | None) -> _Question:
    if (delta is None) == (epsilon is None):
        raise InvalidInput("delta, epsilon", "both or neither", "given as exactly one of the two")
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


def _leakage(mechanism: Mechanism, steps: int, question: _Question) -> tuple[float, str]:
    """The most that one of the explicit pairs gives away, and which."""
    most, told = -math.inf, ""
    for pair, rounds in leakage_rounds(mechanism, steps):
        leaked = question.worst(rounds, Side.BELOW, most)
        if leaked > most:
            most, told = leaked, pair.description
    return most, told


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


# --- words -------------------------------------------------------------------------------------------------------------


def _notes(mechanism: Mechanism, adjacency: Adjacency, steps: int) -> list[str]:
    notes = []
    match adjacency:
        case Adjacency.ADD_REMOVE:
            pass
        case Adjacency.ZERO_OUT:
            notes.append(
                "zero-out: N is public, so the denominator is a constant and the SGM claim may be made, "
                "for neighbours of the same size only"
            )
        case Adjacency.REPLACE_ONE:
            notes.append(
                "replace-one: N is public, so the denominator is a constant, but the claim is for one record added or removed; "
                "a replaced one is both, and costs up to twice as much"
            )
    match mechanism:
        case FEASGM():
            notes.extend(_floor_notes(mechanism))
        case OpacusLoader():
            notes.extend(_loader_notes(mechanism))
        case _:
            pass
    return notes


def nearest_step(mechanism: FEASGM) -> int | None:
    """The dataset size nearest to N at which floor(N q) steps; None if there is none below the largest size."""
    rate, size = mechanism.rate, mechanism.dataset_size
    level = math.floor(size * rate)
    # floor((M+1) q) > floor(M q) exactly at M = ceil(j/q) - 1
    candidates = [math.ceil(j / rate) - 1 for j in (level - 1, level, level + 1, level + 2) if j >= 2]
    return min((m for m in candidates if m >= 1), key=lambda m: abs(m - size), default=None)


def telling_size(mechanism: Mechanism) -> int | None:
    """Another N that says more than this one: for FEASGM where the floor stays, for the loader always."""
    match mechanism:
        case FEASGM() if mechanism.floors[0] == mechanism.floors[1]:
            return nearest_step(mechanism)
        case OpacusLoader() if mechanism.dataset_size - 1 >= mechanism.batch_size:
            return mechanism.dataset_size - 1
        case _:
            return None


def _floor_notes(mechanism: FEASGM) -> list[str]:
    before, after = mechanism.floors
    if after > before:
        return [f"floor(N*q) steps from {before} to {after} when one record is added"]
    return [f"floor(N*q) = {before} with and without one more record: at this N the mechanism is SGM"]


def _loader_notes(mechanism: OpacusLoader) -> list[str]:
    before, after = mechanism.run(mechanism.dataset_size), mechanism.run(mechanism.dataset_size + 1)
    notes = [
        f"Opacus on {mechanism.dataset_size} records: sample rate 1/{before.loader_length}, "
        f"divides by {before.expected_batch_size}; on {mechanism.dataset_size + 1}: "
        f"1/{after.loader_length}, divides by {after.expected_batch_size}"
    ]
    if before.accountant_rate != before.sample_rate:
        notes.append(
            f"the sampler's rate is 1/{before.loader_length} but the accountant is told 1/{before.steps_per_epoch}"
        )
    if mechanism.rate_moves:
        notes.append(
            f"an epoch has {before.steps_per_epoch} steps on D and {after.steps_per_epoch} on D': "
            "counting epochs leaks the size by itself"
        )
    return notes
