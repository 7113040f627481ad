"""Every pitfall: its id, a short name, what goes wrong in a sentence, the linter's rules about it, what else would check it.

The list starts from the twelve of JAX Privacy (R. McKenna and H. B. McMahan, *Common Pitfalls in DP Training*,
docs/sharp_edges_dp_training_pitfalls.md of google-deepmind/jax_privacy), in our own words and order, and adds what this project
has met. Of the twelve, *public and private metadata* became P01 and P07 to P09, one line for each number; *randomness* became
P12 and P13; *division by batch size* became P01 and P02. Left out is *finite-precision numerical error*, which that page itself
calls negligible. Ids are never given a second meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Pitfall:
    """One thing that is known to go wrong. `instead` is said where nothing in view tells."""

    id: str
    name: str
    says: str
    instead: str
    rules: frozenset[str] = frozenset()

    @property
    def page(self) -> str:
        """Its place in the documentation."""
        return f"docs/check.md#{self.id.lower()}"


_PROBE = "run a step: noisymean probe FILE.py:NAME"
_ENGINE = "ask the run: nm.check(optimizer, data_loader=loader)"
_WATCHED = "attach Accountant(), which looks at each step"

DENOMINATOR = Pitfall(
    "P01",
    "denominator from the data",
    "The noisy sum is divided by the size of the batch, by a rate times the number of records, or by another number of the data.",
    _PROBE,
    frozenset({"NM001", "NM002", "NM008", "NM011", "NM012", "NM013", "NM015", "NM021", "NM022", "NM023", "NM024"}),
)
NOISE_APART = Pitfall(
    "P02",
    "noise and sum divided apart",
    "Noise that is scaled for the sum is added to the mean, or the other way round.",
    _PROBE,
    frozenset({"NM025"}),
)
OTHER_BOUND = Pitfall(
    "P03",
    "noise for another bound",
    "The noise is scaled by one bound, and gradients are clipped to another.",
    _PROBE,
    frozenset({"NM026", "NM041", "NM042", "NM052"}),
)
CLIPPING = Pitfall(
    "P04",
    "no bound for each record",
    "The gradient of the batch is clipped, or nothing is: the share of one record has no bound.",
    _PROBE,
    frozenset({"NM031", "NM033", "NM043", "NM045", "NM049"}),
)
NO_NOISE = Pitfall(
    "P05",
    "noise left out",
    "Gradients are clipped, and no noise is added to them.",
    _PROBE,
    frozenset({"NM032", "NM046", "NM051"}),
)
SAMPLING = Pitfall(
    "P06",
    "sampling not as accounted",
    "Batches are shuffled, weighted or those of another loader, and what is reported is for Poisson sampling.",
    _ENGINE,
    frozenset({"NM003", "NM007", "NM009", "NM014", "NM037"}),
)
RATE = Pitfall(
    "P07",
    "rate from the data",
    "The rate is computed from the number of records, so that one record more changes how all of them are drawn.",
    _ENGINE,
    frozenset({"NM001", "NM002", "NM006", "NM016"}),
)
SIGMA = Pitfall(
    "P08",
    "noise level from the data",
    "The noise is calibrated for a rate or a size that is taken from the data.",
    "where the noise comes from is not in view; for constants: noisymean calibrate",
    frozenset({"NM002", "NM010", "NM027", "NM048"}),
)
DELTA = Pitfall(
    "P09",
    "delta from the data",
    "Delta is computed from the number of records: the statement itself tells it.",
    "no delta is in view: noisymean account --delta 1e-5",
    frozenset({"NM005"}),
)
ACCUMULATION = Pitfall(
    "P10",
    "step on several batches",
    "Batches are put together for a step, or used twice, and the step is accounted for as one new batch.",
    _WATCHED,
)
EMPTY = Pitfall(
    "P11",
    "empty batches left out",
    "No step is taken when nobody was drawn, or a made-up record takes their place: either tells that nobody was.",
    _WATCHED,
    frozenset({"NM004", "NM036"}),
)
SEED = Pitfall(
    "P12",
    "predictable noise",
    "The noise comes from a seed that others know or can find by trying, and can be taken off.",
    "what seeds the noise is not in view",
    frozenset({"NM034"}),
)
REUSED = Pitfall(
    "P13",
    "noise used again",
    "Two steps have the same noise: their difference has none.",
    _WATCHED,
    frozenset({"NM035"}),
)
NEIGHBOURS = Pitfall(
    "P14",
    "neighbours unstated",
    "An epsilon is reported, and nobody says for which neighbours: one record added or removed, replaced, or zeroed.",
    "no epsilon is asked for in view: noisymean account --adjacency NAME says it",
)
CROSSING = Pitfall(
    "P15",
    "records meet in the model",
    "What the model computes for one record depends on the others of the batch, as batch normalization does.",
    "what layers compute of a batch is not in view: read the model",
    frozenset({"NM053"}),
)
METRICS = Pitfall(
    "P16",
    "exact training metrics",
    "Losses, accuracies or norms of the training records are shown or kept as they are, and no epsilon covers that.",
    "what else is kept or shown of the training records is not in view",
    frozenset({"NM047", "NM054"}),
)
NOT_FINITE = Pitfall(
    "P17",
    "gradients not finite",
    "One gradient of NaN or infinity passes the clipping and makes the release NaN, which shows that the record was there.",
    "whether a gradient can be NaN is not in view: set such to zero before the sum",
)
FLOATING = Pitfall(
    "P18",
    "noise in floating point",
    "The noise is rounded as doubles are, which an attacker can use to tell neighbours apart (Mironov 2012).",
    "PrivacyEngine(secure_mode=True) of Opacus guards against it",
    frozenset({"NM044"}),
)

PITFALLS = (
    DENOMINATOR,
    NOISE_APART,
    OTHER_BOUND,
    CLIPPING,
    NO_NOISE,
    SAMPLING,
    RATE,
    SIGMA,
    DELTA,
    ACCUMULATION,
    EMPTY,
    SEED,
    REUSED,
    NEIGHBOURS,
    CROSSING,
    METRICS,
    NOT_FINITE,
    FLOATING,
)
