"""How wrong the per-sample gradients of a convolution are under the installed Opacus, by the layout of its input.

The mean of the per-sample gradients must be the gradient of the mean loss.
"""

from __future__ import annotations

import warnings

import opacus
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn

warnings.simplefilter("ignore")


def main() -> None:
    """One line for each layout."""
    for name, layout in (("channels first", torch.contiguous_format), ("channels last", torch.channels_last)):
        torch.manual_seed(0)
        layer = GradSampleModule(nn.Conv2d(3, 4, 3))
        pictures = torch.randn(2, 3, 8, 8).to(memory_format=layout)
        layer(pictures).square().sum(dim=(1, 2, 3)).mean().backward()
        weight = layer._module.weight
        error = (weight.grad_sample.mean(0) - weight.grad).norm() / weight.grad.norm()
        print(f"opacus {opacus.__version__}, {name}: relative error {float(error):.1e}")


if __name__ == "__main__":
    main()
