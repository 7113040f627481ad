"""What the commands print as JSON obeys its written schema, has the keys of the contract, and old files are still read."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from test_reproduction import Fake

from command_line import run
from noisymean.cli import report_runs, reproduce
from noisymean.cli.listed import COMMANDS
from noisymean.paper import data
from noisymean.probe import code_audit, probe
from noisymean.probe.finding import Calibrated, RateLaw, Sampling
from noisymean.schema import SCHEMA, schemas

OLD = Path(__file__).parents[1] / "fixtures" / "json-0.1"
DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
# The keys that the contract names: they are never renamed.
CONTRACT = {
    "curve": {"mechanism", "alpha", "claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage"},
    "account": {"mechanism", "steps", "claimed", "leakage", "guarantee", "verdict", "notes"},
    "audit": {
        *("target", "trials", "confidence", "alpha", "beta", "epsilon_lower", "delta_lower", "curve", "claimed", "exact"),
        *("verdict", "seconds"),
    },
}  # fmt: skip
RUN = ("--dataset-size", "9", "--dimension", "5", "--sample-rate", "1/4", "--noise-multiplier", "5")
CUT = ("--dataset-size", "9", "--batch-size", "2", "--noise-multiplier", "1")
COST = ("--steps", "1", "--delta", "1e-5")
LOADER = ("--mechanism", "opacus-loader", *RUN[:4], "--batch-size", "3", *RUN[6:])
# Command lines whose output is looked at.
REAL: dict[str, Any] = {
    "curve": [("--mechanism", "easgm", *RUN, "--points", "3"), ("--mechanism", "asgm", *RUN, "--alpha", "0.5")],
    "account": [
        *(("--mechanism", name, *RUN, *COST) for name in ("sgm", "easgm", "asgm", "feasgm")),
        (*LOADER, *COST), (*LOADER, "--drop-last", *COST),
        ("--mechanism", "easgm", *RUN, "--steps", "1", "--epsilon", "1"),
        ("--mechanism", "easgm", *RUN, *COST, "--adjacency", "replace-one"),
        ("--mechanism", "sgm", "--sample-rate", "1/4", "--noise-multiplier", "5", *COST, "--reported"),
        # pairs of other kinds: opposed, alternating, orthogonal
        ("--mechanism", "sgm", "--sample-rate", "1/9", "--noise-multiplier", "1", *COST, "--sampling", "shuffle"),
        ("--mechanism", "sgm", *CUT, "--adjacency", "add-remove", "--sampling", "cyclic", *COST),
        ("--mechanism", "feasgm", "--dataset-size", "140199", "--dimension", "26010", "--sample-rate", "0.005",
         "--noise-multiplier", "10", "--steps", "200", "--delta", "1e-5"),
    ],
    "calibrate": [
        ("--mechanism", "sgm", "--sample-rate", "1/4", "--target-epsilon", "1", *COST),
        ("--mechanism", "easgm", *RUN[:6], "--target-epsilon", "1e-6", *COST),
    ],
    "audit": [("synthetic", "--mechanism", "easgm", *RUN, "--trials", "40", "--seed", "1")],
    "probe": [("synthetic:easgm",), ("synthetic:easgm", *RUN, *COST)],
    "statement": [
        ("--mechanism", "sgm", "--sample-rate", "1/4", "--noise-multiplier", "5", *COST, "--unit", "one patient"),
        ("--mechanism", "easgm", *RUN, "--steps", "1", "--epsilon", "1", "--no-gdp"),
        (*LOADER, *COST, "--no-gdp"),
    ],
    "demo": [()],
    "data": [("list",)],
}  # fmt: skip


@cache
def validator(name: str) -> Draft202012Validator:
    every = schemas()
    known = Registry().with_resources([(one["$id"], Resource.from_contents(one)) for one in every.values()])
    return Draft202012Validator(every[name], registry=known)


def valid(name: str, record: object) -> None:
    """The record, under the schema of that command."""
    faults = [f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(record)]
    assert not faults, f"{name}: {faults}"


def written(record: object) -> Any:
    return json.loads(json.dumps(record))


def test_every_command_has_a_schema_and_every_schema_is_listed() -> None:
    # what no command prints: an answer of Python, held against its schema in test_callbacks.py
    assert set(schemas()) - {"common", "inspect"} == set(COMMANDS)
    listed = re.findall(r"schemas/([a-z-]+)\.json", DOCUMENT.read_text(encoding="utf-8"))
    assert sorted(set(listed)) == sorted(schemas())
    for name, schema in schemas().items():
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"urn:noisymean:{SCHEMA}:{name}"


@pytest.mark.parametrize("name", CONTRACT)
def test_the_keys_of_the_contract_are_required(name: str) -> None:
    schema = schemas()["common"]["$defs"]["account"] if name == "account" else schemas()[name]
    assert CONTRACT[name] <= set(schema["required"])


def test_every_object_says_its_version() -> None:
    for name, schema in schemas().items():
        if name != "common":
            assert "schema" in schema["required"]
            assert schema["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, several in REAL.items() for words in several])
def test_what_a_command_prints_is_valid(name: str, words: tuple[str, ...], tmp_path: Path) -> None:
    place = ("--out", str(tmp_path)) if name == "demo" else ()
    done = run(name, *words, *place, "--json")
    assert done.code == 0, done.err
    valid(name, json.loads(done.out))


def test_a_page_and_a_code_audit_are_valid(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def f(grads):\n    return grads.sum(0) / len(grads.batch)\n")
    read = run("code-audit", str(tmp_path / "step.py"), "--json").out
    valid("code-audit", json.loads(read))
    (tmp_path / "read.json").write_text(read)
    done = run("report", str(tmp_path / "read.json"), "--out", str(tmp_path / "page.html"), "--json")
    valid("report", json.loads(done.out))
    found = {code_audit.MEAN: probe("synthetic:asgm", seed=0, rounds=120)}
    release = code_audit.record(code_audit.Audited("0.13.0", findings=found, seconds=1.0))
    valid("code-audit", written({"package": "opacus", "releases": [release], "version": "0", "schema": SCHEMA}))


def test_a_finding_of_any_kind_is_valid() -> None:
    """Each way to draw, each law of a rate, noise that is calibrated; and every key that a conclusion has is described."""
    found = probe("synthetic:asgm", seed=0, rounds=20)
    noise = replace(found.noise, calibrated=(Calibrated("N=30 -> 31 (b=10)", 3.9, 3.4, 1e-4),))
    for sampling, law in itertools.product(Sampling, (*RateLaw, None)):
        rates = replace(found.rates, sampling=sampling, law=law, parts=2 if sampling is Sampling.PARTS else 1)
        plain = written({**replace(found, noise=noise, rates=rates).to_dict(), "schema": SCHEMA})
        valid("probe", plain)
        plain["noise"]["calibrated"][0]["after"] = "3.4"
        assert not validator("probe").is_valid(plain)
    described = schemas()["common"]["$defs"]["finding"]["properties"]
    for part in ("noise", "clipping", "rates"):
        assert set(plain[part]) == set(described[part]["properties"])
    assert set(plain["remarks"][0]) == set(described["remarks"]["items"]["properties"])


def test_a_fetched_set_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "fetch", lambda *_: tmp_path)
    valid("data", json.loads(run("data", "fetch", "mnist", "--json").out))


def test_a_figure_run_again_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, fails = Fake("made"), Fake("fails")
    fails.then = ValueError("no such thing")
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {one.experiment.name: one.experiment for one in (made, fails)})
    found = json.loads(run("reproduce", "all", "--quick", "--out", str(tmp_path), "--json").out)
    assert [one.get("fault") is None for one in found["experiments"]] == [True, False]
    valid("reproduce", found)


def test_a_key_that_is_missing_is_seen() -> None:
    """The schemas say something: without any one of its required keys an object is refused."""
    for name in ("curve", "account", "audit", "probe"):
        record = json.loads(next(OLD.glob(f"{name}-*.json")).read_text(encoding="utf-8"))
        for key in (*CONTRACT.get(name, ()), "schema"):
            assert not validator(name).is_valid({one: value for one, value in record.items() if one != key}), key
        assert validator(name).is_valid({**record, "a key of tomorrow": 1})


# --- files of other versions -------------------------------------------------------------------------------------------


def command_of(file: Path) -> str:
    return max((name for name in COMMANDS if file.stem.startswith(name)), key=len)


@pytest.mark.parametrize("file", sorted(OLD.glob("*.json")), ids=lambda file: file.stem)
def test_an_old_file_is_valid(file: Path) -> None:
    valid(command_of(file), json.loads(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "file",
    [one for one in sorted(OLD.glob("*.json")) if command_of(one) in ("account", "audit", "code-audit")],
    ids=lambda file: file.stem,
)
def test_an_old_file_becomes_a_page(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left_out(*_: object, **__: object) -> None:
        raise ArithmeticError

    # the pictures take most of the time, and are not what is read
    for picture in ("run_curves", "growth", "size_curve"):
        monkeypatch.setattr(report_runs, picture, left_out)
    done = run("report", str(file), "--out", str(tmp_path / "page.html"), "--json")
    assert done.code == 0, done.err
    before, found = json.loads(file.read_text(encoding="utf-8")), json.loads(done.out)
    if "releases" not in before:
        assert found["verdict"] == before["verdict"]


def test_every_old_file_has_its_command() -> None:
    told = re.findall(r"^\| `(.*?)\.json` \| `noisymean (\S+)", (OLD / "README.md").read_text(), flags=re.MULTILINE)
    assert {name for name, _ in told} == {file.stem for file in OLD.glob("*.json")}
    assert all(name.startswith(command) for name, command in told)
