"""A training script that avoids every pitfall which reading can tell of, and ways to spoil it: for the tests of `check`."""

from __future__ import annotations

from pathlib import Path

from noisymean.check import check
from noisymean.scorecard import Outcome, Scorecard

GOOD = """\
import secrets

import torch
from opacus import PrivacyEngine
from torch.utils.data import TensorDataset

from noisymean.integrations.opacus import fix, poisson_loader

DENOMINATOR = 600
DELTA = 1e-5


def train(model, optimizer, loader, criterion):
    for features, labels in loader:
        features, labels = features.to("cpu"), labels.to("cpu")
        optimizer.zero_grad()
        loss = criterion(model(features), labels)
        loss.backward()
        optimizer.step()


def main(train_set, args):
    model = torch.nn.Linear(20, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = poisson_loader(train_set, sample_rate="1/100")
    engine = PrivacyEngine(secure_mode=True)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    )
    fix(optimizer, denominator=DENOMINATOR, data_loader=loader)
    for epoch in range(10):
        train(model, optimizer, loader, torch.nn.functional.cross_entropy)
    print(engine.get_epsilon(delta=DELTA))
"""
# What is passed in it. P14 is found, and of P15 to P17 reading alone never passes one.
PASSED = frozenset(f"P{number:02d}" for number in (*range(1, 14), 18))
STEPS = frozenset(f"P{number:02d}" for number in (*range(1, 9), 10, 11))


def spoiled(*changes: tuple[str, str], script: str = GOOD) -> str:
    """The script with each text replaced by another; every one of them is there."""
    for old, new in changes:
        assert old in script, old
        script = script.replace(old, new)
    return script


def card_of(folder: Path, script: str, **others: str) -> Scorecard:
    """The scorecard of train.py, and of other files beside it."""
    (folder / "train.py").write_text(script, encoding="utf-8")
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return check(folder if others else folder / "train.py")


def passed(card: Scorecard) -> set[str]:
    return {one.pitfall.id for one in card.rows if one.outcome is Outcome.PASSED}


def found(card: Scorecard) -> set[str]:
    return {one.pitfall.id for one in card.rows if one.outcome is Outcome.FOUND}
