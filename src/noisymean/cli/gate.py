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
from typing import Annotated, TypeAlias, final

import typer

from noisymean.accounts import Account
from noisymean.audit import Audit
from noisymean.cli import values
from noisymean.cli.output import note
from noisymean.cli.wants import refused
from noisymean.errors import NoisymeanError
from noisymean.outward import at_least, at_most
from noisymean.probe.conclusions import Denominator
from noisymean.probe.finding import Finding, Sampling, Severity
from noisymean.probe.laws import Kind
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.releases import CodeRecord

FOUND = 1
# Of many results a line names the first of these.
_NAMED = 3

FailOnViolation: TypeAlias = Annotated[
    bool,
    typer.Option("--fail-on-violation", help="Exit with 1 if a violation is found, with 2 if nothing could be judged."),
]
MaxEpsilon: TypeAlias = Annotated[
    str | None,
    typer.Option("--max-epsilon", metavar="E", help="Exit with 1 unless an epsilon of at most E is guaranteed."),
]
# An audit has no guarantee to compare.
MostLost: TypeAlias = Annotated[
    str | None, typer.Option("--max-epsilon", metavar="E", help="Exit with 1 if more than E is certainly lost.")
]


class Unjudged(NoisymeanError):
    """A judgement was asked for and there is none."""


class Standing(Enum):
    """What is known about the claim, or about the denominator."""

    VIOLATED = "violated"
    CLEAR = "no violation known"
    UNJUDGED = "not judged"


@final
@dataclass(frozen=True)
class Guaranteed:
    """No more than this is lost; None where no bound is known."""

    epsilon: float | None


@final
@dataclass(frozen=True)
class LostAtLeast:
    """What an audit has seen."""

    epsilon: float


@final
@dataclass(frozen=True)
class NoEpsilon:
    """There is no epsilon to compare, and why."""

    why: str


Loss: TypeAlias = Guaranteed | LostAtLeast | NoEpsilon


@final
@dataclass(frozen=True)
class Judged:
    """One result: what it is about, where it stands, why, and what is known of epsilon."""

    what: str
    standing: Standing
    why: str
    loss: Loss
    # judged, and neither proved nor refuted
    open: bool = False


@final
@dataclass(frozen=True)
class Gate:
    """What was asked for."""

    fail_on_violation: bool
    max_epsilon: float | None

    @classmethod
    def of(cls, fail_on_violation: bool, max_epsilon: str | None) -> Gate:
        """From the two options, as they are typed."""
        most = None if max_epsilon is None else values.number("max_epsilon", max_epsilon)
        if most is not None and most < 0.0:
            raise refused("max_epsilon", max_epsilon)
        return cls(fail_on_violation, most)

    def check(self, results: Sequence[Judged]) -> None:
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


def of_account(answer: Account) -> Judged:
    """A run that was accounted for."""
    symbol = "epsilon" if answer.asked_delta else "delta"
    leaked, claimed = (getattr(bound, symbol) for bound in (answer.leakage, answer.claimed))
    what = f"{answer.steps:,} round{'s' if answer.steps > 1 else ''} of {answer.mechanism.name.upper()}"
    loss: Loss = (
        Guaranteed(answer.guarantee.epsilon)
        if answer.asked_delta
        else NoEpsilon("delta was asked for at a given epsilon; give --delta")
    )
    match answer.verdict:
        case "violated":
            why = f"at least {symbol} = {at_least(leaked)} is lost where {at_most(claimed)} is claimed"
            return Judged(what, Standing.VIOLATED, why, loss)
        case "holds":
            return Judged(what, Standing.CLEAR, "the claim holds", loss)
        case "undetermined":
            return Judged(what, Standing.CLEAR, "the claim is undetermined", loss, open=True)


def of_audit(result: Audit) -> Judged:
    """Trials that were judged."""
    loss = LostAtLeast(result.found.epsilon_lower)
    if result.verdict is None:
        return _no_verdict(result.target, result.interrupted, loss)
    return _audited(result.target, result.verdict.word == "violated", result.verdict.reason, result.interrupted, loss)


def of_audit_record(found: AuditRecord) -> Judged:
    """The same from a file; a bound that JSON has no number for is infinite."""
    loss = LostAtLeast(math.inf if found.epsilon_lower is None else found.epsilon_lower)
    if found.verdict is None:
        return _no_verdict(found.target, found.interrupted, loss)
    return _audited(found.target, found.verdict == "violated", found.reason, found.interrupted, loss)


def _audited(target: str, violated: bool, reason: str, interrupted: bool, loss: Loss) -> Judged:
    if interrupted and not violated:
        return _no_verdict(target, interrupted, loss)
    return Judged(target, Standing.VIOLATED if violated else Standing.CLEAR, reason, loss)


def _no_verdict(target: str, interrupted: bool, loss: Loss) -> Judged:
    why = "the audit was interrupted" if interrupted else "nothing is claimed; give --claim-epsilon"
    return Judged(target, Standing.UNJUDGED, why, loss)


def of_probe(found: Finding, answer: Account | None, refusal: str | None) -> Judged:
    """A probe; with the user's numbers, what they make of it counts as well."""
    accounted = None if answer is None else of_account(answer)
    leaks = [one.words for one in found.remarks if one.severity is Severity.LEAK]
    doubts = [one.words for one in found.doubts if one.severity is not Severity.LEAK]
    denominator = of_kind(found.target, found.kind, found.denominator)
    obstacle = _obstacle(found) or (doubts[0] if doubts else None) or refusal
    loss: Loss
    if accounted is None:
        loss = NoEpsilon(refusal or "no run was described")
    else:
        loss = NoEpsilon(obstacle) if obstacle is not None else accounted.loss
    if denominator.standing is Standing.VIOLATED or leaks:
        return Judged(found.target, Standing.VIOLATED, leaks[0] if leaks else denominator.why, loss)
    if accounted is not None and accounted.standing is Standing.VIOLATED:
        return Judged(found.target, Standing.VIOLATED, accounted.why, loss)
    if obstacle is not None:
        return Judged(found.target, Standing.UNJUDGED, obstacle, loss)
    return Judged(found.target, Standing.CLEAR, denominator.why, loss, open=accounted is not None and accounted.open)


def _obstacle(found: Finding) -> str | None:
    """What the probe could not establish."""
    if found.kind is Kind.UNKNOWN:
        return f"its denominator is not known ({found.denominator})"
    if found.rates.sampling in (Sampling.UNKNOWN, Sampling.SHUFFLED):
        return f"its sampling is {found.rates.sampling.value}, which no accounting here covers"
    if not found.noise.shares_denominator:
        return "its noise was not seen to be divided by what the gradients are divided by"
    if not found.clipping.sound:
        return "that it clips was not seen"
    return None


def of_code_record(found: CodeRecord) -> list[Judged]:
    """The releases of a code audit, or the source that was read, from a file."""
    if found.kind is not None:
        return [of_source(found.package, found.verdict)]
    judged = []
    for one in found.releases:
        kinds = [Kind(name.lower()) for name in (one.mean, one.shipped) if name is not None]
        judged += [of_kind(f"{found.package}=={one.version}", kind) for kind in kinds]
    return judged


def of_source(what: str, verdict: Denominator) -> Judged:
    """Source that was read."""
    match verdict:
        case Denominator.CONSTANT:
            return _constant(what)
        case Denominator.DATA_DEPENDENT:
            return _of_the_data(what)
        case Denominator.UNKNOWN:
            return _not_found(what)


def of_kind(what: str, kind: Kind | None, denominator: str = "") -> Judged:
    """What code divides by; None if it could not be run."""
    by = f" ({denominator})" if denominator else ""
    match kind:
        case Kind.SGM:
            return _constant(what, by)
        case Kind.EASGM | Kind.ASGM | Kind.FEASGM | Kind.LOADER | Kind.INDEPENDENT:
            return _of_the_data(what, by)
        case Kind.UNKNOWN | None:
            return _not_found(what)


_NO_RUN = NoEpsilon("which denominator it is says nothing about epsilon; 'noisymean account' does, for a run")


def _constant(what: str, by: str = "") -> Judged:
    return Judged(what, Standing.CLEAR, f"it divides by a constant{by}", _NO_RUN)


def _of_the_data(what: str, by: str = "") -> Judged:
    return Judged(what, Standing.VIOLATED, f"what it divides by depends on the data{by}", _NO_RUN)


def _not_found(what: str) -> Judged:
    return Judged(what, Standing.UNJUDGED, "what it divides by was not found; try 'noisymean probe'", _NO_RUN)
