"""Formulas as MathML, made when the site is built: no script and no font has to be fetched to read them.

A formula that latex2mathml does not know is not an error to it: the command stays in the text. Here it is a warning, which
`--fail-on-warning` turns into the end of the build.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
# A command, an alignment mark or an operator (latex2mathml takes letters beyond ASCII for names) that came through as a name.
_NOT_UNDERSTOOD = re.compile(r"\\.*|&|[−≤≥≠±·×∓∈→∑∫√⊗²³⁰¹⁴-⁹₀-₉]")
_PRIMES = ("′", "″")


def mathml(latex: str, *, display: bool) -> str:
    """The element; ValueError if a part of the formula was not understood."""
    # an alignment mark outside of an environment that knows it comes through as it is
    written = convert(latex, display="block" if display else "inline").replace("<mi>&</mi>", "<mi>&amp;</mi>")
    root = ElementTree.fromstring(written)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_NAMESPACE}}}")
    for element in root.iter("mi"):
        if _NOT_UNDERSTOOD.fullmatch(element.text or ""):
            raise ValueError(f"{element.text} in {latex}")
    _spaced(root)
    root.set("xmlns", _NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _spaced(parent: Element) -> None:
    """What latex2mathml leaves to luck: bars and strokes without gaps, a gap after a function's name, primes at full size."""
    for child in list(parent):
        _spaced(child)
        if child.tag == "mo" and child.text in ("|", "/", "∞"):
            child.set("lspace", "0")
            child.set("rspace", "0")
        if child.tag in ("msup", "msubsup") and child[-1].text in _PRIMES:
            _lower_the_prime(child)
    for index in range(len(parent) - 1, 0, -1):
        name, after = parent[index - 1], parent[index]
        if name.tag == "mi" and len(name.text or "") > 1 and after.tag not in ("mo", "mrow"):
            parent.insert(index, Element("mspace", width="0.17em"))


def _lower_the_prime(scripts: Element) -> None:
    """A prime is drawn raised already: beside its letter, at its size, and what is below them below both."""
    base, *below, prime = list(scripts)
    mark = Element("mo", lspace="0", rspace="0")
    mark.text = prime.text
    marked = Element("mrow")
    marked.extend([base, mark])
    for one in list(scripts):
        scripts.remove(one)
    scripts.tag = "msub" if below else "mrow"
    scripts.extend([marked, *below])


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
