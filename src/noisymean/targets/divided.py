"""What a release is really divided by, and at which rate its batch is drawn: on D and on D'."""

from __future__ import annotations

from noisymean.mechanisms import DatasetDenominator, Mechanism
from noisymean.targets.protocol import Neighbour


def divided(mechanism: Mechanism) -> dict[Neighbour, tuple[float, float | None]]:
    """(sampling rate, denominator) of each dataset; None where the denominator is the size of the batch, 1 if that is 0."""
    if not isinstance(mechanism, DatasetDenominator):
        return dict.fromkeys(Neighbour, (mechanism.q, None))
    before, after = map(float, mechanism.neighbours.denominators)
    return {Neighbour.SMALLER: (mechanism.q, before), Neighbour.LARGER: (mechanism.rate_with, after)}
