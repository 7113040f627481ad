"""Requests to `noisymean explore` that are none: always the same ones, from a seed, over loopback and nowhere else.

Every one has something wrong with it: its body, its types, its encoding, its method, its path, its query or its head.
"""

from __future__ import annotations

import json
import socket
from random import Random
from typing import NamedTuple
from urllib.parse import quote_from_bytes

_PATHS = (b"/answer", b"/picture/growth", b"/csv/growth", b"/json", b"/report", b"/elsewhere", b"/", b"/plotly.js")
_OTHER_PATHS = (
    b"/_dash-update-component",
    b"/../../etc/passwd",
    b"/assets/../server.py",
    b"/%2e%2e/%2e%2e",
    b"/picture/",
    b"/csv/x",
)
_METHODS = (b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"BREW", b"CONNECT", b"G\xffT", b"")
_KINDS = (
    b"application/json",
    b"text/plain",
    b"multipart/form-data; boundary=x",
    b"application/x-www-form-urlencoded",
    b"\xff/\x00",
)
_NAMES = (
    b"mechanism",
    b"dataset-size",
    b"sample-rate",
    b"steps",
    b"delta",
    b"_serial",
    b"_page",
    b"sampling",
    b"colour",
    b"",
)
_LARGE = 10 * 2**20


class Answer(NamedTuple):
    """What the server said: 0 where it closed the connection without a word."""

    status: int
    body: str


def body(random: Random, *, large: bool) -> bytes:
    """Of a callback that nobody has asked for."""
    inputs = [None, [], {}, 1, "x", [[]], {"id": 1}, [{"id": {"index": None}, "property": 3}]]
    made = {
        name: random.choice(inputs)
        for name in random.sample(["output", "outputs", "inputs", "state", "changedPropIds"], 3)
    }
    depth = random.choice((10, 1_000, 100_000))
    return random.choice(
        (
            json.dumps(made).encode(),
            json.dumps(made).encode()[:-3],
            b"[" * depth + b"]" * depth,
            b"\xff\xfe" + random.randbytes(50),
            b'{"a": ' + b"9" * 5_000 + b"}",
            b"NaN",
            b"",
            b"x" * (_LARGE if large else 70_000),
        )
    )


def _path(random: Random) -> bytes:
    if random.random() < 0.3:
        return random.choice(
            (*_OTHER_PATHS, b"/" + quote_from_bytes(random.randbytes(9)).encode(), b"/" + b"a" * 5_000)
        )
    return random.choice(_PATHS[:6])


def _query(random: Random) -> bytes:
    """Names that the page does not have, twice the same, and values that are none; of what is a file, which cannot be then."""
    values = (
        b"%ff%fe",
        b"%00",
        b"%1b[31m",
        b"1e999999",
        b"-1",
        b"nan",
        b"9" * 300,
        b"%F0%9F%99%82",
        b"<script>",
        b"%",
        b"\xff",
    )
    wrong = b"&".join(random.choice(_NAMES) + b"=" + random.choice(values) for _ in range(random.randint(1, 4)))
    return b"?" + wrong + b"&no-such=1"


def request(random: Random, port: int, *, large: bool = False) -> bytes:
    """One of them, as it goes over the line."""
    host = b"Host: 127.0.0.1:%d" % port
    what = random.choice(
        ("body", "body", "body", "method", "query", "query", "host", "origin", "length", "line", "path")
    )
    path, content, head = _path(random), b"", [host]
    method = b"GET"
    match what:
        case "body":
            content = body(random, large=large) or b"{"
            method = random.choice((b"GET", b"POST", b"POST"))
            head += [b"Content-Type: " + random.choice(_KINDS), b"Content-Length: %d" % len(content)]
        case "method":
            method = random.choice(_METHODS)
        case "query":
            path = random.choice(_PATHS[2:5]) + _query(random)
        case "host":
            head = [random.choice((b"Host: evil.example", b"Host: 127.0.0.1", b"Host: \xff", b"X: y", b"Host: [::1"))]
        case "origin":
            head.append(random.choice((b"Origin: http://evil.example", b"Origin: null", b"Sec-Fetch-Site: cross-site")))
            path = random.choice(_PATHS[:6])
        case "length":
            head.append(
                random.choice(
                    (
                        b"Content-Length: -1",
                        b"Content-Length: 1e9",
                        b"Content-Length: \xb2",
                        b"Transfer-Encoding: chunked",
                    )
                )
            )
        case "line":
            noise = random.choice((b"\x16\x03\x01" + random.randbytes(40), b"GET", b"/ GET HTTP/1.1", b"GET / HTTP/x"))
            return noise.replace(b"\r", b"").replace(b"\n", b"") + b"\r\n" + host + b"\r\n\r\n"
        case "path":
            path = random.choice((*_OTHER_PATHS, b"*", b"http://evil.example/", b"//evil.example/"))
    return method + b" " + path + b" HTTP/1.1\r\n" + b"\r\n".join((*head, b"Connection: close")) + b"\r\n\r\n" + content


def sent(port: int, content: bytes) -> Answer:
    """What the server answers; it may answer before it has all of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        try:
            line.sendall(content)
            line.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        found = b""
        try:
            while part := line.recv(1 << 16):
                found += part
        except OSError:
            pass
    if found[:1].isdigit():
        # what is no HTTP at all is answered without a head
        return Answer(int(found[:3]), found.decode(errors="replace"))
    head, _, said = found.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    status = int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() else 0
    return Answer(status, (said if status else found).decode(errors="replace"))
