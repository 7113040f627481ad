"""Formulas as MathML, made when the site is built: no script and no font has to be fetched to read them.

A formula that latex2mathml does not know is not an error to it: the command stays in the text. Here it is a warning, which
`--fail-on-warning` turns into the end of the build.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)
# A command, an alignment mark or an operator (latex2mathml takes letters beyond ASCII for names) that came through as a name.
_NOT_UNDERSTOOD = re.compile(r"<m[ion]>(?:\\[^<]*|&(?:amp;)?|[−≤≥≠±·×∓∈→∞∑∫√⌊⌋⊗∂²³⁰¹⁴-⁹₀-₉])</m[ion]>")


def mathml(latex: str, *, display: bool) -> str:
    """The element; ValueError if a part of the formula was not understood."""
    found = convert(latex, display="block" if display else "inline")
    odd = _NOT_UNDERSTOOD.search(found)
    if odd:
        raise ValueError(f"{odd.group()} in {latex}")
    return found


def _written(translator: HTML5Translator, node: nodes.math | nodes.math_block, *, display: bool) -> str:
    try:
        return mathml(node.astext(), display=display)
    except Exception as fault:  # latex2mathml has several of its own; all mean that the formula cannot be read
        _log.warning("no MathML for this formula: %s", fault, location=node)
        return translator.encode(node.astext())


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_written(translator, node, display=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    # wide formulas scroll by themselves instead of widening the page
    translator.body.append(f'<div class="formula">{_written(translator, node, display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name that conf.py chooses."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
