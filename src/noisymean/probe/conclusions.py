"""From the statements that were read to a mechanism, and whether it is the one that running shows.

Which statements run under which options is told by the tests around them: one under `loss_reduction == "mean"` does not run for
"sum", one under `poisson` does not without it, and where it runs it replaces what came before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from noisymean.probe.laws import Kind
from noisymean.probe.reading import CONSTANTS, OF_THE_DATA, Origin, Role, Source, Statement, Sure

_KINDS = {
    frozenset({Origin.BATCH}): Kind.ASGM,
    frozenset({Origin.EXPECTED}): Kind.EASGM,
    frozenset({Origin.FLOOR}): Kind.FEASGM,
}
_NO_SIZES = {Origin.NUMBER, Origin.NORM}


class Denominator(Enum):
    """What reading says of the denominator, if nothing is run."""

    DATA_DEPENDENT = "data-dependent"
    CONSTANT = "constant"
    UNKNOWN = "unknown"


def judged(statements: Iterable[Statement], *, all_read: bool) -> Denominator:
    """The worst that was understood; a constant only if everything was, and nothing was left unread.

    >>> judged([], all_read=True)
    <Denominator.UNKNOWN: 'unknown'>
    """
    found = list(statements)
    noisy = [one for one in found if one.role is not Role.UNCLEAR]
    if any(OF_THE_DATA & set(one.origins) for one in noisy):
        return Denominator.DATA_DEPENDENT
    understood = all_read and all(set(one.origins) <= CONSTANTS for one in found)
    # halving a gradient is not yet what makes a mean of a sum
    mean = any(Origin.CALLER in one.origins or one.noisy for one in noisy)
    return Denominator.CONSTANT if understood and mean else Denominator.UNKNOWN


def read_verdict(source: Source) -> Denominator:
    """Of all that was read, whatever the options under which a statement runs."""
    return judged(source.statements, all_read=not source.unreadable)


def read_mechanism(source: Source) -> Kind:
    """The mechanism, if all that divides something noisy by a number of the data is the same one, and the rest is constant."""
    match read_verdict(source):
        case Denominator.CONSTANT:
            return Kind.SGM
        case Denominator.UNKNOWN:
            return Kind.UNKNOWN
        case Denominator.DATA_DEPENDENT:
            noisy = [one for one in source.statements if one.role in (Role.GRADIENT, Role.NOISE)]
            return _KINDS.get(frozenset(origin for one in noisy for origin in one.origins) - CONSTANTS, Kind.UNKNOWN)


def dividing(source: Source, *, reduction: str = "mean", poisson: bool = True) -> tuple[Statement, ...]:
    """The statements that divide gradients under these options; those of the noise where gradients have none.

    Only what is called a gradient or noise: in a large package, what is followed there leads too far.
    """
    named = [one for one in source.statements if one.sure is Sure.NAMED and set(one.origins) - _NO_SIZES]
    gradients = [one for one in named if one.role is Role.GRADIENT]
    chosen = gradients or [one for one in named if one.role is Role.NOISE]
    found = [one for one in chosen if _runs(one, reduction, poisson)]
    replacing = [one for one in found if any(re.search(r"\bpoisson\b", guard) for guard in one.guards)]
    # one process first: what a distributed optimizer does comes after
    return tuple(sorted(replacing or found, key=lambda one: "ddp" in one.file or "distributed" in one.file))


def _runs(statement: Statement, reduction: str, poisson: bool) -> bool:
    needed = [guard for guard in statement.guards if not guard.startswith("not (")]
    unmet = [] if reduction == "mean" else [r"""['"]mean['"]"""]
    unmet += [] if poisson else [r"\bpoisson\b"]
    return not any(re.search(one, guard) for one in unmet for guard in needed)


def read_kind(source: Source, *, reduction: str = "mean", poisson: bool = True) -> Kind:
    """What to compare with what running shows under these options; for source that is only read there is `read_verdict`."""
    if not dividing(source):
        return Kind.UNKNOWN
    statements = dividing(source, reduction=reduction, poisson=poisson)
    if not statements:
        return Kind.SGM
    origins = frozenset(origin for one in statements for origin in one.origins)
    return Kind.SGM if origins <= CONSTANTS else _KINDS.get(origins, Kind.UNKNOWN)


def agree(read: Kind, ran: Kind) -> bool:
    """A floor that is read is that of the loader or of a rate: running tells which."""
    return read is ran or (read is Kind.FEASGM and ran is Kind.LOADER)


def poisson_words(source: Source) -> str:
    """What is offered for Poisson sampling, from the source."""
    found = source.poisson
    if found.switch is not None:
        return f"{found.switch}, default {found.default}"
    own = [name for name in found.samplers if "Distributed" not in name]
    if own:
        return ", ".join(own)
    return "none; a batch above the declared size raises" if found.refuses_larger else "none"
