"""What was downloaded is run only as it was published: by checksums that the package knows, each time, whatever is in the cache.

Nothing here asks an index: pip is stood for, or given a folder. Evil code leaves a mark, so that it is seen if it ever runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from command_line import run
from noisymean import folder
from noisymean.errors import InvalidInput
from noisymean.folder import own_folder
from noisymean.probe import packages
from noisymean.probe.reading import read_source
from noisymean.targets.libraries.environments import ENVIRONMENTS
from noisymean.targets.opacus_releases import client, install
from noisymean.targets.opacus_releases.releases import VERSIONS, Release
from noisymean.targets.processes.client import WorkerFault
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.wheels import kept, pins, tree
from noisymean.targets.wheels.imported import import_from
from noisymean.targets.wheels.kept import content_of
from noisymean.targets.wheels.pins import pin_of, pins_of
from toy_wheels import Pip, file_of, know, wheel_of

TITLE, OLD = "opacus==0.13.0", Release("0.13.0")
GOOD = {"opacus/__init__.py": "told = 'published'\n", "opacus/more.py": "told = 'published as well'\n"}
posix = pytest.mark.skipif(os.name != "posix", reason="asks for modes of files")


def evil(mark: Path) -> str:
    return f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ntold = 'planted'\n"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Where evil code would leave its mark."""
    return tmp_path / "mark"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    """A pip that has the published wheel, which the package knows."""
    pytest.importorskip("torch", reason="a release needs it")
    made = Pip({TITLE: wheel_of(TITLE, GOOD)})
    know(monkeypatch, made.wheels)
    monkeypatch.setattr(kept, "run_pip", made)
    # one that another test has begun has read its wheel
    client.dismiss(OLD)
    return made


@contextlib.contextmanager
def importing(wheel: Path, digest: str) -> Iterator[None]:
    """`import opacus` is what this wheel has, in a process whose path begins with the wheel's own folder."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "opacus"}
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(wheel.parent)
        patched.setattr(sys, "meta_path", list(sys.meta_path))
        import_from(wheel, digest, "opacus")
        try:
            yield
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "opacus"]:
                del sys.modules[name]
            sys.modules.update(before)


def told(name: str) -> str:
    return str(importlib.import_module(name).told)


# --- what is known -----------------------------------------------------------------------------------------------------


def test_every_release_and_every_environment_has_checksums_in_the_package() -> None:
    for version in VERSIONS:
        ((name, digest),) = pin_of(f"opacus=={version}").files.items()
        assert name == f"opacus-{version}-py3-none-any.whl"
        assert re.fullmatch(r"[0-9a-f]{64}", digest)
    for environment in ENVIRONMENTS:
        found = pins_of(environment.title)
        assert environment.title in {pin.title for pin in found}
        assert len({pin.title.partition("==")[0] for pin in found}) == len(found)
        for pin in found:
            assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pin.files.values())
            assert all(name.endswith(".whl") for name in pin.files)


def test_no_file_is_known_twice_with_different_checksums() -> None:
    known: dict[str, str] = {}
    for files in pins._pinned()["wheels"].values():
        for name, digest in files.items():
            assert known.setdefault(name, digest) == digest


def test_versions_of_environments_are_those_that_they_ask_for() -> None:
    for environment in ENVIRONMENTS:
        pinned = {pin.title for pin in pins_of(environment.title)}
        asked = {one for one in (*environment.needs, *environment.alone) if "==" in one}
        assert asked <= pinned


def test_what_is_not_known_is_not_downloaded(pip: Pip) -> None:
    with pytest.raises(InstallFailed, match=r"^opacus==1\.6\.0: no checksums .*record_wheels\.py"):
        install.installed(Release("1.6.0"))
    with pytest.raises(InvalidInput, match=r"a release from 0\.9\.0 to 1\.6\.0"):
        Release("99.0.0")
    with pytest.raises(InstallFailed, match=r"^toy==1\.0: no versions are pinned"):
        pins_of("toy==1.0")
    assert pip.asked == []


# --- a wheel in the cache ----------------------------------------------------------------------------------------------


def test_a_wheel_is_downloaded_once_by_its_checksum_and_verified_each_time(pip: Pip, cache: Path) -> None:
    wheel = install.installed(OLD)
    assert install.installed(OLD) == wheel
    digest = hashlib.sha256(pip.wheels[TITLE]).hexdigest()
    assert pip.required == [f"{TITLE} --hash=sha256:{digest}"]
    assert wheel == cache / "wheels" / file_of(TITLE)
    assert {one.name for one in wheel.parent.iterdir()} == {wheel.name, f".{TITLE}.lock"}
    with importing(wheel, digest):
        assert told("opacus") == "published"


@pytest.mark.parametrize("what", ["a planted line", "a planted module", "half of it", "another release", "nothing"])
def test_a_wheel_that_is_not_as_published_is_refused_and_stays(pip: Pip, mark: Path, what: str) -> None:
    wheel = install.installed(OLD)
    good = wheel.read_bytes()
    changed = {
        "a planted line": wheel_of(TITLE, {**GOOD, "opacus/__init__.py": evil(mark)}),
        "a planted module": wheel_of(TITLE, {**GOOD, "sitecustomize.py": evil(mark)}),
        "half of it": good[: len(good) // 2],
        "another release": wheel_of("opacus==0.12.0", GOOD),
        "nothing": b"",
    }[what]
    wheel.write_bytes(changed)
    with pytest.raises(InstallFailed, match="is not what was published") as fault:
        install.installed(OLD)
    assert "\n" not in str(fault.value)
    assert str(wheel) in str(fault.value)
    assert wheel.read_bytes() == changed
    # a command says it in one line, whether it runs the release or reads it
    for words in (["probe", TITLE], ["code-audit", "opacus", "--versions", "0.13.0"]):
        done = run(*words)
        assert "is not what was published" in done.out + done.err
        assert "Traceback" not in done.err
    with pytest.raises(InstallFailed, match="is not what was published"), packages.opacus_source(OLD):
        pass
    assert not mark.exists()


def test_what_the_worker_runs_it_has_verified_itself(pip: Pip, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our look at the wheel and the worker's somebody has changed it."""
    wheel = install.installed(OLD)
    wheel.write_bytes(wheel_of(TITLE, {**GOOD, "opacus/__init__.py": evil(mark)}))
    monkeypatch.setattr(client, "installed", lambda release: wheel)
    worker = client._worker(OLD)
    with pytest.raises(WorkerFault, match="is not what was published"):
        worker.ask({"do": "open"})
    worker.close()
    assert not mark.exists()


def test_what_changes_after_a_wheel_was_read_is_not_run(pip: Pip, tmp_path: Path, mark: Path) -> None:
    wheel = install.installed(OLD)
    (tmp_path / "other.whl").write_bytes(wheel_of(TITLE, {**GOOD, "opacus/more.py": evil(mark)}))
    with importing(wheel, install.digest_of(OLD, wheel)):
        assert told("opacus") == "published"
        (tmp_path / "other.whl").replace(wheel)
        assert told("opacus.more") == "published as well"
    assert not mark.exists()


def test_nothing_beside_a_wheel_is_imported(pip: Pip, cache: Path, mark: Path) -> None:
    wheel = install.installed(OLD)
    beside = wheel.parent
    (beside / "opacus" / "__pycache__").mkdir(parents=True)
    for name in ("opacus/__init__.py", "opacus/more.py", "opacus/new.py", "opacus.py", "more.py"):
        (beside / name).write_text(evil(mark))
    with importing(wheel, install.digest_of(OLD, wheel)):
        assert (told("opacus"), told("opacus.more")) == ("published", "published as well")
        # what the wheel lacks is missing, even where there is something of that name
        with pytest.raises(ModuleNotFoundError, match=r"whl has no module opacus\.new$"):
            told("opacus.new")
        # and it is the wheel that keeps them away: without it they would be imported
        assert not mark.exists()
        sys.meta_path.pop(0)
        del sys.modules["opacus"]
        assert told("opacus") == "planted"


def test_bytecode_and_other_packages_of_a_wheel_are_not_offered(cache: Path, tmp_path: Path, mark: Path) -> None:
    wheel = tmp_path / file_of(TITLE)
    wheel.write_bytes(wheel_of(TITLE, {**GOOD, "opacus/bytes.pyc": b"x", "planted_beside/__init__.py": evil(mark)}))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with importing(wheel, digest):
        with pytest.raises(ModuleNotFoundError, match=r"has no module opacus\.bytes"):
            told("opacus.bytes")
        with pytest.raises(ModuleNotFoundError, match="No module named 'planted_beside'"):
            told("planted_beside")
    assert not mark.exists()


def test_modules_of_a_wheel_know_their_source_and_their_package(pip: Pip) -> None:
    wheel = install.installed(OLD)
    with importing(wheel, install.digest_of(OLD, wheel)):
        package, module = importlib.import_module("opacus"), importlib.import_module("opacus.more")
        assert list(package.__path__) == [str(wheel / "opacus")]
        assert module.__spec__ is not None
        assert module.__spec__.parent == "opacus"
        assert inspect.getsource(module) == GOOD["opacus/more.py"]


def test_a_release_is_read_out_of_its_verified_wheel(pip: Pip) -> None:
    pip.wheels = {TITLE: wheel_of(TITLE, {"opacus/a.py": "def f(grad, batch_size):\n    return grad / batch_size\n"})}
    with pytest.raises(InstallFailed, match="is not what was published"), packages.opacus_source(OLD):
        pass
    with pytest.MonkeyPatch.context() as patched:
        know(patched, pip.wheels)
        with packages.opacus_source(OLD) as source:
            assert [one.line for one in read_source(source).statements] == [2]
    assert not source.exists()


def test_a_made_up_release_with_a_true_list_of_its_own_is_refused_by_pip(
    cache: Path, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pip and the real checksums: what a folder offers under the right name is none of Opacus' wheels."""
    pytest.importorskip("torch", reason="a release needs it")
    offered = tmp_path / "offered"
    offered.mkdir()
    (offered / file_of(TITLE)).write_bytes(wheel_of(TITLE, {**GOOD, "opacus/__init__.py": evil(mark)}))
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(offered), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(InstallFailed, match=rf"^{TITLE}: .*HASHES") as fault:
        install.installed(OLD)
    assert "\n" not in str(fault.value)
    assert [one.name for one in (cache / "wheels").iterdir()] == [f".{TITLE}.lock"]
    assert not mark.exists()


def test_what_another_installer_hands_out_is_refused_by_us(pip: Pip, cache: Path, mark: Path) -> None:
    pip.wheels = {TITLE: wheel_of(TITLE, {**GOOD, "opacus/__init__.py": evil(mark)})}
    with pytest.raises(InstallFailed, match="is not what was published"):
        install.installed(OLD)
    assert [one.name for one in (cache / "wheels").iterdir()] == [f".{TITLE}.lock"]


def test_a_cache_of_a_former_version_is_not_looked_at(pip: Pip, cache: Path, mark: Path) -> None:
    before = cache / "opacus" / "0.13.0"
    (before / "opacus").mkdir(parents=True)
    (before / "opacus" / "__init__.py").write_text(evil(mark))
    wheel = install.installed(OLD)
    assert len(pip.asked) == 1
    with importing(wheel, install.digest_of(OLD, wheel)):
        assert told("opacus") == "published"
    assert not mark.exists()


def test_an_interrupted_download_leaves_nothing_and_is_begun_again(
    pip: Pip, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "run_pip", Pip(pip.wheels, fault=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        install.installed(OLD)
    assert [one.name for one in (cache / "wheels").iterdir()] == [f".{TITLE}.lock"]
    # killed, it leaves half a wheel in a folder of its own
    left = cache / "wheels" / f".downloading-{TITLE}-abc"
    left.mkdir()
    (left / file_of(TITLE)).write_bytes(b"half")
    monkeypatch.setattr(kept, "run_pip", pip)
    wheel = install.installed(OLD)
    assert wheel.read_bytes() == pip.wheels[TITLE]
    assert os.name != "posix" or not left.exists()


@posix
def test_two_at_once_download_once(pip: Pip) -> None:
    together = Barrier(2)

    def install_it(_: int) -> Path:
        together.wait(timeout=60)
        return install.installed(OLD)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(install_it, range(2))
    assert first == second
    assert len(pip.asked) == 1


def test_a_wheel_that_is_there_needs_neither_a_lock_nor_a_place_to_write(
    pip: Pip, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = install.installed(OLD)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Read-only file system")

    monkeypatch.setattr(kept, "locked", refused)
    monkeypatch.setattr(os, "mkdir", refused)
    assert install.installed(OLD) == wheel


def test_a_cache_that_cannot_be_written_is_a_line(pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(InstallFailed, match=r"^opacus==0.13.0: .*NOISYMEAN_CACHE") as fault:
        install.installed(OLD)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("kind", ["a folder", "a link to nowhere", "a pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(pip: Pip, cache: Path, kind: str) -> None:
    place = own_folder("wheels") / file_of(TITLE)
    make: dict[str, Callable[[], object]] = {
        "a folder": place.mkdir,
        "a link to nowhere": lambda: place.symlink_to("nowhere"),
        "a pipe": lambda: os.mkfifo(place),
    }
    make[kind]()
    with pytest.raises(InstallFailed, match="delete it and try again"):
        install.installed(OLD)
    assert pip.asked == []


def test_a_wheel_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_BYTES", 10)
    wheel = tmp_path / file_of(TITLE)
    wheel.write_bytes(b"x" * 1000)
    with pytest.raises(InstallFailed, match="is not what was published"):
        content_of(wheel, hashlib.sha256(b"x" * 1000).hexdigest())


@pytest.mark.parametrize("name", ["../outside.py", "/outside.py", "opacus/../../outside.py"])
def test_a_wheel_that_would_write_outside_is_refused(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / file_of(TITLE)
    wheel.write_bytes(wheel_of(TITLE, {**GOOD, name: "x = 1"}))
    with pytest.raises(InstallFailed, match="would be outside of it"):
        tree.unpack([wheel], tmp_path / "unpacked")
    assert not list(tmp_path.rglob("outside.py"))


def test_a_wheel_without_a_list_of_its_files_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / file_of(TITLE)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("opacus/__init__.py", "x = 1")
    with pytest.raises(InstallFailed, match="it has 0 lists of its files"):
        tree.unpack([wheel], tmp_path / "unpacked")


# --- the folder --------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("place", ["", "wheels"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_cache_that_others_may_write_to_is_refused(pip: Pip, cache: Path, mark: Path, place: str, mode: int) -> None:
    install.installed(OLD)
    (cache / place).chmod(mode)
    with pytest.raises(InvalidInput, match=r"nobody else may write to; run 'chmod go-w "):
        install.installed(OLD)
    done = run("probe", TITLE)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert f"chmod go-w {cache / place}" in done.err


@posix
def test_the_group_that_is_the_users_alone_may_write(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = own_folder("wheels")
    assert (cache.stat().st_mode & 0o777, made.stat().st_mode & 0o777) == (0o700, 0o700)
    made.chmod(0o770)
    monkeypatch.setattr(folder, "_is_ours_alone", lambda group: group == made.stat().st_gid)
    assert own_folder("wheels") == made
    monkeypatch.setattr(folder, "_is_ours_alone", lambda group: False)
    with pytest.raises(InvalidInput, match="nobody else may write to"):
        own_folder("wheels")


@posix
def test_a_folder_of_somebody_else_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = own_folder("wheels")
    if made.stat().st_uid == 0:
        os.chown(made, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(InvalidInput, match="a folder of your own"):
        own_folder("wheels")


def test_results_are_not_taken_from_a_folder_that_others_may_write_to(cache: Path) -> None:
    from noisymean.field import kept as rows
    from noisymean.probe import code_audit

    for place in (code_audit._place("0.13.0"), rows.place("optax", "0.2.8")):
        place.write_text(json.dumps({}))
        assert place.parent.stat().st_mode & 0o077 == 0
    cache.chmod(0o777)
    for look in (lambda: code_audit._place("0.13.0"), lambda: rows.place("optax", "0.2.8")):
        with pytest.raises(InvalidInput, match="nobody else may write to"):
            look()
    assert rows.kept("optax", "0.2.8") is None
    assert code_audit.not_kept(["0.13.0"]) == ("0.13.0",)
