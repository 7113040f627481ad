"""The field: what a denominator and a cohort are read as, what makes a row exposed, rows that are kept, and how they are shown.

Nothing is installed and no library is started: what is run here has a law that is known beforehand.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from test_json import valid, written

from command_line import run
from noisymean import __version__
from noisymean.cli import field as cli_field
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.field import Exposed, Row, chosen, kept, run_field, running
from noisymean.field.claims import STATED, Assumed, Claim, claims_of
from noisymean.field.cohorts import Cohorts, Drawn, cohorts_of
from noisymean.field.denominators import Denominator, agreed, denominator_of
from noisymean.field.question import BATCH, DELTA, NUMBERS, RATE, RECORDS, STEPS
from noisymean.field.rows import Lost, Observed, Sampler, Told
from noisymean.field.sources import Found, Quote, found
from noisymean.field.subjects import SUBJECTS, NotRun, OpacusWay, Way, environments_of
from noisymean.field.verdicts import drawn_as, exposure, lost_of
from noisymean.mechanisms import Adjacency
from noisymean.numerics.logs import Array
from noisymean.probe.finding import Calibrated, Clipping, Finding, Noise, RateLaw, Rates, Remark, Sampling, Severity
from noisymean.probe.laws import Kind
from noisymean.report import field_page, field_record, field_words
from noisymean.schema import SCHEMA
from noisymean.targets.libraries.environments import Environment
from noisymean.targets.opacus_modes.modes import MODES
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.protocol import BuiltIn, Knob, Raised, Request, Runnable
from noisymean.targets.registry import runnable_named

Members: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# --- what is read off releases -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut(Runnable):
    """Batches of b by a rule, gradients clipped at C, noise, over a divisor."""

    draw: Callable[[np.random.Generator, int, int, int], Members]
    divisor: Callable[[int, int, int], float]

    @property
    def name(self) -> str:
        return "cut"

    @property
    def knob(self) -> Knob:
        return Knob.BATCH_SIZE

    def run(self, run: Request) -> Array:
        generator = np.random.default_rng(run.seed)
        size, b = len(run.gradients), run.setting.batch_size
        lengths = np.linalg.norm(run.gradients, axis=1, keepdims=True)
        rows = run.gradients * np.minimum(1.0, run.max_grad_norm / np.maximum(lengths, 1e-300))
        released = []
        for t in range(run.rounds):
            batch = self.draw(generator, t, size, b)
            noise = run.noise_multiplier * run.max_grad_norm * generator.standard_normal(rows.shape[1])
            released.append((rows[batch].sum(axis=0) + noise) / self.divisor(size, b, len(batch)))
        return np.array(released)


def in_order(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
    return np.arange(t * b, (t + 1) * b) % size


def shuffled(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
    epoch, place = divmod(t, max(1, size // b))
    order = np.random.default_rng([size, epoch]).permutation(size)
    return order[place * b : (place + 1) * b]


def fixed(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
    return generator.choice(size, min(b, size), replace=False)


def repeated(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
    return generator.integers(0, size, b)


def poisson(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
    return np.flatnonzero(generator.random(size) < b / size)


def of_b(size: int, b: int, seen: int) -> float:
    return float(b)


def of_batch(size: int, b: int, seen: int) -> float:
    return float(max(seen, 1))


def of_size(size: int, b: int, seen: int) -> float:
    return size / 25


@pytest.mark.parametrize(
    ("draw", "drawn"),
    [
        (in_order, Drawn.IN_ORDER),
        (shuffled, Drawn.SHUFFLED),
        (fixed, Drawn.FIXED_SIZE),
        (repeated, Drawn.WITH_REPLACEMENT),
        (poisson, Drawn.UNKNOWN),
    ],
)
@pytest.mark.parametrize("divisor", [of_b, of_batch])
def test_how_batches_of_one_size_are_drawn(draw: Any, drawn: Drawn, divisor: Any) -> None:
    seen = cohorts_of(Cut(draw, divisor), 3)
    assert seen is not None
    assert seen.drawn is drawn
    if drawn is Drawn.UNKNOWN:
        assert seen.sizes[0] < seen.size < seen.sizes[1]
        assert (seen.divided_by is None) == (divisor is of_batch)
    else:
        # repeats are counted: with them, too, b members are divided by b
        assert seen.sizes == (seen.size, seen.size)
        assert seen.divided_by == (seen.size, seen.size)


def test_a_divisor_of_n_is_another_number_at_one_record_more() -> None:
    seen = cohorts_of(Cut(fixed, of_size), 3)
    assert seen is not None
    assert seen.divided_by == (12.0, 12.04)


def test_what_raises_or_is_handed_batches_has_no_cohorts() -> None:
    def raises(*_: object) -> Members:
        raise Raised("raises no")

    assert cohorts_of(Cut(raises, of_b), 0) is None
    assert cohorts_of(runnable_named("synthetic:asgm", BuiltIn()), 0) is None


@pytest.mark.parametrize(("name", "kind"), [(one.value, one) for one in (Kind.SGM, Kind.EASGM, Kind.ASGM, Kind.FEASGM)])
def test_a_denominator_is_the_one_that_was_run(name: str, kind: Kind) -> None:
    seen = denominator_of(runnable_named(f"synthetic:{name}", BuiltIn()), 5)
    assert seen.kind is kind
    assert [one.run for one in seen.seen] == ["N=25 q=3/10", "N=26 q=3/10", "N=9 q=1/2", "N=10 q=1/2"]
    by_run = {one.run: one.divided_by for one in seen.seen}
    # N q and its floor, by hand
    expected = {
        Kind.SGM: [(1.0, 1.0)] * 4,
        Kind.EASGM: [(7.5, 7.5), (7.8, 7.8), (4.5, 4.5), (5.0, 5.0)],
        Kind.FEASGM: [(7.0, 7.0), (7.0, 7.0), (4.0, 4.0), (5.0, 5.0)],
    }
    if kind in expected:
        assert [by_run[one.run] for one in seen.seen] == [pytest.approx(pair, rel=1e-3) for pair in expected[kind]]


def test_a_denominator_of_batches_that_are_cut() -> None:
    """b whatever N is; |B| of Poisson batches; N/25 is no law that is known here."""
    assert denominator_of(Cut(fixed, of_b), 5).kind is Kind.SGM
    assert denominator_of(Cut(poisson, of_batch), 5).kind is Kind.ASGM
    assert denominator_of(Cut(poisson, of_size), 5).kind is Kind.UNKNOWN


def test_where_it_raises_is_said_and_the_rest_is_read() -> None:
    def only_whole(generator: np.random.Generator, t: int, size: int, b: int) -> Members:
        if size % b:
            raise Raised("raises ValueError: not whole")
        return fixed(generator, t, size, b)

    seen = denominator_of(Cut(only_whole, of_b), 5)
    assert seen.kind is Kind.SGM
    assert "at N=25 b=10 it raises ValueError: not whole" in seen.raised
    assert [one.run for one in seen.seen] == ["N=30 b=10", "N=49 b=1", "N=50 b=1", "N=98 b=2"]


def test_two_runs_that_do_not_agree_are_not_known() -> None:
    constant = Denominator(Kind.SGM, "12, a constant", ())
    assert agreed(constant, Kind.SGM) is constant
    # a finding that names nothing says nothing about the denominator
    assert agreed(constant, Kind.UNKNOWN) is constant
    other = agreed(constant, Kind.ASGM)
    assert other.kind is Kind.UNKNOWN
    assert "asgm" in other.words


# --- what makes a row ---------------------------------------------------------------------------------------------------


def finding(
    kind: Kind = Kind.UNKNOWN,
    sampling: Sampling = Sampling.POISSON,
    *,
    law: RateLaw | None = None,
    moves: bool = False,
    shares: bool | None = True,
    sensitivity: float = 1.0,
    remarks: tuple[Remark, ...] = (),
    calibrated: tuple[Calibrated, ...] = (),
) -> Finding:
    return Finding(
        target="toy==1.0, plain",
        kind=kind,
        denominator="a number",
        noise=Noise(shares, 1.0, 0.01, 1.0, calibrated=calibrated),
        clipping=Clipping(1.0, None, sensitivity, additive=True),
        rates=Rates(sampling, law, moves),
        empty_batch="is a step of noise alone",
        remarks=remarks,
        evidence=(),
        seed=0,
    )


def denominator(kind: Kind) -> Denominator:
    return Denominator(kind, "a number", ())


OF_ONE_SIZE = Cohorts(Drawn.WITH_REPLACEMENT, 12, (12, 12), (12.0, 12.0))
OPEN = (Remark(Severity.UNKNOWN, "something"),)


@pytest.mark.parametrize(
    ("seen", "kind", "cohorts", "sampler", "word"),
    [
        (finding(), Kind.SGM, None, Sampler.POISSON, Exposed.NO),
        (finding(sampling=Sampling.GIVEN), Kind.SGM, None, Sampler.GIVEN, Exposed.NO),
        # |B| is the caller's where batches are, and nobody's where the library draws them
        (finding(sampling=Sampling.GIVEN), Kind.ASGM, None, Sampler.GIVEN, Exposed.CALLER),
        (finding(), Kind.ASGM, None, Sampler.POISSON, Exposed.YES),
        *((finding(), kind, None, Sampler.POISSON, Exposed.YES) for kind in (Kind.EASGM, Kind.FEASGM, Kind.LOADER)),
        (finding(), Kind.INDEPENDENT, None, Sampler.POISSON, Exposed.YES),
        (finding(), Kind.UNKNOWN, None, Sampler.POISSON, Exposed.UNKNOWN),
        # a constant does not help where the rate or the noise follows N
        (finding(law=RateLaw.SHARE, moves=True), Kind.SGM, None, Sampler.POISSON, Exposed.YES),
        (finding(calibrated=(Calibrated("N", 1.0, 2.0, 0.01),)), Kind.SGM, None, Sampler.POISSON, Exposed.YES),
        (finding(calibrated=(Calibrated("N", 1.0, 1.001, 0.01),)), Kind.SGM, None, Sampler.POISSON, Exposed.NO),
        # where batches have one size there is no rate to follow N
        (finding(moves=True), Kind.SGM, None, Sampler.SHUFFLED, Exposed.NO),
        # where nobody knows how they are drawn, nobody knows whether a rate follows N
        (finding(sampling=Sampling.UNKNOWN), Kind.SGM, None, Sampler.UNKNOWN, Exposed.UNKNOWN),
        # noise over another number: never a constant
        (finding(shares=False), Kind.SGM, None, Sampler.POISSON, Exposed.UNKNOWN),
        (finding(shares=False, sampling=Sampling.GIVEN), Kind.ASGM, None, Sampler.GIVEN, Exposed.CALLER),
        (finding(shares=False, sampling=Sampling.GIVEN), Kind.UNKNOWN, None, Sampler.GIVEN, Exposed.UNKNOWN),
        # whatever it is divided by, a rate that follows N is seen
        (finding(shares=False, law=RateLaw.SHARE, moves=True), Kind.UNKNOWN, None, Sampler.POISSON, Exposed.YES),
        # cohorts of one size, divided by it
        (finding(shares=False), Kind.UNKNOWN, OF_ONE_SIZE, Sampler.WITH_REPLACEMENT, Exposed.NO),
        (finding(), Kind.UNKNOWN, replace(OF_ONE_SIZE, divided_by=(12.0, 12.04)), Sampler.FIXED_SIZE, Exposed.UNKNOWN),
        (finding(), Kind.UNKNOWN, replace(OF_ONE_SIZE, sizes=(11, 13)), Sampler.UNKNOWN, Exposed.UNKNOWN),
        (finding(), Kind.UNKNOWN, replace(OF_ONE_SIZE, divided_by=None), Sampler.FIXED_SIZE, Exposed.UNKNOWN),
    ],
)  # fmt: skip
def test_exposed(seen: Finding, kind: Kind, cohorts: Cohorts | None, sampler: Sampler, word: Exposed) -> None:
    found = exposure(seen, denominator(kind), cohorts, sampler)
    assert found.word is word
    assert found.because


def test_a_sum_that_moves_by_more_is_said_where_nothing_else_is_known() -> None:
    found = exposure(finding(sensitivity=1.085), denominator(Kind.UNKNOWN), None, Sampler.GIVEN)
    assert "1.085 C" in found.because


def test_what_was_drawn_in_the_words_of_a_row() -> None:
    assert {drawn_as(replace(OF_ONE_SIZE, drawn=one)) for one in Drawn} == {
        Sampler.IN_ORDER, Sampler.SHUFFLED, Sampler.FIXED_SIZE, Sampler.WITH_REPLACEMENT, Sampler.UNKNOWN
    }  # fmt: skip
    assert drawn_as(None) is Sampler.UNKNOWN


def poisson_claim(epsilon: float) -> tuple[Claim, ...]:
    return (Claim("toy", epsilon, Assumed.POISSON, Adjacency.ADD_REMOVE, None),)


def test_a_constant_under_poisson_sampling_holds_and_no_doubt_is_left_out() -> None:
    """The noisy sum at q = 1/100, sigma = 1, T = 100, delta = 1e-5: epsilon 0.718, by dp-accounting 0.718037."""
    clear = lost_of(finding(Kind.SGM), denominator(Kind.SGM), Sampler.POISSON, None, ())
    assert clear is not None
    assert (clear.verdict, clear.steps, clear.adjacency) == ("holds", STEPS, "add-remove")
    assert clear.guarantee == pytest.approx(0.718037, abs=1e-5)
    doubted = lost_of(finding(Kind.SGM, remarks=OPEN), denominator(Kind.SGM), Sampler.POISSON, None, ())
    assert doubted is not None
    assert (doubted.verdict, doubted.guarantee) == ("undetermined", None)


def test_a_claim_is_violated_only_if_more_is_lost_than_the_library_says_itself() -> None:

    def lost(claims: tuple[Claim, ...]) -> Lost:
        found = lost_of(finding(Kind.ASGM), denominator(Kind.ASGM), Sampler.POISSON, None, claims)
        assert found is not None
        return found

    plain = lost(())
    assert plain.leakage is not None
    assert plain.claimed is not None
    assert plain.leakage > plain.claimed
    assert plain.verdict == "violated"
    said_less = lost(poisson_claim(1.2))
    said_more = lost(poisson_claim(plain.leakage * 1.01))
    # a number for other batches is none for these
    others = replace(poisson_claim(plain.leakage * 1.01)[0], assumes=Assumed.ONCE_PER_EPOCH)
    said_of_others = lost((others,))
    assert [one.verdict for one in (said_less, said_more, said_of_others)] == ["violated", "undetermined", "violated"]


@pytest.mark.parametrize("sampler", [Sampler.SHUFFLED, Sampler.IN_ORDER, Sampler.FIXED_SIZE])
def test_other_batches_lose_what_is_certain_and_have_no_guarantee(sampler: Sampler) -> None:
    """One epoch of 100 batches at sigma = 1: docs/sampling.md; a peer says at least 4.063 for shuffled ones (Chua et al. 2024)."""
    lost = lost_of(finding(), denominator(Kind.SGM), sampler, None, poisson_claim(0.72))
    assert lost is not None
    assert (lost.verdict, lost.guarantee, lost.adjacency) == ("violated", None, "zero-out")
    assert lost.leakage is not None
    assert lost.leakage > 4.06


@pytest.mark.parametrize(
    ("seen", "kind", "sampler"),
    [
        (finding(), Kind.SGM, Sampler.WITH_REPLACEMENT),
        (finding(), Kind.SGM, Sampler.UNKNOWN),
        (finding(), Kind.UNKNOWN, Sampler.SHUFFLED),
        (finding(), Kind.ASGM, Sampler.SHUFFLED),
        # noise, or a bound, that is not what was set
        (finding(shares=False), Kind.SGM, Sampler.SHUFFLED),
        (replace(finding(), clipping=Clipping(0.7, None, 1.0, True)), Kind.SGM, Sampler.SHUFFLED),
        (replace(finding(), noise=Noise(True, 0.5, 0.01, 1.0)), Kind.SGM, Sampler.SHUFFLED),
    ],
)
def test_what_nothing_here_covers_has_no_numbers(seen: Finding, kind: Kind, sampler: Sampler) -> None:
    assert lost_of(seen, denominator(kind), sampler, None, ()) is None


def test_a_mechanism_that_cannot_be_accounted_for_says_why() -> None:
    """A constant at the rate of a loader: 600 divides 60,000, so one record more changes that rate."""
    seen = finding(Kind.SGM, law=RateLaw.LOADER, moves=True)
    lost = lost_of(seen, denominator(Kind.SGM), Sampler.POISSON, None, ())
    assert lost is not None
    assert (lost.leakage, lost.guarantee, lost.verdict) == (None, None, "undetermined")
    assert "1/ceil(N/b)" in lost.because


def test_the_one_run_is_what_every_accounting_is_asked_about() -> None:
    assert RATE * RECORDS == BATCH
    assert RECORDS % BATCH == 0
    assert (NUMBERS["dataset_size"], NUMBERS["sample_rate"]) == (RECORDS, RATE)
    assert DELTA < 1.0 / STEPS


# --- subjects, sources, claims -----------------------------------------------------------------------------------------


def test_a_library_is_all_of_its_ways_and_a_way_is_one() -> None:
    assert chosen([]) == SUBJECTS
    assert [one.name for one in chosen(["pfl"])] == ["pfl", "pfl:random", "pfl:minimize-reuse"]
    assert [one.name for one in chosen(["opacus:ghost", "fastDP"])] == ["opacus:ghost", "fastDP"]
    assert {one.mode for one in chosen(["opacus"]) if isinstance(one, OpacusWay)} == set(MODES)
    assert len({one.name for one in SUBJECTS}) == len(SUBJECTS)
    with pytest.raises(InvalidInput, match=r"^only='optix': must be one of optax, "):
        chosen(["optix"])


def test_only_what_is_chosen_needs_an_environment() -> None:
    assert environments_of(chosen(["opacus", "fastDP"])) == ()
    assert [one.library for one in environments_of(chosen(["optax", "pfl"]))] == ["optax", "pfl"]


def test_every_way_has_a_statement_to_look_for_and_every_accounting_a_line() -> None:
    for one in SUBJECTS:
        if not isinstance(one, NotRun):
            assert one.quotes
    assert set(STATED) <= {one.name for one in SUBJECTS} | {one.library for one in SUBJECTS}
    assert "optax" not in STATED


def test_a_statement_is_found_by_its_text(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_bytes(b"\xff\nx = 1\n  y = grads / size\nz = grads / size\n")
    there, gone, nowhere = (
        Quote("inner/a.py", "grads / size"), Quote("inner/a.py", "grads * size"), Quote("b.py", "grads / size"),
    )  # fmt: skip
    assert found((there, gone, nowhere), tmp_path) == (Found("inner/a.py:3", "grads / size"),)
    assert replace(there, after="y = grads").place(tmp_path) == "inner/a.py:3"
    assert replace(there, text="grads", after="z = ").place(tmp_path) == "inner/a.py:4"
    assert replace(there, after="no such line").place(tmp_path) is None


def test_a_claim_is_what_was_said_and_an_adjacency_that_is_not_named_is_none(tmp_path: Path) -> None:
    said = {"poisson": 1.5, "once": 4.5, "poisson, microbatches": 8.0, "once, microbatches": 10.0}
    plain = claims_of("tensorflow-privacy:model", said, tmp_path)
    assert [(one.epsilon, one.assumes) for one in plain] == [(1.5, Assumed.POISSON), (4.5, Assumed.ONCE_PER_EPOCH)]
    assert [one.epsilon for one in claims_of("tensorflow-privacy:one-microbatch", said, tmp_path)] == [8.0, 10.0]
    assert claims_of("optax", {}, tmp_path) == claims_of("objax", {}, tmp_path) == ()
    (pfl,) = claims_of("pfl:random", {"PLDPrivacyAccountant": 0.7}, tmp_path)
    # its line is not in an empty folder, and nothing is made up
    assert (pfl.adjacency, pfl.place) == (None, None)


# --- rows that are kept ------------------------------------------------------------------------------------------------


def row(name: str, word: Exposed = Exposed.NO, fault: str | None = None, **more: Any) -> Row:
    seen = Observed(
        finding(Kind.SGM, remarks=OPEN), denominator(Kind.SGM), OF_ONE_SIZE, poisson_claim(0.72),
        (Found("a.py:3", "grads / size"),), Told("N=30 b=10", 1.0, 1 / 3, 3),
    )  # fmt: skip
    lost = Lost("sgm", "Poisson", "add-remove", 100, 0.718, 0.717, None, "undetermined", "something")
    ran: dict[str, Any] = {} if fault is not None else {"observed": seen, "lost": lost, "packages": {"numpy": "2.0"}}
    library = name.partition(":")[0]
    return Row(
        name,
        library,
        "1.0",
        "plain",
        word,
        "so it is",
        Sampler.POISSON,
        "2026-01-02",
        1.5,
        fault=fault,
        **{**ran, **more},
    )


@pytest.fixture
def subjects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Way, ...]:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return tuple(one for one in chosen(["pfl", "flwr"]) if isinstance(one, Way))


class Running:
    """Stands for `row_of`: what was run, and where it is interrupted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: str | None = None, faulty: str | None = None) -> None:
        self.names: list[str] = []
        self.stop, self.faulty = stop, faulty
        monkeypatch.setattr(running, "row_of", self)

    def __call__(self, subject: Way, **_: object) -> Row:
        if subject.name == self.stop:
            raise KeyboardInterrupt
        self.names.append(subject.name)
        return replace(row(subject.name, fault="no" if subject.name == self.faulty else None), version=subject.version)


def test_rows_are_the_same_after_they_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path))
    one = row("toy:way")
    assert Row.from_plain(written(one.to_plain())) == one
    kept.keep(one)
    assert kept.kept("toy:way", "1.0") == one
    assert kept.kept("toy:way", "1.1") is None
    assert [file.name for file in (tmp_path / "field").iterdir()] == [kept.place("toy:way", "1.0").name]


def test_a_run_that_was_interrupted_goes_on_where_it_was(
    subjects: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [one.name for one in subjects]
    first = Running(monkeypatch, stop=names[2])
    with pytest.raises(KeyboardInterrupt):
        run_field(subjects)
    assert first.names == names[:2]
    second = Running(monkeypatch)
    told: list[tuple[str, int, int]] = []
    rows = run_field(subjects, progress=lambda one, done, total: told.append((one.name, done, total)))
    assert second.names == names[2:]
    assert [one.name for one in rows] == names
    assert told == [(name, done, len(names)) for done, name in enumerate(names, 1)]
    again = Running(monkeypatch)
    assert run_field(subjects, fresh=True) == rows
    assert again.names == names


def test_what_failed_is_tried_again_and_what_is_damaged_counts_as_none(
    subjects: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [one.name for one in subjects]
    Running(monkeypatch, faulty=names[1])
    assert run_field(subjects)[1].fault == "no"
    kept.place(names[0], subjects[0].version).write_text("{", encoding="utf-8")
    kept.place(names[2], subjects[2].version).write_text('{"name": "pfl"}', encoding="utf-8")
    second = Running(monkeypatch)
    run_field(subjects)
    assert second.names == [names[0], names[1], names[2]]


def test_what_cannot_be_installed_is_a_row_like_any_other(
    subjects: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(environment: Environment, tell: object) -> Environment:
        raise InstallFailed(f"{environment.title}: No matching distribution found")

    monkeypatch.setattr(running, "built", refuse)
    for one in run_field(subjects):
        assert one.fault == f"{one.library}=={one.version}: No matching distribution found"
        assert (one.exposed, one.observed, one.lost) == (Exposed.UNKNOWN, None, None)
        assert kept.kept(one.name, one.version) is None
        valid("field", written({**field_record.record([one], __version__), "schema": SCHEMA}))


def test_nothing_is_installed_where_it_was_not_to_be(
    subjects: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(running, "built", never)
    monkeypatch.setattr(running, "run_pip", never)
    faults = [one.fault for one in run_field((*subjects, *chosen(["fastDP"])), installed_only=True)]
    assert all(fault is not None and "not installed here, and nothing was to be installed" in fault for fault in faults)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("No matching distribution found for toy", "toy==2.0: could not be installed: No matching distribution"),
        ("", "pip gave no reason; check the network"),
        (None, "toy==2.0: could be installed; how it is run is not written yet"),
    ],
)
def test_what_is_not_run_says_whether_it_could_be_installed_and_what_was_read(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, said: str
) -> None:
    asked: list[tuple[str, ...]] = []

    def pip(what: str, packages: list[str], *options: str, **_: object) -> str | None:
        asked.append((what, *packages, *options[:1]))
        return answer

    monkeypatch.setattr(running, "run_pip", pip)
    (one,) = run_field([NotRun("toy", "2.0", "divides by a constant")])
    assert said in (one.fault or "")
    # asked, and not installed
    assert asked == [("install", "toy==2.0", "--dry-run")]
    assert one.exposed is Exposed.UNKNOWN
    assert one.read == "divides by a constant"
    assert "not run" in one.because


def test_a_mode_of_opacus_without_opacus_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise NoisymeanError("opacus: not installed; pip install 'noisymean[audit]'")

    monkeypatch.setattr(running, "installed_version", missing)
    (one,) = run_field(chosen(["opacus:hooks"]))
    assert one.fault == "opacus: not installed; pip install 'noisymean[audit]'"


# --- how they are shown ------------------------------------------------------------------------------------------------


@pytest.fixture
def rows() -> tuple[Row, ...]:
    caller = replace(row("optax"), exposed=Exposed.CALLER, sampler=Sampler.GIVEN)
    return (
        row("toy"),
        row("toy:other"),
        caller,
        row("opacus:ghost-batch-memory-manager", Exposed.YES),
        row("broken", Exposed.UNKNOWN, fault="broken==1.0: <script>alert(1)</script> could not be installed"),
        replace(row("pfl:random"), lost=None),
    )


def test_the_json_obeys_its_schema(rows: tuple[Row, ...]) -> None:
    record = {**field_record.record(rows, __version__), "schema": SCHEMA}
    valid("field", written(record))
    for key in ("name", "exposed", "because", "sampler", "observed", "lost", "fault", "date"):
        broken = written(record)
        del broken["rows"][0][key]
        with pytest.raises(AssertionError):
            valid("field", broken)
    # a row that was not run is not known, whatever it says
    guessed = written(record)
    guessed["rows"][4]["exposed"] = "no"
    with pytest.raises(AssertionError):
        valid("field", guessed)


def test_the_page_is_one_file_in_which_every_text_is_escaped(rows: tuple[Row, ...]) -> None:
    page = field_page.page(rows, command="noisymean field")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.partition("<main>")[2]
    for one in rows:
        assert one.name in page
    assert "yes (1), no (3), depends on the caller (1), not known (1)" in page


def test_rows_that_say_the_same_are_one_sentence(rows: tuple[Row, ...]) -> None:
    said = field_words.grouped(rows)
    assert said[0] == "toy, toy:other, pfl:random: no: so it is"
    assert sum("broken==1.0" in one for one in said) == 1


@pytest.fixture
def shown(rows: tuple[Row, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def fake(subjects: Any, **options: Any) -> list[Row]:
        asked.append({"subjects": [one.name for one in subjects], **options})
        for done, one in enumerate(rows, 1):
            options["progress"](one, done, len(rows))
        return list(rows)

    monkeypatch.setattr(cli_field, "run_field", fake)
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path / "cache"))
    return asked


def test_the_table_fits_and_says_beforehand_what_is_installed(shown: list[dict[str, Any]]) -> None:
    done = run("field", "--only", "optax", "--only", "pfl:random")
    assert done.code == 0, done.err
    assert shown[0]["subjects"] == ["optax", "optax:dpsgd", "pfl:random"]
    first = done.err.splitlines()[0]
    assert first.startswith("to be installed in ")
    megabytes = [one.megabytes for one in environments_of(chosen(["optax", "pfl"]))]
    listed = "about {} MB in all: optax==0.2.8 ({} MB), pfl==0.6.0 ({} MB)"
    assert listed.format(sum(megabytes), *megabytes) in first
    table = done.out[: done.out.index("Exposed: ")]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert "0.72" in table
    assert "5 of 6: broken" in done.err


def test_what_is_left_out_is_said(shown: list[dict[str, Any]]) -> None:
    done = run("field", "--only", "optax", "--only", "fastDP", "--installed")
    assert shown[0]["installed_only"] is True
    assert done.err.splitlines()[0] == "not installed here, and left out: optax==0.2.8, fastDP"


def test_json_and_page_from_the_command_line(shown: list[dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "field.html"
    done = run("field", "--fresh", "--json", "--html", str(page))
    assert done.code == 0, done.err
    valid("field", json.loads(done.out))
    assert shown[0]["fresh"] is True
    assert "The field, by running it" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "optix"), "--only=optix: must be one of optax, objax, "),
        (("--only", "pfl:cohort"), "--only=pfl:cohort: must be one of pfl, pfl:random, pfl:minimize-reuse;"),
        (("--html", "field.txt"), "--html=field.txt: must be a file named *.html"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_run(
    shown: list[dict[str, Any]], words: tuple[str, ...], said: str
) -> None:
    done = run("field", *words)
    assert (done.code, shown) == (2, [])
    assert len(done.err.splitlines()) == 1
    assert said in done.err


# --- the page that is kept ---------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


def test_the_record_of_the_documents_obeys_the_schema_and_names_no_machine() -> None:
    text = (DOCS / "field.json").read_text(encoding="utf-8")
    record = json.loads(text)
    valid("field", record)
    assert [one["name"] for one in record["rows"]] == [one.name for one in SUBJECTS]
    # places in sources are below the folder of their package
    assert not [word for word in text.split() if word.lstrip('("').startswith(("/", "~", "C:")) and len(word) > 2]


def test_the_page_of_the_documents_is_made_from_that_record() -> None:
    script = DOCS / "scripts" / "page_of_the_field.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, check=False)
    assert done.returncode == 0, "run python docs/scripts/page_of_the_field.py"


def test_ways_of_a_statement_are_those_of_its_own_library() -> None:
    """`5 of Opacus` once stood beside a line of jax-privacy."""
    page = (DOCS / "field.md").read_text(encoding="utf-8")
    counted = re.findall(r"^\| ([\w-]+) \| `.*\| \d+ of ([\w-]+) \|$", page, re.MULTILINE)
    assert {library for library, _ in counted} == {"jax-privacy", "opacus"}
    assert all(library == other for library, other in counted)


def test_no_row_of_the_documents_is_a_guess() -> None:
    """A row that was not run is not known; a constant was read at N and at N + 1; what holds has a guarantee."""
    for plain in json.loads((DOCS / "field.json").read_text(encoding="utf-8"))["rows"]:
        one = Row.from_plain(plain)
        if one.observed is None:
            assert one.exposed is Exposed.UNKNOWN
            continue
        seen = one.observed
        if one.exposed is Exposed.NO:
            constant = {number for at in seen.denominator.seen for number in at.divided_by or ()}
            cohorts = seen.cohorts is not None and seen.cohorts.divided_by is not None
            assert (seen.denominator.kind is Kind.SGM and constant) or cohorts
        if one.lost is not None and one.lost.verdict == "holds":
            assert one.lost.guarantee is not None
            assert seen.finding.doubts == ()


def test_a_violated_claim_is_no_good_news_whatever_is_divided_by() -> None:
    """Batches that are shuffled over a constant: not exposed, and the claim is violated all the same."""
    plain = json.loads((DOCS / "field.json").read_text(encoding="utf-8"))["rows"]
    rows = {row.name: row for row in map(Row.from_plain, plain)}
    shown = {name: field_page._line(row) for name, row in rows.items()}
    assert rows["jax-privacy:keras"].exposed is Exposed.NO
    assert (shown["jax-privacy:keras"].look, shown["jax-privacy:keras"].look_of_verdict) == ("", "bad")
    assert "good" not in {one.look for one in shown.values()}
    assert {name for name, one in shown.items() if one.look_of_verdict == "good"} == {
        name for name, row in rows.items() if row.lost is not None and row.lost.verdict == "holds"
    }
