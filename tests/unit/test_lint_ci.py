"""What others run in their CI: the hook of pre-commit and the action of GitHub, whose script is run here as a runner would."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import run

yaml: Any = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
HOOKS, ACTION, GUIDE = ROOT / ".pre-commit-hooks.yaml", ROOT / "action.yml", ROOT / "docs" / "how-to" / "ci.md"
CALL = "engine.make_private(data_loader=loader, poisson_sampling=False)"
SCRIPT = f"import opacus\n{CALL}\n"


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def shown(language: str) -> list[str]:
    """The blocks of the guide that are to be copied."""
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(rf"^```\{{code-block\}} {language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# --- pre-commit --------------------------------------------------------------------------------------------------------


def test_the_manifest_is_one() -> None:
    pytest.importorskip("pre_commit")
    words = [sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS)]
    subprocess.run(words, check=True, capture_output=True)
    (hook,) = loaded(HOOKS)
    assert hook["id"] == "noisymean-code-audit"
    assert {"python", "jupyter"} == set(hook["types_or"])


@pytest.mark.parametrize(("text", "code"), [(SCRIPT, 1), ("import opacus\n", 0)])
def test_the_hook_as_it_is_called(text: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """entry, args and the files of a commit; one of them looks like an option that would leave all others out."""
    monkeypatch.chdir(tmp_path)
    files = ["train.py", "--exclude=*.py"]
    for name in files:
        Path(name).write_text(text)
    (hook,) = loaded(HOOKS)
    first, *words = (*shlex.split(hook["entry"]), *map(str, hook["args"]), *files)
    assert first == "noisymean"
    done = run(*words)
    assert done.code == code, done.err
    assert "2 files checked." in done.out


def test_the_lines_to_copy_for_pre_commit(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    (first, *_) = shown("yaml")
    assert len(first.splitlines()) == 3
    (repository,) = yaml.safe_load(first)
    assert [one["id"] for one in repository["hooks"]] == [one["id"] for one in loaded(HOOKS)]
    config = tmp_path / "config.yaml"
    config.write_text("repos:\n" + first)
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", str(config)], check=True, capture_output=True
    )


# --- the action --------------------------------------------------------------------------------------------------------


def steps() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in loaded(ACTION)["runs"]["steps"]}


def test_nothing_of_an_input_is_put_into_a_script() -> None:
    """`${{ }}` is replaced before the shell reads the script: what an input says would be run."""
    action = loaded(ACTION)
    assert action["runs"]["using"] == "composite"
    for one in action["runs"]["steps"]:
        assert one["shell"] == "bash"
        assert "${{" not in one["run"]
        assert one["run"].startswith("set -euo pipefail\n")
        # no variable outside of quotes, but for its length or in a condition
        assert not re.search(r'(?<!["\w{=/.:-])\$\w', re.sub(r'"[^"\n]*"', '""', one["run"]))
    used = re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", ACTION.read_text(encoding="utf-8"))
    assert sorted(used) == sorted(action["inputs"])
    (output,) = action["outputs"].values()
    assert output["value"] == "${{ steps.read.outputs.sarif }}"


def test_the_guide_has_every_input() -> None:
    table = re.findall(r"^\| `([\w-]+)` \| (.*?) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    defaults = {name: one["default"] for name, one in loaded(ACTION)["inputs"].items()}
    assert {name: "" if said == "none" else said.strip("`") for name, said in table} == defaults
    _, used, upload = map(yaml.safe_load, shown("yaml"))
    assert set(used[0]["with"]) <= set(defaults)
    assert upload[0]["with"]["sarif_file"] == defaults["sarif"]


class Runner:
    """A folder with a checkout, and the script of the action in it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.output = folder / "work", folder / "output"
        self.work.mkdir()
        (self.work / "train.py").write_text(SCRIPT)
        self.temp = folder / "temp"
        self.program = self.temp / "noisymean" / "bin" / "noisymean"
        self.program.parent.mkdir(parents=True)
        self._install(f'exec {shlex.quote(sys.executable)} -m noisymean "$@"')

    def _install(self, script: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{script}\n")
        self.program.chmod(0o755)

    def read(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """The step, its inputs as the action hands them over."""
        self.output.write_text("")
        step = steps()["read"]
        defaults = {name: one["default"] for name, one in loaded(ACTION)["inputs"].items()}
        given = defaults | {name.replace("_", "-"): value for name, value in inputs.items()}
        told = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
            for name, value in step["env"].items()
        }
        runner = {"HOME_OF_ALL": str(self.temp), "GITHUB_OUTPUT": str(self.output), "COLUMNS": "80"}
        words = [shutil.which("bash") or "bash", "-c", step["run"]]
        return subprocess.run(
            words,
            cwd=self.work,
            env={**os.environ, **told, **runner},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def words(self, **inputs: str) -> list[str]:
        """What noisymean is called with; it is not run."""
        self._install("printf '%s\\0' \"$@\"")
        done = self.read(**inputs)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\0")[:-1]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    return Runner(tmp_path)


def test_the_action_finds_writes_and_fails(runner: Runner) -> None:
    done = runner.read()
    assert done.returncode == 1, done.stderr
    log = json.loads((runner.work / "noisymean.sarif").read_text())
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["NM001", "NM003"]
    assert [line for line in done.stdout.splitlines() if line.startswith("::error ")] != []
    assert runner.output.read_text() == "sarif=noisymean.sarif\n"


def test_what_the_action_asks_for(runner: Runner) -> None:
    assert runner.words() == ["code-audit", "--github", "--sarif=noisymean.sarif", "--fail-on=error", "--", "."]
    asked = {
        "paths": "a.py\n\nmore files\n/b",
        "exclude": "tests/*\ndocs",
        "baseline": "known.json",
        "fail_on": "never",
    }
    # fmt: off
    assert runner.words(**asked, sarif="out.sarif") == [
        "code-audit", "--github", "--sarif=out.sarif", "--baseline=known.json", "--exclude=tests/*", "--exclude=docs",
        "--", "./a.py", "./more files", "/b",
    ]
    # fmt: on


def test_what_the_action_asks_for_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("more files", "left_out"):
        Path(name).mkdir()
        Path(name, "train.py").write_text(SCRIPT)
    Path("train.py").write_text(SCRIPT)
    assert run("code-audit", "train.py", "--write-baseline", "known.json").code == 0
    options = ("--github", "--sarif=out.sarif", "--baseline=known.json", "--exclude=left_out", "--fail-on=warning")
    assert run("code-audit", *options, "--", "./train.py").code == 0
    assert run("code-audit", *options, "--", ".").code == 1
    found = {
        (one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], one["baselineState"])
        for one in json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    }
    assert found == {("train.py", "unchanged"), ("more%20files/train.py", "new")}
    # a path is a path: releases are not run, packages are not fetched
    for name in ("./opacus", "./optax", "./-v"):
        done = run("code-audit", "--", name)
        assert done.code == 2
        assert "there is no" in done.err


@pytest.mark.parametrize("name", ["paths", "fail_on", "baseline", "exclude", "sarif"])
def test_no_input_is_run(runner: Runner, name: str) -> None:
    for text in (
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        '"; touch pwned; "',
        "x' && touch pwned '",
        "*",
        "~",
    ):
        words = runner.words(**{name: text})
        assert not (runner.work / "pwned").exists()
        # one word, as it was
        assert [one for one in words if one.endswith(text)] == [
            words[-1] if name == "paths" else f"--{name.replace('_', '-')}={text}"
        ]


def test_a_line_break_makes_no_second_output(runner: Runner) -> None:
    runner.words(sarif="a.sarif\nother=1")
    assert runner.output.read_text().count("\n") == 1
