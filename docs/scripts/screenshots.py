"""The pages of the documents in a browser: run by `pictures.py` (needs Chromium, `make browser`)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS.parent / "tests"))

from browser import browser_page  # noqa: E402 - the tests' own browser

SETTING = {
    "mechanism": "feasgm",
    "dataset-size": "140199",
    "dimension": "26010",
    "sample-rate": "1/200",
    "noise-multiplier": "10",
    "steps": "200",
    "delta": "1e-5",
}
NOISYMEAN = [sys.executable, "-m", "noisymean"]


def explore(target: Path) -> None:
    """`noisymean explore` at the setting that its document shows."""
    with subprocess.Popen([*NOISYMEAN, "explore", "--limit", "60"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            # high enough for the whole form, and for the pictures
            with browser_page(width=1200, height=1600) as seen:
                seen.page.goto(f"{address}?{urlencode(SETTING)}")
                seen.page.wait_for_selector("#number-claimed", timeout=120_000)
                seen.page.wait_for_function("() => !document.querySelector('[aria-busy=true]')", timeout=120_000)
                # what was dimmed while it was computed comes back slowly
                seen.page.wait_for_timeout(1_000)
                seen.page.screenshot(path=target)
                seen.check()
        finally:
            server.terminate()


def report(target: Path) -> None:
    """`noisymean report` of Opacus' round numbers."""
    run = ["--mechanism", "opacus-loader", "--dataset-size", "60000", "--batch-size", "600", "--dimension", "26010"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run(
            [*NOISYMEAN, "report", *run, "--noise-multiplier", "1", "--epochs", "1", "--delta", "1e-5", "--out", page],
            check=True,
        )
        with browser_page(width=1200, height=1000) as seen:
            seen.page.goto(page.as_uri())
            seen.page.wait_for_timeout(2_000)
            seen.page.screenshot(path=target)
            seen.check()
