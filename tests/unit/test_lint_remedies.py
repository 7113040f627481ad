"""Every remedy can be typed: it is run, as it is printed and as docs/rules.md shows it, on a small model and 1,000 records.

What needs a library that is not installed here is compiled; how it was run is said beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from test_lint_rules_page import examples

import noisymean as nm
from noisymean.lint import RULES, Rule

torch: Any = pytest.importorskip("torch")
pytest.importorskip("opacus")

# Run by hand, as they are printed: optax 0.2.8 on batches of three records and of none, whose sums without noise are what they
# must be; objax 1.8.0 on batches of three and of six; jax-privacy 2.0.0 with Keras on jax; TensorFlow Privacy 0.9.0 on 1,030
# records, which are four batches of 250.
ELSEWHERE = ("NM011", "NM012", "NM013", "NM014", "NM035")
HERE = [one for one in RULES.values() if one.id not in ELSEWHERE]


@pytest.fixture
def given() -> Iterator[dict[str, Any]]:
    """What the page says is there already."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    state = torch.get_rng_state()
    torch.manual_seed(0)
    train_set = TensorDataset(torch.randn(1_000, 3), torch.randn(1_000, 1))
    model = torch.nn.Linear(3, 1)
    grads = 5.0 * torch.randn(10, 4)
    with warnings.catch_warnings():
        # "secure mode is off", hooks on inputs that need no gradient: of Opacus, and not about what is shown
        warnings.simplefilter("ignore")
        yield {
            "torch": torch,
            "DataLoader": DataLoader,
            "engine": PrivacyEngine(),
            "model": model,
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
            "loss": torch.nn.MSELoss(),
            "train_set": train_set,
            "loader": DataLoader(train_set, batch_size=10),
            "step": lambda batch: None,
            "grads": grads,
            "clipped": grads / 100.0,
            "noise": torch.zeros(4),
            "SIGMA": 1.1,
            "C": 1.0,
            "BATCH": 10,
            "PUBLIC_BATCH_SIZE": 10,
            "PUBLIC_DATASET_SIZE": 1_000,
        }
    torch.set_rng_state(state)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_remedy_is_code(rule: Rule) -> None:
    compile(rule.remedy, rule.id, "exec")


@pytest.mark.parametrize("rule", HERE, ids=lambda rule: rule.id)
def test_a_remedy_runs_as_it_is_printed(rule: Rule, given: dict[str, Any]) -> None:
    exec(compile(rule.remedy, rule.id, "exec"), given)
    if "fix(" in rule.remedy:
        # the denominator is the constant, and goes on being one
        assert given["optimizer"].expected_batch_size == given["PUBLIC_BATCH_SIZE"]
        assert given["loader"].sample_rate == 0.01


@pytest.mark.parametrize("rule", HERE, ids=lambda rule: rule.id)
def test_the_second_example_runs(rule: Rule, given: dict[str, Any]) -> None:
    _, good = examples(rule)
    exec(compile(good.replace("steps=1_000", "steps=10"), rule.id, "exec"), given)
    if "def step(" in good:
        released = given["step"](given["grads"], 1.0, 1e-9)
        bounded = given["grads"] * (1.0 / given["grads"].norm(dim=1)).clamp(max=1.0)[:, None]
        # NM034's is handed what is clipped already
        expected = (given["grads"] if rule.id == "NM034" else bounded).sum(0)
        size = given["PUBLIC_DATASET_SIZE" if rule.id == "NM024" else "PUBLIC_BATCH_SIZE"]
        torch.testing.assert_close(released, expected / size)
    if "def train(" in good:
        weights = torch.zeros(4)
        # nobody was drawn: a step of noise, by the clipping bound and the constant
        given["train"](weights, [given["grads"][:0]], 1.0, 1.0)
        assert torch.count_nonzero(weights) == 4


def test_clipping_bounds_every_record(given: dict[str, Any]) -> None:
    given["grads"][0] = 0.0
    exec(RULES["NM031"].remedy, given)
    lengths = given["clipped"].norm(dim=1)
    assert float(lengths.max()) <= 1.0 + 1e-6
    assert float(lengths[0]) == 0.0


def test_the_noise_that_is_calibrated_reaches_the_target(given: dict[str, Any]) -> None:
    """The numbers of the remedy, accounted for."""
    exec(RULES["NM010"].remedy, given)
    run = nm.SGM(sample_rate="1/100", noise_multiplier=given["SIGMA"])
    guaranteed = nm.account(run, steps=1_000, delta=1e-5).guarantee.epsilon
    assert guaranteed is not None
    assert 1.99 < guaranteed <= 2.0
