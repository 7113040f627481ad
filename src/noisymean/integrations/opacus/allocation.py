"""Random allocation: every record goes into one of the batches of an epoch, by itself and each with the same probability.

A sampler of batches for any DataLoader. It has as many batches as it was told, whatever the number of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from noisymean.errors import InvalidInput


class RandomAllocationSampler(Sampler[list[int]]):
    """Batches of an epoch to which `num_samples` records are allocated, anew in every epoch; some may be empty.

    >>> sampler = RandomAllocationSampler(num_samples=6, batches=3, generator=torch.Generator().manual_seed(0))
    >>> len(sampler), sorted(record for batch in sampler for record in batch)
    (3, [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, *, num_samples: int, batches: int, generator: Any = None) -> None:
        for name, value in (("num_samples", num_samples), ("batches", batches)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(name, value, "a whole number from 1 on")
        self.num_samples, self.batches, self.generator = num_samples, batches, generator

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        bins = torch.randint(self.batches, (self.num_samples,), generator=self.generator)
        # records of one batch next to each other, in their order
        order = torch.argsort(bins, stable=True)
        sizes = torch.bincount(bins, minlength=self.batches)
        for records in torch.split(order, sizes.tolist()):
            yield records.tolist()
