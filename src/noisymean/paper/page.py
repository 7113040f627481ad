"""The paper's figures and tables run again, as one page: every statement with its answer, then a section for each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from noisymean.paper.statements import Answer
from noisymean.report import page

# The colours of the answers.
_KINDS = {Answer.AGREES.value: "good", Answer.DIFFERS.value: "bad", Answer.UNDECIDED.value: "unknown"}


@final
@dataclass(frozen=True)
class Section:
    """One figure or table: its record, as in the JSON output, the command that makes it, and its picture.

    A section without a picture has a `fault` in its record, or has not been run yet.
    """

    record: Mapping[str, Any]
    command: str
    picture: bytes | None = None

    @property
    def drawn(self) -> page.Block | None:
        return None if self.picture is None else page.picture_block(self.picture, caption=self.record["finding"])

    @property
    def data(self) -> str:
        """The file of numbers, which is beside the page."""
        return Path(self.record["data"]).name


def render(sections: Sequence[Section], *, command: str, quick: bool, date: str | None = None) -> str:
    """The whole page."""
    answers = [claim["answer"] for section in sections for claim in section.record["claims"]]
    return page.render(
        "reproduction.html",
        title="The paper, run again",
        subtitle="W. Wang, S. Cui, H. Cui, X. Yuan, Rethinking the Security of DP-SGD: A Corrected Analysis of Differentially"
        " Private Machine Learning. Its statements in our words, beside what we find.",
        command=command,
        date=date,
        sections=sections,
        counts={one.value: answers.count(one.value) for one in Answer},
        kinds=_KINDS,
        faults=[section for section in sections if "fault" in section.record],
        missing=[section for section in sections if section.picture is None and "fault" not in section.record],
        quick=quick,
    )
