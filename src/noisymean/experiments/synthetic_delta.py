"""The paper's Figure DELTA_1: audited delta at epsilon = 0 against N and q, n = 100, sigma = 10, C = 0.1, 10,000 trials.

The paper's vote, with two tests of normality, and the optimal test judge the same releases; the true value is beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from noisymean.experiments.experiment import (
    OPTIMAL,
    VOTE_KS,
    VOTE_NORM,
    Contender,
    Effort,
    Experiment,
    Row,
    Tell,
    audited,
)
from noisymean.mechanisms import ASGM, EASGM
from noisymean.report import experiment_plots
from noisymean.targets.synthetic import Synthetic

SIZES = (2, 3, 4, 5)
RATES: dict[type[EASGM] | type[ASGM], tuple[str, ...]] = {
    EASGM: ("0.005", "0.1", "0.5", "0.6", "0.9", "1"),
    ASGM: ("0.5", "0.6", "0.7", "0.8", "0.9"),
}
CONTENDERS = (VOTE_KS, VOTE_NORM, OPTIMAL)


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each mechanism, rate, size and distinguisher."""
    found: list[Row] = []
    for kind, rates in RATES.items():
        for rate in rates:
            for size in SIZES:
                mechanism = kind(dataset_size=size, dimension=100, sample_rate=rate, noise_multiplier=10.0)
                target = Synthetic(mechanism=mechanism, max_grad_norm=0.1, gradient_seed=effort.seed)
                found += [_row(target, rate, contender, effort) for contender in CONTENDERS]
            tell(f"{mechanism.name} q={rate}: N = {SIZES[0]} to {SIZES[-1]}")
    return found


def _row(target: Synthetic, rate: str, contender: Contender, effort: Effort) -> Row:
    result = audited(target, contender, effort, effort.trials(10_000, 1_000 if contender is VOTE_KS else 10_000))
    truth = result.reference
    assert truth is not None
    assert result.claim is not None
    return {
        "mechanism": target.mechanism.name,
        "sample_rate": rate,
        "dataset_size": target.mechanism.dataset_size or 0,
        "dimension": target.dimension,
        "distinguisher": contender.label,
        "trials": result.finished,
        "alpha": result.found.alpha.estimate,
        "beta": result.found.beta.estimate,
        "delta_lower": result.found.delta_lower,
        "delta_lower_paper_intervals": result.found.paper.delta_lower,
        "exact": truth.curve.advantage(),
        "exact_standard_error": truth.standard_error,
        "claimed": float(result.claim.delta(0.0)),
        "verdict": "" if result.verdict is None else result.verdict.word,
    }


def finding(found: Sequence[Row]) -> str:
    """The median share of the truth that each distinguisher shows."""
    shares = {}
    for contender in CONTENDERS:
        mine = [row for row in found if row["distinguisher"] == contender.label]
        ordered = sorted(float(row["delta_lower"]) / float(row["exact"]) for row in mine)
        violated = sum(row["verdict"] == "violated" for row in mine)
        shares[contender] = f"{100 * ordered[len(ordered) // 2]:.0f} %, {violated} of {len(mine)} claims violated"
    return (
        f"Median share of the true delta(0): the paper's vote with Kolmogorov-Smirnov {shares[VOTE_KS]}; with the norm's"
        f" chi-square {shares[VOTE_NORM]}; the likelihood ratio {shares[OPTIMAL]}."
    )


EXPERIMENT = Experiment(
    name="synthetic-delta",
    shows="audited delta at epsilon = 0 against N and q (the paper's Figure DELTA_1)",
    rows=rows,
    figure=experiment_plots.delta_figure,
    finding=finding,
)
