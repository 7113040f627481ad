"""The paper's Figure Theoretical: one round of the models it audits, sigma = 10, at N = 1, 4, 999 and 59,999.

The paper draws its central limit estimate of the ceiling, because it could compute nothing else at this size. Beside it here are
the exact ceiling, the guarantee itself, and the certified leakage: what the estimate stands in for.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from noisymean.mechanisms import ASGM, EASGM
from noisymean.one_round import curve
from noisymean.paper.experiment import Effort, Experiment, Tell, curve_rows
from noisymean.paper.plots import theory_plots
from noisymean.paper.statement import (
    Judged,
    Row,
    Rows,
    Statement,
    Value,
    agreement,
    below,
    grouped,
    number,
    series,
    where,
)

SIZES = (1, 4, 999, 59_999)
DIMENSIONS = (26_010, 1_485_217)
# False positive rates at which the curves are drawn.
POINTS, QUICK_POINTS = 401, 101
RATES: dict[type[EASGM] | type[ASGM], str] = {EASGM: "0.005", ASGM: "0.7"}
COLUMNS = ("claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage")
_FULL_SET = 59_999
# A curve less than one point in a hundred below another is not noticeably below it.
_NOTICEABLE = 0.01
_ROUNDING = 1e-9


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each mechanism, dimension, size and alpha."""
    alpha = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, QUICK_POINTS if effort.quick else POINTS)) ** 2
    found: list[Row] = []
    for kind, rate in RATES.items():
        for dimension in DIMENSIONS:
            for size in SIZES:
                mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=10.0)
                curves = curve(mechanism, alpha)
                setting: dict[str, Value] = {
                    "mechanism": mechanism.name,
                    "sample_rate": rate,
                    "dimension": dimension,
                    "dataset_size": size,
                }
                missing = np.full(alpha.shape, np.nan)
                columns = {
                    name: missing if getattr(curves, name) is None else getattr(curves, name) for name in COLUMNS
                }
                found += curve_rows(setting, alpha, columns)
            tell(f"{kind.name} n={dimension}")
    return found


def finding(found: Rows) -> str:
    """How far the estimate is off, and where the claim is refuted."""
    panels = _panels(found)
    refuted = [key for key, mine in panels.items() if _leaks(mine)]
    return (
        f"The claim is refuted by an explicit pair of datasets in {len(refuted)} of {len(panels)} settings; the paper's estimate"
        f" of its ceiling is off by at most {_estimate_off(found):.3f}."
    )


# --- what the paper states ---------------------------------------------------------------------------------------------


def _panels(found: Rows) -> dict[tuple[Value, ...], list[Row]]:
    return grouped(found, "mechanism", "dimension", "dataset_size")


def _leaks(mine: Rows) -> bool:
    """Whether an explicit pair refutes the claim."""
    return any(number(row, "leakage") < number(row, "claimed") * (1.0 - _ROUNDING) for row in mine)


def _estimate_off(found: Rows) -> float:
    return below(found, "ceiling", "ceiling_clt")


def _in_words(key: tuple[Value, ...]) -> str:
    name, dimension, size = key
    return f"{str(name).upper()} n = {int(dimension):,} N = {int(size):,}"


def _used(found: Rows) -> list[Row]:
    """The settings that a method of the paper has: its ASGM, DPSUR, is the small model only."""
    return [row for row in found if row["mechanism"] != ASGM.name or row["dimension"] == min(DIMENSIONS)]


def _weaker_on_small_sets(found: Rows) -> Judged:
    panels = {key: mine for key, mine in _panels(_used(found)).items() if number(mine[0], "dataset_size") < _FULL_SET}
    gaps = {key: below(mine, "ceiling_clt", "claimed") for key, mine in panels.items()}
    least = min(gaps, key=lambda key: gaps[key])
    return agreement(
        all(gap > 0.0 for gap in gaps.values()),
        f"The paper's estimate is below the claim in {sum(gap > 0.0 for gap in gaps.values())} of {len(gaps)} settings, least at"
        f" {_in_words(least)}: by {gaps[least]:.4f}.",
        otherwise="In some setting the estimate does not come below the claim.",
    )


def _still_weaker_on_full_set(found: Rows) -> Judged:
    mine = where(found, mechanism=EASGM.name, dataset_size=_FULL_SET)
    parts, missing, hidden = [], [], False
    for (dimension,), those in grouped(mine, "dimension").items():
        model = f"n = {int(dimension):,}"
        estimate, exact = below(those, "ceiling_clt", "claimed"), below(those, "ceiling", "claimed")
        side = f"{estimate:.4f} below" if estimate > 0.0 else f"{-estimate:.4f} above"
        parts.append(f"{model}: the estimate is {side} the claim at best, the exact bound {exact:.4f} below")
        if exact < _NOTICEABLE or estimate <= 0.0:
            missing.append(model)
        hidden = hidden or (estimate <= 0.0 < exact)
    error = " There the error term of the central limit theorem is larger than the whole effect." if hidden else ""
    return agreement(
        not missing and bool(parts),
        f"N = 59,999, {'; '.join(parts)}.",
        otherwise=f"Not so at {' and '.join(missing)} (26,010 is DPSGD-HF): in so few dimensions one round shows too little of"
        f" a scale that moves by 1/60,000.{error}",
    )


def _asgm_close_on_full_set(found: Rows) -> Judged:
    mine = where(found, mechanism=ASGM.name, dataset_size=_FULL_SET, dimension=min(DIMENSIONS))
    distances = [abs(number(row, "ceiling_clt") - number(row, "claimed")) for row in mine]
    far = max((value for value in distances if not math.isnan(value)), default=math.inf)
    leak = below(mine, "leakage", "claimed")
    return agreement(
        far <= 0.05,
        f"The estimate is within {far:.4f} of the claim everywhere.",
        otherwise="The bound is not close to the claim.",
        remark=f"That does not vouch for the claim: an explicit pair is {leak:.4f} below it. The mean of k gradients moves by up"
        " to 2/sigma deviations when one record joins, in any dimension; the claim allows 1/sigma.",
    )


def _potential_only(found: Rows) -> Judged:
    panels = _panels(found)
    refuted = [key for key, mine in panels.items() if _leaks(mine)]
    return agreement(
        not refuted,
        f"Explicit pairs of datasets refute the claim in {len(refuted)} of {len(panels)} settings, all with q < 1.",
        otherwise="The violation is an actual one. EASGM: the noise's scale shows in every direction that no gradient has,"
        " whatever the batch, so the bound on the guarantee bounds the mechanism itself (docs/theory.md, last section). ASGM: the"
        " mean of a batch moves by up to 2/sigma deviations where 1/sigma is claimed.",
    )


def _asgm_not_monotone(found: Rows) -> Judged:
    mine = where(found, mechanism=ASGM.name, dimension=min(DIMENSIONS))
    both: list[tuple[float, list[float]]] = []
    for (alpha,), line in grouped(mine, "alpha").items():
        values = [number(row, "ceiling") for row in line]
        steps = [b - a for a, b in pairwise(values)]
        if min(steps) < -_ROUNDING and max(steps) > _ROUNDING:
            both.append((float(alpha), values))
    alpha, values = min(
        both, key=lambda one: abs(one[0] - 0.5), default=(0.5, [number(r, "ceiling") for r in mine[:4]])
    )
    return agreement(
        bool(both),
        f"At alpha = {alpha:.2f} the exact bound is {series(values)} for N ="
        f" {', '.join(f'{size:,}' for size in SIZES)}.",
        otherwise="The bound is monotone in N.",
    )


def _easgm_monotone(found: Rows) -> Judged:
    mine = where(found, mechanism=EASGM.name)
    up = all(
        number(b, "ceiling") >= number(a, "ceiling") - _ROUNDING
        for line in grouped(mine, "dimension", "alpha").values()
        for a, b in pairwise(line)
    )
    down = all(
        number(b, "ceiling") <= number(a, "ceiling") + _ROUNDING
        for line in grouped(mine, "dataset_size", "alpha").values()
        for a, b in pairwise(line)
    )
    middle = [row for row in mine if abs(number(row, "alpha") - 0.5) < 1e-6]
    shown = "; ".join(
        f"n = {int(n):,}: {series(number(row, 'ceiling') for row in line)}"
        for (n,), line in grouped(middle, "dimension").items()
    )
    return agreement(
        up and down,
        f"The exact bound at alpha = 0.5 for N = {', '.join(f'{size:,}' for size in SIZES)}, {shown}.",
        otherwise="The bound does not grow with N or does not fall with n somewhere.",
    )


def _estimate_is_a_bound(found: Rows) -> Judged:
    drawn = [row for row in found if not math.isnan(number(row, "ceiling_clt"))]
    short = below(drawn, "ceiling_clt", "ceiling")
    return agreement(
        short <= _ROUNDING,
        f"The estimate is nowhere below the exact bound ({len(drawn):,} points) and up to {_estimate_off(drawn):.3f} above it.",
        otherwise=f"The estimate is below the exact bound by {short:.2g}.",
        remark="The gap does not vanish with n: making the curve symmetric before composing it discards two fifths of the"
        " distance. The exact bound is two tails of one chi-square law and takes milliseconds.",
    )


def _half_and_a_fifth(found: Rows) -> Judged:
    parts, holds = [], True
    for kind in RATES:
        panels = _panels(where(_used(found), mechanism=kind.name))
        bound = {key: _level(mine, "ceiling_clt") for key, mine in panels.items()}
        claimed = min(_level(mine, "claimed") for mine in panels.values())
        low = [key for key, level in bound.items() if level < 0.2]
        holds = holds and bool(low) and claimed > 0.4
        parts.append(f"{kind.name.upper()}: below 0.2 in {len(low)} of {len(bound)} settings, claimed {claimed:.3f}")
    return agreement(
        holds,
        f"False positive rate at a false negative rate of 0.5, {'; '.join(parts)}.",
        otherwise="One of the mechanisms does not come below 0.2 anywhere, or its claim is not above 0.4.",
        remark="A bound on a guarantee that reveals the batch. An actual attacker on ASGM at N = 4 has"
        f" {_attacker(found):.3f}.",
    )


def _level(mine: Rows, column: str) -> float:
    """The alpha at which a falling curve passes one half; where it begins, if it begins lower."""
    points = [(number(row, "alpha"), number(row, column)) for row in mine if not math.isnan(number(row, column))]
    first = next((i for i, (_, value) in enumerate(points) if value <= 0.5), len(points) - 1)
    if first == 0:
        return points[0][0]
    (left, high), (right, low) = points[first - 1], points[first]
    return left + (right - left) * (high - 0.5) / (high - low)


def _attacker(found: Rows) -> float:
    mine = where(found, mechanism=ASGM.name, dataset_size=4, dimension=min(DIMENSIONS))
    return _level(mine, "leakage") if mine else math.nan


EXPERIMENT = Experiment(
    name="theory",
    place="Figure 5 (Theoretical), Section 5.4",
    shows="one-round curves of the audited models at four dataset sizes (the paper's Figure Theoretical)",
    rows=rows,
    figure=theory_plots.one_round_figure,
    finding=finding,
    statements=(
        Statement(
            "Section 5.4, Figure 5",
            "With 1, 4 and 999 records all methods have guarantees weaker than claimed.",
            "the paper's estimate of its bound is below the claim at some alpha in each of these settings",
            _weaker_on_small_sets,
        ),
        Statement(
            "Section 5.4, Figure 5",
            "On the whole of MNIST (N = 59,999) every EASGM is still noticeably weaker than claimed, DPSGD-HF included.",
            "for both models the estimate is below the claim somewhere, and the exact bound by at least 0.01",
            _still_weaker_on_full_set,
        ),
        Statement(
            "Section 5.4, Figure 5",
            "There, the bound of the ASGM (DPSUR) stays close to the claim.",
            "the estimate is within 0.05 of the claim at every alpha",
            _asgm_close_on_full_set,
        ),
        Statement(
            "Section 3.4",
            "Below q = 1 a guarantee under the claim shows a potential violation; only at q = 1 is it known to be actual.",
            "no explicit pair of datasets refutes the claim in these settings, whose rates are 0.005 and 0.7",
            _potential_only,
        ),
        Statement(
            "Section 5.4",
            "For ASGM the bound is not monotone in the number of records.",
            "at some alpha the exact bound both falls and rises from one N to the next",
            _asgm_not_monotone,
        ),
        Statement(
            "Section 5.4",
            "For EASGM the bound grows with the number of records and falls with the dimension.",
            "so it does at every alpha, exactly evaluated",
            _easgm_monotone,
        ),
        Statement(
            "Section 3.5, Theorem upperbound_estimate",
            "The central limit estimate bounds the bound from above, which is too expensive to draw itself.",
            "the estimate is nowhere below the exact bound where it is defined",
            _estimate_is_a_bound,
        ),
        Statement(
            "Section 1",
            "At a false negative rate of 0.5 the false positive rate of EASGM and ASGM falls below 0.2 in some cases, where"
            " more than 0.4 is claimed.",
            "for each mechanism the estimate passes 0.5 left of 0.2 in some setting, and the claim right of 0.4 in all",
            _half_and_a_fifth,
        ),
    ),
)
