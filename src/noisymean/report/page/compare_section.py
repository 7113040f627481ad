"""The part of a report that sets one run beside itself: the same settings under several mechanisms, one range above the other."""

from __future__ import annotations

from collections.abc import Sequence

from noisymean.accounts import Account
from noisymean.mechanisms import Adjacency
from noisymean.report import account_words
from noisymean.report.page import banners, printed
from noisymean.report.page.banners import Banner
from noisymean.report.page.pair_shown import gradients_of, symbols_of
from noisymean.report.page.range_figure import range_block
from noisymean.report.page.section import Section
from noisymean.report.ranges import Range
from noisymean.written import for_people


def compare_section(answers: Sequence[Account], name: str) -> Section:
    """Every answer is for one mechanism; what they have in common is said once."""
    first, names = answers[0], [answer.mechanism.name.upper() for answer in answers]
    symbol = banners.symbol(first)
    pairs = [answer.leakage.pair for answer in answers if answer.leakage.pair is not None]
    return Section(
        kind="compare",
        name=name,
        title=f"One run under {len(answers)} mechanisms: {', '.join(names)}",
        banner=_banner(answers),
        shown={
            "quantity": symbol,
            "at": " = ".join(banners.asked(first)),
            "bars": range_block(
                [Range.of(answer, label) for answer, label in zip(answers, names, strict=True)],
                quantity=symbol,
                name=f"{name}-ranges",
                caption=f"{symbol} of the whole run under each mechanism, at {' = '.join(banners.asked(first))}. The truth lies"
                " in the bar, the long tick is what is claimed; an arrow: no upper bound is known.",
            ),
            "rows": [_row(answer) for answer in answers],
            "unproved": [
                (label, for_people(reasons))
                for answer, label in zip(answers, names, strict=True)
                if (reasons := account_words.why_no_guarantee(answer)) is not None
            ],
            "pairs": [
                (
                    label,
                    str(answer.leakage.pair),
                    "; ".join(": ".join(one) for one in gradients_of(answer.leakage.pair)),
                )
                for answer, label in zip(answers, names, strict=True)
                if answer.leakage.pair is not None
            ],
            "symbols": list(dict.fromkeys(map(symbols_of, pairs))),
            "grounds": _common_grounds(answers),
            "commands": [printed.account_command(answer) for answer in answers],
        },
    )


def _row(answer: Account) -> list[object]:
    """A line of the table; the verdict is marked."""
    look, _ = banners.LOOKS[answer.verdict]
    mechanism = answer.mechanism
    return [
        mechanism.name.upper(),
        for_people(mechanism.denominator_in_words()),
        for_people(mechanism.rate_in_words()),
        f"{answer.steps:,}",
        *banners.three(answer).values(),
        {"text": answer.verdict, "kind": look},
    ]


def _common_grounds(answers: Sequence[Account]) -> list[tuple[str, str, str]]:
    """What all rest on; where they differ the table above says how."""
    common = []
    for each in zip(*(account_words.grounds(answer) for answer in answers), strict=True):
        values = {one.value for one in each}
        value = for_people(each[0].value) if len(values) == 1 else "as in the table above"
        option = each[0].how if len({one.how for one in each}) == 1 else "--compare, and the options of each"
        common.append((each[0].about.value, value, f"{each[0].known}: {option}"))
    return common


def _banner(answers: Sequence[Account]) -> Banner:
    """The worst of them first, and how many there are of it."""
    total, worst = len(answers), banners.worst([answer.verdict for answer in answers])
    these = [answer for answer in answers if answer.verdict == worst]
    names = ", ".join(answer.mechanism.name.upper() for answer in these)
    how_many = f"{len(these)} of {total}" if len(these) < total else "both" if total == 2 else f"all {total}"
    fixed = f" (at {' = '.join(banners.asked(answers[0]))})"
    replaced = answers[0].adjacency is Adjacency.REPLACE_ONE
    same = "All other settings are the same."
    match worst:
        case "violated":
            lead = max(these, key=lambda answer: banners.account_banner(answer).lost)
            claim, leaked = (
                f"{banners.symbol(lead)} = {banners.three(lead)[which]}" for which in ("claimed", "leakage")
            )
            head = (
                f"Under {how_many} mechanisms the promised privacy is not kept{' when a record is replaced' if replaced else ''}"
                f" ({names}). The worst is {lead.mechanism.name.upper()}: {claim} is promised, and at least {leaked} is"
                f" certainly lost{fixed}."
            )
            return Banner.of(
                "violated", head, f"{same} {banners.REPLACED}" if replaced else same, banners.account_banner(lead).lost
            )
        case "undetermined":
            head = f"Under {how_many} mechanisms it is not known whether the promised privacy is kept ({names}){fixed}."
            return Banner.of("undetermined", head, f"Under none of them is it known to be broken. {same}")
        case _:
            return Banner.of(
                "holds",
                f"Under {how_many} mechanisms the promised privacy is kept, {answers[0].condition}{fixed}.",
                same,
            )
