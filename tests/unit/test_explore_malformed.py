"""Malformed requests to `noisymean explore`: a line and a 4xx each, nothing on standard error, and the page still answers."""

from __future__ import annotations

import json
import signal
from collections import Counter
from random import Random

import pytest

from explored import started
from malformed import request, sent

# Of those that are as large as ten megabytes; the others are small.
_EVERY_LARGE = 100


def check(seeds: range) -> Counter[int]:
    """How often each status was answered; an assertion where it is no complaint."""
    found = Counter[int]()
    with started("--json") as (told, process):
        port = json.loads(told)["port"]
        for seed in seeds:
            content = request(Random(seed), port, large=seed % _EVERY_LARGE == 0)
            answer = sent(port, content)
            about = (seed, content[:200], answer.status, answer.body[:300])
            assert 400 <= answer.status < 500 or (answer.status == 0 and len(content) > 2**16), about
            assert "Traceback" not in answer.body, about
            assert answer.status == 0 or len(answer.body.splitlines()) <= 1, about
            found[answer.status] += 1
        fine = sent(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert fine.status == 200
    assert (process.returncode, out) == (0, "")
    assert err == "Ctrl-C ends it\nended\n"
    return found


def test_some_malformed_requests() -> None:
    assert len(check(range(120))) > 2


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_two_thousand_malformed_requests(start: int) -> None:
    check(range(start, start + 500))
