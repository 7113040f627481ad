"""Foreign code in processes of its own: what comes back, what does not, and that nothing of it outlives whoever asked."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisymean.targets.processes import client, pip, wire
from noisymean.targets.processes.client import Worker, WorkerFault

SOURCE = str(Path(wire.__file__).parents[3])
START = str(Path(wire.__file__).parent / "start.py")
# A library as bad as they come. The packages above `serving` are put in place empty, as `start` does: it takes no second.
LIBRARY = """
import os, subprocess, sys, time, types
for name, path in (("noisymean", ""), ("noisymean.targets", "targets")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join(sys.argv[1], "noisymean", path)]
from noisymean.targets.processes.serving import serve

class Library:
    def __init__(self, request, borrower):
        self.borrower = borrower

    def answer(self, request):
        match request.get("say"):
            case None:
                return {}
            case "twice":
                rows, into = (self.borrower.borrow(request[name]) for name in ("rows", "into"))
                into[...] = 2.0 * rows
                return {"shape": list(rows.shape)}
            case "print":
                print("one", flush=True)
                os.write(1, b"two")
                subprocess.run([sys.executable, "-S", "-c", "print('three')"])
                return {"printed": True}
            case "raise":
                raise ValueError("no\\n  such thing")
            case "exit":
                os._exit(7)
            case "die":
                print("the last words", file=sys.stderr, flush=True)
                os._exit(7)
            case "hang":
                if "began" in request:
                    open(request["began"], "w").close()
                time.sleep(600)
            case "not a number":
                return {"value": float("nan")}

serve(Library)
"""


def library(seconds: float | None = None) -> Worker:
    worker = Worker("library", [sys.executable, "-c", LIBRARY, SOURCE], os.environ, seconds)
    worker.ask({"do": "open", "session": 0})
    return worker


def says(worker: Worker, what: str, **details: Any) -> dict[str, Any]:
    return worker.ask({"do": "say", "session": 0, "say": what, **details})


@pytest.fixture(scope="module")
def lasting() -> Iterator[Worker]:
    """One for all tests that leave it as it is."""
    worker = library()
    yield worker
    worker.close()


def test_arrays_go_both_ways_and_their_names_are_gone(lasting: Worker) -> None:
    for rows in (np.arange(6.0).reshape(2, 3), -np.ones((4, 1)), np.zeros((0, 3))):
        sent, of_sent = lasting.lender.lend(rows.shape)
        sent[...] = rows
        found, of_found = lasting.lender.lend(rows.shape)
        assert says(lasting, "twice", rows=of_sent, into=of_found) == {"shape": list(rows.shape)}
        assert (found == 2.0 * rows).all()
        assert not Path(of_sent["path"]).exists()
        assert not Path(of_found["path"]).exists()


def test_what_a_library_prints_is_no_answer(lasting: Worker) -> None:
    assert says(lasting, "print") == {"printed": True}
    assert says(lasting, "print") == {"printed": True}


def test_a_fault_is_one_line_and_the_next_question_is_answered(lasting: Worker) -> None:
    with pytest.raises(WorkerFault) as fault:
        says(lasting, "raise")
    assert str(fault.value) == "library: ValueError: no such thing"
    assert lasting.usable
    assert says(lasting, "print") == {"printed": True}


def test_a_session_that_is_gone_is_forgotten(lasting: Worker) -> None:
    lasting.ask({"do": "open", "session": 5})
    lasting.gone.append(5)
    says(lasting, "print")
    with pytest.raises(WorkerFault, match="KeyError: 5"):
        lasting.ask({"do": "say", "session": 5, "say": "print"})


@pytest.mark.parametrize(("what", "words"), [("exit", "exit code 7"), ("die", "the last words")])
def test_a_process_that_ends_says_its_last_words(what: str, words: str) -> None:
    worker = library()
    with pytest.raises(WorkerFault) as fault:
        says(worker, what)
    assert str(fault.value) == f"library: its process ended: {words}"
    assert not worker.usable
    with pytest.raises(WorkerFault, match="its process ended"):
        says(worker, "print")
    worker.close()


def test_one_that_does_not_answer_is_ended() -> None:
    worker = library(seconds=30.0)
    # from here on: the start of an interpreter takes what it takes
    worker.seconds = 0.5
    with pytest.raises(WorkerFault) as fault:
        says(worker, "hang")
    assert str(fault.value) == "library: does not answer within 0.5 seconds"
    assert worker.process.returncode is not None


def test_an_answer_in_time_is_not_too_late(lasting: Worker) -> None:
    lasting.seconds = 60.0
    before = threading.active_count()
    assert says(lasting, "print") == {"printed": True}
    # no timer goes on
    assert threading.active_count() <= before + 1
    lasting.seconds = None


@pytest.mark.parametrize("words", ["print('hello there, who is this?')", "print('\\0\\0\\0\\2[]', end='')", "print()"])
def test_what_is_no_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """It writes to where answers go, and goes on."""
    monkeypatch.setattr(client, "_PATIENCE", 0.2)
    code = f"import os, sys, time\n{words}\nsys.stdout.flush(); os.close(1); time.sleep(600)"
    worker = Worker("library", [sys.executable, "-S", "-c", code], os.environ)
    with pytest.raises(WorkerFault, match="what it answers is no answer"):
        worker.ask({"do": "open", "session": 0})
    assert not worker.usable


def test_an_answer_that_nobody_waited_for_is_not_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = library()

    def interrupted(stream: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(wire, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            says(worker, "print")
    assert not worker.usable
    worker.close()


def test_a_number_that_is_none_cannot_be_answered(lasting: Worker) -> None:
    """JSON has no word for it."""
    with pytest.raises(WorkerFault, match="ValueError: Out of range float"):
        says(lasting, "not a number")
    assert says(lasting, "print") == {"printed": True}


def test_to_close_it_ends_it() -> None:
    worker = library()
    worker.close()
    assert worker.process.returncode is not None
    worker.close()


KILLED = """
import os, sys
from test_processes import library, says
worker = library()
array, described = worker.lender.lend((3,))
print(worker.process.pid, described["path"], flush=True)
says(worker, "hang", rows=described, into=described, began=sys.argv[1])
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_nothing_outlives_whoever_asked(tmp_path: Path) -> None:
    """Killed while the library computes: it ends as well, and so do the names of what was lent."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    began = tmp_path / "began"
    command = [sys.executable, "-c", KILLED, str(began)]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    assert asking.stdout is not None
    number, name = asking.stdout.readline().split()
    wait_until(began.exists)
    assert Path(name).exists()
    asking.kill()
    asking.wait()
    asking.stdout.close()
    wait_until(lambda: not alive(int(number)))
    assert not Path(name).exists()


def wait_until(true: Callable[[], bool]) -> None:
    """A minute at most, of which it takes a moment."""
    for _ in range(600):
        if true():
            return
        threading.Event().wait(0.1)
    pytest.fail("it does not come to an end")


def alive(number: int) -> bool:
    """Whether a process of that number is there and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- frames ----------------------------------------------------------------------------------------------------------------


def test_frames_follow_each_other() -> None:
    stream = io.BytesIO()
    messages: list[dict[str, Any]] = [{}, {"a": [1, "ü", None]}, {"b": {"c": 1.5}}]
    for message in messages:
        wire.send(stream, message)
    stream.seek(0)
    assert [wire.receive(stream) for _ in messages] == messages
    assert wire.receive(stream) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0",
        b"\0\0\0\x09{}",
        b"\xff\xff\xff\xff{}",
        b"\0\0\0\x02[]",
        b"\0\0\0\x02{]",
        b"\0\0\0\x02\xff\xfe",
        b"\0\0\0\x011",
    ],
)
def test_what_is_no_frame_is_none(content: bytes) -> None:
    assert wire.receive(io.BytesIO(content)) is None


def test_a_frame_that_is_nested_deeply_is_none() -> None:
    content = b"[" * 200_000
    assert wire.receive(io.BytesIO(len(content).to_bytes(4, "big") + content)) is None


def test_memory_is_lent_again_once_nobody_holds_it() -> None:
    lender = wire.Lender()
    first, of_first = lender.lend((10,))
    second, of_second = lender.lend((10,))
    assert of_first["path"] != of_second["path"]
    del first
    _, of_third = lender.lend((5,))
    assert of_third["path"] == of_first["path"]
    assert set(lender.paths()) == {of_first["path"], of_second["path"]}
    lender.unlink()
    lender.unlink()
    assert not any(Path(path).exists() for path in lender.paths())
    assert second.shape == (10,)


def test_a_borrower_forgets_what_is_not_named_any_more() -> None:
    lender, borrower = wire.Lender(), wire.Borrower()
    array, described = lender.lend((2, 2))
    array[...] = [[1.0, 2.0], [3.0, 4.0]]
    assert borrower.borrow(described).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    lender.unlink()
    # mapped: the name is not needed
    assert borrower.borrow(described).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    borrower.keep([])
    with pytest.raises(FileNotFoundError):
        borrower.borrow(described)


# --- starting where noisymean cannot be imported ---------------------------------------------------------------------------


def test_a_module_of_ours_starts_without_what_noisymean_needs() -> None:
    """The package itself would import scipy; the module that is started has no `main`, and that is all that is missing."""
    name = "noisymean.targets.processes.wire"
    code = f"import runpy, sys; sys.argv = [{START!r}, {name!r}]; start = runpy.run_path({START!r}, run_name='there')\n"
    code += "try: start['main']()\nexcept AttributeError as fault: print(fault, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    assert done.stdout.decode().split("\n")[0] == f"module {name!r} has no attribute 'main' False", done.stderr.decode()


# --- pip -------------------------------------------------------------------------------------------------------------------


def test_one_process_holds_a_lock_at_a_time(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    place = tmp_path / "lock"
    with pip.locked(place), place.open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with place.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
