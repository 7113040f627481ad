"""All rules over all files of some paths.

A file is looked at by itself: it is parsed if anything in it speaks of noise, draws, clipping or privacy, and what it says is
followed inside of it, as far as any file is. No file keeps another from being read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from noisymean.lint.findings import Finding, Idle, Ignored, Linted, NotRead, Place
from noisymean.lint.rules import EACH
from noisymean.lint.script import Script
from noisymean.lint.silence import silenced
from noisymean.lint.text import Text, Unreadable, parsed
from noisymean.lint.tree import Tree
from noisymean.probe.reading.work import Exhausted

Progress = Callable[[int], None]
_RELEVANT = re.compile(
    rb"nois|clip|priva|opacus|dp[-_ ]?(sgd|adam|fed|train|optim|mech|keras)|differential|rdp|accountant|max_grad_norm|sensitivity"
    rb"|randn|normal|laplac|gauss|rsample",
    re.IGNORECASE,
)
_TOO_DEEP = "nested too deeply to be followed to the end"
_TOO_FAR = "not followed to the end: too much leads to too much in it"
_TOO_LONG = (
    "too long to be followed statement by statement: rules that follow arrays did not look at it, all others did"
)
# Of one file: more is no file of people.
_MOST_FINDINGS = 200


def lint(paths: Sequence[Path], *, exclude: Sequence[str] = (), progress: Progress = lambda done: None) -> Linted:
    """What the rules find below these paths; nothing is executed.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = pathlib.Path(folder, "train.py")
    ...     written = script.write_text("engine.make_private(data_loader=loader, poisson_sampling=False)")
    ...     [one.rule.id for one in lint([script]).findings]
    ['NM001', 'NM003']
    """
    tree = Tree(paths, exclude)
    findings: list[Finding] = []
    ignored: list[Ignored] = []
    idle: list[Idle] = []
    files = 0
    for found, data in tree.files():
        files += 1
        progress(files)
        if not _RELEVANT.search(data):
            continue
        try:
            text = parsed(found.name, data, notebook=found.is_notebook)
        except Unreadable as fault:
            tree.not_read.append(NotRead(found.name, str(fault)))
            continue
        own, short = _findings(text)
        if short is not None:
            tree.not_read.append(NotRead(found.name, short))
        left, silent, unused = silenced(text, own)
        findings += left
        ignored += silent
        idle += unused
    return Linted(tuple(findings), tuple(ignored), tuple(idle), files, tuple(tree.not_read))


def _order(one: Finding) -> tuple[int, int, int, str, int]:
    """By the line of the file; the cells of a notebook may all stand on one."""
    place = one.place
    return place.line, place.cell or 0, place.cell_line or 0, one.rule.id, place.column


def _findings(text: Text) -> tuple[list[Finding], str | None]:
    """In the order of their lines, each once; and what kept a rule from looking at all of the file, if anything did."""
    found: dict[tuple[Place, str], Finding] = {}
    short = None
    try:
        script = Script(text)
        for looks in EACH:
            try:
                for one in looks(script):
                    found[one.place, one.rule.id] = one
            except RecursionError:
                short = _TOO_DEEP
        if script.unwalked:
            short = short or _TOO_LONG
        if script.syntax.unfollowed:
            short = _TOO_FAR
    except Exhausted:
        short = _TOO_FAR
    except RecursionError:
        short = _TOO_DEEP
    ordered = sorted(found.values(), key=_order)
    if len(ordered) > _MOST_FINDINGS:
        short = f"more than {_MOST_FINDINGS} findings; the first are shown"
    return ordered[:_MOST_FINDINGS], short
