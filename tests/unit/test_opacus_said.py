"""What Opacus' own accountant says of the same steps: its own answer, asked of it directly, and never a reason not to answer."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import noisymean as nm

pytest.importorskip("opacus")

from opacus.accountants import create_accountant
from opacus.accountants.analysis import gdp, rdp

from noisymean.integrations.opacus import Accountant, fix, inspect
from noisymean.integrations.opacus.said import OpacusSaid
from opacus_training import private, train

DELTA = 1e-5
RATE, NOISE, STEPS = 0.1, 1.0, 12


def looked_at(accountant: Any, **options: Any) -> tuple[Any, Any]:
    """(engine, inspection) of a run that was fixed, after some steps."""
    engine, model, optimizer, loader = private(100, sample_rate="1/10", accountant=accountant, **options)
    fix(optimizer, denominator=10, data_loader=loader)
    train(model, optimizer, loader, STEPS)
    return engine, inspect(optimizer, data_loader=loader, delta=DELTA)


@pytest.mark.parametrize("kind", ["prv", "rdp", "gdp"])
def test_it_is_what_the_accountant_of_the_engine_says(kind: str) -> None:
    with warnings.catch_warnings():
        # "experimental", says gdp
        warnings.simplefilter("ignore")
        engine, found = looked_at(kind)
        said = found.opacus_said
        direct = create_accountant(mechanism=kind)
        direct.history = [(NOISE, RATE, STEPS)]
        assert said.epsilon == direct.get_epsilon(delta=DELTA) == engine.get_epsilon(DELTA)
    assert (said.accountant, said.attached, said.same_claim, said.fault) == (kind, True, True, "")
    assert said.error == (0.01 if kind == "prv" else None)
    exact = nm.account(nm.SGM(sample_rate=RATE, noise_multiplier=NOISE), steps=STEPS, delta=DELTA).claimed.epsilon
    assert exact is not None
    assert found.spent.claimed == pytest.approx(exact, rel=1e-12)
    match kind:
        case "prv":
            # the upper end of an estimate that is off by no more than the error
            assert exact <= said.epsilon <= exact + 2 * 0.01
            words = "prv, ±0.01"
        case "rdp":
            orders = engine.accountant.DEFAULT_ALPHAS
            curve = rdp.compute_rdp(q=RATE, noise_multiplier=NOISE, steps=STEPS, orders=orders)
            assert said.epsilon == rdp.get_privacy_spent(orders=orders, rdp=curve, delta=DELTA)[0] > exact
            words = "rdp, an upper bound"
        case _:
            of_the_limit = gdp.compute_eps_poisson(steps=STEPS, noise_multiplier=NOISE, sample_rate=RATE, delta=DELTA)
            assert said.epsilon == of_the_limit < exact
            words = "gdp, a limit for many steps, which may be too low"
    sentence = (
        f"Opacus' own accountant ({words}) says {said.epsilon:.4g};"
        f" the exact value of the same claim is {found.spent.claimed:.6g}"
    )
    assert sentence in str(found)
    assert sentence.replace("'", "&#x27;") in found._repr_html_()
    assert found.to_dict()["opacus"] == {
        "accountant": kind,
        "epsilon": said.epsilon,
        "error": said.error,
        "attached": True,
        "same_claim": True,
        "fault": None,
    }
    assert found.columns()["name"][-1] == f"opacus {kind}"


def test_the_sentence_for_a_difference_that_readers_stumbled_over() -> None:
    said = OpacusSaid("prv", DELTA, 0.0244, 0.01)
    assert said.beside(0.0142) == (
        "Opacus' own accountant (prv, ±0.01) says 0.0244; the exact value of the same claim is 0.0142"
    )


def test_it_is_asked_when_somebody_wants_to_know_and_of_the_steps_until_then() -> None:
    engine, model, optimizer, loader = private(103, batch_size=10)
    assert inspect(optimizer, data_loader=loader).opacus_said is None
    train(model, optimizer, loader, 2)
    early = inspect(optimizer, data_loader=loader)
    then = engine.get_epsilon(DELTA)
    train(model, optimizer, loader, 3)
    assert early.opacus_said is not None
    assert early.opacus_said.epsilon == then < engine.get_epsilon(DELTA)
    # and it is no part of what was found: two inspections of one run are equal
    assert inspect(optimizer, data_loader=loader) == inspect(optimizer, data_loader=loader)
    assert engine.accountant.history == [(1.0, 1 / 11, 5)]


def test_beside_our_accountant_stands_what_opacus_would_have_said() -> None:
    _, found = looked_at(Accountant())
    direct = create_accountant(mechanism="prv")
    direct.history = [(NOISE, RATE, STEPS)]
    assert found.opacus_said.epsilon == direct.get_epsilon(delta=DELTA)
    assert not found.opacus_said.attached
    assert "(prv, ±0.01) would say" in str(found)


def test_a_grid_that_nobody_would_wait_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, optimizer, loader = private(100, sample_rate="1/10")
    fix(optimizer, denominator=10, data_loader=loader)
    engine.accountant.history = [(1.0, 0.1, 100_000)]

    def asked(*_: Any, **__: Any) -> float:
        raise AssertionError("a grid of gigabytes was begun")

    monkeypatch.setattr(type(engine.accountant), "get_epsilon", asked)
    found = inspect(optimizer, data_loader=loader)
    assert found.opacus_said.epsilon is None
    assert found.opacus_said.fault.startswith("it was not asked, since it would need a grid of")
    # as people write numbers
    assert "e+0" not in found.opacus_said.fault
    assert "(prv, ±0.01) says nothing: it was not asked" in str(found)
    assert found.spent.claimed == found.spent.guarantee
    # and without noise there is nothing to ask
    engine.accountant.history = [(0.0, 0.1, 2)]
    assert math.isinf(inspect(optimizer, data_loader=loader).spent.claimed)
    assert "no finite epsilon is claimed" in str(inspect(optimizer, data_loader=loader))


def test_one_that_fails_costs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, model, optimizer, loader = private(103, batch_size=10, accountant="rdp")
    train(model, optimizer, loader, 2)

    def fails(*_: Any, **__: Any) -> float:
        raise RuntimeError("somebody\n  else's fault")

    monkeypatch.setattr(type(engine.accountant), "get_epsilon", fails)
    found = inspect(optimizer, data_loader=loader)
    assert found.verdict == "holds"
    assert "(rdp, an upper bound) says nothing: it ends with RuntimeError: somebody else's fault" in str(found)
    assert found.to_dict()["opacus"]["epsilon"] is None  # type: ignore[index]

    class Uncopied(type(engine.accountant)):  # type: ignore[misc]
        def __deepcopy__(self, memo: Any) -> None:
            raise TypeError("holds a file")

    engine.accountant.__class__ = Uncopied
    assert inspect(optimizer, data_loader=loader).opacus_said is None
    assert inspect(optimizer, data_loader=loader).verdict == "holds"


def test_another_claim_is_not_compared() -> None:
    """Adaptive clipping of Opacus 1.5 to 1.5.4 tells the noise of the gradients alone, which is not that of the release."""
    other = OpacusSaid("prv", DELTA, 1.25, 0.01, same_claim=False)
    assert "the claim here is for all that is released" in other.beside(1.5)
    assert "the exact value" not in other.beside(1.5)
