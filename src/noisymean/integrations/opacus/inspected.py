"""What an inspection found, as a value that shows itself: for a terminal, a notebook, a program, a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from noisymean.grounds import Ground, Known
from noisymean.integrations.opacus.facts import Stretch
from noisymean.integrations.opacus.neighbours import as_written
from noisymean.integrations.opacus.said import Asked, OpacusSaid
from noisymean.mechanisms import Mechanism
from noisymean.outward import at_least, at_most
from noisymean.pairs import Datasets
from noisymean.results import Answer, Lines, as_html, finite
from noisymean.schema import SCHEMA
from noisymean.verdict import Word
from noisymean.words import NONE_KNOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = "(Accountant() looks at each)"
_IF_ALIKE = f"if every step is one new batch of this loader and nothing is changed on the way {_LOOKS}"
_IF_WHOLE = (
    "if every step is one new batch of this loader, every epoch comes to its end, random numbers are never started again and"
    f" nothing is changed on the way {_LOOKS}"
)
_NOBODY_KNOWS = "unknown"


@final
@dataclass(frozen=True)
class Spent:
    """Three epsilons at `delta`; None where nothing is known, with the reason in `notes`."""

    delta: float
    claimed: float
    leakage: float | None
    guarantee: float | None
    pair: Datasets | None
    notes: tuple[str, ...]
    verdict: Word
    grounds: tuple[Ground, ...] = ()


@final
@dataclass(frozen=True)
class Inspection(Answer):
    """What runs, what it has cost so far, and the remedy. `print` it."""

    name: str
    mechanisms: tuple[Mechanism, ...]
    dataset_size: int
    stretches: tuple[Stretch, ...]
    taken: int
    spent: Spent
    remedy: str
    # whether each step was looked at when it was taken
    watched: bool = True
    asked: Asked | None = field(default=None, compare=False, repr=False)

    @property
    def steps(self) -> int:
        """Steps that were accounted for; 1, or those of an epoch, if none was taken so far."""
        return sum(one.steps for one in self.stretches)

    @property
    def verdict(self) -> str:
        """violated, holds or undetermined."""
        return self.spent.verdict

    @cached_property
    def opacus_said(self) -> OpacusSaid | None:
        """What Opacus' own accountant says of the same steps, asked now; None before the first one."""
        return None if self.asked is None else self.asked.answer(self.spent.claimed)

    @property
    def condition(self) -> str:
        """What the numbers are for, where nobody has looked at the steps one by one; empty where that is no matter."""
        if self.spent.leakage is None and self.spent.guarantee is None:
            return ""
        last = self.stretches[-1]
        if last.by_epochs:
            # of batches that somebody draws himself nobody has seen an epoch
            return "" if self.watched and self.taken and last.seen.drawn.known is Known.SEEN else _IF_WHOLE
        return _IF_ALIKE if self.verdict == "holds" and not self.watched else ""

    def __str__(self) -> str:
        spent = self.spent
        rows = [
            f"mechanism   {self.name}",
            *(f"  {line}" for line in self._ran()),
            f"epsilon at delta = {spent.delta:g}",
            f"  claimed   {at_most(spent.claimed)}" + (f"    {self._said()}" if self.opacus_said else ""),
            f"  leakage   {bound_text(spent.leakage, at_least)}"
            + (f"    on this pair: {spent.pair}" if spent.pair else ""),
            f"  guarantee {bound_text(spent.guarantee, at_most)}",
            f"verdict     {self.judged}",
            f"remedy      {self.remedy}",
            "it rests on",
            *(f"  {ground}" for ground in spent.grounds),
        ]
        return "\n".join(rows + [f"- {note}" for note in self._notes()])

    def _ran(self) -> list[str]:
        """What runs, in a few lines."""
        last = self.stretches[-1]
        seen = last.seen
        divided = "nothing (loss_reduction='sum')" if seen.denominator is None else f"{seen.denominator:g}"
        if seen.denominator is not None:
            divided += ", a public constant" if seen.public.denominator is not None else " (expected_batch_size)"
        rate = f"{as_written(last.sample_rate)}"
        rate += ", public" if seen.public.sample_rate is not None else ", from the length of the data loader"
        noise = ", ".join(f"{value:g}" for value in dict.fromkeys(one.noise_multiplier for one in self.stretches))
        one = "an epoch of them" if last.by_epochs else "one"
        counted = f"{self.taken:,} so far" if self.taken else f"none so far: what {one} costs is shown"
        return [
            f"records   {self.dataset_size:,}    parameters {seen.dimension or 0:,}    noise multiplier {noise}",
            f"the sum is divided by {divided}; sampling rate {rate}",
            f"steps     {counted}",
        ]

    @property
    def judged(self) -> str:
        """The verdict, with what it depends on."""
        told = self.condition if self.verdict != "undetermined" else ""
        return f"{self.verdict}, {told}" if told else self.verdict

    def _notes(self) -> list[str]:
        # what is not decided is known under the same condition
        open_yet = bool(self.condition) and self.verdict == "undetermined"
        return [*([f"these numbers are right {self.condition}"] if open_yet else []), *self.spent.notes]

    def _repr_html_(self) -> str:
        spent = self.spent
        rows = [
            ("claimed", at_most(spent.claimed), self._said()),
            ("leakage", bound_text(spent.leakage, at_least), f"on this pair: {spent.pair}" if spent.pair else ""),
            ("guarantee", bound_text(spent.guarantee, at_most), ""),
        ]
        sentences = [
            f"verdict: {self.judged}",
            f"remedy: {self.remedy}",
            *(f"it rests on {ground}" for ground in spent.grounds),
            *self._notes(),
        ]
        heading = "; ".join([f"mechanism {self.name}", *(" ".join(line.split()) for line in self._ran())])
        return as_html(Lines(heading, ("", f"epsilon at delta = {spent.delta:g}", ""), rows, sentences))

    def _said(self) -> str:
        """What Opacus' own accountant says, beside the claim."""
        return "" if self.opacus_said is None else self.opacus_said.beside(self.spent.claimed)

    def to_dict(self) -> dict[str, object]:
        """Plain data: the object of the schema `inspect`, docs/json.md."""
        spent, said = self.spent, self.opacus_said
        pair = {} if spent.pair is None else {"pair": str(spent.pair), "gradients": asdict(spent.pair)}
        return {
            "schema": SCHEMA,
            "version": import_module("noisymean").__version__,
            "mechanism": self.name.lower() if self.name != _NOBODY_KNOWS else None,
            "mechanisms": [{"mechanism": one.name, "settings": one.settings()} for one in self.mechanisms],
            "dataset_size": self.dataset_size,
            "dimension": self.stretches[-1].seen.dimension,
            "taken": self.taken,
            "steps": self.steps,
            "stretches": [_plain(one) for one in self.stretches],
            "delta": spent.delta,
            "claimed": {"epsilon": _finite(spent.claimed)},
            "leakage": {"epsilon": _finite(spent.leakage), **pair},
            "guarantee": {"epsilon": _finite(spent.guarantee)},
            "verdict": self.verdict,
            "condition": self.condition or None,
            "watched": self.watched,
            "remedy": self.remedy,
            "grounds": [ground.plain() for ground in spent.grounds],
            "notes": list(spent.notes),
            "opacus": None if said is None else said.plain(),
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """A row for each of the three numbers, and one for what Opacus' own accountant says, if it says anything."""
        spent, said = self.spent, self.opacus_said
        rows: list[tuple[str, float | None, str | None]] = [
            ("claimed", spent.claimed, None),
            ("leakage", spent.leakage, None if spent.pair is None else str(spent.pair)),
            ("guarantee", spent.guarantee, None),
        ]
        if said is not None:
            rows.append((f"opacus {said.accountant}", said.epsilon, None))
        names, epsilons, pairs = zip(*rows, strict=True)
        return {"name": names, "epsilon": epsilons, "delta": [spent.delta] * len(rows), "pair": pairs}

    def plot(self) -> Figure:
        """From what is certainly lost to what is certainly not exceeded, and where the claim is."""
        # matplotlib is loaded by whoever asks for a figure
        figure: Figure = import_module("noisymean.report.inspection_plots").inspection_figure(self)
        return figure


def bound_text(value: float | None, rounded: Callable[[float], str]) -> str:
    """A number rounded to its own side, or that there is none."""
    return NONE_KNOWN if value is None else rounded(value)


def _finite(value: float | None) -> float | None:
    return None if value is None else finite(value)


def _plain(one: Stretch) -> dict[str, Any]:
    seen = one.seen
    return {
        "noise_multiplier": one.noise_multiplier,
        "sample_rate": one.sample_rate,
        "steps": one.steps,
        "denominator": seen.denominator,
        "denominator_is_public": seen.public.denominator is not None,
        "rate_is_public": seen.public.sample_rate is not None,
        "sampling": None if seen.drawn.sampling is None else seen.drawn.sampling.value,
        "fault": seen.fault or None,
    }
