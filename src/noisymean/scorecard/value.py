"""A scorecard as a value: facts about places, and the line that they make for each pitfall.

One fact that a pitfall is there makes it *found*. It is *passed* only if something in view shows that it is avoided and nothing
in view is left open: that nothing was found is no evidence. Everything else is *not checkable here*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, final

from noisymean.lint.findings import NotRead, Place
from noisymean.results import Lines, Result
from noisymean.scorecard.pitfalls import PITFALLS, Pitfall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Places of what was found in the reason of a line, of anything else one; all of them are in the JSON.
_NAMED = 3
# Facts that a line keeps: more is no code of people.
_KEPT = 1_000


class Outcome(Enum):
    """What is known of one pitfall."""

    PASSED = "passed"
    FOUND = "found"
    NOT_CHECKABLE = "not checkable"


class Subject(Enum):
    """What was looked at."""

    SOURCE = "source"
    ENGINE = "engine"


@final
@dataclass(frozen=True)
class Fact:
    """What one place tells of one pitfall. `rule` is the linter's, and `silenced` the reason of the comment on its line."""

    pitfall: Pitfall
    outcome: Outcome
    says: str
    place: Place | None = None
    rule: str | None = None
    silenced: str | None = None

    @property
    def what(self) -> str:
        """What it says, and why it is silenced if it is."""
        return self.says if self.silenced is None else f"{self.says}, silenced: {self.silenced or 'no reason is given'}"

    def plain(self) -> dict[str, object]:
        """The line and its place as plain data, for JSON."""
        place = self.place
        return {
            "outcome": self.outcome.value,
            "says": self.says,
            "rule": self.rule,
            "silenced": self.silenced,
            "file": None if place is None else place.file,
            "line": None if place is None else place.line,
            "cell": None if place is None else place.cell,
            "cell_line": None if place is None else place.cell_line,
            "source": None if place is None else place.source,
        }


@final
@dataclass(frozen=True)
class Line:
    """One pitfall, what is known of it, and the facts that say so."""

    pitfall: Pitfall
    outcome: Outcome
    facts: tuple[Fact, ...]
    # facts that were left out
    more: int = 0

    @property
    def open(self) -> bool:
        """Found, and not all of it silenced."""
        return self.outcome is Outcome.FOUND and any(one.silenced is None for one in self.facts)

    @property
    def why(self) -> str:
        """The reason, in a few words."""
        if not self.facts:
            return self.pitfall.instead
        most = _NAMED if self.outcome is Outcome.FOUND else 1
        said: dict[str, list[str]] = {}
        for one in self.facts[:most]:
            said.setdefault(one.what, []).append("" if one.place is None else str(one.place))
        named = ["; ".join(_after(places, what) for what, places in said.items())]
        more = len(self.facts) - most + self.more
        return "; ".join([*named, *([f"and {more:,} more"] if more > 0 else [])])


def _after(places: Sequence[str], what: str) -> str:
    where = ", ".join(filter(None, places))
    return f"{where}: {what}" if where else what


def line_of(pitfall: Pitfall, facts: Iterable[Fact]) -> Line:
    """The line that facts make: found if one is, passed only if all of them are and there is one."""
    own = tuple(dict.fromkeys(one for one in facts if one.pitfall is pitfall))
    found = tuple(one for one in own if one.outcome is Outcome.FOUND)
    if found:
        # what no comment silences comes first
        return _kept(pitfall, Outcome.FOUND, sorted(found, key=lambda one: one.silenced is not None))
    left = tuple(one for one in own if one.outcome is Outcome.NOT_CHECKABLE)
    if left or not own:
        return _kept(pitfall, Outcome.NOT_CHECKABLE, left)
    return _kept(pitfall, Outcome.PASSED, own)


def _kept(pitfall: Pitfall, outcome: Outcome, facts: Sequence[Fact]) -> Line:
    return Line(pitfall, outcome, tuple(facts[:_KEPT]), max(len(facts) - _KEPT, 0))


@final
@dataclass(frozen=True)
class Scorecard(Result):
    """One line for each pitfall. `trains` is whether any training with DP is in view."""

    subject: Subject
    name: str
    rows: tuple[Line, ...]
    trains: bool
    files: int = 0
    not_read: tuple[NotRead, ...] = ()

    @classmethod
    def of(
        cls,
        subject: Subject,
        name: str,
        facts: Sequence[Fact],
        *,
        trains: bool,
        files: int = 0,
        not_read: tuple[NotRead, ...] = (),
    ) -> Scorecard:
        """The lines that facts make; none is passed or found where nothing trains with DP."""
        nothing = [Fact(one, Outcome.NOT_CHECKABLE, "no training with DP is in view") for one in PITFALLS]
        known = facts if trains else nothing
        return cls(subject, name, tuple(line_of(one, known) for one in PITFALLS), trains, files, not_read)

    def __getitem__(self, pitfall: str) -> Line:
        """The line of a pitfall, by its id."""
        return {one.pitfall.id: one for one in self.rows}[pitfall]

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many pitfalls are passed, found and not checkable."""
        seen = Counter(one.outcome for one in self.rows)
        return {one: seen[one] for one in Outcome}

    @property
    def found(self) -> tuple[Line, ...]:
        """The lines of the pitfalls that are there and that no comment silences."""
        return tuple(one for one in self.rows if one.open)

    # --- as every answer -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """Plain data, as `check --json` prints it."""
        return {
            "subject": self.subject.value,
            "name": self.name,
            "trains_with_dp": self.trains,
            "pitfalls": [
                {
                    "id": one.pitfall.id,
                    "name": one.pitfall.name,
                    "says": one.pitfall.says,
                    "page": one.pitfall.page,
                    "outcome": one.outcome.value,
                    "open": one.open,
                    "why": one.why,
                    "instead": one.pitfall.instead,
                    "evidence": [each.plain() for each in one.facts],
                }
                for one in self.rows
            ],
            "counts": {one.value: count for one, count in self.counts.items()},
            "files": self.files,
            "not_read": [{"file": one.file, "reason": one.reason} for one in self.not_read],
            "version": import_module("noisymean").__version__,
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """A row for each pitfall."""
        return {
            "id": [one.pitfall.id for one in self.rows],
            "pitfall": [one.pitfall.name for one in self.rows],
            "outcome": [one.outcome.value for one in self.rows],
            "why": [one.why for one in self.rows],
        }

    def lines(self) -> Lines:
        """The table, a reason of several lines in the first of them; what was not read, and the counts, below."""
        first: dict[tuple[Outcome, str], str] = {}
        rows = []
        for one in self.rows:
            before = first.setdefault((one.outcome, one.why), one.pitfall.id)
            why = one.why if before == one.pitfall.id else f"as {before}"
            rows.append([f"{one.pitfall.id} {one.pitfall.name}", one.outcome.value, why])
        unread = [f"- not read: {one.file}: {one.reason}" for one in self.not_read]
        return Lines(
            f"Pitfalls of training with DP: {self.name}", ("pitfall", "outcome", "why"), rows, [*unread, self.last]
        )

    @property
    def last(self) -> str:
        """The last line: the counts, or that there is nothing to count."""
        said = ", ".join(f"{count} {one.value}" for one, count in self.counts.items())
        silenced = sum(one.outcome is Outcome.FOUND and not one.open for one in self.rows)
        said += f" ({silenced} of those found silenced)" if silenced else ""
        if self.subject is Subject.ENGINE:
            return f"{said}; nothing was trained to see it."
        read = f"{self.files:,} file{'' if self.files == 1 else 's'} read, nothing of it was run."
        return f"{said}; {read}" if self.trains else f"No training with DP was found; {read}"

    def plot(self) -> Figure:
        """A cell for each pitfall, in the colour of its outcome."""
        figure: Figure = import_module("noisymean.report.scorecard_plots").scorecard_figure(self)
        return figure
