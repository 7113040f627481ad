r"""Batches that are not drawn by Poisson sampling: explicit pairs and proofs for each way, each with its adjacency.

In units of the noise of D a full gradient has length 1/sigma. t batches in an epoch; the last one may have been broken off.
Proofs are in docs/theory.md, "Batches that are not drawn by Poisson sampling".

Neighbours of one size (zero-out, replace-one): N is public, so every denominator is a constant here.

    shuffle, cyclic   the order revealed, a record is in one batch of an epoch: one Gaussian shift each
    balls-in-bins     the pair of `laws.allocation`, which is attained; or the bin revealed
    fixed-size        the pair of `laws.without_replacement`; or the batch revealed

One record added or removed, N against N + 1:

    balls-in-bins     the same pair; where the denominator moves, a chain through D over the denominator of D'
    fixed-size        a batch of D' is one of D, but with probability b/(N+1) the new record has taken another's place: exact
    shuffle, cyclic   the new record takes another's place, and that one goes where there is one more place; all batch sizes are
                      known, so a denominator that moves shifts the mean of every step by as much as its batch can add up to

Explicit pairs are attacks on the same: an attacker on an epoch sees the largest of its t sums (`laws.largest`), or their sum.
"""

from __future__ import annotations

from noisymean.batches.added import added
from noisymean.batches.epochs import Attack, Proof
from noisymean.batches.one_size import of_one_size
from noisymean.mechanisms import Adjacency, Mechanism


def attacks(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> list[Attack]:
    """Explicit pairs for so many steps; where neighbours differ in size, `dataset_size` is that of the smaller one."""
    if adjacency is Adjacency.ADD_REMOVE:
        return list(added(mechanism, steps).attacks())
    return list(of_one_size(mechanism, steps, adjacency).attacks())


def moves(mechanism: Mechanism) -> bool:
    """Whether one record more changes the number of batches of an epoch."""
    size = mechanism.dataset_size
    if not mechanism.drawn.is_cut or size is None:
        return False
    return mechanism.cut(size).batches != mechanism.cut(size + 1).batches


def proofs(mechanism: Mechanism, steps: int, adjacency: Adjacency) -> list[Proof]:
    """Proofs for so many steps, each sound by itself. Unproved where there is none."""
    if adjacency is Adjacency.ADD_REMOVE:
        return list(added(mechanism, steps).proofs())
    return list(of_one_size(mechanism, steps, adjacency).proofs())
