r"""A run: rounds of one mechanism, or of several one after the other, all on the same pair D, D'.

A noise schedule, two phases of training, DP-SGD beside other releases: each segment has its own mechanism.

    claimed     the losses of the noisy sums that are told, added                  what accountants report
    truth       the same at the rates that are real                                where every segment is the noisy sum
    leakages    one explicit pair of datasets throughout, its losses added;        docs/theory.md, "Certified leakage"
                an attacker may look away from a segment
    guarantees  the proofs of `proofs`, segment by segment; each is sound          docs/accountant.md
                directly: a law that dominates each segment, so that their product dominates the run (adaptive composition)
                by a chain P -> P' -> Q: in a segment whose denominator moves, P' is as in that segment's own chain; in all
                others P' = P, which costs the first link nothing, and the second is the direct proof
                by the lift: the all-zero pairs and coins of all segments that move, beside the direct proofs of the others;
                likewise with the mean in the rate
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar, final

from noisymean import batches
from noisymean.ceilings import ceiling
from noisymean.checks import of_kind, real
from noisymean.compose.chained import ChainedRounds
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.errors import InvalidInput, Undefined, Unproved
from noisymean.leakage import explicit_pairs, replaced_pair
from noisymean.mechanisms import Adjacency, Mechanism, Segment, need_mechanism
from noisymean.noisy_sum import claimed, noisy_sum
from noisymean.pairs import ALL_ZERO, Datasets
from noisymean.planned import Moving
from noisymean.proofs import Chain, Direct, Planned, proofs, transparent
from noisymean.tradeoff import Law
from noisymean.words import ProofName, Said

MOST_STEPS = 10**9
Item = TypeVar("Item")


@final
@dataclass(frozen=True, eq=False)
class Guarantee:
    """One proof for a whole run: what it rests on, and its upper bounds."""

    proofs: tuple[ProofName, ...]
    curve: DeltaCurve

    def inverse(self) -> Guarantee:
        """The same for D told from D'."""
        return Guarantee(self.proofs, self.curve.inverse())


@final
@dataclass(frozen=True)
class Run:
    """Segments one after the other. Where neighbours are meant, each mechanism's dataset_size is that of the smaller one."""

    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, what: Mechanism | Iterable[tuple[Mechanism, int]], steps: int | None = None) -> Run:
        """`steps` rounds of a mechanism, or a schedule of (mechanism, steps); InvalidInput unless it is one of the two."""
        if isinstance(what, Mechanism):
            if steps is None:
                raise InvalidInput("steps", None, "given with a mechanism", "the number of noisy updates")
            return cls((Segment(what, _checked(steps)),))
        if steps is not None:
            raise InvalidInput("steps", steps, "left out where segments are given", "each has its own")
        segments = tuple(map(_segment, of_kind("run", what, Iterable, "a mechanism, or a list of (mechanism, steps)")))  # type: ignore[type-abstract]
        if not segments:
            raise InvalidInput("segments", "[]", "at least one (mechanism, steps)")
        _check_epochs(segments)
        return cls(segments)

    @property
    def steps(self) -> int:
        """The number of rounds of all segments together."""
        return sum(segment.steps for segment in self.segments)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanism of each segment, in order."""
        return tuple(segment.mechanism for segment in self.segments)

    @property
    def size_matters(self) -> bool:
        """Whether any of the mechanisms knows the number of records."""
        return any(one.size_matters for one in self.mechanisms)

    @property
    def size_moves(self) -> bool:
        """Whether one record more is another run."""
        return any(one.knows_size for one in self.mechanisms)

    @property
    def adjacency(self) -> Adjacency:
        """What neighbours differ in unless it is said: one record added or removed, where any of the mechanisms has it so."""
        ways = {one.adjacency for one in self.mechanisms}
        return Adjacency.ADD_REMOVE if Adjacency.ADD_REMOVE in ways else self.mechanisms[0].adjacency

    @property
    def dataset_size(self) -> int | None:
        """The number of records, which all segments that know it have in common; else InvalidInput."""
        sizes = {one.dataset_size for one in self.mechanisms if one.knows_size or not self.size_moves}
        if len(sizes) > 1 and self.size_moves:
            named = ", ".join(map(str, sorted(sizes, key=str)))
            raise InvalidInput("dataset_size", named, "the same in every segment", "a run has one dataset")
        return next(iter(sizes))

    def merged(self) -> Run:
        """Rounds of one mechanism together: their order does not matter to bounds that hold whatever came before."""
        counts = Counter[Mechanism]()
        for mechanism, steps in self.segments:
            # the noisy sum is the same whatever N and n are
            keeps = mechanism.size_matters or not mechanism.is_poisson
            alike = mechanism if keeps else replace(mechanism, dataset_size=None, dimension=None)  # type: ignore[type-var]
            counts[alike] += steps
        return Run(tuple(Segment(mechanism, steps) for mechanism, steps in counts.items()))

    def mapped(self, mechanisms: Iterable[Mechanism]) -> Run:
        """The same numbers of steps of other mechanisms."""
        return Run(tuple(Segment(one, steps) for one, (_, steps) in zip(mechanisms, self.segments, strict=True)))

    def fewer(self) -> Run | None:
        """The run with one record taken away; None where there is nothing to take, or where N does not matter."""
        each = [one.fewer() for one in self.mechanisms]
        if any(one is None and mechanism.knows_size for one, mechanism in zip(each, self.mechanisms, strict=True)):
            return None
        if all(one is None for one in each):
            return None
        return self.mapped(one or mechanism for one, mechanism in zip(each, self.mechanisms, strict=True))

    @property
    def is_poisson(self) -> bool:
        """Whether batches are drawn by Poisson sampling throughout; else they are drawn in one other way throughout."""
        return all(one.is_poisson for one in self.mechanisms)

    @property
    def is_sum(self) -> bool:
        """Whether every round is the noisy sum."""
        return all(one.is_sum for one in self.mechanisms)

    def sums(self) -> Counter[tuple[float, float]]:
        """Rounds at each (rate of the new record, noise): what a noisy sum is made of."""
        return _counted((one.rate_with, one.noises[1], steps) for one, steps in self.segments)

    def told_sums(self) -> Counter[tuple[float, float]]:
        """The same at the rates that the accountant is told."""
        return _counted((one.told_rate().value, one.noise_multiplier, steps) for one, steps in self.segments)

    def claimed(self) -> Rounds:
        """What an accountant of the noisy sum composes."""
        return _rounds((steps, claimed(one)) for one, steps in self.segments)

    def truth(self) -> Rounds:
        """The noisy sums at the rates at which the new record is really sampled: the truth where `is_sum`."""
        return _rounds((steps, noisy_sum(one)) for one, steps in self.segments)

    def leakages(self, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> list[tuple[Datasets, Rounds]]:
        """The run on each explicit pair. Undefined where a mechanism divides by zero.

        Of batches drawn by Poisson sampling one record is added or removed; others have pairs for every adjacency.
        """
        if not self.is_poisson:
            return _attacks(self, adjacency)
        found: dict[Datasets, list[tuple[int, Law]]] = {}
        for mechanism, steps in self.segments:
            if mechanism.is_sum:
                found.setdefault(ALL_ZERO, []).append((steps, noisy_sum(mechanism)))
                continue
            for pair in explicit_pairs(mechanism):
                if not pair.once:
                    found.setdefault(pair.datasets, []).append((steps, pair))
        # those that leak more, where they are there at all, come last: asked first they save a search for the others
        return [(datasets, _rounds(parts)) for datasets, parts in reversed(found.items())]

    def replaced(self) -> tuple[Datasets, Rounds]:
        """The run of noisy sums when one record is replaced by its opposite."""
        pairs = [(steps, replaced_pair(one)) for one, steps in self.segments]
        return pairs[0][1].datasets, _rounds(pairs)

    def guarantees(self, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> tuple[Guarantee, ...]:
        """Every proof for the run, each sound by itself. Undefined where a segment has none."""
        return _guarantees(self.merged()) if self.is_poisson else _of_drawn(self.merged(), adjacency)

    def transparent(self) -> Rounds:
        """The paper's guarantee composed: batch and membership revealed in every round."""
        return _rounds((steps, _needed(transparent(one), one)) for one, steps in self.segments)

    def ceiling(self) -> Rounds | None:
        """The paper's upper bound on its transparent guarantee, composed; None where a segment has none."""
        each = [(steps, ceiling(one)) for one, steps in self.segments]
        known = [(steps, law) for steps, law in each if law is not None]
        return _rounds(known) if len(known) == len(each) else None


def _segment(found: object) -> Segment:
    """One of a schedule."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise InvalidInput("segments", found, "(mechanism, steps) each")
    mechanism, steps = found
    return Segment(need_mechanism(mechanism), _checked(steps))


def _checked(steps: object) -> int:
    number = real("steps", steps, least=1, most=MOST_STEPS, remedy="give the number of noisy updates")
    if int(number) != number:
        raise InvalidInput("steps", steps, "a whole number")
    return int(number)


def _check_epochs(segments: Sequence[Segment]) -> None:
    """A schedule is drawn in one way, and does not cut an epoch: what is analysed is an epoch of one mechanism."""
    ways = {one.mechanism.drawn for one in segments}
    if len(ways) > 1:
        raise InvalidInput("sampling", ", ".join(sorted(one.value for one in ways)), "the same in every segment")
    for mechanism, steps in () if segments[0].mechanism.is_poisson else segments[:-1]:
        if steps % mechanism.batches_in_epoch:
            raise Undefined(
                "steps", steps, f"whole epochs of {mechanism.batches_in_epoch} batches in all segments but the last"
            )


# --- batches that are not drawn by Poisson sampling ----------------------------------------------------------------------


def _attacks(run: Run, adjacency: Adjacency) -> list[tuple[Datasets, Rounds]]:
    """Every pair, and every way to look at it, in all segments; an attacker may look away from one."""
    segments = run.merged().segments
    if len(segments) > 1 and adjacency is Adjacency.ADD_REMOVE and any(batches.moves(one) for one, _ in segments):
        raise Undefined(
            "segments", len(segments), "one, where one record more changes the number of batches of an epoch",
            "its epochs do not begin with the segments; or ask for zero-out",
        )  # fmt: skip
    found: dict[tuple[Datasets, int], list[tuple[int, Law]]] = {}
    for mechanism, steps in segments:
        seen = Counter[Datasets]()
        for datasets, parts in batches.attacks(mechanism, steps, adjacency):
            found.setdefault((datasets, seen[datasets]), []).extend(parts)
            seen[datasets] += 1
    return [(datasets, _rounds(parts)) for (datasets, _), parts in found.items()]


@lru_cache(maxsize=8)
def _of_drawn(run: Run, adjacency: Adjacency) -> tuple[Guarantee, ...]:
    each = [batches.proofs(mechanism, steps, adjacency) for mechanism, steps in run.segments]
    answers = []
    for kind in range(max(map(len, each))):
        taken = [_nth(found, kind) for found in each]
        second = _rounds(part for one in taken for part in one.parts)
        first = _rounds(part for one in taken for part in one.first)
        curve: DeltaCurve = second
        if first.parts:
            curve = ChainedRounds(first.inverse() if taken[0].back else first, second)
        answers.append(Guarantee(tuple(dict.fromkeys(one.name for one in taken)), curve))
    return tuple(answers)


def _counted(rounds: Iterable[tuple[float, float, int]]) -> Counter[tuple[float, float]]:
    counts = Counter[tuple[float, float]]()
    for rate, noise, steps in rounds:
        counts[rate, noise] += steps
    return counts


def _rounds(parts: Iterable[tuple[int, Law]]) -> Rounds:
    return Rounds(tuple(parts))


def _needed(law: Law | None, mechanism: Mechanism) -> Law:
    if law is None:
        raise Unproved(Said(f"the paper has no guarantee for {mechanism.name.upper()}"))
    return law


# both directions of an answer ask the same curves
@lru_cache(maxsize=8)
def _guarantees(run: Run) -> tuple[Guarantee, ...]:
    each = [(segment, proofs(*segment)) for segment in run.segments]
    direct = [[(segment.steps, one) for one in found if isinstance(one, Direct)] for segment, found in each]
    chains = [[(segment.steps, one) for one in found if isinstance(one, Chain)] for segment, found in each]
    answers: list[Guarantee] = []
    for kind in range(max(map(len, direct))):
        taken = [_nth(laws, kind) for laws in direct]
        names = tuple(dict.fromkeys(one.name for _, one in taken))
        answers.append(Guarantee(names, _rounds((steps, one.law) for steps, one in taken)))
    still = [(steps, one.law) for ((steps, one), *_), links in zip(direct, chains, strict=True) if not links]
    for kind in range(max(map(len, chains))):
        moving = [_nth(links, kind) for links in chains if links]
        first, second = (
            _rounds((steps, one.first) for steps, one in moving),
            _rounds([*((steps, one.second) for steps, one in moving), *still]),
        )
        answers.append(Guarantee((ProofName.CHAIN,), ChainedRounds(first, second)))
    planned = [(segment, [one for one in found if isinstance(one, Planned)]) for segment, found in each]
    coins = tuple(Moving(found[0].mechanism, segment.steps) for segment, found in planned if found)
    others = tuple(
        (steps, one.law) for ((steps, one), *_), (_, found) in zip(direct, planned, strict=True) if not found
    )
    # segments that move are of one dataset: what there is for one of them there is for all
    kinds = dict.fromkeys((one.name, one.rounds) for _, found in planned for one in found)
    answers += [Guarantee((name,), rounds(coins, others)) for name, rounds in kinds]
    return tuple(answers)


def _nth(found: Sequence[Item], kind: int) -> Item:
    """The one of this kind; the last where there are fewer: any choice is sound."""
    return found[min(kind, len(found) - 1)]
