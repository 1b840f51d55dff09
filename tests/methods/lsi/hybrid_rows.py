"""Documents with classes, and terms with similarities, for hybrid LSI."""

import numpy as np

N, D, K = 60, 25, 4
RNG = np.random.default_rng(0)
ROWS = RNG.poisson(0.7, (N, D)).astype(float)
CLASSES = RNG.integers(4, size=N)
SAME = (CLASSES[:, None] == CLASSES[None, :]).astype(float)


def symmetric(n, seed, share=0.3):
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    upper[upper > share] = 0
    return upper + upper.T


TERMS = symmetric(D, 1) / 3.0
