"""How a statement is known: its words, and what an assumption does to a verdict."""

from __future__ import annotations

import json

import pytest

from noisymean.grounds import About, Ground, Known, assumptions, resting_on
from noisymean.verdict import Word

SEEN, TOLD, ASSUMED = (Ground(About.SAMPLER, "Poisson", known, "so") for known in Known)


def test_names_are_written_as_their_values() -> None:
    """In f-strings, by str and in JSON."""
    for name in (*Known, *About):
        assert f"{name}" == str(name) == "{}".format(name) == name.value  # noqa: UP032
        assert f"{name:>12}" == f"{name.value:>12}"
        assert json.dumps(name) == f'"{name.value}"'
    assert str(SEEN) == "sampler: Poisson (seen: so)"
    assert json.dumps(TOLD.plain()) == '{"about": "sampler", "value": "Poisson", "known": "told", "how": "so"}'


@pytest.mark.parametrize("word", ["violated", "holds", "undetermined"])
def test_an_assumption_decides_nothing(word: Word) -> None:
    assert resting_on(word, (SEEN, TOLD)) == word
    assert resting_on(word, (SEEN, ASSUMED)) == "undetermined"
    assert assumptions((SEEN, ASSUMED, TOLD)) == (ASSUMED,)
