"""One name out of a few: however it is written, and which one was meant."""

from __future__ import annotations

import pytest

from command_line import run
from noisymean.choices import did_you_mean, written_as
from noisymean.mechanisms import KINDS, Sampling

ROUND = ("--dataset-size", "100", "--dimension", "9", "--noise-multiplier", "1", "--alpha", "0.5", "--json")


@pytest.mark.parametrize(
    "typed", ["opacus-loader", "OPACUS-LOADER", "Opacus_Loader", "opacus loader", "OpacusLoader", " opacus-loader "]
)
def test_capitals_hyphens_underscores_and_spaces_do_not_matter(typed: str) -> None:
    assert written_as(typed, KINDS) == "opacus-loader"


@pytest.mark.parametrize("typed", ["", "-", "easg", "easgmm", "e.a.s.g.m", "\u0435asgm"])
def test_a_letter_more_or_less_is_another_name(typed: str) -> None:
    assert written_as(typed, KINDS) is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("eagsm", "did you mean easgm?"),
        ("EAGSM", "did you mean easgm?"),
        ("opacus_loadr", "did you mean opacus-loader?"),
        ("fesgm", "did you mean feasgm?"),
        # a letter left out of each of these two: neither is closer
        ("bat", "did you mean bath or bats?"),
        # as close to four names as to one: the list says more than a guess
        ("cat", ""),
        ("laplace", ""),
        ("", ""),
        ("--", ""),
    ],
)
def test_the_closest_name_is_asked_for(typed: str, meant: str) -> None:
    assert did_you_mean(typed, [*KINDS, "bath", "bats", "cata", "catb", "catc", "catd"]) == meant


def test_of_no_names_none_was_meant() -> None:
    assert did_you_mean("easgm", []) == ""
    assert written_as("easgm", []) is None


@pytest.mark.parametrize("typed", ["EASGM", "Easgm", "eASGM"])
def test_a_mechanism_in_capitals_is_the_mechanism(typed: str) -> None:
    words = ("curve", "--sample-rate", "0.1", *ROUND)
    assert run(*words, "--mechanism", typed) == run(*words, "--mechanism", "easgm")


@pytest.mark.parametrize("typed", ["Fixed-Size", "fixed_size", "FIXEDSIZE"])
def test_a_sampling_in_capitals_is_the_sampling(typed: str) -> None:
    words = ("curve", "--mechanism", "sgm", "--batch-size", "10", *ROUND)
    assert run(*words, "--sampling", typed) == run(*words, "--sampling", Sampling.FIXED_SIZE.value)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("curve", "--mechanism", "eagsm"), "did you mean easgm?"),
        (("curve", "--mechanism", "sgm", "--noise-multiplier", "1", "--sampling", "posson"), "did you mean poisson?"),
        (("account", "--mechanism", "sgm", "--adjacency", "zeroout-"), ""),
        (("data", "ftech", "mnist"), "did you mean fetch?"),
        (("data", "fetch", "mnst"), "did you mean mnist?"),
        (("reproduce", "synthetic-detla"), "did you mean synthetic-delta?"),
        (("probe", "synthetic:eagsm"), "did you mean easgm?"),
        (("probe", "opacus:gost"), "did you mean ghost?"),
        (("field", "--only", "optx"), "did you mean optax?"),
        (("code-audit", "--explain", "fixed-sede"), "did you mean"),
        (("acount",), "did you mean account?"),
        (("account", "--noise-mulitplier", "1"), "did you mean --noise-multiplier?"),
    ],
)
def test_what_was_meant_is_said_in_the_line_of_the_error(words: tuple[str, ...], meant: str) -> None:
    result = run(*words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert meant in result.err
