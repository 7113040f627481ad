"""What `make test` leaves out: by hash, and never all of something."""

from __future__ import annotations

from itertools import product

import pytest

from conftest import THINNED
from effort import thinned


def test_no_value_of_any_argument_is_never_run(pytestconfig: pytest.Config) -> None:
    """Of the tests that were collected with this one: all of them, unless a few were asked for."""
    for test, (cases, kept) in pytestconfig.stash[THINNED].items():
        values, run = ({it for name in names for it in cases[name].items()} for names in (cases, kept))
        assert run == values, test


@pytest.mark.parametrize("every", [2, 5, 24])
def test_one_in_so_many_and_every_value(every: int) -> None:
    axes = {"kind": "abcd", "size": range(6), "reverse": (False, True), "sigma": (0.1, 1.0, 10.0)}
    cases = {f"test[{values}]": dict(zip(axes, values, strict=True)) for values in product(*axes.values())}
    kept = thinned(cases, every)
    assert {it for name in kept for it in cases[name].items()} == {
        (name, value) for name in axes for value in axes[name]
    }
    assert len(cases) / every / 2 <= len(kept) <= 2 * len(cases) / every + 6
    # the order does not matter, so that a new case does not move the others
    assert thinned(dict(reversed(cases.items())), every) == kept


def test_a_single_argument_is_run_in_full() -> None:
    assert len(thinned({f"test[{suffix}]": {"suffix": suffix} for suffix in ("png", "svg", "pdf")}, 3)) == 3
