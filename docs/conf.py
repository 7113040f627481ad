"""The site: Markdown, docstrings and two notebooks to static pages that need no network to be read."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import noisymean

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "noisymean"
author = "the authors of noisymean"
project_copyright = "the authors of noisymean, Apache-2.0"
version = release = noisymean.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "mathml"]
exclude_patterns = ["scripts", "_build"]

# Formulas: $...$ and $$...$$ in the sources, as code hosts read them, MathML in the pages.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
myst_update_mathjax = False

# Notebooks are kept without outputs and run here; tests/unit/test_notebooks.py runs them as well.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_ipywidgets_js = {}
nb_merge_streams = True

# Docstrings are plain text with names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name
    for name in (
        "Rate",
        "Mechanism",
        "ArrayLike",
        "Array",
        "Claim",
        "Release",
        "Target",
        "Workers",
        "LowerBound",
        "Segments",
    )
}
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"noisymean {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
# summaries would be fetched, which a browser refuses to pages that are opened from disk
html_show_search_summary = False


def _with_plain_aliases(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str, returns: str
) -> Any:
    """Names of types as they are written: inside a union autodoc shows its own wrapper around them."""
    plain = [part and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", part) for part in (signature, returns)]
    return tuple(plain)


def _with_the_reproduction(app: Sphinx, fault: Exception | None) -> None:
    """The page of the full reproduction, which is no document, beside the numbers that it links to."""
    if fault is None:
        shutil.copytree(Path(__file__).parent / "reproduced", Path(app.outdir) / "reproduced", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Hooks of this site alone."""
    app.connect("build-finished", _with_the_reproduction)
    app.connect("autodoc-process-signature", _with_plain_aliases)
