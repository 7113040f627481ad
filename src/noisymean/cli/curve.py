"""`noisymean curve`: every trade-off curve of one round."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.table import Table

from noisymean import __version__
from noisymean.cli import options, values
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.output import console, emit_json, finite, listed, note, plot_file, say, shown, write_plot
from noisymean.cli.verdict import Verdict, judge, remark
from noisymean.errors import InvalidInput
from noisymean.mechanisms import Mechanism, OpacusLoader
from noisymean.one_round import Curves
from noisymean.one_round import curve as compute
from noisymean.outward import at_least, at_most
from noisymean.report import plots

_POINTS = 201
# The rows of the table when nobody asked for certain ones.
_REPRESENTATIVE = (0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)


def command(
    mechanism: options.MechanismName,
    noise_multiplier: options.NoiseMultiplier,
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    alpha: options.Alpha = None,
    points: options.Points = None,
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
    what = mechanism_of(
        name=mechanism,
        dataset_size=dataset_size,
        dimension=dimension,
        sample_rate=sample_rate,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
    )
    curves = _computed(what, alpha, points)
    verdict = judge(curves)
    if target is not None:
        write_plot("plot", plots.curve_figure(compute(what, plots.ALPHA)), target)
        note(f"plot written to {target}")
    if json:
        emit_json(record(curves, verdict))
    else:
        _print(curves, verdict, every_row=alpha is not None)


def _computed(mechanism: Mechanism, alpha: str | None, points: str | None) -> Curves:
    if alpha is None:
        return compute(mechanism, points=_POINTS if points is None else values.whole("points", points))
    if points is not None:
        raise InvalidInput("points", points, "left out when --alpha is given", "give one of the two")
    return compute(mechanism, values.probabilities("alpha", alpha))


def record(curves: Curves, verdict: Verdict) -> dict[str, object]:
    """The object of `--json`: first the contract's keys, then ours."""
    mechanism, limit, gap = curves.mechanism, curves.clt, verdict.gap
    return {
        "mechanism": mechanism.name,
        "alpha": listed(curves.alpha),
        "claimed": listed(curves.claimed),
        "guarantee": listed(curves.guarantee),
        "guarantee_tight": listed(curves.guarantee_tight),
        "ceiling": listed(curves.ceiling),
        "ceiling_clt": listed(curves.ceiling_clt),
        "leakage": listed(curves.leakage),
        "verdict": verdict.word,
        "largest_gap": None
        if gap is None
        else {
            "alpha": gap.alpha,
            "claimed": gap.claimed,
            "leakage": gap.leakage,
            "gap": gap.size,
            "pair": str(gap.pair),
        },
        "pair": str(curves.pair),
        "clt": None
        if limit is None
        else {name: finite(getattr(limit, name)) for name in ("kl", "kappa2", "kappa3", "mu", "gamma")},
        "settings": settings(mechanism),
        "notes": _notes(curves),
        "version": __version__,
    }


def settings(mechanism: Mechanism) -> dict[str, object]:
    """What was computed, in numbers; the exact rate as a fraction beside its float."""
    return {
        "dataset_size": mechanism.dataset_size,
        "dimension": mechanism.dimension,
        "sample_rate": mechanism.q,
        "sample_rate_exact": str(mechanism.rate),
        "noise_multiplier": mechanism.noise_multiplier,
        **(_loaded(mechanism) if isinstance(mechanism, OpacusLoader) else {}),
    }


def _loaded(mechanism: OpacusLoader) -> dict[str, object]:
    """What the data loader was, and what its noise was calibrated to."""
    dropping = ("drop_last",) if mechanism.drop_last else ()
    calibrated = ("target_epsilon", "target_delta", "epochs", "accountant") if mechanism.is_calibrated else ()
    return {name: getattr(mechanism, name) for name in ("batch_size", *dropping, *calibrated)}


def _print(curves: Curves, verdict: Verdict, *, every_row: bool) -> None:
    out = console()
    say(out, f"One round of {plots.settings_line(curves.mechanism, greek=False)}")
    out.print(_table(curves, np.arange(curves.alpha.size) if every_row else _chosen(curves)))
    say(out, verdict.sentence)
    for text in _notes(curves):
        say(out, text)


def _notes(curves: Curves) -> list[str]:
    """What a reader of the numbers must know besides."""
    unknown = f"No guarantee is known here: {curves.unknown}." if curves.unknown else None
    return [text for text in (remark(curves.mechanism), unknown) if text]


def _chosen(curves: Curves) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """The computed alpha nearest to the representative ones."""
    distance = np.abs(curves.alpha[:, None] - np.asarray(_REPRESENTATIVE))
    return np.unique(distance.argmin(axis=0))


def _table(curves: Curves, rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = {
        "claimed": (curves.claimed, at_least),
        "guarantee": (curves.guarantee, at_least),
        "tight": (curves.guarantee_tight, at_least),
        "ceiling": (curves.ceiling, at_most),
        "leakage": (curves.leakage, at_most),
    }
    for name in ("alpha", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(
            f"{curves.alpha[row]:.6g}",
            *("-" if column is None else shown(column[row], rounded) for column, rounded in columns.values()),
            "violated" if curves.violated[row] else "",
            style="bold" if curves.violated[row] else None,
        )
    return table
