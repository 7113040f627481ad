"""Whatever a page, a note or a complaint prints as a command or as code is run as it is printed, and does what is said beside it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
import warnings
from fractions import Fraction
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import spawn
from test_documents import parsed

import noisymean as nm
from command_line import run
from noisymean.cli.complaints import WANTED, option
from noisymean.laws.orthogonal import OrthogonalPair
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.mechanisms.opacus_rate import is_recovered, steps_at_most
from noisymean.report.page.sections import ShownRun, account_section, report

SOURCE = Path(nm.__file__).parent
DELTA = 1e-5
LARGE = 86_000_000

# Mechanism and steps, by what is odd about them.
SETTINGS: dict[str, tuple[Mechanism, int]] = {
    "the rate moves": (
        nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0), 100,
    ),
    "the floor moves": (nm.OpacusLoader(dataset_size=1_008, batch_size=64, dimension=500, noise_multiplier=10.0), 50),
    "nothing moves": (nm.OpacusLoader(dataset_size=1_010, batch_size=64, dimension=500, noise_multiplier=10.0), 50),
    # 93 batches, which Opacus takes for 92
    "93 batches": (nm.OpacusLoader(dataset_size=930, batch_size=10, dimension=40, noise_multiplier=5.0), 3),
    "93 batches, unmoved": (
        nm.OpacusLoader(dataset_size=2_231, batch_size=24, dimension=97_248, noise_multiplier=10.0), 1,
    ),
    "no rate 1/L": (nm.FEASGM(dataset_size=50_000, dimension=26_010, sample_rate="256/3125", noise_multiplier=1.0), 100),
    "a rate near 1": (nm.FEASGM(dataset_size=9, dimension=300, sample_rate="0.9", noise_multiplier=2.0), 20),
    "all of the records": (nm.FEASGM(dataset_size=1, dimension=300, sample_rate="1", noise_multiplier=2.0), 20),
    "few records": (nm.FEASGM(dataset_size=8, dimension=30, sample_rate="1/3", noise_multiplier=2.0), 1),
    "expected size": (nm.EASGM(dataset_size=9, dimension=50, sample_rate="1", noise_multiplier=5.0), 4),
    "many parameters": (nm.EASGM(dataset_size=59_999, dimension=LARGE, sample_rate="0.005", noise_multiplier=10.0), 1_000),
    "one record": (nm.EASGM(dataset_size=1, dimension=1, sample_rate="1/2", noise_multiplier=1.0), 1),
    "size of the batch": (nm.ASGM(dataset_size=3, dimension=4, sample_rate="0.7", noise_multiplier=1.0), 1),
    "no record": (nm.ASGM(dataset_size=0, dimension=4, sample_rate="0.7", noise_multiplier=1.0), 1),
    "sum": (nm.SGM(sample_rate="0.01", noise_multiplier=1.0), 1_000),
    # the rate that the accountant was told is not b/N
    "shuffled": (nm.SGM(
        dataset_size=59_999, dimension=26_010, sample_rate="1/100", batch_size=600, noise_multiplier=1.0, sampling="shuffle",
    ), 100),
    "shuffled, last dropped": (nm.FEASGM(
        dataset_size=1_010, dimension=300, sample_rate="1/100", batch_size=10, noise_multiplier=1.0, sampling="shuffle",
        drop_last=True,
    ), 101),
    "a fixed size": (nm.EASGM(
        dataset_size=100, dimension=30, sample_rate="1/10", noise_multiplier=1.0, sampling="fixed-size",
    ), 10),
    "allocated": (nm.FEASGM(
        dataset_size=99, dimension=30, sample_rate="1/10", noise_multiplier=1.0, sampling="balls-in-bins",
    ), 10),
    "in order": (nm.OpacusLoader(
        dataset_size=1_008, batch_size=64, dimension=500, noise_multiplier=10.0, sampling="cyclic",
    ), 16),
    "sum of many": (nm.SGM(sample_rate="0.01", noise_multiplier=1.0, dataset_size=1_000, dimension=LARGE), 10**6),
}  # fmt: skip
SLOW: dict[str, tuple[Mechanism, int]] = {
    "ten thousand trials": (
        nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0), 200,
    ),
    "size of a large batch": (nm.ASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.7", noise_multiplier=10.0), 1),
    "size of the batch, five steps": (nm.ASGM(dataset_size=8, dimension=3, sample_rate="0.9", noise_multiplier=6.0), 5),
}  # fmt: skip
every_setting = pytest.mark.parametrize(
    "name", [*SETTINGS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)


def words_of(code: str) -> str:
    """What is copied of it: each word of a command is in an element of its own."""
    return unescape(re.sub(r"</?span>", "", code))


class Page:
    """The page of a run: what it says, and what it prints to be run."""

    def __init__(self, mechanism: Mechanism, steps: int, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> None:
        self.answer = nm.account(mechanism, steps=steps, delta=DELTA, adjacency=adjacency)
        shown = ShownRun(
            answer=self.answer, remarks=tuple(map(str, self.answer.remarks)), reported=(), elsewhere=None, growth=None, curves=None,
        )  # fmt: skip
        content = report([account_section(shown, "run")], title="x", command="noisymean report")
        body = content[content.index("<main>") : content.index("</main>")]
        codes = re.findall(r"<pre[^>]*><code[^>]*>(.*?)</code></pre>", body, flags=re.DOTALL)
        self.codes = list(map(words_of, codes))
        self.text = unescape(" ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", body, flags=re.DOTALL).split()))

    def only(self, start: str) -> str | None:
        found = [code for code in self.codes if code.startswith(start)]
        assert len(found) <= 1
        return found[0] if found else None


_PAGES: dict[str, Page] = {}


def page_of(name: str) -> Page:
    """Each page is made once."""
    if name not in _PAGES:
        _PAGES[name] = Page(*{**SETTINGS, **SLOW}[name])
    return _PAGES[name]


def executed(code: str, **names: object) -> str:
    """What lines of Python print."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        # "secure mode is off"
        warnings.simplefilter("ignore")
        exec(compile(code, "printed", "exec"), dict(names))
    return out.getvalue()


# --- the page of a run -------------------------------------------------------------------------------------------------


@every_setting
def test_nothing_is_printed_that_no_test_here_knows(name: str) -> None:
    starts = ("noisymean account ", "noisymean audit ", "import numpy", "from noisymean.integrations.opacus ")
    for code in page_of(name).codes:
        assert code.startswith(starts), code


@pytest.mark.thin(2)
@every_setting
def test_the_command_gives_the_numbers_again(name: str) -> None:
    page = page_of(name)
    code = page.only("noisymean account ")
    assert code is not None
    done = run(*shlex.split(code)[1:], "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    for which in ("claimed", "leakage", "guarantee"):
        assert found[which]["epsilon"] == getattr(page.answer, which).epsilon
    assert found["verdict"] == page.answer.verdict


@pytest.mark.thin(2)
@every_setting
def test_what_is_drawn_agrees_with_what_is_computed(name: str) -> None:
    page = page_of(name)
    code = page.only("import numpy")
    # steps of an epoch are no rounds of their own, so that none is drawn by itself
    assert (code is not None) == page.answer.mechanism.is_poisson
    if code is None:
        return
    said = re.search(r"agree to within ([\d.]+)", page.text)
    assert said is not None
    drawn, computed = map(float, re.findall(r"[\d.]+", executed(code)))
    assert abs(drawn - computed) <= float(said[1])


# Where an attack is known, and can be seen in a minute.
AUDITED = {
    "the rate moves", "the floor moves", "93 batches", "a rate near 1", "all of the records", "few records",
    "expected size", "ten thousand trials", "size of the batch, five steps", "one record",
}  # fmt: skip


# An audit of several steps simulates its own truth, which takes a while.
QUICK = ("few records", "all of the records", "expected size", "one record")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in SETTINGS and name not in AUDITED - set(QUICK) else pytest.mark.slow)
        for name in (*SETTINGS, *SLOW)
    ],
)
def test_the_auditor_finds_what_is_said(name: str) -> None:
    page = page_of(name)
    code = page.only("noisymean audit ")
    assert (code is not None) == (name in AUDITED)
    if code is None:
        assert "let the auditor" not in page.text
        return
    said = re.search(
        r"finds the claim violated: δ at ε = 0 is ([\d.]+) or more .*?, and ([\d.]+) is promised", page.text
    )
    assert said is not None
    done = run(*shlex.split(code)[1:], "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["verdict"] == "violated"
    # the auditor has a truth of its own
    assert found["exact"]["delta"] == pytest.approx(float(said[1]), abs=0.02)
    assert found["claimed"]["delta"] == pytest.approx(float(said[2]), rel=0.05)
    assert found["delta_lower"] > found["claimed"]["delta"]


REMEDIED = {
    "shuffled, last dropped": "1/100", "allocated": "1/10", "in order": "1/16",
    "the rate moves": "1/100", "the floor moves": "1/16", "93 batches": "1/94", "no rate 1/L": "1/13",
    "a rate near 1": "1/2", "all of the records": "1/1", "few records": "1/3", "ten thousand trials": "1/200",
}  # fmt: skip
ODD_RATES = ("93 batches", "no rate 1/L", "a rate near 1")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=() if name in SETTINGS and name not in set(REMEDIED) - set(ODD_RATES) else pytest.mark.slow
        )
        for name in (*SETTINGS, *SLOW)
    ],
)
def test_the_remedy_is_one(name: str) -> None:
    page = page_of(name)
    code = page.only("from noisymean.integrations.opacus ")
    assert (code is not None) == (name in REMEDIED)
    if code is None:
        return
    opacus_training = pytest.importorskip("opacus_training")
    torch = opacus_training.torch
    torch.manual_seed(0)
    train_set = torch.utils.data.TensorDataset(torch.randn(60, opacus_training.FEATURES), torch.randint(0, 2, (60,)))
    model = torch.nn.Linear(opacus_training.FEATURES, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = opacus_training.PrivacyEngine()
    names: dict[str, Any] = {
        "train_set": train_set,
        "engine": engine,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }
    *_, last = code.splitlines()
    assert last.endswith("# holds")
    # the last line looks at the run before its first step, and after a few
    kept: dict[str, Any] = {}
    assert executed(f"{code}\nkept.update(globals())", **names, kept=kept) == "holds\n"
    opacus_training.train(kept["model"], kept["optimizer"], kept["loader"], 3)
    assert executed(last, **kept) == "holds\n"
    # what is claimed at a rate holds at every smaller one
    rate = Fraction(REMEDIED[name])
    assert f'sample_rate="{REMEDIED[name]}"' in code
    mechanism = page.answer.mechanism
    assert rate <= (
        mechanism.rate if isinstance(mechanism, nm.FEASGM) else Fraction(mechanism.rate).limit_denominator(10**6)
    )
    assert ("the nearest below" in page.text) == (name in ODD_RATES)


def test_rates_that_opacus_takes() -> None:
    for length in range(1, 300):
        found = steps_at_most(Fraction(1, length))
        assert is_recovered(found)
        assert found == length or not is_recovered(length)
        assert length <= found <= length + 2
    assert not is_recovered(93)


@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE])
def test_other_neighbours(adjacency: Adjacency) -> None:
    """The commands say which neighbours, the code is the sum's, and nothing is to be remedied in Opacus."""
    page = Page(*SETTINGS["the rate moves"], adjacency)
    code = page.only("noisymean account ")
    assert code is not None
    assert json.loads(run(*shlex.split(code)[1:], "--json").out)["verdict"] == page.answer.verdict
    assert page.only("from noisymean.integrations.opacus ") is None
    assert page.only("noisymean audit ") is None
    drawn = page.only("import numpy")
    assert (drawn is None) == (adjacency is Adjacency.REPLACE_ONE)
    if drawn is not None:
        a, b = map(float, re.findall(r"[\d.]+", executed(drawn)))
        assert abs(a - b) <= 0.03


def test_draws_are_those_of_the_outputs_themselves() -> None:
    """(x.u, |x - x.u u|^2) of whole outputs and as drawn: the same law, and the same loss."""
    mechanism = nm.EASGM(dataset_size=5, dimension=7, sample_rate="1/2", noise_multiplier=1.0)
    for pair in explicit_pairs(mechanism):
        if isinstance(pair, OrthogonalPair):
            # three numbers: test_leakage
            continue
        for extra in (False, True):
            outputs = pair.sample(np.random.default_rng(1), 40_000, extra_record=extra)
            whole = pair.loss(outputs[:, 0], np.square(outputs[:, 1:]).sum(axis=1))
            drawn = pair.loss(*pair.draw(np.random.default_rng(2), 40_000, extra_record=extra))
            levels = np.linspace(0.05, 0.95, 19)
            # two samples of 40,000: their distributions differ by 0.02 once in millions
            shares = np.searchsorted(np.sort(drawn), np.quantile(whole, levels)) / drawn.size
            np.testing.assert_allclose(shares, levels, atol=0.02)


# --- what inspect and fix say ------------------------------------------------------------------------------------------


def remedied(remedy: str, records: int) -> str:
    """Do what the remedy says, in the calls that it shows, and look again."""
    opacus_training = pytest.importorskip("opacus_training")
    from noisymean.integrations.opacus import fix, inspect, poisson_loader

    made = re.search(r"poisson_loader\(.*?\)", remedy)
    fixed = re.search(r"fix\(.*?\)", remedy)
    assert made is not None
    assert fixed is not None
    torch = opacus_training.torch
    train_set = torch.utils.data.TensorDataset(
        torch.randn(records, opacus_training.FEATURES), torch.randint(0, 2, (records,))
    )
    given: dict[str, Any] = {"poisson_loader": poisson_loader, "train_set": train_set}
    executed(f"loader = {made[0]}\nkept['loader'] = loader", **given, kept=given)
    _, model, optimizer, loader = opacus_training.private(records, loader=given["loader"])
    executed(fixed[0], fix=fix, optimizer=optimizer, loader=loader)
    opacus_training.train(model, optimizer, loader, 2)
    return inspect(optimizer, data_loader=loader).verdict


@pytest.mark.parametrize(
    ("records", "batch_size", "options"),
    [
        pytest.param(100, 10, {}, marks=pytest.mark.slow),
        pytest.param(103, 10, {}, marks=pytest.mark.slow),
        # 93 batches, of which the accountant is told 92
        (186, 2, {}),
        (100, 10, {"poisson_sampling": False}),
        (100, 10, {"loss_reduction": "sum"}),
    ],
)
def test_the_remedy_of_an_inspection_is_one(records: int, batch_size: int, options: dict[str, Any]) -> None:
    opacus_training = pytest.importorskip("opacus_training")
    from noisymean.integrations.opacus import inspect

    _, model, optimizer, loader = opacus_training.private(records, batch_size=batch_size, **options)
    opacus_training.train(model, optimizer, loader, 2)
    found = inspect(optimizer, data_loader=loader, dataset_size=records, batch_size=batch_size, drop_last=False)
    assert remedied(found.remedy, records) == "holds"


def test_the_remedy_for_a_denominator_alone() -> None:
    """The rate is public already, and all digits of the constant are there."""
    opacus_training = pytest.importorskip("opacus_training")
    from noisymean.integrations.opacus import fix, inspect

    _, model, optimizer, loader = opacus_training.private(105, sample_rate="1/10")
    opacus_training.train(model, optimizer, loader, 1)
    found = inspect(optimizer, data_loader=loader)
    assert found.remedy.endswith("fix(optimizer, denominator=10, data_loader=loader)")
    _, model, optimizer, loader = opacus_training.private(105, sample_rate="1/10")
    executed(found.remedy[found.remedy.index("fix(") :], fix=fix, optimizer=optimizer, loader=loader)
    assert inspect(optimizer, data_loader=loader).verdict == "holds"
    from noisymean.integrations.opacus.neighbours import constant_code

    assert constant_code(123_456_789.0) == "123456789"


def test_where_nobody_knows_the_sampler_the_remedy_is_to_say_it() -> None:
    """One cannot tell what else to change, and what is constant already must not be changed again."""
    opacus_training = pytest.importorskip("opacus_training")
    from noisymean.integrations.opacus import fix, inspect

    _, _, optimizer, loader = opacus_training.private(105, sample_rate="1/10")
    fix(optimizer, denominator=10, data_loader=loader)
    blind = inspect(optimizer, dataset_size=105)
    assert (blind.verdict, blind.remedy.split(" the one")[0]) == ("undetermined", "pass data_loader=")
    assert inspect(optimizer, data_loader=loader).verdict == "holds"


def test_what_fix_offers_instead_can_be_done() -> None:
    opacus_training = pytest.importorskip("opacus_training")
    from noisymean.integrations.opacus import fix, poisson_loader

    _, _, optimizer, loader = opacus_training.private(186, batch_size=2)
    tried = (
        lambda: fix(optimizer, denominator=2, data_loader=loader, sample_rate="1/92"),
        lambda: fix(optimizer, denominator=2, data_loader=loader, sample_rate="1/93"),
        lambda: poisson_loader(loader.dataset, sample_rate="256/3125"),
    )
    for act in tried:
        with pytest.raises(nm.InvalidInput) as fault:
            act()
        offered = re.search(r"(?:poisson_loader\(train_set, )?sample_rate='(1/\d+)'\)?$", str(fault.value))
        assert offered is not None, str(fault.value)
        assert poisson_loader(loader.dataset, sample_rate=offered[1]).sample_rate == float(Fraction(offered[1]))


# --- the other pages ---------------------------------------------------------------------------------------------------


def test_every_way_to_a_page_can_be_gone_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The foot of a page names the command that made it; a code audit its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file.py").write_text("def f(grads):\n    return grads.sum(0) / len(grads.batch)\n")
    (tmp_path / "read.json").write_text(run("code-audit", "a file.py", "--json").out)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    words = ("report", "read.json", "--mechanism", "sgm", "--sample-rate", "1", "--noise-multiplier", "5")
    assert run(*words, "--steps", "1", "--delta", "1e-5", "--title", "two words", "--out", "p.html").code == 0
    first = Path("p.html").read_text()
    made = re.search(r"Made by <code[^>]*>(.*?)</code>", first)
    assert made is not None
    Path("p.html").unlink()
    # a shell would read it so as well
    assert spawn(*shlex.split(words_of(made[1]))[1:], cwd=tmp_path).returncode == 0
    assert Path("p.html").read_text() == first
    codes = map(words_of, re.findall(r"<pre[^>]*><code[^>]*>(.*?)</code></pre>", first))
    (read,) = (code for code in codes if code.startswith("noisymean code-audit "))
    done = run(*shlex.split(read)[1:], "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == json.loads((tmp_path / "read.json").read_text())


# --- help and complaints -----------------------------------------------------------------------------------------------

COMMANDS = (
    "account", "audit", "calibrate", "code-audit", "curve", "data", "demo", "explore", "probe", "report", "reproduce",
)  # fmt: skip
# ShownRun as they stand; the others need minutes, the network or somebody to stop them, and are understood at least.
RUN = ("noisymean curve", "noisymean calibrate", "noisymean audit synthetic", "noisymean data list")


def examples(text: str) -> list[str]:
    """The command lines below `Example:`."""
    _, _, after = text.partition("Example:")
    joined = after.replace("\\\n", " ")
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip().startswith("noisymean ")]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_examples_of_the_help(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # wide enough that no line is broken
    monkeypatch.setenv("COLUMNS", "200")
    shown = examples(run(*([command] if command else []), "--help").out)
    assert shown
    for line in shown:
        for part in line.split(" | "):
            words = shlex.split(part)
            assert words[0] == "noisymean"
            parsed(words[1:])
        if line.startswith(RUN) and " | " not in line and "--plot" not in line:
            assert run(*shlex.split(line)[1:]).code == 0, line


# Every place in the source that prints a command of ours, and where it is run.
PLACES = {
    "audit/store.py": "names the command only",
    "cli/code_audit.py": "the foot of a page; parsed below",
    "cli/data.py": "test_the_commands_in_complaints",
    "cli/gate.py": "names the commands only",
    "cli/report.py": "test_every_way_to_a_page_can_be_gone_again",
    "cli/reproduce.py": "test_the_commands_in_complaints",
    "cli/statement.py": "names the command only",
    "cli/targets.py": "test_the_commands_in_complaints",
    "explore/page.py": "names the command only",
    "integrations/opacus/accountant.py": "names the command only",
    "integrations/pytest_plugin.py": "test_integration_pytest.py runs what a failure shows",
    "paper/data/catalogue.py": "test_the_commands_in_complaints",
    "paper/data/folder.py": "test_the_commands_in_complaints",
    "paper/data/formats.py": "test_the_commands_in_complaints",
    "paper/experiments/table_2_releases.py": "test_the_commands_in_complaints",
    "paper/reproduction.py": "the foot of a page: test_reproduction.py",
    "cli/divisions_shown.py": "names the command only",
    "cli/complaints.py": "names the command only",
    "cli/lint_shown.py": "test_lint_rules_page.py runs it for every rule",
    "lint/catalogue.py": "a remedy for a library: test_the_commands_in_complaints",
    "lint/rules/opacus_calls.py": "test_lint_numbers.py runs what a finding shows",
    "report/lint_marks.py": "names the command only",
    "scorecard/pitfalls.py": "test_the_commands_in_complaints",
    "scorecard/source/own.py": "test_the_commands_in_complaints",
    "targets/registry.py": "test_the_commands_in_complaints",
    "probe/packages.py": "test_the_commands_in_complaints",
    "report/page/untrusted.py": "names the commands only",
    "report/page/sections.py": "test_every_way_to_a_page_can_be_gone_again",
    "report/page/banners.py": "names the command only",
}
_COMMAND = re.compile(rf"noisymean (?:{'|'.join(COMMANDS)})\b")


@cache
def printed_texts(path: Path) -> list[str]:
    """The strings of a module that are no docstrings, those of one expression together."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.append(node.value)
        elif isinstance(node, ast.List):
            words = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            found.append(" ".join(words))
    return found


def test_every_place_that_prints_a_command_is_known() -> None:
    places = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(_COMMAND.search(text) for text in printed_texts(path))
    }
    # metavariables and help texts of options name commands, and examples are tested above
    assert {one for one in places if one not in ("cli/audit.py", "cli/app.py")} == set(PLACES)


def test_the_commands_in_complaints() -> None:
    """Those that need the network, or a file of the user's, are understood; the others are run."""
    shown = {
        found[0].rstrip(".")
        for path in SOURCE.rglob("*.py")
        for text in printed_texts(path)
        for found in re.finditer(rf"noisymean (?:{'|'.join(COMMANDS)})(?: [a-z0-9:.=_-]+)+", text)
        if found[0].split()[2] not in ("has", "takes", "says", "does", "for", "prints")
        and "--" not in found[0].split()[-1]
    }
    assert "noisymean data fetch mnist" in shown
    assert "noisymean audit mine.py:release" in shown
    for line in shown:
        words = shlex.split(line)[1:]
        if words[:2] != ["data", "fetch"] or len(words) == 3:
            parsed(words)
        if line.startswith("noisymean data list"):
            assert run(*words).code == 0


_SUM = ("--mechanism", "sgm", "--dataset-size", "59999", "--dimension", "26010", "--noise-multiplier", "1")
_RUN = ("account", *_SUM, "--sample-rate", "0.005")
_ROUND = ("curve", *_SUM, "--sample-rate", "0.005")
_AUDIT = (
    *("audit", "synthetic", "--mechanism", "sgm", "--dataset-size", "4", "--dimension", "2", "--sample-rate", "0.5"),
    *("--noise-multiplier", "1", "--seed", "1"),
)
# To each option a command line that lacks it: what a complaint offers for it ("e.g. --steps 1000") is put at its end.
LACKING = {
    "sample_rate": ("account", *_SUM, "--steps", "1", "--delta", "1e-5"),
    "batch_size": ("account", *_SUM, "--steps", "1", "--delta", "1e-5"),
    "dataset_size": ("account", "--mechanism", "sgm", *_RUN[5:], "--steps", "1", "--delta", "1e-5"),
    "dimension": ("account", *_SUM[:4], *_RUN[7:], "--steps", "1", "--delta", "1e-5"),
    "noise_multiplier": ("account", *_SUM[:6], "--sample-rate", "0.005", "--steps", "1", "--delta", "1e-5"),
    "mechanism": ("account", *_RUN[3:], "--steps", "1000", "--delta", "1e-5"),
    "steps": (*_RUN, "--delta", "1e-5"),
    "epochs": (*_RUN, "--delta", "1e-5"),
    "delta": (*_RUN, "--steps", "1"),
    "epsilon": (*_RUN, "--steps", "1"),
    "pair": (*_RUN, "--steps", "1", "--delta", "1e-5"),
    "adjacency": (*_RUN, "--steps", "1", "--delta", "1e-5"),
    "alpha": _ROUND,
    "points": _ROUND,
    "plot": (*_ROUND, "--points", "5"),
    "target_epsilon": ("calibrate", *_SUM[:6], "--sample-rate", "0.005", "--steps", "100", "--delta", "1e-5"),
    "trials": _AUDIT,
    "confidence": (*_AUDIT, "--trials", "100"),
    "seed": (*_AUDIT[:-2], "--trials", "100"),
    "store": (*_AUDIT, "--trials", "100"),
    "distinguisher": (*_AUDIT, "--trials", "100"),
    "test": (*_AUDIT, "--trials", "100", "--distinguisher", "paper"),
    "gradients": (*_AUDIT, "--trials", "100"),
    "max_grad_norm": (*_AUDIT, "--trials", "100"),
    "claim_epsilon": (*_AUDIT, "--trials", "100"),
    "claim_delta": (*_AUDIT, "--trials", "100", "--claim-epsilon", "1"),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_a_complaint_offers_is_accepted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*LACKING[name], option(name), WANTED[name].example)
    assert done.code == 0, done.err
