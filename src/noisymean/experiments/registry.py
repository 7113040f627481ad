"""Every experiment by the name that `noisymean reproduce` takes. To add one: a module with an EXPERIMENT, and a line here."""

from __future__ import annotations

from noisymean.experiments import synthetic_delta, synthetic_dimension
from noisymean.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (synthetic_delta.EXPERIMENT, synthetic_dimension.EXPERIMENT)
}
