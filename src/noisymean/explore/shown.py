"""An outcome as what the page's script puts into place: finished markup, and the short words of the tab and of the bar.

Templates escape everything; nothing that was typed reaches the page in another way.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from noisymean.accounts import Account
from noisymean.explore.settings import (
    CHOICES,
    CONTROLS,
    DEFAULT_MECHANISM,
    WAYS,
    Choice,
    Control,
    Settings,
    Ways,
    unused_everywhere,
)
from noisymean.explore.workers import Outcome
from noisymean.mechanisms import KINDS
from noisymean.report import account_words
from noisymean.report.page.banners import Banner, account_banner, asked, symbol, three
from noisymean.report.page.palette import exchange, variables
from noisymean.report.page.range_figure import range_bars
from noisymean.report.ranges import Range
from noisymean.words import MEANINGS, NONE_KNOWN, sentence
from noisymean.written import for_people, plain, power, typeset, unbroken

if TYPE_CHECKING:
    from jinja2 import Environment

_NAME = "noisymean"
# In the tab and in the bar there is room for three digits.
_SHORT = ".3g"


def page() -> str:
    """The whole page, before anything is asked."""
    return _markup("page.html", spec=_spec())


def _markup(name: str, **context: Any) -> str:
    return _templates().get_template(name).render(**context)


def answer(outcome: Outcome, settings: Settings | None, limit: float) -> dict[str, Any]:
    """The verdict and what goes with it.

    `drawable` where pictures make sense, `bounded` where a guarantee is known, `verdict` where there is one, `about`: the
    control that is refused.
    """
    found: Account | None = outcome.answer if outcome.kind == "complete" else None
    banner = _banner(outcome, limit)
    refused = outcome.kind == "refused" or settings is None
    return {
        "title": f"{_short(found) if found else banner.label} · {_NAME}",
        "spoken": _spoken(found) if found else f"{banner.label}: {banner.headline}",
        "bar": {"kind": banner.kind, **(_bar(found) if found else _no_bar(banner))},
        # plain data: plotly makes arrays of its own of a figure
        "range": None if found is None else json.loads(range_bars([Range.of(found)], quantity=symbol(found)).to_json()),
        "answer": _markup("answer.html", banner=banner, tiles=_tiles(found), settings=settings),
        "more": _markup(
            "more.html",
            commands=[] if refused or settings is None else _commands(settings),
            pair=None if found is None else sentence(str(found.leakage.pair)),
            remarks=[] if found is None else [sentence(for_people(str(one))) for one in found.remarks],
        ),
        "drawable": outcome.kind in ("complete", "slow"),
        "bounded": found is not None and found.guarantee.epsilon is not None,
        "verdict": "" if found is None else found.verdict,
        "refused": refused,
        "about": outcome.about,
    }


def at_another_size(found: tuple[int, Account] | None) -> str:
    """A result is for one N: what another would give, as a sentence; empty where none does."""
    if found is None:
        return ""
    size, other = found
    leaked, claimed = (account_words.number(other, which) for which in ("leakage", "claimed"))
    return sentence(account_words.at_another_size(f"{size:,}", leaked, claimed, other))


def _commands(settings: Settings) -> list[tuple[str, str, list[str]]]:
    """(name, what it gives, its parts, never broken between an option and its value)."""
    return [
        ("command", "These numbers in a terminal:", settings.command_parts()),
        ("report-command", "The report of this run:", report_parts(settings)),
    ]


def report_parts(settings: Settings) -> list[str]:
    """The command that writes the report of these settings."""
    return settings.command_parts("report", ("--out", "report.html"))


# --- words -------------------------------------------------------------------------------------------------------------


def _banner(outcome: Outcome, limit: float) -> Banner:
    match outcome.kind:
        case "complete":
            return account_banner(outcome.answer)
        case "slow":
            longer = f"This setting takes longer than {limit:g} seconds: run the command below."
            return Banner("slow", "unknown", "takes longer", longer)
        case "refused":
            return Banner("refused", "bad", "not possible", f"{outcome.message}.")
        case _:
            below = "The command below shows it in full."
            return Banner("failed", "bad", "a fault of noisymean", outcome.message, below)


def _number(found: Account, which: str) -> str:
    return account_words.number(found, which, _SHORT, plain)


def _short(found: Account) -> str:
    """`violated · ε ≥ 29.8`: what decides the verdict."""
    leaked, sound = (_number(found, which) for which in ("leakage", "guarantee"))
    bound = f"≤ {sound}" if found.verdict == "holds" else f"≥ {leaked}"
    return f"{found.verdict} · {symbol(found)} {bound}"


def _spoken(found: Account) -> str:
    """What is read out when a setting has been moved."""
    claimed, leaked, sound = (_number(found, which) for which in account_words.ROUNDED)
    most = f"at most {sound} guaranteed" if found.value(found.guarantee) is not None else "no guarantee known"
    return f"{found.verdict}: {symbol(found)} {claimed} claimed, at least {leaked} leaked, {most}."


def _bar(found: Account) -> dict[str, Any]:
    """The verdict, what is asked, and the three numbers, each with its word."""
    words = {"claimed": "claimed", "leakage": "leaked ≥", "guarantee": "guaranteed ≤"}
    shown = {which: _number(found, which) for which in words}
    numbers = [(word if shown[which] != NONE_KNOWN else "guaranteed", shown[which]) for which, word in words.items()]
    at = f"{symbol(found)} at {' = '.join(asked(found))}"
    return {"word": found.verdict, "asked": at, "numbers": numbers, "why": ""}


def _no_bar(banner: Banner) -> dict[str, Any]:
    """Why there is no verdict."""
    return {"word": banner.label, "asked": "", "numbers": [], "why": banner.headline}


def _tiles(found: Account | None) -> list[dict[str, str]]:
    """Claimed, leakage, guarantee; dashes where there is no answer."""
    meanings = MEANINGS if found is None else account_words.meanings(found)
    numbers = dict.fromkeys(MEANINGS, "–") if found is None else three(found)
    # a number that is not there has its reason beside it
    why = None if found is None else account_words.why_no_guarantee(found)
    return [
        {
            "name": name,
            "value": numbers[name],
            "meaning": f"{meaning}: {why}" if name == "guarantee" and why else meaning,
        }
        for name, meaning in meanings.items()
    ]


# --- the form ----------------------------------------------------------------------------------------------------------


def _spec() -> dict[str, Any]:
    """What the script has to know of the form: names, ends, starts, and what says nothing beside what."""
    return {
        "mechanism": DEFAULT_MECHANISM,
        "controls": [
            {"name": one.name, "ends": one.ends, "whole": one.whole, "default": one.default} for one in CONTROLS
        ],
        "choices": [{"name": one.name, "default": one.default} for one in CHOICES],
        "ways": [{"name": one.name, "options": [names for names, _ in one.options]} for one in WAYS],
        "unused": unused_everywhere(),
        "palette": exchange(),
    }


def _marks(control: Control) -> list[tuple[str, float]]:
    """Powers of ten below a slider, and where they are, from 0 to 1."""
    low, high = control.ends
    every = max(1, math.ceil((high - low) / 6))
    powers = range(math.ceil(low), math.floor(high) + 1, every)
    return [(_power(one), (one - low) / (high - low)) for one in powers]


def _power(exponent: int) -> str:
    return plain(f"{10**exponent:g}") if -3 <= exponent <= 3 else power(exponent)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("noisymean.explore"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = unbroken
    ways: dict[str, Ways] = {one.name: one for one in WAYS}
    choices: dict[str, Choice] = {one.name: one for one in CHOICES}
    made.globals.update(
        kinds=[(name, typeset(kind.denominator)) for name, kind in KINDS.items()],
        controls={one.name: one for one in CONTROLS},
        ways=ways,
        choices=choices,
        marks=_marks,
        default_mechanism=DEFAULT_MECHANISM,
        light=variables(dark=False),
        dark=variables(dark=True),
    )
    return made
