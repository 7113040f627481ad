"""The callback for a Trainer, against one that calls it as transformers 5.23.0 does; test_examples.py runs the real one."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from noisymean.errors import InvalidInput, MissingDependency

pytest.importorskip("opacus")

import torch
from torch.utils.data import DataLoader

from noisymean.integrations.callbacks import PrivacyLogger
from noisymean.integrations.opacus import Accountant, fix, inspect
from opacus_training import private, train

MODULE = "noisymean.integrations.callbacks.hugging_face"
EVENTS = ("on_train_begin", "on_step_begin", "on_step_end", "on_log", "on_train_end")


@pytest.fixture
def privacy_callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """PrivacyCallback on a TrainerCallback whose hooks do nothing, as those of transformers."""
    package = ModuleType("transformers")
    hooks = {name: lambda self, args, state, control, **kwargs: None for name in EVENTS}
    package.TrainerCallback = type("TrainerCallback", (), hooks)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", package)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE).PrivacyCallback
    sys.modules.pop(MODULE, None)


class Trainer:
    """Calls back as a Trainer does: the optimizer wrapped by accelerate, its own report when that is due, a step of its own."""

    def __init__(self, model: Any, optimizer: Any, loader: Any, *, logging_steps: int = 2, first: bool = True) -> None:
        self.model, self.optimizer, self.loader, self.logging_steps = model, optimizer, loader, logging_steps
        self.state = SimpleNamespace(global_step=0, log_history=[], is_world_process_zero=first)
        self.control = SimpleNamespace(should_log=False)
        self.callback_handler = self
        self.callbacks: list[Any] = []

    def add_callback(self, callback: Any) -> Any:
        self.callbacks.append(callback)
        return callback

    def call(self, event: str) -> None:
        about = {
            "optimizer": SimpleNamespace(optimizer=self.optimizer),
            "train_dataloader": self.loader,
            "model": self.model,
        }
        for one in self.callbacks:
            getattr(one, event)(None, self.state, self.control, **about)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        assert all(type(value) is float for value in logs.values())
        self.state.log_history.append({**logs, "step": self.state.global_step})
        # as its callback handler has it
        self.control.should_log = False
        self.call("on_log")

    def train(self, steps: int) -> None:
        self.call("on_train_begin")
        for _ in range(steps):
            train(self.model, self.optimizer, self.loader, 1)
            self.state.global_step += 1
            self.control.should_log = self.state.global_step % self.logging_steps == 0
            self.call("on_step_end")
            if self.control.should_log:
                self.log({"loss": 0.7})
        self.call("on_train_end")


def test_a_trainer_logs_what_inspect_finds_beside_its_loss(privacy_callback: Any) -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    trainer = Trainer(model, optimizer, loader)
    callback = trainer.add_callback(privacy_callback(trainer))
    trainer.train(4)
    log, found = callback.logger, inspect(optimizer)
    assert isinstance(log, PrivacyLogger)
    assert (log.last, log.failures) == (found, 0)
    history = trainer.state.log_history
    ours = [one for one in history if "privacy/steps" in one]
    assert [one["step"] for one in ours] == [one["privacy/steps"] for one in ours] == [1, 2, 4]
    assert ours[-1]["privacy/guarantee_epsilon"] == found.spent.guarantee
    assert ours[-1]["privacy/leakage_epsilon"] == found.spent.leakage
    assert (ours[-1]["privacy/holds"], ours[-1]["privacy/watched"]) == (1.0, 1.0)
    # what it would have reported by itself it still does
    assert [one["step"] for one in history if "loss" in one] == [2, 4]


def test_any_writer_will_do_under_the_step_of_the_trainer(privacy_callback: Any) -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    rows: dict[int, dict[str, Any]] = {}
    trainer = Trainer(model, optimizer, loader)
    trainer.state.global_step = 100
    callback = trainer.add_callback(
        privacy_callback(lambda values, step: rows.update({step: values}), delta=1e-6, every=3, prefix="dp")
    )
    trainer.train(4)
    assert {step: (row["dp/steps"], row["dp/delta"]) for step, row in rows.items()} == {103: (3, 1e-6), 104: (4, 1e-6)}
    # a second run of the same Trainer is looked at anew
    before = callback.logger
    trainer.train(1)
    assert callback.logger is not before


def test_a_trainer_that_draws_otherwise_is_refused(privacy_callback: Any) -> None:
    """The usual mistake: make_private's loader is told, and the Trainer draws from one that it has made of the dataset."""
    _, model, optimizer, loader = private(100, sample_rate="1/10")
    fix(optimizer, denominator=10, data_loader=loader)
    own = DataLoader(loader.dataset, batch_size=10, shuffle=True)
    trainer = Trainer(model, optimizer, own)
    trainer.add_callback(privacy_callback(trainer, data_loader=loader))
    with pytest.raises(InvalidInput, match="the one that the Trainer draws from, and it has made another one") as fault:
        trainer.train(1)
    assert "get_train_dataloader" in str(fault.value)
    # and so it is if nothing was told
    trainer = Trainer(model, optimizer, own)
    trainer.add_callback(privacy_callback(trainer))
    with pytest.raises(InvalidInput, match="the one that make_private returned"):
        trainer.train(1)
    # accelerate puts another loader around the same draws
    around = SimpleNamespace(batch_sampler=loader.batch_sampler)
    callback = privacy_callback(trainer, data_loader=loader)
    state, control = trainer.state, trainer.control
    callback.on_train_begin(None, state, control, optimizer=optimizer, train_dataloader=around)
    assert callback.logger is not None


def test_one_process_writes_and_another_optimizer_is_refused(privacy_callback: Any) -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    trainer = Trainer(model, optimizer, loader, first=False)
    callback = trainer.add_callback(privacy_callback(trainer))
    trainer.train(2)
    assert callback.logger is None
    assert trainer.state.log_history[-1]["loss"] == 0.7
    assert not any("privacy/steps" in one for one in trainer.state.log_history)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    trainer.add_callback(privacy_callback(trainer))
    with pytest.raises(InvalidInput, match="optimizers='SGD': must be with the optimizer that make_private returned"):
        trainer.train(1)


def test_where_nothing_is_known_the_trainer_is_told_so(privacy_callback: Any) -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant(), noise_multiplier=0.0)
    trainer = Trainer(model, optimizer, loader)
    trainer.add_callback(privacy_callback(trainer))
    trainer.train(1)
    (logged,) = trainer.state.log_history
    assert math.isnan(logged["privacy/guarantee_epsilon"])
    assert (logged["privacy/holds"], logged["privacy/undetermined"]) == (0.0, 1.0)


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(MissingDependency, match=r"transformers is not installed; .*noisymean\[transformers\]"):
        importlib.import_module(MODULE)
