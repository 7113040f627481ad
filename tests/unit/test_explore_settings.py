"""What the page can be asked: controls, choices, addresses, and that its answers are those of `account`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs

import pytest

import noisymean as nm
from command_line import run
from noisymean.cli.explore import account_record, read
from noisymean.explore import exports
from noisymean.explore.settings import CHOICES, CONTROLS, WAYS, Commands, Settings, about, in_symbols, unused
from noisymean.mechanisms import KINDS, Adjacency
from noisymean.report.asked_run import AskedRun


def settings_of(values: Mapping[str, str]) -> Settings:
    return Settings.of({name: [text] for name, text in values.items()})


def query(values: Mapping[str, str]) -> str:
    return settings_of(values).query


def asked(values: Mapping[str, str]) -> AskedRun:
    return read(settings_of(values))


def refused(values: Mapping[str, str]) -> str:
    with pytest.raises(nm.NoisymeanError) as fault:
        asked(values)
    return in_symbols(fault.value)


def test_an_address_keeps_what_was_typed() -> None:
    typed = {
        "mechanism": "feasgm",
        "sample-rate": "1/200",
        "dataset-size": "6e4",
        "noise-multiplier": "1.50",
        "epochs": "3",
    }
    again = Settings.of(parse_qs(query(typed)))
    assert again == settings_of(typed)
    assert again.get("sample-rate") == "1/200"
    assert [again.get(name) for name in ("batch-size", "steps", "sampling")] == [None] * 3


def test_the_loader_is_asked_for_its_batch_size_and_complains_of_a_rate() -> None:
    assert [settings_of({"mechanism": "opacus-loader"}).get(name) for name in ("sample-rate", "batch-size")] == [
        None,
        "600",
    ]
    said = refused({"mechanism": "opacus-loader", "sample-rate": "0.5"})
    assert said.startswith("q cannot be '0.5': it must be left out for opacus-loader")


def test_what_says_nothing_is_not_asked() -> None:
    """Random allocation has no batch size, a noisy sum no pair, and only batches that are cut have a last one."""
    assert unused("easgm", "poisson", "") == ["drop-last"]
    assert unused("easgm", "poisson", "zero-out") == ["drop-last", "pair"]
    assert unused("sgm", "poisson", "") == ["drop-last", "pair"]
    assert unused("sgm", "shuffle", "add-remove") == []
    assert unused("easgm", "balls-in-bins", "") == ["batch-size", "drop-last"]
    assert unused("opacus-loader", "poisson", "") == ["sample-rate"]
    assert unused("no such", "poisson", "") == unused("sgm", "no such", "") == []


@pytest.mark.parametrize("mechanism", KINDS)
def test_the_command_says_what_the_page_says(mechanism: str) -> None:
    settings = settings_of({"mechanism": mechanism})
    words = shlex.split(" ".join(settings.command_parts()))
    assert words[:2] == ["noisymean", "account"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given == {"--mechanism": mechanism, **{f"--{name}": text for name, text in settings.values}}
    assert read(settings).mechanism.name == mechanism


def test_a_hostile_value_is_one_word_of_the_command() -> None:
    settings = settings_of({"steps": "5; rm -rf $HOME `x` '\n"})
    assert "5; rm -rf $HOME `x` '" in shlex.split(" ".join(settings.command_parts()))
    assert "/" not in settings_of({"sample-rate": "../../etc/passwd"}).file_name


def test_every_slider_starts_where_its_box_does() -> None:
    for control in CONTROLS:
        low, high = control.ends
        assert low <= control.start <= high
        assert 10**control.start == pytest.approx(float(Fraction(control.default)))


def test_every_option_is_one_of_the_command() -> None:
    """No control and no choice has a name of the page's own making."""
    help_text = run("account", "--help").out
    for one in (*CONTROLS, *CHOICES):
        assert f"--{one.name}" in help_text
    assert {name for ways in WAYS for name in ways.all} <= {one.name for one in CONTROLS}


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("foo=1", "the address has 'foo', which this page does not ask for"),
        ("steps=1&steps=2", "T cannot be '1; 2': it must be given once"),
        ("steps=1&epochs=2", "E cannot be '2': it must be left out when --steps is given"),
        ("sampling=magic", "sampling cannot be 'magic': it must be one of poisson, shuffle"),
        ("adjacency=magic", "adjacency cannot be 'magic': it must be one of add-remove"),
        ("drop-last=no", "drop-last cannot be 'no': it must be one of yes"),
        (f"sample-rate=0.{'0' * 80}1", "q cannot be '0.000"),
        ("mechanism=magic", "mechanism cannot be 'magic': it must be one of sgm"),
        ("delta=-1", "δ cannot be -1.0: it must be "),
        ("epochs=0", "E cannot be '0': it must be > 0"),
        ("dataset-size=1e999999999", "N cannot be '1e999999999': it must be a whole number from 0 to 10¹⁵"),
        ("dataset-size=%00", "N cannot be '\\x00': it must be a whole number from 0 to 10¹⁵"),
        ("sample-rate=0.01&batch-size=600", "b cannot be '600': it must be left out when --sample-rate is given"),
        ("mechanism=asgm&sampling=balls-in-bins", "sampling cannot be 'balls-in-bins': it must be another for ASGM"),
        ("mechanism=asgm&adjacency=zero-out", "adjacency cannot be 'zero-out': it must be add-remove for ASGM"),
        ("mechanism=opacus-loader&sampling=fixed-size", "sampling cannot be 'fixed-size': it must be one of poisson"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(address: str, said: str) -> None:
    with pytest.raises(nm.NoisymeanError) as fault:
        read(Settings.of(parse_qs(address))).account()
    sentence = in_symbols(fault.value)
    assert sentence.startswith(said)
    assert "\n" not in sentence
    assert len(sentence) < 400


# --- the same mathematics ----------------------------------------------------------------------------------------------

_SHUFFLED = {
    "mechanism": "sgm",
    "sampling": "shuffle",
    "dataset-size": "59999",
    "dimension": "26010",
    "batch-size": "600",
}
_SAID = {"noise-multiplier": "1", "delta": "1e-5"}
_WHOLE: dict[str, Any] = {"dataset_size": 59_999, "dimension": 26_010, "noise_multiplier": 1.0}
COMBINATIONS: dict[str, tuple[dict[str, str], nm.Mechanism, dict[str, Any]]] = {
    "a sum, in epochs": (
        {"mechanism": "sgm", "sample-rate": "1/100", "dataset-size": "59999", "dimension": "26010", "epochs": "2.5"},
        nm.SGM(sample_rate="1/100", **_WHOLE), {"steps": 250},
    ),
    "a batch size is a rate": (
        {"mechanism": "easgm", "batch-size": "600", "dataset-size": "60000", "dimension": "26010", "steps": "7"},
        nm.EASGM(sample_rate="1/100", **{**_WHOLE, "dataset_size": 60_000}), {"steps": 7},
    ),
    "zero-out": (
        {"mechanism": "easgm", "sample-rate": "1/100", "adjacency": "zero-out", "dataset-size": "59999", "dimension": "26010", "steps": "7"},
        nm.EASGM(sample_rate="1/100", **_WHOLE), {"steps": 7, "adjacency": Adjacency.ZERO_OUT},
    ),
    "replace-one": (
        {"mechanism": "feasgm", "sample-rate": "1/100", "adjacency": "replace-one", "dataset-size": "59999", "dimension": "26010", "steps": "7"},
        nm.FEASGM(sample_rate="1/100", **_WHOLE), {"steps": 7, "adjacency": Adjacency.REPLACE_ONE},
    ),
    "the smaller neighbour": (
        {"mechanism": "feasgm", "sample-rate": "1/100", "pair": "smaller", "dataset-size": "59999", "dimension": "26010", "steps": "7"},
        nm.FEASGM(sample_rate="1/100", **_WHOLE), {"steps": 7, "pair": "smaller"},
    ),
    "the larger neighbour": (
        {"mechanism": "feasgm", "sample-rate": "1/100", "pair": "larger", "dataset-size": "59999", "dimension": "26010", "steps": "7"},
        nm.FEASGM(sample_rate="1/100", **_WHOLE), {"steps": 7, "pair": "larger"},
    ),
    "shuffled, an epoch": (
        {**_SHUFFLED, "sample-rate": "1/100", "epochs": "1"},
        nm.SGM(sample_rate="1/100", batch_size=600, sampling="shuffle", **_WHOLE), {"steps": 100},
    ),
    "shuffled, the last dropped": (
        {**_SHUFFLED, "sample-rate": "1/100", "drop-last": "yes", "epochs": "1"},
        nm.SGM(sample_rate="1/100", batch_size=600, sampling="shuffle", drop_last=True, **_WHOLE), {"steps": 99},
    ),
    "shuffled, records added": (
        {**_SHUFFLED, "sample-rate": "1/100", "epochs": "1", "adjacency": "add-remove"},
        nm.SGM(sample_rate="1/100", batch_size=600, sampling="shuffle", **_WHOLE), {"steps": 100, "adjacency": Adjacency.ADD_REMOVE},
    ),
    "a fixed size": (
        {"mechanism": "sgm", "sampling": "fixed-size", "batch-size": "600", "dataset-size": "60000", "dimension": "26010", "epochs": "1"},
        nm.SGM(sample_rate="1/100", batch_size=600, sampling="fixed-size", **{**_WHOLE, "dataset_size": 60_000}), {"steps": 100},
    ),
    "balls in bins": (
        {"mechanism": "sgm", "sampling": "balls-in-bins", "sample-rate": "1/100", "dataset-size": "59999", "dimension": "26010", "steps": "100"},
        nm.SGM(sample_rate="1/100", sampling="balls-in-bins", **_WHOLE), {"steps": 100},
    ),
    "in order": (
        {"mechanism": "asgm", "sampling": "cyclic", "batch-size": "600", "sample-rate": "1/100", "dataset-size": "59999", "dimension": "26010", "epochs": "1"},
        nm.ASGM(sample_rate="1/100", batch_size=600, sampling="cyclic", **_WHOLE), {"steps": 100},
    ),
    "a loader that shuffles": (
        {"mechanism": "opacus-loader", "sampling": "shuffle", "batch-size": "600", "dataset-size": "59999", "dimension": "26010", "epochs": "1"},
        nm.OpacusLoader(batch_size=600, sampling="shuffle", **_WHOLE), {"steps": 100},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_numbers_are_those_of_the_library(name: str) -> None:
    typed, mechanism, more = COMBINATIONS[name]
    found = asked({**typed, **_SAID}).account()
    wanted = nm.account(mechanism, delta=1e-5, **more)
    assert found.to_dict() == wanted.to_dict()
    assert (found.verdict, found.adjacency_told) == (wanted.verdict, "adjacency" in typed)


@pytest.mark.parametrize("name", ["shuffled, the last dropped", "the smaller neighbour"])
def test_the_command_of_a_combination_gives_its_numbers(name: str) -> None:
    settings = settings_of({**COMBINATIONS[name][0], **_SAID})
    words = shlex.split(" ".join(settings.command_parts()))
    question = read(settings)
    commands = Commands(read, account_record, lambda run, line: "")
    ours = json.loads(exports.record(commands, question, question.account(), question.elsewhere()))
    assert ours == json.loads(run(*words[1:], "--json").out)


def test_a_file_says_its_settings() -> None:
    settings = settings_of({**COMBINATIONS["shuffled, the last dropped"][0], **_SAID})
    assert exports.file_name("run", settings, "csv") == (
        "noisymean-run-sgm-N59999-n26010-q1over100-b600-shuffle-sigma1-drop-last-E1-delta1e-5.csv"
    )
    said = exports.line(read(settings))
    for part in (
        "SGM",
        "N = 59,999",
        "q = 0.01",
        "shuffle",
        "dropped",
        "99 steps",
        "δ = 10⁻⁵",
        "one record zeroed out",
    ):
        assert part in said


def test_paper_has_the_settings_as_people_write_them() -> None:
    rows = dict(
        settings_of({"mechanism": "feasgm", "dataset-size": "6e4", "sample-rate": "1/200", "delta": "1e-05"}).rows
    )
    assert rows["mechanism"] == "feasgm, divides by ⌊N·q⌋"
    assert rows["records in the dataset N"] == "60,000"
    assert (rows["sample rate q"], rows["delta δ"], rows["How batches are drawn"]) == (
        "1/200",
        "10⁻⁵",
        "Poisson sampling",
    )


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("1485217", "1,485,217"),
        ("60_000", "60,000"),
        ("1e12", "10¹²"),
        ("1.50", "1.50"),
        ("1/200", "1/200"),
        ("abc", "abc"),
        ("nan", "nan"),
        # none of them is written out
        ("1e999999999", "1e999999999"),
        ("-1e-999999999", "-1e-999999999"),
    ],
)
def test_a_number_on_paper_has_every_digit(typed: str, written: str) -> None:
    rows = dict(settings_of({"mechanism": "sgm", "noise-multiplier": typed}).rows)
    assert rows["noise multiplier σ"] == written


def test_names_are_taken_however_they_are_written() -> None:
    """As the command line takes them: the form then has the one that is meant."""
    settings = settings_of({"mechanism": "OpacusLoader", "sampling": "Shuffle", "adjacency": "zero_out"})
    assert settings == settings_of({"mechanism": "opacus-loader", "sampling": "shuffle", "adjacency": "zero-out"})


def test_a_complaint_names_its_control() -> None:
    """So that the page can mark it; a fault of the whole question marks none."""
    for values, name in (
        ({"dataset-size": "abc"}, "dataset-size"),
        ({"foo": "1"}, ""),
        ({"sampling": "no"}, "sampling"),
    ):
        with pytest.raises(nm.NoisymeanError) as fault:
            asked(values)
        assert about(fault.value) == name
