"""The installed Opacus as it trains, on a few real images: what is run, on which pair, and what is known of it before."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.paper import data
from noisymean.paper.photographs import Photographs
from noisymean.paper.real_training import real_training
from noisymean.targets import registry
from noisymean.targets.opacus_training import OpacusTraining
from noisymean.targets.protocol import Neighbour, Onlooked

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

FIXTURES = str(Path(__file__).parents[1] / "fixtures")
D, LARGER = Neighbour.SMALLER, Neighbour.LARGER
BOUND = 0.1


def training(**changes: Any) -> OpacusTraining:
    """39 images in thirteen batches, or one more in fourteen."""
    settings: dict[str, Any] = {"dataset_size": 39, "batch_size": 3, "data_dir": FIXTURES, **changes}
    return real_training(**settings)


def released(target: OpacusTraining, neighbour: Neighbour, seed: int = 1, trials: int = 1) -> Array:
    return target.release(neighbour, np.random.default_rng(seed), trials)


# --- an oracle: one image after the other, by torch's own autograd, clipped by hand ---------------------------------------


def clipped_gradients(images: int, moved: Array | None = None) -> Array:
    """A row for each of the first images, at the first weights plus `moved`."""
    from noisymean.paper.models import model_named

    with np.load(Path(FIXTURES) / "mnist.npz") as file:
        pixels, labels = file["pixels"], file["labels"]
    network = model_named("cnn-grey").build(0)
    if moved is not None:
        weights = torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy() + moved
        torch.nn.utils.vector_to_parameters(torch.from_numpy(weights).float(), network.parameters())
    rows = []
    for image, label in zip(pixels[:images], labels[:images], strict=True):
        batch = torch.tensor(image[:, :, 0].astype(np.float32) / 255.0)[None, None]
        network.zero_grad()
        scores = network(batch)[0]
        (torch.logsumexp(scores, dim=0) - scores[int(label)]).backward()
        row = np.concatenate([one.grad.numpy().ravel() for one in network.parameters()]).astype(float)
        rows.append(row * min(1.0, BOUND / (np.linalg.norm(row) + 1e-6)))
    return np.array(rows)


def close(found: Array, wanted: Array) -> bool:
    """To single precision, of the largest number."""
    return float(np.abs(found - wanted).max()) <= 2e-5 * float(np.abs(wanted).max())


# --- the pair, and what it is divided by ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "batch", "divided_by", "one_more"),
    [(60_000, 600, 600, 594), (60_001, 600, 594, 594), (39, 3, 3, 2), (59_999, 256, 255, 255)],
)
def test_what_it_divides_by(size: int, batch: int, divided_by: int, one_more: int) -> None:
    """By the arithmetic of whole numbers: floor(N / ceil(N/b))."""
    plain = [floor(Fraction(n, ceil(Fraction(n, batch)))) for n in (size, size + 1)]
    assert plain == [divided_by, one_more]
    target = OpacusTraining(records=GREY, dataset_size=size, batch_size=batch, noise_multiplier=1.0)
    assert target.divisors == (divided_by, one_more)
    assert target.rate == target.drawn_at.limit_denominator(10**6) == Fraction(1, ceil(Fraction(size, batch)))
    assert replace(target, fixed=True).divisors == (divided_by, divided_by)


GREY = Photographs(dataset="mnist", model="cnn-grey", data_dir=FIXTURES)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What make_private returned in each trial."""
    from opacus import PrivacyEngine

    plain, found = PrivacyEngine.make_private, list[Any]()

    def noted(self: Any, **settings: Any) -> Any:
        found.append(plain(self, **settings))
        return found[-1]

    monkeypatch.setattr(PrivacyEngine, "make_private", noted)
    return found


@pytest.mark.parametrize("fixed", [False, True])
def test_opacus_itself_divides_and_samples_as_the_target_says(fixed: bool, made: list[Any]) -> None:
    """Read off the optimizer and the loader that make_private made."""
    target = training(fixed=fixed)
    for neighbour in Neighbour:
        released(target, neighbour)
    (_, small, loader), (_, large, other) = made
    assert (small.expected_batch_size, large.expected_batch_size) == target.divisors == (3, 3 if fixed else 2)
    assert loader.sample_rate == 1 / 13
    assert other.sample_rate == (1 / 13 if fixed else 1 / 14)
    assert (len(loader.dataset), len(other.dataset)) == (39, 40)
    assert len(loader) == 13
    for index in range(39):
        assert torch.equal(loader.dataset[index][0], other.dataset[index][0])
    assert {one.noise_multiplier for one in (small, large)} == {1.0}
    assert {one.max_grad_norm for one in (small, large)} == {BOUND}


def test_the_record_more_is_the_first_of_the_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(Path(FIXTURES) / "mnist.npz") as file:
        pixels, labels = file["pixels"], file["labels"]
    few = replace(data.named("mnist"), train=30, test=10)
    sets = {True: data.Images(few, pixels[:30], labels[:30]), False: data.Images(few, pixels[30:], labels[30:])}
    monkeypatch.setattr(data, "load", lambda name, *, train=True, data_dir=None: sets[train])
    monkeypatch.setattr(data, "named", lambda name: few)
    target = real_training(batch_size=3)
    assert target.dataset_size == 30
    found, its_labels = GREY.arrays(31)
    assert np.array_equal(found, pixels[:31])
    assert np.array_equal(its_labels, labels[:31])
    smaller, larger = (target._runs.dataset(neighbour) for neighbour in Neighbour)
    assert all(torch.equal(one, other[:30]) and len(other) == 31 for one, other in zip(smaller, larger, strict=True))
    with pytest.raises(InvalidInput, match="dataset_size=40: must be at most 39: D' has one record more"):
        real_training(batch_size=3, dataset_size=40)


# --- what is released -------------------------------------------------------------------------------------------------


def test_a_seed_is_a_trial() -> None:
    """The same bits from another object of the same configuration; other bits for another seed and for the next trial."""
    first = released(training(), D, trials=2)
    again = OpacusTraining.from_configuration(training().configuration())
    assert registry.rebuilt(training().configuration()) == again
    assert first.shape == (2, 1, 26_010)
    assert np.array_equal(first, released(again, D, trials=2))
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, released(again, D, seed=2, trials=2))
    assert not np.array_equal(first, released(again, LARGER, trials=2))


def test_a_trial_leaves_the_randomness_of_others_alone() -> None:
    target = training()
    released(target, D)
    torch.manual_seed(5)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    released(target, D)
    list(target.centres(released(target, D)[0]))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    """Twenty steps of epochs of thirteen: the sampler is asked anew, and no batch is kept over."""
    long = released(training(steps=20), D)[0]
    assert long.shape == (20, 26_010)
    assert np.array_equal(long[:2], released(training(steps=2), D)[0])
    assert np.isfinite(long).all()
    assert len({row.tobytes() for row in long}) == 20


def test_a_release_is_the_mean_of_clipped_gradients() -> None:
    """All records, and next to no noise: the sum over D by the number of records, to the bit of a weight."""
    target = training(batch_size=39, noise_multiplier=1e-6)
    assert target.divisors == (39, 20)
    wanted = clipped_gradients(39).sum(axis=0) / 39
    found = released(target, D)[0, 0]
    # weights are read off in single precision
    assert np.abs(found - wanted).max() <= 1e-7
    assert np.abs(wanted).max() > 1e-3


def test_the_noise_is_sigma_c_over_the_denominator() -> None:
    """On both datasets, by what is left of a release: 3 and 2, and 3 and 3 where they are fixed."""
    for fixed, wanted in ((False, (3, 2)), (True, (3, 3))):
        target = training(noise_multiplier=20.0, fixed=fixed)
        for neighbour, divisor in zip(Neighbour, wanted, strict=True):
            scale = released(target, neighbour).std()
            assert scale == pytest.approx(20.0 * BOUND / divisor, rel=0.03)


def test_empty_batches_are_steps_of_noise() -> None:
    """Four images one by one: a third of the batches are empty, the first of an epoch too; none fails, none has a gradient."""
    target = training(dataset_size=4, batch_size=1, noise_multiplier=1e-6, steps=9)
    runs = np.concatenate([released(target, D, seed=seed) for seed in range(4)])
    assert np.isfinite(runs).all()
    empty = np.linalg.norm(runs, axis=2) < 1e-3
    # (3/4)^4 of 36 is 11
    assert 4 <= empty.sum() <= 20


# --- what the adversary holds ---------------------------------------------------------------------------------------------


def test_the_centre_is_the_expectation_on_d() -> None:
    """q sum g / c at the first weights, and at those that the first step left."""
    target = training(steps=2)
    assert isinstance(target, Onlooked)
    outputs = released(target, D)[0]
    first, second = target.centres(outputs)
    assert close(first.mean, clipped_gradients(39).sum(axis=0) / 13 / 3)
    assert close(second.mean, clipped_gradients(39, moved=-outputs[0]).sum(axis=0) / 13 / 3)
    assert not close(second.mean, first.mean)


def test_the_directions_are_those_of_the_gradients() -> None:
    target = training()
    (centre,) = target.centres(released(target, D)[0])
    rows, gradients = centre.directions, clipped_gradients(39)
    assert rows @ rows.T == pytest.approx(np.eye(len(rows)), abs=2e-3)
    left = gradients - gradients @ rows.T @ rows
    assert np.linalg.norm(left) <= 1e-3 * np.linalg.norm(gradients)


def test_a_centre_knows_nothing_of_its_own_release_nor_of_the_record_more(tmp_path: Path) -> None:
    target = training(steps=2)
    outputs = released(target, LARGER)[0]
    wanted = list(target.centres(outputs))
    later = np.array(outputs)
    later[1] *= -3.0
    with np.load(Path(FIXTURES) / "mnist.npz") as file:
        pixels, labels = file["pixels"].copy(), file["labels"].copy()
    pixels[39], labels[39] = 255 - pixels[39], (labels[39] + 1) % 10
    np.savez(tmp_path / "mnist.npz", pixels=pixels, labels=labels)
    for found in (list(target.centres(later)), list(training(steps=2, data_dir=str(tmp_path)).centres(outputs))):
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one.mean, other.mean)
            assert np.array_equal(one.directions, other.directions)


# --- what is refused ------------------------------------------------------------------------------------------------------


def test_rates_that_opacus_misreads() -> None:
    """int(1/(1/93)) is 92: the sampler draws at 1/93 and the accountant is told 1/92. A constant is one that it does read."""
    assert int(1 / (1 / 93)) == 92
    loose = OpacusTraining(records=GREY, dataset_size=279, batch_size=3, noise_multiplier=1.0)
    assert (loose.rate, float(loose.drawn_at)) == (Fraction(1, 92), 1 / 93)
    for size in (279, 211):
        # 211 is read as 210, and 210 as 209
        fixed = OpacusTraining(records=GREY, dataset_size=size, batch_size=1, noise_multiplier=1.0, fixed=True)
        steps = fixed.rate.denominator
        assert int(1 / (1 / steps)) == steps
        assert fixed.drawn_at == fixed.rate


@pytest.mark.parametrize("fixed", [False, True])
def test_a_rate_that_opacus_misreads_is_run(fixed: bool, tmp_path: Path, made: list[Any]) -> None:
    with np.load(Path(FIXTURES) / "mnist.npz") as file:
        pixels, labels = (np.concatenate([file[name]] * 3) for name in ("pixels", "labels"))
    np.savez(tmp_path / "mnist.npz", pixels=pixels, labels=labels)
    target = training(dataset_size=93, batch_size=1, fixed=fixed, data_dir=str(tmp_path))
    assert np.isfinite([released(target, neighbour) for neighbour in Neighbour]).all()
    (_, small, loader), _ = made
    assert loader.sample_rate == float(target.drawn_at) == (1 / 92 if fixed else 1 / 93)
    assert len(loader) == 92
    assert small.expected_batch_size == target.divisors[0]


def test_a_pair_that_opacus_divides_by_zero() -> None:
    """49 times 1/49 is less than 1 in floating point."""
    for size in (48, 49):
        with pytest.raises(InvalidInput, match="batch_size=1: must be one at which Opacus does not divide by 0"):
            OpacusTraining(records=GREY, dataset_size=size, batch_size=1, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: must be a whole number from 1 to 39"),
        ({"batch_size": 40}, "batch_size=40: must be a whole number from 1 to 39"),
        ({"dataset_size": 1}, "dataset_size=1"),
        ({"dataset_size": 40}, "dataset_size=40: must be at most 39: D' has one record more, and MNIST has 40 here"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 1001}, "steps=1001: must be at most 1000"),
        ({"noise_multiplier": 0.0}, "noise_multiplier=0.0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"max_grad_norm": -1.0}, "max_grad_norm=-1.0"),
        ({"images": "cifar10"}, "images='cifar10': must be one of mnist, fashion-mnist"),
        ({"release": "0.15.0"}, "opacus='0.15.0': must be the installed release"),
    ],
)
def test_settings_that_cannot_be_run(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as fault:
        training(**changes)
    assert message in str(fault.value)


def test_images_without_labels_are_refused() -> None:
    diffusion = Photographs(dataset="mnist", model="unet-grey", data_dir=FIXTURES)
    with pytest.raises(InvalidInput, match="those of a classifier"):
        OpacusTraining(records=diffusion, dataset_size=39, batch_size=3, noise_multiplier=1.0)
