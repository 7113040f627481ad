"""Figures of audits: what was shown by running, next to what is claimed and what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisymean.audit import Audit
from noisymean.audit.estimate import lower_hull
from noisymean.report.plots import ALPHA, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def audit_figure(result: Audit) -> Figure:
    """The audited curve, an upper bound on the true one, between the claim and the truth."""
    with canvas(5.2, 5.2) as figure:
        axes = figure.subplots()
        title = result.target.replace(": ", "\n", 1)
        axes.set_title(f"{title}\n{result.distinguisher}, {result.finished:,} trials", loc="left")
        if result.claim is not None:
            axes.plot(ALPHA, result.claim(ALPHA), color="#000000", lw=2.6, label="claimed")
        if result.reference is not None:
            exact = result.reference.curve(ALPHA)
            axes.plot(ALPHA, exact, color="#0072b2", lw=1.3, ls=(0.0, (4.0, 2.0)), label="exact")
        alpha, beta = lower_hull(result.found.corner_alpha, result.found.corner_beta)
        confidence = f"audited, {100.0 * result.found.confidence:g} % confidence"
        axes.plot(alpha, beta, color="#d55e00", lw=1.9, marker=".", ms=5.0, label=confidence)
        axes.plot(ALPHA, 1.0 - ALPHA, color="#999999", lw=0.8, ls=":", zorder=0)
        ticks = np.linspace(0, 1, 6)
        axes.set(xlim=(-0.01, 1), ylim=(-0.01, 1), aspect="equal", xticks=ticks, yticks=ticks)
        axes.set(xlabel="false positive rate α", ylabel="false negative rate β")
        axes.legend(loc="upper right", frameon=False, handlelength=3.4)
        return figure
