"""Rows at the door: lazily, in memory or in frames, of every type, the same result or the same sentence."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse
from sklearn.pipeline import make_pipeline

from dspectral import (
    NgramHashing,
    SketchedPCA,
    TextFiles,
    TfidfWeighting,
    TruncatedSVD,
    build_store,
)
from dspectral.decomposition.moments import Moments
from dspectral.engine import as_dask_rows, summarize
from dspectral.inputs import validate_rows

COUNTS = np.random.default_rng(0).poisson(1.0, (12, 5))
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
KINDS = {
    "array": np.asarray,
    "Fortran order": np.asfortranarray,
    "nested list": lambda X: X.tolist(),
    "DataFrame": pd.DataFrame,
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
    "coo_array": sparse.coo_array,
    "Dask": lambda X: da.from_array(X, chunks=(5, -1)),
    "Dask of csr_matrix": lambda X: da.from_array(X, chunks=(5, -1)).map_blocks(sparse.csr_matrix),
    "Dask of csc_array": lambda X: da.from_array(X, chunks=(5, -1)).map_blocks(sparse.csc_array),
    "Dask of numpy.matrix": lambda X: da.from_array(X, chunks=(5, -1)).map_blocks(np.asmatrix, meta=X[:0]),
}


def door(X, **how):
    return validate_rows(SketchedPCA(), X, **{"reset": True, **how})


@pytest.mark.parametrize("dtype", ["bool", "int64", ">f4", "float64", "longdouble"])
def test_every_kind_of_rows_gives_the_same_components_lazily_and_in_memory(dtype):
    X = COUNTS.astype(dtype)
    expected = TruncatedSVD(3).fit(X.astype("float64"))
    for kind, make in KINDS.items():
        if dtype == ">f4" and ("cs" in kind or "coo" in kind):
            continue  # SciPy has no such matrices
        actual = TruncatedSVD(3).fit(make(X))
        assert actual.components_.dtype == expected.components_.dtype
        np.testing.assert_allclose(actual.components_, expected.components_, atol=1e-5)
        np.testing.assert_allclose(np.asarray(actual.transform(make(X))), expected.transform(X), atol=1e-4)


MASKED = np.ma.masked_greater(COUNTS.astype(float), 2)
NOT_REAL = {
    "complex64": "X.*complex64",
    "M8[s]": r"X.*datetime64\[s\]",
    "m8[s]": r"X.*timedelta64\[s\]",
    "U3": "X.*<U3",
}
REFUSED = [
    *(
        (make(COUNTS.astype(dtype)), ValueError, said)
        for dtype, said in NOT_REAL.items()
        for make in (np.asarray, da.from_array)
    ),
    (da.from_array(COUNTS.astype(object), chunks=(5, -1)), ValueError, "X.*object"),
    (MASKED, ValueError, "masked"),
    *(
        (make(shape), ValueError, rf"0 {what}.*shape=")
        for shape, what in (((0, 5), "sample"), ((5, 0), "feature"))
        for make in (np.ones, da.ones)
    ),
]


@pytest.mark.parametrize(("rows", "error", "message"), REFUSED)
def test_what_are_no_rows_of_numbers_is_refused_in_the_same_words_lazily(rows, error, message):
    with pytest.raises(error, match=message):
        door(rows)


def test_repeated_entries_of_sparse_rows_add_up():
    once = sparse.csr_array(np.array([[3.0, 0, 4], [0, 2, 0]]))
    twice = sparse.csr_array(([1.0, 2, 4, 2], [0, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    before = twice.data.copy()
    lazy = da.from_array(np.zeros((2, 3)), chunks=(2, 3)).map_blocks(lambda _: twice, meta=sparse.csr_array((0, 0)))
    for rows in (twice, lazy):
        actual = TruncatedSVD(2, solver="krylov", sketch_size=3).fit(rows)
        assert actual.energy_ == pytest.approx(29.0)
        np.testing.assert_allclose(actual.singular_values_, [5, 2])
        np.testing.assert_allclose(np.asarray(actual.transform(rows)), actual.transform(once))
    np.testing.assert_array_equal(twice.data, before)


def wrong_blocks(make, *, dtype=float):
    """Four blocks of five rows, the third of them another than the array says."""
    array = da.ones((20, 3), chunks=(5, 3), dtype=dtype)
    return array.map_blocks(
        lambda block, block_id: make(block) if block_id[0] == 2 else block,
        dtype=dtype,
        meta=np.ones((0, 0), dtype),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda block: block[:4], r"\(4, 3\).*\(5, 3\)"),
        (lambda block: block[:, :2], r"\(5, 2\).*\(5, 3\)"),
        (lambda block: block.astype("float32"), "float32.*float64"),
        (lambda block: sparse.csr_array(block[:4]), r"\(4, 3\)"),
        (lambda block: block.tolist(), "list.*ndarray"),
    ],
)
def test_a_block_that_is_not_what_its_array_says_is_named(make, message):
    X = wrong_blocks(make)
    for solver in ("frequent_directions", "gram", "krylov"):
        with pytest.raises(ValueError, match=f"^row block 2: .*{message}"):
            SketchedPCA(1, solver=solver).fit(X)
    fitted = SketchedPCA(1).fit(np.random.default_rng(0).standard_normal((9, 3)))
    with pytest.raises(ValueError, match=f"^row block 2: .*{message}"):
        fitted.transform(X).compute()
    with pytest.raises(ValueError, match=f"^row block 2: .*{message}"):
        summarize(X, summarize_block=Moments.from_block)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_transform_names_the_place_of_a_number_that_is_not_finite(value):
    X = COUNTS.astype(float)
    fitted = SketchedPCA(1).fit(X)
    X[7, 3] = value
    for make in (np.asarray, sparse.csr_array):
        lazy = da.from_array(X, chunks=(5, -1)).map_blocks(make)
        with pytest.raises(ValueError, match=f"row block 1: row 2, column 3.*{value}"):
            fitted.transform(lazy).compute()
        with pytest.raises(ValueError, match="Input X contains"):
            fitted.transform(make(X))
    large = np.full((2, 5), 1e308)  # their sum overflows, but each is finite
    assert np.isfinite(fitted.transform(da.from_array(large) * [1, 0, 0, 0, 0]).compute()).all()


@pytest.mark.parametrize("container", ["zarr", "h5py", "contiguous"])
def test_an_array_of_zarr_or_h5py_is_read_by_blocks(container, tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(90, 7)).astype(np.float32)
    if container == "zarr":
        array = zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(20, 4))
    else:
        array = (
            pytest.importorskip("h5py")
            .File(tmp_path / "rows.h5", "w")
            .create_dataset("rows", data=rows, chunks=(20, 4) if container == "h5py" else None)
        )
    monkeypatch.setattr("dspectral.engine.blocks.BLOCK_BYTES", 1200)
    blocks = as_dask_rows(array)
    assert blocks.chunks[0] == ((42, 42, 6) if container == "contiguous" else (40, 40, 10))
    for kind in (SketchedPCA, TruncatedSVD):
        model, expected = kind(2, random_state=0), kind(2, random_state=0)
        coordinates = model.fit_transform(array)
        assert isinstance(coordinates, da.Array)
        np.testing.assert_array_equal(coordinates.compute(), expected.fit_transform(blocks).compute())
    with pytest.raises(TypeError, match=r"X.*from_array"):
        SketchedPCA().fit(zarr.array(rows[:, 0]))


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


def test_columns_of_frames_have_names_an_order_and_plain_numbers():
    model = SketchedPCA(2).fit(frame())
    with pytest.raises(ValueError, match=r"column 0.*'b'.*'a'"):
        model.transform(frame()[["b", "a", "c", "d"]])
    assert model.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(model.fit(da.from_array(COUNTS)), "feature_names_in_")
    for use in (SketchedPCA(2).fit, TfidfWeighting().fit):
        with pytest.raises(TypeError, match=r"column.* 'text'"):
            use(frame(text=["a"] * 30))
    some = frame().map_partitions(lambda part: part[part.index >= 10])
    assert TruncatedSVD(2).fit(some).transform(some).chunks[0] == (10, 10)  # none of an empty partition


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_chunks_of_unknown_sizes_are_counted_with_a_warning(kind):
    selected = VALUES[VALUES[:, 0] > 0]
    rows = da.from_array(VALUES, chunks=(10, -1))
    rows = rows[rows[:, 0] > 0].map_blocks(kind, meta=kind((0, 0)) if kind is sparse.csr_matrix else None)
    model = SketchedPCA(2).fit(VALUES)
    np.testing.assert_array_equal(model.transform(rows).compute(), model.transform(selected))  # which needs no sizes
    with pytest.warns(UserWarning, match=r"unknown size.*compute_chunk_sizes"):
        fitted = SketchedPCA(2).fit(rows)
    assert fitted.n_samples_seen_ == len(selected)
    np.testing.assert_allclose(fitted.components_, SketchedPCA(2).fit(selected).components_, atol=1e-12)


def test_column_chunks_are_merged_within_the_memory_limit():
    rows = da.from_array(VALUES, chunks=(10, 2))
    with dask.config.set({"dspectral.memory-limit": 10 * VALUES.itemsize * VALUES.shape[1]}):
        components = SketchedPCA(2).fit(rows).components_
    np.testing.assert_array_equal(components, SketchedPCA(2).fit(rows.rechunk({1: -1})).components_)
    with dask.config.set({"dspectral.memory-limit": 9}), pytest.raises(ValueError, match=r"2 column chunks.*rechunk"):
        SketchedPCA(2).fit(rows)


@pytest.mark.parametrize("container", ["zarr", "h5py"])
@pytest.mark.parametrize("is_bare", [True, False])
def test_a_group_of_a_sparse_matrix_is_read_by_blocks(container, is_bare, tmp_path, monkeypatch):
    monkeypatch.setattr("dspectral.engine.blocks.CHUNK_BYTES", 500)
    rows = sparse.random_array((30, 7), density=0.5, format="csr", rng=np.random.default_rng(0))
    group = open_group(container, tmp_path, write=True)
    matrix = group.create_group("X")
    for name in ("data", "indices", "indptr"):
        matrix[name] = getattr(rows, name)
    matrix.attrs["shape"] = rows.shape
    if not is_bare:
        matrix.attrs["encoding-type"] = "csr_matrix"
    if container == "h5py":
        group.close()
    group = open_group(container, tmp_path, write=False)
    model, reference = SketchedPCA(2).fit(group["X"]), SketchedPCA(2).fit(rows)
    assert model.transform(group["X"]).numblocks[0] > 2
    np.testing.assert_allclose(model.components_, reference.components_, atol=1e-12)
    np.testing.assert_allclose(model.transform(group["X"]), reference.transform(rows), atol=1e-12)
    with pytest.raises(ValueError, match=r"checkpoints need rows with a content hash"):
        SketchedPCA(2).fit(group["X"], checkpoints=tmp_path / "kept")
    with pytest.raises(TypeError, match=r"group '/'.*indptr.*X"):
        SketchedPCA(2).fit(group)


@pytest.mark.parametrize(
    ("attributes", "n_pointers", "message"),
    [
        ({"shape": (4, 6)}, 7, "by columns"),
        ({"shape": (4, 6), "encoding-type": "csc_matrix"}, 7, "by columns"),
        ({"shape": (4, 4)}, 5, r"\(4, 4\) with 5 pointers.*encoding-type"),
        ({"shape": (4, 6), "encoding-type": "csr_matrix"}, 7, "7 pointers"),
        ({}, 5, "5 pointers.*shape"),
    ],
)
def test_a_group_that_is_not_known_to_be_stored_by_rows_is_refused(attributes, n_pointers, message, tmp_path):
    group = open_group("zarr", tmp_path, write=True)
    for name, size in (("data", 0), ("indices", 0), ("indptr", n_pointers)):
        group[name] = np.zeros(size, dtype=np.int64)
    group.attrs.update(attributes)
    with pytest.raises((TypeError, ValueError), match=message):
        SketchedPCA(2).fit(group)


def open_group(container, path, *, write):
    if container == "zarr":
        return zarr.open_group(path / "rows.zarr", mode="w" if write else "r")
    return pytest.importorskip("h5py").File(path / "rows.h5", "w" if write else "r")


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_a_container_is_for_dense_results_in_memory(tmp_path, container):
    """One rule: sparse rows stay sparse and lazy rows lazy, whoever makes them."""
    path = tmp_path / "a.txt"
    path.write_text("the cat sat\nthe dog\na cat\n")
    store = build_store(str(path), str(tmp_path / "s"), hashing=NgramHashing(16))
    weigh = TfidfWeighting().set_output(transform=container).fit(store)
    svd = TruncatedSVD(1).set_output(transform=container).fit(store)
    assert isinstance(weigh.transform(store), da.Array)
    for rows in (store, store.counts):
        assert isinstance(svd.transform(rows), da.Array)
    model = make_pipeline(NgramHashing(16), TfidfWeighting(), TruncatedSVD(1)).set_output(transform=container)
    assert isinstance(model.fit(TextFiles(path)).transform(TextFiles(path)), da.Array)
    assert isinstance(model.transform(dd.from_pandas(pd.Series(["a cat"]), npartitions=1)), da.Array)
    assert type(model.transform(["a cat"])).__module__.startswith(container)
    assert sparse.issparse(model[:-1].transform(["a cat"]))
