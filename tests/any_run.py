"""Runs from all of the range that `account` takes, each drawn from its number: the same one everywhere."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import noisymean as nm

SIZES, DIMENSIONS, STEPS = 10**9, 10**12, 10**6
NOISES = (1e-3, 1e3)
_WAYS = ("poisson", "shuffle", "fixed-size", "balls-in-bins", "cyclic")


class AnyRun(NamedTuple):
    """A mechanism by its name and settings, and what is asked of it."""

    kind: str
    settings: dict[str, Any]
    steps: int
    adjacency: nm.Adjacency | None
    asked: dict[str, float]

    def account(self) -> nm.Account:
        """The answer; nm.NoisymeanError where the command says what is wrong instead."""
        kinds: dict[str, Callable[..., nm.Mechanism]] = {
            "sgm": nm.SGM, "easgm": nm.EASGM, "asgm": nm.ASGM, "feasgm": nm.FEASGM, "opacus-loader": nm.OpacusLoader,
        }  # fmt: skip
        mechanism = kinds[self.kind](**self.settings)
        return nm.account(mechanism, steps=self.steps, adjacency=self.adjacency, **self.asked)  # type: ignore[arg-type]


def any_run(number: int) -> AnyRun:
    """The run of that number."""
    chance = random.Random(number)
    kind = chance.choice(["sgm", "easgm", "easgm", "asgm", "feasgm", "feasgm", "opacus-loader"])
    # most are drawn by Poisson sampling, which has most to work out
    drawn = chance.choice(["poisson"] * 8 + list(_WAYS))
    size = _whole(chance, SIZES)
    settings: dict[str, Any] = {
        "dataset_size": size,
        "dimension": _whole(chance, DIMENSIONS),
        "noise_multiplier": _between(chance, *(NOISES if chance.random() < 0.6 else (0.3, 30.0))),
    }
    if kind == "opacus-loader":
        drawn = drawn if drawn in ("shuffle", "cyclic") else "poisson"
        settings |= {"batch_size": _whole(chance, min(size, 10**6)), "drop_last": chance.random() < 0.4}
    elif drawn in ("shuffle", "cyclic", "fixed-size"):
        batch = _whole(chance, min(size, 10**6))
        settings |= {"batch_size": batch, "sample_rate": Fraction(batch, size)}
    else:
        settings["sample_rate"] = Fraction(1, _whole(chance, 10**6)) if drawn != "poisson" else _rate(chance, size)
    if drawn != "poisson":
        settings["sampling"] = drawn
    adjacency = chance.choice([None, None, None, *nm.Adjacency])
    asked = {"delta": _between(chance, 1e-12, 0.5)}
    if chance.random() < 0.25:
        asked = {"epsilon": 0.0 if chance.random() < 0.1 else _between(chance, 1e-3, 100.0)}
    return AnyRun(kind, settings, _whole(chance, STEPS), adjacency, asked)


def _whole(chance: random.Random, most: int) -> int:
    """Its logarithm is spread evenly, and one in four is small."""
    if chance.random() < 0.25:
        return min(most, 1 + chance.randrange(5))
    return min(most, max(1, round(math.exp(chance.uniform(0.0, math.log(most))))))


def _between(chance: random.Random, least: float, most: float) -> float:
    return float(f"{math.exp(chance.uniform(math.log(least), math.log(most))):.2g}")


def _rate(chance: random.Random, size: int) -> Fraction:
    kind = chance.random()
    if kind < 0.1:
        return Fraction(1)
    if kind < 0.3:
        return 1 - Fraction(str(_between(chance, 1e-6, 0.5)))
    if kind < 0.5:
        return Fraction(min(_whole(chance, 10**6), size), size)
    return Fraction(str(_between(chance, 1e-7, 1.0)))
