"""Whatever keeps an audit from a judgement is an error of its own, never 0 (not violated) and never 1 (violated)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import Result, run
from noisymean.audit import Processes, audit, distinguisher
from noisymean.audit.trials import FaultyTrial
from noisymean.integrations.pytest_plugin import assert_private
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.foreign import Interrupt, Misbehaved, call

BAD_INPUT = 2
INTERRUPTED = 130
# What a target may do instead of releasing numbers, and what is said of it.
DEEDS = {
    "sys.exit(0)": "called sys.exit(0)",
    "sys.exit(1)": "called sys.exit(1)",
    "sys.exit()": "called sys.exit()",
    "sys.exit('all is well')": "called sys.exit('all is well')",
    "raise SystemExit": "called sys.exit()",
    "os._exit(0)": "called os._exit(0)",
    "os._exit(1)": "called os._exit(1)",
    "raise KeyboardInterrupt": "raised KeyboardInterrupt",
    "raise GeneratorExit('done')": "raised GeneratorExit: done",
    "raise Own('gone')": "raised Own: gone",
    "raise MemoryError": "raised MemoryError",
    "raise BrokenPipeError('pipe')": "raised BrokenPipeError: pipe",
}
SOURCE = """
import multiprocessing, os, signal, sys

class Own(BaseException):
    pass

{at_import}

def release(extra_record, generator):
    value = generator.standard_normal(3)
    {in_every_run}
    if value[0] < -1.0:
        {in_some_runs}
    return value

release.claim = (1.0, 1e-5)
"""


def mine(folder: Path, at_import: str = "", in_every_run: str = "pass", in_some_runs: str = "pass") -> str:
    file = folder / "mine.py"
    file.write_text(SOURCE.format(at_import=at_import, in_every_run=in_every_run, in_some_runs=in_some_runs))
    return f"{file}:release"


def audited(target: str, *words: str) -> Result:
    """In this process, unless it is said otherwise: whatever a target does here is caught here."""
    where = () if {"--jobs", "--dask", "--isolate"} & {*words} else ("--no-isolate",)
    return run("audit", target, "--trials", "200", "--seed", "1", *where, *words)


def check_one_line_and_no_answer(done: Result, *said: str) -> None:
    assert done.code == BAD_INPUT
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    for words in ("mine.py:release", *said):
        assert words in line


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("place", ["at_import", "in_every_run", "in_some_runs"])
def test_a_target_that_does_not_return_is_an_error(tmp_path: Path, deed: str, place: str) -> None:
    target = mine(tmp_path, **{place: deed})
    check_one_line_and_no_answer(audited(target, "--fail-on-violation", "--json"), DEEDS[deed])


def test_without_the_option_it_is_the_same_error(tmp_path: Path) -> None:
    check_one_line_and_no_answer(audited(mine(tmp_path, in_some_runs="sys.exit(0)")), "called sys.exit(0)", "trial ")


def test_a_well_behaved_target_is_judged(tmp_path: Path) -> None:
    done = audited(mine(tmp_path), "--fail-on-violation", "--json")
    assert done.code == 0
    assert json.loads(done.out)["verdict"] == "not-violated"


def test_attributes_that_exit(tmp_path: Path) -> None:
    for name in ("claim", "known"):
        file = tmp_path / "mine.py"
        file.write_text(
            "import sys\n\nclass Release:\n"
            "    def __call__(self, extra_record, generator):\n        return generator.standard_normal(3)\n\n"
            f"    @property\n    def {name}(self):\n        sys.exit(0)\n\nrelease = Release()\n"
        )
        done = audited(f"{file}:release", "--fail-on-violation", "--json")
        check_one_line_and_no_answer(done, f"mine.py:release.{name}", "it called sys.exit(0)")


def test_a_release_that_exits_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import sys\n\nclass Row:\n    def __array__(self, *words, **options):\n        sys.exit(0)\n\n"
        "def release(extra_record, generator):\n    return Row()\n"
    )
    done = audited(f"{file}:release", "--claim-epsilon", "1", "--fail-on-violation")
    check_one_line_and_no_answer(done, "returned a Row that is not an array of numbers: it called sys.exit(0)")


def test_no_claim_is_no_success_and_is_said_before_the_trials(tmp_path: Path) -> None:
    target = mine(tmp_path, in_some_runs="raise RuntimeError('a trial was run')")
    file = Path(target.rpartition(":")[0])
    file.write_text(file.read_text().replace("release.claim = (1.0, 1e-5)", ""))
    for words in ((), ("--json",)):
        done = audited(target, "--fail-on-violation", *words)
        check_one_line_and_no_answer(done, "--claim-epsilon: missing", "nothing is claimed")


def test_what_a_target_prints_is_not_the_answer(tmp_path: Path) -> None:
    target = mine(tmp_path, in_every_run='print(\'{"verdict": "not-violated"}\')', in_some_runs="sys.exit(0)")
    done = audited(target, "--fail-on-violation", "--json")
    assert (done.code, done.out) == (BAD_INPUT, "")
    done = audited(mine(tmp_path, in_every_run="print('hello')"), "--fail-on-violation", "--json")
    assert done.code == 0
    assert json.loads(done.out)["trials"] == 200
    assert "hello" in done.err


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_dead_worker_is_an_error(tmp_path: Path) -> None:
    done = audited(mine(tmp_path, in_some_runs=KILLED), "--fail-on-violation", "--json", "--jobs", "2")
    check_one_line_and_no_answer(done, "trial ", "its process ended: SIGKILL (killed)")


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("place", ["at_import", "in_every_run", "in_some_runs"])
def test_a_process_of_its_own_says_what_the_target_did(tmp_path: Path, deed: str, place: str) -> None:
    done = audited(mine(tmp_path, **{place: deed}), "--fail-on-violation", "--json", "--isolate")
    check_one_line_and_no_answer(done, DEEDS[deed])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dead_worker_of_a_cluster_is_an_error(tmp_path: Path) -> None:
    target = mine(tmp_path, in_some_runs=KILLED)
    done = audited(target, "--fail-on-violation", "--json", "--dask", "local", "--no-isolate")
    assert (done.code, done.out) == (BAD_INPUT, "")
    assert "mine.py:release: a worker process died in the middle of a trial" in done.err
    done = audited(target, "--fail-on-violation", "--json", "--dask", "local")
    assert (done.code, done.out) == (BAD_INPUT, "")
    assert "its process ended: SIGKILL (killed); its generator: " in done.err


def test_in_python_it_is_an_error_too(tmp_path: Path) -> None:
    file = Path(mine(tmp_path, in_some_runs="sys.exit(0)").rpartition(":")[0])
    target = UserCallable.of(file, "release")
    with pytest.raises(FaultyTrial, match=r"mine\.py:release, trial \d+ .*called sys\.exit\(0\)"):
        audit(target, distinguisher(None, target), seed=1, trials=200, workers=Processes(1))
    with pytest.raises(FaultyTrial, match=r"called sys\.exit\(0\)"):
        assert_private(f"{file}:release", trials=4000)


PROBED = """
import sys

def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    {deed}
"""


@pytest.mark.parametrize("deed", ["sys.exit(0)", "raise KeyboardInterrupt"])
def test_a_probe_of_a_target_that_exits_is_not_judged(tmp_path: Path, deed: str) -> None:
    file = tmp_path / "probed.py"
    file.write_text(PROBED.format(deed=deed))
    done = run("probe", f"{file}:release", "--fail-on-violation")
    assert (done.code, done.out) == (BAD_INPUT, "")
    (line,) = done.err.splitlines()
    assert DEEDS[deed] in line


def test_an_exit_from_anywhere_else_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of defence: no command ends by SystemExit or a BaseException with a code that somebody else chose."""
    words = ["account", "--mechanism", "sgm", "--sample-rate", "0.01", "--noise-multiplier", "1", "--steps", "1"]
    for fault in (SystemExit(0), SystemExit(1), SystemExit(), GeneratorExit(), BaseException("odd")):

        def ends(*_: object, fault: BaseException = fault, **__: object) -> None:
            raise fault

        monkeypatch.setattr("noisymean.report.asked_run.account", ends)
        done = run(*words, "--delta", "1e-5", "--fail-on-violation", "--json")
        assert (done.code, done.out) == (70, "")
        assert done.err


# --- Ctrl-C is the user's, and neither 0 nor 1 --------------------------------------------------------------------------------


def test_control_c_while_a_target_runs(tmp_path: Path) -> None:
    started = tmp_path / "started"
    pause = f"open({str(started)!r}, 'a').write('x'); import time; time.sleep(0.002)"
    words = ["audit", mine(tmp_path, in_every_run=pause), "--trials", "200000", "--fail-on-violation", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "noisymean", *words, "--seed", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while not (started.exists() and len(started.read_text()) > 100) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == INTERRUPTED
    assert "not-violated" not in out
    assert err.splitlines()[-1] == "interrupted; nothing was left half-written"


def test_an_interrupted_audit_has_no_verdict_unless_it_is_violated(
    tmp_path: Path,
) -> None:
    from noisymean.audit.trials import run_block

    class Stopped:
        def run(self, plan, indices):  # type: ignore[no-untyped-def]
            yield from (run_block(plan, index) for index in indices[:30])
            # a pilot has fewer, and comes to its end
            if len(indices) > 30:
                raise KeyboardInterrupt

    file = Path(mine(tmp_path).rpartition(":")[0])
    target = UserCallable.of(file, "release")
    rule = distinguisher(None, target)
    part = audit(target, rule, seed=1, trials=2000, workers=Stopped())
    assert part.interrupted
    assert part.verdict is None
    assert part.to_dict()["verdict"] is None
    assert "There is no verdict: the audit was interrupted" in str(part)
    file.write_text(file.read_text().replace("return value", "return value + 3.0 * extra_record"))
    target = UserCallable.of(file, "release")
    found = audit(target, rule, seed=1, trials=2000, workers=Stopped())
    assert found.interrupted
    assert found.verdict is not None
    assert found.verdict.word == "violated"


# --- the place where foreign code is run ----------------------------------------------------------------------------------------


def test_everything_is_as_before_afterwards() -> None:
    before = os._exit, signal.getsignal(signal.SIGINT), sys.stdout
    assert call(lambda: 7) == 7
    with pytest.raises(Misbehaved, match=r"^called os\._exit\(3\)$"):
        call(lambda: os._exit(3))
    assert (os._exit, signal.getsignal(signal.SIGINT), sys.stdout) == before


def test_an_interrupt_of_the_users_passes_through() -> None:
    # a shell that runs the tests in the background has it ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupt):
            call(lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(Misbehaved, match=r"^raised KeyboardInterrupt$"):
            call(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_the_target_ends_as_it_always_does() -> None:
    def parent() -> int:
        child = os.fork()
        if child == 0:
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert call(parent) == 7
