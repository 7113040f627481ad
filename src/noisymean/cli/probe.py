"""`noisymean probe`: run a mechanism on designed records, and say what it divides by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, assert_never, final

import typer
from rich import box
from rich.progress import BarColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from noisymean import __version__
from noisymean.accountant import account
from noisymean.accounts import Account
from noisymean.cli import gate, options, values
from noisymean.cli.account import record, steps_of
from noisymean.cli.complaints import Missing
from noisymean.cli.output import console, emit_json, error_console, said_beside_a_bar, say
from noisymean.errors import InvalidInput, Undefined
from noisymean.mechanisms import exact_rate
from noisymean.outward import at_least, at_most
from noisymean.probe.entry import BuiltIn, named
from noisymean.probe.finding import ACCOUNTED, Finding
from noisymean.probe.prober import Progress, probe_subject
from noisymean.probe.subject import Knob, Setting, Subject
from noisymean.probe.subjects.callables import FunctionOfGradients
from noisymean.probe.subjects.releases import OpacusRelease, with_options
from noisymean.verdict import Word
from noisymean.words import Said

# Larger datasets are not run, only computed: 20,000 records are 80 MB of gradients.
MOST_RECORDS = 20_000


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            show_default=False,
            help="opacus, opacus==X, dpsgd-hf, dpsur, dp-feta, privimage, synthetic, synthetic:NAME or FILE.py:NAME.",
        ),
    ],
    loss_reduction: Annotated[
        str, typer.Option("--loss-reduction", metavar="NAME", help="Opacus: mean or sum.")
    ] = "mean",
    poisson: Annotated[
        bool, typer.Option("--poisson/--no-poisson", help="Opacus: its Poisson sampling on or off.")
    ] = True,
    clipping: Annotated[
        str, typer.Option("--clipping", metavar="NAME", help="Opacus: flat, per_layer or adaptive.")
    ] = "flat",
    grad_sample_mode: Annotated[
        str, typer.Option("--grad-sample-mode", metavar="NAME", help="Opacus: hooks, functorch or ew.")
    ] = "hooks",
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    noise_multiplier: Annotated[
        str | None,
        typer.Option(
            "--noise-multiplier", metavar="s", help="To account for a run of yours; of FILE.py:NAME, if built in."
        ),
    ] = None,
    max_grad_norm: Annotated[
        str | None, typer.Option("--max-grad-norm", metavar="C", help="Of FILE.py:NAME, if built in.")
    ] = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    delta: options.Delta = None,
    seed: Annotated[str, typer.Option("--seed", metavar="S", help="Same seed, same runs.")] = "0",
    fail_on_violation: gate.FailOnViolation = False,
    max_epsilon: gate.MaxEpsilon = None,
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
    gated = gate.Gate.of(fail_on_violation, max_epsilon)
    subject = named(target, _built_in(target, noise_multiplier, max_grad_norm))
    wanted = (loss_reduction, poisson, clipping, grad_sample_mode)
    if isinstance(subject, OpacusRelease):
        subject = with_options(subject, *wanted)
    elif wanted != ("mean", True, "flat", "hooks"):
        raise InvalidInput("target", target, "opacus or opacus==X for these options")
    also = _also(subject, dataset_size, sample_rate, batch_size)
    # noise that is built in is told for the probe's own sake
    loud = isinstance(subject, FunctionOfGradients) and subject.is_loud
    asked = delta is not None or max_epsilon is not None or (noise_multiplier is not None and not loud)
    if asked:
        for name, value in (
            ("dataset_size", dataset_size), ("dimension", dimension), ("noise_multiplier", noise_multiplier), ("delta", delta),
        ):  # fmt: skip
            if value is None:
                raise Missing(name, "to account for a run")
    sigma = None if noise_multiplier is None else values.number("noise_multiplier", noise_multiplier)
    with _bar(subject.name) as progress:
        found = probe_subject(
            subject, seed=values.whole("seed", seed), also=also, noise_multiplier=sigma, progress=progress
        )
    judged = None
    if asked:
        try:
            judged = _judged(
                found,
                _account(
                    found, dataset_size, dimension, sample_rate, batch_size, noise_multiplier, steps, epochs, delta
                ),
            )
        except Undefined as fault:
            judged = Judged("undetermined", str(fault))
    if json:
        emit_json(_json(found, judged))
    else:
        _print(found, judged)
    answer, because = (None, None) if judged is None else (judged.account, judged.because)
    gated.check([gate.of_probe(found, answer, because if answer is None else None)])


@final
@dataclass(frozen=True)
class Judged:
    """The verdict on the user's run, on what it rests or why there is none, and the numbers if there are any."""

    verdict: Word
    because: str
    account: Account | None = None


def _judged(found: Finding, answer: Account) -> Judged:
    """What the accountant says of the mechanism stands only as far as the mechanism was established."""
    if not found.doubts:
        return Judged(answer.verdict, found.limits, answer)
    reason = "; ".join(remark.words for remark in found.doubts)
    nothing = replace(answer.guarantee, epsilon=None)
    kept = replace(
        answer,
        guarantee=nothing,
        neighbours=tuple(replace(one, guarantee=replace(one.guarantee, epsilon=None)) for one in answer.neighbours),
        verdict="undetermined" if answer.verdict == "holds" else answer.verdict,
        unproved=(*answer.unproved, Said(reason)),
    )
    return Judged(kept.verdict, reason, kept)


def _built_in(target: str, noise: str | None, bound: str | None) -> BuiltIn:
    """What a function of the user's may have built in."""
    if ".py:" not in target:
        if bound is not None:
            raise InvalidInput("max_grad_norm", bound, "given for FILE.py:NAME only", "drop --max-grad-norm")
        return BuiltIn()
    return BuiltIn(
        None if noise is None else values.number("noise_multiplier", noise),
        None if bound is None else values.number("max_grad_norm", bound),
    )


def _also(subject: Subject, size: str | None, rate: str | None, batch: str | None) -> tuple[Setting, ...]:
    """The user's own N, if it can be run."""
    if size is None or (rate is None and batch is None):
        return ()
    records = values.whole("dataset_size", size)
    if not 1 <= records <= MOST_RECORDS:
        return ()
    if subject.knob is Knob.BATCH_SIZE:
        return () if batch is None else (Setting(records, batch_size=_within("batch_size", batch, records)),)
    if rate is not None:
        return (Setting(records, rate=exact_rate(values.rate("sample_rate", rate))),)
    return (Setting(records, rate=Fraction(_within("batch_size", batch or "1", records), records)),)


def _within(name: str, text: str, most: int) -> int:
    value = values.whole(name, text)
    if not 1 <= value <= most:
        raise InvalidInput(
            name, text, f"a whole number from 1 to the dataset size {most}", f"e.g. --batch-size {max(1, most // 10)}"
        )
    return value


def _account(
    found: Finding, size: str | None, dimension: str | None, rate: str | None, batch: str | None, noise: str | None,
    steps: str | None, epochs: str | None, delta: str | None,
) -> Account:  # fmt: skip
    """The accountant's answer for the mechanism that was found."""
    records = values.whole("dataset_size", str(size))
    b = None if batch is None else values.whole("batch_size", batch)
    given = None if rate is None else exact_rate(values.rate("sample_rate", rate))
    if given is None and b is not None and records:
        given = Fraction(b, records)
    # its leakage is there whatever else is; whether its guarantee is, `_judged` says
    mechanism = found.at_least(
        dataset_size=records,
        dimension=values.whole("dimension", str(dimension)),
        noise_multiplier=values.number("noise_multiplier", str(noise)),
        sample_rate=given,
        batch_size=b,
    )
    return account(mechanism, steps=steps_of(mechanism, steps, epochs), delta=values.number("delta", str(delta)))


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    out = error_console()
    if not out.is_terminal:
        yield lambda done, total: None
        return
    with Bar(
        said_beside_a_bar("{task.description}"), BarColumn(), TimeRemainingColumn(), console=out, transient=True
    ) as bar:
        task = bar.add_task(f"probing {what}", total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _json(found: Finding, judged: Judged | None) -> dict[str, object]:
    plain = found.to_json()
    answer = None if judged is None else judged.account
    return {
        "target": plain.pop("target"),
        "mechanism": plain.pop("kind"),
        **plain,
        "account": None if answer is None else record(answer, None, {}),
        "account_refused": judged.because if judged is not None and answer is None else None,
        "verdict": None if judged is None else judged.verdict,
        "because": None if judged is None else judged.because,
        "doubts": [remark.words for remark in found.doubts],
        "version": __version__,
    }


def _print(found: Finding, judged: Judged | None) -> None:
    out = console()
    named_only = " but for what follows, so without a guarantee" if found.doubts and found.kind in ACCOUNTED else ""
    say(out, f"{found.target}: {found.kind.value.upper()}{named_only}")
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column()
    facts.add_column()
    for name, words in facts_of(found):
        facts.add_row(name, words)
    out.print(facts)
    table = Table("run", "rounds", "|B| seen", "denominator", "rate seen", box=box.SIMPLE_HEAD, pad_edge=False)
    for one in found.evidence:
        rate = "-" if one.rate is None else f"{one.rate:.4f}"
        table.add_row(one.run, str(one.rounds), one.batches, one.denominator if one.finite else "not finite", rate)
    out.print(table)
    for remark in found.remarks:
        say(out, f"- {remark.severity.value}: {remark.words}.")
    if judged is None:
        return
    if (answer := judged.account) is None:
        say(out, f"Not accounted for, undetermined: {judged.because}.")
    else:
        sound = "none known" if answer.guarantee.epsilon is None else at_most(answer.guarantee.epsilon)
        say(
            out,
            f"{answer.steps:,} rounds at delta = {answer.claimed.delta:g}:"
            f" claimed epsilon {at_most(answer.claimed.epsilon or 0.0)}, leakage {at_least(answer.leakage.epsilon or 0.0)},"
            f" guarantee {sound}: {answer.verdict}{_on_what(judged)}.",
        )
        for line in answer.notes:
            say(out, f"- {line}.")


def _on_what(judged: Judged) -> str:
    """What the verdict rests on, in the same sentence."""
    match judged.verdict:
        case "holds":
            return f", as far as was measured: {judged.because}"
        case "undetermined":
            return (
                f": {judged.because}" if judged.account is not None and judged.account.guarantee.epsilon is None else ""
            )
        case "violated":
            return ""
    assert_never(judged.verdict)


def facts_of(found: Finding) -> list[tuple[str, str]]:
    """The conclusions, in a word each."""
    noise, clipping, rates = found.noise, found.clipping, found.rates
    shared = {None: "not seen", True: "divided by the same", False: "NOT divided by the same"}[noise.shares_denominator]
    at = f"sigma C at sigma = {noise.noise_multiplier:g}"
    scale = "" if noise.scale is None else f", {noise.scale:.3f} +- {noise.error:.3f} times {at}"
    bound = "not seen" if clipping.bound is None else f"{clipping.bound:.4g} C"
    before = "" if clipping.scaled_before is None else f", gradients multiplied by {clipping.scaled_before} before"
    moved = "not seen" if clipping.sensitivity is None else f"{clipping.sensitivity:.3f} C"
    within = "" if rates.within is None else f", to within {rates.within:.1%}"
    law = "" if rates.law is None else f" at {rates.law.value}{within}"
    return [
        ("denominator", found.denominator),
        ("noise", shared + scale),
        ("clipping bound", bound + before),
        ("sensitivity", moved),
        ("sampling", f"{rates.sampling.value}{law}{'; moves with N' if rates.moves_with_size else ''}"),
        ("empty batch", found.empty_batch),
    ]
