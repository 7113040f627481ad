"""The paper's figures and tables run again, as one page: every statement with its answer, then a section for each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from noisymean.report import page

AGREE, DIFFER, UNDECIDED = "agree", "differ", "not decided"
_KINDS = {AGREE: "good", DIFFER: "bad", UNDECIDED: "unknown"}
# A section with more agreeing statements than this folds them away.
_MOST_OPEN = 8


@final
@dataclass(frozen=True)
class Section:
    """One figure or table. `claims` are plain records: where, says, agrees_if, result, answer, reason.

    A section without a picture has a `fault`, or has not been run yet.
    """

    name: str
    place: str
    shows: str
    command: str
    finding: str = ""
    claims: Sequence[Mapping[str, str]] = ()
    notes: Sequence[str] = ()
    data: str = ""
    picture: bytes | None = None
    time: str = ""
    fault: str = ""

    @property
    def drawn(self) -> page.Block | None:
        """The picture, inside the page."""
        if self.picture is None:
            return None
        return page.picture_block(self.picture, caption=self.finding)

    def with_answer(self, answer: str) -> list[Mapping[str, str]]:
        """Statements that got this answer."""
        return [claim for claim in self.claims if claim["answer"] == answer]

    @property
    def open_claims(self) -> list[Mapping[str, str]]:
        """What is shown at once: all that do not agree, and those that do if they are few."""
        unlike = [claim for claim in self.claims if claim["answer"] != AGREE]
        return unlike if self.folded_claims else [*unlike, *self.with_answer(AGREE)]

    @property
    def folded_claims(self) -> list[Mapping[str, str]]:
        """What is shown on demand."""
        agreeing = self.with_answer(AGREE)
        return agreeing if len(agreeing) > _MOST_OPEN else []


def render(sections: Sequence[Section], *, command: str, quick: bool, date: str | None = None) -> str:
    """The whole page."""
    counts = {answer: sum(len(section.with_answer(answer)) for section in sections) for answer in _KINDS}
    return page.render(
        "reproduction.html",
        title="The paper, run again",
        subtitle="W. Wang, S. Cui, H. Cui, X. Yuan, Rethinking the Security of DP-SGD: A Corrected Analysis of Differentially"
        " Private Machine Learning. Its statements in our words, beside what we find.",
        command=command,
        date=date,
        sections=sections,
        counts=counts,
        kinds=_KINDS,
        faults=[section for section in sections if section.fault],
        missing=[section for section in sections if section.picture is None and not section.fault],
        quick=quick,
    )
