r"""A run whose settings change on the way: segments of (mechanism, steps), accounted together.

A noise schedule, two phases of training, DP-SGD beside other releases: each segment has its own mechanism, and all of them run on
the same pair D, D'.

    claimed     the losses of the noisy sums, added
    leakages    one explicit pair of datasets throughout, its losses added; an attacker may look away from a segment
    guarantees  the proofs of docs/accountant.md, segment by segment
                directly: a pair that dominates each segment, so that their product dominates the run (adaptive composition)
                by a chain P -> P' -> Q: in a segment whose denominator moves, P' is as in that segment's own chain; in all
                others P' = P, which costs the first link nothing, and the second is the direct proof
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from noisymean.compose.engine import Chain, DeltaCurve, Rounds, least_epsilon
from noisymean.many_rounds import claimed_rounds, guarantee_rounds, leakage_rounds, noisy_sum_rounds
from noisymean.mechanisms import ASGM, SGM, Mechanism
from noisymean.pairs import ALL_ZERO, Datasets
from noisymean.tradeoff import Side

Proof = TypeVar("Proof", bound=DeltaCurve)
Segments: TypeAlias = tuple[tuple[Mechanism, int], ...]


def merged(segments: Sequence[tuple[Mechanism, int]]) -> Segments:
    """Rounds of one mechanism together: their order does not matter to bounds that hold whatever came before."""
    counts: dict[Mechanism, int] = {}
    for mechanism, steps in segments:
        # the noisy sum is the same whatever N and n are
        one = _bare(mechanism) if isinstance(mechanism, SGM) else mechanism
        counts[one] = counts.get(one, 0) + steps
    return tuple((mechanism, steps) for mechanism, steps in counts.items() if steps)


def claimed(segments: Segments) -> Rounds:
    """What an accountant of the noisy sum composes."""
    return _together([claimed_rounds(mechanism, steps) for mechanism, steps in segments])


def leakages(segments: Segments) -> list[tuple[Datasets, Rounds]]:
    """The run on each explicit pair, by its datasets. Undefined where a mechanism divides by zero."""
    found: dict[Datasets, list[Rounds]] = {}
    for mechanism, steps in segments:
        if mechanism.is_sum:
            found.setdefault(ALL_ZERO, []).append(noisy_sum_rounds(mechanism, steps))
        else:
            for pair, rounds in leakage_rounds(mechanism, steps):
                found.setdefault(pair.datasets, []).append(rounds)
    return [(datasets, _together(rounds)) for datasets, rounds in found.items()]


def guarantees(segments: Segments) -> list[DeltaCurve]:
    """Every proof for the run, each sound by itself. Undefined where a segment has none."""
    proofs = [guarantee_rounds(mechanism, steps) for mechanism, steps in segments]
    direct = [[proof for proof in each if not isinstance(proof, Chain)] for each in proofs]
    chains = [[proof for proof in each if isinstance(proof, Chain)] for each in proofs]
    found = [_product([_nth(each, kind) for each in direct]) for kind in range(max(map(len, direct)))]
    for kind in range(max(map(len, chains))):
        moving = [_nth(each, kind) for each in chains if each]
        still = [each[0] for each, chain in zip(direct, chains, strict=True) if not chain]
        first = _product([chain.first for chain in moving])
        found.append(Chain(first, _product([chain.second for chain in moving] + still)))
    return found


def leaked_epsilon(segments: Segments, delta: float) -> tuple[float, Datasets]:
    """The most that one of the pairs gives away, in the worse direction, and which."""
    each = [
        (max(one.epsilon(delta, Side.BELOW) for one in (rounds, rounds.inverse())), datasets)
        for datasets, rounds in leakages(segments)
    ]
    return max(each, key=lambda one: one[0])


def claimed_ends(segments: Segments, delta: float) -> tuple[float, float]:
    """The worse direction of `claimed`, rounded down and up."""
    rounds = claimed(segments)
    both = (rounds, rounds.inverse())
    return max(one.epsilon(delta, Side.BELOW) for one in both), max(one.epsilon(delta, Side.ABOVE) for one in both)


def is_claimed(segments: Segments, claim: Segments) -> bool:
    """Whether the run is what the claim is about: noisy sums of the same rates and noises."""
    return all(one.is_sum for one, _ in segments) and _sums(segments) == _sums(claim)


def _sums(segments: Segments) -> Counter[tuple[float, float]]:
    """Rounds at each (rate of the new record, noise)."""
    counts = Counter[tuple[float, float]]()
    for mechanism, steps in segments:
        if not isinstance(mechanism, ASGM):
            counts[mechanism.rate_with, mechanism.noise_multiplier] += steps
    return counts


def guaranteed_epsilon(segments: Segments, delta: float) -> float:
    """The best proof in the worse direction; inf where the bound exceeds double precision."""
    proofs = guarantees(segments)
    return max(least_epsilon(side, math.log(delta)) for side in (proofs, [proof.inverse() for proof in proofs]))


def guaranteed_delta(segments: Segments, epsilon: float) -> float:
    """The same the other way round."""
    proofs = guarantees(segments)
    return max(
        math.exp(min(0.0, *(proof.log_delta(epsilon, Side.ABOVE) for proof in side)))
        for side in (proofs, [proof.inverse() for proof in proofs])
    )


def _nth(proofs: Sequence[Proof], kind: int) -> Proof:
    """The proof of this kind; the last where there are fewer: any choice is sound."""
    return proofs[min(kind, len(proofs) - 1)]


def _product(curves: Sequence[DeltaCurve]) -> DeltaCurve:
    """Dominating pairs side by side."""
    if len(curves) == 1:
        return curves[0]
    rounds = [curve for curve in curves if isinstance(curve, Rounds)]
    if len(rounds) < len(curves):
        raise TypeError("a chain cannot be one of several segments by itself")
    return _together(rounds)


def _together(rounds: Sequence[Rounds]) -> Rounds:
    return Rounds(tuple(part for one in rounds for part in one.parts))


def _bare(mechanism: SGM) -> SGM:
    return SGM(sample_rate=mechanism.rate, noise_multiplier=mechanism.noise_multiplier)
