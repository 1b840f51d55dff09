"""A matrix becomes a store and comes back; what is not a matrix of counts does not."""

import re
from itertools import count
from pathlib import Path
from uuid import uuid4

import anndata
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral import PCA
from dspectral.engine import get_block_nbytes
from dspectral.store.counts import open_store
from dspectral.store.location import StoreError
from dspectral.store.matrix import write_counts
from tests.store.contents import contents, with_entry
from tests.strategies import n_tasks, zipf_counts

ROWS = zipf_counts(60, 40, 9)
NUMBERS = count()


def in_chunks(X, *sizes):
    parts = [da.from_array(part, chunks=part.shape, asarray=False) for part in np.split(X, np.cumsum(sizes)[:-1])]
    return da.concatenate(parts).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype))


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "counts.zarr")


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 12),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    block_rows=st.integers(1, 45),
    number=st.integers(0, 10**9),
)
def test_a_matrix_comes_back_for_any_block_size(n, d, density, block_rows, number):
    X = sparse.random_array((n, d), density=density, rng=number, dtype=np.float32, format="csr")
    store = write_counts(X, f"memory://matrix-{next(NUMBERS)}", block_rows=block_rows)
    back = store.counts.compute(scheduler="sync")
    assert isinstance(back, sparse.csr_array)
    assert np.array_equal(back.toarray(), X.toarray())
    assert store.block_rows == [min(block_rows, n - start) for start in range(0, n, block_rows)]
    opened = open_store(store.location.url)
    assert (opened.shape, opened.nnz) == (X.shape, X.nnz)


def test_one_task_reads_a_block_and_what_follows(url):
    store = write_counts(ROWS, url, block_rows=7)
    doubled = store.counts.map_blocks(lambda block: block * 2, meta=store.counts._meta)
    assert n_tasks(doubled) == n_tasks(store.tfidf()) == store.n_blocks


TYPES = ["B", "H", "i", "q", "Q", "e", "d", "g"]


@pytest.mark.parametrize("kind", ["csr_matrix", "csc", "coo", "dense", "dask", *TYPES])
def test_every_kind_of_matrix_and_type_of_number_makes_the_same_store(tmp_path, kind):
    X = {
        "csr_matrix": sparse.csr_matrix(ROWS),
        "csc": ROWS.tocsc(),
        "coo": ROWS.tocoo(),
        "dense": ROWS.toarray(),
        "dask": in_chunks(ROWS.toarray(), 20, 20, 20),
        **{dtype: ROWS.toarray().astype(dtype) for dtype in TYPES},
    }[kind]
    expected = write_counts(ROWS, str(tmp_path / "expected"), block_rows=20)
    made = write_counts(X, str(tmp_path / "made"), block_rows=20)
    assert contents(expected.location.url) == contents(made.location.url)


@pytest.mark.parametrize("twice", [0, 3])
def test_repeated_and_zero_entries_are_put_in_order_and_the_callers_stay(url, twice):
    data, indices = np.array([3 - twice, twice, 0, 4], np.float32), np.array([3, 3 if twice else 2, 0, 1])
    X = sparse.csr_array((data, indices, np.array([0, 3, 4])), shape=(2, 4))
    if not twice:
        X.sort_indices()  # nothing but stored zeros is wrong
    before = X.copy()
    store = write_counts(X, url)
    assert np.array_equal(store.counts.compute().toarray(), [[0, 0, 0, 3], [0, 4, 0, 0]])
    assert (store.nnz, list(store.document_frequency)) == (2, [0, 1, 0, 1])
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(X, part), getattr(before, part))


def test_a_block_without_rows_is_left_out(url):
    store = write_counts(in_chunks(ROWS.toarray(), 20, 0, 40), url)
    assert store.block_rows == [20, 40]
    assert np.array_equal(store.counts.compute().toarray(), ROWS.toarray())
    assert np.array_equal(open_store(url).counts[20:].compute().toarray(), ROWS[20:].toarray())


@pytest.mark.parametrize(("value", "message"), [(np.nan, "nan"), (np.inf, "inf"), (-1.0, "-1.0"), (1e300, "inf")])
@pytest.mark.parametrize("lazy", [False, True])
def test_refused_rows_are_named_and_leave_the_store_as_it_was(url, value, message, lazy):
    X = with_entry(ROWS.toarray().astype(float), 47, 3, value)
    X = in_chunks(X, 20, 20, 20) if lazy else X
    with pytest.raises(ValueError, match=f"row block 2: row 7, column 3.*{message}"):
        write_counts(X, url, block_rows=20)
    with pytest.raises(StoreError, match=re.escape(url)):
        open_store(url)
    write_counts(ROWS[:50], url, block_rows=25)  # other blocks
    files = {path: path.read_bytes() for path in Path(url).rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=f"row block 2: row 7, column 3.*{message}"):
        write_counts(X, url, block_rows=20, append=True)
    assert all(path.read_bytes() == content for path, content in files.items())
    assert write_counts(ROWS[:10], url, append=True).block_rows == [25, 25, 10]


def test_signed_counts_are_written_when_asked(url):
    X = with_entry(ROWS.toarray(), 47, 3, -2)
    assert write_counts(X, url, signed=True).counts[47].compute().toarray().ravel()[3] == -2
    with pytest.raises(ValueError, match=r"row 2, column 2.*nan"):
        write_counts(with_entry(X, 2, 2, np.nan), f"{url}-nan", signed=True)


LAZY = da.from_array(ROWS.toarray(), chunks=(20, 40))


def test_blocks_that_are_not_what_their_array_says_are_refused(url):
    narrow = da.map_blocks(lambda block: block[:, :-1], LAZY, dtype="f4")
    with pytest.raises(ValueError, match=r"row block ..*39 columns.*40"):
        write_counts(narrow, url)
    short = da.map_blocks(lambda block: block[:-1], LAZY, dtype="f4")
    with pytest.raises(ValueError, match=r"row block 0.*19 rows.*20"):
        write_counts(short, f"{url}-short")


def test_what_is_no_store_is_not_written_into(tmp_path):
    anndata = pytest.importorskip("anndata")
    path = tmp_path / "cells.zarr"
    with pytest.warns():  # of the format to come
        anndata.AnnData(X=sparse.csr_matrix(ROWS)).write_zarr(path)
    with pytest.raises(StoreError, match=re.escape(str(path))):
        write_counts(ROWS, str(path))


def test_rows_of_another_width_or_hashing_are_not_appended(url):
    write_counts(ROWS, url, provenance={"hashing": {"n_features": 40}})
    before = contents(url)
    with pytest.raises(StoreError, match=r"n_features = 50.*n_features = 40"):
        write_counts(ROWS, url, append=True, provenance={"hashing": {"n_features": 50}})
    with pytest.raises(StoreError, match=r"39 columns.*40"):
        write_counts(ROWS[:, :39], url, append=True, provenance={"hashing": {"n_features": 40}})
    assert contents(url) == before
    with pytest.raises(StoreError, match=f"{re.escape(url)}-other"):
        write_counts(ROWS, f"{url}-other", append=True)


WHOLE = [2**24 + 1, -(2**24) - 1, 1_700_000_001, 2**53 - 1, 3]
FORMS = {
    "memory": np.asarray,
    "CSR": sparse.csr_array,
    "COO": sparse.coo_array,
    "dask": lambda X: da.from_array(X, chunks=(1, -1)),
    "sparse dask": lambda X: da.from_array(X, chunks=(1, -1)).map_blocks(sparse.csr_array),
}


def backed(X, folder):
    """Return a sparse matrix that AnnData holds on disk."""
    path = folder / "backed.h5ad"
    anndata.AnnData(sparse.csr_matrix(X)).write_h5ad(path)
    return anndata.read_h5ad(path, backed="r").X


def whole_numbers(dtype):
    """Return whole numbers that single precision does not hold, in a type; each row has one."""
    known = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.iinfo(np.int64)
    values = [value for value in WHOLE if known.min <= value <= known.max]
    return np.array([[value, 1] for value in values], dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("form", [*FORMS, "backed"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float64])
def test_whole_numbers_that_single_precision_does_not_hold_are_kept(form, dtype, tmp_path):
    X, url = whole_numbers(dtype), f"memory://exact/{uuid4().hex}"
    rows = backed(X, tmp_path) if form == "backed" else FORMS[form](X)
    write_counts(rows, url, block_rows=1, signed=True)
    store = open_store(url)
    assert store.dtype == store.counts.dtype == store[:2].dtype == np.float64
    for rows in (store.counts, store[np.arange(len(X))].counts, store[::-1].counts[::-1]):
        np.testing.assert_array_equal(rows.compute().toarray(), X)
    assert store.check() is None
    np.testing.assert_array_equal(store.column_sums, X.astype(np.float64).sum(axis=0))
    assert store.tfidf().compute().dtype == store.to_anndata().X.dtype == np.float64
    model = PCA(1).fit(store)
    assert model.components_.dtype == np.float64
    A = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(model.singular_values_, np.linalg.norm(A[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(np.abs(model.transform(store).compute()), np.abs(A[:, :1]), rtol=1e-9)


@pytest.mark.parametrize("first", [np.float32, np.int64])
def test_exact_rows_are_added_to_those_of_single_precision_and_the_other_way_round(first):
    small, large = np.array([[0.1, 2]], np.float32), np.array([[0, 2**24 + 1], [7, 0]])
    parts, url = (small, large) if first == np.float32 else (large, small), f"memory://exact/{uuid4().hex}"
    before = write_counts(parts[0], url)
    assert before.dtype == (np.float32 if first == np.float32 else np.float64)
    store = write_counts(parts[1], url, append=True)
    np.testing.assert_array_equal(store.counts.compute().toarray(), np.concatenate(parts).astype(np.float64))
    assert sum(get_block_nbytes(store.counts)) == store.n_bytes + 4 * 2
    store.check()
    left = open_store(url, without=[block.name for block in store.blocks if block.is_double])
    assert left.counts.compute().dtype == left.dtype == np.float32
    np.testing.assert_array_equal(before.counts.compute().toarray(), parts[0])


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize("form", ["memory", "CSR", "dask"])
def test_integers_that_double_precision_does_not_hold_are_refused(form, value):
    with pytest.raises(StoreError, match=f"row block 0: {value} .*{2**53}"):
        write_counts(FORMS[form](np.array([[value, 1]])), f"memory://exact/{uuid4().hex}")


def test_sums_of_repeated_integers_are_exact_or_refused():
    def repeated(*values):
        return sparse.csr_array((np.array(values), [0] * len(values), [0, len(values)]), shape=(1, 2))

    for values in ((2**24, 1), (2**53, 1, -2), (100, 100)):
        for rows in (repeated(*values), sparse.coo_array(repeated(*values))):
            store = write_counts(rows, f"memory://exact/{uuid4().hex}")
            assert store.counts.compute().toarray()[0, 0] == sum(values)
    with pytest.raises(StoreError, match=f"{2**53 + 1} "):
        write_counts(repeated(2**53, 1), f"memory://exact/{uuid4().hex}")
    small = sparse.csr_array((np.array([100, 100], np.int8), [0, 0], [0, 2]), shape=(1, 2))
    assert write_counts(small, f"memory://exact/{uuid4().hex}").counts.compute().toarray()[0, 0] == 200
