r"""Every proof that we have of T(M(D), M(D')), listed once: for one round and for T.

A proof is a law that dominates a round (`Direct`), two laws P -> P' -> Q one after the other (`Chain`), or the lift of all rounds
together (`Lifted`). Composed, the first holds for T rounds because dominating pairs compose, the second because each link does
(docs/theory.md, "T rounds").

    noisy sum      q G_{1/sigma} + (1-q) Id                                            the truth where the denominator stays
    transparent    batch and membership revealed                                       Theorems EASGM_HIGH, ASGM_HIGH, FEASGM
    given batch    the batch revealed, the new record's membership not                 docs/theory.md, "Tighter"
    size told      the size of the batch revealed and nothing else                     docs/theory.md, "ASGM: reveal the size"
    chains         D over its own denominator -> D over that of D' -> D', and back     docs/theory.md, "EASGM and FEASGM: chains"
    lifted         the all-zero pair, beside N coins                                   docs/theory.md, "The all-zero pair is the
                                                                                       worst, up to N coins": `lifted`
    mean in rate   the all-zero pair beside N coins of another rate, by a chain        docs/theory.md, "Few records: the mean in
                                                                                       the rate": `rate_chain`

The paper sums over all 2^N batches; the worst-case means depend on |B| only, so here it is a sum over N + 1 sizes with
binomial weights. K is N for EASGM and floor(Nq) for FEASGM; s = K/(K+1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.coupled import coupled
from noisymean.cumulants import Cumulants
from noisymean.errors import check_probability
from noisymean.laws.closed import Identity
from noisymean.laws.gaussian import GaussianPairs
from noisymean.laws.size_revealed import SizeRevealed, size_revealed
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.laws.sum_of_squares import sum_of_squares
from noisymean.lifted import LiftedRounds
from noisymean.mechanisms import BatchDenominator, DatasetDenominator, Mechanism, need_mechanism
from noisymean.noisy_sum import noisy_sum
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.planned import Moving, PlannedRounds
from noisymean.rate_chain import MOST_RECORDS, RateChained
from noisymean.tradeoff import A_FEW_DOZEN, Law, TradeOff
from noisymean.words import OF_PAPER, ProofName

# How many deviations out of the middle a threshold counts when the roughness of a sum over sizes is judged.
_DEVIATIONS = 3.0
# From this many dimensions on the loss is close enough to normal for the Gauss rule over sizes: off by 2e-14 at most, where
# 1e-12 is charged; in eight it was 6e-11.
_NEARLY_NORMAL = 16
_MOST_GROUPS = 512
# Groups of batch sizes in one round, and in a sum over rounds: for K, where they cost little, and on a grid.
_GROUPS_OF_ONE_ROUND = 128
_FINE_GROUPS, _COARSE_GROUPS = 512, 48
# Up to so many rounds the sum of their squared shifts has a law of its own.
_FEW_ROUNDS = 12
# Fewer where batch sizes hardly vary: a group is then no wider than this share of the mean size.
_LEAST_GROUPS, _WIDEST_GROUP = 64, 1e-4
# Deviations of a batch size between the first and the last that is looked at.
_RANGE = 16.0
# Below this many records the batch itself is revealed as well: its size alone says too much. So it does where a run may meet a
# batch of all N + 1 records, which gives the larger dataset away.
_FEW_RECORDS = 12
_LIKELY_FULL = 1e-12
# Alphas on which proofs are compared before one is evaluated on many, and the share of what is lost that is not worth it.
_SCREEN, _MANY, _LITTLE = 17, 100, 1e-3
# Where guarantee and leakage are nearer than this no further proof is tried for a picture.
NO_GAIN = 2e-3


@final
@dataclass(frozen=True, eq=False)
class Direct:
    """A law that dominates every pair of neighbours: T(M(D), M(D')) >= its curve."""

    name: ProofName
    law: Law

    @property
    def of_paper(self) -> bool:
        """Whether the theorem is the paper's own."""
        return self.name in OF_PAPER

    def lower(self, alpha: ArrayLike) -> Array:
        """A number that is never above T(M(D), M(D')) at alpha, for one round."""
        return self.law.at_alpha().lower(alpha)


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """T(P, Q)(alpha) >= T(P', Q)(1 - T(P, P')(alpha)): a test of P against Q is one of P against P', then of P' against Q."""

    first: Law
    second: Law
    name: ProofName = ProofName.CHAIN
    of_paper: bool = False

    def lower(self, alpha: ArrayLike) -> Array:
        """The bound for one round, every step rounded down."""
        # one ulp up: rounding 1 - f down would be worth as much at the far end
        reached = np.nextafter(1.0 - self.first.at_alpha().lower(alpha), 2.0)
        return self.second.at_alpha().lower(np.minimum(reached, 1.0))


@final
@dataclass(frozen=True, eq=False)
class Planned:
    """The all-zero pair beside coins: a proof of all rounds at once (`rounds`), each direction by itself."""

    mechanism: DatasetDenominator
    name: ProofName
    rounds: type[PlannedRounds]
    of_paper: bool = False

    def lower(self, alpha: ArrayLike) -> Array:
        """The bound for one round."""
        return self.rounds((Moving(self.mechanism, 1),)).lower(alpha)


Proof: TypeAlias = Direct | Chain | Planned


class LowerBound(Protocol):
    """Anything sound from below: a number never above T(M(D), M(D')) at alpha."""

    def lower(self, alpha: ArrayLike) -> Array: ...


@final
@dataclass(frozen=True)
class BestOf:
    """Several proofs of the same statement: the best at each alpha holds."""

    bounds: tuple[LowerBound, ...]

    def lower(self, alpha: ArrayLike, leaked: Array | None = None) -> Array:
        """The largest of the lower bounds; of many alphas one that is nowhere better on a few is left out.

        So are those that have nothing to gain, where it is known what leaks.
        """
        alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
        best = np.zeros_like(alpha)
        few = np.linspace(0, alpha.size - 1, min(_SCREEN, alpha.size)).round().astype(int)
        for bound in self.bounds:
            # all of them are looked at where alphas are few, and the first one always
            many = alpha.size >= _MANY and best.any()
            if many and leaked is not None and np.max(leaked - best) < NO_GAIN:
                break
            if many:
                room = 1.0 - alpha[few] - best[few]
                if np.all(bound.lower(alpha[few]) <= best[few] + _LITTLE * room):
                    continue
            best = np.maximum(best, bound.lower(alpha))
        return best


def proofs(mechanism: Mechanism, steps: int = 1) -> tuple[Proof, ...]:
    """Every proof for one round, or those worth composing over `steps`; the simplest is first. Unproved where there is none."""
    mechanism.need_poisson()
    match mechanism:
        case DatasetDenominator():
            return _of_dataset(mechanism)
        case BatchDenominator():
            return _of_batch(mechanism, steps)
    raise TypeError(f"{type(mechanism).__name__} divides neither by a function of N nor by one of |B|")


def transparent(mechanism: Mechanism) -> Law | None:
    """The paper's guarantee, batch and membership revealed; None for a denominator that it does not treat."""
    mechanism.need_poisson()
    match mechanism:
        case DatasetDenominator():
            if mechanism.is_sum:
                return noisy_sum(mechanism)
            if not mechanism.neighbours.paper_like:
                return None
            big_k = mechanism.neighbours.big_k()
            assert big_k is not None, "something moves"
            return BySize(mechanism, partial(_shifted_and_joined, mechanism, big_k))
        case BatchDenominator():
            given = given_batch(mechanism)
            # (1-q) on Id, q on the rest
            return RevealedMixture((1.0 - mechanism.q, mechanism.q), (Identity(), given)) if given else None
    raise TypeError(f"{type(mechanism).__name__} divides neither by a function of N nor by one of |B|")


def guarantee(mechanism: Mechanism) -> TradeOff:
    """The paper's guarantee for every pair of neighbours, evaluated exactly; where it has none, the first of ours."""
    need_mechanism(mechanism)
    law = transparent(mechanism)
    if law is None:
        first = proofs(mechanism)[0]
        assert isinstance(first, Direct)
        law = first.law
    return law.at_alpha()


def guarantee_tight(mechanism: Mechanism) -> LowerBound:
    """A sound bound that is nowhere below `guarantee`: the best of all proofs we have."""
    need_mechanism(mechanism)
    return BestOf((guarantee(mechanism), *other_proofs(mechanism)))


def other_proofs(mechanism: Mechanism) -> tuple[Proof, ...]:
    """Those beside that of `guarantee`, for one round; the one that is nearly always the best is first."""
    found = proofs(mechanism)
    others = [one for one in (found if transparent(mechanism) else found[1:]) if not one.of_paper]
    return tuple(sorted(others, key=lambda one: one.name is not ProofName.LIFT))


# --- a denominator that is a function of N -----------------------------------------------------------------------------


def _of_dataset(mechanism: DatasetDenominator) -> tuple[Proof, ...]:
    moved, sum_only = mechanism.neighbours, noisy_sum(mechanism)
    if mechanism.is_sum:
        return (Direct(ProofName.NOISY_SUM, sum_only),)
    planned = [Planned(mechanism, ProofName.LIFT, LiftedRounds)]
    if (mechanism.dataset_size or 0) <= MOST_RECORDS:
        planned.append(Planned(mechanism, ProofName.RATE, RateChained))
    if not moved.paper_like:
        return Direct(ProofName.COUPLED, BySize(mechanism, partial(coupled, mechanism))), *planned
    big_k = moved.big_k()
    assert big_k is not None, "something moves"
    everything = Direct(ProofName.TRANSPARENT, BySize(mechanism, partial(_shifted_and_joined, mechanism, big_k)))
    if mechanism.q == 1.0:
        # one batch, one component each round: closed form, and exact
        return (everything,)
    return (
        everything,
        # D over its own denominator -> D over that of D' -> D'
        Chain(BySize(mechanism, partial(batch_shift, mechanism, big_k, 0.0)), sum_only),
        # D -> D' over the denominator of D -> D' over its own
        Chain(sum_only, BySize(mechanism, partial(batch_shift, mechanism, big_k, 0.0, 1))),
        *planned,
    )


@final
@dataclass(frozen=True, eq=False)
class BySize(Law):
    """A mixture over batch sizes that are revealed: for f(alpha) a Gauss rule over them where it is exact, else groups.

    The rule is off by 1e-12 of f, which far out is more than a delta may be off by; a group is bounded by its worst size.
    """

    mechanism: Mechanism
    of_groups: Callable[..., GaussianPairs]

    def at_alpha(self) -> GaussianPairs:
        return self.of_groups(groups=0)

    @cached_property
    def _once(self) -> GaussianPairs:
        return self.of_groups(groups=_GROUPS_OF_ONE_ROUND)

    def one_round(self) -> GaussianPairs:
        return self._once

    def several(self) -> GaussianPairs:
        """Groups that a grid can afford, each bounded by its worst size."""
        return self.of_groups(groups=_COARSE_GROUPS)

    @cached_property
    def cumulants(self) -> Cumulants | None:
        """Cumulants of the same bound, with batch sizes in finer groups."""
        mean_size = max((self.mechanism.dataset_size or 0) * self.mechanism.q, 1.0)
        wanted = _RANGE / math.sqrt(mean_size) / _WIDEST_GROUP
        return self.of_groups(groups=round(min(max(wanted, _LEAST_GROUPS), _FINE_GROUPS))).cumulants

    @property
    def coarse(self) -> bool:
        return True

    def power(self, count: int) -> Law | None:
        """Closed where every batch is the whole dataset, and a mixture of closed laws where rounds are few."""
        if self.mechanism.q == 1.0:
            return self._once.power(count)
        if not 1 < count <= _FEW_ROUNDS:
            return None
        if count not in self._powers:
            self._powers[count] = sum_of_squares(self._once, count)
        return self._powers[count]

    @cached_property
    def _powers(self) -> dict[int, Law | None]:
        return {}


def _shifted_and_joined(mechanism: DatasetDenominator, big_k: float, groups: int) -> GaussianPairs:
    """Theorems EASGM_HIGH and FEASGM: the batch and the new record's membership are revealed."""
    out, joined = (batch_shift(mechanism, big_k, offset, groups=groups) for offset in (0.0, big_k))
    q = mechanism.q
    return GaussianPairs(
        mechanism.needed_dimension,
        np.concatenate([(1.0 - q) * out.weights, q * joined.weights]),
        np.concatenate([out.shifts, joined.shifts]),
        np.concatenate([out.log_scales, joined.log_scales]),
        out.left_out,
    )


def batch_shift(
    mechanism: DatasetDenominator, big_k: float, offset: float, extra: int = 0, groups: int = 0
) -> GaussianPairs:
    """Mixture over batch sizes k of T(N(0, I), N(mu_k, s^2 I)), mu_k = (offset + k)/((K+1) sigma): Theorem EASGM_HIGH's f_B.

    `extra` = 1 draws the batch from D' instead of D. With `groups`, sizes are cut into about so many and each group is bounded
    by its largest shift, which is sound under any tilt, as sums over many rounds need it.
    """
    count, q = (mechanism.dataset_size or 0) + extra, mechanism.q
    unit = 1.0 / ((big_k + 1.0) * mechanism.noises[0])
    log_scale = log_ratio(big_k)
    dimension = mechanism.needed_dimension
    scale_spread = np.expm1(-2.0 * log_scale) * np.sqrt(0.5 * dimension)
    least_shift = max(unit * (offset + binomial.small_size(count, q)), 1e-300)
    # |dz/dmu| <= 1/s + |z| min(1/(2 spread), 1/mu): docs/numerics.md, "Sums over batch sizes"
    slope = np.exp(-log_scale) + _DEVIATIONS * min(0.5 / scale_spread, 1.0 / least_shift)
    # the rule was measured for denominators that follow the size of a batch (docs/numerics.md), not for those that jump
    measured = dimension >= _NEARLY_NORMAL and big_k >= 0.5 * count * q
    if groups or not measured:
        # bound each group of sizes by its largest shift (the curve falls with it)
        _, largest, mass, left_out = binomial.grouped(count, q, groups or _MOST_GROUPS)
        shifts = unit * (offset + largest)
        return GaussianPairs(dimension, mass, shifts, np.full_like(shifts, log_scale), left_out)
    nodes = binomial.nodes(count, q, roughness=float(slope) * unit * binomial.deviation(count, q))
    return GaussianPairs(
        dimension, nodes.weights, unit * (offset + nodes.sizes), np.full_like(nodes.sizes, log_scale), nodes.slack
    )


def log_ratio(big_k: float) -> float:
    """log(K/(K+1)), accurate for any K."""
    return -math.log1p(1.0 / big_k)


# --- a denominator that is a function of |B| ---------------------------------------------------------------------------


def _of_batch(mechanism: BatchDenominator, steps: int) -> tuple[Proof, ...]:
    mechanism.one_noise()
    if mechanism.q == 1.0:
        given = given_batch(mechanism)
        assert given is not None, "there is one batch size only"
        return (Direct(ProofName.BATCH, given),)
    sizes_only = SizeTold(mechanism)
    few = (mechanism.dataset_size or 0) <= _FEW_RECORDS or steps * sizes_only.full_batch > _LIKELY_FULL
    found: list[Proof] = [Direct(ProofName.SIZE, sizes_only)]
    if (steps == 1 or few) and given_batch(mechanism, groups=_COARSE_GROUPS) is not None:
        found.append(Direct(ProofName.BATCH, MembershipHidden(mechanism)))
    return tuple(found)


@final
@dataclass(frozen=True, eq=False)
class MembershipHidden(Law):
    """The batch is revealed: given B the likelihood ratio is 1 - q + q L, so subsampling still amplifies."""

    mechanism: BatchDenominator

    def _of_groups(self, groups: int) -> Subsampled:
        given = given_batch(self.mechanism, groups=groups)
        assert given is not None, "asked before"
        return Subsampled(given, self.mechanism.q)

    def at_alpha(self) -> Subsampled:
        return self._of_groups(0)

    @cached_property
    def _once(self) -> Subsampled:
        return self._of_groups(_GROUPS_OF_ONE_ROUND)

    def one_round(self) -> Subsampled:
        return self._once

    def several(self) -> Subsampled:
        return self._of_groups(_COARSE_GROUPS)


@final
@dataclass(frozen=True, eq=False)
class SizeTold(Law):
    """`SizeRevealed` on many nodes for one round, on fewer in a sum of rounds: both datasets divide by the same number."""

    mechanism: BatchDenominator

    def _on_nodes(self, *, fine: bool) -> SizeRevealed:
        one = self.mechanism
        return size_revealed(one.dataset_size or 0, one.q, one.one_noise(), fine=fine)

    @cached_property
    def _coarse(self) -> SizeRevealed:
        return self._on_nodes(fine=False)

    @cached_property
    def _fine(self) -> SizeRevealed:
        return self._on_nodes(fine=True)

    def one_round(self) -> SizeRevealed:
        return self._fine

    def several(self) -> SizeRevealed:
        return self._coarse

    @property
    def slow_rounds(self) -> int:
        return A_FEW_DOZEN

    @property
    def cumulants(self) -> Cumulants:
        return self._coarse.cumulants

    @property
    def coarse(self) -> bool:
        return True

    @property
    def full_batch(self) -> float:
        """How likely a batch of all N + 1 records is."""
        return self.mechanism.q ** ((self.mechanism.dataset_size or 0) + 1)


def given_batch(mechanism: BatchDenominator, *, groups: int = 0) -> GaussianPairs | None:
    r"""Mixture over sizes k of what is left when B is known and the new record is in: T(N(0, I), N(mu_k, s_k^2 I)).

    With d(k) what a batch of k is divided by, s_k = d(k)/d(k+1) and mu_k = (|1-s_k| k + s_k)/sigma: the batch's own sum shrinks
    and the new record joins it. |B| gives Theorem ASGM_HIGH, 2k/((k+1) sigma) and k/(k+1), k = 0 G_{1/sigma}. None where the
    sizes are too many to enumerate and nothing says how to group them.
    """
    count, q, sigma = mechanism.dataset_size or 0, mechanism.q, mechanism.one_noise()
    dimension = mechanism.needed_dimension
    if mechanism.divides_by_size:
        smallest, largest, mass, left_out = _size_groups(count, q, sigma, dimension, groups)
    else:
        nodes = binomial.enumerated(count, q)
        if nodes.sizes.size > _MOST_GROUPS:
            return None
        smallest, largest, mass, left_out = nodes.sizes, nodes.sizes, nodes.weights, nodes.slack
    divisor, divisor_with = mechanism.divisor(smallest), mechanism.divisor(smallest + 1.0)
    growth = (divisor_with - divisor) / divisor
    # of one size the shift; a group leaks no more than the smallest scale in it with the largest mu^2/(1 - s^2) (docs/theory.md,
    # "Monotone along the flow"), and for |B| both are attained at its ends: mu^2/(1 - s^2) is 4 k^2/((2k+1) sigma^2)
    shifts = (np.abs(growth) * smallest + 1.0) / ((1.0 + growth) * sigma)
    several = largest > smallest
    if several.any():
        low, high = np.maximum(smallest, 1.0), largest
        worst = 2.0 * high * np.sqrt((2.0 * low + 1.0) / (2.0 * high + 1.0)) / ((low + 1.0) * sigma)
        shifts = np.where(several, worst, shifts)
    return GaussianPairs(dimension, mass, shifts, -np.log1p(growth), left_out)


def _size_groups(count: int, q: float, sigma: float, dimension: int, groups: int) -> tuple[Array, Array, Array, float]:
    """(smallest, largest size, mass) of each group of batch sizes, single ones where a Gauss rule over them is exact."""
    least, spread = binomial.small_size(count, q), binomial.deviation(count, q)
    slope = (np.sqrt(2.0 * dimension) + 4.0 / sigma) / least**2 + _DEVIATIONS / least
    if dimension < _NEARLY_NORMAL or groups:
        return binomial.grouped(count, q, groups or _MOST_GROUPS)
    nodes = binomial.nodes(count, q, roughness=float(slope) * spread)
    return nodes.sizes, nodes.sizes, nodes.weights, nodes.slack
