"""The linter on scripts whose faults were written down before it was run: the aim of precision and recall, in every set."""

from __future__ import annotations

import pytest
from benchmarks import lint_precision as measure
from benchmarks.lint_precision import Measured, Origin


@pytest.fixture(scope="module")
def measured() -> Measured:
    """Our own scripts of all sets, by the measure itself; the texts of the real ones are not in the repository."""
    own = [script for script in measure.scripts(measure.SETS, None) if script.origin is Origin.OWN]
    return measure.measure(own, None)


def test_everything_is_measured(measured: Measured) -> None:
    assert (measured.failed, measured.absent, measured.changed, measured.unlabelled) == ([], [], [], [])


def test_no_finding_is_wrong(measured: Measured) -> None:
    assert measured.wrong == [], "\n".join(measure.lines(measured))


@pytest.mark.parametrize("sets", measure.SETS)
def test_of_ten_faults_of_a_set_nine_are_found(measured: Measured, sets: str) -> None:
    counts = measured.total(sets)
    assert counts.found > 0
    assert counts.found >= 0.9 * (counts.found + counts.missed), "\n".join(measure.lines(measured))
