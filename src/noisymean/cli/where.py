"""--jobs, --dask, --isolate and --trial-timeout: where the trials of an audit are run, and what may end them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias, final

from noisymean.audit.isolation import check_limit, first_look
from noisymean.audit.runner import Dask, Processes, Workers
from noisymean.cli import options, values
from noisymean.cli.options import Group, text
from noisymean.errors import InvalidInput

_Text: TypeAlias = str | None


@final
@dataclass(frozen=True, kw_only=True)
class Where(Group):
    """The options, as they were typed."""

    jobs: Annotated[str, text("J", "Number of processes.")] = "1"
    dask: Annotated[_Text, text("ADDRESS", "Scheduler of a dask cluster, or local.")] = None
    isolate: Annotated[
        bool | None,
        options.flag(
            "--isolate/--no-isolate",
            "Run trials in a process of their own, or in this one [default: those of FILE.py:NAME in their own].",
        ),
    ] = None
    trial_timeout: Annotated[_Text, text("SECONDS", "End the audit if a trial takes longer than that.")] = None

    @property
    def limit(self) -> float | None:
        """Seconds that a trial may take."""
        if self.trial_timeout is None:
            return None
        seconds = values.number("trial_timeout", self.trial_timeout)
        check_limit(seconds)
        if self.isolate is False:
            remedy = "a trial that hangs is ended with its process, and that is this one"
            raise InvalidInput("trial_timeout", self.trial_timeout, "left out with --no-isolate", remedy)
        return seconds

    def isolated(self, target: str) -> bool:
        """Whether trials run in processes of their own; those of a user's file do, unless it is said otherwise."""
        return self.limit is not None or (".py:" in target if self.isolate is None else self.isolate)

    def workers(self, target: str) -> Workers:
        """Who runs the trials."""
        processes = Processes(values.whole("jobs", self.jobs), self.isolated(target), self.limit)
        if self.dask is None:
            return processes
        return Dask(self.dask, processes.count, isolate=processes.isolate, trial_timeout=processes.trial_timeout)

    def seen(self, target: str) -> tuple[int, int] | None:
        """What a first look at a user's file has seen, which ends another process where it would end this one."""
        if ".py:" not in target or not self.isolated(target):
            return None
        return first_look(target, jobs=values.whole("jobs", self.jobs), limit=self.limit)
