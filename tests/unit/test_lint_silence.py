"""Comments that silence: their own statement, the rules that they name, and nothing that only looks like a comment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noisymean.lint import Linted
from noisymean.lint.linter import lint

# NM003 on the line of the call; the denominator is fixed, so nothing else is found.
HEAD = "from noisymean.integrations.opacus import fix\nimport opacus\nfix(optimizer, denominator=9)\n"
CALL = "engine.make_private(data_loader=a, poisson_sampling=False)"


def read(folder: Path, text: str) -> Linted:
    (folder / "train.py").write_text(HEAD + text, encoding="utf-8")
    return lint([folder])


def silenced(found: Linted) -> list[tuple[str, int, str]]:
    return [(one.finding.rule.id, one.finding.place.line, one.reason) for one in found.ignored]


def left(found: Linted) -> list[tuple[str, int]]:
    return [(one.rule.id, one.place.line) for one in found.findings]


def idle(found: Linted) -> list[tuple[int, tuple[str, ...]]]:
    return [(one.place.line, one.rules) for one in found.idle]


def test_without_a_comment_it_is_found(tmp_path: Path) -> None:
    found = read(tmp_path, CALL)
    assert (left(found), silenced(found), idle(found)) == ([("NM003", 4)], [], [])


def test_a_comment_silences_its_line_and_no_other(tmp_path: Path) -> None:
    found = read(tmp_path, f"{CALL}  # noisymean: ignore[NM003] the loader is a fixture\n{CALL}\n")
    assert silenced(found) == [("NM003", 4, "the loader is a fixture")]
    assert left(found) == [("NM003", 5)]
    assert idle(found) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noisymean: ignore[NM003]",
        "#noisymean:ignore[NM003]",
        "# NoisyMean: Ignore [nm003]",
        "# noisymean: ignore[NM001, NM003]",
        "# noisymean: ignore[NM001 NM003,]",
        "# type: ignore  # noisymean: ignore[NM003]",
    ],
)
def test_ways_to_write_it(tmp_path: Path, comment: str) -> None:
    found = read(tmp_path, f"{CALL}  {comment}\n")
    assert silenced(found) == [("NM003", 4, "")]
    assert left(found) == []
    # what else is named is named in vain
    assert idle(found) == ([(4, ("NM001",))] if "NM001" in comment.upper() else [])


@pytest.mark.parametrize(
    "line",
    [
        # the same text in a string is no comment
        f'{CALL}; print("# noisymean: ignore[NM003] no")',
        f"{CALL}; f'''\n# noisymean: ignore[NM003]\n'''",
        'engine.make_private("# noisymean: ignore[NM003]", poisson_sampling=False)',
        # nor does another rule, another name, or the line above it, silence it
        f"{CALL}  # noisymean: ignore[NM004]",
        f"{CALL}  # noisymean: ignore",
        f"{CALL}  # noisymean: ignore[]",
        f"{CALL}  # noqa: NM003",
        f"{CALL}  # noisymean: ignored[NM003]",
        f"{CALL}  # noisymean: ignore NM003",
        f"# noisymean: ignore[NM003]\n{CALL}",
        f"{CALL}\n# noisymean: ignore[NM003]",
    ],
)
def test_what_does_not_silence(tmp_path: Path, line: str) -> None:
    found = read(tmp_path, line + "\n")
    assert [name for name, _ in left(found)] == ["NM003"]
    assert silenced(found) == []


@pytest.mark.parametrize("at", range(4))
def test_any_line_of_a_statement_will_do(tmp_path: Path, at: int) -> None:
    lines = ["engine.make_private(", "    data_loader=a,", "    poisson_sampling=False,", ")"]
    lines[at] += "  # noisymean: ignore[NM003] why"
    found = read(tmp_path, "\n".join(lines) + f"\n{CALL}\n")
    assert silenced(found) == [("NM003", 4, "why")]
    assert left(found) == [("NM003", 8)]


def test_what_stands_in_a_loop_is_not_the_loop(tmp_path: Path) -> None:
    """NM036 is found at the `if`; a comment in what hangs on it is about something else."""
    text = (
        "def train(batches, clip, sigma):\n    for grads in batches:\n        if len(grads) == 0:{}\n            continue{}\n"
        "        noisy = grads.sum(0) + sigma * clip * torch.randn(3)\n        optimizer.step()\n"
    )
    comment = "  # noisymean: ignore[NM036]"
    assert [name for name, _, _ in silenced(read(tmp_path, text.format(comment, "")))] == ["NM036"]
    inside = read(tmp_path, text.format("", comment))
    assert "NM036" in [name for name, _ in left(inside)]
    assert idle(inside) == [(7, ("NM036",))]


@pytest.mark.parametrize(
    ("comment", "rules"),
    [
        ("# noisymean: ignore[NM003]", ("NM003",)),
        ("# noisymean: ignore[NM999] no such rule", ("NM999",)),
        ("# noisymean: ignore[poisson-sampling-off]", ("POISSON-SAMPLING-OFF",)),
        ("# noisymean: ignore", ()),
        ("# noisymean: ignore[]", ()),
    ],
)
def test_a_comment_in_vain_is_listed(tmp_path: Path, comment: str, rules: tuple[str, ...]) -> None:
    found = read(tmp_path, f"x = 1  {comment}\n")
    assert idle(found) == [(4, rules)]
    (one,) = found.idle
    assert one.place.column == 8
    assert all(name in one.says for name in rules)


def test_of_several_rules_those_in_vain_are_listed(tmp_path: Path) -> None:
    found = read(tmp_path, f"{CALL}  # noisymean: ignore[NM003, NM004, NM003]\n")
    assert idle(found) == [(4, ("NM004",))]


def notebook(*cells: str, one_line: bool) -> str:
    made = {
        "cells": [
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell if one_line else cell.splitlines(True)}
            for cell in cells
        ],
        "metadata": {},
        "nbformat": 4,
    }
    return json.dumps(made) if one_line else json.dumps(made, indent=1)


@pytest.mark.parametrize("one_line", [False, True])
def test_in_a_notebook_a_comment_is_for_its_cell(tmp_path: Path, one_line: bool) -> None:
    """Also where the whole file is one line, and every cell begins on it."""
    cells = (HEAD, f"x = 1\n{CALL}  # noisymean: ignore[NM003] here", f"x = 2\n{CALL}", "# noisymean: ignore[NM003]")
    (tmp_path / "train.ipynb").write_text(notebook(*cells, one_line=one_line), encoding="utf-8")
    found = lint([tmp_path])
    assert [(one.finding.place.cell, one.finding.place.cell_line, one.reason) for one in found.ignored] == [
        (2, 2, "here")
    ]
    assert [(one.place.cell, one.place.cell_line) for one in found.findings] == [(3, 2)]
    assert [(one.place.cell, one.rules) for one in found.idle] == [(4, ("NM003",))]


def test_many_comments_take_no_time_and_little_room(tmp_path: Path) -> None:
    """5,000 of them, and one that names 10,000 rules."""
    many = "x = 1  # noisymean: ignore[NM003]\n" * 5_000 + "# noisymean: ignore[" + "NM001," * 10_000 + "]\n"
    found = read(tmp_path, f"{CALL}  # noisymean: ignore[NM003]\n{many}")
    assert silenced(found) == [("NM003", 4, "")]
    assert len(found.idle) == 5_001
    assert found.idle[-1].rules == ("NM001",)
