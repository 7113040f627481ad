"""What `probe --json` writes, checked value by value: the finding, and the run that was accounted for by it, if there was one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean.probe.finding import (
    Bearing,
    Calibrated,
    Clipping,
    Evidence,
    Finding,
    Level,
    Noise,
    RateLaw,
    Rates,
    Remark,
    Sampling,
    Severity,
)
from noisymean.probe.laws import Kind
from noisymean.report.page.records import AccountRecord, account_record
from noisymean.report.page.untrusted import Untrusted


@final
@dataclass(frozen=True)
class ProbeRecord:
    """A finding, and what was said of a run; its numbers are computed again before they are shown."""

    file: str
    finding: Finding
    account: AccountRecord | None
    # why no run was accounted for although one was described
    refused: str | None
    version: str


def is_probe(found: Untrusted) -> bool:
    """By its keys."""
    return "target" in found and "empty_batch" in found and "evidence" in found


def probe_record(stated: Untrusted) -> ProbeRecord:
    """The whole file."""
    finding, account = _finding(stated), stated["account"].maybe(account_record)
    refused, verdict = stated["account_refused"].maybe(Untrusted.text), stated["verdict"].maybe(Untrusted.text)
    if account is not None and account.asked.mechanism.name != finding.kind.value:
        stated["account"]["mechanism"].refuse(f"{finding.kind.value}, which was found", "probe again")
    word = account.verdict if account is not None else None if refused is None else "undetermined"
    if verdict != word:
        stated["verdict"].refuse(f"{'null' if word is None else word}, as the rest of this file says", "probe again")
    return ProbeRecord(stated.file, finding, account, refused, stated["version"].text())


def _finding(stated: Untrusted) -> Finding:
    noise, clipping = stated["noise"], stated["clipping"]
    return Finding(
        target=stated["target"].text(),
        kind=stated["mechanism"].member(Kind),
        denominator=stated["denominator"].text(),
        noise=Noise(
            shares_denominator=noise["shares_denominator"].maybe(Untrusted.flag),
            scale=_size(noise["scale"]),
            error=noise["error"].number(least=0.0),
            noise_multiplier=noise["noise_multiplier"].number(least=0.0),
            levels=tuple(map(_level, noise["levels"].items())),
            fresh=noise["fresh"].maybe(Untrusted.flag),
            calibrated=tuple(map(_calibrated, noise.get("calibrated", []).items())),
        ),
        clipping=Clipping(
            bound=_size(clipping["bound"]),
            scaled_before=clipping["scaled_before"].maybe(Untrusted.text),
            sensitivity=_size(clipping["sensitivity"]),
            additive=clipping["additive"].maybe(Untrusted.flag),
        ),
        rates=_rates(stated["rates"]),
        empty_batch=stated["empty_batch"].text(),
        remarks=tuple(map(_remark, stated["remarks"].items())),
        evidence=tuple(map(_evidence, stated["evidence"].items())),
        seed=stated["seed"].whole(),
        candidates=stated.get("candidates", []).texts(),
    )


def _rates(stated: Untrusted) -> Rates:
    return Rates(
        sampling=stated["sampling"].member(Sampling),
        law=stated["law"].maybe(lambda one: one.member(RateLaw)),
        moves_with_size=stated["moves_with_size"].flag(),
        moved=stated.get("moved", []).texts(),
        within=_size(stated.get("within")),
        parts=stated.get("parts", 1).whole(1),
    )


def _level(stated: Untrusted) -> Level:
    return Level(*_numbers(stated, "noise_multiplier", "max_grad_norm", "scale", "error"))


def _calibrated(stated: Untrusted) -> Calibrated:
    return Calibrated(stated["run"].text(), *_numbers(stated, "before", "after", "error"))


def _numbers(stated: Untrusted, *names: str) -> list[float]:
    return [stated[name].number(least=0.0) for name in names]


def _remark(stated: Untrusted) -> Remark:
    return Remark(
        severity=stated["severity"].member(Severity),
        words=stated["words"].text(),
        bearing=stated.get("bearing", Bearing.OPEN.value).member(Bearing),
    )


def _evidence(stated: Untrusted) -> Evidence:
    return Evidence(
        run=stated["run"].text(),
        rounds=stated["rounds"].whole(),
        batches=stated["batches"].text(),
        denominator=stated["denominator"].text(),
        rate=_size(stated["rate"]),
        finite=stated["finite"].flag(),
        least=_size(stated.get("least")),
        most=_size(stated.get("most")),
    )


def _size(stated: Untrusted) -> float | None:
    return stated.number_or_none(least=0.0)
