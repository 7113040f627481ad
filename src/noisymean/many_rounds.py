r"""T rounds of a mechanism as (epsilon, delta) curves: one function for each of the four words, and the proofs behind them.

    claimed_rounds       T-round SGM                                                what accountants report
    leakage_rounds       T rounds on each explicit pair of datasets                 docs/theory.md, "Certified leakage"
    guarantee_rounds     every proof we have for T rounds; each is sound            docs/accountant.md
    transparent_rounds   the paper's guarantee, batch and membership revealed, composed
    ceiling_rounds       f-bar composed                                             Theorems FEASGM/EASGM_ASGM_Upperbound_T_round
    ceiling_clt_rounds   its central limit estimate                                 Theorem upperbound_estimate_T_round, Corollary

The chain for EASGM and FEASGM goes through a third transcript, D's records over the denominator of D': from there to D' is
T-round SGM, and to it from D a change of scale and mean whose loss, with the batch sizes revealed, is closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from noisymean.central_limit import CentralLimit, central_limit
from noisymean.compose.engine import Chain, DeltaCurve, Loss, Rounds
from noisymean.laws.cumulants import Cumulants, GaussianPairCumulants, LineCumulants, Outcomes, Sum
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import GaussianPairs
from noisymean.laws.on_a_line import ExplicitPair, LineMixture, explicit_pairs, loss_in_cells, tabulated
from noisymean.laws.size_revealed import size_revealed
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import ASGM, Mechanism
from noisymean.numerics.logs import Array, log_mean_exp
from noisymean.one_round import asgm_given_batch, batch_shift, ceiling, claimed, guarantee, noisy_sum, transparent
from noisymean.pairs import Replaced
from noisymean.tradeoff import TradeOff

_HALF_LOG_TWO_PI = 0.9189385332046727
# Outcomes that a sum over many rounds is made of, and how much of the mass lies outside of where they are dense.
_MOST_OUTCOMES, _SPARSE = 2048, 1e-14
_FINE_GROUPS, _COARSE_GROUPS = 512, 48
# Fewer where batch sizes hardly vary: a group is then no wider than this share of the mean size.
_LEAST_GROUPS, _WIDEST_GROUP = 64, 1e-4
# Of a batch size, between the first and the last that is looked at.
_DEVIATIONS = 16.0
# Below this many records the batch itself is revealed as well: its size alone says too much. So it does where a run may meet a
# batch of all N + 1 records, which gives the larger dataset away.
_FEW_RECORDS = 12
_LIKELY_FULL = 1e-12


def claimed_rounds(mechanism: Mechanism, steps: int) -> Rounds:
    """T-round SGM at the rate and noise that the user's accountant is told."""
    return Rounds(((steps, _sgm_loss(claimed(mechanism), mechanism.noise_multiplier)),))


def noisy_sum_rounds(mechanism: Mechanism, steps: int) -> Rounds:
    """T-round SGM at the rate at which the new record is really sampled: the truth where the denominator stays."""
    return Rounds(((steps, _sgm_loss(noisy_sum(mechanism), mechanism.noise_multiplier)),))


def leakage_rounds(mechanism: Mechanism, steps: int) -> list[tuple[ExplicitPair, Rounds]]:
    """T rounds on each explicit pair that can matter."""
    return [(pair, pair_rounds(pair, steps)) for pair in _worthwhile_pairs(mechanism)]


def replaced_rounds(mechanism: Mechanism, steps: int) -> tuple[ExplicitPair, Rounds]:
    """T rounds of the noisy sum when a record with gradient -C*u is replaced by one with C*u, every other being zero."""
    q, shift = mechanism.q, 1.0 / mechanism.noise_multiplier
    weights = np.array([1.0 - q, q]) if q < 1.0 else np.ones(1)
    ends = [np.array([0.0, end]) if q < 1.0 else np.array([end]) for end in (-shift, shift)]
    before, after = (LineMixture(weights, means, np.ones_like(means)) for means in ends)
    pair = ExplicitPair(Replaced(-1.0, 1.0), 1, before, after, log_scale=0.0)
    if q == 1.0:
        return pair, pair_rounds(pair, steps)
    cumulants = LineCumulants(
        before.log_density,
        lambda x: after.log_density(x) - before.log_density(x),
        0.0,
        1.0 + shift,
        spread=shift,
        base_spread=shift,
    )
    return pair, Rounds(((steps, _as_seen(pair, cumulants)),))


def transparent_rounds(mechanism: Mechanism, steps: int) -> Rounds:
    """The paper's guarantee composed T times: batch and membership revealed in every round."""
    if isinstance(mechanism, ASGM):
        curve = guarantee(mechanism)
        return Rounds(((steps, Loss(lambda: curve, None)),))
    step = mechanism.neighbours.step()  # type: ignore[attr-defined]
    if step is None:
        return noisy_sum_rounds(mechanism, steps)
    return _mixture_rounds(mechanism, partial(transparent, mechanism, step), steps)


def ceiling_rounds(mechanism: Mechanism, steps: int) -> Rounds | None:
    """The paper's upper bound on its transparent guarantee, composed; closed form but for ASGM."""
    curve = ceiling(mechanism)
    if curve is None:
        return None
    if isinstance(curve, GaussianPairs):
        return _closed_rounds(curve, steps)
    return Rounds(((steps, Loss(lambda: curve, None)),))


def ceiling_clt_rounds(mechanism: Mechanism, steps: int) -> CentralLimit | None:
    """The central limit estimate over T (n-1) copies; the paper has none for ASGM over several rounds, nor have we."""
    if isinstance(mechanism, ASGM) or mechanism.dimension is None or mechanism.dimension < 2:
        return None
    step = mechanism.neighbours.step()  # type: ignore[attr-defined]
    return None if step is None else central_limit(step, steps * (mechanism.dimension - 1))


# --- claimed -----------------------------------------------------------------------------------------------------------


def _sgm_loss(curve: Subsampled, noise_multiplier: float) -> Loss:
    return Loss(lambda: curve, sgm_cumulants(curve.rate, noise_multiplier))


def sgm_cumulants(rate: float, noise_multiplier: float) -> Cumulants:
    """K of N(0, 1) against (1-q) N(0, 1) + q N(1/sigma, 1); closed at q = 1."""
    shift = 1.0 / noise_multiplier
    if rate == 1.0:
        return GaussianPairCumulants(1.0, np.ones(1), np.array([shift]), 0.0)
    odds = math.log(rate) - math.log1p(-rate) - 0.5 * shift * shift
    return LineCumulants(
        _log_normal,
        lambda x: log_mean_exp(rate, shift * x - 0.5 * shift * shift),
        0.0,
        1.0,
        spread=shift,
        log_odds=odds,
    )


def _log_normal(x: Array) -> Array:
    return np.asarray(-0.5 * x * x - _HALF_LOG_TWO_PI)


# --- leakage -----------------------------------------------------------------------------------------------------------


def _worthwhile_pairs(mechanism: Mechanism) -> list[ExplicitPair]:
    return [pair for pair in explicit_pairs(mechanism) if not pair.once]


def pair_rounds(pair: ExplicitPair, steps: int) -> Rounds:
    """`steps` rounds of the mechanism on an explicit pair."""
    if pair.p.means.size == 1 and pair.q.means.size == 1:
        closed = pair.curve
        assert isinstance(closed, GaussianPairs)
        return _closed_rounds(closed, steps)
    if pair.log_scale is None:
        forward, backward = (_in_cells(pair, backward=backward) for backward in (False, True))
        return Rounds(((steps, replace(forward, mirror=backward)),))
    if pair.p.means.size == 1:
        return Rounds(((steps, _as_seen(pair, _zero_pair_cumulants(pair))),))
    if steps == 1:
        return Rounds(((1, _as_seen(pair, None)),))
    forward, backward = (_in_line_cells(pair, backward=backward) for backward in (False, True))
    return Rounds(((steps, replace(forward, mirror=backward)),))


def _as_seen(pair: ExplicitPair, cumulants: Cumulants | None) -> Loss:
    """The pair's own curve, rounded for either direction."""
    return Loss(lambda: pair.curve, cumulants, mirror=Loss(lambda: pair.backward_curve, cumulants))


def _in_cells(pair: ExplicitPair, *, backward: bool) -> Loss:
    """A scale for each batch size: the attacker is told the cell only."""
    view = pair.cells.told(backward=backward)
    return Loss(lambda: view, _told_together(view, pair.moved))


def _in_line_cells(pair: ExplicitPair, *, backward: bool) -> Loss:
    """One scale on each side: the line in cells, the loss across in closed form."""
    view, across = pair.line_cells().told(backward=backward), tabulated(pair.dimension - 1, pair.log_scale or 0.0)
    line = _told_together(view, pair.moved)
    if pair.dimension == 1:
        return Loss(lambda: view, line)
    cumulants = Sum(((1, line), (1, _scale_cumulants(across.dof, across.log_scale))))
    return Loss(lambda: loss_in_cells(view, across), cumulants)


def _told_together(view: FiniteOutcomes, spread: float) -> Outcomes:
    """The cells for many rounds, those of nearly the same loss told as one: a post-processing that costs little.

    A cell that one of the two measures does not have adds nothing to delta, in the direction that the measures are meant for.
    """
    seen = (view.p > 0.0) & (view.q > 0.0)
    log_p, log_q = np.log(view.p[seen]), np.log(view.q[seen])
    order = np.argsort(log_q - log_p)
    losses, log_p, log_q = (log_q - log_p)[order], log_p[order], log_q[order]
    if losses.size > _MOST_OUTCOMES:
        # groups of equal width in the loss where there is mass, and a few for the rest
        cumulated = np.cumsum(np.exp(log_p) + np.exp(log_q))
        first, last = np.searchsorted(cumulated, [_SPARSE * cumulated[-1], (1.0 - _SPARSE) * cumulated[-1]])
        edges = np.linspace(losses[first], losses[min(last, losses.size - 1)], _MOST_OUTCOMES)
        starts = np.flatnonzero(np.diff(np.searchsorted(edges, losses), prepend=-1))
        log_p, log_q = _summed(log_p, starts), _summed(log_q, starts)
        losses = log_q - log_p
    return Outcomes(losses, np.exp(log_p), log_p, spread)


def _summed(logs: Array, starts: NDArray[np.intp]) -> Array:
    """log of the sums of e^logs from each start to the next, whatever their size."""
    tops = np.maximum.reduceat(logs, starts)
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, logs.size)))
    return np.asarray(tops + np.log(np.add.reduceat(np.exp(logs - tops[group]), starts)))


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

    tilts = (-1.0 / c if c > 0.0 else -math.inf, -1.0 / c if c < 0.0 else math.inf)
    line = LineCumulants(_log_normal, loss, 0.0, 1.0, spread=float(np.ptp(means)) / scale, bend=c, tilts=tilts)
    return Sum(((1, line), (1, _scale_cumulants(pair.dimension - 1, log_scale)))) if pair.dimension > 1 else line


def _scale_cumulants(dimension: int, log_scale: float) -> Cumulants:
    return GaussianPairCumulants(float(dimension), np.ones(1), np.zeros(1), log_scale)


# --- guarantee ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def guarantee_rounds(mechanism: Mechanism, steps: int) -> Sequence[DeltaCurve]:
    """Sound bounds on T(M(D), M(D')) over T rounds; the best at each question holds. Undefined where none is known."""
    if isinstance(mechanism, ASGM):
        return _asgm_proofs(mechanism, steps)
    step = mechanism.neighbours.step()  # type: ignore[attr-defined]
    sum_only = noisy_sum_rounds(mechanism, steps)
    if step is None:
        return (sum_only,)
    if mechanism.q == 1.0:
        # one batch, one component each round: closed form
        return (_closed_rounds(_only_component(transparent(mechanism, step)), steps),)
    return (
        _mixture_rounds(mechanism, partial(transparent, mechanism, step), steps),
        Chain(_mixture_rounds(mechanism, partial(batch_shift, mechanism, step, 0.0), steps), sum_only),
        Chain(sum_only, _mixture_rounds(mechanism, partial(batch_shift, mechanism, step, 0.0, 1), steps)),
    )


def _closed_rounds(pair: GaussianPairs, steps: int) -> Rounds:
    """T rounds of one Gaussian pair are one round of a larger one."""
    return Rounds(((1, Loss(lambda: pair.power(steps), None)),))


def _only_component(mixture: GaussianPairs) -> GaussianPairs:
    kept = mixture.weights > 0.0
    return replace(
        mixture, weights=np.ones(1), shifts=mixture.shifts[kept][:1], log_scales=mixture.log_scales[kept][:1]
    )


def _mixture_rounds(mechanism: Mechanism, revealed: Callable[..., GaussianPairs], steps: int) -> Rounds:
    """`revealed(groups=...)` over many rounds: fine groups of batch sizes where they cost little, coarse ones on the grid."""
    mean_size = max((mechanism.dataset_size or 0) * mechanism.q, 1.0)
    wanted = _DEVIATIONS / math.sqrt(mean_size) / _WIDEST_GROUP
    fine = revealed(groups=round(min(max(wanted, _LEAST_GROUPS), _FINE_GROUPS)))
    kept = fine.weights > 0.0
    cumulants = GaussianPairCumulants(
        float(fine.dimension), fine.weights[kept], fine.shifts[kept], float(fine.log_scales[0])
    )
    return Rounds(((steps, Loss(lambda: revealed(groups=_COARSE_GROUPS), cumulants, fine.left_out)),))


def _asgm_proofs(mechanism: ASGM, steps: int) -> Sequence[DeltaCurve]:
    if mechanism.q == 1.0:
        return (_closed_rounds(_only_component(asgm_given_batch(mechanism)), steps),)
    revealed = size_revealed(mechanism.dataset_size, mechanism.q, mechanism.noise_multiplier, fine=steps == 1)
    sizes_only = Loss(lambda: revealed, revealed.cumulants(), revealed.left_out, revealed.full_batch)
    proofs = [Rounds(((steps, sizes_only),))]
    if mechanism.dataset_size <= _FEW_RECORDS or steps * revealed.full_batch > _LIKELY_FULL:
        batch: TradeOff = Subsampled(asgm_given_batch(mechanism, groups=_COARSE_GROUPS), mechanism.q)
        proofs.append(Rounds(((steps, Loss(lambda: batch, None)),)))
    return proofs
