"""One name out of a few: however it is written; and which one was meant by a word that is none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

# Below this likeness another name is no help. "eagsm" is to "easgm" as 0.8, two unrelated words of that length are as 0.4.
_CLOSE = 0.7
# More names that are as close are a list, and no guess.
_MOST = 3


def written_as(text: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is written so; capitals, hyphens and underscores do not matter. None if there is none.

    >>> written_as("EASGM", ["easgm", "opacus-loader"]), written_as("OpacusLoader", ["easgm", "opacus-loader"])
    ('easgm', 'opacus-loader')
    >>> written_as("eagsm", ["easgm", "opacus-loader"])
    """
    return next((one for one in known if _bare(one) == _bare(text)), None)


def completions(incomplete: str, known: Iterable[str]) -> list[str]:
    """The names that begin so, for a shell to choose from; a shell only adds to what was typed.

    >>> completions("opa", ["easgm", "opacus-loader"])
    ['opacus-loader']
    """
    return [one for one in known if one.startswith(incomplete)]


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """A question with the closest name, or with several that are as close; empty where none is close.

    >>> did_you_mean("eagsm", ["sgm", "easgm", "asgm"]), did_you_mean("laplace", ["sgm", "easgm", "asgm"])
    ('did you mean easgm?', '')
    """
    near = {one: SequenceMatcher(None, _bare(text), _bare(one)).ratio() for one in known}
    best = max(near.values(), default=0.0)
    closest = [one for one, likeness in near.items() if likeness == best]
    helps = best >= _CLOSE and len(closest) <= _MOST and _bare(text)
    return f"did you mean {' or '.join(closest)}?" if helps else ""


def _bare(text: str) -> str:
    return re.sub(r"[-_\s]", "", text.casefold())
