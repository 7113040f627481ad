"""What leaves the page of `noisymean explore`, and where it is read: files, the report, a phone, a sheet of paper, aloud."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_explore_settings import settings_of

import noisymean as nm
from browser import Seen, browser_page
from command_line import run
from explored import BROKEN, EASY, OPEN, UNBOUNDED, expected, opened, started, wait_for_numbers
from noisymean.explore.settings import CHOICES, CONTROLS, WAYS

SAID = "FEASGM: N = 140,199, n = 26,010, q = 0.005, σ = 10, 200 steps, δ = 10⁻⁵"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with started("--no-browser", "--limit", "60") as (line, _):
        yield line.strip()


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    with browser_page() as page:
        page.page.set_default_timeout(60_000)
        yield page


def finished(seen: Seen) -> None:
    """Every picture is there."""
    seen.page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")


# --- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_file_says_its_settings(seen: Seen, address: str, tmp_path: Path) -> None:
    """In its name, and inside: pictures above the plot, tables in their first lines, JSON in its keys."""
    opened(seen, address, BROKEN)
    finished(seen)
    # a picture is pixels: what plotly is given to draw is what is in it
    seen.page.evaluate(
        """() => {
          const save = Plotly.downloadImage;
          window.titles = [];
          Plotly.downloadImage = (figure, how) => { titles.push(figure.layout.title.text); return save(figure, how); };
        }"""
    )
    name = settings_of(BROKEN).file_name
    for click, ending in (
        ("#curves [data-format=png]", "curves png"),
        ("#growth [data-format=svg]", "growth svg"),
        ("#growth-csv", "growth csv"),
        ("#curves-csv", "run csv"),
        ("#json", "account json"),
    ):
        with seen.page.expect_download() as caught:
            seen.page.click(click)
        part, kind = ending.split()
        assert caught.value.suggested_filename == f"noisymean-{part}-{name}.{kind}"
        caught.value.save_as(tmp_path / f"{part}.{kind}")
    titles = seen.page.evaluate("() => titles")
    curves = f"Trade-off curves of the whole run:<br>{SAID}"
    assert titles == [curves, f"ε against steps:<br>{SAID}"]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert SAID in (tmp_path / "growth.svg").read_text()
    for part in ("run", "growth"):
        assert f"# {SAID}\n# noisymean account " in (tmp_path / f"{part}.csv").read_text()
    settings = json.loads((tmp_path / "account.json").read_text())["settings"]
    assert {"dataset_size": 140_199, "dimension": 26_010, "noise_multiplier": 10.0}.items() <= settings.items()
    seen.check()


def test_the_report_is_the_one_that_the_command_writes(
    seen: Seen, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The button gives the same page, to the byte, as the command line that is shown above it."""
    monkeypatch.chdir(tmp_path)
    opened(seen, address, OPEN)
    words = shlex.split(seen.page.inner_text("#report-command"))
    with seen.page.expect_download() as caught:
        seen.page.click("#make-report")
    assert caught.value.suggested_filename == f"noisymean-report-{settings_of(OPEN).file_name}.html"
    caught.value.save_as(tmp_path / "downloaded.html")
    expect(seen.page.locator("#report-note")).to_contain_text("Written: noisymean-report-sgm")
    assert words[0] == "noisymean"
    assert run(*words[1:]).code == 0
    assert (tmp_path / "downloaded.html").read_text() == (tmp_path / "report.html").read_text()
    seen.check()


def test_a_report_that_cannot_be_is_said_beside_its_button(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    seen.page.route(
        "**/report?*", lambda route: route.fulfill(status=503, body="this takes longer than 600 seconds.\n")
    )
    seen.page.click("#make-report")
    expect(seen.page.locator("#report-note")).to_have_text("this takes longer than 600 seconds.")
    assert seen.page.is_enabled("#make-report")
    seen.page.unroute("**/report?*")
    # the browser has a line of its own about it
    assert all("503" in one for one in seen.errors)
    seen.errors.clear()


# --- read aloud, and by the keyboard -----------------------------------------------------------------------------------

NAME = """(one) => [one.getAttribute("aria-label"), ...Array.from(one.labels ?? [], (label) => label.innerText), one.innerText]
  .find((text) => text && text.trim())"""


def test_everything_that_can_be_used_has_a_name(seen: Seen, address: str) -> None:
    opened(seen, address, {**UNBOUNDED})
    finished(seen)
    # also what another mechanism would show
    seen.page.evaluate("() => document.querySelectorAll('[hidden]').forEach((one) => { one.hidden = false; })")
    used = seen.page.locator("input, button, a, select, textarea, [tabindex]:not(section)")
    ours = [one for one in used.all() if not one.evaluate("(one) => !!one.closest('.js-plotly-plot')")]
    names = [(one.evaluate("(one) => one.outerHTML.slice(0, 80)"), one.evaluate(NAME)) for one in ours]
    assert [html for html, name in names if not name] == []
    # two sliders or boxes of one name could not be told apart
    inputs = [name for html, name in names if html.startswith("<input type=") and "radio" not in html]
    assert len(set(inputs)) == len(inputs) == 2 * len(CONTROLS)
    for label in (one.label for one in (*CHOICES, *WAYS)):
        assert seen.page.get_by_role("group", name=label, exact=True).count() == 1
    for title in ("Trade-off curves", "ε against steps"):
        assert seen.page.get_by_role("figure", name=title, exact=True).count() == 1
    seen.check()


def test_a_slider_says_its_number_as_people_do(seen: Seen, address: str) -> None:
    opened(seen, address, BROKEN)
    said = {one.name: seen.page.get_attribute(f"#slider-{one.name}", "aria-valuetext") for one in CONTROLS}
    assert (said["dataset-size"], said["sample-rate"], said["delta"]) == ("140,199", "1/200", "10⁻⁵")
    assert (said["dimension"], said["noise-multiplier"]) == ("26,010", "10")


def test_a_new_verdict_is_read_out(seen: Seen, address: str) -> None:
    opened(seen, address, EASY)
    spoken = seen.page.get_by_role("status").first
    expect(spoken).to_contain_text("holds: ε 1.59 claimed, at least 1.58 leaked, at most 1.59 guaranteed.")
    seen.page.focus("#slider-noise-multiplier")
    seen.page.keyboard.press("End")
    # the slider's right end is 1,000
    strong = nm.SGM(sample_rate=0.02, noise_multiplier=1000.0)
    wait_for_numbers(seen, expected(nm.account(strong, steps=5000, delta=1e-6)))
    expect(spoken).not_to_contain_text("1.59")
    seen.check()


# --- a phone -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def phone(seen: Seen) -> Iterator[Seen]:
    seen.page.set_viewport_size({"width": 390, "height": 844})
    yield seen
    seen.page.set_viewport_size({"width": 1200, "height": 900})


def in_view(phone: Seen, selector: str) -> bool:
    """Whether all of it is on the screen, and nothing lies on it."""
    found: bool = phone.page.evaluate(
        """(selector) => {
          const one = document.querySelector(selector), box = one.getBoundingClientRect();
          const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
          return box.height > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth
            && (one === top || one.contains(top));
        }""",
        selector,
    )
    return found


def test_on_a_phone_the_verdict_is_in_view_while_any_slider_is_moved(phone: Seen, address: str) -> None:
    opened(phone, address, BROKEN)
    for control in CONTROLS:
        slider = phone.page.locator(f"#slider-{control.name}")
        if not slider.is_visible():
            continue
        slider.focus()
        # it is not below the bar itself
        assert in_view(phone, f"#slider-{control.name}"), control.name
        assert in_view(phone, "#bar"), control.name
        assert phone.page.inner_text("#bar b") == "violated"
        assert "leaked ≥ 29.8" in phone.page.inner_text("#bar")
    phone.page.focus("#slider-steps")
    phone.page.keyboard.press("Home")
    one = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="1/200", noise_multiplier=10.0)
    wait_for_numbers(phone, expected(nm.account(one, steps=1, delta=1e-5)))
    assert in_view(phone, "#bar")
    assert "leaked ≥ 29.8" not in phone.page.inner_text("#bar")
    phone.check()


def test_on_a_phone_what_is_refused_is_said_where_it_was_typed(phone: Seen, address: str) -> None:
    opened(phone, address, BROKEN)
    phone.page.locator("#control-delta").evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    phone.page.fill("#box-delta", "2")
    phone.page.press("#box-delta", "Enter")
    expect(phone.page.locator("#bar p")).to_contain_text("δ cannot be 2.0: it must be")
    assert in_view(phone, "#bar")
    assert in_view(phone, "#box-delta")
    phone.check()


@pytest.mark.parametrize("values", [BROKEN, OPEN, UNBOUNDED, {**BROKEN, "steps": "0"}])
def test_on_a_phone_nothing_is_wider_than_the_screen(phone: Seen, address: str, values: dict[str, str]) -> None:
    opened(phone, address, values)
    finished(phone)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") <= 390
    phone.check()


# --- paper -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dark(seen: Seen) -> Iterator[Seen]:
    seen.page.emulate_media(color_scheme="dark")
    yield seen
    seen.page.emulate_media(media="null", color_scheme="light")


# why no upper bound is known takes room
@pytest.mark.parametrize(("values", "sheets"), [(BROKEN, 1), (UNBOUNDED, 2)], ids=["broken", "unbounded"])
def test_paper_has_the_settings_in_place_of_the_sliders(
    dark: Seen, address: str, values: dict[str, str], sheets: int
) -> None:
    """Light also where the screen is dark, with everything that was set and nothing to click."""
    opened(dark, address, values)
    finished(dark)
    printed = dark.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= sheets
    dark.page.emulate_media(media="print")
    assert dark.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for gone in ("#form", "#bar", "#make-report", "#json", ".copy", ".exports", ".tabs", "#report-command"):
        assert not any(one.is_visible() for one in dark.page.locator(gone).all()), gone
    for there in ("#banner", "#numbers", "#said", "#command", "#range-graph", "#growth-graph", "#pair"):
        assert dark.page.is_visible(there), there
    said = dict(line.split("\n") for line in dark.page.locator("#said > div").all_inner_texts())
    # the mechanism, what has a slider, and how batches are drawn
    assert len(said) == len({"mechanism", "sampling"} | set(values))
    assert said["records in the dataset N"] == f"{int(values['dataset-size']):,}"
    assert (said["delta δ"], said["mechanism"].split(",")[0]) == ("10⁻⁵", values["mechanism"])
    dark.check()


def test_after_printing_the_screen_is_as_it_was(dark: Seen, address: str) -> None:
    opened(dark, address, EASY)
    finished(dark)

    def look() -> list[object]:
        found: list[object] = dark.page.evaluate(
            "() => ['range', 'curves', 'growth'].map((name) => { const { layout } = document.getElementById(`${name}-graph`);"
            " return [layout.paper_bgcolor, layout.autosize, layout.font.size]; })"
        )
        return found

    before = look()
    assert len({str(one) for one in before}) == 1
    dark.page.pdf()
    assert look() == before
    dark.check()
