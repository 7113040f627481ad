"""What is known of one subject: frozen values, as plain data in the cache and in `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, final

from noisymean.field.claims import Claim
from noisymean.field.cohorts import Cohorts
from noisymean.field.denominators import Denominator
from noisymean.field.sources import Found
from noisymean.probe.finding import Finding, Sampling
from noisymean.targets.plain import from_plain, to_plain


class Exposed(Enum):
    """Whether one record more changes what is released by more than its own clipped gradient: denominator, rate or noise."""

    YES = "yes"
    NO = "no"
    CALLER = "depends on the caller"
    UNKNOWN = "not known"


class Sampler(Enum):
    """How the batches that were run are drawn."""

    GIVEN = "the caller's"
    POISSON = "Poisson"
    PARTS = "Poisson in parts"
    SHUFFLED = "shuffled"
    IN_ORDER = "in order"
    FIXED_SIZE = "fixed size"
    WITH_REPLACEMENT = "with replacement"
    UNKNOWN = "not known"


@final
@dataclass(frozen=True)
class Told:
    """What the accountant of a mode was told at this setting: the noise multiplier and the rate, beside what they should be."""

    run: str
    noise_multiplier: float
    sample_rate: float
    batches_in_epoch: int


@final
@dataclass(frozen=True)
class Observed:
    """What running showed: the prober's finding, and what was asked beside it."""

    finding: Finding
    denominator: Denominator
    cohorts: Cohorts | None
    claims: tuple[Claim, ...]
    divides_at: tuple[Found, ...]
    told: Told | None = None


@final
@dataclass(frozen=True)
class Lost:
    """What the one run loses: claimed for the noisy sum, certainly lost, certainly not exceeded; and the word on the claim.

    `mechanism` and `sampler` are those that were accounted for. The claim is an accountant's for Poisson batches and one record
    added or removed; where another adjacency was taken it is named.
    """

    mechanism: str
    sampler: str
    adjacency: str
    steps: int
    claimed: float | None
    leakage: float | None
    guarantee: float | None
    verdict: str
    because: str


@final
@dataclass(frozen=True)
class Row:
    """One subject. Either `observed` is there, or `fault`: why it was not run, in a line."""

    name: str
    library: str
    version: str | None
    way: str
    exposed: Exposed
    because: str
    sampler: Sampler
    date: str
    seconds: float
    observed: Observed | None = None
    lost: Lost | None = None
    fault: str | None = None
    # read elsewhere and not run
    read: str | None = None
    # the versions of what it was run with
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether it was run: what failed is tried again the next time."""
        return self.observed is not None

    def to_plain(self) -> dict[str, Any]:
        """Plain data; `from_plain` is its inverse."""
        plain: dict[str, Any] = to_plain(self)
        if self.observed is not None:
            plain["observed"]["finding"] = self.observed.finding.to_plain()
        return plain

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Row:
        return from_plain(Row, plain)


def sampler_of(sampling: Sampling, drawn: Sampler) -> Sampler:
    """In the words of a row: the prober's where it knows, else what was read off batches."""
    match sampling:
        case Sampling.POISSON:
            return Sampler.POISSON
        case Sampling.SHUFFLED:
            return Sampler.SHUFFLED
        case Sampling.PARTS:
            return Sampler.PARTS
        case Sampling.GIVEN:
            return Sampler.GIVEN
        case Sampling.UNKNOWN:
            return drawn
