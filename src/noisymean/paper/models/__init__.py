"""The models that the audited methods train, rebuilt from their description; needs torch.

classifiers  the convolutional networks of DPSGD-HF and DPSUR
unet         NCSN++, the network of DP-FETA and PrivImage
tasks        records, losses and preprocessing: what a gradient is taken of; per-record gradients
catalogue    which models there are, by name
"""

from noisymean.paper.models.catalogue import MODELS, Model, model_named
from noisymean.paper.models.tasks import Classification, Diffusion, Task, gradients_of, parameter_count
from noisymean.targets.opacus_releases.sources import Pass, clipped

__all__ = [
    "MODELS",
    "Classification",
    "Diffusion",
    "Model",
    "Pass",
    "Task",
    "clipped",
    "gradients_of",
    "model_named",
    "parameter_count",
]
