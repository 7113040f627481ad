"""Without an optional package: one line says which extra brings it, and the help of the command has said so before."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from command_line import run
from noisymean.cli.listed import COMMANDS
from noisymean.targets.opacus_releases import client

OPTIONAL = (
    "torch", "opacus", "matplotlib", "jinja2", "plotly", "flask", "sklearn", "dask", "distributed", "pandas", "PIL",
    "dp_accounting", "safetensors",
)  # fmt: skip
_RUN = (
    *("--mechanism", "easgm", "--dataset-size", "4", "--dimension", "9"),
    *("--sample-rate", "0.5", "--noise-multiplier", "9"),
)
ACCOUNT = ("account", *_RUN, "--steps", "5", "--delta", "1e-5")
AUDIT = ("audit", "synthetic", *_RUN, "--seed", "1", "--trials", "100")
OPACUS = ("--dataset-size", "10", "--dimension", "9", "--batch-size", "2", "--noise-multiplier", "1", "--seed", "1")


class _Absent:
    """A finder for whom no optional package is installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing optional can be imported, nothing is in the cache or runs, and files go into a folder of their own."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name.partition(".")[0] in OPTIONAL else found(name, package),
    )
    for name in [*sys.modules]:
        if name.partition(".")[0] in OPTIONAL:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])
    # processes of releases that earlier tests have started can do without
    monkeypatch.setattr(client, "_WORKERS", {})
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (("report", *ACCOUNT[1:], "--out", "report.html"), "jinja2", "report"),
        ((*ACCOUNT, "--plot", "account.png"), "matplotlib", "plots"),
        (("curve", *_RUN, "--plot", "curve.png"), "matplotlib", "plots"),
        ((*AUDIT, "--plot", "audit.png"), "matplotlib", "plots"),
        ((*AUDIT, "--distinguisher", "learned"), "scikit-learn", "audit"),
        ((*AUDIT, "--dask", "local"), "distributed", "distributed"),
        (("audit", "opacus", *OPACUS), "torch", "audit"),
        (("audit", "opacus", "--images", "mnist", "--batch-size", "600"), "torch", "audit"),
        (("audit", "dpsgd-hf"), "torch", "audit"),
        (("audit", "dpsur"), "torch", "audit"),
        (("probe", "opacus"), "torch", "audit"),
        (("probe", "opacus==1.0.1"), "torch", "audit"),
        (("probe", "opacus:ghost"), "torch", "audit"),
        (("probe", "dpsgd-hf"), "torch", "audit"),
        (("probe-run", "run.npz", "--learning-rate", "1", "--plot", "run.png"), "matplotlib", "plots"),
        (("field", "--only", "opacus:ghost", "--html", "field.html"), "jinja2", "report"),
        (("reproduce", "theory"), "matplotlib", "plots"),
        (("code-audit", "opacus", "--versions", "1.0.0"), "torch", "audit"),
        (("code-audit", "opacus", "--html", "audit.html"), "jinja2", "report"),
        (("explore",), "flask", "explore"),
        (("demo",), "matplotlib", "plots"),
    ],
)
def test_one_line_names_the_package_and_the_extra(words: tuple[str, ...], package: str, extra: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: {package} is not installed; install it with: pip install 'noisymean[{extra}]'\n"
    # and the help of the command has it
    assert f"noisymean[{extra}]" in _joined(run(words[0], "--help").out)
    assert [path.name for path in Path.cwd().iterdir() if path.name != "cache"] == []


def test_accountants_that_are_not_there_are_named() -> None:
    done = run(*ACCOUNT, "--reported")
    assert done.code == 0
    assert done.err == (
        "--reported: not installed, and so not asked: opacus: pip install 'noisymean[audit]';"
        " dp_accounting: pip install 'noisymean[accounting]'\n"
    )
    assert done.out == run(*ACCOUNT).out
    assert run(*ACCOUNT, "--reported", "--json").out == run(*ACCOUNT, "--json").out


def test_accountants_are_asked_at_a_delta_only() -> None:
    done = run("account", *_RUN, "--steps", "5", "--epsilon", "1", "--reported")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --reported: must be used with --delta; accountants report epsilon at a delta\n"


@pytest.mark.parametrize(
    "words",
    [
        ACCOUNT,
        AUDIT,
        ("curve", *_RUN),
        ("calibrate", *_RUN[:-2], "--steps", "5", "--delta", "1e-5", "--target-epsilon", "50"),
        ("statement", *ACCOUNT[1:], "--no-gdp"),
        ("probe", "synthetic:sgm"),
        ("data", "list"),
        ("code-audit", "--list-rules"),
        ("check", "train.py"),
        ("code-audit", "train.py"),
    ],
)
def test_what_needs_no_extra_runs(words: tuple[str, ...]) -> None:
    Path("train.py").write_text("print('nothing private')\n")
    done = run(*words)
    assert done.code == 0, done.err
    assert "not installed" not in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_says_what_it_needs(name: str) -> None:
    last = _joined(run(name, "--help").out)
    assert COMMANDS[name].needs in last
    named = set(re.findall(r"noisymean\[(\w+)\]", COMMANDS[name].needs))
    assert named <= {"audit", "plots", "report", "explore", "distributed", "accounting"}
    assert named or COMMANDS[name].needs == "Needs no extra."


def _joined(text: str) -> str:
    return " ".join(text.split())
