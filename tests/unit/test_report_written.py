"""What a reader of a page sees is written for people, fits on paper and into a mail: pages of many kinds, as they are made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from browser import browser_page
from command_line import run
from noisymean.probe import probe

# A number in the notation of machines, a product as a program has it, and what no number is.
MACHINE = re.compile(r"\d(\.\d+)?e[+-]?\d|\w\*\w|\b(inf|nan)\b")
SMALL = ("--noise-multiplier", "30000", "--steps", "2", "--delta", "1e-5")
RUNS = {
    "a small rate": ("--mechanism", "sgm", "--sample-rate", "1e-6", *SMALL),
    "few records": (
        "--mechanism",
        "easgm",
        "--dataset-size",
        "3",
        "--dimension",
        "40",
        "--sample-rate",
        "1e-5",
        *SMALL,
    ),
    "a delta of nothing": (
        *("--mechanism", "sgm", "--sample-rate", "1e-9", "--noise-multiplier", "10000"),
        *("--steps", "1000", "--epsilon", "1"),
    ),
    "an epsilon of a million": (
        *("--mechanism", "sgm", "--sample-rate", "1", "--noise-multiplier", "0.001"),
        *("--steps", "2", "--delta", "1e-5"),
    ),
    "side by side": (
        *("--compare", "easgm,feasgm,asgm,sgm", "--dataset-size", "100000", "--dimension", "12345"),
        *("--sample-rate", "1e-5", "--noise-multiplier", "1000", "--steps", "1", "--delta", "1e-5"),
    ),
}
# What cannot be told from a longer one on paper.
MOST_PAGES, MOST_BYTES = 3, 1_500_000


class Seen(HTMLParser):
    """What is seen of a page: its words without commands and code, and its figures."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.figures: list[dict[str, Any]] = []
        self._away, self._figure = 0, False
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._away += tag in ("script", "style", "code")
        self._figure = tag == "script" and ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._away -= tag in ("script", "style", "code")

    def handle_data(self, data: str) -> None:
        if self._figure:
            self.figures.append(json.loads(data))
        elif not self._away:
            self.words.append(data)
        self._figure = False


def texts(value: Any, key: str = "") -> Iterator[str]:
    """Words in a figure: labels, ticks, and what is shown under the pointer; not numbers and colours."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from texts(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one, key)
    elif isinstance(value, str) and key in ("text", "ticktext", "customdata", "hovertemplate", "name", "title"):
        yield value


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind."""
    place = tmp_path_factory.mktemp("written")
    audit = run(
        *(
            "audit",
            "synthetic",
            "--mechanism",
            "asgm",
            "--dataset-size",
            "4",
            "--dimension",
            "5",
            "--sample-rate",
            "1e-5",
        ),
        *("--noise-multiplier", "1", "--seed", "1", "--trials", "200", "--delta", "1e-7"),
        *("--claim-epsilon", "3", "--claim-delta", "1e-5", "--json"),
    )
    assert audit.code == 0, audit.err
    (place / "audit.json").write_text(audit.out)
    (place / "probe.json").write_text(json.dumps(probe("synthetic:feasgm", seed=0, rounds=120).to_dict()))
    found = {}
    for name, typed in {
        **RUNS,
        "an audit": (str(place / "audit.json"),),
        "a probe": (str(place / "probe.json"),),
    }.items():
        found[name] = place / f"{name.replace(' ', '-')}.html"
        done = run("report", *typed, "--out", str(found[name]))
        assert done.code == 0, (name, done.err)
    return found


def test_nothing_is_in_the_notation_of_machines(pages: dict[str, Path]) -> None:
    drawn = 0
    for name, path in pages.items():
        seen = Seen(path.read_text(encoding="utf-8"))
        for words in seen.words:
            # a path is written as it is
            assert not MACHINE.search(words.replace(str(path.parent), "")), (name, words)
        for figure in seen.figures:
            drawn += 1
            for words in texts(figure):
                assert not MACHINE.search(words), (name, words)
    assert drawn >= 10


def test_the_search_sees_what_it_is_for(pages: dict[str, Path]) -> None:
    for wrong in ("δ = 1e-05", "3.4e+04", "1*C*u", "N*q", "inf", "2e9"):
        assert MACHINE.search(wrong), wrong
    for right in ("δ = 10⁻⁵", "2·10⁻⁵", "C·u", "N·q = 300", "34,280", "release 3e", "information"):
        assert not MACHINE.search(right), right
    seen = Seen(pages["a small rate"].read_text(encoding="utf-8"))
    assert "10⁻⁶" in " ".join(seen.words)
    assert "--sample-rate 1e-6" in pages["a small rate"].read_text(encoding="utf-8").replace("<span>", "").replace(
        "</span>", ""
    )
    figures = [figure for path in pages.values() for figure in Seen(path.read_text(encoding="utf-8")).figures]
    assert any("10⁻" in words for figure in figures for words in texts(figure))


def test_a_number_stays_with_its_symbol(pages: dict[str, Path]) -> None:
    """No line ends between δ, = and the number."""
    for name, path in pages.items():
        for words in Seen(path.read_text(encoding="utf-8")).words:
            assert not re.search(r"[εδNnqσ] [=≤≥]|= \d", words), (name, words)


def test_a_page_is_small(pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        assert path.stat().st_size < MOST_BYTES, name


def test_every_run_is_drawn_and_prints_on_three_sheets_of_a4(pages: dict[str, Path]) -> None:
    """In a browser, without an error; whatever is folded away on the screen is on paper."""
    with browser_page() as seen:
        for name, path in pages.items():
            seen.page.goto(path.as_uri())
            seen.page.wait_for_function(
                "[...document.querySelectorAll('.plot-area')].every(one => one.querySelector('.main-svg'))"
            )
            printed = seen.page.pdf(prefer_css_page_size=True)
            assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_PAGES, name
            sheets = {
                tuple(round(float(edge)) for edge in box.split())
                for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", printed)
            }
            # 210 by 297 mm
            assert sheets == {(0, 0, 595, 842)}, name
            seen.check()
