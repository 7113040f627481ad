"""The installed Opacus as it trains on real records: nothing is replayed, whatever the size of the dataset.

target   what is run, on which pair of datasets, and what is claimed for it
run      one run: make_private on a data loader, batches, per-sample gradients, steps; the weights before and after each
onlooker what an adversary computes who holds D and sees every weight vector
"""

from noisymean.targets.opacus_training.target import OpacusTraining

__all__ = ["OpacusTraining"]
