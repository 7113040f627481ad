"""`noisymean audit`: run a mechanism on two neighbouring datasets and see whether it keeps its claim."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich import box
from rich.table import Table

from noisymean import __version__
from noisymean.audit import Audit, Dask, Processes, Store, audit, distinguisher
from noisymean.audit.distinguishers import NAMES, Distinguisher, NormalityTest
from noisymean.audit.estimate import lower_hull
from noisymean.audit.runner import Workers
from noisymean.audit.trials import plan
from noisymean.cli import options, values
from noisymean.cli.faults import INTERRUPTED
from noisymean.cli.output import console, emit_json, finite, listed, note, plot_file, say, write_plot
from noisymean.cli.progress import progress
from noisymean.cli.targets import Typed, claim_of, target_of
from noisymean.cli.wants import Missing, refused
from noisymean.errors import InvalidInput
from noisymean.report import audit_plots
from noisymean.targets.protocol import Target
from noisymean.tradeoff import TradeOff

VIOLATED = 1
_Text: TypeAlias = str | None


def _option(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=text)
    return option


def command(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="What is audited: synthetic, or a callable of yours, FILE.py:NAME.")
    ],
    mechanism: Annotated[_Text, _option("--mechanism", "NAME", "For synthetic: as in 'noisymean curve'.")] = None,
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    noise_multiplier: Annotated[_Text, _option("--noise-multiplier", "s", "Noise over the clipping bound.")] = None,
    max_grad_norm: Annotated[_Text, _option("--max-grad-norm", "C", "Clipping bound [default: 0.1].")] = None,
    gradients: Annotated[
        _Text, _option("--gradients", "KIND", "random, zero, aligned or opposed [default: random].")
    ] = None,
    steps: options.Steps = None,
    trials: Annotated[str, _option("--trials", "COUNT", "Runs in all, half on each dataset.")] = "10000",
    confidence: Annotated[str, _option("--confidence", "P", "That all printed limits hold together.")] = "0.95",
    delta: Annotated[str, _option("--delta", "d", "The delta at which epsilon is wanted.")] = "1e-5",
    claim_epsilon: Annotated[_Text, _option("--claim-epsilon", "e", "Audit this claim instead.")] = None,
    claim_delta: Annotated[_Text, _option("--claim-delta", "d", "With --claim-epsilon [default: 0].")] = None,
    distinguisher_name: Annotated[
        _Text, _option("--distinguisher", "NAME", f"{', '.join(NAMES)} [default: the best that is possible].")
    ] = None,
    test: Annotated[_Text, _option("--test", "NAME", "Of the paper's: ks, chi2, ad or shapiro [default: ks].")] = None,
    seed: Annotated[_Text, _option("--seed", "S", "Same seed, same result [default: a fresh one, printed].")] = None,
    jobs: Annotated[str, _option("--jobs", "J", "Processes.")] = "1",
    dask: Annotated[_Text, _option("--dask", "ADDRESS", "Scheduler of a dask cluster, or local.")] = None,
    store: Annotated[_Text, _option("--store", "FILE", "Keep finished trials there.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what the store has.")] = False,
    fail_on_violation: Annotated[
        bool, typer.Option("--fail-on-violation", help="Exit with 1 if the claim is violated.")
    ] = False,
    gdp: Annotated[
        bool, typer.Option("--gdp", help="Also the bound that is valid only if the pair is Gaussian (parametric).")
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
    """
    figure = None if plot is None else plot_file("plot", plot)
    count = values.whole("trials", trials)
    level, wanted_delta = values.number("confidence", confidence), values.number("delta", delta)
    if resume and store is None:
        raise Missing("store", "--resume goes on from it")
    kept = None if store is None else Store.at(Path(store))
    workers = _workers(jobs, dask)

    def built(number: int) -> tuple[Target, Distinguisher, Typed]:
        typed = Typed(
            mechanism=mechanism,
            dataset_size=dataset_size,
            dimension=dimension,
            sample_rate=sample_rate,
            batch_size=batch_size,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            gradients=gradients,
            steps=steps,
            seed=number,
        )
        what = target_of(target, typed)
        return what, _distinguisher(distinguisher_name, test, what), typed

    def digest(number: int) -> str:
        what, judge, _ = built(number)
        return plan(what, judge, seed=number, trials=count).digest()

    if seed is not None:
        number = values.whole("seed", seed)
    elif resume and kept is not None:
        number = _stored_seed(kept, digest)
    else:
        number = secrets.randbits(32)
    what, judge, typed = built(number)
    claim = claim_of(what, typed, claim_epsilon, claim_delta)
    if seed is None:
        note(f"seed {number}")
    with progress(count) as tell:
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
    if figure is not None:
        write_plot("plot", audit_plots.audit_figure(result), figure)
        note(f"plot written to {figure}")
    note(f"{result.seconds:.1f} s")
    if json:
        emit_json(record(result))
    else:
        _print(result, gdp=gdp)
    if result.interrupted:
        if kept is not None:
            note(f"{result.finished:,} of {count:,} trials are in {kept.path}; add --resume --seed {number} to go on")
        raise typer.Exit(INTERRUPTED)
    if fail_on_violation and result.verdict is not None and result.verdict.word == "violated":
        raise typer.Exit(VIOLATED)


def _workers(jobs: str, dask: str | None) -> Workers:
    count = values.whole("jobs", jobs)
    return Processes(count) if dask is None else Dask(dask, Processes(count).count)


def _distinguisher(name: str | None, test: str | None, target: Target) -> Distinguisher:
    if test is not None and test not in {kind.value for kind in NormalityTest}:
        raise refused("test", test)
    if name is not None and name not in NAMES:
        raise refused("distinguisher", name)
    if test is not None and name != "paper":
        raise InvalidInput("test", test, "left out without --distinguisher paper", "it is the paper's normality test")
    return distinguisher(name, target, NormalityTest(test or "ks"))


def _stored_seed(store: Store, digest: Callable[[int], str]) -> int:
    """The seed of the stored audit that is this one."""
    seeds = store.seeds()
    found = {seed for seed in seeds.values() if digest(seed) in seeds}
    if len(found) != 1:
        raise Missing("seed", f"{store.path} has {len(found) or 'no'} audits of these settings")
    return found.pop()


def record(result: Audit) -> dict[str, object]:
    """The object of `--json`: first the contract's keys, then ours."""
    found, claim, truth = result.found, result.claim, result.reference
    alpha, beta = lower_hull(found.corner_alpha, found.corner_beta)
    return {
        "target": result.target,
        "trials": result.finished,
        "confidence": found.confidence,
        "alpha": found.alpha.record(),
        "beta": found.beta.record(),
        "epsilon_lower": finite(found.epsilon_lower),
        "delta_lower": found.delta_lower,
        "curve": {"alpha": listed(alpha), "beta": listed(beta)},
        "claimed": None
        if claim is None
        else {
            "epsilon": finite(_epsilon(claim, found.delta)),
            "delta": float(claim.delta(0.0)),
            "beta": listed(claim(alpha)),
        },
        "exact": None
        if truth is None
        else {
            "epsilon": finite(_epsilon(truth.curve, found.delta)) if truth.closed_form else None,
            "delta": truth.curve.advantage(),
            "beta": listed(truth.curve(alpha)),
            "method": truth.method,
            "standard_error": truth.standard_error,
        },
        "verdict": None if result.verdict is None else result.verdict.word,
        "seconds": result.seconds,
        "reason": None if result.verdict is None else result.verdict.reason,
        "power": result.power,
        "distinguisher": result.distinguisher,
        "judged": found.judged,
        "delta": found.delta,
        "paper": {"epsilon_lower": finite(found.paper.epsilon_lower), "delta_lower": found.paper.delta_lower},
        "gdp_parametric": {
            "mu_lower": finite(found.parametric.mu_lower),
            "epsilon_lower": finite(found.parametric.epsilon_lower),
        },
        "seed": result.plan.seed,
        "interrupted": result.interrupted,
        "configuration": result.plan.configuration(),
        "version": __version__,
    }


def _epsilon(curve: TradeOff, delta: float) -> float:
    """The larger of the two directions, as the audit's eps_L is."""
    if delta == 0.0:
        return float("inf")
    return max(curve.epsilon(delta), curve.inverse().epsilon(delta))


def _print(result: Audit, *, gdp: bool) -> None:
    out, found = console(), result.found
    say(out, f"Audit of {result.target}")
    say(out, _settings(result))
    out.print(_table(result))
    if result.distinguisher == "paper":
        paper = found.paper
        say(
            out,
            f"By the paper's own intervals: epsilon >= {paper.epsilon_lower:.4g}, delta(0) >= {paper.delta_lower:.4f}.",
        )
    if gdp:
        parametric = found.parametric
        say(
            out,
            f"Parametric, valid only if the pair is Gaussian: mu >= {parametric.mu_lower:.4g},"
            f" epsilon >= {parametric.epsilon_lower:.4g}; no verdict uses it.",
        )
    for sentence in _sentences(result):
        say(out, sentence)
    if found.judged < result.finished:
        say(out, f"{result.finished - found.judged:,} trials were learned from and {found.judged:,} judged.")


def _settings(result: Audit) -> str:
    finished = f"{result.finished:,} trials"
    if result.interrupted:
        finished = f"interrupted after {result.finished:,} of {result.plan.trials:,} trials"
    return (
        f"{result.distinguisher} distinguisher, {finished}, {100.0 * result.found.confidence:g} % confidence,"
        f" seed {result.plan.seed}"
    )


def _table(result: Audit) -> Table:
    found, claim, truth = result.found, result.claim, result.reference
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("audited", "claimed", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    exact_epsilon = "-" if truth is None or not truth.closed_form else f"{_epsilon(truth.curve, found.delta):.4g}"
    table.add_row(
        f"epsilon at delta = {found.delta:g}",
        f">= {found.epsilon_lower:.4g}",
        "-" if claim is None else f"{_epsilon(claim, found.delta):.4g}",
        exact_epsilon,
    )
    table.add_row(
        "delta at epsilon = 0",
        f">= {found.delta_lower:.4f}",
        "-" if claim is None else f"{float(claim.delta(0.0)):.4f}",
        "-" if truth is None else f"{truth.curve.advantage():.4f}",
        end_section=True,
    )
    for name, rate in (("false positive rate", found.alpha), ("false negative rate", found.beta)):
        table.add_row(name, f"{rate.estimate:.4f}  [{rate.lower:.4f}, {rate.upper:.4f}]", "", "")
    return table


def _sentences(result: Audit) -> list[str]:
    sentences = []
    if result.verdict is None:
        sentences.append("Nothing is claimed for this target, so there is no verdict; give --claim-epsilon.")
    elif result.verdict.word == "violated":
        sentences.append(f"The claim is violated: {result.verdict.reason}.")
    else:
        sentences.append(f"The claim is not violated: {result.verdict.reason}.")
    if result.power is not None and result.reference is not None:
        sentences.append(
            f"The audit shows {100.0 * result.power:.1f} % of the true delta(0) ({result.reference.method})."
        )
    return sentences
