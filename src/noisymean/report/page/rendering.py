"""From templates to one page.

Escaping is always on and a name that a template misses is an error. Figures travel as JSON in which `<` is written as an
escape, so that no text in them can end the element. Beside that, the page's own policy lets only the scripts run whose hashes
it names: markup that got in by a mistake of ours would still be dead.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, final

from noisymean import __version__
from noisymean.errors import MissingDependency
from noisymean.report.page.palette import exchange, variables
from noisymean.written import unbroken

if TYPE_CHECKING:
    from jinja2 import Environment
    from plotly.graph_objects import Figure

# How a figure looks in the page; user text is escaped before it can spell this.
_FIGURE = '<figure class="plot"'


@final
@dataclass(frozen=True)
class Block:
    """Finished markup: templates print it as it is."""

    markup: str

    def __html__(self) -> str:
        return self.markup


def need(*packages: str, extra: str = "report") -> None:
    """Complain at once, not after the computation, when one of `packages` is missing; default: all that pages may use."""
    for name in packages or ("jinja2", "plotly"):
        if importlib.util.find_spec(name) is None:
            raise MissingDependency(name, extra)


@final
@dataclass(frozen=True)
class Head:
    """What somebody wants to say at the top of a page: whose it is, and notes in paragraphs."""

    author: str = ""
    notes: str = ""


def render(
    template: str,
    *,
    title: str,
    subtitle: str = "",
    command: str = "",
    date: str | None = None,
    head: Head | None = None,
    **context: Any,
) -> str:
    """The page of a template that extends base.html; everything else in `context` is the template's own."""
    need("jinja2")
    found = environment().get_template(template)
    return found.render(
        title=title,
        subtitle=subtitle,
        head=Head() if head is None else head,
        command=command,
        date=today() if date is None else date,
        version=__version__,
        python=".".join(str(part) for part in sys.version_info[:3]),
        **context,
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this package: autoescape for all of them, whatever they are called."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("noisymean.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["unbroken"] = kept_together
    made.globals.update(light=variables(dark=False), dark=variables(dark=True))
    made.globals.update(has_plots=lambda body: _FIGURE in body, scripts=_scripts, policy=_policy)
    return made


def figure_block(figure: Figure, *, name: str, caption: str, height: str = "26rem", on_paper: float = 0.66) -> Block:
    """A plotly figure in the page. `name` is its id in the page, `caption` says in words what is to be seen.

    `on_paper`: the part of its height that it has there.
    """
    from markupsafe import escape

    data, caption = _harmless(figure.to_json()), str(kept_together(caption))
    return Block(
        f'{_FIGURE} id="{escape(name)}"><div class="plot-area" data-paper="{on_paper:g}" style="height:{escape(height)}"'
        f' role="img" aria-label="{escape(caption)}"></div><script type="application/json">{data}</script>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def kept_together(text: object) -> object:
    """No line ends between a symbol and its number, or a number and its per cent; what is no text stays what it is."""
    return unbroken(text).replace(" %", "\N{NO-BREAK SPACE}%") if isinstance(text, str) else text


def picture_block(content: bytes, *, caption: str, kind: str = "image/png") -> Block:
    """A picture in the page, inside the file."""
    from markupsafe import escape

    data = base64.b64encode(content).decode("ascii")
    return Block(
        f'<figure><img src="data:{escape(kind)};base64,{data}" alt="{escape(caption)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def today() -> str:
    """The date on the page, UTC; SOURCE_DATE_EPOCH fixes it where files are to be the same on every run."""
    try:
        moment = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        moment = datetime.now(UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _harmless(data: str) -> str:
    """JSON that cannot end a script element or start a comment; `<` and the others occur inside strings only."""
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return data


@lru_cache(maxsize=1)
def _scripts() -> tuple[Block, ...]:
    """The bundle of plotly that has lines and bars only, a quarter of the whole, and what draws the figures with it."""
    here = files(__package__)
    plotly = here.joinpath("plotly_basic", "plotly-basic.min.js").read_text(encoding="utf-8")
    source = here.joinpath("templates", "plots.js").read_text(encoding="utf-8")
    ours = source.replace("PALETTE", _harmless(json.dumps(exchange())))
    # a browser hashes a script after it has normalised its line ends
    return tuple(Block(text.replace("\r\n", "\n").replace("\r", "\n")) for text in (plotly, ours))


@lru_cache(maxsize=2)
def _policy(plots: bool) -> str:
    """Nothing from elsewhere, and no script but ours."""
    digests = [hashlib.sha256(one.markup.encode("utf-8")).digest() for one in _scripts()] if plots else []
    allowed = " ".join(f"'sha256-{base64.b64encode(one).decode('ascii')}'" for one in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )
