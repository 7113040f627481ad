"""Figures: what is in them, and that a file is whole or absent."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import noisymean as nm
from noisymean.errors import MissingDependency
from noisymean.report import plots
from noisymean.words import rate_text

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

SMALL = {"dataset_size": 4, "dimension": 20, "sample_rate": "0.7", "noise_multiplier": 2.0}
VIOLATED = nm.curve(nm.EASGM(**SMALL), np.linspace(0.0, 1.0, 41))  # type: ignore[arg-type]
EXACT = nm.curve(nm.SGM(sample_rate="1/3", noise_multiplier=1.0), np.linspace(0.0, 1.0, 41))
ALL_LABELS = {style.label for style in plots.STYLES} | {"claim violated"}


def legend_of(figure: Figure) -> set[str]:
    [legend] = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    return {text.get_text() for text in legend.get_texts()}


def test_every_curve_is_in_the_legend_and_the_axes_are_named() -> None:
    figure = plots.curve_figure(VIOLATED)
    assert legend_of(figure) == ALL_LABELS
    whole, below = figure.axes
    assert (whole.get_xlabel(), whole.get_ylabel()) == ("false positive rate α", "false negative rate β")
    assert below.get_xlabel() == "false positive rate α"
    assert figure.get_suptitle() == "EASGM: N = 4, n = 20, q = 0.7, σ = 2"


def test_what_does_not_exist_is_not_in_the_legend() -> None:
    figure = plots.curve_figure(EXACT)
    assert legend_of(figure) == {"claimed (SGM)", "leakage", "guarantee (paper)", "guarantee (tight)"}
    assert "all curves coincide" in [text.get_text() for text in figure.axes[1].texts]


def test_the_drawn_lines_are_the_curves() -> None:
    whole, below = plots.curve_figure(VIOLATED).axes
    for axes, sign in ((whole, 1.0), (below, -1.0)):
        lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.get_lines()}
        start = 0.0 if sign > 0.0 else VIOLATED.claimed
        np.testing.assert_allclose(lines["leakage"], start + sign * VIOLATED.leakage)
        np.testing.assert_allclose(lines["guarantee (tight)"], start + sign * VIOLATED.guarantee_tight)


def test_the_estimate_does_not_choose_the_scale() -> None:
    below = plots.curve_figure(VIOLATED).axes[1]
    assert below.get_ylim()[0] > -0.1


def test_curves_differ_in_more_than_colour() -> None:
    assert len({style.colour for style in plots.STYLES}) == len(plots.STYLES)
    assert len({(style.width, style.dashes) for style in plots.STYLES}) == len(plots.STYLES)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.02, 30_000.0, ["0.1", "1", "10", "100", "1,000", "10,000"]),
        (0.9, 6.0, ["1", "2", "5"]),
        (1e-7, 2e-5, ["10⁻⁷", "10⁻⁶", "10⁻⁵"]),
    ],
)
def test_powers_are_written_as_people_write_them(low: float, high: float, shown: list[str]) -> None:
    with plots.canvas(4.0, 3.0) as figure:
        axes = figure.subplots()
        axes.set(xscale="log", xlim=(low, high))
        plots.powers_as_written(axes.xaxis, low, high)
        FigureCanvasAgg(figure).draw()
        assert [one.get_text() for one in axes.get_xticklabels()] == shown
        assert axes.get_xlim() == (low, high)


def test_a_scale_of_many_powers_has_few_labels() -> None:
    with plots.canvas(4.0, 3.0) as figure:
        axes = figure.subplots()
        axes.set(yscale="log", ylim=(1e-3, 1e300))
        plots.powers_as_written(axes.yaxis, 1e-3, 1e300)
        assert 2 <= len(axes.get_yticks()) <= 10


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG\r\n\x1a\n"), ("svg", b"<?xml"), ("pdf", b"%PDF-")])
def test_files_are_what_they_say_and_the_same_each_time(suffix: str, magic: bytes, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (first, second):
        plots.save(plots.curve_figure(VIOLATED), path)
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()
    assert set(tmp_path.iterdir()) == {first, second}


def test_the_words_of_a_vector_file_are_words(tmp_path: Path) -> None:
    plots.save(plots.curve_figure(VIOLATED), tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    for words in (*ALL_LABELS, "false positive rate α", "false negative rate β", "EASGM: N = 4"):
        assert words in text


def test_a_fault_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(figure: Figure, stream: io.BufferedWriter, **_: object) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", interrupt)
    with pytest.raises(KeyboardInterrupt):
        plots.save(plots.curve_figure(VIOLATED), tmp_path / "curve.png")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plots.save(plots.curve_figure(VIOLATED), tmp_path / "none" / "curve.png")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r"noisymean\[plots\]"):
        plots.curve_figure(VIOLATED)


def test_no_global_state_is_touched(tmp_path: Path) -> None:
    source = str(Path(nm.__file__).parents[1])
    script = f"""
import sys
sys.path.insert(0, {source!r})
from pathlib import Path
import noisymean as nm
from noisymean.report import plots
assert 'matplotlib' not in sys.modules
curves = nm.curve(nm.SGM(sample_rate=0.5, noise_multiplier=1.0), points=5)
import matplotlib
before = [matplotlib.rcParams[name] for name in plots.TEXT]
plots.save(plots.curve_figure(curves), Path({str(tmp_path / "c.png")!r}))
assert [matplotlib.rcParams[name] for name in plots.TEXT] == before
assert 'matplotlib.pyplot' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Fraction(1, 200), "0.005"),
        (Fraction(1, 3), "1/3"),
        (Fraction(1), "1"),
        (Fraction(256, 60_000), "8/1875"),
        (Fraction(123_457, 987_654_321), "0.000125"),
    ],
)
def test_a_rate_is_shown_exactly_where_that_is_short(rate: Fraction, text: str) -> None:
    assert rate_text(rate) == text


def test_settings_in_one_line() -> None:
    assert EXACT.mechanism.in_a_line(greek=False) == "SGM: q = 1/3, sigma = 1"
