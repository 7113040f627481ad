"""The page's server: on 127.0.0.1 and nowhere else.

A page of another site may have its name point here (DNS rebinding) or send requests from the user's browser: both are told by
their headers, Host, Origin and Sec-Fetch-Site, and refused. A link to the page itself may be anywhere. What is served may load
nothing from elsewhere, by its own policy. No request has a body: one that has is refused, and the body is not looked at.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from noisymean.errors import InvalidInput
from noisymean.explore.settings import Commands

if TYPE_CHECKING:
    import flask

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65535
_NAMES = ("127.0.0.1", "localhost")


def bound(port: int) -> socket.socket:
    """A socket on this machine's own address; 0: any free port."""
    if not 0 <= port <= HIGHEST_PORT:
        raise InvalidInput("port", port, f"a whole number from 0 to {HIGHEST_PORT}", "leave it out for a free one")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(128)
    except OSError as fault:
        listening.close()
        reason = fault.strerror or str(fault)
        raise InvalidInput("port", port, f"a free port ({reason})", "leave --port out for a free one") from None
    return listening


def serve(listening: socket.socket, commands: Commands, ready: Callable[[str], None], *, limit: float) -> None:
    """Until Ctrl-C or SIGTERM; `ready` is given the address once requests are answered, each within `limit` seconds."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    from noisymean.explore.page import build
    from noisymean.explore.workers import Workers

    class Quiet(WSGIRequestHandler):
        # what is no HTTP at all is answered before there is a page to ask
        error_message_format = "%(code)d: %(message)s\n"
        error_content_type = "text/plain;charset=utf-8"

        def log(self, type: str, message: str, *args: object) -> None:
            """Neither requests nor connections that a browser dropped are news."""

    port = listening.getsockname()[1]
    workers = Workers(limit, commands.report)
    try:
        with suppress(KeyboardInterrupt), _ended_by_signals():
            workers.start()
            app = build(commands, workers)
            protect(app, port)
            server = make_server(LOOPBACK, port, app, threaded=True, request_handler=Quiet, fd=listening.fileno())
            ready(f"http://{LOOPBACK}:{port}/")
            server.serve_forever()
    finally:
        workers.stop()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM, and a terminal that is closed, end it as Ctrl-C does; what was to be ignored still is."""
    names = ("SIGTERM", "SIGHUP")
    there = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [one for one in there if signal.getsignal(one) is signal.SIG_DFL]
    for one in ours:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)


def protect(app: flask.Flask, port: int) -> None:
    """Refuse what is not meant for this server, and let the page load nothing from elsewhere."""
    import flask

    hosts = {f"{name}:{port}" for name in _NAMES}
    origins = {f"http://{host}" for host in hosts}
    policy = (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    @app.before_request
    def only_from_here() -> flask.Response | None:
        given = flask.request.headers
        asked, origin, site = given.get("Host"), given.get("Origin"), given.get("Sec-Fetch-Site", "none")
        ours = site in ("none", "same-origin") or flask.request.path == "/"
        if asked not in hosts or (origin is not None and origin not in origins) or not ours:
            return flask.Response("403: this page is for this machine only\n", 403, mimetype="text/plain")
        if given.get("Content-Length", "0") != "0" or "Transfer-Encoding" in given:
            return flask.Response("400: a request to this page has no body\n", 400, mimetype="text/plain")
        return None

    @app.after_request
    def closed(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response
