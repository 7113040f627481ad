"""`noisymean explore` as the tests see it: the real command on a free port, and its page in a real browser."""

from __future__ import annotations

import csv
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

import noisymean as nm
from browser import Seen
from noisymean.outward import at_least, at_most
from noisymean.written import plain

NAMES = ("claimed", "leakage", "guarantee")
EASY = {"mechanism": "sgm", "sample-rate": "0.02", "noise-multiplier": "4", "steps": "5000", "delta": "1e-6"}
EASY_RUN = nm.SGM(dataset_size=59_999, dimension=1_485_217, sample_rate=0.02, noise_multiplier=4.0)
LOADER = {"mechanism": "opacus-loader", "dataset-size": "60000", "dimension": "26010", "batch-size": "600"}
# A claim that one record breaks, in two steps.
BROKEN = {
    "mechanism": "feasgm", "dataset-size": "140199", "dimension": "26010", "sample-rate": "1/200", "noise-multiplier": "10",
    "steps": "200", "delta": "1e-5",
}  # fmt: skip


# One that nobody breaks and nobody proves: batches of an epoch that is shuffled, with much noise.
OPEN = {
    "mechanism": "sgm", "sampling": "shuffle", "dataset-size": "59999", "dimension": "26010", "sample-rate": "1/100",
    "batch-size": "600", "noise-multiplier": "20", "steps": "100", "delta": "1e-5",
}  # fmt: skip
# One without any guarantee.
UNBOUNDED = {
    "mechanism": "opacus-loader", "sampling": "shuffle", "dataset-size": "59999", "dimension": "26010", "batch-size": "600",
    "drop-last": "yes", "noise-multiplier": "1", "epochs": "1", "delta": "1e-5",
}  # fmt: skip


@contextmanager
def running(*words: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A program of this Python; the first line that it prints, and the process."""
    with subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        # a shell that starts us in the background would have us ignore the signal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline(), process
        finally:
            process.kill()


@contextmanager
def started(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The real command on a free port."""
    with running("-m", "noisymean", "explore", *options) as found:
        yield found


def descendants(number: int) -> list[int]:
    """The processes that one has started, by any of its threads."""
    found = [int(one) for path in Path(f"/proc/{number}/task").glob("*/children") for one in path.read_text().split()]
    return found + [deeper for one in found for deeper in descendants(one)]


def alive(number: int) -> bool:
    """Whether a process of that number is there and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- requests ----------------------------------------------------------------------------------------------------------


def raw(address: str, request: str) -> str:
    """Everything that comes back for these characters, which need not be HTTP; HOST is the server's name."""
    parts = urlsplit(address)
    with socket.create_connection((str(parts.hostname), parts.port), timeout=60) as connection:
        connection.sendall(request.replace("HOST", parts.netloc).encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return answer.read().decode("latin-1")


def get(address: str, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> http.client.HTTPResponse:
    """The answer to one request, with these headers."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    return connection.getresponse()


def table(text: str) -> dict[str, np.ndarray]:
    """The columns of a table, without the lines that say what it is of."""
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


# --- the page ----------------------------------------------------------------------------------------------------------


def opened(seen: Seen, address: str, values: Mapping[str, str]) -> Seen:
    """The page at these settings, with its numbers."""
    seen.page.goto(f"{address}?{urlencode(values)}")
    seen.page.wait_for_selector("#number-claimed")
    return seen


def shown(seen: Seen) -> list[str]:
    return [seen.page.inner_text(f"#number-{name}") for name in NAMES]


def expected(answer: nm.Account) -> list[str]:
    """The three numbers of an account as the page writes them."""
    bounds = ((answer.claimed, at_most), (answer.leakage, at_least), (answer.guarantee, at_most))
    return ["none known" if one.epsilon is None else plain(rounded(one.epsilon, ".4g")) for one, rounded in bounds]


def wait_for_numbers(seen: Seen, wanted: list[str]) -> None:
    seen.page.wait_for_function(
        "wanted => ['claimed', 'leakage', 'guarantee'].every((name, at) =>"
        " document.querySelector(`#number-${name}`)?.innerText === wanted[at])",
        arg=wanted,
    )


def typed(seen: Seen, name: str, text: str) -> None:
    """A box is filled, and left with Enter."""
    seen.page.fill(f"#box-{name}", text)
    seen.page.press(f"#box-{name}", "Enter")


@contextmanager
def without_pictures(seen: Seen) -> Iterator[None]:
    """Nothing is drawn, for tests of the numbers: what is drawn has tests of its own, and takes longer."""
    seen.page.route("**/picture/*", lambda route: route.fulfill(json={"figure": None, "note": "", "title": ""}))
    try:
        yield
    finally:
        seen.page.unroute("**/picture/*")
