"""Sentences that readers stumbled over: the plain wording is what a user sees, the old one is nowhere.

For each sentence a command that prints it. What is asserted is typed from a list that readers made, with the numbers of the
settings here; not copied from what the program prints.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import noisymean
import noisymean as nm
from command_line import run
from noisymean.cli import values
from noisymean.errors import InvalidInput
from noisymean.explore.settings import in_symbols
from noisymean.integrations.opacus.said import OpacusSaid
from noisymean.words import NO_CURVE_OF_IT, OnlyAdded, RateMoves, ToldAnotherRate

SOURCE = Path(noisymean.__file__).parent
LOADER = ("account", "--mechanism", "opacus-loader", "--noise-multiplier", "1", "--steps", "10", "--delta", "1e-5")
MINE = """
import numpy as np

def silent(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    pass

def flat(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    return np.zeros(3)

def step(total, noise, count):
    return (total.sum(0) + noise) / count

def alone(extra_record, generator):
    pass
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with functions of a user's, and a window in which no sentence is broken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("mine.py").write_text(MINE)


@pytest.mark.parametrize(
    ("words", "code", "plain", "old"),
    [
        # a sentence that was an exception pasted into a note
        (
            (*LOADER, "--dataset-size", "60000", "--batch-size", "600", "--dimension", "26010"),
            0,
            "make the sampling rate a constant too",
            r"leaves the rate alone|no guarantee is known where q|batch_size=600",
        ),
        # symbols that nobody has explained
        (
            (*LOADER, "--dataset-size", "60000", "--batch-size", "600", "--dimension", "26010", "--steps", "100"),
            0,
            "all gradients of D are zero, the added record's has full length C",
            r"\*C\*u|\bu\b",
        ),
        # two sentences run together; and what was returned
        (
            ("probe", "mine.py:silent"),
            2,
            "it returns nothing: it must return 281 numbers (one per parameter)",
            r"raises it|released shape",
        ),
        (
            ("probe", "mine.py:flat"),
            2,
            "it returns numbers of shape (3,): it must return 281 numbers (one per parameter)",
            r"raises it|released shape",
        ),
        (
            ("audit", "mine.py:alone", "--seed", "1"),
            2,
            "returned nothing; it must return n numbers, or T rows of n",
            r"released shape|shape \(\)",
        ),
        # what read like a value
        (
            (*LOADER, "--dataset-size", "60", "--batch-size", "6", "--dimension", "9", "--epsilon", "1"),
            2,
            "--epsilon=1: must be left out when --delta is given; give either, not both",
            r"both or neither|exactly one of the two",
        ),
        # a contradiction
        (
            (*LOADER, "--dataset-size", "60", "--batch-size", "6", "--dimension", str(10**15)),
            0,
            "none known no upper bound is known for this run",
            "certainly not exceeded",
        ),
        # grammar, and an estimate that was printed as a fact
        (("code-audit", "mine.py"), 0, "1 file read, nothing of it was run", r"\b1 files"),
        (("probe", "synthetic:easgm"), 0, "is a step of noise alone, divided by about 0.15", r"divided by 0\.15"),
        # an internal name
        ((*LOADER, "--dataset-size", "abc"), 2, "--dataset-size=abc: must be a whole number", "dataset_size"),
        # machine notation in a headline
        (
            (*LOADER, "--dataset-size", "60", "--batch-size", "6", "--dimension", "100000000"),
            0,
            "N = 60, n = 100,000,000, q = 0.1, sigma = 1, delta = 10⁻⁵",
            r"\d[eE][+-]?\d",
        ),
        # compressed past understanding
        (
            ("account", "--mechanism", "feasgm", "--dataset-size", "103", "--dimension", "9", *LOADER[3:], "--sample-rate", "0.1"),
            0,
            "floor(N*q) is 10 with one record more or less as well: at this N the denominator is a constant (SGM)",
            "the mechanism is SGM",
        ),
        (
            ("account", "--mechanism", "easgm", "--dataset-size", "60", "--dimension", "9", *LOADER[3:], "--sample-rate", "0.1",
             "--adjacency", "zero-out"),
            0,
            "an accountant's claim may be made, but only between datasets of the same size",
            "the SGM claim may be made",
        ),
        (
            ("account", "--mechanism", "easgm", "--dataset-size", "60", "--dimension", "9", *LOADER[3:], "--sample-rate", "0.1",
             "--adjacency", "replace-one"),
            0,
            "replacing a record is both, which costs up to twice as much",
            "a replaced one is both",
        ),
    ],
)  # fmt: skip
def test_the_sentence_that_a_user_sees(words: tuple[str, ...], code: int, plain: str, old: str) -> None:
    done = run(*words)
    said = " ".join(f"{done.out} {done.err}".split())
    assert done.code == code, said
    assert plain in said
    assert re.search(old, said) is None


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (
            RateMoves(1 / 100, 1 / 101),
            "the sampling rate itself changes with the number of records (1/100 to 1/101), and no bound covers that: fix the"
            " rate and the denominator as constants",
        ),
        (
            OpacusSaid("prv", 1e-5, 0.0244, error=0.01).beside(0.0142),
            "Opacus' own accountant (prv, ±0.01) says 0.0244; the exact value of the same claim is 0.0142",
        ),
        (ToldAnotherRate(3, 2), "records are sampled at a rate of 1/3, but the accountant computes with 1/2"),
        (OnlyAdded(1), "only one record added to the 1 is judged: with one record less the mechanism cannot run"),
        (NO_CURVE_OF_IT, "the guarantee is known at this δ; its whole curve is not computed here"),
    ],
)
def test_the_sentence_itself(said: object, plain: str) -> None:
    assert str(said) == plain


def test_the_page_with_sliders_names_what_it_shows() -> None:
    with pytest.raises(InvalidInput) as fault:
        values.whole("dataset_size", "abc")
    said = in_symbols(fault.value)
    assert said.startswith("N cannot be 'abc': it must be a whole number")
    assert "dataset_size" not in said


def test_in_python_both_or_none_is_said_alike() -> None:
    mechanism = nm.SGM(sample_rate="1/10", noise_multiplier=1.0)
    with pytest.raises(
        InvalidInput, match=r"^epsilon=1\.0: must be left out where delta is given; give either, not both$"
    ):
        nm.account(mechanism, steps=10, delta=1e-5, epsilon=1.0)
    with pytest.raises(InvalidInput, match=r"^delta=None: must be given, or epsilon"):
        nm.account(mechanism, steps=10)


OLD = (
    "both or neither",
    "by reading 1 files",
    "no guarantee is known as a curve",
    "*c*u",
    "that nobody was in it is told",
    "leaves the rate alone",
)


FRAGMENTS = ("None.", "All of it.", "As labelled.", "Likewise.", "In full.", "Plain data.", "For JSON.")


def test_the_old_wording_is_nowhere_and_no_docstring_is_a_fragment() -> None:
    """In no text of the package is a phrase of the list, and no docstring is a word or two."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            text = node.value
            bad = text.strip() in FRAGMENTS if id(node) in documents else any(one in text.lower() for one in OLD)
            found += [f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}: {text}"] if bad else []
    assert found == []
