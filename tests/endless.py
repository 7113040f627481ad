"""`noisymean explore` with a report that is never finished: a program, which its processes import as well."""

from __future__ import annotations

import os
from pathlib import Path

from noisymean.cli.explore import account_record, read
from noisymean.explore import server
from noisymean.explore.settings import Commands
from noisymean.report.asked_run import AskedRun


def report(run: AskedRun, line: str) -> str:
    """It says that it has been begun."""
    Path(os.environ["BEGUN"]).touch()
    while True:
        pass


def serve() -> None:
    """Until a signal."""
    with server.bound(0) as listening:
        server.serve(listening, Commands(read, account_record, report), lambda url: print(url, flush=True), limit=60.0)
