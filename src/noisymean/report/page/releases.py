"""The record of a code audit, as `code-audit --json` writes it, checked and ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM
from noisymean.probe.conclusions import Denominator, judged
from noisymean.probe.laws import Kind
from noisymean.probe.reading import Origin, Role, Statement, Sure
from noisymean.report.page.untrusted import BadRecord, Untrusted

_KINDS = tuple(kind.value for kind in Kind)


def denominator_of(kind: Kind | None) -> Denominator:
    """What a kind means for the claim, which only a constant keeps; None: it could not be run."""
    match kind:
        case Kind.SGM:
            return Denominator.CONSTANT
        case Kind.EASGM | Kind.ASGM | Kind.FEASGM | Kind.LOADER | Kind.INDEPENDENT:
            return Denominator.DATA_DEPENDENT
        case Kind.UNKNOWN | None:
            return Denominator.UNKNOWN


@final
@dataclass(frozen=True)
class OptionRun:
    """What running a release under one of its options showed."""

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
    findings: tuple[OptionRun, ...]

    @property
    def kinds(self) -> list[Kind]:
        """What its mean is divided by: as it was asked for and, where that differs, as it is shipped."""
        return [Kind(name.lower()) for name in (self.mean, self.shipped) if name is not None]

    @property
    def verdict(self) -> Denominator:
        """The one of them that speaks against a claim first; a constant only if all of them are."""
        there = set(map(denominator_of, self.kinds))
        order = (Denominator.DATA_DEPENDENT, Denominator.UNKNOWN)
        return next((one for one in order if one in there), Denominator.CONSTANT)


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


def code_record(stated: Untrusted) -> CodeRecord:
    """The whole file."""
    package, version = stated["package"].text(), stated["version"].text()
    if "releases" in stated:
        releases = tuple(release(one) for one in stated["releases"].items())
        if not releases:
            stated["releases"].refuse("a list of at least one release")
        return CodeRecord(package, version, releases)
    if "verdict" not in stated:
        # an earlier reader called things a constant that it had not understood
        raise BadRecord(f"{stated.file}: verdict: missing; run the code audit again with this version")
    found = CodeRecord(
        package,
        version,
        kind=stated["mechanism"].one_of(*_KINDS),
        verdict=stated["verdict"].member(Denominator),
        poisson=_poisson(stated["poisson"]),
        files=stated["files"].whole(),
        statements=tuple(_statement(one) for one in stated["statements"].items()),
        unreadable=stated["unreadable"].texts(),
    )
    if found.verdict is not judged(found.statements, all_read=not found.unreadable):
        stated["verdict"].refuse(
            "what the statements of this file say", "the file was changed: run the code audit again"
        )
    return found


def _poisson(stated: Untrusted) -> str:
    """What the source offers for Poisson sampling, in words; of a package that was only read it is an object."""
    if isinstance(stated.value, str):
        return stated.text()
    if not stated["switch"].missing:
        default = stated["default"]
        return f"{stated['switch'].text()}, default {'unknown' if default.missing else default.flag()}"
    return ", ".join(stated["samplers"].texts()) or "none"


def _statement(stated: Untrusted) -> Statement:
    return Statement(
        file=stated["file"].text(),
        line=stated["line"].whole(),
        text=stated["text"].text(),
        role=stated["role"].member(Role),
        by=stated["by"].text(),
        origins=tuple(one.member(Origin) for one in stated["origins"].items()),
        sure=stated["sure"].member(Sure),
        noisy=stated["noisy"].flag(),
        guards=stated["guards"].texts(),
    )


def release(stated: Untrusted) -> Release:
    """One entry of `releases`."""
    mechanisms, findings = stated["mechanism"].mapping(), stated["findings"].mapping()
    kinds = {option: one["run"].one_of(*_KINDS).upper() for option, one in mechanisms.items()}
    paper = stated["paper"]
    return Release(
        version=stated["version"].text(),
        poisson=stated["poisson"].text(),
        mean=kinds.get(MEAN, "unknown"),
        shipped=kinds.get(NO_POISSON),
        sum=kinds.get(SUM, "unknown"),
        statements=mechanisms[MEAN]["divides_at"].texts() if MEAN in mechanisms else (),
        disagreements=stated["disagreements"].texts(),
        faults=tuple(f"{one.path.rpartition('.')[2]}: {one.text()}" for one in stated["faults"].mapping().values()),
        paper="not in it" if paper.missing else paper["mechanism"].text(),
        against_paper=stated["against_paper"].texts(),
        seconds=stated["seconds"].number(least=0.0),
        findings=tuple(_finding(option, one) for option, one in findings.items()),
    )


def _finding(option: str, stated: Untrusted) -> OptionRun:
    sensitivity = stated["clipping"]["sensitivity"].number_or_none()
    law = stated["rates"]["law"]
    return OptionRun(
        option=Untrusted(option, stated.file, stated.path).text(),
        kind=stated["kind"].one_of(*_KINDS).upper(),
        facts=(
            f"denominator: {stated['denominator'].text()}",
            f"sensitivity: {'not seen' if sensitivity is None else f'{sensitivity:.3f} C'}",
            f"sampling: {stated['rates']['sampling'].text()}{'' if law.missing else ' ' + law.text()}",
            f"an empty batch {stated['empty_batch'].text()}",
            *(f"{one['severity'].text()}: {one['words'].text()}" for one in stated["remarks"].items()),
        ),
        evidence=tuple(_evidence(one) for one in stated["evidence"].items()),
    )


def _evidence(stated: Untrusted) -> tuple[str, ...]:
    rate = stated["rate"].number_or_none()
    return (
        stated["run"].text(),
        str(stated["rounds"].whole()),
        stated["batches"].text(),
        stated["denominator"].text() if stated["finite"].flag() else "not finite",
        "" if rate is None else f"{rate:.4f}",
    )
