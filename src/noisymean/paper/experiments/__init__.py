"""The paper's figures and its table, run again: a module for each, named by its number, and one for what two of them share.

Each module owns its rows, its picture, its finding and the paper's statements about it, and ends with an EXPERIMENT. To add
one: such a module, and a line here.
"""

from __future__ import annotations

from noisymean.paper.experiment import Experiment
from noisymean.paper.experiments.figure_2_delta import EXPERIMENT as FIGURE_2
from noisymean.paper.experiments.figure_3_dimension import EXPERIMENT as FIGURE_3
from noisymean.paper.experiments.figure_4_methods import EXPERIMENT as FIGURE_4
from noisymean.paper.experiments.figure_5_one_round import EXPERIMENT as FIGURE_5
from noisymean.paper.experiments.figure_6_floor import EXPERIMENT as FIGURE_6
from noisymean.paper.experiments.figure_7_many_rounds import EXPERIMENT as FIGURE_7
from noisymean.paper.experiments.full_mnist import EXPERIMENT as FULL_MNIST
from noisymean.paper.experiments.table_2_releases import EXPERIMENT as TABLE_2
from noisymean.paper.theorems import EXPERIMENT as THEOREMS

# By the names that `noisymean reproduce` takes, in the order of `reproduce all`.
_ALL = (FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7, TABLE_2, THEOREMS, FULL_MNIST)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
