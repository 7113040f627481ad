"""The paper's Table of audited Opacus versions, and what its text says of them: every release run and read again.

The work is `noisymean code-audit opacus`, which keeps its results in the user's cache; a quick run has a release or two for each
row of the table. Wheels that are not in the cache are fetched by name. A release that could not be had leaves its statements
undecided; if none could be had there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noisymean.errors import NoisymeanError
from noisymean.paper.experiment import Effort, Experiment, Tell
from noisymean.paper.plots import release_plots
from noisymean.paper.statement import Judged, Row, Rows, Statement, agreement, undecided, where
from noisymean.probe.code_audit import ADAPTIVE, MEAN, NO_POISSON, SUM, Audited, audit_opacus
from noisymean.probe.conclusions import leaks
from noisymean.probe.laws import Kind
from noisymean.targets.opacus_releases.releases import VERSIONS, Release

QUICK = ("0.11.0", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "1.0.2", "1.4.1", "1.5.4", "1.6.0")
_YES, _NO = "yes", "no"
_NEWER = "not in it"


class NoRelease(NoisymeanError):
    """Not one release of the paper's table could be run."""


def rows(effort: Effort, tell: Tell) -> list[Row]:
    """One row for each release."""
    audited = audit_opacus(
        QUICK if effort.quick else VERSIONS,
        jobs=max(effort.jobs, 2),
        progress=lambda one, done, total: tell(f"{one.version}, {done} of {total}"),
    )
    found = [_row(one) for one in audited]
    if all(row["fault"] for row in found if row["paper"] != _NEWER):
        raise NoRelease(f"no release of the paper's table could be run: {found[0]['fault']}")
    return found


def _row(one: Audited) -> Row:
    mean, shipped = one.kind(MEAN), one.kind(NO_POISSON)
    statement = next(iter(one.statements()), None)
    switch = None if one.source is None else one.source.poisson.switch
    samplers = one.source is not None and bool(one.source.poisson.samplers)
    return {
        "release": one.version,
        "mechanism": _name(mean),
        "mechanism_as_shipped": _name(mean if shipped is None else shipped),
        "mechanism_sum": _name(one.kind(SUM)),
        "poisson": one.poisson,
        "poisson_sampler": _YES if samplers else _NO,
        "poisson_switch": switch or "",
        "larger_batch_refused": _YES if one.larger_batch is not None else _NO,
        "divides_at": "" if statement is None else f"{statement.place}: {statement.text}",
        "rate_moves_with_size": _YES if MEAN in one.findings and one.findings[MEAN].rates.moves_with_size else _NO,
        "run_and_read": "; ".join(one.disagreements) or "agree",
        "adaptive_clipping": "; ".join(leaks(one.findings[ADAPTIVE])[-1:]) if ADAPTIVE in one.findings else "",
        "paper": _NEWER if one.paper is None else one.paper.words,
        "against_paper": "; ".join(one.against_paper),
        "fault": "; ".join(dict.fromkeys(one.faults.values())),
    }


def _name(kind: Kind | None) -> str:
    return "" if kind is None else kind.value


def finding(found: Rows) -> str:
    """How many rows of the paper's table are as found."""
    listed = [row for row in found if row["paper"] != _NEWER and not row["fault"]]
    differ = [row for row in listed if row["against_paper"]]
    failed = sum(bool(row["fault"]) for row in found)
    same = f"{len(listed) - len(differ)} of {len(listed)}"
    text = f"{len(found) - failed} releases run and read; the paper's row is as found for {same}"
    return f"{text}; {failed} could not be run." if failed else f"{text}."


def notes(found: Rows) -> Sequence[str]:
    """What the paper does not speak of."""
    said = [
        "Releases that an earlier code audit has kept are not run again; `noisymean code-audit opacus --fresh` does."
    ]
    newest = [row for row in found if row["paper"] == _NEWER and not row["fault"]]
    said += [
        f"{row['release']}, which came after the paper, divides by the same floor ({row['mechanism']})."
        for row in newest
    ]
    if adaptive := [str(row["release"]) for row in found if "|B|" in str(row["adaptive_clipping"])]:
        said.append(
            f"Adaptive clipping ({_span(adaptive)}): the noisy count of unclipped gradients is divided by |B| itself. Each"
            " unclipped record moves that count by 1, while the noise is split as if it moved by 1/2: the count of the"
            " published method is centred, this one is not. With noise sigma_u on the count the pair is worth (1/sigma^2 +"
            " 3/(4 sigma_u^2))^(-1/2), not sigma."
        )
    said += [
        f"{row['release']}: running and reading part. {row['run_and_read']}."
        for row in found
        if row["run_and_read"] != "agree" and not row["fault"]
    ]
    return said


# --- what the paper states ---------------------------------------------------------------------------------------------


def _span(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _between(found: Rows, first: str, last: str) -> list[Row]:
    low, high = Release(first).number, Release(last).number
    return [row for row in found if low <= Release(str(row["release"])).number <= high]


def _over(first: str, last: str, judge: Callable[[Rows], Judged]) -> Callable[[Rows], Judged]:
    """The judgement of these releases; undecided if none of them, or not all, could be run."""

    def check(found: Rows) -> Judged:
        mine = _between(found, first, last)
        faults = [row for row in mine if row["fault"]]
        if not mine or faults:
            fault = (
                f"{faults[0]['release']}: {faults[0]['fault']}"
                if faults
                else f"no release from {first} to {last} was run"
            )
            return undecided(f"{len(mine) - len(faults)} of {len(mine)} releases were run.", fault)
        return judge(mine)

    return check


def _seen(mine: Rows, column: str = "mechanism") -> str:
    """`0.12.0 to 0.13.0: ASGM`, for each run of equal values; mechanisms in capitals."""
    parts: list[tuple[str, list[str]]] = []
    for row in mine:
        value = str(row[column]) or "none"
        value = value.upper() if column.startswith("mechanism") else value
        if parts and parts[-1][0] == value:
            parts[-1][1].append(str(row["release"]))
        else:
            parts.append((value, [str(row["release"])]))
    return "; ".join(f"{_span(releases)}: {value}" for value, releases in parts)


def _unsupported(mine: Rows) -> Judged:
    refused = where(mine, larger_batch_refused=_YES)
    batch = where(mine, mechanism=Kind.ASGM.value)
    return agreement(
        len(refused) == len(mine) == len(batch),
        f"{_seen(mine)}; a batch above the declared size is refused by {len(refused)} of {len(mine)}.",
        otherwise="Some of these take a larger batch, or do not divide by |B|.",
        remark="With the declared size set to N nothing is refused, and |B| is what it divides by: ASGM.",
    )


def _is(kind: Kind, *, otherwise: str, remark: Callable[[Rows], str] = lambda mine: "") -> Callable[[Rows], Judged]:
    def judge(mine: Rows) -> Judged:
        same = where(mine, mechanism=kind.value)
        return agreement(len(same) == len(mine), f"{_seen(mine)}.", otherwise=otherwise, remark=remark(mine))

    return judge


def _as_shipped(mine: Rows) -> str:
    other = [row for row in mine if row["mechanism_as_shipped"] != row["mechanism"]]
    return (
        f"With poisson=True only. As shipped (poisson=False): {_seen(other, 'mechanism_as_shipped')}." if other else ""
    )


def _no_sampler(mine: Rows) -> Judged:
    own = where(mine, poisson_sampler=_YES)
    return agreement(
        not own,
        f"A Poisson sampler is in {len(own)} of {len(mine)}: {_seen(mine, 'poisson')}.",
        otherwise="Both ship UniformWithReplacementSampler, which draws every record independently: a Poisson sampler under"
        " another name. The caller has to ask for it.",
    )


def _has_switch(mine: Rows) -> Judged:
    without = where(mine, poisson_switch="")
    return agreement(
        not without,
        f"{len(mine) - len(without)} of {len(mine)} have a switch: {_seen(mine, 'poisson_switch')}.",
        otherwise=f"No switch in {', '.join(str(row['release']) for row in without)}.",
    )


def _sum_is_sgm(mine: Rows) -> Judged:
    same, moving = where(mine, mechanism_sum=Kind.SGM.value), where(mine, rate_moves_with_size=_YES)
    return agreement(
        len(same) == len(mine),
        f"{_seen(mine, 'mechanism_sum')}.",
        otherwise="It is not the noisy sum.",
        remark="Through a data loader the rate still follows N: where the batch size divides N it is SGM at two different rates."
        if moving
        else "",
    )


def _as_in_the_introduction(mine: Rows) -> Judged:
    stated = [
        (Kind.ASGM, _between(mine, "0.13.0", "0.13.0")),
        (Kind.EASGM, _between(mine, "0.14.0", "1.4.1")),
        (Kind.FEASGM, _between(mine, "1.5", "1.5.4")),
    ]
    wrong = [row for kind, those in stated for row in those if row["mechanism"] != kind.value]
    return agreement(
        not wrong,
        f"{_seen(mine)}.",
        otherwise=f"Not so for {_seen(wrong)}. The sentence also contradicts the paper's own Table 2, which has FEASGM from"
        " 1.0.0.",
    )


def _since_when(mine: Rows) -> Judged:
    sampler = next((str(row["release"]) for row in where(mine, poisson_sampler=_YES)), "none")
    switch = next((str(row["release"]) for row in mine if row["poisson_switch"]), "none")
    return agreement(
        (sampler, switch) == ("0.13.0", "0.15.0"),
        f"The first with a Poisson sampler is {sampler}, the first with a switch for it {switch}.",
        otherwise="Both came one release earlier; the table of the paper has the switch in 0.14.0 as well.",
    )


_LOADER = (
    "It divides by int(N/L) in floating point, L = ceil(N/b), and samples at 1/L: FEASGM only where the batch size b does not"
    " divide N. Where it does, one record more makes one batch more, and rate and denominator both fall (N = 60,000, b = 600:"
    " from 1/100 and 600 to 1/101 and 594). Floating point moves the floor as well: 98 records in batches of 2 are divided by 1."
)

EXPERIMENT = Experiment(
    name="opacus-releases",
    place="Table 2 (audited_libraries), Section 5.5",
    shows="what each release of Opacus divides by (the paper's Table of audited versions)",
    rows=rows,
    figure=release_plots.figure,
    finding=finding,
    notes=notes,
    complete=lambda found: not any(row["fault"] for row in found),
    statements=(
        Statement(
            "Table 2, 0.9.0 to 0.11.0",
            "Normalised by |B|, and Poisson batches are not supported: their size is bounded.",
            "running shows |B|, and a batch above the declared size is refused",
            _over("0.9.0", "0.11.0", _unsupported),
        ),
        Statement(
            "Table 2, 0.12.0 and 0.13.0",
            "ASGM: normalised by |B|.",
            "running shows ASGM",
            _over("0.12.0", "0.13.0", _is(Kind.ASGM, otherwise="Running shows another denominator.")),
        ),
        Statement(
            "Table 2, 0.12.0 and 0.13.0",
            "No built-in Poisson sampling.",
            "no Poisson sampler is in the wheel",
            _over("0.12.0", "0.13.0", _no_sampler),
        ),
        Statement(
            "Table 2, 0.14.0 and 0.15.0",
            "EASGM: normalised by N q when Poisson sampling is on.",
            "running shows EASGM with the switch on",
            _over(
                "0.14.0", "0.15.0", _is(Kind.EASGM, otherwise="Running shows another denominator.", remark=_as_shipped)
            ),
        ),
        Statement(
            "Table 2, 1.0.0 to 1.5.4",
            "FEASGM: normalised by floor(N q), at a rate q that is given.",
            "running shows a floor at a rate that does not move with N",
            _over("1.0.0", "1.5.4", _is(Kind.FEASGM, otherwise=_LOADER)),
        ),
        Statement(
            "Table 2, 0.14.0 to 1.5.4",
            "Poisson sampling is built in.",
            "the wheel has a switch for it",
            _over("0.14.0", "1.5.4", _has_switch),
        ),
        Statement(
            "Table 2 (caption), 1.5.4",
            "With loss_reduction=sum nothing is normalised: SGM.",
            "running shows SGM",
            _over("1.5.4", "1.5.4", _sum_is_sgm),
        ),
        Statement(
            "Section 1",
            "0.13.0 is ASGM, 0.14.0 to 1.4 are EASGM, 1.5 is FEASGM.",
            "running shows these",
            _over("0.13.0", "1.5.4", _as_in_the_introduction),
        ),
        Statement(
            "Section 5.5",
            "Poisson sampling is supported since 0.13.0, with explicit handling since 0.15.0.",
            "0.13.0 is the first release with a Poisson sampler and 0.15.0 the first with a switch",
            _over("0.9.0", "1.5.4", _since_when),
        ),
    ),
)
