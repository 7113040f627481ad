"""Opacus: what an inspection sees, the accountant that sees the denominator, and the fix; on the installed release and on older ones."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import noisymean as nm
from noisymean.errors import InvalidInput

pytest.importorskip("opacus")

import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialNoise

import opacus_training
from noisymean.integrations.opacus import Accountant, NoGuarantee, fix, inspect, poisson_loader, register
from noisymean.integrations.opacus.facts import Facts
from noisymean.integrations.opacus.neighbours import loaders
from opacus_training import PARAMETERS, private, train

ROOT = Path(__file__).parents[2]
DELTA = 1e-5
# 62 on 1007 records, 63 on 1008, both at the rate 1/16
RECORDS, BATCH, STEPS = 1007, 64, 64


def expected(steps: int, noise: float = 1.0) -> nm.Account:
    loader = nm.OpacusLoader(dataset_size=RECORDS, batch_size=BATCH, dimension=PARAMETERS, noise_multiplier=noise)
    return nm.account(loader, steps=steps, delta=DELTA)


@pytest.fixture(scope="module")
def ran() -> dict[str, object]:
    return opacus_training.main(RECORDS, BATCH, STEPS, DELTA)


def check_run(found: dict[str, object]) -> None:
    """The same numbers as nm.account, before and after a checkpoint; at N - 1 the denominator stays, which costs less."""
    whole = expected(STEPS)
    assert found["epsilon"] == pytest.approx(whole.guarantee.epsilon, rel=1e-9)
    assert found["claimed"] == pytest.approx(whole.claimed.epsilon, rel=1e-9)
    assert found["leakage"] == pytest.approx(whole.leakage.epsilon, rel=1e-9)
    assert found["halfway"] == found["reloaded"]
    assert found["halfway"] == pytest.approx(expected(STEPS // 2).guarantee.epsilon, rel=1e-9)
    assert found["steps"] == STEPS
    assert found["plain"] == ["OPACUS-LOADER", 3, "holds"]
    assert found["fixed"] == ["SGM", 3, "holds"]
    assert [tuple(stretch) for stretch in found["history"]] == [(1.0, 1 / 16, STEPS)]  # type: ignore[attr-defined]
    for kind in ("would say", "says"):
        both: Any = found[kind]
        assert both[0] == pytest.approx(both[1], rel=1e-12)
        assert both[0] > 0.5


@pytest.mark.slow
def test_a_run_costs_what_account_says(ran: dict[str, object]) -> None:
    check_run(ran)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0.2", "1.3.0", "1.5.4"])
def test_so_it_does_on_older_releases(version: str) -> None:
    from noisymean.targets.opacus_releases.install import installed
    from noisymean.targets.opacus_releases.releases import Release

    places = [str(installed(Release(version))), str(ROOT / "src")]
    command = [sys.executable, str(ROOT / "tests" / "opacus_training.py"), *map(str, (RECORDS, BATCH, STEPS, DELTA))]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(places)}, check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert found["opacus"].startswith(version)
    check_run(found)


# ---- inspect ----


def test_before_and_after_the_fix() -> None:
    engine, model, optimizer, loader = private(100, batch_size=10)
    train(model, optimizer, loader, 30)
    before = inspect(optimizer, data_loader=loader, batch_size=10, drop_last=False)
    assert (before.name, before.verdict, before.taken) == ("OPACUS-LOADER", "violated", 30)
    assert isinstance(before.mechanisms[0], nm.OpacusLoader)
    assert before.mechanisms[0].runs == ((0.1, 10), (1 / 11, 9))
    assert before.spent.leakage is not None
    assert before.spent.guarantee is not None
    assert before.spent.leakage < before.spent.guarantee
    # one record more moves the rate, one less only the denominator: the worse of the two
    leaks = [
        nm.account(
            nm.OpacusLoader(dataset_size=size, batch_size=10, dimension=PARAMETERS, noise_multiplier=1.0),
            steps=30,
            delta=DELTA,
        ).leakage.epsilon
        for size in (99, 100)
    ]
    assert before.spent.leakage == pytest.approx(max(leaks))
    assert before.spent.claimed == pytest.approx(engine.get_epsilon(DELTA), abs=0.02)
    text = str(before)
    for words in (
        "divided by 10 (expected_batch_size)",
        "parameters 42",
        "sampling rate 1/10, from the length",
        "30 so far",
        "verdict     violated",
        "fix(optimizer, denominator=10, data_loader=loader)",
    ):
        assert words in text
    # an engine knows its dataset, and by its accountant its optimizer
    assert inspect(engine, data_loader=loader, batch_size=10, drop_last=False) == before

    _, model, optimizer, loader = private(100, sample_rate="1/10")
    assert fix(optimizer, denominator=10, data_loader=loader) is optimizer
    train(model, optimizer, loader, 30)
    after = inspect(optimizer, data_loader=loader)
    assert (after.name, after.verdict) == ("SGM", "holds")
    assert after.mechanisms == (nm.SGM(sample_rate="1/10", noise_multiplier=1.0),)
    assert after.spent.guarantee == pytest.approx(after.spent.claimed)
    assert after.remedy.startswith("none needed")
    assert "a public constant; sampling rate 1/10, public" in str(after)


def test_an_unknown_batch_size_gives_the_safe_side_of_each_number() -> None:
    """60,000 records in 100 batches: 600 moves the rate, 601 to 606 do not; without the last batch 595 to 600 are 100."""
    assert [one.batch_size for one in loaders(Facts(60_000, drop_last=False), 0.01)] == [600, 603, 606]
    assert loaders(Facts(60_000), 0.01) == [
        (600, False),
        (603, False),
        (606, False),
        (595, True),
        (597, True),
        (600, True),
    ]
    assert loaders(Facts(60_000, 604), 0.01) == [(604, False)]
    assert loaders(Facts(60_000, 599), 0.01) == [(599, True)]
    with pytest.raises(InvalidInput, match="batch_size=500: must be such that"):
        loaders(Facts(60_000, 500), 0.01)
    # 93 batches, of which the accountant is told 92
    assert loaders(Facts(930, 10, drop_last=False), 1 / 92) == [(10, False)]
    accountant = Accountant(dataset_size=1000, dimension=10_000, sampling="poisson")
    accountant.history = [(1.0, 0.1, 20)]
    unsure = accountant.spent(DELTA)
    accountant.batch_size, accountant.drop_last = 100, False
    sure = accountant.spent(DELTA)
    assert unsure.leakage is not None
    assert sure.leakage is not None
    assert unsure.leakage < sure.leakage
    assert sure.guarantee is not None
    assert unsure.guarantee is not None
    assert sure.leakage < sure.guarantee <= unsure.guarantee


def test_before_the_first_step_one_is_shown() -> None:
    _, _, optimizer, loader = private(103, batch_size=10)
    found = inspect(optimizer, data_loader=loader)
    # int(102/11) = int(103/11) = int(104/11): nothing moves here
    assert (found.taken, found.steps, found.verdict) == (0, 1, "holds")
    assert "none so far" in str(found)
    assert found.remedy.startswith("none at this number of records; for every other")


def test_a_constant_alone_is_not_enough_where_the_rate_moves() -> None:
    _, _, optimizer, loader = private(100, batch_size=10)
    found = inspect(fix(optimizer, denominator=10), data_loader=loader)
    assert (found.name, found.verdict) == ("unknown", "undetermined")
    assert "the sampling rate is 0.1 on 100 records and 0.0909091 on 101" in str(found)
    # and where it does not, it is
    _, _, optimizer, loader = private(103, batch_size=10)
    assert inspect(fix(optimizer, denominator=10), data_loader=loader).name == "SGM"


def test_what_divides_differently_is_named() -> None:
    _, _, optimizer, loader = private(103, batch_size=10, loss_reduction="sum")
    assert inspect(optimizer, data_loader=loader).name == "SGM"
    _, _, optimizer, loader = private(100, sample_rate="1/10")
    assert inspect(optimizer, data_loader=loader).mechanisms[0].name == "feasgm"
    optimizer.expected_batch_size = 10.3
    told = inspect(optimizer, dataset_size=103, sample_rate="1/10", sampling="poisson")
    assert told.mechanisms[0].name == "easgm"
    optimizer.expected_batch_size = 17
    strange = inspect(optimizer, data_loader=loader)
    assert (strange.name, strange.verdict) == ("unknown", "undetermined")
    assert "say so with fix(optimizer, denominator=17)" in str(strange)
    # a promise is void once the number has been changed
    fix(optimizer, denominator=10, data_loader=loader)
    assert inspect(optimizer, data_loader=loader).name == "SGM"
    optimizer.expected_batch_size = 17
    assert inspect(optimizer, data_loader=loader).name == "unknown"
    _, _, optimizer, loader = private(49, batch_size=1)
    assert "divides by zero and releases non-finite gradients" in str(inspect(optimizer, data_loader=loader))


def test_complaints_are_one_line() -> None:
    _, _, optimizer, _ = private(100, batch_size=10)
    for act, words in (
        (lambda: inspect(optimizer), "dataset_size=None: must be the number of training records"),
        (lambda: inspect(optimizer, dataset_size=3, sampling="poisson"), "dataset_size=3: must be such that"),
        (
            lambda: inspect(optimizer, dataset_size=100, sampling="shuffled"),
            "sampling='shuffled': must be one of poisson",
        ),
        (lambda: inspect(optimizer, data_loader=[]), "data_loader='list': must be a DataLoader"),
        (lambda: inspect(torch.nn.Linear(1, 1), dataset_size=57), "optimizer='Linear': must be a DPOptimizer"),
        (lambda: fix(optimizer, denominator=0), "denominator=0: must be > 0"),
        (
            lambda: fix(optimizer, denominator=10, sample_rate="1/20"),
            "sample_rate='1/20': must be the rate of the data",
        ),
        (lambda: poisson_loader([], sample_rate="1/93"), "the nearest below is sample_rate='1/94'"),
        (lambda: poisson_loader([], sample_rate=0.003), "the nearest below is sample_rate='1/334'"),
    ):
        with pytest.raises(InvalidInput) as fault:
            act()
        assert words in str(fault.value)
        assert "\n" not in str(fault.value)


def test_the_missing_package_is_one_line() -> None:
    code = (
        "import sys; sys.modules['opacus'] = None\n"
        "try:\n    import noisymean.integrations.opacus\nexcept ImportError as fault:\n    print(fault)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "opacus is not installed; install it with: pip install 'noisymean[audit]'"


# ---- the accountant ----


def test_where_no_guarantee_is_known_it_is_infinite_with_a_reason() -> None:
    accountant = Accountant(dataset_size=100, batch_size=10, drop_last=False)
    engine, model, optimizer, loader = private(100, batch_size=10, accountant=accountant)
    assert accountant.get_epsilon(DELTA) == 0.0
    train(model, optimizer, loader, 2)
    # one record more moves the rate, and that is covered
    assert 0.0 < engine.get_epsilon(DELTA) < math.inf
    silent = Accountant(dataset_size=100, dimension=3, sampling="poisson")
    silent.step(noise_multiplier=0.0, sample_rate=0.1)
    with pytest.warns(NoGuarantee, match="no noise was added"):
        assert silent.get_epsilon(DELTA) == math.inf


def test_a_noise_schedule_is_composed_stretch_by_stretch() -> None:
    accountant = Accountant(dataset_size=103)
    _, model, optimizer, loader = private(103, batch_size=10, accountant=accountant)
    schedule = ExponentialNoise(optimizer, gamma=2.0)
    train(model, optimizer, loader, 5)
    schedule.step()
    train(model, optimizer, loader, 10)
    assert accountant.history == [(1.0, 1 / 11, 5), (2.0, 1 / 11, 10)]
    assert len(accountant) == 15
    # nothing moves at this size: the noisy sum's own number
    assert accountant.get_epsilon(DELTA) == pytest.approx(accountant.spent(DELTA).claimed)
    constant = Accountant(dataset_size=103, dimension=PARAMETERS, sampling="poisson")
    ends = []
    for noise in (1.0, 2.0):
        constant.history = [(noise, 1 / 11, 15)]
        ends.append(constant.get_epsilon(DELTA))
    assert ends[1] < accountant.get_epsilon(DELTA) < ends[0]


def test_accumulated_batches_are_not_one_poisson_sample() -> None:
    accountant = Accountant(dataset_size=103)
    _, model, optimizer, loader = private(103, batch_size=10, accountant=accountant, poisson_sampling=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = iter(loader)
        for _ in range(2):
            features, labels = next(batches)
            torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    assert accountant.history == [(1.0, 2 / 11, 1)]
    with pytest.warns(NoGuarantee, match="2 batches were drawn for one step"):
        assert accountant.get_epsilon(DELTA) == math.inf


def test_engine_checkpoints_keep_it(tmp_path: Path) -> None:
    engine, model, optimizer, loader = private(103, batch_size=10, accountant=Accountant(dataset_size=103))
    train(model, optimizer, loader, 5)
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    # nothing but numbers and text in it
    plain = torch.load(tmp_path / "run.pt", weights_only=True)["privacy_accountant_state_dict"]
    assert plain["seen"][0]["dimension"] == PARAMETERS
    again, model, optimizer, _ = private(103, batch_size=10, accountant=Accountant(dataset_size=103))
    again.load_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    assert again.get_epsilon(DELTA) == engine.get_epsilon(DELTA) > 0.0
    assert again.accountant.state_dict() == engine.accountant.state_dict()
    for state, words in (
        ({}, "without batch_size"),
        ({**plain, "mechanism": "rdp"}, "what those steps were divided by is not in it"),
        ({**plain, "dataset_size": 99}, "as in the checkpoint"),
        ({**plain, "seen": []}, "as many as in history"),
        ({**plain, "seen": [{"surprise": 1}]}, "written by this release"),
    ):
        with pytest.raises(ValueError, match=words):
            Accountant(dataset_size=103).load_state_dict(state)


def test_by_name_and_for_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    name = register(dataset_size=100, denominator=10, sample_rate="1/10")
    assert name == Accountant.mechanism() == "noisymean"
    noise = get_noise_multiplier(
        target_epsilon=2.0, target_delta=DELTA, sample_rate=0.1, steps=30, accountant=name, epsilon_tolerance=0.05
    )
    claim = nm.account(nm.SGM(sample_rate="1/10", noise_multiplier=noise), steps=30, delta=DELTA).guarantee.epsilon
    assert claim is not None
    assert 1.95 <= claim <= 2.0
    engine, model, optimizer, loader = private(100, sample_rate="1/10", accountant=name, noise_multiplier=noise)
    # a number that a calibration ended in may come from N, as far as anyone can see
    engine.accountant.noise_multiplier = noise
    fix(optimizer, denominator=10, sample_rate="1/10")
    train(model, optimizer, loader, 30)
    assert engine.get_epsilon(DELTA) == pytest.approx(claim)
    # through an ordinary loader no noise is enough, and Opacus says so
    register(dataset_size=100, batch_size=10, dimension=PARAMETERS, sampling="poisson")
    with pytest.raises(ValueError, match="privacy budget is too low"):
        get_noise_multiplier(target_epsilon=2.0, target_delta=DELTA, sample_rate=0.1, steps=30, accountant=name)
    monkeypatch.delattr("opacus.accountants.register_accountant")
    with pytest.raises(InvalidInput, match=r"set engine\.accountant instead"):
        register(dataset_size=100)


# ---- the fix ----

ADAPTIVE: dict[str, Any] = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 10.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 1.0,
}


@pytest.mark.parametrize(
    "options",
    [{}, {"clipping": "per_layer", "max_grad_norm": [0.6, 0.8]}, {"grad_sample_mode": "functorch"}, ADAPTIVE],
    ids=["flat", "per_layer", "functorch", "adaptive"],
)
def test_every_optimizer_divides_by_the_constant(options: dict[str, Any]) -> None:
    """The same batch and the same noise over 10 and over 40: a quarter."""
    released = []
    for constant in (10, 40):
        _, model, optimizer, loader = private(100, sample_rate="1/10", **options)
        fix(optimizer, denominator=constant, sample_rate="1/10")
        torch.manual_seed(3)
        train(model, optimizer, loader, 1)
        released.append([parameter.grad.clone() for parameter in optimizer.params])
        assert inspect(optimizer, data_loader=loader).name == "SGM"
    for over_ten, over_forty in zip(*released, strict=True):
        torch.testing.assert_close(over_ten, 4.0 * over_forty)


def test_adaptive_clipping_counts_halves_over_the_constant() -> None:
    """Theorem 1 of Andrew et al. wants a count that a record moves by 1/2; Opacus' moves by 1, and is divided by |B|."""
    _, _, optimizer, loader = private(100, sample_rate="1/10", **ADAPTIVE)
    assert "divides its noisy count by the size of the batch" in str(inspect(optimizer, data_loader=loader))
    fix(optimizer, denominator=10, sample_rate="1/10")
    bounds = []
    for unclipped, size in ((4, 10), (4, 11), (5, 11)):
        optimizer.max_grad_norm, optimizer.sample_size, optimizer.unclipped_num = (
            1.0,
            size,
            torch.tensor(float(unclipped)),
        )
        optimizer.update_max_grad_norm()
        bounds.append(float(optimizer.max_grad_norm))
    # exp(-0.2 * (share - 1/2)) with shares 4/10, 3.5/10 and 4.5/10
    accountant = Accountant(dataset_size=100)
    _, model, optimizer, loader = private(100, sample_rate="1/10", accountant=accountant, **ADAPTIVE)
    train(model, fix(optimizer, denominator=10, sample_rate="1/10"), loader, 3)
    # the bound has moved, the stretch has not ended
    assert accountant.history == [(1.0, 0.1, 3)]
    assert bounds == pytest.approx([math.exp(0.2 * away) for away in (0.1, 0.15, 0.05)])


def test_an_audit_finds_the_leak_and_after_the_fix_none() -> None:
    from noisymean.integrations.pytest_plugin import NotPrivate, assert_private

    file = ROOT / "tests" / "opacus_release.py"
    claim = nm.SGM(sample_rate="1/2", noise_multiplier=0.5)
    with pytest.raises(NotPrivate, match="is not as private as claimed"):
        assert_private(f"{file}:ordinary", claim=claim, trials=600)
    found = assert_private(f"{file}:fixed", claim=claim, trials=2000)
    # the optimal test comes close to the truth, and not above the claim
    assert found.distinguisher == "likelihood-ratio"
    assert 0.2 < found.found.delta_lower <= float(found.claim.delta(0.0))
