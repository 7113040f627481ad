"""The ways in which the installed Opacus can be used, each a runnable of its own name: `opacus:ghost`, `opacus:ddp` and so on.

modes     what there is, and what each of them sets
runnable  a mode as something that can be probed, and what its accountant is told
group     our side: one process, or two that share a batch; a run is bounded in time
worker    the other side: answers requests, ends with us
training  an ordinary training loop through `make_private`, and an optimizer that writes down what it is told to step along
"""

from noisymean.targets.opacus_modes.modes import MODES, Mode, mode_named
from noisymean.targets.opacus_modes.runnable import OpacusMode, Told, dismiss, told

__all__ = ["MODES", "Mode", "OpacusMode", "Told", "dismiss", "mode_named", "told"]
