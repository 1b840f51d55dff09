"""Matrices, cuts and array kinds that several test modules draw from."""

from itertools import pairwise

import dask
import numpy as np
from dask._task_spec import DataNode
from hypothesis import strategies as st
from scipy import sparse


@st.composite
def matrices(draw, max_rows=60, max_columns=12):
    """Dense matrices of many shapes of spectrum: flat, decaying, of low rank, with empty rows, zero."""
    n = draw(st.integers(1, max_rows))
    d = draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["flat", "decaying", "low rank", "counts", "one direction", "zero", "large"]))
    X = rng.standard_normal((n, d))
    if kind == "decaying":
        X *= 0.5 ** np.arange(d)
    elif kind == "low rank":
        X = rng.standard_normal((n, 1)) @ rng.standard_normal((1, d)) + rng.standard_normal((n, 1)) * np.ones(d)
    elif kind == "counts":
        X = rng.poisson(0.5, size=(n, d)).astype(float)
    elif kind == "one direction":
        X[:, 1:] = 0
    elif kind == "zero":
        X[:] = 0
    elif kind == "large":
        X = X * 1e6 + 1e7
    return X


@st.composite
def cuts(draw, n_rows):
    """Where to cut rows into blocks; blocks may be empty."""
    inside = draw(st.lists(st.integers(0, n_rows), max_size=6))
    return [0, *sorted(inside), n_rows]


def split(X, borders):
    """Row blocks of ``X`` between the borders."""
    return [X[a:b] for a, b in pairwise(borders)]


def n_tasks(array):
    """How many tasks Dask would run for an array; what is in the graph as it is, is none."""
    (optimized,) = dask.optimize(array)
    return sum(not isinstance(node, DataNode) for node in dict(optimized.__dask_graph__()).values())


def zipf_counts(n, d, per_row, seed=0, n_topics=8):
    """Sparse counts with a Zipf background and planted topics, CSR float32."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, d + 1)
    background = rng.choice(d, size=(n, per_row), p=popularity / popularity.sum())
    topic = rng.integers(n_topics, size=n)
    own = (topic[:, None] * 17 + rng.integers(12, size=(n, per_row // 3))) % d
    columns = np.concatenate([background, own], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    X = sparse.coo_array((np.ones(rows.size, dtype=np.float32), (rows, columns.ravel())), shape=(n, d)).tocsr()
    X.sum_duplicates()
    return X
