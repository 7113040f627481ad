"""Audits and findings have the manners of every other answer."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from noisymean.audit import Audit, audit
from noisymean.cli.app import run
from noisymean.mechanisms import EASGM, SGM
from noisymean.probe import Finding, probe
from noisymean.probe.finding import Bearing, Remark, Severity
from noisymean.probe.judgement import judged

RUN: dict[str, Any] = {
    "dataset_size": 60,
    "dimension": 100,
    "sample_rate": "0.1",
    "noise_multiplier": 2.0,
    "steps": 10,
    "delta": 1e-5,
}


@pytest.fixture(scope="module")
def audited() -> Audit:
    mechanism = EASGM(dataset_size=4, dimension=100, sample_rate="0.05", noise_multiplier=10.0)
    return audit(mechanism, seed=1, trials=500)


@pytest.fixture(scope="module")
def found() -> Finding:
    return probe("synthetic:easgm", seed=0, **RUN)


@pytest.mark.parametrize("name", ["audited", "found"])
def test_every_answer_shows_itself(name: str, request: pytest.FixtureRequest) -> None:
    answer = request.getfixturevalue(name)
    text = str(answer)
    assert len(text.splitlines()) < 40
    assert "<table>" in answer._repr_html_()
    assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))["verdict"] == "violated"
    columns = answer.columns()
    assert len({len(column) for column in columns.values()}) == 1
    pytest.importorskip("matplotlib")
    assert answer.plot().get_axes()


@pytest.mark.parametrize("name", ["audited", "found"])
def test_every_answer_is_a_frame(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = request.getfixturevalue(name)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    assert answer.to_frame() == dict(answer.columns())


def test_an_audit_in_words(audited: Audit) -> None:
    text = str(audited)
    assert "The claim is violated in one step" in text
    assert "of the true delta(0)" in text
    assert audited.claimed_epsilon is not None
    assert audited.found.epsilon_lower > audited.claimed_epsilon
    # random gradients have no closed form: the simulated curve says nothing about its tails
    assert audited.exact_epsilon is None


def test_the_exact_epsilon_is_the_larger_of_two_directions() -> None:
    """SGM at q = 1/2 and sigma = 1 on zero gradients: the closed forms of both directions, by hand at epsilon = 0."""
    mechanism = SGM(dataset_size=4, dimension=20, sample_rate="0.5", noise_multiplier=1.0)
    result = audit(mechanism, seed=1, trials=200, gradients="zero")
    assert result.exact_epsilon == pytest.approx(result.claimed_epsilon, rel=1e-9)


def test_python_users_get_the_verdict_of_the_command_line(found: Finding, capsys: pytest.CaptureFixture[str]) -> None:
    assert found.run is not None
    assert found.run.word == "violated"
    words = [word for name, value in RUN.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert run(["probe", "synthetic:easgm", "--seed", "0", *words, "--json"]) == 0
    typed = json.loads(capsys.readouterr().out)
    assert typed.pop("schema") == 1
    assert typed == json.loads(json.dumps(found.to_dict()))


def test_without_the_numbers_of_a_run_there_is_no_verdict() -> None:
    plain = probe("synthetic:sgm", seed=0)
    assert plain.run is None
    assert plain.to_dict()["verdict"] is None


def test_a_doubt_takes_the_guarantee_away() -> None:
    """Whatever the accountant proves of the mechanism: it was not seen to be only that."""
    sound = probe("synthetic:sgm", seed=0, **RUN)
    assert sound.run is not None
    assert sound.run.word == "holds"
    doubt = Remark(Severity.UNKNOWN, "something else", Bearing.BESIDES)
    numbers: Any = {name: RUN[name] for name in ("dataset_size", "dimension", "sample_rate", "noise_multiplier")}
    held = judged(replace(sound, remarks=(*sound.remarks, doubt)), numbers, steps=10, delta=1e-5)
    assert held.run is not None
    assert held.run.word == "undetermined"
    assert held.run.account is not None
    assert held.run.account.guarantee.epsilon is None
    assert all(one.guarantee.epsilon is None for one in held.run.account.neighbours)
    assert "something else" in str(held)


def test_what_no_theorem_covers_is_refused_in_words() -> None:
    other = probe("dpsur", seed=0, **RUN)
    assert other.run is not None
    assert (other.run.word, other.run.account) == ("undetermined", None)
    assert other.to_dict()["account_refused"] == other.run.because
    assert "Not accounted for, undetermined" in str(other)


def test_a_run_needs_all_its_numbers() -> None:
    from noisymean.errors import InvalidInput

    with pytest.raises(InvalidInput, match="steps=None: must be given"):
        probe("synthetic:sgm", seed=0, **{name: value for name, value in RUN.items() if name != "steps"})
