"""The report: what its page says, what it refuses, and how it behaves in a real browser."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import math
import random
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from test_cli import environment

import noisymean as nm
from browser import Seen, browser_page
from command_line import Result, run
from noisymean.cli import pages, report_runs
from noisymean.legible import text_of
from noisymean.outward import at_least, at_most
from noisymean.probe import code_audit, probe
from noisymean.probe.code_audit import MEAN, SUM, Audited
from noisymean.report import page as page_package
from noisymean.report.page import banners, palette, rendering
from noisymean.report.page.records import account_record
from noisymean.report.page.untrusted import Untrusted, parsed

# q = 1 and sigma^2 = T: the run of the noisy sum is N(0, 1) against N(1, 1)
SUM_RUN = ("--mechanism", "sgm", "--sample-rate", "1", "--noise-multiplier", "5", "--steps", "25", "--delta", "1e-5")
# every release is N(0, I) against a narrower Gaussian: two numbers of records, told apart by their noise
MEAN_RUN = (
    *("--mechanism", "easgm", "--dataset-size", "9", "--dimension", "50", "--sample-rate", "1"),
    *("--noise-multiplier", "5", "--steps", "4", "--delta", "1e-5"),
)
AUDIT = (
    *(
        "audit",
        "synthetic",
        "--mechanism",
        "easgm",
        "--dataset-size",
        "4",
        "--dimension",
        "100",
        "--sample-rate",
        "0.05",
    ),
    *("--noise-multiplier", "10", "--seed", "1", "--trials", "1000"),
)
HOSTILE = "<script>alert(1)</script></script><img src=x onerror=alert(2)>"
KINDS = ("account", "audit", "code")


class Text(HTMLParser):
    """What a reader of a page sees, and the elements that it is made of."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self._hidden = 0
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)

    @property
    def seen(self) -> str:
        return " ".join(" ".join(self.words).split())


def text_seen(path: Path) -> str:
    return Text(path.read_text(encoding="utf-8")).seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of all three kinds, and the pages of two runs."""
    place = tmp_path_factory.mktemp("report")
    answers = {"account": run("account", *MEAN_RUN, "--json"), "audit": run(*AUDIT, "--json")}
    for name, answer in answers.items():
        assert answer.code == 0, answer.err
        (place / f"{name}.json").write_text(answer.out)
    found = {option: probe(f"synthetic:{kind}", seed=0, rounds=120) for option, kind in ((MEAN, "asgm"), (SUM, "sgm"))}
    releases = [code_audit.record(Audited("0.13.0", findings=found, seconds=1.0))]
    (place / "code.json").write_text(json.dumps({"package": "opacus", "releases": releases, "version": "0.1.0"}))
    for name, words_typed in (
        ("sum", SUM_RUN),
        ("all", (*MEAN_RUN, str(place / "audit.json"), str(place / "code.json"))),
    ):
        done = run("report", *words_typed, "--out", str(place / f"{name}.html"))
        assert done.code == 0, done.err
        (place / f"{name}.txt").write_text(done.out)
    return place


def plain(folder: Path, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{kind}.json").read_text())
    return found


def report_on(record: object, tmp_path: Path) -> Result:
    """The report on one record, which need not be a good one."""
    (tmp_path / "given.json").write_text(record if isinstance(record, str) else json.dumps(record))
    return run("report", str(tmp_path / "given.json"), "--out", str(tmp_path / "page.html"))


# --- what the page says ------------------------------------------------------------------------------------------------


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The closed form of Balle and Wang for N(0, 1) against N(mu, 1)."""

    def spent(epsilon: float) -> float:
        other = math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        return float(norm.cdf(mu / 2 - epsilon / mu) - other - delta)

    return float(brentq(spent, 0.0, 1e4))


def test_a_kept_promise_in_words_and_numbers(folder: Path) -> None:
    seen = text_seen(folder / "sum.html")
    # bounds are rounded to their own side
    exact = gaussian_epsilon(1.0, 1e-5)
    below, above = math.floor(1000.0 * exact) / 1000.0, math.ceil(1000.0 * exact) / 1000.0
    # in one breath with what it rests on
    condition = "for batches drawn by Poisson sampling and one record added or removed"
    assert (
        f"The privacy promised for this training run is kept, {condition}: ε = {above} is proved (at δ = 10⁻⁵)." in seen
    )
    for name, value in (("claimed", above), ("leakage", below), ("guarantee", above)):
        assert f"{name} {value}" in seen
    # the best guess between N(0, 1) and N(1, 1)
    assert f"The promise allows about {100 * norm.cdf(0.5):.1f} %" in seen
    assert "None needed for this run." in seen


def test_a_kept_promise_of_nothing_is_no_good_news(tmp_path: Path) -> None:
    """sigma = 0.1: N(0, 1) against N(50, 1)."""
    page = tmp_path / "page.html"
    assert run("report", *changed_option(SUM_RUN, "--noise-multiplier", "0.1"), "--out", str(page)).code == 0
    seen = text_seen(page)
    assert f"ε = {math.ceil(gaussian_epsilon(50.0, 1e-5)):,} is proved" in seen
    assert "promise kept, but a weak one" in seen


def test_a_promise_that_is_kept_at_one_delta_only_is_said_to_be(tmp_path: Path) -> None:
    """ASGM of three records: at delta = 1e-5 less is lost than is claimed, and a guesser is right more often than is claimed."""
    typed = (
        *("--mechanism", "asgm", "--dataset-size", "3", "--dimension", "4", "--sample-rate", "0.7"),
        *("--noise-multiplier", "1", "--steps", "1", "--delta", "1e-5"),
    )
    assert run("report", *typed, "--out", str(tmp_path / "page.html")).code == 0
    seen = text_seen(tmp_path / "page.html")
    assert "is kept, for batches drawn by Poisson sampling" in seen
    guessed = re.search(
        r"The promise allows about ([\d.]+) %; on the datasets that are named below the guess is right in ([\d.]+) %",
        seen,
    )
    assert guessed is not None
    assert float(guessed[1]) < float(guessed[2])
    assert "At δ = 10⁻⁵, which is what was asked, the promise is kept. It is not kept as a whole" in seen


def test_a_promise_that_allows_everything(tmp_path: Path) -> None:
    """q = 1 and sigma = 0.1: N(0, 1) against N(50, 1)."""
    typed = changed_option(SUM_RUN, "--noise-multiplier", "0.1")
    assert run("report", *typed, "--out", str(tmp_path / "page.html")).code == 0
    seen = text_seen(tmp_path / "page.html")
    assert "The promise allows more than 99.99 %" in seen
    # what holds holds as a whole
    assert "not kept as a whole" not in seen


def changed_option(typed: tuple[str, ...], name: str, value: str) -> list[str]:
    place = typed.index(name) + 1
    return [*typed[:place], value, *typed[place + 1 :]]


def test_what_cannot_be_drawn_takes_nothing_else_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def beyond(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(report_runs, "run_curves", beyond)
    assert run("report", *SUM_RUN, "--out", str(tmp_path / "page.html")).code == 0
    content = (tmp_path / "page.html").read_text()
    assert "What is not drawn here is beyond double precision." in Text(content).seen
    assert 'id="run-growth"' in content
    assert 'id="run-tradeoff"' not in content


def test_the_order_of_a_page(folder: Path) -> None:
    seen = text_seen(folder / "all.html")
    marks = [
        "3 of 3 results speak against the promised privacy. The worst of them: The privacy promised for this training run is not"
        " kept: ε = ",
        "All results",
        "Promised, lost, proved",
        "What an attacker achieves, and how it grows",
        "The pair of datasets that proves the leakage",
        "Remedy Divide the noisy sum by a public constant",
        "Settings, and the command that gives these numbers",
        "What running it showed",
        "What each release divides by",
        f"noisymean {nm.__version__}, Python",
    ]
    places = [seen.index(mark) for mark in marks]
    assert places == sorted(places)


def test_json_names_the_page_and_the_worst_verdict(folder: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    done = run("report", str(folder / "audit.json"), str(folder / "code.json"), "--out", page, "--json")
    answer = json.loads(done.out)
    assert answer["page"] == page
    assert answer["verdict"] == "violated"
    assert [(one["kind"], one["verdict"]) for one in answer["sections"]] == [
        ("audit", "violated"),
        ("code", "data-dependent"),
    ]
    assert Path(page).is_file()


def test_an_audit_is_shown_with_its_limits_and_its_seed(folder: Path) -> None:
    found, seen = plain(folder, "audit"), text_seen(folder / "all.html")
    assert "Running it shows that the promised privacy is not kept: in 1,000 runs" in seen
    for rate in (found["alpha"], found["beta"]):
        assert f"{rate['estimate']:.4f} {at_least(rate['lower'], '.4f')} to {at_most(rate['upper'], '.4f')}" in seen
    assert "distinguisher likelihood-ratio" in seen
    assert "seed 1" in seen
    assert "confidence 95 %" in seen


def test_a_missing_guarantee_has_its_reason(tmp_path: Path) -> None:
    """More than can be written down; one record more changes q as well, so the remedy has two parts."""
    loader = ("--mechanism", "opacus-loader", "--dataset-size", "6", "--batch-size", "6", "--dimension", str(10**15))
    done = run(
        "report",
        *loader,
        "--noise-multiplier",
        "5",
        "--steps",
        "20",
        "--delta",
        "1e-5",
        "--out",
        str(tmp_path / "p.html"),
    )
    assert done.code == 0, done.err
    seen = text_seen(tmp_path / "p.html")
    assert "guarantee none known" in seen
    assert "guarantee none known no upper bound is known for this run" in seen
    assert "for any pair of neighbours" not in seen
    assert "No guarantee is known: no ε below a billion is proved" in seen
    # once, beside the number, and not among the notes again
    assert seen.count("no ε below a billion is proved") == 1
    assert "Fix the sampling rate q as well." in seen
    assert "fix(optimizer, denominator=6" in seen


def commands_in(path: Path, start: str) -> list[str]:
    found = re.findall(r"<pre class=\"wrap\"><code[^>]*>(.*?)</code></pre>", path.read_text(), flags=re.DOTALL)
    texts = ["".join(Text(one).words) for one in found]
    return [one for one in texts if one.startswith(start)]


def test_the_commands_on_the_page_give_its_numbers(folder: Path) -> None:
    (account,) = commands_in(folder / "all.html", "noisymean account")
    again = json.loads(run(*shlex.split(account)[1:], "--json").out)
    assert {**again, "settings": 0} == {**plain(folder, "account"), "settings": 0}
    check, audit = commands_in(folder / "all.html", "noisymean audit")
    assert "--gradients" in check
    again, first = json.loads(run(*shlex.split(audit)[1:], "--json").out), plain(folder, "audit")
    del again["seconds"], first["seconds"]
    assert again == first


def test_a_typed_claim_is_part_of_the_command(tmp_path: Path) -> None:
    answer = run(*AUDIT, "--claim-epsilon", "50", "--claim-delta", "0.01", "--json")
    assert report_on(answer.out, tmp_path).code == 0
    seen = text_seen(tmp_path / "page.html")
    assert "Running it did not show a violation" in seen
    assert "--claim-epsilon 50.0 --claim-delta 0.01" in seen


def test_an_audit_without_a_claim_has_no_verdict(folder: Path, tmp_path: Path) -> None:
    done = report_on({**plain(folder, "audit"), "claimed": None, "verdict": None, "reason": None}, tmp_path)
    assert done.code == 0, done.err
    assert "Nothing is promised for this target" in text_seen(tmp_path / "page.html")


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_other_neighbours_and_a_given_epsilon(adjacency: str, tmp_path: Path) -> None:
    words_typed = [*MEAN_RUN[:-2], "--epsilon", "1", "--adjacency", adjacency]
    first = run("account", *words_typed, "--json")
    done = report_on(first.out, tmp_path)
    assert done.code == 0, done.err
    seen = text_seen(tmp_path / "page.html")
    delta = json.loads(first.out)["claimed"]["delta"]
    assert f"claimed {plain_number(at_most(delta, '.4g'))}" in seen
    kept = "is kept, for batches drawn by Poisson sampling and one record zeroed out: δ = "
    assert (kept in seen) == (adjacency == "zero-out")
    changed_by = {"zero-out": "zeroed out", "replace-one": "replaced"}[adjacency]
    assert f"adjacency one record {changed_by} told: {tmp_path / 'given.json'}: --adjacency" in seen
    assert f"certainly not exceeded, for any record {changed_by}" in seen
    assert ("when a record is replaced" in seen) == (adjacency == "replace-one")
    assert f"--adjacency {adjacency}" in seen


def test_source_that_was_only_read(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def f(grads):\n    return grads.sum(0) / len(grads.batch)  # <b>\n")
    done = report_on(run("code-audit", str(tmp_path), "--json").out, tmp_path)
    assert done.code == 0, done.err
    seen = text_seen(tmp_path / "page.html")
    assert "divides the noisy sum by a number that depends on the data (1 file read; nothing was run)" in seen
    assert "step.py:2" in seen
    assert "len(grads.batch): |B|" in seen


def test_source_that_was_read_and_not_understood(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def f(x, keep):\n    return x / max(1, keep.sum())\n")
    read = run("code-audit", str(tmp_path), "--json").out
    assert report_on(read, tmp_path).code == 0
    seen = text_seen(tmp_path / "page.html")
    assert "is not known: 1 of 1 divisions were not understood (1 file read; nothing was run)" in seen
    assert "noisymean probe" in seen
    assert "A CONSTANT" not in seen.upper()
    # a file that says otherwise than its statements was changed
    done = report_on({**json.loads(read), "verdict": "constant"}, tmp_path)
    assert done.code == 2
    assert "verdict='constant': must be what the statements of this file say" in done.err
    # what an earlier reader called a constant is not taken over
    older = {key: value for key, value in json.loads(read).items() if key != "verdict"}
    assert "run the code audit again" in report_on({**older, "mechanism": "sgm"}, tmp_path).err


def test_verdicts_are_ordered_from_bad_to_good() -> None:
    assert banners.worst(["holds", "not-violated", "violated"]) == "violated"
    assert banners.worst(["constant", "holds", "undetermined"]) == "undetermined"
    assert banners.worst(["holds"]) == "holds"
    kept, open_ = (
        banners.Banner(word, kind, word, "Said.")  # type: ignore[arg-type]
        for word, kind in (("holds", "good"), ("undetermined", "unknown"))
    )
    assert banners.together([kept]) == kept
    assert banners.together([kept, kept]).headline == "All 2 results support the promised privacy."
    assert "1 of 2 results leave it open" in banners.together([kept, open_]).headline


@pytest.mark.slow
def test_the_worst_is_the_one_that_loses_most(tmp_path: Path) -> None:
    """Of several that are violated, in whatever order they are given."""
    for name, dimension in (("little", "50"), ("much", "5000")):
        typed = changed_option(MEAN_RUN, "--dimension", dimension)
        (tmp_path / f"{name}.json").write_text(run("account", *typed, "--json").out)
    audit = run(*AUDIT, "--json")
    (tmp_path / "audit.json").write_text(audit.out)
    lost = {
        name: json.loads((tmp_path / f"{name}.json").read_text())["leakage"]["epsilon"] for name in ("little", "much")
    }
    assert lost["much"] > 10 * lost["little"] > json.loads(audit.out)["epsilon_lower"]
    for order in (("little", "much", "audit"), ("audit", "much", "little"), ("much", "audit", "little")):
        files = [str(tmp_path / f"{name}.json") for name in order]
        assert run("report", *files, "--out", str(tmp_path / "page.html")).code == 0
        said = re.search(r"The worst of them: (.*?) is certainly lost", text_seen(tmp_path / "page.html"))
        assert said is not None
        assert f"at least ε = {plain_number(at_least(lost['much'], '.4g'))}" in said[0]


def plain_number(text: str) -> str:
    """Without an exponent, thousands apart: as people write."""
    value = float(text)
    if value and not 1e-4 <= abs(value) < 1e6:
        digits, power = f"{value:e}".split("e")
        return (
            f"{float(digits):g}·10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(one)] if one != '-' else '⁻' for one in str(int(power)))}"
        )
    whole, dot, rest = f"{value:.10f}".rstrip("0").partition(".")
    return f"{int(whole):,}{dot}{rest}".rstrip(".")


def test_every_part_says_what_it_rests_on(folder: Path) -> None:
    """An account on what was typed, an audit on its runs, a code audit on running and reading."""
    seen = text_seen(folder / "all.html")
    parts = seen.split("What this verdict rests on")[1:]
    assert len(parts) == 3
    for row in (
        "sampler Poisson told: --sampling, or its default",
        "rate 1 told: --sample-rate",
        "denominator N·q = 9 told: --mechanism easgm",
        "noise 5 told: --noise-multiplier",
        "adjacency one record added or removed told: --adjacency and --pair, or their defaults",
        "records 9 told: --dataset-size",
        "steps 4 told: --steps or --epochs",
    ):
        assert row in parts[0]
    assert "sampler, rate, denominator, noise whatever the target does seen: it was run 1,000 times" in parts[1]
    assert f"told: {folder / 'audit.json'}" in parts[1]
    assert "denominator as shown above seen: each release was run, and its source was read" in parts[2]
    assert "not looked at" in parts[2]


@pytest.mark.parametrize(
    ("pair", "said"), [("larger", "one record added:"), ("smaller", "one record removed:"), (None, "added or removed:")]
)
def test_what_holds_is_said_of_the_neighbours_that_were_looked_at(pair: str | None, said: str, tmp_path: Path) -> None:
    """FEASGM at a size where the floor stays on both sides."""
    typed = (
        *("--mechanism", "feasgm", "--dataset-size", "10", "--dimension", "50", "--sample-rate", "1/4"),
        *("--noise-multiplier", "5", "--steps", "1", "--delta", "1e-5", *(("--pair", pair) if pair else ())),
    )
    assert "is proved" in run("report", *typed, "--out", str(tmp_path / "page.html")).out
    sentence = re.search(r"The privacy promised[^.]*is kept, ([^.]*:)", text_seen(tmp_path / "page.html"))
    assert sentence is not None
    assert sentence[1].startswith("for batches drawn by Poisson sampling and ")
    assert sentence[1].endswith(said)
    told = run("account", *typed).out
    assert f"The claim holds, {sentence[1]} the guarantee is no larger." in told


# --- files that are not what they should be ----------------------------------------------------------------------------


def changed(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with another value at a.b.c; None of `value` stands for null, ... for no such key."""
    found = copy.deepcopy(record)
    place: Any = found
    *way, last = path.split(".")
    for key in way:
        place = place[int(key) if key.isdigit() else key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return found


@pytest.mark.parametrize(
    ("kind", "path", "value", "complaint"),
    [
        ("account", "claimed.epsilon", 0.1, "claimed.epsilon=0.1: must be what these settings give, 1.5"),
        ("account", "leakage.epsilon", 1e9, "leakage.epsilon=1000000000.0: must be what these settings give"),
        ("account", "guarantee.epsilon", None, "guarantee.epsilon=None: must be what these settings give"),
        ("account", "verdict", "holds", "verdict=holds: must be violated"),
        ("account", "verdict", HOSTILE, "must be one of violated, holds, undetermined"),
        ("account", "steps", -1, "steps=-1: must be a whole number >= 1"),
        ("account", "steps", True, "must be a whole number >= 1"),
        ("account", "notes", "none", "notes='none': must be a list"),
        ("account", "notes", [1], "notes[0]=1: must be a text"),
        ("account", "settings.sample_rate_exact", "1/0", "sample_rate"),
        ("account", "settings.noise_multiplier", "5", "settings.noise_multiplier='5': must be a number"),
        ("account", "settings", ..., "settings: missing"),
        ("account", "mechanism", "opacus-loader", "settings.batch_size=None: must be given for opacus-loader"),
        ("account", "adjacency", "both", "adjacency='both': must be one of"),
        ("account", "schema", 2, "schema=2: must be 1; another version of noisymean has written it"),
        ("audit", "verdict", "not-violated", "must be what the numbers of this file say"),
        ("audit", "verdict", None, "must be there exactly if something is claimed"),
        ("audit", "alpha.upper", 1.5, "alpha.upper=1.5: must be a number from 0 to 1"),
        ("audit", "curve.beta", [0.5], "must be a list of"),
        ("audit", "configuration", [], "configuration=[]: must be an object"),
        ("audit", "seed", 0.5, "seed=0.5: must be a whole number"),
        ("code", "releases", [], "must be a list of at least one release"),
        ("code", "releases.0.mechanism", 3, "releases[0].mechanism=3: must be an object"),
        ("code", "releases.0.seconds", -1, "releases[0].seconds=-1: must be a number >= 0"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_its_file(
    folder: Path, tmp_path: Path, kind: str, path: str, value: object, complaint: str
) -> None:
    done = report_on(changed(plain(folder, kind), path, value), tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"error: {tmp_path / 'given.json'}: ")
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.glob("*.html")) == []


def test_files_from_before_there_were_versions_are_read(folder: Path, tmp_path: Path) -> None:
    assert plain(folder, "account")["schema"] == 1
    assert report_on(changed(plain(folder, "account"), "schema", ...), tmp_path).code == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "must be JSON (it is empty)"),
        ("{", "must be JSON"),
        ("[1]", "must hold one JSON object"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"alpha": [1], "leakage": [1]}', "its keys are alpha, leakage"),
        ("[" * 100_000, "must not be nested that deeply"),
        ('{"target": ' + "1" * 5000 + "}", "must be JSON"),
    ],
)
def test_files_that_hold_no_record(tmp_path: Path, content: str, complaint: str) -> None:
    done = report_on(content, tmp_path)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.glob("*.html")) == []


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = str(tmp_path / "page.html")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    (tmp_path / "large.json").write_bytes(b" " * 3000)
    monkeypatch.setattr("noisymean.report.page.untrusted.MOST_BYTES", 2000)
    for name, complaint in (
        ("absent.json", "cannot be read (No such file or directory)"),
        (".", "cannot be read (Is a directory)"),
        ("bytes.json", "must be UTF-8 text"),
        ("large.json", "must be at most"),
        ("nul\0.json", "cannot be read (embedded null byte)"),
    ):
        done = run("report", str(tmp_path / name), "--out", page)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert complaint in done.err
    assert not Path(page).exists()


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ([], "--out: missing; must be a file named *.html"),
        (["--out", "p.html"], "--mechanism: missing (or a file of results)"),
        (["--out", "p.pdf", *SUM_RUN], "--out=p.pdf: must be a file named *.html"),
        (["--out", "no/p.html", *SUM_RUN], "create no first"),
        (["--out", "p.html", "--steps", "3"], "--mechanism: missing"),
        (["--out", "p.html", *SUM_RUN, "--epsilon", "1"], "--epsilon=1: must be left out when --delta is given"),
        (["--out", "p.html", "--mechanism", "sgm"], "--noise-multiplier: missing"),
        (["--out", "p.html", *SUM_RUN[:-2]], "--delta: missing (or --epsilon)"),
        (["--out", "p.html", *SUM_RUN, "--adjacency", "x"], "--adjacency=x: must be one of"),
        (["--out", "p.html", "-", "-"], "must be given once"),
    ],
)
def test_bad_options_are_one_line(
    typed: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("report", *typed)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_standard_input(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "audit.json").read_bytes())))
    done = run("report", "-", "--out", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    assert "taken from standard input" in text_seen(tmp_path / "page.html")


def mutated(value: Any, chance: random.Random) -> Any:
    """One value somewhere inside exchanged for another that is no better."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: mutated(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        return [*value[:index], mutated(value[index], chance), *value[index + 1 :]]
    return chance.choice([None, True, -1, 0, 1e308, 10**30, "", HOSTILE, "\ud800", "\u202e", [], [[]], {}, {"": None}])


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_records_give_a_page_or_one_line(folder: Path, tmp_path: Path, kind: str) -> None:
    chance, record = random.Random(7), plain(folder, kind)
    codes = []
    for _ in range(25):
        # accounts are only read here: those that pass would all be computed
        if kind == "account":
            with contextlib.suppress(nm.NoisymeanError):
                account_record(parsed(json.dumps(mutated(record, chance)).encode(), "file"))
                codes.append(0)
            codes.append(2)
            continue
        done = report_on(json.dumps(mutated(record, chance)), tmp_path)
        codes.append(done.code)
        written = tmp_path / "page.html"
        assert done.code in (0, 2), done.err
        assert written.exists() == (done.code == 0)
        if done.code == 2:
            assert done.err.count("\n") == 1, done.err
        else:
            content = written.read_text(encoding="utf-8")
            assert content.endswith("</html>\n")
            assert "<img src=x" not in content
            written.unlink()
    assert {0, 2} == set(codes)


def test_nothing_is_left_behind_and_the_old_page_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def full(self: Path, _: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(nm.InvalidInput, match="No space left on device"):
        pages.write_page("out", target, "new")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    assert target.read_text() == "old"


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_package_is_one_line_with_the_remedy(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    tried = [["report", *SUM_RUN, "--out", str(tmp_path / "page.html")]]
    if package == "jinja2":
        tried.append(["code-audit", "opacus", "--versions", "0.13.0", "--html", str(tmp_path / "page.html")])
    for typed in tried:
        done = run(*typed)
        assert done.code == 2
        assert done.err == f"error: {package} is not installed; install it with: pip install 'noisymean[report]'\n"
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_starts_without_them() -> None:
    lines = "import sys, noisymean.cli.app; print([m for m in ('jinja2', 'plotly', 'matplotlib', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", lines], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_same_page_on_every_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    pages_made = []
    for _ in range(2):
        assert run("report", str(folder / "audit.json"), "--out", str(tmp_path / "page.html")).code == 0
        pages_made.append((tmp_path / "page.html").read_bytes())
    assert pages_made[0] == pages_made[1]
    assert "1970-01-02 00:00 UTC" in text_seen(tmp_path / "page.html")
    for strange in ("", "x", "²", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", strange)
        assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", rendering.today())


# --- parts -------------------------------------------------------------------------------------------------------------


def test_text_that_cannot_be_seen_is_written_out() -> None:
    assert text_of("a\u202eb\x00c\ud800\n\tö") == "a\\u202eb\\x00c\\ud800\n\tö"
    assert Untrusted("x", "f").text() == "x"


def luminance(colour: str) -> float:
    parts = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_can_be_read_in_both_schemes() -> None:
    """Contrast as WCAG defines it: 4.5 for text, 3 for lines."""

    def contrast(one: str, other: str, dark: bool) -> float:
        light, less = sorted((luminance(palette.PALETTE[name][dark]) for name in (one, other)), reverse=True)
        return (light + 0.05) / (less + 0.05)

    for dark in (False, True):
        for name in ("ink", "muted", "link", "good", "bad", "unknown"):
            assert contrast(name, "paper", dark) >= 4.5, (name, dark)
        for name in ("good", "bad", "unknown"):
            assert contrast(name, f"{name}-soft", dark) >= 4.5, (name, dark)
            assert contrast("ink", f"{name}-soft", dark) >= 4.5, (name, dark)
        for name in ("claimed", "leakage", "guarantee", "exact"):
            assert contrast(name, "paper", dark) >= 3.0, (name, dark)
    lights = [light for light, _ in palette.PALETTE.values()]
    assert len(set(lights)) == len(lights)


def test_a_template_that_misses_a_name_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        page_package.render("report.html", title="x")


# --- in the browser ----------------------------------------------------------------------------------------------------


def opened(seen: Seen, path: Path) -> None:
    seen.page.goto(path.as_uri())
    seen.page.wait_for_function(
        "[...document.querySelectorAll('.plot-area')].every(one => one.querySelector('.main-svg'))"
    )


def hovered(seen: Seen, plot: str, x: float, y: float) -> str:
    """The tooltip at a point given in the units of the axes."""
    place = seen.page.evaluate(
        """([plot, x, y]) => {
            const area = document.querySelector(`#${plot} .plot-area`);
            area.scrollIntoView({block: "center"});
            const box = area.getBoundingClientRect(), full = area._fullLayout;
            const along = (axis, value) => axis._offset + axis.d2p(value);
            return [box.left + along(full.xaxis, x), box.top + along(full.yaxis, y)];
        }""",
        [plot, x, y],
    )
    # from outside, so that no other point is passed on the way
    seen.page.mouse.move(1, 1)
    label = seen.page.locator(f"#{plot} .hoverlayer .hovertext")
    label.first.wait_for(state="detached", timeout=5000)
    seen.page.mouse.move(place[0] + 1, place[1])
    seen.page.mouse.move(*place)
    label.first.wait_for(state="attached", timeout=5000)
    return str(label.first.text_content()).replace("−", "-")


def test_a_page_in_the_browser(folder: Path) -> None:
    """Drawn, with values under the pointer, and nothing asked of anyone."""
    with browser_page() as seen:
        opened(seen, folder / "sum.html")
        drawn = seen.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("figure.plot")].map(one => [one.id, {
                lines: [...one.querySelectorAll(".scatterlayer .js-line")].filter(p => p.getAttribute("d")?.length > 10).length,
                points: one.querySelectorAll(".scatterlayer .point").length,
                legend: [...one.querySelectorAll(".legendtext")].map(t => t.textContent)}]))"""
        )
        # both ends, and the claim
        assert drawn["run-range"]["points"] == 3
        assert drawn["run-tradeoff"]["lines"] == 4
        assert drawn["run-growth"]["lines"] >= 3
        for name in ("claimed", "leakage", "guarantee"):
            assert name in drawn["run-tradeoff"]["legend"]
            assert name in drawn["run-growth"]["legend"]
        # N(0, 1) against N(1, 1), in closed form, at the point that the tooltip names
        beta = float(norm.cdf(norm.isf(0.2) - 1.0))
        found = re.search(
            r"α = ([\d.]+)(claimed|leakage|guarantee): β [≤≥] ([\d.]+)", hovered(seen, "run-tradeoff", 0.2, beta)
        )
        assert found is not None
        alpha = float(found[1])
        assert alpha == pytest.approx(0.2, abs=0.02)
        assert float(found[3]) == pytest.approx(float(norm.cdf(norm.isf(alpha) - 1.0)), abs=2e-3)
        last = hovered(seen, "run-growth", 25.0, gaussian_epsilon(1.0, 1e-5))
        assert "after 25 steps" in last
        told = re.search(r"ε ([≤≥]) ([\d.]+)", last)
        assert told is not None
        exact = gaussian_epsilon(1.0, 1e-5)
        assert float(told[2]) == (math.floor if told[1] == "≥" else math.ceil)(1000.0 * exact) / 1000.0
        seen.check()


def test_dark_light_and_paper(folder: Path) -> None:
    """The scheme changes the page and its plots, also while it is open; paper is light, and everything is on it."""
    colours = """() => [getComputedStyle(document.body).backgroundColor,
        document.querySelector("#run-tradeoff .main-svg").style.background,
        getComputedStyle(document.querySelector("#run-tradeoff .scatterlayer .trace:last-child .js-line")).stroke]"""

    def shown(name: str, dark: bool) -> str:
        value = palette.PALETTE[name][dark]
        return f"rgb({', '.join(str(int(value[index : index + 2], 16)) for index in (1, 3, 5))})"

    with browser_page(scheme="dark") as seen:
        opened(seen, folder / "all.html")
        dark = [shown("paper", True), shown("paper", True), shown("guarantee", True)]
        light = [shown("paper", False), shown("paper", False), shown("guarantee", False)]
        assert seen.page.evaluate(colours) == dark
        seen.page.evaluate(
            """() => addEventListener("beforeprint", () => {
                window.printed = document.querySelector("#run-tradeoff .main-svg").style.background })"""
        )
        document = seen.page.pdf(format="A4")
        assert document.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", document)) >= 3
        assert len(document) > 30_000
        assert seen.page.evaluate("window.printed") == light[1]
        seen.page.wait_for_function("!document.querySelector('details').open")
        assert seen.page.evaluate(colours) == dark
        seen.page.emulate_media(color_scheme="light")
        seen.page.wait_for_function(f"wanted => JSON.stringify(({colours})()) === JSON.stringify(wanted)", arg=light)
        seen.check()


def test_a_phone_scrolls_one_way_only(folder: Path) -> None:
    with browser_page(width=400, height=800) as seen:
        opened(seen, folder / "all.html")
        wide = seen.page.evaluate(
            """() => [document.documentElement.scrollWidth, document.body.scrollWidth,
                Math.max(...[...document.querySelectorAll(".main-svg")].map(one => one.getBoundingClientRect().right))]"""
        )
        assert max(wide) <= 400
        # what is wider than the screen scrolls inside its own box
        assert seen.page.evaluate(
            "[...document.querySelectorAll('.scroll')].some(one => one.scrollWidth > one.clientWidth)"
        )
        seen.check()


def test_hostile_text_is_only_text(folder: Path, tmp_path: Path) -> None:
    """In a target's name, a note, an option, a file's name, a title; and the policy stops even markup that got in."""
    named = tmp_path / f"{HOSTILE.replace('/', '_')}.json"
    audit = changed(plain(folder, "audit"), "configuration.target.evil", HOSTILE)
    named.write_text(json.dumps({**audit, "target": HOSTILE, "distinguisher": HOSTILE, "reason": HOSTILE}))
    account, code = json.loads(run("account", *SUM_RUN, "--json").out), plain(folder, "code")
    (tmp_path / "a.json").write_text(json.dumps({**account, "notes": [HOSTILE], "reported": {HOSTILE: 1.0}}))
    code = changed(code, "releases.0.faults", {HOSTILE: HOSTILE})
    (tmp_path / "c.json").write_text(json.dumps({**code, "package": HOSTILE}))
    page = tmp_path / "page.html"
    done = run(
        "report", str(named), str(tmp_path / "a.json"), str(tmp_path / "c.json"), "--title", HOSTILE, "--out", str(page)
    )
    assert done.code == 0, done.err
    content = page.read_text()
    assert Text(content).seen.count("<script>alert(1)</script>") >= 10
    assert "img" not in Text(content).tags
    (tmp_path / "open.html").write_text(content.replace("<main>", "<main><script>window.ran = 1</script>", 1))
    with browser_page() as seen:
        dialogs: list[str] = []

        def dismissed(one: Any) -> None:
            dialogs.append(one.message)
            one.dismiss()

        seen.page.on("dialog", dismissed)
        opened(seen, page)
        assert seen.page.evaluate("document.scripts.length") == 2 + content.count('<script type="application/json">')
        assert dialogs == []
        seen.check()
        opened(seen, tmp_path / "open.html")
        assert seen.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in one for one in seen.errors)


def test_data_cannot_end_its_element() -> None:
    import plotly.graph_objects as go

    figure = go.Figure(go.Scatter(x=np.array([0.0]), y=np.array([1.0]), name=HOSTILE + "<!-- \u2028"))
    block = page_package.figure_block(figure, name="x", caption=HOSTILE).markup
    assert block.count("<script") == block.count("</script>") == 1
    assert "<!--" not in block
    data = re.search(r"<script[^>]*>(.*?)</script>", block)
    assert data is not None
    assert json.loads(data[1])["data"][0]["name"] == HOSTILE + "<!-- \u2028"
