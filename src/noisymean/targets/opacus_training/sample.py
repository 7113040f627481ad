"""Which records the onlooker samples, and what it keeps of them: part of what a stored trial is, known without torch."""

from __future__ import annotations

# Records whose gradients span the directions: at the first weights, which all trials have, and at any later ones.
FIRST_SAMPLE, LATER_SAMPLE = 1024, 256
# Eigenvectors that are kept, those of the largest eigenvalues.
DIRECTIONS = 100
# Chooses the sample. It is no part of a trial.
SAMPLE_SEED = 0
SAMPLED = [FIRST_SAMPLE, LATER_SAMPLE, DIRECTIONS, SAMPLE_SEED]
