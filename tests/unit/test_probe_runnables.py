"""The prober on functions whose denominator is known, on DPSUR, on optimizers and engines; and that it says unknown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run
from noisymean.errors import InvalidInput, Undefined
from noisymean.paper.dpsur import Denominator, DpsurUpdate
from noisymean.probe import Kind, probe
from noisymean.probe.finding import Finding, Sampling, Severity
from noisymean.probe.prober import probe_runnable
from noisymean.targets.protocol import Raised

Array = np.ndarray[Any, np.dtype[np.float64]]


def leaks(finding: Finding) -> list[str]:
    return [one.words for one in finding.remarks if one.severity is Severity.LEAK]


def batch_of(gradients: Array, generator: np.random.Generator, rate: float, bound: float) -> Array:
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1.0, bound / lengths))[generator.random(len(gradients)) < rate]


def noise(generator: np.random.Generator, count: int, scale: float) -> Array:
    return scale * generator.standard_normal(count)


def constant(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
    batch = batch_of(gradients, generator, sample_rate, max_grad_norm)
    return (batch.sum(0) + noise(generator, gradients.shape[1], noise_multiplier * max_grad_norm)) / 7.0


@pytest.mark.parametrize("kind", [Kind.SGM, Kind.EASGM, Kind.ASGM, Kind.FEASGM, Kind.LOADER])
@pytest.mark.parametrize("seed", [0, 1])
def test_each_mechanism_is_found(kind: Kind, seed: int) -> None:
    finding = probe(f"synthetic:{kind.value}", seed=seed, rounds=100)
    assert finding.kind is kind
    assert bool(leaks(finding)) == (kind is not Kind.SGM)
    assert finding.clipping.sound


@pytest.mark.parametrize("seeds", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_no_false_finding_on_a_constant_denominator_over_many_seeds(seeds: int) -> None:
    for seed in range(seeds):
        finding = probe(constant, seed=100 * seed)
        assert (finding.kind, finding.denominator, finding.remarks) == (Kind.SGM, "7, a constant", ())


@pytest.mark.slow
def test_no_mechanism_is_misread_over_many_seeds() -> None:
    """All the error bars together."""
    for seed in range(100):
        assert probe("synthetic:easgm", seed=100 * seed).kind is Kind.EASGM
        assert probe("synthetic:opacus-loader", seed=100 * seed).kind is Kind.LOADER


def test_dpsur_as_in_its_code_draws_its_denominator_anew() -> None:
    for seed in range(2):
        finding = probe("dpsur", seed=100 * seed)
        assert finding.kind is Kind.INDEPENDENT
        assert finding.empty_batch == "releases zeros, without noise"
    with pytest.raises(Undefined, match="independent"):
        finding.mechanism(dataset_size=100, dimension=10, noise_multiplier=1.0, sample_rate=0.1)


def test_dpsur_as_in_its_paper_divides_by_the_batch() -> None:
    assert probe_runnable(DpsurUpdate(Denominator.BATCH), seed=0).kind is Kind.ASGM


def test_a_bound_of_two_c() -> None:
    def twice(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, 2 * max_grad_norm)
        return (batch.sum(0) + noise(generator, gradients.shape[1], noise_multiplier * max_grad_norm)) / 7.0

    finding = probe(twice, seed=0, rounds=50)
    assert finding.kind is Kind.UNKNOWN
    assert finding.clipping.bound == pytest.approx(2.0, rel=1e-3)
    assert finding.clipping.sensitivity == pytest.approx(2.0, rel=1e-3)


def test_noise_that_is_not_divided() -> None:
    def after(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, max_grad_norm)
        return batch.sum(0) / max(len(batch), 1) + noise(
            generator, gradients.shape[1], noise_multiplier * max_grad_norm
        )

    finding = probe(after, seed=0, rounds=50)
    assert finding.kind is Kind.UNKNOWN
    assert leaks(finding) == ["the noise is not divided by what the gradients are divided by"]


def test_half_the_noise() -> None:
    def quiet(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, max_grad_norm)
        return batch.sum(0) + noise(generator, gradients.shape[1], 0.5 * noise_multiplier * max_grad_norm)

    finding = probe(quiet, seed=0, rounds=50)
    assert finding.kind is Kind.UNKNOWN
    assert finding.noise.scale == pytest.approx(0.5, rel=0.02)


def test_a_denominator_that_no_law_explains_is_unknown() -> None:
    def odd(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, max_grad_norm)
        total = batch.sum(0) + noise(generator, gradients.shape[1], noise_multiplier * max_grad_norm)
        return total / (3.0 + len(gradients) ** 0.5)

    finding = probe(odd, seed=0, rounds=50)
    assert (finding.kind, finding.denominator) == (Kind.UNKNOWN, "unknown")
    with pytest.raises(Undefined, match="unknown"):
        finding.mechanism(dataset_size=100, dimension=10, noise_multiplier=1.0, sample_rate=0.1)


def test_a_function_that_raises_or_lacks_its_keywords() -> None:
    def broken(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):  # type: ignore[no-untyped-def]
        raise RuntimeError("no")

    with pytest.raises(Raised, match="RuntimeError: no"):
        probe(broken, seed=0)
    with pytest.raises(InvalidInput, match="it lacks sample_rate"):
        probe(lambda gradients, generator: gradients[0], seed=0)
    with pytest.raises(InvalidInput, match="target='3'"):
        probe("3", seed=0)


LOUD: dict[str, Any] = {"noise_multiplier": 3.0, "max_grad_norm": 0.5}


@pytest.mark.parametrize(
    ("kind", "divisor"),
    [
        (Kind.ASGM, lambda size, count, rate: max(size, 1)),
        (Kind.EASGM, lambda size, count, rate: count * rate),
        (Kind.FEASGM, lambda size, count, rate: max(math.floor(count * rate + 1e-9), 1)),
        (Kind.SGM, lambda size, count, rate: 7.0),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_noise_that_cannot_be_turned_down(kind: Kind, divisor: Any, scale: float) -> None:
    """Three deviations of noise on every coordinate: seen only because the same noise is taken out again."""

    def loud(gradients, generator, *, sample_rate):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, 0.5)
        total = batch.sum(0) + noise(generator, gradients.shape[1], scale * 3.0 * 0.5)
        return total / divisor(len(batch), len(gradients), sample_rate)

    finding = probe(loud, seed=0, rounds=50, **LOUD)
    assert finding.kind is (kind if scale == 1.0 else Kind.UNKNOWN)
    assert finding.noise.scale == pytest.approx(scale, rel=0.03)
    assert finding.clipping.bound == pytest.approx(1.0, rel=1e-4)


def test_noise_from_elsewhere_is_said() -> None:
    elsewhere = np.random.default_rng(5)

    def stray(gradients, generator, *, sample_rate):  # type: ignore[no-untyped-def]
        batch = batch_of(gradients, generator, sample_rate, 0.5)
        return (batch.sum(0) + noise(elsewhere, gradients.shape[1], 1.5)) / max(len(batch), 1)

    with pytest.raises(Raised, match="does not come from its generator alone"):
        probe(stray, seed=0, **LOUD)
    with pytest.raises(InvalidInput, match="it lacks noise_multiplier: tell the noise_multiplier it has built in"):
        probe(stray, seed=0)
    with pytest.raises(InvalidInput, match=r"noise_multiplier=-1\.0: must be > 0"):
        probe(stray, seed=0, noise_multiplier=-1.0)


def test_a_finding_survives_json() -> None:
    import json

    finding = probe("synthetic:opacus-loader", seed=4)
    assert Finding.from_plain(json.loads(json.dumps(finding.to_plain(), allow_nan=False))) == finding


# --- objects of Opacus -------------------------------------------------------------------------------------------------


def made_private(records: int, batch: int) -> tuple[Any, Any]:
    torch, opacus = pytest.importorskip("torch"), pytest.importorskip("opacus")
    import warnings

    from torch.utils.data import DataLoader, TensorDataset

    layer = torch.nn.Linear(600, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine()
        _, optimizer, _ = engine.make_private(
            module=layer,
            optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(torch.zeros(records, 600)), batch_size=batch),
            noise_multiplier=1.5,
            max_grad_norm=0.7,
        )
    return engine, optimizer


@pytest.mark.slow
def test_an_engine_is_probed_on_copies_of_it() -> None:
    engine, _ = made_private(100, 10)
    before = engine.accountant.history.copy()
    finding = probe(engine, seed=0)
    assert finding.kind is Kind.LOADER
    assert finding.rates.moves_with_size
    assert engine.accountant.history == before


def test_an_optimizer_alone_does_not_show_whether_its_denominator_moves() -> None:
    torch = pytest.importorskip("torch")
    engine, optimizer = made_private(100, 10)
    kept = (optimizer.noise_multiplier, optimizer.max_grad_norm, optimizer.step_hook, torch.random.get_rng_state())
    finding = probe(optimizer, seed=0)
    assert finding.kind is Kind.UNKNOWN
    assert finding.denominator.startswith("10 for every batch")
    assert finding.clipping.sound
    assert finding.rates.sampling is Sampling.GIVEN
    # nothing of the caller's has changed
    assert (optimizer.noise_multiplier, optimizer.max_grad_norm, optimizer.step_hook) == kept[:3]
    assert torch.equal(torch.random.get_rng_state(), kept[3])
    assert engine.accountant.history == []
    assert all(parameter.grad is None and parameter.grad_sample is None for parameter in optimizer.params)


def test_optimizers_built_for_each_size_show_it() -> None:
    def build(dataset_size: int, sample_rate: float) -> Any:
        _, optimizer = made_private(dataset_size, 1)
        optimizer.expected_batch_size = dataset_size * sample_rate
        return optimizer

    def fixed(dataset_size: int, sample_rate: float) -> Any:
        from noisymean.integrations.opacus import fix

        return fix(build(dataset_size, sample_rate), denominator=7)

    assert probe(build, seed=0, rounds=40).kind is Kind.EASGM
    twin = probe(fixed, seed=0, rounds=40)
    assert (twin.kind, twin.denominator, twin.remarks) == (Kind.SGM, "7, a constant", ())


# --- the command -------------------------------------------------------------------------------------------------------


def test_command_on_a_file(tmp_path: Path) -> None:
    import json

    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):\n"
        "    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)\n"
        "    clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)\n"
        "    batch = clipped[generator.random(len(clipped)) < sample_rate]\n"
        "    noise = noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])\n"
        "    return (batch.sum(axis=0) + noise) / (len(clipped) * sample_rate)\n"
    )
    done = run(
        "probe", f"{file}:release", "--dataset-size", "100", "--sample-rate", "0.1", "--dimension", "500",
        "--noise-multiplier", "1", "--steps", "10", "--delta", "1e-5", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["mechanism"] == "easgm"
    assert found["account"]["verdict"] == "violated"
    assert any(one["run"] == "N=101 q=1/10" for one in found["evidence"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nothing"], "must be opacus, opacus==X"),
        (["opacus==9.9"], "a release from 0.9.0 to 1.6.0"),
        (["synthetic:none"], "synthetic:NAME"),
        (["missing.py:release"], "there is no file missing.py"),
        (["synthetic", "--loss-reduction", "sum"], "opacus or opacus==X for these options"),
        (["opacus==0.13.0", "--no-poisson"], "which has no such option"),
        (["opacus==0.13.0", "--clipping", "adaptive"], "offers here: flat, per_layer"),
        (["synthetic", "--noise-multiplier", "1"], "--dataset-size: missing"),
        (["synthetic", "--dataset-size", "10", "--batch-size", "11"], "from 1 to the dataset size 10"),
    ],
)
def test_bad_input_is_one_line(words: list[str], complaint: str) -> None:
    done = run("probe", *words)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1
