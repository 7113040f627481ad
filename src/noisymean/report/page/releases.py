"""The record of a code audit, as `code-audit --json` writes it, checked and ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM
from noisymean.probe.conclusions import Denominator, judged
from noisymean.probe.laws import Kind
from noisymean.probe.reading import Origin, Role, Statement, Sure
from noisymean.report.page.node import BadRecord, Node

# What a mechanism means for the claim: only a constant denominator keeps it.
_KINDS = tuple(kind.value for kind in Kind)
_UNSOUND = {Kind.EASGM.value, Kind.FEASGM.value, Kind.ASGM.value, Kind.LOADER.value, Kind.INDEPENDENT.value}


@final
@dataclass(frozen=True)
class Shown:
    """What running one option of a release showed."""

    option: str
    kind: str
    facts: tuple[str, ...]
    evidence: tuple[tuple[str, ...], ...]


@final
@dataclass(frozen=True)
class Release:
    """One release: a row of the table, and the evidence for it."""

    version: str
    poisson: str
    mean: str
    shipped: str | None
    sum: str
    statements: tuple[str, ...]
    disagreements: tuple[str, ...]
    faults: tuple[str, ...]
    paper: str
    against_paper: tuple[str, ...]
    seconds: float
    findings: tuple[Shown, ...]

    @property
    def word(self) -> str:
        """Whether the mean is divided by something of the data: data-dependent, constant or unknown."""
        kinds = {self.mean.lower(), *(() if self.shipped is None else (self.shipped.lower(),))}
        if kinds & _UNSOUND:
            return "data-dependent"
        return "constant" if kinds == {Kind.SGM.value} else "unknown"


@final
@dataclass(frozen=True)
class CodeRecord:
    """Releases that were run and read, or the source of another package that was read."""

    package: str
    version: str
    releases: tuple[Release, ...] = ()
    kind: str | None = None
    verdict: Denominator = Denominator.UNKNOWN
    poisson: str = ""
    files: int = 0
    statements: tuple[Statement, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The worst of the releases; of source that was only read, what reading shows."""
        if self.kind is not None:
            return self.verdict.value
        words = {one.word for one in self.releases}
        return next((word for word in ("data-dependent", "unknown") if word in words), "constant")


def code_record(node: Node) -> CodeRecord:
    """The whole file."""
    package, version = node["package"].text(), node["version"].text()
    if "releases" in node:
        releases = tuple(release(one) for one in node["releases"].items())
        if not releases:
            node["releases"].refuse("a list of at least one release")
        return CodeRecord(package, version, releases)
    if "verdict" not in node:
        # an earlier reader called things a constant that it had not understood
        raise BadRecord(f"{node.file}: verdict: missing; run the code audit again with this version")
    found = CodeRecord(
        package,
        version,
        kind=node["mechanism"].one_of(*_KINDS),
        verdict=Denominator(node["verdict"].one_of(*(one.value for one in Denominator))),
        poisson=_poisson(node["poisson"]),
        files=node["files"].whole(),
        statements=tuple(_statement(one) for one in node["statements"].items()),
        unreadable=node["unreadable"].texts(),
    )
    if found.verdict is not judged(found.statements, all_read=not found.unreadable):
        node["verdict"].refuse("what the statements of this file say", "the file was changed: run the code audit again")
    return found


def _poisson(node: Node) -> str:
    """What the source offers for Poisson sampling, in words; of a package that was only read it is an object."""
    if isinstance(node.value, str):
        return node.text()
    if not node["switch"].missing:
        default = node["default"]
        return f"{node['switch'].text()}, default {'unknown' if default.missing else default.flag()}"
    return ", ".join(node["samplers"].texts()) or "none"


def _statement(node: Node) -> Statement:
    origins = tuple(Origin(one.one_of(*(kind.value for kind in Origin))) for one in node["origins"].items())
    return Statement(
        file=node["file"].text(),
        line=node["line"].whole(),
        text=node["text"].text(),
        role=Role(node["role"].one_of(*(kind.value for kind in Role))),
        by=node["by"].text(),
        origins=origins,
        sure=Sure(node["sure"].one_of(*(kind.value for kind in Sure))),
        noisy=node["noisy"].flag(),
        guards=node["guards"].texts(),
    )


def release(node: Node) -> Release:
    """One entry of `releases`."""
    mechanisms, findings = node["mechanism"].mapping(), node["findings"].mapping()
    kinds = {option: one["run"].one_of(*_KINDS).upper() for option, one in mechanisms.items()}
    paper = node["paper"]
    return Release(
        version=node["version"].text(),
        poisson=node["poisson"].text(),
        mean=kinds.get(MEAN, "unknown"),
        shipped=kinds.get(NO_POISSON),
        sum=kinds.get(SUM, "unknown"),
        statements=mechanisms[MEAN]["divides_at"].texts() if MEAN in mechanisms else (),
        disagreements=node["disagreements"].texts(),
        faults=tuple(f"{one.path.rpartition('.')[2]}: {one.text()}" for one in node["faults"].mapping().values()),
        paper="not in it" if paper.missing else paper["mechanism"].text(),
        against_paper=node["against_paper"].texts(),
        seconds=node["seconds"].number(least=0.0),
        findings=tuple(_finding(option, one) for option, one in findings.items()),
    )


def _finding(option: str, node: Node) -> Shown:
    sensitivity = node["clipping"]["sensitivity"].number_or_none()
    law = node["rates"]["law"]
    return Shown(
        option=Node(option, node.file, node.path).text(),
        kind=node["kind"].one_of(*_KINDS).upper(),
        facts=(
            f"denominator: {node['denominator'].text()}",
            f"sensitivity: {'not seen' if sensitivity is None else f'{sensitivity:.3f} C'}",
            f"sampling: {node['rates']['sampling'].text()}{'' if law.missing else ' ' + law.text()}",
            f"an empty batch {node['empty_batch'].text()}",
            *(f"{one['severity'].text()}: {one['words'].text()}" for one in node["remarks"].items()),
        ),
        evidence=tuple(_evidence(one) for one in node["evidence"].items()),
    )


def _evidence(node: Node) -> tuple[str, ...]:
    rate = node["rate"].number_or_none()
    return (
        node["run"].text(),
        str(node["rounds"].whole()),
        node["batches"].text(),
        node["denominator"].text() if node["finite"].flag() else "not finite",
        "" if rate is None else f"{rate:.4f}",
    )
