"""What `account --json` and `audit --json` write, checked value by value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, final

from noisymean.accounts import Pair
from noisymean.mechanisms import Adjacency
from noisymean.report.page.node import BadRecord, Node, text_of, unrecognised
from noisymean.report.page.releases import CodeRecord, code_record

_NAMES = ("sgm", "easgm", "asgm", "feasgm", "opacus-loader")
_VERDICTS = ("violated", "holds", "undetermined")
# Limits and claims are rounded in the claim's favour before they are compared.
_ROUNDING = 1e-6
_CHANGED = "the file was changed: run the audit again"


@final
@dataclass(frozen=True)
class AccountRecord:
    """A run and what was said of it. Its numbers are computed again before they are shown."""

    file: str
    mechanism: str
    dataset_size: int | None
    dimension: int | None
    sample_rate: str | None
    batch_size: int | None
    noise_multiplier: float
    steps: int
    delta: float | None
    epsilon: float | None
    adjacency: str
    asked_pair: str | None
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
class Rate:
    """An error rate with the limits between which it lies."""

    estimate: float
    lower: float
    upper: float


@final
@dataclass(frozen=True)
class AuditRecord:
    """An audit: what was run, what was seen, and the verdict."""

    file: str
    target: str
    trials: int
    planned: int | None
    confidence: float
    alpha: Rate
    beta: Rate
    delta: float
    epsilon_lower: float | None
    delta_lower: float
    curve_alpha: tuple[float, ...]
    curve_beta: tuple[float, ...]
    claimed: tuple[float, ...] | None
    claimed_epsilon: float | None
    claimed_delta: float | None
    exact: tuple[float, ...] | None
    exact_epsilon: float | None
    exact_delta: float | None
    exact_method: str
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


Record = AccountRecord | AuditRecord | CodeRecord


def record_of(node: Node) -> Record:
    """Which of the three it is, by its keys."""
    if "leakage" in node and "claimed" in node and "steps" in node:
        return account_record(node)
    if "target" in node and "epsilon_lower" in node:
        return audit_record(node)
    if "package" in node:
        return code_record(node)
    raise unrecognised(node)


def account_record(node: Node) -> AccountRecord:
    """An account."""
    settings = node["settings"]
    asked = "delta" if "delta" in node else "epsilon"
    answered = "epsilon" if asked == "delta" else "delta"
    rate, batch = settings["sample_rate_exact"], settings.get("batch_size")
    mechanism = node["mechanism"].one_of(*_NAMES)
    loader = mechanism == "opacus-loader"
    if loader and batch.missing:
        batch.refuse("given for opacus-loader", "write the file again with this version")
    for name in ("drop_last", "target_epsilon"):
        if not (other := settings.get(name)).missing:
            other.refuse("left out: a page describes loaders that keep their last batch, and noise that is given")
    size, dimension = settings["dataset_size"], settings["dimension"]
    pair = node.get("asked_pair")
    notes, unproved = node["notes"].texts(), node.get("unproved")
    return AccountRecord(
        file=node.file,
        mechanism=mechanism,
        dataset_size=None if size.missing else size.whole(),
        dimension=None if dimension.missing else dimension.whole(1),
        sample_rate=None if loader else rate.text(),
        batch_size=batch.whole(1) if loader else None,
        noise_multiplier=settings["noise_multiplier"].number(least=0.0),
        steps=node["steps"].whole(1),
        delta=node["delta"].number(0.0, 1.0) if asked == "delta" else None,
        epsilon=node["epsilon"].number(least=0.0) if asked == "epsilon" else None,
        adjacency=node.get("adjacency", Adjacency.ADD_REMOVE.value).one_of(*(kind.value for kind in Adjacency)),
        asked_pair=None if pair.missing else pair.one_of(*(kind.value for kind in Pair)),
        claimed=node["claimed"][answered].number_or_none(least=0.0),
        leakage=node["leakage"][answered].number_or_none(least=0.0),
        guarantee=node["guarantee"][answered].number_or_none(least=0.0),
        verdict=node["verdict"].one_of(*_VERDICTS),
        # why there is no guarantee comes last, and is said beside its number
        remarks=None if unproved.missing else notes[: max(len(notes) - len(unproved.texts()), 0)],
        reported=tuple((name, one.number()) for name, one in node.get("reported", {}).mapping().items()),
        version=node["version"].text(),
    )


def audit_record(node: Node) -> AuditRecord:
    """An audit whose verdict follows from its numbers."""
    alpha = node["curve"]["alpha"].numbers(0.0, 1.0)
    claim, exact, options = node["claimed"], node["exact"], node.get("claim_options")
    verdict, power = node["verdict"], node.get("power")
    configuration = node["configuration"]
    configuration.mapping()
    planned = configuration.get("trials")
    found = AuditRecord(
        file=node.file,
        target=node["target"].text(),
        trials=node["trials"].whole(1),
        planned=None if planned.missing else planned.whole(1),
        confidence=node["confidence"].number(0.0, 1.0),
        alpha=_rate(node["alpha"]),
        beta=_rate(node["beta"]),
        delta=node["delta"].number(0.0, 1.0),
        epsilon_lower=node["epsilon_lower"].number_or_none(least=0.0),
        delta_lower=node["delta_lower"].number(0.0, 1.0),
        curve_alpha=alpha,
        curve_beta=node["curve"]["beta"].numbers(0.0, 1.0, len(alpha)),
        claimed=None if claim.missing else claim["beta"].numbers(0.0, 1.0, len(alpha)),
        claimed_epsilon=None if claim.missing else claim["epsilon"].number_or_none(least=0.0),
        claimed_delta=None if claim.missing else claim["delta"].number(0.0, 1.0),
        exact=None if exact.missing else exact["beta"].numbers(0.0, 1.0, len(alpha)),
        exact_epsilon=None if exact.missing else exact["epsilon"].number_or_none(least=0.0),
        exact_delta=None if exact.missing else exact["delta"].number(0.0, 1.0),
        exact_method="" if exact.missing else exact["method"].text(),
        verdict=None if verdict.missing else verdict.one_of("violated", "not-violated"),
        reason="" if node["reason"].missing else node["reason"].text(),
        power=power.number_or_none(least=0.0),
        distinguisher=node["distinguisher"].text(),
        judged=node["judged"].whole(),
        seed=node["seed"].whole(),
        seconds=node["seconds"].number(least=0.0),
        interrupted=node["interrupted"].flag(),
        configuration=configuration.value,
        configuration_text=_written(configuration),
        claim_options=None
        if options.missing
        else (options["epsilon"].number(least=0.0), options["delta"].number(0.0, 1.0)),
        version=node["version"].text(),
    )
    _check_verdict(found, verdict)
    return found


def _check_verdict(found: AuditRecord, verdict: Node) -> None:
    """A claim is violated exactly if a corner lies below it or there were more right guesses than it allows."""
    unfinished = found.interrupted and found.verdict is None
    if (found.claimed is None or found.claimed_delta is None) != (found.verdict is None) and not unfinished:
        verdict.refuse("there exactly if something is claimed", _CHANGED)
    if found.claimed is None or found.claimed_delta is None or unfinished:
        return
    below = (claim - beta for claim, beta in zip(found.claimed, found.curve_beta, strict=True))
    most = max(found.delta_lower - found.claimed_delta, *below, -1.0)
    if (found.verdict == "violated" and most < -_ROUNDING) or (found.verdict == "not-violated" and most > _ROUNDING):
        verdict.refuse("what the numbers of this file say", _CHANGED)


def _written(node: Node) -> str:
    """The value as text, on lines."""
    try:
        return text_of(json.dumps(node.value, indent=2, ensure_ascii=False))
    except RecursionError:
        raise BadRecord(f"{node.file}: {node.path}: must not be nested that deeply") from None


def _rate(node: Node) -> Rate:
    return Rate(*(node[name].number(0.0, 1.0) for name in ("estimate", "lower", "upper")))
