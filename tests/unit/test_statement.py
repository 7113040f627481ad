"""What is published of a run: each sentence true by itself, every format from the same record, what is unknown said so."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import noisymean as nm
from noisymean.errors import InvalidInput
from noisymean.gdp import GaussianDP
from noisymean.outward import lower_bound, upper_bound
from noisymean.statement import Deployment, Format, registry_schema, sentences, yaml_text
from noisymean.statement.registry import TO_DO
from noisymean.statement.sentences import Topic

ADD, ZERO, REPLACE = nm.Adjacency
ROUND: dict[str, Any] = {"sample_rate": "1/10", "noise_multiplier": 1}
TEN: dict[str, Any] = {"dataset_size": 10, **ROUND}
CUT: dict[str, Any] = {"dataset_size": 60, "batch_size": 6, **ROUND}
ALL_OF_IT = nm.SGM(sample_rate=1, noise_multiplier=10)
LOADER = nm.OpacusLoader(dataset_size=60, batch_size=6, dimension=50, noise_multiplier=1)

# Every verdict, adjacency, way of drawing, denominator; epsilon given or delta; guarantees that are known or not.
RUNS: dict[str, Callable[[], nm.Account]] = {
    "holds": lambda: nm.account(nm.SGM(**ROUND), steps=2, delta=1e-5),
    "holds, epsilon given": lambda: nm.account(nm.SGM(**ROUND), steps=2, epsilon=0.5),
    "holds, as anything would": lambda: nm.account(nm.SGM(sample_rate=1, noise_multiplier=0.01), steps=100, epsilon=1),
    "violated": lambda: nm.account(nm.EASGM(dimension=100, **TEN), steps=1, delta=1e-5),
    "violated, epsilon given": lambda: nm.account(nm.EASGM(dimension=100, **TEN), steps=1, epsilon=1),
    "violated, no guarantee": lambda: nm.account(nm.EASGM(dimension=10**12, **TEN), steps=1, delta=1e-5),
    "violated, a delta of 1": lambda: nm.account(nm.EASGM(dimension=10**12, **TEN), steps=1, epsilon=1),
    "undetermined": lambda: nm.account(
        nm.EASGM(dataset_size=100_000, dimension=1, sample_rate="1/10", noise_multiplier=1), steps=1, delta=1e-5
    ),
    "zeroed out": lambda: nm.account(nm.EASGM(dimension=100, **TEN), steps=1, delta=1e-5, adjacency=ZERO),
    "replaced": lambda: nm.account(nm.SGM(**ROUND), steps=1, delta=1e-5, adjacency=REPLACE),
    "batch size": lambda: nm.account(nm.ASGM(dimension=10, **TEN), steps=1, delta=1e-5),
    "floor": lambda: nm.account(nm.FEASGM(dimension=10, **{**TEN, "dataset_size": 19}), steps=1, delta=1e-5),
    "one neighbour": lambda: nm.account(nm.EASGM(dimension=100, **TEN), steps=1, delta=1e-5, pair="smaller"),
    "loader": lambda: nm.account(LOADER, steps=10, delta=1e-5),
    "loader, zeroed out": lambda: nm.account(LOADER, steps=10, delta=1e-5, adjacency=ZERO),
    "shuffled": lambda: nm.account(nm.SGM(sampling="shuffle", **CUT), steps=10, delta=1e-5),
    "shuffled, added": lambda: nm.account(nm.SGM(sampling="shuffle", **CUT), steps=10, delta=1e-5, adjacency=ADD),
    "fixed size": lambda: nm.account(nm.SGM(sampling="fixed-size", **CUT), steps=10, delta=1e-5, adjacency=REPLACE),
    "allocated": lambda: nm.account(nm.SGM(sampling="balls-in-bins", **ROUND), steps=10, delta=1e-5),
    "only for others": lambda: nm.account(
        nm.SGM(sampling="shuffle", dataset_size=60, batch_size=60, sample_rate=1, noise_multiplier=5),
        steps=1,
        delta=1e-5,
    ),
    "a schedule": lambda: nm.account(
        [(nm.SGM(**ROUND), 2), (nm.SGM(sample_rate="1/10", noise_multiplier=2), 3)], delta=1e-5
    ),
}
FULL = Deployment(
    name="A model: yes", curator="# No", description="null\nand more", intended_use="1.0", region="on", published="2026-01-31",
    model="Central", author="- x",
)  # fmt: skip


@cache
def run(name: str) -> nm.Account:
    return RUNS[name]()


@cache
def made(name: str) -> nm.Statement:
    return nm.statement(run(name), gaussian=False)


def said(name: str) -> dict[Topic, str]:
    return made(name).sentences


# --- each sentence alone -----------------------------------------------------------------------------------------------------


def test_the_runs_are_what_they_are_called() -> None:
    for name, answer in [(one, run(one)) for one in RUNS]:
        first = name.split(",")[0]
        if first in ("holds", "violated", "undetermined"):
            assert answer.verdict == first, name
    assert {one.verdict for one in map(run, RUNS)} == {"holds", "violated", "undetermined"}
    assert {one.adjacency for one in map(run, RUNS)} == set(nm.Adjacency)
    assert run("only for others").holds_for_others


@pytest.mark.parametrize("name", RUNS)
def test_the_claim_is_called_the_privacy_of_the_run_only_if_it_holds(name: str) -> None:
    answer, claim = run(name), said(name)[Topic.CLAIM]
    private = re.search(r"^The training is \(ε, δ\)-differentially private with [εδ] = (\S+) at", claim)
    claimed = upper_bound(answer.value(answer.claimed) or 0.0)
    if answer.verdict != "holds":
        assert private is None
        assert claim.startswith("An accountant of the noisy sum reports ")
        assert ("is violated." in claim) == (answer.verdict == "violated")
        assert ("is undetermined" in claim) == (answer.verdict == "undetermined")
    if answer.verdict == "violated":
        assert answer.leakage is not None
        assert f"= {claimed} is violated." in claim
        assert f"below {lower_bound(answer.value(answer.leakage) or 0.0)} holds at" in claim
    if private is not None:
        # the guarantee, which may be less than the claim
        assert private[1] == upper_bound(answer.value(answer.guarantee) or 0.0)


@pytest.mark.parametrize("name", RUNS)
def test_every_bound_says_how_batches_are_drawn_for_which_neighbours_and_how_many_records(name: str) -> None:
    answer = run(name)
    found = said(name)
    gaussian = sentences.all_sentences(answer, GaussianDP(1.0, 0.001), "one record", unit_told=False)[Topic.GAUSSIAN]
    bounds = [one for one in (*found.values(), gaussian) if re.search("What is guaranteed is|^The training is", one)]
    assert bounds
    for one in bounds:
        assert f"for batches {answer.sampling.in_words} and one record {answer.change}" in one
        assert "if it ran as it is described here" in one
        if any(segment.mechanism.knows_size for segment in answer.segments):
            assert f"where the dataset has {answer.segments[0].mechanism.dataset_size:,} records" in one


@pytest.mark.parametrize("name", RUNS)
def test_no_sentence_leans_on_another_or_on_markdown(name: str) -> None:
    found = {**said(name), Topic.GAUSSIAN: sentences.gaussian_words(GaussianDP(1.0, 0.02, everywhere=3.0), "if")}
    for topic, one in found.items():
        assert not re.search(r"\b(above|below:|below,|as said|the former|the latter)\b", one), topic
        assert not re.match(r"(It|This|That|These|They|On the same)\b", one), topic
        # the registry shows its texts as Markdown
        assert not set(one) & set("`*_<>|\\#$~[]"), topic
        assert one[0].isupper() or one[0] == "⌊", topic
        assert one.endswith("."), topic
        # no notation of machines
        assert not re.search(r"\de[+-]?\d|\b(epsilon|delta|None|nan|inf)\b|(?<![\d.])\d{5}", one), topic


@pytest.mark.parametrize("name", RUNS)
def test_what_is_public_is_what_the_bounds_do_not_count(name: str) -> None:
    """Constants, and where neighbours have the same number of records all that comes from it; nothing is both."""
    answer, public = run(name), said(name)[Topic.PUBLIC]
    each = [one.mechanism for one in answer.segments]
    constants, _, rest = public.partition(". ")
    assert constants.startswith("Taken to be public, and chosen without a look at the data: ")
    moves = {
        "the denominator": any(one.size_matters for one in each),
        "the noise multiplier": any(one.noise_moves for one in each),
    }
    for quantity, from_data in moves.items():
        assert (quantity in constants) == (not from_data)
        assert (quantity.removeprefix("the ") in rest.lower()) == from_data
    assert "number of records" in rest
    assert "number of records" not in constants
    if answer.adjacency is ADD:
        assert "publishes it" in rest
    else:
        assert "public as well: neighbouring datasets have the same" in rest


def test_the_rate_of_a_loader_and_of_cut_batches_comes_from_the_data() -> None:
    assert (
        "The sampling rate and the denominator come from the data, and the bounds count" in said("loader")[Topic.PUBLIC]
    )
    assert "The sampling rate comes from the data, and the loss counts" in said("shuffled, added")[Topic.PUBLIC]
    assert "records and, with it, the sampling rate are public" in said("shuffled")[Topic.PUBLIC]
    assert "the sampling rate, the noise multiplier and the denominator." in said("holds")[Topic.PUBLIC]


def test_without_a_guarantee_none_is_made_up() -> None:
    for name in ("violated, no guarantee", "violated, a delta of 1", "shuffled, added"):
        found = nm.statement(run(name))
        guarantee = found.sentences[Topic.GUARANTEE]
        assert guarantee.startswith("No upper bound on ")
        assert "What is guaranteed is" not in found.text()
        loss: Any = found.registry["deployment"]
        assert "privacy_parameters" not in loss["privacy_loss"]
        assert "variant_name" not in loss["dp_variant"]
        assert dict(found.rows())[next(row for row, _ in found.rows() if row.startswith("Guaranteed"))] == "none known"


def test_a_claim_that_every_program_satisfies_is_not_called_private() -> None:
    found = said("holds, as anything would")
    assert "Every program satisfies that" in found[Topic.CLAIM]
    assert "known for this training but 1" in found[Topic.GUARANTEE]


def test_a_claim_for_other_neighbours_is_not_said_to_be_false() -> None:
    """The noisy sum keeps its claim for one record added or removed, whatever a replaced one loses."""
    claim = said("replaced")[Topic.CLAIM]
    assert "That is not the privacy of this training" not in claim
    assert "That says nothing of one record replaced" in claim
    assert claim.endswith("As a claim for one record replaced, ε = 1.685 is violated.")
    assert "nobody has said that the claim is for these neighbours" in said("only for others")[Topic.CLAIM]
    assert "That is not the privacy of this training" in said("loader")[Topic.CLAIM]


def test_one_neighbour_is_not_both() -> None:
    assert "one record removed; nothing is said about one added." in said("one neighbour")[Topic.UNIT]
    assert "nothing is said" not in said("loader")[Topic.UNIT]
    assert "nothing is said" not in said("holds")[Topic.UNIT]


def test_a_remedy_names_all_that_has_to_become_a_constant() -> None:
    assert said("violated")[Topic.REMEDY] == "Remedy: divide by a public constant."
    assert (
        said("loader")[Topic.REMEDY]
        == "Remedy: divide by a public constant, and make the sampling rate a constant too."
    )
    assert "Poisson sampling" in said("shuffled, added")[Topic.REMEDY]
    # its code is right: it was claimed for the wrong neighbours
    for name in ("holds", "replaced", "only for others"):
        assert Topic.REMEDY not in said(name)


def test_epochs_of_a_public_size_give_nothing_away() -> None:
    assert "counting epochs leaks the size" in said("loader")[Topic.NOTES]
    assert "counting epochs" not in said("loader, zeroed out")[Topic.NOTES]


def test_a_delta_that_publishing_a_record_has_is_noted() -> None:
    noted = "publishing a record at random would satisfy it"
    at = {delta: nm.account(nm.SGM(**TEN), steps=1, delta=delta) for delta in (0.1, 0.0999)}
    assert noted in nm.statement(at[0.1], gaussian=False).sentences[Topic.NOTES]
    assert Topic.NOTES not in nm.statement(at[0.0999], gaussian=False).sentences


def test_what_a_record_stands_for_is_said_or_said_to_be_assumed() -> None:
    told = nm.statement(run("holds"), unit=" one\n patient ", gaussian=False)
    assert told.sentences[Topic.UNIT].startswith("The privacy unit is one patient. ")
    assert "if all that it contributes is one record" in told.sentences[Topic.UNIT]
    assert "assumed: nobody said" in said("holds")[Topic.UNIT]
    with pytest.raises(InvalidInput, match=r"unit=.*what one record stands for"):
        nm.statement(run("holds"), unit="  ")


def test_it_rests_on_what_was_typed() -> None:
    assert "number of records" in said("loader")[Topic.GROUNDS]
    assert "number of records" not in said("holds")[Topic.GROUNDS]
    assert "the adjacency is assumed" in said("shuffled")[Topic.GROUNDS]
    assert "the adjacency is assumed" not in said("shuffled, added")[Topic.GROUNDS]


# --- mu ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "has", "has_not"),
    [
        (GaussianDP(1.0, 0.0, 0.0, 1.0), ["μ = 1,", "is 0: it is the whole curve"], ["up to", "at most", "alone"]),
        (GaussianDP(0.51234, 0.00987, everywhere=31.6), ["μ = 0.5124 up to 10⁻¹⁰", "μ = 31.6 is proved", "at most 0.0099."], ["alone"]),
        (GaussianDP(2.0, 0.0100001), ["at most 0.011; that is not below 0.01", "alone does not stand"], ["Without that"]),
        (GaussianDP(None, None), ["No μ of Gaussian differential privacy is given."], ["regret", "The training"]),
    ],
)  # fmt: skip
def test_mu_and_regret_do_not_contradict(found: GaussianDP, has: list[str], has_not: list[str]) -> None:
    words = sentences.gaussian_words(found, "on conditions")
    assert all(one in words for one in has), words
    assert not any(one in words for one in has_not), words


def test_the_whole_curve_of_a_gaussian_is_one_number() -> None:
    found = nm.statement(nm.account(ALL_OF_IT, steps=100, delta=1e-5))
    assert found.gaussian == GaussianDP(1.0, 0.0, 0.0, 1.0)
    assert ("Gaussian DP, μ", "1") in found.rows()
    assert "μ-Gaussian differentially private with μ = 1, for batches" in found.sentences[Topic.GAUSSIAN]
    left_out = nm.statement(nm.account(ALL_OF_IT, steps=100, delta=1e-5), gaussian=False)
    assert left_out.gaussian is None
    assert "μ" not in left_out.text()


# --- formats -----------------------------------------------------------------------------------------------------------------


def is_a_record(record: object) -> list[str]:
    return [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(registry_schema()).iter_errors(record)
    ]


@pytest.mark.parametrize("deployment", [Deployment(), FULL], ids=["to be filled in", "full"])
@pytest.mark.parametrize("name", RUNS)
def test_the_yaml_is_the_record_and_a_record_of_the_registry(name: str, deployment: Deployment) -> None:
    found = nm.statement(run(name), unit="no", gaussian=False, deployment=deployment)
    for read in (yaml.safe_load, yaml.unsafe_load):
        assert read(found.written(Format.YAML)) == found.registry
    assert is_a_record(found.registry) == []


def test_the_parameters_are_the_guarantee_never_the_claim() -> None:
    for name in ("violated", "violated, epsilon given", "holds, epsilon given", "allocated"):
        answer = run(name)
        record: Any = nm.statement(answer, gaussian=False).registry
        found = record["deployment"]["privacy_loss"]["privacy_parameters"]
        sound, claimed = answer.value(answer.guarantee), answer.value(answer.claimed)
        symbol, other = ("epsilon", "delta") if answer.asked_delta else ("delta", "epsilon")
        assert sound is not None
        assert sound <= found[symbol] <= sound * (1.0 + 1e-5)
        assert found[symbol] != pytest.approx(claimed, rel=1e-4) or name == "holds, epsilon given"
        assert found[other] == getattr(answer.claimed, other)


def test_what_is_not_known_is_to_be_filled_in() -> None:
    record: Any = nm.statement(run("holds"), gaussian=False, deployment=Deployment(name="x", author="y")).registry
    basic = record["deployment"]["basic"]
    assert (basic["name"], basic["data_curators"], basic["publication_date"]) == ("x", [TO_DO], TO_DO)
    assert record["url_slug"] == "to-be-filled-in"
    # who applies the noise has no value for that, and need not be there
    assert "deployment_model" not in record["deployment"]
    assert Deployment(name="x", author="y").missing == [
        *("curator", "description", "intended_use", "region", "published", "model"),
    ]  # fmt: skip


def test_slugs_are_those_of_the_registry() -> None:
    """Pairs of its deployments at commit 3e9c812a924c: name, curator, date, and the url_slug of that record."""
    pairs = [("Safety Classifier", "Google", "2024-01-01", "safety-classifier-google-2024")]
    for name, curator, published, slug in pairs:
        record = nm.statement(
            run("holds"), gaussian=False, deployment=Deployment(name=name, curator=curator, published=published)
        ).registry
        assert record["url_slug"] == slug


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"published": "31.1.2026"}, "published='31.1.2026': must be a date written YYYY-MM-DD"),
        ({"published": "2026-1-1"}, "published='2026-1-1'"),
        ({"published": "2026-02-30"}, "published='2026-02-30'"),
        ({"published": "20260101"}, "published='20260101'"),
        ({"published": "٢٠٢٦-01-01"}, "published="),
        ({"model": "central"}, "model='central': must be one of Central, Local, Shuffle, Federated"),
    ],
)
def test_what_the_registry_would_refuse_is_refused(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        Deployment(**values)


def test_a_record_that_is_changed_is_refused() -> None:
    record: Any = nm.statement(run("holds"), gaussian=False, deployment=FULL).registry
    assert is_a_record(record) == []
    for part, key in [("basic", "name"), ("basic", "publication_date"), ("administrative", "registry_authors")]:
        other = {**record, "deployment": {**record["deployment"], part: dict(record["deployment"][part])}}
        del other["deployment"][part][key]
        assert is_a_record(other)
    assert is_a_record({**record, "tier": 4})
    assert is_a_record({**record, "status": "draft"})
    assert is_a_record({**record, "more": 1})
    assert is_a_record({**record, "deployment": {**record["deployment"], "deployment_model": {"model_name": TO_DO}}})


HOSTILE = [
    *("", " ", "yes", "null", "~", "1.0", "1e5", "0x1", "2026-01-31", "- a", "a: b", "# c", "{}", "[]", "&a", "*a", "!!int 1"),
    *("'", '"', "\\", "%", "@", "`", "|", ">", "a\nb", "a\n\nb", " a\nb", "a\n b", "a\n# b\n--- \n...", "\t", "a\tb", "\r", "\u2028"),
    *("\x00", "\x1b[31m", "\u0085", "\ufeff", "\ud800", "🙂", "é", "\ufffe", "x" * 5_000, "a\nb\n", "---", "...", "?", ":"),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_comes_back_from_yaml(text: str) -> None:
    record = {"text": text, "items": [text, "x"], "inner": {"text": text}}
    # an unpaired surrogate is no character: what stands for it is
    clean = text.replace("\ud800", "\ufffd")
    assert yaml.safe_load(yaml_text(record)) == {"text": clean, "items": [clean, "x"], "inner": {"text": clean}}
    yaml_text(record).encode("utf-8")


def test_numbers_come_back_from_yaml_as_numbers() -> None:
    values = [0, 1, -3, 10**20, 1e-5, 1e300, 5e-324, 0.1, 1.0, -2.5, 12345678.9, True, False]
    record = {f"x{place}": value for place, value in enumerate(values)}
    back = yaml.safe_load(yaml_text(record))
    assert back == record
    assert all(type(back[key]) is type(value) for key, value in record.items())
    assert yaml.safe_load(yaml_text({"a": {}, "b": []})) == {"a": {}, "b": []}
    for value in (math.nan, math.inf, None, object()):
        with pytest.raises(InvalidInput, match="value="):
            yaml_text({"a": value})
    with pytest.raises(InvalidInput, match="key="):
        yaml_text({"a b": 1})


def test_markdown_is_a_table_and_the_paragraphs_and_nothing_of_a_users_is_markup() -> None:
    unit = "a|b *c* _d_ `e` <f> [g](h) # $i$ ~j~ \\ &amp;"
    found = nm.statement(run("loader"), unit=unit, gaussian=False)
    lines = found.written(Format.MARKDOWN).splitlines()
    assert lines[0] == "## Privacy"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(found.rows()) + 2
    # two cells in each row: an escaped bar separates none
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in table)
    row = next(line for line in table if "Privacy unit" in line)
    assert re.sub(r"\\([^\w\s]|_)", r"\1", row) == f"| Privacy unit | {unit} |"
    assert not re.search(r"(?<!\\)[*_`<>\[\]#$~&]", row)
    assert len([line for line in lines[1:] if line and not line.startswith("|")]) == len(found.paragraphs)


def test_the_formats_say_the_same() -> None:
    found = nm.statement(run("violated"), gaussian=False)
    text, markdown, record = found.text(), re.sub(r"\\(.)", r"\1", found.markdown()), found.yaml()
    for one in found.sentences.values():
        assert one in text
        assert one in markdown
        assert one in record.replace("\n", " ") or one in " ".join(itertools.chain(yaml_texts(yaml.safe_load(record))))
    assert found.text().endswith(f"Computed by noisymean {nm.__version__}.\n")
    assert str(found).startswith("Privacy statement")
    assert found.to_dict()["verdict"] == "violated"
    assert list(found.columns()) == ["item", "value"]


def yaml_texts(record: object) -> list[str]:
    if isinstance(record, dict):
        return [text for value in record.values() for text in yaml_texts(value)]
    if isinstance(record, list):
        return [text for value in record for text in yaml_texts(value)]
    return [str(record)]
