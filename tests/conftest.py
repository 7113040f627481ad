"""Settings every test shares: the same examples on every run, and 50-digit arithmetic at hand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from mpmath import mp

from effort import share

# Programs print more, less or in colour when they see one of these (pytest does not shorten its summary under CI).
# The documents show what a reader's terminal shows; the tests that run them must not depend on where they run.
for name in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=share(40),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`thin(n)`: of a test's many parameters `make test` runs every n-th, `make test-all` every one."""
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("thin")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[name] += 1


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    """mpmath's precision is global; every test starts from 50 digits and leaves no trace."""
    with mp.workdps(50):
        yield


@pytest.fixture
def alphas() -> np.ndarray:
    """False positive rates from far in one tail to far in the other, both ends included."""
    return np.concatenate(
        [[0.0], np.logspace(-12, -2, 11), np.linspace(0.02, 0.98, 49), 1.0 - np.logspace(-2, -12, 11), [1.0]]
    )
