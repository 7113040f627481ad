"""`noisymean account` and `noisymean calibrate`: numbers as in Python, words, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_cli import refusal, run, strictly_parsed

import noisymean as nm
from noisymean.cli.account import steps_of

SGM = ("--mechanism", "sgm", "--sample-rate", "0.01", "--noise-multiplier", "1")
FLOOR = ("--mechanism", "feasgm", "--sample-rate", "0.005", "--dimension", "26010", "--noise-multiplier", "10")
LOADER = ("--mechanism", "opacus-loader", "--dimension", "26010", "--noise-multiplier", "1")


def test_json_has_the_contract_and_the_numbers_of_the_library() -> None:
    found = strictly_parsed(
        run("account", *FLOOR, "--dataset-size", "140199", "--steps", "200", "--delta", "1e-5", "--json").out
    )
    mechanism = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="1/200", noise_multiplier=10)
    answer = nm.account(mechanism, steps=200, delta=1e-5)
    assert found["mechanism"] == "feasgm"
    assert found["steps"] == 200
    assert found["delta"] == 1e-5
    assert found["claimed"]["epsilon"] == answer.claimed.epsilon  # type: ignore[index]
    assert found["leakage"]["epsilon"] == answer.leakage.epsilon  # type: ignore[index]
    assert found["leakage"]["pair"] == str(answer.leakage.pair)  # type: ignore[index]
    assert found["guarantee"]["epsilon"] == answer.guarantee.epsilon  # type: ignore[index]
    assert found["verdict"] == "violated"
    assert isinstance(found["notes"], list)


def test_epsilon_asks_for_delta() -> None:
    found = strictly_parsed(run("account", *SGM, "--steps", "1000", "--epsilon", "1.8282", "--json").out)
    # 1e-5 is where dp_accounting's and our epsilon is 1.82824
    assert found["claimed"]["delta"] == pytest.approx(1e-5, rel=1e-3)  # type: ignore[index]
    assert found["epsilon"] == 1.8282


def test_the_floor_that_stays_names_the_nearest_one_that_steps() -> None:
    words = ("account", *FLOOR, "--dataset-size", "140198", "--steps", "200", "--delta", "1e-5")
    found = strictly_parsed(run(*words, "--json").out)
    assert found["verdict"] == "holds"
    assert found["elsewhere"]["dataset_size"] == 140_199  # type: ignore[index]
    assert found["elsewhere"]["verdict"] == "violated"  # type: ignore[index]
    assert "at N = 140,199 instead" in run(*words).out


def test_the_round_number_case_is_told_in_plain_words() -> None:
    result = run(
        "account", *LOADER, "--dataset-size", "60000", "--batch-size", "600", "--epochs", "1", "--delta", "1e-5"
    )
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "1/100 and 600 at 60,000; 1/101 and 594 at 60,001" in text
    assert re.search(r"one record added: leakage 362\.46\d, guarantee 36\d\.\d+; one record removed: leakage", text)
    assert "The claim is violated" in text


def test_where_no_guarantee_is_known_it_is_said() -> None:
    """So many dimensions that the bound is beyond every number that is printed."""
    settings = ("--dataset-size", "60", "--batch-size", "6", "--dimension", str(10**15), "--noise-multiplier", "1")
    result = run("account", "--mechanism", "opacus-loader", *settings, "--steps", "10", "--delta", "1e-5")
    text = " ".join(result.out.split())
    assert result.code == 0
    assert "none known" in text
    assert "no upper bound is known" in text


def test_epochs_are_counted_as_opacus_counts_them() -> None:
    loader = nm.OpacusLoader(dataset_size=93, batch_size=1, dimension=1, noise_multiplier=1.0)
    # 1/(1/93) is 92.99999999999999 in binary floating point
    assert steps_of(loader, None, "2") == 184
    assert steps_of(nm.SGM(sample_rate="1/100", noise_multiplier=1.0), None, "2") == 200


def test_zero_out_makes_the_size_public() -> None:
    words = ("account", *FLOOR, "--dataset-size", "140199", "--steps", "200", "--delta", "1e-5")
    assert strictly_parsed(run(*words, "--adjacency", "zero-out", "--json").out)["verdict"] == "holds"


def test_plot(tmp_path: Path) -> None:
    target = tmp_path / "run.svg"
    result = run("account", *SGM, "--steps", "300", "--delta", "1e-5", "--plot", str(target))
    assert result.code == 0
    drawing = target.read_text(encoding="utf-8")
    for words in ("ε against steps", "leakage", "guarantee", "claimed (SGM)", "false negative rate β"):
        assert words in drawing
    assert [file.name for file in tmp_path.iterdir()] == ["run.svg"]


@pytest.mark.parametrize(
    ("words", "rate", "denominator", "records"),
    [
        (SGM, "0.01", "a constant", "any number"),
        ((*FLOOR, "--dataset-size", "140198"), "0.005", "floor(N*q) = 700", "140,198"),
        (
            (*LOADER, "--dataset-size", "1010", "--batch-size", "64"),
            "1/16, one over the number of batches",
            "63, which Opacus computes from the number of records",
            "1,010",
        ),
    ],
)
def test_what_holds_names_what_it_rests_on(words: tuple[str, ...], rate: str, denominator: str, records: str) -> None:
    """In the same sentence, in one line, and in the JSON: all of it was typed, so none is assumed."""
    typed = ("account", *words, "--steps", "3", "--delta", "1e-5")
    text = run(*typed).out
    condition = "for batches drawn by Poisson sampling and one record added or removed"
    assert f"The claim holds, {condition}: the guarantee is no larger." in text
    assert not re.search(r"holds(?!, for batches drawn by Poisson)", text)
    found = strictly_parsed(run(*typed, "--json").out)
    assert found["verdict"] == "holds"
    grounds = {one["about"]: one for one in found["grounds"]}  # type: ignore[attr-defined]
    assert list(grounds) == ["sampler", "rate", "denominator", "noise", "adjacency", "records", "steps"]
    assert {one["known"] for one in grounds.values()} == {"told"}
    assert grounds["sampler"]["value"] == "Poisson"
    assert (grounds["rate"]["value"], grounds["denominator"]["value"]) == (rate, denominator)
    assert (grounds["records"]["value"], grounds["steps"]["value"]) == (records, "3")
    assert f"none of it seen: sampler Poisson; rate {rate}; denominator {denominator}; noise" in text


def test_the_guarantee_is_said_to_be_for_the_neighbours_that_were_asked_for() -> None:
    words = ("account", *FLOOR, "--dataset-size", "140198", "--steps", "3", "--delta", "1e-5")
    for adjacency, said in (("zero-out", "zeroed out"), ("replace-one", "replaced")):
        text = " ".join(run(*words, "--adjacency", adjacency).out.split())
        assert f"certainly not exceeded, for any record {said}" in text
        assert "for any record added" not in text
    assert "for any record removed" in " ".join(run(*words, "--pair", "smaller").out.split())


def test_calibrate() -> None:
    words = ("calibrate", "--mechanism", "sgm", "--sample-rate", "0.01", "--steps", "1000", "--delta", "1e-5")
    found = strictly_parsed(run(*words, "--target-epsilon", "2", "--json").out)
    assert found["guarantee"]["epsilon"] <= 2.0  # type: ignore[index]
    assert found["reachable"] is True
    floor = tuple(word for word in FLOOR if word not in ("--noise-multiplier", "10"))
    unreachable = run(
        "calibrate", *floor, "--dataset-size", "140199", "--steps", "200", "--target-epsilon", "2", "--delta", "1e-5"
    )
    assert unreachable.code == 0
    assert "No noise reaches epsilon=2" in unreachable.out
    assert "public constant" in unreachable.out


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("account", *SGM, "--delta", "1e-5"), "--steps: missing (or --epochs)"),
        (("account", *SGM, "--steps", "10"), "--delta: missing (or --epsilon)"),
        (("account", *SGM, "--steps", "0", "--delta", "1e-5"), "--steps=0: must be >= 1"),
        (("account", *SGM, "--steps", "1.5", "--delta", "1e-5"), "--steps=1.5: must be a whole number"),
        (("account", *SGM, "--steps", "10", "--epochs", "1", "--delta", "1e-5"), "--epochs=1: must be left out"),
        (("account", *SGM, "--steps", "10", "--delta", "0"), "--delta=0: must be"),
        (
            ("account", *SGM, "--steps", "10", "--delta", "1e-5", "--epsilon", "1"),
            "--epsilon=1: must be left out when --delta is given; give either, not both",
        ),
        (("account", *SGM, "--steps", "10", "--delta", "2"), "--delta=2: must be"),
        (("account", *SGM, "--steps", "10", "--delta", "x"), "--delta=x: must be a number"),
        (("account", *SGM, "--steps", "10", "--epsilon", "-1"), "--epsilon=-1: must be >= 0"),
        (
            ("account", *SGM, "--steps", "10", "--delta", "1e-5", "--adjacency", "near"),
            "--adjacency=near: must be one of",
        ),
        (
            ("account", *LOADER, "--dataset-size", "49", "--batch-size", "1", "--steps", "1", "--delta", "1e-5"),
            "--batch-size=1",
        ),
        (
            ("account", *LOADER, "--dataset-size", "9", "--batch-size", "10", "--steps", "1", "--delta", "1e-5"),
            "--batch-size=10",
        ),
        (
            ("account", *LOADER, "--sample-rate", "0.1", "--steps", "1", "--delta", "1e-5"),
            "--sample-rate=0.1: must be left",
        ),
        (
            ("calibrate", "--mechanism", "sgm", "--sample-rate", "0.1", "--delta", "1e-5", "--steps", "1"),
            "--target-epsilon: missing",
        ),
        (
            (
                "calibrate",
                "--mechanism",
                "sgm",
                "--sample-rate",
                "0.1",
                "--delta",
                "1e-5",
                "--steps",
                "1",
                "--target-epsilon",
                "0",
            ),
            "--target-epsilon=0: must be",
        ),
    ],
)
def test_refusals(words: tuple[str, ...], begins: str) -> None:
    assert refusal(run(*words)).startswith(f"error: {begins}")


def test_no_other_size_between_neighbours_of_one_size() -> None:
    words = ("account", *FLOOR, "--dataset-size", "140250")
    settings = ("--steps", "10", "--delta", "1e-5")
    assert "instead" in run(*words, *settings).out
    assert "instead" not in run(*words, *settings, "--adjacency", "zero-out").out


CALIBRATED = (
    "account",
    "--mechanism",
    "opacus-loader",
    "--dimension",
    "3",
    "--dataset-size",
    "1000",
    "--batch-size",
    "10",
)
TARGET = ("--calibrated-to", "3", "--calibrated-epochs", "10", "--calibrated-with", "rdp", "--calibrated-delta")
COST = ("--steps", "1", "--delta", "1e-5")


@pytest.mark.parametrize("delta", ["1e-5", "1/N"])
def test_noise_that_opacus_has_calibrated(delta: str) -> None:
    pytest.importorskip("opacus")
    found = strictly_parsed(run(*CALIBRATED, *TARGET, delta, *COST, "--pair", "larger", "--json").out)
    loader = nm.OpacusLoader(
        dataset_size=1000,
        batch_size=10,
        dimension=3,
        target_epsilon=3.0,
        target_delta="1/N" if delta == "1/N" else 1e-5,
        epochs=10,
        accountant="rdp",
    )
    assert found["settings"]["noise_multiplier"] == loader.noises[0]  # type: ignore[index]
    assert found["settings"]["target_epsilon"] == 3.0  # type: ignore[index]
    assert found["leakage"]["epsilon"] == nm.account(loader, steps=1, delta=1e-5, pair="larger").leakage.epsilon  # type: ignore[index]


def test_a_loader_that_drops_its_last_batch(tmp_path: Path) -> None:
    given = ("--noise-multiplier", "1", "--drop-last", *COST)
    words = (*CALIBRATED[:6], "109", "--batch-size", "10", *given)
    assert "1/10 and 10 at 109; 1/11 and 10 at 110" in " ".join(run(*words).out.split())
    # a page is about that loader, be it from a file or from options, and its command says so
    kept, page = tmp_path / "run.json", tmp_path / "a.html"
    kept.write_text(run(*words, "--json").out, encoding="utf-8")
    for asked in ([str(kept)], words[1:]):
        assert run("report", *asked, "--out", str(page)).code == 0
        # without the tags that keep words of a command together
        shown = re.sub(r"</?span[^>]*>", "", page.read_text(encoding="utf-8"))
        command = re.search(r"noisymean account ([^<]*)</code>", shown)
        assert command is not None
        assert "--drop-last" in command[1]
        assert json.loads(run("account", *command[1].split(), "--json").out) == json.loads(kept.read_text())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "--noise-multiplier: missing (or --calibrated-to for opacus-loader)"),
        (
            ("--noise-multiplier", "1", "--calibrated-to", "3"),
            "--noise-multiplier=1: must be left out with --calibrated-to",
        ),
        (("--calibrated-to", "3"), "--calibrated-delta: missing"),
        (("--noise-multiplier", "1", "--calibrated-epochs", "3"), "--calibrated-epochs=3: must be left out without"),
        ((*TARGET[:5], "magic", "--calibrated-delta", "1e-5"), "--calibrated-with=magic: must be one of prv, rdp, gdp"),
        ((*TARGET, "2"), "must be"),
    ],
)
def test_complaints_about_a_calibration(words: tuple[str, ...], complaint: str) -> None:
    assert complaint in refusal(run(*CALIBRATED, *words, *COST))


def test_only_a_loader_drops_batches() -> None:
    assert "--drop-last" in refusal(run("account", *SGM, "--drop-last", *COST))
