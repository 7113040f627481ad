"""One run under several mechanisms on a page, and what somebody writes above a page of theirs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from test_report import Text, commands_in, text_seen

import noisymean as nm
from browser import browser_page
from command_line import run
from noisymean.mechanisms import Mechanism, from_plain
from noisymean.report.page import banners

RUN = (
    *("--dataset-size", "60", "--dimension", "50", "--batch-size", "6", "--noise-multiplier", "5"),
    *("--steps", "4", "--delta", "1e-5"),
)
NAMES = ("easgm", "feasgm", "asgm", "sgm", "opacus-loader")
SUM = ("--mechanism", "sgm", "--sample-rate", "1", "--noise-multiplier", "5", "--steps", "1", "--delta", "1e-5")


def mechanism(name: str) -> Mechanism:
    rate = {"batch_size": 6} if name == "opacus-loader" else {"sample_rate": "1/10"}
    return from_plain({"name": name, "dataset_size": 60, "dimension": 50, "noise_multiplier": 5.0, **rate})


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("compared") / "page.html"
    done = run("report", "--compare", ",".join(NAMES), *RUN, "--out", str(page))
    assert done.code == 0, done.err
    return page


def test_every_mechanism_has_its_own_numbers(compared: Path) -> None:
    seen = text_seen(compared)
    answers = {name: nm.account(mechanism(name), steps=4, delta=1e-5) for name in NAMES}
    assert {answer.verdict for answer in answers.values()} == {"violated", "holds"}
    for name, answer in answers.items():
        shown = " ".join(banners.three(answer).values())
        assert re.search(rf"{name.upper()} .{{1,160}} 4 {re.escape(shown)} {answer.verdict}", seen), name
    # the worst leads
    worst = max(NAMES, key=lambda name: answers[name].leakage.epsilon or 0.0)
    assert f"The worst is {worst.upper()}: ε = " in seen
    broken = sum(answer.verdict == "violated" for answer in answers.values())
    assert f"Under {broken} of 5 mechanisms the promised privacy is not kept" in seen


def test_the_commands_give_the_same_numbers(compared: Path) -> None:
    commands = commands_in(compared, "noisymean account")
    assert len(commands) == len(NAMES)
    for name, command in zip(NAMES, commands, strict=True):
        again = json.loads(run(*shlex.split(command)[1:], "--json").out)
        answer = nm.account(mechanism(name), steps=4, delta=1e-5)
        assert again["mechanism"] == name
        assert again["leakage"]["epsilon"] == answer.leakage.epsilon


def test_the_gate_sees_each_of_them(tmp_path: Path) -> None:
    """The floor of N/4 stays with one record more or less than 10, and what N/4 is does not."""
    sized = ("--dataset-size", "10", "--dimension", "50", "--sample-rate", "1/4", "--noise-multiplier", "5")
    for names, code in (("sgm,easgm", 1), ("sgm,feasgm", 0)):
        typed = (*sized, "--steps", "1", "--delta", "1e-5", "--fail-on-violation", "--out", str(tmp_path / "p.html"))
        done = run("report", "--compare", names, *typed)
        assert (done.code, bool(done.err)) == (code, bool(code)), done.err


def test_a_replaced_record_is_another_question(tmp_path: Path) -> None:
    """It breaks the claim of the noisy sum as well, and nobody had claimed that."""
    done = run(
        "report", "--compare", "sgm,easgm", *RUN, "--adjacency", "replace-one", "--out", str(tmp_path / "p.html")
    )
    assert done.code == 0, done.err
    seen = text_seen(tmp_path / "p.html")
    assert "Under both mechanisms the promised privacy is not kept when a record is replaced (SGM, EASGM)." in seen
    assert banners.REPLACED in seen


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (("--compare", "easgm"), "--compare=easgm: must be at least two mechanisms"),
        (("--compare", "easgm,easgm"), "--compare=easgm,easgm: must be different mechanisms"),
        (("--compare", "easgm,"), "--compare=easgm,: must be some of sgm, easgm"),
        (("--compare", "sgm,easgm", "--mechanism", "sgm"), "--mechanism=sgm: must be left out with --compare"),
    ],
)
def test_names_that_are_none(typed: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    done = run("report", *typed, *RUN, "--out", str(tmp_path / "p.html"))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert complaint in done.err
    assert not (tmp_path / "p.html").exists()


def test_title_author_and_notes_are_text(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    evil, long = "<script>alert(1)</script>", "x" * 3_000
    notes = f"{long}\n<img src=x onerror=alert(2)>\u202e second line"
    typed = ("report", *SUM, "--title", evil, "--author", '"><b>A & B', "--notes", notes, "--out", str(page))
    done = run(*typed)
    assert done.code == 0, done.err
    content = page.read_text(encoding="utf-8")
    seen = Text(content)
    assert "img" not in seen.tags
    assert "b" not in seen.tags
    assert evil in seen.seen
    assert '"><b>A & B, 20' in seen.seen
    # what turns the direction of writing is spelled out, and lines stay lines
    assert "\u202e" not in content
    assert re.search(r'<div class="notes">x{3000}\n&lt;img', content)
    with browser_page(width=390, height=800) as found:
        found.page.goto(page.as_uri())
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 390
        found.check()


def test_without_them_there_is_nothing_above(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("report", *SUM, "--out", str(page)).code == 0
    content = page.read_text(encoding="utf-8")
    assert 'class="author"' not in content
    assert 'class="notes"' not in content
