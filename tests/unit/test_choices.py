"""One name out of a few: however it is written, and which one was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import run
from noisymean.choices import completions, did_you_mean, written_as
from noisymean.mechanisms import KINDS, Sampling
from noisymean.paper import data

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


def test_what_begins_so_completes_it() -> None:
    assert completions("o", ["opacus", "objax", "optax", "flwr"]) == ["opacus", "objax", "optax"]
    assert completions("", ["a", "b"]) == ["a", "b"]
    assert completions("z", ["a", "b"]) == []


def test_of_no_names_none_was_meant() -> None:
    assert did_you_mean("easgm", []) == ""
    assert written_as("easgm", []) is None


TRAINED = ("--dataset-size", "9", "--dimension", "3", "--batch-size", "2", "--noise-multiplier", "1", "--trials", "100")
SMALL = ("--dataset-size", "4", "--dimension", "9", "--sample-rate", "0.5", "--noise-multiplier", "1")


@pytest.mark.parametrize("typed", ["EASGM", "Easgm", "eASGM"])
def test_a_mechanism_in_capitals_is_the_mechanism(typed: str) -> None:
    words = ("curve", "--sample-rate", "0.1", *ROUND)
    assert run(*words, "--mechanism", typed) == run(*words, "--mechanism", "easgm")


RUN = (
    "account",
    "--mechanism",
    "sgm",
    "--sample-rate",
    "0.1",
    "--noise-multiplier",
    "2",
    "--steps",
    "5",
    "--delta",
    "1e-5",
)


@pytest.mark.parametrize("typed", ["Fixed-Size", "fixed_size", "FIXEDSIZE"])
def test_a_sampling_in_capitals_is_the_sampling(typed: str) -> None:
    words = (*RUN, "--dataset-size", "100", "--dimension", "9", "--json")
    asked, usual = (run(*words, "--sampling", name) for name in (typed, Sampling.FIXED_SIZE.value))
    assert asked == usual
    assert asked.code == 0
    assert '"sampling": "fixed-size"' in asked.out


def test_a_complaint_shows_the_name_as_it_was_typed() -> None:
    typed = run("curve", "--mechanism", "sgm", "--sample-rate", "0.1", *ROUND, "--sampling", "FIXED_SIZE")
    assert typed.err == (
        "error: --sampling=FIXED_SIZE: must be poisson for this; account, calibrate and report know the other ways\n"
    )


@pytest.mark.parametrize("typed", ["Zero-Out", "zero_out", "ZEROOUT"])
def test_an_adjacency_in_capitals_is_the_adjacency(typed: str) -> None:
    assert run(*RUN, "--adjacency", typed, "--json") == run(*RUN, "--adjacency", "zero-out", "--json")


@pytest.mark.parametrize("typed", ["MNIST", "Mnist", "Fashion MNIST", "fashion_mnist"])
def test_a_set_of_images_is_found_however_it_is_written(typed: str) -> None:
    folder = Path(__file__).parents[1] / "fixtures"
    images = data.load(typed, data_dir=folder)
    assert images.dataset.name in ("mnist", "fashion-mnist")
    assert len(images) == len(data.load(images.dataset.name, data_dir=folder)) > 0


@pytest.mark.parametrize("typed", ["NM034", "nm034", "constant-seed", "Constant Seed"])
def test_a_rule_is_found_by_its_id_and_by_its_name(typed: str) -> None:
    done = run("code-audit", "--explain", typed)
    assert (done.code, done.err) == (0, "")
    assert "NM034" in done.out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("curve", "--mechanism", "eagsm"), "did you mean easgm?"),
        (("curve", "--mechanism", "sgm", "--noise-multiplier", "1", "--sampling", "posson"), "did you mean poisson?"),
        ((*RUN, "--adjacency", "zero-uot"), "did you mean zero-out?"),
        ((*RUN, "--pair", "lager"), "did you mean larger?"),
        (("data", "ftech", "mnist"), "did you mean fetch?"),
        (("data", "fetch", "mnst"), "did you mean mnist?"),
        (("reproduce", "synthetic-detla"), "did you mean synthetic-delta?"),
        (("probe", "synthetic:eagsm"), "did you mean easgm?"),
        (("probe", "opacus:gost"), "did you mean ghost?"),
        (("field", "--only", "optx"), "did you mean optax?"),
        (("code-audit", "--explain", "constant-sede"), "did you mean constant-seed?"),
        (("code-audit", ".", "--fail-on", "waring"), "did you mean warning?"),
        (("probe", "opacus", "--clipping", "per_lyer"), "--clipping=per_lyer: must be one that opacus=="),
        (("probe", "opacus", "--grad-sample-mode", "hoks"), "did you mean hooks?"),
        (
            ("audit", "opacus", *TRAINED, "--device", "cdua"),
            "--device=cdua: must be one of auto, cpu, cuda; did you mean cuda?",
        ),
        (("field", "--only", "optax", "--only", "obajx"), "--only=obajx: must be one of"),
        (("probe", "opcaus"), "did you mean opacus?"),
        (("audit", "opcaus"), "did you mean opacus?"),
        (("audit", "sythetic"), "did you mean synthetic?"),
        (("audit", "dpsgd-hf", "--images", "minst"), "did you mean mnist?"),
        (("audit", "synthetic", "--mechanism", "eagsm", *SMALL), "did you mean easgm?"),
        (("audit", "synthetic", "--mechanism", "easgm", *SMALL, "--gradients", "alinged"), "did you mean aligned?"),
        (("statement", *RUN[1:], "--format", "markdwon"), "did you mean markdown?"),
        (("report", *RUN[3:], "--compare", "sgm,eagsm", "--out", "report.html"), "did you mean easgm?"),
        (("acount",), "did you mean account?"),
        (("account", "--noise-mulitplier", "1"), "did you mean --noise-multiplier?"),
    ],
)
def test_what_was_meant_is_said_in_the_line_of_the_error(words: tuple[str, ...], meant: str) -> None:
    result = run(*words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert meant in result.err
