"""noisymean: the privacy of DP-SGD as it is really run, a noisy *mean* and not a noisy sum."""

from noisymean.accountant import account
from noisymean.accounts import Account, Pair
from noisymean.audit import Audit, audit
from noisymean.calibrate import Calibration, calibrate
from noisymean.ceilings import ceiling, ceiling_clt
from noisymean.check import check
from noisymean.curves import Curves
from noisymean.errors import InvalidInput, MissingDependency, NoisymeanError, Undefined
from noisymean.finished import FinishedRun, probe_run
from noisymean.leakage import leakage
from noisymean.mechanisms import (
    ASGM,
    EASGM,
    FEASGM,
    SGM,
    Adjacency,
    BatchDenominator,
    DatasetDenominator,
    Mechanism,
    OpacusLoader,
    PublicRate,
    Sampling,
    Segment,
    register,
)
from noisymean.noisy_sum import claimed
from noisymean.one_round import curve
from noisymean.per_pair import per_pair
from noisymean.probe import Finding, probe
from noisymean.proofs import guarantee, guarantee_tight
from noisymean.scorecard import Scorecard
from noisymean.statement import Statement, statement

__version__ = "0.2.0"

__all__ = [
    "ASGM",
    "EASGM",
    "FEASGM",
    "SGM",
    "Account",
    "Adjacency",
    "Audit",
    "BatchDenominator",
    "Calibration",
    "Curves",
    "DatasetDenominator",
    "Finding",
    "FinishedRun",
    "InvalidInput",
    "Mechanism",
    "MissingDependency",
    "NoisymeanError",
    "OpacusLoader",
    "Pair",
    "PublicRate",
    "Sampling",
    "Scorecard",
    "Segment",
    "Statement",
    "Undefined",
    "__version__",
    "account",
    "audit",
    "calibrate",
    "ceiling",
    "ceiling_clt",
    "check",
    "claimed",
    "curve",
    "guarantee",
    "guarantee_tight",
    "leakage",
    "per_pair",
    "probe",
    "probe_run",
    "register",
    "statement",
]
