"""Progress in a log: a line now and then, with the speed since the work has begun in earnest; the clock is told."""

from __future__ import annotations

import pytest

from noisymean.cli import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def told(clock: list[float], capsys: pytest.CaptureFixture[str], *finished: tuple[float, int]) -> list[str]:
    """The lines, where so many of 100 trials are finished at these times."""
    with progress.progress(100) as tell:
        for clock[0], count in finished:
            tell(count)
    return capsys.readouterr().err.splitlines()


def test_the_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    found = told(clock, capsys, (0.0, 0), (1.0, 4), (11.0, 24), (16.0, 34), (20.0, 42), (31.0, 64))
    assert found == ["34 of 100 trials, 2.0 trials/s, 33 s left", "64 of 100 trials, 2.0 trials/s, 18 s left"]


def test_what_it_takes_to_begin_is_no_speed(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """Half a minute until the first four, and half a second for each of the others."""
    found = told(clock, capsys, (0.0, 0), (30.0, 4), (46.0, 36))
    assert found == ["4 of 100 trials", "36 of 100 trials, 2.0 trials/s, 32 s left"]


def test_a_trial_of_many_steps(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    found = told(clock, capsys, (0.0, 0), (12.0, 2), (36.0, 4))
    assert found == ["4 of 100 trials, 12.0 s a trial, 1,152 s left"]


def test_what_a_store_had_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    found = told(clock, capsys, (0.0, 60), (2.0, 62), (22.0, 82))
    assert found == ["82 of 100 trials, 1.0 trials/s, 18 s left"]


def test_short_work_is_silent(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    assert told(clock, capsys, (0.0, 0), (5.0, 50), (9.0, 100)) == []
