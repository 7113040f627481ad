"""Whatever goes wrong becomes one line on standard error and an exit code.

0    done
1    a finding, where --fail-on-violation or --max-epsilon asks for it (`gate`); nothing else ends with 1
2    bad input, a target that misbehaves, or nothing that could be judged: the line names the option as it is typed, its value,
     what is allowed, and the remedy
70   a fault of ours, with its traceback; also a SystemExit or BaseException that nobody has answered for
130  interrupted
141  the reader of standard output has gone: silent, as for any program in a pipe
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import typer

from noisymean.choices import did_you_mean
from noisymean.cli.complaints import WANTED, missing_line, option
from noisymean.errors import InvalidInput, NoisymeanError, Shown
from noisymean.legible import LONGEST_SHOWN, on_a_line, shortened

BAD_INPUT, OUR_FAULT, INTERRUPTED, PIPE_CLOSED = 2, 70, 130, 141

P = ParamSpec("P")

# Of one word of a complaint, and of all of it: whatever was typed, the rest of the line is seen.
_LONG_WORD = re.compile(rf"[^\s:;']{{{LONGEST_SHOWN + 1},}}")
_LONGEST_LINE = 2_000

# Older typers raise the usage errors of click, newer ones those of a private copy of it: this is the parent of either.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def guarded(command: Callable[[], object], words: Sequence[str]) -> int:
    """The exit code of `command`, its faults reported in terms of the `words` that were typed."""
    try:
        code = command()
        if sys.stdout is not None:
            sys.stdout.flush()
    except NoisymeanError as fault:
        return _complain(_as_typed(fault, words))
    except _UsageError as fault:
        return _complain(_usage(fault))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        return _pipe_closed()
    except SystemExit as stop:
        # rich and typer both turn a closed pipe into SystemExit(1)
        if isinstance(stop.__context__, BrokenPipeError):
            return _pipe_closed()
        # typer's own, for the completion of a shell
        return 0 if stop.code is None else stop.code if isinstance(stop.code, int) else OUR_FAULT
    except _Exited as fault:
        return _complain(str(fault), OUR_FAULT)
    except OSError as fault:
        _discard_output()
        return _complain(f"{fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}")
    except MemoryError as fault:
        return _complain(f"not enough memory ({fault}); ask for fewer records, dimensions, trials, points or processes")
    except BaseException:  # the boundary of the program: whatever it is, it is no answer
        traceback.print_exc()
        return OUR_FAULT
    if code == INTERRUPTED:
        return _interrupted()
    return code if isinstance(code, int) else 0


class _Exited(Exception):
    """A command does not end the program: whoever did so, in the middle of one, has kept it from an answer."""


def never_exits(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with the same signature; a SystemExit that leaves it is a fault, whatever its code."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):
                raise
            raise _Exited(
                f"something that was run ended the program (exit code {stop.code}) before it could answer"
            ) from stop

    return run


def _complain(message: str, code: int = BAD_INPUT) -> int:
    """Neither a second line nor a control sequence, and no more than is read, whatever was typed."""
    line = _LONG_WORD.sub(lambda found: shortened(found[0]), " ".join(on_a_line(message).split()))
    print(f"error: {shortened(line, _LONGEST_LINE)}", file=sys.stderr)
    return code


def _interrupted() -> int:
    print("interrupted; nothing was left half-written", file=sys.stderr)
    return INTERRUPTED


def _pipe_closed() -> int:
    _discard_output()
    return PIPE_CLOSED


def _discard_output() -> None:
    """Let the interpreter flush standard output at exit without another complaint."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]


def _as_typed(fault: NoisymeanError, words: Sequence[str]) -> str:
    """`sample_rate=0.0: must be ...` as `--sample-rate=0: must be ...; the remedy`, if 0 is what was typed."""
    if not isinstance(fault, InvalidInput):
        return str(fault)
    typed = option(fault.name)
    given = _value_of(typed, words)
    if fault.name not in WANTED:
        # an option that was typed is named as it was; one that may be typed again has the value that is wrong
        known = given is not None and not fault.name.startswith("-")
        shown = Shown(fault.value.strip("'") or fault.value)
        return str(InvalidInput(typed, shown, fault.allowed, fault.remedy)) if known else str(fault)
    if given is None and fault.value == "None":
        return f"{typed}: missing; must be {fault.allowed}; {fault.remedy or WANTED[fault.name].remedy(typed)}"
    value = Shown(given or fault.value)
    return str(InvalidInput(typed, value, fault.allowed, fault.remedy or WANTED[fault.name].remedy(typed)))


def _value_of(typed: str, words: Sequence[str]) -> str | None:
    """The last value given to an option, in quotes where it would be misread without."""
    value = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == typed:
            value = following
        elif word.startswith(f"{typed}="):
            value = word.removeprefix(f"{typed}=")
    if value is None:
        return None
    value = shortened(value)
    return value if re.fullmatch(r"\S+", value) else repr(value)


def _usage(fault: Exception) -> str:
    """A complaint of the command-line parser, in our words."""
    message = str(getattr(fault, "message", "") or fault)
    context = getattr(fault, "ctx", None)
    path = context.command_path if context is not None else "noisymean"
    see = f"see '{path} --help'"
    name, parameter = getattr(fault, "option_name", None), getattr(fault, "param", None)
    if name is not None and "requires an argument" in message:
        wanted = WANTED.get(name.removeprefix("--").replace("-", "_"))
        return f"{name}: its value is missing; {f'must be {wanted.allowed}; {wanted.remedy(name)}' if wanted else see}"
    if name is not None and "does not take a value" in message:
        return f"{name}: must stand alone, it takes no value; write {name}"
    if name is not None and "No such option" in message:
        meant = did_you_mean(name, _options_of(context))
        return f"{shortened(name)}: no such option of '{path}'; {meant and f'{meant} '}{see}"
    if type(fault).__name__ == "MissingParameter" and parameter is not None:
        return missing_line(parameter.opts[0], WANTED.get(parameter.name))
    if name is not None:
        return f"{name}: {message.rstrip('.')}; {see}"
    if unknown := re.match(r"No such command '(.*?)'\.", message):
        known = ", ".join(sorted(context.command.commands)) if context is not None else "listed by --help"
        meant = did_you_mean(unknown[1], context.command.commands) if context is not None else ""
        return f"{shortened(unknown[1])}: no such command; {meant or f'must be one of {known};'} {see}"
    if extra := re.match(r"Got unexpected extra argument\S* \((.*)\)", message):
        return f"{shortened(extra[1])}: unexpected; every value follows the option it belongs to; {see}"
    return f"{message.rstrip('.')}; {see}"


def _options_of(context: Any) -> list[str]:
    """All options of the command that is being read, as they are typed."""
    parameters = [] if context is None else context.command.params
    return [word for one in parameters for word in (*one.opts, *one.secondary_opts)]
