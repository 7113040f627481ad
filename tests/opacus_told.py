"""The rate that make_private tells its accountant, read off the accountant; nothing of noisymean is in it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset


def told(asked: Sequence[tuple[int, int, bool]]) -> list[float]:
    """For each (records, batch size, poisson_sampling): what the accountant has of one step."""
    found = []
    for size, batch, poisson in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine, model = PrivacyEngine(accountant="rdp"), torch.nn.Linear(1, 1)
            model, optimizer, _ = engine.make_private(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
                data_loader=DataLoader(TensorDataset(torch.zeros(size, 1)), batch_size=batch),
                noise_multiplier=1.0,
                max_grad_norm=1.0,
                poisson_sampling=poisson,
            )
            model(torch.ones(3, 1)).sum().backward()
            optimizer.step()
        accountant = engine.accountant
        history = getattr(accountant, "history", None) or accountant.steps
        found.append(float(history[0][1]))
    return found


if __name__ == "__main__":
    print(json.dumps(told(json.loads(sys.argv[1]))))
