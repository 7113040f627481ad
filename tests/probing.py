"""Probing a release in tests: each probe once, skipped with the reason where the release cannot be had."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from noisymean.probe.finding import Finding, Severity
from noisymean.probe.prober import probe_runnable
from noisymean.targets.opacus import OpacusRelease
from noisymean.targets.opacus_releases import install
from noisymean.targets.opacus_releases.releases import VERSIONS, Release

EVERY_TIME = ("0.13.0", "0.15.0", "1.6.0")
RELEASES = [version if version in EVERY_TIME else pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS]


def available(version: str) -> str:
    """The release, installed now if need be."""
    try:
        if not install.is_installed(Release(version)):
            install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))
    return version


@cache
def _probed(subject: OpacusRelease) -> Finding:
    """Once for all processes of a test run: the first one probes, the others wait for its result."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return probe_runnable(subject, seed=1)
    folder = Path(tempfile.gettempdir()) / f"noisymean-probing-{run}"
    folder.mkdir(exist_ok=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / hashlib.sha256(subject.name.encode()).hexdigest()).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (kept := file.read()):
            kept = json.dumps(probe_runnable(subject, seed=1).to_plain())
            file.write(kept)
    return Finding.from_plain(json.loads(kept))


def found(version: str, **options: object) -> Finding:
    """What the prober finds, run once for all tests of a session."""
    return _probed(OpacusRelease(version=available(version), **options))  # type: ignore[arg-type]


def said(finding: Finding, severity: Severity) -> list[str]:
    """The remarks of that severity."""
    return [remark.words for remark in finding.remarks if remark.severity is severity]


def leaks(finding: Finding) -> list[str]:
    """What it calls a leak."""
    return said(finding, Severity.LEAK)
