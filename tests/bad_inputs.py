"""Estimators with rows, labels and texts drawn at random, held against an oracle.

Whatever is drawn ends in the result of the same numbers as float64 in memory, or in a ``ValueError`` or ``TypeError``.
"""

import enum
import warnings
from typing import Any, NamedTuple

import dask.array as da
import dask.bag as db
import numpy as np
import pandas as pd
from scipy import sparse

from tests.contracts import CASES


class Outcome(NamedTuple):
    """What a call ended in: its result, what it raised, and what is wrong with how it ended."""

    value: Any
    error: Exception | None
    fault: str | None


def outcome(call, *, allowed=(ValueError, TypeError)):
    """Call a function of no arguments and judge how it ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "(?s).*(encountered|invalid value|Mean of empty)", RuntimeWarning)
        try:
            value = call()
            value = value.compute() if hasattr(value, "compute") else value
        except Exception as error:  # noqa: BLE001  whatever it raises is judged
            right = isinstance(error, allowed) and str(error)
            return Outcome(None, error, None if right else f"raised {error!r:.300}")
    return Outcome(value, None, str(caught[0].message) if caught else not_finite(value))


def not_finite(value):
    """Return a fault if numbers of a result are NaN or infinite, or None."""
    for array in arrays(value):
        if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
            return "the result holds NaN or infinity"
    return None


def arrays(value):
    """Yield the arrays of numbers in a result."""
    if sparse.issparse(value):
        yield value.data
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, float | np.floating):
        yield np.asarray(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from arrays(one)


def differs(actual, reference, *, tolerance):
    """Return how two results differ, or None."""
    a, b = (value.toarray() if sparse.issparse(value) else np.asarray(value) for value in (actual, reference))
    if a.shape != b.shape:
        return f"shape {a.shape}, but the reference has {b.shape}"
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None if a.tolist() == b.tolist() else "other values than the reference"
    error, scale = (np.abs(values).max(initial=0.0) for values in (a.astype(float) - b, b))
    return None if error <= tolerance * max(scale, 1e-300) else f"off by {error:.3g} of {scale:.3g}"


def filled(X, value):
    X = X.astype(float)
    X[len(X) // 2, -1] = value
    return X


VALUES = {
    "as they are": lambda X: X,
    "whole": np.round,
    "nan": lambda X: filled(X, np.nan),
    "inf": lambda X: filled(X, np.inf),
    "negative": lambda X: filled(X, -3.0),
    "huge": lambda X: filled(X, 1e200),
    "all huge": lambda X: X * 1e155,
    "tiny": lambda X: X * 1e-200,
    "large": lambda X: X * 2.0**40,
    "small": lambda X: X * 2.0**-45,
    "subnormal": lambda X: X * 1e-310,
    "zeros": lambda X: X * 0,
    "one row": lambda X: X[:1],
    "one column": lambda X: X[:, :1],
    "no row": lambda X: X[:0],
    "no column": lambda X: X[:, :0],
    "equal rows": lambda X: np.repeat(X[:1], len(X), axis=0),
    "empty row": lambda X: X * (np.arange(len(X)) != 5)[:, None],
}
EASY = {"as they are", "whole", "empty row", "large", "small"}


def duplicated(X):
    """CSR whose entries are given in halves, the second ones backwards."""
    half = sparse.csr_array(X / 2)
    rows = [np.concatenate([one.indices, one.indices[::-1]]) for one in half]
    data = [np.concatenate([one.data, one.data[::-1]]) for one in half]
    parts = [np.concatenate([*arrays, []]) for arrays in (data, rows)]
    return sparse.csr_array((parts[0], parts[1].astype(int), 2 * half.indptr), shape=X.shape)


def roomy(X):
    """CSR with room behind its last row, in which something lies."""
    csr = sparse.csr_array(X)
    csr.data, csr.indices = np.append(csr.data, [1e9] * 3), np.append(csr.indices, [0, 0, 1]).astype(np.int32)
    return csr


def with_zeros(X):
    csr = sparse.csr_array(X + 1.0)
    csr.data -= 1.0
    return csr


def cast(dtype):
    return lambda X: X.astype(dtype)


def lazily(function=lambda block: block, **how):
    """Return a function that makes lazy rows of 7, with a function of each block."""
    return lambda X: da.from_array(X, chunks=(7, -1)).map_blocks(function, **how)


def bad_csr(part):
    def make(X):
        csr = sparse.csr_array(np.ones(X.shape))
        getattr(csr, part)[len(X) // 2 : len(X) // 2 + 1] = 10**6
        return csr

    return make


SAME = {
    "fortran": np.asfortranarray,
    "reversed": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "read only": lambda X: np.frombuffer(np.ascontiguousarray(X, dtype=float).tobytes()).reshape(X.shape),
    "big endian": cast(">f8"),
    "frame": lambda X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]),
    "lists": lambda X: X.tolist(),
    "objects": cast(object),
    "csr": sparse.csr_array,
    "csr matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "duplicated csr": duplicated,
    "zeros in csr": with_zeros,
    "roomy csr": roomy,
    "float32": cast("float32"),
    "float32 csr": lambda X: sparse.csr_array(X.astype("float32")),
    "lazy": lazily(),
    "lazy sparse": lazily(sparse.csr_array, meta=sparse.csr_array((0, 0))),
    "lazy csc": lazily(sparse.csc_array, meta=sparse.csc_array((0, 0))),
    "lazy frame": lambda X: lazily()(X).to_dask_dataframe(),
}
WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
ODD = {
    "complex": cast(complex),
    "lazy complex": lambda X: lazily()(X.astype(complex)),
    "masked": lambda X: np.ma.masked_equal(X, 0),
    "strings": cast(str),
    "flat": np.ravel,
    "cube": lambda X: X[None],
    "none": lambda X: None,
    "ragged": lambda X: [row[: 1 + i % 3] for i, row in enumerate(X.tolist())],
    "generator": iter,
    "nones": lambda X: np.full(X.shape, None),
    "frame of words": lambda X: pd.DataFrame({"a": ["x"] * len(X), "b": 1}),
    "frame with NA": lambda X: pd.DataFrame({"a": pd.array([None] * len(X), dtype="Int64")}),
    "lazy in columns": lambda X: da.from_array(X, chunks=(7, max(1, X.shape[1] // 2))),
    "unknown chunks": lambda X: lazily()(X)[da.from_array(np.ones(len(X), dtype=bool), chunks=7)],
    "lying meta": lazily(lambda block: block[:, :1], meta=np.empty((0, 0))),
    "lying rows": lazily(lambda block: block[:0], dtype=float),
    "lying dtype": lazily(lambda block: block.astype(str), dtype=float),
    "failing": lazily(lambda _: "no rows", dtype=float),
    "csr with bad index": bad_csr("indices"),
    "csr with bad pointer": bad_csr("indptr"),
}
DENSE = ("VectorQuantizer", "TreePCA")
"""Estimators that refuse sparse or lazy rows."""
NOT_OURS = {("LocalLSI", lie) for lie in ("lying rows", "lying meta", "lying dtype", "failing")}
"""Dask's own indexing, which gathers the rows of regions, meets these blocks before this library does."""
MUST_BE_REFUSED = {"complex", "lazy complex", "masked", "one is NaN", "one is NA", "nans"}
"""Rows and labels with missing values or an imaginary part."""


def same_labels(y):
    """The same labels in other containers, which must change nothing."""
    if y.ndim == 2:
        return {"list": y.tolist(), "frame": pd.DataFrame(y), "sparse": sparse.csr_array(y)}
    return {
        "list": y.tolist(),
        "column": y[:, None],
        "frame": pd.DataFrame(y),
        "objects": y.astype(object),
        "series": pd.Series(y),
        "categories": pd.Series(pd.Categorical(y)),
        "members": [enum.StrEnum("Kind", {v: v for v in y})(v) for v in y],
    }


def other_labels(y):
    n, halves = len(y), np.arange(len(y)) % 2
    return {
        "one is NaN": [*y[:-1].tolist(), float("nan")],
        "one is NA": pd.Series([*y[:-1].tolist(), pd.NA], dtype=object),
        "masked": np.ma.array(y, mask=np.arange(y.size).reshape(y.shape) == 1),
        "none": None,
        "short": y[:-1],
        "long": np.concatenate([y, y[:1]]),
        "one class": np.zeros(n, dtype=int),
        "floats": np.linspace(0, 1, n),
        "nans": np.full(n, np.nan),
        "nones": np.full(n, None),
        "mixed": np.array([1, "a"] * n, dtype=object)[:n],
        "dicts": [{} for _ in y],
        "tuples": [(1, 2) for _ in y],
        "cube": np.zeros((n, 2, 2)),
        "number": 3,
        "complex": np.zeros(n, dtype=complex) + 1j,
        "every one its own": np.arange(n),
        "lazy": da.from_array(halves, chunks=3),
        "indicator": np.eye(2)[halves],
        "column": halves[:, None],
        "empty indicator": np.zeros((n, 3)),
        "indicator of no label": np.zeros((n, 0)),
        "nan indicator": np.full((n, 2), np.nan),
        "dates": np.arange(n).astype("datetime64[D]"),
        "bytes": np.array([b"a", b"b"])[halves],
        "bools": halves == 0,
        "sparse": sparse.csr_array(np.eye(2)[halves]),
    }


def pick(rng, table):
    names = list(table)
    name = names[rng.integers(len(names))]
    return name, table[name]


ROWS = {name: case for name, case in CASES.items() if case.kind == "rows"}


def drawn(rng, name, good):
    """Return the names of values and container, the rows as float64 in memory, and as they are given."""
    values, change = pick(rng, VALUES)
    if (name, values) == ("VectorQuantizer", "whole"):
        values, change = "as they are", VALUES["as they are"]
    X = change(good)
    containers = {**SAME, **ODD}
    if values == "whole" and rng.random() < 0.7:
        containers = {dtype: cast(dtype) for dtype in WHOLE}
    container, make = pick(rng, containers)
    given = make(X)
    # A negative number is a large one as uint8, a huge one infinity as float32: the reference is given the same.
    if container.startswith("float") and not np.array_equal(
        np.isfinite(rounded := X.astype(container.split()[0])) * np.sign(rounded), np.sign(X)
    ):
        X = rounded.astype(float)
    return values, container, given.astype(float) if container in WHOLE[:8] else X, given


def compared(name, values, container, actual, reference):
    """Return how the outcome of odd rows is worse than that of the same rows as float64 in memory, or None."""
    if actual.fault or reference.fault:
        return actual.fault or f"in memory: {reference.fault}"
    if container in MUST_BE_REFUSED and actual.error is None:
        return "taken"
    if container in ODD or (name, container) == ("TreePCA", "objects") or (actual.error and name in DENSE):
        return None
    if (actual.error is None) != (reference.error is None):
        return f"{actual.error!r:.200}, but float64 in memory {reference.error!r:.200}"
    if actual.error is not None or values not in EASY:
        return None
    rough = {"float16": 5e-3, "float32": 1e-3, "float32 csr": 1e-3}.get(container, 1e-6)
    return differs(actual.value, reference.value, tolerance=rough)


def seeded(case, **parameters):
    model = case.make(**parameters)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


def odd_rows(rng):
    """Rows of odd values in an odd container; the reference is the same in float64 in memory."""
    name, case = pick(rng, ROWS)
    good, y = case.data()
    good = np.asarray(good.toarray() if sparse.issparse(good) else good, dtype=float)
    values, container, X, given = drawn(rng, name, good)
    fits = rng.random() < 0.7
    model = None if fits else seeded(case).fit(good, y)

    def result(rows):
        fitted = seeded(case).fit(rows, None if y is None else y[: len(X)]) if fits else model
        return case.result(fitted, rows)

    fault = None
    if (name, container) not in NOT_OURS:
        fault = compared(name, values, container, outcome(lambda: result(given)), outcome(lambda: result(X)))
    return f"{name}.{'fit' if fits else 'result'}: {values}, {container}", fault


def odd_labels(rng):
    """Labels of an odd kind for an estimator that takes them."""
    name, case = pick(rng, {name: case for name, case in ROWS.items() if case.data()[1] is not None})
    X, y = case.data()
    same, is_lazy = rng.random(2) < 0.5
    labels, given = pick(rng, (same_labels if same else other_labels)(y))
    described = f"{name}.fit labels: {labels}, {'lazy rows' if is_lazy else 'rows in memory'}"
    rows = da.from_array(X.toarray(), chunks=(7, -1)) if is_lazy else X
    actual = outcome(lambda: case.result(seeded(case).fit(rows, given), X))
    if labels in MUST_BE_REFUSED and actual.error is None:
        return described, "taken, though labels are missing"
    if actual.fault or not (is_lazy or same):
        return described, actual.fault
    reference = outcome(lambda: case.result(seeded(case).fit(X, y if same else given), X))
    if (actual.error is None) != (reference.error is None):
        return described, f"{actual.error!r:.200}, in memory {reference.error!r:.200}"
    return described, differs(actual.value, reference.value, tolerance=1e-6) if actual.error is None else None


ODD_TEXTS = ["", " ", "\0", "a\0b", "\ud800", "\ufeff", "\u200b\u200d", "\U0001f600" * 9, "ΑΣ", "İ", "ß", "a\nb", "\r",
             "x" * 5000, "e\u0301", "\u202e", "ﬁ", "\udfff lone", "1 2", "the the", "\x85", "\u2028"]  # fmt: skip


def texts(rng, X):
    words = [str(x) for x in X]
    return {
        "odd": [ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=len(X))],
        "empty": [],
        "all empty": [""] * len(X),
        "one": X[:1],
        "equal": X[:1] * len(X),
        "nones": [*X[:-1], None],
        "numbers": [*X[:-1], 3],
        "nan": [*X[:-1], float("nan")],
        "bytes": [word.encode() for word in words],
        "bad bytes": [b"\xff\xfe", *X[1:]],
        "a string": "the cat",
        "dict": {"a": X},
        "nested": [[x] for x in X],
        "more nested": [[[x]] for x in X],
        "array": np.array(words),
        "objects": np.array([*words, None], dtype=object),
        "series with NA": pd.Series([*words, pd.NA], dtype="string"),
        "frame": pd.DataFrame({"a": words}),
        "matrix": np.zeros((len(X), 3)),
        "bag": db.from_sequence(X, npartitions=2),
        "lists of nothing": [[] for _ in X],
        "lists of one": [["the"] for _ in X],
        "lists of odd": [[ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=4)] for _ in X],
        "lists of numbers": [[1, 2, 3] for _ in X],
        "lists of nones": [[None, "a"] for _ in X],
        "arrays": [np.arange(3) for _ in X],
        "longer": [*X, *X],
        "generator": iter(X),
    }


def odd_texts(rng):
    """Odd texts or sentences, for fit or for what a fitted model makes of them."""
    name, case = pick(rng, {name: case for name, case in CASES.items() if case.kind != "rows"})
    X, y = case.data()
    fits, is_tags = rng.random() < 0.6, case.kind == "tagged" and rng.random() < 0.5
    kind, odd = pick(rng, texts(rng, y if is_tags else X))
    given = (X, odd) if is_tags else (odd, y)
    model = seeded(case) if fits else seeded(case).fit(X, y)
    actual = outcome(lambda: case.result(model.fit(*given), X) if fits else case.result(model, given[0]))
    return f"{name}.{'fit' if fits else 'result'}: {'tags' if is_tags else 'texts'} {kind}", actual.fault


DRAWS = [odd_rows] * 4 + [odd_labels, odd_texts] * 2


def faults(numbers, seed=2026):
    """Yield what is wrong with the cases of a seed, those of some numbers."""
    for number in numbers:
        described, fault = DRAWS[number % len(DRAWS)](np.random.default_rng([seed, number]))
        if fault:
            yield f"{number}: {described}: {fault}"
