"""Rows that a pass cannot take are refused in a sentence, and errors name their block."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, summarize
from dspectral.decomposition.moments import Moments
from dspectral.engine import (
    map_rows,
)
from tests.engine.blocks import N_COLUMNS, lazy, one_by_one, unreadable


def test_rows_of_one_dimension_are_refused():
    for use in (partial(summarize, summarize_block=Moments.from_block), partial(map_rows, function=abs, n_columns=4)):
        with pytest.raises(ValueError, match="1 dimension"):
            use(np.ones(3))


@pytest.mark.parametrize(
    ("X", "more", "error", "text"),
    [
        ([[1.0]], {}, TypeError, "X is a list"),
        (np.ones((2, 2)), {"fan_in": 1}, ValueError, "fan_in.*1"),
    ],
)
def test_what_is_no_array_and_no_fan_in_is_refused(X, more, error, text):
    with pytest.raises(error, match=text):
        summarize(X, summarize_block=Moments.from_block, **more)


def test_streams_cut_differently_are_refused():
    with pytest.raises(ValueError, match=r"4 blocks of 4.*2 blocks of 4"):
        summarize(one_by_one(4), one_by_one(4).rechunk((2, 2)), summarize_block=Moments.from_block)


def test_other_widths_are_refused_before_anything_is_read():
    fitted = SketchedPCA(2).fit(np.eye(7))
    for use in (fitted.transform, fitted.partial_fit):
        with pytest.raises(ValueError, match=f"X has {N_COLUMNS} features, .* expecting 7 features"):
            use(lazy(unreadable))


@pytest.mark.parametrize("make", [sparse.csr_array, np.asarray])
def test_an_error_in_a_block_begins_with_its_number(make):
    def read(block):
        return make([[1.0, np.nan if block == 2 else 2.0]])

    X = lazy(read, (1,) * 4, 2, np.float64)
    message = "row block 2: row 0, column 1 is nan, but every entry must be finite"
    for solver in ("frequent_directions", "gram", "nystrom", "krylov"):
        with pytest.raises(ValueError, match=message):
            SketchedPCA(1, solver=solver).fit(X)
    with pytest.raises(ValueError, match="row block 2"):
        map_rows(X, partial(refuse_nan), n_columns=2).compute()


def refuse_nan(rows):
    if np.isnan(rows.sum()):
        raise ValueError("no")
    return rows
