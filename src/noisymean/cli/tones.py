"""Red, green and yellow for the words of a verdict.

The word is always there: a terminal without colours, a file, and somebody who does not see them lose nothing. NO_COLOR,
FORCE_COLOR and what is no terminal are rich's to respect. Green is for what is shown, never for what was only not refuted: an
audit that found nothing is yellow.
"""

from __future__ import annotations

from enum import Enum

from rich.text import Text

from noisymean.legible import on_a_line


class Tone(Enum):
    """What a word means for the reader, as a style of rich."""

    BAD = "bold red"
    GOOD = "bold green"
    OPEN = "bold yellow"


# Every word that a verdict, a line of a scorecard or a finding can be.
TONES = {
    "violated": Tone.BAD,
    "holds": Tone.GOOD,
    "undetermined": Tone.OPEN,
    "not-violated": Tone.OPEN,
    "not violated": Tone.OPEN,
    "found": Tone.BAD,
    "passed": Tone.GOOD,
    "not checkable": Tone.OPEN,
    "error": Tone.BAD,
    "warning": Tone.OPEN,
    "leak": Tone.BAD,
    "fault": Tone.OPEN,
    "agrees": Tone.GOOD,
    "differs": Tone.BAD,
    "failed": Tone.BAD,
    "not decided": Tone.OPEN,
}


def toned(word: str, tone: Tone | None = None) -> Text:
    """A word by itself, in a cell."""
    tone = tone or TONES.get(word)
    return Text(on_a_line(word), style="" if tone is None else tone.value)


def marked(sentence: str, word: str, tone: Tone | None = None) -> Text:
    """A sentence in which the first `word`, a verdict, has its colour."""
    text, tone = Text(on_a_line(sentence)), tone or TONES.get(word)
    start = text.plain.find(word)
    if tone is not None and start >= 0:
        text.stylize(tone.value, start, start + len(word))
    return text
