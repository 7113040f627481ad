"""The page of the rules: docs/rules.md, which the wheel has beside this module; and a section of it for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from noisymean.lint.findings import Rule

_HERE = Path(__file__).resolve()
# In an installed package, and in a checkout that is installed in place.
_PLACES = (_HERE.with_name("rules.md"), *(parent / "docs" / "rules.md" for parent in _HERE.parents[3:4]))
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")


def section_of(rule: Rule) -> str | None:
    """What the page says of a rule, below its heading, without mark-up; None where there is no page."""
    for place in _PLACES:
        if place.is_file():
            text = place.read_text(encoding="utf-8")
            found = re.search(rf"^## {rule.id}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
            if found is None:
                return None
            # whoever shows it has said the name
            said = found[1].strip().removeprefix(f"**{rule.name}**, {rule.severity.value}. ")
            return "\n".join(_plain(said))
    return None


def _plain(section: str) -> Iterator[str]:
    """Code is indented, links are followed by where they lead, and what is set in bold or italics is not."""
    is_code = False
    for line in section.split("\n"):
        if line.startswith("```"):
            is_code = not is_code
        elif is_code:
            yield f"    {line}".rstrip()
        else:
            plain = re.sub(r"\*\*?(\S[^*]*)\*\*?", r"\1", _LINK.sub(r"\1 (docs/\2)", line))
            yield plain.replace("`", "")
