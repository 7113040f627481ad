"""pytest's way in: a fixture that costs nothing until a test asks for it (`noisymean` itself loads numpy and scipy).

What the tests that passed would have caught is listed at the end: a test that can catch nothing looks like one that can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from noisymean.audit import Audit

_PROPERTY = "noisymean"


@pytest.fixture
def assert_private(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """`noisymean.integrations.pytest_plugin.assert_private`, which names this test if it fails."""
    from noisymean.integrations.pytest_plugin import assert_private

    def asserted(*arguments: Any, **options: Any) -> Audit:
        __tracebackhide__ = True
        found = assert_private(*arguments, **{"test": request.node.nodeid, **options})
        # a property and not an attribute: it travels with the report, from another process too
        request.node.user_properties.append((_PROPERTY, f"{found.target}: {found.sight}"))
        return found

    return asserted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each assertion that passed."""
    lines = [
        f"{report.nodeid}: {words}"
        for report in terminalreporter.getreports("passed")
        for name, words in report.user_properties
        if name == _PROPERTY and report.when == "call"
    ]
    if lines:
        terminalreporter.section("privacy tests that passed: what they would have caught")
        for line in lines:
            terminalreporter.write_line(line)
