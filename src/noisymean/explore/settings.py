"""What the page can be asked. Every value stays the text that was typed: in the address, in the box and in the command.

A control is a number with a slider; a choice is one of a few words. Two questions may be answered in several ways, and the way is
which controls are in use: the rate (q, or the size of a batch, or both for batches that have one) and the length (steps or
epochs). The address has what is in use and nothing else; what it has not is as the page starts. An address that names something
the page does not have, or one thing twice, is refused: nothing in it is dropped without a word.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import product
from typing import final
from urllib.parse import urlencode

from noisymean.accounts import Account, Pair
from noisymean.choices import written_as
from noisymean.errors import InvalidInput, NoisymeanError, Shown
from noisymean.mechanisms import KINDS, Adjacency, DrawnAnyWay, Sampling
from noisymean.report.asked_run import AskedRun
from noisymean.written import for_people, plain, typeset

_LONGEST = 60
# Of a number for people: powers of ten that are none any more, and those from which it is written as one.
_MOST_POWER, _WRITTEN_OUT = 400, 9
MECHANISM = "mechanism"
DEFAULT_MECHANISM = "easgm"


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


@final
@dataclass(frozen=True)
class Choice:
    """One of several words; the first is what is meant where the address says nothing, and is not said to the command."""

    name: str
    label: str
    # (value of the option, what a reader sees)
    options: tuple[tuple[str, str], ...]

    @property
    def default(self) -> str:
        return self.options[0][0]


@final
@dataclass(frozen=True)
class Ways:
    """A question that may be answered by one set of controls or by another."""

    name: str
    label: str
    # (controls in use, what a reader sees)
    options: tuple[tuple[tuple[str, ...], str], ...]

    @property
    def default(self) -> tuple[str, ...]:
        return self.options[0][0]

    @property
    def all(self) -> tuple[str, ...]:
        """Every control that may be in use."""
        return tuple(dict.fromkeys(name for names, _ in self.options for name in names))


CONTROLS = (
    Control("dataset-size", "N", "records in the dataset", 1, 1e9, "59999"),
    Control("dimension", "n", "numbers released a round (parameters)", 1, 1e12, "1485217"),
    Control("sample-rate", "q", "sample rate", 1e-6, 1, "0.005", whole=False),
    Control("batch-size", "b", "batch size", 1, 1e6, "600"),
    Control("noise-multiplier", "σ", "noise multiplier", 0.1, 1000, "10", whole=False),
    Control("steps", "T", "steps (rounds)", 1, 1e6, "2000"),
    Control("epochs", "E", "epochs (passes over the data)", 0.1, 1e4, "10", whole=False),
    Control("delta", "δ", "delta", 1e-15, 0.1, "1e-5", whole=False),
)
RATE = Ways(
    "rate",
    "The rate is given by",
    ((("sample-rate",), "q"), (("batch-size",), "a batch size"), (("sample-rate", "batch-size"), "both")),
)
LENGTH = Ways("length", "The length of the run is given in", ((("steps",), "steps"), (("epochs",), "epochs")))
WAYS = (RATE, LENGTH)
SAMPLING = Choice(
    "sampling",
    "How batches are drawn",
    (
        (Sampling.POISSON.value, "Poisson sampling"),
        (Sampling.SHUFFLE.value, "shuffling"),
        (Sampling.FIXED_SIZE.value, "a fixed size"),
        (Sampling.BALLS_IN_BINS.value, "balls in bins"),
        (Sampling.CYCLIC.value, "in order (cyclic)"),
    ),
)
DROP_LAST = Choice("drop-last", "A last batch that is not full is", (("", "kept"), ("yes", "dropped")))
ADJACENCY = Choice(
    "adjacency",
    "Neighbours differ in one record",
    (("", "as is usual"), *((one.value, one.change) for one in Adjacency)),
)
PAIR = Choice(
    "pair", "Of the neighbours", (("", "the worse counts"), *((one.value, f"the {one.value} one") for one in Pair))
)
CHOICES = (SAMPLING, DROP_LAST, ADJACENCY, PAIR)
# As the commands list their options: a report names its command line in this order.
_ORDER = (
    "dataset-size", "dimension", "sample-rate", "batch-size", "sampling", "noise-multiplier", "drop-last",
    "steps", "epochs", "delta", "adjacency", "pair",
)  # fmt: skip


# --- which of them say something --------------------------------------------------------------------------------------


def unused(mechanism: str, sampling: str, adjacency: str) -> list[str]:
    """The controls and choices that say nothing about such a run, and are not shown beside it."""
    kind = KINDS.get(mechanism)
    drawn = next((one for one in Sampling if one.value == sampling), None)
    if kind is None or drawn is None:
        return []
    names = [name for name in RATE.all if not kind.takes(name.replace("-", "_"))]
    if issubclass(kind, DrawnAnyWay) and drawn is Sampling.BALLS_IN_BINS:
        # a record goes into one of 1/q batches, whose sizes are random
        names.append("batch-size")
    if not kind.rate_from_size and not drawn.is_cut:
        names.append(DROP_LAST.name)
    if adjacency != Adjacency.ADD_REMOVE.value and (adjacency or not kind.size_matters):
        # neighbours of one size, or two neighbours that are one pair of laws
        names.append(PAIR.name)
    return names


def unused_everywhere() -> dict[str, list[str]]:
    """The same for every mechanism, sampling and adjacency, by the three with a space between."""
    each = product(KINDS, *([value for value, _ in choice.options] for choice in (SAMPLING, ADJACENCY)))
    return {" ".join(one): unused(*one) for one in each}


# --- settings ----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Settings:
    """The mechanism's name and (option, text) for the options that are in use."""

    mechanism: str
    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, typed: Mapping[str, Sequence[str]]) -> Settings:
        """From an address, each name with all that is said of it; InvalidInput for what the page does not have."""
        known = (MECHANISM, *(one.name for one in (*CONTROLS, *CHOICES)))
        said = {name: _once(name, texts, known) for name, texts in typed.items()}
        mechanism = said.get(MECHANISM, DEFAULT_MECHANISM)
        mechanism = written_as(mechanism, KINDS) or mechanism
        chosen = {one.name: _chosen(one, said.get(one.name, one.default)) for one in CHOICES}
        left_out = unused(mechanism, chosen[SAMPLING.name], chosen[ADJACENCY.name])
        for ways in WAYS:
            in_use = tuple(name for name in ways.all if name in said)
            allowed = [names for names, _ in ways.options if not set(names) & set(left_out)]
            # where the address names what cannot be, the command is to say so
            in_use = in_use if in_use in allowed else (*in_use, *allowed[0])
            left_out += [name for name in ways.all if name not in in_use]
        asked = [one for one in CONTROLS if one.name in said or one.name not in left_out]
        values = {one.name: said.get(one.name, one.default) for one in asked}
        values |= {one.name: chosen[one.name] for one in CHOICES if chosen[one.name] != one.default}
        return cls(mechanism, tuple((name, values[name]) for name in _ORDER if name in values))

    @property
    def query(self) -> str:
        """The part of the address after its question mark."""
        return urlencode([(MECHANISM, self.mechanism), *self.values])

    @property
    def options(self) -> list[tuple[str, ...]]:
        """Each option of the command with its value, a flag without one."""
        flags = (DROP_LAST.name,)
        each = ((MECHANISM, self.mechanism), *self.values)
        return [(f"--{name}",) if name in flags else (f"--{name}", text) for name, text in each]

    def command_parts(self, command: str = "account", *more: tuple[str, ...]) -> list[str]:
        """What to type for the same numbers: the command, then each option with its value."""
        return [f"noisymean {command}", *(shlex.join(one) for one in (*self.options, *more))]

    def get(self, name: str) -> str | None:
        """The text of an option, None where it is not in use."""
        return dict(self.values).get(name)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """(what it is, its value) as people write them: what a sheet of paper has in place of the sliders."""
        texts = dict(self.values)
        divided = KINDS[self.mechanism].denominator if self.mechanism in KINDS else "?"
        rows = [("mechanism", f"{self.mechanism}, divides by {typeset(divided)}")]
        rows += [(f"{one.label} {one.symbol}", _for_people(texts[one.name])) for one in CONTROLS if one.name in texts]
        return rows + [
            (one.label, words)
            for one in CHOICES
            for value, words in one.options
            if value == texts.get(one.name, one.default) and (one.name in texts or one is SAMPLING)
        ]

    @property
    def file_name(self) -> str:
        """What is part of the name of a file: `feasgm-N140199-q1over200-sigma10`."""
        symbols = {one.name: one.symbol for one in CONTROLS} | {"noise-multiplier": "sigma", "delta": "delta"}
        parts = [self.mechanism]
        for name, text in self.values:
            word = name if name == DROP_LAST.name else text.replace("/", "over")
            parts.append(f"{symbols.get(name, '')}{word}")
        return re.sub(r"[^A-Za-z0-9.+-]", "_", "-".join(parts))[:150]


def _once(name: str, texts: Sequence[str], known: Sequence[str]) -> str:
    if name not in known:
        raise NoisymeanError(
            f"the address has {_short(name)!r}, which this page does not ask for: open it without that"
        )
    if len(texts) != 1:
        raise InvalidInput(name, _short("; ".join(texts)), "given once", "open the page with one of them")
    text = " ".join(texts[0].split())
    if len(text) > _LONGEST:
        raise InvalidInput(name, _short(text), f"at most {_LONGEST} characters long")
    return text


def _chosen(choice: Choice, text: str) -> str:
    allowed = [value for value, _ in choice.options]
    found = text if text in allowed else written_as(text, filter(None, allowed))
    if found is None:
        raise InvalidInput(choice.name, _short(text), f"one of {', '.join(filter(None, allowed))}")
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _for_people(text: str) -> str:
    """A number with its separators and to every digit; a fraction, and what is none of our numbers, as it was typed."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    # beyond these it is no setting either, and would be written out
    if not number.is_finite() or abs(number.adjusted()) > _MOST_POWER:
        return text
    whole = number == number.to_integral_value() and number.adjusted() < _WRITTEN_OUT
    return f"{int(number):,}" if whole else plain(str(number))


_LABELS = {one.name.replace("-", "_"): one.symbol for one in CONTROLS} | {
    one.name.replace("-", "_"): one.name for one in CHOICES
}


def about(fault: NoisymeanError) -> str:
    """The control or choice that a complaint is about, empty where it is about none."""
    name = fault.name.replace("_", "-") if isinstance(fault, InvalidInput) else ""
    return name if any(one.name == name for one in (*CONTROLS, *CHOICES)) else ""


def in_symbols(fault: NoisymeanError) -> str:
    """A complaint in one sentence, with the page's name for what it is about: `N cannot be 'abc': it must be ...`."""
    if not isinstance(fault, InvalidInput) or not fault.name:
        return str(fault)
    label = _LABELS.get(fault.name.replace("-", "_"), fault.name)
    remedy = f"; {fault.remedy}" if fault.remedy else ""
    return f"{label} cannot be {Shown(fault.value)}: it must be {for_people(fault.allowed)}{remedy}"


# --- what the command line makes of them -------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Commands:
    """The commands that the page has answers of. Text to numbers is their business: the page complains of what they do.

    read     what `account` asks for these options
    record   the object that `account --json` prints
    report   the page that `report` writes, given the command line that says the same; called in another process
    """

    read: Callable[[Settings], AskedRun]
    record: Callable[[AskedRun, Account, tuple[int, Account] | None], Mapping[str, object]]
    report: Callable[[AskedRun, str], str]
