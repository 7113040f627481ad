"""Other libraries in environments of their own: building one, talking to what runs in it, and the names of its ways.

No library is run here and nothing is installed: the interpreter of the tests stands for an environment, a module in a folder for a
library. `test_libraries_run.py` builds the environments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from command_line import run
from noisymean.errors import InvalidInput
from noisymean.targets.libraries import client, environments
from noisymean.targets.libraries.client import Session, start
from noisymean.targets.libraries.environments import ENVIRONMENTS, Environment, built
from noisymean.targets.libraries.ways import WAYS, LibraryWay, way_named
from noisymean.targets.processes import pip
from noisymean.targets.processes.client import Worker, WorkerFault
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.protocol import Knob, Raised, Request, Setting

# A library that is as simple as can be: what it releases can be written down.
LIBRARY = '''
import os, sys
import numpy as np

class Mean:
    """The sum of a batch over a constant, with how many there were on the last axis."""
    def __init__(self, divisor=4.0):
        self.divisor = divisor
    def begin(self, setting):
        self.setting = setting
    def step(self, rows):
        assert rows.shape[1] == self.setting.dimension == 512
        released = rows.sum(axis=0) / self.divisor
        released[2] = len(rows)
        released[3] = self.setting.noise_multiplier
        return released

class Draws:
    """The number of its round, on every axis."""
    def rounds(self, setting, rows, batch_size, count):
        for number in range(count):
            yield np.full(rows.shape[1], number + 100.0 * batch_size)

class Faulty:
    def begin(self, setting):
        pass
    def step(self, rows):
        raise ValueError("too\\n  File \\"there.py\\", line 1, in <module>\\n  bad")

class Deadly:
    def begin(self, setting):
        pass
    def step(self, rows):
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)

def said():
    hidden = [name for name in ("PYTHONPATH", "PYTHONHOME") if name in os.environ]
    return {"hidden": float(len(hidden)), "noisymean": float("noisymean.errors" in sys.modules)}
'''
GRADIENTS = np.array([[1.0, 0.0, 0.0, 0.0, 5.0], [0.0, 2.0, 0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
TOY = Environment("toy", "1.0", "toy_library", 1, ("toy==1.0",))


def request(rounds: int, rate: Fraction | None, batch_size: int | None = None, **options: bool) -> Request:
    setting = Setting(len(GRADIENTS), rate=rate, batch_size=batch_size)
    return Request(setting, GRADIENTS, 0.5, 1.0, rounds, 7, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy_library.py").write_text(textwrap.dedent(LIBRARY), encoding="utf-8")
    return tmp_path


@pytest.fixture
def worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv("PYTHONPATH", str(folder / "nowhere"))
    made = start("toy==1.0", Path(sys.executable), [folder])
    yield made
    made.close()


@pytest.fixture
def toy(worker: Worker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LibraryWay]:
    """Ways of the toy library, in a worker that is started again when it has ended."""
    monkeypatch.setattr(client, "_WORKERS", {TOY.title: worker})
    monkeypatch.setattr(client, "built", lambda environment: environment)
    monkeypatch.setattr(client, "start", lambda name, python: start(name, Path(sys.executable), [folder]))

    def way(name: str, *, draws: bool = False, **options: Any) -> LibraryWay:
        return LibraryWay(environment=TOY, label=name, module="toy_library", way=name, options=options, draws=draws)

    return way


# --- what runs in an environment ---------------------------------------------------------------------------------------


def test_batches_are_drawn_at_the_rate_and_handed_over(toy: Callable[..., LibraryWay]) -> None:
    released = toy("Mean", divisor=8.0).run(request(20, Fraction(1, 2)))
    generator = np.random.default_rng(7)
    for row in released:
        there = generator.random(3) < 0.5
        expected = GRADIENTS[there].sum(axis=0) / 8.0
        # an empty batch is one record that adds next to nothing
        expected[2], expected[3] = max(there.sum(), 1), 0.5
        assert np.allclose(row, expected, rtol=1e-6, atol=1e-20)
    # the seed of this test has both
    assert {1.0, 3.0} <= set(released[:, 2])


def test_an_empty_batch_goes_through_as_it_comes_if_it_is_asked_for(toy: Callable[..., LibraryWay]) -> None:
    way = toy("Mean")
    assert 0.0 in way.run(request(40, Fraction(1, 9), empty_as_it_comes=True))[:, 2]
    assert 0.0 not in way.run(request(40, Fraction(1, 9)))[:, 2]


def test_one_training_has_as_many_rounds_as_were_asked_for(toy: Callable[..., LibraryWay]) -> None:
    way = toy("Draws", draws=True)
    assert way.knob is Knob.BATCH_SIZE
    assert way.run(request(5, None, batch_size=2))[:, 0].tolist() == [200.0, 201.0, 202.0, 203.0, 204.0]


def test_what_raises_is_one_line_without_places_of_files(toy: Callable[..., LibraryWay]) -> None:
    with pytest.raises(Raised, match=r"^raises ValueError: too bad$"):
        toy("Faulty").run(request(1, Fraction(1)))


def test_a_worker_that_ends_is_one_line_and_the_next_run_has_a_new_one(toy: Callable[..., LibraryWay]) -> None:
    mean, deadly = toy("Mean"), toy("Deadly")
    assert mean.run(request(1, Fraction(1))).shape == (1, 5)
    with pytest.raises(Raised, match="its process ended: last words"):
        deadly.run(request(1, Fraction(1)))
    assert mean.run(request(1, Fraction(1)))[0, 2] == 3.0


def test_a_way_that_there_is_not_is_one_line(worker: Worker) -> None:
    for module, way in (("toy_library", "Nobody"), ("no_such_library", "Mean")):
        with pytest.raises(WorkerFault, match=r"AttributeError|ModuleNotFoundError") as caught:
            Session(worker, module, way, {})
        assert "\n" not in str(caught.value)


def test_nothing_of_ours_is_imported_there_and_no_path_of_the_caller_is_seen(worker: Worker) -> None:
    assert Session(worker, "toy_library", "Mean", {}).said() == {"hidden": 0.0, "noisymean": 0.0}


def test_a_worker_that_is_dismissed_ends(toy: Callable[..., LibraryWay], worker: Worker) -> None:
    toy("Mean").run(request(1, Fraction(1)))
    client.dismiss(TOY)
    assert worker.process.returncode == 0
    # once more is nothing
    client.dismiss(TOY)


# --- environments ------------------------------------------------------------------------------------------------------


class Pip:
    """Stands for pip: what it is asked for, and what it answers."""

    def __init__(self, answer: str | None = None, fault: BaseException | None = None) -> None:
        self.answer, self.fault = answer, fault
        self.asked: list[tuple[tuple[str, ...], bool]] = []

    def __call__(
        self, what: str, packages: Sequence[str], *options: str, python: Path | None = None, alone: bool = True
    ) -> str | None:
        assert what == "install"
        assert python is not None
        self.asked.append((tuple(packages), alone))
        if self.fault is not None:
            raise self.fault
        site = python.parents[1] / "lib" / "python3" / "site-packages"
        (site / "toy_library").mkdir(parents=True, exist_ok=True)
        (site / "toy_pack-age-1.0.dist-info").mkdir(exist_ok=True)
        return self.answer


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "libraries"


def left(cache: Path) -> set[str]:
    """Everything there but locks."""
    return {one.name for one in cache.iterdir() if not one.name.endswith(".lock")}


def test_an_environment_is_built_once_and_lists_what_is_in_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = Pip()
    monkeypatch.setattr(environments, "run_pip", installer)
    both = replace(TOY, alone=("other==2.0",))
    told: list[str] = []
    assert built(both, told.append).is_built
    assert built(both, told.append).installed() == {"toy_pack-age": "1.0"}
    assert installer.asked == [(("toy==1.0",), False), (("other==2.0",), True)]
    assert len(told) == 1
    assert "about 1 MB" in told[0]
    assert both.source() == both.place / "lib" / "python3" / "site-packages" / "toy_library"
    # an interpreter of its own, which runs
    version = subprocess.run([both.python, "-c", "print(6 * 7)"], capture_output=True, check=True)
    assert version.stdout.split() == [b"42"]
    assert left(cache) == {both.place.name}


@pytest.mark.parametrize(
    ("reason", "said"), [("No matching distribution found for toy", "No matching"), ("", "check the network")]
)
def test_what_cannot_be_installed_is_a_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, reason: str, said: str
) -> None:
    monkeypatch.setattr(environments, "run_pip", Pip(reason))
    with pytest.raises(InstallFailed, match=f"^toy==1.0: .*{said}") as caught:
        built(TOY)
    assert "\n" not in str(caught.value)
    assert left(cache) == set()
    assert not TOY.is_built


def test_a_build_that_is_interrupted_leaves_nothing_and_can_be_repeated(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "run_pip", Pip(fault=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        built(TOY)
    assert left(cache) == set()
    monkeypatch.setattr(environments, "run_pip", Pip())
    assert built(TOY).is_built


@pytest.mark.skipif(os.name != "posix", reason="without locks nothing is swept")
def test_what_a_killed_build_has_left_is_swept_by_the_next(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "run_pip", Pip())
    half, other = cache / f".installing-{TOY.place.name}-abc" / "environment", cache / ".installing-other-1-abc"
    half.mkdir(parents=True)
    other.mkdir()
    assert not TOY.is_built
    built(TOY)
    assert left(cache) == {TOY.place.name, other.name}


def test_a_cache_that_cannot_be_written_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(InstallFailed, match=r"could not be written \(.*\); see NOISYMEAN_CACHE"):
        built(TOY)


def test_a_source_that_is_gone_is_a_line(cache: Path) -> None:
    with pytest.raises(InstallFailed, match="has no toy_library; delete it and try again"):
        TOY.source()


def test_environments_are_pinned_and_each_has_a_place_of_its_own() -> None:
    assert len({one.place for one in ENVIRONMENTS}) == len({one.title for one in ENVIRONMENTS}) == len(ENVIRONMENTS)
    for one in ENVIRONMENTS:
        assert one.title in (*one.needs, *one.alone)
        assert one.megabytes > 0


# --- pip on a leash ----------------------------------------------------------------------------------------------------


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    # one that has ended and that nobody has asked about
    state = Path(f"/proc/{process}/stat")
    return state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="asks the system whether a process is there")
def test_a_command_ends_when_whoever_started_it_is_killed() -> None:
    told = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
    holder = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-I", {str(pip._LEASH)!r}, sys.executable, "-c", {told!r}], stdin=subprocess.PIPE).wait()
"""
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE) as holding:
        assert holding.stdout is not None
        command = int(holding.stdout.readline())
        assert not gone(command)
        holding.kill()
        until = monotonic() + 60.0
        while not gone(command) and monotonic() < until:
            sleep(0.02)
    assert gone(command)


def test_a_leash_has_the_exit_code_of_its_command_and_pip_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys; sys.stderr.write('WARNING: no\\nERROR: first\\nERROR: No such thing\\n'); sys.exit(5)"
    assert pip._leashed([sys.executable, "-c", "pass"]) == (0, b"")
    code, errors = pip._leashed([sys.executable, "-c", said])
    assert (code, errors.splitlines()[-1]) == (5, b"ERROR: No such thing")
    monkeypatch.setattr(pip, "_leashed", lambda command: (code, errors))
    assert pip.run_pip("install", ["toy"]) == "No such thing"
    monkeypatch.setattr(pip, "_leashed", lambda command: (1, b""))
    assert pip.run_pip("install", ["toy"]) == ""


# --- names -------------------------------------------------------------------------------------------------------------


def test_a_library_alone_is_the_first_of_its_ways() -> None:
    for name, way in WAYS.items():
        assert way_named(name) is way
        library = name.partition(":")[0]
        assert way.environment.library == library
        assert way_named(library) is WAYS[library]
        assert way.name.startswith(way.environment.title)
    assert len({way.name for way in WAYS.values()}) == len(WAYS)
    assert {way.environment for way in WAYS.values()} == set(ENVIRONMENTS)


def test_a_version_is_taken_only_if_it_is_the_one_that_is_run() -> None:
    title = WAYS["optax"].environment.title
    assert way_named(title) is WAYS["optax"]
    with pytest.raises(InvalidInput, match=rf"^target='optax==0.0.1': must be {title}$"):
        way_named("optax==0.0.1")


@pytest.mark.parametrize("name", ["optax:nothing", "pfl:", "jax-privacy:keras:poisson"])
def test_an_unknown_way_names_those_that_there_are(name: str) -> None:
    library = name.partition(":")[0]
    done = run("probe", name)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    for known in WAYS:
        assert (known in done.err) == known.startswith(library)


def test_what_draws_its_own_batches_is_set_by_their_size() -> None:
    for way in WAYS.values():
        assert way.knob is (Knob.BATCH_SIZE if way.draws else Knob.BATCH)
