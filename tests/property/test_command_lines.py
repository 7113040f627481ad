"""Random command lines: one line of complaint or an answer, never a traceback, never a file half-written.

Options are taken from the commands themselves, so that a new one is tried without being added here. `make test` runs a part,
`make test-all` ten thousand; both always the same ones.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer.main

from command_line import run
from noisymean.cli import app

COMMANDS: dict[str, Any] = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]

# Numbers that fit nowhere, numbers that fit by mistake, and text that is no number.
GARBAGE = (
    *("", "nan", "inf", "-inf", "-1", "0", "1e400", "-0", "0x10", "1_000", "1e-400", "1/0", "0/1", "1/3", "½", "٣"),
    *("true", "None", "[]", "{}", ";rm -rf x", "$(x)", "../..", "/", "\x00", "\x1b[31m", "--", "-", "🙂", "a b"),
    *("%s", "{0}", "99999999999999999999999999", "1.5", "1e9", "2\n3", "C:\\x", "'", '"', "<script>", "&amp;"),
    *("1e5e5", "++1", "0.1.2"),
)

# What a user would type there; small, so that an answer takes milliseconds.
SENSIBLE: dict[str, tuple[str, ...]] = {
    "mechanism": ("sgm", "easgm", "asgm", "feasgm", "opacus-loader"),
    "dataset_size": ("1", "4", "10", "59999", "1000000000"),
    "dimension": ("1", "3", "20", "26010"),
    "sample_rate": ("0.5", "1", "0.01", "1/200", "1e-6"),
    "batch_size": ("1", "2", "5", "300"),
    "noise_multiplier": ("0.5", "1", "10", "1e3"),
    "max_grad_norm": ("0.1", "1"),
    "steps": ("1", "100", "1000"),
    "epochs": ("1", "0.5"),
    "delta": ("1e-5", "0.1", "1e-12"),
    "epsilon": ("0", "1", "8"),
    "alpha": ("0.1", "0.01,0.5", "0,1"),
    "points": ("2", "11"),
    "adjacency": ("add-remove", "zero-out", "replace-one"),
    "target_epsilon": ("1", "8"),
    "target": ("synthetic", "nothing.py:f", "broken.py:f", "mine.py:release", "opacus==9", "synthetic:sgm"),
    "gradients": ("random", "zero", "aligned", "opposed"),
    "trials": ("2", "16", "64"),
    "confidence": ("0.95", "0.5"),
    "seed": ("0", "7"),
    "jobs": ("1",),
    "plot": ("picture.png", "picture.svg", "no/where.png", "picture.txt", "."),
    "out": ("out", "broken.py", "page.html", "no/where/page.html"),
    "store": ("trials.sqlite", "broken.py", "no/where.sqlite"),
    "distinguisher_name": ("paper", "likelihood-ratio", "learned"),
    "test": ("ks", "chi2", "ad", "shapiro"),
    "files": ("broken.py", "account.json", "nothing.json", "."),
    "paths": ("broken.py", "mine.py", "nothing.py", "."),
    "html": ("page.html", "no/where.html"),
    "max_epsilon": ("3", "0"),
    "calibrated_to": ("3",),
    "calibrated_delta": ("1e-5", "1/N"),
    "calibrated_epochs": ("1", "2"),
    "calibrated_with": ("rdp", "magic"),
}
# Would run for minutes, fetch from the network or wait for a browser: only their mistakes are tried.
NEVER_RIGHT = {
    "reproduce": "name",
    "demo": "out",
    "data": "action",
    "explore": "port",
    "code-audit": "packages",
    "field": "only",
}
WRONG = {
    "name": "fig1",
    "out": "broken.py",
    "action": "steal",
    "port": "99999999",
    "packages": "no/such/folder",
    "only": "no-such-library",
}
assert all(name in {one.name for one in COMMANDS[command].params} for command, name in NEVER_RIGHT.items())
# Read as folders, these are all files of the machine.
EVERYWHERE = ("/", "../..")

SELDOM: tuple[str, ...] = (
    "plot",
    "store",
    "epsilon",
    "epochs",
    "alpha",
    "points",
    "test",
    "distinguisher_name",
    "batch_size",
    "html",
)
SELDOM += ("max_epsilon", "calibrated_to", "calibrated_delta", "calibrated_epochs", "calibrated_with")
# What was asked for is there, and no judgement of it.
UNJUDGED = "error: --fail-on-violation: nothing was judged"

MINE = """
def release(extra_record, generator):
    return [generator.normal() + extra_record]
"""


def garbage(random: Random) -> str:
    if random.random() < 0.8:
        return random.choice(GARBAGE)
    return "".join(chr(random.choice((random.randrange(1, 128), random.randrange(0x11000)))) for _ in range(9))


def value_for(name: str, random: Random) -> str:
    """Nearly always what a user would type: a line has many options."""
    if name not in SENSIBLE or random.random() < 0.04:
        word = garbage(random)
        return "no/such/folder" if name in ("files", "paths") and word in EVERYWHERE else word
    return random.choice(SENSIBLE[name])


def command_line(random: Random) -> list[str]:
    """A command, most of its options, now and then a word too many."""
    name = random.choice(sorted(COMMANDS))
    words = [name]
    forced = NEVER_RIGHT.get(name)
    for parameter in COMMANDS[name].params:
        is_option = bool(parameter.opts and parameter.opts[0].startswith("-"))
        if parameter.name == forced:
            words += [parameter.opts[0]] * is_option + [WRONG[forced]]
            continue
        # what a command cannot do without is nearly always there, what excludes something else seldom
        usual = (parameter.name in SENSIBLE or not is_option) and parameter.name not in SELDOM
        if parameter.name == "help" or random.random() > (0.97 if usual else 0.03):
            continue
        if getattr(parameter, "is_flag", False):
            words.append(random.choice([*parameter.opts, *parameter.secondary_opts]))
        elif is_option:
            words += [parameter.opts[0], value_for(str(parameter.name), random)]
        else:
            words.append(value_for(str(parameter.name), random))
    if random.random() < 0.05:
        words.insert(random.randint(0, len(words)), garbage(random))
    return words


def check(words: list[str], folder: Path) -> int:
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "mine.py").write_text(MINE)
    (folder / "account.json").write_text("{}")
    before = sorted(folder.rglob("*"))
    result = run(*words)
    line = shlex.join(words)
    left = [path for path in sorted(folder.rglob("*")) if path not in before and "__pycache__" not in path.parts]
    assert result.code in (0, 1, 2), (line, result)
    assert not [path.name for path in left if path.name.startswith(".") or "unfinished" in path.name], line
    if result.code == 2 and not result.err.splitlines()[-1].startswith(UNJUDGED):
        assert result.out == "", line
        assert len(result.err.rstrip("\n").splitlines()) == 1, (line, result.err)
        assert result.err.startswith("error: "), (line, result.err)
        assert not left, (line, left)
    elif "--json" in words and words[0] in COMMANDS:
        json.loads(result.out, parse_constant=lambda text: pytest.fail(f"{line}: {text} is not JSON"))
    for path in left:
        path.unlink() if path.is_file() else None
    return result.code


def fuzz(seeds: range, folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)
    try:
        codes = Counter(check(command_line(Random(seed)), folder) for seed in seeds)
    finally:
        os.chdir(here)
    # neither are all refused nor all answered
    assert min(codes[0], codes[2]) > len(seeds) / 20, codes


def test_some_command_lines(tmp_path: Path) -> None:
    fuzz(range(60), tmp_path)


ONCE_FAILED = (
    pytest.param(
        "audit synthetic --mechanism sgm --dataset-size 10 --dimension 26010 --sample-rate 1 --noise-multiplier 0.5"
        " --gradients aligned --steps 1000 --trials 20 --seed 0",
        id="a claim whose lines are steeper than a double holds",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "account --mechanism feasgm --dataset-size 1 --dimension 3 --sample-rate 1/200 --noise-multiplier 1e3 --steps 1"
        " --delta 1e-5 --plot picture.svg",
        id="epsilon is 0 at every step",
    ),
)


@pytest.mark.parametrize("line", ONCE_FAILED)
def test_command_lines_that_once_failed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check(shlex.split(line), tmp_path) == 0


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 10_000, 250))
def test_ten_thousand_command_lines(start: int, tmp_path: Path) -> None:
    fuzz(range(start, start + 250), tmp_path)
