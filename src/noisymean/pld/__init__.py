"""Privacy loss distributions on a grid, to a stated side, composed by FFT. Knows trade-off functions, no mechanism.

- `discretize`  one round's loss put on a grid so that the result provably leaks more (or less)
- `compose`     counts of rounds added up by FFT; truncation, wrap-around and rounding are charged to the bound
"""
