"""The paper's theorems, lemmas and corollary, each evaluated on its own statement: a row is one evaluation.

theorem      what a theorem is: two sides and a relation, made of the function that evaluates it
mixtures     Sections 2 and 3: mixtures of laws, Gaussians
one_round    Sections 3.2 to 3.6, Appendix A.1: EASGM, ASGM and FEASGM
many_rounds  Appendices A and B: T rounds
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from noisymean.paper.experiment import Announce, Effort, Experiment
from noisymean.paper.panels import Axes, Figure, canvas, unit_square
from noisymean.paper.rows import Row, Table
from noisymean.paper.theorems import many_rounds, mixtures, one_round
from noisymean.paper.theorems.theorem import Theorem, fails

# In the order of the paper, which is that of the modules.
THEOREMS = tuple(
    one for module in (mixtures, one_round, many_rounds) for one in vars(module).values() if isinstance(one, Theorem)
)
_GENERATOR_SEED = 20_260_101
_ACROSS = 6
_SIGNS = {"<=": "≤", "=": "="}


def rows(effort: Effort, announce: Announce) -> Iterator[Row]:
    """One row for each evaluation."""
    for theorem in THEOREMS:
        yield from theorem.rows(np.random.default_rng([_GENERATOR_SEED, effort.seed]))
        announce(theorem.name)


def picture(table: Table) -> Figure:
    """A panel for each theorem: what is said to be smaller against what is said to be larger, and the diagonal."""
    panels = table.by("theorem")
    down = -(-len(panels) // _ACROSS)
    title = "Each dot is one evaluation: blue, as stated (≤: on or below the diagonal; =: on it); orange cross, not"
    with canvas(1.9 * _ACROSS, 2.0 * down + 0.8, title) as figure:
        grid = figure.subplots(down, _ACROSS, squeeze=False)
        for axes, (name, mine) in zip(grid.flat, panels.items(), strict=False):
            _draw(axes, mine)
            axes.set_title(f"{name}\nleft {_SIGNS[str(mine[0]['relation'])]} right", fontsize=7.5, loc="left")
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        figure.supxlabel("right side", fontsize=9.5)
        figure.supylabel("left side", fontsize=9.5)
    return figure


def _draw(axes: Axes, table: Table) -> None:
    axes.plot([0.0, 1.0], [0.0, 1.0], color="#767676", lw=0.8, zorder=1)
    for failed, colour, marker, size in ((False, "#0072b2", "o", 6.0), (True, "#d55e00", "X", 12.0)):
        mine = Table(row for row in table if fails(row) == failed)
        x, y = mine.numbers("right"), mine.numbers("left")
        axes.scatter(x, y, s=size, marker=marker, color=colour, linewidths=0.0, zorder=2 + failed, clip_on=False)
    unit_square(axes)


def finding(table: Table) -> str:
    """How many hold."""
    groups = table.by("theorem")
    failed = [str(name) for name, mine in groups.items() if any(map(fails, mine))]
    text = f"{len(groups) - len(failed)} of {len(groups)} statements hold at all of {len(table):,} evaluations"
    return f"{text}; not: {', '.join(failed)}." if failed else f"{text}."


EXPERIMENT = Experiment(
    name="theorems",
    place="Sections 2 and 3, Appendices A and B",
    shows="every theorem, lemma and corollary of the paper, evaluated on its statement",
    rows=rows,
    picture=picture,
    finding=finding,
    statements=tuple(theorem.statement() for theorem in THEOREMS),
)
