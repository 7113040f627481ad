"""What the page can be asked. Every value stays the text that was typed: in the address, in the box and in the command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, final
from urllib.parse import urlencode

from noisymean.errors import InvalidInput, NoisymeanError, Shown
from noisymean.mechanisms import KINDS, DrawnAnyWay
from noisymean.report.asked_run import AskedRun

_LONGEST = 60


@final
@dataclass(frozen=True)
class Control:
    """A slider on a logarithmic scale with a box; `name` is the command's option without its dashes."""

    name: str
    symbol: str
    label: str
    least: float
    most: float
    default: str
    whole: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The slider's ends, as powers of ten."""
        return math.log10(self.least), math.log10(self.most)

    @property
    def start(self) -> float:
        return math.log10(float(Fraction(self.default)))


CONTROLS = (
    Control("dataset-size", "N", "records in the dataset", 1, 1e9, "59999"),
    Control("dimension", "n", "numbers released a round (parameters)", 1, 1e12, "1485217"),
    Control("sample-rate", "q", "sample rate", 1e-6, 1, "0.005", whole=False),
    Control("batch-size", "b", "batch size of the loader", 1, 1e6, "600"),
    Control("noise-multiplier", "σ", "noise multiplier", 0.1, 1000, "10", whole=False),
    Control("steps", "T", "steps (rounds)", 1, 1e6, "2000"),
    Control("delta", "δ", "delta", 1e-15, 0.1, "1e-5", whole=False),
)
DEFAULT_MECHANISM = "easgm"


def in_symbols(fault: NoisymeanError) -> str:
    """A complaint with the page's name for what it is about: `N = 'abc': must be ...`."""
    symbols = {one.name.replace("-", "_"): one.symbol for one in CONTROLS}
    if not isinstance(fault, InvalidInput) or fault.name not in symbols:
        return str(fault)
    return str(InvalidInput(f"{symbols[fault.name]} ", Shown(f" {fault.value}"), fault.allowed, fault.remedy))


def unused_controls() -> dict[str, list[str]]:
    """Of each mechanism, the controls that say nothing about it: those of settings that it is not made with.

    Batches are drawn by Poisson sampling here, so a size is no setting of those that could be drawn in another way.
    """
    about = ("sample-rate", "batch-size")
    unused = {name: [one for one in about if not kind.takes(one.replace("-", "_"))] for name, kind in KINDS.items()}
    return unused | {name: ["batch-size"] for name, kind in KINDS.items() if issubclass(kind, DrawnAnyWay)}


@final
@dataclass(frozen=True)
class Settings:
    """The mechanism's name and (option, text) for the options that it takes."""

    mechanism: str
    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, typed: Mapping[str, object]) -> Settings:
        """From an address or from the page; what is not there has its default, what does not belong there is dropped."""
        mechanism = _text(typed.get("mechanism", DEFAULT_MECHANISM))
        unused = unused_controls().get(mechanism, [])
        values = ((c.name, _text(typed.get(c.name, c.default))) for c in CONTROLS if c.name not in unused)
        return cls(mechanism, tuple(values))

    @property
    def query(self) -> str:
        """The part of the address after its question mark."""
        return urlencode([("mechanism", self.mechanism), *self.values])

    @property
    def command_parts(self) -> list[str]:
        """What to type for the same numbers: the command, then each option with its value."""
        options = (("mechanism", self.mechanism), *self.values)
        return ["noisymean account", *(shlex.join([f"--{name}", text]) for name, text in options)]

    def get(self, name: str) -> str | None:
        """The text of an option, None where the mechanism does not take it."""
        return dict(self.values).get(name)


def _text(value: object) -> str:
    return " ".join(str(value).split())[:_LONGEST]


# Text to numbers is the command line's business: the page complains of the same things in the same words.
Reader: TypeAlias = Callable[[Settings], AskedRun]
