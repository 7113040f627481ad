"""Mechanisms that the package does not have, made of its public names alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from noisymean.mechanisms import BatchDenominator, DatasetDenominator, PublicRate, register


@final
@register
@dataclass(frozen=True, kw_only=True)
class AtLeast(PublicRate, BatchDenominator):
    """Divides by max(b, |B|)."""

    batch_size: int = 2
    name = "toy-at-least"
    denominator = "max(b, |B|)"

    def divisor(self, batches: np.ndarray) -> np.ndarray:
        return np.maximum(batches, float(self.batch_size))


@final
@register
@dataclass(frozen=True, kw_only=True)
class NoisierWithSize(PublicRate, DatasetDenominator):
    """Divides by N, and its noise grows with N."""

    name = "toy-noisier"
    denominator = "N"

    def denominator_at(self, size: int) -> Fraction:
        return Fraction(max(size, 1))

    def noise_at(self, size: int) -> float:
        return self.noise_multiplier * (1.0 + 0.3 * (size - self.dataset_size))
