"""Rows and solvers for tests of the estimators."""

import dask.array as da
import numpy as np
from scipy import sparse

from tests.strategies import zipf_counts

SOLVERS = ["frequent_directions", "gram", "nystrom", "krylov"]
ROWS = zipf_counts(300, 50, 12, n_topics=3)
DENSE = ROWS.toarray().astype(np.float64)


def csr_blocks(rows, size):
    meta = sparse.csr_array((0, 0), dtype=rows.dtype)
    return da.from_array(rows.toarray(), chunks=(size, -1)).map_blocks(sparse.csr_array, meta=meta)
