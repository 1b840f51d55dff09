"""Odd rows for the estimators that take a matrix: the result of the same rows as float64 in memory, or a sentence."""

import dask.array as da
import numpy as np
import pandas as pd
from scipy import sparse

from tests.bad_inputs.containers import EASY, ODD, SAME, VALUES, WHOLE, cast
from tests.bad_inputs.judging import differs, outcome
from tests.contracts import CASES

NAMES = [name for name, case in CASES.items() if case.kind == "rows"]


DENSE = ("VectorQuantizer", "TreePCA")
"""Estimators that refuse sparse or lazy rows."""
NOT_OURS = {("LocalLSI", lie) for lie in ("lying rows", "lying meta", "lying dtype", "failing")}
"""Dask's own indexing, which gathers the rows of regions, meets these blocks before this library does."""

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
