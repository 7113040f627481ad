"""The experiment beyond the paper, on an excerpt: its cases, its sizes, its picture and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.paper.experiment import Effort
from noisymean.paper.experiments import full_mnist
from noisymean.paper.rows import Table, levels
from noisymean.paper.statements import Answer

pytest.importorskip("opacus")

FIXTURES = str(Path(__file__).parents[1] / "fixtures")


def effort(**changes: Any) -> Effort:
    settings: dict[str, Any] = {"quick": True, "seed": 1, "jobs": 1, "data_dir": FIXTURES, **changes}
    return Effort(**settings)


def test_a_full_run_is_what_is_announced() -> None:
    """At most 1,000 trials of one step, and a twin with as many trials for each."""
    cases = full_mnist.cases(effort(quick=False))
    assert [(case.steps, case.fixed) for case in cases] == [(1, False), (1, True), (20, False), (20, True)]
    for steps in (1, 20):
        assert len({case.trials for case in cases if case.steps == steps}) == 1
    assert max(case.trials for case in cases) <= 1000
    assert {case.steps for case in full_mnist.cases(effort())} == {1}


def test_all_of_a_training_set_or_all_of_an_excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert full_mnist._sizes(effort()) == {"dataset_size": 39, "batch_size": 3}
    monkeypatch.setattr("noisymean.paper.data.load", lambda name, data_dir: range(60_000))
    assert full_mnist._sizes(effort()) == {"dataset_size": 60_000, "batch_size": 600}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two steps for twenty, and few trials of each."""
    few = [full_mnist.Case(steps, fixed, 60) for steps in (1, 2) for fixed in (False, True)]
    what = effort(store=tmp_path_factory.mktemp("full-mnist") / "trials.sqlite")
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full_mnist, "ALPHA", levels(11))
        patch.setattr(full_mnist, "cases", lambda effort: few)
        table = Table(full_mnist.EXPERIMENT.rows(what, said.append))
        # once more, with all trials in the store; NaN is NaN
        assert repr(Table(full_mnist.EXPERIMENT.rows(what, said.append))) == repr(table)
    assert said[:4] == [
        "one step, divided by 3 or 2: violated",
        "one step, divided by 3 in both: not-violated",
        "2 steps, divided by 3 or 2: violated",
        "2 steps, divided by 3 in both: not-violated",
    ]
    return table


def test_rows_picture_and_finding(found: Table) -> None:
    assert len(found) == 4 * 11
    for row in found:
        fixed = row["divides_by_with_one_more"] == row["divides_by"]
        assert (row["verdict"] == "violated") is not fixed
        assert bool(np.isnan(float(str(row["leakage"])))) is fixed
        # q (2 Phi(1/2) - 1) for one step
        assert row["steps"] != 1 or row["delta_claimed"] == pytest.approx(0.38292492254802624 / 13, rel=1e-9)
        assert (row["trials"], row["judged"]) == (60, 48)
    figure = full_mnist.picture(found)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    legend = figure.legends[0].get_window_extent()
    assert len(boxes) == 4
    # nothing is written over, and nothing runs over the edge
    assert all(box.y0 >= legend.y1 for box in boxes)
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width
    title = next(text for text in figure.texts if "σ = 1" in text.get_text()).get_window_extent()
    assert all(box.y1 <= title.y0 for box in boxes)
    assert {axes.get_title(loc="left") for axes in figure.axes} >= {
        "One step, divided by 3 or 2\nviolated",
        "2 steps, divided by 3 in both\nnot violated",
    }
    text = full_mnist.finding(found)
    assert text.count("violated, delta(0) >=") == 4


def test_a_picture_of_one_line_has_room_too(found: Table) -> None:
    figure = full_mnist.picture(Table([row for row in found if row["steps"] == 1]))
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if "σ = 1" in text.get_text()).get_window_extent()
    assert len(figure.axes) == 2
    assert all(axes.get_tightbbox().y1 <= title.y0 for axes in figure.axes)
    assert all(axes.get_tightbbox().y0 >= figure.legends[0].get_window_extent().y1 for axes in figure.axes)


def test_what_was_left_to_future_work_is_done_by_several_steps(found: Table) -> None:
    (statement,) = full_mnist.EXPERIMENT.statements
    done = statement.compare(found)
    assert done.answer is Answer.DIFFERS
    left = statement.compare(row for row in found if row["steps"] == 1)
    assert left.answer is Answer.UNDECIDED
    assert "Several steps are audited in a full run only." in left.reason
    quiet = statement.compare({**row, "verdict": "not-violated"} for row in found)
    assert quiet.answer is Answer.AGREES
