"""The scorecard of files: what is found and where, what passes, what is not checkable; the command and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import noisymean as nm
from command_line import run
from noisymean.errors import InvalidInput
from noisymean.lint import RULES
from noisymean.schema import schemas
from noisymean.scorecard import PITFALLS, Fact, Outcome, Scorecard, Subject
from noisymean.scorecard.pitfalls import DELTA, SEED
from noisymean.scorecard.value import line_of
from scorecards import GOOD, card_of, found, passed, spoiled

ROOT = Path(__file__).parents[2]
HELD_OUT = ROOT / "tests" / "held_out"
OPACUS = GOOD.replace("from noisymean.integrations.opacus import fix, poisson_loader\n", "").replace(
    '    loader = poisson_loader(train_set, sample_rate="1/100")\n',
    "    loader = torch.utils.data.DataLoader(train_set, batch_size=64)\n",
).replace("    fix(optimizer, denominator=DENOMINATOR, data_loader=loader)\n", "")  # fmt: skip
OWN = """\
import numpy as np

CLIP, SIGMA, LOT = 1.0, 1.1, 600


def step(w, per_example_grads, rng):
    norms = np.linalg.norm(per_example_grads, axis=1, keepdims=True)
    clipped = per_example_grads * np.minimum(1.0, CLIP / norms)
    noisy = clipped.sum(0) + rng.normal(scale=SIGMA * CLIP, size=w.shape)
    return w - 0.1 * noisy / LOT
"""

TORCH = """\
import torch

# DP-SGD with noise multiplier SIGMA
SIGMA = 1.1


def step(model, optimizer, loss):
    loss.backward()
    clip_per_sample(model, 1.0)
    for parameter in model.parameters():
        parameter.grad += SIGMA * torch.randn_like(parameter.grad)
    optimizer.step()
"""

# A script, what is changed in it, and the line at which the pitfall is shown then; the script as it is has none of it.
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "P01": (OWN, "noisy / LOT", "noisy / len(per_example_grads)", "return w - 0.1 * noisy / len(per_example_grads)"),
    "P02": (OWN, "clipped.sum(0) + rng", "clipped.mean(0) + rng", "noisy = clipped.mean(0) + rng.normal("),
    "P04": (TORCH, "clip_per_sample(model, 1.0)", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip_grad_norm_"),
    "P05": (GOOD, "noise_multiplier=1.1", "noise_multiplier=0", "engine.make_private("),
    "P06": (GOOD, "noise_multiplier=1.1", "noise_multiplier=1.1, poisson_sampling=False", "engine.make_private("),
    "P07": (
        GOOD, 'poisson_loader(train_set, sample_rate="1/100")', "torch.utils.data.DataLoader(train_set, 64)",
        "engine.make_private(",
    ),
    "P08": (GOOD, "noise_multiplier=1.1", "noise_multiplier=len(train_set) / 600", "engine.make_private("),
    "P09": (GOOD, "delta=DELTA", "delta=1 / len(train_set)", "print(engine.get_epsilon(delta=1 / len(train_set)))"),
    "P10": (
        GOOD.replace("for features, labels in loader", "for i, (features, labels) in enumerate(loader)"),
        "        optimizer.step()\n", "        if (i + 1) % 4 == 0:\n            optimizer.step()\n", "optimizer.step()",
    ),
    "P11": (
        GOOD, "        optimizer.zero", "        if len(labels) == 0:\n            continue\n        optimizer.zero",
        "if len(labels) == 0:",
    ),
    "P12": (
        GOOD, "    engine = PrivacyEngine(secure_mode=True)\n", "    torch.manual_seed(0)\n    engine = PrivacyEngine()\n",
        "torch.manual_seed(0)",
    ),
    "P13": (
        OWN + "\n\ndef fit(w, batches):\n    for grads in batches:\n        w = step(w, grads, np.random.default_rng())\n    return w\n",
        "np.random.default_rng())", "np.random.default_rng(7))", "w = step(w, grads, np.random.default_rng(7))",
    ),
    "P14": (
        GOOD.replace("print(engine", "accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)\n    print(accountant"),
        "neighboring_relation=NeighboringRelation.REPLACE_ONE", "", "print(accountant.get_epsilon(delta=DELTA))",
    ),
    "P15": (
        OWN.replace("import numpy", "import torch\nimport numpy"), "CLIP, SIGMA", "norm = torch.nn.BatchNorm1d(20)\nCLIP, SIGMA",
        "norm = torch.nn.BatchNorm1d(20)",
    ),
    "P16": (GOOD, "        optimizer.step()\n", "        optimizer.step()\n        print(loss.item())\n", "print(loss.item())"),
}  # fmt: skip


def outcomes(card: Scorecard) -> dict[str, Outcome]:
    return {one.pitfall.id: one.outcome for one in card.rows}


# --- pitfalls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pitfall", PLANTED)
def test_what_is_planted_is_found_and_its_twin_has_none(pitfall: str, tmp_path: Path) -> None:
    script, old, new, source = PLANTED[pitfall]
    planted = spoiled((old, new), script=script)
    card = card_of(tmp_path, planted)
    assert pitfall in found(card), card[pitfall].why
    place = card[pitfall].facts[0].place
    assert place is not None
    assert source in planted.splitlines()[place.line - 1]
    assert card[pitfall].why.startswith(f"train.py:{place.line}")
    assert pitfall not in found(card_of(tmp_path, script))


def test_pitfalls_that_reading_never_tells(tmp_path: Path) -> None:
    """Of these only a run shows something."""
    assert set(PLANTED) | {"P03", "P17", "P18"} == {one.id for one in PITFALLS}
    card = card_of(tmp_path, OPACUS)
    assert {"P15", "P16", "P17"} <= {one.pitfall.id for one in card.rows if one.outcome is Outcome.NOT_CHECKABLE}


def test_an_ordinary_script_with_opacus(tmp_path: Path) -> None:
    card = card_of(tmp_path, OPACUS)
    assert {"P01", "P07", "P14"} == found(card)
    assert card["P01"].facts[0].rule == "NM001"
    # secure mode is on, and the loop is that of a tutorial
    assert passed(card) == {"P02", "P03", "P04", "P05", "P06", "P08", "P09", "P10", "P11", "P12", "P13", "P18"}


def test_every_rule_is_about_a_pitfall_and_every_pitfall_has_its_page() -> None:
    known = {rule for one in PITFALLS for rule in one.rules}
    assert known == set(RULES)
    assert [one.id for one in PITFALLS] == [f"P{number:02d}" for number in range(1, len(PITFALLS) + 1)]
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    for one in PITFALLS:
        assert f"\n### {one.id}\n" in page
        assert f"**{one.name}.** {one.says}" in page
        assert one.says
        assert one.instead


def labelled() -> Iterator[tuple[Path, set[str]]]:
    """Our own scripts with the rules that they break, written down before the linter was run on them."""
    for labels in sorted(HELD_OUT.glob("*/labels.json")):
        for name, entry in json.loads(labels.read_text(encoding="utf-8")).items():
            rules = {one["rule"] for one in (*entry["labels"], *entry["debatable"])}
            yield labels.parent / name, rules


@pytest.mark.parametrize(("file", "rules"), list(labelled()), ids=lambda one: one.name if isinstance(one, Path) else "")
def test_what_is_labelled_is_never_passed(file: Path, rules: set[str]) -> None:
    """Whether or not the linter sees it."""
    card = nm.check(file)
    wrong = {one.id for one in PITFALLS if one.rules & rules}
    assert not passed(card) & wrong


def test_a_folder_passes_what_each_file_passes(tmp_path: Path) -> None:
    both = card_of(tmp_path, GOOD, other=OPACUS)
    assert passed(both) <= passed(card_of(tmp_path, GOOD)) & passed(nm.check(tmp_path / "other.py"))
    assert {"P01", "P07"} <= found(both)
    assert both.files == 2


# --- silence, files that are not read, no training ---------------------------------------------------------------------


def test_what_is_silenced_is_found_and_not_passed(tmp_path: Path) -> None:
    shuffled = spoiled(
        (
            "noise_multiplier=1.1,",
            "noise_multiplier=1.1,\n        poisson_sampling=False,  # noisymean: ignore[NM003] a demo\n       ",
        )
    )
    card = card_of(tmp_path, shuffled)
    line = card["P06"]
    assert line.outcome is Outcome.FOUND
    assert not line.open
    assert line.why == "train.py:27: NM003 poisson-sampling-off, silenced: a demo"
    assert "P06" not in {one.pitfall.id for one in card.found}
    assert "(1 of those found silenced)" in card.last
    # the same in another place is not silenced by it
    again = card_of(
        tmp_path, shuffled, other=spoiled(("noise_multiplier=1.1", "noise_multiplier=1.1, poisson_sampling=False"))
    )
    assert again["P06"].open
    assert again["P06"].why.startswith("other.py:")


def test_a_file_that_cannot_be_read_leaves_everything_open(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "old.py").write_text("print 'noise'\n", encoding="utf-8")
    card = nm.check(tmp_path)
    assert not passed(card)
    assert card["P01"].why == "not read: old.py"
    assert passed(nm.check(tmp_path, exclude=["old.py"]))


@pytest.mark.parametrize("script", ["", "import torch\n\ntorch.manual_seed(0)\n", "DELTA = 1e-5\nprint(DELTA)\n"])
def test_no_training_with_dp(script: str, tmp_path: Path) -> None:
    card = card_of(tmp_path, script)
    assert set(outcomes(card).values()) == {Outcome.NOT_CHECKABLE}
    assert {one.why for one in card.rows} == {"no training with DP is in view"}
    assert card.last == "No training with DP was found; 1 file read, nothing of it was run."
    done = run("check", str(tmp_path / "train.py"), "--fail-on-found")
    assert done.code == 0


@pytest.mark.parametrize("name", ["score_matching.py", "text_vae.py", "pendulum_td3.py", "optax_schedule.py"])
def test_noise_that_is_not_for_privacy(name: str) -> None:
    assert not passed(nm.check(HELD_OUT / "dev" / name))


def test_nothing_is_run(tmp_path: Path) -> None:
    card_of(tmp_path, f"open({str(tmp_path / 'made')!r}, 'w').write('x')\n" + GOOD)
    assert not (tmp_path / "made").exists()


# --- how facts make a line ---------------------------------------------------------------------------------------------


def test_one_fact_decides_and_none_passes_nothing() -> None:
    fact = {one: Fact(DELTA, one, one.value) for one in Outcome}
    assert line_of(DELTA, []).outcome is Outcome.NOT_CHECKABLE
    assert line_of(DELTA, [fact[Outcome.PASSED]]).outcome is Outcome.PASSED
    assert line_of(DELTA, [fact[Outcome.PASSED], fact[Outcome.NOT_CHECKABLE]]).outcome is Outcome.NOT_CHECKABLE
    assert line_of(DELTA, fact.values()).outcome is Outcome.FOUND
    # of another pitfall
    assert line_of(SEED, fact.values()).outcome is Outcome.NOT_CHECKABLE
    card = Scorecard.of(Subject.ENGINE, "x", [fact[Outcome.PASSED]], trains=True)
    assert card.counts == {Outcome.PASSED: 1, Outcome.FOUND: 0, Outcome.NOT_CHECKABLE: len(PITFALLS) - 1}
    assert Scorecard.of(Subject.ENGINE, "x", [fact[Outcome.PASSED]], trains=False).counts[Outcome.PASSED] == 0


def test_it_shows_itself_as_every_answer(tmp_path: Path) -> None:
    card = card_of(tmp_path, GOOD)
    assert str(card).splitlines()[-1] == card.last
    assert card._repr_html_().count("<tr>") == 1 + len(PITFALLS)
    assert {len(column) for column in card.columns().values()} == {len(PITFALLS)}
    record = card.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    pytest.importorskip("matplotlib")
    assert len(card.plot().get_axes()[0].get_yticklabels()) == len(PITFALLS)


def test_complaints_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="an existing file or folder"):
        nm.check(tmp_path / "nowhere.py")
    with pytest.raises(InvalidInput, match="data_loader=3: must be left out for files"):
        nm.check(tmp_path, data_loader=3)


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "train.py").write_text(OPACUS, encoding="utf-8")
    done = run("check", str(tmp_path / "train.py"))
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(map(len, lines[1:-1])) <= 80
    assert [line.split()[0] for line in lines if line[1:4] in {one.id for one in PITFALLS}] == [
        one.id for one in PITFALLS
    ]
    assert lines[-1] == "12 passed, 3 found, 3 not checkable; 1 file read, nothing of it was run."


def test_json_obeys_its_schema(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(spoiled(("delta=DELTA", "delta=1 / len(train_set)")), encoding="utf-8")
    (tmp_path / "broken.py").write_text("noise = (\n", encoding="utf-8")
    done = run("check", str(tmp_path), "--json")
    record = json.loads(done.out)
    schema = Draft202012Validator(schemas()["check"])
    assert [error.message for error in schema.iter_errors(record)] == []
    assert record["counts"]["found"] == 2
    assert [one["file"] for one in record["not_read"]] == ["broken.py"]
    delta = next(one for one in record["pitfalls"] if one["id"] == "P09")
    assert (delta["outcome"], delta["open"]) == ("found", True)
    assert delta["evidence"][0]["file"] == "train.py"
    for key in ("subject", "pitfalls", "counts", "schema"):
        assert not schema.is_valid({name: value for name, value in record.items() if name != key})


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OPACUS, encoding="utf-8")
    assert run("check", str(tmp_path)).code == 0
    done = run("check", str(tmp_path), "--fail-on-found")
    assert done.code == 1
    assert done.err == "failed: --fail-on-found: 3 found: P01, P07, P14\n"
    assert run("check", str(tmp_path), "--fail-on-found", "--exclude", "train.py").code == 2


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ((), "error: PATH: missing; must be"),
        (("nowhere",), "error: PATH='nowhere': must be an existing file or folder;"),
    ],
)
def test_refusals_are_one_line(words: tuple[str, ...], begins: str) -> None:
    done = run("check", *words)
    assert done.code == 2
    assert done.err.startswith(begins)
    assert done.err.count("\n") == 1


def test_names_and_reasons_from_files_cannot_move_the_cursor(tmp_path: Path) -> None:
    odd = tmp_path / "a\x1b[31m.py"
    odd.write_text(OPACUS + "x = 1  # noisymean: ignore[NM001] \x1b[2J\n", encoding="utf-8")
    assert "\x1b" not in run("check", str(tmp_path)).out


def test_a_reason_of_several_lines_is_said_in_the_first_of_them() -> None:
    card = nm.check(HELD_OUT / "dev" / "hospital_readmission.py")
    shown = {words[0].partition(" ")[0]: words[2] for words in card.lines().rows}
    again = {name: why.removeprefix("as ") for name, why in shown.items() if why.startswith("as P")}
    assert again
    for name, first in again.items():
        assert (card[name].outcome, card[name].why) == (card[first].outcome, card[first].why)
        assert shown[first] == card[first].why
