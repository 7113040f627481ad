"""What a release is really divided by, and at which rate its batch is drawn: on D and on D'."""

from __future__ import annotations

from noisymean.mechanisms import ASGM, EASGM, Mechanism, denominators, new_record_rate
from noisymean.targets.protocol import Neighbour


def divided(mechanism: Mechanism) -> dict[Neighbour, tuple[float, float | None]]:
    """(sampling rate, denominator) of each dataset; None where the denominator is the size of the batch, 1 if that is 0."""
    if isinstance(mechanism, ASGM):
        return dict.fromkeys(Neighbour, (mechanism.q, None))
    before, after = denominators(mechanism)
    # `denominators` leaves out the common factor q of EASGM
    unit = mechanism.q if isinstance(mechanism, EASGM) else 1.0
    return {
        Neighbour.SMALLER: (mechanism.q, before * unit),
        Neighbour.LARGER: (new_record_rate(mechanism), after * unit),
    }
