"""What a training loop with Opacus logs of its privacy: the numbers of `inspect` at that step, to whoever writes numbers down."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from test_json import valid, validator

from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch

from noisymean.integrations.callbacks import Doubling, Every, PrivacyLogger, PrivacyNotLogged
from noisymean.integrations.opacus import Accountant, fix, inspect
from opacus_training import private, train

EPSILONS = ("claimed_epsilon", "leakage_epsilon", "guarantee_epsilon", "opacus_epsilon")
VERDICTS = ("violated", "holds", "undetermined")
NAMES = {*EPSILONS, *VERDICTS, "watched", "delta", "steps"}


@dataclass
class Board:
    """The methods of SummaryWriter that are used, with its signatures."""

    scalars: list[tuple[str, float, int]] = field(default_factory=list)
    texts: list[tuple[str, str, int]] = field(default_factory=list)

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        assert type(scalar_value) is float
        assert type(global_step) is int
        self.scalars.append((tag, scalar_value, global_step))

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        assert type(global_step) is int
        self.texts.append((tag, text_string, global_step))

    def at(self, step: int) -> dict[str, float]:
        return {tag: value for tag, value, under in self.scalars if under == step}


class Run:
    """A run of Weights & Biases, as 0.31.0 behaves offline: a row for each call without a step; with one behind, nothing."""

    def __init__(self) -> None:
        self.step = 0
        self.rows: dict[int, dict[str, Any]] = {}
        self.summary: dict[str, Any] = {}
        self.axes: list[tuple[str, str | None]] = []

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes.append((name, step_metric))

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        if step is not None and step < self.step:
            return
        self.step = self.step if step is None else step
        self.rows.setdefault(self.step, {}).update(data)
        # None says nothing, and the number before it stays
        self.summary.update({name: value for name, value in data.items() if value is not None})
        self.step += step is None


class Kept:
    """A function of (values, step)."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}

    def __call__(self, values: dict[str, Any], step: int) -> None:
        self.rows[step] = values


def trained(log: PrivacyLogger, model: Any, optimizer: Any, loader: Any, steps: int) -> None:
    for _ in range(steps):
        train(model, optimizer, loader, 1)
        log.step()


# --- what is written ---------------------------------------------------------------------------------------------------


def test_what_is_written_is_what_inspect_finds_at_that_step() -> None:
    """To all three writers, at 1 and 2 steps and after the last one."""
    engine, model, optimizer, loader = private(100, batch_size=10)
    told: dict[str, Any] = {"data_loader": loader, "batch_size": 10, "drop_last": False}
    board, run, kept = Board(), Run(), Kept()
    logs = [PrivacyLogger(optimizer, board, **told), PrivacyLogger(engine, run, **told)]
    logs.append(PrivacyLogger(optimizer, kept, **told))
    found = {}
    for step in range(1, 5):
        train(model, optimizer, loader, 1)
        for log in logs:
            log.step()
        if step != 3:
            found[step] = inspect(optimizer, **told)
    for log in logs:
        log.close()
        log.close()
        assert log.failures == 0
        assert log.last == found[4]
        assert log.seconds > 0.0
    assert list(kept.rows) == [1, 2, 4]
    for step, row in kept.rows.items():
        one, here = found[step], {name.removeprefix("privacy/"): value for name, value in row.items()}
        assert set(here) == {*NAMES, "verdict"}
        assert here["claimed_epsilon"] == one.spent.claimed
        assert here["leakage_epsilon"] == one.spent.leakage
        assert here["guarantee_epsilon"] == one.spent.guarantee
        assert here["opacus_epsilon"] == one.opacus_said.epsilon
        assert (here["steps"], here["delta"], here["watched"]) == (step, 1e-5, 0.0)
        assert [name for name in VERDICTS if here[name] == 1.0] == [one.verdict]
        assert here["verdict"] == one.judged
        numbers = {name: value for name, value in row.items() if name != "privacy/verdict"}
        assert board.at(step) == numbers
    assert kept.rows[4]["privacy/verdict"] == "violated"
    # the engine's own answer, to whoever compares
    assert kept.rows[4]["privacy/opacus_epsilon"] == pytest.approx(engine.get_epsilon(1e-5), abs=1e-12)
    assert list(run.rows.values()) == list(kept.rows.values())
    assert run.axes == [("privacy/*", "privacy/steps")]
    assert [(name, step) for name, _, step in board.texts] == [
        *(("privacy/verdict", step) for step in (1, 2, 4)),
        ("privacy/inspection", 4),
    ]
    assert [line.removeprefix("    ") for line in board.texts[-1][1].splitlines()] == str(found[4]).splitlines()


def test_holds_is_said_with_its_condition_and_undetermined_never_as_holds() -> None:
    _, model, optimizer, loader = private(100, sample_rate="1/10")
    fix(optimizer, denominator=10, data_loader=loader)
    kept, unsure = Kept(), Kept()
    with (
        PrivacyLogger(optimizer, kept, data_loader=loader) as log,
        # nobody said how batches are drawn
        PrivacyLogger(optimizer, unsure, dataset_size=100, every=2) as other,
    ):
        for _ in range(3):
            train(model, optimizer, loader, 1)
            log.step()
            other.step()
    assert [row["privacy/holds"] for row in kept.rows.values()] == [1.0, 1.0, 1.0]
    assert kept.rows[3]["privacy/verdict"].startswith("holds, if every step is one new batch of this loader")
    assert kept.rows[3]["privacy/watched"] == 0.0
    assert list(unsure.rows) == [2, 3]
    for row in unsure.rows.values():
        assert [row[f"privacy/{name}"] for name in VERDICTS] == [0.0, 0.0, 1.0]
        assert row["privacy/verdict"] == "undetermined"
        assert row["privacy/guarantee_epsilon"] is None
        assert row["privacy/leakage_epsilon"] is None
        assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_our_accountant_has_looked_at_each_step_and_there_is_no_condition() -> None:
    _, model, optimizer, loader = private(100, sample_rate="1/10", accountant=Accountant())
    fix(optimizer, denominator=10, data_loader=loader)
    kept = Kept()
    with PrivacyLogger(optimizer, kept) as log:
        trained(log, model, optimizer, loader, 2)
    assert [row["privacy/verdict"] for row in kept.rows.values()] == ["holds", "holds"]
    assert [row["privacy/watched"] for row in kept.rows.values()] == [1.0, 1.0]


def test_a_number_that_is_not_known_any_more_takes_the_place_of_the_one_that_was() -> None:
    """A batch that is used twice is another run: what was guaranteed of the steps before must not go on standing there."""
    _, model, optimizer, loader = private(100, sample_rate="1/10", accountant=Accountant())
    fix(optimizer, denominator=10, data_loader=loader)
    board, run, kept = Board(), Run(), Kept()
    logs = [PrivacyLogger(optimizer, to, every=1) for to in (board, run, kept)]
    features, labels = next(iter(loader))
    for _ in range(2):
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        for log in logs:
            log.step()
    assert run.rows[0]["privacy/guarantee_epsilon"] > 0.0
    for shown in (board.at(2), run.summary):
        assert math.isnan(shown["privacy/guarantee_epsilon"])
        assert math.isnan(shown["privacy/leakage_epsilon"])
        assert (shown["privacy/holds"], shown["privacy/undetermined"], shown["privacy/steps"]) == (0.0, 1.0, 2.0)
    assert (kept.rows[1]["privacy/holds"], kept.rows[2]["privacy/guarantee_epsilon"]) == (1.0, None)


def test_a_run_without_noise_is_written_as_what_it_is() -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant(), noise_multiplier=0.0)
    kept = Kept()
    with PrivacyLogger(optimizer, kept, data_loader=loader) as log:
        trained(log, model, optimizer, loader, 1)
    assert {kept.rows[1][f"privacy/{name}"] for name in EPSILONS} == {None}
    assert kept.rows[1]["privacy/verdict"] == "undetermined"


# --- a training goes on ------------------------------------------------------------------------------------------------


def test_where_counting_ends_nothing_is_left_standing() -> None:
    """Somebody else's hook in place of the one that counts: one warning, and no number of before."""
    _, model, optimizer, loader = private(100, batch_size=10)
    run = Run()
    log = PrivacyLogger(optimizer, run, data_loader=loader)
    trained(log, model, optimizer, loader, 2)
    assert run.summary["privacy/violated"] + run.summary["privacy/undetermined"] == 1.0
    assert run.summary["privacy/claimed_epsilon"] > 0.0
    optimizer.attach_step_hook(lambda _: None)
    with pytest.warns(PrivacyNotLogged, match="step_hook='replaced'") as said:
        trained(log, model, optimizer, loader, 3)
    # said once: another warning is an error here
    log.close()
    assert len(said) == 1
    assert log.failures == 4
    assert all(math.isnan(run.summary[f"privacy/{name}"]) for name in (*EPSILONS, "steps"))
    assert (run.summary["privacy/holds"], run.summary["privacy/undetermined"]) == (0.0, 1.0)
    assert run.summary["privacy/verdict"] == "undetermined, as the account failed"
    # and said once, not at every step
    assert len(run.rows) == 3


def test_an_account_that_fails_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    board = Board()
    log = PrivacyLogger(optimizer, board, data_loader=loader, every=1)
    trained(log, model, optimizer, loader, 1)

    def fails(*_: Any, **__: Any) -> None:
        raise ArithmeticError("leakage 2\n  exceeds guarantee 1")

    with monkeypatch.context() as broken:
        broken.setattr("noisymean.integrations.callbacks.logger.inspect", fails)
        with pytest.warns(PrivacyNotLogged, match=r"\(ArithmeticError: leakage 2 exceeds guarantee 1\); said once"):
            trained(log, model, optimizer, loader, 2)
    assert math.isnan(board.scalars[-len(NAMES)][1])
    # what can be accounted for again is written again
    trained(log, model, optimizer, loader, 1)
    assert board.at(4)["privacy/claimed_epsilon"] == inspect(optimizer, data_loader=loader).spent.claimed


def test_a_writer_that_fails_ends_no_training() -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())

    def full(values: dict[str, Any], step: int) -> None:
        raise OSError("no space left on device")

    with (
        pytest.warns(PrivacyNotLogged, match="no space left on device"),
        PrivacyLogger(optimizer, full, data_loader=loader) as log,
    ):
        trained(log, model, optimizer, loader, 2)
    # at two steps, and at the end once more
    assert (log.failures, log.last) == (3, None)


def test_what_is_broken_off_is_written_as_far_as_it_came() -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    kept = Kept()

    def breaks_off() -> None:
        with PrivacyLogger(optimizer, kept, data_loader=loader, every=100) as log:
            trained(log, model, optimizer, loader, 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaks_off()
    assert list(kept.rows) == [3]


def test_what_was_told_wrongly_is_said_before_the_first_step() -> None:
    _, _, optimizer, loader = private(100, batch_size=10)
    for to, told, words in (
        (print, {}, "dataset_size=None: must be the number of training records"),
        (print, {"data_loader": loader, "delta": 2.0}, "delta=2.0: must be"),
        (print, {"data_loader": loader, "every": 0}, "every=0: must be a whole number of steps"),
        (print, {"data_loader": loader, "batch_size": 500}, "batch_size=500: must be such that"),
        (random, {"data_loader": loader}, "to='module': must be a SummaryWriter of TensorBoard, a run of Weights & Biases"),
        (warnings, {"data_loader": loader}, "what wandb.init() returned"),
        (Board, {"data_loader": loader}, "to='the class Board': must be a SummaryWriter"),
        (lambda: None, {"data_loader": loader}, "to='function': must be"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as fault:
            PrivacyLogger(optimizer, to, **told)
        assert words in str(fault.value)
    with pytest.raises(TypeError, match="batchsize"):
        PrivacyLogger(optimizer, Kept(), data_loader=loader, batchsize=10)
    with pytest.raises(InvalidInput, match="a DPOptimizer of Opacus"):
        PrivacyLogger(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), Kept(), dataset_size=3)


def test_looking_changes_nothing() -> None:
    """The same weights, and the same random numbers left, with accounts at every step and without any."""
    ends = []
    for logged in (True, False):
        _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
        random.seed(1)
        # whoever draws from it unasked is who is looked for
        before = str(np.random.get_state())  # noqa: NPY002
        log = PrivacyLogger(optimizer, Kept(), data_loader=loader, every=1) if logged else None
        for _ in range(3):
            train(model, optimizer, loader, 1)
            if log is not None:
                log.step()
        weights = torch.cat([one.detach().flatten() for one in model.parameters()])
        assert str(np.random.get_state()) == before  # noqa: NPY002
        ends.append((weights.tolist(), torch.rand(3).tolist(), random.random()))
    assert ends[0] == ends[1]


# --- at which steps ----------------------------------------------------------------------------------------------------


def test_accounts_are_few() -> None:
    due, at = [], 0
    while at < 10_000:
        at = Doubling().after(at)
        due.append(at)
    assert due == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]
    assert [Every(50).after(taken) for taken in (0, 49, 50, 51)] == [50, 50, 100, 100]
    for wrong in (0, -1, 1.5, True, "10"):
        with pytest.raises(InvalidInput, match="a whole number of steps, from 1 on"):
            Every(wrong)  # type: ignore[arg-type]


def test_a_loop_that_calls_rarely_or_often_is_written_once_for_each_step_that_is_due() -> None:
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    kept = Kept()
    log = PrivacyLogger(optimizer, kept, data_loader=loader, every=3)
    for steps in (7, 0, 0, 1):
        train(model, optimizer, loader, steps)
        log.step()
    assert list(kept.rows) == [7]
    log.close()
    assert list(kept.rows) == [7, 8]


def test_steps_of_a_checkpoint_are_not_written_again_but_counted() -> None:
    engine, model, optimizer, loader = private(100, batch_size=10)
    engine.accountant.history = [(1.0, 0.1, 30)]
    kept = Kept()
    with PrivacyLogger(optimizer, kept, data_loader=loader, every=10) as log:
        log.step()
        trained(log, model, optimizer, loader, 2)
    assert list(kept.rows) == [32]
    assert kept.rows[32]["privacy/steps"] == 32


# --- writers -----------------------------------------------------------------------------------------------------------


def test_a_run_of_weights_and_biases_loses_nothing() -> None:
    """Neither what others log, whose steps may be epochs, nor what is logged here, whose step may be behind theirs."""
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    run = Run()
    log = PrivacyLogger(optimizer, run, data_loader=loader, every=2)
    for step in range(1, 5):
        train(model, optimizer, loader, 1)
        run.log({"loss": step})
        run.log({"norm": step})
        log.step()
    steps = [row["privacy/steps"] for row in run.rows.values() if "privacy/steps" in row]
    assert (steps, run.summary["loss"], run.summary["norm"]) == ([2.0, 4.0], 4, 4)
    # under a step of the caller's, unless the run is beyond it
    train(model, optimizer, loader, 2)
    log.step(40)
    assert run.rows[40]["privacy/steps"] == 6.0
    train(model, optimizer, loader, 2)
    log.step(8)
    assert run.rows[40]["privacy/steps"] == 8.0


def test_the_module_writes_to_the_run_that_was_begun_last(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        run: Run

        def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
            self.run.log(data, step, commit)

    module, first, second = Module(), Run(), Run()
    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    module.run = first
    log = PrivacyLogger(optimizer, module, data_loader=loader, every=1)
    trained(log, model, optimizer, loader, 1)
    module.run = second
    second.step = 7
    train(model, optimizer, loader, 1)
    log.step(3)
    assert [run.summary["privacy/steps"] for run in (first, second)] == [1.0, 2.0]


def test_a_writer_without_texts_and_another_prefix() -> None:
    class Plain:
        def __init__(self) -> None:
            self.tags: list[str] = []

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            self.tags.append(tag)

    _, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant())
    plain = Plain()
    with PrivacyLogger(optimizer, plain, data_loader=loader, prefix="dp") as log:
        trained(log, model, optimizer, loader, 1)
    assert set(plain.tags) == {f"dp/{name}" for name in NAMES}


# --- what inspect found, as data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["before", "violated", "holds", "watched", "undetermined", "no noise", "shuffled"])
def test_an_inspection_is_plain_data(case: str) -> None:
    every: dict[str, dict[str, Any]] = {
        "holds": {"sample_rate": "1/10"},
        "watched": {"sample_rate": "1/10", "accountant": Accountant()},
        "no noise": {"batch_size": 10, "noise_multiplier": 0.0},
        "shuffled": {"batch_size": 10, "poisson_sampling": False},
    }
    options = every.get(case, {"batch_size": 10})
    _, model, optimizer, loader = private(100, **options)
    if "sample_rate" in options:
        fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, 0 if case == "before" else 10)
    told = {"dataset_size": 100} if case == "undetermined" else {"data_loader": loader}
    found = inspect(optimizer, **told)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain == found.to_dict()
    valid("inspect", plain)
    assert plain["schema"] == 1
    assert plain["verdict"] == found.verdict
    assert (plain["taken"], plain["dataset_size"]) == (0 if case == "before" else 10, 100)
    assert plain["guarantee"]["epsilon"] == found.spent.guarantee
    assert (plain["opacus"] is None) == (case == "before")
    if case in ("holds", "watched"):
        assert plain["verdict"] == "holds"
        assert plain["watched"] == (case == "watched")
        assert (plain["condition"] is None) == (case == "watched")
        assert plain["mechanism"] == "sgm"
    if case in ("undetermined", "no noise"):
        assert plain["verdict"] == "undetermined"
        assert (plain["mechanism"], plain["guarantee"]["epsilon"]) == (None, None)
        assert plain["notes"]
    # in a frame, in a notebook, and as a figure
    columns = found.columns()
    assert {len(column) for column in columns.values()} == {3 if case == "before" else 4}
    assert found.verdict in found._repr_html_()
    (axes,) = found.plot().axes
    assert found.verdict in axes.get_title(loc="left")


def test_a_key_that_is_missing_is_seen() -> None:
    _, _, optimizer, loader = private(100, batch_size=10)
    plain = inspect(optimizer, data_loader=loader).to_dict()
    for key in plain:
        assert not validator("inspect").is_valid({one: value for one, value in plain.items() if one != key}), key
    assert not validator("inspect").is_valid({**plain, "verdict": "fine"})


def test_without_opacus_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['opacus'] = None\n"
        "for name in ('callbacks', 'callbacks.hugging_face'):\n"
        "    try:\n        __import__(f'noisymean.integrations.{name}')\n    except ImportError as fault:\n        print(fault)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["opacus is not installed; install it with: pip install 'noisymean[audit]'"] * 2
