"""The paper's Figure DIMENSION: audited trade-off against the claimed one in six dimensions, N = 4, sigma = 10, delta = 1e-5.

EASGM at q = 0.05, ASGM at q = 0.7. The paper draws f_{eps_L, delta} of the one threshold it has; beside it are the curve that the
optimal test shows at several thresholds, and the truth. The paper does not say which six dimensions; ours span its range.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisymean.experiments.experiment import (
    OPTIMAL,
    VOTE_KS,
    VOTE_NORM,
    Effort,
    Experiment,
    Row,
    Tell,
    Value,
    audited,
)
from noisymean.mechanisms import ASGM, EASGM
from noisymean.report import experiment_plots
from noisymean.targets.synthetic import Synthetic
from noisymean.tradeoff import EpsilonDelta

DIMENSIONS = (10, 30, 100, 300, 1000, 3000)
RATES: dict[type[EASGM] | type[ASGM], str] = {EASGM: "0.05", ASGM: "0.7"}
DELTA = 1e-5
ALPHA = np.concatenate([[0.0], np.sin(0.5 * np.pi * np.linspace(0.02, 1.0, 50)) ** 2])


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each mechanism, dimension and alpha."""
    found: list[Row] = []
    for kind, rate in RATES.items():
        for dimension in DIMENSIONS:
            mechanism = kind(dataset_size=4, dimension=dimension, sample_rate=rate, noise_multiplier=10.0)
            target = Synthetic(mechanism=mechanism, max_grad_norm=0.1, gradient_seed=effort.seed)
            ours = audited(target, OPTIMAL, effort, effort.trials(10_000, 10_000))
            by_norm = audited(target, VOTE_NORM, effort, effort.trials(10_000, 5_000))
            vote = audited(target, VOTE_KS, effort, effort.trials(10_000, 1_000 if dimension <= 300 else 200))
            truth, claim = ours.reference, ours.claim
            assert truth is not None
            assert claim is not None
            columns = {
                "claimed": claim(ALPHA),
                "paper_ks": EpsilonDelta(vote.found.paper.epsilon_lower, DELTA)(ALPHA),
                "paper_chi2": EpsilonDelta(by_norm.found.paper.epsilon_lower, DELTA)(ALPHA),
                "likelihood_ratio": ours.found.curve(ALPHA),
                "exact": truth.curve(ALPHA),
            }
            setting: dict[str, Value] = {
                "mechanism": mechanism.name,
                "sample_rate": rate,
                "dataset_size": 4,
                "dimension": dimension,
                "epsilon_lower_paper_ks": vote.found.paper.epsilon_lower,
                "epsilon_lower_paper_chi2": by_norm.found.paper.epsilon_lower,
                "epsilon_lower_likelihood_ratio": ours.found.epsilon_lower,
                "epsilon_claimed": claim.epsilon(DELTA),
                "trials_paper_ks": vote.finished,
                "trials_paper_chi2": by_norm.finished,
                "trials_likelihood_ratio": ours.finished,
            }
            found += [
                {**setting, "alpha": float(alpha), **{name: float(column[i]) for name, column in columns.items()}}
                for i, alpha in enumerate(ALPHA)
            ]
            tell(f"{mechanism.name} n={dimension}")
    return found


def finding(found: Sequence[Row]) -> str:
    """epsilon_L in the largest dimension."""
    parts = []
    for kind in RATES:
        row = next(r for r in found if r["mechanism"] == kind.name and r["dimension"] == DIMENSIONS[-1])
        shown = {name: float(row[f"epsilon_lower_{name}"]) for name in ("paper_ks", "paper_chi2", "likelihood_ratio")}
        parts.append(
            f"{kind.name} in {DIMENSIONS[-1]} dimensions: epsilon >= {shown['paper_ks']:.2f} by the paper's vote"
            f" (Kolmogorov-Smirnov), >= {shown['paper_chi2']:.2f} (chi-square), >= {shown['likelihood_ratio']:.2f} by the"
            f" likelihood ratio, claimed {float(row['epsilon_claimed']):.3f}"
        )
    return "; ".join(parts) + "."


EXPERIMENT = Experiment(
    name="synthetic-dimension",
    shows="audited trade-off curves in six dimensions (the paper's Figure DIMENSION)",
    rows=rows,
    figure=experiment_plots.dimension_figure,
    finding=finding,
)
