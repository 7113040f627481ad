"""What `account --json` and `audit --json` write, checked value by value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, final, get_args

from noisymean.accounts import Pair
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.legible import text_of
from noisymean.mechanisms import KINDS, Adjacency, Mechanism, Sampling, from_plain
from noisymean.report.asked_run import AskedRun
from noisymean.report.page.untrusted import BadRecord, Untrusted
from noisymean.verdict import Word

# Limits and claims are rounded in the claim's favour before they are compared.
_ROUNDING = 1e-6
_CHANGED = "the file was changed: run the audit again"


@final
@dataclass(frozen=True)
class AccountRecord:
    """A run and what was said of it. Its numbers are computed again before they are shown."""

    file: str
    asked: AskedRun
    claimed: float | None
    leakage: float | None
    guarantee: float | None
    verdict: str
    # None in files that do not tell them from why there is no guarantee
    remarks: tuple[str, ...] | None
    reported: tuple[tuple[str, float], ...]
    version: str


@final
@dataclass(frozen=True)
class ErrorRate:
    """An error rate with the limits between which it lies."""

    estimate: float
    lower: float
    upper: float


@final
@dataclass(frozen=True)
class Curve:
    """What is claimed for a target, or what is true of it: epsilon, delta at epsilon = 0, and the curve at the audited alpha."""

    epsilon: float | None
    delta: float
    beta: tuple[float, ...]
    method: str = ""


@final
@dataclass(frozen=True)
class AuditRecord:
    """An audit: what was run, what was seen, and the verdict."""

    file: str
    target: str
    trials: int
    planned: int | None
    confidence: float
    alpha: ErrorRate
    beta: ErrorRate
    delta: float
    epsilon_lower: float | None
    delta_lower: float
    curve_alpha: tuple[float, ...]
    curve_beta: tuple[float, ...]
    claimed: Curve | None
    exact: Curve | None
    verdict: str | None
    reason: str
    power: float | None
    distinguisher: str
    judged: int
    seed: int
    seconds: float
    interrupted: bool
    configuration: dict[str, Any]
    configuration_text: str
    claim_options: tuple[float, float] | None
    version: str


def _adjacency(found: Untrusted, mechanism: Mechanism) -> Adjacency | None:
    """The one that was asked for; files of 0.1.0 say what it was only."""
    answered = found.get("adjacency", mechanism.adjacency.value).member(Adjacency)
    if "asked_adjacency" in found:
        return found["asked_adjacency"].maybe(lambda one: one.member(Adjacency))
    return answered


def account_record(found: Untrusted) -> AccountRecord:
    """An account."""
    asked = "delta" if "delta" in found else "epsilon"
    answered = "epsilon" if asked == "delta" else "delta"
    notes, unproved = found["notes"].texts(), found.get("unproved")
    mechanism, steps = _mechanism(found), found["steps"].whole(1)
    try:
        run = AskedRun(
            mechanism,
            steps,
            delta=found["delta"].number(0.0, 1.0) if asked == "delta" else None,
            epsilon=found["epsilon"].number(least=0.0) if asked == "epsilon" else None,
            adjacency=_adjacency(found, mechanism),
            pair=found.get("asked_pair").maybe(lambda pair: pair.member(Pair)),
        )
    except InvalidInput as fault:
        raise BadRecord(f"{found.file}: {fault}") from None
    return AccountRecord(
        file=found.file,
        asked=run,
        claimed=found["claimed"][answered].number_or_none(least=0.0),
        leakage=found["leakage"][answered].number_or_none(least=0.0),
        guarantee=found["guarantee"][answered].number_or_none(least=0.0),
        verdict=found["verdict"].one_of(*get_args(Word)),
        # why there is no guarantee comes last, and is said beside its number
        remarks=None if unproved.missing else notes[: max(len(notes) - len(unproved.texts()), 0)],
        reported=tuple((name, one.number()) for name, one in found.get("reported", {}).mapping().items()),
        version=found["version"].text(),
    )


def _mechanism(found: Untrusted) -> Mechanism:
    """What ran, by the settings that its kind is made with."""
    kind, settings = KINDS[found["mechanism"].one_of(*KINDS)], found["settings"]
    plain: dict[str, Any] = {"name": kind.name}
    for one in fields(kind):  # type: ignore[arg-type]
        stated = settings.get("sample_rate_exact" if one.name == "sample_rate" else one.name)
        if not stated.missing:
            plain[one.name] = _READERS.get(one.name, Untrusted.plain)(stated)
        elif one.default is MISSING:
            stated.refuse(f"given for {kind.name}", "write the file again with this version")
    try:
        return from_plain(plain)
    except NoisymeanError as fault:
        raise BadRecord(f"{found.file}: {fault}") from None


_READERS: dict[str, Callable[[Untrusted], Any]] = {
    "dataset_size": Untrusted.whole,
    "dimension": lambda stated: stated.whole(1),
    "batch_size": lambda stated: stated.whole(1),
    "sample_rate": Untrusted.text,
    "noise_multiplier": lambda stated: stated.number(least=0.0),
    "drop_last": Untrusted.flag,
    "sampling": lambda stated: stated.member(Sampling).value,
}


def audit_record(stated: Untrusted) -> AuditRecord:
    """An audit whose verdict follows from its numbers."""
    alpha = stated["curve"]["alpha"].numbers(0.0, 1.0)
    configuration = stated["configuration"]
    configuration.mapping()

    def curve(one: Untrusted) -> Curve:
        epsilon, delta = one["epsilon"].number_or_none(least=0.0), one["delta"].number(0.0, 1.0)
        method = one.get("method", "").text()
        return Curve(epsilon, delta, one["beta"].numbers(0.0, 1.0, len(alpha)), method)

    found = AuditRecord(
        file=stated.file,
        target=stated["target"].text(),
        trials=stated["trials"].whole(1),
        planned=configuration.get("trials").maybe(lambda one: one.whole(1)),
        confidence=stated["confidence"].number(0.0, 1.0),
        alpha=_rate(stated["alpha"]),
        beta=_rate(stated["beta"]),
        delta=stated["delta"].number(0.0, 1.0),
        epsilon_lower=stated["epsilon_lower"].number_or_none(least=0.0),
        delta_lower=stated["delta_lower"].number(0.0, 1.0),
        curve_alpha=alpha,
        curve_beta=stated["curve"]["beta"].numbers(0.0, 1.0, len(alpha)),
        claimed=stated["claimed"].maybe(curve),
        exact=stated["exact"].maybe(curve),
        verdict=stated["verdict"].maybe(lambda one: one.one_of("violated", "not-violated")),
        reason=stated["reason"].maybe(Untrusted.text) or "",
        power=stated.get("power").number_or_none(least=0.0),
        distinguisher=stated["distinguisher"].text(),
        judged=stated["judged"].whole(),
        seed=stated["seed"].whole(),
        seconds=stated["seconds"].number(least=0.0),
        interrupted=stated["interrupted"].flag(),
        configuration=configuration.value,
        configuration_text=_written(configuration),
        claim_options=stated.get("claim_options").maybe(
            lambda one: (one["epsilon"].number(least=0.0), one["delta"].number(0.0, 1.0))
        ),
        version=stated["version"].text(),
    )
    _check_verdict(found, stated["verdict"])
    return found


def _check_verdict(found: AuditRecord, verdict: Untrusted) -> None:
    """A claim is violated exactly if a corner lies below it or there were more right guesses than it allows."""
    unfinished = found.interrupted and found.verdict is None
    if (found.claimed is None) != (found.verdict is None) and not unfinished:
        verdict.refuse("there exactly if something is claimed", _CHANGED)
    if found.claimed is None or unfinished:
        return
    below = (claim - beta for claim, beta in zip(found.claimed.beta, found.curve_beta, strict=True))
    most = max(found.delta_lower - found.claimed.delta, *below, -1.0)
    if (found.verdict == "violated" and most < -_ROUNDING) or (found.verdict == "not-violated" and most > _ROUNDING):
        verdict.refuse("what the numbers of this file say", _CHANGED)


def _written(found: Untrusted) -> str:
    """The value as text, on lines."""
    try:
        return text_of(json.dumps(found.value, indent=2, ensure_ascii=False))
    except RecursionError:
        raise BadRecord(f"{found.file}: {found.path}: must not be nested that deeply") from None


def _rate(found: Untrusted) -> ErrorRate:
    return ErrorRate(*(found[name].number(0.0, 1.0) for name in ("estimate", "lower", "upper")))
