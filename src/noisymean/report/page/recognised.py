"""Which of the results that a report shows a file holds, by its keys."""

from __future__ import annotations

from noisymean.report.page.probes import ProbeRecord, is_probe, probe_record
from noisymean.report.page.records import AccountRecord, AuditRecord, account_record, audit_record
from noisymean.report.page.releases import CodeRecord, code_record
from noisymean.report.page.untrusted import Untrusted, unrecognised

Record = AccountRecord | AuditRecord | CodeRecord | ProbeRecord


def record_of(found: Untrusted) -> Record:
    """One of the four, checked."""
    if "leakage" in found and "claimed" in found and "steps" in found:
        return account_record(found)
    if "target" in found and "epsilon_lower" in found:
        return audit_record(found)
    if is_probe(found):
        return probe_record(found)
    if "package" in found:
        return code_record(found)
    raise unrecognised(found)
