"""One function for an audit and for a probe; mechanisms from outside; what names and functions stand for."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.audit import Processes, audit
from noisymean.audit.laws import KnownPair
from noisymean.audit.trials import FaultyTrial, canonical
from noisymean.cli.app import run
from noisymean.errors import InvalidInput
from noisymean.integrations.pytest_plugin import NotPrivate, assert_private
from noisymean.mechanisms import SGM, Mechanism
from noisymean.probe import Kind, probe
from noisymean.targets import registry
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.entry import target_of
from noisymean.targets.functions import takes_gradients
from noisymean.targets.on_pair import OnPair
from noisymean.targets.protocol import Known, Neighbour, Structure, TrialFault
from noisymean.targets.synthetic import Synthetic
from toy_mechanisms import AtLeast, NoisierWithSize

SOURCE = """
import numpy as np


def released(gradients, generator, sample_rate, noise_multiplier, max_grad_norm, divisor):
    lengths = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)
    clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)
    batch = clipped[generator.random(len(clipped)) < sample_rate]
    noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
    return (batch.sum(axis=0) + noise) / divisor(len(gradients), len(batch))


def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return released(gradients, generator, sample_rate, noise_multiplier, max_grad_norm, lambda N, B: N * sample_rate)


def summed(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return released(gradients, generator, sample_rate, noise_multiplier, max_grad_norm, lambda N, B: 1.0)


def built_in(gradients, generator, *, sample_rate):
    return release(gradients, generator, sample_rate=sample_rate, noise_multiplier=10.0, max_grad_norm=0.5)


def by_batch_size(gradients, generator, *, batch_size, noise_multiplier, max_grad_norm):
    return summed(
        gradients, generator, sample_rate=batch_size / len(gradients), noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
    )


def claims(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return 0.0 * gradients[0] + generator.standard_normal(gradients.shape[1])


claims.claim = (0.0, 0.0)


def nothing(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return None


def short(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return np.zeros(3)


def not_finite(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return np.full(gradients.shape[1], np.nan)


def deaf(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return np.random.default_rng().standard_normal(gradients.shape[1])


def constant(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return np.zeros(gradients.shape[1])


def old(extra_record, generator, sample_rate=0.5):
    return generator.standard_normal(20) * (1.0 + extra_record)


def build(dataset_size, sample_rate):
    raise RuntimeError("no optimizer today")
"""
NUMBERS: dict[str, Any] = {"dataset_size": 4, "dimension": 100, "sample_rate": "0.05", "noise_multiplier": 10.0}
TYPED = [word for name, value in NUMBERS.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(SOURCE)
    return path


# --- one function ---------------------------------------------------------------------------------------------------------------


def test_the_same_function_is_audited_and_probed_from_the_command_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", f"{file}:release", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "easgm"
    words = ["audit", f"{file}:release", *TYPED, "--trials", "1000", "--seed", "1", "--json"]
    assert run([*words, "--mechanism", "easgm"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "violated"
    assert found["distinguisher"] == "likelihood-ratio"
    assert found["exact"]["method"].endswith("told")
    # two chi-square distribution functions, 0.8 apart in scale and of 100 degrees, differ by 0.88430
    assert 0.8 < found["delta_lower"] < 0.8844
    assert run(words) == 0
    learned = json.loads(capsys.readouterr().out)
    assert (learned["distinguisher"], learned["exact"], learned["verdict"]) == ("learned", None, "violated")


def test_python_and_the_command_line_have_the_same_numbers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(f"{file}:release", seed=3, trials=400, mechanism="easgm", **NUMBERS).to_dict()
    assert (
        run(["audit", f"{file}:release", *TYPED, "--mechanism", "easgm", "--trials", "400", "--seed", "3", "--json"])
        == 0
    )
    typed = json.loads(capsys.readouterr().out)
    assert typed.pop("schema") == 1
    del typed["seconds"], found["seconds"]
    assert json.loads(json.dumps(found)) == typed


def test_the_noisy_sum_keeps_its_claim(file: Path) -> None:
    found = audit(f"{file}:summed", seed=1, trials=2000, mechanism="sgm", gradients="zero", **NUMBERS)
    assert found.verdict is not None
    assert found.verdict.word == "not-violated"


def test_a_run_of_several_rounds_leaks_more(file: Path) -> None:
    one, three = (
        audit(f"{file}:release", seed=1, trials=400, mechanism="easgm", steps=steps, **{**NUMBERS, "dimension": 10})
        for steps in (1, 3)
    )
    assert three.found.delta_lower > one.found.delta_lower
    assert three.steps == 3


def test_noise_that_is_built_in_is_run_as_it_is(file: Path) -> None:
    target = target_of(f"{file}:built_in", max_grad_norm=0.5, **NUMBERS)
    rows = target.release(Neighbour.SMALLER, np.random.default_rng(1), 50)
    # sigma C / (N q) = 10 * 0.5 / 0.2 on 5,000 numbers
    assert rows.std() == pytest.approx(25.0, rel=0.05)


def test_a_batch_size_where_the_function_takes_one(file: Path) -> None:
    numbers = {name: value for name, value in NUMBERS.items() if name != "sample_rate"}
    target = target_of(f"{file}:by_batch_size", batch_size=2, **numbers)
    expected = target_of(SGM(sample_rate="1/2", noise_multiplier=10.0, dataset_size=4, dimension=100)).claim()
    assert float(target.claim()(0.1)) == pytest.approx(float(expected(0.1)))
    with pytest.raises(InvalidInput, match="batch_size=None: must be given"):
        target_of(f"{file}:by_batch_size", **numbers)
    with pytest.raises(InvalidInput, match="sample_rate=1/20: must be left out"):
        target_of(f"{file}:by_batch_size", batch_size=2, **NUMBERS)


def test_what_a_function_carries_is_its_claim(file: Path) -> None:
    claim = target_of(f"{file}:claims", **NUMBERS).claim()
    assert float(claim(0.25)) == pytest.approx(0.75)


def test_rows_that_are_given(file: Path) -> None:
    rows = ((3.0, 0.0), (0.0, 0.01))
    numbers = {**NUMBERS, "dataset_size": 1, "dimension": 2, "max_grad_norm": 1.0}
    target = target_of(f"{file}:release", rows=rows, mechanism="easgm", **numbers)
    known = target.known()
    assert known is not None
    assert known.told
    np.testing.assert_allclose(known.gradients, [[1.0, 0.0], [0.0, 0.01]])
    assert registry.rebuilt(json.loads(canonical(target.configuration()))) == target
    with pytest.raises(InvalidInput, match="2 rows of 2 numbers"):
        target_of(f"{file}:release", rows=rows[:1], **numbers)


def test_processes_give_the_same_trials(file: Path) -> None:
    one, two = (
        audit(f"{file}:release", seed=1, trials=120, workers=Processes(count), mechanism="easgm", **NUMBERS)
        for count in (1, 2)
    )
    assert one.found.delta_lower == two.found.delta_lower
    np.testing.assert_array_equal(one.found.corner_alpha, two.found.corner_alpha)


def test_a_changed_file_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    configuration = target_of(f"{path}:release", **NUMBERS).configuration()
    path.write_text(SOURCE + "\n")
    with pytest.raises(InvalidInput, match="it has changed"):
        registry.rebuilt(configuration)


def test_a_test_of_the_users_runs_it(file: Path) -> None:
    with pytest.raises(NotPrivate, match=r"mine\.py:release") as fault:
        assert_private(f"{file}:release", mechanism="easgm", **NUMBERS)
    again = next(line for line in str(fault.value).splitlines() if "again by" in line)
    for words in ("noisymean audit", "--dataset-size 4", "--mechanism easgm", "--sample-rate 1/20", "--seed 1"):
        assert words in again
    found = assert_private(f"{file}:summed", mechanism="sgm", gradients="zero", sees_factor=None, **NUMBERS)
    assert found.sight is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", r"returns nothing: it must return 100 numbers \(one per parameter\)"),
        ("short", r"returns numbers of shape \(3,\): it must return 100 numbers"),
        ("not_finite", "not finite"),
        ("deaf", "two different releases: it ignores its generator"),
        ("constant", "one and the same release: it ignores its generator"),
    ],
)
def test_functions_that_misbehave(file: Path, name: str, said: str) -> None:
    with pytest.raises(FaultyTrial, match=said):
        audit(f"{file}:{name}", seed=1, trials=400, **NUMBERS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "dataset_size"),
        (("--dataset-size", "4", "--dimension", "3", "--noise-multiplier", "1"), "sample_rate"),
        ((*TYPED, "--mechanism", "magic"), "sgm, easgm"),
        ((*TYPED, "--gradients", "magic"), "--gradients"),
        ((*TYPED, "--mode", "full"), "--mode"),
    ],
)
def test_complaints_of_the_command_line(
    file: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run(["audit", f"{file}:release", *words]) == 2
    err = capsys.readouterr().err
    assert said in err or said.replace("_", "-") in err
    assert len(err.splitlines()) == 1


# --- what names and functions stand for --------------------------------------------------------------------------------------


def test_the_old_form_is_known_by_its_signature(file: Path) -> None:
    assert isinstance(target_of(f"{file}:old"), UserCallable)
    assert isinstance(target_of(f"{file}:release", **NUMBERS), OnPair)
    with pytest.raises(InvalidInput, match="a callable does not use it"):
        target_of(f"{file}:old", dataset_size=4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda gradients, generator, *, sample_rate: 0, True),
        (lambda gradients, generator, sample_rate=0.5: 0, True),
        (lambda rows, source, *, batch_size, noise_multiplier: 0, True),
        (lambda extra_record, generator: 0, False),
        (lambda extra_record, generator, sample_rate=0.5: 0, False),
        (lambda larger, source, sample_rate=0.5: 0, False),
        (lambda dataset: 0, False),
        (print, False),
    ],
)
def test_signatures(function: object, expected: bool) -> None:
    assert takes_gradients(function) is expected


def test_a_function_that_builds_an_optimizer_is_run_as_one(file: Path) -> None:
    target = target_of(f"{file}:build", **NUMBERS)
    with pytest.raises(TrialFault, match="no optimizer today"):
        target.release(Neighbour.SMALLER, np.random.default_rng(1), 1)


def test_formulas_and_methods_are_targets_by_name() -> None:
    found = audit("synthetic:asgm", seed=1, trials=400, mechanism="asgm", **{**NUMBERS, "sample_rate": "0.7"})
    assert found.verdict is not None
    assert found.verdict.word == "violated"
    assert target_of("dpsur", **NUMBERS).name.startswith("DPSUR as in its code, any gradients")
    for thing, said in (("magic", "FILE.py:NAME"), ("no.py:release", "there is no file"), (lambda x: x, "top level")):
        with pytest.raises(InvalidInput, match=said):
            target_of(thing)


def test_a_mechanism_that_is_told_needs_what_its_rate_follows_from(file: Path) -> None:
    """A loader of no batch size would claim some rate or other, and a true claim could look violated."""
    with pytest.raises(InvalidInput, match="batch_size=None: must be given for opacus-loader"):
        target_of(f"{file}:release", mechanism="opacus-loader", **NUMBERS)


def test_releases_of_opacus_are_targets_by_name() -> None:
    pytest.importorskip("opacus")
    run: dict[str, Any] = {"dataset_size": 1000, "dimension": 30, "batch_size": 50, "noise_multiplier": 1.0}
    target = target_of("opacus==1.6.0", gradients="opposed", reduction="sum", **run)
    assert target.name.startswith("opacus==1.6.0, opposed gradients, loss_reduction=sum: N=1000 b=50 n=30")
    for wrong, said in (({"gradients": "random"}, "zero, aligned, opposed"), ({"mode": "magic"}, "replay, full")):
        with pytest.raises(InvalidInput, match=said):
            target_of("opacus==1.6.0", **{**run, **wrong})
    with pytest.raises(InvalidInput, match="dimension=None: must be given"):
        target_of("opacus==1.6.0", **{name: value for name, value in run.items() if name != "dimension"})


def test_settings_that_nobody_has_are_named(file: Path) -> None:
    with pytest.raises(InvalidInput, match="magic=1: must be left out"):
        target_of(f"{file}:release", magic=1, **NUMBERS)
    with pytest.raises(InvalidInput, match="a target has its settings"):
        target_of(UserCallable.of(file, "old"), steps=3)


# --- mechanisms from outside -----------------------------------------------------------------------------------------------


def density(mechanism: Mechanism, rows: np.ndarray, size: int, output: np.ndarray, bound: float) -> float:
    """log p(output) by the definition, batch by batch; rows are those of D', the dataset has the first `size`."""
    rate, sigma, total = float(mechanism.rate_at(size)), mechanism.noise_at(size), 0.0
    for members in itertools.product((0, 1), repeat=size):
        batch = np.array(members, dtype=bool)
        divisor = float(mechanism.divisors(size, np.array([float(batch.sum())]))[0])
        scale = sigma * bound / divisor
        away = output - rows[:size][batch].sum(axis=0) / divisor
        weight = rate ** batch.sum() * (1.0 - rate) ** (size - batch.sum())
        total += weight * math.exp(-0.5 * float(away @ away) / scale**2) / scale**output.size
    return math.log(total)


@pytest.mark.parametrize("structure", [None, *Structure])
@pytest.mark.parametrize("kind", [AtLeast, NoisierWithSize])
def test_the_optimal_test_of_a_mechanism_from_outside(kind: type, structure: Structure | None) -> None:
    """The closed form against the definition, on outputs of both datasets."""
    mechanism = kind(dataset_size=3, dimension=4, sample_rate="0.6", noise_multiplier=1.5)
    gradients = "random" if structure is None else structure.value
    target = target_of(mechanism, gradients=gradients, max_grad_norm=0.5)
    assert isinstance(target, Synthetic)
    known = target.known()
    assert isinstance(known, Known)
    rows = target.gradients.rows(4, 4, 0.5, 0)
    pair = KnownPair(known)
    for neighbour in Neighbour:
        outputs = target.release(neighbour, np.random.default_rng(5), 6)
        found = pair.log_ratio(pair.statistics(outputs), 1)
        expected = [
            density(mechanism, rows, 4, one[0], 0.5) - density(mechanism, rows, 3, one[0], 0.5) for one in outputs
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [AtLeast, NoisierWithSize])
def test_the_simulated_statistic_has_the_law_of_the_release(kind: type) -> None:
    mechanism = kind(dataset_size=3, dimension=4, sample_rate="0.6", noise_multiplier=1.5)
    target = target_of(mechanism, gradients="opposed")
    pair = KnownPair(target.known())
    for neighbour in Neighbour:
        drawn = pair.sample(neighbour, np.random.default_rng(1), 40_000)
        real = pair.statistics(target.release(neighbour, np.random.default_rng(2), 40_000))
        error = 6.0 * np.sqrt(2.0 / 40_000) * real.std(axis=0)
        assert (np.abs(drawn.mean(axis=0) - real.mean(axis=0)) < error).all()


@pytest.mark.parametrize("distinguisher", [None, "paper", "learned"])
def test_a_mechanism_from_outside_is_audited(distinguisher: str | None) -> None:
    """max(2, |B|) at q = 0.9 and N = 6: the size of the batch shows in the noise of 200 numbers."""
    mechanism = AtLeast(dataset_size=6, dimension=200, sample_rate="0.9", noise_multiplier=5.0)
    found = audit(mechanism, distinguisher, seed=1, trials=1500)
    assert found.verdict is not None
    assert found.verdict.word == "violated"
    if found.reference is not None and distinguisher is None:
        truth = found.reference.curve.advantage()
        assert found.found.delta_lower <= truth + 4.0 * found.reference.standard_error
        assert found.power is not None
        assert found.power > 0.7


def test_another_process_finds_a_mechanism_from_outside() -> None:
    mechanism = AtLeast(dataset_size=6, dimension=50, sample_rate="0.9", noise_multiplier=5.0)
    assert Synthetic(mechanism=mechanism).configuration()["defined_in"] == "toy_mechanisms"
    one, two = (audit(mechanism, seed=1, trials=1200, workers=Processes(count)) for count in (1, 2))
    assert one.found.delta_lower == two.found.delta_lower


def test_a_mechanism_from_outside_is_probed() -> None:
    assert probe("synthetic:toy-noisier", seed=1).kind is Kind.UNKNOWN
