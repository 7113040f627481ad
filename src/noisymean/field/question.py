"""The one run that every accounting is asked about: an epoch of 60,000 records in batches of 600, at a noise multiplier of 1."""

from __future__ import annotations

from fractions import Fraction

from noisymean.probe.finding import RunNumbers
from noisymean.targets.libraries.inside.way import BATCH, DELTA, NOISE, RECORDS, STEPS

RATE = Fraction(BATCH, RECORDS)
# the parameters of a small convolutional network; a mean over few numbers hides its denominator better
DIMENSION = 26_010
NUMBERS: RunNumbers = {
    "dataset_size": RECORDS,
    "dimension": DIMENSION,
    "noise_multiplier": NOISE,
    "batch_size": BATCH,
    "sample_rate": RATE,
}

__all__ = ["BATCH", "DELTA", "DIMENSION", "NOISE", "NUMBERS", "RATE", "RECORDS", "STEPS"]
