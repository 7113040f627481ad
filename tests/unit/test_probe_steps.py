"""Whole steps with one bug each: none gets a guarantee, each is told what it is; and none of the correct ones is accused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from noisymean.errors import InvalidInput, Undefined
from noisymean.probe import Kind, probe
from noisymean.probe.digits import remarks_of_digits
from noisymean.probe.finding import Finding, Severity
from noisymean.targets.functions import FunctionOfGradients
from noisymean.targets.protocol import Raised, Request, Setting
from planted import Array, Generator, Round
from planted_noise import drawn
from planted_steps import BUGS, TWINS, Momentum

# one of each kind; the others are as slow together as all of the rest of the file
_FIRST = (
    "noise in float16", "noise where the sum is not zero", "noise for every record", "the last noise, shuffled",
    "noise from a pool", "the root of sigma", "the share that was clipped beside",
    "a learning rate by the root of the batch", "momentum before the noise", "clipping by the square",
    "microbatches of four", "shuffled epochs", "nothing for an empty batch",
)  # fmt: skip
_FIRST_TWINS = (
    "noise drawn in single precision",
    "a release in two layers",
    "momentum",
    "a learning rate that decays",
    "Adam",
)
SLOW = pytest.mark.slow
_BUGS = [*_FIRST, *(pytest.param(name, marks=SLOW) for name in BUGS if name not in _FIRST)]
_TWINS = [*_FIRST_TWINS, *(pytest.param(name, marks=SLOW) for name in TWINS if name not in _FIRST_TWINS)]


def accusations(finding: Finding) -> list[str]:
    return [one.words for one in finding.doubts if one.severity in (Severity.LEAK, Severity.FAULT)]


def assert_found(finding: Finding, word: str) -> None:
    assert any(word in remark.words for remark in finding.doubts), finding.remarks
    with pytest.raises(Undefined):
        finding.mechanism(dataset_size=1000, dimension=100, noise_multiplier=1.0, sample_rate="1/100")


@pytest.mark.parametrize("name", _BUGS)
def test_a_step_with_a_bug_is_told_what_it_is_and_gets_no_guarantee(name: str) -> None:
    build, word = BUGS[name]
    assert word
    assert_found(probe(build(), seed=0, rounds=20), word)


@SLOW
@pytest.mark.parametrize("name", BUGS)
def test_a_step_with_a_bug_gets_no_guarantee_whatever_the_seed(name: str) -> None:
    build, word = BUGS[name]
    for seed in range(1, 11):
        assert_found(probe(build(), seed=10_000 * seed, rounds=50), word)


@pytest.mark.parametrize("name", _TWINS)
def test_a_correct_step_is_not_accused(name: str) -> None:
    build, kind = TWINS[name]
    finding = probe(build(), seed=0, rounds=20)
    assert finding.kind.value == kind
    assert accusations(finding) == []
    assert bool(finding.doubts) is (kind == "unknown")


@SLOW
@pytest.mark.parametrize("name", TWINS)
def test_a_correct_step_is_never_accused(name: str) -> None:
    build, kind = TWINS[name]
    for seed in range(1, 21):
        finding = probe(build(), seed=10_000 * seed)
        assert (finding.kind.value, accusations(finding)) == (kind, [])


# --- what comes beside a release -----------------------------------------------------------------------------------------


def test_what_comes_in_front_of_a_release_is_found_there() -> None:
    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Array:
        batch = drawn(gradients, generator, sample_rate, max_grad_norm)
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
        return np.concatenate([[len(batch)], (batch.sum(axis=0) + noise) / 7.0])

    assert_found(probe(release, seed=0, rounds=10), "a number: the exact size of the batch")


def test_a_noisy_count_beside_is_not_certified_and_goes_along_with_the_size() -> None:
    """Of noise that hides most of it: |B| of 12 +- 2.4 under noise of 2.4."""

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> tuple[Array, float]:
        batch = drawn(gradients, generator, sample_rate, max_grad_norm)
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
        return (batch.sum(axis=0) + noise) / 7.0, len(batch) + 2.4 * noise_multiplier * generator.standard_normal()

    assert_found(probe(release, seed=0, rounds=10), "beside its release it returns a number")


def test_numbers_that_tell_nothing_are_no_doubt() -> None:
    class Counting:
        rounds = 0

        def __call__(
            self,
            gradients: Array,
            generator: Generator,
            *,
            sample_rate: float,
            noise_multiplier: float,
            max_grad_norm: float,
        ) -> dict[str, object]:
            self.rounds += 1
            batch = drawn(gradients, generator, sample_rate, max_grad_norm)
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return {"update": (batch.sum(axis=0) + noise) / 7.0, "step": self.rounds, "rate": 0.1}

    finding = probe(Counting(), seed=0, rounds=10)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())
    assert [one.words for one in finding.remarks] == [
        "beside its release it returns a number (step): a count of rounds",
        "beside its release it returns a number (rate): the same in every round, whatever is in the batch",
    ]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("{'update': found, 'note': 'fine'}", "returns note, which is text and no number: it must return"),
        ("(found, None)", "returns a part, which is nothing and no number: it must return"),
        ("(found[:-1], [1.0] * 7)", "numbers, none of which is the release: it must return"),
        ("1j * found", "returns complex numbers"),
    ],
)
def test_what_cannot_be_understood_is_refused_in_a_line(tmp_path: Path, returned: str, words: str) -> None:
    (tmp_path / "odd.py").write_text(
        "def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):\n"
        "    found = generator.standard_normal(gradients.shape[1])\n"
        f"    return {returned}\n"
    )
    done = run("probe", f"{tmp_path / 'odd.py'}:release")
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_a_release_that_is_asked_for_alone_has_nothing_beside_it() -> None:
    """Whoever asks for the release without saying so would lose what comes beside it."""
    subject = FunctionOfGradients(BUGS["the size in a dictionary"][0]())
    request = Request(Setting(4, rate=Fraction(1, 2)), np.ones((4, 3)), 1.0, 1.0, 2, 0)
    with pytest.raises(Raised, match=r"1 number beside the 3 of its parameters \(batch_size\)"):
        subject.run(request)
    assert subject.run(replace(request, alone=True)).shape == (2, 3)


# --- memory, sizes, digits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.3, pytest.param(0.99, marks=SLOW)])
def test_momentum_is_taken_out_and_leaves_the_mechanism(beta: float) -> None:
    finding = probe(Momentum(beta), seed=0, rounds=20)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())
    assert finding.clipping.sensitivity == pytest.approx(1.0, abs=1e-3)
    assert finding.noise.scale == pytest.approx(1.0, abs=0.03)


def test_a_step_that_keeps_something_of_one_length_begins_anew_for_another(tmp_path: Path) -> None:
    """As a program does that trains another model."""
    (tmp_path / "kept.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from planted import Round\n"
        "once, kept = Round(), []\n"
        "def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):\n"
        "    fresh = once(gradients, generator, sample_rate=sample_rate, noise_multiplier=noise_multiplier,"
        " max_grad_norm=max_grad_norm)\n"
        "    kept[:] = [0.9 * kept[0] + fresh if kept else fresh]\n"
        "    return kept[0]\n"
    )
    finding = probe(f"{tmp_path / 'kept.py'}:release", seed=0, rounds=10)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())


def test_weights_that_begin_somewhere_are_the_sum_of_their_steps() -> None:
    once = Round(step=-0.1)
    weights: dict[int, Array] = {}

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Array:
        wide = gradients.shape[1]
        step = once(
            gradients,
            generator,
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
        )
        before = weights.get(wide)
        weights[wide] = (np.random.default_rng(wide).standard_normal(wide) if before is None else before) + step
        return weights[wide].copy()

    finding = probe(release, seed=0, rounds=10)
    assert (finding.kind, finding.doubts) == (Kind.SGM, ())


@pytest.mark.parametrize("decimals", [3, 12])
def test_a_release_that_is_rounded_is_not_accused_and_not_certified(decimals: int) -> None:
    """Rounding after the noise takes nothing away from a guarantee, but of what was rounded nothing is known."""
    once = Round()

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Array:
        found = once(
            gradients,
            generator,
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
        )
        return np.round(found, decimals)

    finding = probe(release, seed=0, rounds=20)
    assert accusations(finding) == []
    assert bool(finding.doubts) is (decimals == 3)


def test_momentum_of_a_step_with_a_bug_does_not_hide_it() -> None:
    momentum = Momentum(0.5)

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Array:
        half = noise_multiplier / 2.0
        return momentum(
            gradients, generator, sample_rate=sample_rate, noise_multiplier=half, max_grad_norm=max_grad_norm
        )

    assert_found(probe(release, seed=0, rounds=20), "times what was asked for")


def test_a_bound_out_of_all_size_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match=r"max_grad_norm=1e\+300: must be from 1e-100 to 1e\+100"):
        probe(lambda gradients, generator, *, sample_rate, noise_multiplier: None, seed=0, max_grad_norm=1e300)


def test_noise_that_does_not_follow_sigma_is_a_fault() -> None:
    finding = probe(Round(scale=lambda sigma, bound: bound), seed=0, rounds=10)
    assert_found(finding, "the noise does not follow sigma")


@pytest.mark.parametrize("digits", [11, 8])
def test_digits_are_told_from_few_rounds(digits: int) -> None:
    """Numbers with so many binary digits after the first; and those of single precision, which have 23."""
    numbers = np.random.default_rng(digits).standard_normal((20, 348))

    def shortened(bits: int) -> Array:
        mantissa, exponent = np.frexp(numbers)
        return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent)

    (remark,) = remarks_of_digits([shortened(digits)], lambda: None)
    assert remark.severity is Severity.LEAK
    assert remarks_of_digits([shortened(24)], lambda: None) == []
    assert remarks_of_digits([numbers], lambda: None) == []


def test_numbers_of_single_precision_are_hardly_ever_equal() -> None:
    """As many pairs as the document states; the law of the digits is counted here."""
    numbers = np.sort(np.abs(np.random.default_rng(0).standard_normal(200_000, dtype=np.float32)))
    pairs = sum(int((numbers[lag:] == numbers[:-lag]).sum()) for lag in (1, 2, 3))
    assert 2e10 / pairs == pytest.approx(30e6, rel=0.25)


def test_every_unknown_has_a_remark_that_says_why() -> None:
    def by_a_table(size: int, count: int, rate: float) -> float:
        return float((size * 7) % 5 + 1)

    for release in (Round(divisor=by_a_table), Round(divisor=lambda size, count, rate: count + 3.0)):
        finding = probe(release, seed=0, rounds=10)
        assert finding.kind is Kind.UNKNOWN
        assert finding.doubts


# --- what is shown ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param("batch norm", marks=SLOW), pytest.param("the size in a dictionary", marks=SLOW), "Adam"]
)
def test_the_command_shows_it_in_80_columns_and_as_json(tmp_path: Path, name: str) -> None:
    table = "BUGS" if name in BUGS else "TWINS"
    word = "unknown" if table == "TWINS" else BUGS[name][1]
    file = tmp_path / "mine.py"
    here = str(Path(__file__).parents[1])
    file.write_text(
        f"import sys\nsys.path.insert(0, {here!r})\nimport planted_steps\nstep = planted_steps.{table}[{name!r}][0]()\n"
    )
    done = run("probe", f"{file}:step")
    assert done.code == 0, done.err
    assert word in " ".join(done.out.split())
    # what is no sentence; sentences are wrapped by the terminal
    assert max(len(line) for line in done.out.splitlines() if not line.startswith("- ")) <= 80
    told = run("probe", f"{file}:step", "--json").out
    found = json.loads(told)
    assert found["mechanism"] == "unknown"
    assert found["doubts"]
    (tmp_path / "probe.json").write_text(told)
    page = tmp_path / "page.html"
    assert run("report", str(tmp_path / "probe.json"), "--out", str(page)).code == 0
    assert found["doubts"][0][:40] in page.read_text()
