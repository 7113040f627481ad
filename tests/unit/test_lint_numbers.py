"""The numbers beside NM001 and NM002: those of Opacus itself, of N records and of the number of records that is named beside."""

from __future__ import annotations

import re
import shlex
import warnings
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_documents import parsed

from command_line import run
from noisymean.lint.linter import lint

torch: Any = pytest.importorskip("torch")
pytest.importorskip("opacus")

_SAID = re.compile(
    r"Here N = (?P<N>[\d,]+) and b = (?P<b>[\d,]+): the rate is 1/(?P<rate>[\d,]+) and the denominator (?P<denominator>[\d,]+)"
    r"(?: \(its accountant is told 1/(?P<told>[\d,]+)\))?(?P<zero>, which releases numbers that are not finite)?"
    r"(?:; with (?P<away>one|[\d,]+) records? (?P<way>more|less) they are 1/(?P<rate2>[\d,]+) and (?P<denominator2>[\d,]+))?\. "
    r"What that costs: noisymean (?P<command>.*)"
)


def script(records: int, batch_size: int, *, call: str = "make_private", loader: str = "", options: str = "") -> str:
    return (
        "import torch\nfrom opacus import PrivacyEngine\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        f"data = TensorDataset(torch.zeros({records}, 1))\n"
        f"loader = DataLoader(data, batch_size={batch_size}{loader})\n"
        f"model, optimizer, loader = PrivacyEngine().{call}(module=model, optimizer=optimizer, data_loader=loader{options})\n"
    )


def details(text: str, folder: Path, rule: str = "NM001") -> str:
    (folder / "train.py").write_text(text)
    (found,) = [one for one in lint([folder]).findings if one.rule.id == rule]
    return " ".join(found.details)


def number(text: str | None) -> int:
    return 1 if text == "one" else int((text or "").replace(",", ""))


def in_opacus(records: int, batch_size: int, *, drop_last: bool, poisson: bool) -> tuple[int, int, int]:
    """(batches of an epoch, denominator, one over the rate that the accountant is told) of a real make_private."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(1, 1)
    data = DataLoader(TensorDataset(torch.zeros(records, 1)), batch_size=batch_size, drop_last=drop_last)
    with warnings.catch_warnings():
        # secure mode is off
        warnings.simplefilter("ignore")
        engine = PrivacyEngine(accountant="rdp")
        _, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=data,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=poisson,
        )
        # what is attached tells the accountant the rate of a step
        optimizer.step_hook(SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1))
    ((_, told, _),) = engine.accountant.history
    rate = loader.sample_rate if poisson else 1 / len(loader)
    return round(1 / rate), optimizer.expected_batch_size, round(1 / told)


CASES = [
    (60_000, 600),
    # b does not divide N: the rate stays, the denominator moves at multiples of L
    (1_007, 64), (1_000, 64), (1_008, 64),
    # floors and floating point: 98 / 49 is not 2, 12,544 / 49 not 256, and 1 over 1/93 not 93
    (98, 2), (12_544, 256), (186, 2),
    # divides by 0
    (49, 1),
    (10, 10),
]  # fmt: skip


@pytest.mark.thin(3)
@pytest.mark.parametrize(("records", "batch_size"), CASES)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("poisson", [True, False])
def test_they_are_those_of_opacus(
    records: int, batch_size: int, drop_last: bool, poisson: bool, tmp_path: Path
) -> None:
    loader = ", drop_last=True" if drop_last else ""
    options = "" if poisson else ", poisson_sampling=False"
    found = _SAID.fullmatch(details(script(records, batch_size, loader=loader, options=options), tmp_path))
    assert found is not None
    length, denominator, told = in_opacus(records, batch_size, drop_last=drop_last, poisson=poisson)
    assert (number(found["N"]), number(found["b"])) == (records, batch_size)
    assert (number(found["rate"]), number(found["denominator"])) == (length, denominator)
    assert number(found["told"] or found["rate"]) == told
    assert bool(found["zero"]) == (denominator == 0)
    # the nearest number of records of which Opacus makes something else, and none between
    away = number(found["away"])
    other = records + (away if found["way"] == "more" else -away)
    there = in_opacus(other, batch_size, drop_last=drop_last, poisson=poisson)
    assert (number(found["rate2"]), number(found["denominator2"])) == there[:2]
    for near in {records + 1, max(records - 1, batch_size), records + away - 1}:
        if abs(near - records) < away:
            assert in_opacus(near, batch_size, drop_last=drop_last, poisson=poisson) == (length, denominator, told)


TOLD = script(600, 60, call="make_private_with_epsilon", options=", target_epsilon=2, target_delta=1e-3, epochs=1")


def test_what_is_written_down_is_in_the_command(tmp_path: Path) -> None:
    found = _SAID.fullmatch(details(TOLD, tmp_path, "NM002"))
    assert found is not None
    assert " --calibrated-to 2 --calibrated-delta 0.001 --calibrated-epochs 1 " in found["command"]
    parsed(shlex.split(found["command"].replace("PARAMETERS", "5").replace("EPOCHS", "1")))


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """60,000 in batches of 600, by hand: 100 batches, one more with one record more; 60,001 / 101 is 594.07."""
    said = details(script(60_000, 600), tmp_path)
    assert said.startswith(
        "Here N = 60,000 and b = 600: the rate is 1/100 and the denominator 600; with one record more they are 1/101 and 594."
    )
    assert Fraction(60_001, 101) // 1 == 594


@pytest.mark.parametrize(
    ("text", "filled", "rule"),
    [
        pytest.param(script(600, 60), {"SIGMA": "10"}, "NM001", marks=pytest.mark.slow),
        (script(600, 60, options=", noise_multiplier=10.0"), {}, "NM001"),
        (script(601, 60, loader=", drop_last=True", options=", noise_multiplier=10"), {}, "NM001"),
        (script(600, 60, options=", noise_multiplier=10, poisson_sampling=False"), {}, "NM001"),
        pytest.param(
            script(600, 60, call="make_private_with_epsilon"),
            {"EPSILON": "2", "DELTA": "1e-3"},
            "NM002",
            marks=pytest.mark.slow,
        ),
        pytest.param(TOLD, {}, "NM002", marks=pytest.mark.slow),
    ],
)
def test_the_command_that_it_shows_answers(text: str, filled: dict[str, str], rule: str, tmp_path: Path) -> None:
    found = _SAID.fullmatch(details(text, tmp_path, rule))
    assert found is not None
    line = found["command"]
    for name, value in {**filled, "PARAMETERS": "5", "EPOCHS": "1"}.items():
        assert name in line
        line = line.replace(name, value)
    # nothing else is left to be filled in
    assert not re.search(r"\b[A-Z]{2,}\b", line)
    done = run(*shlex.split(line))
    assert done.code == 0, done.err
    assert "opacus-loader" in done.out.lower()


@pytest.mark.parametrize(
    "text",
    [
        # N or b are not written down, or there are no batches
        script(600, 60).replace("torch.zeros(600, 1)", "read()"),
        script(600, 60).replace("batch_size=60", "batch_size=size"),
        script(600, 601),
        script(600, 0),
        script(0, 60),
    ],
)
def test_nothing_is_guessed(text: str, tmp_path: Path) -> None:
    assert details(text, tmp_path) == ""
