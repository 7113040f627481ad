"""Who writes numbers down: whatever has the methods of a writer that people use, told apart by these methods.

    TensorBoard           add_scalar(tag, value, step), and add_text(tag, text, step) where it has that
    Weights & Biases      log(values, step=step): a run, or the module once wandb.init() has been called
    a Trainer             log(values), of Hugging Face: whatever it reports to, it tells
    a function            to(values, step)

No package is imported here.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from noisymean.errors import InvalidInput

_KNOWN = "a SummaryWriter of TensorBoard, a run of Weights & Biases, or a function of (values, step)"
_REMEDY = "of Weights & Biases give what wandb.init() returned"
# How words are called among the values of those who take them there.
VERDICT = "verdict"


class Writer(ABC):
    """Writes numbers and words of one step, under names that begin alike.

    `taken` are the steps that were counted, `step` is what the caller wants them written under, if anything.
    """

    @abstractmethod
    def write(self, values: Mapping[str, float | None], verdict: str, taken: int, step: int | None) -> None:
        """The numbers, and the verdict in words where words are taken."""

    def finish(self, report: str, taken: int, step: int | None) -> None:  # noqa: B027 - most have no place for a text
        """The whole of what was found, after the last step."""


@final
@dataclass(frozen=True)
class TensorBoard(Writer):
    """SummaryWriter of torch.utils.tensorboard, of tensorboardX, and whatever has its methods."""

    to: Any
    prefix: str

    def write(self, values: Mapping[str, float | None], verdict: str, taken: int, step: int | None) -> None:
        at = taken if step is None else step
        for name, value in _drawn(self.prefix, values).items():
            self.to.add_scalar(name, value, at)
        self._text(VERDICT, verdict, at)

    def finish(self, report: str, taken: int, step: int | None) -> None:
        # four spaces before a line keep it as it is: TensorBoard reads Markdown
        text = "\n".join(f"    {line}" for line in report.splitlines())
        self._text("inspection", text, taken if step is None else step)

    def _text(self, name: str, text: str, step: int) -> None:
        if callable(getattr(self.to, "add_text", None)):
            self.to.add_text(f"{self.prefix}/{name}", text, step)


@final
@dataclass(frozen=True)
class WeightsAndBiases(Writer):
    """A run, or the module, which writes to the run that was begun last.

    A run counts what is logged to it. It takes a step that is ahead of its count, and then drops what others log under theirs;
    and it drops what is logged under one behind. So the steps of the training are an axis of their own, a step is named only
    where the caller did, and none is that is behind.
    """

    to: Any
    prefix: str

    def __post_init__(self) -> None:
        if callable(define := getattr(self.to, "define_metric", None)):
            define(f"{self.prefix}/*", step_metric=f"{self.prefix}/steps")

    def write(self, values: Mapping[str, float | None], verdict: str, taken: int, step: int | None) -> None:
        written = {**_drawn(self.prefix, values), f"{self.prefix}/{VERDICT}": verdict}
        if step is None or step < self._reached():
            self.to.log(written)
        else:
            self.to.log(written, step=step)

    def _reached(self) -> int:
        # the module has its run
        reached = getattr(getattr(self.to, "run", None) or self.to, "step", 0)
        return reached if isinstance(reached, int) else 0


@final
@dataclass(frozen=True)
class HuggingFaceTrainer(Writer):
    """A Trainer, which tells whatever it reports to and keeps a history. It knows its step by itself, and takes no words."""

    to: Any
    prefix: str

    def write(self, values: Mapping[str, float | None], verdict: str, taken: int, step: int | None) -> None:
        # its own report of the loss may be due at this step, and to report anything takes that for done
        due = self.to.control.should_log
        self.to.log(_drawn(self.prefix, values))
        self.to.control.should_log = due


@final
@dataclass(frozen=True)
class Function(Writer):
    """A function of yours. What is not known is None."""

    to: Callable[[dict[str, float | str | None], int], object]
    prefix: str

    def write(self, values: Mapping[str, float | None], verdict: str, taken: int, step: int | None) -> None:
        named: dict[str, float | str | None] = {f"{self.prefix}/{name}": value for name, value in values.items()}
        self.to({**named, f"{self.prefix}/{VERDICT}": verdict}, taken if step is None else step)


def _drawn(prefix: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """Numbers for those who draw charts: what is not known is none, which ends a curve and takes the last number's place."""
    return {f"{prefix}/{name}": math.nan if value is None else value for name, value in values.items()}


def writer_for(to: Any, prefix: str) -> Writer:
    """The writer that `to` is; InvalidInput if it is none."""
    if isinstance(to, type):
        # a class has the methods and nothing to write to
        raise InvalidInput("to", f"the class {to.__name__}", _KNOWN, _REMEDY)
    if callable(getattr(to, "add_scalar", None)):
        return TensorBoard(to, prefix)
    if hasattr(to, "callback_handler") and hasattr(to, "control") and callable(getattr(to, "log", None)):
        return HuggingFaceTrainer(to, prefix)
    # loggers of Python have a method of that name, and want a level
    if callable(getattr(to, "log", None)) and _takes(to.log, {}, step=0):
        return WeightsAndBiases(to, prefix)
    if callable(to) and _takes(to, {}, 0):
        return Function(to, prefix)
    raise InvalidInput("to", type(to).__name__, _KNOWN, _REMEDY)


def _takes(function: Callable[..., object], *positional: object, **named: object) -> bool:
    """Whether it can be called so; of what does not say, yes."""
    try:
        inspect.signature(function).bind(*positional, **named)
    except ValueError:
        return True
    except TypeError:
        return False
    return True
