"""Opacus 1.x: see what a training script really releases, account for it, fix it.

sampler      how batches are drawn: off the loader, off the batches that came, or told
seen         what an optimizer shows: denominator, number of parameters, who counts its steps
allocation   a sampler that puts each record into one batch of an epoch
counting     the batches that a loader has drawn and no step has used
watch        what each step was made of, when it is taken: one new batch, clipped, with new noise
facts        what is known of a run: its stretches, what was said, what it was on each pair of datasets
neighbours   what the run would have been on one record more or less
grounds      what a verdict rests on
checking     check: one line for each known pitfall
inspection   inspect: mechanism, claimed / leaked / guaranteed so far, remedy
inspected    what it found, as a value that shows itself
said         what Opacus' own accountant says of the same steps
accountant   an IAccountant that sees the denominator
fixing       fix, poisson_loader and allocation_loader: public constants instead of numbers computed from the data
"""

try:
    import opacus as _opacus  # noqa: F401 - asked first, so that its absence is one line
except ModuleNotFoundError as fault:
    if fault.name not in ("opacus", "torch"):
        raise
    from noisymean.errors import MissingDependency

    raise MissingDependency(str(fault.name), "audit") from None

from noisymean.integrations.opacus.accountant import Accountant, NoGuarantee, register
from noisymean.integrations.opacus.allocation import RandomAllocationSampler
from noisymean.integrations.opacus.checking import check
from noisymean.integrations.opacus.fixing import allocation_loader, fix, poisson_loader
from noisymean.integrations.opacus.inspected import Inspection, Spent
from noisymean.integrations.opacus.inspection import inspect

__all__ = [
    "Accountant",
    "Inspection",
    "NoGuarantee",
    "RandomAllocationSampler",
    "Spent",
    "allocation_loader",
    "check",
    "fix",
    "inspect",
    "poisson_loader",
    "register",
]
