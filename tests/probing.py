"""Probing a release in tests: each probe once, skipped with the reason where the release cannot be had."""

from __future__ import annotations

from functools import cache

import pytest

from noisymean.probe.finding import Finding, Severity
from noisymean.probe.prober import probe_subject
from noisymean.probe.subjects.releases import OpacusRelease
from noisymean.targets.opacus_releases import client, install
from noisymean.targets.opacus_releases.releases import VERSIONS, Release

EVERY_TIME = ("0.13.0", "0.15.0", "1.6.0")
RELEASES = [version if version in EVERY_TIME else pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS]


def available(version: str) -> str:
    """The release, installed now if need be."""
    try:
        if not client._is_installed(Release(version)):
            install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))
    return version


@cache
def _probed(subject: OpacusRelease) -> Finding:
    return probe_subject(subject, seed=1)


def found(version: str, **options: object) -> Finding:
    """What the prober finds, run once for all tests of a session."""
    return _probed(OpacusRelease(version=available(version), **options))  # type: ignore[arg-type]


def said(finding: Finding, severity: Severity) -> list[str]:
    """The remarks of that severity."""
    return [remark.words for remark in finding.remarks if remark.severity is severity]


def leaks(finding: Finding) -> list[str]:
    """What it calls a leak."""
    return said(finding, Severity.LEAK)
