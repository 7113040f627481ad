"""What can be audited: synthetic mechanisms, a user's callable, and the claim as a curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import noisymean as nm
from noisymean.audit import Audit, Processes, audit, distinguisher
from noisymean.audit.trials import FaultyTrial
from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta, Gaussian
from noisymean.mechanisms import Mechanism
from noisymean.targets import registry
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.claims import below, claimed_curve
from noisymean.targets.protocol import Neighbour
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic
from noisymean.tradeoff import Side


def mechanisms(n: int, count: int, q: str) -> list[Mechanism]:
    common: dict[str, Any] = {"dataset_size": count, "dimension": n, "noise_multiplier": 1.5}
    return [
        *(kind(sample_rate=q, **common) for kind in (nm.SGM, nm.EASGM, nm.ASGM, nm.FEASGM)),
        nm.OpacusLoader(batch_size=2, **common),
    ]


@pytest.mark.parametrize("mechanism", mechanisms(7, 4, "1/3"), ids=lambda m: m.name)
@pytest.mark.parametrize("kind", list(Gradients))
def test_a_target_survives_its_configuration(mechanism: Mechanism, kind: Gradients) -> None:
    target = Synthetic(mechanism=mechanism, gradients=kind, steps=2, gradient_seed=9)
    again = registry.rebuilt(target.configuration())
    assert again == target
    one, other = (t.release(Neighbour.LARGER, np.random.default_rng(1), 3) for t in (target, again))
    assert one.shape == (3, 2, 7)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", list(Gradients))
@pytest.mark.parametrize("neighbour", list(Neighbour))
def test_scale_and_mean_of_each_mechanism(kind: Gradients, neighbour: Neighbour) -> None:
    """Mean square of a coordinate; 8 % are five deviations of the batch sizes that are drawn."""
    count, n, trials = 3, 60, 6000
    size = count + (neighbour is Neighbour.LARGER)
    for mechanism in mechanisms(n, count, "2/3"):
        target = Synthetic(mechanism=mechanism, gradients=kind, max_grad_norm=0.2)
        outputs = target.release(neighbour, np.random.default_rng(8), trials)[:, 0]
        q = 1 / -(-size // 2) if isinstance(mechanism, nm.OpacusLoader) else 2 / 3
        sizes = np.arange(size + 1)
        denominators = {
            "sgm": np.ones(size + 1),
            "easgm": np.full(size + 1, size * 2 / 3),
            "feasgm": np.full(size + 1, max(int(size * 2 / 3 + 1e-9), 1)),
            "asgm": np.maximum(sizes, 1),
            "opacus-loader": np.full(size + 1, int(size * (1 / -(-size // 2)))),
        }[mechanism.name]
        expected = binom.pmf(sizes, size, q) @ (0.3 / denominators) ** 2
        found = np.mean(outputs[:, 1:] ** 2) - (0.0 if kind is not Gradients.RANDOM else 0.2**2 / n)
        assert found == pytest.approx(expected, rel=0.08)


def test_an_empty_batch_is_divided_by_one() -> None:
    mechanism = nm.ASGM(dataset_size=1, dimension=4000, sample_rate="1e-9", noise_multiplier=2.0)
    outputs = Synthetic(mechanism=mechanism, max_grad_norm=1.0).release(Neighbour.LARGER, np.random.default_rng(1), 5)
    assert outputs.std() == pytest.approx(2.0, rel=0.05)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="steps=0"):
        Synthetic(mechanism=mechanisms(3, 2, "0.5")[0], steps=0)
    with pytest.raises(InvalidInput, match="max_grad_norm"):
        Synthetic(mechanism=mechanisms(3, 2, "0.5")[0], max_grad_norm=-1.0)
    with pytest.raises(InvalidInput, match="dimension=None"):
        Synthetic(mechanism=nm.SGM(dataset_size=2, sample_rate=0.5, noise_multiplier=1.0))
    with pytest.raises(InvalidInput, match="dataset_size=0"):
        Synthetic(mechanism=nm.EASGM(dataset_size=0, dimension=2, sample_rate=0.5, noise_multiplier=1.0))
    with pytest.raises(InvalidInput, match="target='nope'"):
        registry.rebuilt({"target": "nope"})


def test_the_claim_of_several_rounds_is_never_above_the_truth() -> None:
    """At q = 1 twenty rounds are one Gaussian of mu = sqrt(20)/sigma."""
    mechanism = nm.EASGM(dataset_size=10, dimension=10, sample_rate=1, noise_multiplier=5.0)
    claim, exact = claimed_curve(mechanism, 20), Gaussian(np.sqrt(20) / 5.0)
    alpha = np.concatenate([np.logspace(-6, -1, 11), np.linspace(0.1, 0.99, 30)])
    assert (claim(alpha) <= exact(alpha) + 1e-12).all()
    assert claim(alpha) == pytest.approx(exact(alpha), abs=1e-3)
    assert claim.epsilon(1e-5, Side.ABOVE) == pytest.approx(exact.epsilon(1e-5), rel=1e-2)


def test_lines_below_a_gaussian_curve() -> None:
    exact = Gaussian(1.0)
    epsilons = np.linspace(-6.0, 6.0, 201)
    slopes = np.exp(epsilons)
    curve = below(slopes, 1.0 - exact.delta(epsilons))
    alpha = np.linspace(0.0, 1.0, 101)
    assert (curve(alpha) <= exact(alpha) + 1e-9).all()
    assert curve(alpha) == pytest.approx(exact(alpha), abs=2e-3)


SOURCE = """
import numpy as np

def noisy_mean(extra_record, generator):
    count = 3 + extra_record
    batch = generator.random(count) < 0.5
    total = generator.standard_normal(80)
    total[0] += 0.1 * batch.sum()
    return total / (count * 0.5)

noisy_mean.claim = (0.5, 1e-5)

def rounds(extra_record, generator):
    return generator.standard_normal((2, 5))

def raises(extra_record, generator):
    if extra_record and generator.random() < 0.1:
        raise RuntimeError("boom")
    return generator.standard_normal(3)

def shape(extra_record, generator):
    return generator.standard_normal(4 if extra_record else 3)

def nan(extra_record, generator):
    found = generator.standard_normal(3)
    return np.where(found > 1.9, np.nan, found)

def ignores(extra_record, generator):
    return np.random.default_rng().standard_normal(3)

def constant(extra_record, generator):
    return np.ones(3)

def text(extra_record, generator):
    return "no numbers"

def broken(extra_record, generator):
    return 1 / 0

not_callable = 3

class Release:
    claim = "nonsense"
    def __call__(self, extra_record, generator):
        return generator.standard_normal(3)

release = Release()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def audited(file: Path, name: str, trials: int = 400) -> Audit:
    target = UserCallable.of(file, name)
    return audit(target, distinguisher(None, target), seed=3, trials=trials)


def test_a_callable_is_audited(file: Path) -> None:
    result = audited(file, "noisy_mean", trials=1000)
    assert result.distinguisher == "learned"
    assert result.found.judged < result.finished == 1000
    assert result.claim == EpsilonDelta(0.5, 1e-5)
    assert result.verdict.word == "violated"


def test_rounds_of_a_callable(file: Path) -> None:
    target = UserCallable.of(file, "rounds")
    assert (target.steps, target.dimension) == (2, 5)
    assert audited(file, "rounds").verdict is None


FAULTS = {
    "raises": r"trial \d+ \(seed 3, block \d+, run \d+ on D'\): raised RuntimeError: boom; its generator: Generator",
    "shape": r"trial \d+ \(seed 3, .* on D'\): released \(rounds, numbers\) \(1, 4\), but \(1, 3\) in its first run",
    "nan": r"trial \d+ \(seed 3, .*released a number that is not finite",
    "ignores": r"trial 0 \(seed 3, .*the same seed gave two different releases: it ignores its generator",
    "constant": r"trial 0 \(seed 3, .*gave one and the same release: it ignores its generator",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_callable_that_misbehaves_is_reported_with_its_trial(file: Path, name: str) -> None:
    with pytest.raises(FaultyTrial, match=FAULTS[name]):
        audited(file, name)


def test_a_fault_crosses_from_another_process(file: Path) -> None:
    target = UserCallable.of(file, "raises")
    with pytest.raises(FaultyTrial, match="raised RuntimeError: boom"):
        audit(target, distinguisher(None, target), seed=3, trials=400, workers=Processes(2))
    rule = distinguisher(None, target)
    file.write_text(SOURCE + "\n# changed\n")
    with pytest.raises(InvalidInput, match="it has changed: start anew"):
        audit(target, rule, seed=4, trials=400, workers=Processes(2))


def test_processes_run_a_users_file(file: Path) -> None:
    target = UserCallable.of(file, "noisy_mean")
    one, two = (
        audit(target, distinguisher(None, target), seed=3, trials=300, workers=Processes(count)) for count in (1, 2)
    )
    assert one.found.alpha == two.found.alpha


@pytest.mark.parametrize("trials", [2, 3, 7, 41])
def test_very_few_trials_are_judged_or_refused(file: Path, trials: int) -> None:
    try:
        assert 0 < audited(file, "noisy_mean", trials).found.judged < trials
    except InvalidInput as fault:
        assert "enough to learn from and to judge" in str(fault)  # noqa: PT017 - either is right


def test_the_reported_generator_repeats_the_fault(file: Path) -> None:
    with pytest.raises(FaultyTrial) as caught:
        audited(file, "raises")
    key = tuple(int(part) for part in str(caught.value).split("spawn_key=(")[1].split(")")[0].split(","))
    source = np.random.Generator(np.random.SFC64(np.random.SeedSequence(3, spawn_key=key)))
    assert source.random() < 0.1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", "not an array of numbers"),
        ("broken", "raised ZeroDivisionError"),
        ("not_callable", "must be a callable of that file"),
        ("missing", "must be a callable of that file"),
    ],
)
def test_a_callable_that_never_works(file: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        audited(file, name)


def test_a_claim_that_is_none(file: Path) -> None:
    with pytest.raises(InvalidInput, match=r"mine.py:release.claim"):
        audited(file, "release")


def test_a_file_that_changes_is_noticed(file: Path) -> None:
    configuration = UserCallable.of(file, "noisy_mean").configuration()
    registry.rebuilt(configuration)
    file.write_text(SOURCE + "\n# changed\n")
    with pytest.raises(InvalidInput, match="it has changed: start anew"):
        registry.rebuilt(configuration)


def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("import nothing_of_this_name")
    with pytest.raises(
        InvalidInput, match=r"bad.py:release.* a file that can be imported; bad.py raised ModuleNotFoundError"
    ):
        audited(path, "release")
