"""From the statements that were read to a mechanism, and whether it is the one that running shows.

Which statements run under which options is told by the tests around them: one under `loss_reduction == "mean"` does not run for
"sum", one under `poisson` does not without it, and where it runs it replaces what came before.
"""

from __future__ import annotations

import re

from noisymean.probe.finding import Finding, Severity
from noisymean.probe.laws import Kind
from noisymean.probe.reading import Origin, Role, Source, Statement

_KINDS = {
    frozenset({Origin.BATCH}): Kind.ASGM,
    frozenset({Origin.EXPECTED}): Kind.EASGM,
    frozenset({Origin.FLOOR}): Kind.FEASGM,
    frozenset({Origin.CALLER}): Kind.SGM,
}


def dividing(source: Source, *, reduction: str = "mean", poisson: bool = True) -> tuple[Statement, ...]:
    """The statements that divide gradients under these options; those of the noise where gradients have none."""
    found = [one for one in source.dividing() if _runs(one, reduction, poisson)]
    if not found and not source.dividing():
        found = [one for one in source.dividing(Role.NOISE) if _runs(one, reduction, poisson)]
    replacing = [one for one in found if any(re.search(r"\bpoisson\b", guard) for guard in one.guards)]
    # one process first: what a distributed optimizer does comes after
    return tuple(sorted(replacing or found, key=lambda one: "ddp" in one.file or "distributed" in one.file))


def _runs(statement: Statement, reduction: str, poisson: bool) -> bool:
    for guard in statement.guards:
        if guard.startswith("not ("):
            continue
        if re.search(r"""['"]mean['"]""", guard) and reduction != "mean":
            return False
        if re.search(r"\bpoisson\b", guard) and not poisson:
            return False
    return True


def read_kind(source: Source, *, reduction: str = "mean", poisson: bool = True) -> Kind:
    """The mechanism that the statements are; `unknown` if they come from several places, or from none."""
    if not source.dividing() and not source.dividing(Role.NOISE):
        return Kind.UNKNOWN
    statements = dividing(source, reduction=reduction, poisson=poisson)
    if not statements:
        return Kind.SGM
    return _KINDS.get(frozenset(origin for one in statements for origin in one.origins), Kind.UNKNOWN)


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


def leaks(found: Finding) -> list[str]:
    """What was found that is a leak."""
    return [one.words for one in found.remarks if one.severity is Severity.LEAK]
