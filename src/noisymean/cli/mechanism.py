"""From options to the mechanism they describe.

To add a mechanism: a builder that takes `Round` and an entry in MECHANISMS under the name it has in the library. Help,
completion and complaints follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from noisymean.cli import values
from noisymean.cli.wants import Missing, Wanted, refused
from noisymean.errors import InvalidInput
from noisymean.mechanisms import ASGM, EASGM, FEASGM, SGM, Mechanism, OpacusLoader


@final
@dataclass(frozen=True)
class Round:
    """One round as typed: numbers, except for a rate, which stays text to stay exact."""

    dataset_size: int | None
    dimension: int | None
    sample_rate: str | None
    batch_size: int | None
    noise_multiplier: float
    drop_last: bool = False
    calibrated: Calibrated | None = None


@final
@dataclass(frozen=True)
class Calibrated:
    """What make_private_with_epsilon was told, as typed; the noise then comes from the number of records."""

    epsilon: str
    delta: str | None
    epochs: str | None
    accountant: str | None

    def told(self) -> dict[str, Any]:
        """For the loader, which calibrates."""
        for name, value in (("calibrated_delta", self.delta), ("calibrated_epochs", self.epochs)):
            if value is None:
                raise Missing(name, "--calibrated-to needs it")
        if self.accountant not in (None, "prv", "rdp", "gdp"):
            raise refused("calibrated_with", self.accountant)
        constant = self.delta != "1/N"
        return {
            "target_epsilon": values.number("calibrated_to", self.epsilon),
            "target_delta": values.number("calibrated_delta", str(self.delta)) if constant else "1/N",
            "epochs": values.whole("calibrated_epochs", str(self.epochs)),
            "accountant": self.accountant,
        }


@final
@dataclass(frozen=True)
class Kind:
    """A value of --mechanism."""

    denominator: str
    build: Callable[[Round], Mechanism]


def _averaged(mechanism: type[EASGM | ASGM | FEASGM]) -> Callable[[Round], Mechanism]:
    def build(typed: Round) -> Mechanism:
        if typed.dataset_size is None:
            raise Missing("dataset_size")
        if typed.dimension is None:
            raise Missing("dimension")
        return mechanism(
            dataset_size=typed.dataset_size,
            dimension=typed.dimension,
            sample_rate=_rate(typed),
            noise_multiplier=typed.noise_multiplier,
        )

    return build


def _summed(typed: Round) -> Mechanism:
    return SGM(
        sample_rate=_rate(typed),
        noise_multiplier=typed.noise_multiplier,
        dataset_size=typed.dataset_size,
        dimension=typed.dimension,
    )


def _loaded(typed: Round) -> Mechanism:
    if typed.sample_rate is not None:
        raise InvalidInput(
            "sample_rate", typed.sample_rate, "left out for opacus-loader", "Opacus computes it from N and b"
        )
    for name in ("dataset_size", "batch_size", "dimension"):
        if getattr(typed, name) is None:
            raise Missing(name)
    return OpacusLoader(
        dataset_size=typed.dataset_size or 0,
        batch_size=typed.batch_size or 0,
        dimension=typed.dimension or 0,
        drop_last=typed.drop_last,
        **({"noise_multiplier": typed.noise_multiplier} if typed.calibrated is None else typed.calibrated.told()),
    )


def _rate(typed: Round) -> str | Fraction:
    """q as written, or b/N exactly."""
    if typed.sample_rate is not None:
        return typed.sample_rate
    if typed.batch_size is None:
        raise Missing("sample_rate", "or --batch-size")
    if typed.dataset_size is None:
        raise Missing("dataset_size", "--batch-size needs it")
    if typed.dataset_size < 1:
        raise InvalidInput("dataset_size", typed.dataset_size, ">= 1 with --batch-size", "q = b/N has no value without")
    if not 1 <= typed.batch_size <= typed.dataset_size:
        raise InvalidInput(
            "batch_size", typed.batch_size, f"from 1 to the dataset size {typed.dataset_size}", "q = b/N"
        )
    return Fraction(typed.batch_size, typed.dataset_size)


MECHANISMS = {
    "sgm": Kind("a constant", _summed),
    "easgm": Kind("N*q", _averaged(EASGM)),
    "asgm": Kind("|B|", _averaged(ASGM)),
    "feasgm": Kind("floor(N*q)", _averaged(FEASGM)),
    "opacus-loader": Kind("what Opacus 1.x makes of N and b", _loaded),
}


NAME = Wanted(f"one of {', '.join(MECHANISMS)}", "easgm")


def mechanism_of(
    *,
    name: str,
    dataset_size: str | None,
    dimension: str | None,
    sample_rate: str | None,
    batch_size: str | None,
    noise_multiplier: str | None,
    drop_last: bool = False,
    calibrated: Calibrated | None = None,
) -> Mechanism:
    """The mechanism that the text of these options describes."""
    if name not in MECHANISMS:
        raise InvalidInput("mechanism", name, NAME.allowed, NAME.remedy("--mechanism"))
    if sample_rate is not None and batch_size is not None:
        raise InvalidInput("batch_size", batch_size, "left out when --sample-rate is given", "give one of the two")
    if name != "opacus-loader" and (drop_last or calibrated is not None):
        asked = "drop_last" if drop_last else "calibrated_to"
        raise InvalidInput(
            asked,
            drop_last or getattr(calibrated, "epsilon", None),
            "left out without opacus-loader",
            "it is about its data loader",
        )
    if (noise_multiplier is None) == (calibrated is None):
        if noise_multiplier is None:
            raise Missing("noise_multiplier", "or --calibrated-to for opacus-loader")
        raise InvalidInput("noise_multiplier", noise_multiplier, "left out with --calibrated-to", "one of the two")
    typed = Round(
        dataset_size=None if dataset_size is None else values.whole("dataset_size", dataset_size),
        dimension=None if dimension is None else values.whole("dimension", dimension),
        sample_rate=None if sample_rate is None else values.rate("sample_rate", sample_rate),
        batch_size=None if batch_size is None else values.whole("batch_size", batch_size),
        noise_multiplier=math.nan if noise_multiplier is None else values.number("noise_multiplier", noise_multiplier),
        drop_last=drop_last,
        calibrated=calibrated,
    )
    return MECHANISMS[name].build(typed)
