"""`noisymean audit`: run a mechanism on two neighbouring datasets and see whether it keeps its claim."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from noisymean.audit import Audit, Store, audit, distinguisher
from noisymean.audit.distinguishers import NAMES, Distinguisher, NormalityTest
from noisymean.audit.estimate import check_levels
from noisymean.audit.runner import ClusterGone
from noisymean.audit.stages import Stages
from noisymean.audit.trials import FaultyTrial
from noisymean.choices import written_as
from noisymean.cli import gate, options, values
from noisymean.cli.complaints import Missing, refused
from noisymean.cli.faults import INTERRUPTED
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, note, plot_file, say, write_plot
from noisymean.cli.progress import progress
from noisymean.cli.tables import columns_of, show
from noisymean.cli.targets import NAMED, Typed, claim_of, target_of
from noisymean.cli.targets import NAMES as NAMES_OF_TARGETS
from noisymean.cli.tones import marked
from noisymean.cli.where import Where
from noisymean.errors import InvalidInput
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.protocol import Target
from noisymean.targets.registry import first_word

_Text: TypeAlias = str | None


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help=f"What is audited: {', '.join(NAMES_OF_TARGETS)}.",
            autocompletion=options.from_names(NAMED),
        ),
    ],
    *,
    typed: Typed,
    trials: Annotated[
        _Text, text("COUNT", "Number of runs in all, half on each dataset [default: 10000; of opacus --data 1000].")
    ] = None,
    confidence: Annotated[str, text("P", "Probability with which all printed limits hold together.")] = "0.95",
    delta: Annotated[str, text("d", "The delta at which epsilon is wanted.")] = "1e-5",
    claim_epsilon: Annotated[_Text, text("e", "Audit this claim instead of the target's own.")] = None,
    claim_delta: Annotated[_Text, text("d", "The delta of --claim-epsilon [default: 0].")] = None,
    distinguisher_name: Annotated[
        _Text,
        text(
            "NAME",
            f"{', '.join(NAMES)} [default: the best that is possible].",
            "--distinguisher",
            autocompletion=options.from_names(NAMES),
        ),
    ] = None,
    test: Annotated[
        _Text,
        text(
            "NAME",
            "With --distinguisher paper, its test of normality: ks, chi2, ad or shapiro [default: ks].",
            autocompletion=options.of_option("test"),
        ),
    ] = None,
    seed: Annotated[
        _Text, text("S", "Random seed: the same seed gives the same result [default: a fresh one, printed].")
    ] = None,
    where: Where,
    store: Annotated[_Text, text("FILE", "Store finished trials in this file.")] = None,
    resume: Annotated[bool, options.flag("--resume", "Go on from the trials that --store has.")] = False,
    limits: gate.LimitsOfAudit,
    gdp: Annotated[
        bool,
        options.flag("--gdp", "Also print a bound that is valid only if the two outputs are Gaussian (parametric)."),
    ] = False,
    json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """Run a mechanism on two neighbouring datasets and see whether it keeps its claim.

    An attacker guesses from each release whether the dataset had one record more. How often the guesses are right bounds
    what is lost, at the stated confidence. Ctrl-C reports what is there so far; with --store, the audit can be resumed.

    \b
    Example:
      noisymean audit synthetic --mechanism easgm --dataset-size 4 --dimension 100 \\
          --sample-rate 0.05 --noise-multiplier 10 --seed 1
      noisymean audit synthetic --mechanism sgm --dataset-size 40 --dimension 2 --batch-size 4 \\
          --sampling shuffle --gradients opposed --noise-multiplier 1 --steps 10 --seed 1
    """
    gated = limits.gate()
    figure = None if plot is None else plot_file("plot", plot)
    count = values.whole("trials", trials or _usual_trials(target, typed))
    level, wanted_delta = values.number("confidence", confidence), values.number("delta", delta)
    check_levels(level, wanted_delta)
    if resume and store is None:
        raise Missing("store", "--resume goes on from it")
    kept = None if store is None else Store.at(Path(store))
    workers = where.workers(target)
    seen = where.seen(target)

    def built(number: int) -> tuple[Target, Distinguisher]:
        what = target_of(target, typed, number)
        what = replace(what, seen=seen) if isinstance(what, UserCallable) else what
        return what, _distinguisher(distinguisher_name, test, what)

    def digest(number: int) -> str:
        return Stages(*built(number), number, count).first().digest()

    if seed is not None:
        number = values.whole("seed", seed)
    elif resume and kept is not None:
        number = _stored_seed(kept, digest)
    else:
        number = secrets.randbits(32)
    what, judge = built(number)
    claim = claim_of(what, typed, claim_epsilon, claim_delta)
    if limits.fail_on_violation and claim is None:
        raise Missing(
            "claim_epsilon", f"nothing is claimed for {what.name}, so --fail-on-violation has nothing to judge"
        )
    # what is wrong is said before anything else is
    stages = Stages(what, judge, number, count)
    if seed is None:
        note(f"seed {number}")
    try:
        with _kept_is_said(kept, stages.kept_in, count), progress(count) as tell:
            result = audit(
                what,
                judge,
                seed=number,
                trials=count,
                confidence=level,
                delta=wanted_delta,
                claim=claim,
                workers=workers,
                store=kept,
                resume=resume,
                progress=tell,
            )
    except KeyboardInterrupt:
        # before there was anything to judge
        if kept is not None:
            _say_how_to_go_on(kept, stages.kept_in(kept), count, number)
        raise
    if figure is not None:
        write_plot("plot", result.plot(), figure)
        note(f"plot written to {figure}")
    note(f"{result.seconds:.1f} s")
    if json:
        emit_json(result.to_dict())
    else:
        _print(result, gdp=gdp)
    if result.interrupted:
        if kept is not None:
            _say_how_to_go_on(kept, result.finished, count, number)
        raise typer.Exit(INTERRUPTED)
    gated.check([gate.of_audit(result)])


@contextmanager
def _kept_is_said(kept: Store | None, finished: Callable[[Store], int], count: int) -> Iterator[None]:
    """One line says all of it: what went wrong, and what is kept."""
    try:
        yield
    except (FaultyTrial, ClusterGone) as fault:
        if kept is None:
            raise
        raise type(fault)(f"{fault}; {finished(kept):,} of {count:,} trials are in {kept.path}") from None


def _usual_trials(target: str, typed: Typed) -> str:
    """A training in full takes a fraction of a second for each step, and what it divides by shows in every release."""
    return "1000" if first_word(target) == "opacus" and typed.images is not None else "10000"


def _say_how_to_go_on(kept: Store, finished: int, count: int, seed: int) -> None:
    note(f"{finished:,} of {count:,} trials are in {kept.path}; add --resume --seed {seed} to go on")


def _print(result: Audit, *, gdp: bool) -> None:
    out = console()
    say(out, f"Audit of {result.target}")
    say(out, result.settings)
    lines = result.lines()
    show(out, columns_of(lines, numbers_from=1), lines.rows, gap_after=1)
    for sentence in result.sentences(parametric=gdp):
        say(out, sentence if result.verdict is None else marked(sentence, result.verdict.word.replace("-", " ")))


def _distinguisher(name: str | None, test: str | None, target: Target) -> Distinguisher:
    kind = values.choice("test", test or "ks", NormalityTest)
    if name is not None:
        typed, name = name, written_as(name, NAMES)
        if name is None:
            raise refused("distinguisher", typed)
    if test is not None and name != "paper":
        raise InvalidInput("test", test, "left out without --distinguisher paper", "it is the paper's normality test")
    return distinguisher(name, target, kind)


def _stored_seed(store: Store, digest: Callable[[int], str]) -> int:
    """The seed of the stored audit that is this one."""
    seeds = store.seeds()
    found = {seed for seed in seeds.values() if digest(seed) in seeds}
    if len(found) != 1:
        raise Missing("seed", f"{store.path} has {len(found) or 'no'} audits of these settings")
    return found.pop()
