"""What runs: one round of DP-SGD as a frozen value. No accounting in here.

- `base`         what a mechanism is, its two families, neighbours, the registry
- `adjacency`    what neighbours differ in
- `public_rate`  those whose rate was written down
- `kinds`        the paper's: SGM, EASGM, FEASGM, ASGM
- `loader`       what a user of Opacus 1.x runs
- `rates`        rates as they were written
- `sampling`     how batches are drawn
"""

from noisymean.mechanisms.adjacency import Adjacency
from noisymean.mechanisms.base import (
    KINDS,
    LARGEST_DATASET,
    LARGEST_DIMENSION,
    LEAST_NOISE,
    MOST_NOISE,
    BatchDenominator,
    DatasetDenominator,
    Mechanism,
    Neighbours,
    Segment,
    from_plain,
    need_mechanism,
    register,
)
from noisymean.mechanisms.kinds import ASGM, EASGM, FEASGM, SGM, moving_pair, with_public_size
from noisymean.mechanisms.loader import LoaderRun, OpacusLoader
from noisymean.mechanisms.public_rate import DrawnAnyWay, PublicRate
from noisymean.mechanisms.rates import Rate, ToldRate, exact_rate
from noisymean.mechanisms.sampling import Cut, Sampling

__all__ = [
    "ASGM",
    "EASGM",
    "FEASGM",
    "KINDS",
    "LARGEST_DATASET",
    "LARGEST_DIMENSION",
    "LEAST_NOISE",
    "MOST_NOISE",
    "SGM",
    "Adjacency",
    "BatchDenominator",
    "Cut",
    "DatasetDenominator",
    "DrawnAnyWay",
    "LoaderRun",
    "Mechanism",
    "Neighbours",
    "OpacusLoader",
    "PublicRate",
    "Rate",
    "Sampling",
    "Segment",
    "ToldRate",
    "exact_rate",
    "from_plain",
    "moving_pair",
    "need_mechanism",
    "register",
    "with_public_size",
]
