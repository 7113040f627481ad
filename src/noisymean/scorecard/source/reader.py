"""A scorecard of files: what the linter finds, and what each file shows to be right. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, final

from noisymean.lint.findings import Finding, Linted, NotRead
from noisymean.lint.linter import Progress, lint
from noisymean.lint.script import Script
from noisymean.lint.text import Unreadable, parsed
from noisymean.lint.tree import Tree
from noisymean.probe.reading.work import Exhausted
from noisymean.scorecard.pitfalls import PITFALLS
from noisymean.scorecard.source import by_hand, opacus, own, text
from noisymean.scorecard.source.bindings import Bindings, set_from_outside
from noisymean.scorecard.source.sites import sites
from noisymean.scorecard.value import Fact, Outcome, Scorecard, Subject

# Wider than the linter's: what only speaks of delta or of an accountant is looked at as well.
_RELEVANT = re.compile(
    rb"nois|clip|priva|opacus|dpsgd|dp_sgd|differential|randn|normal|laplac|gauss|delta|epsilon", re.IGNORECASE
)
_TOO_FAR = "not followed to the end"
# A pitfall at a line of a file.
_At: TypeAlias = tuple[str, str, int]


@final
@dataclass
class _File:
    """What one file shows."""

    name: str
    facts: list[Fact] = field(default_factory=list)
    # it trains with DP, recognised
    trains: bool = False
    # what the rules say of a call of make_private without looking around it, and what is seen to be otherwise
    answered: set[_At] = field(default_factory=set)


def check_source(
    paths: Sequence[Path], name: str, *, exclude: Sequence[str] = (), progress: Progress = lambda done: None
) -> Scorecard:
    """The scorecard of everything below these paths."""
    linted = lint(paths, exclude=exclude, progress=progress)
    files, not_read = _files(paths, exclude)
    ruled = list(_of_rules(linted, {at for one in files for at in one.answered}))
    said = {_at(one) for one in ruled}
    facts = [*ruled, *(fact for one in files for fact in one.facts if not _is_said(fact, said))]
    # the linter's own reason comes first where both left a file
    unread = tuple({one.file: one for one in (*not_read, *linted.not_read)}.values())
    if unread:
        more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
        says = f"not read: {unread[0].file}{more}"
        facts += [Fact(one, Outcome.NOT_CHECKABLE, says) for one in PITFALLS]
    trains = any(one.trains for one in files) or bool(linted.findings or linted.ignored)
    return Scorecard.of(Subject.SOURCE, name, facts, trains=trains, files=linted.files, not_read=unread)


def _at(fact: Fact) -> _At:
    """Where a fact is, by pitfall, file and line."""
    return (fact.pitfall.id, "", 0) if fact.place is None else (fact.pitfall.id, fact.place.file, fact.place.line)


def _is_said(fact: Fact, said: set[_At]) -> bool:
    """Whether a rule says the same of the same line."""
    return fact.outcome is Outcome.FOUND and _at(fact) in said


def _of_rules(linted: Linted, answered: set[_At]) -> Iterator[Fact]:
    """What the linter found, under each pitfall that the rule is about."""
    every: list[tuple[Finding, str | None]] = [(one, None) for one in linted.findings]
    every += [(one.finding, one.reason) for one in linted.ignored]
    for finding, silenced in every:
        rule = finding.rule
        for pitfall in (one for one in PITFALLS if rule.id in one.rules):
            fact = Fact(pitfall, Outcome.FOUND, f"{rule.id} {rule.name}", finding.place, rule.id, silenced)
            if _at(fact) not in answered:
                yield fact


def _files(paths: Sequence[Path], exclude: Sequence[str]) -> tuple[list[_File], list[NotRead]]:
    tree = Tree(paths, exclude)
    relevant, outside = [], set[str]()
    for found, data in tree.files():
        outside |= set_from_outside(data)
        if _RELEVANT.search(data):
            relevant.append((found, data))
    files = []
    for found, data in relevant:
        try:
            script = Script(parsed(found.name, data, notebook=found.is_notebook))
            files.append(_of_script(Bindings(script, frozenset(outside))))
            if script.syntax.unfollowed:
                tree.not_read.append(NotRead(found.name, _TOO_FAR))
        except Unreadable as fault:
            tree.not_read.append(NotRead(found.name, str(fault)))
        except (Exhausted, RecursionError):
            tree.not_read.append(NotRead(found.name, _TOO_FAR))
    return files, tree.not_read


def _of_script(bindings: Bindings) -> _File:
    script = bindings.script
    found = _File(script.text.file)
    calls = sites(bindings)
    for site in calls:
        seen = list(opacus.facts(site))
        found.facts += seen
        line = script.text.place(site.call.node).line
        found.answered |= {
            (one.pitfall.id, found.name, line)
            for one in seen
            if one.outcome is Outcome.PASSED and one.pitfall in opacus.LOOKED_AT
        }
    others = [*by_hand.by_hand(bindings), *own.own_steps(bindings), *own.other_libraries(script)]
    found.facts += others
    found.trains = bool(calls or others)
    if found.trains:
        found.facts += [*text.metrics(bindings), *text.crossing(bindings)]
    elif script.speaks_of_privacy and own.trains(script):
        found.facts += own.unrecognised(script)
    found.facts += [*text.deltas(bindings), *text.neighbours(bindings)]
    return found
