"""A code audit as one self-contained page: no script, no picture, nothing from elsewhere; every text is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence

from noisymean.probe.code_audit import Audited, record
from noisymean.report import page as pages
from noisymean.report.page.banners import code_banner
from noisymean.report.page.releases import CodeRecord, release
from noisymean.report.page.untrusted import Untrusted


def page(results: Sequence[Audited], *, command: str, version: str) -> str:
    """The whole page; what is shown is what `--json` prints."""
    releases = tuple(release(Untrusted(json.loads(json.dumps(record(one))), one.version)) for one in results)
    found = CodeRecord("opacus", version, releases)
    return pages.render(
        "code_audit.html",
        title="What each release of Opacus divides by",
        subtitle=f"Code audit: {len(releases)} releases, each run in a process of its own and read",
        command=command,
        package=found.package,
        releases=releases,
        verdict=code_banner(found),
    )
