"""The paper's upper bounds on its own guarantee: Theorems upperbound_EASGM, _ASGM, _FEASGM, their T rounds and their estimate.

No transparent guarantee is better than its ceiling; a guarantee of another kind may be, and the leakage is below it where n is
large against N (docs/theory.md, "What the paper leaves potential is actual").
"""

from __future__ import annotations

import numpy as np

from noisymean.central_limit import CentralLimit, central_limit
from noisymean.checks import whole
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import BatchDenominator, DatasetDenominator, Mechanism, need_mechanism
from noisymean.proofs import log_ratio
from noisymean.tradeoff import TradeOff


def ceiling(mechanism: Mechanism) -> TradeOff | None:
    """The paper's upper bound on its own per-pair guarantee; None where the mechanism is SGM, or none of the paper's."""
    need_mechanism(mechanism)
    big_k, rate = _step_and_rate(mechanism)
    if big_k is None:
        return None
    scaled = gaussian_pair(mechanism.needed_dimension - 1, 0.0, log_scale=log_ratio(big_k))
    return scaled if rate is None else Subsampled(scaled, rate)


def ceiling_clt(mechanism: Mechanism, steps: int = 1) -> CentralLimit | None:
    """The paper's analytic estimate of `ceiling`, Theorem upperbound_estimate; None where there is no ceiling or n < 2.

    Over several rounds, Theorem upperbound_estimate_T_round; the paper has none for ASGM there, nor have we.
    """
    need_mechanism(mechanism).need_poisson()
    steps = whole("steps", steps, 1, 10**9)
    if mechanism.dimension is None or mechanism.dimension < 2:
        return None
    big_k, rate = _step_and_rate(mechanism)
    if big_k is None or (rate is not None and steps > 1):
        return None
    return central_limit(big_k, steps * (mechanism.dimension - 1), rate=1.0 if rate is None else rate)


def _step_and_rate(mechanism: Mechanism) -> tuple[float | None, float | None]:
    """K of the change of scale, and how often an attacker sees it where that is not always."""
    mechanism.need_poisson()
    match mechanism:
        case DatasetDenominator():
            moved = mechanism.neighbours
            return (moved.big_k() if moved.paper_like else None), None
        case BatchDenominator(divides_by_size=True):
            count, q = mechanism.dataset_size or 0, mechanism.q
            # q - q (1-q)^N: the new record is in the batch, and not alone
            rate = float(-q * np.expm1(count * np.log1p(-q))) if q < 1.0 else 1.0
            return (float(count), rate) if count else (None, None)
    return None, None
