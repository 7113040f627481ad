r"""The curves of one round, all T(M(D), M(D')) with |D| = N and |D'| = N + 1, in the paper's direction.

    claimed          q G_{1/sigma} + (1-q) Id, what accountants report          Bu et al. 2020
    guarantee        sound for every pair of datasets                   Theorems EASGM_HIGH, ASGM_HIGH, FEASGM
    guarantee_tight  sound, and at least as good                        docs/theory.md, "Tighter"
    per_pair         sound for *given* gradients                        Eq. lower_bound_EASGM, Low_ASGM, per_pair_FEASGM
    ceiling          no transparent guarantee of this kind is better    Theorems upperbound_EASGM, _ASGM, _FEASGM
    ceiling_clt      the ceiling by a central limit theorem             Theorem upperbound_estimate (`central_limit`)
    leakage          achieved on an explicit pair of datasets           docs/theory.md, "Certified leakage"

The paper sums over all 2^N batches; the worst-case means depend on |B| only, so here it is a sum over N + 1 sizes with
binomial weights. K is N for EASGM and floor(Nq) for FEASGM; s = K/(K+1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.central_limit import CentralLimit, central_limit
from noisymean.curves import Curves
from noisymean.errors import InvalidInput, Undefined, check_number, check_probability
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.gaussian import GaussianPairs, gaussian_pair
from noisymean.laws.on_a_line import ExplicitPair, explicit_pairs
from noisymean.laws.size_revealed import size_revealed
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.mechanisms import (
    ASGM,
    EASGM,
    FEASGM,
    Mechanism,
    OpacusLoader,
)
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.tradeoff import TradeOff
from noisymean.verdict import check_order

# How many deviations out of the middle a threshold counts when the roughness of a sum over sizes is judged.
_DEVIATIONS = 3.0
LARGEST_ENUMERATION = 20
# From this many dimensions on the loss is close enough to normal for the Gauss rule over sizes: off by 2e-14 at most, where
# 1e-12 is charged; in eight it was 6e-11.
_NEARLY_NORMAL = 16
_MOST_GROUPS = 512
# Distinct shifts above which a per-pair mixture is compressed.
_MOST_SHIFTS = 4096


class LowerBound(Protocol):
    """Anything sound from below: a number never above T(M(D), M(D')) at alpha."""

    def lower(self, alpha: ArrayLike) -> Array: ...


def claimed(mechanism: Mechanism) -> Subsampled:
    """The SGM curve that implementations report, whatever they divide by, at the rate that their accountant is told."""
    return Subsampled(Gaussian(1.0 / mechanism.noise_multiplier), mechanism.told_rate().value)


def noisy_sum(mechanism: Mechanism) -> Subsampled:
    """The SGM curve at the rate at which the new record is really sampled: the truth where the denominator stays."""
    return Subsampled(Gaussian(1.0 / mechanism.noise_multiplier), mechanism.rate_with)


def guarantee(mechanism: Mechanism) -> TradeOff:
    """The paper's guarantee for every pair of neighbours, evaluated exactly."""
    match mechanism:
        case ASGM():
            # the batch and the new record's membership are revealed: (1-q) on Id, q on the rest
            return RevealedMixture((1.0 - mechanism.q, mechanism.q), (Identity(), asgm_given_batch(mechanism)))
        case _:
            step = mechanism.neighbours.step()  # type: ignore[attr-defined]
            if step is None:
                return noisy_sum(mechanism)
            return transparent(mechanism, step)


def transparent(mechanism: Mechanism, step: float, *, groups: int = 0) -> GaussianPairs:
    """Theorems EASGM_HIGH and FEASGM: the batch and the new record's membership are revealed."""
    out, joined = (batch_shift(mechanism, step, offset, groups=groups) for offset in (0.0, float(step)))
    q = mechanism.q
    return GaussianPairs(
        _dimension(mechanism),
        np.concatenate([(1.0 - q) * out.weights, q * joined.weights]),
        np.concatenate([out.shifts, joined.shifts]),
        np.concatenate([out.log_scales, joined.log_scales]),
        out.left_out,
    )


def guarantee_tight(mechanism: Mechanism) -> LowerBound:
    """A sound bound that is nowhere below `guarantee`: the best of all proofs we have."""
    return BestOf((guarantee(mechanism), *_other_proofs(mechanism)))


def _other_proofs(mechanism: Mechanism) -> tuple[LowerBound, ...]:
    """Guarantees beside the paper's; docs/theory.md, "Tighter", proves each."""
    match mechanism:
        case ASGM():
            return (
                # reveal the batch only: given B the likelihood ratio is 1 - q + q L, so subsampling still amplifies
                Subsampled(asgm_given_batch(mechanism), mechanism.q),
                # reveal the size of the batch only: both datasets then divide by the same number
                size_revealed(mechanism.dataset_size, mechanism.q, mechanism.noise_multiplier),
            )
        case _:
            step = mechanism.neighbours.step()  # type: ignore[attr-defined]
            if step is None:
                return ()
            sum_only = noisy_sum(mechanism)
            return (
                # D over its own denominator -> D over that of D' -> D'
                Chain(batch_shift(mechanism, step, 0.0), sum_only),
                # D -> D' over the denominator of D -> D' over its own
                Chain(sum_only, batch_shift(mechanism, step, 0.0, extra=1)),
            )


def ceiling(mechanism: Mechanism) -> TradeOff | None:
    """The paper's upper bound on its own per-pair guarantee; None where the mechanism is SGM."""
    match mechanism:
        case ASGM():
            if mechanism.dataset_size == 0:
                return None
            scaled = gaussian_pair(mechanism.dimension - 1, 0.0, log_scale=float(_log_ratio(mechanism.dataset_size)))
            return Subsampled(scaled, asgm_ceiling_rate(mechanism))
        case _:
            step = mechanism.neighbours.step()  # type: ignore[attr-defined]
            if step is None:
                return None
            return gaussian_pair(_dimension(mechanism) - 1, 0.0, log_scale=float(_log_ratio(step)))


def ceiling_clt(mechanism: Mechanism) -> CentralLimit | None:
    """The paper's analytic estimate of `ceiling`; None where there is no ceiling or n < 2."""
    if mechanism.dimension is None or mechanism.dimension < 2:
        return None
    match mechanism:
        case ASGM():
            if mechanism.dataset_size == 0:
                return None
            return central_limit(mechanism.dataset_size, mechanism.dimension - 1, rate=asgm_ceiling_rate(mechanism))
        case _:
            step = mechanism.neighbours.step()  # type: ignore[attr-defined]
            return None if step is None else central_limit(step, mechanism.dimension - 1)


def asgm_ceiling_rate(mechanism: ASGM) -> float:
    """q - q (1-q)^N: the new record is in the batch, and not alone."""
    q = mechanism.q
    return float(-q * np.expm1(mechanism.dataset_size * np.log1p(-q))) if q < 1.0 else 1.0


def leakage(mechanism: Mechanism) -> Leakage:
    """The best attacker of the family of explicit pairs."""
    pairs = explicit_pairs(mechanism)
    if mechanism.is_sum:
        # the pair (0, C u) attains the SGM curve exactly
        return Leakage((pairs[0],), (noisy_sum(mechanism),))
    return Leakage(tuple(pairs), tuple(pair.curve for pair in pairs))


def per_pair(
    mechanism: EASGM | ASGM | FEASGM, gradients: ArrayLike | None = None, *, gram: ArrayLike | None = None
) -> TradeOff:
    """The paper's guarantee for *given* clipped gradients: sound for this pair, with the batch revealed.

    `gradients` has one row for each record of D', the new one last, in units of the clipping bound C; `gram` is the matrix of
    their inner products, for when they are too long to hold. All 2^N batches are enumerated.
    """
    inner = _gram_matrix(gradients, gram)
    count = inner.shape[0] - 1
    if count != mechanism.dataset_size:
        raise InvalidInput("gradients", f"{count + 1} rows", f"dataset_size + 1 = {mechanism.dataset_size + 1} rows")
    if count > LARGEST_ENUMERATION:
        raise Undefined(
            "dataset_size",
            count,
            f"<= {LARGEST_ENUMERATION} for per_pair, which enumerates 2^N batches",
            "use guarantee (every pair), ceiling (every pair, optimistic) or leakage (explicit pairs) for larger datasets",
        )
    sizes, sum_square, with_new = _subset_sums(inner)
    new_square = inner[-1, -1]
    q, sigma = mechanism.q, mechanism.noise_multiplier
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(sizes * np.log(q) + np.where(sizes < count, (count - sizes) * np.log1p(-q), 0.0))

    def shift(multiple: Array | float) -> Array:
        """|multiple * g_new - sum over B| for every batch B."""
        square = multiple * multiple * new_square - 2.0 * multiple * with_new + sum_square
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    if isinstance(mechanism, ASGM):
        scales = np.where(sizes > 0, _log_ratio(np.maximum(sizes, 1.0)), 0.0)
        shifts = np.where(sizes > 0, shift(sizes) / ((sizes + 1.0) * sigma), np.sqrt(new_square) / sigma)
        batch = _compressed(mechanism.dimension, weights, shifts, scales)
        return RevealedMixture((1.0 - q, q), (Identity(), batch))
    step = mechanism.neighbours.step()
    if step is None:
        return Subsampled(Gaussian(float(np.sqrt(new_square)) / sigma), q)
    shifts = np.concatenate([shift(0.0), shift(float(step))]) / ((step + 1.0) * sigma)
    both = np.concatenate([(1.0 - q) * weights, q * weights])
    return _compressed(mechanism.dimension, both, shifts, np.full_like(shifts, float(_log_ratio(step))))


def _gram_matrix(gradients: ArrayLike | None, gram: ArrayLike | None) -> Array:
    if (gradients is None) == (gram is None):
        raise InvalidInput("gradients, gram", "both or neither", "given as exactly one of the two")
    if gradients is not None:
        rows = np.asarray(check_number("gradients", gradients), dtype=np.float64)
        matrix = rows @ rows.T if rows.ndim == 2 else rows
    else:
        matrix = np.asarray(check_number("gram", gram), dtype=np.float64)  # type: ignore[arg-type]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise InvalidInput("gradients", f"shape {matrix.shape}", "a matrix with one row for each record of D'")
    longest = float(np.sqrt(np.max(np.diag(matrix))))
    if longest > 1.0 + 1e-9:
        raise InvalidInput(
            "gradients", f"norm {longest:g}", "at most 1 (the clipping bound)", "clip them and divide by C first"
        )
    return np.asarray(matrix)


def _subset_sums(inner: Array) -> tuple[Array, Array, Array]:
    """(|B|, |sum over B|^2, <sum over B, new>) for every subset B of the first N records, by doubling."""
    count = inner.shape[0] - 1
    sizes, squares, cross = np.zeros(1), np.zeros(1), np.zeros(1)
    for record in range(count):
        projections = np.zeros(1)
        for earlier in range(record):
            projections = np.concatenate([projections, projections + inner[earlier, record]])
        sizes = np.concatenate([sizes, sizes + 1.0])
        squares = np.concatenate([squares, squares + 2.0 * projections + inner[record, record]])
        cross = np.concatenate([cross, cross + inner[record, count]])
    return sizes, np.maximum(squares, 0.0), cross


def _compressed(dimension: int, weights: Array, shifts: Array, log_scales: Array) -> GaussianPairs:
    """The same mixture with at most _MOST_SHIFTS components of each scale.

    Where there are more, neighbouring shifts are merged at the *largest* of them: the curve falls with the shift
    (paper, Theorem bound), so the result is still a lower bound.
    """
    parts = []
    for scale in np.unique(log_scales):
        mine = log_scales == scale
        order = np.argsort(shifts[mine])
        ordered, mass = shifts[mine][order], weights[mine][order]
        if ordered.size > _MOST_SHIFTS:
            cuts = np.unique(
                np.searchsorted(ordered, np.linspace(ordered[0], ordered[-1], _MOST_SHIFTS + 1)[1:], side="right")
            )
            edges = np.concatenate([[0], cuts])
            kept = [(lo, hi) for lo, hi in pairwise(edges) if hi > lo]
            mass = np.array([mass[lo:hi].sum() for lo, hi in kept])
            ordered = np.array([ordered[hi - 1] for _, hi in kept])
        parts.append((mass, ordered, np.full_like(ordered, scale)))
    mass, shifts, log_scales = (np.concatenate(column) for column in zip(*parts, strict=True))
    return GaussianPairs(dimension, mass, shifts, log_scales)


def _dimension(mechanism: Mechanism) -> int:
    if mechanism.dimension is None:
        raise InvalidInput("dimension", None, "given: the denominator's leak grows with it")
    return mechanism.dimension


def _log_ratio(step: ArrayLike) -> Array:
    """log(K/(K+1)), accurate for any K."""
    return np.asarray(-np.log1p(1.0 / np.asarray(step, dtype=np.float64)))


def batch_shift(mechanism: Mechanism, step: float, offset: float, extra: int = 0, *, groups: int = 0) -> GaussianPairs:
    """Mixture over batch sizes k of T(N(0, I), N(mu_k, s^2 I)), mu_k = (offset + k)/((K+1) sigma): Theorem EASGM_HIGH's f_B.

    `extra` = 1 draws the batch from D' instead of D. With `groups`, sizes are cut into about so many and each group is bounded
    by its largest shift, which is sound under any tilt, as sums over many rounds need it.
    """
    count, q = (mechanism.dataset_size or 0) + extra, mechanism.q
    unit = 1.0 / ((step + 1.0) * mechanism.noise_multiplier)
    log_scale = float(_log_ratio(step))
    dimension = _dimension(mechanism)
    scale_spread = np.expm1(-2.0 * log_scale) * np.sqrt(0.5 * dimension)
    least_shift = max(unit * (offset + binomial.small_size(count, q)), 1e-300)
    # |dz/dmu| <= 1/s + |z| min(1/(2 spread), 1/mu): docs/numerics.md, "Sums over batch sizes"
    slope = np.exp(-log_scale) + _DEVIATIONS * min(0.5 / scale_spread, 1.0 / least_shift)
    if dimension < _NEARLY_NORMAL or groups:
        # the loss is far from normal: bound each group of sizes by its largest shift (the curve falls with it)
        _, largest, mass, left_out = binomial.grouped(count, q, groups or _MOST_GROUPS)
        shifts = unit * (offset + largest)
        return GaussianPairs(dimension, mass, shifts, np.full_like(shifts, log_scale), left_out)
    nodes = binomial.nodes(count, q, roughness=float(slope) * unit * binomial.deviation(count, q))
    return GaussianPairs(
        dimension, nodes.weights, unit * (offset + nodes.sizes), np.full_like(nodes.sizes, log_scale), nodes.slack
    )


def asgm_given_batch(mechanism: ASGM, *, groups: int = 0) -> GaussianPairs:
    """Theorem ASGM_HIGH: mixture over sizes k of T(N(0, I), N(2k/((k+1) sigma), (k/(k+1))^2 I)); k = 0 is G_{1/sigma}."""
    count, q, sigma, dimension = mechanism.dataset_size, mechanism.q, mechanism.noise_multiplier, mechanism.dimension
    least = binomial.small_size(count, q)
    spread = binomial.deviation(count, q)
    slope = (np.sqrt(2.0 * dimension) + 4.0 / sigma) / least**2 + _DEVIATIONS / least
    if dimension < _NEARLY_NORMAL or groups:
        smallest, largest, mass, left_out = binomial.grouped(count, q, groups or _MOST_GROUPS)
    else:
        nodes = binomial.nodes(count, q, roughness=float(slope) * spread)
        smallest, largest, mass, left_out = nodes.sizes, nodes.sizes, nodes.weights, nodes.slack
    some = smallest > 0.0
    low, high = np.where(some, smallest, 1.0), np.where(some, largest, 1.0)
    # a group leaks no more than the smallest scale in it with the largest mu^2/(1 - s^2) (docs/theory.md, "Monotone along the
    # flow"): mu^2/(1 - s^2) is 4 k^2/((2k+1) sigma^2), and 1 - s^2 is (2k+1)/(k+1)^2; of one size it is 2k/((k+1) sigma) again
    shift = 2.0 * high * np.sqrt((2.0 * low + 1.0) / (2.0 * high + 1.0)) / ((low + 1.0) * sigma)
    log_scales = np.where(some, _log_ratio(low), 0.0)
    shifts = np.where(some, shift, 1.0 / sigma)
    return GaussianPairs(dimension, mass, shifts, log_scales, left_out)


@final
@dataclass(frozen=True)
class Chain:
    """T(P, Q)(alpha) >= T(P', Q)(1 - T(P, P')(alpha)): a test of P against Q is one of P against P', then of P' against Q."""

    first: TradeOff
    second: TradeOff

    def lower(self, alpha: ArrayLike) -> Array:
        """The composed bound, every step rounded down."""
        # one ulp up: rounding 1 - f down would be worth as much at the far end
        return self.second.lower(np.minimum(np.nextafter(1.0 - self.first.lower(alpha), 2.0), 1.0))


@final
@dataclass(frozen=True)
class BestOf:
    """Several proofs of the same statement: the best at each alpha holds."""

    bounds: Sequence[LowerBound]

    def lower(self, alpha: ArrayLike) -> Array:
        """The largest of the lower bounds."""
        return np.asarray(np.max([bound.lower(alpha) for bound in self.bounds], axis=0))


@final
@dataclass(frozen=True)
class Leakage:
    """Curves of explicit pairs: no guarantee can be above any of them."""

    pairs: tuple[ExplicitPair, ...]
    curves: tuple[TradeOff, ...]

    def upper(self, alpha: ArrayLike) -> Array:
        """The least false negative rate that one of the attackers achieves, rounded up."""
        return self.best(alpha)[0]

    def best(self, alpha: ArrayLike) -> tuple[Array, Array]:
        """(values, index of the pair that attains each)."""
        alpha = np.asarray(alpha, dtype=np.float64)
        contenders = self._contenders(alpha)
        values = np.stack([self.curves[i].upper(alpha) for i in contenders])
        winner = np.argmin(values, axis=0)
        return values.min(axis=0), np.asarray(contenders)[winner]

    def _contenders(self, alpha: Array) -> list[int]:
        """Pairs that matter on a thinned alpha: leaving a pair out never makes the result unsound."""
        if len(self.curves) == 1 or alpha.size <= _SCREEN:
            return list(range(len(self.curves)))
        thinned = np.unique(np.quantile(alpha, np.linspace(0.0, 1.0, _SCREEN)))
        values = np.stack([curve.upper(thinned) for curve in self.curves])
        least = values.min(axis=0)
        chosen = [int(np.argmax((values <= least).sum(axis=1)))]
        while True:
            # how far the chosen ones are from the best, as a share of what is left to lose
            gap = (values[chosen].min(axis=0) - least) / np.maximum(np.minimum(least, 1.0 - thinned - least), 1e-12)
            worst = int(np.argmax(gap))
            if gap[worst] < 1e-3:
                return chosen
            chosen.append(int(np.argmin(values[:, worst])))


_SCREEN = 17


def curve(mechanism: Mechanism, alpha: ArrayLike | None = None, *, points: int = 201) -> Curves:
    """Every curve of one round of `mechanism` at `alpha` (default: `points` values from 0 to 1).

    >>> import noisymean as nm
    >>> mechanism = nm.EASGM(dataset_size=59_999, dimension=1_485_217, sample_rate=0.005, noise_multiplier=10.0)
    >>> curves = nm.curve(mechanism, alpha=[0.05, 0.1])
    >>> bool((curves.guarantee <= curves.guarantee_tight).all() and (curves.guarantee_tight <= curves.leakage).all())
    True
    """
    if alpha is None:
        check_number("points", points, least=2, most=10**6)
        alpha = np.linspace(0.0, 1.0, int(points))
    values = np.atleast_1d(np.asarray(check_probability("alpha", alpha), dtype=np.float64))
    if values.size == 0:
        raise InvalidInput("alpha", "[]", "at least one number from 0 to 1")
    leaked, winner = leakage(mechanism).best(values)
    unknown: str | None = None
    limit, bound, sound, tight = None, None, None, None
    try:
        limit, bound = ceiling_clt(mechanism), ceiling(mechanism)
        sound = guarantee(mechanism).lower(values)
        tight = np.asarray(np.max([sound, *(proof.lower(values) for proof in _other_proofs(mechanism))], axis=0))
    except Undefined as reason:
        if not isinstance(mechanism, OpacusLoader):
            raise
        unknown = str(reason)
    check_order(-leaked, None if tight is None else -tight, f"one round of {mechanism}, as curves")
    pairs = explicit_pairs(mechanism)
    claim = claimed(mechanism)
    return Curves(
        mechanism=mechanism,
        alpha=values,
        claimed=claim(values),
        claimed_ends=(claim.lower(values), claim.upper(values)),
        guarantee=sound,
        guarantee_tight=tight,
        ceiling=None if bound is None else bound.upper(values),
        ceiling_clt=None if limit is None else limit(values),
        leakage=leaked,
        pairs=tuple(pairs[index].datasets for index in winner),
        clt=limit,
        unknown=unknown,
    )
