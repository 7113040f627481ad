"""Pipes, sockets, devices, folders and links to nothing, wherever a file is named: a line, exit code 2, and nothing waited for."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import run
from noisymean import ordinary

KINDS = ("fifo", "socket", "device", "folder", "dangling")
_AUDIT = (
    "audit synthetic --mechanism sgm --dataset-size 9 --dimension 2 --sample-rate 0.5 --noise-multiplier 1 --seed 1"
)
_ACCOUNT = "account --mechanism sgm --sample-rate 0.1 --noise-multiplier 9 --steps 1 --delta 1e-5"
_RUN = _ACCOUNT.removeprefix("account ")
_PROBE_RUN = "--learning-rate 1 --max-grad-norm 1 --noise-multiplier 1"
# {} is the name without its ending.
READ = {
    "store": f"{_AUDIT} --trials 100 --store {{}}.sqlite",
    "report": "report {}.json --out page.html",
    "statement": "statement --from {}.json",
    "code-audit": "code-audit {}.py",
    "code-audit beside another": "code-audit fine.py {}.py",
    "check": "check {}.py",
    "baseline": "code-audit fine.py --baseline {}.json",
    "probe": "probe {}.py:release",
    "audit": "audit {}.py:release --trials 100 --seed 1",
    "probe-run": f"probe-run {{}}.npz {_PROBE_RUN}",
    "probe-run, safetensors": f"probe-run {{}}.safetensors {_PROBE_RUN}",
}
WRITTEN = {
    "store": f"{_AUDIT} --trials 100 --store {{}}.sqlite",
    "plot of an account": f"{_ACCOUNT} --plot {{}}.png",
    "plot of a curve": "curve --mechanism sgm --sample-rate 0.1 --noise-multiplier 9 --plot {}.svg",
    "plot of an audit": f"{_AUDIT} --trials 100 --plot {{}}.pdf",
    "report": f"report {_RUN} --out {{}}.html",
    "statement": f"statement {_RUN} --out {{}}.md",
    "sarif": "code-audit fine.py --sarif {}.json",
    "baseline": "code-audit fine.py --write-baseline {}.json",
    "field": "field --html {}.html",
    "code-audit": "code-audit opacus --html {}.html",
    "reproduce": "reproduce theorems --quick --out {}.out",
    "demo": "demo --out {}.out",
}
_ENDINGS = ("sqlite", "json", "py", "npz", "safetensors", "png", "svg", "pdf", "html", "md", "out")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One of every kind under every ending."""
    place = tmp_path_factory.mktemp("odd")
    (place / "fine.py").write_text("x = 1\n")
    before = Path.cwd()
    # the name of a socket has to be short
    os.chdir(place)
    try:
        for ending in _ENDINGS:
            os.mkfifo(f"fifo.{ending}")
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(f"socket.{ending}")
            os.symlink("/dev/zero", f"device.{ending}")
            os.mkdir(f"folder.{ending}")
            os.symlink("nowhere/at/all", f"dangling.{ending}")
        yield place
    finally:
        os.chdir(before)
        shutil.rmtree(place)


def kinds_of(folder: Path) -> dict[str, int]:
    return {one.name: one.lstat().st_mode for one in folder.iterdir()}


COMMANDS = {**READ, **{f"to {name}": command for name, command in WRITTEN.items()}}
# A folder may be given there.
_FOLDERS = ("code-audit beside another", "to reproduce", "to demo")


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in COMMANDS for kind in KINDS if kind != "folder" or name not in _FOLDERS]
)
def test_what_is_no_ordinary_file_is_refused_and_stays(there: Path, name: str, kind: str) -> None:
    before = kinds_of(there)
    done = run(*COMMANDS[name].format(kind).split())
    assert (done.code, done.out) == (2, ""), done
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert kind in line
    assert kinds_of(there) == before


def test_a_pipe_beside_the_store_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite has files of its own beside a database."""
    monkeypatch.chdir(tmp_path)
    assert run(*f"{_AUDIT} --trials 100 --store kept.sqlite".split()).code == 0
    for ending in ("wal", "shm", "journal"):
        beside = Path(f"kept.sqlite-{ending}")
        beside.unlink(missing_ok=True)
        os.mkfifo(beside)
        done = run(*f"{_AUDIT} --trials 100 --store kept.sqlite --resume".split())
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"error: --store=kept.sqlite: must be without {beside}, which is not an ordinary file; remove it\n"
        )
        beside.unlink()


def test_only_ordinary_files_are_opened(there: Path) -> None:
    assert ordinary.content("fine.py", 100) == b"x = 1\n"
    assert ordinary.content("fine.py", 2) == b"x ="
    for kind in KINDS:
        with pytest.raises(OSError, match=r"ordinary|directory"):
            ordinary.content(f"{kind}.py", 100)
    (there / "link.py").symlink_to("fine.py")
    assert ordinary.content("link.py", 100) == b"x = 1\n"
    assert ordinary.is_free(Path("link.py"))
    assert ordinary.is_free(Path("new.py"))
    assert not any(ordinary.is_free(Path(f"{kind}.py")) for kind in KINDS)
    assert not ordinary.is_free(Path("fine.py", "below.py"))
    (there / "link.py").unlink()


def test_a_name_that_no_file_can_have_is_refused_before_anything_is_worked_out() -> None:
    """Found by random command lines: the whole name a zero byte was free, and the answer could not be put there."""
    result = run(*f"statement {_RUN} --out".split(), "\0")
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert result.err.startswith("error: --out=\\x00: must be")
