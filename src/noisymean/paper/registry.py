"""Every experiment by the name that `noisymean reproduce` takes. To add one: a module with an EXPERIMENT, and a line here."""

from __future__ import annotations

from noisymean.paper import (
    opacus_200_rounds,
    opacus_releases,
    synthetic_delta,
    synthetic_dimension,
    theorems,
    theory,
)
from noisymean.paper.experiment import Experiment
from noisymean.paper.implementations import IMPLEMENTATIONS, OPACUS_FEASGM

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        synthetic_delta.EXPERIMENT,
        synthetic_dimension.EXPERIMENT,
        IMPLEMENTATIONS,
        theory.EXPERIMENT,
        OPACUS_FEASGM,
        opacus_200_rounds.EXPERIMENT,
        opacus_releases.EXPERIMENT,
        theorems.EXPERIMENT,
    )
}
