"""Settings every test shares: the same examples on every run, and 50-digit arithmetic at hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from mpmath import mp

from effort import share, thinned

# Programs print more, less or in colour when they see one of these (pytest does not shorten its summary under CI).
# The documents show what a reader's terminal shows; the tests that run them must not depend on where they run.
for name in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# scripts with faults on purpose: they are read by the linter, never imported
collect_ignore = ["held_out"]

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=share(40),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


# What there is of each test that is thinned out, and what is run of it: arguments by the name of their case.
THINNED = pytest.StashKey[dict[str, tuple[dict[str, dict[str, Hashable]], set[str]]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`thin(n)`: of a test's many parameters `make test` runs about one in n, `make test-all` every one."""
    tests: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("thin") is not None and item.get_closest_marker("slow") is None:
            tests.setdefault(item.nodeid.partition("[")[0], {})[item.nodeid] = item
    config.stash[THINNED] = {}
    for test, of_test in tests.items():
        cases = {name: _arguments(item) for name, item in of_test.items()}
        mark = next(iter(of_test.values())).get_closest_marker("thin")
        assert mark is not None
        kept = thinned(cases, mark.args[0])
        config.stash[THINNED][test] = cases, kept
        for name, item in of_test.items():
            if name not in kept:
                item.add_marker(pytest.mark.slow)


def _arguments(item: pytest.Item) -> dict[str, Hashable]:
    """Those that can be told apart by what they are, the others by which they are."""
    values = item.callspec.params  # type: ignore[attr-defined]
    return {name: value if isinstance(value, Hashable) else id(value) for name, value in values.items()}


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    """mpmath's precision is global; every test starts from 50 digits and leaves no trace."""
    with mp.workdps(50):
        yield


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Opacus keeps accountants by name; one that a test has registered is not there for the next."""
    yield
    registry = sys.modules.get("opacus.accountants.registry")
    if registry is not None:
        registry._ACCOUNTANTS.pop("noisymean", None)


@pytest.fixture
def alphas() -> np.ndarray:
    """False positive rates from far in one tail to far in the other, both ends included."""
    return np.concatenate(
        [[0.0], np.logspace(-12, -2, 11), np.linspace(0.02, 0.98, 49), 1.0 - np.logspace(-2, -12, 11), [1.0]]
    )
