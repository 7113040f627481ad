"""`assert_private`, its fixture, and what a failure says; the plugin costs nothing until it is used."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import noisymean as nm
from command_line import run
from noisymean.errors import InvalidInput
from noisymean.integrations.pytest_plugin import NotPrivate, TooWeak, assert_private
from noisymean.laws.closed import Gaussian
from noisymean.outward import at_least, at_most
from noisymean.targets.synthetic import Synthetic

ROOT = Path(__file__).parents[2]


def gaussian(extra_record: bool, generator: np.random.Generator) -> np.ndarray:
    """N(0, 1) against N(1, 1): delta(0) is 0.3829."""
    return generator.standard_normal(1) + extra_record


def nothing(extra_record: bool, generator: np.random.Generator) -> np.ndarray:
    """The same on both."""
    return generator.standard_normal(1)


def test_a_true_claim_passes_and_the_audit_comes_back() -> None:
    found = assert_private(gaussian, claim=Gaussian(1.0), trials=1000)
    assert found.verdict is not None
    assert (found.verdict.word, found.finished) == ("not-violated", 1000)
    # the same seed, the same audit; a claim as one number, as a pair, and as a mechanism
    assert assert_private(gaussian, claim=3.0, trials=1000).found.alpha == found.found.alpha
    assert_private(gaussian, claim=(1.0, 0.3), trials=1000, seed=2)
    assert_private(gaussian, claim=nm.SGM(sample_rate=1, noise_multiplier=1.0), trials=1000)


def test_a_test_that_passes_says_what_it_would_have_caught() -> None:
    found = assert_private(gaussian, claim=Gaussian(1.0), trials=1000)
    seen = found.sight
    # mu = 1 has epsilon 4.38 at delta = 1e-5: what is seen is more, and not much more
    assert seen.epsilon is not None
    assert 1.0 < seen.factor < 2.0
    assert seen.epsilon == pytest.approx(seen.factor * seen.claimed)
    said = r"^1,000 trials at 99 % confidence would have caught a Gaussian mechanism of epsilon >= [\d.]+ at delta = 1e-05, "
    assert re.match(said + r"[\d.]+ times the claimed 4\.37\d, with probability 90 %$", str(seen))
    more = assert_private(gaussian, claim=Gaussian(1.0), trials=4000).sight
    assert more.epsilon is not None
    assert more.epsilon < seen.epsilon


def test_a_test_that_could_see_nothing_is_refused_and_the_trials_it_names_are_enough() -> None:
    with pytest.raises(TooWeak) as refusal:
        assert_private(gaussian, claim=Gaussian(1.0), trials=400, sees_factor=1.5)
    (line,) = str(refusal.value).splitlines()
    named = re.match(
        r"trials=400: must be at least ([\d,]+) to see the claimed epsilon 4\.37\d at delta = 1e-05 broken", line
    )
    assert named is not None
    assert f"these see the factor {at_most(refusal.value.sight.factor, '.3g')}; give more trials" in line
    enough = int(named[1].replace(",", ""))
    assert assert_private(gaussian, claim=Gaussian(1.0), trials=enough, sees_factor=1.5).sight.factor <= 1.5
    # not many more than are needed, and the test that was refused is run if it is told to be
    with pytest.raises(TooWeak):
        assert_private(gaussian, claim=Gaussian(1.0), trials=enough // 2, sees_factor=1.5)
    assert assert_private(gaussian, claim=Gaussian(1.0), trials=400, sees_factor=None).sight.factor > 1.5


def test_the_default_refuses_what_no_trial_could_contradict() -> None:
    """With 350 runs judged no error rate is below 1 %, and e^-9 is claimed to be possible."""
    with pytest.raises(TooWeak, match=r"broken by the factor 10 with probability 90 %.*these see no factor"):
        assert_private(gaussian, claim=9.0, trials=1000)
    # one round at a small rate: 1 % of the runs show anything at all
    with pytest.raises(TooWeak, match=r"a Gaussian mechanism sampled at q = 0\.01"):
        assert_private(nothing, claim=nm.SGM(sample_rate="0.01", noise_multiplier=1.0))


def test_a_violation_is_told_even_by_a_weak_test() -> None:
    with pytest.raises(NotPrivate):
        assert_private(gaussian, claim=nm.SGM(sample_rate="0.01", noise_multiplier=1.0))


def test_a_factor_that_is_none() -> None:
    for factor in (1.0, 0.5, -2.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="sees_factor="):
            assert_private(gaussian, claim=Gaussian(1.0), trials=400, sees_factor=factor)
    with pytest.raises(InvalidInput, match="None where epsilon = 0 is claimed"):
        assert_private(nothing, claim=0.0, trials=400)
    assert assert_private(nothing, claim=0.0, trials=400, sees_factor=None).sight.epsilon is not None


def test_a_failure_says_all_and_the_command_repeats_it() -> None:
    with pytest.raises(NotPrivate) as failure:
        assert_private(gaussian, claim=(0.1, 1e-6), trials=1000, confidence=0.95, seed=7)
    said = dict(line.strip().split(None, 1) for line in str(failure.value).splitlines()[1:])
    assert said["claimed"].startswith("epsilon <= 0.1 at delta = 1e-06")
    found = failure.value.audit.found
    assert said["audited"].startswith(f"epsilon >= {at_least(found.epsilon_lower)} at")
    assert said["seed"] == "7"
    words = shlex.split(said["again"].removeprefix("by").strip())
    assert words[:2] == ["noisymean", "audit"]
    again = run(*words[1:], "--json", "--fail-on-violation")
    assert again.code == 1
    assert json.loads(again.out)["epsilon_lower"] == found.epsilon_lower


def test_targets_that_the_command_line_cannot_name_are_repeated_by_their_test() -> None:
    mechanism = nm.EASGM(dataset_size=4, dimension=100, sample_rate="1/20", noise_multiplier=10.0)
    with pytest.raises(NotPrivate, match=r"again by  python -m pytest here\.py::there"):
        assert_private(Synthetic(mechanism=mechanism), trials=500, test="here.py::there")
    with pytest.raises(NotPrivate, match="the same call, with seed=3"):
        assert_private(Synthetic(mechanism=mechanism), trials=500, seed=3)


def test_complaints() -> None:
    with pytest.raises(InvalidInput, match="a function at the top level of a file"):
        assert_private(lambda extra, generator: 0.0, claim=1.0)
    with pytest.raises(InvalidInput, match=r"FILE\.py:NAME"):
        assert_private("nowhere", claim=1.0)
    with pytest.raises(InvalidInput, match="given for a target that claims nothing"):
        assert_private(gaussian, trials=100)
    with pytest.raises(InvalidInput, match="epsilon, \\(epsilon, delta\\)"):
        assert_private(gaussian, claim="small", trials=100)  # type: ignore[arg-type]


SUITE = """
def release(extra_record, generator):
    return generator.standard_normal(3) + extra_record

def test_leaks(assert_private):
    assert_private(release, claim=(0.1, 1e-6), trials=500)

def nothing(extra_record, generator):
    return generator.standard_normal(3)

def test_holds(assert_private):
    assert_private(nothing, claim=(1.0, 1e-6), trials=600)
    assert_private(nothing, claim=(2.0, 1e-6), trials=600)

def test_sees_nothing(assert_private):
    assert_private(nothing, claim=(9.0, 1e-6), trials=500)
"""


def in_a_suite(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # by name and not by entry point: the installation may be older than this file
    command = [sys.executable, "-m", "pytest", "-p", "pytest_noisymean", "-p", "no:cacheprovider", "-q", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_in_somebody_elses_suite(tmp_path: Path) -> None:
    (tmp_path / "test_release.py").write_text(SUITE)
    done = in_a_suite(tmp_path)
    assert done.returncode == 1
    assert "2 failed, 1 passed" in done.stdout
    summary = done.stdout.partition("privacy tests that passed: what they would have caught")[2].splitlines()[1:3]
    for line, epsilon in zip(summary, ("1", "2"), strict=True):
        assert line.startswith(
            "test_release.py::test_holds: test_release.py:nothing: 600 trials at 99 % confidence would"
        )
        assert f" times the claimed {epsilon}, with probability 90 %" in line
    assert "trials=500: must be at least " in done.stdout
    assert "test_release.py:release is not as private as claimed" in done.stdout
    assert f"noisymean audit {tmp_path / 'test_release.py'}:release --claim-epsilon 0.1" in done.stdout


def test_the_plugin_loads_nothing_until_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert not {'noisymean', 'numpy', 'torch'} & set(sys.modules)\n"
    )
    assert in_a_suite(tmp_path).returncode == 0


def test_the_entry_point_is_declared() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nnoisymean = "pytest_noisymean"' in text
    installed = [point.value for point in entry_points(group="pytest11") if point.name == "noisymean"]
    assert installed in ([], ["pytest_noisymean"])
