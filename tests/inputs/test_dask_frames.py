"""A Dask DataFrame of numbers is rows like any other: read by partitions, and never whole."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

from dspectral import NgramHashing, SketchedPCA, TextFiles, TfidfWeighting, TruncatedSVD, build_store

RNG = np.random.default_rng(0)
VALUES = RNG.poisson(1.0, (30, 4)).astype(float)
PANDAS = pd.DataFrame(VALUES, columns=list("abcd"))


def frame(**columns):
    return dd.from_pandas(PANDAS.assign(**columns), npartitions=3)


@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_a_dask_frame_is_fitted_and_transformed_lazily(solver):
    model = SketchedPCA(2, solver=solver, n_passes=2).fit(frame())
    expected = SketchedPCA(2, solver=solver, n_passes=2).fit(da.from_array(VALUES, chunks=((10, 10, 10), 4)))
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.feature_names_in_.tolist() == list("abcd")
    rows = model.transform(frame())
    assert isinstance(rows, da.Array)
    assert rows.chunks[0] == (10, 10, 10)
    np.testing.assert_array_equal(rows.compute(), model.transform(PANDAS))
    back = dd.from_pandas(pd.DataFrame(rows.compute()), npartitions=2)
    assert isinstance(model.inverse_transform(back), da.Array)


def test_partitions_are_read_one_by_one():
    held = []

    def noted(part):
        held.append(len(part))
        return part

    source = frame().map_partitions(noted, meta=PANDAS)
    TruncatedSVD(2, solver="gram").fit(source)
    assert max(held) <= 10
    assert held.count(10) == 6  # once to count the rows, once to read them


def test_partitions_without_rows_are_left_out():
    whole = frame()
    rows = whole.map_partitions(lambda part: part[part.index >= 10])
    assert rows.npartitions == 3
    assert TruncatedSVD(2).fit(rows).transform(rows).chunks[0] == (10, 10)


def test_columns_that_are_no_numbers_are_named():
    texts = frame(text=["a"] * 30)
    for use in (SketchedPCA(2).fit, TfidfWeighting().fit):
        with pytest.raises(TypeError, match=r"column\(s\) 'text' \(.*\) hold no plain numbers"):
            use(texts)


def test_columns_in_another_order_are_refused():
    model = SketchedPCA(2).fit(frame())
    with pytest.raises(
        ValueError, match="the columns of X are b, a, c, d, but SketchedPCA was fitted on a, b"
    ):
        model.transform(frame()[["b", "a", "c", "d"]])


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_a_container_is_for_dense_results_in_memory(tmp_path, container):
    """One rule: sparse rows stay sparse and lazy rows lazy, whoever makes them."""
    path = tmp_path / "a.txt"
    path.write_text("the cat sat\nthe dog\na cat\n")
    store = build_store(str(path), str(tmp_path / "s"), hashing=NgramHashing(16))
    weigh = TfidfWeighting().set_output(transform=container).fit(store)
    svd = TruncatedSVD(1).set_output(transform=container).fit(store)
    assert isinstance(weigh.transform(store), da.Array)
    for rows in (store, store.counts, frame_of(store)):
        assert isinstance(svd.transform(rows), da.Array)
    model = make_pipeline(NgramHashing(16), TfidfWeighting(), TruncatedSVD(1)).set_output(transform=container)
    assert isinstance(model.fit(TextFiles(path)).transform(TextFiles(path)), da.Array)
    assert isinstance(model.transform(dd.from_pandas(pd.Series(["a cat"]), npartitions=1)), da.Array)
    assert type(model.transform(["a cat"])).__module__.startswith(container)
    assert sparse.issparse(model[:-1].transform(["a cat"]))


def frame_of(store):
    return dd.from_pandas(pd.DataFrame(store.counts.compute().toarray()), npartitions=2)
