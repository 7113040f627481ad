"""The four methods: their models and releases, what their updates are divided by, and what may be asked of an Opacus target."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisymean as nm

torch = pytest.importorskip("torch", reason="needs torch: pip install 'noisymean[audit]'")

from noisymean.errors import InvalidInput  # noqa: E402
from noisymean.paper.dpsur import Denominator, Dpsur, Selection  # noqa: E402
from noisymean.paper.methods import METHODS, dpsur_method, method_named, opacus_method  # noqa: E402
from noisymean.paper.photographs import Photographs  # noqa: E402
from noisymean.targets import registry  # noqa: E402
from noisymean.targets.opacus import OpacusRelease, OpacusTarget, release_named  # noqa: E402
from noisymean.targets.opacus_releases import install  # noqa: E402
from noisymean.targets.opacus_releases.releases import VERSIONS, Clipping, GradSample, Release  # noqa: E402
from noisymean.targets.opacus_releases.setup import AtRate, Mode, Reduction, Shuffled, ThroughLoader  # noqa: E402
from noisymean.targets.protocol import Neighbour, Structure, Target  # noqa: E402
from noisymean.targets.records import GivenRows, OnOneAxis  # noqa: E402

FIXTURES = str(Path(__file__).parents[1] / "fixtures")
DATASETS = ("mnist", "fashion-mnist", "cifar10")
ROWS = GivenRows(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.6, 0.8, 0.0), (0.0, 0.6, 0.8)))


def target(version: str = "1.6.0", **settings: Any) -> OpacusTarget:
    names = {one.name for one in fields(OpacusRelease)}
    options = {name: settings.pop(name) for name in names if name in settings}
    defaults: dict[str, Any] = {
        "library": OpacusRelease(version=version, **options),
        "dataset_size": 4,
        "records": ROWS,
        "sampling": AtRate(Fraction(1, 2)),
        "noise_multiplier": 10.0,
    }
    return OpacusTarget(**{**defaults, **settings})


def at_hand(version: str) -> None:
    try:
        if not install.is_installed(Release(version)):
            install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))


def round_trip(what: Target) -> Target:
    configuration: Mapping[str, Any] = json.loads(json.dumps(what.configuration(), allow_nan=False))
    return registry.rebuilt(configuration)


@pytest.mark.parametrize(
    ("version", "settings", "expected"),
    [
        ("0.9.0", {}, nm.ASGM),
        ("0.13.0", {}, nm.ASGM),
        ("0.15.0", {}, nm.EASGM),
        ("0.15.0", {"poisson": False}, nm.ASGM),
        ("1.0.0", {}, nm.FEASGM),
        ("1.6.0", {"sampling": ThroughLoader(3)}, nm.OpacusLoader),
        ("1.6.0", {"reduction": Reduction.SUM}, nm.SGM),
        ("0.9.1", {"reduction": Reduction.SUM}, type(None)),
        ("0.10.0", {"reduction": Reduction.SUM}, nm.SGM),
        ("0.14.0", {"reduction": Reduction.SUM, "mode": Mode.FULL}, type(None)),
        ("1.6.0", {"sampling": Shuffled(2)}, type(None)),
        # b | N: adding a record moves the rate, which no sum makes up for
        ("1.6.0", {"sampling": ThroughLoader(2), "reduction": Reduction.SUM}, type(None)),
    ],
)
def test_which_mechanism_a_release_is(version: str, settings: dict[str, Any], expected: type) -> None:
    assert type(target(version, **settings).mechanism) is expected


def test_adaptive_clipping_is_known_by_its_inflated_noise() -> None:
    mechanism = target(clipping=Clipping.ADAPTIVE).mechanism
    assert mechanism is not None
    assert mechanism.noise_multiplier == pytest.approx((1 / 100 - 1 / 200**2) ** -0.5)


@pytest.mark.parametrize(
    "what",
    [
        target(),
        target("0.15.0", poisson=False, steps=3, label="mine"),
        target(sampling=ThroughLoader(2), mode=Mode.FULL, reduction=Reduction.SUM),
        target(records=OnOneAxis(30, Structure.OPPOSED), dataset_size=10**6, sampling=ThroughLoader(500)),
        opacus_method("dp-feta", "cifar10", draws=4, release="1.1.3"),
        dpsur_method("mnist", denominator=Denominator.OTHER_BATCH, selection=Selection()),
        dpsur_method("cifar10"),
    ],
    ids=lambda what: what.name,
)
def test_a_target_is_rebuilt_from_its_configuration(what: Target) -> None:
    assert round_trip(what) == what
    assert round_trip(what).dimension == what.dimension


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"version": "1.7.0"}, "0.9.0 to 1.6.0"),
        ({"version": "1.1.3", "clipping": Clipping.ADAPTIVE}, "flat, per_layer"),
        ({"version": "1.1.3", "grad_sample": GradSample.FUNCTORCH, "mode": Mode.FULL}, "hooks"),
        ({"grad_sample": GradSample.FUNCTORCH}, "full"),
        ({"grad_sample": GradSample.GHOST, "mode": Mode.FULL}, "classifier"),
        ({"version": "0.15.0", "sampling": ThroughLoader(2)}, ">= 1.0.0"),
        ({"version": "0.15.0", "sampling": AtRate(Fraction(1))}, "< 1"),
        ({"sampling": AtRate(Fraction(1, 5))}, "floor"),
        ({"sampling": ThroughLoader(5)}, "from 1 to 4"),
        ({"poisson": False}, "0.14.0 and 0.15.0"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
        ({"steps": 0}, "steps"),
        ({"dataset_size": 3}, "one less"),
        ({"records": OnOneAxis(5, Structure.ZERO), "mode": Mode.FULL}, "replay"),
    ],
)
def test_refusals(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as fault:
        target(**settings)
    assert "\n" not in str(fault.value)


def test_names_of_releases() -> None:
    assert release_named("opacus==0.9.1") == "0.9.1"
    assert release_named("opacus") in VERSIONS
    for wrong in ("opacus==", "opacus==9", "torch"):
        with pytest.raises(InvalidInput, match="opacus"):
            release_named(wrong)


def test_the_claim_is_that_of_the_noisy_sum() -> None:
    expected = nm.claimed(nm.SGM(sample_rate=0.5, noise_multiplier=10.0))
    for what in (target(), target("0.15.0"), dpsur_method("mnist", sample_rate=Fraction(1, 2))):
        assert float(what.claim()(0.1)) == pytest.approx(float(expected(0.1)))


def test_a_release_is_reproducible_and_known() -> None:
    what = target(steps=2, max_grad_norm=0.1)
    first, again = (what.release(Neighbour.LARGER, np.random.default_rng(3), 4).copy() for _ in range(2))
    assert first.shape == (4, 2, 3)
    np.testing.assert_array_equal(first, again)
    known = what.known()
    assert known is not None
    assert known.gradients is not None
    # rows of norm 1, scaled by 0.1 / (1 + 1e-6)
    np.testing.assert_allclose(known.gradients, 0.1 * np.array(ROWS.rows), rtol=2e-6)


def test_the_round_number_case() -> None:
    """60,000 records at b = 600 divide by 600, 60,001 by 594: the scale of the noise says which."""
    what = target(
        records=OnOneAxis(26_010, Structure.ALIGNED),
        dataset_size=60_000,
        sampling=ThroughLoader(600),
        noise_multiplier=1.0,
    )
    assert isinstance(what.mechanism, nm.OpacusLoader)
    assert what.mechanism.runs == ((0.01, 600), (1 / 101, 594))
    for neighbour, denominator in ((Neighbour.SMALLER, 600), (Neighbour.LARGER, 594)):
        rows = what.release(neighbour, np.random.default_rng(1), 6)[:, 0]
        # 156,054 numbers: 0.18 % each standard error, and the two differ by 1 %
        assert 0.1 / rows[:, 1:].std() == pytest.approx(denominator, rel=0.0045)
        # along the first axis: about 600 gradients of norm C, over the denominator
        assert abs(rows[:, 0].mean() - 0.1 * 600 / denominator) < 5 * 0.1 * math.sqrt(600 / 6) / 600


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", list(METHODS))
def test_sizes_of_the_methods(name: str, dataset: str) -> None:
    expected = {
        ("dpsgd-hf", 1): 26_010, ("dpsur", 1): 26_010, ("dp-feta", 1): 1_485_217, ("privimage", 1): 1_485_217,
        ("dpsgd-hf", 3): 550_570, ("dpsur", 3): 550_570, ("dp-feta", 3): 1_486_947, ("privimage", 3): 1_754_499,
    }  # fmt: skip
    what: Target = dpsur_method(dataset) if name == "dpsur" else opacus_method(name, dataset)
    assert what.dimension == expected[name, 3 if dataset == "cifar10" else 1]


def test_releases_of_the_methods() -> None:
    for name in ("dpsgd-hf", "dp-feta", "privimage"):
        audited = opacus_method(name, "mnist")
        assert type(audited.mechanism) is nm.EASGM
        assert audited.claimed_rate == Fraction(1, 200)
    pinned = {
        name: opacus_method(name, "mnist", release=METHODS[name].pinned).mechanism for name in ("dpsgd-hf", "dp-feta")
    }
    assert type(pinned["dpsgd-hf"]) is nm.ASGM
    assert type(pinned["dp-feta"]) is nm.FEASGM
    with pytest.raises(InvalidInput, match="dpsur_method"):
        opacus_method("dpsur", "mnist")
    with pytest.raises(InvalidInput, match="dpsgd-hf"):
        method_named("dp-sgd")


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("name", "dataset", "version"),
    [
        ("dpsgd-hf", "mnist", "0.15.0"),
        ("dpsgd-hf", "cifar10", "0.13.0"),
        ("privimage", "cifar10", "0.15.0"),
        pytest.param("dp-feta", "fashion-mnist", "1.0.2", marks=pytest.mark.slow),
        pytest.param("dp-feta", "mnist", "1.1.3", marks=pytest.mark.slow),
    ],
)
def test_methods_run_on_real_images(name: str, dataset: str, version: str) -> None:
    """The noise, which dwarfs all else, has the scale sigma C over the denominator."""
    at_hand(version)
    what = opacus_method(name, dataset, release=version, data_dir=FIXTURES)
    rows = what.release(Neighbour.LARGER, np.random.default_rng(1), 3)[:, 0]
    assert rows.shape == (3, what.dimension)
    found = 1.0 / rows.std(1)
    if version == "0.15.0":
        np.testing.assert_allclose(found, 5 / 200, rtol=6 / math.sqrt(2 * what.dimension))
    elif version == "0.13.0":
        np.testing.assert_allclose(found, np.round(found), rtol=6 / math.sqrt(2 * what.dimension))
    else:
        np.testing.assert_allclose(found, 2, rtol=6 / math.sqrt(2 * what.dimension))


# ---- DPSUR ----


def dpsur(**settings: Any) -> Dpsur:
    what = dpsur_method("mnist", noise_multiplier=1e-5, data_dir=FIXTURES, sample_rate=Fraction(1, 2))
    return replace(what, **settings)


def members(what: Dpsur, neighbour: Neighbour, trials: int) -> np.ndarray:
    """Coefficients of the clipped gradients in each update, found by least squares: the noise is negligible."""
    known = replace(what, denominator=Denominator.BATCH, selection=None).known()
    assert known is not None
    assert known.gradients is not None
    rows = what.release(neighbour, np.random.default_rng(1), trials)[:, 0]
    return np.linalg.lstsq(known.gradients.T, rows.T, rcond=None)[0].T


def test_dpsur_as_its_paper_says_divides_by_the_batch() -> None:
    for row in members(dpsur(), Neighbour.LARGER, 40):
        batch = round(float((row > 0.1).sum()))
        np.testing.assert_allclose(row[row > 0.1], 1 / max(batch, 1), rtol=1e-2)


def test_dpsur_as_its_code_does_divides_by_another_batch() -> None:
    what = dpsur(denominator=Denominator.OTHER_BATCH)
    pairs = []
    for row in members(what, Neighbour.LARGER, 400):
        present = row > 0.1
        if present.any():
            divisor = 1 / float(row[present].mean())
            np.testing.assert_allclose(divisor, round(divisor), rtol=1e-2)
            pairs.append((int(present.sum()), round(divisor)))
    batch, other = np.array(pairs).T
    # |B'| is Binomial(5, 1/2), 2 in place of 0, whatever |B| is
    assert abs(np.corrcoef(batch, other)[0, 1]) < 5 / math.sqrt(len(pairs))
    assert abs(other.mean() - (2.5 + 2 / 32)) < 5 * math.sqrt(1.25 / len(pairs))
    assert what.known() is None


def test_dpsur_s_code_takes_no_step_on_an_empty_batch() -> None:
    rows = dpsur(denominator=Denominator.OTHER_BATCH).release(Neighbour.SMALLER, np.random.default_rng(1), 300)[:, 0]
    still = (~rows.any(1)).mean()
    assert abs(still - 1 / 16) < 5 * math.sqrt(1 / 16 * 15 / 16 / 300)


def test_selective_release_keeps_some_updates_and_drops_others() -> None:
    what = dpsur(noise_multiplier=1.0, selection=Selection())
    rows = what.release(Neighbour.LARGER, np.random.default_rng(1), 60)[:, 0]
    kept = rows.any(1).mean()
    assert 0.05 < kept < 0.95
    assert what.known() is None
    # with a threshold that all pass, nothing is dropped; with one that none passes, everything
    for threshold, share in ((1e6, 1.0), (-1e6, 0.0)):
        always = replace(what, selection=Selection(threshold=threshold))
        assert always.release(Neighbour.LARGER, np.random.default_rng(1), 10)[:, 0].any(1).mean() == share


def test_dpsur_is_reproducible() -> None:
    what = dpsur(selection=Selection(), denominator=Denominator.OTHER_BATCH)
    first, again = (what.release(Neighbour.LARGER, np.random.default_rng(9), 5) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_images_that_are_not_there_are_named(tmp_path: Path) -> None:
    what = replace(dpsur(), records=Photographs(dataset="mnist", model="cnn-grey", data_dir=str(tmp_path)))
    with pytest.raises(InvalidInput, match="MNIST/raw"):
        what.release(Neighbour.LARGER, np.random.default_rng(1), 1)
    with pytest.raises(InvalidInput, match="all that MNIST has"):
        replace(dpsur(), dataset_size=50).release(Neighbour.LARGER, np.random.default_rng(1), 1)
