"""The demo: three trainings that are judged as any run is, the loader's own numbers, and a figure for a slide."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import noisymean as nm
from command_line import run
from noisymean.cli import demo
from noisymean.report.story import Loader, Story

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg

from noisymean.report.story_picture import story_figure


@pytest.fixture(scope="module")
def story() -> Story:
    return demo.story()


def opacus_divides(records: int, batch: int) -> tuple[float, int]:
    """The lines of Opacus, in its own floating point."""
    length = math.ceil(records / batch)
    steps = int(1 / (1 / length))
    return 1 / length, int(records * (1 / steps))


def test_every_run_is_violated_as_it_runs_and_holds_with_constants(story: Story) -> None:
    for told in story.runs:
        assert (told.as_run.verdict, told.with_constants.verdict) == ("violated", "holds")
        assert told.as_run.claimed == told.with_constants.claimed
    assert story.verdicts == "As they run, 3 of 3 claims are violated; with constants, 3 of 3 hold"


def test_the_fix_changes_the_denominator_and_nothing_else(story: Story) -> None:
    for told in story.runs:
        before, after = told.as_run, told.with_constants
        assert not after.mechanism.size_matters
        assert (before.steps, before.mechanism.q) == (after.steps, after.mechanism.q)
        assert before.mechanism.noise_multiplier == after.mechanism.noise_multiplier


def test_steps_are_the_epochs_that_are_told() -> None:
    for training in demo.TRAININGS:
        epochs = int(training.typed.rsplit(", ", 1)[1].removesuffix(" epochs"))
        assert training.steps == training.mechanism.steps_in(epochs)
        assert f"σ = {training.mechanism.noise_multiplier:g}" in training.typed
        size = training.mechanism.dataset_size
        assert size is not None
        assert f"{int(size * training.mechanism.rate + 0.5):,}" in training.typed


def test_the_loader_is_that_of_opacus(story: Story) -> None:
    for size, *found in (story.loader.before, story.loader.after):
        assert tuple(found) == opacus_divides(size, 600)
    assert (story.loader.before[2], story.loader.after[2]) == (600, 594)
    assert "60,000 records are drawn at rate 1/100 and the sum is divided by 600; 60,001" in str(story.loader)


def test_work_is_a_handful_of_accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def counted(mechanism: nm.Mechanism, **more: Any) -> nm.Account:
        asked.append(mechanism)
        return nm.account(mechanism, **more)

    monkeypatch.setattr(demo, "account", counted)
    assert run("demo", "--out", str(tmp_path)).code == 0
    assert len(asked) == 6


def test_a_table_for_sixty_columns_the_finding_and_two_figures(tmp_path: Path, story: Story) -> None:
    folder = tmp_path / "new" / "out"
    result = run("demo", "--out", str(folder))
    assert result.code == 0
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "demo.pdf").read_bytes().startswith(b"%PDF-")
    table = result.out[result.out.index("\n") + 1 : result.out.index("\n\n")]
    assert max(map(len, table.splitlines())) <= 60
    assert "…" not in table
    assert (table.count("violated"), table.count("holds")) == (3, 3)
    assert f"Figure: {folder / 'demo.png'}, for a slide: {folder / 'demo.pdf'}" in result.out
    for sentence in (*story.finding, f"- {story.loader}."):
        assert sentence in result.out
    assert [line.split("]")[0] for line in result.err.splitlines()] == [f"[{i}/3" for i in range(1, 4)]


def test_every_number_is_rounded_to_its_own_side(story: Story) -> None:
    for told in story.runs:
        claimed, leaked = told.as_run.claimed.epsilon, told.as_run.leakage.epsilon
        assert claimed is not None
        assert leaked is not None
        assert told.factor == leaked / claimed
    worst = max(story.runs, key=lambda told: told.factor or 0.0)
    sentence = story.finding[0]
    said_claimed, said_lost = sentence.split("epsilon ")[1].split(" ")[0], sentence.split("at least ")[1].split(" ")[0]
    assert float(said_claimed) >= (worst.as_run.claimed.epsilon or math.inf)
    assert float(said_lost.replace(",", "")) <= (worst.as_run.leakage.epsilon or 0.0)


def test_json_is_the_accounts(tmp_path: Path, story: Story) -> None:
    record = json.loads(run("demo", "--out", str(tmp_path), "--json").out)
    assert record["runs"] == json.loads(json.dumps([told.record() for told in story.runs]))
    assert record["loader"]["after"] == {"dataset_size": 60_001, "sample_rate": 1 / 101, "denominator": 594}
    assert (record["figure"], record["slide"]) == (str(tmp_path / "demo.png"), str(tmp_path / "demo.pdf"))


def test_a_story_without_a_violation_says_so(story: Story) -> None:
    mended = replace(story, runs=tuple(replace(told, as_run=told.with_constants) for told in story.runs))
    assert mended.finding[0] == "No claim is violated."
    assert mended.verdicts.startswith("As they run, 0 of 3 claims are violated")


def test_no_words_of_the_slide_collide_or_leave_it(story: Story) -> None:
    figure = story_figure(story)
    FigureCanvasAgg(figure).draw()
    words = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    boxes = [text.get_window_extent() for text in words]
    for number, (text, box) in enumerate(zip(words, boxes, strict=True)):
        assert box.x0 >= 0.0, text.get_text()
        assert box.x1 <= figure.bbox.x1, text.get_text()
        assert box.y0 >= 0.0, text.get_text()
        collided = [other.get_text() for other, its in zip(words[:number], boxes, strict=False) if box.overlaps(its)]
        assert not collided, (text.get_text(), collided)


def test_the_slide_has_the_tooth_of_the_loader(story: Story) -> None:
    teeth = story_figure(story).axes[1].get_lines()
    drawn = {int(x): int(y) for line in teeth[:-1] for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}  # type: ignore[arg-type]
    assert len(drawn) == 1_200
    assert all(divided == opacus_divides(records, 600)[1] for records, divided in drawn.items())


def test_a_loader_that_does_not_fall_is_told_as_it_is() -> None:
    still = Loader.of(nm.OpacusLoader(dataset_size=60_010, batch_size=600, dimension=2, noise_multiplier=1.0))
    assert still.before[1:] == still.after[1:] == opacus_divides(60_010, 600)


def test_a_file_for_a_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for target in (file, file / "below"):
        done = run("demo", "--out", str(target))
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: --out={target}: must be a folder")
    assert "--out: its value is missing" in run("demo", "--out").err
