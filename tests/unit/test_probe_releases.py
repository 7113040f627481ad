"""The prober on the real releases: every row of what is known about them, and nothing on the twin that has a constant denominator.

`make test` probes three releases, `make test-all` all 26.
"""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'noisymean[audit]'")

from noisymean.probe.finding import RateLaw, Sampling, Severity
from noisymean.probe.laws import Kind
from noisymean.probe.prober import observe
from noisymean.targets.opacus import OpacusRelease
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.setup import Reduction
from noisymean.targets.protocol import Setting
from probing import RELEASES, available, found, leaks, said

SUMS_THAT_ARE_NONE = ("0.9.0", "0.9.1", "0.14.0")


def expected(version: str) -> Kind:
    """The table of the notes, written out again."""
    era = Release(version).era
    return {Era.MAKE_PRIVATE: Kind.LOADER, Era.POISSON_FLAG: Kind.EASGM}.get(era, Kind.ASGM)


@pytest.mark.parametrize("version", RELEASES)
def test_the_mean_of_every_release(version: str) -> None:
    finding = found(version)
    assert finding.kind is expected(version)
    assert finding.noise.shares_denominator
    assert finding.noise.scale == pytest.approx(1.0, abs=0.02)
    assert finding.clipping.bound == 1.0
    assert finding.clipping.scaled_before is None
    assert finding.clipping.sensitivity == pytest.approx(1.0, abs=1e-3)
    assert finding.rates.sampling is Sampling.POISSON
    assert finding.rates.moves_with_size == (finding.kind is Kind.LOADER)
    assert leaks(finding)


@pytest.mark.parametrize("version", [v for v in RELEASES if getattr(v, "values", (v,))[0] not in SUMS_THAT_ARE_NONE])
def test_the_sum_of_every_release_is_the_twin_without_a_finding(version: str) -> None:
    """But for the rate: through a data loader it moves with N whatever the sum is divided by."""
    finding = found(version, reduction=Reduction.SUM)
    assert finding.kind is Kind.SGM
    assert finding.denominator == "1, a constant"
    assert finding.clipping.sound
    through_loader = expected(version) is Kind.LOADER
    assert finding.rates.moves_with_size == through_loader
    assert [words for words in leaks(finding) if "sampling rate" not in words] == []
    assert bool(leaks(finding)) == through_loader
    # a release that stops at an empty batch tells that it was empty
    stops = finding.empty_batch.startswith("raises")
    assert [words.startswith("an empty batch raises") for words in said(finding, Severity.FAULT)] == [True] * stops
    assert bool(finding.doubts) == stops


@pytest.mark.parametrize("version", ["0.15.0", pytest.param("0.14.0", marks=pytest.mark.slow)])
def test_without_its_switch_it_divides_by_the_batch(version: str) -> None:
    """poisson=False, the default, against poisson=True."""
    assert found(version, poisson=False).kind is Kind.ASGM
    assert found(version, poisson=True).kind is Kind.EASGM


def test_the_rate_moves_with_the_number_of_records() -> None:
    """b | N: L -> L + 1, and the denominator falls; b does not divide N: +1 if L | N + 1."""
    finding = found("1.6.0")
    (rate,) = finding.rates.moved
    assert rate.startswith("N=30 -> 31 (b=10): 0.3")
    (denominator,) = [words for words in leaks(finding) if "denominator" in words]
    assert "N=29 -> 30 (b=10): 9 -> 10" in denominator
    assert "N=30 -> 31 (b=10): 10 -> 7" in denominator
    assert finding.rates.law is RateLaw.LOADER
    assert finding.rates.within is not None
    assert finding.rates.within < 0.05


def test_floors_that_fall_short_and_a_denominator_of_zero() -> None:
    faults = said(found("1.6.0"), Severity.FAULT)
    assert faults == [
        "at N=98 b=2 it divides by 1; the exact floor(N/L) is 2",
        "at N=49 b=1 it releases numbers that are not finite",
    ]


@pytest.mark.parametrize(
    ("size", "batch", "denominator"),
    [
        (98, 2, 1), (12544, 256, 255), (12545, 256, 250), (1007, 64, 62), (1008, 64, 63), (600, 60, 60), (601, 60, 54),
        # int(1/(1/93)) = 92: the floor is that of another rate than the sampler's
        (8649, 93, 94),
    ],
)  # fmt: skip
def test_denominators_at_given_sizes(size: int, batch: int, denominator: int) -> None:
    observed = observe(OpacusRelease(version=available("1.6.0")), Setting(size, batch_size=batch), seed=3, rounds=8)
    assert observed.denominators == pytest.approx((denominator,), rel=1e-4)


@pytest.mark.slow
def test_the_sum_of_0_14_0_scales_before_it_clips() -> None:
    finding = found("0.14.0", reduction=Reduction.SUM)
    assert finding.kind is Kind.UNKNOWN
    assert finding.clipping.scaled_before == "|B|"
    # at |B| = 50 a record moves the sum by (2 - 1/50) C
    assert finding.clipping.sensitivity == pytest.approx(1.98, abs=0.01)
    assert not finding.clipping.sound
    # its twin
    assert found("0.15.0", reduction=Reduction.SUM).clipping.sensitivity == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.9.0", "0.9.1"])
def test_the_sum_of_0_9_divides_gradients_but_not_the_noise(version: str) -> None:
    """Multiplied by |B| in the hooks, clipped, divided by |B|: a gradient that is not clipped looks as if nothing happened."""
    finding = found(version, reduction=Reduction.SUM)
    assert finding.kind is Kind.UNKNOWN
    assert finding.noise.shares_denominator is False
    assert finding.clipping.scaled_before == "|B|"


@pytest.mark.parametrize("version", ["1.6.0", pytest.param("1.5", marks=pytest.mark.slow)])
def test_adaptive_clipping_counts_over_the_exact_batch(version: str) -> None:
    finding = found(version, clipping=Clipping.ADAPTIVE)
    assert finding.kind is Kind.LOADER
    words = "the noisy count of unclipped gradients is divided by |B|, the exact size of the batch"
    assert words in leaks(finding)
    assert words not in leaks(found(version))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.13.0", "raises IndexError"),
        ("1.6.0", "is a step of noise alone"),
        pytest.param("0.12.0", "raises IndexError", marks=pytest.mark.slow),
        pytest.param("1.0.0", "raises RuntimeError", marks=pytest.mark.slow),
        pytest.param("1.2.0", "raises RuntimeError", marks=pytest.mark.slow),
        pytest.param("1.3.0", "is a step of noise alone", marks=pytest.mark.slow),
    ],
)
def test_an_empty_batch(version: str, words: str) -> None:
    assert found(version).empty_batch.startswith(words)


@pytest.mark.slow
def test_shuffled_batches_are_still_divided_by_the_floor() -> None:
    """A batch of 10 divided by 8; no theorem for Poisson sampling is applied to it."""
    from noisymean.errors import Undefined

    finding = found("1.6.0", poisson=False)
    assert finding.rates.sampling is Sampling.SHUFFLED
    first = finding.evidence[0]
    assert (first.run, first.batches, first.denominator) == ("N=25 b=10", "5 to 10", "8")
    with pytest.raises(Undefined, match="shuffled"):
        finding.mechanism(dataset_size=25, dimension=10, noise_multiplier=1.0, batch_size=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"clipping": Clipping.PER_LAYER},
        {"grad_sample": GradSample.FUNCTORCH},
        {"grad_sample": GradSample.EXPANDED_WEIGHTS},
    ],
)
def test_every_way_to_clip_divides_by_the_floor(options: dict[str, object]) -> None:
    finding = found("1.6.0", **options)
    assert finding.kind is Kind.LOADER
    if options.get("grad_sample") is GradSample.EXPANDED_WEIGHTS:
        assert finding.empty_batch.startswith("raises")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.9.0", "0.10.1", "0.11.0"])
def test_releases_without_a_sampler_refuse_a_batch_above_the_declared_size(version: str) -> None:
    raised = OpacusRelease(version=available(version)).oversized_batch(seed=1)
    assert raised is not None
    assert "ValueError" in raised


def test_the_finding_goes_to_the_accountant() -> None:
    import noisymean as nm

    mechanism = found("1.6.0").mechanism(dataset_size=100, dimension=1000, noise_multiplier=1.0, batch_size=10)
    assert mechanism == nm.OpacusLoader(dataset_size=100, dimension=1000, noise_multiplier=1.0, batch_size=10)
    easgm = found("0.15.0").mechanism(dataset_size=100, dimension=1000, noise_multiplier=1.0, sample_rate="1/10")
    account = nm.account(easgm, steps=10, delta=1e-5)
    assert account.verdict == "violated"
    assert math.isfinite(account.leakage.epsilon or math.inf)
