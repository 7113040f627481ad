"""The page of `noisymean explore` without a browser: its answers, its workers, and its words."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np
import pytest
from test_explore_settings import asked

import noisymean as nm
from explored import BROKEN, EASY, EASY_RUN, OPEN, UNBOUNDED
from noisymean.explore import answers, page, workers
from noisymean.explore import shown as shown_page
from noisymean.explore.settings import in_symbols
from noisymean.outward import at_least, at_most
from noisymean.report.asked_run import AskedRun
from noisymean.run_curves import RunCurves, growth
from noisymean.written import plain

# --- answers and workers -----------------------------------------------------------------------------------------------


def test_growth_tells_the_last_step_first_and_agrees_with_the_library() -> None:
    told: list[Any] = []
    question = asked(EASY)
    found = answers.growth(question, told.append)
    assert told[0].steps.tolist() == [5000.0]
    assert [len(one.steps) for one in told] == list(range(1, answers.GROWTH_POINTS + 1))
    expected = growth(EASY_RUN, steps=5000, delta=1e-6, points=answers.GROWTH_POINTS)
    for name in ("steps", "claimed", "leakage", "guarantee"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


class _FakeWorker:
    """A worker of the test's making: answers come from the other end of a pipe."""

    def __init__(self) -> None:
        self.connection, self.other = multiprocessing.Pipe()
        self.stopped = False

    def ready(self, wanted: object) -> bool:
        return True

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[_FakeWorker]:
    made: list[_FakeWorker] = []

    def make(report: object) -> _FakeWorker:
        made.append(_FakeWorker())
        return made[-1]

    monkeypatch.setattr(workers, "_Worker", make)
    workers._slot.cache_clear()
    return made


def test_what_takes_longer_than_its_limit_is_stopped_and_what_it_told_is_kept(fakes: list[_FakeWorker]) -> None:
    pool = workers.Workers(limit=0.3)
    pool._add()
    fakes[0].other.send(("partial", "half"))
    outcome = pool.ask("numbers", asked(EASY))
    assert (outcome.kind, outcome.answer) == ("slow", "half")
    assert fakes[0].stopped
    # another one has taken its place, and nothing slow was remembered
    fakes[1].other.send(workers.Outcome("complete", "whole"))
    assert pool.ask("numbers", asked(EASY)).answer == "whole"


def test_a_complete_answer_is_remembered(fakes: list[_FakeWorker]) -> None:
    pool = workers.Workers(limit=0.3)
    pool._add()
    fakes[0].other.send(workers.Outcome("complete", 7))
    first = pool.ask("numbers", asked(EASY))
    # nobody answers a second time; 1/50 is 0.02
    assert pool.ask("numbers", asked({**EASY, "sample-rate": "1/50"})) == first
    assert pool.ask("growth", asked(EASY)).kind == "slow"


def test_an_older_request_is_given_up_at_once(fakes: list[_FakeWorker]) -> None:
    newest = workers.Newest()
    pool = workers.Workers(limit=20.0)
    pool._add()
    wanted = newest.wanted("page", 1)
    assert wanted()
    newest.wanted("page", 2)
    newest.wanted("another page", 1)
    before = time.monotonic()
    assert pool.ask("numbers", asked(EASY), wanted).kind == "unwanted"
    assert time.monotonic() - before < 10.0
    assert newest.wanted("page", 2)()
    assert not newest.wanted("page", 1)()


def test_a_worker_that_has_ended_is_replaced(fakes: list[_FakeWorker]) -> None:
    pool = workers.Workers(limit=20.0)
    pool._add()
    fakes[0].other.close()
    lost = pool.ask("numbers", asked(EASY))
    assert (lost.kind, lost.message) == ("failed", "the process that computed it ended; try again")
    assert fakes[0].stopped
    fakes[1].other.send(workers.Outcome("complete", 7))
    assert pool.ask("numbers", asked(EASY)).answer == 7


def test_a_report_takes_no_worker_from_the_page(fakes: list[_FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take ten minutes, and there are three."""
    pool = workers.Workers(limit=20.0)
    pool._add()

    def writer(report: object) -> _FakeWorker:
        fakes.append(_FakeWorker())
        fakes[-1].other.send(workers.Outcome("complete", "the page"))
        return fakes[-1]

    monkeypatch.setattr(workers, "_Worker", writer)
    assert pool.make_report(asked(EASY), "noisymean report").answer == "the page"
    assert [one.stopped for one in fakes] == [False, True]
    assert pool._idle.qsize() == 1


def test_after_the_end_no_process_is_started(fakes: list[_FakeWorker]) -> None:
    pool = workers.Workers(limit=20.0)
    pool._add()
    pool.stop()
    assert fakes[0].stopped
    pool._add()
    assert len(fakes) == 1
    assert pool.make_report(asked(EASY), "noisymean report").kind == "failed"


def _says(report: workers.Report) -> Any:
    """What a process sends when its report is asked for."""
    ours, theirs = multiprocessing.Pipe()
    workers._answer(theirs, report, answers.REPORT, asked(EASY), "line")
    return ours.recv()


def test_what_a_process_says_of_a_fault() -> None:
    def refused(run: AskedRun, line: str) -> str:
        raise nm.InvalidInput("steps", 0, "at least 1")

    def broken(run: AskedRun, line: str) -> str:
        raise ZeroDivisionError("a sum")

    assert _says(refused) == workers.Outcome("refused", message="T cannot be 0: it must be at least 1", about="steps")
    assert _says(broken) == workers.Outcome("failed", message="ZeroDivisionError: a sum")
    assert _says(lambda run, line: line) == workers.Outcome("complete", "line")


# --- words -------------------------------------------------------------------------------------------------------------


def test_a_curve_that_is_not_there_is_told_from_a_bound_that_is_not_known() -> None:
    bare = RunCurves(np.zeros(1), np.zeros(1), np.zeros(1), None)
    outcome = workers.Outcome("complete", bare)
    said = [page._note("run", outcome, 8.0, bounded=bounded, verdict="undetermined") for bounded in (True, False)]
    assert said == [
        "The guarantee is known at this δ; its whole curve is not computed here.",
        "No upper bound is known for this run.",
    ]


def test_a_violation_elsewhere_is_explained_beside_a_promise_that_is_not_known_to_be_broken() -> None:
    """Curves of (false positive, false negative) rates: (.5, .2) leaked below (.5, .5) claimed is broken, the other way is not."""

    def said(leaked: float, claimed: float, verdict: str) -> str:
        ends = np.array([0.0, 0.5, 1.0])
        leakage, allowed = np.array([1.0, leaked, 0.0]), np.array([1.0, claimed, 0.0])
        curves = RunCurves(ends, allowed, leakage, np.zeros(3))
        return page._note("run", workers.Outcome("complete", curves), 8.0, bounded=True, verdict=verdict)

    assert said(0.2, 0.5, "undetermined").startswith(
        "At what was asked, the promise is not known to be broken. It is not kept"
    )
    assert said(0.2, 0.5, "holds").startswith("At what was asked, the promise is kept. It is not kept as a whole")
    assert said(0.2, 0.5, "violated") == said(0.5, 0.2, "undetermined") == said(0.2, 0.5, "<b>") == ""


def test_what_was_too_slow_can_be_had_by_the_command_that_is_named() -> None:
    """`--plot` of the command draws the run; one round has a command of its own."""
    slow = workers.Outcome("slow")
    assert "with --plot run.png" in page._note("run", slow, 8.0, bounded=True, verdict="")
    one_round = page._note("one-round", slow, 8.0, bounded=True, verdict="")
    assert "'noisymean curve'" in one_round
    assert "--plot" not in one_round


def test_a_complaint_has_the_name_that_the_page_has() -> None:
    with pytest.raises(nm.NoisymeanError) as fault:
        asked({**EASY, "dataset-size": "abc"})
    assert in_symbols(fault.value).startswith("N cannot be 'abc': it must be a whole number")
    assert in_symbols(nm.NoisymeanError("no name at all")) == "no name at all"
    other = nm.InvalidInput("other", 3, "4")
    assert in_symbols(other) == "other cannot be 3: it must be 4"


def guarantee_on_the_page(answer: nm.Account) -> str:
    tile = shown_page._tiles(answer)[-1]
    assert tile["name"] == "guarantee"
    return tile["meaning"]


def test_the_guarantee_of_the_page_says_what_it_is() -> None:
    """A number, and for whom; or that there is none, and why."""
    bounded = nm.account(
        nm.FEASGM(dataset_size=10, dimension=5, sample_rate="1/4", noise_multiplier=5.0), steps=1, delta=1e-5
    )
    assert guarantee_on_the_page(bounded) == "certainly not exceeded, for any record added or removed"
    moving = nm.OpacusLoader(dataset_size=6, batch_size=6, dimension=10**15, noise_multiplier=5.0)
    said = guarantee_on_the_page(nm.account(moving, steps=1, delta=1e-5))
    assert said.startswith("no upper bound is known for this run: no epsilon below a billion is proved")


@pytest.mark.parametrize(
    ("values", "verdict"), [(BROKEN, "violated"), (EASY, "holds"), (OPEN, "undetermined"), (UNBOUNDED, "violated")]
)
def test_the_tab_the_bar_and_what_is_read_out_say_the_verdict(values: dict[str, str], verdict: str) -> None:
    """In the tab the number that decides, rounded to its own side; nobody has proved one where nothing is decided."""
    found = asked(values).account()
    assert found.verdict == verdict
    said = shown_page.answer(workers.Outcome("complete", found), None, 8.0)
    leaked = plain(at_least(found.leakage.epsilon or 0.0, ".3g"))
    sound = None if found.guarantee.epsilon is None else plain(at_most(found.guarantee.epsilon, ".3g"))
    decides = f"ε ≤ {sound}" if verdict == "holds" else f"ε ≥ {leaked}"
    assert said["title"] == f"{verdict} · {decides} · noisymean"
    assert said["bar"]["word"] == verdict
    assert dict(said["bar"]["numbers"])["leaked ≥"] == leaked
    assert said["spoken"].startswith(f"{verdict}: ε ")
    assert f"at least {leaked} leaked" in said["spoken"]
    if sound is None:
        assert dict(said["bar"]["numbers"])["guaranteed"] == "none known"
        assert "no guarantee known" in said["spoken"]


def test_without_a_verdict_the_bar_says_why() -> None:
    said = shown_page.answer(workers.Outcome("refused", message="T cannot be 0", about="steps"), None, 8.0)
    assert said["title"] == "not possible · noisymean"
    assert (said["bar"]["word"], said["bar"]["why"]) == ("not possible", "T cannot be 0.")
    assert said["about"] == "steps"
    assert not said["drawable"]
