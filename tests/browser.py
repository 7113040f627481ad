"""A real browser for the tests: Chromium, driven by Playwright, with every error of a page and every request recorded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Page, sync_playwright

# A page of ours needs no network; Chromium itself must not try either.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:")


@dataclass
class Seen:
    """A page, what it complained of, and what it asked of other hosts."""

    page: Page
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def check(self) -> None:
        """No error, and nothing from elsewhere."""
        assert not self.errors, self.errors
        assert not self.elsewhere, self.elsewhere


def executable() -> str:
    """Where Chromium is; `make browser` installs it."""
    for name in ("chromium", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise FileNotFoundError("no Chromium on this machine: run `make browser`")


@contextmanager
def browser_page(*, width: int = 1200, height: int = 900, scheme: Literal["light", "dark"] = "light") -> Iterator[Seen]:
    """An empty page of a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        seen = Seen(page)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("console", lambda line: seen.errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith(_LOCAL) else seen.elsewhere.append(asked.url))
        try:
            yield seen
        finally:
            browser.close()
