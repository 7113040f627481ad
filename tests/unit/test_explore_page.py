"""The page of `noisymean explore` in a real browser: what a reader sets, and what is shown for it."""

from __future__ import annotations

import json
import shlex
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
from werkzeug.serving import WSGIRequestHandler, make_server

import noisymean as nm
from browser import Seen, browser_page
from command_line import run
from explored import (
    BROKEN,
    EASY,
    EASY_RUN,
    LOADER,
    OPEN,
    UNBOUNDED,
    expected,
    opened,
    shown,
    started,
    table,
    typed,
    wait_for_numbers,
    without_pictures,
)
from noisymean.cli.explore import account_record, read, report_page
from noisymean.explore import answers, page, server, workers
from noisymean.explore.settings import Commands
from noisymean.mechanisms import Adjacency
from noisymean.outward import at_least, at_most, lower_bound, upper_bound
from noisymean.report.asked_run import AskedRun
from noisymean.words import sentence
from noisymean.written import plain


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # a machine that does other things as well is not what is tested here
    with started("--no-browser", "--limit", "60") as (line, _):
        yield line.strip()


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


def test_the_control_that_is_wrong_is_marked_until_it_is_mended(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    typed(seen, "dataset-size", "abc")
    seen.page.wait_for_selector("#box-dataset-size[aria-invalid=true][aria-errormessage=headline]")
    assert seen.page.inner_text("#headline").startswith("N cannot be 'abc'")
    assert seen.page.locator("[aria-invalid=true]").count() == 1
    # nothing of an older answer is left beside it
    assert seen.page.is_hidden("#pictures")
    assert seen.page.is_hidden("#range")
    assert seen.page.is_disabled("#make-report")
    typed(seen, "dataset-size", "59999")
    wait_for_numbers(seen, expected(nm.account(EASY_RUN, steps=5000, delta=1e-6)))
    assert seen.page.locator("[aria-invalid=true]").count() == 0
    assert seen.page.is_visible("#pictures")
    seen.check()


@pytest.mark.parametrize(
    ("values", "verdict"), [(BROKEN, "violated"), (EASY, "holds"), (OPEN, "undetermined"), (UNBOUNDED, "violated")]
)
def test_the_title_of_the_tab_follows_the_verdict(
    seen: Seen, address: str, values: dict[str, str], verdict: str
) -> None:
    with without_pictures(seen):
        opened(seen, address, values)
        record = json.loads(run(*shlex.split(seen.page.inner_text("#command"))[1:], "--json").out)
        assert record["verdict"] == verdict
        if verdict == "holds":
            bound = f"≤ {plain(at_most(record['guarantee']['epsilon'], '.3g'))}"
        else:
            bound = f"≥ {plain(at_least(record['leakage']['epsilon'], '.3g'))}"
        assert seen.page.title() == f"{verdict} · ε {bound} · noisymean"
        typed(seen, "noise-multiplier", "0")
        seen.page.wait_for_function("() => document.title === 'not possible · noisymean'")
        seen.check()


SAMPLINGS = {
    "poisson": nm.SGM(dataset_size=60_000, dimension=26_010, sample_rate="1/100", noise_multiplier=2.0),
    **{
        way: nm.SGM(
            dataset_size=60_000,
            dimension=26_010,
            sample_rate="1/100",
            batch_size=600,
            noise_multiplier=2.0,
            sampling=way,
        )
        for way in ("shuffle", "fixed-size", "cyclic")
    },
    "balls-in-bins": nm.SGM(
        dataset_size=60_000, dimension=26_010, sample_rate="1/100", noise_multiplier=2.0, sampling="balls-in-bins"
    ),
}
_CUT = {
    "mechanism": "sgm", "dataset-size": "60000", "dimension": "26010", "sample-rate": "1/100", "batch-size": "600",
    "noise-multiplier": "2", "steps": "100", "delta": "1e-5",
}  # fmt: skip


def test_batches_are_drawn_in_five_ways(seen: Seen, address: str) -> None:
    """Each by a click, and the command that is shown gives the same numbers. Where batches have no size of their own none is asked."""
    with without_pictures(seen):
        opened(seen, address, {**_CUT, "sampling": "fixed-size"})
        ways = [one.get_attribute("value") for one in seen.page.locator("input[name=sampling]").all()]
        assert ways == ["poisson", "shuffle", "fixed-size", "balls-in-bins", "cyclic"]
        for way in ("shuffle", "cyclic", "fixed-size", "balls-in-bins", "poisson"):
            if way == "poisson":
                seen.page.check("input[name=rate][value=sample-rate]")
            seen.page.check(f"input[name=sampling][value={way}]")
            wait_for_numbers(seen, expected(nm.account(SAMPLINGS[way], steps=100, delta=1e-5)))
            words = shlex.split(seen.page.inner_text("#command"))
            given = dict(zip(words[2::2], words[3::2], strict=True))
            assert given.get("--sampling", "poisson") == way
            assert ("--batch-size" in given) == (way in ("shuffle", "fixed-size", "cyclic"))
            assert seen.page.is_visible("#box-batch-size") == ("--batch-size" in given)
            assert seen.page.is_visible("#choice-drop-last") == (way in ("shuffle", "cyclic"))
        seen.check()


def test_neighbours_are_chosen_by_name(seen: Seen, address: str) -> None:
    """Added or removed, zeroed out, replaced: the numbers are for these, and the command says so."""
    values = {**_CUT, "mechanism": "easgm"}
    del values["batch-size"]
    with without_pictures(seen):
        opened(seen, address, values)
        whole = nm.EASGM(dataset_size=60_000, dimension=26_010, sample_rate="1/100", noise_multiplier=2.0)
        for adjacency in ("zero-out", "replace-one", "add-remove"):
            seen.page.check(f"input[name=adjacency][value={adjacency}]")
            answer = nm.account(whole, steps=100, delta=1e-5, adjacency=Adjacency(adjacency))
            wait_for_numbers(seen, expected(answer))
            assert f"--adjacency {adjacency}" in seen.page.inner_text("#command")
            assert f"adjacency={adjacency}" in seen.page.url
            # one of two neighbours is asked for where there are two
            assert seen.page.is_visible("#choice-pair") == (adjacency == "add-remove")
        seen.check()


def test_a_picture_that_cannot_be_has_its_reason_in_its_place(seen: Seen, address: str) -> None:
    opened(seen, address, {**EASY, "steps": "3", "adjacency": "replace-one"})
    seen.page.wait_for_selector("#curves.none[aria-busy=false]")
    assert seen.page.inner_text("#curves-note") == "Curves are not drawn for one record replaced."
    assert seen.page.is_hidden("#curves-graph")
    assert seen.page.is_hidden("#curves-csv")
    seen.page.wait_for_selector("#growth-graph .trace", state="attached")
    opened(seen, address, {**_CUT, "sampling": "cyclic", "steps": "100"})
    seen.page.check("input[name=tab][value=one-round]")
    seen.page.wait_for_selector("#curves.none[aria-busy=false]")
    assert "known for Poisson sampling only" in seen.page.inner_text("#curves-note")
    seen.check()


def test_the_length_of_a_run_is_given_in_epochs_as_well(seen: Seen, address: str) -> None:
    with without_pictures(seen):
        opened(seen, address, EASY)
        seen.page.check("input[name=length][value=epochs]")
        assert seen.page.is_hidden("#box-steps")
        typed(seen, "epochs", "2.5")
        # an epoch of Poisson sampling is 1/q = 50 rounds
        wait_for_numbers(seen, expected(nm.account(EASY_RUN, steps=125, delta=1e-6)))
        assert "--epochs 2.5" in seen.page.inner_text("#command")
        assert "--steps" not in seen.page.inner_text("#command")
        seen.page.goto(seen.page.url)
        wait_for_numbers(seen, expected(nm.account(EASY_RUN, steps=125, delta=1e-6)))
        assert seen.page.input_value("#box-epochs") == "2.5"
        seen.check()


def test_without_its_server_the_page_shows_no_old_answer(seen: Seen) -> None:
    with served(_Patient()) as address:
        opened(seen, address, EASY)
        seen.page.wait_for_selector("#growth-graph .trace", state="attached")
    typed(seen, "steps", "7")
    seen.page.wait_for_function("() => document.title === 'no answer · noisymean'")
    assert "does not answer" in seen.page.inner_text("#banner")
    assert seen.page.locator("#numbers, #command").count() == 0
    assert seen.page.is_hidden("#pictures")
    # that the connection is refused is the browser's own line
    assert all("ERR_CONNECTION_REFUSED" in one for one in seen.errors)
    seen.errors.clear()


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
