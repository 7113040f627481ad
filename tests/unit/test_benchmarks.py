"""What README and docs say of the benchmarks is what the last run wrote."""

from __future__ import annotations

from benchmarks import page


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks.page"


def test_readme_has_the_table_of_the_results() -> None:
    text = page.README.read_text(encoding="utf-8")
    assert page.START in text
    assert text == page.readme(), "run python -m benchmarks.page"
