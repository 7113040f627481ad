"""Self-contained pages: one HTML file, nothing from elsewhere, light and dark, on paper and on a phone.

palette    every colour by name, in light and in dark
rendering  templates -> page; every text is escaped, scripts run only if they are ours
figures    numbers -> plotly figures
templates  base.html (extend it: block `content`), parts.html (macros), style.css, plots.js

    from noisymean.report import page

    text = page.render("mine.html", title="...", subtitle="...", command="noisymean ...", plot=page.figure_block(figure, ...))

jinja2 and plotly are imported when a page is asked for; `need` complains at once when they are missing.
"""

from __future__ import annotations

from noisymean.report.page.palette import colour
from noisymean.report.page.rendering import Block, Head, figure_block, need, picture_block, render

__all__ = ["Block", "Head", "colour", "figure_block", "need", "picture_block", "render"]
