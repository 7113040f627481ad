"""Text of others on its way to people: what is not seen, moves a cursor or turns a direction is written out; long text is cut.

Names of files, values of JSON and lines of source may hold escape sequences that colour, move or erase what a terminal shows, and
marks that turn its direction. Whatever prints text that is not ours goes through here, and nothing else decides what is shown.
"""

from __future__ import annotations

# Long enough for a path to be read in full.
LONGEST_SHOWN = 200


def text_of(text: str) -> str:
    r"""The text, with what cannot be seen or would turn its direction written out; lines stay lines.

    >>> print(text_of("a\x1b[31mb\u202e.py"))
    a\x1b[31mb\u202e.py
    """
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape", "surrogatepass").decode("ascii")
        for one in text
    )


def on_a_line(text: str) -> str:
    r"""The same on one line.

    >>> print(on_a_line("two\nlines\x07"))
    two lines\x07
    """
    return text_of(text).replace("\n", " ").replace("\t", " ")


def shortened(text: str, most: int = LONGEST_SHOWN) -> str:
    """The beginning of a text that is longer than that.

    >>> shortened("abcdefgh", 6), shortened("abcdef", 6)
    ('abc...', 'abcdef')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
