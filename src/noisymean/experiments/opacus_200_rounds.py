"""The paper's Figure FEASGM_Theoretical: 200 rounds of Opacus' floored denominator, |D| = 140,199, q = 0.005, sigma = 10.

The claim is what the RDP accountant reports: at each delta an epsilon, so f_{epsilon, delta} for every delta at once. The paper
sets its central limit estimate against it; here are the exact curves of 200 rounds as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisymean.accountant import account
from noisymean.experiments.experiment import Effort, Experiment, Row, Tell, Value
from noisymean.integrations.reported import reported
from noisymean.many_rounds import ceiling_clt_rounds, ceiling_rounds
from noisymean.mechanisms import FEASGM
from noisymean.numerics.logs import Array
from noisymean.report import theory_plots
from noisymean.run_curves import run_curves
from noisymean.tradeoff import EpsilonDelta

STEPS, DELTA = 200, 1e-5
DIMENSIONS = (26_010, 1_485_217)
ACCOUNTANT = "opacus rdp"
_DELTAS = np.logspace(-8.0, -0.5, 16)


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each dimension and alpha."""
    alpha = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 101 if effort.quick else 401)) ** 2
    found: list[Row] = []
    for dimension in DIMENSIONS:
        mechanism = FEASGM(dataset_size=140_199, dimension=dimension, sample_rate="0.005", noise_multiplier=10.0)
        numbers, curves = account(mechanism, steps=STEPS, delta=DELTA), run_curves(mechanism, alpha, steps=STEPS)
        exact, estimate = ceiling_rounds(mechanism, STEPS), ceiling_clt_rounds(mechanism, STEPS)
        assert exact is not None
        assert estimate is not None
        assert curves.guarantee is not None
        says = reported(mechanism, steps=STEPS, delta=DELTA)
        setting: dict[str, Value] = {
            "dimension": dimension,
            "steps": STEPS,
            "epsilon_claimed": _known(numbers.claimed.epsilon),
            "epsilon_reported_rdp": says.get(ACCOUNTANT, float("nan")),
            "epsilon_leakage": _known(numbers.leakage.epsilon),
            "epsilon_guarantee": _known(numbers.guarantee.epsilon),
        }
        columns = {
            "claimed": curves.claimed,
            "claimed_rdp": _rdp_curve(mechanism, alpha),
            "guarantee": curves.guarantee,
            "ceiling": exact.tradeoff()(alpha),
            "ceiling_clt": estimate(alpha),
            "leakage": curves.leakage,
        }
        found += [
            {**setting, "alpha": float(a), **{name: float(column[i]) for name, column in columns.items()}}
            for i, a in enumerate(alpha)
        ]
        tell(f"n={dimension}")
    return found


def _known(epsilon: float | None) -> float:
    return float("nan") if epsilon is None else epsilon


def _rdp_curve(mechanism: FEASGM, alpha: Array) -> Array:
    """The highest of the curves f_{epsilon(delta), delta} that the accountant promises; NaN if it is not installed."""
    promises = []
    for delta in _DELTAS.tolist():
        epsilon = reported(mechanism, steps=STEPS, delta=delta, only=ACCOUNTANT).get(ACCOUNTANT)
        if epsilon is None:
            return np.full(alpha.shape, np.nan)
        promises.append(EpsilonDelta(max(epsilon, 0.0), delta)(alpha))
    return np.asarray(np.max(promises, axis=0))


def finding(found: Sequence[Row]) -> str:
    """The numbers at delta = 1e-5."""
    parts = []
    for dimension in DIMENSIONS:
        row = next(r for r in found if r["dimension"] == dimension)
        parts.append(
            f"n = {dimension:,}: the RDP accountant reports epsilon {float(row['epsilon_reported_rdp']):.3g}"
            f" (exactly {float(row['epsilon_claimed']):.3g} for the noisy sum), at least"
            f" {float(row['epsilon_leakage']):.4g} is lost, at most {float(row['epsilon_guarantee']):.4g}"
        )
    return "; ".join(parts) + "."


EXPERIMENT = Experiment(
    name="opacus-200-rounds",
    shows="200 rounds of Opacus' floored denominator against the RDP accountant (the paper's Figure FEASGM_Theoretical)",
    rows=rows,
    figure=theory_plots.many_rounds_figure,
    finding=finding,
)
