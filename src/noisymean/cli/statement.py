"""`noisymean statement`: what a paper or a model card may say of a run, and the record for the registry of deployments."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from noisymean.accounts import Account
from noisymean.cli import gate, given, options, values
from noisymean.cli.account import run_of
from noisymean.cli.complaints import Missing, option
from noisymean.cli.options import Group, flag, text
from noisymean.cli.output import console, emit_json, in_a_folder, note, say, written
from noisymean.cli.progress import bar
from noisymean.errors import InvalidInput, NoisymeanError, Shown
from noisymean.gdp import MOST_ACCOUNTS
from noisymean.legible import text_of
from noisymean.report.files import whole_file
from noisymean.report.page.recognised import record_of
from noisymean.report.page.records import AccountRecord
from noisymean.report.page.untrusted import BadRecord, parsed
from noisymean.statement import Deployment, Format, Statement, statement


@dataclass(frozen=True, kw_only=True)
class Published(Group):
    """What the registry of deployments asks for and no account knows."""

    name: Annotated[str | None, text("TEXT", "For the registry: the name of the model.")] = None
    curator: Annotated[str | None, text("TEXT", "For the registry: who publishes it.")] = None
    description: Annotated[str | None, text("TEXT", "For the registry: what it is.")] = None
    intended_use: Annotated[str | None, text("TEXT", "For the registry: what it is for.")] = None
    region: Annotated[str | None, text("TEXT", "For the registry: whose data, or under which law.")] = None
    published: Annotated[str | None, text("YYYY-MM-DD", "For the registry: since when.")] = None
    model: Annotated[
        str | None, text("NAME", "For the registry, who applies the noise: Central, Local, Shuffle or Federated.")
    ] = None
    author: Annotated[str | None, text("TEXT", "For the registry: who wrote the record.")] = None

    def build(self) -> Deployment:
        said = {one.name: _on_a_line(one.name, getattr(self, one.name)) for one in fields(self)}
        try:
            return Deployment(**said)
        except InvalidInput as fault:
            raise _of_option(fault.name, str(fault.value), fault.allowed, fault.remedy) from None


def command(
    described: options.Described,
    asked: options.Asked,
    source: Annotated[
        str | None,
        text(
            "FILE.json", "What account printed with --json, instead of a run's options; - is standard input.", "--from"
        ),
    ] = None,
    unit: Annotated[
        str | None, text("TEXT", "The privacy unit, what one record stands for [default: one record].")
    ] = None,
    format: Annotated[
        str,
        text(
            "NAME",
            "text, markdown, or yaml for the registry of deployments.",
            autocompletion=options.of_option("format"),
        ),
    ] = Format.TEXT.value,
    out: Annotated[str | None, text("FILE", "Write it there.", show_default=False)] = None,
    no_gdp: Annotated[
        bool,
        flag(
            "--no-gdp", "Leave out mu-GDP and its regret, which take seconds, of few records or rounds a minute or two."
        ),
    ] = False,
    *,
    published: Published,
    limits: gate.Limits,
    json: options.Json = False,
) -> None:
    """What a paper or a model card may say of a run: unit, neighbours, sampler, denominator, claimed, leaked, guaranteed.

    No sentence says more than is known: a claim that is violated is said to be, and the parameters that are given are
    those of the guarantee. The options of the run are those of 'noisymean account'.

    \b
    Example:
      noisymean statement --mechanism sgm --sample-rate 0.01 --noise-multiplier 1 --epochs 10 --delta 1e-5 \\
          --unit "one patient" --format markdown --out privacy.md
      noisymean account --mechanism sgm --sample-rate 0.01 --noise-multiplier 1 --epochs 10 --delta 1e-5 --json \\
          | noisymean statement --from - --format yaml
    """
    gated = limits.gate()
    how = values.choice("format", format, Format)
    target = None if out is None else _file(out)
    if published.typed() and how is not Format.YAML and not json:
        name, value = published.typed()[:2]
        raise InvalidInput(name, Shown(text_of(value)), "left out but for --format yaml", "the registry asks for it")
    deployment = published.build()
    answer = _account(described, asked, source)
    with bar("mu-GDP", MOST_ACCOUNTS) as tell:
        made = statement(
            answer,
            unit=_on_a_line("unit", unit),
            gaussian=not no_gdp,
            deployment=deployment,
            progress=lambda: tell(advance=1),
        )
    if target is not None:
        with written("out", target), whole_file(target) as stream:
            stream.write(made.written(how).encode("utf-8", errors="replace"))
        note(f"{how.value} written to {target}")
    if json:
        emit_json(made.to_dict())
    elif target is None:
        _print(made, how)
    if how is Format.YAML and made.deployment.missing:
        note(f"to be filled in: {', '.join(option(one) for one in made.deployment.missing)}")
    gated.check([gate.of_account(answer)])


def _account(described: options.Described, asked: options.Asked, source: str | None) -> Account:
    """From the options, or from a file whose numbers are computed again."""
    typed = [*described.typed(), *asked.typed()]
    if source is None:
        if not typed:
            raise Missing("mechanism", "or --from, a file of an account")
        return run_of(described, asked).account()
    if typed:
        raise _of_option("from", source, f"left out beside {typed[0]}", "the file says what ran")
    found = record_of(parsed(given.content(source), given.shown(source)))
    if not isinstance(found, AccountRecord):
        raise BadRecord(
            f"{given.shown(source)}: must be what 'noisymean account --json' prints; a statement is made of an account"
        )
    try:
        answer = found.asked.account()
    except NoisymeanError as fault:
        raise BadRecord(f"{found.file}: {fault}") from None
    given.compare(found, answer)
    return answer


def _of_option(name: str, value: str, allowed: str, remedy: str) -> InvalidInput:
    """A complaint that names the option as it is typed."""
    return InvalidInput(option(name), Shown(text_of(value)), allowed, remedy)


def _on_a_line(name: str, value: str | None) -> str | None:
    """A text of somebody's, with what would move a cursor written out."""
    if value is None:
        return None
    clean = " ".join(text_of(value).split())
    if not clean:
        raise _of_option(name, repr(value), "a text", f"leave {option(name)} out if there is nothing to say")
    return clean


def _file(name: str) -> Path:
    path = Path(name)
    if path.is_dir():
        raise InvalidInput("out", name, "a file, not a folder", "e.g. --out privacy.md")
    return in_a_folder("out", path)


def _print(made: Statement, how: Format) -> None:
    """Text is wrapped for a terminal; what a program reads is not."""
    if how is not Format.TEXT:
        print(made.written(how), end="")
        return
    for index, paragraph in enumerate(made.paragraphs):
        if index:
            print()
        say(console(), paragraph)
