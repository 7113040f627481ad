"""Text that is not ours on its way to a terminal: brackets stay, and no encoding ends in a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.progress import Progress

from command_line import run
from noisymean.cli.encoding import any_encoding, spelled
from noisymean.cli.output import console, error_console, said_beside_a_bar, say
from noisymean.legible import on_a_line

# Each command at its cheapest; {place} is where they run.
COMMANDS: dict[str, tuple[int, str]] = {
    "curve": (
        0,
        "curve --mechanism easgm --dataset-size 99 --dimension 9 --sample-rate 0.1 --noise-multiplier 9 --alpha 0.1",
    ),
    "plot": (0, "curve --mechanism sgm --sample-rate 0.1 --noise-multiplier 9 --alpha 0.1 --plot é.svg"),
    "account": (0, "account --mechanism sgm --sample-rate 0.1 --noise-multiplier 9 --steps 1 --delta 1e-5"),
    "account as JSON": (
        0,
        "account --mechanism sgm --sample-rate 0.1 --noise-multiplier 9 --steps 1 --delta 1e-5 --json",
    ),
    "calibrate": (0, "calibrate --mechanism sgm --sample-rate 0.1 --target-epsilon 2 --delta 1e-5 --steps 1"),
    "audit": (
        0,
        "audit synthetic --mechanism sgm --dataset-size 20 --dimension 3 --sample-rate 0.5 --noise-multiplier 1 --trials 200"
        " --seed 1",
    ),
    "code-audit": (0, "code-audit é≥.py"),
    "code-audit as JSON": (0, "code-audit é≥.py --json"),
    "probe": (0, "probe é≥.py:step"),
    "report": (0, "report é.json --out é.html"),
    "help": (0, "--help"),
    "help of one": (0, "code-audit --help"),
    "no such file": (2, "code-audit keine/größe.py"),
    "no such option": (2, "curve --größe 3"),
    "no such mechanism": (2, "curve --mechanism größe☃"),
    "what it raises": (2, "probe raises.py:step"),
}
SIGNATURE = "def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):"
STEP = '''
import numpy as np
def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    """σ ≥ [/red] é"""
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)
    noisy = clipped[generator.random(len(clipped)) < sample_rate].sum(0)
    noisy = noisy + noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])
    model = {"é ☃ [/red]": noisy}
    return model["é ☃ [/red]"] / (sample_rate * len(gradients))
'''


# --- brackets ----------------------------------------------------------------------------------------------------------


def test_brackets_of_a_source_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "step.py"
    file.write_text(
        "def f(model, grads, batch, name):\n"
        "    model.grad[name] = grads['[/red]'] / len(batch)\n"
        "    model.grad[bold] = grads[':smile:'] / len(batch)\n"
    )
    done = run("code-audit", str(file))
    assert done.code == 0, done.err
    assert "model.grad[name] = grads['[/red]'] / len(batch)" in done.out
    assert "model.grad[bold] = grads[':smile:'] / len(batch)" in done.out


@pytest.mark.parametrize("name", ["[red]step.py", "[/red].py", "[link=x]y[/link].py", "[bold]x[/].py"])
def test_brackets_of_a_path_are_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("def f(grads, batch):\n    return grads / len(batch)\n")
    done = run("code-audit", str(file))
    assert done.code == 0, done.err
    assert f"{file.name}:2" in done.out
    assert f"{file}: depends on the data" in done.out
    missing = run("code-audit", str(tmp_path / "[/red]" / "none.py"))
    assert missing.code == 2
    assert "[/red]/none.py" in missing.err


def test_brackets_of_a_target_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "[bold]step[red].py"
    file.write_text(STEP, encoding="utf-8")
    done = run("probe", f"{file}:step")
    assert done.code == 0, done.err
    assert "[bold]step[red].py:step" in done.out


def test_brackets_of_what_a_target_raises_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"{SIGNATURE}\n    raise ValueError('[/red] ' + str([1]) + '[bold]')\n")
    done = run("probe", f"{file}:step")
    assert "Traceback" not in done.err
    assert "[/red] [1][bold]" in done.out + done.err


def test_every_console_takes_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for out in (console(), error_console()):
        say(out, "[red]x[/red] [/bold] :smile: grad[name]")
        with Progress(said_beside_a_bar("{task.description}"), console=out) as bar:
            bar.add_task("[/red] grad[name] :smile:")
    both = "".join(capsys.readouterr())
    assert both.count("[red]x[/red] [/bold] :smile: grad[name]") == 2
    assert both.count("[/red] grad[name] :smile:") >= 2


def test_what_moves_the_cursor_is_written_out() -> None:
    assert on_a_line("a\x1b[31mb\u202ec\nd") == "a\\x1b[31mb\\u202ec d"
    assert on_a_line("é ≥ σ") == "é ≥ σ"


def test_nothing_else_makes_a_console() -> None:
    """One place decides what is markup, so that no command forgets to."""
    from noisymean import cli

    folder = Path(cli.__file__).parent
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name != "output.py":
            assert "Console(" not in text, file.name
            assert "TextColumn(" not in text, file.name
            assert "rich import print" not in text, file.name


# --- encodings ---------------------------------------------------------------------------------------------------------

# Several command lines in one process, which has the streams and the locale of another machine.
DRIVER = """
import json, os, sys
from noisymean.cli import main
for line in os.fsencode(sys.argv[1]).split(b"\\n"):
    code = main([os.fsdecode(word) for word in line.split()])
    for stream in (sys.stdout, sys.stderr):
        print("=====", code, file=stream, flush=True)
"""


def environment(encoding: str) -> dict[str, str]:
    """A machine whose terminal and whose files are of this encoding: no UTF-8 by the back door."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    told = {
        "PYTHONIOENCODING": encoding,
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "LC_ALL": "C",
        "COLUMNS": "200",
    }
    return {**kept, **told, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "é≥.py").write_text(STEP, encoding="utf-8")
    (folder / "raises.py").write_text(f"{SIGNATURE}\n    raise ValueError('≥ ☃')\n", encoding="utf-8")
    (folder / "é.json").write_text(run("code-audit", str(folder / "é≥.py"), "--json").out, encoding="utf-8")
    return folder


def commands(encoding: str, place: Path, *names: str) -> tuple[dict[str, str], dict[str, str]]:
    """Standard output and standard error of each command; none of them ends in a traceback or with another code."""
    lines = "\n".join(COMMANDS[name][1] for name in names).encode("utf-8")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, lines], env=environment(encoding), cwd=place, capture_output=True, check=False
    )
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert "Traceback" not in err, err
    codes = [int(part.split()[0]) for part in out.split("===== ")[1:]]
    assert dict(zip(names, codes, strict=True)) == {name: COMMANDS[name][0] for name in names}, err
    seen, said = (dict(zip(names, stream.split("===== "), strict=False)) for stream in (out, err))
    return seen, said


def test_no_command_ends_in_a_traceback_in_ascii(place: Path) -> None:
    seen, complaints = commands("ascii", place, *COMMANDS)
    # tables and sentences are there; what is not known is spelled out
    assert "0.1" in seen["curve"]
    assert "violated" in seen["audit"]
    assert "\\xe9 \\u2603 [/red]" in seen["code-audit"]
    assert "denominator" in seen["probe"]
    assert "code-audit" in seen["help"]
    # JSON is JSON for whoever reads it
    for name in ("account as JSON", "code-audit as JSON"):
        (line,) = [one for one in seen[name].splitlines() if one.startswith("{")]
        assert line.isascii()
        json.loads(line)
    for name in ("no such file", "no such option", "no such mechanism", "what it raises"):
        (line,) = [one for one in complaints[name].splitlines() if one.startswith("error: ")]
    assert "there is no keine/gr" in complaints["no such file"]
    assert "raises ValueError: >= \\u2603" in complaints["what it raises"]
    # files are UTF-8 wherever they are written
    assert "☃" in (place / "é.html").read_bytes().decode("utf-8")
    assert "</svg>" in (place / "é.svg").read_bytes().decode("utf-8")


def test_cp1252_shows_what_it_can(place: Path) -> None:
    seen, complaints = commands(
        "cp1252", place, "account", "code-audit", "code-audit as JSON", "no such mechanism", "no such file"
    )
    assert "\\u2603 [/red]" in seen["code-audit"]
    assert '["é \\u2603' in seen["code-audit"] or "['é \\u2603" in seen["code-audit"]
    assert "error: " in complaints["no such file"]


def test_help_is_ascii() -> None:
    """The parser writes it itself, past our streams."""
    from noisymean.cli.listed import COMMANDS as commands

    for words in ([], *([name] for name in commands)):
        done = run(*words, "--help")
        assert done.code == 0
        assert done.out.isascii(), words


def test_a_progress_bar_in_ascii(place: Path) -> None:
    """On a terminal, where bars are drawn."""
    ours, theirs = pty.openpty()
    seen = bytearray()

    def listen() -> None:
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                seen.extend(part)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    done = subprocess.run(
        [sys.executable, "-m", "noisymean", *COMMANDS["audit"][1].split()], env={**environment("ascii"), "TERM": "xterm"},
        cwd=place, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    os.close(theirs)
    listener.join(10)
    os.close(ours)
    text = seen.decode("ascii")
    assert done.returncode == 0, text
    assert "Traceback" not in text
    assert "of 200 trials" in text


def test_what_is_spelled_out() -> None:
    assert spelled("≥ε─│┼…") == ">=epsilon-|+..."
    assert spelled("10⁻⁵ m²") == "10^-5 m^2"
    # a letter of somebody's name or source is not another letter
    assert spelled("é☃") == "\\xe9\\u2603"
    # a byte of a file name that is no text
    assert spelled("\udcff") == "\\udcff"


def test_the_streams_are_what_they_were(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii", errors="strict") as stream:
        before, sys.stdout = sys.stdout, stream
        try:
            with any_encoding():
                print("≥ ☃")
            assert stream.errors == "strict"
            with pytest.raises(UnicodeEncodeError):
                print("≥")
        finally:
            sys.stdout = before
    assert (tmp_path / "out").read_text().startswith(">= \\u2603")
