"""The rebuilt models: sizes to the parameter, initial scales, losses by hand, and gradients against plain autograd."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'noisymean[audit]'")

from torch import nn  # noqa: E402

from noisymean.errors import InvalidInput  # noqa: E402
from noisymean.paper import data  # noqa: E402
from noisymean.paper.models import (  # noqa: E402
    MODELS,
    Classification,
    Diffusion,
    clipped,
    gradients_of,
    model_named,
    parameter_count,
)
from noisymean.paper.models.unet import NO_LABEL, Attention, Residual, sinusoids  # noqa: E402

FIXTURES = Path(__file__).parents[1] / "fixtures"
COUNTS = {
    "cnn-grey": 26_010,
    "cnn-colour": 550_570,
    "cnn-colour-small": 167_642,
    "unet-grey": 1_485_217,
    "unet-colour": 1_486_947,
    "unet-privimage": 1_754_499,
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def images(name: str, count: int) -> data.Images:
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as file:
        return data.Images(data.named(name), file["pixels"], file["labels"]).first(count)


def images_for(model: str, count: int) -> data.Images:
    return images("mnist" if model_named(model).shape[2] == 1 else "cifar10", count)


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_parameter_counts(name: str, count: int) -> None:
    assert parameter_count(model_named(name).build(0)) == model_named(name).parameters == count


def test_every_model_is_listed() -> None:
    assert set(MODELS) == set(COUNTS)
    with pytest.raises(InvalidInput, match="unet-grey"):
        model_named("resnet")


@pytest.mark.parametrize("name", list(COUNTS))
def test_shapes(name: str) -> None:
    model = model_named(name)
    records = model.task().records(images_for(name, 2), seed=0)
    (one,) = model.task().passes(records)
    with torch.no_grad():
        answer = model.build(0)(*one.inputs)
        losses = one.losses(answer)
    height, width, channels = model.shape
    assert answer.shape == ((2, channels, height, width) if model.diffusion else (2, 10))
    assert losses.shape == (2,)
    assert bool(torch.isfinite(losses).all())


def test_a_seed_builds_the_same_network_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = (model_named("cnn-grey").build(seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    vectors = [torch.cat([p.flatten() for p in model.parameters()]) for model in (first, second, other)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])


def test_initial_scale_of_the_unet() -> None:
    """Uniform within +-sqrt(3 s / fan_avg): s = 1, 1e-10 at the end of branches, 0.1 in attention; biases zero."""
    network = model_named("unet-grey").build(0)
    seen = 0
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            weight, bias = module.weight.detach(), module.bias.detach()
            area = weight[0, 0].numel()
            scale = 1e-10 if name.endswith((".second", ".out", "leave")) else 0.1 if "query" in name else 1.0
            scale = 0.1 if name.endswith((".key", ".value")) else scale
            bound = math.sqrt(3 * scale / (area * (weight.shape[0] + weight.shape[1]) / 2))
            assert float(weight.abs().max()) <= bound * (1 + 1e-6)
            assert float(weight.abs().max()) > 0.9 * bound
            assert not bias.any()
            seen += 1
        elif isinstance(module, nn.GroupNorm):
            assert module.num_groups == min(module.num_channels // 4, 32)
            assert module.eps == 1e-6
    assert seen > 50


def test_blocks_start_as_their_skips() -> None:
    torch.manual_seed(0)
    x, embedding = torch.randn(2, 64, 8, 8), torch.randn(2, 128)
    with torch.no_grad():
        np.testing.assert_allclose(Residual(64, 64)(x, embedding), x / math.sqrt(2), atol=1e-3)
        np.testing.assert_allclose(Attention(64)(x), x / math.sqrt(2), atol=1e-3)


def test_sinusoids() -> None:
    row = sinusoids(torch.tensor([2.0]))[0]
    assert row.shape == (32,)
    assert float(row[0]) == pytest.approx(math.sin(2.0))
    assert float(row[15]) == pytest.approx(math.sin(2.0 / 10_000))
    assert float(row[16]) == pytest.approx(math.cos(2.0))


def test_preprocessing() -> None:
    grey, labels = Classification().records(images("mnist", 3), seed=0)
    assert grey.shape == (3, 1, 28, 28)
    assert float(grey.min()) == 0.0
    assert float(grey.max()) <= 1.0
    assert labels.tolist() == [5, 0, 4]
    colour, _ = Classification().records(images("cifar10", 1), seed=0)
    pixel = images("cifar10", 1).pixels[0, 4, 7] / 255.0
    expected = (pixel - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(colour[0, :, 4, 7], expected, rtol=1e-5)
    pixels, *_ = Diffusion().records(images("mnist", 3), seed=0)
    assert float(pixels.min()) == -1.0


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("task", [Classification(), Diffusion()])
def test_pictures_lie_channels_first_in_memory(name: str, task: Classification | Diffusion) -> None:
    """With one channel `is_contiguous` is true of both layouts; the strides tell, and Opacus 1.x depends on them."""
    pixels = task.records(images(name, 3), seed=0)[0]
    channels, side = pixels.shape[1], pixels.shape[2]
    assert pixels.stride() == (channels * side * side, side * side, side, 1)


def test_draws_belong_to_the_records() -> None:
    pixels, labels, sigma, noise = Diffusion(draws=2000).records(images("mnist", 2), seed=3)
    again = Diffusion(draws=2000).records(images("mnist", 2), seed=3)
    assert all(torch.equal(a, b) for a, b in zip((pixels, labels, sigma, noise), again, strict=True))
    logs = torch.log(sigma)
    # 4000 draws: five standard errors
    assert abs(float(logs.mean()) + 1.2) < 5 * 1.2 / math.sqrt(4000)
    assert abs(float(logs.std()) - 1.2) < 5 * 1.2 / math.sqrt(8000)
    dropped = np.mean(
        [(Diffusion().records(images("mnist", 40), seed=s)[1] == NO_LABEL).double().mean() for s in range(100)]
    )
    assert abs(dropped - 0.1) < 5 * math.sqrt(0.09 / 4000)


def test_diffusion_loss_by_hand() -> None:
    """A network that answers zero denoises to c_skip times the noisy image."""
    records = Diffusion().records(images("mnist", 2), seed=1)
    (one,) = Diffusion().passes(records)
    pixels, _, sigma, noise = (part.double().numpy() for part in records)
    total = sigma[:, 0] ** 2 + 1 / 3
    noisy = pixels + sigma[:, 0, None, None, None] * noise[:, 0]
    error = (1 / 3 / total)[:, None, None, None] * noisy - pixels
    expected = (error**2).mean((1, 2, 3)) * total / (sigma[:, 0] ** 2 / 3)
    np.testing.assert_allclose(one.losses(torch.zeros_like(records[0])), expected, rtol=1e-5)
    np.testing.assert_allclose(one.inputs[0], noisy / np.sqrt(total)[:, None, None, None], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.inputs[1], np.log(sigma[:, 0]) / 4, rtol=1e-5)


@pytest.mark.parametrize(("name", "draws"), [("cnn-grey", 1), ("cnn-colour-small", 1), ("unet-grey", 2)])
def test_gradients_are_those_of_autograd_one_record_at_a_time(name: str, draws: int) -> None:
    model = model_named(name)
    network, task = model.build(0), model.task(draws)
    records = task.records(images_for(name, 3), seed=0)
    found = gradients_of(network, task, records, chunk=2)
    assert found.shape == (3, model.parameters)
    for row in (0, 2):
        alone = tuple(part[row : row + 1] for part in records)
        network.zero_grad()
        for one in task.passes(alone):
            (one.losses(network(*one.inputs)).sum() / draws).backward()
        expected = torch.cat([p.grad.flatten() for p in network.parameters()])
        np.testing.assert_allclose(found[row], expected, rtol=2e-3, atol=2e-5 * float(expected.abs().max()))


def test_clipping() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.03, 0.04], [0.0, 0.0]])
    np.testing.assert_allclose(clipped(rows, 1.0), rows * torch.tensor([[1 / (5 + 1e-6)], [1.0], [1.0]]), rtol=1e-6)


@pytest.mark.parametrize("name", ["cnn-grey", "cnn-colour-small"])
def test_at_the_paper_s_bound_every_gradient_is_clipped(name: str) -> None:
    model = model_named(name)
    rows = gradients_of(model.build(0), model.task(), model.task().records(images_for(name, 8), seed=0))
    assert float(torch.linalg.vector_norm(rows, dim=1).min()) > 0.1
