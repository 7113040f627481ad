"""`noisymean account`: a whole run, claimed, leaked and guaranteed, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Table

from noisymean import __version__
from noisymean.accountant import account as compute
from noisymean.accounts import Account, Pair, PairBounds
from noisymean.cli import gate, options, values
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.output import (
    console,
    emit_json,
    error_console,
    note,
    plot_file,
    said_beside_a_bar,
    say,
    write_plot,
)
from noisymean.cli.wants import Missing
from noisymean.errors import InvalidInput
from noisymean.grounds import Ground
from noisymean.integrations.reported import reported
from noisymean.mechanisms import Adjacency, Mechanism, OpacusLoader
from noisymean.outward import at_least, at_most
from noisymean.report import run_plots, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def command(
    mechanism: options.MechanismName,
    noise_multiplier: options.OptionalNoise = None,
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    drop_last: options.DropLast = False,
    calibrated_to: options.CalibratedTo = None,
    calibrated_delta: options.CalibratedDelta = None,
    calibrated_epochs: options.CalibratedEpochs = None,
    calibrated_with: options.CalibratedWith = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    delta: options.Delta = None,
    epsilon: options.Epsilon = None,
    adjacency: options.AdjacencyName = Adjacency.ADD_REMOVE.value,
    pair: options.PairName = None,
    others: Annotated[
        bool, typer.Option("--reported", help="Also ask the accountants of the packages that are installed.")
    ] = False,
    fail_on_violation: gate.FailOnViolation = False,
    max_epsilon: gate.MaxEpsilon = None,
    json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """The epsilon of a whole run: what is claimed, what certainly leaks, what is guaranteed.

    N is the number of records of your dataset: one may be added or removed, and the worse of the two is the answer.
    leakage <= truth <= guarantee, always; each is the larger of the two directions.

    \b
    Example:
      noisymean account --mechanism opacus-loader --dataset-size 60000 --batch-size 600 \\
          --dimension 26010 --noise-multiplier 1 --epochs 10 --delta 1e-5
    """
    wanted = gate.Gate.of(fail_on_violation, max_epsilon)
    target = None if plot is None else plot_file("plot", plot)
    what = mechanism_of(
        name=mechanism,
        dataset_size=dataset_size,
        dimension=dimension,
        sample_rate=sample_rate,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
        drop_last=drop_last,
        calibrated=options.calibrated_of(calibrated_to, calibrated_delta, calibrated_epochs, calibrated_with),
    )
    count = steps_of(what, steps, epochs)
    at = values.number("delta", delta) if delta is not None else None
    budget = values.number("epsilon", epsilon) if epsilon is not None else None
    if at is None and budget is None:
        raise Missing("delta", "or --epsilon")
    if at is not None and budget is not None:
        raise InvalidInput("epsilon", epsilon, "left out when --delta is given", "give one of the two")
    if target is not None and at is None:
        raise InvalidInput("plot", plot, "used with --delta", "epsilon is drawn against steps at a fixed delta")
    if wanted.max_epsilon is not None and at is None:
        raise InvalidInput("max_epsilon", max_epsilon, "used with --delta", "epsilon is compared at a fixed delta")
    which = options.pair_of(pair)
    answer = compute(what, steps=count, delta=at, epsilon=budget, adjacency=options.adjacency_of(adjacency), pair=which)
    peers = reported(what, steps=count, delta=at) if others and at is not None else {}
    elsewhere = elsewhere_of(what, answer, count, options.adjacency_of(adjacency))
    if target is not None and at is not None:
        write_plot("plot", _figure(answer.drawn, count, at), target)
        note(f"plot written to {target}")
    if json:
        rests_on = told.grounds(answer)
        emit_json(record(answer, elsewhere, peers, which, rests_on))
    else:
        _print(answer, elsewhere, peers, options.adjacency_of(adjacency))
    wanted.check([gate.of_account(answer)])


def steps_of(mechanism: Mechanism, steps: str | None, epochs: str | None) -> int:
    """T as typed, or what so many epochs take: as Opacus counts them for its loader, 1/q each for the rest."""
    if (steps is None) == (epochs is None):
        if steps is None:
            raise Missing("steps", "or --epochs")
        raise InvalidInput("epochs", epochs, "left out when --steps is given", "give one of the two")
    if steps is not None:
        return values.whole("steps", steps)
    number = values.number("epochs", str(epochs))
    if number <= 0.0:
        raise InvalidInput("epochs", epochs, "> 0")
    if isinstance(mechanism, OpacusLoader):
        return math.ceil(number * mechanism.run(mechanism.dataset_size).steps_per_epoch)
    return math.ceil(number / float(mechanism.rate))


def elsewhere_of(
    mechanism: Mechanism, answer: Account, steps: int, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> tuple[int, Account] | None:
    """The answer for another N where that says more, because a guarantee is for every dataset."""
    other = mechanism.telling_size()
    if other is None or adjacency is not Adjacency.ADD_REMOVE:
        # between neighbours of one size no other size comes up
        return None
    delta, epsilon = (answer.claimed.delta, None) if answer.asked_delta else (None, answer.claimed.epsilon)
    return other, compute(mechanism.resized(other), steps=steps, delta=delta, epsilon=epsilon)


def _figure(mechanism: Mechanism, steps: int, delta: float) -> Figure:
    with Progress(
        said_beside_a_bar("epsilon against steps"),
        BarColumn(),
        TimeRemainingColumn(),
        console=error_console(),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=min(run_plots.POINTS, steps))
        return run_plots.account_figure(mechanism, steps, delta, progress=lambda _: bar.advance(task))


def record(
    answer: Account,
    elsewhere: tuple[int, Account] | None,
    peers: dict[str, float],
    asked_pair: Pair | None = None,
    rests_on: Sequence[Ground] = (),
) -> dict[str, object]:
    """The object of `--json`: the contract's keys, then what the command adds."""
    other = None if elsewhere is None else elsewhere[1].to_dict()
    return {
        **answer.to_dict(),
        "asked_pair": None if asked_pair is None else asked_pair.value,
        "grounds": [one.plain() for one in rests_on],
        "reported": peers,
        "elsewhere": None
        if elsewhere is None or other is None
        else {
            "dataset_size": elsewhere[0],
            **{name: other[name] for name in ("claimed", "leakage", "guarantee", "verdict")},
        },
        "version": __version__,
    }


def _print(
    answer: Account, elsewhere: tuple[int, Account] | None, peers: dict[str, float], adjacency: Adjacency
) -> None:
    out = console()
    say(out, answer.heading)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("epsilon" if answer.asked_delta else "delta", justify="right")
    table.add_column("what it is")
    rows = (
        ("claimed", answer.claimed, at_most, "what an accountant of the noisy sum reports"),
        ("leakage", answer.leakage, at_least, "certainly lost: an explicit pair of datasets proves it"),
        ("guarantee", answer.guarantee, at_most, told.guaranteed(answer)),
    )
    for name, bound, rounded, words in rows:
        value = answer.value(bound)
        table.add_row(name, "none known" if value is None else rounded(value), words)
    for name, value in peers.items():
        table.add_row(name, f"{value:.6g}", "reported by that accountant")
    out.print(table)
    say(out, _sentence(answer, adjacency))
    for text in answer.notes:
        say(out, f"- {text}.")
    if len(answer.neighbours) > 1:
        say(out, f"- {'; '.join(_of_neighbour(answer, one) for one in answer.neighbours)}.")
    if elsewhere is not None:
        size, other = elsewhere
        leaked, claim = _leaked_and_claimed(other)
        say(out, f"- at N = {size} instead, the leakage is {leaked} (claimed {claim}): {told.spoken(other)}.")
    say(out, f"- {told.short(told.grounds(answer))}.")


def _of_neighbour(answer: Account, one: PairBounds) -> str:
    leaked, sound = answer.value(one.leakage), answer.value(one.guarantee)
    return (
        f"one record {one.pair.change}: leakage {at_least(math.inf if leaked is None else leaked)},"
        f" guarantee {'none known' if sound is None else at_most(sound)}"
    )


def _leaked_and_claimed(answer: Account) -> tuple[str, str]:
    leaked, claim = answer.value(answer.leakage), answer.value(answer.claimed)
    return at_least(math.inf if leaked is None else leaked), at_most(math.inf if claim is None else claim)


def _remedy(adjacency: Adjacency) -> str:
    """What to change; nothing, where the claim is only made for the wrong neighbours."""
    return "" if adjacency is Adjacency.REPLACE_ONE else " Remedy: divide by a public constant."


def _sentence(answer: Account, adjacency: Adjacency) -> str:
    word = "epsilon" if answer.asked_delta else "delta"
    leaked, claim = _leaked_and_claimed(answer)
    match answer.verdict:
        case "violated":
            return (
                f"The claim is violated: at least {word} = {leaked} is lost where {claim} is claimed, "
                f"on this pair: {answer.leakage.pair}.{_remedy(adjacency)}"
            )
        case "holds":
            return f"The claim holds, {answer.condition}: the guarantee is no larger."
        case "undetermined":
            return "The claim is undetermined: no pair we know violates it, no proof we know supports it."
