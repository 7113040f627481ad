"""What a finished run tells: the interval against a closed form, against runs whose denominator is known, and where it must not say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from scipy.fft import idct
from scipy.stats import binom
from test_json import valid

import noisymean as nm
from finished_runs import Gradients, Settings, aligned, bent, least_squares, network, silent, weights_of
from noisymean.finished import series
from noisymean.finished.denominator import Doubt
from noisymean.finished.optimizers import Descent
from noisymean.finished.sizes import Sizes, sizes_of


def saved(folder: Path, weights: np.ndarray, cuts: Sequence[int] = (), kind: type = np.float64, first: int = 0) -> Path:
    """A checkpoint for each row, cut into tensors t0, t1, ..."""
    folder.mkdir(exist_ok=True)
    for step, row in enumerate(weights, start=first):
        parts = np.split(row.astype(kind), np.cumsum(cuts))
        held: dict[str, Any] = {f"t{i}": part for i, part in enumerate(parts)}
        np.savez(folder / f"step-{step}.npz", **held)
    return folder


def even(steps: int, parameters: int, scale: float) -> np.ndarray:
    """Gradients that look like noise of that scale to the last digit: orthogonal rows of equal length."""
    turned, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((parameters, steps)))
    return scale * np.sqrt(parameters) * turned.T


# --- the numbers themselves ----------------------------------------------------------------------------------------------

# Quantiles of a chi-square variable over its degrees of freedom, 40 digits of mpmath:
# findroot(lambda x: gammainc(nu / 2, 0, x * nu / 2, regularized=True) - p, (0.98, 1.02))
LOW_OF_30000 = 0.98178850950630665  # nu = 30,000, p = 0.0125
HIGH_OF_15000 = 1.0260601372540948  # nu = 15,000, p = 0.9875


def test_the_interval_has_its_closed_form() -> None:
    # 40 steps: 30 fast waves, two halves of 15; lr C G b / (c n) of the noise may come back, with b = c + 1
    found = nm.probe_run(-0.1 * even(40, 1000, 1 / 50), learning_rate=0.1, noise_multiplier=1000, max_grad_norm=1e-3)
    assert found.denominator is not None
    assert found.denominator.rest.degrees == 30_000
    assert found.denominator.bare == pytest.approx(50.0, rel=1e-12)
    back = 0.1 * 1e-3 * 10 / 1000 * (1 + 1 / found.denominator.at_least)
    assert found.denominator.at_least == pytest.approx(50 * np.sqrt(LOW_OF_30000 / (1 + back)), rel=1e-10)
    # batches add (c + 1) / (n sigma^2) < 1e-7 of the noise, and take as little of the degrees of freedom
    assert found.denominator.at_most == pytest.approx(50 * np.sqrt(HIGH_OF_15000 * (1 + back)), rel=1e-6)


def test_the_spread_of_the_batches_is_allowed_for() -> None:
    """A fixed point: c^2 = 50^2 (1 + (c + 1) / (n sigma^2)) apart from chance, at so little noise that nothing else matters."""
    found = nm.probe_run(-0.1 * even(400, 5000, 0.5 / 50), learning_rate=0.1, noise_multiplier=0.5, max_grad_norm=1)
    assert found.denominator is not None
    c, n = found.denominator.at_most, 5000
    kappa = (c + 1) / (n * 0.25)
    assert 50 * np.sqrt(1 + kappa) < c < 50 * np.sqrt(1 + kappa + 0.1 * 10 / n) * 1.01
    told = nm.probe_run(
        -0.1 * even(400, 5000, 0.5 / 50),
        learning_rate=0.1,
        noise_multiplier=0.5,
        max_grad_norm=1,
        mechanism="sgm",
        batch_size=500,
    )
    assert told.denominator is not None
    assert told.denominator.at_most == pytest.approx(50 * np.sqrt(1 + 500 / (n * 0.25)), rel=0.02)


def test_the_likelihood_is_flat_between_and_falls_outside() -> None:
    found = nm.probe_run(-0.1 * even(40, 1000, 1 / 50), learning_rate=0.1, noise_multiplier=1, max_grad_norm=1)
    low, high = found.interval or (0, 0)
    assert found.log_likelihood(50.5) == 0.0
    # the loss of a normal variable at its quantile of 1/80: 2.24^2 / 2
    assert found.log_likelihood(low) == pytest.approx(-2.51, abs=0.03)
    assert found.log_likelihood(high) < -1.5
    outside = [found.log_likelihood(c) for c in (low, 0.95 * low, 0.5 * low)]
    assert outside == sorted(outside, reverse=True)
    outside = [found.log_likelihood(c) for c in (high, 1.05 * high, 2 * high)]
    assert outside == sorted(outside, reverse=True)


# --- the recursion of torch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.7, "dampening": 0.4, "weight_decay": 0.01},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ],
)
def test_what_torch_was_handed_comes_back(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    handed = rng.standard_normal((40, 30))
    weight = torch.nn.Parameter(torch.from_numpy(rng.standard_normal(30)))
    optimizer = torch.optim.SGD([weight], lr=0.3, **options)
    rows = [weight.detach().numpy().copy()]
    for row in handed:
        weight.grad = torch.from_numpy(row.copy())
        optimizer.step()
        rows.append(weight.detach().numpy().copy())
    descent = Descent(learning_rate=0.3, **options)
    weights = np.array(rows)
    back = descent.gradients(np.diff(weights, axis=0), weights[:-1])
    # of Nesterov's buffer (mu / (1 + mu))^12 is left, in length
    tolerance = 1e-3 if options.get("nesterov") else 1e-12
    assert np.abs(back - handed[descent.lost :]).max() < tolerance * 10


# --- runs whose denominator is known -------------------------------------------------------------------------------------

PLAIN = Settings()
REGIMES = {
    "no gradients": PLAIN,
    "aligned": PLAIN,
    "aligned, large batches, little noise": Settings(rate=0.5, denominator=500, noise_multiplier=0.5),
    "least squares": Settings(noise_multiplier=0.5, learning_rate=1.0),
    "least squares and a quiet tensor": Settings(noise_multiplier=0.5),
    "network": Settings(learning_rate=0.5, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "network, Nesterov": Settings(learning_rate=0.5, momentum=0.9, nesterov=True, weight_decay=0.01),
    "network, every fifth": Settings(learning_rate=0.5, every=5, steps=24),
    "network, eight steps": Settings(learning_rate=0.5, steps=8),
    "a hill": Settings(records=500, rate=0.1, learning_rate=1.0, momentum=0.9),
}


def one(name: str, seed: int, folder: Path, confidence: float, kind: type = np.float64) -> nm.FinishedRun:
    """A run of that regime, and what it tells."""
    settings, rng = REGIMES[name], np.random.default_rng([7, seed])
    start = np.zeros(300)
    gradients: Gradients = silent
    cuts: list[int] = []
    if name.startswith("aligned"):
        gradients = aligned(300)
    elif name.startswith("least squares"):
        quiet = 600 if "quiet" in name else 0
        gradients = least_squares(300, quiet, settings, rng)
        start, cuts = np.zeros(300 + quiet), [300] if quiet else []
    elif name.startswith("network"):
        start, gradients = network(20, 12, 5, settings, rng)
    elif name == "a hill":
        gradients = bent(-0.3)
    weights = weights_of(settings, start, gradients, rng, kind)
    return nm.probe_run(saved(folder, weights, cuts, kind), confidence=confidence, **settings.told)


@pytest.mark.parametrize("name", REGIMES)
def test_the_interval_has_the_true_denominator(name: str, tmp_path: Path) -> None:
    runs, missed = 12, 0
    for seed in range(runs):
        low, high = one(name, seed, tmp_path / str(seed), 0.6, np.float32 if seed % 2 else np.float64).interval or (
            0,
            0,
        )
        missed += not low <= REGIMES[name].denominator <= high
    # each end is wrong with probability 0.1 at most: more misses than this come by chance once in a million
    assert missed <= binom.isf(1e-6, runs, 0.2)
    if name in ("no gradients", "aligned"):
        # and close: four standard deviations of the lower end, the spread of the batches at the upper one
        assert low > 50 * (1 - 4 / np.sqrt(2 * 0.75 * 40 * 300))
        assert high < 50 * np.sqrt(1 + 51 / 300) * 1.06


def test_gradients_that_swing_to_and_fro_are_no_noise() -> None:
    """As at a learning rate that is too large: the faster half of all waves has 8 % more than the noise, in every direction."""
    rng = np.random.default_rng(5)
    colour = np.repeat([1.0, np.sqrt(1.08)], [70, 30])[:, None]
    gradients = idct(colour * rng.standard_normal((100, 4000)), axis=0, norm="ortho") / 50
    found = nm.probe_run(-0.01 * gradients, learning_rate=0.01, noise_multiplier=2, max_grad_norm=0.5)
    low, high = found.interval or (0, 0)
    assert low <= 50 <= high
    # which the whole, taken as noise, would not have
    assert found.denominator is not None
    assert found.denominator._at_most(found.denominator.rest) < 50


# --- where it must not say -----------------------------------------------------------------------------------------------


def test_gradients_that_take_the_noise_back_are_noticed(tmp_path: Path) -> None:
    """A bowl of the same strength in all directions adds to the rest what no one can tell from noise."""
    settings = Settings(denominator=50, learning_rate=0.2)
    rng = np.random.default_rng(2)
    weights = weights_of(settings, np.zeros(1000), bent(2.0), rng)
    told: dict[str, Any] = {**settings.told, "max_grad_norm": 1.0}
    found = nm.probe_run(saved(tmp_path / "a", weights), **told)
    assert found.denominator is None
    assert found.doubt is Doubt.FOLLOWED
    assert found.interval is None
    assert "take back the noise" in str(found)
    valid("probe-run", json.loads(json.dumps({**found.to_dict(), "schema": 1})))


@pytest.mark.parametrize("times", [0.5, 3.0])
def test_a_tensor_with_a_learning_rate_of_its_own_is_noticed(times: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    updates = -0.1 / 50 * rng.standard_normal((40, 1000))
    updates[:, 600:] *= times
    weights = np.concatenate([np.zeros((1, 1000)), np.cumsum(updates, axis=0)])
    folder = saved(tmp_path / "a", weights, [600])
    told: dict[str, Any] = {"learning_rate": 0.1, "noise_multiplier": 4.0, "max_grad_norm": 0.25}
    found = nm.probe_run(folder, **told)
    quiet = "t1" if times < 1 else "t0"
    assert found.doubt is Doubt.UNEVEN
    assert found.quiet is not None
    assert found.quiet.tensor == quiet
    assert f"--leave-out {quiet}" in str(found)
    valid("probe-run", json.loads(json.dumps({**found.to_dict(), "schema": 1})))
    left = nm.probe_run(folder, leave_out=["t1"], **told)
    low, high = left.interval or (0, 0)
    assert low <= 50 <= high


@pytest.mark.parametrize("what", ["asgm", "schedule"])
def test_noise_that_varies_has_no_one_denominator(what: str) -> None:
    rng = np.random.default_rng(6)
    sizes = rng.binomial(1000, 0.05, 40) if what == "asgm" else np.linspace(40, 60, 40)
    updates = -0.1 / sizes[:, None] * rng.standard_normal((40, 2000))
    found = nm.probe_run(
        updates, learning_rate=0.1, noise_multiplier=1, max_grad_norm=1, batch_size=50, dataset_size=1000
    )
    assert found.doubt is Doubt.VARIES
    assert found.sure is None
    low, high = found.steps_from_to
    assert low == pytest.approx(sizes.min(), rel=0.1)
    assert high == pytest.approx(sizes.max(), rel=0.1)
    assert set(found.columns()) == {"single_steps_from", "single_steps_to"}
    with pytest.raises(nm.InvalidInput, match="nothing to draw"):
        found.plot()


@pytest.mark.parametrize(("directions", "batch"), [(5, None), (20, 10**6)])
def test_gradients_that_change_from_step_to_step_are_noticed(directions: int, batch: int | None) -> None:
    """In few directions, by more than batches explain; in many, even where batches might: what is in the others is anyone's guess."""
    rng = np.random.default_rng(15)
    basis = np.linalg.qr(rng.standard_normal((2000, directions)))[0].T
    gradients = 30.0 * rng.standard_normal((40, directions)) @ basis + rng.standard_normal((40, 2000))
    told: dict[str, Any] = {} if batch is None else {"mechanism": "sgm", "batch_size": batch}
    found = nm.probe_run(-0.1 / 50 * gradients, learning_rate=0.1, noise_multiplier=1, max_grad_norm=1, **told)
    assert found.doubt is Doubt.RESTLESS
    # no more than half of 30 waves are taken out
    assert f"in {min(directions, 15)} directions that stand out" in str(found)


def test_a_run_of_more_steps_than_can_be_held_is_read_in_parts() -> None:
    with pytest.raises(nm.InvalidInput, match="at most 5,000; give a part of the run"):
        nm.probe_run(np.ones((5001, 2)), learning_rate=1, noise_multiplier=1, max_grad_norm=1)


@pytest.mark.parametrize("name", ["adam", "AdamW", "rmsprop"])
def test_what_divides_the_scale_of_the_noise_out_is_refused(name: str) -> None:
    with pytest.raises(nm.InvalidInput, match="divides the scale of the noise out"):
        nm.probe_run(np.ones((9, 9)), optimizer=name, learning_rate=1, noise_multiplier=1, max_grad_norm=1)


# --- gaps, rounding, blocks ----------------------------------------------------------------------------------------------


def test_nothing_is_supposed_about_what_happened_in_a_gap(tmp_path: Path) -> None:
    """Between each two parts the expected gradient is another one altogether, and the answer is as if there were none at all."""
    told: list[float] = []
    for size in (0.0, 0.3):
        rng, folder = np.random.default_rng(8), tmp_path / str(size)
        for part in range(6):
            steady = size * rng.standard_normal(500)
            updates = -0.1 / 50 * (steady + rng.standard_normal((10, 500)))
            weights = np.concatenate([np.zeros((1, 500)), np.cumsum(updates, axis=0)]) + rng.integers(9, size=500)
            saved(folder, weights, first=100 * part)
        saved(folder, weights[:5], first=600)
        found = nm.probe_run(folder, learning_rate=0.1, noise_multiplier=4, max_grad_norm=0.25)
        assert (found.gradients, len(found.gaps), found.too_short) == (60, 6, 1)
        assert "has too few checkpoints in a row" in str(found)
        assert found.interval is not None
        told += found.interval
    assert told[:2] == pytest.approx(told[2:], rel=1e-9)
    assert told[0] <= 50 <= told[1]


def test_slow_drift_is_no_noise() -> None:
    """In every direction, and so little in each wave that none is seen to be larger than noise."""
    rng, n = np.random.default_rng(16), 4000
    colour = np.repeat([np.sqrt(1.15), 1.0], [15, 45])[:, None]
    gradients = idct(colour * rng.standard_normal((60, n)), axis=0, norm="ortho") / 50
    found = nm.probe_run(-0.1 * gradients, learning_rate=0.1, noise_multiplier=4, max_grad_norm=0.25)
    assert found.denominator is not None
    assert found.directions == 0
    assert found.denominator.bare == pytest.approx(50, rel=4 / np.sqrt(2 * 45 * n))


def test_the_usual_step_is_the_unit_and_an_odd_one_a_gap(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    weights = np.cumsum(rng.standard_normal((15, 100)), axis=0)
    for row, step in enumerate([*range(0, 140, 10), 133]):
        np.savez(tmp_path / f"{step:03}.npz", w=weights[row])
    found = nm.probe_run(tmp_path, learning_rate=1, noise_multiplier=1, max_grad_norm=1, every=10)
    assert found.gradients == 13
    assert [(gap.before, gap.after) for gap in found.gaps] == [("130.npz", "133.npz")]


def test_the_rounding_of_weights_is_inside_the_interval(tmp_path: Path) -> None:
    """Single precision, and updates of three last places: rounding adds 1 % to the variance, which is known to 0.2 %."""
    rng = np.random.default_rng(10)
    settings = Settings(learning_rate=3.4e-5, denominator=100, noise_multiplier=4, max_grad_norm=0.25, steps=60)
    weights = weights_of(settings, rng.uniform(1.0, 2.0, 20_000), silent, rng, np.float32)
    found = nm.probe_run(saved(tmp_path / "a", weights, kind=np.float32), **settings.told).denominator
    assert found is not None
    assert 0.01 < found.rounding / found.rest.variance < 0.05
    assert found.at_least <= 100 <= found.at_most
    # which it would not have without
    assert replace(found, rounding=0.0).at_most < 100


def test_weights_that_are_coarser_than_the_noise_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    weights = weights_of(Settings(learning_rate=0.05), rng.uniform(1.0, 2.0, 500), silent, rng, np.float16)
    with pytest.raises(nm.InvalidInput, match="lost in rounding"):
        nm.probe_run(
            saved(tmp_path / "a", weights, kind=np.float16), learning_rate=0.05, noise_multiplier=1, max_grad_norm=1
        )


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_run_is_read_in_blocks_of_any_size(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    held: dict[str, Any] = {name: np.zeros(shape) for name, shape in (("a", (3, 40)), ("b", (50, 2)), ("c", (1,)))}
    for step in range(12):
        held = {name: old + rng.standard_normal(old.shape) for name, old in held.items() if name in ("a", "b", "c")}
        held["n"], held["bn.running_mean"] = np.array([step]), rng.standard_normal(4)
        if kind == "npz":
            np.savez(tmp_path / f"{step}.npz", **held)
        else:
            save_file(held, tmp_path / f"{step}.safetensors")
    told: dict[str, Any] = {"learning_rate": 1.0, "noise_multiplier": 1.0, "max_grad_norm": 1.0}
    whole = nm.probe_run(tmp_path, **told)
    monkeypatch.setattr(series, "BLOCK_BYTES", 12 * 8 * 7)
    parts = nm.probe_run(tmp_path, **told)
    assert (whole.parameters, parts.parameters) == (221, 221)
    assert parts.interval == pytest.approx(whole.interval, rel=1e-12)
    assert {name: why.value for name, why in parts.left_out.items()} == {
        "n": "no floating-point numbers",
        "bn.running_mean": "a running statistic",
    }
    monkeypatch.setattr(series, "MOST_BYTES", 12 * 8 * 30)
    if kind == "npz":
        with pytest.raises(nm.InvalidInput, match=r"store it as \.safetensors"):
            nm.probe_run(tmp_path, **told)
    else:
        assert nm.probe_run(tmp_path, **told).interval == pytest.approx(whole.interval, rel=1e-12)


# --- numbers of records --------------------------------------------------------------------------------------------------


def by_hand(sizes: Sizes, low: float, high: float, most: int) -> set[int]:
    """Every N up to `most` whose denominator is inside, one after the other."""
    return {n for n in range(1, most) if (c := sizes.denominator_at(n)) is not None and low <= c <= high}


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ((None, 7, None), 5.5, 6.5),
        (("easgm", None, "3/10"), 5.9, 6.6),
        (("feasgm", None, "3/10"), 5.9, 7.2),
        (("feasgm", None, "1/3"), 6.1, 6.9),
    ],
)
def test_the_records_that_fit_are_all_that_fit(
    options: tuple[str | None, int | None, str | None], low: float, high: float
) -> None:
    sizes = sizes_of(*options)
    assert sizes is not None
    runs, _ = sizes.consistent(low, high)
    found = {n for first, last in runs for n in range(first, min(last, 1999) + 1)}
    assert found == by_hand(sizes, low, high, 2000)


def test_the_denominator_of_opacus_is_computed_as_opacus_does() -> None:
    """int(N * (1/L)) with L = int(1 / (1/ceil(N/b))): privacy_engine.py and data_loader.py of Opacus 1.x."""
    sizes = sizes_of("opacus-loader", 600, None)
    assert sizes is not None
    assert (sizes.denominator_at(60_000), sizes.denominator_at(60_001)) == (600, 594)
    for records in range(1, 4000, 7):
        rate = 1 / len(range(0, records, 600))
        assert sizes.denominator_at(records) == (int(records * rate) or None)


def test_it_says_how_far_it_looked_where_larger_ones_may_fit() -> None:
    small, large = sizes_of(None, 600, None), sizes_of(None, 100_000, None)
    assert small is not None
    assert large is not None
    # 60,001 records have 594; so have some more, but none of 1,667 batches
    assert small.consistent(593.5, 594.5)[1] is None
    assert small.consistent(599.5, 600.5)[1] == 10**6
    # of 11 batches and more none was tried, and 99,000 is what 100 batches may have
    assert large.consistent(98_990.0, 99_010.0)[1] == 10**6


def test_one_record_more_is_told_apart_and_nothing_is_named_that_is_excluded() -> None:
    rng = np.random.default_rng(13)
    updates = -0.5 * 5 / 600 * rng.standard_normal((60, 20_000))
    told: dict[str, Any] = {"learning_rate": 0.5, "noise_multiplier": 5.0, "max_grad_norm": 1.0, "batch_size": 600}
    found = nm.probe_run(updates, dataset_size=60_000, **told)
    assert found.sure is not None
    assert found.sure.asked.fits
    assert not found.sure.larger.fits
    assert (found.sure.larger.denominator, found.sure.smaller.denominator) == (594, 599)
    ratio = found.sure.ratio(found.sure.larger)
    # 1 % of c is 2 % of the variance; a normal loss at nu = 900,000 is about (nu/4) 0.02^2
    assert ratio is not None
    assert 60 < ratio < 100
    low, high = found.interval or (0, 0)
    for first, last in found.consistent:
        for records in (first, last):
            c = found.sizes.denominator_at(records) if found.sizes else None
            assert c is not None
            assert low <= c <= high
    other = nm.probe_run(updates, dataset_size=60_001, **told)
    assert other.sure is not None
    assert not other.sure.asked.fits
    assert "60,001 records do not fit this run" in str(other)
    valid("probe-run", json.loads(json.dumps({**found.to_dict(), "schema": 1})))


def test_a_wrong_constant_is_noticed_where_no_number_fits() -> None:
    updates = -0.5 * 5 / 600 * np.random.default_rng(14).standard_normal((40, 20_000))
    found = nm.probe_run(updates, learning_rate=0.5, noise_multiplier=5, max_grad_norm=0.9, batch_size=500)
    assert found.fits_nothing
    assert "No number of records fits" in str(found)
