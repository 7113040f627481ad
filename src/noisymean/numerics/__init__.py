"""Special functions at extreme parameters, in log space. No privacy words in here.

- `logs`        log1p(x) - x and friends, without cancellation
- `chi_square`  both tails of the noncentral chi-square law, any degrees of freedom, any noncentrality
- `binomial`    the sizes of a Poisson-sampled batch and their probabilities, thinned where that is exact
- `inversion`   solve a monotone function for many targets at once
"""
