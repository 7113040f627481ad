"""What stands in the banner of a page: a verdict in words, for a reader who decides and does not compute."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from noisymean.accounts import Account
from noisymean.mechanisms import Adjacency, Sampling
from noisymean.outward import Rounding, at_least
from noisymean.probe.conclusions import Denominator
from noisymean.probe.reading import CONSTANTS
from noisymean.report import account_words
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.releases import CodeRecord
from noisymean.run_curves import RunCurves
from noisymean.words import BEYOND_DOUBLES, capital
from noisymean.written import for_people, plain

# Beyond these a promise is kept easily: odds may change by e^10, or one record in ten may be given away.
_WEAK_EPSILON, _WEAK_DELTA = 10.0, 0.1
Look: TypeAlias = Literal["good", "bad", "unknown"]

WHETHER = "Whether a particular run breaks its promise depends on its settings: 'noisymean account' says so."
REPLACED = "The promise was made for one record added or removed. A replaced record is one removed and one added."

# Every verdict that a part of a page can have, from worst to best: how it looks, and in a few words.
LOOKS: dict[str, tuple[Look, str]] = {
    "violated": ("bad", "promise not kept"),
    "data-dependent": ("bad", "depends on the data"),
    "undetermined": ("unknown", "not decided"),
    "unknown": ("unknown", "not decided"),
    "not-violated": ("unknown", "no violation found"),
    "no-claim": ("unknown", "nothing claimed"),
    "holds": ("good", "promise kept"),
    "constant": ("good", "a constant"),
}


@final
@dataclass(frozen=True)
class Banner:
    """A verdict: one word for programs; a headline, some sentences, how it looks and a label for people."""

    word: str
    kind: Look
    label: str
    headline: str
    text: str = ""
    # (epsilon, delta) that is lost at least: of several that are violated, the largest leads the page
    lost: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, word: str, headline: str, text: str = "", lost: tuple[float, float] = (0.0, 0.0)) -> Banner:
        return cls(word, *LOOKS[word], headline, text, lost)


def worst(words: list[str]) -> str:
    """The word that the page as a whole is to have."""
    return min(words, key=list(LOOKS).index)


def together(banners: list[Banner]) -> Banner:
    """The banner of the whole page: that of its only part, or how many parts say what."""
    word = worst([one.word for one in banners])
    lead = max((one for one in banners if one.word == word), key=lambda one: one.lost)
    if len(banners) == 1:
        return lead
    total = len(banners)
    bad, open_ = (sum(one.kind == kind for one in banners) for kind in ("bad", "unknown"))
    if bad:
        headline = f"{bad} of {total} results {'speaks' if bad == 1 else 'speak'} against the promised privacy."
        return Banner(word, "bad", lead.label, headline, f"The worst of them: {lead.headline}")
    if open_:
        headline = f"Nothing here speaks against the promised privacy, and {open_} of {total} results leave it open."
        return Banner(word, "unknown", lead.label, headline)
    return Banner(word, "good", lead.label, f"All {total} results support the promised privacy.")


def number(value: float | None, rounded: Rounding = format) -> str:
    """Four digits, a bound rounded to its own side; what double precision cannot hold is said."""
    return BEYOND_DOUBLES if value is None or math.isinf(value) else plain(rounded(value, ".4g"))


def three(answer: Account) -> dict[str, str]:
    """Claimed, leakage and guarantee as a page shows them: four digits, as people write them."""
    return {which: account_words.number(answer, which, ".4g", plain) for which in account_words.ROUNDED}


def symbol(answer: Account) -> str:
    """What is bounded."""
    return "ε" if answer.asked_delta else "δ"


def asked(answer: Account) -> tuple[str, str]:
    """What it is bounded at."""
    name, value = ("δ", answer.claimed.delta) if answer.asked_delta else ("ε", answer.claimed.epsilon)
    return name, plain(f"{value:g}")


# --- an account --------------------------------------------------------------------------------------------------------


def account_banner(answer: Account) -> Banner:
    """Is the promise kept?"""
    claim, leaked, sound = (f"{symbol(answer)} = {shown}" for shown in three(answer).values())
    fixed, this_run = f" (at {' = '.join(asked(answer))})", "the privacy promised for this training run is"
    match answer.verdict:
        case "violated":
            # of batches drawn in another way the way of drawing breaks it as well
            replaced = answer.adjacency is Adjacency.REPLACE_ONE and answer.sampling is Sampling.POISSON
            when = " when a record is replaced" if replaced else ""
            return Banner.of(
                "violated",
                f"{capital(this_run)} not kept{when}: {claim} is promised, and at least {leaked} is certainly lost{fixed}.",
                REPLACED
                if replaced
                else "This does not rest on an estimate. Two datasets are named below that differ in one person's record and"
                " that can be told apart from what the run releases, better than the promise allows.",
                _lost(answer.leakage.epsilon, answer.leakage.delta),
            )
        case "holds":
            headline = f"{capital(this_run)} kept, {answer.condition}: {sound} is proved{fixed}."
            proof = f"The proof covers every dataset of this size, and any record of it that is {answer.change}."
            # a kept promise is good news only where something was promised
            epsilon, delta = _lost(answer.claimed.epsilon, answer.claimed.delta)
            if epsilon <= _WEAK_EPSILON and delta <= _WEAK_DELTA:
                return Banner.of("holds", headline, proof)
            little = "But a value this large promises little: an attacker may learn almost everything."
            return Banner("holds", "unknown", "promise kept, but a weak one", headline, f"{proof} {little}")
        case "undetermined":
            if answer.holds_for_others:
                return Banner.of(
                    "undetermined",
                    f"Whether {this_run} kept is not known: {claim} is promised, and {sound} is proved {answer.condition}"
                    f"{fixed}.",
                    "An accountant's promise is for one record added or removed, which is another question. Ask for these"
                    " neighbours by name if the promise is for them.",
                )
            upper = "no bound is known" if answer.value(answer.guarantee) is None else f"at most {sound} is proved"
            return Banner.of(
                "undetermined",
                f"Whether {this_run} kept is not known: {claim} is promised, {upper}{fixed}.",
                f"No attack that we know breaks the promise (at least {leaked} is lost), and no proof that we know supports it."
                " It should not be relied on.",
            )


def _lost(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """None is more than a double holds."""
    return math.inf if epsilon is None else epsilon, math.inf if delta is None else delta


def guesses(curves: RunCurves) -> str:
    """The same as a game of guessing."""
    claimed, leaked = (
        50.0 * (1.0 + float((1.0 - curves.alpha - beta).max())) for beta in (curves.claimed, curves.leakage)
    )
    return (
        "As a game: someone who knows all records but one guesses from the released updates whether that one was used. Guessing"
        f" blindly is right in 50 % of the cases. The promise allows {_percent(claimed, format, 'about ')}; on the datasets that"
        f" are named below the guess is right in {_percent(leaked, at_least)}."
    )


def _percent(value: float, rounded: Rounding, about: str = "") -> str:
    """99.99 stays below 100, because certainty is never reached."""
    return "more than 99.99 %" if value > 99.99 else f"{about}{rounded(value, '.2f' if value > 99.0 else '.1f')} %"


def remedy(answer: Account) -> tuple[str, ...]:
    """What to change, in paragraphs."""
    mechanism = answer.mechanism
    if not mechanism.is_poisson and answer.verdict != "holds":
        return (f"{capital(account_words.remedy(answer))}.",)
    if answer.adjacency is Adjacency.REPLACE_ONE and mechanism.is_poisson:
        return (
            "Nothing has to change in the code: where the number of records is public, the denominator is a constant.",
            "State the guarantee for a replaced record, not the one for a record added or removed.",
        )
    if answer.verdict == "holds":
        if mechanism.size_matters:
            here = "This is so at this number of records. Dividing by a public constant makes it so at every other."
            return ("None needed for this run.", here)
        return ("None needed for this run.",)
    constant = (
        "Divide the noisy sum by a public constant: a number that is written down before the data are looked at, for example the"
        " batch size that the learning rate was tuned for. The released mean is then the noisy sum times a constant, and the"
        " claimed value holds for it."
    )
    if not mechanism.size_matters:
        return ("None needed: the denominator is a constant.",)
    if not mechanism.rate_from_size:
        return (constant,)
    if mechanism.q != mechanism.rate_with:
        return (
            constant,
            "Fix the sampling rate q as well. Here one record more changes it, because it is computed as one over the"
            " number of batches; a constant denominator alone would leave that leak.",
        )
    return (constant, "Fix the sampling rate q as well: at other numbers of records, one more record changes it.")


# --- an audit ----------------------------------------------------------------------------------------------------------


def audit_banner(found: AuditRecord) -> Banner:
    """What running it has shown."""
    runs = f"{found.trials:,} runs"
    sure = f"{100.0 * found.confidence:g} % confidence"
    match found.verdict:
        case "violated":
            return Banner.of(
                "violated",
                f"Running it shows that the promised privacy is not kept: in {runs}, an attacker told the two datasets apart"
                f" better than the promise allows ({sure}).",
                f"What decides: {for_people(found.reason)}." if found.reason else "",
                _lost(found.epsilon_lower, found.delta_lower),
            )
        case "not-violated":
            return Banner.of(
                "not-violated",
                f"Running it did not show a violation: in {runs}, the attacker did not do better than the promise allows"
                f" ({sure}).",
                "This does not prove the promise: another attacker, or more runs, may do better.",
            )
        case None if found.interrupted and found.claimed is not None:
            nothing = "nothing so far speaks against the promise, and that is no verdict"
            headline = f"The audit was interrupted after {runs}: {nothing}."
            return Banner("undetermined", "unknown", "interrupted", headline)
        case _:
            return Banner.of(
                "no-claim",
                f"Nothing is promised for this target, so there is no verdict; {runs} show what is lost at least ({sure}).",
            )


# --- a code audit ------------------------------------------------------------------------------------------------------


def code_banner(found: CodeRecord) -> Banner:
    """What the code divides by."""
    if found.kind is not None:
        return _read_banner(found)
    total = len(found.releases)
    what = f"{total} release{'s' if total > 1 else ''} of {found.package}"
    counted = Counter(one.verdict for one in found.releases)
    if unsound := counted[Denominator.DATA_DEPENDENT]:
        return Banner.of(
            "data-dependent",
            f"{unsound} of {what} divide the noisy sum by a number that depends on the data: what their accountants"
            " report is not proved for what they release.",
            WHETHER,
        )
    if unclear := counted[Denominator.UNKNOWN]:
        return Banner.of("unknown", f"For {unclear} of {what} it could not be found what is divided by.")
    return Banner.of("constant", f"All of {what} divide by a constant: their accounting applies.")


def _read_banner(found: CodeRecord) -> Banner:
    by = f"{found.files:,} file{'' if found.files == 1 else 's'} read; nothing was run"
    run_it = "Run it to know: 'noisymean probe FILE.py:NAME', NAME being a function that does one step."
    match found.verdict:
        case Denominator.DATA_DEPENDENT:
            return Banner.of(
                "data-dependent", f"{found.package} divides the noisy sum by a number that depends on the data ({by})."
            )
        case Denominator.CONSTANT:
            return Banner.of(
                "constant",
                f"Every division in {found.package} that was found to be of something noisy is by a number that is written"
                f" down or that its caller fixes ({by}).",
                f"Whether the caller takes it from the data is not known here. {run_it}",
            )
        case Denominator.UNKNOWN:
            unclear = sum(not set(one.origins) <= CONSTANTS for one in found.statements)
            seen = f"{unclear:,} of {len(found.statements):,} divisions were not understood"
            if found.unreadable or not unclear:
                seen = "not all of it could be read" if found.unreadable else "none was found"
            return Banner.of("unknown", f"What {found.package} divides by is not known: {seen} ({by}).", run_it)
