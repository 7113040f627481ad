"""The claim that an audit of Opacus judges is what the accountant of that release is told, read off the accountant itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("opacus", reason="needs opacus: pip install 'noisymean[audit]'")

from noisymean.errors import InvalidInput
from noisymean.targets.opacus import OpacusRelease, OpacusTarget
from noisymean.targets.opacus_releases import install
from noisymean.targets.opacus_releases.releases import VERSIONS, Era, Release
from noisymean.targets.opacus_releases.setup import AtRate, Sampling, Shuffled, ThroughLoader
from noisymean.targets.protocol import Structure
from noisymean.targets.records import OnOneAxis
from opacus_told import told

# A loader whose length floating point does not give back (93 -> 92, 99 -> 98), ones that it does, and b that does not divide N.
SIZES = [(930, 10), (985, 10), (935, 10), (1007, 64), (60, 60)]
ASKED = [(size, batch, poisson) for size, batch in SIZES for poisson in (True, False)]
SCRIPT = Path(__file__).parents[1] / "opacus_told.py"
MAKE_PRIVATE = [version for version in VERSIONS if Release(version).era is Era.MAKE_PRIVATE]


def target(version: str, size: int, sampling: Sampling) -> OpacusTarget:
    return OpacusTarget(
        library=OpacusRelease(version=version, device="cpu"),
        dataset_size=size,
        records=OnOneAxis(5, Structure.ZERO),
        sampling=sampling,
        noise_multiplier=1.0,
    )


def check(version: str, found: list[float]) -> None:
    for (size, batch, poisson), rate in zip(ASKED, found, strict=True):
        sampling = ThroughLoader(batch) if poisson else Shuffled(batch)
        assert float(target(version, size, sampling).claimed_rate) == rate, (size, batch, poisson)


def test_the_installed_release_is_told_this_rate() -> None:
    check(install.installed_version(), told(ASKED))


@pytest.mark.slow
@pytest.mark.parametrize("version", MAKE_PRIVATE)
def test_every_release_with_make_private_is_told_this_rate(version: str) -> None:
    try:
        folder = install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(ASKED)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(version, json.loads(done.stdout))


def test_the_case_that_was_seen() -> None:
    """930 records in batches of 10: the sampler draws at 1/93, the accountant is told 1/92."""
    audited = target("1.6.0", 930, ThroughLoader(10))
    assert audited.claimed_rate == Fraction(1, 92)
    # SGM at that rate: one round claims delta(0) = q (2 Phi(1/2) - 1)
    assert float(audited.claim().delta(0.0)) == pytest.approx(0.3829249225480262 / 92, rel=1e-9)
    assert audited.mechanism is not None
    assert float(audited.mechanism.rate) == 1 / 93


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in MAKE_PRIVATE])
def test_an_engine_of_0_x_is_told_the_rate_itself(version: str) -> None:
    """`batch_size / sample_size`, or the `sample_rate` that it is given; there is no loader in between."""
    assert target(version, 930, Shuffled(10)).claimed_rate == Fraction(10, 930)
    assert target(version, 935, Shuffled(10)).claimed_rate == Fraction(10, 935)
    assert target(version, 930, AtRate(Fraction(1, 93))).claimed_rate == Fraction(1, 93)
    with pytest.raises(InvalidInput, match="to sample through make_private"):
        target(version, 930, ThroughLoader(10))
