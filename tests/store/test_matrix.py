"""A matrix becomes a store and comes back; what is not a matrix of counts does not."""

import pickle
import re
from itertools import count
from pathlib import Path
from uuid import uuid4

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.store.counts import open_store
from dspectral.store.location import StoreError
from dspectral.store.matrix import write_counts
from tests.store.contents import contents, with_entry
from tests.strategies import n_tasks, zipf_counts

ROWS = zipf_counts(60, 40, 9)
NUMBERS = count()


def in_chunks(X, *sizes):
    parts = [
        da.from_array(part, chunks=part.shape, asarray=False) for part in np.split(X, np.cumsum(sizes)[:-1])
    ]
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
    opened = open_store(store.where.url)
    assert (opened.shape, opened.nnz) == (X.shape, X.nnz)


def test_one_task_reads_a_block_and_what_follows(url):
    store = write_counts(ROWS, url, block_rows=7)
    doubled = store.counts.map_blocks(lambda block: block * 2, meta=store.counts._meta)
    assert n_tasks(doubled) == n_tasks(store.tfidf()) == store.n_blocks


def test_a_task_carries_its_own_block_alone(url):
    def bytes_a_block(block_rows):
        store = write_counts(ROWS, f"{url}-{block_rows}", block_rows=block_rows)
        graph = dict(store.counts.__dask_graph__())
        return len(pickle.dumps(next(iter(graph.values()))))

    assert bytes_a_block(3) <= bytes_a_block(30) + 50


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
    assert contents(expected.where.url) == contents(made.where.url)


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "nan"),
        (np.inf, "inf"),
        (-1.0, "-1.0"),
        (1e300, "inf"),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_no_count_is_named_by_its_place(url, value, message, lazy):
    X = with_entry(ROWS.toarray().astype(float), 47, 3, value)
    X = in_chunks(X, 20, 20, 20) if lazy else X
    with pytest.raises(ValueError, match=f"row block 2: row 7, column 3.*{message}"):
        write_counts(X, url, block_rows=20)
    with pytest.raises(StoreError, match=re.escape(url)):
        open_store(url)


def test_signed_counts_are_written_when_asked(url):
    X = with_entry(ROWS.toarray(), 47, 3, -2)
    assert write_counts(X, url, signed=True).counts[47].compute().toarray().ravel()[3] == -2
    with pytest.raises(ValueError, match="nan"):
        write_counts(with_entry(X, 2, 2, np.nan), f"{url}-nan", signed=True)


LAZY = da.from_array(ROWS.toarray(), chunks=(20, 40))


@pytest.mark.parametrize(
    ("X", "error", "said"),
    [
        (LAZY.rechunk((20, 20)), ValueError, r"2 column chunks.*rechunk"),
        (LAZY[LAZY[:, 0] >= 0], ValueError, r"compute_chunk_sizes"),
        (ROWS[:0], ValueError, "rows"),
        ([[1, 2]], TypeError, "list"),
    ],
)
def test_arrays_that_are_not_cut_by_rows_are_refused_before_anything_is_written(
    tmp_path, url, X, error, said
):
    with pytest.raises(error, match=said):
        write_counts(X, url)
    assert list(tmp_path.iterdir()) == []


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


def test_appended_rows_come_behind_and_old_readers_keep_theirs(url):
    old = write_counts(ROWS[:25], url, block_rows=10)
    lazy = old.counts
    new = write_counts(ROWS[25:50], url, block_rows=20, append=True)
    newest = write_counts(ROWS[50:], url, append=True)
    assert np.array_equal(lazy.compute().toarray(), ROWS[:25].toarray())
    for store, n in ((old, 25), (new, 50), (newest, 60)):
        assert store.shape == (n, 40)
        assert store.energy == (ROWS[:n].toarray().astype(float) ** 2).sum()
    assert [made["matrix"]["shape"][0] for made in newest.provenance["appended"]] == [25, 10]
    assert newest.provenance["matrix"]["shape"] == [25, 40]


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


def test_the_plan_of_an_unfinished_store_must_be_the_same(url):
    bad = with_entry(ROWS.toarray(), 50, 3, np.nan)
    with pytest.raises(ValueError, match="nan"):
        write_counts(bad, url, block_rows=20)
    with pytest.raises(StoreError, match="matrix"):
        write_counts(ROWS, url, block_rows=10)
    with pytest.raises(StoreError, match="signed"):
        write_counts(ROWS, url, block_rows=20, signed=True)
    assert write_counts(ROWS, url, block_rows=20).n_rows == 60


def test_files_that_killed_writers_left_are_in_nobodys_way(url):
    for append in (False, True):
        with pytest.raises(ValueError, match="nan"):
            write_counts(with_entry(ROWS.toarray(), 50, 3, np.nan), url, block_rows=20, append=append)
        left = [Path(url) / folder / f"zarr.{'0' * 32}.partial" for folder in ("", "blocks", "scratch")]
        for path in left:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        store = write_counts(ROWS, url, block_rows=20, append=append)
        assert np.array_equal(store.counts[-60:].compute().toarray(), ROWS.toarray())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_array])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_integers_that_single_precision_does_not_hold_are_refused(form, dtype):
    for largest in (2**24, 2**24 + 2, 2**30):
        stored = write_counts(form(np.array([[largest, 1]], dtype)), f"memory://exact/{uuid4().hex}")
        assert stored.counts.compute().toarray().tolist() == [[largest, 1]]
    with pytest.raises(StoreError, match="row block 0: 16777217 "):
        write_counts(form(np.array([[2**24 + 1, 1]], dtype)), f"memory://exact/{uuid4().hex}")


def test_sums_of_repeated_integers_are_exact_or_refused():
    pair = sparse.coo_array(([2**24, 1], ([0, 0], [0, 0])), shape=(1, 2), dtype=np.int64)
    for rows in (pair, sparse.csr_array((pair.data, [0, 0], [0, 2]), shape=(1, 2))):
        with pytest.raises(StoreError, match="16777217"):
            write_counts(rows, f"memory://exact/{uuid4().hex}")
    small = sparse.csr_array((np.array([100, 100], np.int8), [0, 0], [0, 2]), shape=(1, 2))
    assert write_counts(small, f"memory://exact/{uuid4().hex}").counts.compute().toarray()[0, 0] == 200
