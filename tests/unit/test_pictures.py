"""Every picture of the documents is made by one command, and every picture that a document shows is there."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHOWN = re.compile(r"!\[(?P<words>[^]]*)\]\((?P<file>[^)\s]+)\)|<img[^>]*\bsrc=\"(?P<source>[^\"]+)\"")


@cache
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "scripts" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown() -> dict[Path, list[str]]:
    """Each picture that a document shows, and what is said of it for those who do not see it."""
    found: dict[Path, list[str]] = {}
    for document in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for one in SHOWN.finditer(document.read_text(encoding="utf-8")):
            picture = (document.parent / (one["file"] or one["source"])).resolve()
            found.setdefault(picture, []).append(one["words"] or "")
    return found


def test_every_picture_is_made_by_the_command() -> None:
    assert {one.name for one in (DOCS / "images").iterdir()} == {f"{name}.png" for name in pictures().PICTURES}


def test_every_picture_that_is_shown_is_there_and_is_described() -> None:
    found = shown()
    assert len(found) >= 7
    for picture, words in found.items():
        assert picture.is_file(), picture
        assert all(len(said) > 20 for said in words), picture


def test_every_picture_is_shown() -> None:
    assert {one.resolve() for one in (DOCS / "images").iterdir()} <= set(shown())


def test_a_picture_takes_its_place_when_it_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = pictures(), tmp_path / "images"
    made.mkdir()

    def fails(target: Path) -> None:
        target.write_bytes(b"half")
        raise ArithmeticError

    def draws(target: Path) -> None:
        target.write_bytes(b"whole")

    for name, value in (("ROOT", tmp_path), ("IMAGES", made), ("BUILD", tmp_path / "build")):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "PICTURES", {"one": draws, "two": fails})
    with pytest.raises(ArithmeticError):
        module.main([])
    assert [one.name for one in made.iterdir()] == ["one.png"]
    assert (made / "one.png").read_bytes() == b"whole"
    with pytest.raises(SystemExit, match="no picture three; there are one, two"):
        module.main(["three"])
