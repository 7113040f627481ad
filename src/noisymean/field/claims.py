"""What a library's own accounting says of the one run, for batches drawn how, for which neighbours, and where that is written.

An adjacency that the library does not name is not guessed: it is None, whatever its formula suggests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import final

from noisymean.field.sources import Quote
from noisymean.mechanisms import Adjacency


class Assumed(Enum):
    """How batches are drawn for a number of an accountant to be about them."""

    POISSON = "Poisson"
    WITHOUT_REPLACEMENT = "fixed size, without replacement"
    ONCE_PER_EPOCH = "each record once per epoch"
    ANY = "any: no amplification"


@final
@dataclass(frozen=True)
class Stated:
    """One number that an accounting gives: its name in `said()`, what it is about, and the line that says so."""

    key: str
    accounting: str
    assumes: Assumed
    adjacency: Adjacency | None
    quote: Quote


@final
@dataclass(frozen=True)
class Claim:
    """What an accounting said when it was asked; `place` is where the adjacency is named, or the formula stands."""

    accounting: str
    epsilon: float
    assumes: Assumed
    adjacency: Adjacency | None
    place: str | None


_STATEMENT = Quote(
    "privacy/analysis/compute_dp_sgd_privacy_lib.py", "Example-level DP with add-or-remove-one adjacency at delta"
)
_TENSORFLOW = "compute_dp_sgd_privacy_statement"
STATED: dict[str, tuple[Stated, ...]] = {
    "objax": (
        Stated(
            "analyze_dp", "analyze_dp", Assumed.POISSON, None,
            Quote("privacy/dpsgd/privacyaccountant.py", "Compute RDP of the Sampled Gaussian Mechanism."),
        ),
        Stated(
            "analyze_dp_sample_without_replacement", "analyze_dp_sample_without_replacement",
            Assumed.WITHOUT_REPLACEMENT, Adjacency.REPLACE_ONE,
            Quote("privacy/dpsgd/privacyaccountant.py", "``Replace one data point'' version of differential privacy"),
        ),
    ),
    "tensorflow-privacy": (
        Stated("poisson", _TENSORFLOW, Assumed.POISSON, Adjacency.ADD_REMOVE, _STATEMENT),
        Stated("once", _TENSORFLOW, Assumed.ONCE_PER_EPOCH, Adjacency.ADD_REMOVE, _STATEMENT),
    ),
    "tensorflow-privacy:one-microbatch": (
        Stated(
            "poisson, microbatches", f"{_TENSORFLOW}, used_microbatching=True", Assumed.POISSON, Adjacency.ADD_REMOVE, _STATEMENT,
        ),
        Stated(
            "once, microbatches", f"{_TENSORFLOW}, used_microbatching=True",
            Assumed.ONCE_PER_EPOCH, Adjacency.ADD_REMOVE, _STATEMENT,
        ),
    ),
    "jax-privacy": (
        Stated(
            "DpsgdTrainingAccountant", "DpsgdTrainingAccountant, PLD", Assumed.POISSON, Adjacency.ADD_REMOVE,
            Quote(
                "accounting/accountants.py", "dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE", "class PldAccountantConfig"
            ),
        ),
    ),
    "pfl": (
        Stated(
            "PLDPrivacyAccountant", "PLDPrivacyAccountant", Assumed.POISSON, None,
            Quote("privacy/privacy_accountant.py", "pld = privacy_loss_distribution.from_gaussian_mechanism("),
        ),
    ),
    "flwr": (
        Stated(
            "RdpAccountant", "RdpAccountant", Assumed.ANY, Adjacency.ADD_REMOVE,
            Quote("supercore/privacy_accounting/__init__.py", 'ADD_OR_REMOVE_ONE = "add-or-remove-one"'),
        ),
    ),
    "opacus": (
        Stated(
            "prv", "PRVAccountant", Assumed.POISSON, None,
            Quote("accountants/analysis/prv/prvs.py", "class PoissonSubsampledGaussianPRV"),
        ),
    ),
}  # fmt: skip


def claims_of(name: str, said: Mapping[str, float], package: Path) -> tuple[Claim, ...]:
    """What was said of a way, by its name, or by that of its library."""
    stated = STATED.get(name, STATED.get(name.partition(":")[0], ()))
    return tuple(
        Claim(one.accounting, said[one.key], one.assumes, one.adjacency, one.quote.place(package))
        for one in stated
        if one.key in said
    )
