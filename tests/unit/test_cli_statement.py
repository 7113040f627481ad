"""`noisymean statement`: what is printed and written, from options or from a file, and complaints in one line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import noisymean as nm
from command_line import Result, run
from noisymean.statement import Deployment

SUM = ("--mechanism", "sgm", "--sample-rate", "1/4", "--noise-multiplier", "5", "--steps", "2", "--delta", "1e-5")
MEAN = (
    *("--mechanism", "easgm", "--dataset-size", "10", "--dimension", "100", "--sample-rate", "0.1"),
    *("--noise-multiplier", "1", "--steps", "1", "--delta", "1e-5"),
)
QUICK = ("--no-gdp",)
FULL = {
    "name": "A model", "curator": "Somebody", "description": "of a kind", "intended_use": "for tests", "region": "nowhere",
    "published": "2026-01-31", "model": "Central", "author": "somebody else",
}  # fmt: skip
TYPED = [word for name, value in FULL.items() for word in (f"--{name.replace('_', '-')}", value)]


def by_python(**options: object) -> nm.Statement:
    answer = nm.account(nm.SGM(sample_rate="1/4", noise_multiplier=5), steps=2, delta=1e-5)
    return nm.statement(answer, gaussian=False, **options)  # type: ignore[arg-type]


def unwrapped(text: str) -> str:
    return "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))


def complaint(done: Result) -> str:
    """The one line of it."""
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    return done.err.removeprefix("error: ").rstrip("\n")


# --- what is printed ---------------------------------------------------------------------------------------------------------


def test_text_is_the_statement_of_the_same_run() -> None:
    done = run("statement", *SUM, *QUICK)
    assert (done.code, done.err) == (0, "")
    assert unwrapped(done.out).strip() == by_python().text().strip()


def test_markdown_and_yaml_are_printed_as_they_are_written() -> None:
    markdown = run("statement", *SUM, *QUICK, "--unit", "one patient", "--format", "markdown")
    assert (markdown.out, markdown.err) == (by_python(unit="one patient").markdown(), "")
    record = run("statement", *SUM, *QUICK, "--format", "yaml", *TYPED)
    assert (record.out, record.err) == (by_python(deployment=Deployment(**FULL)).yaml(), "")


def test_what_is_left_to_be_filled_in_is_said_beside_the_yaml() -> None:
    done = run("statement", *SUM, *QUICK, "--format", "yaml", *TYPED[:4])
    assert done.code == 0
    missing = "--description, --intended-use, --region, --published, --model, --author"
    assert done.err == f"to be filled in: {missing}\n"
    assert yaml.safe_load(done.out)["deployment"]["basic"]["name"] == "A model"


def test_mu_is_there_unless_it_is_left_out() -> None:
    with_mu, without = run("statement", *SUM), run("statement", *SUM, *QUICK)
    assert "μ-Gaussian differentially private" in unwrapped(with_mu.out)
    assert "regret" in unwrapped(with_mu.out)
    assert "μ" not in without.out


def test_json_has_all_of_it_and_is_alone() -> None:
    done = run("statement", *SUM, *QUICK, "--json", "--unit", "one patient", "--name", "A model")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    expected = by_python(unit="one patient", deployment=Deployment(name="A model"))
    assert found["text"] == expected.text()
    assert found["markdown"] == expected.markdown()
    assert found["registry"] == json.loads(json.dumps(expected.registry))
    assert found["sentences"] == {topic.value: one for topic, one in expected.sentences.items()}
    assert (found["unit"], found["gaussian"], found["verdict"]) == (
        {"value": "one patient", "told": True},
        None,
        "holds",
    )
    assert found["to_be_filled_in"][0] == "curator"


def test_what_would_move_a_cursor_is_written_out() -> None:
    done = run("statement", *SUM, *QUICK, "--unit", "one\n\x1b[31m\u202epatient\x07", "--format", "markdown")
    assert done.code == 0
    assert not set(done.out) & set("\x1b\x07\u202e")


# --- files -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["text", "markdown", "yaml"])
def test_a_file_is_written_and_standard_output_left_alone(how: str, tmp_path: Path) -> None:
    target = tmp_path / "privacy"
    target.write_text("what was there before")
    done = run("statement", *SUM, *QUICK, "--format", how, "--out", str(target))
    assert (done.code, done.out) == (0, "")
    made = by_python()
    assert (
        target.read_text(encoding="utf-8")
        == {"text": made.text(), "markdown": made.markdown(), "yaml": made.yaml()}[how]
    )
    assert done.err.splitlines()[0] == f"{how} written to {target}"
    assert [one.name for one in tmp_path.iterdir()] == ["privacy"]


def test_an_account_is_taken_from_a_file_or_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = run("account", *MEAN, "--json").out
    (tmp_path / "account.json").write_text(account)
    typed = run("statement", *MEAN, *QUICK)
    assert run("statement", "--from", str(tmp_path / "account.json"), *QUICK) == typed
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(account.encode())))
    assert run("statement", "--from", "-", *QUICK) == typed


def test_numbers_of_a_file_are_computed_again(tmp_path: Path) -> None:
    record = json.loads(run("account", *MEAN, "--json").out)
    for key, value in [("guarantee", {"epsilon": 1.0}), ("verdict", "holds"), ("leakage", {"epsilon": 0.5})]:
        (tmp_path / "changed.json").write_text(json.dumps({**record, key: value}))
        line = complaint(run("statement", "--from", str(tmp_path / "changed.json"), *QUICK))
        assert "changed.json: " in line
        assert "write" in line


@pytest.mark.parametrize("command", ["audit", "curve", "statement"])
def test_other_results_are_not_accounts(command: str, tmp_path: Path) -> None:
    words = {
        "audit": ("synthetic", "--mechanism", "sgm", "--dataset-size", "4", "--dimension", "3", "--sample-rate", "0.5",
                  "--noise-multiplier", "1", "--trials", "16", "--seed", "1"),
        "curve": ("--mechanism", "sgm", "--sample-rate", "0.5", "--noise-multiplier", "1", "--points", "3"),
        "statement": (*SUM, *QUICK),
    }[command]  # fmt: skip
    (tmp_path / "other.json").write_text(run(command, *words, "--json").out)
    line = complaint(run("statement", "--from", str(tmp_path / "other.json"), *QUICK))
    assert "other.json" in line
    assert "account --json" in line


# --- gates -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*SUM, "--fail-on-violation"), 0),
        ((*MEAN, "--fail-on-violation"), 1),
        ((*MEAN,), 0),
        ((*SUM, "--max-epsilon", "5"), 0),
        ((*SUM, "--max-epsilon", "0.01"), 1),
        ((*MEAN, "--max-epsilon", "0.01"), 1),
    ],
)
def test_gates_decide_the_exit_code_and_nothing_else(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    done = run("statement", *words, *QUICK, "--out", str(tmp_path / "privacy.txt"))
    assert done.code == code
    assert (tmp_path / "privacy.txt").exists()
    assert ("failed: " in done.err) == (code == 1)


# --- complaints --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "--mechanism: missing (or --from, a file of an account)"),
        (("--unit", "x"), "--mechanism: missing (or --from, a file of an account)"),
        ((*SUM, "--format", "xml"), "--format=xml: must be one of text, markdown, yaml"),
        ((*SUM, "--unit", ""), "--unit='': must be a text; leave --unit out"),
        ((*SUM, "--format", "yaml", "--name", " "), "--name=' ': must be a text; leave --name out"),
        ((*SUM, "--name", "A model"), "--name=A model: must be left out but for --format yaml"),
        ((*SUM, "--format", "yaml", "--published", "2026-02-41"), "--published='2026-02-41': must be a date"),
        ((*SUM, "--format", "yaml", "--model", "Other"), "--model='Other': must be one of Central, Local, Shuffle, Federated"),
        ((*SUM, "--from", "x.json"), "--from=x.json: must be left out beside --mechanism"),
        (("--from", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--from", "."), ".: cannot be read"),
        (("--from", "a\x1b[31m\n.json"), "a\\x1b[31m .json: cannot be read"),
        ((*SUM, "--out", "."), "--out=.: must be a file, not a folder"),
        ((*SUM, "--out", "no/where.md"), "--out=no/where.md: must be a file in an existing folder"),
        ((*SUM[:-2],), "--delta"),
        ((*SUM, "--epsilon", "1"), "--epsilon"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_that_names_the_option(
    words: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = complaint(run("statement", *words, *QUICK))
    assert line in found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": 1}', b'{"schema": 2, "mechanism": "sgm"}', b"[" * 100_000, b'{"a": NaN}'],
)  # fmt: skip
def test_a_file_of_anything_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "any.json").write_bytes(content)
    assert "any.json" in complaint(run("statement", "--from", str(tmp_path / "any.json"), *QUICK))
