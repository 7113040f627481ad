"""`noisymean probe`: run a mechanism on designed records, and say what it divides by."""

from __future__ import annotations

from typing import Annotated

import typer

from noisymean.cli import gate, options, values
from noisymean.cli.account import steps_of
from noisymean.cli.complaints import Missing
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, say
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, columns_of, show
from noisymean.cli.targets import NAMED
from noisymean.cli.tones import marked
from noisymean.errors import InvalidInput
from noisymean.mechanisms import KINDS
from noisymean.probe import Finding, probe
from noisymean.targets.entry import runnable_of
from noisymean.targets.functions import FunctionOfGradients
from noisymean.targets.opacus import OpacusRelease, with_options
from noisymean.targets.protocol import BuiltIn
from noisymean.targets.registry import NAMES

# The options of an engine: which of them a release has is its own to say.
_CLIPPINGS, _GRAD_SAMPLES = ("flat", "per_layer", "adaptive"), ("hooks", "functorch", "ew")


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            show_default=False,
            help=f"{', '.join(NAMES)}, synthetic, synthetic:NAME or FILE.py:NAME.",
            autocompletion=options.from_names((*NAMED, *(f"synthetic:{name}" for name in KINDS))),
        ),
    ],
    *,
    loss_reduction: Annotated[
        str,
        text("NAME", "For Opacus: loss_reduction, mean or sum.", autocompletion=options.of_option("loss_reduction")),
    ] = "mean",
    poisson: Annotated[
        bool, options.flag("--poisson/--no-poisson", "For Opacus: its Poisson sampling on or off.")
    ] = True,
    clipping: Annotated[
        str,
        text(
            "NAME", "For Opacus: clipping, flat, per_layer or adaptive.", autocompletion=options.from_names(_CLIPPINGS)
        ),
    ] = "flat",
    grad_sample_mode: Annotated[
        str,
        text(
            "NAME",
            "For Opacus: grad_sample_mode, hooks, functorch or ew.",
            autocompletion=options.from_names(_GRAD_SAMPLES),
        ),
    ] = "hooks",
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    noise_multiplier: Annotated[
        str | None, text("s", "To account for a run of yours. For FILE.py:NAME: the one that is built in, if one is.")
    ] = None,
    max_grad_norm: Annotated[
        str | None, text("C", "For FILE.py:NAME: the clipping bound that is built in, if one is.")
    ] = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    delta: options.Delta = None,
    seed: Annotated[str, text("S", "Random seed: the same seed gives the same runs.")] = "0",
    limits: gate.Limits,
    json: options.Json = False,
) -> None:
    """Which denominator does this implementation really use? Found from its outputs alone.

    Runs it on designed records, N and N + 1 of them, and names the mechanism with the evidence. With your numbers
    it also runs at your N, and says what is claimed, leaked and guaranteed for the mechanism that it found.

    \b
    Example:
      noisymean probe opacus==0.15.0 --no-poisson
      noisymean probe opacus --dataset-size 12544 --batch-size 256
    """
    gated = limits.gate()
    built_in = values.read(noise_multiplier=noise_multiplier, max_grad_norm=max_grad_norm)
    if ".py:" not in target and max_grad_norm is not None:
        raise InvalidInput("max_grad_norm", max_grad_norm, "given for FILE.py:NAME only", "drop --max-grad-norm")
    subject = runnable_of(target, BuiltIn(**built_in))
    wanted = (loss_reduction, poisson, clipping, grad_sample_mode)
    if isinstance(subject, OpacusRelease):
        subject = with_options(subject, *wanted)
    elif wanted != ("mean", True, "flat", "hooks"):
        raise InvalidInput("target", target, "opacus or opacus==X for these options")
    sizes = values.read(dataset_size=dataset_size, sample_rate=sample_rate, batch_size=batch_size)
    # noise that is built in is told for the probe's own sake
    loud = isinstance(subject, FunctionOfGradients) and subject.is_loud
    asked = delta is not None or limits.max_epsilon is not None or (noise_multiplier is not None and not loud)
    if asked:
        sized = {"dataset_size": dataset_size, "dimension": dimension}
        for name, value in {**sized, "noise_multiplier": noise_multiplier, "delta": delta}.items():
            if value is None:
                raise Missing(name, "to account for a run")
        sizes |= values.read(dimension=dimension, delta=delta)
    with bar(f"probing {subject.name}", 1) as tell:
        found = probe(
            subject,
            seed=values.whole("seed", seed),
            noise_multiplier=built_in.get("noise_multiplier"),
            **sizes,
            steps=lambda mechanism: steps_of(mechanism, steps, epochs),
            progress=lambda done, total: tell(completed=done, total=total),
        )
    if json:
        emit_json(found.to_dict())
    else:
        _print(found)
    answer, because = (None, None) if found.run is None else (found.run.account, found.run.because)
    gated.check([gate.of_probe(found, answer, because if answer is None else None)])


def _print(found: Finding) -> None:
    out, lines = console(), found.lines()
    say(out, lines.heading)
    show(out, [Column(""), Column("", Kind.PROSE)], lines.rows, named=False)
    seen = found.seen()
    show(out, columns_of(seen), seen.rows)
    word = None if found.run is None else found.run.word
    for sentence in lines.sentences:
        say(out, sentence if word is None else marked(sentence, word))
