"""The answer against N: where the steps are, by going through every N; what is said at them and between them."""

from __future__ import annotations

import pytest

import noisymean as nm
from noisymean.mechanisms import Mechanism
from noisymean.mechanisms.base import DatasetDenominator
from noisymean.size_curves import MOST, SizeCurve, size_curve, sizes_of

LOADER = nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0)
FLOOR = nm.FEASGM(dataset_size=140_250, dimension=26_010, sample_rate="1/200", noise_multiplier=10.0)


def steps_near(mechanism: DatasetDenominator, size: int, reach: int) -> list[int]:
    """Every M at which rate or denominator are others at M + 1, one M after the other."""
    runs = {at: (mechanism.rate_at(at), mechanism.denominator_at(at)) for at in range(size - reach, size + reach + 2)}
    return [at for at in range(size - reach, size + reach + 1) if runs[at] != runs[at + 1]]


@pytest.mark.parametrize(
    ("mechanism", "reach"),
    [
        (LOADER, 700),
        (FLOOR, 900),
        (nm.FEASGM(dataset_size=90, dimension=10, sample_rate="3/7", noise_multiplier=1.0), 20),
        (nm.OpacusLoader(dataset_size=50_000, batch_size=4_096, dimension=10, noise_multiplier=1.0), 60),
    ],
    ids=lambda value: str(value)[:12],
)
def test_the_nearest_steps_are_found(mechanism: DatasetDenominator, reach: int) -> None:
    size = mechanism.dataset_size
    every = steps_near(mechanism, size, reach)
    below, above = [at for at in every if at < size][-3:], [at for at in every if at >= size][:3]
    found = sizes_of(mechanism)
    assert found is not None
    sizes, stepped = found
    assert stepped
    assert len(below) == len(above) == 3
    assert {*below, *above, size} <= set(sizes)
    # no other step hides between those
    assert set(every) & set(range(sizes[0], sizes[-1] + 1)) == {*below, *above}
    assert len(sizes) <= MOST


@pytest.mark.parametrize(
    "mechanism",
    [
        nm.EASGM(dataset_size=9, dimension=10, sample_rate="1/2", noise_multiplier=1.0),
        nm.ASGM(dataset_size=60_000, dimension=10, sample_rate="1/2", noise_multiplier=1.0),
        # floor(N) moves with every record
        nm.FEASGM(dataset_size=100, dimension=10, sample_rate="1", noise_multiplier=1.0),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_what_moves_with_every_record_is_looked_at_far_away(mechanism: Mechanism) -> None:
    found = sizes_of(mechanism)
    assert found is not None
    sizes, stepped = found
    size = mechanism.dataset_size
    assert size is not None
    assert not stepped
    assert sizes[0] <= 0.6 * size
    assert sizes[-1] == 2 * size
    assert size in sizes


def test_where_n_does_not_come_into_it_there_is_nothing() -> None:
    assert sizes_of(nm.SGM(sample_rate="1/2", noise_multiplier=1.0, dataset_size=100, dimension=5)) is None
    shuffled = nm.EASGM(
        dataset_size=100, dimension=5, sample_rate="1/10", noise_multiplier=1.0, sampling="shuffle", batch_size=10
    )
    assert sizes_of(shuffled) is None


def test_teeth_leak_and_between_them_the_claim_holds() -> None:
    """floor(N/200) steps at 199 mod 200: with 26,010 numbers the scale of the noise shows there, and nowhere else."""
    seen: list[nm.Account] = []
    found = size_curve(FLOOR, steps=200, delta=1e-5, progress=seen.append)
    assert isinstance(found, SizeCurve)
    assert [answer for _, answer in found.answers] == seen
    for size, answer in found.answers:
        assert answer.steps == 200
        assert answer.verdict == ("violated" if size % 200 == 199 else "holds"), size
        assert answer.mechanism.dataset_size == size
    assert {size % 200 == 199 for size, _ in found.answers} == {True, False}


def test_too_few_records_are_left_out() -> None:
    tiny = nm.EASGM(dataset_size=1, dimension=5, sample_rate="1/2", noise_multiplier=1.0)
    found = size_curve(tiny, steps=1, epsilon=1.0)
    assert found is not None
    assert [size for size, _ in found.answers] == [1, 2]
