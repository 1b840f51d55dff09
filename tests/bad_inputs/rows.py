"""Odd rows for the estimators that take a matrix: the result of the same rows as float64 in memory, or a sentence."""

import dask.array as da
import numpy as np
import pandas as pd
from scipy import sparse

from tests.bad_inputs.judging import differs, outcome
from tests.contracts import CASES

NAMES = [name for name, case in CASES.items() if case.kind == "rows"]


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
DENSE = ("VectorQuantizer", "TreePCA")
"""Estimators that refuse sparse or lazy rows."""
NOT_OURS = {("LocalLSI", lie) for lie in ("lying rows", "lying meta", "lying dtype", "failing")}
"""Dask's own indexing, which gathers the rows of regions, meets these blocks before this library does."""
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


LABELS = {
    "as they are": lambda rng, y: y,
    "none": lambda rng, y: None,
    "short": lambda rng, y: y[:-1],
    "long": lambda rng, y: np.concatenate([y, y[:1]]),
    "one class": lambda rng, y: np.zeros(len(y), dtype=int),
    "floats": lambda rng, y: np.linspace(0, 1, len(y)),
    "nans": lambda rng, y: np.full(len(y), np.nan),
    "nones": lambda rng, y: np.full(len(y), None),
    "mixed": lambda rng, y: np.array([1, "a"] * len(y), dtype=object)[: len(y)],
    "dicts": lambda rng, y: [{} for _ in y],
    "tuples": lambda rng, y: [(1, 2) for _ in y],
    "sets": lambda rng, y: [{1} for _ in y],
    "cube": lambda rng, y: np.zeros((len(y), 2, 2)),
    "string": lambda rng, y: "labels",
    "number": lambda rng, y: 3,
    "complex": lambda rng, y: np.zeros(len(y), dtype=complex) + 1j,
    "every one its own": lambda rng, y: np.arange(len(y)),
    "lazy": lambda rng, y: da.from_array(np.zeros(len(y), dtype=int), chunks=3),
    "indicator": lambda rng, y: np.eye(2)[np.arange(len(y)) % 2],
    "column": lambda rng, y: (np.arange(len(y)) % 2)[:, None],
    "empty indicator": lambda rng, y: np.zeros((len(y), 3)),
    "indicator of no label": lambda rng, y: np.zeros((len(y), 0)),
    "nan indicator": lambda rng, y: np.full((len(y), 2), np.nan),
    "dates": lambda rng, y: np.arange(len(y)).astype("datetime64[D]"),
    "categories": lambda rng, y: pd.Series(pd.Categorical(["a", "b"] * len(y)))[: len(y)],
    "bytes": lambda rng, y: np.array([b"a", b"b"])[np.arange(len(y)) % 2],
    "bools": lambda rng, y: np.arange(len(y)) % 2 == 0,
    "sparse": lambda rng, y: sparse.csr_array(np.eye(2)[np.arange(len(y)) % 2]),
}


def pick(rng, table):
    names = list(table)
    name = names[rng.integers(len(names))]
    return name, table[name]


def drawn(rng, name, good):
    """Return the names of values and container, the rows as float64 in memory, and as they are given."""
    of_values, values = pick(rng, VALUES)
    if name == "VectorQuantizer" and of_values == "whole":
        of_values, values = "as they are", VALUES["as they are"]
    X = values(rng, good)
    containers = {**SAME, **ODD}
    if of_values == "whole":
        containers = {dtype: cast(dtype) for dtype in WHOLE} if rng.random() < 0.7 else containers
        X = np.abs(X) if name != "TreePCA" else X
    of_container, container = pick(rng, containers)
    return of_values, of_container, X, container(rng, X)


def compared(name, kinds, found, reference):
    """Return how the outcome of odd rows is worse than that of the same rows as float64 in memory, or None."""
    of_values, of_container = kinds
    for one, what in ((found, ""), (reference, "in memory: ")):
        if one.fault:
            return what + one.fault
    if of_container in ODD or (found.error is not None and name in DENSE):
        return None
    if found.error is not None and reference.error is None:
        return f"refused, where float64 in memory is not: {found.error}"
    if found.error is None and reference.error is not None:
        return f"taken, where float64 in memory is refused: {reference.error}"
    if found.error is not None or of_values not in EASY:
        return None
    rough = {"float16": 5e-3, "float32": 1e-3}.get(of_container, 1e-6)
    return differs(found.value, reference.value, tolerance=rough)


def odd_rows(rng):
    """Rows of odd values in an odd container; the reference is the same in float64 in memory."""
    name = NAMES[rng.integers(len(NAMES))]
    case = CASES[name]
    good, y = case.data()
    good = np.asarray(good.toarray() if sparse.issparse(good) else good, dtype=float)
    of_values, of_container, X, given = drawn(rng, name, good)
    y = None if y is None else y[: len(X)]
    fits = rng.random() < 0.7
    described = f"{name}.{'fit' if fits else 'result'}: {of_values}, {of_container}"

    def run():
        model = None if fits else case.make(**seeded(case)).fit(good, case.data()[1])

        def result(rows):
            if not fits:
                return measured(model, case, rows)
            return measured(case.make(**seeded(case)).fit(rows, y), case, rows)

        if (name, of_container) in NOT_OURS:
            return None
        reference, found = outcome(lambda: result(X)), outcome(lambda: result(given))
        return compared(name, (of_values, of_container), found, reference)

    return described, run


def seeded(case):
    return {"random_state": 0} if "random_state" in case.make().get_params() else {}


def measured(model, case, rows):
    """What is compared of a model and rows: what does not depend on signs."""
    found = case.result(model, rows)
    if hasattr(found, "compute"):
        found = found.compute()
    return found


def odd_labels(rng):
    """Labels of an odd kind for an estimator that takes them."""
    names = [name for name in NAMES if CASES[name].data()[1] is not None]
    name = names[rng.integers(len(names))]
    case = CASES[name]
    X, y = case.data()
    of_labels, labels = pick(rng, LABELS)
    given = labels(rng, y)
    lazily_ = rng.random() < 0.5
    rows = da.from_array(X.toarray(), chunks=(7, -1)) if lazily_ else X

    def run():
        found = outcome(lambda: measured(case.make(**seeded(case)).fit(rows, given), case, X))
        if found.fault or not lazily_:
            return found.fault
        reference = outcome(lambda: measured(case.make(**seeded(case)).fit(X, given), case, X))
        if (found.error is None) != (reference.error is None):
            return f"lazily {found.error!r:.200}, in memory {reference.error!r:.200}"
        return differs(found.value, reference.value, tolerance=1e-6) if found.error is None else None

    return f"{name}.fit labels: {of_labels}, {'lazy rows' if lazily_ else 'rows in memory'}", run


WRONG = [
    None, -1, 0, 1, 2.5, 10**6, 10**30, "x", "", b"x", np.nan, np.inf, -np.inf, True, [], (), {}, set(), [1], (1,),
    (1, 2), (2, 1), (0, 0), ("a", "b"), np.array([1, 2]), np.array(3), np.float32(0.5), np.int8(3), 1e-300, 1e300, 1j,
    object(), len, int, "auto", lambda: 0,
]  # fmt: skip


def odd_parameter(rng):
    """One parameter of an estimator of any kind is wrong."""
    names = list(CASES)
    name = names[rng.integers(len(names))]
    case = CASES[name]
    model = case.make(**seeded(case))
    known = sorted(model.get_params(deep=False))
    parameter = known[rng.integers(len(known))]
    value = WRONG[rng.integers(len(WRONG))]
    X, y = case.data()

    def run():
        def fitted():
            model.set_params(**{parameter: value}).fit(X, y)
            return case.result(model, X)

        return outcome(fitted).fault

    return f"{name}({parameter}={value!r:.40})", run


FAMILIES = [odd_rows, odd_rows, odd_rows, odd_labels, odd_parameter, odd_parameter]
