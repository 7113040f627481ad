"""`noisymean curve`: every trade-off curve of one round."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from noisymean import __version__
from noisymean import curve as compute
from noisymean.cli import options, values
from noisymean.cli.output import console, emit_json, note, plot_file, say, write_plot
from noisymean.cli.tables import Column, Kind, show
from noisymean.cli.tones import marked, toned
from noisymean.curves import COLUMNS, Curves
from noisymean.errors import InvalidInput
from noisymean.report import plots

_POINTS = 201


def command(
    described: options.Described,
    alpha: Annotated[
        str | None, options.text("A,B,...", "False positive rates, separated by commas: 0.01,0.1,0.5.")
    ] = None,
    points: Annotated[
        str | None, options.text("COUNT", f"Number of false positive rates, from 0 to 1 [default: {_POINTS}].")
    ] = None,
    json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """Every trade-off curve of one round, and a verdict.

    claimed, guarantee, ceiling and leakage: each is a least false negative rate of telling D' (N + 1 records) from D
    (N records) at false positive rate alpha. The claim is false wherever the leakage is below it.

    \b
    Example:
      noisymean curve --mechanism easgm --dataset-size 59999 --dimension 26010 \\
          --sample-rate 0.005 --noise-multiplier 10 --plot curve.png
    """
    target = None if plot is None else plot_file("plot", plot)
    mechanism = described.build()
    if alpha is not None and points is not None:
        raise InvalidInput("points", points, "left out when --alpha is given", "give either, not both")
    if alpha is not None:
        curves = compute(mechanism, values.probabilities("alpha", alpha))
    else:
        curves = compute(mechanism, points=_POINTS if points is None else values.whole("points", points))
    if target is not None:
        write_plot("plot", plots.curve_figure(compute(mechanism, plots.ALPHA)), target)
        note(f"plot written to {target}")
    if json:
        emit_json({**curves.to_dict(), "version": __version__})
    else:
        _print(curves, every_row=alpha is not None)


def _print(curves: Curves, *, every_row: bool) -> None:
    out = console()
    say(out, curves.heading)
    which = np.arange(curves.alpha.size) if every_row else curves.representative()
    columns = [Column(name, Kind.NUMBER if name else Kind.NAME) for name in COLUMNS]
    show(out, columns, [(*numbers, toned(word)) for *numbers, word in curves.rows(which)])
    say(out, marked(curves.sentence, curves.verdict))
    for remark in curves.notes:
        say(out, remark)
