"""The server of `noisymean explore`: the real command, who is answered, what is no question, and how it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from test_explore_settings import query, settings_of

import noisymean as nm
from command_line import run
from explored import BROKEN, EASY, EASY_RUN, alive, descendants, get, raw, running, started, table
from noisymean.explore import answers
from noisymean.run_curves import growth, run_curves

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


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    "way", ["SIGKILL", *(pytest.param(f"SIG{one}", marks=pytest.mark.slow) for one in ("TERM", "INT", "HUP"))]
)
def test_no_process_outlives_it(way: str, tmp_path: Path) -> None:
    """Not even one that is in the middle of a sum that never ends."""
    begun = tmp_path / "begun"
    folders = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    words = ("-c", "import endless; endless.serve()")
    with running(*words, PYTHONPATH=folders, BEGUN=str(begun)) as (line, process):

        def asking() -> None:
            with suppress(OSError):
                get(line.strip(), f"/report?{query(EASY)}")

        threading.Thread(target=asking, daemon=True).start()
        wait_until(begun.exists)
        there = descendants(process.pid)
        # the three of the page, and that of the report
        assert len(there) >= 4
        process.send_signal(getattr(signal, way))
        _, err = process.communicate(timeout=60)
        wait_until(lambda: not any(map(alive, there)))
    assert (process.returncode, err) == (-9 if way == "SIGKILL" else 0, "")


def wait_until(true: Callable[[], bool]) -> None:
    """A minute at most, of which it takes a moment."""
    for _ in range(600):
        if true():
            return
        threading.Event().wait(0.1)
    pytest.fail("it does not come to an end")


def test_the_command_ends_at_once_and_says_so_when_it_is_told_to() -> None:
    with started("--json") as (_, process):
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "Ctrl-C ends it\nended\n")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # a machine that does other things as well is not what is tested here
    with started("--no-browser", "--limit", "60") as (line, process):
        assert line.startswith("http://127.0.0.1:")
        yield line.strip()
        process.terminate()
        out, err = process.communicate(timeout=60)
    # whatever was asked, nothing is written where somebody has a terminal open
    assert (out, err) == ("", "Ctrl-C ends it\nended\n")


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


def test_a_page_elsewhere_may_link_to_this_one_and_ask_nothing(address: str) -> None:
    for path, status in (
        ("/", 200),
        (f"/?{query(EASY)}", 200),
        (f"/answer?{query(EASY)}", 403),
        (f"/json?{query(EASY)}", 403),
    ):
        assert get(address, path, Sec_Fetch_Site="cross-site").status == status, path
    assert get(address, f"/answer?{query(EASY)}", Sec_Fetch_Site="same-origin").status == 200


def test_the_page_may_run_nothing_that_is_written_into_it(address: str) -> None:
    headers = get(address, "/").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["object-src"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"


# --- what is no question -----------------------------------------------------------------------------------------------

GET = "GET /answer HTTP/1.1\r\nHost: HOST\r\n"
MALFORMED = {
    "a body": ("POST /answer HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\n{bad}", 400),
    "a body of JSON": ("POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", 400),
    "half a body": ("POST /answer HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999999\r\n\r\nabc", 400),
    "a question with a body": (f"{GET}Content-Length: 3\r\n\r\nabc", 400),
    "a length that is none": (f"{GET}Content-Length: abc\r\n\r\n", 400),
    "a length below zero": (f"{GET}Content-Length: -5\r\n\r\n", 400),
    "chunks that are none": (f"{GET}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "another method": ("PUT /answer HTTP/1.1\r\nHost: HOST\r\n\r\n", 405),
    "another address": ("GET /passwords HTTP/1.1\r\nHost: HOST\r\n\r\n", 404),
    "the folder above": ("GET /assets/../page.py HTTP/1.1\r\nHost: HOST\r\n\r\n", 404),
    "the folder above, encoded": ("GET /assets/..%2fpage.py HTTP/1.1\r\nHost: HOST\r\n\r\n", 404),
    "a picture that is none": ("GET /picture/passwords HTTP/1.1\r\nHost: HOST\r\n\r\n", 404),
    "a serial that is none": ("GET /answer?_serial=x HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "a serial of twenty digits": (f"GET /answer?_serial={'9' * 20} HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "settings that are none, in a file": ("GET /csv/run?steps=%ff%zz HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "settings that are none, in a report": ("GET /report?delta=2 HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "settings that are none, as JSON": ("GET /json?epochs=1e999999999 HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "curves that are not drawn": ("GET /csv/run?mechanism=sgm&adjacency=replace-one HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "an address of any length": (f"GET /?steps={'1' * 70_000} HTTP/1.1\r\nHost: HOST\r\n\r\n", 414),
    "any number of headers": (f"{GET}{'X: y' * 1}\r\n{''.join(f'X{one}: y' + chr(13) + chr(10) for one in range(200))}\r\n", 431),
    "no name of ours": ("GET / HTTP/1.0\r\n\r\n", 403),
    "two names": ("GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", 403),
    "another name in the address": ("GET http://evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 403),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_question_is_one_line(address: str, name: str) -> None:
    request, status = MALFORMED[name]
    head, _, body = raw(address, request).partition("\r\n\r\n")
    assert head.split(" ", 2)[1] == str(status)
    assert body.count("\n") == 1
    assert body.endswith("\n")
    assert "Traceback" not in body
    assert "<html" not in body.lower()


@pytest.mark.parametrize("request_", ["\x16\x03\x01\x02\r\n\r\n", "GET / HTTP/9.9\r\nHost: HOST\r\n\r\n", "\r\n", ""])
def test_what_is_no_http_is_one_line_or_nothing(address: str, request_: str) -> None:
    assert raw(address, request_).count("\n") <= 1


@pytest.mark.parametrize(
    "query_",
    ["steps=%ff%zz", "steps=%00", "sample-rate=1/0", "dataset-size=1e999999999", "foo=1&bar=2", "steps=1&steps=2"],
)
def test_settings_that_cannot_be_are_said_on_the_page(address: str, query_: str) -> None:
    """Of the page's own questions the answer is a banner, which is no fault of the request."""
    answer = get(address, f"/answer?{query_}")
    assert answer.status == 200
    found = json.loads(answer.read())
    assert found["title"] == "not possible · noisymean"
    assert found["refused"]


# --- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["run", "growth", "one-round"])
def test_a_table_says_its_settings_and_the_command_that_gives_its_numbers(address: str, part: str) -> None:
    answer = get(address, f"/csv/{part}?{query(BROKEN)}")
    assert f"{settings_of(BROKEN).file_name}.csv" in answer.headers["Content-Disposition"]
    said = [line[2:] for line in answer.read().decode().splitlines() if line.startswith("# ")]
    assert said[0].startswith(f"noisymean {nm.__version__}: ")
    assert said[1] == "FEASGM: N = 140,199, n = 26,010, q = 0.005, σ = 10, 200 steps, δ = 10⁻⁵"
    done = run(*shlex.split(said[2])[1:], "--json")
    assert (
        json.loads(done.out)["settings"]
        == nm.account(
            nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="1/200", noise_multiplier=10.0),
            steps=200,
            delta=1e-5,
        ).to_dict()["settings"]
    )


def test_the_json_is_what_the_command_prints(address: str) -> None:
    answer = get(address, f"/json?{query(BROKEN)}")
    assert f"{settings_of(BROKEN).file_name}.json" in answer.headers["Content-Disposition"]
    words = shlex.split(" ".join(settings_of(BROKEN).command_parts()))
    assert json.loads(answer.read()) == json.loads(run(*words[1:], "--json").out)
