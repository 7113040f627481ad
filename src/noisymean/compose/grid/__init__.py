"""Privacy loss distributions to a stated side, summed by FFT. Knows trade-off functions, no mechanism.

- `discretize`  one round's loss as finitely many atoms that provably leak more (or less)
- `cells`       where to cut it
- `window`      which part of the sum is looked at, and where: layers, tilts, ends
- `spectrum`    transforms of atoms that lie on no grid
- `put`         a sum put on a grid; truncation, wrap-around and rounding are charged to the bound
- `grid_sum`    delta and epsilon of what is on the grid
- `lattice`     few rounds, with all losses on one lattice
- `compose`     questions about counts of rounds
"""
