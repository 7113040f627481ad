"""The field as the plain data of `--json`: a row for each subject, and the one run that all numbers are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisymean.field.question import BATCH, DELTA, DIMENSION, NOISE, RECORDS, STEPS
from noisymean.field.rows import Row


def record(rows: Sequence[Row], version: str) -> dict[str, Any]:
    """The object of `--json`."""
    return {
        "run": {
            "dataset_size": RECORDS,
            "dimension": DIMENSION,
            "batch_size": BATCH,
            "noise_multiplier": NOISE,
            "steps": STEPS,
            "delta": DELTA,
        },
        "rows": [one.to_plain() for one in rows],
        "version": version,
    }
