"""verdict: one rule without tolerances, and numbers that contradict each other are never shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noisymean as nm
from command_line import run
from noisymean import accountant
from noisymean.errors import Contradiction, NoisymeanError
from noisymean.runs import Run
from noisymean.verdict import Claim, Word, check_order, decide


@pytest.mark.parametrize(
    ("claim", "leaked", "sound", "word"),
    [
        (Claim(1.0, 1.1), 1.1000000000001, 5.0, "violated"),
        (Claim(1.0, 1.1), 1.1, 5.0, "undetermined"),
        (Claim(1.0, 1.1), 1.05, 1.05, "undetermined"),
        (Claim(1.0, 1.1), 0.9, 1.0, "holds"),
        (Claim(1.0, 1.1), 0.9, 1.0000000000001, "undetermined"),
        (Claim(1.0, 1.1), None, None, "undetermined"),
        (Claim(1.0, 1.1), None, 0.5, "holds"),
        (Claim(1.0, 1.1, is_the_run=True), 1.05, 1.1, "holds"),
        # even then a leakage above the claim counts
        (Claim(1.0, 1.1, is_the_run=True), 1.2, 1.2, "violated"),
        (Claim(0.0, np.inf), 3.0, np.inf, "undetermined"),
    ],
)
def test_decide(claim: Claim, leaked: float | None, sound: float | None, word: Word) -> None:
    assert decide(claim, leaked, sound) == word


def test_points_of_a_curve_are_judged_together() -> None:
    claim = Claim(np.array([-0.9, -0.5]), np.array([-0.9, -0.5]))
    assert decide(claim, np.array([-0.95, -0.4]), None) == "violated"
    assert decide(claim, np.array([-0.95, -0.6]), np.array([-0.9, -0.5])) == "holds"
    assert decide(claim, np.array([-0.95, -0.6]), np.array([-0.9, -0.4])) == "undetermined"


def test_order() -> None:
    check_order(1.0, 1.0, "a run")
    check_order(None, 1.0, "a run")
    check_order(2.0, None, "a run")
    with pytest.raises(Contradiction, match=r"leakage 2 exceeds guarantee 1\.5"):
        check_order(np.array([1.0, 2.0]), np.array([1.0, 1.5]), "a run")
    assert not issubclass(Contradiction, NoisymeanError)


def test_a_contradiction_is_our_error_and_no_number_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountant, "guaranteed", lambda *_, **__: accountant.Proved(0.001))
    options = "--mechanism easgm --dataset-size 1000 --dimension 100 --sample-rate 0.1 --noise-multiplier 1 --steps 10"
    code, out, err = run("account", *options.split(), "--delta", "1e-5", "--json")
    assert code == 70
    assert out == ""
    assert "exceeds guarantee 0.001" in err


def test_a_contradiction_on_one_pair_is_not_hidden_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record more leaks less than one less: its guarantee is the wrong one, and the larger of the two is in order."""
    right = accountant.guaranteed

    def one_is_wrong(run: Run, question: accountant.Question, **more: Any) -> accountant.Proved:
        return accountant.Proved(0.001) if run.dataset_size == 50 else right(run, question, **more)

    monkeypatch.setattr(accountant, "guaranteed", one_is_wrong)
    with pytest.raises(Contradiction, match=r"exceeds guarantee 0\.001"):
        nm.account(
            nm.EASGM(dataset_size=50, dimension=100, sample_rate=0.1, noise_multiplier=1.0), steps=10, delta=1e-5
        )


def test_the_noisy_sum_holds_and_a_told_rate_that_is_not_the_real_one_does_not() -> None:
    plain = nm.account(nm.SGM(sample_rate=0.01, noise_multiplier=1.0), steps=100, delta=1e-5)
    assert plain.verdict == "holds"
    told = nm.OpacusLoader(dataset_size=921, batch_size=10, dimension=100, noise_multiplier=1.0)
    assert nm.account(told, steps=100, delta=1e-5).verdict != "holds"
