"""Odd values of rows, and the containers that they are given in: those that must change nothing, and odd ones."""

import dask.array as da
import numpy as np
import pandas as pd
from scipy import sparse


def filled(rng, X, value):
    X = X.astype(float)
    X[rng.integers(X.shape[0]), rng.integers(X.shape[1])] = value
    return X


VALUES = {
    "as they are": lambda rng, X: X,
    "whole": lambda rng, X: np.round(X),
    "nan": lambda rng, X: filled(rng, X, np.nan),
    "inf": lambda rng, X: filled(rng, X, np.inf),
    "-inf": lambda rng, X: filled(rng, X, -np.inf),
    "negative": lambda rng, X: filled(rng, X, -3.0),
    "huge": lambda rng, X: filled(rng, X, 1e200),
    "hugest": lambda rng, X: filled(rng, X, 1.7e308),
    "all huge": lambda rng, X: X * 1e155,
    "tiny": lambda rng, X: X * 1e-200,
    "subnormal": lambda rng, X: X * 1e-310,
    "zeros": lambda rng, X: X * 0,
    "ones": lambda rng, X: X * 0 + 1,
    "one row": lambda rng, X: X[:1],
    "two rows": lambda rng, X: X[:2],
    "one column": lambda rng, X: X[:, :1],
    "no row": lambda rng, X: X[:0],
    "no column": lambda rng, X: X[:, :0],
    "equal rows": lambda rng, X: np.repeat(X[:1], len(X), axis=0),
    "one entry": lambda rng, X: filled(rng, X * 0, 1.0),
    "empty row": lambda rng, X: X * (np.arange(len(X)) != rng.integers(len(X)))[:, None],
    "wider": lambda rng, X: np.hstack([X, X]),
}
EASY = {"as they are", "whole", "empty row"}


def duplicated(rng, X):
    """CSR whose entries are given in halves, out of order."""
    coo = sparse.coo_array(X)
    order = rng.permutation(2 * coo.nnz)
    rows, columns = (np.concatenate([c, c])[order] for c in coo.coords)
    data = np.concatenate([coo.data / 2, coo.data / 2])[order]
    by_row = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    return sparse.csr_array((data[by_row], columns[by_row], indptr), shape=X.shape)


def unsorted(rng, X):
    csr = sparse.csr_array(X)
    for i in range(X.shape[0]):
        a, b = csr.indptr[i : i + 2]
        order = a + rng.permutation(b - a)
        csr.indices[a:b], csr.data[a:b] = csr.indices[order], csr.data[order]
    csr.has_sorted_indices = False
    return csr


def with_zeros(rng, X):
    csr = sparse.csr_array(X + 1.0)
    csr.data -= 1.0
    return csr


def cast(dtype):
    return lambda rng, X: X.astype(dtype)


def lazily(make):
    def lazy(rng, X):
        n = max(1, int(rng.integers(1, len(X) + 1))) if len(X) else 1
        return make(X, n)

    return lazy


def sparse_blocks(X, n):
    return da.from_array(X, chunks=(n, -1)).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))


def unknown_chunks(X, n):
    array = da.from_array(X, chunks=(n, -1))
    return array[da.from_array(np.ones(len(X), dtype=bool), chunks=n)]


SAME = {
    "fortran": lambda rng, X: np.asfortranarray(X),
    "strided": lambda rng, X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda rng, X: np.ascontiguousarray(X[::-1])[::-1],
    "read only": lambda rng, X: np.frombuffer(np.ascontiguousarray(X, dtype=float).tobytes()).reshape(
        X.shape
    ),
    "big endian": cast(">f8"),
    "frame": lambda rng, X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]),
    "lists": lambda rng, X: X.tolist(),
    "objects": cast(object),
    "csr": lambda rng, X: sparse.csr_array(X),
    "csr matrix": lambda rng, X: sparse.csr_matrix(X),
    "csc": lambda rng, X: sparse.csc_array(X),
    "coo": lambda rng, X: sparse.coo_array(X),
    "dia": lambda rng, X: sparse.dia_array(X),
    "bsr": lambda rng, X: sparse.bsr_array(X),
    "lil": lambda rng, X: sparse.lil_array(X),
    "dok": lambda rng, X: sparse.dok_array(X),
    "duplicated csr": duplicated,
    "unsorted csr": unsorted,
    "zeros in csr": with_zeros,
    "lazy": lazily(lambda X, n: da.from_array(X, chunks=(n, -1))),
    "lazy sparse": lazily(sparse_blocks),
    "lazy csc": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(
            sparse.csc_array, meta=sparse.csc_array((0, 0))
        )
    ),
    "lazy frame": lazily(lambda X, n: da.from_array(X, chunks=(n, -1)).to_dask_dataframe()),
}
WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
ODD = {
    "complex": cast(complex),
    "strings": cast(str),
    "masked": lambda rng, X: np.ma.masked_equal(X, 0),
    "dates": lambda rng, X: np.nan_to_num(X).astype("int64").astype("datetime64[s]"),
    "flat": lambda rng, X: X.ravel(),
    "cube": lambda rng, X: X[None],
    "scalar": lambda rng, X: 3.0,
    "none": lambda rng, X: None,
    "string": lambda rng, X: "rows",
    "bytes": lambda rng, X: b"rows",
    "dict": lambda rng, X: {"X": X},
    "set": lambda rng, X: {1, 2},
    "ragged": lambda rng, X: [row[: 1 + i % 3] for i, row in enumerate(X.tolist())],
    "generator": lambda rng, X: (row for row in X),
    "object": lambda rng, X: object(),
    "nones": lambda rng, X: np.full(X.shape, None),
    "structured": lambda rng, X: np.zeros(len(X), dtype=[("a", float)]),
    "series": lambda rng, X: pd.Series(np.zeros(len(X))),
    "frame of words": lambda rng, X: pd.DataFrame({"a": ["x"] * len(X), "b": 1}),
    "frame with NA": lambda rng, X: pd.DataFrame({"a": pd.array([None] * len(X), dtype="Int64")}),
    "lazy complex": lazily(lambda X, n: da.from_array(X.astype(complex), chunks=(n, -1))),
    "lazy objects": lazily(lambda X, n: da.from_array(X.astype(object), chunks=(n, -1))),
    "lazy flat": lazily(lambda X, n: da.from_array(X.ravel(), chunks=n)),
    "lazy cube": lazily(lambda X, n: da.from_array(X[None], chunks=-1)),
    "lazy in columns": lazily(lambda X, n: da.from_array(X, chunks=(n, max(1, X.shape[1] // 2)))),
    "unknown chunks": lazily(unknown_chunks),
    "lying meta": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: b[:, :1], meta=np.empty((0, 0)))
    ),
    "lying rows": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: b[:0], dtype=float)
    ),
    "lying dtype": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: b.astype(str), dtype=float)
    ),
    "failing": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: "no rows", dtype=float)
    ),
    "csr with bad index": lambda rng, X: bad_csr(X, 10**6),
    "csr with negative index": lambda rng, X: bad_csr(X, -5),
    "csr with bad pointer": lambda rng, X: bad_pointer(X),
}


def bad_csr(X, index):
    csr = sparse.csr_array(np.ones(X.shape))
    if csr.nnz:
        csr.indices[csr.nnz // 2] = index
    return csr


def bad_pointer(X):
    csr = sparse.csr_array(np.ones(X.shape))
    if csr.nnz:
        csr.indptr[len(csr.indptr) // 2] = 10**6
    return csr
