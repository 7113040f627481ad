"""Opacus trains, its checkpoints are saved as docs/probe-run.md has it, and they tell what its optimizer divided by."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from opacus import PrivacyEngine
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import noisymean as nm


def trained(folder: Path, records: int, steps: int, loss_reduction: str = "mean", **options: Any) -> int:
    """So many steps on noise, a checkpoint after each; what Opacus says that it divided by."""
    torch.manual_seed(records)
    network = nn.Linear(400, 10)
    with warnings.catch_warnings():
        # secure mode is off; hooks on inputs that need no gradient
        warnings.simplefilter("ignore")
        model, optimizer, loader = PrivacyEngine().make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.2, **options),
            data_loader=DataLoader(
                TensorDataset(torch.rand(records, 400), torch.randint(0, 10, (records,))), batch_size=100
            ),
            noise_multiplier=3.0,
            max_grad_norm=0.5,
            loss_reduction=loss_reduction,
        )
        save_file(model.state_dict(), folder / "step-0.safetensors")
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        for step, (x, y) in enumerate(itertools.islice(batches, steps), start=1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y, reduction=loss_reduction).backward()
            optimizer.step()
            save_file(model.state_dict(), folder / f"step-{step}.safetensors")
    return int(optimizer.expected_batch_size)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9, "weight_decay": 1e-3},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.5, "dampening": 0.5},
    ],
)
def test_the_denominator_of_opacus_is_in_the_interval_and_one_record_more_is_not(
    options: dict[str, Any], tmp_path: Path
) -> None:
    told: dict[str, Any] = {
        "learning_rate": 0.2,
        "noise_multiplier": 3.0,
        "max_grad_norm": 0.5,
        "batch_size": 100,
        **options,
    }
    # 2,501 records make 26 batches, and a denominator of 96
    for records, true in ((2500, 100), (2501, 96)):
        folder = tmp_path / str(records)
        folder.mkdir()
        assert trained(folder, records, 60, **options) == true
        found = nm.probe_run(folder, dataset_size=records, **told)
        low, high = found.interval or (0, 0)
        assert low <= true <= high
        assert high - low < 3
        assert found.sure is not None
        assert found.sure.asked.fits
        assert [one.fits for one in (found.sure.smaller, found.sure.larger)] == [
            records == 2501 and False,
            records == 2501,
        ]


def test_a_sum_is_no_mean(tmp_path: Path) -> None:
    """With loss_reduction="sum" nothing is divided: a batch of 100 moves the weights, and its gradients, a hundred times as far."""
    trained(tmp_path, 2500, 40, loss_reduction="sum")
    found = nm.probe_run(
        tmp_path, learning_rate=0.2, noise_multiplier=3, max_grad_norm=0.5, mechanism="sgm", batch_size=100
    )
    low, high = found.interval or (0, 0)
    assert low <= 1 <= high
