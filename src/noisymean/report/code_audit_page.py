"""A code audit as one self-contained page: no script, no picture, nothing from elsewhere; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM, Audited
from noisymean.probe.finding import Finding

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; color: #1b1b1b }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd }
code { font-size: .9em } .differs { background: #fff1d6 } .fault { background: #fde2e0 }
summary { cursor: pointer } @media (prefers-color-scheme: dark) { body { background: #161616; color: #e8e8e8 }
th, td { border-color: #333 } .differs { background: #46370f } .fault { background: #4d1f1c } }
"""
_HEAD = ("release", "Poisson sampling", "mean", "sum", "the statement that divides", "run and read", "the paper")


def page(results: Sequence[Audited], *, command: str, version: str) -> str:
    """The whole page."""
    rows = "".join(_row(one) for one in results)
    details = "".join(_details(one) for one in results)
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Code audit of Opacus</title><style>{_STYLE}</style>'
        f"<h1>What each release of Opacus divides by</h1><p>{len(results)} releases, each run in a process of its own and "
        f"read. Marked: where running, reading and the paper do not say the same. Made by <code>{escape(command)}</code>, "
        f"noisymean {escape(version)}.</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<h2>The evidence</h2>{details}</html>\n"
    )


def _row(one: Audited) -> str:
    mean = _name(one, MEAN)
    if one.kind(NO_POISSON) is not None:
        mean += f"<br>{_name(one, NO_POISSON)} as shipped (poisson=False)"
    statements = "<br>".join(f"<code>{escape(s.place)}</code> <code>{escape(s.text)}</code>" for s in one.statements())
    both = "<br>".join(escape(words) for words in one.disagreements) or "agree"
    row = one.paper
    paper = escape("not in it" if row is None else row.words) + "".join(f"<br>{escape(w)}" for w in one.against_paper)
    if one.faults:
        both = "<br>".join(f"{escape(option)}: {escape(words)}" for option, words in one.faults.items())
    return "<tr>" + "".join(
        (
            _cell(escape(one.version)),
            _cell(escape(one.poisson)),
            _cell(mean),
            _cell(_name(one, SUM)),
            _cell(statements or "none found"),
            _cell(both, "fault" if one.faults else "differs" if one.disagreements else ""),
            _cell(paper, "differs" if one.against_paper else ""),
        )
    )


def _cell(content: str, kind: str = "") -> str:
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def _name(one: Audited, option: str) -> str:
    kind = one.kind(option)
    return "unknown" if kind is None else escape(kind.value.upper())


def _details(one: Audited) -> str:
    inner = "".join(_finding(option, found) for option, found in one.findings.items())
    return f"<details><summary>opacus=={escape(one.version)}, {one.seconds:.0f} s</summary>{inner}</details>"


def _finding(option: str, found: Finding) -> str:
    moved = "not seen" if found.clipping.sensitivity is None else f"{found.clipping.sensitivity:.3f} C"
    facts = (
        f"denominator: {found.denominator}",
        f"sensitivity: {moved}",
        f"sampling: {found.rates.sampling.value} {found.rates.law or ''}",
        f"an empty batch {found.empty_batch}",
        *(f"{remark.severity.value}: {remark.words}" for remark in found.remarks),
    )
    lines = (
        (
            e.run,
            str(e.rounds),
            e.batches,
            e.denominator if e.finite else "not finite",
            "" if e.rate is None else f"{e.rate:.4f}",
        )
        for e in found.evidence
    )
    return (
        f"<h3>{escape(option)}: {escape(found.kind.value.upper())}</h3><ul>{_items(facts)}</ul><table><thead><tr><th>run"
        "<th>rounds<th>|B| seen<th>denominator<th>rate seen</tr></thead><tbody>"
        + "".join("<tr>" + "".join(_cell(escape(value)) for value in line) + "</tr>" for line in lines)
        + "</tbody></table>"
    )


def _items(facts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(fact)}</li>" for fact in facts)
