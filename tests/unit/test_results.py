"""Every answer shows itself in the same ways: lines, a table of HTML, plain data, a frame, a figure."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

import noisymean as nm
from noisymean.results import Lines, Result

EASGM = nm.EASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1.0)
SGM = nm.SGM(sample_rate=0.01, noise_multiplier=1.0)
ANSWERS: dict[str, Result] = {
    "curve": nm.curve(EASGM, alpha=[0.01, 0.1, 0.5]),
    "account": nm.account(EASGM, steps=1000, delta=1e-5),
    "account of an epsilon": nm.account(SGM, steps=1000, epsilon=1.0),
    "account of a sum": nm.account(SGM, steps=1000, delta=1e-5),
    "calibrate": nm.calibrate(nm.SGM, target_epsilon=2.0, delta=1e-5, steps=10, sample_rate=0.01),
    "out of reach": nm.calibrate(
        nm.OpacusLoader, target_epsilon=2.0, delta=1e-5, steps=10, dataset_size=600, batch_size=60, dimension=1000
    ),
}


@pytest.fixture(params=list(ANSWERS))
def answer(request: pytest.FixtureRequest) -> Result:
    return ANSWERS[request.param]


def test_lines_fit_a_terminal(answer: Result) -> None:
    heading, *rest = str(answer).splitlines()
    assert heading
    table = [line for line in rest if line.startswith("  ")]
    assert len(table) == 1 + len(answer.lines().rows)
    assert max(map(len, table)) <= 80


def test_plain_data_is_json(answer: Result) -> None:
    record = answer.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["mechanism"] in ("easgm", "sgm", "opacus-loader")


def test_a_notebook_shows_the_same_as_a_terminal(answer: Result) -> None:
    shown, html = answer.lines(), answer._repr_html_()
    assert html.count("<tr>") == 1 + len(shown.rows)
    assert all(f"<td>{cell}</td>" in html for row in shown.rows for cell in row if "<" not in cell and "&" not in cell)


def test_names_are_no_markup() -> None:
    class Odd(Result):
        def to_dict(self) -> dict[str, object]:
            return {}

        def columns(self) -> dict[str, list[object]]:
            return {}

        def lines(self) -> Lines:
            return Lines("<b>", ("<i>",), [("a & b",)], ["<script>"])

        def plot(self) -> None:
            return None

    html = Odd()._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<script>" not in html
    assert "a &amp; b" in html


def test_bounds_are_rounded_to_their_own_side() -> None:
    account = ANSWERS["account"]
    assert isinstance(account, nm.Account)
    claimed, leakage, guarantee = (float(row[1]) for row in account.lines().rows)
    assert account.leakage.epsilon is not None
    assert account.guarantee.epsilon is not None
    assert account.claimed.epsilon is not None
    assert leakage <= account.leakage.epsilon
    assert guarantee >= account.guarantee.epsilon
    assert claimed >= account.claimed.epsilon


def test_columns_are_of_one_length_and_make_a_frame(answer: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = answer.columns()
    assert len({len(column) for column in columns.values()}) == 1
    made = SimpleNamespace(DataFrame=lambda columns: ("a frame", list(columns)))
    monkeypatch.setitem(sys.modules, "pandas", made)
    assert answer.to_frame() == ("a frame", list(columns))


def test_without_pandas_the_extra_is_named(answer: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nm.MissingDependency, match=r"noisymean\[frames\]"):
        answer.to_frame()


@pytest.mark.parametrize("name", ["curve", "account of a sum", "calibrate"])
def test_a_figure_with_curves_that_have_names(name: str) -> None:
    figure = ANSWERS[name].plot()
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any("claimed" in label for label in labels)
    assert any("leakage" in label for label in labels)


def test_a_figure_is_at_a_fixed_delta() -> None:
    with pytest.raises(nm.Undefined, match="at a fixed delta"):
        ANSWERS["account of an epsilon"].plot()
