"""Audits that were begun before: their configurations, digests and numbers are what they were, and their stores resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from noisymean.audit import Store, audit
from noisymean.audit.trials import Plan, canonical, run_block
from noisymean.mechanisms import EASGM
from noisymean.targets import registry
from noisymean.targets.synthetic import Synthetic

GOLDEN = Path(__file__).parents[1] / "golden"
# written by 0.1.0
OLD = json.loads((GOLDEN / "audits_0_1.json").read_text())


def named(one: dict) -> str:
    target = one["configuration"]["target"]
    return (
        f"{target['mechanism']['name']}-{target['gradients']}-{one['configuration']['distinguisher']['distinguisher']}"
    )


@pytest.mark.parametrize("one", OLD["blocks"], ids=named)
def test_a_block_has_the_same_numbers(one: dict) -> None:
    what = one["configuration"]
    target = registry.rebuilt(what["target"])
    assert canonical(target.configuration()) == canonical(what["target"])
    plan = Plan(
        canonical(what["target"]), canonical(what["distinguisher"]), what["seed"], what["trials"], what["per_block"]
    )
    assert plan.digest() == one["digest"]
    block = run_block(plan, 0)
    for side in ("smaller", "larger"):
        np.testing.assert_allclose(getattr(block, side)[:3].ravel()[:6], one[side], rtol=1e-12)


@pytest.mark.parametrize("one", OLD["configurations"], ids=lambda one: one["name"])
def test_a_configuration_is_read_and_written_alike(one: dict) -> None:
    target = registry.rebuilt(one["configuration"])
    assert canonical(target.configuration()) == canonical(one["configuration"])
    assert (target.name, target.dimension, target.steps) == (one["name"], one["dimension"], one["steps"])


def test_an_old_store_is_resumed(tmp_path: Path) -> None:
    """One of three blocks is there; the result is that of an audit in one go by the release that began it."""
    store = tmp_path / "store"
    shutil.copy(GOLDEN / "store_0_1.sqlite", store)
    target = Synthetic(mechanism=EASGM(dataset_size=4, dimension=10, sample_rate="0.3", noise_multiplier=2.0))
    told: list[int] = []
    found = audit(target, seed=1, trials=1200, store=Store.at(store), resume=True, progress=told.append)
    assert told[0] == 500
    assert (found.found.delta_lower, found.found.epsilon_lower) == pytest.approx(
        (0.3247212981722284, 1.4227610560234147), rel=1e-12
    )
