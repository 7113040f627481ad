"""`noisymean report`: one self-contained page of accounts, audits and code audits."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from noisymean.accountant import account as compute
from noisymean.accounts import Account, Pair
from noisymean.cli import gate, options, values
from noisymean.cli.account import elsewhere_of, steps_of
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.output import console, emit_json, error_console, said_beside_a_bar, say
from noisymean.cli.pages import page_file, write_page
from noisymean.cli.wants import Missing, Wanted, missing_line, option
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.mechanisms import Adjacency, Mechanism, with_public_size
from noisymean.report import page, plots, run_plots
from noisymean.report.page import sections, words
from noisymean.report.page.node import MOST_BYTES, BadRecord, parsed, text_of
from noisymean.report.page.records import AccountRecord, AuditRecord, Record, record_of
from noisymean.report.page.sections import Run, Section
from noisymean.run_curves import growth, run_curves

_STANDARD_INPUT = "-"
_TITLE = "Privacy report"
# Numbers of a file and the same computed again: they may differ by rounding on another machine, and by nothing else.
_SAME = 1e-6
_Text = str | None


def command(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.json]...",
            show_default=False,
            help="What account, audit or code-audit printed with --json; - is standard input.",
        ),
    ] = None,
    out: Annotated[
        _Text, typer.Option("--out", metavar="FILE", show_default=False, help="The page: FILE.html.")
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The heading of the page.")] = _TITLE,
    mechanism: Annotated[
        _Text, typer.Option("--mechanism", metavar="NAME", help="Account for a run here, as 'noisymean account' does.")
    ] = None,
    noise_multiplier: Annotated[
        _Text, typer.Option("--noise-multiplier", metavar="s", help="Noise over the clipping bound.")
    ] = None,
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    delta: options.Delta = None,
    epsilon: options.Epsilon = None,
    adjacency: Annotated[
        _Text, typer.Option("--adjacency", metavar="NAME", help="Neighbours [default: add-remove].")
    ] = None,
    pair: options.PairName = None,
    fail_on_violation: gate.FailOnViolation = False,
    max_epsilon: gate.MaxEpsilon = None,
    json: options.Json = False,
) -> None:
    """One HTML page: the verdict in words, claimed / leaked / guaranteed, plots, the proof, the remedy.

    The page needs no network: it opens from disk, prints, and follows light or dark. Results come from JSON files, or from
    the options of 'noisymean account', or from both. The numbers of an account are computed again before they are shown.

    \b
    Example:
      noisymean report --mechanism opacus-loader --dataset-size 60000 --batch-size 600 \\
          --dimension 26010 --noise-multiplier 1 --epochs 10 --delta 1e-5 --out report.html
      noisymean audit synthetic --mechanism easgm --dataset-size 4 --dimension 100 \\
          --sample-rate 0.05 --noise-multiplier 10 --seed 1 --json | noisymean report - --out audit.html
    """
    gated = gate.Gate.of(fail_on_violation, max_epsilon)
    if out is None:
        raise NoisymeanError(missing_line("--out", Wanted("a file named *.html", "report.html")))
    target = page_file("out", out)
    page.need()
    typed = {
        "mechanism": mechanism,
        "noise_multiplier": noise_multiplier,
        "dataset_size": dataset_size,
        "dimension": dimension,
        "sample_rate": sample_rate,
        "batch_size": batch_size,
        "steps": steps,
        "epochs": epochs,
        "delta": delta,
        "epsilon": epsilon,
        "adjacency": adjacency,
        "pair": pair,
    }
    given = {name: value for name, value in typed.items() if value is not None}
    names = files or []
    if not names and not given:
        raise Missing("mechanism", "or a file of results")
    if names.count(_STANDARD_INPUT) > 1:
        raise InvalidInput("FILE", _STANDARD_INPUT, "given once", "standard input can be read once")
    records = [record_of(parsed(_content(name), _shown(name))) for name in names]
    asked = [_asked(typed)] if given else []
    with _bar(len(asked) + sum(isinstance(one, AccountRecord) for one in records)) as tell:
        runs = [_run(one, tell) for one in asked]
        made = [sections.account_section(run, "run") for run in runs]
        judged = [gate.of_account(run.answer) for run in runs]
        for index, one in enumerate(records, 1):
            section, found = _section(one, f"result-{index}", tell)
            made.append(section)
            judged += found
    words_typed = [*names, *(part for name, value in given.items() for part in (option(name), value))]
    words_typed += [] if title == _TITLE else ["--title", title]
    line = text_of(shlex.join(["noisymean", "report", *words_typed, "--out", out]))
    write_page("out", target, sections.report(made, title=text_of(title), command=line))
    verdict = words.worst([one.verdict.word for one in made])
    if json:
        listed = [{"kind": one.kind, "title": one.title, "verdict": one.verdict.word} for one in made]
        emit_json({"page": str(target), "verdict": verdict, "sections": listed})
    else:
        for part in made:
            say(console(), f"{part.title}: {part.verdict.headline}")
        say(console(), f"Page: {target}")
    gated.check(judged)


# --- files -------------------------------------------------------------------------------------------------------------


def _shown(name: str) -> str:
    return "standard input" if name == _STANDARD_INPUT else text_of(name)


def _content(name: str) -> bytes:
    """All of a file, or a little more than is accepted."""
    try:
        if name == _STANDARD_INPUT:
            stream = getattr(sys.stdin, "buffer", None)
            content = b"" if stream is None else stream.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise BadRecord(
            f"{_shown(name)}: cannot be read ({reason}); give a file of results, or - for standard input"
        ) from None
    return bytes(content)


def _section(found: Record, name: str, tell: Callable[[], None]) -> tuple[Section, list[gate.Judged]]:
    """What is shown of a file, and what it says to a script."""
    if isinstance(found, AccountRecord):
        run = _checked(found, tell)
        return sections.account_section(run, name), [gate.of_account(run.answer)]
    if isinstance(found, AuditRecord):
        return sections.audit_section(found, name), [gate.of_audit_record(found)]
    return sections.code_section(found, name), gate.of_code_record(found)


def _checked(found: AccountRecord, tell: Callable[[], None]) -> Run:
    """The run of a file, computed again; refused where the file says something else."""
    typed = {
        "mechanism": found.mechanism,
        "noise_multiplier": repr(found.noise_multiplier),
        "dataset_size": _text(found.dataset_size),
        "dimension": _text(found.dimension),
        "sample_rate": found.sample_rate,
        "batch_size": _text(found.batch_size),
        "steps": _text(found.steps),
        "epochs": None,
        "delta": _text(found.delta),
        "epsilon": _text(found.epsilon),
        "adjacency": found.adjacency,
        "pair": found.asked_pair,
    }
    try:
        return _run(_asked(typed), tell, stated=found)
    except BadRecord:
        raise
    except NoisymeanError as fault:
        raise BadRecord(f"{found.file}: {fault}") from None


def _text(value: float | None) -> str | None:
    return None if value is None else repr(value)


def _compare(found: AccountRecord, answer: Account) -> None:
    """Nothing is shown that was not computed here."""
    symbol = "epsilon" if answer.asked_delta else "delta"
    for which in ("claimed", "leakage", "guarantee"):
        stated, computed = getattr(found, which), words.value_of(answer, which)
        finite = computed if computed is None or math.isfinite(computed) else None
        same = stated == finite
        if stated is not None and finite is not None:
            same = math.isclose(stated, finite, rel_tol=_SAME, abs_tol=1e-300)
        if not same:
            raise BadRecord(
                f"{found.file}: {which}.{symbol}={stated}: must be what these settings give, {finite}; the file was changed or"
                f" written by another version ({found.version}): write it again"
            )
    if found.verdict != answer.verdict:
        raise BadRecord(f"{found.file}: verdict={found.verdict}: must be {answer.verdict}; write the file again")


# --- runs --------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Asked:
    """A run that is to be computed."""

    mechanism: Mechanism
    steps: int
    delta: float | None
    epsilon: float | None
    adjacency: Adjacency
    pair: Pair | None


def _asked(typed: Mapping[str, str | None]) -> _Asked:
    """The run that the text of these options describes."""
    name, noise = typed["mechanism"], typed["noise_multiplier"]
    if name is None:
        raise Missing("mechanism")
    if noise is None:
        raise Missing("noise_multiplier")
    mechanism = mechanism_of(
        name=name,
        dataset_size=typed["dataset_size"],
        dimension=typed["dimension"],
        sample_rate=typed["sample_rate"],
        batch_size=typed["batch_size"],
        noise_multiplier=noise,
    )
    delta, epsilon = typed["delta"], typed["epsilon"]
    if delta is None and epsilon is None:
        raise Missing("delta", "or --epsilon")
    if delta is not None and epsilon is not None:
        raise InvalidInput("epsilon", epsilon, "left out when --delta is given", "give one of the two")
    return _Asked(
        mechanism=mechanism,
        steps=steps_of(mechanism, typed["steps"], typed["epochs"]),
        delta=None if delta is None else values.number("delta", delta),
        epsilon=None if epsilon is None else values.number("epsilon", epsilon),
        adjacency=options.adjacency_of(typed["adjacency"] or Adjacency.ADD_REMOVE.value),
        pair=options.pair_of(typed["pair"]),
    )


def _run(asked: _Asked, tell: Callable[[], None], stated: AccountRecord | None = None) -> Run:
    """Computed, and drawn where it can be."""
    mechanism, steps, adjacency = asked.mechanism, asked.steps, asked.adjacency
    answer = compute(
        mechanism, steps=steps, delta=asked.delta, epsilon=asked.epsilon, adjacency=adjacency, pair=asked.pair
    )
    if stated is not None:
        _compare(stated, answer)
    tell()
    elsewhere = elsewhere_of(mechanism, answer, steps, adjacency)
    tell()
    grown, curves = None, None
    if adjacency is not Adjacency.REPLACE_ONE:
        effective = with_public_size(mechanism, adjacency)
        # where numbers leave double precision a picture is left out; the answer itself is never
        with contextlib.suppress(ArithmeticError, ValueError):
            curves = run_curves(with_public_size(answer.on_pair, adjacency), plots.ALPHA, steps=steps)
        if asked.delta is not None:
            with contextlib.suppress(ArithmeticError, ValueError):
                grown = growth(
                    effective, steps=steps, delta=asked.delta, points=run_plots.POINTS, progress=lambda _: tell()
                )
    return Run(
        answer=answer,
        adjacency=adjacency,
        remarks=tuple(map(str, answer.remarks)) if stated is None or stated.remarks is None else stated.remarks,
        reported=() if stated is None else stated.reported,
        elsewhere=elsewhere,
        growth=grown,
        curves=curves,
        file="" if stated is None else stated.file,
        asked_pair=asked.pair,
    )


@contextlib.contextmanager
def _bar(runs: int) -> Iterator[Callable[[], None]]:
    """How far the computation is: a bar on a terminal, silence in a log."""
    out = error_console()
    if not out.is_terminal or not runs:
        yield lambda: None
        return
    with Progress(
        said_beside_a_bar("{task.description}"), BarColumn(), TimeRemainingColumn(), console=out, transient=True
    ) as bar:
        task = bar.add_task("computing the runs", total=runs * (run_plots.POINTS + 2))
        yield lambda: bar.advance(task)
