"""What is released: a wheel with everything in it that is needed, and nothing that is not; light to import."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import noisymean as nm

ROOT = Path(__file__).parents[2]
ACCOUNT = (
    *("account", "--mechanism", "easgm", "--dataset-size", "60000", "--dimension", "26010", "--sample-rate", "0.01"),
    *("--noise-multiplier", "1", "--steps", "100", "--delta", "1e-5", "--json"),
)
CURVE = ("curve", *ACCOUNT[1:11], "--alpha", "0.1", "--json")
# What is loaded only when it is needed.
HEAVY = (
    "matplotlib",
    "torch",
    "opacus",
    "sklearn",
    "dask",
    "distributed",
    "plotly",
    "jinja2",
    "flask",
    "PIL",
    "rich",
    "typer",
)
# The code, its templates and styles, schemas, and the page of the rules; no data, no pictures. A module has 500 lines at most, so
# nothing is large: kilobytes of a file, and megabytes of the wheel, of which a tenth are the names of its files. The largest are
# the page of the rules and the digests of what is downloaded, which do not pack.
KINDS = {".py", ".typed", ".json", ".html", ".css", ".js", ".md", "LICENSE", "NOTICE"}
LARGEST_FILE, LARGEST_WHEEL = 60, 1.3
# And besides, as its makers publish it, the script that draws on pages.
DRAWS = "noisymean/report/page/plotly_basic/plotly-basic.min.js"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return folder


def one(folder: Path, ending: str) -> Path:
    (found,) = folder.glob(f"*{ending}")
    return found


def test_the_wheel_has_all_and_only_the_package(built: Path) -> None:
    wheel = one(built, ".whl")
    assert f"-{nm.__version__}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        published = archive.getinfo(DRAWS).compress_size
        packed = [one for one in archive.infolist() if ".dist-info/" not in one.filename and one.filename != DRAWS]
    assert {
        one.filename for one in packed if (Path(one.filename).suffix or Path(one.filename).name) not in KINDS
    } == set()
    assert {one.filename: one.file_size for one in packed if one.file_size > LARGEST_FILE * 2**10} == {}
    assert published < 0.45 * 2**20
    assert wheel.stat().st_size - published < LARGEST_WHEEL * 2**20
    # its licence goes with it
    assert DRAWS.replace(Path(DRAWS).name, "LICENSE") in names
    package = Path(nm.__file__).parent
    wanted = {
        f"noisymean/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {"noisymean/py.typed", "pytest_noisymean/py.typed", "noisymean/lint/rules.md"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"noisymean", "pytest_noisymean"}


def test_the_source_can_be_built_and_tested_from(built: Path) -> None:
    with tarfile.open(one(built, ".tar.gz")) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "tests/conftest.py"):
        assert needed in names
    # what others run in their CI
    assert {".pre-commit-hooks.yaml", "action.yml", "docs/rules.md"} <= names


def declared(name: str, found: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """A distribution and what it declares that it needs, extras aside."""
    distribution = metadata.distribution(name)
    if distribution.name in found:
        return found
    found[distribution.name] = distribution
    for line in distribution.requires or ():
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            declared(needed.name, found)
    return found


def test_the_wheel_alone_answers(built: Path, tmp_path: Path) -> None:
    """The wheel beside exactly what it declares to need: nothing else can be imported."""
    where = tmp_path / "site"
    with zipfile.ZipFile(one(built, ".whl")) as archive:
        archive.extractall(where)
    for name, distribution in declared("noisymean", {}).items():
        if name == "noisymean":
            continue
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
            if top != "__pycache__":
                (where / top).symlink_to(Path(str(distribution.locate_file(top))))

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        # -S: without the packages of this environment
        return subprocess.run(
            [sys.executable, "-S", "-m", "noisymean", *words],
            env={**os.environ, "PYTHONPATH": str(where)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    assert asked("--version").stdout == f"noisymean {nm.__version__}\n"
    result = asked(*CURVE)
    assert (result.returncode, result.stderr) == (0, "")
    # what needs an extra says which, in one line
    for words, extra in (
        ((*CURVE[:-1], "--plot", "x.png"), "plots"),
        (("report", *ACCOUNT[1:-1], "--out", "x.html"), "report"),
        (("audit", "dp-feta"), "audit"),
    ):
        result = asked(*words)
        assert result.returncode == 2, (words, result.stderr)
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert f"noisymean[{extra}]" in result.stderr, result.stderr
        assert not list(tmp_path.glob("x.*"))


@pytest.mark.slow
def test_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """As a user installs it: pip fetches numpy, scipy, typer and rich, and nothing else of ours."""
    venv.create(tmp_path / "env", with_pip=True)
    program = tmp_path / "env" / "bin"
    subprocess.run([program / "python", "-m", "pip", "install", "--quiet", str(one(built, ".whl"))], check=True)
    for command in ([program / "noisymean"], [program / "python", "-m", "noisymean"]):
        for words in (("--version",), CURVE, ACCOUNT):
            result = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True)
            assert (result.returncode, result.stderr) == (0, ""), words
    shell = subprocess.run(
        [program / "noisymean", "--show-completion", "bash"], capture_output=True, text=True, env={**os.environ, "SHELL": "/bin/bash"}
    )  # fmt: skip
    assert "_NOISYMEAN_COMPLETE" in shell.stdout


def test_completion_offers_the_commands() -> None:
    environment = {**os.environ, "_NOISYMEAN_COMPLETE": "complete_bash", "COMP_WORDS": "noisymean c", "COMP_CWORD": "1"}
    program = Path(sys.executable).with_name("noisymean")
    result = subprocess.run([program], env=environment, capture_output=True, text=True)
    assert {"curve", "calibrate", "code-audit"} <= set(result.stdout.split())


def test_importing_is_light() -> None:
    code = f"import sys, noisymean; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_version_is_written_once() -> None:
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        if name == "pyproject.toml":
            assert nm.__version__ not in text.split("[project]")[1].split("[project.optional")[0]
        else:
            assert nm.__version__ in text
