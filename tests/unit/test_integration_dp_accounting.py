"""dp_accounting: the event, the accountant, compositions with ordinary events, calibration."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

import noisymean as nm
from noisymean.errors import InvalidInput
from noisymean.laws.closed import Gaussian
from noisymean.tradeoff import Side

dp = pytest.importorskip("dp_accounting")

from noisymean.integrations.dp_accounting import (  # noqa: E402
    Denominator,
    NormalizedAccountant,
    NormalizedGaussianDpEvent,
    event_of,
)

DELTA = 1e-5


def event(denominator: Denominator = Denominator.FLOOR, **fields: object) -> NormalizedGaussianDpEvent:
    given = {"noise_multiplier": 1.0, "sampling_probability": 0.0625, "dataset_size": 1007, "dimension": 42}
    return NormalizedGaussianDpEvent(denominator=denominator, **{**given, **fields})  # type: ignore[arg-type]


def test_an_event_is_a_frozen_value_that_survives_its_journey() -> None:
    one = event()
    assert one == event()
    assert hash(one) == hash(event())
    with pytest.raises(AttributeError):
        one.dimension = 3  # type: ignore[misc]
    assert dp.DpEvent.from_named_tuple(one.to_named_tuple()) == one


@pytest.mark.parametrize("kind", list(Denominator))
def test_epsilon_is_the_guarantee_of_the_mechanism(kind: Denominator) -> None:
    expected = nm.account(event(kind).mechanism(), steps=64, delta=DELTA).guarantee.epsilon
    assert NormalizedAccountant().compose(event(kind), 64).get_epsilon(DELTA) == pytest.approx(expected)
    mechanism: Any = event(kind).mechanism()
    assert event_of(mechanism).mechanism() == mechanism


def test_a_record_removed_counts_as_one_added_does() -> None:
    """At 1007 records the floor of N/16 moves when one is added, at 1008 when one is removed, at 1009 not at all."""
    adding, removing, still = (
        NormalizedAccountant().compose(event(dataset_size=size), 64).get_epsilon(DELTA) for size in (1007, 1008, 1009)
    )
    assert adding == removing > 3.0 * still
    sums = NormalizedAccountant().compose(event(Denominator.CONSTANT), 64).get_epsilon(DELTA)
    assert still == pytest.approx(sums)


def test_ordinary_events_by_closed_form() -> None:
    """Ten Gaussians of noise 8 and one of noise 5, nested: one shift of sqrt(10/64 + 1/25)."""
    composed = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(dp.GaussianDpEvent(8.0), 5), dp.NoOpDpEvent(), dp.GaussianDpEvent(5.0 * math.sqrt(2))]
    )
    accountant = NormalizedAccountant().compose(composed, 2)
    exact = Gaussian(math.sqrt(10 / 64 + 1 / 25))
    assert accountant.get_epsilon(DELTA) == pytest.approx(exact.epsilon(DELTA, Side.ABOVE), rel=1e-7)
    assert accountant.get_delta(1.0) == pytest.approx(float(exact.delta(1.0)), rel=1e-7)


def test_means_and_sums_together_cost_more_than_each() -> None:
    sums = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.0625, dp.GaussianDpEvent(1.0)), 64)
    alone = NormalizedAccountant().compose(event(), 64).get_epsilon(DELTA)
    both = NormalizedAccountant().compose(event(), 64).compose(sums).get_epsilon(DELTA)
    assert both > alone > NormalizedAccountant().compose(sums).get_epsilon(DELTA)


def test_without_noise_or_without_anything() -> None:
    assert NormalizedAccountant().get_epsilon(DELTA) == 0.0
    assert NormalizedAccountant().get_delta(1.0) == 0.0
    for nothing in (dp.NonPrivateDpEvent(), dp.GaussianDpEvent(0.0), event(noise_multiplier=0.0)):
        accountant = NormalizedAccountant().compose(nothing)
        assert accountant.get_epsilon(DELTA) == math.inf
        assert accountant.get_delta(1.0) == 1.0
    assert (
        NormalizedAccountant().compose(dp.PoissonSampledDpEvent(0.0, dp.GaussianDpEvent(1.0))).get_epsilon(DELTA) == 0.0
    )
    # checking what is supported changes nothing
    accountant = NormalizedAccountant()
    assert accountant.supports(dp.NonPrivateDpEvent())
    assert accountant.get_epsilon(DELTA) == 0.0


def test_unsupported_events_are_named() -> None:
    assert not NormalizedAccountant().supports(dp.LaplaceDpEvent(1.0))
    with pytest.raises(dp.UnsupportedEventError, match="dataset_size=-1: must be a whole number"):
        NormalizedAccountant().compose(event(dataset_size=-1))
    with pytest.raises(dp.UnsupportedEventError, match="sampling_probability"):
        NormalizedAccountant().compose(dp.SelfComposedDpEvent(event(sampling_probability=1.5), 2))
    with pytest.raises(InvalidInput, match="ADD_OR_REMOVE_ONE or REPLACE_SPECIAL"):
        NormalizedAccountant(dp.NeighboringRelation.REPLACE_ONE)


def test_where_the_size_is_public_the_floor_is_a_constant() -> None:
    public = NormalizedAccountant(dp.NeighboringRelation.REPLACE_SPECIAL)
    expected = nm.account(event(Denominator.CONSTANT).mechanism(), steps=64, delta=DELTA).guarantee.epsilon
    assert public.compose(event(), 64).get_epsilon(DELTA) == pytest.approx(expected)
    assert not public.supports(event(Denominator.BATCH))


def test_where_nothing_is_known_it_says_so() -> None:
    accountant = NormalizedAccountant().compose(event(Denominator.EXPECTED, dataset_size=0))
    with pytest.warns(UserWarning, match="no guarantee is known: dataset_size=0"):
        assert accountant.get_epsilon(DELTA) == math.inf


def test_calibration() -> None:
    """The noise found meets the target, and a little less noise does not."""

    def run(noise: float) -> object:
        return dp.SelfComposedDpEvent(event(Denominator.CONSTANT, noise_multiplier=noise), 100)

    noise = dp.calibrate_dp_mechanism(NormalizedAccountant, run, 2.0, DELTA, tol=1e-4)
    assert NormalizedAccountant().compose(run(noise)).get_epsilon(DELTA) <= 2.0
    assert NormalizedAccountant().compose(run(noise - 2e-4)).get_epsilon(DELTA) > 2.0


def test_the_missing_package_is_one_line() -> None:
    code = (
        "import sys; sys.modules['dp_accounting'] = None\n"
        "try:\n    import noisymean.integrations.dp_accounting\n"
        "except ImportError as fault:\n    print(fault)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "dp_accounting is not installed; install it with: pip install 'noisymean[accounting]'"
