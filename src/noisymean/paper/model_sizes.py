"""How many numbers each model of the catalogue releases; known without torch, asserted where the networks are built."""

from __future__ import annotations

from noisymean.errors import InvalidInput

PARAMETERS = {
    "cnn-grey": 26_010,
    "cnn-colour": 550_570,
    "cnn-colour-small": 167_642,
    "unet-grey": 1_485_217,
    "unet-colour": 1_486_947,
    "unet-privimage": 1_754_499,
}


def parameters_of(model: str) -> int:
    """Trainable numbers of the model of that name.

    >>> parameters_of("unet-grey")
    1485217
    """
    if model not in PARAMETERS:
        raise InvalidInput("model", model, f"one of {', '.join(PARAMETERS)}")
    return PARAMETERS[model]
