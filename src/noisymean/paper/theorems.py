"""The paper's theorems, lemmas and corollary, each evaluated on its own statement: a row is one evaluation."""

from __future__ import annotations

import numpy as np

from noisymean.mechanisms import ASGM, EASGM, FEASGM
from noisymean.paper import theorem_sides as sides
from noisymean.paper.experiment import Effort, Experiment, Tell
from noisymean.paper.plots import theorem_plots
from noisymean.paper.statement import Row, Rows, grouped, number
from noisymean.paper.theorem import EQUAL, LESS, Theorem, off

_GENERATOR_SEED = 20_260_101


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each evaluation."""
    found: list[Row] = []
    for theorem in THEOREMS:
        generator = np.random.default_rng([_GENERATOR_SEED, effort.seed])
        found += [
            {
                "theorem": theorem.name,
                "relation": theorem.relation,
                "tolerance": theorem.tolerance,
                "setting": one.setting,
                "at": one.at,
                "left": one.left,
                "right": one.right,
            }
            for one in theorem.sides(generator)
        ]
        tell(theorem.name)
    return found


def finding(found: Rows) -> str:
    """How many hold."""
    groups = grouped(found, "theorem")
    failed = [str(name) for (name,), mine in groups.items() if any(off(row) > number(row, "tolerance") for row in mine)]
    text = f"{len(groups) - len(failed)} of {len(groups)} statements hold at all of {len(found):,} evaluations"
    return f"{text}; not: {', '.join(failed)}." if failed else f"{text}."


_TIGHTER = (
    "The ceiling bounds guarantees that reveal the batch. Revealing its size only is sound as well, does not depend on n, and"
    " lies above the ceiling (docs/theory.md, ASGM: reveal the size): what the dimension tells about an ASGM is limited."
)

THEOREMS = (
    Theorem(
        "Jensen",
        "Section 2.3, Lemma Jensen",
        "Hiding which component was drawn can only help privacy.",
        LESS,
        sides.jensen,
    ),
    Theorem(
        "zero",
        "Section 2.1, Lemma zero",
        "Composed ever more often, any curve but the identity tends to 0, exponentially fast.",
        EQUAL,
        sides.exponentially_fast,
        2e-2,
        remark="Left: the fall of log f per factor. Right: the divergence, its limit.",
    ),
    Theorem(
        "min_equal",
        "Section 3, Lemma min_equal",
        "With the component shown, the curve is the least weighted sum over all ways to divide the level.",
        EQUAL,
        sides.min_equal,
    ),
    Theorem(
        "Order_in_trade-off",
        "Section 3, Lemma Order_in_trade-off",
        "A lower component makes the revealed mixture lower.",
        LESS,
        sides.order,
    ),
    Theorem(
        "Upper_bound",
        "Section 3, Lemma Upper_bound",
        "The revealed mixture is at most the weighted sum of the curves at equal levels.",
        LESS,
        sides.straight,
    ),
    Theorem(
        "bound",
        "Section 3, Theorem bound",
        "With a scale below 1, the curve falls as the mean moves away.",
        LESS,
        sides.falls_with_shift,
        2e-8,
    ),
    Theorem(
        "bound_fix_variance",
        "Section 3, Theorem bound_fix_variance",
        "Without a mean, the curve falls as the scale falls from 1.",
        LESS,
        sides.falls_with_scale,
    ),
    Theorem(
        "EASGM_HIGH",
        "Section 3.2, Theorem EASGM_HIGH",
        "A guarantee of EASGM for every pair of datasets.",
        LESS,
        sides.holds_on_explicit_pairs(EASGM),
        remark="Left: the guarantee. Right: what an attacker achieves on explicit datasets.",
    ),
    Theorem(
        "ASGM_HIGH",
        "Section 3.3, Theorem ASGM_HIGH",
        "A guarantee of ASGM for every pair of datasets.",
        LESS,
        sides.holds_on_explicit_pairs(ASGM),
        remark="Left: the guarantee. Right: what an attacker achieves on explicit datasets.",
    ),
    Theorem(
        "upperbound_EASGM",
        "Section 3.4.1, Theorem upperbound_EASGM",
        "The per-pair guarantee of EASGM is at most the curve of the noise's scale in n - 1 dimensions.",
        LESS,
        sides.below_the_ceiling(EASGM),
    ),
    Theorem(
        "EASGM_flaws",
        "Section 3.4.1, Theorem EASGM_flaws",
        "As n grows that bound tends to 0 at every level.",
        EQUAL,
        sides.easgm_limit,
    ),
    Theorem(
        "EASGM below SGM",
        "Section 3.4.1",
        "For n large enough the bound of EASGM is below the claim at every level.",
        LESS,
        sides.easgm_under_claim,
    ),
    Theorem("tight at q = 1", "Section 3.4.1", "At q = 1 the per-pair guarantee is exact.", EQUAL, sides.tight_at_one),
    Theorem(
        "upperbound_ASGM",
        "Section 3.4.2, Theorem upperbound_ASGM",
        "The per-pair guarantee of ASGM is at most that curve mixed with the identity.",
        LESS,
        sides.below_the_ceiling(ASGM),
    ),
    Theorem(
        "ASGM_flaws",
        "Section 3.4.2, Theorem ASGM_flaws",
        "As n grows that bound tends to (1 - q + q (1-q)^N) times the identity.",
        EQUAL,
        sides.asgm_limit,
    ),
    Theorem(
        "ASGM below SGM",
        "Section 3.4.2",
        "For N large and q near 1 the limit of ASGM's bound is below the claim at every level.",
        LESS,
        sides.asgm_under_claim,
    ),
    Theorem(
        "the same at q = 1",
        "Section 3.4.2",
        "At q = 1 ASGM and EASGM have the same guarantee.",
        EQUAL,
        sides.same_at_one,
    ),
    Theorem(
        "ASGM and the dimension",
        "Abstract, Section 1, Section 3.1",
        "The guarantee of ASGM weakens as the dimension grows, below the bound of Theorem upperbound_ASGM.",
        LESS,
        sides.asgm_has_no_better,
        otherwise=_TIGHTER,
    ),
    Theorem(
        "estimation, its range",
        "Section 3.5, Theorem estimation",
        "The central limit estimate needs gamma < 1/2 and holds on [gamma, 1 - gamma].",
        LESS,
        sides.range_of_the_estimate,
        remark="Left: gamma in the settings of Figure 5 and at n = 1,000.",
    ),
    Theorem(
        "upperbound_estimate",
        "Section 3.5, Theorem upperbound_estimate",
        "The estimate bounds the ceilings of EASGM and ASGM from above.",
        LESS,
        sides.estimate,
    ),
    Theorem(
        "number_of_data",
        "Section 3.6, Lemma number_of_data",
        "The bound of EASGM falls as N falls.",
        LESS,
        sides.falls_with_fewer_records,
    ),
    Theorem(
        "dimension",
        "Section 3.6, Lemma dimension",
        "The bounds of EASGM and ASGM fall as n grows.",
        LESS,
        sides.falls_with_dimension,
    ),
    Theorem(
        "sample_ratio",
        "Section 3.6, Lemma sample_ratio",
        "The bound of ASGM falls as q grows.",
        LESS,
        sides.falls_with_rate,
    ),
    Theorem("rate of EASGM", "Section 5.1", "The bound of EASGM does not depend on q.", EQUAL, sides.flat_rate),
    Theorem(
        "per_pair_FEASGM",
        "Appendix A.1, Theorem per_pair_FEASGM",
        "FEASGM's guarantee for given gradients is at least the worst case over gradients.",
        LESS,
        sides.worst_case_below_pair,
    ),
    Theorem(
        "FEASGM, equal floors",
        "Appendix A.1, Theorem guarantee_of_FEASGM",
        "Where the floor does not move FEASGM is SGM.",
        EQUAL,
        sides.still_floor,
    ),
    Theorem(
        "guarantee_of_FEASGM",
        "Appendix A.1, Theorem guarantee_of_FEASGM",
        "Where it moves, the guarantee of EASGM with K for N holds for every pair.",
        LESS,
        sides.holds_on_explicit_pairs(FEASGM),
    ),
    Theorem(
        "upperbound_FEASGM",
        "Appendix A.1, Theorem upperbound_FEASGM",
        "The per-pair guarantee of FEASGM is at most the curve of the scale K/(K+1) in n - 1 dimensions.",
        LESS,
        sides.below_the_ceiling(FEASGM),
    ),
    Theorem(
        "comparison_theorem",
        "Appendix A.1, Theorem comparison_theorem",
        "Over T rounds, hiding batch and membership can only help privacy.",
        LESS,
        sides.hidden_above_transparent,
        remark="Left: 1 - delta with everything shown. Right: 1 - delta on an explicit pair, nothing shown.",
    ),
    Theorem(
        "upper bound, T rounds",
        "Appendix A.1 and B, Theorems FEASGM_Upperbound_T_round and EASGM_ASGM_Upperbound_T_round",
        "The composed bound is above the composed guarantee, for all three mechanisms.",
        LESS,
        sides.transparent_below_ceiling,
        remark="For ASGM too, which the paper leaves without a curve.",
    ),
    Theorem(
        "estimate, T rounds (FEASGM)",
        "Appendix A.2, Theorem upperbound_estimate_T_round",
        "The estimate over T (n - 1) copies bounds FEASGM's composed bound from above.",
        LESS,
        sides.estimate_rounds(FEASGM),
    ),
    Theorem(
        "estimate, T rounds (EASGM)",
        "Appendix B, Corollary EASGM_upperbound_estimate_T_round",
        "The same for EASGM.",
        LESS,
        sides.estimate_rounds(EASGM),
    ),
)

EXPERIMENT = Experiment(
    name="theorems",
    place="Sections 2 and 3, Appendices A and B",
    shows="every theorem, lemma and corollary of the paper, evaluated on its statement",
    rows=rows,
    figure=theorem_plots.figure,
    finding=finding,
    statements=tuple(theorem.statement() for theorem in THEOREMS),
)
