"""Every experiment by the name that `noisymean reproduce` takes. To add one: a module with an EXPERIMENT, and a line here."""

from __future__ import annotations

from noisymean.experiments import opacus_200_rounds, synthetic_delta, synthetic_dimension, theory
from noisymean.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (synthetic_delta, synthetic_dimension, theory, opacus_200_rounds)
}
