"""The options that commands share, as typer wants them.

Every value arrives as the text that was typed and `values` turns it into a number: so a rate stays exact, a complaint can show
what the user wrote, and its wording does not depend on the version of typer.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from noisymean.accounts import Pair
from noisymean.cli.mechanism import MECHANISMS, Calibrated
from noisymean.cli.wants import refused
from noisymean.errors import InvalidInput
from noisymean.mechanisms import Adjacency


def _complete_mechanism(incomplete: str) -> list[str]:
    return [name for name in MECHANISMS if name.startswith(incomplete)]


MechanismName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--mechanism",
        metavar="NAME",
        autocompletion=_complete_mechanism,
        show_default=False,
        help=f"What runs, by its denominator: {', '.join(f'{name} ({kind.denominator})' for name, kind in MECHANISMS.items())}.",
    ),
]
DatasetSize: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dataset-size",
        metavar="N",
        help="Records: of your dataset for a whole run, of the smaller of two neighbours for one round; optional for sgm only.",
    ),
]
Dimension: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dimension", metavar="n", help="Numbers released a round: trainable parameters; optional for sgm only."
    ),
]
SampleRate: TypeAlias = Annotated[
    str | None,
    typer.Option("--sample-rate", metavar="q", help="Poisson rate, taken exactly as written: 0.005 or 1/200."),
]
BatchSize: TypeAlias = Annotated[
    str | None,
    typer.Option("--batch-size", metavar="b", help="Expected batch size, instead of the rate: q = b/N exactly."),
]
NoiseMultiplier: TypeAlias = Annotated[
    str,
    typer.Option(
        "--noise-multiplier",
        metavar="s",
        show_default=False,
        help="Standard deviation of the noise over the clipping bound.",
    ),
]
OptionalNoise: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--noise-multiplier",
        metavar="s",
        help="Standard deviation of the noise over the clipping bound; or --calibrated-to for opacus-loader.",
    ),
]
DropLast: TypeAlias = Annotated[
    bool, typer.Option("--drop-last", help="opacus-loader: the data loader drops its last batch, L = floor(N/b).")
]
CalibratedTo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--calibrated-to",
        metavar="e",
        help="opacus-loader: the epsilon that make_private_with_epsilon was told, instead of the noise: it depends on N then.",
    ),
]
CalibratedDelta: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--calibrated-delta", metavar="d", help="And the delta; 1/N if it was one over the number of records."
    ),
]
CalibratedEpochs: TypeAlias = Annotated[
    str | None, typer.Option("--calibrated-epochs", metavar="E", help="And the epochs.")
]
CalibratedWith: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--calibrated-with", metavar="NAME", help="And the accountant of the engine: prv, rdp or gdp [default: prv]."
    ),
]
Alpha: TypeAlias = Annotated[
    str | None,
    typer.Option("--alpha", metavar="A,B,...", help="False positive rates, separated by commas: 0.01,0.1,0.5."),
]
Points: TypeAlias = Annotated[
    str | None,
    typer.Option("--points", metavar="COUNT", help="So many false positive rates from 0 to 1 [default: 201]."),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output and nothing else there.")
]
Plot: TypeAlias = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the curves into FILE.png, FILE.svg or FILE.pdf.")
]
Steps: TypeAlias = Annotated[
    str | None, typer.Option("--steps", metavar="T", help="Rounds: noisy updates that are released.")
]
Epochs: TypeAlias = Annotated[
    str | None, typer.Option("--epochs", metavar="E", help="Passes over the data, instead of --steps: 1/q rounds each.")
]
Delta: TypeAlias = Annotated[
    str | None, typer.Option("--delta", metavar="d", help="The delta at which epsilon is wanted.")
]
RequiredDelta: TypeAlias = Annotated[
    str, typer.Option("--delta", metavar="d", show_default=False, help="The delta of the target.")
]
Epsilon: TypeAlias = Annotated[
    str | None, typer.Option("--epsilon", metavar="e", help="Ask for delta at this epsilon instead.")
]
TargetEpsilon: TypeAlias = Annotated[
    str, typer.Option("--target-epsilon", metavar="e", show_default=False, help="The epsilon to reach.")
]
AdjacencyName: TypeAlias = Annotated[
    str,
    typer.Option("--adjacency", metavar="NAME", help=f"Neighbours: {', '.join(kind.value for kind in Adjacency)}."),
]


PairName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--pair",
        metavar="NAME",
        help="Look at one neighbour only: smaller (a record removed) or larger (one added) [default: the worse of both].",
    ),
]


def calibrated_of(
    epsilon: str | None, delta: str | None, epochs: str | None, accountant: str | None
) -> Calibrated | None:
    """What make_private_with_epsilon was told, if it was used."""
    if epsilon is not None:
        return Calibrated(epsilon, delta, epochs, accountant)
    for name, value in (("calibrated_delta", delta), ("calibrated_epochs", epochs), ("calibrated_with", accountant)):
        if value is not None:
            raise InvalidInput(name, value, "left out without --calibrated-to", "the noise is given")
    return None


def pair_of(text: str | None) -> Pair | None:
    """The neighbour of that name."""
    try:
        return None if text is None else Pair(text)
    except ValueError:
        raise refused("pair", text) from None


def adjacency_of(text: str) -> Adjacency:
    """The adjacency of that name."""
    try:
        return Adjacency(text)
    except ValueError:
        raise refused("adjacency", text) from None
