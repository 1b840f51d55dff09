"""Labels at the door: those that would be taken for others give one sentence."""

import dask
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dspectral.inputs import labelled_streams
from dspectral.inputs.labels import class_rows


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, lambda y: np.array(y, dtype=object)])
@pytest.mark.parametrize("labels", [["b", "a", "b"], [2, 1, 2], [True, False, True]])
def test_labels_of_every_kind_give_the_same_indicator(make, labels):
    found = class_rows(make(labels), 3)
    assert found.indicator.toarray().tolist() == [[0, 1], [1, 0], [0, 1]]
    assert found.classes.tolist() == sorted(set(labels))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            pd.Series(["a", np.nan, "b"], dtype=object),
            "a class is NaN or infinity: a document without a class has",
        ),
        ([1.0, np.nan, 2.0], "a class is NaN or infinity"),
        (np.array([1, "1", 2], dtype=object), "classes are numbers and strings at once"),
        ([None, None, None], "no document has a class"),
        (["a"], "there are classes for 1 documents, but X has 3"),
    ],
)
def test_labels_that_would_be_taken_for_others_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        class_rows(labels, 3)


def test_lazy_labels_that_are_no_dask_array_are_not_read():
    y = dask.delayed(np.eye(3))
    for use in (lambda: class_rows(y, 3), lambda: labelled_streams(np.eye(3), y)):
        with pytest.raises(TypeError, match=r"y is a lazy Delayed.*, but rows must be a Dask array"):
            use()


def test_rows_and_labels_in_memory_are_cut_alike():
    streams = labelled_streams(sparse.csr_array(np.eye(3, dtype=np.float32)), np.ones((3, 2), dtype=int))
    assert streams.dtype == np.float32
    assert [len(streams.words.items), len(streams.labels.items)] == [1, 1]
    assert streams.labels.read(streams.labels.items[0]).shape == (3, 2)
