r"""T rounds: what is claimed, what certainly leaks, what is guaranteed, side by side.

    claimed    T-round SGM: the number that accountants report
    leakage    T rounds on an explicit pair of datasets: a lower bound on every true guarantee
    guarantee  a sound upper bound, the best of the proofs of docs/theory.md, "T rounds"

Every epsilon is the larger of the two directions (D from D', D' from D); leakage is rounded down, guarantee up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from noisymean.cumulants import Cumulants, GaussianPairCumulants, LineCumulants, Outcomes, Sum
from noisymean.errors import InvalidInput, Undefined, check_number, check_probability
from noisymean.explicit_pair import ExplicitPair, LossOnLine, explicit_pairs
from noisymean.gaussian_pair import GaussianPairs
from noisymean.mechanisms import (
    ASGM,
    EASGM,
    FEASGM,
    SGM,
    Adjacency,
    Expected,
    Mechanism,
    OpacusLoader,
    denominator_step,
    denominators,
    with_public_size,
)
from noisymean.numerics.logs import Array
from noisymean.one_round import asgm_given_batch, batch_shift, claimed, guarantee
from noisymean.rounds import Chain, DeltaCurve, Loss, Rounds
from noisymean.size_revealed import SizeRevealed, size_revealed
from noisymean.tradeoff import FiniteOutcomes, Side, Subsampled, TradeOff

MOST_STEPS = 10**9
SMALLEST_DELTA = 1e-200
_HALF_LOG_TWO_PI = 0.9189385332046727
# Pairs with hidden batches of more sizes than this are left out over many rounds: their spread hides the new record.
_MOST_SIZES = 64
_MOST_OUTCOMES = 2048
# Below this many records the batch itself is revealed as well: its size alone says too much.
_FEW_RECORDS = 12


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

    def worst(self, curve: DeltaCurve, side: Side) -> float:
        """The larger of the two directions."""
        return max(self.ask(curve, side), self.ask(curve.inverse(), side))

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
    claim = Rounds(((steps, _sgm_loss(effective)),))
    claimed_high, claimed_low = question.worst(claim, Side.ABOVE), question.worst(claim, Side.BELOW)
    leaked, pair = _leakage(effective, steps, question)
    sound: float | None
    try:
        sound = _guarantee(effective, steps, question)
    except Undefined as reason:
        sound = None
        notes.append(f"no guarantee: {reason}")
    if sound is not None and not math.isfinite(sound):
        sound = None
        notes.append("no finite guarantee: the bound exceeds what double precision can hold")
    return Account(
        mechanism=mechanism,
        steps=steps,
        claimed=question.bound(claimed_high),
        leakage=question.bound(leaked, pair),
        guarantee=question.bound(sound),
        claimed_lower=question.bound(claimed_low),
        verdict=_verdict(claimed_high, leaked, sound, claimed_low),
        notes=tuple(notes),
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
    check_number("epsilon", epsilon, least=0.0, most=1e6)  # type: ignore[arg-type]
    return _Question(None, float(epsilon))  # type: ignore[arg-type]


def _checked_steps(steps: int) -> int:
    check_number("steps", steps, least=1, most=MOST_STEPS, remedy="give the number of noisy updates")
    if int(steps) != steps:
        raise InvalidInput("steps", steps, "a whole number")
    return int(steps)


# --- claimed -----------------------------------------------------------------------------------------------------------


def _sgm_loss(mechanism: Mechanism) -> Loss:
    curve = claimed(mechanism)
    assert isinstance(curve, Subsampled)
    return Loss(lambda: curve, sgm_cumulants(curve.rate, mechanism.noise_multiplier))


def sgm_cumulants(rate: float, noise_multiplier: float) -> Cumulants:
    """K of N(0, 1) against (1-q) N(0, 1) + q N(1/sigma, 1); closed at q = 1."""
    shift = 1.0 / noise_multiplier
    if rate == 1.0:
        return GaussianPairCumulants(1.0, np.ones(1), np.array([shift]), 0.0)
    stay, move = math.log1p(-rate), math.log(rate)

    def loss(x: Array) -> Array:
        return np.logaddexp(stay, move + shift * x - 0.5 * shift * shift)

    # 1 - q + q e^(mx - m^2/2) vanishes at Im x = pi/m, the end of the strip
    return LineCumulants(_log_normal, loss, 0.0, 1.0, min(2.0, 0.9 * math.pi / shift), shift)


def _log_normal(x: Array) -> Array:
    return np.asarray(-0.5 * x * x - _HALF_LOG_TWO_PI)


# --- leakage -----------------------------------------------------------------------------------------------------------


def _leakage(mechanism: Mechanism, steps: int, question: _Question) -> tuple[float, str]:
    """The most that one of the explicit pairs gives away, and which."""
    best, name = -1.0, ""
    for pair in _worthwhile_pairs(mechanism):
        rounds = pair_rounds(pair, steps)
        value = question.worst(rounds, Side.BELOW)
        if value > best:
            best, name = value, pair.description
    return best, name


def _worthwhile_pairs(mechanism: Mechanism) -> list[ExplicitPair]:
    return [pair for pair in explicit_pairs(mechanism) if pair.line_only or pair.p.means.size <= _MOST_SIZES]


def pair_rounds(pair: ExplicitPair, steps: int) -> Rounds:
    """`steps` rounds of the mechanism on an explicit pair."""
    if pair.p.means.size == 1 and pair.q.means.size == 1:
        curve = pair.curve
        assert isinstance(curve, GaussianPairs)
        return Rounds(((1, Loss(lambda: curve.power(steps), None)),))
    if pair.log_scale is not None and pair.p.means.size == 1 and np.unique(pair.q.scales).size == 1:
        return Rounds(((steps, Loss(lambda: pair.curve, _zero_pair_cumulants(pair))),))
    curve = pair.curve
    cumulants: Cumulants | None = None
    if isinstance(curve, LossOnLine):
        line = Outcomes(curve.losses, curve.p)
        cumulants = Sum(((1, line), (1, _scale_cumulants(curve.across.dof, curve.across.log_scale))))
    elif isinstance(curve, FiniteOutcomes):
        cumulants = _merged(curve)
    return Rounds(((steps, Loss(lambda: curve, cumulants)),))


def _merged(curve: FiniteOutcomes) -> Outcomes:
    """Outcomes of nearly the same loss told as one: a post-processing that costs nothing to speak of."""
    seen = (curve.p > 0.0) & (curve.q > 0.0)
    p, q = curve.p[seen], curve.q[seen]
    order = np.argsort(np.log(q) - np.log(p))
    p, q = p[order], q[order]
    if p.size > _MOST_OUTCOMES:
        # groups of equal width in the loss where it matters, so that no group spans much of it
        losses = np.log(q) - np.log(p)
        group = np.floor((losses - losses[0]) / (losses[-1] - losses[0]) * _MOST_OUTCOMES).astype(int)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        p, q = np.add.reduceat(p, starts), np.add.reduceat(q, starts)
    return Outcomes(np.log(q) - np.log(p), p)


def _zero_pair_cumulants(pair: ExplicitPair) -> Cumulants:
    """D all-zero: N(0, 1) against a mixture of two normals of scale s along u, a scale change across."""
    log_scale = pair.log_scale or 0.0
    scale = math.exp(log_scale)
    weights, means = pair.q.weights, pair.q.means / scale
    logs = np.log(weights)
    # log q1 - log p1 = -log s - (c/2) x^2 + log sum_i w_i exp(m_i x/s - m_i^2/2), means in units of s
    c = math.expm1(-2.0 * log_scale)

    def loss(x: Array) -> Array:
        bumps = logs[:, None] + means[:, None] * (x / scale) - 0.5 * np.square(means)[:, None]
        return np.asarray(-log_scale - 0.5 * c * x * x + np.logaddexp.reduce(bumps, axis=0))

    spread = float(np.ptp(means)) / scale
    strip = min(2.0, 0.9 * math.pi / max(spread, 1e-12))
    line = LineCumulants(_log_normal, loss, 0.0, 1.0, strip, spread + 40.0 * abs(c), (-1.0 / c if c > 0 else -math.inf, -1.0 / c if c < 0 else math.inf))
    return Sum(((1, line), (1, _scale_cumulants(pair.dimension - 1, log_scale)))) if pair.dimension > 1 else line


def _scale_cumulants(dimension: int, log_scale: float) -> Cumulants:
    return GaussianPairCumulants(float(dimension), np.ones(1), np.zeros(1), log_scale)


# --- guarantee ---------------------------------------------------------------------------------------------------------


def _guarantee(mechanism: Mechanism, steps: int, question: _Question) -> float:
    """The best proof for each direction, then the worse direction."""
    proofs = _proofs(mechanism, steps)
    forward = min(question.ask(proof, Side.ABOVE) for proof in proofs)
    backward = min(question.ask(proof.inverse(), Side.ABOVE) for proof in proofs)
    return max(forward, backward)


def _proofs(mechanism: Mechanism, steps: int) -> Sequence[DeltaCurve]:
    if isinstance(mechanism, ASGM):
        return _asgm_proofs(mechanism, steps)
    step = denominator_step(mechanism)
    sum_only = Rounds(((steps, _sgm_loss(mechanism)),))
    if step is None:
        return (sum_only,)
    transparent = guarantee(mechanism)
    assert isinstance(transparent, GaussianPairs)
    if mechanism.q == 1.0:
        # one batch, one component each round: closed form
        certain = _only_component(transparent)
        return (Rounds(((1, Loss(lambda: certain.power(steps), None)),)),)
    return (
        _mixture_rounds(transparent, steps),
        Chain(_mixture_rounds(batch_shift(mechanism, step, 0.0), steps), sum_only),
        Chain(sum_only, _mixture_rounds(batch_shift(mechanism, step, 0.0, extra=1), steps)),
    )


def _only_component(mixture: GaussianPairs) -> GaussianPairs:
    kept = mixture.weights > 0.0
    return replace(mixture, weights=np.ones(1), shifts=mixture.shifts[kept][:1], log_scales=mixture.log_scales[kept][:1])


def _mixture_rounds(mixture: GaussianPairs, steps: int) -> Rounds:
    kept = mixture.weights > 0.0
    cumulants = GaussianPairCumulants(
        float(mixture.dimension), mixture.weights[kept], mixture.shifts[kept], float(mixture.log_scales[0])
    )
    return Rounds(((steps, Loss(lambda: mixture, cumulants)),))


def _asgm_proofs(mechanism: ASGM, steps: int) -> Sequence[DeltaCurve]:
    if mechanism.q == 1.0 and mechanism.dataset_size > 0:
        certain = _only_component(asgm_given_batch(mechanism))
        return (Rounds(((1, Loss(lambda: certain.power(steps), None)),)),)
    revealed = size_revealed(mechanism.dataset_size, mechanism.q, mechanism.noise_multiplier)
    proofs: list[DeltaCurve] = []
    assert isinstance(revealed, SizeRevealed)
    proofs.append(WithInfinite(Rounds(((steps, Loss(lambda: revealed, revealed.cumulants()),),)), steps, revealed.full_batch))
    if mechanism.dataset_size <= _FEW_RECORDS:
        batch: TradeOff = Subsampled(asgm_given_batch(mechanism), mechanism.q)
        proofs.append(Rounds(((steps, Loss(lambda: batch, None)),)))
    return proofs


@final
@dataclass(frozen=True, eq=False)
class WithInfinite:
    """A loss that is infinite with Q-probability `mass` a round: its share of delta is added outside of the integral."""

    finite: Rounds
    steps: int
    mass: float
    reverse: bool = False

    @property
    def _infinite(self) -> float:
        return 0.0 if self.reverse else -math.expm1(self.steps * math.log1p(-self.mass)) if self.mass < 1.0 else 1.0

    def epsilon(self, delta: float, side: Side) -> float:
        """epsilon at what is left of delta; inf if nothing is."""
        left = delta - self._infinite * (1.0 + 1e-12)
        return math.inf if left <= 0.0 else self.finite.epsilon(left, side)

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log of the sum."""
        finite = self.finite.log_delta(epsilon, side)
        return finite if self._infinite == 0.0 else float(np.logaddexp(finite, math.log(self._infinite)))

    def inverse(self) -> WithInfinite:
        """Under P the infinite outcome never happens."""
        return WithInfinite(self.finite.inverse(), self.steps, self.mass, not self.reverse)


# --- words -------------------------------------------------------------------------------------------------------------


def _notes(mechanism: Mechanism, adjacency: Adjacency, steps: int) -> list[str]:
    notes = []
    match adjacency:
        case Adjacency.ADD_REMOVE:
            pass
        case Adjacency.ZERO_OUT:
            notes.append("zero-out: N is public, so the denominator is a constant and the SGM claim may be made, for zero-out neighbours only")
        case Adjacency.REPLACE_ONE:
            notes.append("replace-one: N is public, so the denominator is a constant; a replaced record is one removed and one added")
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


def _floor_notes(mechanism: FEASGM) -> list[str]:
    before, after = mechanism.floors
    if after > before:
        return [f"floor(N*q) steps from {before} to {after} when one record is added"]
    return [f"floor(N*q) = {before} with and without one more record: at this N the mechanism is SGM"]


def _loader_notes(mechanism: OpacusLoader) -> list[str]:
    before, after = mechanism.run(mechanism.dataset_size), mechanism.run(mechanism.dataset_size + 1)
    notes = [
        f"Opacus on {mechanism.dataset_size} records: sample rate 1/{before.loader_length}, divides by {before.expected_batch_size}; "
        f"on {mechanism.dataset_size + 1}: 1/{after.loader_length}, divides by {after.expected_batch_size}"
    ]
    if before.accountant_rate != before.sample_rate:
        notes.append(f"the sampler's rate is 1/{before.loader_length} but the accountant is told 1/{before.steps_per_epoch}")
    if mechanism.rate_moves:
        notes.append(f"an epoch has {before.steps_per_epoch} steps on D and {after.steps_per_epoch} on D': counting epochs leaks the size by itself")
    return notes
