"""Figures of the report: what is drawn where, that labels never lie on each other, and the script that draws them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from browser import browser_page
from noisymean.report import page
from noisymean.report.page import figures
from noisymean.report.page.axes import around, linear_ticks, log_ticks
from noisymean.report.page.figures import Values
from noisymean.report.page.pair_shown import gradients_of, symbols_of
from noisymean.report.page.range_figure import range_bars, range_block
from noisymean.report.page.rendering import environment
from noisymean.report.page.size_figure import against_size
from noisymean.report.ranges import Range
from noisymean.run_curves import Growth, RunCurves, in_the_corner, rare_curves, run_curves
from noisymean.size_curves import size_curve
from noisymean.verdict import Word

BEYOND = "more than double precision can hold"


def ranged(claimed: float | None, low: float | None, high: float | None, verdict: Word, label: str = "") -> Range:
    texts = [
        unknown if value is None else f"{value:.4g}"
        for value, unknown in ((claimed, BEYOND), (low, BEYOND), (high, "none known"))
    ]
    return Range(label, claimed, low, high, verdict, *texts)


# By what is odd about them.
RANGES: dict[str, list[Range]] = {
    "far apart": [ranged(0.7181, 362.4, 366.6, "violated")],
    "open": [ranged(0.7181, 362.4, None, "violated")],
    "all the same": [ranged(1.0, 1.0, 1.0, "holds")],
    "near": [ranged(1.2, 0.9, 1.3, "undetermined")],
    "beyond doubles": [ranged(0.7, None, None, "violated")],
    "zero": [ranged(0.0, 0.0, 0.0, "holds")],
    "nothing is known": [ranged(None, None, None, "undetermined")],
    "claim of zero": [ranged(0.0, 1e-3, 0.5, "violated")],
    "tiny": [ranged(1e-300, 1e-9, 0.5, "violated")],
    "open and near": [ranged(0.07181, 0.5511, None, "violated")],
    "nothing that can be drawn": [ranged(1e-306, 0.0, 1e-306, "holds")],
    "a claim beside the words": [ranged(1.829, 13.35, 13.38, "violated", "ASGM"), ranged(1.829, 2956.0, 2973.0, "violated", "B")],
    "several": [
        ranged(0.0141, 28.3, 31.0, "violated", "EASGM"),
        ranged(0.0141, 29.8, None, "violated", "FEASGM"),
        ranged(0.0141, 0.0141, 0.0142, "holds", "SGM"),
    ],
}  # fmt: skip


def drawn(ranges: list[Range], quantity: str = "ε") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(range_bars(ranges, quantity=quantity).to_json())
    return found


def marks(figure: dict[str, Any], symbol: str) -> list[dict[str, Any]]:
    return [one for one in figure["data"] if one["mode"] == "markers" and one["marker"]["symbol"] == symbol]


def test_a_range_goes_from_leakage_to_guarantee_and_the_claim_is_a_tick() -> None:
    figure = drawn(RANGES["far apart"])
    (bar,) = (one for one in figure["data"] if one["mode"] == "lines" and one["line"]["width"] > 10)
    assert bar["x"] == [362.4, 366.6]
    assert bar["line"]["dash"] == "solid"
    low, high, claim = marks(figure, "line-ns")
    assert (low["x"], high["x"], claim["x"]) == ([362.4], [366.6], [0.7181])
    assert claim["marker"]["size"] > low["marker"]["size"]
    assert figure["layout"]["xaxis"]["type"] == "log"
    start, end = figure["layout"]["xaxis"]["range"]
    assert start < math.log10(0.7181) < math.log10(366.6) < end
    said = [one["text"] for one in figure["layout"]["annotations"]]
    assert said == ["claimed <b>0.7181</b>", "at least<br><b>362.4</b>", "at most<br><b>366.6</b>"]


def test_what_is_not_known_is_an_open_end() -> None:
    figure = drawn(RANGES["open"])
    (arrow,) = marks(figure, "triangle-right")
    assert arrow["x"][0] == pytest.approx(10.0 ** figure["layout"]["xaxis"]["range"][1])
    (bar,) = (one for one in figure["data"] if one["mode"] == "lines" and one["line"]["width"] > 10)
    assert bar["line"]["dash"] != "solid"
    assert bar["x"][0] == 362.4
    assert any("none known" in one["text"] for one in figure["layout"]["annotations"])
    assert not marks(drawn(RANGES["far apart"]), "triangle-right")


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("quantity", ["ε", "δ"])
def test_every_range_is_inside_its_picture(name: str, quantity: str) -> None:
    figure = drawn(RANGES[name], quantity)
    axis = figure["layout"]["xaxis"]
    powers = axis["type"] == "log"
    start, end = (10.0**edge if powers else edge for edge in axis["range"])
    for one in figure["data"]:
        for x in one["x"]:
            assert start * (1 - 1e-9) - 1e-12 <= x <= end * (1 + 1e-9)
    assert len(axis["tickvals"]) == len(axis["ticktext"]) <= 7
    if quantity == "δ":
        assert max(axis["tickvals"]) <= 1.0


def test_close_numbers_are_on_an_even_scale_that_begins_below_zero() -> None:
    axis = drawn(RANGES["near"])["layout"]["xaxis"]
    assert axis["type"] == "linear"
    assert axis["range"][0] < 0.0 == axis["tickvals"][0]


def test_labels_never_lie_on_each_other(tmp_path: Path) -> None:
    """In a browser, on a phone and on a screen: ticks of each axis, and the words beside the marks."""
    blocks = [
        range_block(ranges, quantity=quantity, name=f"{quantity}-range-{index}", caption=name)
        for index, (name, ranges) in enumerate(RANGES.items())
        for quantity in ("ε", "δ")
    ]
    loader = nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0)
    sizes = size_curve(loader, steps=100, delta=1e-5)
    assert sizes is not None
    blocks.append(page.figure_block(against_size(sizes), name="sizes", caption="x", height="12rem"))
    blocks.append(
        page.figure_block(
            figures.rare_tradeoff(rare_curves(loader, steps=100)), name="rare", caption="x", height="12rem"
        )
    )
    text = '{% extends "base.html" %}{% block content %}{% for one in blocks %}{{ one }}{% endfor %}{% endblock %}'
    head = {"title": "x", "subtitle": "", "command": "", "date": "", "version": "", "python": "", "head": page.Head()}
    (tmp_path / "page.html").write_text(environment().from_string(text).render(blocks=blocks, **head))
    for width in (390, 1200):
        with browser_page(width=width, height=900) as seen:
            seen.page.goto((tmp_path / "page.html").as_uri())
            seen.page.wait_for_function(
                "[...document.querySelectorAll('.plot-area')].every(one => one.querySelector('.main-svg'))"
            )
            bad = seen.page.evaluate(
                """() => [...document.querySelectorAll("figure.plot")].flatMap(figure => {
                    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
                    // words, and the tick of a claim, the highest of the marks
                    const marks = [...figure.querySelectorAll(".point")].filter(one => one.getBoundingClientRect().height > 25);
                    const struck = [...figure.querySelectorAll(".annotation-text")].flatMap(one => marks
                        .filter(mark => figure.id.includes("-range") && meet(one.getBoundingClientRect(), mark.getBoundingClientRect()))
                        .map(() => `${figure.id}: ${one.textContent} on a tick`));
                    return struck.concat([".xtick text", ".ytick text", ".annotation-text"].flatMap(what => {
                        const found = [...figure.querySelectorAll(what)].map(one => [one.textContent, one.getBoundingClientRect()]);
                        return found.flatMap(([text, box], i) => found.slice(i + 1).filter(([, other]) => meet(box, other))
                            .map(([other]) => `${figure.querySelector("figcaption").textContent} (${figure.id}): ${text} / ${other}`));
                    }));
                })"""
            )
            assert not bad, (width, "; ".join(bad))
            seen.check()


def test_ticks_are_few_and_within() -> None:
    for low, high in ((0.05, 900.0), (0.9, 1.1), (1e-300, 1.0), (3.0, 4.0), (1e-9, 2e-9), (0.2, 30.0)):
        ticks = log_ticks(low, high, 6)
        assert 2 <= len(ticks) <= 7, (low, high)
        assert low * (1 - 1e-9) <= ticks[0] < ticks[-1] <= high * (1 + 1e-9)
    for low, high in ((0.0, 1e-300), (0.0, 7.2), (59_790.0, 60_200.0), (-3.0, 3.0)):
        ticks = linear_ticks(low, high, 5)
        assert 2 <= len(ticks) <= 6, (low, high)
        assert len(set(np.diff(ticks).round(6))) <= 2
    assert around([1.0, 100.0], 0.5, 0.5) == pytest.approx((0.1, 1000.0))


def test_curves_in_the_corner_are_drawn_on_powers() -> None:
    """q = 1 and sigma = sqrt(T)/20: N(0, 1) against N(20, 1), whose errors meet at Phi(-10) = 7.6e-24."""
    run = nm.SGM(sample_rate=1, noise_multiplier=5.0)
    wide, near = (run_curves(run, np.linspace(0.0, 1.0, 101), steps=steps) for steps in (10_000, 25))
    assert in_the_corner(wide)
    assert not in_the_corner(near)
    rare = rare_curves(run, steps=10_000)
    wrong = figures.rarely_wrong(rare)
    assert wrong is not None
    # an attacker of the pair: never below the truth, and near it
    assert 7.6e-24 <= wrong <= 1e-20
    figure = json.loads(figures.rare_tradeoff(rare).to_json())
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
    assert "10⁻³⁰" in figure["layout"]["xaxis"]["ticktext"]
    assert 1e-200 < 10.0 ** figure["layout"]["xaxis"]["range"][0] < wrong


def rates(
    leakage: Callable[[Values], Values], claimed: Callable[[Values], Values] = lambda alpha: 1.0 - alpha
) -> RunCurves:
    """Curves of one's own at rare rates."""
    alpha = 10.0 ** -np.linspace(300.0, 0.1, 121)
    return RunCurves(alpha, claimed(alpha), leakage(alpha), None)


@pytest.mark.parametrize("meeting", [1e-2, 1e-10, 1e-150, 1e-271, 1e-290])
def test_the_leakage_is_seen_wherever_the_errors_meet(meeting: float) -> None:
    """beta = meeting^2 / alpha in powers: both errors are the same at `meeting`; the axes reach further, and no double is left."""
    curves = rates(
        lambda alpha: np.minimum(1.0 - alpha, 10.0 ** np.maximum(2 * math.log10(meeting) - np.log10(alpha), -310))
    )
    wrong = figures.rarely_wrong(curves)
    assert wrong is not None
    assert meeting <= wrong * (1 + 1e-9) <= 1e3 * meeting
    figure = json.loads(figures.rare_tradeoff(curves).to_json())
    start, end = figure["layout"]["xaxis"]["range"]
    assert -300.0 <= start < math.log10(meeting) < end
    assert figure["layout"]["yaxis"]["range"] == [start, end]
    (leakage,) = (one for one in figures.rare_tradeoff(curves).data if one.name == "leakage")
    inside = (leakage.x > 10.0**start) & (leakage.y > 10.0**start)
    assert inside.sum() >= 2


def test_errors_beyond_doubles_are_below_the_picture() -> None:
    """Then it shows the claim, which is all that can be drawn."""
    gone = rates(np.zeros_like, claimed=lambda alpha: np.minimum(1.0 - alpha, 1e-4 / alpha))
    assert figures.rarely_wrong(gone) is None
    figure = figures.rare_tradeoff(gone)
    assert [one.name for one in figure.data if one.showlegend is not False] == ["claim violated", "claimed"]
    # the errors that are claimed meet at 1 %
    assert -8.0 < json.loads(figure.to_json())["layout"]["xaxis"]["range"][0] < -4.0


def test_curves_that_are_one_line_are_shown_by_their_distance() -> None:
    alpha = np.linspace(0.0, 1.0, 101)
    claim = np.maximum(1.0 - alpha - 0.001 * np.sqrt(alpha * (1.0 - alpha)), 0.0)
    less = claim - 0.002 * alpha * (1.0 - alpha)
    near = RunCurves(alpha, claim, less, less - 0.001 * alpha * (1.0 - alpha))
    assert figures.alike(near)
    assert figures.violated(near)
    figure = figures.below_the_claim(near)
    lines = {one.name: one.y for one in figure.data}
    assert lines["leakage"].max() == pytest.approx(0.0005)
    assert lines["guarantee"].max() == pytest.approx(0.00075)
    low, high = figure.layout.yaxis.range
    assert low < 0.0 < 0.00075 < high < 0.001
    same, far = RunCurves(alpha, claim, claim, claim), RunCurves(alpha, claim, np.maximum(claim - 0.1, 0.0), None)
    assert not figures.alike(same)
    assert not figures.alike(far)
    assert not figures.violated(same)


def test_nothing_is_drawn_against_steps_where_there_is_nothing() -> None:
    counts, nothing = np.array([1.0, 10.0]), np.zeros(2)
    some = np.array([0.5, 2.0])
    assert figures.grows(Growth(counts, some, nothing, some))
    assert not figures.grows(Growth(counts, nothing, nothing, nothing))
    assert not figures.grows(Growth(counts[:1], some[:1], some[:1], some[:1]))
    assert not figures.grows(Growth(counts, nothing, nothing, np.full(2, np.nan)))


def test_leakage_at_rare_rates_is_an_attack() -> None:
    """Between the closed form of two Gaussians, which no test can beat, and ten times it where it is drawn."""
    from scipy.stats import norm

    rare = rare_curves(nm.SGM(sample_rate=1, noise_multiplier=5.0), steps=2_500)
    exact = norm.cdf(norm.isf(rare.alpha) - 10.0)
    drawn_there = (rare.alpha > 1e-20) & (exact > 1e-20)
    assert drawn_there.sum() > 5
    assert np.all(rare.leakage[drawn_there] >= exact[drawn_there] * (1.0 - 1e-6))
    assert np.all(rare.leakage[drawn_there] <= 10.0 * exact[drawn_there])


def values_of(drawn: Any) -> list[float]:
    """Numbers as plotly writes them: a list, or bytes."""
    if isinstance(drawn, dict):
        return list(np.frombuffer(base64.b64decode(drawn["bdata"]), dtype=drawn["dtype"]))
    return list(drawn)


def test_the_users_own_number_of_records_is_marked() -> None:
    mechanism = nm.FEASGM(dataset_size=140_250, dimension=26_010, sample_rate="1/200", noise_multiplier=10.0)
    found = size_curve(mechanism, steps=200, delta=1e-5)
    assert found is not None
    made = against_size(found)
    figure = json.loads(made.to_json())
    assert [one["text"].strip() for one in figure["layout"]["annotations"]] == ["your N = 140,250"]
    assert figure["layout"]["shapes"][0]["x0"] == 140_250
    leaks = {one["name"]: one for one in figure["data"] if str(one.get("name")).startswith("leakage, ")}
    assert set(leaks) == {"leakage, violated", "leakage, holds"}
    # every mark is at the number that the accountant certifies, and what is said of it is on its own side
    answers = dict(found.answers)
    for one in leaks.values():
        for size, text in zip(values_of(one["x"]), one["text"], strict=True):
            certified = answers[int(size)].leakage.epsilon
            assert certified is not None
            assert 0.99 * certified <= float(text) <= certified
    marked = {trace.name: trace for trace in made.data if trace.name}
    for name, least, most in (("guarantee", 1.0, 1.01), ("claimed", 1.0, 1.01)):
        for size, height, text in zip(marked[name].x, marked[name].y, marked[name].text, strict=True):
            assert height == getattr(answers[int(size)], name).epsilon
            assert least * height <= float(text) <= most * height
    for trace in made.data:
        if str(trace.name).startswith("leakage, "):
            assert list(trace.y) == [answers[int(size)].leakage.epsilon for size in trace.x]
            sizes = dict(zip(trace.x, trace.marker.size, strict=True))
            assert all((height > 10) == (size == 140_250) for size, height in sizes.items())
    # a stem for each, and nothing between them
    (stems,) = (one for one in made.data if one.mode == "lines" and one.name is None)
    assert np.isnan(stems.y[2::3]).all()
    assert list(stems.x[::3]) == [size for size, _ in found.answers]


def test_a_pair_is_shown_record_by_record() -> None:
    from noisymean.pairs import ALL_ZERO, Added, AddedAcross, Alternating, Replaced, ReplacedAmong

    assert gradients_of(ALL_ZERO) == [("every record of D", "0"), ("the one more that D' has", "C·u")]
    assert gradients_of(Added(1.0, -0.25))[1] == ("the one more that D' has", "−0.25·C·u")
    assert gradients_of(AddedAcross(1.0, 1.0))[1][1] == "C·v"
    assert gradients_of(Replaced(1.0, -1.0))[:2] == [("one record, in D", "C·u"), ("the same record, in D'", "−C·u")]
    assert gradients_of(ReplacedAmong(1.0, 0.0, -1.0))[2] == ("every other record", "C·u")
    assert gradients_of(Alternating())[0][1] == "C·u and −C·u in turn"
    for pair in (ALL_ZERO, AddedAcross(1.0, 1.0), Replaced(1.0, -1.0), Alternating()):
        shown = " ".join(gradient for _, gradient in gradients_of(pair))
        for symbol, meaning in (
            ("u", "u is a vector of length 1"),
            ("v", "v is another"),
            ("C", "C is the clipping bound"),
        ):
            assert (meaning in symbols_of(pair)) >= (symbol in shown)


def test_the_script_that_draws_is_the_one_that_was_published() -> None:
    """Unchanged, with its licence, and named with its version."""
    folder = files("noisymean.report.page") / "plotly_basic"
    script, notice = (folder / "plotly-basic.min.js").read_bytes(), (folder / "NOTICE").read_text()
    stated = re.search(r"sha256 of the file\s+([0-9a-f]{64})", notice)
    assert stated is not None
    assert hashlib.sha256(script).hexdigest() == stated[1]
    version = re.search(r"plotly\.js (\d+\.\d+\.\d+)", notice)
    assert version is not None
    assert f"v{version[1]}".encode() in script[:200]
    assert (folder / "LICENSE").read_text().startswith("MIT License")
