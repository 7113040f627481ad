"""The paper's Table 2 of audited Opacus versions, and what its text says of them: every release run and read again.

The work is `noisymean code-audit opacus`, which keeps its results in the user's cache; a quick run has a release or two for each
row of the table. Wheels that are not in the cache are fetched by name. A release that could not be had leaves its statements
undecided; if none could be had there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

from noisymean.errors import NoisymeanError
from noisymean.paper.experiment import Announce, Effort, Experiment
from noisymean.paper.needed import Needs
from noisymean.paper.panels import Figure, canvas
from noisymean.paper.rows import Row, Table
from noisymean.paper.statements import Check, Judgement, PaperStatement, agreement, in_order, undecided
from noisymean.probe.code_audit import ADAPTIVE, MEAN, NO_POISSON, SUM, Audited, audit_opacus, not_kept
from noisymean.probe.finding import Bearing, Severity
from noisymean.probe.laws import Kind
from noisymean.targets.opacus_releases.releases import VERSIONS, Release

QUICK = ("0.11.0", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "1.0.2", "1.4.1", "1.5.4", "1.6.0")
_YES, _NO = "yes", "no"
_NEWER = "not in it"
_SAME = "agree"

# Mechanisms in the picture are told apart by their words as well.
_COLOURS = {
    "sgm": "#b9d9b0",
    "asgm": "#f3c98b",
    "easgm": "#a9cce8",
    "feasgm": "#c9b6e0",
    "opacus-loader": "#f0a58f",
    "not supported": "#dddddd",
}
_SHORT = {"opacus-loader": "loader", "": "–", _NEWER: "–"}
_COLUMNS = {
    "paper": "the paper",
    "mechanism": "run, mean",
    "mechanism_as_shipped": "as shipped",
    "mechanism_sum": "run, sum",
}


def _releases(effort: Effort) -> Sequence[str]:
    return QUICK if effort.quick else VERSIONS


def rows(effort: Effort, announce: Announce) -> list[Row]:
    """One row for each release."""
    audited = audit_opacus(
        _releases(effort),
        jobs=max(effort.jobs, 2),
        progress=lambda one, done, total: announce(f"{one.version}, {done} of {total}"),
    )
    found = [_row(one) for one in audited]
    if all(row["fault"] for row in found if row["paper"] != _NEWER):
        raise NoisymeanError(f"no release of the paper's table could be run: {found[0]['fault']}")
    return found


def _row(one: Audited) -> Row:
    kinds = {option: kind.value if (kind := one.kind(option)) else "" for option in (MEAN, NO_POISSON, SUM)}
    poisson = None if one.source is None else one.source.poisson
    divides = next(iter(one.statements()), None)
    moves = MEAN in one.findings and one.findings[MEAN].rates.moves_with_size
    return {
        "release": one.version,
        "mechanism": kinds[MEAN],
        "mechanism_as_shipped": kinds[NO_POISSON] or kinds[MEAN],
        "mechanism_sum": kinds[SUM],
        "poisson": one.poisson,
        "poisson_sampler": _YES if poisson and poisson.samplers else _NO,
        "poisson_switch": (poisson and poisson.switch) or "",
        "larger_batch_refused": _YES if one.larger_batch is not None else _NO,
        "divides_at": "" if divides is None else f"{divides.place}: {divides.text}",
        "rate_moves_with_size": _YES if moves else _NO,
        "run_and_read": "; ".join(one.disagreements) or _SAME,
        "adaptive_clipping": "; ".join(_leaks_of_the_count(one)),
        "paper": _NEWER if one.paper is None else one.paper.words,
        "against_paper": "; ".join(one.against_paper),
        "fault": "; ".join(dict.fromkeys(one.faults.values())),
    }


def _leaks_of_the_count(one: Audited) -> Iterator[str]:
    """What adaptive clipping leaks besides its mechanism: through the count of unclipped gradients."""
    for remark in one.findings[ADAPTIVE].remarks if ADAPTIVE in one.findings else ():
        if remark.severity is Severity.LEAK and remark.bearing is Bearing.BESIDES:
            yield remark.words


def picture(table: Table) -> Figure:
    """A line for each release: the paper's mechanism, and what running shows under each option."""
    with canvas(8.2, 0.27 * len(table) + 1.5, "What each release of Opacus is: said and found") as figure:
        axes = figure.subplots()
        for line, row in enumerate(table):
            for column, name in enumerate(_COLUMNS):
                value = "not run" if row["fault"] and name != "paper" else str(row[name]).lower()
                axes.barh(line, 0.96, left=column + 0.02, height=0.86, color=_COLOURS.get(value, "#f2f2f2"))
                word = _SHORT.get(value, value if value in ("not supported", "not run", "unknown") else value.upper())
                axes.text(column + 0.5, line, word, ha="center", va="center", fontsize=8.0)
        axes.set_yticks(range(len(table)), [str(row["release"]) for row in table])
        axes.set_xticks([column + 0.5 for column in range(len(_COLUMNS))], list(_COLUMNS.values()))
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set(xlim=(0, len(_COLUMNS)), ylim=(len(table) - 0.4, -0.6))
        axes.spines[:].set_visible(False)
        loader = "loader: int(N/L) in floating point at rate 1/L, L = ⌈N/b⌉; FEASGM only where b does not divide N"
        figure.supxlabel(loader, fontsize=8.5)
    return figure


def finding(table: Table) -> str:
    """How many rows of the paper's table are as found."""
    run = table.where(fault="")
    listed = [row for row in run if row["paper"] != _NEWER]
    same, failed = sum(not row["against_paper"] for row in listed), len(table) - len(run)
    text = f"{len(run)} releases run and read; the paper's row is as found for {same} of {len(listed)}"
    return f"{text}; {failed} could not be run." if failed else f"{text}."


def notes(table: Table) -> Sequence[str]:
    """What the paper does not speak of."""
    run = table.where(fault="")
    said = [
        "Releases that an earlier code audit has kept are not run again; `noisymean code-audit opacus --fresh` does.",
        *(
            f"{row['release']}, which came after the paper, divides by the same floor ({row['mechanism']})."
            for row in run.where(paper=_NEWER)
        ),
    ]
    if adaptive := [str(row["release"]) for row in table if row["adaptive_clipping"]]:
        said.append(
            f"Adaptive clipping ({_span(adaptive)}): the noisy count of unclipped gradients is divided by |B| itself. Each"
            " unclipped record moves that count by 1, while the noise is split as if it moved by 1/2: the count of the"
            " published method is centred, this one is not. With noise sigma_u on the count the pair is worth (1/sigma^2 +"
            " 3/(4 sigma_u^2))^(-1/2), not sigma."
        )
    said += [
        f"{row['release']}: running and reading part. {row['run_and_read']}."
        for row in run
        if row["run_and_read"] != _SAME
    ]
    return said


# --- what the paper states ---------------------------------------------------------------------------------------------


def _between(table: Table, first: str, last: str) -> Table:
    low, high = Release(first).number, Release(last).number
    return Table(row for row in table if low <= Release(str(row["release"])).number <= high)


def _stated_of(releases: tuple[str, str], where: str, says: str, agrees_if: str) -> Callable[[Check], PaperStatement]:
    """A statement on the releases from the first to the last; undecided if none of them, or not all, could be run."""

    def check(judge: Check, table: Table) -> Judgement:
        mine = _between(table, *releases)
        run = mine.where(fault="")
        if run and len(run) == len(mine):
            return judge(mine)
        fault = next((f"{row['release']}: {row['fault']}" for row in mine if row["fault"]), None)
        missing = f"no release from {releases[0]} to {releases[1]} was run"
        return undecided(f"{len(run)} of {len(mine)} releases were run.", fault or missing)

    return lambda judge: PaperStatement(where, says, agrees_if, partial(check, judge))


def _span(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _seen(mine: Table, column: str = "mechanism") -> str:
    """`0.12.0 to 0.13.0: ASGM`, for each run of equal values; mechanisms in capitals."""
    capitals = column.startswith("mechanism")
    return "; ".join(
        f"{_span([str(row['release']) for row in some])}: {(value.upper() if capitals else value) or 'none'}"
        for value, some in groupby(mine, key=lambda row: str(row[column]))
    )


def _all_are(
    kind: Kind, *, otherwise: str, remark: Callable[[Table], str] = lambda mine: "", column: str = "mechanism"
) -> Check:
    """Agree if running shows this mechanism for every release."""
    return lambda mine: agreement(
        len(mine.where(**{column: kind.value})) == len(mine),
        f"{_seen(mine, column)}.",
        otherwise=otherwise,
        remark=remark(mine),
    )


def _as_shipped(mine: Table) -> str:
    other = Table(row for row in mine if row["mechanism_as_shipped"] != row["mechanism"])
    shown = _seen(other, "mechanism_as_shipped")
    return f"With poisson=True only. As shipped (poisson=False): {shown}." if other else ""


@_stated_of(
    ("0.9.0", "0.11.0"),
    "Table 2, 0.9.0 to 0.11.0",
    "Normalised by |B|, and Poisson batches are not supported: their size is bounded.",
    "running shows |B|, and a batch above the declared size is refused",
)
def _poisson_is_unsupported(mine: Table) -> Judgement:
    refused, batch = mine.where(larger_batch_refused=_YES), mine.where(mechanism=Kind.ASGM.value)
    return agreement(
        len(refused) == len(mine) == len(batch),
        f"{_seen(mine)}; a batch above the declared size is refused by {len(refused)} of {len(mine)}.",
        otherwise="Some of these take a larger batch, or do not divide by |B|.",
        remark="With the declared size set to N nothing is refused, and |B| is what it divides by: ASGM.",
    )


_first_are_asgm = _stated_of(
    ("0.12.0", "0.13.0"), "Table 2, 0.12.0 and 0.13.0", "ASGM: normalised by |B|.", "running shows ASGM"
)(_all_are(Kind.ASGM, otherwise="Running shows another denominator."))


@_stated_of(
    ("0.12.0", "0.13.0"),
    "Table 2, 0.12.0 and 0.13.0",
    "No built-in Poisson sampling.",
    "no Poisson sampler is in the wheel",
)
def _no_poisson_sampler(mine: Table) -> Judgement:
    own = mine.where(poisson_sampler=_YES)
    return agreement(
        not own,
        f"A Poisson sampler is in {len(own)} of {len(mine)}: {_seen(mine, 'poisson')}.",
        otherwise="Both ship UniformWithReplacementSampler, which draws every record independently: a Poisson sampler under"
        " another name. The caller has to ask for it.",
    )


_next_are_easgm = _stated_of(
    ("0.14.0", "0.15.0"),
    "Table 2, 0.14.0 and 0.15.0",
    "EASGM: normalised by N q when Poisson sampling is on.",
    "running shows EASGM with the switch on",
)(_all_are(Kind.EASGM, otherwise="Running shows another denominator.", remark=_as_shipped))

_last_are_feasgm = _stated_of(
    ("1.0.0", "1.5.4"),
    "Table 2, 1.0.0 to 1.5.4",
    "FEASGM: normalised by floor(N q), at a rate q that is given.",
    "running shows a floor at a rate that does not move with N",
)(
    _all_are(
        Kind.FEASGM,
        otherwise="It divides by int(N/L) in floating point, L = ceil(N/b), and samples at 1/L: FEASGM only where the batch size"
        " b does not divide N. Where it does, one record more makes one batch more, and rate and denominator both fall (N ="
        " 60,000, b = 600: from 1/100 and 600 to 1/101 and 594). Floating point moves the floor as well: 98 records in batches"
        " of 2 are divided by 1.",
    )
)


@_stated_of(
    ("0.14.0", "1.5.4"), "Table 2, 0.14.0 to 1.5.4", "Poisson sampling is built in.", "the wheel has a switch for it"
)
def _poisson_has_a_switch(mine: Table) -> Judgement:
    without = mine.where(poisson_switch="")
    return agreement(
        not without,
        f"{len(mine) - len(without)} of {len(mine)} have a switch: {_seen(mine, 'poisson_switch')}.",
        otherwise=f"No switch in {', '.join(str(row['release']) for row in without)}.",
    )


_sum_is_sgm = _stated_of(
    ("1.5.4", "1.5.4"),
    "Table 2 (caption), 1.5.4",
    "With loss_reduction=sum nothing is normalised: SGM.",
    "running shows SGM",
)(
    _all_are(
        Kind.SGM,
        otherwise="It is not the noisy sum.",
        remark=lambda mine: (
            "Through a data loader the rate still follows N: where the batch size divides N it is SGM at two"
            " different rates."
            if mine.where(rate_moves_with_size=_YES)
            else ""
        ),
        column="mechanism_sum",
    )
)


@_stated_of(
    ("0.13.0", "1.5.4"),
    "Section 1",
    "0.13.0 is ASGM, 0.14.0 to 1.4 are EASGM, 1.5 is FEASGM.",
    "running shows these",
)
def _as_in_the_introduction(mine: Table) -> Judgement:
    ranges = {Kind.ASGM: ("0.13.0", "0.13.0"), Kind.EASGM: ("0.14.0", "1.4.1"), Kind.FEASGM: ("1.5", "1.5.4")}
    wrong = Table(
        row for kind, ends in ranges.items() for row in _between(mine, *ends) if row["mechanism"] != kind.value
    )
    return agreement(
        not wrong,
        f"{_seen(mine)}.",
        otherwise=f"Not so for {_seen(wrong)}. The sentence also contradicts the paper's own Table 2, which has FEASGM from"
        " 1.0.0.",
    )


@_stated_of(
    ("0.9.0", "1.5.4"),
    "Section 5.5",
    "Poisson sampling is supported since 0.13.0, with explicit handling since 0.15.0.",
    "0.13.0 is the first release with a Poisson sampler and 0.15.0 the first with a switch",
)
def _poisson_since_when(mine: Table) -> Judgement:
    sampler = next((str(row["release"]) for row in mine.where(poisson_sampler=_YES)), "none")
    switch = next((str(row["release"]) for row in mine if row["poisson_switch"]), "none")
    return agreement(
        (sampler, switch) == ("0.13.0", "0.15.0"),
        f"The first with a Poisson sampler is {sampler}, the first with a switch for it {switch}.",
        otherwise="Both came one release earlier; the table of the paper has the switch in 0.14.0 as well.",
    )


EXPERIMENT = Experiment(
    name="opacus-releases",
    place="Table 2 (audited_libraries), Section 5.5",
    shows="what each release of Opacus divides by (the paper's Table of audited versions)",
    rows=rows,
    picture=picture,
    finding=finding,
    notes=notes,
    complete=lambda table: not any(row["fault"] for row in table),
    statements=in_order(vars()),
    needs=lambda effort: Needs(releases=not_kept(_releases(effort)), torch=True),
)
