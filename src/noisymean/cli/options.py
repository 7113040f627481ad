"""The options that commands share, each declared once, and the groups of them that describe a mechanism or a run.

Every value arrives as the text that was typed and `values` turns it into a number: so a rate stays exact, a complaint can show
what the user wrote, and its wording does not depend on the version of typer. A command that takes a group has one parameter
for it; `spread` turns that into the options of the group, which is what typer reads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from noisymean.choices import completions
from noisymean.cli.complaints import WANTED, option
from noisymean.cli.mechanism import Calibrated, mechanism_of
from noisymean.errors import InvalidInput
from noisymean.mechanisms import KINDS, Adjacency, Mechanism, Sampling


def text(metavar: str, help: str, *names: str, **more: Any) -> typer.models.OptionInfo:
    """An option whose value is text; called as its parameter is, unless `names` say otherwise."""
    made: typer.models.OptionInfo = typer.Option(*names, metavar=metavar, help=help, **more)
    return made


def flag(name: str, help: str) -> typer.models.OptionInfo:
    """An option that is there or not."""
    made: typer.models.OptionInfo = typer.Option(name, help=help)
    return made


def from_names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Few names as `autocompletion`: what a shell may make of the beginning of one."""

    def complete(incomplete: str) -> list[str]:
        return completions(incomplete, known)

    return complete


def from_list_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The same for several names with commas between them: the last is completed, and none is offered twice."""

    def complete(incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        others = [one for one in known if one not in before]
        return [",".join([*before, one]) for one in completions(last, others)]

    return complete


def of_option(name: str) -> Callable[[str], list[str]]:
    """The same for an option whose names are in the table of complaints."""
    return from_names(WANTED[name].names)


_Text: TypeAlias = str | None
_DENOMINATORS = ", ".join(f"{name} ({kind.denominator})" for name, kind in KINDS.items())
# Options whose declaration is wanted by more than one command, or in more than one group.
MechanismName: TypeAlias = Annotated[
    _Text, text("NAME", f"What runs, by its denominator: {_DENOMINATORS}.", autocompletion=from_names(KINDS))
]
DatasetSize: TypeAlias = Annotated[
    _Text,
    text(
        "N",
        "Number of records in your dataset (for curve: in the smaller of two neighbours). Only sgm works without it.",
    ),
]
Dimension: TypeAlias = Annotated[
    _Text, text("n", "Number of trainable parameters: each round releases so many numbers. Only sgm works without it.")
]
SampleRate: TypeAlias = Annotated[
    _Text,
    text(
        "q",
        "Sampling rate, taken exactly as written: 0.005 or 1/200. Where an epoch is cut into batches: one over their number.",
    ),
]
BatchSize: TypeAlias = Annotated[
    _Text,
    text(
        "b",
        "Expected batch size, instead of --sample-rate: q = b/N exactly. Where all batches have one size: that size.",
    ),
]
SamplingName: TypeAlias = Annotated[
    _Text,
    text(
        "NAME",
        f"How batches are drawn: {', '.join(one.value for one in Sampling)} (balls-in-bins: random allocation)"
        " [default: poisson].",
        autocompletion=of_option("sampling"),
    ),
]
AdjacencyName: TypeAlias = Annotated[
    _Text,
    text(
        "NAME",
        f"Neighbours: {', '.join(kind.value for kind in Adjacency)} [default: add-remove; zero-out for sgm with"
        " shuffle, fixed-size or cyclic].",
        autocompletion=of_option("adjacency"),
    ),
]
Steps: TypeAlias = Annotated[_Text, text("T", "Number of rounds: noisy updates that are released.")]
Epochs: TypeAlias = Annotated[
    _Text,
    text(
        "E", "Number of passes over the data, instead of --steps. Each has 1/q rounds, or as many as there are batches."
    ),
]
Delta: TypeAlias = Annotated[_Text, text("d", "The delta at which epsilon is wanted.")]
Json: TypeAlias = Annotated[bool, flag("--json", "One JSON object on standard output and nothing else there.")]
Plot: TypeAlias = Annotated[_Text, text("FILE", "Draw the curves into FILE.png, FILE.svg or FILE.pdf.")]


# --- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options that belong together, as they were typed."""

    def typed(self) -> list[str]:
        """The part of the command line that says the same; empty where nothing was typed."""
        given = ((one.name, getattr(self, one.name)) for one in fields(self) if getattr(self, one.name) != one.default)
        return [part for name, value in given for part in (option(name), *(() if value is True else (value,)))]


@dataclass(frozen=True, kw_only=True)
class Quiet(Group):
    """A mechanism but for its noise."""

    mechanism: MechanismName = None
    dataset_size: DatasetSize = None
    dimension: Dimension = None
    sample_rate: SampleRate = None
    batch_size: BatchSize = None
    sampling: SamplingName = None

    def with_noise(self, noise_multiplier: str | None, **loader: Any) -> Mechanism:
        """The mechanism, with this noise; `loader` has what is known of a data loader."""
        sizes = {one.name: getattr(self, one.name) for one in fields(Quiet) if one.name != "mechanism"}
        return mechanism_of(name=self.mechanism, noise_multiplier=noise_multiplier, **sizes, **loader)


@dataclass(frozen=True, kw_only=True)
class Described(Quiet):
    """A mechanism with its noise."""

    noise_multiplier: Annotated[
        _Text,
        text(
            "s",
            "Standard deviation of the noise, divided by the clipping bound. For opacus-loader also --calibrated-to.",
        ),
    ] = None
    drop_last: Annotated[
        bool,
        flag("--drop-last", "For opacus-loader, shuffle and cyclic: the last batch is dropped if it is not full."),
    ] = False
    calibrated_to: Annotated[
        _Text,
        text(
            "e",
            "For opacus-loader, instead of the noise: target_epsilon of make_private_with_epsilon; the noise then follows N.",
        ),
    ] = None
    calibrated_delta: Annotated[
        _Text, text("d", "With --calibrated-to: its target_delta; 1/N if that was computed from the number of records.")
    ] = None
    calibrated_epochs: Annotated[_Text, text("E", "With --calibrated-to: its epochs.")] = None
    calibrated_with: Annotated[
        _Text,
        text(
            "NAME",
            "With --calibrated-to: the accountant of the engine, prv, rdp or gdp [default: prv].",
            autocompletion=of_option("calibrated_with"),
        ),
    ] = None

    def build(self) -> Mechanism:
        rest = {name: getattr(self, name) for name in ("calibrated_delta", "calibrated_epochs", "calibrated_with")}
        calibrated = None if self.calibrated_to is None else Calibrated(self.calibrated_to, *rest.values())
        for name, value in rest.items():
            if calibrated is None and value is not None:
                raise InvalidInput(name, value, "left out without --calibrated-to", "the noise is given")
        return self.with_noise(self.noise_multiplier, drop_last=self.drop_last, calibrated=calibrated)


@dataclass(frozen=True, kw_only=True)
class Asked(Group):
    """How long a run is, what is asked about it, and between which neighbours."""

    steps: Steps = None
    epochs: Epochs = None
    delta: Delta = None
    epsilon: Annotated[_Text, text("e", "Instead of --delta: ask for the delta at this epsilon.")] = None
    adjacency: AdjacencyName = None
    pair: Annotated[
        _Text,
        text(
            "NAME",
            "Look at one neighbour only: smaller (a record removed) or larger (one added) [default: the worse of both].",
            autocompletion=of_option("pair"),
        ),
    ] = None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with every parameter that is a group replaced by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            inner = get_type_hints(groups[name], include_extras=True)
            each = [(one.name, one.default, inner[one.name]) for one in fields(groups[name])]
        else:
            each = [(name, parameter.default, hints[name])]
        parameters += [
            inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for one, default, kind in each
        ]

    @functools.wraps(command)
    def run(**typed: Any) -> None:
        made = {name: kind(**{one.name: typed.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()}
        command(**made, **typed)

    # both are what typer looks at
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
