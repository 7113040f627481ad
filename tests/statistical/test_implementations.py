"""The paper's audits of real code, at its settings: every method violates its claim on every set, and with a constant denominator none does.

Forty images of each set are enough: an audit uses five. All of it is slow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.audit import Audit, audit, distinguisher
from noisymean.paper.methods import METHODS, dpsur_method, opacus_method
from noisymean.targets.opacus_releases.setup import Mode, Reduction
from noisymean.targets.protocol import Target

pytest.importorskip("opacus")
pytestmark = pytest.mark.slow

FIXTURES = str(Path(__file__).parents[1] / "fixtures")
DATASETS = ("mnist", "fashion-mnist", "cifar10")


def audited(target: Target, trials: int) -> Audit:
    return audit(target, distinguisher("likelihood-ratio", target), seed=3, trials=trials)


def method(name: str, dataset: str, **options: Any) -> Target:
    if name == "dpsur":
        return dpsur_method(dataset, data_dir=FIXTURES)
    return opacus_method(name, dataset, data_dir=FIXTURES, **options)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_violates_its_claim_on_every_set(name: str, dataset: str) -> None:
    target = method(name, dataset)
    result = audited(target, 2_000 if target.dimension < 100_000 or name == "dpsur" else 60)
    assert result.verdict is not None
    assert result.verdict.word == "violated"


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "dpsur"])
def test_with_a_constant_denominator_none_does(name: str, dataset: str) -> None:
    target = method(name, dataset, reduction=Reduction.SUM)
    result = audited(target, 2_000 if target.dimension < 100_000 else 60)
    assert result.verdict is not None
    assert result.verdict.word == "not-violated"


@pytest.mark.parametrize(
    ("release", "poisson", "size"),
    [
        ("0.13.0", True, 4),
        ("0.15.0", True, 4),
        ("0.15.0", False, 4),
        ("1.0.0", True, 3),
        ("1.5.4", True, 3),
        ("1.6.0", True, 3),
    ],
)
def test_the_audited_curve_is_the_exact_one_within_its_band(release: str, poisson: bool, size: int) -> None:
    """At every threshold the true point lies inside the joint Clopper-Pearson box of what was counted."""
    target = opacus_method(
        "dpsgd-hf",
        "mnist",
        release=release,
        poisson=poisson,
        dataset_size=size,
        data_dir=FIXTURES,
        noise_multiplier=10.0,
    )
    result = audited(target, 6_000)
    truth, found = result.reference, result.found
    assert truth is not None
    # the corners are upper limits: none may lie below the true curve, and the guesses come close to it
    slack = 4.0 * (truth.standard_error or 0.0)
    assert np.all(found.corner_beta >= truth.curve(found.corner_alpha) - slack - 1e-9)
    assert found.delta_lower <= truth.curve.advantage() + slack
    assert found.delta_lower >= truth.curve.advantage() - 0.05


def test_replay_and_full_agree_on_a_method() -> None:
    replay, full = (
        audited(method("dpsgd-hf", "mnist", mode=mode, release="1.6.0", dataset_size=3), 400)
        for mode in (Mode.REPLAY, Mode.FULL)
    )
    assert replay.found.delta_lower == pytest.approx(full.found.delta_lower, abs=0.05)
