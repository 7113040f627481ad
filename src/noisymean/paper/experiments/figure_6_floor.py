"""The paper's Figure 6 (FEASGM_IMPLEMENTATION): DP-FETA on a release of Opacus that floors, |D| = 3 and |D'| = 4, q = 0.5."""

from __future__ import annotations

from noisymean.paper.experiment import Experiment
from noisymean.paper.experiments import method_audits
from noisymean.paper.experiments.method_audits import audits, on_opacus
from noisymean.paper.rows import Table, number
from noisymean.paper.statements import Judgement, agreement, in_order, stated

RELEASE, SIZE = "1.0.0", 3

_floor_violates = stated(
    "Appendix A.3, Figure 6",
    "The audited leakage of Opacus' floored denominator in DP-FETA exceeds the claim (the paper: on MNIST).",
    method_audits.ALL_VIOLATE,
)(method_audits.all_violate)


@stated(
    "Appendix A.3",
    "At q = 0.5 with 3 and 4 records the two denominators differ.",
    "the release divides by two different numbers",
)
def _denominators_differ(table: Table) -> Judgement:
    seen = Table(rows[0] for rows in audits(table)).by("denominators")
    moves = [number(rows[0], "denominator_with_one_more") - number(rows[0], "denominator") for rows in seen.values()]
    return agreement(
        # a denominator that depends on the batch has no number, and does not count
        all(abs(move) > 0.0 for move in moves),
        f"The release divides by {', '.join(sorted(map(str, seen)))}.",
        otherwise="The denominator does not move.",
    )


EXPERIMENT = Experiment(
    name="opacus-feasgm",
    place="Figure 6 (FEASGM_IMPLEMENTATION), Appendix A.3",
    shows="DP-FETA on a release of Opacus that floors (the paper's Figure FEASGM_IMPLEMENTATION)",
    rows=lambda effort, announce: method_audits.audit_rows(
        (on_opacus("dp-feta", one, effort, release=RELEASE, dataset_size=SIZE) for one in method_audits.DATASETS),
        effort,
        announce,
    ),
    picture=method_audits.picture,
    finding=method_audits.finding,
    statements=in_order(vars()),
    needs=method_audits.needs(RELEASE),
)
