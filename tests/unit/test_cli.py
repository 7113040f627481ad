"""The command line: what it prints, what it refuses, and how it says so."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

import noisymean as nm
from command_line import Result, run
from noisymean.cli import curve as curve_command
from noisymean.cli import faults, output, values
from noisymean.cli.mechanism import mechanism_of
from noisymean.curves import standing_still
from noisymean.errors import InvalidInput
from noisymean.explore.settings import unused
from noisymean.mechanisms import KINDS, BatchDenominator, PublicRate, from_plain
from noisymean.results import finite

SIZES = ("--dataset-size", "4", "--dimension", "20")
NOISE = ("--noise-multiplier", "2")
RATE = ("--sample-rate", "0.7")
EASGM = ("curve", "--mechanism", "easgm")
COMPLETE = (*EASGM, *SIZES, *NOISE, *RATE)


def environment() -> dict[str, str]:
    """The environment of a process that can import the package under test."""
    source = str(Path(nm.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


def spawn(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """One command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "noisymean", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def refusal(result: Result) -> str:
    """The one line of a refused command line."""
    assert result.code == 2
    assert result.out == ""
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    return result.err.removesuffix("\n")


def strictly_parsed(text: str) -> dict[str, object]:
    """JSON as the standard has it, without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    parsed = json.loads(text, parse_constant=refuse)
    assert isinstance(parsed, dict)
    return parsed


# --- refusals


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        # the rate
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "0"), "--sample-rate=0: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "1.1"), "--sample-rate=1.1: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate=1.1"), "--sample-rate=1.1: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "-0.1"), "--sample-rate=-0.1: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "nan"), "--sample-rate=nan: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "inf"), "--sample-rate=inf: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "half"), "--sample-rate=half: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", ""), "--sample-rate='': must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "1/0"), "--sample-rate=1/0: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "1/2/3"), "--sample-rate=1/2/3: must be a number with 0 <"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "1e-99999999"), "--sample-rate=1e-99999999: must be"),
        ((*EASGM, *SIZES, *NOISE, "--sample-rate", "a\nb\x1b[31m"), "--sample-rate='a\\nb\\x1b[31m': must be"),
        # the noise
        ((*EASGM, *SIZES, *RATE, "--noise-multiplier", "0"), "--noise-multiplier=0: must be >= 1e-06"),
        ((*EASGM, *SIZES, *RATE, "--noise-multiplier", "-1"), "--noise-multiplier=-1: must be >= 1e-06"),
        ((*EASGM, *SIZES, *RATE, "--noise-multiplier", "nan"), "--noise-multiplier=nan: must be a finite number > 0"),
        ((*EASGM, *SIZES, *RATE, "--noise-multiplier", "inf"), "--noise-multiplier=inf: must be a finite number > 0"),
        ((*EASGM, *SIZES, *RATE, "--noise-multiplier", "x"), "--noise-multiplier=x: must be a finite number > 0"),
        # the sizes
        ((*COMPLETE, "--dimension", "0"), "--dimension=0: must be a whole number from 1 to 1e+15; "),
        ((*COMPLETE, "--dimension", "2.5"), "--dimension=2.5: must be a whole number from 1 to 1e+15; "),
        ((*COMPLETE, "--dataset-size", "0"), "--dataset-size=0: must be >= 1 for EASGM; "),
        ((*COMPLETE, "--dataset-size", "-4"), "--dataset-size=-4: must be a whole number from 0 to 1e+15; "),
        ((*COMPLETE, "--dataset-size", "1e99"), "--dataset-size=1e99: must be a whole number from 0 to 1e+15; "),
        ((*COMPLETE, "--dataset-size", "many"), "--dataset-size=many: must be a whole number from 0 to 1e+15; "),
        # rate and batch size: exactly one
        (
            (*EASGM, *SIZES, *NOISE),
            "--sample-rate: missing (or --batch-size); must be a number with 0 < q <= 1; add it",
        ),
        ((*COMPLETE, "--batch-size", "2"), "--batch-size=2: must be left out when --sample-rate is given; "),
        ((*EASGM, *SIZES, *NOISE, "--batch-size", "5"), "--batch-size=5: must be from 1 to the dataset size 4; "),
        ((*EASGM, *SIZES, *NOISE, "--batch-size", "0"), "--batch-size=0: must be from 1 to the dataset size 4; "),
        ((*EASGM, *SIZES, *NOISE, "--batch-size", "x"), "--batch-size=x: must be a whole number from 1 to"),
        (
            (*EASGM, "--dataset-size", "0", "--dimension", "1", *NOISE, "--batch-size", "1"),
            "--dataset-size=0: must be >= 1 with --batch-size; ",
        ),
        (
            ("curve", "--mechanism", "sgm", *NOISE, "--batch-size", "1"),
            "--dataset-size: missing (--batch-size needs it); must be a whole number",
        ),
        # what is missing
        (("curve",), "--mechanism: missing; must be one of sgm, easgm, asgm, feasgm"),
        ((*EASGM,), "--noise-multiplier: missing; must be a finite number > 0; add it"),
        ((*EASGM, "--dimension", "3", *NOISE, *RATE), "--dataset-size: missing; must be a whole number"),
        ((*EASGM, "--dataset-size", "3", *NOISE, *RATE), "--dimension: missing; must be a whole number"),
        ((*COMPLETE, "--alpha"), "--alpha: its value is missing; must be numbers from 0 to 1"),
        # alpha and points
        ((*COMPLETE, "--alpha", "1.1"), "--alpha=1.1: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "-0.1"), "--alpha=-0.1: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "0.1,2"), "--alpha=0.1,2: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "0.1,nan"), "--alpha=0.1,nan: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "0.1,,0.2"), "--alpha=0.1,,0.2: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "some"), "--alpha=some: must be numbers from 0 to 1"),
        ((*COMPLETE, "--alpha", "0.1", "--points", "5"), "--points=5: must be left out when --alpha is given; "),
        ((*COMPLETE, "--points", "1"), "--points=1: must be a whole number from 2 to 1e+06; "),
        ((*COMPLETE, "--points", "1e7"), "--points=1e7: must be a whole number from 2 to 1e+06; "),
        ((*COMPLETE, "--points", "all"), "--points=all: must be a whole number from 2 to 1e+06; "),
        # names
        (("curve", "--mechanism", "laplace", *NOISE), "--mechanism=laplace: must be one of sgm, easgm, asgm, feasgm"),
        (("zzz",), "zzz: no such command; must be one of "),
        (("curv",), "curv: no such command; did you mean curve? see 'noisymean --help'"),
        (("--colour",), "--colour: no such option of 'noisymean'; "),
        ((*COMPLETE, "--sigma", "3"), "--sigma: no such option of 'noisymean curve'; "),
        (
            (*COMPLETE, "--sample-rat", "3"),
            "--sample-rat: no such option of 'noisymean curve'; did you mean --sample-rate? see ",
        ),
        ((*COMPLETE, "--json=yes"), "--json: must stand alone"),
        ((*COMPLETE, "more", "words"), "more words: unexpected; "),
        # plots
        ((*COMPLETE, "--plot", "curve.jpg"), "--plot=curve.jpg: must be a file named *.png, *.svg or *.pdf; "),
        ((*COMPLETE, "--plot", "curve"), "--plot=curve: must be a file named *.png, *.svg or *.pdf; "),
        ((*COMPLETE, "--plot", "no-such-folder/c.png"), "--plot=no-such-folder/c.png: must be a file in an existing"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(words: tuple[str, ...], begins: str) -> None:
    assert refusal(run(*words)).startswith(f"error: {begins}")


def test_a_long_value_is_shortened() -> None:
    assert len(refusal(run(*COMPLETE, "--alpha", "x" * 5000))) < 400


def test_a_name_that_is_no_option_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InvalidInput("kappa", 3, "small")

    monkeypatch.setattr(curve_command, "compute", fail)
    assert refusal(run(*COMPLETE)) == "error: kappa=3: must be small"


def test_refusals_survive_a_process_boundary() -> None:
    result = spawn(*EASGM, *SIZES, *NOISE, "--sample-rate", "1.1", "--json")
    assert refusal(Result(result.returncode, result.stdout, result.stderr)).startswith("error: --sample-rate=1.1: ")


# --- numbers


@pytest.mark.parametrize(
    ("text", "value"), [("60000", 60_000), ("60_000", 60_000), ("6e4", 60_000), ("1.5E3", 1500), ("+7", 7), ("-7", -7)]
)
def test_whole_numbers_as_people_write_them(text: str, value: int) -> None:
    assert values.whole("dimension", text) == value


@pytest.mark.parametrize(
    "text", ["1.5", "6.0", "1e-3", "1.25e1", "60,000", "_6", "6_", "0x10", " 6", "٣", "", "9" * 99]
)
def test_anything_else_is_not_a_whole_number(text: str) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        values.whole("dimension", text)


@pytest.mark.parametrize("text", ["0.005", "5e-3", "1/200", " 1 / 200 ", ".005"])
def test_a_rate_is_exactly_what_was_written(text: str) -> None:
    record = strictly_parsed(run("curve", "--mechanism", "sgm", *NOISE, "--sample-rate", text, "--json").out)
    assert record["settings"]["sample_rate_exact"] == "1/200"  # type: ignore[index]


def test_a_batch_size_is_an_exact_rate() -> None:
    words = ("--dataset-size", "60_000", "--dimension", "1e3", "--batch-size", "256", "--json", "--alpha", "0.5")
    record = strictly_parsed(run(*EASGM, *NOISE, *words).out)
    assert Fraction(record["settings"]["sample_rate_exact"]) == Fraction(256, 60_000)  # type: ignore[index]


def test_every_mechanism_is_built_under_its_own_name() -> None:
    sizes = {"dataset_size": "9", "dimension": "3", "noise_multiplier": "1"}
    for name, kind in KINDS.items():
        by_rate = kind.takes("sample_rate")
        rate = {"sample_rate": "1/3" if by_rate else None, "batch_size": None if by_rate else "3"}
        built = mechanism_of(name=name, **sizes, **rate)  # type: ignore[arg-type]
        assert (built.name, built.dataset_size, built.dimension) == (name, 9, 3)
        assert float(built.rate) == pytest.approx(1 / 3)


@final
@dataclass(frozen=True, kw_only=True)
class LargerOfTwo(PublicRate, BatchDenominator):
    """A mechanism that the command line has never heard of: both a rate and a batch size make it."""

    batch_size: int
    name = "larger-of-two"
    denominator = "max(b, |B|)"

    def divisor(self, batches: Any) -> Any:
        return np.maximum(batches, self.batch_size)


def test_a_new_mechanism_needs_no_change_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, LargerOfTwo.name, LargerOfTwo)
    given = {"name": LargerOfTwo.name, "dataset_size": "9", "dimension": "3", "noise_multiplier": "1"}
    built = mechanism_of(**given, sample_rate="1/3", batch_size="4")  # type: ignore[arg-type]
    assert built == LargerOfTwo(dataset_size=9, dimension=3, sample_rate="1/3", noise_multiplier=1.0, batch_size=4)
    assert built.settings()["batch_size"] == 4
    assert from_plain(built.to_plain()) == built
    assert unused(LargerOfTwo.name, "poisson", "") == ["drop-last"]
    with pytest.raises(nm.NoisymeanError, match="--batch-size: missing"):
        mechanism_of(**given, sample_rate="1/3", batch_size=None)  # type: ignore[arg-type]


# --- results

MECHANISMS = {
    "sgm": nm.SGM(dataset_size=4, dimension=20, sample_rate="0.7", noise_multiplier=2.0),
    "easgm": nm.EASGM(dataset_size=4, dimension=20, sample_rate="0.7", noise_multiplier=2.0),
    "asgm": nm.ASGM(dataset_size=4, dimension=20, sample_rate="0.7", noise_multiplier=2.0),
    "feasgm": nm.FEASGM(dataset_size=4, dimension=20, sample_rate="0.7", noise_multiplier=2.0),
}
ARRAYS = ("alpha", "claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage")


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("grid", [("--alpha", "0.01,0.1,0.5"), ("--points", "21")])
def test_json_is_what_python_gets(name: str, grid: tuple[str, str]) -> None:
    result = run("curve", "--mechanism", name, *SIZES, *NOISE, *RATE, *grid, "--json")
    assert (result.code, result.err, result.out.count("\n")) == (0, "", 1)
    record = strictly_parsed(result.out)
    asked = {"alpha": [0.01, 0.1, 0.5]} if grid[0] == "--alpha" else {"points": 21}
    curves = nm.curve(MECHANISMS[name], **asked)
    assert list(record)[:8] == ["mechanism", *ARRAYS]
    assert record["mechanism"] == name
    for key in ARRAYS:
        expected = getattr(curves, key)
        if expected is None:
            assert record[key] is None
        else:
            np.testing.assert_array_equal(np.array(record[key], dtype=float), expected)
    assert record["pair"] == str(curves.pair)
    assert (record["version"], record["schema"]) == (nm.__version__, 1)
    if curves.clt is None:
        assert record["clt"] is None
    else:
        assert record["clt"] == {key: getattr(curves.clt, key) for key in ("kl", "kappa2", "kappa3", "mu", "gamma")}


def test_json_has_null_where_the_central_limit_says_nothing() -> None:
    estimate = strictly_parsed(run(*COMPLETE, "--alpha", "0.001,0.5", "--json").out)["ceiling_clt"]
    assert isinstance(estimate, list)
    assert estimate[0] is None
    assert isinstance(estimate[1], float)


def test_sgm_needs_neither_sizes_nor_ceiling() -> None:
    record = strictly_parsed(run("curve", "--mechanism", "sgm", *NOISE, *RATE, "--json").out)
    assert record["ceiling"] is None
    assert record["ceiling_clt"] is None
    assert record["verdict"] == "holds"
    assert record["settings"]["dimension"] is None  # type: ignore[index]


def test_no_nan_can_enter_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.emit_json({"value": float("nan")})
    assert finite(float("inf")) is None


@pytest.mark.parametrize("columns", ["80", "40"])
def test_the_table_fits_and_nothing_is_cut_off(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = run(*COMPLETE)
    assert result.code == 0
    title, *table, verdict = result.out.splitlines()
    assert title == "One round of EASGM: N = 4, n = 20, q = 0.7, sigma = 2"
    assert max(map(len, table)) <= max(int(columns), 60)
    assert "…" not in result.out
    # a row of eleven, or lines under each of the eleven where rows do not fit
    assert len([line for line in table if line.removeprefix("alpha").strip().startswith("0.")]) == 11
    for word in ("alpha", "claimed", "guarantee", "tight", "ceiling", "leakage"):
        assert word in "".join(table)
    assert verdict.startswith("The claim is violated: at alpha = 0.22")
    assert "the added record's" in verdict


def test_the_rows_asked_for_are_the_rows_shown() -> None:
    lines = run(*COMPLETE, "--alpha", "0.25,0.75").out.splitlines()
    assert [line.split()[0] for line in lines if line.strip().startswith("0.")] == ["0.25", "0.75"]


def test_a_rate_that_moves_has_a_guarantee_and_no_ceiling() -> None:
    """The paper's ceiling is for a denominator that moves alone; our guarantee is not."""
    words = ("curve", "--mechanism", "opacus-loader", "--dataset-size", "60", "--batch-size", "6", "--dimension", "50")
    record = strictly_parsed(run(*words, *NOISE, "--points", "11", "--json").out)
    assert record["ceiling"] is None
    assert record["verdict"] == "violated"
    loose, tight, leaked = (np.asarray(record[name]) for name in ("guarantee", "guarantee_tight", "leakage"))
    assert (loose <= tight).all()
    assert (tight <= leaked).all()
    assert (tight[1:-1] > 0.0).any()
    assert run(*words, *NOISE, "--sample-rate", "0.1").code == 2


# --- verdicts


def test_violated_names_the_largest_gap_and_the_pair_that_attains_it() -> None:
    curves = nm.curve(MECHANISMS["easgm"])
    gap = curves.largest_gap
    assert curves.verdict == "violated"
    assert gap is not None
    at = int(np.argmax(curves.claimed - curves.leakage))
    assert gap.alpha == curves.alpha[at]
    assert gap.size == pytest.approx(float((curves.claimed - curves.leakage).max()))
    leak = nm.leakage(curves.mechanism)
    [attained] = [leak.curve(index) for index, p in enumerate(leak.pairs) if p.datasets == gap.pair]
    assert float(attained.upper(np.array([gap.alpha]))[0]) == pytest.approx(gap.leakage)


def test_holds_undetermined_and_no_evidence() -> None:
    assert nm.curve(MECHANISMS["sgm"]).verdict == "holds"
    # told 1/92 where 1/93 is run: the guarantee is better than the claim, and is what decides
    curves = nm.curve(nm.OpacusLoader(dataset_size=921, batch_size=10, dimension=100, noise_multiplier=1.0), [0.1, 0.5])
    assert curves.verdict == "holds"
    assert dataclasses.replace(curves, guarantee_tight=0.9 * curves.guarantee_tight).verdict == "undetermined"
    assert nm.curve(MECHANISMS["easgm"], alpha=[0.0, 1.0]).verdict == "undetermined"


@pytest.mark.parametrize(
    ("size", "rate"), [(140_200, "0.005"), (0, "0.3"), (3, "0.3"), (1, "0.99"), (5, "1/7"), (100, "1/3")]
)
def test_feasgm_without_a_step_says_where_there_is_one(size: int, rate: str) -> None:
    still = nm.FEASGM(dataset_size=size, dimension=2, sample_rate=rate, noise_multiplier=1.0)
    assert still.neighbours.big_k() is None
    text = standing_still(still)
    assert text is not None
    assert f"At N = {size} FEASGM is SGM" in text
    other = int(text.rstrip(".").split("N = ")[-1])
    # the same as account says, which is the nearest: 140,199 and not 140,399
    assert other == still.nearest_step()
    assert dataclasses.replace(still, dataset_size=other).neighbours.big_k() is not None


def test_feasgm_with_a_step_needs_no_standing_still() -> None:
    assert (
        standing_still(nm.FEASGM(dataset_size=140_199, dimension=2, sample_rate="0.005", noise_multiplier=1.0)) is None
    )


def test_the_remark_is_printed_and_in_the_json() -> None:
    words = ["curve", "--mechanism", "feasgm", "--dataset-size", "140200", "--dimension", "9", *NOISE]
    words += ["--sample-rate", "0.005"]
    assert "FEASGM is SGM" in run(*words).out.splitlines()[-1]
    assert "FEASGM is SGM" in strictly_parsed(run(*words, "--json").out)["notes"][0]  # type: ignore[index]


# --- plots


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG\r\n"), ("svg", b"<?xml"), ("pdf", b"%PDF-"), ("PNG", b"\x89PNG")]
)
def test_a_plot_is_written_and_standard_output_stays_json(suffix: str, magic: bytes, tmp_path: Path) -> None:
    target = tmp_path / f"curve.{suffix}"
    result = run(*COMPLETE, "--alpha", "0.5", "--json", "--plot", str(target))
    assert result.code == 0
    assert strictly_parsed(result.out)["alpha"] == [0.5]
    assert result.err == f"plot written to {target}\n"
    assert target.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [target]


def test_a_plot_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    def fail(figure: Figure, stream: io.BufferedWriter, **_: object) -> None:
        stream.write(b"half of a pict")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    target = tmp_path / "curve.png"
    target.write_bytes(b"the plot of yesterday")
    line = refusal(run(*COMPLETE, "--plot", str(target)))
    assert line.startswith(f"error: --plot={target}: must be a file that can be written; No space left")
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"the plot of yesterday"


def test_a_folder_is_not_a_plot(tmp_path: Path) -> None:
    folder = tmp_path / "folder.png"
    folder.mkdir()
    assert refusal(run(*COMPLETE, "--plot", str(folder))).startswith(f"error: --plot={folder}: must be a file")


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "a folder that can be written" in refusal(run(*COMPLETE, "--plot", str(tmp_path / "c.png")))


def test_without_matplotlib_the_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for words in ((*COMPLETE, "--plot", str(tmp_path / "c.png")), ("demo", "--out", str(tmp_path / "out"))):
        assert "pip install 'noisymean[plots]'" in refusal(run(*words))
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_holds_in_one_round_says_for_whom() -> None:
    result = run("curve", "--mechanism", "sgm", *RATE, *NOISE)
    assert "The claim holds, for batches drawn by Poisson sampling and one record added: " in result.out


# --- the program around it


def test_version_and_help() -> None:
    assert run("--version") == Result(0, f"noisymean {nm.__version__}\n", "")
    for words, code in ((("--help",), 0), ((), 0), (("curve", "--help"), 0), (("demo", "--help"), 0)):
        result = run(*words)
        assert (result.code, result.err) == (code, "")
        assert "Example:" in result.out
        assert max(map(len, result.out.splitlines())) <= 80
    assert run() == run("--help")


def test_an_interruption_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(curve_command, "compute", interrupt)
    result = run(*COMPLETE)
    assert (result.code, result.out, result.err.count("\n")) == (130, "", 1)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_real_interruption_is_one_line() -> None:
    words = (*EASGM, "--dataset-size", "1000", "--dimension", "1000", *NOISE, *RATE, "--points", "1e6", "--json")
    script = (
        "import sys, noisymean.cli.app; from noisymean.cli import main;"
        "print('ready', file=sys.stderr, flush=True); sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that starts us in the background would have us ignore the signal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_reader_that_leaves_is_not_an_error(form: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "noisymean", *COMPLETE, *form],
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (faults.PIPE_CLOSED, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "noisymean", *COMPLETE, "--json"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1


def test_our_own_fault_keeps_its_traceback_and_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(curve_command, "compute", fail)
    result = run(*COMPLETE)
    assert (result.code, result.out) == (faults.OUR_FAULT, "")
    assert "RuntimeError: a bug" in result.err


def test_too_little_memory_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 149. GiB")

    monkeypatch.setattr(curve_command, "compute", fail)
    result = run(*COMPLETE)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: not enough memory (Unable to allocate 149. GiB); ask for fewer ")


def test_python_dash_m_and_the_pipe_of_json() -> None:
    result = spawn(*COMPLETE, "--alpha", "0.5", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert strictly_parsed(result.stdout)["mechanism"] == "easgm"


def test_completion_knows_the_mechanisms() -> None:
    variables = {
        "_NOISYMEAN_COMPLETE": "complete_bash",
        "COMP_WORDS": "noisymean curve --mechanism ",
        "COMP_CWORD": "3",
    }
    result = subprocess.run(
        [sys.executable, "-m", "noisymean"],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # those of other tests are registered in this process only
    assert result.stdout.split() == [name for name, kind in KINDS.items() if kind.__module__.startswith("noisymean.")]


def test_importing_the_library_loads_neither_terminals_nor_plots() -> None:
    script = (
        "import sys, noisymean, noisymean.cli;"
        "print(sorted({'typer', 'click', 'rich', 'matplotlib', 'torch'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout == "[]\n"
