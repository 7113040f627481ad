"""Noise that is calibrated by what is run: whether it follows N is measured, by the same random numbers or by its deviation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import pytest

from noisymean.cli.gate import Standing, of_probe
from noisymean.errors import Undefined
from noisymean.probe import Kind, probe
from noisymean.probe.finding import Bearing, Finding, Remark, Severity
from noisymean.probe.records import NOISE
from noisymean.targets.protocol import Calibration, Knob, Raised, Request, Runnable, Setting
from planted import Array, Round, size_of_batch

TARGET = Calibration(target_epsilon=2.0, target_delta=1e-5, epochs=10, accountant="prv")
Choice = Callable[[Setting], float]


def rate_of(setting: Setting) -> float:
    """That of a data loader, or the one that is set."""
    if setting.rate is not None:
        return float(setting.rate)
    assert setting.batch_size is not None
    return 1.0 / -(-setting.dataset_size // setting.batch_size)


def loaders_floor(size: int, count: int, rate: float) -> float:
    """Not finite where it falls to zero."""
    return float(int(count * rate) or math.nan)


@final
@dataclass(frozen=True)
class Calibrating(Runnable):
    """A correct round whose noise multiplier is chosen at each setting."""

    chosen: Choice
    round: Round
    way: Knob = Knob.RATE
    # whether its own noise takes random numbers that the noise it is told does not
    another_order: bool = False
    is_fast = True

    @property
    def name(self) -> str:
        return "calibrating"

    @property
    def knob(self) -> Knob:
        return self.way

    @property
    def calibration(self) -> Calibration:
        return TARGET

    def run(self, run: Request) -> Array:
        generator = np.random.default_rng([run.seed, int(self.another_order and run.own_noise)])
        sigma = self.chosen(run.setting) if run.own_noise else run.noise_multiplier
        return np.array(
            [
                self.round(
                    run.gradients,
                    generator,
                    sample_rate=rate_of(run.setting),
                    noise_multiplier=sigma,
                    max_grad_norm=run.max_grad_norm,
                )
                for _ in range(run.rounds)
            ]
        )


def of_calibration(finding: Finding) -> Remark:
    """The one remark on it."""
    (found,) = [one for one in finding.remarks if "calibrated" in one.words]
    return found


@pytest.mark.parametrize("another_order", [False, True])
@pytest.mark.parametrize(("divisor", "kind"), [(None, "sgm"), (lambda size, count, rate: count * rate, "easgm")])
def test_noise_that_does_not_follow_the_number_of_records_is_not_accused(
    another_order: bool, divisor: Callable[[int, int, float], float] | None, kind: str
) -> None:
    release = Round() if divisor is None else Round(divisor=divisor)
    finding = probe(Calibrating(lambda at: 1.7, release, another_order=another_order), seed=0, rounds=20)
    assert finding.kind.value == kind
    assert finding.doubts == ()
    assert (of_calibration(finding).severity, of_calibration(finding).bearing) == (Severity.NOTE, Bearing.OPEN)
    for pair in finding.noise.calibrated:
        assert pair.before == pytest.approx(1.7, rel=pair.error)
        assert pair.after == pytest.approx(1.7, rel=pair.error)
    # the noise is not the user's to say
    with pytest.raises(Undefined, match="left to the implementation"):
        finding.mechanism(dataset_size=100, dimension=10, noise_multiplier=1.0, sample_rate="1/100")


def test_the_size_of_the_batch_is_not_mistaken_for_noise_that_moves() -> None:
    """|B| moves the deviation of every release, and the noise multiplier is the same."""
    finding = probe(Calibrating(lambda at: 1.7, Round(divisor=size_of_batch)), seed=0, rounds=20)
    assert (finding.kind, finding.doubts) == (Kind.ASGM, ())
    assert not any(one.moves for one in finding.noise.calibrated)


def test_noise_that_cannot_be_measured_is_unknown() -> None:
    """Divided by |B|, which loud noise hides, and no two runs draw the same."""
    finding = probe(Calibrating(lambda at: 1.7, Round(divisor=size_of_batch), another_order=True), seed=0, rounds=20)
    assert finding.kind is Kind.UNKNOWN
    assert finding.noise.calibrated == ()
    assert of_calibration(finding).severity is Severity.UNKNOWN
    assert "could not be measured" in of_calibration(finding).words


def test_noise_that_is_the_probers_own_was_not_chosen() -> None:
    """What runs has not done as it was asked, and nothing is known of what it would choose."""
    finding = probe(Calibrating(lambda at: NOISE, Round()), seed=0, rounds=20)
    assert finding.kind is Kind.UNKNOWN
    assert of_calibration(finding).severity is Severity.UNKNOWN


@pytest.mark.parametrize("another_order", [False, True])
def test_noise_that_follows_the_number_of_records_is_found(another_order: bool) -> None:
    """A delta of 1/N, say: the denominator and the rate are constants, and one record more changes the noise."""
    finding = probe(
        Calibrating(lambda at: 1.0 + 9.0 / at.dataset_size, Round(), another_order=another_order), seed=0, rounds=20
    )
    assert finding.kind is Kind.UNKNOWN
    assert of_calibration(finding) in finding.doubts
    assert "N=9 -> 10 (q=1/2): " in of_calibration(finding).words
    assert of_probe(finding, None, None).standing is Standing.VIOLATED


def test_a_thousandth_is_seen_where_the_random_numbers_are_the_same() -> None:
    finding = probe(Calibrating(lambda at: 1.0 + 1e-3 * (at.dataset_size % 2), Round()), seed=0, rounds=20)
    assert finding.kind is Kind.UNKNOWN
    assert of_calibration(finding).severity is Severity.LEAK


def test_what_cannot_be_seen_is_said_beside_what_was() -> None:
    """By the deviation of 400 rounds on 256 axes: six of its errors, sqrt(1 / (2 * 102,400)), twice, is a fortieth."""
    finding = probe(
        Calibrating(lambda at: 1.0 + 1e-3 * (at.dataset_size % 2), Round(), another_order=True), seed=0, rounds=20
    )
    assert "to within 2.7" in of_calibration(finding).words


def test_a_data_loader_whose_noise_follows_its_rate_is_what_it_is() -> None:
    """The rate moves from 1/3 to 1/4 at 30 records, and the noise with it."""
    loader = Calibrating(lambda at: 1.0 + rate_of(at), Round(divisor=loaders_floor), Knob.BATCH_SIZE)
    finding = probe(loader, seed=0, rounds=60)
    assert finding.kind is Kind.LOADER
    assert of_calibration(finding).bearing is Bearing.COVERED
    pairs = {one.run: one for one in finding.noise.calibrated}
    assert not pairs["N=25 -> 26 (b=10)"].moves
    assert pairs["N=30 -> 31 (b=10)"].before == pytest.approx(4.0 / 3.0, rel=1e-3)
    assert pairs["N=30 -> 31 (b=10)"].after == pytest.approx(5.0 / 4.0, rel=1e-3)
    assert of_probe(finding, None, None).standing is Standing.VIOLATED


def test_a_data_loader_whose_noise_moves_where_its_rate_does_not_is_not_that_mechanism() -> None:
    loader = Calibrating(lambda at: 1.0 + 3.0 / at.dataset_size, Round(divisor=loaders_floor), Knob.BATCH_SIZE)
    finding = probe(loader, seed=0, rounds=60)
    assert finding.kind is Kind.UNKNOWN
    assert of_calibration(finding).bearing is Bearing.OPEN


def test_a_calibration_that_raises_is_unknown() -> None:
    def raises(at: Setting) -> float:
        if at.dataset_size == 26:
            raise Raised("raises ValueError: no such noise")
        return 1.7

    finding = probe(Calibrating(raises, Round()), seed=0, rounds=20)
    assert finding.kind is Kind.UNKNOWN
    assert any("at N=25 -> 26 (q=3/10) it raises ValueError: no such noise" in one.words for one in finding.doubts)


def test_it_is_looked_at_where_the_user_runs_it() -> None:
    """Noise that moves at one size alone, which is the user's."""
    follows = Calibrating(lambda at: 2.0 if at.dataset_size == 71 else 1.7, Round())
    assert probe(follows, seed=0, rounds=20).kind is Kind.SGM
    finding = probe(follows, seed=0, rounds=20, dataset_size=70, sample_rate="1/5")
    assert finding.kind is Kind.UNKNOWN
    assert "N=70 -> 71 (q=1/5): 1.7 -> 2" in of_calibration(finding).words


def test_a_constant_denominator_at_a_rate_that_moves_is_said_to_be_no_sgm_everywhere() -> None:
    """The sum through a data loader: its denominator is a constant, and b | N moves the rate all the same."""
    finding = probe(Calibrating(lambda at: 1.0, Round(), Knob.BATCH_SIZE), seed=0, rounds=60)
    assert (finding.kind, finding.rates.moves_with_size) == (Kind.SGM, True)
    # in so few rounds it was not seen to move; what the law says is enough
    assert finding.rates.moved == ()
    assert any("the sampling rate, 1/ceil(N/b), where b divides N" in one.words for one in finding.remarks)
    with pytest.raises(Undefined, match="left to the implementation"):
        finding.at_least(dataset_size=30, dimension=10, noise_multiplier=1.0, batch_size=10, sample_rate="1/3")
    assert (
        finding.lines().heading == "calibrating: SGM, but only where one record more does not change the sampling rate"
    )
    plain = probe(Round(), seed=0, rounds=20)
    assert plain.lines().heading.endswith(": SGM")


def test_a_finding_of_calibrated_noise_survives_json() -> None:
    finding = probe(Calibrating(lambda at: 1.0 + 9.0 / at.dataset_size, Round()), seed=0, rounds=20)
    assert len(finding.noise.calibrated) == 2
    assert Finding.from_plain(json.loads(json.dumps(finding.to_plain(), allow_nan=False))) == finding
