"""What a shell offers: the names of commands, and every name that an option or an argument takes."""

from __future__ import annotations

import typing
from collections.abc import Callable

import pytest
import typer

from command_line import run
from noisymean.cli.app import app
from noisymean.cli.complaints import WANTED
from noisymean.cli.listed import COMMANDS
from noisymean.lint.catalogue import RULES
from noisymean.mechanisms import KINDS
from noisymean.paper.experiments import EXPERIMENTS
from noisymean.targets.opacus_modes.modes import MODES

Offered: typing.TypeAlias = Callable[[str], list[str]]
LIBRARIES = ["optax", "objax", "tensorflow-privacy", "jax-privacy", "pfl", "flwr"]
BUILT_IN = [name for name, kind in KINDS.items() if kind.__module__.startswith("noisymean.")]
METHODS = ["dpsgd-hf", "dpsur", "dp-feta", "privimage"]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Offered:
    """What bash is told for a command line; its last word, perhaps empty, is the one to be completed."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_NOISYMEAN_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        done = run()
        assert done.err == ""
        # mechanisms of other tests are registered in this process
        return [name for name in done.out.split() if "toy-" not in name]

    return complete


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", [*COMMANDS]),
        ("pro", ["probe", "probe-run"]),
        ("curve --mechanism e", ["easgm"]),
        ("account --sampling ", [*WANTED["sampling"].names]),
        ("account --adjacency z", ["zero-out"]),
        ("account --pair ", ["smaller", "larger"]),
        ("account --calibrated-with ", ["prv", "rdp", "gdp"]),
        ("calibrate --mechanism o", ["opacus-loader"]),
        ("report --compare ", BUILT_IN),
        ("report --compare easgm,", [f"easgm,{name}" for name in BUILT_IN if name != "easgm"]),
        ("report --compare easgm,as", ["easgm,asgm"]),
        ("statement --format m", ["markdown"]),
        ("reproduce ", [*EXPERIMENTS, "all"]),
        ("reproduce opacus-f", ["opacus-feasgm"]),
        ("data ", ["list", "fetch"]),
        ("data fetch c", ["cifar10"]),
        ("audit --gradients ", ["random", "zero", "aligned", "opposed"]),
        ("audit --adjacency ", [*WANTED["adjacency"].names]),
        ("audit --images m", ["mnist"]),
        ("audit --distinguisher l", ["likelihood-ratio", "learned"]),
        ("audit sy", ["synthetic"]),
        ("audit dp", ["dpsgd-hf", "dpsur", "dp-feta"]),
        ("probe synthetic:", [f"synthetic:{name}" for name in BUILT_IN]),
        ("probe opacus:", [f"opacus:{mode.name}" for mode in MODES]),
        ("field --only opt", ["optax", "optax:dpsgd"]),
        ("code-audit --explain NM00", [name for name in RULES if name.startswith("NM00")]),
        ("code-audit --explain constant", ["constant-seed"]),
        ("code-audit --fail-on ", ["error", "warning", "note"]),
    ],
)
def test_what_is_offered(offered: Offered, line: str, names: list[str]) -> None:
    assert offered(f"noisymean {line}") == names


@pytest.mark.parametrize("command", ["audit", "probe"])
def test_every_library_and_method_is_offered(offered: Offered, command: str) -> None:
    """A name alone; its ways are offered beside it."""
    found = [name for name in offered(f"noisymean {command} ") if ":" not in name]
    assert sorted(found) == sorted(["synthetic", "opacus", *METHODS, *LIBRARIES])


def test_whatever_takes_few_names_offers_them() -> None:
    """An option that is refused with a list of names is completed; those of probe-run are fewer than are listed."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lacking = [
        f"{name} --{one.name}"
        for name in COMMANDS
        if name != "probe-run"
        for one in commands[name].params
        if one.name in WANTED and WANTED[one.name].names and one._custom_shell_complete is None
    ]
    assert lacking == []
