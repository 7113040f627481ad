"""Extras: whatever is imported is declared, whoever misses a package is told the extra that has it, and the tutorial lists them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]
# As it is imported -> as it is installed, where the two differ.
INSTALLED_AS = {"PIL": "pillow", "sklearn": "scikit-learn", "dp_accounting": "dp-accounting", "attr": "attrs"}
# What an extra does not name and one of its packages brings along.
BROUGHT_BY = {"attrs": "dp-accounting", "markupsafe": "jinja2", "werkzeug": "flask"}
# The plugin is loaded by pytest.
BY_ITSELF = {"pytest"}
# Others import them: a Trainer of transformers accelerate, and dask what it calls dask.distributed.
NOT_IMPORTED = {"accelerate", "distributed"}


def packages(extra: str) -> set[str]:
    """Everything that an extra names, by way of other extras as well."""
    found: set[str] = set()
    for line in OPTIONAL[extra]:
        needed = Requirement(line)
        if needed.name == "noisymean":
            found |= {name for other in needed.extras for name in packages(other)}
        else:
            found.add(canonicalize_name(needed.name))
    return found


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """The modules that run in the user's environment: those of `inside` run in one that is made for another library."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        if "inside" not in path.parts:
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def installed_as(name: str) -> str:
    top = name.partition(".")[0]
    return canonicalize_name(INSTALLED_AS.get(top, top))


def test_whatever_is_imported_is_declared() -> None:
    ours = {"noisymean", "pytest_noisymean"}
    needed = {
        installed_as(name): path
        for path, tree in sources()
        for name in imported(tree)
        if name.partition(".")[0] not in ours | sys.stdlib_module_names
    }
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    known = declared | packages("all") | BY_ITSELF | set(BROUGHT_BY)
    assert {name: path.name for name, path in needed.items() if name not in known} == {}
    # and nothing is declared in vain
    assert {name for name in packages("all") - NOT_IMPORTED if name not in needed} == set()
    for name, by in BROUGHT_BY.items():
        assert by in packages("all")
        assert name in {canonicalize_name(Requirement(line).name) for line in metadata.requires(by) or ()}


def test_all_is_all() -> None:
    (every,) = (Requirement(line) for line in OPTIONAL["all"])
    assert every.extras == set(OPTIONAL) - {"all"}


def told() -> Iterator[tuple[str, str, str]]:
    """(module, package, extra) wherever a user is told which extra to install."""
    for path, tree in sources():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Name(id="MissingDependency"),
                    args=[ast.Constant(value=str(package)), ast.Constant(value=str(extra))],
                ):
                    yield path.name, package, extra
                case ast.Call(
                    func=ast.Name(id="need"),
                    args=names,
                    keywords=[ast.keyword(arg="extra", value=ast.Constant(value=str(extra)))],
                ):
                    yield from ((path.name, ast.literal_eval(one), extra) for one in names)


def test_the_extra_that_is_named_has_the_package() -> None:
    found = list(told())
    wrong = [one for one in found if installed_as(one[1]) not in packages(one[2])]
    assert wrong == []
    # `report` is what need() names unless it is told another
    assert {extra for _, _, extra in found} | {"report"} == set(OPTIONAL) - {"all"}


def test_extras_in_documents_exist_and_each_has_its_line() -> None:
    texts = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    texts += [path for path, _ in sources()]
    named = {
        (path.name, extra)
        for path in texts
        for written in re.findall(r"(?:noisymean|['\"]\.)\[([a-z]+(?:,[a-z]+)*)\]", path.read_text(encoding="utf-8"))
        for extra in written.split(",")
    }
    assert [(name, extra) for name, extra in named if extra not in OPTIONAL] == []
    lines = re.findall(
        r"^\| `(\w+)` \| (.*?) \|", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    listed = {extra: re.findall(r"[\w-]+", brings) for extra, brings in lines if extra in OPTIONAL}
    assert set(listed) == set(OPTIONAL)
    for extra in set(OPTIONAL) - {"all"}:
        own = {canonicalize_name(Requirement(line).name) for line in OPTIONAL[extra]} - {"noisymean"}
        assert own <= {canonicalize_name(word) for word in listed[extra]}, extra


# What is asked for in Python, and the extra that an environment without optional packages is told of; commands are in
# test_cli_extras.py.
FEATURES = {
    "nm.curve(SGM, alpha=[0.5]).plot()": "plots",
    "nm.curve(SGM, alpha=[0.5]).to_frame()": "frames",
    "nm.account(SGM, steps=2, delta=1e-5).plot()": "plots",
    "nm.audit('opacus', trials=10, seed=1, dataset_size=10, dimension=9, batch_size=2, noise_multiplier=1.0)": "audit",
    "nm.probe('opacus', seed=1)": "audit",
    "import_module('noisymean.integrations.opacus')": "audit",
    "import_module('noisymean.integrations.callbacks')": "audit",
    "import_module('noisymean.integrations.dp_accounting')": "accounting",
}
_ASK = """
import json, sys
sys.modules.update(dict.fromkeys({blocked!r}))
from importlib import import_module
import noisymean as nm
SGM = nm.SGM(sample_rate=0.5, noise_multiplier=1.0)
said = {{}}
for asked in {features!r}:
    try:
        eval(asked)
    except nm.MissingDependency as fault:
        said[asked] = str(fault)
print(json.dumps(said))
"""


def test_in_python_the_extra_is_named_as_well() -> None:
    names = {name: as_ for as_, name in INSTALLED_AS.items()}
    blocked = [names.get(one, one.replace("-", "_")) for one in sorted(packages("all"))]
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(blocked=blocked, features=list(FEATURES))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {asked: re.findall(r"noisymean\[(\w+)\]", text) for asked, text in said.items()} == {
        asked: [extra] for asked, extra in FEATURES.items()
    }


@pytest.mark.parametrize("extra", sorted(set(OPTIONAL) - {"all"}))
def test_an_extra_has_a_pin_for_each_of_its_packages(extra: str) -> None:
    """What `make` and the instructions install is what was tested."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    assert packages(extra) - pinned == set()
