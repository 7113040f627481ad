"""Every way in which the installed Opacus can be used: what it divides by, how it draws, what its accountant is told.

Expectations are read in its source: `privacy_engine.py` has `sample_rate = 1 / len(data_loader)` and `int(len(dataset) *
sample_rate)`; its loader draws each record at 1/L, L = ceil(N/b); its samplers for several processes leave out an empty batch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opacus", reason="needs opacus: pip install 'noisymean[audit]'")

from command_line import run
from noisymean.cli.gate import Standing, of_probe
from noisymean.errors import InvalidInput, Undefined
from noisymean.probe import Kind
from noisymean.probe.finding import Finding, RateLaw, Sampling
from noisymean.probe.prober import observe, probe_runnable
from noisymean.probe.records import Axes
from noisymean.probe.runs import designed
from noisymean.targets.opacus_modes import MODES, dismiss, mode_named
from noisymean.targets.opacus_modes.group import Group, GroupFault
from noisymean.targets.opacus_modes.modes import Clip, Engine, Mode, PerSample, Wrapper
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.opacus_releases.setup import Reduction
from noisymean.targets.processes import serving
from noisymean.targets.protocol import Raised, Request, Setting
from probing import leaks

if installed_version() != "1.6.0":
    pytest.skip("the modes are those of 1.6.0", allow_module_level=True)

ALONE = [one.name for one in MODES if one.processes == 1]
TOGETHER = [one.name for one in MODES if one.processes == 2]
# whose releases are sums of clipped gradients over a floor; the one with a bound that moves does not clip
FLOORED = [name for name in ALONE if name not in ("sum", "ghost-adaptive")]
# to calibrate takes a second
SWIFT = [pytest.param(name, marks=pytest.mark.slow) if name == "with-epsilon" else name for name in FLOORED]
# a record more makes a batch more; the floor in floating point falls short, and to zero
SETTINGS = [Setting(30, batch_size=10), Setting(31, batch_size=10), Setting(98, batch_size=2)]


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    dismiss()


def named(name: str) -> Mode:
    return mode_named(f"opacus:{name}")


def batches(setting: Setting) -> int:
    """L."""
    assert setting.batch_size is not None
    return math.ceil(Fraction(setting.dataset_size, setting.batch_size))


def floor_of(setting: Setting) -> int:
    """As the library computes it, in floating point."""
    return int(setting.dataset_size * (1 / batches(setting)))


# --- names -----------------------------------------------------------------------------------------------------------------


def test_each_mode_has_a_name_of_its_own_and_differs_from_the_others() -> None:
    for what in ("name", "way", "about"):
        assert len({getattr(one, what) for one in MODES}) == len(MODES)
    differences = {tuple((field, getattr(one, field)) for field in one.differs_in) for one in MODES}
    assert len(differences) == len(MODES)
    assert named("hooks").differs_in == ()


@pytest.mark.parametrize("kind", [PerSample, Clip, Reduction, Wrapper, Engine])
def test_each_option_of_the_library_is_in_some_mode(kind: type) -> None:
    seen = {value for one in MODES for value in vars(one).values() if isinstance(value, kind)}
    assert seen == set(kind)  # type: ignore[call-overload]


@pytest.mark.parametrize("text", ["opacus:", "opacus:automatic", "opacus:Ghosts", "opaque:ghost", "opacus:ghost:ghost"])
def test_a_mode_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidInput, match="NAME one of hooks, functorch"):
        mode_named(text)


# --- one process -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SWIFT)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_mean_is_divided_by_the_floor(name: str, setting: Setting) -> None:
    mode = named(name)
    # of a record that lies on one axis, the layer's share of the bound is left
    share = math.sqrt(0.5) if mode.clip is Clip.PER_LAYER else 1.0
    seen = observe(mode.runnable(), setting, 1, 25)
    assert seen.denominators == pytest.approx([floor_of(setting) / share], rel=1e-4)


def test_the_sum_is_divided_by_nothing() -> None:
    for setting in SETTINGS:
        assert observe(named("sum").runnable(), setting, 1, 25).denominators == pytest.approx([1.0], rel=1e-4)


def test_a_floor_of_zero_is_no_number() -> None:
    """49 (1/49) is less than one in floating point."""
    assert floor_of(Setting(49, batch_size=1)) == 0
    seen = observe(named("hooks").runnable(), Setting(49, batch_size=1), 1, 5)
    assert not any(one.finite for one in seen.readings)


@pytest.mark.parametrize("name", [name for name in ALONE if name not in ("with-epsilon", "ghost-adaptive")])
def test_the_accountant_is_told_the_rate_and_the_noise(name: str) -> None:
    """The noise that was asked for, also where AdaClip adds more; never the denominator."""
    for setting in SETTINGS[:2]:
        found = named(name).runnable().told(setting, rounds=8)
        assert (found.noise_multiplier, found.asked_noise, found.steps) == (1.0, 1.0, 8)
        assert found.sample_rate == 1 / batches(setting)
        assert found.expected_batch_size == floor_of(setting)
        assert found.processes == 1


def test_the_rate_that_is_told_may_be_another_one() -> None:
    """1 / (1/93) is less than 93: the loader draws at 1/93, says that it has 92 batches, and 1/92 is told."""
    setting = Setting(930, batch_size=10)
    assert (batches(setting), int(1 / (1 / 93))) == (93, 92)
    found = named("hooks").runnable().told(setting, rounds=2)
    assert (found.sample_rate, found.batches_in_epoch) == (1 / 92, 92)
    # the user's own loader has 93, and so has the accountant's rate
    shuffled = named("no-poisson").runnable().told(setting, rounds=2)
    assert (shuffled.sample_rate, shuffled.batches_in_epoch) == (1 / 93, 93)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_noise_that_is_calibrated_follows_the_number_of_batches() -> None:
    """By the library's own function, at the rates 1/3 and 1/4."""
    from opacus.accountants.utils import get_noise_multiplier

    mode = named("with-epsilon")
    asked = mode.calibration
    assert asked is not None
    for setting, rate in zip(SETTINGS[:2], (1 / 3, 1 / 4), strict=True):
        found = mode.runnable().told(setting, rounds=2)
        wanted = get_noise_multiplier(
            target_epsilon=asked.target_epsilon,
            target_delta=asked.target_delta,
            sample_rate=rate,
            epochs=asked.epochs,
            accountant=asked.accountant,
        )
        assert found.calibrated_noise == found.noise_multiplier == pytest.approx(wanted, rel=1e-9)
        assert found.asked_noise is None


def test_without_poisson_sampling_each_record_comes_once() -> None:
    """Batches of 10, 10, 10 and 1, all of them divided by 7."""
    seen = observe(named("no-poisson").runnable(), Setting(31, batch_size=10), 1, 8)
    assert [one.size for one in seen.readings] == [10, 10, 10, 1] * 2
    assert frozenset().union(*(one.batch for one in seen.readings[:4])) == frozenset(range(31))


def test_batches_are_cut_into_pieces_and_put_together_again() -> None:
    """The same batches as without the manager, in pieces of at most four."""
    setting = Setting(30, batch_size=10)
    whole, cut = (observe(named(name).runnable(), setting, 1, 20) for name in ("hooks", "batch-memory-manager"))
    assert [one.batch for one in cut.readings] == [one.batch for one in whole.readings]
    found = named("batch-memory-manager").runnable().told(setting)
    assert max(found.held[0]) <= 4
    assert found.steps == 20


def test_an_empty_batch_is_a_step_of_noise_or_a_record_that_nobody_has() -> None:
    """40 records at a rate of 1/40, divided by one: about a third of the batches are empty."""
    axes, setting = Axes(40), Setting(40, batch_size=1)
    lengths = {}
    for name in ("hooks", "rand-on-empty"):
        releases = designed(named(name).runnable(), setting, axes.gradients(), 3, 30, empty_as_it_comes=True)
        empty = [at for at, one in enumerate(axes.read(releases)) if one.size == 0]
        assert len(empty) > 3
        lengths[name] = np.linalg.norm(releases[empty], axis=1)
    # noise of a millionth on 296 axes
    assert lengths["hooks"].max() < 3e-5
    # numbers of zero and one on all of them, clipped to C; but for one that came before the loader knew what batches look like
    assert np.median(lengths["rand-on-empty"]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("name", "words"), [("ew", "Batch size must be positive"), ("adaptive", "cannot reshape")])
def test_an_empty_batch_raises(name: str, words: str) -> None:
    with pytest.raises(Raised, match=words):
        designed(named(name).runnable(), Setting(40, batch_size=1), np.eye(40), 3, 30, empty_as_it_comes=True)
    # and the process goes on
    assert observe(named("hooks").runnable(), Setting(30, batch_size=10), 1, 2).denominators


def test_ghost_clipping_with_a_bound_that_moves_does_not_clip_a_record() -> None:
    """Its criterion reduces before it is weighted, so that all records have one weight: the mean of what each should have.

    One of a thousand times the bound among 99 that are a hundredth of it, all in every batch of one hundred.
    """
    rows = np.zeros((100, 100))
    rows[np.arange(100), np.arange(100)] = [1000.0, *[0.01] * 99]
    run = Request(Setting(100, batch_size=100), rows, 1e-6, 1.0, 1, seed=1)
    (clipped,), (not_clipped,) = (named(name).runnable().run(run) for name in ("ghost", "ghost-adaptive"))
    assert clipped[0] * 100.0 == pytest.approx(1.0, rel=1e-3)
    assert not_clipped[0] * 100.0 == pytest.approx(1000.0 * 0.99, rel=1e-2)


# --- a group of processes --------------------------------------------------------------------------------------------------

# Each does as it is told for its rank. Packages are put in place empty, as `start` does.
OBEDIENT = """
import os, sys, time, types
for name, path in (("noisymean", ""), ("noisymean.targets", "targets")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join({source!r}, "noisymean", path)]
from pathlib import Path
from noisymean.targets.processes.serving import answer_all

def answer(request):
    match request["say"][int(sys.argv[1])]:
        case "rank":
            return {{"rank": int(sys.argv[1]), "of": int(sys.argv[2])}}
        case "raise":
            raise ValueError("no such thing")
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(600)

answer_all(answer, Path(sys.argv[3]))
"""


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    source = str(Path(serving.__file__).parents[3])
    (tmp_path / "obedient.py").write_text(OBEDIENT.format(source=source))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    group = Group(2, module="obedient")
    yield group
    group.close()


def test_both_are_asked_and_answer_in_their_order(pair: Group) -> None:
    for _ in range(3):
        assert pair.ask({"say": ["rank", "rank"]}) == [{"rank": 0, "of": 2}, {"rank": 1, "of": 2}]
    assert pair.usable


@pytest.mark.parametrize(
    ("say", "seconds", "words"),
    [
        (["hang", "raise"], 60.0, "raises ValueError: no such thing"),
        (["exit", "hang"], 60.0, "ends its process: exit code 3"),
        (["rank", "hang"], 1.0, "does not answer within 1 seconds"),
    ],
)
def test_where_one_fails_both_are_ended(pair: Group, say: list[str], seconds: float, words: str) -> None:
    """The other one would wait for it."""
    with pytest.raises(GroupFault) as fault:
        pair.ask({"say": say}, seconds)
    assert str(fault.value) == words
    assert not pair.usable
    assert all(one.returncode is not None for one in pair.processes)
    assert not Path(pair.folder.name).exists()


def test_a_question_that_is_given_up_ends_them(pair: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Group, "_gathered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pair.ask({"say": ["rank", "rank"]})
    assert not pair.usable


# --- whole probes ----------------------------------------------------------------------------------------------------------

# where one record more is a batch more
RUN: dict[str, Any] = {"dataset_size": 30, "dimension": 10, "noise_multiplier": 1.0, "batch_size": 10}
# what the denominator is, whatever else there is
FLOOR = "int(N * (1/L)) in floating point, L = len(data_loader)"
# mode: the mechanism that has a name, how batches are drawn, and a word that the doubts have (none: there are none)
EXPECTED: dict[str, tuple[Kind, Sampling, str | None]] = {
    **dict.fromkeys(
        ("hooks", "functorch", "ghost", "per-layer", "wrap-model-false", "ghost-wrap-model-false"),
        (Kind.LOADER, Sampling.POISSON, None),
    ),
    "batch-memory-manager": (Kind.LOADER, Sampling.POISSON, None),
    "ghost-batch-memory-manager": (Kind.LOADER, Sampling.POISSON, None),
    "with-epsilon": (Kind.LOADER, Sampling.POISSON, None),
    "ew": (Kind.LOADER, Sampling.POISSON, "an empty batch raises RuntimeError"),
    "adaptive": (Kind.LOADER, Sampling.POISSON, "is divided by |B|, the exact size of the batch"),
    "sum": (Kind.SGM, Sampling.POISSON, None),
    "no-poisson": (Kind.UNKNOWN, Sampling.SHUFFLED, "batches are shuffled"),
    "rand-on-empty": (Kind.UNKNOWN, Sampling.POISSON, "is replaced by a record that nobody has, which has 1.000 C"),
    "ghost-adaptive": (Kind.UNKNOWN, Sampling.POISSON, "one record moves the clipped sum by at least"),
    **dict.fromkeys(TOGETHER, (Kind.UNKNOWN, Sampling.PARTS, "as if each of 2 parts of them were drawn again")),
}


def assert_expected(name: str, finding: Finding) -> None:
    kind, sampling, doubt = EXPECTED[name]
    assert (finding.kind, finding.rates.sampling) == (kind, sampling)
    assert bool(finding.doubts) == (doubt is not None)
    assert doubt is None or any(doubt in one.words for one in finding.doubts)
    denominator = {"sum": "1, a constant", "ghost-adaptive": "unknown"}.get(name, FLOOR)
    assert finding.denominator == denominator
    if sampling is not Sampling.SHUFFLED:
        assert finding.rates.law is RateLaw.LOADER
        assert any("changes the sampling rate" in words for words in leaks(finding))
    # each of them is exposed
    assert of_probe(finding, None, None).standing is Standing.VIOLATED
    if kind is Kind.LOADER and doubt is None and name != "with-epsilon":
        assert finding.mechanism(**RUN).name == "opacus-loader"
    else:
        with pytest.raises(Undefined):
            finding.mechanism(**RUN)
    if name != "ghost-adaptive":
        assert finding.noise.shares_denominator
        assert finding.noise.scale == pytest.approx(1.0, abs=0.02)
        assert finding.clipping.sensitivity == pytest.approx(1.0, abs=1e-3)


def test_every_mode_has_its_expectation() -> None:
    assert set(EXPECTED) == {one.name for one in MODES}


@pytest.mark.parametrize(
    "name", [name if name == "rand-on-empty" else pytest.param(name, marks=pytest.mark.slow) for name in EXPECTED]
)
def test_a_mode_is_what_it_is(name: str) -> None:
    assert_expected(name, probe_runnable(named(name).runnable(), seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_two_processes_divide_by_the_floor_and_each_has_half_of_it(name: str) -> None:
    """`expected_batch_size /= world_size`, and the mean over both processes: the floor in all."""
    for setting in SETTINGS:
        mode = named(name)
        share = math.sqrt(0.5) if mode.clip is Clip.PER_LAYER else 1.0
        seen = observe(mode.runnable(), setting, 1, 25)
        assert seen.denominators == pytest.approx([floor_of(setting) / share], rel=1e-4)
        found = mode.runnable().told(setting, rounds=8)
        assert (found.noise_multiplier, found.steps, found.processes) == (1.0, 8, 2)
        assert found.sample_rate == 1 / batches(setting)
        assert found.expected_batch_size == floor_of(setting) / 2
        # nobody is ever alone
        assert min(min(held) for held in found.held) >= 1


# --- the command -----------------------------------------------------------------------------------------------------------

NUMBERS = ("--dataset-size", "30", "--batch-size", "10", "--dimension", "200", "--noise-multiplier", "1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("probe", "opacus:none"), "must be opacus:NAME with NAME one of hooks"),
        (("probe", "opacus:ghost", "--clipping", "per_layer"), "must be opacus or opacus==X for these options"),
        (("audit", "opacus:none", *NUMBERS), "must be opacus:NAME with NAME one of hooks"),
        (("audit", "opacus:ghost", *NUMBERS, "--loss-reduction", "sum"), "a mode of Opacus does not use it"),
        (("audit", "opacus:ghost", *NUMBERS[:2], *NUMBERS[4:], "--sample-rate", "0.1"), "--batch-size"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], complaint: str) -> None:
    done = run(*words)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ghost", "ddp"])
def test_an_audit_of_a_mode_sees_the_batch_that_a_record_more_makes(name: str) -> None:
    """30 records are divided by 10 and 31 by 7: on 200 numbers that is seen in one step."""
    done = run("audit", f"opacus:{name}", *NUMBERS, "--trials", "400", "--seed", "1", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["verdict"] == "violated"
