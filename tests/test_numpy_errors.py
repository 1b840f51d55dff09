"""Errors of NumPy that a user has asked for (``np.seterr(all="raise")``) end no estimator."""

import dask
import numpy as np
import pytest

from tests.contracts import CASES
from tests.test_contracts import as_array

ROWS = [name for name, case in CASES.items() if case.kind == "rows"]
METHODS = ("transform", "predict", "predict_proba", "decision_function", "inverse_transform", "score")


def run(name, X, y):
    model = CASES[name].make()
    model = model.fit(X) if y is None else model.fit(X, y)
    found = {"result": as_array(CASES[name].result(model, X))}
    for method in METHODS:
        if hasattr(model, method):
            given = found["transform"] if method == "inverse_transform" else X
            try:
                value = getattr(model, method)(given, *([y] if method == "score" and y is not None else []))
            except (TypeError, ValueError, NotImplementedError):
                continue
            found[method] = as_array(value)
    return found


def assert_same_with_errors_raised(name, X, y):
    with dask.config.set(scheduler="sync"):  # blocks are computed in this thread, where NumPy's setting holds
        known = run(name, X, y)
        with np.errstate(all="raise"):
            found = run(name, X, y)
    assert known.keys() == found.keys()
    for method, values in known.items():
        np.testing.assert_array_equal(values, found[method])


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_fits_and_predicts_where_numpy_raises(name):
    assert_same_with_errors_raised(name, *CASES[name].data())
