"""The measure of the linter: which finding belongs to which label, what is counted, and that what is labelled is there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import lint_precision as measure
from benchmarks.lint_precision import Counts, Finding, Label, Measured, Origin, Place, Script

from noisymean.lint.catalogue import RULES

ONE, OTHER = "NM021", "NM034"


def label(*lines: int, rule: str = ONE, cell: int | None = None) -> Label:
    return Label(rule, tuple(Place(line, cell) for line in lines), "because")


def finding(start: int, end: int | None = None, *, rule: str = ONE, cell: int | None = None) -> Finding:
    return Finding(rule, Place(start, cell), start if end is None else end)


def counted(
    labels: list[Label], findings: list[Finding], debatable: list[Label] | None = None
) -> tuple[Measured, Counts]:
    """One file, compared."""
    script = Script("dev", Origin.OWN, Path(), "script.py", tuple(labels), tuple(debatable or ()))
    measured = Measured()
    measured.of(script, findings)
    return measured, measured.total()


@pytest.mark.parametrize(
    ("labels", "findings", "found", "missed", "wrong"),
    [
        pytest.param([label(10)], [finding(10)], 1, 0, 0, id="the same line"),
        pytest.param([label(10)], [], 0, 1, 0, id="nothing found"),
        pytest.param([], [finding(10)], 0, 0, 1, id="nothing there"),
        pytest.param([label(10)], [finding(12)], 1, 0, 0, id="two lines off"),
        pytest.param([label(10)], [finding(13)], 0, 1, 1, id="three lines off"),
        pytest.param([label(25)], [finding(10, 30)], 1, 0, 0, id="inside of a long statement"),
        pytest.param([label(32)], [finding(10, 30)], 0, 1, 1, id="after a long statement"),
        pytest.param([label(10)], [finding(10, rule=OTHER)], 0, 1, 1, id="another rule"),
        pytest.param([label(10, 40)], [finding(40)], 1, 0, 0, id="one of the places will do"),
        pytest.param([label(10)], [finding(9), finding(10)], 1, 0, 0, id="a fault found twice is one"),
        pytest.param([label(10, 40)], [finding(10), finding(40)], 1, 0, 0, id="found at both of its places"),
        pytest.param([label(10), label(11)], [finding(10)], 1, 1, 0, id="a finding is for one label"),
        pytest.param([label(10), label(10)], [finding(10), finding(10)], 2, 0, 0, id="two faults in one line"),
    ],
)
def test_findings_and_labels_belong_together(
    labels: list[Label], findings: list[Finding], found: int, missed: int, wrong: int
) -> None:
    assert counted(labels, findings)[1] == Counts(found, missed, wrong)


def test_as_many_labels_as_can_be_have_a_finding() -> None:
    """The first label could take either finding; it leaves the second label the only one that this could have."""
    both, first = finding(11), finding(9)
    for findings in ([both, first], [first, both]):
        assert counted([label(10), label(13)], findings)[1] == Counts(found=2)


def test_what_is_debatable_counts_neither_way() -> None:
    measured, counts = counted([label(10)], [finding(10), finding(50)], [label(50), label(70)])
    assert counts == Counts(found=1)
    assert [one.start.line for _, one in measured.debatable] == [50]


def test_a_label_comes_before_what_is_debatable() -> None:
    measured, counts = counted([label(10)], [finding(10)], [label(10)])
    assert counts == Counts(found=1)
    assert not measured.debatable


def test_cells_of_a_notebook_are_apart() -> None:
    assert counted([label(3, cell=2)], [finding(3, cell=2)])[1] == Counts(found=1)
    assert counted([label(3, cell=2)], [finding(3, cell=4)])[1] == Counts(missed=1, wrong=1)
    assert counted([label(3, cell=2)], [finding(3)])[1] == Counts(missed=1, wrong=1)


def test_a_finding_in_a_notebook_is_placed_in_its_cell() -> None:
    record = {"rule": ONE, "line": 40, "end_line": 43, "cell": 3, "cell_line": 5}
    assert Finding.of(record) == Finding(ONE, Place(5, 3), 8)
    assert Finding.of(record | {"cell": None, "cell_line": None}) == Finding(ONE, Place(40), 43)
    assert Finding.of(record | {"end_line": None, "cell": None}) == Finding(ONE, Place(40), 40)


def test_places_of_a_label_are_lines_or_lines_of_cells() -> None:
    record = {"rule": ONE, "cell": 3, "line": 2, "why": "because", "also": [{"cell": 4, "line": 8}, 9]}
    assert Label.of(record).places == (Place(2, 3), Place(8, 4), Place(9))


def test_totals_are_by_set_rule_and_origin() -> None:
    measured = Measured()
    for sets, origin, rule in (
        ("dev", Origin.OWN, ONE),
        ("held_out", Origin.REAL, ONE),
        ("held_out", Origin.OWN, OTHER),
    ):
        measured.of(
            Script(sets, origin, Path(), "a.py", (label(1, rule=rule),), ()), [finding(1, rule=rule), finding(9)]
        )
    assert measured.total() == Counts(found=3, wrong=3)
    assert measured.total("held_out") == Counts(found=2, wrong=2)
    assert measured.total("held_out", ONE) == Counts(found=1, wrong=2)
    assert measured.total(origin=Origin.REAL) == Counts(found=1, wrong=1)
    assert measured.rules() == [ONE, OTHER]


def test_shares_of_nothing_are_none() -> None:
    assert (Counts().precision, Counts().recall) == (None, None)
    assert (Counts(found=3, missed=1, wrong=2).precision, Counts(found=3, missed=1, wrong=2).recall) == (0.6, 0.75)


def test_a_text_that_is_not_the_labelled_one_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("x = 1\n", encoding="utf-8")
    sha256 = hashlib.sha256(b"x = 2\n").hexdigest()
    wanted = [Script("dev", Origin.REAL, tmp_path, name, (label(1),), (), sha256) for name in ("there.py", "absent.py")]
    measured = measure.measure(wanted, tmp_path)
    assert (measured.files, len(measured.changed), len(measured.absent)) == (0, 1, 1)
    assert measured.total() == Counts()


def test_what_the_command_finds_is_matched_to_its_file(tmp_path: Path) -> None:
    text = "import optax\n\ntx = optax.contrib.dpsgd(0.1, 1.0, 1.1, seed=3)\n"
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "step.py").write_text(text, encoding="utf-8")
    script = Script("dev", Origin.OWN, tmp_path, "below/step.py", (label(3, rule="NM011"), label(3, rule=OTHER)), ())
    measured = measure.measure([script], None)
    assert (measured.total(), measured.unlabelled) == (Counts(found=2), [])


def test_a_command_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> list[dict[str, Any]]:
        raise RuntimeError(f"exit code 2: no answer for {folder.name}")

    (tmp_path / "step.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(measure, "audited", fails)
    measured = measure.measure([Script("dev", Origin.OWN, tmp_path, "step.py", (label(1),), ())], None)
    assert (measured.files, measured.total()) == (0, Counts())
    assert any("no answer for" in line for line in measure.lines(measured))


def _lines(script: Script) -> dict[int | None, int]:
    """How many lines the file or each of its code cells has."""
    if not script.name.endswith(".ipynb"):
        return {None: len(script.path.read_text(encoding="utf-8").splitlines())}
    cells = [
        cell for cell in json.loads(script.path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    return {number: len("".join(cell["source"]).splitlines()) for number, cell in enumerate(cells, 1)}


@pytest.mark.parametrize("name", measure.SETS)
def test_every_own_script_is_labelled_and_every_label_is_on_a_line(name: str) -> None:
    own = [script for script in measure.scripts([name], None) if script.origin is Origin.OWN]
    folder = measure.HERE / name
    assert {script.name for script in own} == {file.name for file in folder.iterdir() if file.name != "labels.json"}
    for script in own:
        lines = _lines(script)
        for one in (*script.labels, *script.debatable):
            assert one.rule in RULES, f"{script}: {one.rule}"
            for place in one.places:
                assert 1 <= place.line <= lines.get(place.cell, 0), f"{script}: {place}"


def test_real_scripts_are_named_once_and_no_repository_is_in_two_sets() -> None:
    entries = json.loads((measure.HERE / "real.json").read_text(encoding="utf-8"))
    assert len({(one["repo"], one["path"]) for one in entries}) == len(entries)
    sets = {(one["repo"], one["set"]) for one in entries}
    assert len({repository for repository, _ in sets}) == len(sets)
    for one in entries:
        assert (len(one["commit"]), len(one["sha256"])) == (40, 64), one["path"]
        assert {x["rule"] for x in (*one["labels"], *one["debatable"])} <= RULES.keys()
