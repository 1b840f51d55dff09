"""Documents of three classes for local LSI."""

import dask.array as da
import numpy as np
from scipy import sparse

N, D, K, L = 90, 30, 4, 3
RNG = np.random.default_rng(0)
CLASSES = RNG.integers(L, size=N)
ROWS = RNG.poisson(0.3 + (np.arange(D) % L == CLASSES[:, None]), (N, D)) / 3.0
SEVERAL = (RNG.random((N, L)) < 0.4) | (np.arange(L) == CLASSES[:, None])
PLAIN = {"method": "rds", "C": 1.0}
NAMES = np.array(["red", "green", "blue"])


def lazy(rows, chunks):
    return da.from_array(rows, chunks=(chunks, -1)).map_blocks(sparse.csr_array)
