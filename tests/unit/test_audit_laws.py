"""The likelihood of a known release, against densities written out in all n dimensions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import ks_2samp, multivariate_normal

import noisymean as nm
from noisymean.audit.laws import KnownPair
from noisymean.audit.reference import closed_form, draws_for, reference, weighted
from noisymean.errors import Undefined
from noisymean.mechanisms import Mechanism, PublicRate
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known, Neighbour, Structure
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic

MECHANISMS = {
    "sgm": lambda n, N, q: nm.SGM(dataset_size=N, dimension=n, sample_rate=q, noise_multiplier=1.3),
    "easgm": lambda n, N, q: nm.EASGM(dataset_size=N, dimension=n, sample_rate=q, noise_multiplier=1.3),
    "asgm": lambda n, N, q: nm.ASGM(dataset_size=N, dimension=n, sample_rate=q, noise_multiplier=1.3),
    "feasgm": lambda n, N, q: nm.FEASGM(dataset_size=N, dimension=n, sample_rate=q, noise_multiplier=1.3),
    "opacus-loader": lambda n, N, q: nm.OpacusLoader(dataset_size=N, batch_size=2, dimension=n, noise_multiplier=1.3),
}
SIDES = list(Neighbour)


def plain_settings(mechanism: Mechanism, size: int) -> tuple[float, float | None]:
    """(rate, denominator) of a dataset of `size` records, from the definitions."""
    if isinstance(mechanism, nm.OpacusLoader):
        length = -(-size // mechanism.batch_size)
        return 1 / length, int(size * (1 / int(1 / (1 / length))))
    q = mechanism.q
    if isinstance(mechanism, nm.EASGM):
        return q, size * q
    if isinstance(mechanism, nm.FEASGM):
        return q, max(int(size * mechanism.rate), 1)
    return q, (1.0 if isinstance(mechanism, nm.SGM) else None)


def plain_log_density(mechanism: Mechanism, bound: float, rows: Array, x: Array) -> float:
    """log density of one round's output x, every batch written out."""
    rate, denominator = plain_settings(mechanism, len(rows))
    total = 0.0
    for batch in product((0, 1), repeat=len(rows)):
        size = sum(batch)
        divisor = denominator if denominator is not None else max(size, 1)
        mean = sum((b * row for b, row in zip(batch, rows, strict=False)), start=np.zeros(x.size)) / divisor
        scale = mechanism.noise_multiplier * bound / divisor
        weight = rate**size * (1 - rate) ** (len(rows) - size)
        total += weight * multivariate_normal.pdf(x, mean, scale**2 * np.eye(x.size))
    return np.log(total)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("kind", list(Gradients))
def test_log_ratio_is_that_of_the_densities(name: str, kind: Gradients) -> None:
    n, count = 5, 3
    mechanism = MECHANISMS[name](n, count, "2/5")
    target = Synthetic(mechanism=mechanism, gradients=kind, max_grad_norm=0.7, steps=2, gradient_seed=4)
    known = target.known()
    rows = known.gradients
    if rows is None:
        axis = 0.7 * np.eye(n)[0]
        rows = np.array([known.structured.datasets.shared * axis] * count + [known.structured.datasets.new * axis])
    outputs = target.release(Neighbour.LARGER, np.random.default_rng(3), 6)
    pair = KnownPair(known)
    found = pair.log_ratio(pair.statistics(outputs), 2)
    for ratio, release in zip(found, outputs, strict=False):
        expected = sum(
            plain_log_density(mechanism, 0.7, rows, x) - plain_log_density(mechanism, 0.7, rows[:-1], x)
            for x in release
        )
        assert ratio == pytest.approx(expected, abs=1e-9)


def test_structured_rows_may_be_written_out() -> None:
    mechanism = MECHANISMS["asgm"](40, 6, "0.7")
    target = Synthetic(mechanism=mechanism, gradients=Gradients.OPPOSED, max_grad_norm=0.1)
    axis = 0.1 * np.eye(40)[0]
    written = Known(mechanism, 0.1, gradients=np.array([axis] * 6 + [-axis]))
    outputs = target.release(Neighbour.SMALLER, np.random.default_rng(1), 20)
    one, other = KnownPair(target.known()), KnownPair(written)
    assert one.log_ratio(one.statistics(outputs), 1) == pytest.approx(
        other.log_ratio(other.statistics(outputs), 1), abs=1e-9
    )


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("kind", [Gradients.RANDOM, Gradients.OPPOSED])
@pytest.mark.parametrize("neighbour", SIDES)
@pytest.mark.parametrize("n", [2, 30])
def test_simulated_statistics_follow_the_law_of_real_releases(
    name: str, kind: Gradients, neighbour: Neighbour, n: int
) -> None:
    """Also where there are more gradients than dimensions. A p-value below 1e-6 would be no accident."""
    target = Synthetic(mechanism=MECHANISMS[name](n, 4, "0.6"), gradients=kind, max_grad_norm=0.5)
    pair = KnownPair(target.known())
    real = pair.statistics(target.release(neighbour, np.random.default_rng(5), 4000))
    simulated = pair.sample(neighbour, np.random.default_rng(6), 4000)
    assert real.shape == simulated.shape
    for column in range(real.shape[1]):
        assert ks_2samp(real[:, column], simulated[:, column]).pvalue > 1e-6
    ratios = (pair.log_ratio(statistics, 1) for statistics in (real, simulated))
    assert ks_2samp(*ratios).pvalue > 1e-6


@pytest.mark.parametrize("kind", [nm.EASGM, nm.ASGM, nm.FEASGM])
@pytest.mark.parametrize("structure", list(Structure))
def test_simulation_agrees_with_the_closed_form(kind: type[PublicRate], structure: Structure) -> None:
    mechanism = kind(dataset_size=5, dimension=60, sample_rate="0.5", noise_multiplier=2.0)
    known = Known(mechanism, 1.0, structured=structure)
    exact = closed_form(known)
    truth = reference(known, 1, np.random.default_rng(2))
    simulated = weighted(*truth.losses)
    if exact is None:
        assert truth.standard_error > 0.0
        return
    assert truth.closed_form
    assert simulated.advantage() == pytest.approx(exact.advantage(), abs=0.004)
    alpha = np.array([0.01, 0.1, 0.5, 0.9])
    assert simulated(alpha) == pytest.approx(exact(alpha), abs=0.006)


def test_one_record_more_than_can_be_enumerated_is_refused() -> None:
    mechanism = nm.EASGM(dataset_size=17, dimension=30, sample_rate="0.5", noise_multiplier=1.0)
    with pytest.raises(Undefined, match="dataset_size=17: must be <= 16"):
        KnownPair(Synthetic(mechanism=mechanism).known())


def test_any_number_of_structured_records() -> None:
    mechanism = nm.EASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0)
    target = Synthetic(mechanism=mechanism, gradients=Gradients.ZERO)
    truth = reference(target.known(), 1, np.random.default_rng(1))
    assert weighted(*truth.losses).advantage() == pytest.approx(truth.curve.advantage(), abs=3e-4)


def test_a_long_simulation_has_fewer_draws_and_a_hopeless_one_none() -> None:
    # N = 16, the largest that is enumerated: 2^17 batches of D', one round
    assert draws_for(1, 2**17) == 4_000
    # N = 10 over 1,000 rounds: fewer, and no more than two thousand million evaluations
    fewer = draws_for(1_000, 2**11)
    assert 400 <= fewer < 4_000
    assert 2 * 1_000 * 2**11 * fewer <= 2e9
    with pytest.raises(Undefined, match="few enough for a simulation"):
        draws_for(1_000, 2**17)
