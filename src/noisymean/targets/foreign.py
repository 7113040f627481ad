"""Code that is not ours, run so that whatever it does instead of returning is a complaint about it and never the end of us.

sys.exit, os._exit, KeyboardInterrupt, GeneratorExit and any other BaseException would each end the program with a code that the
target chooses, and 0 and 1 are answers to `--fail-on-violation`. Here they are all `Misbehaved`, with what was done in words.

A KeyboardInterrupt may also be the user's: while the target runs, Ctrl-C raises a kind of its own, which passes through. What
ends a process from outside of Python (a signal, a C library that exits, exec) is seen in a worker process only.

A process that the target forks is no part of the audit: one that comes back from the target ends there, so that nothing is done
twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn, TypeVar, final

from noisymean.errors import NoisymeanError
from noisymean.legible import on_a_line, shortened

T = TypeVar("T")
# Of what an exception says: enough to understand it by.
_LONGEST = 500


@final
class Misbehaved(NoisymeanError):
    """It did not return; says what it did: called sys.exit(0)."""


@final
class Interrupt(KeyboardInterrupt):
    """Ctrl-C, as opposed to a KeyboardInterrupt that the target raises."""


@final
class ProcessExit(BaseException):
    """os._exit(code), which otherwise nothing survives."""


def call(function: Callable[[], T]) -> T:
    """What `function` returns; what it prints goes to standard error, because standard output is for the answer."""
    with _exits_are_seen(), _interrupts_are_told_apart() as told_apart, contextlib.redirect_stdout(sys.stderr):
        try:
            return _here_alone(function)
        except Misbehaved:
            raise
        except KeyboardInterrupt as stop:
            if isinstance(stop, Interrupt) or not told_apart:
                raise
            raise Misbehaved("raised KeyboardInterrupt") from stop
        except BaseException as fault:
            raise Misbehaved(_did(fault)) from fault


def message_of(fault: BaseException) -> str:
    """What an exception says, on one line; nothing where it cannot even say that."""
    try:
        return shortened(on_a_line(str(fault)), _LONGEST)
    except BaseException:  # its own code, and that is foreign as well
        return ""


def _here_alone(function: Callable[[], T]) -> T:
    """What it returns; a forked copy of this process that returns as well, or raises, ends instead."""
    process, code = os.getpid(), 1
    try:
        found = function()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        raise
    finally:
        if os.getpid() != process:
            os._exit(code & 0xFF)
    return found


def _did(fault: BaseException) -> str:
    match fault:
        case ProcessExit():
            return f"called os._exit({message_of(fault)})"
        case SystemExit():
            return f"called sys.exit({'' if fault.code is None else _written(fault.code)})"
        case _:
            said = message_of(fault)
            return f"raised {type(fault).__name__}{f': {said}' if said else ''}"


def _written(code: object) -> str:
    """What was given to sys.exit; of anything but numbers and text its kind, for the rest is foreign code."""
    return shortened(repr(code), _LONGEST) if type(code) in (int, str) else type(code).__name__


@contextlib.contextmanager
def _exits_are_seen() -> Iterator[None]:
    """os._exit raises; a process that the target forks ends as it always does."""
    before, process = os._exit, os.getpid()

    def seen(status: int = 0) -> NoReturn:
        if os.getpid() != process:
            before(status)
        raise ProcessExit(status)

    os._exit = seen
    try:
        yield
    finally:
        os._exit = before


@contextlib.contextmanager
def _interrupts_are_told_apart() -> Iterator[bool]:
    """Whether a plain KeyboardInterrupt is the target's own: Ctrl-C raises another, or is ignored, as it is in workers."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        # signals are answered elsewhere
        yield True
        return
    if before is not signal.default_int_handler:
        yield before is signal.SIG_IGN or before is _interrupt
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupt
