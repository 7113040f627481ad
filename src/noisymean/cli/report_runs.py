"""The runs of a report: accounted for, and what is drawn of them worked out, by those who compute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from noisymean.choices import did_you_mean, written_as
from noisymean.cli import options
from noisymean.cli.account import run_of
from noisymean.cli.given import compare
from noisymean.errors import InvalidInput, Shown
from noisymean.mechanisms import KINDS, Adjacency, with_public_size
from noisymean.probe.finding import RunVerdict
from noisymean.probe.judgement import verdict_on
from noisymean.report import plots, run_plots
from noisymean.report.asked_run import AskedRun
from noisymean.report.page.probes import ProbeRecord
from noisymean.report.page.records import AccountRecord
from noisymean.report.page.sections import ShownRun
from noisymean.run_curves import growth, in_the_corner, rare_curves, run_curves
from noisymean.size_curves import MOST, size_curve

# Of each run, what the bar counts: its numbers, those at another N, the points of epsilon against steps and those against N.
PARTS = 2 + run_plots.POINTS + MOST


def shown_run(asked: AskedRun, tell: Callable[..., None], stated: AccountRecord | None = None) -> ShownRun:
    """Accounted for, and drawn where it can be; `stated` is what a file says of it."""
    answer = asked.account()
    if stated is not None:
        compare(stated, answer)
    tell(advance=1)
    elsewhere = asked.elsewhere()
    tell(advance=1)
    grown, curves, rare, sizes = None, None, None, None
    # where numbers leave double precision a picture is left out; the answer itself is never
    beyond = contextlib.suppress(ArithmeticError, ValueError)
    if answer.adjacency is not Adjacency.REPLACE_ONE:
        with beyond:
            curves = run_curves(answer.drawn, plots.ALPHA, steps=asked.steps, adjacency=answer.adjacency)
            if in_the_corner(curves):
                rare = rare_curves(answer.drawn, steps=asked.steps, adjacency=answer.adjacency)
        if asked.delta is not None:
            poisson = asked.mechanism.is_poisson
            drawn = with_public_size(asked.mechanism, answer.adjacency) if poisson else asked.mechanism
            with beyond:
                grown = growth(
                    drawn,
                    steps=asked.steps,
                    delta=asked.delta,
                    points=run_plots.POINTS,
                    progress=lambda _: tell(advance=1),
                    adjacency=None if poisson else answer.adjacency,
                )
    if answer.adjacency is Adjacency.ADD_REMOVE:
        with beyond:
            sizes = size_curve(
                asked.mechanism,
                steps=asked.steps,
                delta=asked.delta,
                epsilon=asked.epsilon,
                pair=asked.pair,
                progress=lambda _: tell(advance=1),
            )
    return ShownRun(
        answer=answer,
        remarks=tuple(map(str, answer.remarks)) if stated is None or stated.remarks is None else stated.remarks,
        reported=() if stated is None else stated.reported,
        elsewhere=elsewhere,
        growth=grown,
        curves=curves,
        rare=rare,
        sizes=sizes,
        file="" if stated is None else stated.file,
        asked_pair=asked.pair,
    )


def probed_run(found: ProbeRecord) -> RunVerdict | None:
    """The verdict on the run that was described to a probe: accounted for again, and judged by what the probe had found."""
    if found.account is None:
        return None if found.refused is None else RunVerdict("undetermined", found.refused)
    verdict = verdict_on(found.finding, found.account.asked.account())
    if verdict.account is not None:
        compare(found.account, verdict.account)
    return verdict


def compared(names: str, described: options.Described, asked: options.Asked) -> list[AskedRun]:
    """The same run under each of these mechanisms."""
    if described.mechanism is not None:
        raise InvalidInput("mechanism", described.mechanism, "left out with --compare", "its names are the mechanisms")
    found: list[str] = []
    for typed in names.split(","):
        name = written_as(typed, KINDS)
        if name is None:
            remedy = did_you_mean(typed, KINDS) or "e.g. --compare easgm,feasgm,asgm,sgm"
            raise InvalidInput("--compare", Shown(names), f"some of {', '.join(KINDS)}, separated by commas", remedy)
        if name in found:
            raise InvalidInput("--compare", Shown(names), "different mechanisms", f"name {name} once")
        found.append(name)
    if len(found) < 2:
        raise InvalidInput("--compare", Shown(names), "at least two mechanisms", f"or --mechanism {found[0]}")
    return [run_of(replace(described, mechanism=name), asked) for name in found]
