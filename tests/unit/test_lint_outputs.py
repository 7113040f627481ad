"""What `noisymean code-audit PATH` says of its findings: to people, as JSON, as SARIF and to GitHub, also of files that mean harm.

SARIF is held against the schema that the standard comes with: tests/fixtures/sarif-2.1.0.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from jsonschema import Draft4Validator
from test_json import valid

from command_line import Result, run
from noisymean.lint import RULES
from noisymean.report import github, sarif

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "tests" / "fixtures" / "sarif-2.1.0" / "sarif-schema-2.1.0.json"
DEV = ROOT / "tests" / "held_out" / "dev"
CALL = "engine.make_private(data_loader=loader, poisson_sampling=False)"
# NM001 and NM003 at line 2.
SCRIPT = f"import opacus\n{CALL}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def audit(*words: str) -> Result:
    return run("code-audit", *words)


def written(*words: str) -> dict[str, Any]:
    """The SARIF of a run, valid."""
    done = audit(*words, "--sarif", "found.sarif")
    assert done.code == 0, done.err
    log: dict[str, Any] = json.loads(Path("found.sarif").read_text(encoding="ascii"))
    faults = [f"{error.json_path}: {error.message[:200]}" for error in SARIF.iter_errors(log)]
    assert not faults
    return log


SARIF = Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


# --- SARIF -------------------------------------------------------------------------------------------------------------


def test_the_schema_is_the_one_that_is_named() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft4Validator.check_schema(schema)
    assert schema["id"] == sarif.SCHEMA
    # it says something
    log: dict[str, Any] = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "noisymean"}}, "results": []}]}
    bad: list[dict[str, Any]] = [{"message": {}}, {"message": {"text": "a"}, "level": "bad"}, {"ruleId": "NM001"}]
    assert SARIF.is_valid(log)
    assert not SARIF.is_valid({**log, "version": "2.0.0"})
    for wrong in bad:
        assert not SARIF.is_valid({**log, "runs": [{**log["runs"][0], "results": [wrong]}]})


def test_every_rule_and_every_finding_is_in_it() -> None:
    log = written(str(DEV))
    (run_,) = log["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert [one["id"] for one in rules] == list(RULES)
    assert all(RULES[one["id"]].severity.value == one["defaultConfiguration"]["level"] for one in rules)
    found = json.loads(audit(str(DEV), "--json").out)
    assert len(run_["results"]) == len(found["findings"]) + len(found["ignored"]) > 20
    for one, result in zip(found["findings"], run_["results"], strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == one["rule"]
        assert result["level"] == one["severity"]
        place = result["locations"][0]["physicalLocation"]
        # what a viewer unescapes is the sentence
        assert result["message"]["text"].replace("{{", "{").replace("}}", "}") == one["says"]
        assert place["region"]["startLine"] == one["line"]
        assert place["region"]["snippet"]["text"] == one["source"]
        assert result["partialFingerprints"][sarif.FINGERPRINT] == one["fingerprint"]
        # outside of the folder in which it was run
        assert urlsplit(place["artifactLocation"]["uri"]).scheme == "file"
        assert Path(urlsplit(place["artifactLocation"]["uri"]).path).is_file()


def test_places_are_relative_to_where_it_was_run(here: Path) -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text(SCRIPT)
    (result, _) = written("src")["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/train.py", "uriBaseId": "SRCROOT"}
    assert (place["region"]["startLine"], place["region"]["endLine"], place["region"]["startColumn"]) == (2, 2, 1)
    for asked in ("src/train.py", "./src/train.py", str(here / "src" / "train.py")):
        assert written(asked)["runs"][0]["results"][0]["locations"] == result["locations"]


def test_what_is_silenced_known_or_not_read_is_marked() -> None:
    Path("train.py").write_text(f"import opacus\n{CALL}  # noisymean: ignore[NM003, NM004] a test\n")
    Path("broken.py").write_text("import opacus\ndef (:\n")
    assert audit("train.py", "--write-baseline", "known.json").code == 0
    Path("more.py").write_text(SCRIPT)
    (run_,) = written(".", "--baseline", "known.json")["runs"]
    found = {
        (one["ruleId"], one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]): one
        for one in run_["results"]
    }
    assert found["NM003", "train.py"]["suppressions"] == [{"kind": "inSource", "justification": "a test"}]
    assert {key: (one["baselineState"], one["suppressions"]) for key, one in found.items() if key[1] == "more.py"} == {
        ("NM001", "more.py"): ("new", []),
        ("NM003", "more.py"): ("new", []),
    }
    assert found["NM001", "train.py"]["baselineState"] == "unchanged"
    told = run_["invocations"][0]["toolExecutionNotifications"]
    assert [one["level"] for one in told] == ["warning", "note"]
    assert told[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"
    assert "NM004" in told[1]["message"]["text"]


# Each with what a terminal, a runner of GitHub, a viewer of SARIF or a path would make of it.
NAMES = [
    "a b.py",
    "ü::error file=x,line=1::.py",
    "new\nline.py",
    "\x1b[31mred.py",
    "per%cent.py",
    "comma,colon:.py",
    "--fail-on.py",
    "‮yp.py",
    "{0} [a](b).py",
]


@pytest.mark.skipif(sys.platform == "win32", reason="names that no file has there")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_means_harm(name: str) -> None:
    Path(name).write_text(SCRIPT)
    log = written(".", "--exclude", "found.sarif")
    (uri,) = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["runs"][0]["results"]}
    assert re.fullmatch(r"[A-Za-z0-9_.~%/-]+", uri)
    assert unquote_to_bytes(uri) == os.fsencode(name)
    shown = audit(".")
    assert shown.code == 0
    assert shown.out.isprintable() or set(filter(lambda one: not one.isprintable(), shown.out)) == {"\n"}
    valid("code-audit", json.loads(audit(".", "--json").out))
    assert json.loads(audit(".", "--json").out)["findings"][0]["file"] == name
    # after `--` it is a file, not an option
    assert "2 findings" in audit("--", name).out


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names that no file has there")
def test_a_name_that_is_no_text() -> None:
    Path(os.fsdecode(b"bytes-\xff.py")).write_text(SCRIPT)
    written(".")
    for options in ((), ("--json",), ("--github",), ("--write-baseline", "known.json")):
        done = audit(".", *options)
        assert done.code == 0
        assert done.out.encode().decode() == done.out
        assert "bytes-" in done.out


HOSTILE = [
    "'::error file=a.py::injected'",
    "'\x1b[2J\x1b[31m'",
    "'{0} {{ } [text](javascript:alert(1)) `code` <b>'",
    "'\u202e\u2066 reversed'",
    "'%0A::warning::x'",
    "'\x0c\x1c\x85\u2028::error::y'",
    "'" + "x" * 5_000 + "'",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_line_that_means_harm(text: str) -> None:
    Path("train.py").write_text(
        f"import opacus\nengine.make_private(data_loader={text}, poisson_sampling=False)\n", encoding="utf-8"
    )
    results = written(".")["runs"][0]["results"]
    assert [one["ruleId"] for one in results] == ["NM001", "NM003"]
    shown = audit(".")
    assert "2 findings" in shown.out
    assert {one for one in shown.out if not one.isprintable()} <= {"\n"}
    assert not any(line.startswith(("::", "##[")) for line in shown.out.splitlines())
    valid("code-audit", json.loads(audit(".", "--json").out))


def test_braces_and_brackets_of_a_message_are_text() -> None:
    """By 3.11.5 and 3.11.6 of the standard single braces are placeholders and [text](target) is a link."""
    made = sarif._message("divides by {n} and d[i](x)")
    assert made == {"text": r"divides by {{n}} and d\[i\](x)"}


# --- GitHub ------------------------------------------------------------------------------------------------------------


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it: `::name key=value,...::data`, then what is escaped."""
    found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert found is not None
    each = dict(part.split("=", 1) for part in found[2].split(","))

    def plain(text: str, *more: str) -> str:
        for one in (("%3A", ":"), ("%2C", ","))[: len(more)]:
            text = text.replace(*one)
        return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")

    return found[1], {key: plain(value, ":", ",") for key, value in each.items()}, plain(found[3])


def obeyed(out: str) -> list[str]:
    """Lines that a runner takes for commands: those between stop-commands and its word are none."""
    stopped: str | None = None
    found = []
    for line in re.split("\r\n|\r|\n", out):
        if stopped is not None:
            stopped = None if line.strip() == f"::{stopped}::" else stopped
        elif line.lstrip().startswith("::stop-commands::"):
            stopped = line.strip().removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::") or "##[" in line:
            found.append(line)
    assert stopped is None
    return found


def test_each_finding_is_an_annotation() -> None:
    Path("train.py").write_text(SCRIPT)
    done = audit("train.py", "--github")
    first, second = map(parsed, obeyed(done.out))
    assert first[0] == "warning"
    assert first[1] == {
        "file": "train.py",
        "line": "2",
        "endLine": "2",
        "col": "1",
        "title": "NM001 opacus-make-private",
    }
    assert RULES["NM001"].says in first[2]
    assert RULES["NM001"].remedy in first[2]
    assert (second[0], second[1]["title"]) == ("error", "NM003 poisson-sampling-off")
    # for people it is there as well
    assert "2 findings" in done.out


def test_an_annotation_over_several_lines_has_no_column() -> None:
    Path("train.py").write_text("import opacus\nengine.make_private(\n    data_loader=a,\n)\n")
    ((_, where, _),) = map(parsed, obeyed(audit(".", "--github").out))
    assert (where["line"], where["endLine"]) == ("2", "4")
    assert "col" not in where


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_of_a_file_is_a_command(text: str) -> None:
    Path("train.py").write_text(
        f"import opacus\nengine.make_private(  # noisymean: ignore[NM003] ::error::reason\n data_loader={text}, poisson_sampling=False)\n"
        "x = 1  # noisymean: ignore[::error::x]\n",
        encoding="utf-8",
    )
    Path("::error::broken.py").write_text("import opacus\ndef (:\n")
    done = audit(".", "--github")
    (command,) = obeyed(done.out)
    assert parsed(command)[1]["title"] == "NM001 opacus-make-private"
    assert obeyed(done.err) == []


@pytest.mark.skipif(sys.platform == "win32", reason="names that no file has there")
@pytest.mark.parametrize("name", [one for one in NAMES if "\x1b" not in one and "\u202e" not in one])
def test_a_name_in_an_annotation_is_the_name(name: str) -> None:
    Path(name).write_text(SCRIPT)
    found = [parsed(line)[1]["file"] for line in obeyed(audit(".", "--github").out)]
    assert found == [name, name]


def test_the_word_that_stops_commands_cannot_be_guessed() -> None:
    words = {github.quiet() for _ in range(20)}
    assert len(words) == 20
    assert all(re.fullmatch(r"::stop-commands::[0-9a-f]{32}", before) for before, _ in words)
    assert all(after == f"::{before.removeprefix('::stop-commands::')}::" for before, after in words)


# --- for people, and exit codes ----------------------------------------------------------------------------------------


def test_a_place_and_its_line_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns, and in a window of 60."""
    place = Path("some_folder_of_experiments/with_a_long_name")
    place.mkdir(parents=True)
    call = "engine.make_private(data_loader=a, poisson_sampling=False)"
    (place / "train.py").write_text(f"import opacus\n{call}\n")
    for width in ("80", "60"):
        monkeypatch.setenv("COLUMNS", width)
        out = audit(".").out
        assert "some_folder_of_experiments/with_a_long_name/train.py:2\n" in re.sub(" +\n", "\n", out)
        assert call in out


def test_each_rule_is_explained_once() -> None:
    Path("train.py").write_text(SCRIPT + f"{CALL}\n" * 3)
    out = audit(".").out
    assert out.count(RULES["NM003"].says) == 1
    assert out.count("train.py:") == 8
    assert all(line in out for line in RULES["NM001"].remedy.splitlines())
    assert out.rstrip().endswith("8 findings (4 errors, 4 warnings), 1 file checked.")


def test_what_is_silenced_in_vain_or_not_read_is_listed() -> None:
    Path("train.py").write_text(f"import opacus\n{CALL}  # noisymean: ignore[NM003, NM004] a test\n")
    Path("broken.py").write_text("import opacus\ndef (:\n")
    out = audit(".").out
    assert "- ignored: NM003 at train.py:2: a test\n" in out
    assert "- silences nothing: train.py:2: This comment names NM004, which is not found in its statement.\n" in out
    assert re.search(r"^- not read: broken\.py: .*, line 2$", out, re.MULTILINE)
    assert out.rstrip().endswith("1 finding (1 warning), 1 ignored, 2 files checked, 1 not read.")


def test_of_many_divisions_the_table_has_those_of_something_noisy() -> None:
    plain = "".join(f"def f{i}(x, keep):\n    return x / max(1, keep.sum())\n" for i in range(5))
    Path("many.py").write_text(f"{plain}def step(grads, noise):\n    return (grads.sum(0) + noise) / len(grads)\n")
    out = audit(".").out
    assert "return (grads.sum(0) + noise) / len(grads)" in " ".join(re.sub(r"gradient.*", "", out).split())
    assert "keep" not in out
    assert "5 divisions more, perhaps not of anything noisy, are listed by --json." in out
    assert len(json.loads(audit(".", "--json").out)["statements"]) == 6


@pytest.mark.parametrize(
    ("severity", "found", "code"),
    [
        ("error", "NM001", 0), ("warning", "NM001", 1), ("note", "NM001", 1),
        ("error", "NM003", 1), ("warning", "NM003", 1), ("note", "NM003", 1),
        ("note", "nothing", 0),
    ],
)  # fmt: skip
def test_the_exit_code_of_fail_on(severity: str, found: str, code: int) -> None:
    texts = {
        "nothing": "import opacus\n",
        "NM001": "import opacus\nengine.make_private(data_loader=a)\n",
        "NM003": SCRIPT,
    }
    Path("train.py").write_text(texts[found])
    assert audit(".").code == 0
    done = audit(".", "--fail-on", severity)
    assert done.code == code
    # the output comes first, whatever the code is
    assert "1 file checked." in done.out
    assert (f"failed: --fail-on {severity}: " in done.err) == (code == 1)
    assert audit(".", "--fail-on", severity, "--json").code == code


def test_a_file_that_was_not_read_does_not_pass() -> None:
    Path("broken.py").write_text("import opacus\ndef (:\n")
    assert audit(".").code == 0
    done = audit(".", "--fail-on", "error")
    assert done.code == 2
    assert "1 file checked, 1 not read." in done.out
    said = r"nothing is known of broken\.py: not read \(.*, line 2\); mend it, or leave it out with --exclude"
    assert re.fullmatch(f"error: --fail-on error: {said}\n", done.err)
    Path("plain.py").write_text("x = 1\n")
    Path("link.py").symlink_to("plain.py")
    assert audit(".", "--fail-on", "error", "--exclude", "broken.py").code == 0
    # what was found comes first
    Path("train.py").write_text(SCRIPT)
    assert audit(".", "--fail-on", "error").code == 1


def test_what_is_silenced_does_not_fail() -> None:
    Path("train.py").write_text(f"import opacus\n{CALL}  # noisymean: ignore[NM001, NM003] shown only\n")
    assert audit(".", "--fail-on", "note").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((".", "--fail-on", "bad"), "--fail-on=bad: must be one of error, warning, note"),
        (
            (".", "--sarif", "no/such/found.sarif"),
            "--sarif='no/such/found.sarif': must be a file in an existing folder",
        ),
        ((".", "--sarif", "train.py"), "--sarif='train.py': must be an ordinary file that is no source"),
        ((".", "--write-baseline", "."), "--write-baseline='.': must be an ordinary file"),
        ((".", "--sarif", "a", "--write-baseline", "a"), "--sarif='a': must be another file"),
        ((".", "--json", "--github"), "--github: must be left out with --json"),
        (("opacus", "--sarif", "a"), "--sarif: must be left out for opacus"),
        (("no-such-folder/",), "there is no no-such-folder/"),
        ((), "PATH: missing"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    Path("train.py").write_text(SCRIPT)
    done = audit(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert Path("train.py").read_text() == SCRIPT


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_nothing_is_written_into_a_pipe() -> None:
    os.mkfifo("pipe")
    Path("train.py").write_text(SCRIPT)
    assert audit("train.py", "--sarif", "pipe").code == 2


# --- JSON --------------------------------------------------------------------------------------------------------------


def test_what_is_printed_obeys_its_schema() -> None:
    Path("train.py").write_text(f"import opacus\n{CALL}  # noisymean: ignore[NM003, NM004] a test\n")
    Path("broken.py").write_text("import opacus\ndef (:\n")
    assert audit(".", "--write-baseline", "known.json").code == 0
    Path("more.py").write_text(SCRIPT)
    found = json.loads(audit(".", "--baseline", "known.json", "--json").out)
    valid("code-audit", found)
    assert [(one["file"], one["rule"], one["new"]) for one in found["findings"]] == [
        ("more.py", "NM001", True), ("more.py", "NM003", True), ("train.py", "NM001", False),
    ]  # fmt: skip
    assert [(one["rule"], one["reason"]) for one in found["ignored"]] == [("NM003", "a test")]
    assert [(one["line"], one["rules"]) for one in found["idle"]] == [(2, ["NM004"])]
    ((file, reason),) = (one.values() for one in found["not_read"])
    assert file == "broken.py"
    assert reason.endswith("line 2")
    assert found["baseline"] == {"file": "known.json", "known": 1, "new": 2, "gone": 0}
    assert sorted(found["rules"]) == ["NM001", "NM003"]
    assert found["findings"][0]["source"] == CALL


@pytest.mark.parametrize("words", [("--list-rules",), ("--explain", "NM021")])
def test_the_rules_are_printed(words: tuple[str, ...]) -> None:
    found = json.loads(audit(*words, "--json").out)
    valid("code-audit", found)
    wanted = ["NM021"] if "--explain" in words else list(RULES)
    assert list(found["rules"]) == wanted
    assert found["rules"]["NM021"]["says"] == RULES["NM021"].says
    shown = audit(*words).out
    assert all(name in shown for name in wanted)
