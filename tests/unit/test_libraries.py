"""Other libraries in environments of their own: building one, talking to what runs in it, and the names of its ways.

No library is run here and nothing is installed: the interpreter of the tests stands for an environment, a module in a folder for a
library. `test_libraries_run.py` builds the environments.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from command_line import run
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.targets.libraries import client
from noisymean.targets.libraries.client import Session, start
from noisymean.targets.libraries.environments import ENVIRONMENTS, Environment, built, verified
from noisymean.targets.libraries.ways import WAYS, LibraryWay, way_named
from noisymean.targets.processes import pip
from noisymean.targets.processes.client import Worker, WorkerFault
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.protocol import Knob, Raised, Request, Setting
from noisymean.targets.wheels import kept
from toy_wheels import Pip, file_of, know, wheel_of

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
# where the numpy of the tests is, which the other side needs
NUMPY = Path(np.__file__).parents[1]


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
    made = start("toy==1.0", [folder, NUMPY])
    yield made
    made.close()


@pytest.fixture
def toy(worker: Worker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LibraryWay]:
    """Ways of the toy library, in a worker that is started again when it has ended."""
    monkeypatch.setattr(client, "_WORKERS", {TOY.title: worker})
    monkeypatch.setattr(client, "built", lambda environment: environment)
    monkeypatch.setattr(client, "verified", lambda environment: folder)
    monkeypatch.setattr(client, "start", lambda name, folders: start(name, [*folders, NUMPY]))

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
    assert worker.process.poll() is not None
    # once more is nothing
    client.dismiss(TOY)


# --- environments ------------------------------------------------------------------------------------------------------


MODULE, NAMED = "toy_library/__init__.py", "toy-1.0.dist-info/METADATA"
TOYS = {
    "toy==1.0": wheel_of(
        "toy==1.0",
        {
            MODULE: LIBRARY,
            "toy_library/part/data.bin": b"\0\1",
            "toy-1.0.data/purelib/toy_beside.py": "x = 1\n",
            "toy-1.0.data/scripts/toy": "#!python\nx = 1\n",
        },
        unlisted={"toy_library/unlisted.py": "x = 1\n"},
    ),
    "pack-age==2.0": wheel_of("pack-age==2.0", {"pack_age.py": "x = 2\n"}),
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "environments"


@pytest.fixture
def installer(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    """A pip that has the wheels of the toy library, which the package knows."""
    made = Pip(TOYS)
    know(monkeypatch, TOYS, {"toy==1.0": list(TOYS)})
    monkeypatch.setattr(kept, "run_pip", made)
    return made


def left(cache: Path) -> set[str]:
    """Everything there but locks."""
    return {one.name for one in cache.iterdir() if not one.name.endswith(".lock")}


def test_an_environment_is_built_once_and_has_what_its_wheels_list(installer: Pip, cache: Path) -> None:
    told: list[str] = []
    assert built(TOY, told.append).is_built
    assert built(TOY, told.append).installed() == {"toy": "1.0", "pack-age": "2.0"}
    assert len(installer.asked) == len(told) == 1
    assert [line.partition(" ")[0] for line in installer.required] == list(TOYS)
    assert all(" --hash=sha256:" in line for line in installer.required)
    assert "about 1 MB" in told[0]
    assert left(cache) == {TOY.place.name}
    packages = verified(TOY)
    assert TOY.source() == packages / "toy_library"
    # code and what belongs to it: no scripts, and nothing that the wheel does not list
    assert {path.relative_to(packages).as_posix() for path in packages.rglob("*") if path.is_file()} == {
        MODULE, "toy_library/part/data.bin", "toy_beside.py", "pack_age.py",
        *(f"{name}.dist-info/{file}" for name in ("toy-1.0", "pack-age-2.0") for file in ("METADATA", "WHEEL")),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "said"), [("No matching distribution found for toy", "No matching"), ("", "check the network")]
)
def test_what_cannot_be_installed_is_a_line_and_leaves_nothing(
    installer: Pip, cache: Path, reason: str, said: str
) -> None:
    installer.answer = reason
    with pytest.raises(InstallFailed, match=f"^toy==1.0: .*{said}") as caught:
        built(TOY)
    assert "\n" not in str(caught.value)
    assert left(cache) == set()
    assert not TOY.is_built


def test_a_build_that_is_interrupted_leaves_nothing_and_can_be_repeated(installer: Pip, cache: Path) -> None:
    installer.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        built(TOY)
    assert left(cache) == set()
    installer.fault = None
    assert built(TOY).is_built
    verified(TOY)


@pytest.mark.skipif(os.name != "posix", reason="without locks nothing is swept")
def test_what_a_killed_build_has_left_is_swept_by_the_next(installer: Pip, cache: Path) -> None:
    half, other = cache / f".installing-{TOY.place.name}-abc" / "environment", cache / ".installing-other-1-abc"
    half.mkdir(parents=True)
    other.mkdir()
    assert not TOY.is_built
    built(TOY)
    assert left(cache) == {TOY.place.name, other.name}


def test_a_cache_that_cannot_be_written_is_a_line(
    installer: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(InstallFailed, match=r"could not be written \(.*\); see NOISYMEAN_CACHE"):
        built(TOY)


def test_a_source_that_is_gone_is_a_line(cache: Path) -> None:
    with pytest.raises(InstallFailed, match="has no toy_library; delete it and try again"):
        TOY.source()


def test_an_environment_of_a_former_version_is_not_looked_at(installer: Pip, cache: Path) -> None:
    before = cache.parent / "libraries" / TOY.place.name
    (before / "lib").mkdir(parents=True)
    (before / "installed.json").write_text("{}")
    assert not TOY.is_built
    built(TOY)
    assert len(installer.asked) == 1


def test_wheels_that_are_not_as_published_are_not_unpacked(installer: Pip, cache: Path) -> None:
    installer.wheels = {**TOYS, "pack-age==2.0": wheel_of("pack-age==2.0", {"pack_age.py": "x = 3\n"})}
    with pytest.raises(InstallFailed, match="is not what was published"):
        built(TOY)
    assert left(cache) == set()
    installer.wheels = {"toy==1.0": TOYS["toy==1.0"]}
    with pytest.raises(InstallFailed, match=r"has no wheel of pack-age==2\.0"):
        built(TOY)
    assert left(cache) == set()


def changed_line(packages: Path) -> Path:
    place = packages / MODULE
    text = place.read_bytes()
    before = place.stat()
    place.write_bytes(text.replace(b"divisor=4.0", b"divisor=5.0"))
    # neither its size nor its date tells
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert place.stat().st_size == before.st_size
    return place


def linked_file(packages: Path) -> Path:
    place = packages / "toy_beside.py"
    (packages.parent / "elsewhere.py").write_bytes(place.read_bytes())
    place.unlink()
    place.symlink_to(packages.parent / "elsewhere.py")
    return place


def linked_folder(packages: Path) -> Path:
    place = packages / "toy_library" / "sub"
    place.symlink_to(packages / "toy_library" / "part")
    return place


def another(name: str) -> Callable[[Path], Path]:
    def add(packages: Path) -> Path:
        place = packages / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"x = 1\n")
        return place

    return add


def opened_to_others(packages: Path) -> Path:
    (packages / MODULE).chmod(0o666)
    return packages / MODULE


def taken_away(packages: Path) -> Path:
    (packages / MODULE).unlink()
    return packages / MODULE


def pipe(packages: Path) -> Path:
    taken_away(packages)
    os.mkfifo(packages / MODULE)
    return packages / MODULE


def changed_wheel(packages: Path) -> Path:
    """With a list of its own that the changed file agrees with."""
    place = packages.parent / "wheels" / file_of("pack-age==2.0")
    place.write_bytes(wheel_of("pack-age==2.0", {"pack_age.py": "x = 3\n"}))
    (packages / "pack_age.py").write_text("x = 3\n")
    return place


def another_wheel(packages: Path) -> Path:
    place = packages.parent / "wheels" / file_of("third==3.0")
    place.write_bytes(wheel_of("third==3.0", {"third.py": "x = 3\n"}))
    (packages / "third.py").write_text("x = 3\n")
    return place


def folder_of_others(packages: Path) -> Path:
    packages.chmod(0o777)
    return packages


@pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes")
@pytest.mark.parametrize(
    "plant",
    [
        changed_line, linked_file, linked_folder, opened_to_others, taken_away, pipe, changed_wheel, another_wheel,
        folder_of_others, another("new.py"), another("toy_library/new.py"), another("sitecustomize.py"),
        another("planted.pth"), another("toy_library/__pycache__/part.cpython-311.pyc"), another("toy_beside.pyc"),
        another("toy_library/new.so"), another("pack_age/__init__.py"),
    ],
)  # fmt: skip
def test_an_environment_that_is_not_as_published_is_not_started(
    installer: Pip, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path], Path]
) -> None:
    monkeypatch.setattr(client, "start", lambda *_: pytest.fail("it was started"))
    place = plant(verified(built(TOY)))
    for _ in range(2):
        with pytest.raises(NoisymeanError) as fault:
            client.worker_of(TOY)
        assert str(place) in str(fault.value)
        assert "\n" not in str(fault.value)
    # one download, and nothing put right in silence
    assert len(installer.asked) == 1


def test_neither_bytecode_nor_what_a_start_would_run_is_looked_at(installer: Pip, tmp_path: Path) -> None:
    """The second line: even what is put there after it was verified, where Python itself would take it."""
    packages = verified(built(TOY))
    mark = tmp_path / "mark"
    evil = f"open({str(mark)!r}, 'a').close()\n"
    (packages / "planted.pth").write_text(f"import os; {evil}")
    for name in ("sitecustomize.py", "usercustomize.py"):
        (packages / name).write_text(evil)
    source = packages / "toy_beside.py"
    cached = Path(importlib.util.cache_from_source(str(source)))
    cached.parent.mkdir()
    date, size = int(source.stat().st_mtime), source.stat().st_size
    code = marshal.dumps(compile(evil + "x = 'planted'", str(source), "exec"))
    cached.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, date, size) + code)
    # Python by itself runs the bytecode, whose date and size are those of the source
    plain = f"import sys; sys.path[:0] = [{str(packages)!r}]; import toy_beside"
    subprocess.run([sys.executable, "-I", "-c", plain], check=True)
    mark.unlink()
    worker = start("toy==1.0", [packages, NUMPY])
    # a module without the way that was asked for: it was imported
    with pytest.raises(WorkerFault, match="AttributeError"):
        Session(worker, "toy_beside", "Mean", {})
    assert Session(worker, "toy_library", "Mean", {}).said()["hidden"] == 0.0
    worker.close()
    assert not mark.exists()
    assert [one.name for one in cached.parent.iterdir()] == [cached.name]


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
