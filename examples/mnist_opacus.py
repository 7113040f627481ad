"""MNIST with Opacus, as its users write it: what the script claims, what it releases, and the same script fixed.

    python examples/mnist_opacus.py                     the full set (fetch it with `noisymean data fetch mnist`)
    python examples/mnist_opacus.py --data-dir FOLDER   torchvision's layout, or a folder with mnist.npz

The line that matters is `print(inspect(...))`; the fix is a loader with a rate of its own and one call after make_private.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.integrations.opacus import fix, inspect, poisson_loader
from noisymean.paper import data


def mnist(folder: Path | None) -> TensorDataset:
    """Images from 0 to 1, and labels."""
    images = data.load("mnist", data_dir=folder)
    pixels = torch.from_numpy(images.pixels.copy()).permute(0, 3, 1, 2).float() / 255
    return TensorDataset(pixels, torch.from_numpy(images.labels.copy()).long())


def classifier() -> nn.Module:
    """The model of Opacus' own MNIST example: 26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def train(loader: DataLoader, epochs: int, constant: int | None) -> None:
    """An ordinary training script; `constant` is the fix, with a loader whose rate is one as well."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    if constant is not None:
        fix(optimizer, denominator=constant, data_loader=loader)
    for _ in range(epochs):
        for pixels, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels), labels).backward()
            optimizer.step()
    print(f"Opacus says epsilon = {engine.get_epsilon(delta=1e-5):.4g}")
    print(inspect(optimizer, data_loader=loader))


def main() -> None:
    """Before and after."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data-dir", type=Path, help="default: what `noisymean data fetch mnist` has left")
    options.add_argument("--batch-size", type=int, default=600)
    options.add_argument("--epochs", type=int, default=1)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    # "Secure RNG turned off", and torch's remark on the hooks of a module whose input needs no gradient
    warnings.simplefilter("ignore")
    torch.manual_seed(chosen.seed)
    train_set = mnist(chosen.data_dir)

    print("--- as it is usually written")
    train(DataLoader(train_set, batch_size=chosen.batch_size), chosen.epochs, None)

    print("\n--- with a rate and a denominator that do not depend on the data")
    # in earnest both are chosen before the data are seen
    rate = f"1/{-(-len(train_set) // chosen.batch_size)}"
    train(poisson_loader(train_set, sample_rate=rate), chosen.epochs, chosen.batch_size)


if __name__ == "__main__":
    main()
