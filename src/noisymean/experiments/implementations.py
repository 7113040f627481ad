"""The paper's Figures IMPLEMENTATION and FEASGM_IMPLEMENTATION: four published methods on real images, audited by one step.

|D| = 4 and |D'| = 5, C = 0.1, sigma = 10, delta = 1e-5, each method on the release that the paper audited; and DP-FETA on a
release that floors, |D| = 3 and |D'| = 4, q = 0.5. The library's own step runs on every trial; per-sample gradients are computed
once. In a full run each method built on Opacus is audited again with loss_reduction="sum", whose denominator is constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.experiments.experiment import OPTIMAL, Effort, Experiment, Row, Tell, Value, audited
from noisymean.report import implementation_plots
from noisymean.targets.methods import METHODS, dpsur_method, opacus_method
from noisymean.targets.opacus_releases.setup import Reduction
from noisymean.targets.protocol import Target

DATASETS = ("mnist", "fashion-mnist", "cifar10")
FLOORING_RELEASE, FLOORING_SIZE = "1.0.0", 3
DELTA = 1e-5
ALPHA = np.concatenate([[0.0], np.sin(0.5 * np.pi * np.linspace(0.02, 1.0, 50)) ** 2])
# Parameters above which a step takes so long that a quick run has to do with fewer.
_LARGE = 100_000


@final
@dataclass(frozen=True)
class Case:
    """One method on one set, and its twin whose denominator is constant (DPSUR has none)."""

    dataset: str
    method: str
    target: Target
    twin: Target | None


def _four_methods(effort: Effort) -> Iterator[Case]:
    for dataset in DATASETS:
        for name in METHODS:
            if name == "dpsur":
                yield Case(dataset, name, dpsur_method(dataset, data_dir=effort.data_dir), None)
            else:
                yield _on_opacus(name, dataset, effort)


def _flooring(effort: Effort) -> Iterator[Case]:
    for dataset in DATASETS:
        yield _on_opacus("dp-feta", dataset, effort, release=FLOORING_RELEASE, dataset_size=FLOORING_SIZE)


def _on_opacus(name: str, dataset: str, effort: Effort, *, release: str | None = None, dataset_size: int = 4) -> Case:
    target, twin = (
        opacus_method(
            name,
            dataset,
            release=release,
            dataset_size=dataset_size,
            reduction=reduction,
            data_dir=effort.data_dir,
        )
        for reduction in (Reduction.MEAN, Reduction.SUM)
    )
    return Case(dataset, name, target, twin)


def _rows(cases: Iterator[Case], effort: Effort, tell: Tell) -> list[Row]:
    found: list[Row] = []
    for case in cases:
        found += _audit(case, effort)
        tell(f"{case.method} on {case.dataset}: {found[-1]['verdict']}")
    return found


def _audit(case: Case, effort: Effort) -> list[Row]:
    target = case.target
    # an ASGM is told apart by the size of the batch alone, which takes more trials than the scale of the noise
    light = target.dimension < _LARGE or case.method == "dpsur"
    trials = effort.trials(10_000, 1_000 if light else 40)
    result = audited(target, OPTIMAL, effort, trials)
    known, truth, claim = target.known(), result.reference, result.claim
    assert known is not None
    assert truth is not None
    assert claim is not None
    twin = "not run"
    if case.twin is not None and not effort.quick:
        verdict = audited(case.twin, OPTIMAL, effort, trials).verdict
        assert verdict is not None
        twin = verdict.word
    setting: dict[str, Value] = {
        "dataset": case.dataset,
        "method": METHODS[case.method].title,
        "target": target.name,
        "mechanism": known.mechanism.name,
        "sample_rate": float(known.mechanism.q),
        "dimension": target.dimension,
        "trials": result.finished,
        "verdict": "" if result.verdict is None else result.verdict.word,
        "verdict_constant_denominator": twin,
        "epsilon_lower": result.found.epsilon_lower,
        "epsilon_claimed": claim.epsilon(DELTA),
        "delta_lower": result.found.delta_lower,
        "exact_delta": truth.curve.advantage(),
    }
    columns = {"claimed": claim(ALPHA), "audited": result.found.curve(ALPHA), "exact": truth.curve(ALPHA)}
    return [
        {**setting, "alpha": float(alpha), **{name: float(column[i]) for name, column in columns.items()}}
        for i, alpha in enumerate(ALPHA)
    ]


def finding(found: Sequence[Row]) -> str:
    """How many claims were refuted, and what the twins say."""
    cases = {(row["dataset"], row["method"]): row for row in found}
    refuted = sum(row["verdict"] == "violated" for row in cases.values())
    text = f"The claim is violated in {refuted} of {len(cases)} audits"
    twins = [row["verdict_constant_denominator"] for row in cases.values()]
    run = [verdict for verdict in twins if verdict != "not run"]
    if not run:
        return text + "."
    return text + f"; with a constant denominator in {sum(v == 'violated' for v in run)} of {len(run)}."


IMPLEMENTATIONS = Experiment(
    name="implementations",
    shows="four published methods on three sets of real images (the paper's Figure IMPLEMENTATION)",
    rows=lambda effort, tell: _rows(_four_methods(effort), effort, tell),
    figure=implementation_plots.figure,
    finding=finding,
)
OPACUS_FEASGM = Experiment(
    name="opacus-feasgm",
    shows="DP-FETA on a release of Opacus that floors (the paper's Figure FEASGM_IMPLEMENTATION)",
    rows=lambda effort, tell: _rows(_flooring(effort), effort, tell),
    figure=implementation_plots.figure,
    finding=finding,
)
