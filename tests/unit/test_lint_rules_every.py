"""Every rule is found in several of the scripts, and is absent from a script that differs from them by little; notebooks as well."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from test_lint_rules_denominators import SCRIPTS as DENOMINATORS
from test_lint_rules_followed_again import PAIRS as AGAIN
from test_lint_rules_followed_bounds import PAIRS as BOUNDS
from test_lint_rules_followed_noise import PAIRS as NOISE
from test_lint_rules_libraries import SCRIPTS as LIBRARIES
from test_lint_rules_loaders import SCRIPTS as LOADERS
from test_lint_rules_opacus import SCRIPTS as OPACUS
from test_lint_rules_steps import SCRIPTS as STEPS

from lint_scripts import expected, sides
from noisymean.lint.catalogue import RULES
from noisymean.lint.linter import lint

PAIRS = [sides(one) for several in (NOISE, BOUNDS, AGAIN) for one in several.values()]
ALL = [
    *OPACUS.values(),
    *LOADERS.values(),
    *LIBRARIES.values(),
    *DENOMINATORS.values(),
    *STEPS.values(),
    *(one for pair in PAIRS for one in pair),
]


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_tested(rule: str) -> None:
    marks = Counter(one for script in ALL for _, one in expected(script))
    assert marks[rule] >= 2


def test_there_are_scripts_without_a_fault() -> None:
    assert sum(not expected(script) for script in ALL) >= 20


def notebook(*cells: str, kind: str = "code") -> str:
    """As Jupyter writes them: one line of the file for each line of a cell."""
    made = [
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": ["# A title\n", "engine.make_private(poisson_sampling=False)"],
        },
        *(
            {
                "cell_type": kind,
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": cell.splitlines(keepends=True),
            }
            for cell in cells
        ),
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


CELLS = (
    "%matplotlib inline\n!pip install opacus\nfrom opacus import PrivacyEngine\nengine = PrivacyEngine()",
    "# this one does not run\nfor x in:\n    pass",
    "%%bash\necho 'not Python at all'",
    "%%time\nDELTA = 1 / len(train_set)\nprint(DELTA)",
    "model, optimizer, loader = engine.make_private(\n    module=model, optimizer=optimizer, data_loader=loader,\n"
    "    noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False)",
)


def test_notebooks(tmp_path: Path) -> None:
    """What is found in a code cell has the line of the file, the cell and the line of the cell."""
    file = tmp_path / "train.ipynb"
    file.write_text(notebook(*CELLS), encoding="utf-8")
    linted = lint([file])
    found = [(one.rule.id, one.place.cell, one.place.cell_line) for one in linted.findings]
    assert found == [("NM005", 4, 2), ("NM001", 5, 1), ("NM003", 5, 1)]
    lines = file.read_text(encoding="utf-8").split("\n")
    for one in linted.findings:
        assert json.loads(lines[one.place.line - 1].strip().rstrip(",")).strip() == one.place.source
    assert not linted.not_read


def test_a_notebook_on_one_line(tmp_path: Path) -> None:
    """Without line breaks in the file the cell tells the place."""
    file = tmp_path / "train.ipynb"
    file.write_text(json.dumps(json.loads(notebook(*CELLS))), encoding="utf-8")
    found = [(one.rule.id, one.place.line, one.place.cell, one.place.cell_line) for one in lint([file]).findings]
    assert found == [("NM005", 1, 4, 2), ("NM001", 1, 5, 1), ("NM003", 1, 5, 1)]


def test_markdown_is_no_code(tmp_path: Path) -> None:
    file = tmp_path / "train.ipynb"
    file.write_text(notebook(*CELLS, kind="raw"), encoding="utf-8")
    assert lint([file]).findings == ()


def test_the_column_and_the_line_as_they_are(tmp_path: Path) -> None:
    """Columns count characters, where the parser counts bytes; the source is shown without its indent."""
    file = tmp_path / "train.py"
    file.write_text("import opacus\nif True:\n    'é'; δ = 1; delta = 1 / len(dataset)\n", encoding="utf-8")
    (one,) = lint([file]).findings
    assert (one.place.line, one.place.end_line) == (3, 3)
    assert one.place.column == len("    'é'; δ = 1; ") + 1
    assert one.place.source == "'é'; δ = 1; delta = 1 / len(dataset)"
