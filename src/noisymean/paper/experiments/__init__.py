"""The paper's figures and its table, run again: a module for each, named by its number, and one for what two of them share.

Each module owns its rows, its picture, its finding and the paper's statements about it, and ends with an EXPERIMENT. To add
one: such a module, and a line here.
"""

from __future__ import annotations

from noisymean.paper import theorems
from noisymean.paper.experiment import Experiment
from noisymean.paper.experiments import (
    figure_2_delta,
    figure_3_dimension,
    figure_4_methods,
    figure_5_one_round,
    figure_6_floor,
    figure_7_many_rounds,
    table_2_releases,
)

# By the names that `noisymean reproduce` takes, in the order of `reproduce all`.
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        figure_2_delta,
        figure_3_dimension,
        figure_4_methods,
        figure_5_one_round,
        figure_6_floor,
        figure_7_many_rounds,
        table_2_releases,
        theorems,
    )
}
