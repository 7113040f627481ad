"""The benchmark of false alarms, fewer of them: no test calls a true claim violated more often than its level."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import false_alarms
from scipy.stats import binom


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), list(false_alarms.CASES), ids=" ".join)
def test_alarms_are_no_more_than_the_level(name: str, what: str) -> None:
    """At both levels; what a binomial of that level does once in a million is allowed for."""
    found = [false_alarms.alarms(name, what, seed) for seed in range(10_000, 10_060)]
    for number, level in enumerate(false_alarms.LEVELS):
        assert sum(violated[number] for violated in found) <= binom.isf(1e-6, len(found), level)


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit that is there is not run again, a line that was cut off is."""
    asked: list[tuple[str, int]] = []

    def alarms(name: str, what: str, seed: int) -> list[bool]:
        asked.append((what, seed))
        return [False, seed == 1]

    monkeypatch.setattr(false_alarms, "alarms", alarms)
    out = tmp_path / "lines"
    false_alarms.run(range(1), out, "residual")
    out.write_text(out.read_text() + '{"distinguisher": "residual", "tar')
    asked.clear()
    there = false_alarms.run(range(2), out, "residual")
    assert {seed for _, seed in asked} == {1}
    assert false_alarms.done_in(out) == there
    rows = false_alarms.table(there)
    # one of two: Clopper and Pearson's limits are 1 - 0.975^(1/2) and its mirror image
    assert [row[2:] for row in rows] == [["2", "0.0 % (0.0 to 84.2)", "50.0 % (1.3 to 98.7)"]] * len(rows)


def test_every_test_is_among_them() -> None:
    """Each distinguisher, on one round and on three; what can be both as a synthetic target and as a function."""
    for name in ("likelihood-ratio", "paper", "learned"):
        for kind in ("synthetic", "callable"):
            assert {what for one, what in false_alarms.CASES if one == name} >= {f"{kind}, T = 1", f"{kind}, T = 3"}
    assert sum(name == "residual" for name, _ in false_alarms.CASES) == 2
