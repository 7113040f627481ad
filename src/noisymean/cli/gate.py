"""--fail-on-violation and --max-epsilon: when a finding is an exit code. One rule for every command that has a verdict.

--fail-on-violation
    1   violated; or, where code is read or probed, what it divides by depends on the data, or a leak was seen
    2   nothing was judged: no claim, an audit that was cut short, an implementation that was not understood
    0   judged, and no violation is known: holds, not-violated, a constant; also undetermined, which is said
--max-epsilon E
    1   unless a guarantee of at most E is known; none known is 1 as well. An audit guarantees nothing: 1 if more than E is
        certainly lost
    0   else

Of several results, and with both options, what was found (1) comes before what was not judged (2). The answer itself is
printed or written first, then one line on standard error says why. An error has ended the command before any of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, NamedTuple, TypeAlias, final

import typer

from noisymean.accounts import Account
from noisymean.audit import Audit
from noisymean.cli import values
from noisymean.cli.complaints import refused
from noisymean.cli.options import Group, flag, text
from noisymean.cli.output import note
from noisymean.errors import NoisymeanError
from noisymean.outward import at_least, at_most
from noisymean.probe.conclusions import Denominator
from noisymean.probe.finding import Finding, Severity
from noisymean.probe.judgement import obstacle
from noisymean.probe.laws import Kind
from noisymean.report.account_words import lost_and_claimed
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.releases import CodeRecord, denominator_of

FOUND = 1
# Of many results a line names the first of these.
_NAMED = 3


class Unjudged(NoisymeanError):
    """A judgement was asked for and there is none."""


class Standing(Enum):
    """What is known about the claim, or about the denominator."""

    VIOLATED = "violated"
    CLEAR = "no violation known"
    UNJUDGED = "not judged"


class Guaranteed(NamedTuple):
    """A run that was accounted for loses no more than this epsilon; None where no bound is known."""

    epsilon: float | None


class LostAtLeast(NamedTuple):
    """What was audited certainly loses this epsilon."""

    epsilon: float


class NoEpsilon(NamedTuple):
    """There is no epsilon to compare with a limit, and why not."""

    why: str


Loss: TypeAlias = Guaranteed | LostAtLeast | NoEpsilon


@final
@dataclass(frozen=True)
class Judgement:
    """One result on its way to an exit code: what it is about, where it stands, why, and what is known of epsilon."""

    what: str
    standing: Standing
    why: str
    loss: Loss
    # judged, and neither proved nor refuted
    open: bool = False


@dataclass(frozen=True, kw_only=True)
class Limits(Group):
    """The two options, as they were typed."""

    fail_on_violation: Annotated[
        bool, flag("--fail-on-violation", "Exit with 1 if a violation is found, with 2 if nothing could be judged.")
    ] = False
    max_epsilon: Annotated[str | None, text("E", "Exit with 1 unless an epsilon of at most E is guaranteed.")] = None

    def gate(self) -> Gate:
        most = None if self.max_epsilon is None else values.number("max_epsilon", self.max_epsilon)
        if most is not None and most < 0.0:
            raise refused("max_epsilon", self.max_epsilon)
        return Gate(self.fail_on_violation, most)


@dataclass(frozen=True, kw_only=True)
class LimitsOfAudit(Limits):
    """The same where there is no guarantee to compare."""

    max_epsilon: Annotated[str | None, text("E", "Exit with 1 if more than E is certainly lost.")] = None


@final
@dataclass(frozen=True)
class Gate:
    """What --fail-on-violation and --max-epsilon ask for."""

    fail_on_violation: bool
    max_epsilon: float | None

    def check(self, results: Sequence[Judgement]) -> None:
        """Leave with the exit code that the options ask for; return where that is 0. After the output, never before."""
        found: list[str] = []
        if self.fail_on_violation:
            found += [
                f"--fail-on-violation: {one.what}: {one.why}" for one in results if one.standing is Standing.VIOLATED
            ]
        if self.max_epsilon is not None:
            most = self.max_epsilon
            over = ((one, exceeded(one.loss, most)) for one in results)
            found += [f"--max-epsilon {most:g}: {one.what}: {why}" for one, why in over if why is not None]
        if found:
            note(f"failed: {_listed(found)}")
            raise typer.Exit(FOUND)
        if not self.fail_on_violation:
            return
        unjudged = [f"{one.what}: {one.why}" for one in results if one.standing is Standing.UNJUDGED]
        if unjudged or not results:
            raise Unjudged(f"--fail-on-violation: nothing was judged: {_listed(unjudged) or 'there is no result'}")
        undecided = [f"{one.what}: {one.why}" for one in results if one.open]
        if undecided:
            note(f"--fail-on-violation: not known to be violated, nor to hold: {_listed(undecided)}")


def _listed(reasons: list[str]) -> str:
    """On one line, whatever they quote."""
    more = len(reasons) - _NAMED
    return " ".join("; ".join(reasons[:_NAMED]).split()) + (f"; and {more} more" if more > 0 else "")


def exceeded(loss: Loss, most: float) -> str | None:
    """Why `most` is not kept; None if it is."""
    match loss:
        case Guaranteed(epsilon=epsilon):
            if epsilon is None:
                return "no guarantee is known"
            return None if epsilon <= most else f"epsilon {at_most(epsilon)} is the best guarantee known"
        case LostAtLeast(epsilon=lost):
            return None if lost <= most else f"epsilon of at least {at_least(lost)} is lost"
        case NoEpsilon(why=why):
            return f"no guarantee is known: {why}"


def of_account(answer: Account) -> Judgement:
    """A run that was accounted for."""
    what = f"{answer.steps:,} round{'s' if answer.steps > 1 else ''} of {answer.mechanism.name.upper()}"
    loss: Loss = (
        Guaranteed(answer.guarantee.epsilon)
        if answer.asked_delta
        else NoEpsilon("delta was asked for at a given epsilon; give --delta")
    )
    match answer.verdict:
        case "violated":
            return Judgement(what, Standing.VIOLATED, lost_and_claimed(answer), loss)
        case "holds":
            return Judgement(what, Standing.CLEAR, "the claim holds", loss)
        case "undetermined":
            return Judgement(what, Standing.CLEAR, "the claim is undetermined", loss, open=True)


def of_audit(result: Audit) -> Judgement:
    """Trials that were judged."""
    word, reason = (None, "") if result.verdict is None else (result.verdict.word, result.verdict.reason)
    return _audited(result.target, word, reason, result.interrupted, result.found.epsilon_lower)


def of_audit_record(found: AuditRecord) -> Judgement:
    """The same from a file; a bound that JSON has no number for is infinite."""
    lost = math.inf if found.epsilon_lower is None else found.epsilon_lower
    return _audited(found.target, found.verdict, found.reason, found.interrupted, lost)


def _audited(target: str, word: str | None, reason: str, interrupted: bool, lost: float) -> Judgement:
    standing, why = Standing.CLEAR, reason
    if word == "violated":
        standing = Standing.VIOLATED
    elif interrupted:
        standing, why = Standing.UNJUDGED, "the audit was interrupted"
    elif word is None:
        standing, why = Standing.UNJUDGED, "nothing is claimed; give --claim-epsilon"
    return Judgement(target, standing, why, LostAtLeast(lost))


def of_probe(found: Finding, answer: Account | None, refusal: str | None) -> Judgement:
    """A probe; with the user's numbers, what they make of it counts as well."""
    accounted = None if answer is None else of_account(answer)
    leaks = [one.words for one in found.remarks if one.severity is Severity.LEAK]
    doubts = [one.words for one in found.doubts if one.severity is not Severity.LEAK]
    denominator = of_kind(found.target, found.kind, found.denominator)
    unknown = obstacle(found) or (doubts[0] if doubts else None) or refusal
    loss: Loss
    if accounted is None:
        loss = NoEpsilon(refusal or "no run was described")
    else:
        loss = NoEpsilon(unknown) if unknown is not None else accounted.loss
    if denominator.standing is Standing.VIOLATED or leaks:
        return Judgement(found.target, Standing.VIOLATED, leaks[0] if leaks else denominator.why, loss)
    if accounted is not None and accounted.standing is Standing.VIOLATED:
        return Judgement(found.target, Standing.VIOLATED, accounted.why, loss)
    if unknown is not None:
        return Judgement(found.target, Standing.UNJUDGED, unknown, loss)
    return Judgement(found.target, Standing.CLEAR, denominator.why, loss, open=accounted is not None and accounted.open)


def of_code_record(found: CodeRecord) -> list[Judgement]:
    """The releases of a code audit, or the source that was read, from a file."""
    if found.kind is not None:
        return [of_source(found.package, found.verdict)]
    return [of_kind(f"{found.package}=={one.version}", kind) for one in found.releases for kind in one.kinds]


def of_kind(what: str, kind: Kind | None, denominator: str = "") -> Judgement:
    """Code that was run, by the kind of its denominator; None if it could not be run."""
    return of_source(what, denominator_of(kind), f" ({denominator})" if denominator else "")


def of_source(what: str, verdict: Denominator, by: str = "") -> Judgement:
    """Code that divides by a constant, by something of the data, or by nobody knows what."""
    match verdict:
        case Denominator.CONSTANT:
            standing, why = Standing.CLEAR, f"it divides by a constant{by}"
        case Denominator.DATA_DEPENDENT:
            standing, why = Standing.VIOLATED, f"what it divides by depends on the data{by}"
        case Denominator.UNKNOWN:
            standing, why = Standing.UNJUDGED, "what it divides by was not found; try 'noisymean probe'"
    no_run = "which denominator it is says nothing about epsilon; 'noisymean account' does, for a run"
    return Judgement(what, standing, why, NoEpsilon(no_run))
