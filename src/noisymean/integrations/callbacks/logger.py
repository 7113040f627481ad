"""One call after each step of a training loop: now and then it writes down what the steps so far have cost.

    with PrivacyLogger(optimizer, SummaryWriter(), data_loader=loader) as log:
        for features, labels in loader:
            ...
            optimizer.step()
            log.step()

What is written at a step is the account of the steps that the optimizer's accountant has counted until then, by `inspect`: of
the run as it is, not of the one that was planned. Where `inspect` says *undetermined*, so does this; where it knows no number,
none is written. An account that fails ends no training, and neither does a writer: there is one warning, and where numbers had
been written, that they are not known any more. Nothing is sent anywhere but to the writer, and no random number is drawn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, final

from noisymean.errors import InvalidInput, Undefined
from noisymean.integrations.callbacks.pace import Doubling, Every, Pace
from noisymean.integrations.callbacks.values import nothing_known, scalars
from noisymean.integrations.callbacks.writers import Writer, writer_for
from noisymean.integrations.opacus import Inspection, inspect
from noisymean.integrations.opacus.seen import steps_of, told

_Found = TypeVar("_Found")


class PrivacyNotLogged(UserWarning):
    """What a run has cost was not written down; the text says why."""


@final
class PrivacyLogger:
    """Writes claimed, leaked and guaranteed epsilon of a run with Opacus `to` a writer while it trains.

    `to` is a SummaryWriter of TensorBoard, a run of Weights & Biases or its module, or a function of (values, step); a number
    that is not known is NaN, and None for a function. `every` is how many steps lie between two accounts; unless it is given
    they come at 1, 2, 5, 10, 20, 50, 100 steps and so on, and there is one at the end. Everything else that `inspect` takes may
    be told: `data_loader` is the one that make_private returned. What is wrong with that is said here and now, before the first
    step.

    Call `step` after each step, or as often as you like, and `close` after the last one; `with` does so by itself. `last` is
    the inspection that was written last, `seconds` the time that accounts have taken, `failures` how many were not written.
    """

    def __init__(
        self,
        engine_or_optimizer: Any,
        to: Any,
        *,
        data_loader: Any = None,
        delta: float = 1e-5,
        every: int | None = None,
        prefix: str = "privacy",
        **about_the_run: Any,
    ) -> None:
        self._writer: Writer = writer_for(to, prefix)
        self._pace: Pace = Doubling() if every is None else Every(every)
        self._run, self._told = engine_or_optimizer, {"data_loader": data_loader, "delta": delta, **about_the_run}
        self.last: Inspection | None = None
        self.seconds, self.failures = 0.0, 0
        self._written, self._closed = 0, False
        # what the writer shows: an inspection, or that nothing is known any more
        self._shown: dict[str, float | None] = {}
        self._check()
        # steps of a checkpoint have been written down already, or nobody wanted them
        self._due = self._pace.after(self._taken())

    def _check(self) -> None:
        """Look once, for what was told wrongly; what merely cannot be accounted for is a matter of each account."""
        try:
            inspect(self._run, **self._told)
        except (InvalidInput, TypeError) as fault:
            # a number that is not known is not a mistake of anyone's
            if not isinstance(fault, Undefined):
                raise
            self._warn(fault)
        except Exception as fault:  # a fault of ours is no reason not to train
            self._warn(fault)

    def _taken(self) -> int:
        """Steps that the accountant has counted, of whatever run it is now."""
        hook = told(self._run) if hasattr(self._run, "step_hook") else self._run
        if hook is None:
            raise InvalidInput("step_hook", "replaced", "the one that make_private attached", "nobody counts the steps")
        return steps_of(hook.accountant)

    def step(self, step: int | None = None) -> None:
        """To be called after each step. Writes if an account is due; `step` is what to write it under, if not steps counted."""
        taken = self._try(self._taken)
        if taken is None:
            self._write_nothing(step)
        elif taken >= self._due:
            self._due = self._pace.after(taken)
            self._write(step)

    def close(self, step: int | None = None) -> None:
        """After the last step: write the account of all of them, unless it was written, and the inspection as a text."""
        if self._closed:
            return
        self._closed = True
        taken = self._try(self._taken)
        if taken is None:
            self._write_nothing(step)
        elif taken != self._written:
            self._write(step)
        if (last := self.last) is not None and last.taken == taken:
            self._try(lambda: self._writer.finish(str(last), last.taken, step))

    def __enter__(self) -> PrivacyLogger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        # what was broken off has run until then
        self.close()

    def _write(self, step: int | None) -> None:
        began = time.perf_counter()
        looked = self._try(self._look)
        self.seconds += time.perf_counter() - began
        if looked is None:
            self._write_nothing(step)
            return
        found, values = looked
        if self._try(lambda: (self._writer.write(values, found.judged, found.taken, step),)) is not None:
            self.last, self._written, self._shown = found, found.taken, values

    def _write_nothing(self, step: int | None) -> None:
        """Take back what the writer shows: it was of fewer steps, and nobody knows what all of them have cost."""
        values = nothing_known(self._shown)
        if self._shown in ({}, values):
            return
        self._shown = values
        self._try(lambda: self._writer.write(values, "undetermined, as the account failed", self._written, step))

    def _look(self) -> tuple[Inspection, dict[str, float | None]]:
        found = inspect(self._run, **self._told)
        return found, scalars(found)

    def _try(self, act: Callable[[], _Found]) -> _Found | None:
        """What it gives; None, with a warning, if it fails: an account, a full disk, a connection that is gone."""
        try:
            return act()
        except Exception as fault:  # whatever it is, the training goes on
            self._warn(fault)
            return None

    def _warn(self, fault: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            warnings.warn(
                f"the privacy of this run is not logged ({type(fault).__name__}: {' '.join(str(fault).split())});"
                " said once, and the training goes on",
                PrivacyNotLogged,
                stacklevel=4,
            )
