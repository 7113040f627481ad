"""pytest's way in: a fixture that costs nothing until a test asks for it (`noisymean` itself loads numpy and scipy)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from noisymean.audit import Audit


@pytest.fixture
def assert_private(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """`noisymean.integrations.pytest_plugin.assert_private`, which names this test if it fails."""
    from noisymean.integrations.pytest_plugin import assert_private

    return partial(assert_private, test=request.node.nodeid)
