"""The page of `noisymean explore`: its words, its workers, and the real command in a real browser."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from scipy.stats import norm
from test_cli import run
from test_explore_settings import asked, query
from werkzeug.serving import WSGIRequestHandler, make_server

import noisymean as nm
from browser import Seen, browser_page
from explored import (
    EASY,
    EASY_RUN,
    LOADER,
    expected,
    get,
    opened,
    shown,
    started,
    table,
    typed,
    wait_for_numbers,
)
from noisymean.cli.explore import account_record, read, report_page
from noisymean.explore import answers, page, server, workers
from noisymean.explore import shown as shown_page
from noisymean.explore.settings import Commands, in_symbols
from noisymean.outward import lower_bound, upper_bound
from noisymean.report.asked_run import AskedRun
from noisymean.run_curves import RunCurves, growth, run_curves
from noisymean.words import sentence

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
        import multiprocessing

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
    fakes[1].other.send(("complete", "whole"))
    assert pool.ask("numbers", asked(EASY)).answer == "whole"


def test_a_complete_answer_is_remembered(fakes: list[_FakeWorker]) -> None:
    pool = workers.Workers(limit=0.3)
    pool._add()
    fakes[0].other.send(("complete", 7))
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


# --- words -------------------------------------------------------------------------------------------------------------


def test_a_curve_that_is_not_there_is_told_from_a_bound_that_is_not_known() -> None:
    bare = RunCurves(np.zeros(1), np.zeros(1), np.zeros(1), None)
    said = [page._missing("run", workers.Outcome("complete", bare), 8.0, bounded=bounded) for bounded in (True, False)]
    assert said == [
        "The guarantee is known at this δ; its whole curve is not computed here.",
        "No upper bound is known for this run.",
    ]


def test_what_was_too_slow_can_be_had_by_the_command_that_is_named() -> None:
    """`--plot` of the command draws the run; one round has a command of its own."""
    slow = workers.Outcome("slow")
    assert "with --plot run.png" in page._missing("run", slow, 8.0, bounded=True)
    one_round = page._missing("one-round", slow, 8.0, bounded=True)
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


# --- the command -------------------------------------------------------------------------------------------------------


def test_without_its_packages_one_line_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run("explore")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: flask is not installed; install it with: pip install 'noisymean[explore]'\n"


@pytest.mark.parametrize("port", ["65536", "-1", "http", "80.5"])
def test_a_port_that_is_none(port: str) -> None:
    result = run("explore", "--port", port)
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    assert f"--port={port}: must be a whole number from 0 to 65535" in result.err


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "1e9", "soon"])
def test_a_limit_that_is_none(limit: str) -> None:
    result = run("explore", "--limit", limit)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"--limit={limit}: must be a number of seconds > 0" in result.err


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = run("explore", "--port", str(port))
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    assert f"--port={port}: must be a free port" in result.err


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interruption_ends_it_in_one_line() -> None:
    with started("--json") as (line, process):
        told = json.loads(line)
        assert told["url"] == f"http://127.0.0.1:{told['port']}/"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err == "Ctrl-C ends it\nended\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # a machine that does other things as well is not what is tested here
    with started("--no-browser", "--limit", "60") as (line, _):
        assert line.startswith("http://127.0.0.1:")
        yield line.strip()


def test_only_this_machine_is_answered(address: str) -> None:
    port = urlsplit(address).port
    assert get(address, "/").status == 200
    assert get(address, "/", Host=f"localhost:{port}").status == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1:1", ""):
        refused = get(address, "/", Host=host)
        assert refused.status == 403, host
    assert get(address, f"/csv/run?{query(EASY)}", Origin="http://evil.example").status == 403
    assert get(address, "/", Origin=f"http://127.0.0.1:{port}").status == 200
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        # loopback has many addresses: only the one that is printed is listened on
        other.connect(("127.0.0.2", port))


@pytest.mark.parametrize("part", ["run", "growth", "one-round"])
def test_downloads_are_what_the_library_says(address: str, part: str) -> None:
    answer = get(address, f"/csv/{part}?{query(EASY)}")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/csv")
    found = table(answer.read().decode())
    if part == "growth":
        expected: object = growth(EASY_RUN, steps=5000, delta=1e-6, points=answers.GROWTH_POINTS)
    elif part == "run":
        expected = run_curves(EASY_RUN, answers.ALPHA, steps=5000, points=answers.CURVE_POINTS)
    else:
        expected = nm.curve(EASY_RUN, alpha=answers.ALPHA)
    assert {"claimed", "leakage", "guarantee"} < set(found)
    for name, values in found.items():
        np.testing.assert_allclose(values, getattr(expected, name), rtol=1e-12, err_msg=name)


def test_a_download_that_cannot_be_is_one_line(address: str) -> None:
    answer = get(address, f"/csv/run?{query({**EASY, 'steps': '0'})}")
    assert answer.status == 400
    assert answer.read().decode().count("\n") == 1
    assert get(address, "/csv/passwords").status == 404


# --- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(address: str) -> Iterator[Seen]:
    with browser_page() as page:
        page.page.set_default_timeout(60_000)
        yield page


def test_the_numbers_and_the_curves_are_there(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    answer = nm.account(EASY_RUN, steps=5000, delta=1e-6)
    wait_for_numbers(seen, expected(answer))
    condition = "for batches drawn by Poisson sampling and one record added or removed"
    assert f"is kept, {condition}: " in seen.page.inner_text("#banner")
    assert "noisy" not in seen.page.inner_text("#pair")
    assert seen.page.inner_text("#pair") == sentence(str(answer.leakage.pair))
    for name in ("curves", "growth"):
        seen.page.wait_for_selector(f"#{name}-graph .trace", state="attached")
    seen.check()


def test_typing_changes_numbers_and_address_and_the_address_restores_them(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    seen.page.fill("#box-steps", "700")
    seen.page.press("#box-steps", "Enter")
    wanted = expected(nm.account(EASY_RUN, steps=700, delta=1e-6))
    wait_for_numbers(seen, wanted)
    link = seen.page.url
    assert dict(parse_qsl(urlsplit(link).query))["steps"] == "700"
    seen.page.goto("about:blank")
    seen.page.goto(link)
    wait_for_numbers(seen, wanted)
    assert seen.page.input_value("#box-steps") == "700"
    assert seen.page.input_value("#box-sample-rate") == "0.02"
    assert seen.page.is_checked("input[value=sgm]")
    seen.check()


def test_a_slider_moves_its_box_the_numbers_and_the_address(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    seen.page.focus("#slider-noise-multiplier")
    seen.page.keyboard.press("Home")
    # the slider's left end is 0.1
    weak = nm.SGM(sample_rate=0.02, noise_multiplier=0.1)
    wait_for_numbers(seen, expected(nm.account(weak, steps=5000, delta=1e-6)))
    assert seen.page.input_value("#box-noise-multiplier") == "0.1"
    assert "noise-multiplier=0.1&" in seen.page.url
    seen.check()


def test_the_command_gives_the_same_numbers(seen: Seen, address: str) -> None:
    opened(seen, address, {**LOADER, "noise-multiplier": "1", "steps": "1", "delta": "1e-5"})
    run_ = nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0)
    wait_for_numbers(seen, expected(nm.account(run_, steps=1, delta=1e-5)))
    assert "certainly not exceeded" in seen.page.inner_text(".number.guarantee")
    words = shlex.split(seen.page.inner_text("#command"))
    assert words[0] == "noisymean"
    record = json.loads(run(*words[1:], "--json").out)
    assert shown(seen) == [
        rounded(record[name]["epsilon"])
        for name, rounded in (("claimed", upper_bound), ("leakage", lower_bound), ("guarantee", upper_bound))
    ]
    assert seen.page.is_hidden("#box-sample-rate")
    assert seen.page.is_visible("#box-batch-size")
    seen.check()


def test_what_the_command_says_of_another_size_comes_later(seen: Seen, address: str) -> None:
    values = {"mechanism": "feasgm", "dataset-size": "140198", "dimension": "26010", "sample-rate": "0.005"}
    opened(seen, address, {**values, "noise-multiplier": "10", "steps": "1", "delta": "1e-5"})
    seen.page.wait_for_selector("#elsewhere:not(:empty)")
    record = json.loads(run(*shlex.split(seen.page.inner_text("#command"))[1:], "--json").out)
    assert record["verdict"] == "holds"
    assert lower_bound(record["elsewhere"]["leakage"]["epsilon"], ".6g") in seen.page.inner_text("#elsewhere")
    seen.check()


def test_what_cannot_be_is_one_line_on_the_page(seen: Seen, address: str) -> None:
    opened(seen, address, {**LOADER, "batch-size": "60001"})
    line = seen.page.inner_text("#banner .headline")
    # by the name that the control has
    assert line.startswith("b cannot be 60001: it must be a whole number from 1 to")
    assert shown(seen) == ["–", "–", "–"]
    assert "Traceback" not in seen.page.content()
    seen.page.fill("#box-batch-size", "<img src=x onerror=alert(1)>")
    seen.page.press("#box-batch-size", "Enter")
    seen.page.wait_for_function("() => document.querySelector('#banner .headline').innerText.includes('<img')")
    seen.check()


def test_one_round_has_a_tab_and_a_table(seen: Seen, address: str, tmp_path: Path) -> None:
    opened(seen, address, EASY)
    seen.page.wait_for_selector("#curves-graph .trace", state="attached")
    seen.page.click("text=one round")
    seen.page.wait_for_function("() => document.querySelector('#curves-csv').href.includes('/csv/one-round?')")
    with seen.page.expect_download() as caught:
        seen.page.click("#curves-csv")
    caught.value.save_as(tmp_path / "curves.csv")
    found = table((tmp_path / "curves.csv").read_text())
    # the noisy sum with the record in the batch, or blind guessing without: q G_(1/sigma) + (1 - q) (1 - alpha)
    alpha = found["alpha"]
    exact = 0.02 * norm.cdf(norm.isf(alpha) - 1 / 4) + 0.98 * (1.0 - alpha)
    np.testing.assert_allclose(found["leakage"], exact, atol=1e-9)
    with seen.page.expect_download() as caught:
        seen.page.click("#curves [data-format=png]")
    caught.value.save_as(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    seen.check()


class _Patient:
    """Workers of the test's making: three steps take too long, four are computed until nobody wants them, others are known."""

    limit = 4.0

    def __init__(self) -> None:
        self.given_up: list[int] = []

    def ask(self, part: str, question: AskedRun, wanted: Callable[[], bool] = lambda: True) -> workers.Outcome:
        if question.steps == 3:
            return workers.Outcome("slow")
        while question.steps == 4 and wanted():
            time.sleep(0.01)
        if not wanted():
            self.given_up.append(question.steps)
            # what had been nearly done is not shown, even if it comes
            return workers.Outcome("complete", question.account())
        return workers.Outcome("complete", answers.PARTS[part](question, lambda early: None))


@contextmanager
def served(asked_of: Any) -> Iterator[str]:
    """The page in this process, with such workers."""
    commands = Commands(read, account_record, report_page)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = page.build(commands, asked_of)
    server.protect(app, port)
    serving = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


def test_a_slow_setting_is_said_to_be_slow_and_never_overwrites_a_newer_one(seen: Seen) -> None:
    patient = _Patient()
    with served(patient) as address:
        opened(seen, address, {**EASY, "steps": "3"})
        assert "takes longer than 4 seconds" in seen.page.inner_text("#banner")
        assert seen.page.title() == "takes longer · noisymean"
        assert "--steps 3" in seen.page.inner_text("#command")
        # asked again, and left for something quick while it is computed
        with seen.page.expect_response(lambda answer: "/answer" in answer.url and "steps=4" in answer.url):
            typed(seen, "steps", "4")
            assert seen.page.title() == "… · noisymean"
            typed(seen, "steps", "5")
        wait_for_numbers(seen, expected(nm.account(EASY_RUN, steps=5, delta=1e-6)))
        assert patient.given_up == [4]
        assert "steps=5&" in seen.page.url
        seen.page.wait_for_selector("#growth-graph .trace", state="attached")
    seen.check()
