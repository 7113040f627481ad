"""What a finished run told, as a value: the denominator, the numbers of records that fit, and how sure one can be of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, assert_never, final

from noisymean.errors import MissingDependency
from noisymean.finished.checkpoints import Gap
from noisymean.finished.denominator import LONGEST_GRADIENT, Denominator, Doubt, Quiet, Told
from noisymean.finished.optimizers import Descent
from noisymean.finished.series import Why
from noisymean.finished.sizes import Kind, Sizes
from noisymean.outward import at_least, at_most
from noisymean.results import Lines, Result
from noisymean.written import plain, power, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Odds of twenty to one: less is not called a difference.
TOLD_APART = math.log(20.0)
# Ten to so many is as much as is said of odds.
_MOST_ODDS = 9
_MOST_RUNS_SHOWN, _MOST_RUNS_WRITTEN = 6, 1000


@final
@dataclass(frozen=True)
class Size:
    """A number of records, the denominator that it has, and the log-likelihood of that."""

    records: int
    denominator: Fraction | None
    log_likelihood: float | None
    fits: bool


@final
@dataclass(frozen=True)
class Sure:
    """N against N - 1 and N + 1."""

    asked: Size
    smaller: Size
    larger: Size

    def ratio(self, other: Size) -> float | None:
        """The log-likelihood of the asked N over that of the other; None where one has no denominator."""
        if self.asked.log_likelihood is None or other.log_likelihood is None:
            return None
        return self.asked.log_likelihood - other.log_likelihood


@final
@dataclass(frozen=True, eq=False)
class FinishedRun(Result):
    """The denominator of a finished run, the numbers of records that are consistent with it, and what it rests on.

    `denominator` is None where the run tells none, and `doubt` why; `steps_from_to` has the denominators of single steps then.
    `consistent` are runs (from, to) of N: all, or all up to `tried` where larger ones may fit as well.
    """

    checkpoints: int
    gradients: int
    parameters: int
    descent: Descent
    every: int
    told: Told
    denominator: Denominator | None
    doubt: Doubt | None
    quiet: Quiet | None
    directions: int
    steps_from_to: tuple[float, float]
    sizes: Sizes | None
    consistent: tuple[tuple[int, int], ...]
    tried: int | None
    sure: Sure | None
    gaps: tuple[Gap, ...]
    too_short: int
    left_out: Mapping[str, Why]
    files_left_out: tuple[str, ...]
    still: int
    version: str

    @property
    def interval(self) -> tuple[float, float] | None:
        """The least and the largest denominator that are consistent with the run."""
        return None if self.denominator is None else (self.denominator.at_least, self.denominator.at_most)

    @property
    def fits_nothing(self) -> bool:
        """Whether no N has such a denominator: then something that was told is not so."""
        known = self.sizes is not None and self.sizes.kind is not Kind.CONSTANT
        return known and self.denominator is not None and not self.consistent

    def log_likelihood(self, denominator: float) -> float:
        """Of that denominator, relative to the most likely ones: 0 at those, negative elsewhere."""
        if self.denominator is None:
            return math.nan
        return self.denominator.log_likelihood(denominator)

    # --- as every answer -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """Plain data, the object that `probe-run --json` prints."""
        found, descent = self.denominator, self.descent
        return {
            "checkpoints": self.checkpoints,
            "gradients": self.gradients,
            "parameters": self.parameters,
            "confidence": self.told.confidence,
            "told": {
                "optimizer": "sgd",
                "learning_rate": descent.learning_rate,
                "momentum": descent.momentum,
                "dampening": descent.dampening,
                "nesterov": descent.nesterov,
                "weight_decay": descent.weight_decay,
                "every": self.every,
                "noise_multiplier": self.told.noise_multiplier,
                "max_grad_norm": self.told.max_grad_norm,
                "mechanism": None if self.sizes is None else self.sizes.kind.value,
                "batch_size": None if self.sizes is None else self.sizes.batch_size,
                "sample_rate": None if self.sizes is None or self.sizes.rate is None else str(self.sizes.rate),
            },
            "steady": self.doubt is not Doubt.VARIES,
            "doubt": None if self.doubt is None else self.doubt.value,
            "quiet_tensor": None if self.quiet is None else {"name": self.quiet.tensor, "ratio": self.quiet.ratio},
            "denominator": None
            if found is None
            else {
                "at_least": found.at_least,
                "at_most": found.at_most,
                "if_all_is_noise": found.bare,
                "spread_of_batches_at_most": found.spread(found.at_most),
                "feedback_at_most": found.feedback(found.at_least),
                "degrees_of_freedom": found.rest.degrees,
                "rounding": found.rounding / found.rest.variance,
            },
            "of_single_steps": list(self.steps_from_to),
            "directions_taken_out": self.directions,
            "dataset_sizes": None
            if self.sizes is None or found is None or self.sizes.kind is Kind.CONSTANT
            else {
                "count": sum(last - first + 1 for first, last in self.consistent),
                "runs": [list(one) for one in self._runs_written()],
                "all_runs": len(self.consistent) <= _MOST_RUNS_WRITTEN,
                "tried_up_to": self.tried,
            },
            "asked": None if self.sure is None else self._sure_dict(self.sure),
            "gaps": [{"before": one.before, "after": one.after} for one in self.gaps],
            "parts_too_short": self.too_short,
            "left_out": {name: why.value for name, why in self.left_out.items()},
            "files_left_out": list(self.files_left_out),
            "parameters_that_never_move": self.still,
            "version": self.version,
        }

    def _sure_dict(self, sure: Sure) -> dict[str, object]:
        def plainly(one: Size) -> dict[str, object]:
            return {
                "dataset_size": one.records,
                "denominator": None if one.denominator is None else float(one.denominator),
                "log_likelihood": one.log_likelihood,
                "consistent": one.fits,
            }

        return {
            **plainly(sure.asked),
            "smaller": {**plainly(sure.smaller), "log_likelihood_ratio": sure.ratio(sure.smaller)},
            "larger": {**plainly(sure.larger), "log_likelihood_ratio": sure.ratio(sure.larger)},
        }

    def _runs_written(self) -> Sequence[tuple[int, int]]:
        """Those nearest to the N that was asked about, if there are too many."""
        return self._nearest(_MOST_RUNS_WRITTEN)

    def _nearest(self, most: int) -> Sequence[tuple[int, int]]:
        if len(self.consistent) <= most:
            return self.consistent
        if self.sure is None:
            return self.consistent[:most]
        asked = self.sure.asked.records
        near = sorted(self.consistent, key=lambda one: max(one[0] - asked, asked - one[1], 0))[:most]
        return sorted(near)

    def columns(self) -> Mapping[str, Sequence[object]]:
        """The N that was asked about and its neighbours; without one, the interval; without that, what single steps look like."""
        if self.sure is not None:
            each = (self.sure.smaller, self.sure.asked, self.sure.larger)
            return {
                "dataset_size": [one.records for one in each],
                "denominator": [None if one.denominator is None else float(one.denominator) for one in each],
                "log_likelihood": [one.log_likelihood for one in each],
                "consistent": [one.fits for one in each],
            }
        if self.interval is None:
            return {"single_steps_from": [self.steps_from_to[0]], "single_steps_to": [self.steps_from_to[1]]}
        return {"denominator_at_least": [self.interval[0]], "denominator_at_most": [self.interval[1]]}

    def lines(self) -> Lines:
        """The denominator, the N that fit, and what was told."""
        updates = f"{self.gradients:,} noisy updates of {plain(str(self.parameters))} parameters"
        if self.denominator is None or self.doubt is not None:
            low, high = self.steps_from_to
            rows = [("denominator", f"undetermined: {short(low, 4)} to {short(high, 4)} in single steps")]
            return Lines(updates, ("", ""), rows, [self._undetermined(), *self._of_files()])
        found = self.denominator
        between = f"{plain(at_least(found.at_least))} to {plain(at_most(found.at_most))}"
        sure = f"{100 * self.told.confidence:.6g} %"
        rows = [("denominator", f"{between} (with {sure} confidence)")]
        if self.sizes is not None:
            rows.append(("it is", self.sizes.in_words))
        if self.sizes is not None and self.sizes.kind is not Kind.CONSTANT:
            rows.append(("records", self._records()))
        if self.sure is not None:
            rows.extend(self._rows_of(self.sure))
        return Lines(updates, ("", ""), rows, [*self._trust(), *self._of_files()])

    def plot(self) -> Figure:
        """The log-likelihood of each denominator, with those of N - 1, N and N + 1; needs matplotlib."""
        try:
            draw = import_module("noisymean.finished.picture")
        except ImportError:
            raise MissingDependency("matplotlib", "plots") from None
        figure: Figure = draw.figure(self)
        return figure

    # --- sentences -----------------------------------------------------------------------------------------------------

    def _records(self) -> str:
        if not self.consistent:
            return (
                "no N has such a denominator"
                if self.tried is None
                else f"no N up to {self.tried:,} has such a denominator"
            )
        shown = self._nearest(_MOST_RUNS_SHOWN)
        count = sum(last - first + 1 for first, last in self.consistent)
        words = ", ".join(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in shown)
        if len(shown) == len(self.consistent):
            more = "" if self.tried is None else f" (of N up to {self.tried:,})"
            return f"{'any N of' if count > 1 else 'N ='} {words}{more}"
        tried = "" if self.tried is None else f" of the first {self.tried:,}"
        near = "nearest" if self.sure is not None else "first"
        return f"{count:,}{tried} fit; the {near}: {words}"

    def _rows_of(self, sure: Sure) -> list[tuple[str, str]]:
        asked = sure.asked
        rows = []
        for one in (sure.smaller, asked, sure.larger):
            c = "no denominator" if one.denominator is None else f"denominator {short(float(one.denominator))}"
            fits = "consistent" if one.fits else "excluded"
            words = fits if one is asked else self._against(sure, one)
            rows.append((f"N = {one.records:,}", f"{c}: {words}"))
        return rows

    def _against(self, sure: Sure, other: Size) -> str:
        ratio = sure.ratio(other)
        if ratio is None:
            return "not comparable"
        if other.denominator == sure.asked.denominator or abs(ratio) < TOLD_APART:
            return f"cannot be told apart from {sure.asked.records:,}"
        return f"{_odds(abs(ratio))} times {'less' if ratio > 0 else 'more'} likely than {sure.asked.records:,}"

    def _trust(self) -> list[str]:
        told = self.told
        batch = "no more records than the denominator" if told.batch is None else f"{told.batch:,g} records"
        said = [
            f"Taken on trust: learning rate {self.descent.learning_rate:g}, C = {told.max_grad_norm:g}, "
            f"sigma = {told.noise_multiplier:g}. If one of them is off by a factor, so is the denominator.",
            f"Taken for granted: batches of {batch}, gradients of a mean length of at most {LONGEST_GRADIENT:g} before they are "
            "clipped, and an expected gradient that changes little from step to step.",
        ]
        if self.fits_nothing:
            said.insert(
                0, "No number of records fits: learning rate, C, sigma, batch size or mechanism are not what was told."
            )
        elif self.sure is not None and not self.sure.asked.fits:
            said.insert(0, f"{self.sure.asked.records:,} records do not fit this run, if all that was told is so.")
        return said

    def _undetermined(self) -> str:
        match self.doubt:
            case Doubt.VARIES | None:
                return (
                    "The noise is not the same in all steps: the denominator moves with each batch (as in asgm), "
                    "or the learning rate, C or sigma changed. Give a part of the run in which they are constant."
                )
            case Doubt.FOLLOWED:
                return (
                    "The gradients take back the noise of earlier steps, in more directions than is allowed for: what is left "
                    "of them cannot be told from noise. A part of the run with a smaller learning rate would tell more."
                )
            case Doubt.RESTLESS:
                return (
                    "From step to step the gradients change more than batches of that size explain, in "
                    f"{self.directions} directions that stand out and perhaps in more that cannot be told from noise. "
                    "A part of the run with a smaller learning rate would tell more."
                )
            case Doubt.UNEVEN:
                assert self.quiet is not None
                return (
                    f"{self.quiet.tensor} has {self.quiet.ratio:.2f} times the noise of the whole, and batches of that size do "
                    f"not explain it. If it is a buffer, or has a learning rate of its own: --leave-out {self.quiet.tensor}. "
                    "Else gradients change too much from step to step to be told from noise."
                )
            case _ as never:
                assert_never(never)

    def _of_files(self) -> list[str]:
        said = [
            f"Nothing is known between {gap.before} and {gap.after}: that update is left out." for gap in self.gaps[:3]
        ]
        if len(self.gaps) > 3:
            said.append(f"{len(self.gaps) - 3} more gaps.")
        if self.too_short:
            said.append(
                f"{self.too_short} {'part' if self.too_short == 1 else 'parts'} of the run between gaps tell nothing: "
                "each has too few checkpoints in a row."
            )
        by_why: dict[Why, list[str]] = {}
        for name, why in self.left_out.items():
            by_why.setdefault(why, []).append(name)
        for why, names in by_why.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            said.append(f"Left out ({why.value}): {', '.join(names[:3])}{more}.")
        if self.files_left_out:
            said.append(f"Files without a number in their names are left out: {', '.join(self.files_left_out[:3])}.")
        if self.still:
            said.append(f"{self.still:,} parameters never move, and are left out.")
        return said


def _odds(ratio: float) -> str:
    """e^ratio, in powers of ten where it is large, and no further than a normal law can be trusted."""
    exponent = ratio / math.log(10.0)
    if exponent >= _MOST_ODDS:
        return f"more than {power(_MOST_ODDS)}"
    return f"{math.exp(ratio):,.0f}" if exponent < 4 else power(math.floor(exponent))
