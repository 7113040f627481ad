"""docs/rules.md: a section for each rule that agrees with the catalogue, whose first example is found and whose second is not."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from command_line import run
from noisymean.lint import RULES, Rule
from noisymean.lint.linter import lint
from noisymean.lint.pages import section_of

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
_EXAMPLE = re.compile(r"^```\{code-block\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
each = pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)


@cache
def sections() -> dict[str, str]:
    """What stands below each heading of the second rank."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples(rule: Rule) -> tuple[str, str]:
    """The one that is found, and the one that is not."""
    bad, good = _EXAMPLE.findall(sections()[rule.id])
    return bad, good


def marked(source: str) -> set[tuple[int, str]]:
    """Lines that end in the ids of rules."""
    ends = (
        (number, re.search(r"  # (NM\d{3}(?:, NM\d{3})*)$", line)) for number, line in enumerate(source.splitlines(), 1)
    )
    return {(number, name) for number, found in ends if found for name in found[1].split(", ")}


def found_in(source: str, folder: Path) -> set[tuple[int, str]]:
    (folder / "script.py").write_text(source, encoding="utf-8")
    linted = lint([folder])
    assert linted.not_read == ()
    assert linted.idle == ()
    return {(one.place.line, one.rule.id) for one in linted.findings}


def test_every_rule_has_its_section_and_there_are_no_others() -> None:
    assert list(sections()) == list(RULES)


@each
def test_a_section_says_what_the_catalogue_says(rule: Rule) -> None:
    assert sections()[rule.id].startswith(f"\n\n**{rule.name}**, {rule.severity.value}. ")
    assert "\n*No fault:* " in sections()[rule.id]
    assert re.search(r"^\*See\* \[.*\]\(.*\)\.$", sections()[rule.id], re.MULTILINE)
    # the address that every finding shows
    assert rule.page == f"docs/rules.md#{rule.id.lower()}"


@each
def test_the_first_example_is_found_where_it_says_so(rule: Rule, tmp_path: Path) -> None:
    bad, _ = examples(rule)
    assert rule.id in {name for _, name in marked(bad)}
    assert found_in(bad, tmp_path) == marked(bad)


@each
def test_in_the_second_example_nothing_is_found(rule: Rule, tmp_path: Path) -> None:
    _, good = examples(rule)
    assert found_in(good, tmp_path) == set()


def test_what_silences_is_shown_as_it_works(tmp_path: Path) -> None:
    (shown,) = _EXAMPLE.findall(PAGE.read_text(encoding="utf-8").partition("\n## ")[0])
    (tmp_path / "script.py").write_text(f"import opacus\n{shown}", encoding="utf-8")
    linted = lint([tmp_path])
    assert [one.finding.rule.id for one in linted.ignored] == ["NM001", "NM003"]
    assert not linted.findings
    assert not linted.idle


@each
def test_the_page_of_a_rule_is_printed(rule: Rule) -> None:
    done = run("code-audit", "--explain", rule.id.lower())
    assert done.code == 0, done.err
    assert f"{rule.id} {rule.name} ({rule.severity.value})" in done.out
    for example in examples(rule):
        assert all(line.strip() in done.out for line in example.splitlines())
    # nothing of the mark-up of the page
    assert "```" not in done.out


def test_a_rule_that_there_is_not() -> None:
    done = run("code-audit", "--explain", "NM000")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --explain=NM000: must be the id of a rule; noisymean code-audit --list-rules has them\n"


def test_without_the_page_the_catalogue_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from noisymean.lint import pages

    monkeypatch.setattr(pages, "_PLACES", ())
    assert section_of(RULES["NM021"]) is None
    done = run("code-audit", "--explain", "NM021")
    assert RULES["NM021"].says in done.out.replace("\n", " ")
