"""An ordinary training script with Opacus, for whichever 1.x release is on the path; run as a program it prints what came out as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.integrations.opacus import Accountant, fix, inspect, poisson_loader
from noisymean.integrations.opacus.said import to_ask

FEATURES = 20
PARAMETERS = 2 * FEATURES + 2


def private(
    records: int,
    *,
    batch_size: int | None = None,
    sample_rate: str | None = None,
    accountant: Any = None,
    noise_multiplier: float = 1.0,
    max_grad_norm: Any = 1.0,
    loader: Any = None,
    **options: Any,
) -> tuple[PrivacyEngine, Any, Any, Any]:
    """(engine, model, optimizer, loader) after make_private."""
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(records, FEATURES), torch.randint(0, 2, (records,)))
    model = nn.Linear(FEATURES, 2)
    if loader is None and sample_rate is None:
        loader = DataLoader(dataset, batch_size=batch_size)
    elif loader is None:
        loader = poisson_loader(dataset, sample_rate=sample_rate)
    with warnings.catch_warnings():
        # secure mode is off
        warnings.simplefilter("ignore")
        engine = PrivacyEngine(accountant=accountant) if isinstance(accountant, str) else PrivacyEngine()
        if accountant is not None and not isinstance(accountant, str):
            engine.accountant = accountant
        made = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            **options,
        )
    return engine, made[0], made[1], made[-1]


def train(model: Any, optimizer: Any, loader: Any, steps: int) -> None:
    """So many steps, of as many epochs as it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while steps > 0:
            for features, labels in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(features), labels).backward()
                optimizer.step()
                steps -= 1
                if steps == 0:
                    return


def main(records: int, batch_size: int, steps: int, delta: float) -> dict[str, Any]:
    """Half of the steps, a checkpoint, the other half on what was reloaded."""
    first = Accountant(dataset_size=records)
    _, model, optimizer, loader = private(records, batch_size=batch_size, accountant=first)
    train(model, optimizer, loader, steps // 2)
    halfway = first.get_epsilon(delta)
    second = Accountant()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    reloaded = second.get_epsilon(delta)
    _, model, optimizer, loader = private(records, batch_size=batch_size, accountant=second)
    # the second half must not have the random numbers of the first
    torch.manual_seed(1)
    train(model, optimizer, loader, steps - steps // 2)
    import opacus

    # what the release's own accountant says of all of these steps, and what is said that it says
    own = private(103, batch_size=10)[0].accountant
    for sigma, rate, count in second.history:
        for _ in range(count):
            own.step(noise_multiplier=sigma, sample_rate=rate)
    said = to_ask(second, delta, ours=True, same_claim=True)
    # where nothing moves: with the release's own accountant, and fixed
    engine, model, optimizer, loader = private(103, batch_size=10)
    train(model, optimizer, loader, 3)
    plain = inspect(optimizer, data_loader=loader)
    _, model, optimizer, loader = private(103, sample_rate="1/10")
    fix(optimizer, denominator=7, data_loader=loader)
    train(model, optimizer, loader, 3)
    fixed = inspect(optimizer, data_loader=loader)
    return {
        "plain": [plain.name, plain.taken, plain.verdict],
        "fixed": [fixed.name, fixed.taken, fixed.verdict],
        "opacus": opacus.__version__,
        "would say": [None if said is None else said.answer(1.0).epsilon, own.get_epsilon(delta=delta)],
        "says": [plain.opacus_said and plain.opacus_said.epsilon, engine.get_epsilon(1e-5)],
        "halfway": halfway,
        "reloaded": reloaded,
        "epsilon": second.get_epsilon(delta),
        "claimed": second.spent(delta).claimed,
        "leakage": second.spent(delta).leakage,
        "history": second.history,
        "steps": len(second),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    records, batch_size, steps = map(int, sys.argv[1:4])
    print(json.dumps(main(records, batch_size, steps, float(sys.argv[4]))))
