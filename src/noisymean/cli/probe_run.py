"""`noisymean probe-run`: the denominator of a finished run, read off its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from noisymean.cli import options, values
from noisymean.cli.complaints import Missing
from noisymean.cli.options import Group, flag, text
from noisymean.cli.output import console, emit_json, need_matplotlib, note, plot_file, say, write_plot
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, show
from noisymean.finished import FinishedRun, probe_run


@dataclass(frozen=True, kw_only=True)
class Trained(Group):
    """How the weights were updated, as typed."""

    learning_rate: Annotated[str | None, text("LR", "The learning rate, the same in all steps.")] = None
    optimizer: Annotated[str, text("NAME", "sgd; no other recursion can be inverted.")] = "sgd"
    momentum: Annotated[str, text("MU", "Momentum, as torch.optim.SGD has it.")] = "0"
    dampening: Annotated[str, text("D", "Dampening of the momentum.")] = "0"
    nesterov: Annotated[bool, flag("--nesterov", "Nesterov's momentum.")] = False
    weight_decay: Annotated[str, text("WD", "Weight decay.")] = "0"
    every: Annotated[str, text("K", "Steps from one checkpoint to the next; more than 1 for plain SGD only.")] = "1"


@dataclass(frozen=True, kw_only=True)
class Noised(Group):
    """What noise was added, and what is known about N."""

    max_grad_norm: Annotated[str | None, text("C", "The clipping bound.")] = None
    noise_multiplier: Annotated[str | None, text("s", "Standard deviation of the noise over the clipping bound.")] = (
        None
    )
    mechanism: Annotated[
        str | None,
        text(
            "NAME",
            "How the denominator follows from N: opacus-loader (with --batch-size), feasgm or easgm (with --sample-rate), "
            "or sgm, a constant (with --batch-size).",
        ),
    ] = None
    batch_size: Annotated[str | None, text("b", "Batch size of the data loader.")] = None
    sample_rate: Annotated[str | None, text("q", "Sampling rate, taken exactly as written: 0.005 or 1/200.")] = None
    dataset_size: Annotated[str | None, text("N", "Compare this number of records with one less and one more.")] = None


def command(
    checkpoints: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINTS...",
            show_default=False,
            help="A folder of state dicts (.safetensors or .npz), such files, or one file of updates, T x n.",
        ),
    ],
    *,
    trained: Trained,
    noised: Noised,
    leave_out: Annotated[list[str] | None, text("TENSOR", "Leave this tensor out; may be given again.")] = None,
    confidence: Annotated[str, text("P", "Confidence of the interval.")] = "0.95",
    plot: Annotated[str | None, text("FILE", "Draw the likelihood into FILE.png, FILE.svg or FILE.pdf.")] = None,
    json: options.Json = False,
) -> None:
    """Which denominator did a finished run divide by, and how many records fit? Read off its checkpoints.

    Consecutive weights tell each noisy mean, and the scale of its noise tells what was divided by. The learning rate,
    C and sigma are taken on trust. Files are never unpickled.

    \b
    Example:
      noisymean probe-run checkpoints/ --learning-rate 0.5 \\
          --max-grad-norm 1 --noise-multiplier 1 --batch-size 600
    """
    target = None
    if plot is not None:
        need_matplotlib()
        target = plot_file("plot", plot)
    typed = {"learning_rate": trained.learning_rate, "max_grad_norm": noised.max_grad_norm}
    for name, value in {**typed, "noise_multiplier": noised.noise_multiplier}.items():
        if value is None:
            raise Missing(name)
    settings: dict[str, Any] = {
        name: values.number(name, str(getattr(group, name)))
        for group, names in (
            (trained, ("learning_rate", "momentum", "dampening", "weight_decay")),
            (noised, ("max_grad_norm", "noise_multiplier")),
        )
        for name in names
    }
    known = values.read(batch_size=noised.batch_size, sample_rate=noised.sample_rate, dataset_size=noised.dataset_size)
    with bar("reading", 1) as tell:
        found = probe_run(
            checkpoints,
            optimizer=trained.optimizer,
            nesterov=trained.nesterov,
            every=values.whole("every", trained.every),
            mechanism=noised.mechanism,
            leave_out=tuple(leave_out or ()),
            confidence=values.number("confidence", confidence),
            progress=lambda done, total: tell(completed=done, total=total),
            **settings,
            **known,
        )
    if target is not None:
        write_plot("plot", found.plot(), target)
        note(f"plot written to {target}")
    if json:
        emit_json(found.to_dict())
    else:
        _print(found)


def _print(found: FinishedRun) -> None:
    out, lines = console(), found.lines()
    say(out, lines.heading)
    show(out, [Column(""), Column("", Kind.PROSE)], lines.rows, named=False)
    for sentence in lines.sentences:
        say(out, sentence)
