"""Opacus' own step as functions to audit: `ordinary`, as make_private leaves it, and `fixed`.

Ten records and one more, all gradients along one axis (the pair that leaks most): the loss of record x is x.w, so its gradient
is x. Through an ordinary loader with b = 5 the sum is divided by 5 on D and by int(11/3) = 3 on D'.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.integrations.opacus import fix, poisson_loader
from noisymean.mechanisms import SGM
from noisymean.targets.protocol import Known, Structure

N, DIMENSION, NOISE = 10, 30, 0.5
RATE = "1/2"


@cache
def prepared(records: int, public: bool) -> tuple[Any, Any, Any]:
    """(model, optimizer, sampler) of an engine of its own."""
    rows = torch.zeros(records, DIMENSION)
    rows[N:, 0] = 1.0
    dataset = TensorDataset(rows)
    model = nn.Linear(DIMENSION, 1, bias=False)
    loader = poisson_loader(dataset, sample_rate=RATE) if public else DataLoader(dataset, batch_size=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
            data_loader=loader,
            noise_multiplier=NOISE,
            max_grad_norm=1.0,
        )
    if public:
        fix(optimizer, denominator=5, sample_rate=RATE)
    return model, optimizer, loader


def step(extra_record: bool, generator: np.random.Generator, *, public: bool) -> np.ndarray:
    """The gradient that one step along a fresh batch releases."""
    model, optimizer, loader = prepared(N + extra_record, public)
    torch.manual_seed(int(generator.integers(2**63)))
    with warnings.catch_warnings():
        # torch remarks that the input needs no gradient
        warnings.simplefilter("ignore")
        # the loader's own sampler and records, without its machinery: half of the time
        (rows,) = loader.dataset[next(iter(loader.batch_sampler))]
        optimizer.zero_grad()
        model(rows).mean().backward() if len(rows) else model(rows).sum().backward()
        optimizer.step()
    (parameter,) = optimizer.params
    return parameter.grad.detach().double().numpy().ravel().copy()


def ordinary(extra_record: bool, generator: np.random.Generator) -> np.ndarray:
    """As users write it."""
    return step(extra_record, generator, public=False)


def fixed(extra_record: bool, generator: np.random.Generator) -> np.ndarray:
    """After `fix`, times the constant: the noisy sum."""
    return step(extra_record, generator, public=True) * 5.0


fixed.known = Known(  # type: ignore[attr-defined]
    SGM(sample_rate=RATE, noise_multiplier=NOISE, dataset_size=N, dimension=DIMENSION), 1.0, structured=Structure.ZERO
)
