"""Rounds added up. Knows laws, no mechanism.

- `contour`  the tails of a sum of losses by one contour integral, whatever the number of rounds
- `grid`     the same on a grid, to a stated side, where few rounds converge slowly
- `engine`   which of them answers; chains of two links
"""
