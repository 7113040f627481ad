"""The noise that `make_private_with_epsilon` chooses: asked of the Opacus that is installed, not copied."""

from __future__ import annotations

import warnings
from decimal import Decimal
from functools import lru_cache

from noisymean.errors import InvalidInput

# The search of get_noise_multiplier halves [0, 20], or twice that, and so on: its results are multiples of 5/2^j.
_DEEPEST = 40
# More digits than these nobody types.
_TYPED = 4


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float, sample_rate: float, epochs: int, accountant: str) -> float:
    """What the installed Opacus calibrates to."""
    try:
        from opacus.accountants.utils import get_noise_multiplier
    except ImportError:
        raise InvalidInput(
            "target_epsilon", epsilon, "a noise_multiplier without Opacus", "pip install 'noisymean[audit]'"
        ) from None
    with warnings.catch_warnings():
        # about orders of its own that were too few; the number is what it uses all the same
        warnings.simplefilter("ignore")
        try:
            found = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=sample_rate,
                epochs=epochs,
                accountant=accountant,
            )
        except ValueError as fault:
            raise InvalidInput("accountant", accountant, f"one that Opacus can calibrate with: {fault}") from None
    return float(found)


def may_be_calibrated(noise: float) -> bool:
    """Whether this may be the result of a search and not a number that somebody has typed.

    That of Opacus ends in multiples of 5/2^j; those of others, of its first releases, and what a schedule makes of any of them
    have more digits than one types.

    >>> may_be_calibrated(1.0), may_be_calibrated(0.8154296875), may_be_calibrated(1.25), may_be_calibrated(0.81 * 0.99**3)
    (False, True, True, True)
    """
    scaled = noise * 2.0**_DEEPEST
    searched = noise > 0.0 and scaled.is_integer() and int(scaled) % 5 == 0
    return searched or len(Decimal(repr(float(noise))).normalize().as_tuple().digits) > _TYPED
