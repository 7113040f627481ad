"""Published methods on real images, audited by one step: what Figures 4 and 6 of the paper have in common.

C = 0.1, sigma = 10, delta = 1e-5. The library's own step runs on every trial; per-sample gradients are computed once. In a full
run each method built on Opacus is audited again with loss_reduction="sum", whose denominator is constant: its twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from noisymean.mechanisms import Mechanism
from noisymean.numerics.logs import Array
from noisymean.outward import at_least
from noisymean.paper.audits import OPTIMAL, run_audit, word_of
from noisymean.paper.experiment import Announce, Effort
from noisymean.paper.methods import METHODS, opacus_method
from noisymean.paper.needed import Needs
from noisymean.paper.panels import Figure, Panel, curve_panels
from noisymean.paper.rows import Row, Table, curve_rows, levels, number
from noisymean.paper.statements import Judgement, agreement, undecided
from noisymean.report.plots import Style
from noisymean.targets.opacus_releases.setup import Reduction
from noisymean.targets.protocol import Target

DATASETS = ("mnist", "fashion-mnist", "cifar10")
DELTA = 1e-5
ALPHA = levels(51)
NOT_RUN, VIOLATED = "not run", "violated"
# Parameters above which a step takes so long that a quick run has to do with fewer.
_LARGE = 100_000
_STYLES = (
    Style("claimed", "claimed (SGM)", "#000000", 2.4, "-"),
    Style("audited", "audited, 95 % confidence", "#d55e00", 1.8, "-"),
    Style("exact", "exact, for this pair", "#0072b2", 1.1, (0.0, (3.0, 2.0))),
)


@final
@dataclass(frozen=True)
class Case:
    """One method on one set of images, and its twin whose denominator is constant (DPSUR has none)."""

    dataset: str
    method: str
    target: Target
    twin: Target | None = None


def needs(*releases: str) -> Callable[[Effort], Needs]:
    """All sets of images, and these releases of Opacus."""
    return lambda effort: Needs(DATASETS, releases, torch=True)


def on_opacus(name: str, dataset: str, effort: Effort, *, release: str | None = None, dataset_size: int = 4) -> Case:
    """A method built on Opacus, at the release that the paper audited unless another is given, and its twin."""
    build = partial(opacus_method, name, dataset, release=release, dataset_size=dataset_size, data_dir=effort.data_dir)
    return Case(dataset, name, build(), build(reduction=Reduction.SUM))


def audit_rows(cases: Iterable[Case], effort: Effort, announce: Announce) -> Iterator[Row]:
    """One row for each case and alpha."""
    for case in cases:
        setting, curves = _audit(case, effort)
        yield from curve_rows(setting, ALPHA, curves)
        announce(f"{case.method} on {case.dataset}: {setting['verdict']}")


def _audit(case: Case, effort: Effort) -> tuple[Row, dict[str, Array]]:
    """What is the same in all rows of an audit, and its curves."""
    target = case.target
    # an ASGM is told apart by the size of the batch alone, which takes more trials than the scale of the noise
    few = 40 if case.method != "dpsur" else 400
    trials = effort.trials(10_000, 1_000 if target.dimension < _LARGE else few)
    result = run_audit(target, OPTIMAL, effort, trials)
    known, truth, claim = target.known(), result.reference, result.claim
    assert known is not None
    assert truth is not None
    assert claim is not None
    twin = NOT_RUN
    if case.twin is not None and not effort.quick:
        twin = word_of(run_audit(case.twin, OPTIMAL, effort, trials))
    before, after = _denominators(known.mechanism)
    setting: Row = {
        "dataset": case.dataset,
        "method": METHODS[case.method].title,
        "target": target.name,
        "mechanism": known.mechanism.name,
        "denominators": "|B|" if math.isnan(before) else f"{before:g} to {after:g}",
        "denominator": before,
        "denominator_with_one_more": after,
        "sample_rate": float(known.mechanism.q),
        "dimension": target.dimension,
        "trials": result.finished,
        "verdict": word_of(result),
        "verdict_constant_denominator": twin,
        "epsilon_lower": result.found.epsilon_lower,
        "epsilon_claimed": claim.epsilon(DELTA),
        "delta_lower": result.found.delta_lower,
        "exact_delta": truth.curve.advantage(),
    }
    return setting, {"claimed": claim(ALPHA), "audited": result.found.curve(ALPHA), "exact": truth.curve(ALPHA)}


def _denominators(mechanism: Mechanism) -> tuple[float, float]:
    """What D and D' are divided by; NaN where that depends on the batch."""
    size = mechanism.dataset_size or 0
    one, two = (mechanism.divisors(n, np.array([1.0, 2.0])).tolist() for n in (size, size + 1))
    return (one[0], two[0]) if one[0] == one[1] and two[0] == two[1] else (math.nan, math.nan)


def picture(table: Table) -> Figure:
    """A line of panels for each set, a column for each method and rate; one line of all sets if there is one method."""
    lines = [
        [_panel(rows) for rows in mine.by_all("method", "sample_rate").values()]
        for mine in table.by("dataset").values()
    ]
    if len(lines[0]) == 1:
        lines = [[panel for line in lines for panel in line]]
    title = "One step of real implementations, σ = 10: below the claim is a violation"
    return curve_panels(title, lines, _STYLES, panel=(2.5, 2.7), legend_columns=3)


def _panel(rows: Table) -> Panel:
    first = rows[0]
    return Panel(
        rows,
        f"{named(first)}\nn = {int(first['dimension']):,}\n{str(first['mechanism']).upper()}, q = {first['sample_rate']:g}",
        inside=f"ε ≥ {at_least(number(first, 'epsilon_lower'), '.2f')}, claimed {first['epsilon_claimed']:.3f}\n"
        f"{int(first['trials']):,} trials",
    )


def audits(table: Table) -> list[Table]:
    """The rows of each audit."""
    return list(table.by_all("dataset", "method", "sample_rate").values())


def named(row: Row) -> str:
    """The audit that a row belongs to, in a sentence."""
    return f"{row['method']} on {row['dataset']}"


def finding(table: Table) -> str:
    """How many claims were refuted, and what the twins say."""
    cases = Table(rows[0] for rows in audits(table))
    text = f"The claim is violated in {len(cases.where(verdict=VIOLATED))} of {len(cases)} audits"
    twins = [row["verdict_constant_denominator"] for row in cases if row["verdict_constant_denominator"] != NOT_RUN]
    return f"{text}; with a constant denominator in {twins.count(VIOLATED)} of {len(twins)}." if twins else f"{text}."


ALL_VIOLATE = "the audit refutes the claim everywhere (not decided where only the true curve is below the claim)"


def all_violate(table: Table) -> Judgement:
    """Whether every audit refutes the claim; undecided where the true curve does and the trials are too few to show it."""
    cases = audits(table)
    silent = [rows for rows in cases if rows[0]["verdict"] != VIOLATED]
    least = min((rows[0] for rows in cases), key=lambda row: number(row, "epsilon_lower"))
    result = (
        f"{finding(table)} The least that was shown is epsilon >= {at_least(number(least, 'epsilon_lower'), '.2f')}"
        f" at delta = 1e-5 ({named(least)}, {least['trials']:,} trials), claimed {number(least, 'epsilon_claimed'):.3f}."
    )
    sound, unseen = (
        ", ".join(named(rows[0]) for rows in silent if (rows.gap("exact", "claimed") > 0.0) == below)
        for below in (False, True)
    )
    if unseen and not sound:
        return undecided(result, f"The true curve is below the claim for {unseen} too; so few trials do not show it.")
    return agreement(not silent, result, otherwise=f"Not violated, in truth either: {sound}.")
