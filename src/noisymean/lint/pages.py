"""The page of the rules: docs/rules.md, which the wheel has beside this module."""

from __future__ import annotations

import re
from pathlib import Path

from noisymean.lint.findings import Rule

_HERE = Path(__file__).resolve()
# In an installed package, and in a checkout that is installed in place.
_PLACES = (_HERE.with_name("rules.md"), *(parent / "docs" / "rules.md" for parent in _HERE.parents[3:4]))


def section_of(rule: Rule) -> str | None:
    """What the page says of a rule, below its heading; None where there is no page."""
    for place in _PLACES:
        if place.is_file():
            text = place.read_text(encoding="utf-8")
            found = re.search(rf"^## {rule.id}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
            return None if found is None else found[1].strip()
    return None
