"""Who writes numbers down: whatever has the methods of a writer that people use, told apart by these methods.

    TensorBoard           add_scalar(tag, value, step), and add_text(tag, text, step) where it has that
    Weights & Biases      log(values, step=step): a run, or the module itself
    a Trainer             log(values), of Hugging Face: whatever it reports to, it tells
    a function            to(values, step)

No package is imported here.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from noisymean.errors import InvalidInput

_KNOWN = "a SummaryWriter of TensorBoard, a run of Weights & Biases, or a function of (values, step)"
# How words are called among the values of those who take them there.
VERDICT = "verdict"


class Writer(ABC):
    """Writes numbers and words of one step, under names that begin alike."""

    @abstractmethod
    def write(self, values: Mapping[str, float], verdict: str, step: int) -> None:
        """The numbers, and the verdict in words where words are taken."""

    def finish(self, report: str, step: int) -> None:  # noqa: B027 - most have no place for a text
        """The whole of what was found, after the last step."""


@final
@dataclass(frozen=True)
class TensorBoard(Writer):
    """SummaryWriter of torch.utils.tensorboard, of tensorboardX, and whatever has its methods."""

    to: Any
    prefix: str

    def write(self, values: Mapping[str, float], verdict: str, step: int) -> None:
        for name, value in values.items():
            self.to.add_scalar(f"{self.prefix}/{name}", value, step)
        self._text(VERDICT, verdict, step)

    def finish(self, report: str, step: int) -> None:
        # four spaces before a line keep it as it is: TensorBoard reads Markdown
        self._text("inspection", "\n".join(f"    {line}" for line in report.splitlines()), step)

    def _text(self, name: str, text: str, step: int) -> None:
        if callable(getattr(self.to, "add_text", None)):
            self.to.add_text(f"{self.prefix}/{name}", text, step)


@final
@dataclass(frozen=True)
class WeightsAndBiases(Writer):
    """A run, or the module, which writes to the run that was begun last."""

    to: Any
    prefix: str

    def write(self, values: Mapping[str, float], verdict: str, step: int) -> None:
        self.to.log(_named(self.prefix, values, verdict), step=step)


@final
@dataclass(frozen=True)
class HuggingFaceTrainer(Writer):
    """A Trainer, which tells whatever it reports to and keeps a history. It knows its step by itself."""

    to: Any
    prefix: str

    def write(self, values: Mapping[str, float], verdict: str, step: int) -> None:
        # its own report of the loss may be due at this step, and to report anything takes that for done
        due = self.to.control.should_log
        self.to.log({f"{self.prefix}/{name}": value for name, value in values.items()})
        self.to.control.should_log = due


@final
@dataclass(frozen=True)
class Function(Writer):
    """A function of yours."""

    to: Callable[[dict[str, float | str], int], object]
    prefix: str

    def write(self, values: Mapping[str, float], verdict: str, step: int) -> None:
        self.to(_named(self.prefix, values, verdict), step)


def _named(prefix: str, values: Mapping[str, float], verdict: str) -> dict[str, float | str]:
    named: dict[str, float | str] = {f"{prefix}/{name}": value for name, value in values.items()}
    return {**named, f"{prefix}/{VERDICT}": verdict}


def writer_for(to: Any, prefix: str) -> Writer:
    """The writer that `to` is; InvalidInput if it is none."""
    if callable(getattr(to, "add_scalar", None)):
        return TensorBoard(to, prefix)
    if hasattr(to, "callback_handler") and hasattr(to, "control") and callable(getattr(to, "log", None)):
        return HuggingFaceTrainer(to, prefix)
    # loggers of Python have a method of that name, and want a level
    if callable(getattr(to, "log", None)) and _takes(to.log, {}, step=0):
        return WeightsAndBiases(to, prefix)
    if callable(to) and not isinstance(to, type) and _takes(to, {}, 0):
        return Function(to, prefix)
    raise InvalidInput("to", type(to).__name__, _KNOWN)


def _takes(function: Callable[..., object], *positional: object, **named: object) -> bool:
    """Whether it can be called so; of what does not say, yes."""
    try:
        inspect.signature(function).bind(*positional, **named)
    except ValueError:
        return True
    except TypeError:
        return False
    return True
