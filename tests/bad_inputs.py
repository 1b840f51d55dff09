"""The law of bad input: estimators, containers, labels, values and parameters drawn at random, held against an oracle.

Whatever is drawn ends in the result of the same numbers as float64 in memory, or in one sentence, and soon.
``python -m tests.bad_inputs 3000`` tries so many and prints those that do not; a second number is the
seed, a third the first case.
"""

import dis
import enum
import faulthandler
import signal
import sys
import traceback
import warnings
from typing import Any, NamedTuple

import dask.array as da
import dask.bag as db
import numpy as np
import pandas as pd
from scipy import sparse

from dspectral import Texts, VocabularySettings, build_corpus, build_store
from tests.contracts import CASES

LONGEST_SENTENCE = 800
NOT_FINITE = "the result holds NaN or infinity, and nothing was said"
RAISES = ("RAISE_VARARGS", "RERAISE")
HOMES = ("/dspectral/",)
VALIDATION = ("/sklearn/",)


class Outcome(NamedTuple):
    """What a call ended in: its result, what it raised, and what is wrong with how it ended."""

    value: Any
    error: Exception | None
    fault: str | None


def outcome(call, *, allowed=(ValueError, TypeError)):
    """Call a function of no arguments and judge how it ends."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = call()
        except Exception as error:  # noqa: BLE001  whatever it raises is judged
            return Outcome(None, error, fault_of(error, allowed))
    odd = [w for w in told if issubclass(w.category, RuntimeWarning) and not ours(w)]
    if odd:
        return Outcome(value, None, f"RuntimeWarning: {odd[0].message} ({odd[0].filename}:{odd[0].lineno})")
    return Outcome(value, None, not_finite(value))


def ours(warning):
    """Whether a warning is a sentence of this library rather than one of a computation that went wrong."""
    return not any(word in str(warning.message) for word in ("encountered", "invalid value", "Mean of empty"))


def fault_of(error, allowed):
    """Return what is wrong with an error, or None for one sentence that somebody wrote for this case."""
    kind, text = type(error), str(error)
    where = innermost(error)
    shown = f"{kind.__name__}: {text[:200]} at {where[0]}:{where[1]}"
    if not isinstance(error, allowed):
        return f"not a sentence: {shown}"
    file, _, raised = where
    long = len(text) > LONGEST_SENTENCE and not any(home in file for home in VALIDATION)  # which shows arrays
    if not text or long or "Traceback" in text:
        return f"no sentence: {shown}"
    if "/sklearn/utils/" in find_files(error):  # scikit-learn hands on what pandas says of its own tables
        return None
    if any(home in file for home in VALIDATION) or (raised and any(home in file for home in HOMES)):
        return None
    return f"raw error: {shown}"


def find_files(error):
    """Return the files behind the last frame of this library."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    last = max((i for i, file in enumerate(files) if any(home in file for home in HOMES)), default=-1)
    return " ".join(files[last + 1 :])


def innermost(error):
    """Return the file and line that raised, and whether a ``raise`` stands there."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    code = step.tb_frame.f_code
    by_place = {one.offset: one.opname for one in dis.get_instructions(code)}
    return code.co_filename, step.tb_lineno, by_place.get(step.tb_lasti, "") in RAISES


def not_finite(value):
    """Return a fault if numbers of a result are NaN or infinite, or None."""
    for array in arrays(value):
        if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
            return NOT_FINITE
    return None


def arrays(value):
    """Yield the arrays of numbers in a result."""
    if hasattr(value, "compute"):
        value = value.compute()
    if sparse.issparse(value):
        yield value.data
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, float | np.floating):
        yield np.asarray(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from arrays(one)


def dense(value):
    """Return a result as an array in memory."""
    if hasattr(value, "compute"):
        value = value.compute()
    return value.toarray() if sparse.issparse(value) else np.asarray(value)


def differs(ours_, reference, *, tolerance):
    """Return how two results differ, or None."""
    a, b = dense(ours_), dense(reference)
    if a.shape != b.shape:
        return f"shape {a.shape}, but the reference has {b.shape}"
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None if a.tolist() == b.tolist() else "other values than the reference"
    scale = np.abs(b).max(initial=0.0)
    error = np.abs(a.astype(float) - b.astype(float)).max(initial=0.0)
    return None if error <= tolerance * max(scale, 1e-300) else f"off by {error:.3g} of {scale:.3g}"


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
    "large": lambda rng, X: X * 2.0**40,
    "small": lambda rng, X: X * 2.0**-45,
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
EASY = {"as they are", "whole", "empty row", "large", "small"}


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


def roomy(rng, X):
    """CSR with room behind its last row, in which something lies."""
    csr = sparse.csr_array(X)
    csr.data, csr.indices = np.append(csr.data, [1e9] * 3), np.append(csr.indices, [0, 0, 1]).astype(np.int32)
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
    "read only": lambda rng, X: np.frombuffer(np.ascontiguousarray(X, dtype=float).tobytes()).reshape(X.shape),
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
    "roomy csr": roomy,
    "float32": cast("float32"),
    "float32 csr": lambda rng, X: sparse.csr_array(X.astype("float32")),
    "lazy": lazily(lambda X, n: da.from_array(X, chunks=(n, -1))),
    "lazy sparse": lazily(sparse_blocks),
    "lazy csc": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(sparse.csc_array, meta=sparse.csc_array((0, 0)))
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
    "lying rows": lazily(lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: b[:0], dtype=float)),
    "lying dtype": lazily(
        lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: b.astype(str), dtype=float)
    ),
    "failing": lazily(lambda X, n: da.from_array(X, chunks=(n, -1)).map_blocks(lambda b: "no rows", dtype=float)),
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


NAMES = [name for name, case in CASES.items() if case.kind == "rows"]


DENSE = ("VectorQuantizer", "TreePCA")
"""Estimators that refuse sparse or lazy rows."""
NOT_OURS = {("LocalLSI", lie) for lie in ("lying rows", "lying meta", "lying dtype", "failing")}
"""Dask's own indexing, which gathers the rows of regions, meets these blocks before this library does."""


def same_labels(rng, y):
    """The same labels in other containers, which must change nothing."""
    return {
        "list": y.tolist(),
        "column": y[:, None] if y.ndim == 1 else y,
        "frame": pd.DataFrame(y),
        "objects": y.astype(object) if y.ndim == 1 else y,
        "series": pd.Series(y) if y.ndim == 1 else y,
        "categories": pd.Series(pd.Categorical(y)) if y.ndim == 1 else y,
        "members": [enum.StrEnum("Kind", {v: v for v in y})(v) for v in y] if y.ndim == 1 else y,
        "sparse": sparse.csr_array(y) if y.ndim == 2 else y,
    }


def other_labels(rng, y):
    return {
        "one is NaN": [*y[:-1].tolist(), float("nan")],
        "one is NA": pd.Series([*y[:-1].tolist(), pd.NA], dtype=object),
        "masked": np.ma.array(y, mask=np.arange(y.size).reshape(y.shape) == 1),
        "none": None,
        "short": y[:-1],
        "long": np.concatenate([y, y[:1]]),
        "one class": np.zeros(len(y), dtype=int),
        "floats": np.linspace(0, 1, len(y)),
        "nans": np.full(len(y), np.nan),
        "nones": np.full(len(y), None),
        "mixed": np.array([1, "a"] * len(y), dtype=object)[: len(y)],
        "dicts": [{} for _ in y],
        "tuples": [(1, 2) for _ in y],
        "sets": [{1} for _ in y],
        "cube": np.zeros((len(y), 2, 2)),
        "string": "labels",
        "number": 3,
        "complex": np.zeros(len(y), dtype=complex) + 1j,
        "every one its own": np.arange(len(y)),
        "lazy": da.from_array(np.zeros(len(y), dtype=int), chunks=3),
        "indicator": np.eye(2)[np.arange(len(y)) % 2],
        "column": (np.arange(len(y)) % 2)[:, None],
        "empty indicator": np.zeros((len(y), 3)),
        "indicator of no label": np.zeros((len(y), 0)),
        "nan indicator": np.full((len(y), 2), np.nan),
        "dates": np.arange(len(y)).astype("datetime64[D]"),
        "categories": pd.Series(pd.Categorical(["a", "b"] * len(y)))[: len(y)],
        "bytes": np.array([b"a", b"b"])[np.arange(len(y)) % 2],
        "bools": np.arange(len(y)) % 2 == 0,
        "sparse": sparse.csr_array(np.eye(2)[np.arange(len(y)) % 2]),
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
    of_container, container = pick(rng, containers)
    given = container(rng, X)
    # A negative number is a large one as uint8, a huge one infinity as float32: the reference is given the same.
    if of_container.startswith("float") and not np.array_equal(
        np.isfinite(rounded := X.astype(of_container.split()[0])) * np.sign(rounded), np.sign(X)
    ):
        X = rounded.astype(float)
    return of_values, of_container, given.astype(float) if of_container in WHOLE[:8] else X, given


def compared(name, kinds, found, reference):
    """Return how the outcome of odd rows is worse than that of the same rows as float64 in memory, or None."""
    of_values, of_container = kinds
    for one, what in ((found, ""), (reference, "in memory: ")):
        if one.fault:
            return what + one.fault
    of_tokens = name == "TreePCA" and of_container == "objects"
    if of_container in ODD or of_tokens or (found.error is not None and name in DENSE):
        return None
    if found.error is not None and reference.error is None:
        return f"refused, where float64 in memory is not: {found.error}"
    if found.error is None and reference.error is not None:
        return f"taken, where float64 in memory is refused: {reference.error}"
    if found.error is not None or of_values not in EASY:
        return None
    rough = {"float16": 5e-3, "float32": 1e-3, "float32 csr": 1e-3}.get(of_container, 1e-6)
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


MUST_BE_REFUSED = {"one is NaN", "one is NA", "masked", "nans", "complex"}


def odd_labels(rng):
    """Labels of an odd kind for an estimator that takes them."""
    names = [name for name in NAMES if CASES[name].data()[1] is not None]
    name = names[rng.integers(len(names))]
    case = CASES[name]
    X, y = case.data()
    same = rng.random() < 0.5
    of_labels, given = pick(rng, (same_labels if same else other_labels)(rng, y))
    lazily_ = rng.random() < 0.5
    rows = da.from_array(X.toarray(), chunks=(7, -1)) if lazily_ else X

    def run():
        found = outcome(lambda: measured(case.make(**seeded(case)).fit(rows, given), case, X))
        if not found.fault and of_labels in MUST_BE_REFUSED and found.error is None:
            return "taken, though labels are missing"
        if found.fault or not (lazily_ or same):
            return found.fault
        known = y if same else given
        reference = outcome(lambda: measured(case.make(**seeded(case)).fit(X, known), case, X))
        if (found.error is None) != (reference.error is None):
            return f"lazily {found.error!r:.200}, in memory {reference.error!r:.200}"
        return differs(found.value, reference.value, tolerance=1e-6) if found.error is None else None

    return f"{name}.fit labels: {of_labels}, {'lazy rows' if lazily_ else 'rows in memory'}", run


WRONG = [
    None, -1, 0, 1, 2.5, 10**6, 10**30, "x", "", b"x", np.nan, np.inf, -np.inf, True, [], (), {}, set(), [1], (1,),
    (1, 2), (2, 1), (0, 0), ("a", "b"), np.array([1, 2]), np.array(3), np.float32(0.5), np.int8(3), 1e-300, 1e300, 1j,
    object(), len, int, "auto", 2**63, lambda: 0,
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
    if "iter" in parameter and value == 10**6:  # which is done, however long it takes
        value = 10**30
    X, y = case.data()

    def run():
        def fitted():
            model.set_params(**{parameter: value}).fit(X, y)
            return case.result(model, X)

        return outcome(fitted).fault

    return f"{name}({parameter}={value!r:.40})", run


ODD_TEXTS = ["", " ", "\0", "a\0b", "\ud800", "\ufeff", "\u200b\u200d", "\U0001f600" * 9, "ΑΣ", "İ", "ß", "a\nb", "\r",
             "x" * 5000, "e\u0301", "\u202e", "ﬁ", "\udfff lone", "1 2", "the the", "\x85", "\u2028"]  # fmt: skip


def texts(rng, X):
    return {
        "odd": [ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=len(X))],
        "one odd": [*X[:-1], ODD_TEXTS[rng.integers(len(ODD_TEXTS))]],
        "empty": [],
        "all empty": [""] * len(X),
        "one": X[:1],
        "equal": X[:1] * len(X),
        "nones": [*X[:-1], None],
        "numbers": [*X[:-1], 3],
        "nan": [*X[:-1], float("nan")],
        "bytes": [str(x).encode() for x in X],
        "bad bytes": [b"\xff\xfe", *X[1:]],
        "a string": "the cat",
        "none": None,
        "number": 3,
        "dict": {"a": X},
        "set": {str(x) for x in X},
        "nested": [[x] for x in X],
        "more nested": [[[x]] for x in X],
        "array": np.array([str(x) for x in X]),
        "objects": np.array([*X[:-1], None], dtype=object) if isinstance(X[0], str) else np.empty(3, object),
        "table": np.array([[str(x)] for x in X]),
        "series": pd.Series([str(x) for x in X]),
        "series with NA": pd.Series([str(x) for x in X[:-1]] + [pd.NA], dtype="string"),
        "frame": pd.DataFrame({"a": [str(x) for x in X]}),
        "matrix": np.zeros((len(X), 3)),
        "bag": db.from_sequence(X, npartitions=2),
        "bag of numbers": db.from_sequence(range(len(X)), npartitions=2),
        "object": object(),
        "tuples": [tuple(x) for x in X],
        "lists of nothing": [[] for _ in X],
        "lists of one": [["the"] for _ in X],
        "lists of odd": [[ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=4)] for _ in X],
        "lists of numbers": [[1, 2, 3] for _ in X],
        "lists of nones": [[None, "a"] for _ in X],
        "lists of nan": [[float("nan"), 1.5] for _ in X],
        "lists of lists": [[["a"], ["b"]] for _ in X],
        "lists of dicts": [[{}, {}] for _ in X],
        "arrays": [np.arange(3) for _ in X],
        "longer": [*X, *X],
        "shorter": X[:-1],
        "generator": (x for x in X),
    }


def odd_texts(rng):
    """Odd texts or sentences, for fit or for what a fitted model makes of them."""
    names = [name for name, case in CASES.items() if case.kind != "rows"]
    name = names[rng.integers(len(names))]
    case = CASES[name]
    X, y = case.data()
    fits, of_labels = rng.random() < 0.6, case.kind == "tagged" and rng.random() < 0.5
    of_texts, odd = pick(rng, texts(rng, y if of_labels else X))
    given = (X, odd) if of_labels else (odd, y)

    def run():
        if fits:
            return outcome(lambda: case.result(case.make(**seeded(case)).fit(*given), X)).fault
        model = case.make(**seeded(case)).fit(X, y)
        return outcome(lambda: case.result(model, given[0])).fault

    return f"{name}.{'fit' if fits else 'result'}: {'tags' if of_labels else 'texts'} {of_texts}", run


def odd_store(rng):
    """A store or a corpus of odd texts, with an odd parameter now and then."""
    X, _ = CASES["NgramHashing"].data()
    of_texts, given = pick(rng, texts(rng, X))
    number = int(rng.integers(2**60))
    parameters, shown = {}, ""
    if rng.random() < 0.4:
        parameter = ["unit", "field", "encoding", "delimiter", "block_bytes", "errors", "max_document_bytes",
                     "long_documents"][rng.integers(8)]  # fmt: skip
        value = [None, 0, -1, 2.5, "x", "", b"x", True, [], {}, float("nan"), 10**30, "line"][rng.integers(13)]
        parameters, shown = {parameter: value}, f", {parameter}={value!r}"
    build, of_build = [
        (build_store, {}),
        (build_corpus, {}),
        (build_store, {"vocabulary": VocabularySettings()}),
        (build_store, {"keep_terms": 5}),
    ][rng.integers(4)]
    wraps = rng.random() < 0.6

    def run():
        found = outcome(
            lambda: build(Texts(given) if wraps else given, f"memory://bad-{number}", **of_build, **parameters),
            allowed=(ValueError, TypeError, FileNotFoundError),
        )
        return found.fault

    return f"{build.__name__}({'Texts' if wraps else ''}, {list(of_build)}): {of_texts}{shown}", run


FAMILIES = {
    "rows": (odd_rows, 4),
    "labels": (odd_labels, 2),
    "parameters": (odd_parameter, 2),
    "texts": (odd_texts, 2),
    "stores": (odd_store, 1),
}
"""What is drawn of each kind, and how many of eleven."""
DRAWS = [draw for draw, share in FAMILIES.values() for _ in range(share)]
SECONDS = 30
"""How long a case may take by the command; in the tests, which other processes may slow, four times as long."""


class Waits(BaseException):
    """A case has not ended in time."""


def wait_is_over(*_):
    raise Waits


def faults(numbers, seed=2026, *, seconds=4 * SECONDS, begun=lambda number: None):
    """Yield what is wrong with the cases of a seed, those of some numbers; each is told before it begins."""
    before = signal.signal(signal.SIGALRM, wait_is_over)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            begun(number)
            described, run = DRAWS[number % len(DRAWS)](np.random.default_rng([seed, number]))
            signal.alarm(seconds)
            try:
                fault = run()
            except Waits:
                fault = f"not over after {seconds} seconds"
            finally:
                signal.alarm(0)
            if fault:
                yield f"{number}: {described}: {fault}"
    signal.signal(signal.SIGALRM, before)


def main(n_cases, seed=2026, first=0):
    """Try cases of a seed; print what is wrong, and end with 1 if something is.

    A compiled loop without end, which hears no alarm, ends the process with the number of its case, as a crash does.
    """

    def begun(number):
        sys.stderr.write(f"\r{number}")
        faulthandler.dump_traceback_later(4 * SECONDS, exit=True)

    faulthandler.enable()
    n_found = 0
    for one in faults(range(first, first + n_cases), seed, seconds=SECONDS, begun=begun):
        n_found += 1
        print(f"\r{one}", flush=True)  # noqa: T201
    faulthandler.cancel_dump_traceback_later()
    print(f"\r{n_found} of {n_cases} end wrong")  # noqa: T201
    return n_found > 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
