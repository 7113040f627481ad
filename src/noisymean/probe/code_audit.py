"""Every release of Opacus, run and read; each result is kept, so that an audit can be interrupted and taken up again.

A release is probed in a worker process of its own, as its users would use it: `mean` and `sum`, its Poisson switch off where
it is off by default, adaptive clipping where it has that. A fault of one release is its result and nobody else's; one that
takes too long is ended.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, final

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.folder import own_folder
from noisymean.probe import reading
from noisymean.probe.conclusions import agree, dividing, poisson_words, read_kind
from noisymean.probe.finding import Finding, Severity
from noisymean.probe.laws import Kind
from noisymean.probe.packages import opacus_source
from noisymean.probe.paper import Row, differences, row_of
from noisymean.probe.prober import VERSION, probe_runnable
from noisymean.probe.reading import Source, Statement, read_source
from noisymean.targets.opacus import OpacusRelease
from noisymean.targets.opacus_releases.client import dismiss, worker_of
from noisymean.targets.opacus_releases.releases import VERSIONS, Clipping, Era, Release
from noisymean.targets.opacus_releases.setup import Reduction

SEED = 0
SECONDS_PER_RELEASE = 240.0
MEAN, SUM, NO_POISSON, ADAPTIVE = "mean", "sum", "mean, poisson=False", "mean, clipping=adaptive"
# the options under which source is read, where they are not the defaults
_READ_AS: dict[str, Any] = {SUM: {"reduction": "sum"}, NO_POISSON: {"poisson": False}}


@final
@dataclass(frozen=True)
class Audited:
    """One release: what running showed under each option, what was read, and what went wrong."""

    version: str
    findings: Mapping[str, Finding] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    larger_batch: str | None = None
    seconds: float = 0.0

    def kind(self, option: str) -> Kind | None:
        """What running showed."""
        return self.findings[option].kind if option in self.findings else None

    def read(self, option: str) -> Kind | None:
        """What reading showed."""
        return None if self.source is None else read_kind(self.source, **_READ_AS.get(option, {}))

    def statements(self, option: str = MEAN) -> tuple[Statement, ...]:
        """The statements that divide."""
        return () if self.source is None else dividing(self.source, **_READ_AS.get(option, {}))

    @property
    def poisson(self) -> str:
        return "unknown" if self.source is None else poisson_words(self.source)

    @property
    def disagreements(self) -> list[str]:
        """Options under which running and reading do not show the same."""
        found = []
        for option, one in self.findings.items():
            read = self.read(option)
            if read is not None and not agree(read, one.kind):
                why = "; ".join(remark.words for remark in one.remarks if remark.severity is Severity.LEAK)
                words = f"{option}: reading shows {read.value.upper()}, running {one.kind.value.upper()}"
                found.append(f"{words} ({why})" if why else words)
        return found

    @property
    def paper(self) -> Row | None:
        return row_of(self.version)

    @property
    def against_paper(self) -> list[str]:
        return differences(
            self.paper,
            mean=self.kind(MEAN),
            without_poisson=self.kind(NO_POISSON),
            samplers=self.source is not None and bool(self.source.poisson.samplers),
            refuses=self.larger_batch is not None or self.source is None,
        )


Progress = Callable[[Audited, int, int], None]


def versions_of(text: str) -> tuple[str, ...]:
    """FIRST..LAST, or one release, or several with commas.

    >>> versions_of("0.13.0..0.15.0")
    ('0.13.0', '0.14.0', '0.15.0')
    """
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = Release(first or VERSIONS[0]).number, Release(last or VERSIONS[-1]).number
        if low > high:
            raise InvalidInput("versions", text, "FIRST..LAST with FIRST before LAST", "e.g. 0.9.0..1.6.0")
        return tuple(one for one in VERSIONS if low <= Release(one).number <= high)
    return tuple(Release(one).version for one in text.split(","))


def audit_opacus(
    versions: Sequence[str],
    *,
    jobs: int = 2,
    fresh: bool = False,
    progress: Progress = lambda one, done, total: None,
) -> list[Audited]:
    """All of `versions`, in their order; those in the cache are not run again unless `fresh`."""
    results: dict[str, Audited] = {}
    for version in versions:
        if not fresh and (kept := _kept(version)) is not None:
            results[version] = kept
            progress(kept, len(results), len(versions))
    left = [version for version in versions if version not in results]
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = {pool.submit(audit_release, version): version for version in left}
        try:
            for future in as_completed(running):
                results[running[future]] = future.result()
                progress(future.result(), len(results), len(versions))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[version] for version in versions]


def not_kept(versions: Sequence[str]) -> tuple[str, ...]:
    """Those of `versions` that have to be run: no earlier audit has kept their result."""
    return tuple(version for version in versions if _kept(version) is None)


def audit_release(version: str) -> Audited:
    """One release; whatever goes wrong is part of the result, and such a result is not kept."""
    start = perf_counter()
    release = Release(version)
    findings: dict[str, Finding] = {}
    faults: dict[str, str] = {}
    source, larger = None, None
    try:
        with opacus_source(release) as folder:
            source = read_source(folder)
    except (NoisymeanError, OSError) as fault:
        faults["reading"] = str(fault)
    try:
        with _no_longer_than(SECONDS_PER_RELEASE, release):
            for option, subject in _subjects(release):
                try:
                    findings[option] = probe_runnable(subject, seed=SEED)
                except NoisymeanError as fault:
                    faults[option] = str(fault)
            if release.era is Era.NO_SAMPLER:
                larger = OpacusRelease(version=version).oversized_batch(SEED)
    except (NoisymeanError, OSError) as fault:
        faults["running"] = str(fault)
    finally:
        dismiss(release)
    audited = Audited(version, findings, faults, source, larger, perf_counter() - start)
    if not faults:
        _keep(audited)
    return audited


def _subjects(release: Release) -> list[tuple[str, OpacusRelease]]:
    plain = OpacusRelease(version=release.version)
    found = [(MEAN, plain), (SUM, replace(plain, reduction=Reduction.SUM))]
    if release.era is Era.POISSON_FLAG:
        found.append((NO_POISSON, replace(plain, poisson=False)))
    if Clipping.ADAPTIVE in release.clippings():
        found.append((ADAPTIVE, replace(plain, clipping=Clipping.ADAPTIVE)))
    return found


@contextlib.contextmanager
def _no_longer_than(seconds: float, release: Release) -> Iterator[None]:
    """The worker is ended when its time is up; the question it was asked then ends with a fault."""
    timer = threading.Timer(seconds, worker_of(release).process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# --- the cache ---------------------------------------------------------------------------------------------------------


def _place(version: str) -> Path:
    return own_folder("code-audit", "opacus") / f"{version}-prober{VERSION}-reader{reading.VERSION}.json"


def _keep(audited: Audited) -> None:
    """Written beside its place and moved into it: whole or not there."""
    place = _place(audited.version)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".writing-") as scratch:
        written = Path(scratch) / place.name
        written.write_text(json.dumps(_plain(audited)), encoding="utf-8")
        written.replace(place)


def _kept(version: str) -> Audited | None:
    """The result of an earlier audit by the same prober and reader; a damaged one counts as none."""
    try:
        plain = json.loads(_place(version).read_text(encoding="utf-8"))
        findings = {option: Finding.from_plain(one) for option, one in plain["findings"].items()}
        source = None if plain["source"] is None else reading.from_json(plain["source"])
        return Audited(plain["version"], findings, {}, source, plain["larger_batch"], plain["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _plain(audited: Audited) -> dict[str, Any]:
    return {
        "version": audited.version,
        "findings": {option: one.to_plain() for option, one in audited.findings.items()},
        "source": None if audited.source is None else reading.to_json(audited.source),
        "larger_batch": audited.larger_batch,
        "seconds": audited.seconds,
    }


def record(audited: Audited) -> dict[str, Any]:
    """The object of `--json` for one release."""
    row = audited.paper
    paper = row and {"normalization": row.normalization, "poisson": row.poisson, "mechanism": row.words}
    return {
        **_plain(audited),
        "faults": dict(audited.faults),
        "poisson": audited.poisson,
        "mechanism": {
            option: {
                "run": one.kind.value,
                "read": None if (read := audited.read(option)) is None else read.value,
                "denominator": one.denominator,
                "divides_at": [f"{statement.place}: {statement.text}" for statement in audited.statements(option)],
            }
            for option, one in audited.findings.items()
        },
        "agree": not audited.disagreements and not audited.faults,
        "disagreements": audited.disagreements,
        "paper": paper,
        "against_paper": audited.against_paper,
    }
