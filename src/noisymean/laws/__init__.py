"""Pairs of distributions (P, Q), each with its tails and its cumulants.

- `closed`         formulas: the identity, G_mu, (epsilon, delta)
- `finite`         finitely many outcomes
- `subsampled`     mixtures: revealed, and hidden among those not sampled
- `gaussian`       N(0, I_n) against N(m, s^2 I_n), exactly
- `size_revealed`  the size of the batch is told: what is left of ASGM
- `line_mixture`   what is released where all gradients are multiples of one vector
- `on_a_line`      gradients that are multiples of one vector: explicit pairs of datasets
- `across`         the same, with the dimensions across that line
- `hulls`          several curves as one
- `cells`          an attacker who is told a cell only
- `largest`        an epoch of batches, one of which is shifted: the largest
- `scores`         the same: the sum of a score of each
- `allocation`     an epoch of random allocation, from both sides
- `without_replacement`  a batch of a fixed size
- `cumulants`      generating functions of losses: what adds up over rounds
"""
