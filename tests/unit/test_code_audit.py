"""Reading source code, and the audit of releases: kept, resumed, one fault never stops the rest."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from command_line import run
from noisymean.errors import InvalidInput
from noisymean.probe import code_audit, packages
from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM, Audited, audit_opacus, versions_of
from noisymean.probe.conclusions import agree, dividing, poisson_words, read_kind
from noisymean.probe.finding import Finding
from noisymean.probe.laws import Kind
from noisymean.probe.reading import Origin, Role, Source, read_source
from noisymean.report.code_audit_page import page
from noisymean.targets.opacus_releases.releases import VERSIONS, Era, Release
from probing import RELEASES, available


def read(tmp_path: Path, **files: str) -> Source:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    return read_source(tmp_path)


# --- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(grads):\n    batch_size = len(grads)\n    return grads.sum(0) / batch_size", Kind.ASGM),
        ("def f(grad):\n    batch_size = grad.shape[0]\n    grad /= batch_size", Kind.ASGM),
        ("def f(grad, sample_rate, n):\n    batch_size = sample_rate * len(n)\n    grad /= batch_size", Kind.EASGM),
        ("def f(grad, rate, data):\n    batch_size = int(rate * len(data))\n    grad.div_(batch_size)", Kind.FEASGM),
        # perhaps another number at every call
        ("def f(grad, batch_size):\n    return grad / batch_size", Kind.UNKNOWN),
        ("def f(grad, expected_batch_size):\n    return grad / expected_batch_size", Kind.SGM),
        ("def f(x):\n    return x / 2", Kind.UNKNOWN),
        ("def f(grad):\n    batch_size = g(grad)\n    return grad / batch_size", Kind.UNKNOWN),
        ("def f(grad, q):\n    batch_size = len(grad) if q else h()\n    return grad / batch_size", Kind.UNKNOWN),
    ],
)
def test_what_a_statement_divides_by(tmp_path: Path, text: str, kind: Kind) -> None:
    assert read_kind(read(tmp_path, module=text)) is kind


def test_a_size_is_followed_through_calls_attributes_and_modules(tmp_path: Path) -> None:
    engine = (
        "class Engine:\n    def make(self, data, rate):\n        expected = int(len(data) * rate)\n"
        "        return self.build(size=expected)\n    def build(self, size):\n        return Optimizer(batch_size=size)\n"
    )
    optimizer = (
        "class Optimizer:\n    def __init__(self, batch_size):\n        self.batch_size = batch_size\n"
        "    def step(self, p):\n        if self.reduction == 'mean':\n            p.grad /= self.batch_size * self.accumulated_iterations\n"
    )
    source = read(tmp_path, engine=engine, optimizer=optimizer)
    (statement,) = source.dividing()
    assert statement.place == "optimizer.py:6"
    assert statement.text == "p.grad /= self.batch_size * self.accumulated_iterations"
    assert (statement.role, statement.origins) == (Role.GRADIENT, (Origin.FLOOR,))
    assert statement.guards == ("self.reduction == 'mean'",)
    # the guard: nothing is divided for a sum
    assert dividing(source, reduction="sum") == ()
    assert read_kind(source, reduction="sum") is Kind.SGM


def test_code_that_calls_itself_ends(tmp_path: Path) -> None:
    text = (
        "def a(batch_size):\n    return b(batch_size=batch_size)\n"
        "def b(batch_size):\n    batch_size = a(batch_size=batch_size)\n    return grad / batch_size\n"
    )
    assert read_kind(read(tmp_path, module=text)) in (Kind.UNKNOWN, Kind.SGM)


def test_damaged_files_and_tests_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helper.py").write_text("def f(grad, batch_size):\n    return grad / batch_size\n")
    (tmp_path / "bytes.py").write_bytes(b"\x00\xff")
    source = read(tmp_path, broken="def (:", a_test="def f(grad, batch_size): return grad / batch_size")
    assert source.statements == ()
    assert set(source.unreadable) == {"broken.py", "bytes.py"}


@pytest.mark.parametrize("version", RELEASES)
def test_every_release_reads_as_its_era(version: str) -> None:
    pytest.importorskip("torch")
    era = Release(available(version)).era
    with packages.opacus_source(Release(version)) as folder:
        source = read_source(folder)
    kinds = {Era.MAKE_PRIVATE: Kind.FEASGM, Era.POISSON_FLAG: Kind.EASGM}
    assert read_kind(source) is kinds.get(era, Kind.ASGM)
    assert read_kind(source, reduction="sum") is Kind.SGM
    words = poisson_words(source)
    match era:
        case Era.NO_SAMPLER:
            assert words == "none; a batch above the declared size raises"
        case Era.SAMPLER:
            assert words == "UniformWithReplacementSampler"
        case Era.POISSON_FLAG:
            assert words == "poisson, default False"
            assert read_kind(source, poisson=False) is Kind.ASGM
        case Era.MAKE_PRIVATE:
            assert words == "poisson_sampling, default True"
    counted = source.dividing(Role.COUNT)
    # AdaClip is in the wheels since 1.1.3; make_private reaches it from 1.5 on
    assert bool(counted) == (Release(version).number >= (1, 1, 3))
    assert {origin for one in counted for origin in one.origins} <= {Origin.BATCH}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "origins"),
    [
        ("optax==0.2.8", {Origin.BATCH, Origin.NUMBER, Origin.PASSED, Origin.UNKNOWN}),
        ("objax==1.8.0", {Origin.BATCH}),
        ("jax-privacy==2.0.0", {Origin.CALLER}),
    ],
)
def test_other_packages(package: str, origins: set[Origin]) -> None:
    try:
        source = read_source(packages.source_of(package))
    except packages.DownloadFailed as fault:
        pytest.skip(str(fault))
    assert {origin for one in dividing(source) for origin in one.origins} == origins


# --- packages ----------------------------------------------------------------------------------------------------------


def test_a_wheel_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    wheel = tmp_path / "evil.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../outside.py", "x = 1")
        archive.writestr("inside/a.py", "x = 1")
        archive.writestr("inside/data.bin", "x")
    with wheel.open("rb") as stream:
        packages._unpack(wheel.name, stream, tmp_path / "unpacked")
    assert [path.name for path in tmp_path.rglob("*.py")] == ["a.py"]
    assert not list((tmp_path / "unpacked").rglob("*.bin"))


@pytest.mark.parametrize("text", ["no/such/folder", "nothing.py", "-r evil", "a b", ";true"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="package="):
        packages.source_of(text)


# --- the audit of releases ---------------------------------------------------------------------------------------------


def finding(kind: Kind) -> Finding:
    from noisymean.probe import probe

    return probe(f"synthetic:{kind.value}", seed=0, rounds=120)


def test_versions() -> None:
    assert versions_of("0.9.0..1.6.0") == VERSIONS
    assert versions_of("1.5") == ("1.5",)
    assert versions_of("1.5.4,0.9.0") == ("1.5.4", "0.9.0")
    with pytest.raises(InvalidInput, match="FIRST before LAST"):
        versions_of("1.6.0..0.9.0")
    with pytest.raises(InvalidInput, match=r"0\.8\.0"):
        versions_of("0.8.0..1.6.0")


def test_results_are_kept_and_a_fault_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path))
    ran: list[str] = []

    def release(version: str) -> Audited:
        ran.append(version)
        if version == "1.0.1":
            return Audited(version, faults={"running": "it would not start"})
        result = Audited(version, findings={MEAN: finding(Kind.LOADER)}, seconds=1.0)
        code_audit._keep(result)
        return result

    monkeypatch.setattr(code_audit, "audit_release", release)
    seen: list[int] = []
    versions = ("1.0.0", "1.0.1", "1.0.2")
    first = audit_opacus(versions, jobs=1, progress=lambda one, done, total: seen.append(done))
    assert [one.version for one in first] == list(versions)
    assert seen == [1, 2, 3]
    assert ran == list(versions)
    # what went wrong is tried again, what is kept is not; a damaged file counts as none
    code_audit._place("1.0.2").write_text("{")
    again = audit_opacus(versions, jobs=1)
    assert ran == [*versions, "1.0.1", "1.0.2"]
    assert again[0] == first[0]
    audit_opacus(versions, jobs=1, fresh=True)
    assert len(ran) == 8
    assert not list(tmp_path.rglob(".writing-*"))


def test_against_the_paper() -> None:
    shipped = Audited("0.15.0", findings={MEAN: finding(Kind.EASGM), NO_POISSON: finding(Kind.ASGM)})
    assert shipped.against_paper == ["EASGM with poisson=True only; as shipped (poisson=False) it is ASGM"]
    assert "q follows N" in Audited("1.5.4", findings={MEAN: finding(Kind.LOADER)}).against_paper[0]
    assert Audited("1.6.0", findings={MEAN: finding(Kind.LOADER)}).paper is None
    assert Audited("0.13.0", findings={MEAN: finding(Kind.ASGM)}).against_paper == []
    assert "running it shows SGM" in Audited("0.13.0", findings={MEAN: finding(Kind.SGM)}).against_paper[0]


def test_agreement() -> None:
    assert agree(Kind.FEASGM, Kind.LOADER)
    assert not agree(Kind.SGM, Kind.UNKNOWN)


def test_the_page_escapes_what_it_shows(tmp_path: Path) -> None:
    source = read(tmp_path, module="def f(grad, batch_size):\n    if grad < '<b>': grad /= batch_size\n")
    one = Audited("1.6.0", findings={SUM: finding(Kind.SGM)}, faults={"running": "<script>"}, source=source)
    text = page([one], command="a & b", version="0")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    # the words of a command are kept together, each by itself
    assert "<span>&amp;</span>" in text
    # nothing from elsewhere
    assert "//" not in text


def test_audit_of_a_real_release(tmp_path: Path) -> None:
    """Run, read, paper and page of one release, by the command; a second time from the cache."""
    pytest.importorskip("torch")
    available("0.13.0")
    html = tmp_path / "audit.html"
    done = run("code-audit", "opacus", "--versions", "0.13.0", "--json", "--html", str(html))
    assert done.code == 0, done.err
    (release,) = json.loads(done.out)["releases"]
    assert release["mechanism"]["mean"]["run"] == release["mechanism"]["mean"]["read"] == "asgm"
    assert release["mechanism"]["sum"]["run"] == "sgm"
    assert release["agree"]
    assert release["paper"]["mechanism"] == "ASGM"
    assert release["against_paper"] == [
        "the paper has no built-in Poisson sampling here; the release ships a Poisson sampler"
    ]
    assert "return summed_grad / batch_size" in html.read_text()
    again = run("code-audit", "opacus", "--versions", "0.13.0")
    assert again.code == 0
    assert "0.13.0" in again.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["opacus", "--versions", "2.0"], "a release from 0.9.0 to 1.6.0"),
        (["opacus", "--html", "page.pdf"], "a file named *.html"),
        (["opacus", "--html", "no/such/page.html"], "create no/such first"),
        (["no/such"], "there is no no/such"),
        (["optax", "--versions", "1.0.0"], "left out for anything but opacus"),
    ],
)
def test_bad_input_is_one_line(words: list[str], complaint: str) -> None:
    done = run("code-audit", *words)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1


def test_command_on_a_folder(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def f(grads):\n    return grads.sum(0) / len(grads.batch)\n")
    done = run("code-audit", str(tmp_path))
    assert done.code == 0
    assert "depends on the data (ASGM); 1 file read, nothing of it was run." in done.out
    assert "step.py:2" in done.out
