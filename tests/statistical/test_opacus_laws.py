"""What the releases of Opacus really release, against the mechanism run in a few lines of numpy: the same law, on D and on D'.

The mechanism is written out here from its definition; the two samples are compared by the norm and by the optimal test's
score, which sees all that tells D from D'.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch", reason="needs torch: pip install 'noisymean[audit]'")

from noisymean.audit import distinguisher
from noisymean.targets.opacus import OpacusRelease, OpacusTarget
from noisymean.targets.opacus_releases import install
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.opacus_releases.setup import AtRate, Mode
from noisymean.targets.protocol import Neighbour
from noisymean.targets.records import GivenRows

DIMENSION, NOISE, BOUND, TRIALS = 100, 3.0, 0.1, 1500
# One false alarm in a million, over the comparisons of this file.
LEAST = 1e-6 / 64


def rows(count: int) -> np.ndarray:
    """Directions at random, longer than the bound."""
    found = np.random.default_rng(11).standard_normal((count, DIMENSION))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def run_by_hand(kind: str, size: int, rate: float, generator: np.random.Generator) -> np.ndarray:
    """(sum of the clipped gradients of a Poisson batch + noise) / denominator; 0 is replaced by 1."""
    members = generator.random((TRIALS, size)) < rate
    clipped = rows(size) * BOUND / (1 + 1e-6)
    total = members @ clipped + NOISE * BOUND * generator.standard_normal((TRIALS, DIMENSION))
    divisor = {
        "batch": np.maximum(members.sum(1), 1),
        "expected": np.full(TRIALS, size * rate),
        "floor": np.full(TRIALS, max(int(size * rate), 1)),
    }[kind]
    return total / divisor[:, None]


def slow(*case: object) -> object:
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("version", "poisson", "kind", "size", "mode"),
    [
        ("0.13.0", True, "batch", 4, Mode.REPLAY),
        ("0.15.0", True, "expected", 4, Mode.REPLAY),
        ("0.15.0", False, "batch", 4, Mode.REPLAY),
        ("1.6.0", True, "floor", 3, Mode.REPLAY),
        ("1.6.0", True, "floor", 3, Mode.FULL),
        slow("0.13.0", True, "batch", 4, Mode.FULL),
        slow("0.15.0", True, "expected", 4, Mode.FULL),
        slow("0.9.0", True, "batch", 4, Mode.REPLAY),
        slow("0.14.0", True, "expected", 4, Mode.REPLAY),
        slow("1.0.0", True, "floor", 3, Mode.REPLAY),
        slow("1.0.0", True, "floor", 3, Mode.FULL),
        slow("1.5.4", True, "floor", 3, Mode.REPLAY),
    ],
)
def test_a_release_has_the_law_of_its_mechanism(version: str, poisson: bool, kind: str, size: int, mode: Mode) -> None:
    try:
        if not install.is_installed(Release(version)):
            install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))
    target = OpacusTarget(
        library=OpacusRelease(version=version, poisson=poisson, mode=mode),
        dataset_size=size,
        records=GivenRows(tuple(tuple(row) for row in rows(size + 1).tolist())),
        sampling=AtRate(Fraction(1, 2)),
        noise_multiplier=NOISE,
        max_grad_norm=BOUND,
    )
    test = distinguisher("likelihood-ratio", target)
    for number, neighbour in enumerate(Neighbour):
        generator = np.random.default_rng([20, number])
        real = target.release(neighbour, generator, TRIALS)[:, 0]
        model = run_by_hand(kind, size + number, 0.5, generator)
        scores = [test.features(sample[:, None], generator)[:, 0] for sample in (real, model)]
        assert stats.ks_2samp(*scores).pvalue > LEAST
        assert stats.ks_2samp(np.linalg.norm(real, axis=1), np.linalg.norm(model, axis=1)).pvalue > LEAST
        # the comparison has power: the other dataset's law is refused
        other = run_by_hand(kind, size + 1 - number, 0.5, generator)
        away = test.features(other[:, None], generator)[:, 0]
        if kind != "batch":
            assert stats.ks_2samp(scores[0], away).pvalue < LEAST
