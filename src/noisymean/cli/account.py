"""`noisymean account`: a whole run, claimed, leaked and guaranteed, side by side."""

from __future__ import annotations

from typing import Annotated

from noisymean import __version__
from noisymean.accountant import alternatives
from noisymean.accounts import Account, Pair, PairBounds
from noisymean.cli import gate, options, values
from noisymean.cli.complaints import Missing, OutOfPlace
from noisymean.cli.output import console, emit_json, note, plot_file, say, write_plot
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, show
from noisymean.cli.tones import marked
from noisymean.errors import InvalidInput
from noisymean.integrations.reported import not_installed, reported
from noisymean.mechanisms import Adjacency, Mechanism, Sampling
from noisymean.outward import lower_bound, upper_bound
from noisymean.report import account_words, run_plots
from noisymean.report.asked_run import AskedRun
from noisymean.words import BEYOND_DOUBLES, NONE_KNOWN
from noisymean.written import short


def command(
    described: options.Described,
    asked: options.Asked,
    limits: gate.Limits,
    others: Annotated[
        bool, options.flag("--reported", "Also what Opacus' and dp_accounting's accountants report, where installed.")
    ] = False,
    json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """The epsilon of a whole run: what is claimed, what certainly leaks, what is guaranteed.

    N is the number of records of your dataset: one may be added or removed, and the worse of the two is the answer;
    --adjacency asks for other neighbours, and the answer names them.
    leakage <= truth <= guarantee, always; each is the larger of the two directions.

    \b
    Example:
      noisymean account --mechanism opacus-loader --dataset-size 60000 --batch-size 600 \\
          --dimension 26010 --noise-multiplier 1 --epochs 10 --delta 1e-5
    """
    wanted = limits.gate()
    target = None if plot is None else plot_file("plot", plot)
    run = run_of(described, asked)
    if target is not None and run.delta is None:
        raise InvalidInput("plot", plot, "used with --delta", "epsilon is drawn against steps at a fixed delta")
    if wanted.max_epsilon is not None and run.delta is None:
        raise InvalidInput(
            "max_epsilon", limits.max_epsilon, "used with --delta", "epsilon is compared at a fixed delta"
        )
    if others and run.delta is None:
        raise OutOfPlace("--reported", "used with --delta", "accountants report epsilon at a delta")
    answer = run.account()
    peers = reported(run.mechanism, steps=run.steps, delta=run.delta) if others and run.delta is not None else {}
    if others:
        _say_who_is_absent(bool(peers))
    elsewhere = run.elsewhere()
    if target is not None and run.delta is not None:
        with bar("epsilon against steps", min(run_plots.POINTS, run.steps)) as tell:
            figure = run_plots.account_figure(
                answer.drawn,
                run.steps,
                run.delta,
                progress=lambda _: tell(advance=1),
                adjacency=answer.adjacency,
            )
        write_plot("plot", figure, target)
        note(f"plot written to {target}")
    if json:
        emit_json(record(answer, elsewhere, peers, run.pair))
    else:
        _print(answer, elsewhere, peers)
    wanted.check([gate.of_account(answer)])


def run_of(described: options.Described, asked: options.Asked) -> AskedRun:
    """The run that the text of these options describes."""
    mechanism = described.build()
    steps = steps_of(mechanism, asked.steps, asked.epochs)
    wanted = values.read(delta=asked.delta, epsilon=asked.epsilon)
    if not wanted:
        raise Missing("delta", "or --epsilon")
    if len(wanted) > 1:
        raise InvalidInput("epsilon", asked.epsilon, "left out when --delta is given", "give either, not both")
    typed = asked.adjacency
    adjacency = None if typed is None else values.choice("adjacency", typed, Adjacency)
    pair = None if asked.pair is None else values.choice("pair", asked.pair, Pair)
    return AskedRun(mechanism, steps, adjacency=adjacency, pair=pair, **wanted)


def steps_of(mechanism: Mechanism, steps: str | None, epochs: str | None) -> int:
    """T as typed, or what so many epochs take."""
    if steps is not None and epochs is not None:
        raise InvalidInput("epochs", epochs, "left out when --steps is given", "give either, not both")
    if steps is not None:
        return values.whole("steps", steps)
    if epochs is None:
        raise Missing("steps", "or --epochs")
    number = values.number("epochs", epochs)
    if number <= 0.0:
        raise InvalidInput("epochs", epochs, "> 0")
    return mechanism.steps_in(number)


def record(
    answer: Account, elsewhere: tuple[int, Account] | None, peers: dict[str, float], asked_pair: Pair | None
) -> dict[str, object]:
    """The object of `--json`: the contract's keys, then what the command adds."""
    other = None
    if elsewhere is not None:
        size, plain = elsewhere[0], elsewhere[1].to_dict()
        other = {"dataset_size": size, **{key: plain[key] for key in ("claimed", "leakage", "guarantee", "verdict")}}
    return {
        **answer.to_dict(),
        "asked_pair": None if asked_pair is None else asked_pair.value,
        "asked_adjacency": answer.adjacency.value if answer.adjacency_told else None,
        "grounds": [one.plain() for one in account_words.grounds(answer)],
        "reported": peers,
        "elsewhere": other,
        "remedies": [
            {"sampling": one.sampling.value, "adjacency": one.adjacency.value, "guarantee": one.to_dict()["guarantee"]}
            for one in alternatives(answer)
        ],
        "version": __version__,
    }


def _print(answer: Account, elsewhere: tuple[int, Account] | None, peers: dict[str, float]) -> None:
    out = console()
    say(out, answer.heading)
    columns = (
        Column(""),
        Column("epsilon" if answer.asked_delta else "delta", Kind.NUMBER),
        Column("what it is", Kind.PROSE),
    )
    rows = [
        (name, account_words.number(answer, name), meaning) for name, meaning in account_words.meanings(answer).items()
    ]
    rows += [(name, short(value), "reported by that accountant") for name, value in peers.items()]
    show(out, columns, rows)
    say(out, marked(_sentence(answer), answer.verdict))
    if answer.guarantee.proof is not None:
        say(out, f"- the guarantee is proved by: {answer.guarantee.proof}.")
    for text in answer.notes:
        say(out, f"- {text}.")
    if len(answer.neighbours) > 1:
        say(out, f"- {'; '.join(_of_neighbour(answer, one) for one in answer.neighbours)}.")
    if elsewhere is not None:
        size, other = elsewhere
        leaked, claimed = (account_words.number(other, which) for which in ("leakage", "claimed"))
        say(out, f"- {account_words.at_another_size(f'{size:,}', leaked, claimed, other)}.")
    say(out, f"- {account_words.all_typed(account_words.grounds(answer))}.")


def _say_who_is_absent(answered: bool) -> None:
    """An accountant that is not asked, or that gives no answer, is no answer of zero."""
    absent = not_installed()
    each = "; ".join(f"{package}: pip install 'noisymean[{extra}]'" for package, extra in absent.items())
    if each:
        note(f"--reported: not installed, and so not asked: {each}")
    elif not answered:
        note("--reported: no accountant that is installed gives a number for this run")


def _of_neighbour(answer: Account, one: PairBounds) -> str:
    leaked, sound = answer.value(one.leakage), answer.value(one.guarantee)
    return (
        f"one record {one.pair.change}: leakage {BEYOND_DOUBLES if leaked is None else lower_bound(leaked, '.6g')},"
        f" guarantee {NONE_KNOWN if sound is None else upper_bound(sound, '.6g')}"
    )


def _sentence(answer: Account) -> str:
    match answer.verdict:
        case "violated":
            # the code may be right where the claim is only made for the wrong neighbours
            lost = account_words.lost_and_claimed(answer)
            return f"The claim is violated: {lost}, on this pair: {answer.leakage.pair}.{_remedy(answer)}"
        case "holds":
            return f"The claim holds, {answer.condition}: the guarantee is no larger."
        case "undetermined":
            neither = "The claim is undetermined: no pair we know violates it, no proof we know supports it."
            if answer.holds_for_others:
                return (
                    f"The claim is undetermined: the guarantee is no larger, {answer.condition}, and nobody has said that the"
                    f" claim is for these: say --adjacency {answer.adjacency.value} if it is."
                )
            return neither if answer.sampling is Sampling.POISSON else f"{neither}{_remedy(answer)}"


def _remedy(answer: Account) -> str:
    # the code may be right where the claim is only made for the wrong neighbours
    if answer.adjacency is Adjacency.REPLACE_ONE and answer.sampling is Sampling.POISSON:
        return ""
    return f" Remedy: {account_words.remedy(answer)}."
