"""All rules over all files of some paths.

A file is looked at by itself: it is parsed if anything in it speaks of noise, clipping or privacy, and what it says is followed
inside of it. No file keeps another from being read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from noisymean.lint.findings import Finding, Idle, Ignored, Linted, NotRead
from noisymean.lint.rules import EACH
from noisymean.lint.script import Script
from noisymean.lint.silence import silenced
from noisymean.lint.text import Text, Unreadable, parsed
from noisymean.lint.tree import Tree

Progress = Callable[[int], None]
_RELEVANT = re.compile(rb"nois|clip|priva|opacus|dpsgd|dp_sgd|[Dd]ifferential", re.IGNORECASE)
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
            own = list(_findings(text))
        except Unreadable as fault:
            tree.not_read.append(NotRead(found.name, str(fault)))
            continue
        except RecursionError:
            tree.not_read.append(NotRead(found.name, "nested too deeply to be followed"))
            continue
        left, silent, unused = silenced(text, own)
        findings += left
        ignored += silent
        idle += unused
    return Linted(tuple(findings), tuple(ignored), tuple(idle), files, tuple(tree.not_read))


def _findings(text: Text) -> Iterator[Finding]:
    """In the order of their lines, each once."""
    script = Script(text)
    found = {(one.place, one.rule.id): one for looks in EACH for one in looks(script)}
    ordered = sorted(found.values(), key=lambda one: (one.place.line, one.rule.id, one.place.column))
    yield from ordered[:_MOST_FINDINGS]
