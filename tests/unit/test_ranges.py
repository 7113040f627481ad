"""A run as a range: where it begins and ends, what is open, and the scale that several share."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisymean as nm
from noisymean.report.ranges import Range, Scale
from noisymean.verdict import Word

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg

from noisymean.report import plots
from noisymean.report.range_bars import as_losses, draw_range, known

LEAKS = nm.account(
    nm.EASGM(dataset_size=60, dimension=400, sample_rate="1/3", noise_multiplier=2.0), steps=20, delta=1e-5
)
POSITIVE = st.floats(min_value=1e-5, max_value=1e12)


def a_range(low: float | None, high: float | None, claimed: float | None = 1.0, verdict: Word = "violated") -> Range:
    return Range("a run", claimed, low, high, verdict, "c", "l", "h")


def read(text: str) -> float:
    return float(text.replace(",", ""))


def test_a_range_is_the_account_and_its_texts_are_on_the_safe_side() -> None:
    found = Range.of(LEAKS, "mine")
    assert (found.claimed, found.low, found.high) == (
        LEAKS.claimed.epsilon,
        LEAKS.leakage.epsilon,
        LEAKS.guarantee.epsilon,
    )
    assert (found.label, found.verdict) == ("mine", LEAKS.verdict)
    assert found.claimed is not None
    assert found.low is not None
    assert found.high is not None
    assert read(found.low_text) <= found.low <= found.high <= read(found.high_text)
    assert found.claimed <= read(found.claimed_text)


def test_an_account_at_an_epsilon_is_a_range_of_deltas() -> None:
    asked = nm.account(LEAKS.mechanism, steps=20, epsilon=1.0)
    found = Range.of(asked)
    assert (found.low, found.high) == (asked.leakage.delta, asked.guarantee.delta)


def test_what_is_not_known_is_open_and_no_end_is_said() -> None:
    unknown = a_range(3.0, None)
    assert known(unknown) == "at least l lost"
    assert known(a_range(3.0, 4.0)) == "l to h lost"
    scale = Scale.of([unknown])
    assert scale.inside(unknown.high) == scale.end


@given(st.lists(st.tuples(POSITIVE, POSITIVE, POSITIVE), min_size=1, max_size=4))
def test_every_number_is_on_the_scale_and_there_is_room_for_words(numbers: list[tuple[float, float, float]]) -> None:
    ranges = [a_range(min(two), max(two), claimed) for claimed, *two in numbers]
    scale = Scale.of(ranges, left=0.2, right=0.1)
    places = sorted(scale.inside(value) for one in ranges for value in one.numbers)
    assert places == sorted(value for one in ranges for value in one.numbers)
    whole = math.log(scale.end / scale.start)
    assert math.log(places[0] / scale.start) >= 0.19 * whole
    assert math.log(scale.end / places[-1]) >= 0.09 * whole


@pytest.mark.parametrize("numbers", [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (1e-300, 1.0, 1e308), (5.0, 5.0, 5.0)])
def test_a_scale_has_a_length_whatever_it_is_given(numbers: tuple[float, float, float]) -> None:
    low, high, claimed = numbers
    one = a_range(low, high, claimed)
    scale = Scale.of([one])
    assert 0.0 < scale.start < scale.end < math.inf
    assert all(scale.start <= scale.inside(value) <= scale.end for value in numbers)


@pytest.mark.parametrize("verdict", ["violated", "holds", "undetermined"])
def test_the_bar_goes_from_the_leakage_to_the_guarantee(verdict: Word) -> None:
    one = a_range(3.0, 40.0, 0.5, verdict)
    with plots.canvas(5.0, 2.0) as figure:
        axes = figure.subplots()
        scale = Scale.of([one])
        draw_range(axes, scale, 0.0, one)
        as_losses(axes, scale, "ε")
        FigureCanvasAgg(figure).draw()
        assert any(list(map(float, line.get_xdata())) == [3.0, 40.0] for line in axes.get_lines())  # type: ignore[arg-type]
        # what is hatched is lost and not claimed, and nothing is where nothing is violated
        hatched = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]  # type: ignore[attr-defined]
        assert hatched == ([(0.5, pytest.approx(3.0))] if verdict == "violated" else [])
        assert [text.get_text() for text in axes.texts] == ["claimed c", "l to h lost"]


def test_words_of_a_range_do_not_collide_with_what_is_drawn() -> None:
    one = Range.of(LEAKS)
    with plots.canvas(8.0, 1.2) as figure:
        axes = figure.subplots()
        scale = Scale.of([one], left=0.2, right=0.25)
        draw_range(axes, scale, 0.0, one)
        as_losses(axes, scale, "ε")
        FigureCanvasAgg(figure).draw()
        spans = sorted(tuple(text.get_window_extent().intervalx) for text in axes.texts)
        assert one.low is not None
        ends = axes.transData.transform([[value, 0.0] for value in one.numbers])[:, 0]
        (_, left), (right, last) = spans
        assert left < min(ends)
        assert max(ends) < right
        assert last <= figure.bbox.x1
        assert all(first < second for first, second in pairwise([left, right]))
