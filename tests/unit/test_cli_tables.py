"""What a terminal is shown: nothing is cut off or broken in two, whatever the width of the window; colours where they are wanted."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from command_line import run
from noisymean.cli import main
from noisymean.cli.listed import COMMANDS as COMMANDS_LISTED
from noisymean.cli.listed import Part
from noisymean.cli.tables import Column, Kind, show

NUMBERS = [("epsilon at delta", "12.345678", "0.718036", "366.541001"), ("delta", "0.00012345", "-", "-")]
COLUMNS = [Column(""), Column("claimed", Kind.NUMBER), Column("leaked", Kind.NUMBER), Column("sound", Kind.NUMBER)]
WHY = "a reason of a few words that may be wrapped, and one-very-long-name/that/is/one.py:12"


def printed(width: int, columns: list[Column], rows: Sequence[Sequence[str]], **how: bool) -> list[str]:
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False), columns, rows, **how)
    return out.getvalue().split("\n")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_numbers_are_whole_and_inside(width: int) -> None:
    lines = printed(width, COLUMNS, NUMBERS)
    assert max(len(line.rstrip()) for line in lines) <= width
    words = " ".join(lines).split()
    assert all(number in words for row in NUMBERS for number in row[1:] if number != "-")


def test_prose_wraps_before_anything_else_gives_way() -> None:
    rows = [("P01 denominator from the data", "not checkable", WHY)]
    columns = [Column("pitfall", Kind.TITLE), Column("outcome"), Column("why", Kind.PROSE)]
    wide, narrow, tiny = (printed(width, columns, rows, close=True) for width in (80, 60, 40))
    assert any("P01 denominator from the data  not checkable  a reason" in line for line in wide)
    assert any("not checkable" in line and "P01 denominator" in line for line in narrow)
    assert not any("from the data" in line for line in narrow)
    # rows become lines
    assert "pitfall P01 denominator from the data" in tiny
    assert any(line.startswith("  outcome  not checkable") for line in tiny)


def test_gaps_shrink_before_rows_become_lines() -> None:
    rows = [tuple(f"{one}.{'1' * 6}" for one in range(7))]
    columns = [Column(f"c{one}", Kind.NUMBER) for one in range(7)]
    assert printed(80, columns, rows)[3].startswith(" 0.111111   1.111111")
    assert printed(72, columns, rows)[3].startswith(" 0.111111  1.111111")
    assert printed(62, columns, rows)[3].startswith("0.111111 1.111111")
    assert printed(61, columns, rows)[1] == "c0 0.111111"


def test_a_place_stays_whole_where_rows_are_lines() -> None:
    place = "folder/" * 9 + "train.py:12"
    lines = printed(40, [Column("rule"), Column("place")], [("NM001", f"{place}\nline of source")])
    assert f"  place  {place}" in lines
    assert "         line of source" in lines


COMMANDS = {
    "curve": "curve --mechanism feasgm --dataset-size 140199 --dimension 26010 --sample-rate 0.005 --noise-multiplier 10"
    " --alpha 0.01,0.123456,0.5",
    "account": "account --mechanism easgm --dataset-size 60000 --dimension 26010 --sample-rate 0.01 --noise-multiplier 1"
    " --steps 100 --delta 1e-5",
    "audit": "audit synthetic --mechanism easgm --dataset-size 4 --dimension 20 --sample-rate 0.05 --noise-multiplier 10"
    " --seed 1 --trials 400",
    "probe": "probe synthetic:easgm",
    "calibrate": "calibrate --mechanism sgm --sample-rate 0.01 --steps 1000 --target-epsilon 2 --delta 1e-5",
    "data": "data list",
    "rules": "code-audit --list-rules",
    "check": "check {script}",
    "code-audit": "code-audit {script}",
}
SUM = "account --mechanism sgm --sample-rate 0.01 --noise-multiplier 1 --steps 100 --delta 1e-5"
SCRIPT = """
import torch
from opacus import PrivacyEngine

def step(model, loader, sigma, clip):
    grads = [p.grad_sample for p in model.parameters()]
    total = sum(grads) + sigma * clip * torch.randn(10)
    return total / len(loader.dataset_of_all_the_records_there_are)

PrivacyEngine().make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_no_number_is_lost(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The words and numbers are the same at every width, and a line of a table is no wider than the window."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(folder)
    said = {}
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        done = run(*COMMANDS[name].format(script="train.py").split())
        assert done.code == 0, done.err
        lines = done.out.split("\n")
        heads = [at for at, line in enumerate(lines) if line.strip() and set(line.strip()) <= {"─"}]
        assert all(len(lines[at]) <= width for at in heads)
        said[width] = {word for word in done.out.split() if any(map(str.isdigit, word))}
    assert said[60] == said[80] == said[120]


@pytest.mark.parametrize("width", [60, 80])
def test_the_list_of_commands_is_not_cut_off(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command with its whole line, inside the window."""
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("--help").out
    assert max(map(len, shown.splitlines())) <= width
    assert "..." not in shown.replace("[ARGS]...", "")
    joined = " ".join(shown.split())
    for name, one in COMMANDS_LISTED.items():
        assert f" {name} {one.says}" in joined
    assert all(f"{part.value}:" in shown for part in Part)


class _Terminal(io.StringIO):
    """What somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "settings", "coloured"),
    [
        (_Terminal, {}, True),
        (_Terminal, {"NO_COLOR": "1"}, False),
        (_Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, True),
    ],
)
@pytest.mark.parametrize(("command", "word", "colour"), [("account", "violated", "31"), ("sum", "holds", "32")])
def test_a_verdict_has_its_colour_where_colours_are_wanted(
    command: str,
    word: str,
    colour: str,
    out: type[io.StringIO],
    settings: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **settings}.items():
        monkeypatch.setenv(name, value)
    words = {**COMMANDS, "sum": SUM}[command].split()
    stream = out()
    with contextlib.redirect_stdout(stream):
        assert main(words) == 0
    said = stream.getvalue()
    assert (f"\x1b[1;{colour}m{word}" in said) is coloured
    # the word is there in any case, and in JSON there is nothing else
    assert word in said
    stream = out()
    with contextlib.redirect_stdout(stream):
        assert main([*words, "--json"]) == 0
    assert "\x1b" not in stream.getvalue()
    assert json.loads(stream.getvalue())["verdict"] == word


def test_a_rule_is_explained_inside_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prose is wrapped for a reader; code, which is copied, is not."""
    monkeypatch.setenv("COLUMNS", "60")
    stream = _Terminal()
    with contextlib.redirect_stdout(stream):
        assert main(["code-audit", "--explain", "NM034"]) == 0
    code = [line for line in stream.getvalue().splitlines() if line.startswith("    ")]
    assert max(map(len, code)) > 60
    assert all(len(line) <= 60 for line in stream.getvalue().splitlines() if line not in code)
    piped = run("code-audit", "--explain", "NM034").out
    assert " ".join(piped.split()) == " ".join(stream.getvalue().split())
