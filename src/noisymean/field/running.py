"""The rows in turn: each is run, or has the reason why not; what is finished is kept, and an interrupted run goes on there."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, final

from noisymean.errors import NoisymeanError
from noisymean.field import kept
from noisymean.field.claims import Claim, claims_of
from noisymean.field.cohorts import cohorts_of
from noisymean.field.denominators import agreed, denominator_of
from noisymean.field.question import DELTA, NOISE, RATE, STEPS
from noisymean.field.rows import Exposed, Observed, Row, Sampler, Told, sampler_of
from noisymean.field.sources import Quote, found
from noisymean.field.subjects import NotRun, OpacusWay, Subject, Way
from noisymean.field.verdicts import drawn_as, exposure, lost_of
from noisymean.probe.finding import Sampling
from noisymean.probe.prober import probe_runnable
from noisymean.targets.libraries.client import dismiss, worker_of
from noisymean.targets.libraries.environments import Environment, Tell, built
from noisymean.targets.opacus_modes.modes import Mode
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.processes.pip import run_pip
from noisymean.targets.protocol import Runnable, Setting

SEED = 0
# a library that does not answer is ended
SECONDS = 900.0
_TOLD = Setting(30, batch_size=10)
_BESIDE = ("numpy", "jax", "jaxlib", "keras", "tensorflow-cpu", "dp-accounting")
Progress = Callable[[Row, int, int], None]


def run_field(
    subjects: Sequence[Subject],
    *,
    fresh: bool = False,
    installed_only: bool = False,
    tell: Tell = lambda words: None,
    progress: Progress = lambda row, done, total: None,
) -> list[Row]:
    """A row for each, in their order; those in the cache are not run again unless `fresh`.

    `installed_only`: nothing is installed, and nothing is asked of an index; `tell` is told before something is.
    """
    rows = []
    for done, subject in enumerate(subjects, 1):
        row = None if fresh else _of_before(subject)
        if row is None:
            row = row_of(subject, installed_only=installed_only, tell=tell)
            if row.is_final:
                kept.keep(row)
        after = subjects[done] if done < len(subjects) else None
        if isinstance(subject, Way) and not (isinstance(after, Way) and after.library == subject.library):
            dismiss(subject.way.environment)
        rows.append(row)
        progress(row, done, len(subjects))
    return rows


def _of_before(subject: Subject) -> Row | None:
    match subject:
        case Way():
            return kept.kept(subject.name, subject.version)
        case OpacusWay():
            with contextlib.suppress(NoisymeanError):
                return kept.kept(subject.name, installed_version())
            return None
        case NotRun():
            return None


def row_of(subject: Subject, *, installed_only: bool = False, tell: Tell = lambda words: None) -> Row:
    """Run one subject; whatever stands in the way is its row."""
    start = perf_counter()
    try:
        match subject:
            case Way():
                return _run(_of_way(subject, installed_only, tell), subject, start)
            case OpacusWay():
                return _run(_of_mode(subject.mode, subject.quotes), subject, start)
            case NotRun():
                return _without(subject, _why_not(subject, installed_only), start)
    except (NoisymeanError, OSError) as fault:
        return _without(subject, str(fault), start)


@final
@dataclass(frozen=True)
class _Ready:
    """A subject that can be run: what to run, where its source is, what its accounting says, and the versions of its packages."""

    version: str
    runnable: Runnable
    quotes: tuple[Quote, ...]
    package: Path
    said: Mapping[str, float]
    packages: Mapping[str, str]
    environment: Environment | None = None
    told: Told | None = None


def _of_way(subject: Way, installed_only: bool, tell: Tell) -> _Ready:
    environment = subject.way.environment
    if installed_only and not environment.is_built:
        raise NoisymeanError(f"{environment.title}: not installed here, and nothing was to be installed")
    built(environment, tell)
    packages = {name.lower().replace("_", "-"): version for name, version in environment.installed().items()}
    wanted = (environment.library, *_BESIDE)
    with _no_longer_than(environment):
        said = subject.way.session().said()
    return _Ready(
        version=environment.version,
        runnable=subject.way,
        quotes=subject.quotes,
        package=environment.source(),
        said=said,
        packages={name: packages[name] for name in wanted if name in packages},
        environment=environment,
    )


def _of_mode(mode: Mode, quotes: tuple[Quote, ...]) -> _Ready:
    version, runnable = installed_version(), mode.runnable()
    spec = importlib.util.find_spec("opacus")
    if spec is None or spec.origin is None:
        raise NoisymeanError(f"opacus=={version}: its source was not found")
    seen = runnable.told(_TOLD)
    told = Told(str(_TOLD), seen.noise_multiplier, seen.sample_rate, seen.batches_in_epoch)
    # what it is told is what its user has said, but for the noise that it chooses for itself
    as_set = told.noise_multiplier == seen.asked_noise and told.sample_rate == 1.0 / told.batches_in_epoch
    return _Ready(
        version=version,
        runnable=runnable,
        quotes=quotes,
        package=Path(spec.origin).parent,
        said=_opacus_says() if as_set else {},
        packages={name: importlib.metadata.version(name) for name in ("opacus", "torch", "numpy")},
        told=told,
    )


def _opacus_says() -> dict[str, float]:
    """Its default accountant on the one run."""
    import warnings

    from opacus.accountants import create_accountant

    accountant = create_accountant("prv")
    accountant.history = [(NOISE, float(RATE), STEPS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"prv": float(accountant.get_epsilon(DELTA))}


def _run(ready: _Ready, subject: Way | OpacusWay, start: float) -> Row:
    runnable = ready.runnable
    with _no_longer_than(ready.environment):
        finding = probe_runnable(runnable, seed=SEED)
        denominator = agreed(denominator_of(runnable, SEED + 7000), finding.kind)
        cohorts = cohorts_of(runnable, SEED + 8000) if finding.rates.sampling is Sampling.UNKNOWN else None
    sampler = sampler_of(finding.rates.sampling, drawn_as(cohorts))
    claims: tuple[Claim, ...] = claims_of(subject.name, ready.said, ready.package)
    exposed = exposure(finding, denominator, cohorts, sampler)
    return Row(
        name=subject.name,
        library=subject.library,
        version=ready.version,
        way=subject.label,
        exposed=exposed.word,
        because=exposed.because,
        sampler=sampler,
        date=_today(),
        seconds=perf_counter() - start,
        observed=Observed(finding, denominator, cohorts, claims, found(ready.quotes, ready.package), ready.told),
        lost=lost_of(finding, denominator, sampler, runnable.calibration, claims),
        packages=dict(ready.packages),
    )


def _without(subject: Subject, fault: str, start: float) -> Row:
    """The row of what was not run."""
    read = subject.read if isinstance(subject, NotRun) else None
    version = subject.version if isinstance(subject, Way | NotRun) else None
    because = "it was not run" if read is None else f"it was not run; by its source it {read}"
    name, library, way = subject.name, subject.library, subject.label
    return Row(
        name, library, version, way, Exposed.UNKNOWN, because, Sampler.UNKNOWN, _today(), perf_counter() - start,
        fault=" ".join(fault.split()), read=read,
    )  # fmt: skip


def _why_not(subject: NotRun, installed_only: bool) -> str:
    """Whether pip could install it here, asked without installing it."""
    if installed_only:
        return f"{subject.requirement}: not installed here, and nothing was to be installed"
    with tempfile.TemporaryDirectory() as nowhere:
        refused = run_pip("install", [subject.requirement], "--dry-run", "--target", nowhere, alone=False)
    if refused is None:
        return f"{subject.requirement}: could be installed; how it is run is not written yet"
    return f"{subject.requirement}: could not be installed: {refused or 'pip gave no reason; check the network'}"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


@contextlib.contextmanager
def _no_longer_than(environment: Environment | None) -> Iterator[None]:
    """The worker is ended when its time is up; the question it was asked then ends with a fault. Opacus' modes end themselves."""
    if environment is None:
        yield
        return
    timer: Any = threading.Timer(SECONDS, worker_of(environment).process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
