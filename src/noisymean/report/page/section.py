"""A part of a report: its verdict, its template and what the template shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from noisymean.report.page.banners import Banner


@final
@dataclass(frozen=True)
class Section:
    """A part of the page."""

    kind: str
    name: str
    title: str
    banner: Banner
    shown: dict[str, Any]

    @property
    def template(self) -> str:
        """Where it is laid out."""
        return f"{self.kind}_section.html"
