"""The site is built without a warning, leads nowhere in vain, lists what is public, and asks nothing of other hosts."""

from __future__ import annotations

import fcntl
import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("opacus")
DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = [
    "noisymean",
    "noisymean.audit",
    "noisymean.probe",
    "noisymean.integrations.opacus",
    "noisymean.integrations.callbacks",
]
# Modules without __all__: what their pages promise.
NAMED = [
    "noisymean.integrations.dp_accounting.NormalizedAccountant",
    "noisymean.integrations.dp_accounting.NormalizedGaussianDpEvent",
    "noisymean.integrations.dp_accounting.Denominator",
    "noisymean.integrations.pytest_plugin.assert_private",
]
# Attributes by which a browser fetches something to show the page; a plain link fetches nothing.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


class Page(HTMLParser):
    """What one page has, refers to and fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.formulas = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        # the address of a page for search engines is not fetched
        if found.get("rel") not in ("canonical", "next", "prev", "index", "search"):
            self.fetched += [value for name, value in found.items() if (tag, name) in FETCHED]
        self.formulas += tag == "math"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Built once for all processes of a test run. Notebooks are not run here: test_notebooks.py does."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "site"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            options = ["--fail-on-warning", "--quiet", "--builder", "html", "--doctree-dir", str(folder) + "-trees"]
            command = [sys.executable, "-m", "sphinx", *options, "-D", "nb_execution_mode=off", str(DOCS), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            assert done.returncode == 0, done.stderr
            (folder / "built").touch()
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_document_has_a_page(site: Path) -> None:
    sources = [path.relative_to(DOCS) for kind in ("*.md", "*.ipynb") for path in DOCS.rglob(kind)]
    assert len(sources) > 15
    assert not [path for path in sources if not (site / path.with_suffix(".html")).exists()]


def test_links_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    lost, seen = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = target.exists() and (not anchor or target not in pages or anchor in pages[target].ids)
            seen += 1
            if not known:
                lost.append(f"{path.relative_to(site)}: {link}")
    assert not lost
    assert seen > 500


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert not [url for page in pages.values() for url in page.fetched if urlsplit(url).netloc]
    styles = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert styles
    for path, style in styles.items():
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style), path


def test_formulas_are_mathml(pages: dict[Path, Page], site: Path) -> None:
    assert pages[site / "theory.html"].formulas > 200
    assert pages[site / "numerics.html"].formulas > 60
    for path in pages:
        text = re.sub(r"<(pre|code|script)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"\\(?:frac|sum|alpha|varepsilon|mathrm|begin)\b", text), f"{path.name}: LaTeX is left"
        assert "$$" not in text, path.name


def test_the_api_lists_what_is_public(pages: dict[Path, Page], site: Path) -> None:
    listed = {one for path, page in pages.items() if path.parent == site / "api" for one in page.ids}
    # what two packages list is at the top as well
    listed |= {
        f"noisymean.{one.rpartition('.')[2]}" for one in listed if re.match(r"noisymean\.(?:audit|probe)\.", one)
    }
    public = {f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__}
    assert not (public | set(NAMED)) - listed


def test_in_a_browser(site: Path) -> None:
    from browser import browser_page

    for width in (1200, 400):
        with browser_page(width=width) as seen:
            for name in ("index", "theory", "api/noisymean", "notebooks/audit_your_own_mechanism"):
                seen.page.goto((site / f"{name}.html").as_uri())
                assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
                    f"{name} is too wide"
                )
            seen.page.goto((site / "theory.html").as_uri())
            # drawn as a formula: a fraction stands taller than a line of text
            assert seen.page.locator("div.formula mfrac").first.bounding_box()["height"] > 25
            seen.page.goto((site / "search.html").as_uri() + "?q=leakage")
            seen.page.wait_for_selector("ul.search li a")
            seen.check()


class TestMathML:
    """The extension by itself."""

    @pytest.fixture(autouse=True)
    def _path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(DOCS / "_ext"))

    def test_a_formula(self) -> None:
        mathml = import_module("mathml").mathml

        found = mathml(r"\frac{1}{2}", display=True)
        assert found.startswith("<math")
        assert 'display="block"' in found
        assert "<mfrac>" in found

    @pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\begin{aligned} a &= b \end{aligned}", "a ≤ b", "σ²"])
    def test_what_is_not_understood_is_an_error(self, latex: str) -> None:
        mathml = import_module("mathml").mathml

        with pytest.raises(ValueError, match="in "):
            mathml(latex, display=False)
