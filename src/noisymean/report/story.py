"""The story of a noisy mean as data: real runs as they are and with constants, and what one record does to a data loader.

Whoever shows it computes nothing: the three numbers of each run come from the accountant, rate and denominator from Opacus' own
floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean import __version__
from noisymean.accounts import Account
from noisymean.mechanisms import Mechanism, OpacusLoader
from noisymean.outward import lower_bound, upper_bound
from noisymean.words import one_over


@final
@dataclass(frozen=True)
class Told:
    """One run: what was typed, the account of it, and the account of the same training with constants."""

    title: str
    # epochs and batches, as its users speak of them
    typed: str
    as_run: Account
    with_constants: Account

    @property
    def setting(self) -> str:
        """The run in a line, without its title."""
        run: Mechanism = self.as_run.mechanism
        return f"{run.dataset_size:,} records, {run.dimension:,} parameters, {self.typed}"

    @property
    def factor(self) -> float | None:
        """How many times the claim certainly leaks; None where that is no number."""
        leaked, claimed = self.as_run.value(self.as_run.leakage), self.as_run.value(self.as_run.claimed)
        return None if leaked is None or not claimed else leaked / claimed

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {
            "title": self.title,
            "setting": self.setting,
            "as_run": {**self.as_run.to_dict(), "version": __version__},
            "with_constants": {**self.with_constants.to_dict(), "version": __version__},
        }


@final
@dataclass(frozen=True)
class Loader:
    """What Opacus 1.x makes of a data loader, at N records and at one more."""

    batch_size: int
    # records, rate, denominator
    before: tuple[int, float, int]
    after: tuple[int, float, int]

    @classmethod
    def of(cls, loader: OpacusLoader) -> Loader:
        """At its own number of records."""
        first, second = loader.runs
        size = loader.dataset_size
        return cls(loader.batch_size, (size, *first), (size + 1, *second))

    def __str__(self) -> str:
        (records, rate, denominator), (more, moved, other) = self.before, self.after
        return (
            f"Opacus 1.x, batches of {self.batch_size:,}: {records:,} records are drawn at rate {one_over(rate)} and the sum is"
            f" divided by {denominator:,}; {more:,} records at rate {one_over(moved)}, divided by {other:,}"
        )

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        sides = {
            name: {"dataset_size": size, "sample_rate": rate, "denominator": denominator}
            for name, (size, rate, denominator) in (("before", self.before), ("after", self.after))
        }
        return {"batch_size": self.batch_size, **sides}


@final
@dataclass(frozen=True)
class Story:
    """The three trainings and the data loader that the demo tells of."""

    runs: tuple[Told, ...]
    loader: Loader

    @property
    def delta(self) -> float:
        """At which every epsilon is."""
        delta = self.runs[0].as_run.claimed.delta
        assert delta is not None
        return delta

    @property
    def verdicts(self) -> str:
        """A sentence that counts the verdicts, as the runs are and with constants."""
        violated = sum(told.as_run.verdict == "violated" for told in self.runs)
        held = sum(told.with_constants.verdict == "holds" for told in self.runs)
        whole = len(self.runs)
        return f"As they run, {violated} of {whole} claims are violated; with constants, {held} of {whole} hold"

    @property
    def finding(self) -> tuple[str, ...]:
        """What is claimed, what is lost, and why; then the count, which is also what the fix gives."""
        worst = max(self.runs, key=lambda told: told.factor or 0.0)
        claimed, leaked = worst.as_run.claimed.epsilon, worst.as_run.leakage.epsilon
        lost = (
            f"{worst.title}: epsilon {upper_bound(claimed)} is claimed and at least {lower_bound(leaked)} is lost, because one"
            " record more changes what the sum is divided by, and with it the scale of the noise."
            if worst.as_run.verdict == "violated" and claimed is not None and leaked is not None
            else "No claim is violated."
        )
        return (
            lost,
            f"{self.verdicts}: the same batches and the same noise, at a rate and with a denominator that no record moves.",
        )
