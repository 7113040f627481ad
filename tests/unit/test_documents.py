"""Every command and every number that README and docs show is run and compared.

A document is read from top to bottom in one folder and one namespace, as its reader would:

    console       commands after `$ `; what is shown below them is compared. `[...]` stands for anything, and a command may
                  fail if `$ echo $?` follows it
    bash, sh      commands, nothing to compare
    python        `# NAME.py` in its first line: a file of that name, for the commands that follow. With `>>>`: a doctest.
                  Else: a script
    text          shown, not run
    {directive}   for the site (test_site.py)

What is not run is listed below, with the reason; a command of ours that is not run is at least understood.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.metadata
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_cli import environment, run

from noisymean.cli.app import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    "make": "builds an environment of its own; CI runs `make test` on a fresh clone",
    "pip install": "needs an index of packages",
    "git clone": "needs the network",
    "noisymean data": "needs the network; test_data.py runs it on what is there",
    "noisymean code-audit opacus": "fetches 26 releases; test_code_audit.py runs it on those that are there",
    "noisymean reproduce": "minutes to hours; test_experiments.py runs a corner of each",
    "noisymean audit opacus --data": "needs MNIST, and minutes; test_opacus_training_audit.py runs it on what is there",
    "noisymean explore": "serves until it is stopped; test_explore_page.py drives it in a browser",
}
# Run by `make test-all` only.
SLOW = (
    "noisymean probe opacus",
    "noisymean audit opacus --dataset-size 60000",
    "noisymean report --mechanism opacus-loader",
)
# Scripts that are shown without the lines that every training script has.
TRAINING_IS_GIVEN = ("README.md", "docs/integrations.md")

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^`\n]*)$")
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")
_INDENTED_COMMAND = re.compile(r"^(?: {4,}|\t)(?:\$ )?(?:noisymean|python|pip|make) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        found = _FILE.match(self.text) if self.language == "python" else None
        return found["name"] if found else None


@dataclass(frozen=True)
class Command:
    words: str
    shown: str

    @property
    def excuse(self) -> str | None:
        return next((why for start, why in NOT_RUN.items() if f"{self.words} ".startswith(f"{start} ")), None)

    @property
    def slow(self) -> bool:
        return self.words.startswith(SLOW)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in their order."""
    found, opened, inside = [], None, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened, inside = (number, fence), []
        elif opened is not None and fence and fence["ticks"] == opened[1]["ticks"] and not fence["language"].strip():
            body = "".join(f"{one.removeprefix(opened[1]['indent'])}\n" for one in inside)
            found.append(Block(name_of(path), opened[0], opened[1]["language"].strip(), body))
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"{name_of(path)}: the block that begins in line {opened[0]} does not end"
    return found


def commands(block: Block) -> list[Command]:
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
        assert not parts[0].strip(), f"{block.document}:{block.line}: a console block begins with a command"
        return [Command(*part.partition("\n")[::2]) for part in parts[1:]]
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return [Command(line, "") for line in lines if line]


def all_commands() -> Iterator[tuple[Block, Command]]:
    for path in DOCUMENTS:
        for block in blocks(path):
            if block.language in ("console", "bash", "sh"):
                yield from ((block, command) for command in commands(block))


# --- running -----------------------------------------------------------------------------------------------------------


def training() -> dict[str, Any]:
    """What a reader of a training snippet has: torch, records, a model, and an optimizer that make_private returned."""
    opacus_training = pytest.importorskip("opacus_training")
    engine, model, optimizer, loader = opacus_training.private(1_000, batch_size=50)
    return {
        "torch": opacus_training.torch,
        "PrivacyEngine": opacus_training.PrivacyEngine,
        "train_set": loader.dataset,
        "model": model,
        "engine": engine,
        "optimizer": optimizer,
        "loader": loader,
    }


def in_a_process(words: list[str]) -> tuple[int, str]:
    """python in the document's folder; pytest with our plugin, installed or not."""
    installed = [one.value for one in importlib.metadata.entry_points(group="pytest11", name="noisymean")]
    options = "-p no:cacheprovider" + ("" if installed else " -p pytest_noisymean")
    done = subprocess.run(
        [sys.executable, *words],
        env={**environment(), "PYTEST_ADDOPTS": options, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def execute(words: str) -> tuple[int, str]:
    words, _, file = words.partition(" > ")
    first, *rest = shlex.split(words)
    if first == "noisymean":
        result = run(*rest)
        if file:
            Path(file).write_text(result.out, encoding="utf-8")
        return result.code, "" if file else result.out
    assert first == "python", f"nobody knows how to run {first!r}: see this file's docstring"
    return in_a_process(rest)


def pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("[...]"))


def run_commands(block: Block) -> None:
    at = f"{block.document}:{block.line}"
    code = 0
    shown = commands(block)
    following = [*(one.words for one in shown[1:]), ""]
    for command, after in zip(shown, following, strict=True):
        if command.words == "echo $?":
            assert command.shown.strip() == str(code), f"{at}: the exit code is {code}"
        elif not command.slow and command.excuse is None:
            code, out = execute(command.words)
            assert code == 0 or after == "echo $?", f"{at}: {command.words} ends with {code}"
            compare(out, command.shown, f"{at}: {command.words}")


def compare(out: str, shown: str, where: str) -> None:
    """Line by line, empty ones apart; a command without anything below it is only run."""
    want = [line.rstrip() for line in shown.splitlines() if line.strip()]
    if want:
        got = [line.rstrip() for line in out.splitlines() if line.strip()]
        assert len(got) == len(want), f"{where}\n{out}"
        for one, other in zip(got, want, strict=True):
            assert re.fullmatch(pattern(other), one), f"{where}\nsays   {one}\nshown  {other}"


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    at = f"{block.document}:{block.line}"
    if block.file:
        Path(block.file).write_text(block.text, encoding="utf-8")
    elif ">>>" in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, namespace, at, block.document, block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0, at
        # a doctest works on a copy of the names
        namespace.update(test.globs)
    else:
        exec(compile(block.text, at, "exec"), namespace)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_document(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    shown = blocks(path)
    python = [block for block in shown if block.language == "python" and not block.file]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        if any("opacus" in block.text for block in python):
            pytest.importorskip("opacus")
            # "secure mode is off", hooks on inputs that need no gradient: theirs, and not about what is shown
            warnings.simplefilter("ignore")
            import torch

            state = torch.get_rng_state()
            stack.callback(torch.set_rng_state, state)
        if name_of(path) in TRAINING_IS_GIVEN:
            namespace |= training()
        for block in shown:
            if block.language in ("console", "bash", "sh"):
                run_commands(block)
            elif block.language == "python":
                run_python(block, namespace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "command"), [(block, one) for block, one in all_commands() if one.slow], ids=lambda part: str(part)[:40]
)
def test_slow_command(block: Block, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out = execute(command.words)
    assert code == 0
    compare(out, command.shown, f"{block.document}:{block.line}")


# --- nothing is left out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_block_says_what_it_is(path: Path) -> None:
    shown = blocks(path)
    for number, block in enumerate(shown):
        at = f"{block.document}:{block.line}"
        known = ("console", "bash", "sh", "python", "text")
        assert block.language in known or re.fullmatch(r"\{[a-z-]+\}.*", block.language), f"{at}: {block.language!r}"
        if block.language == "text":
            assert not re.search(r"^(?:\$|>>>) ", block.text, re.MULTILINE), f"{at}: a command is not text"
        if block.file:
            later = "".join(one.text for one in shown[number + 1 :])
            used = block.file in later or f"import {Path(block.file).stem}" in later
            assert used or f"from {Path(block.file).stem} import" in later, f"{at}: nothing runs {block.file}"
    outside = re.sub(r"^( *)```.*?^\1```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not _INDENTED_COMMAND.search(outside), "a command that no test would see: put it into a console block"


def test_what_is_not_run_is_needed_and_understood() -> None:
    excused = [command for _, command in all_commands() if command.excuse]
    assert {command.excuse for command in excused} <= set(NOT_RUN.values())
    for command in excused:
        first, *words = shlex.split(command.words)
        if first == "noisymean":
            parsed(words)


def parsed(words: list[str]) -> None:
    """Raises if a command line has an option that does not exist, or lacks one; runs nothing."""
    from typer.main import get_command

    group: Any = get_command(app)
    context = group.make_context("noisymean", list(words))
    name, *rest = words
    group.commands[name].make_context(name, rest, parent=context)


def test_something_is_shown() -> None:
    assert any(block.document == "README.md" for block, _ in all_commands())
    assert sum(not command.excuse and not command.slow for _, command in all_commands()) >= 12


def test_a_lie_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = Block("nowhere.md", 1, "console", "$ noisymean --version\nnoisymean 99.0\n")
    with pytest.raises(AssertionError, match="shown"):
        run_commands(block)
    with pytest.raises(AssertionError, match="ends with 2"):
        run_commands(Block("nowhere.md", 1, "console", "$ noisymean curve --points none\n"))
    with pytest.raises(AssertionError):
        run_python(Block("nowhere.md", 1, "python", ">>> 1 + 1\n3\n"), {})
    with pytest.raises(Exception, match="No such option"):
        parsed(["reproduce", "all", "--fast"])
