r"""The truth that an audit is measured against: T(M(D), M(D')) of a pair whose gradients are known.

Closed form for one round of structured gradients (`explicit_pair`), and for runs in which nothing but the noise is random.
Otherwise by simulating the sufficient statistic, which has N + 2 numbers instead of n: half of the draws from each dataset are
one sample of the mixture M = (P + Q)/2, and with the log-likelihood ratio l

    dP/dM = 2/(1 + e^l),      dQ/dM = 2/(1 + e^-l),

both at most 2. So alpha(t) = E_M[dP/dM; l > t] comes with a small error at every threshold, and the draws with these weights are
themselves a trade-off function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from noisymean.audit.epochs import EpochPair
from noisymean.audit.laws import KnownPair
from noisymean.errors import Undefined
from noisymean.laws.closed import Gaussian
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.laws.subsampled import Subsampled
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import Adjacency, DatasetDenominator
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known, Neighbour, Structure
from noisymean.tradeoff import TradeOff

# Exponentials that a simulation may cost, and how many draws it has at least and at most.
_BUDGET = 4e8
_LEAST, _MOST = 4_000, 100_000
# Where so many would take minutes there are fewer, and below the fewest that say something the truth is left open.
_MOST_WORK, _FEWEST = 2e9, 400
_AT_ONCE = 4096
# The simulation's error is the spread of so many parts of it.
_PARTS = 20


@final
@dataclass(frozen=True, eq=False)
class Reference:
    """The true curve; `standard_error` is that of delta(0), zero where the curve is in closed form."""

    curve: TradeOff
    method: str
    standard_error: float
    # losses of independent draws from D and from D', to choose thresholds by
    losses: tuple[Array, Array]

    @property
    def closed_form(self) -> bool:
        """Whether the curve is exact in the tails, too."""
        return self.standard_error == 0.0


def pair_of(known: Known) -> KnownPair | EpochPair:
    """The laws of the two datasets, as batches are drawn; Undefined where they cannot be written down."""
    return KnownPair(known) if known.mechanism.is_poisson else EpochPair(known)


def reference(known: Known, steps: int, generator: np.random.Generator) -> Reference:
    """The true curve of `steps` rounds; Undefined where it takes too long."""
    pair = pair_of(known)
    losses = simulated(pair, steps, generator, draws_for(steps, pair.components))
    if isinstance(pair, EpochPair):
        exact: TradeOff | None = pair.gaussian(steps)
    else:
        exact = closed_form(known) if steps == 1 else None
    told = ", if it is the mechanism that was told" if known.told else ""
    if exact is not None:
        return Reference(exact, f"closed form{told}", 0.0, losses)
    parts = [weighted(a, b) for a, b in zip(*(np.array_split(side, _PARTS) for side in losses), strict=True)]
    error = float(np.std([part.advantage() for part in parts], ddof=1)) / np.sqrt(_PARTS)
    return Reference(weighted(*losses), f"simulated statistic{told}", max(error, 1e-9), losses)


def draws_for(steps: int, components: int) -> int:
    """How many draws from each dataset a simulation has; Undefined where even the fewest would take minutes."""
    each = 2.0 * steps * components
    draws = int(min(np.clip(_BUDGET / each, _LEAST, _MOST), _MOST_WORK / each))
    if draws < _FEWEST:
        raise Undefined("steps", steps, "few enough for a simulation of the truth", "fewer records take less time")
    return draws


def weighted(smaller: Array, larger: Array) -> FiniteOutcomes:
    """Losses of draws from P and as many from Q as a trade-off function."""
    both = np.concatenate([smaller, larger])
    p, q = expit(-both), expit(both)
    # the sums are 1 up to the error of the simulation
    return FiniteOutcomes(p / p.sum(), q / q.sum())


def simulated(
    pair: KnownPair | EpochPair, steps: int, generator: np.random.Generator, draws: int
) -> tuple[Array, Array]:
    """`draws` log-likelihood ratios under D and under D'."""
    at_once = max(1, _AT_ONCE // steps)
    counts = [min(at_once, draws - first) for first in range(0, draws, at_once)]
    smaller, larger = (
        np.concatenate([pair.log_ratio(pair.draw(neighbour, generator, count, steps), steps) for count in counts])
        for neighbour in Neighbour
    )
    return smaller, larger


def closed_form(known: Known) -> TradeOff | None:
    """One round of structured gradients, where it has a formula: D all-zero or aligned, the new record's gradient +-C u."""
    known.mechanism.need_poisson()
    if known.structured is None:
        return None
    if known.adjacency is not Adjacency.ADD_REMOVE:
        # N is public: a function of it is a constant
        public = known.adjacency is Adjacency.ZERO_OUT and isinstance(known.mechanism, DatasetDenominator)
        zero = public and known.structured is Structure.ZERO
        return Subsampled(Gaussian(1.0 / known.mechanism.noises[0]), known.mechanism.q) if zero else None
    if known.mechanism.is_sum and known.structured is Structure.ZERO:
        return Subsampled(Gaussian(1.0 / known.mechanism.noise_multiplier), known.mechanism.q)
    for pair in explicit_pairs(known.mechanism):
        # a pair of which the attacker sees only a part is a bound, not the truth
        if isinstance(pair, ExplicitPair) and pair.datasets == known.structured.datasets:
            return pair.curve if not pair.line_only and pair.left_out < 1e-12 else None
    return None
