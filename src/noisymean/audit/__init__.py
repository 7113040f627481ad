"""Audits: run a mechanism on two neighbouring datasets, tell the outputs apart, and say how surely.

trials -> runner -> store        what is run, where, and what is kept of it
laws -> reference                the optimal test of a known pair, and the truth
distinguishers                   the optimal test, the paper's vote, a learned score
intervals -> estimate -> verdict what the errors prove, at which confidence, about which claim
result                           all of it as one value, and how it is shown
sight                            what so many trials would have caught

Nothing here knows an accountant: a claim is a trade-off curve that is handed over (docs/audit.md).
"""

from noisymean.audit.audit import audit
from noisymean.audit.distinguishers import distinguisher
from noisymean.audit.result import Audit
from noisymean.audit.runner import Dask, Processes
from noisymean.audit.store import Store

__all__ = ["Audit", "Dask", "Processes", "Store", "audit", "distinguisher"]
