"""What tests ask of rounds: laws written by hand, and the four words over T rounds of one mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisymean.ceilings import ceiling_clt
from noisymean.central_limit import CentralLimit
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.compose.grid.discretize import Atoms
from noisymean.cumulants import Cumulants
from noisymean.laws.closed import Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.leakage import NamedPair, explicit_pairs
from noisymean.mechanisms import Mechanism
from noisymean.runs import Run
from noisymean.tradeoff import Law, TradeOff


@dataclass(frozen=True, eq=False)
class ByHand(Law):
    """A curve beside a K, or without one: nothing is closed, so that the engines are used."""

    curve: Callable[[], TradeOff]
    generating: Cumulants | None = None

    def one_round(self) -> TradeOff:
        return self.curve()

    @property
    def cumulants(self) -> Cumulants | None:
        return self.generating


def sgm_cumulants(rate: float, noise_multiplier: float) -> Cumulants:
    found = Subsampled(Gaussian(1.0 / noise_multiplier), rate).cumulants
    assert found is not None
    return found


def pair_rounds(pair: Law, steps: int) -> Rounds:
    return Rounds(((steps, pair),))


def leakage_rounds(mechanism: Mechanism, steps: int) -> list[tuple[NamedPair, Rounds]]:
    return [(pair, pair_rounds(pair, steps)) for pair in explicit_pairs(mechanism) if not pair.once]


def claimed_rounds(mechanism: Mechanism, steps: int) -> Rounds:
    return Run.of(mechanism, steps).claimed()


def guarantee_rounds(mechanism: Mechanism, steps: int) -> tuple[DeltaCurve, ...]:
    return tuple(one.curve for one in Run.of(mechanism, steps).guarantees())


def transparent_rounds(mechanism: Mechanism, steps: int) -> Rounds:
    return Run.of(mechanism, steps).transparent()


def ceiling_rounds(mechanism: Mechanism, steps: int) -> Rounds | None:
    return Run.of(mechanism, steps).ceiling()


def ceiling_clt_rounds(mechanism: Mechanism, steps: int) -> CentralLimit | None:
    return ceiling_clt(mechanism, steps)


def atoms_delta(atoms: Atoms, epsilon: float) -> float:
    """E_Q[(1 - e^(eps - l))_+] by its definition."""
    above = atoms.losses > epsilon
    return float(-np.sum(atoms.mass[above] * np.expm1(epsilon - atoms.losses[above])) + atoms.infinite)
