"""Rows of a store that are chosen by their numbers: what is read, how often, and what takes them."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

import dspectral
from dspectral import Texts, TfidfWeighting, TruncatedSVD, build_store, nearest, write_counts
from dspectral.store import CountStore
from dspectral.store import rows as rows_of_store
from tests.strategies import zipf_counts

N = 120
X = zipf_counts(N, 40, 6, seed=3)
Y = (np.asarray(X[:, [0, 1]].sum(axis=1)).ravel() > 3).astype(int)
SHUFFLED = np.random.default_rng(0).permutation(N)
SELECTIONS = {
    "slice": slice(3),
    "backwards": slice(None, None, -7),
    "one row": 5,
    "last": -1,
    "mask": np.arange(N) % 3 == 0,
    "rising": np.sort(SHUFFLED[:50]),
    "shuffled": SHUFFLED[:77],
    "again and again": [4, 4, 90, 4],
    "as scikit-learn": (SHUFFLED[:9], ...),
}


@pytest.fixture(scope="module", params=["store", "anndata"])
def store(request, tmp_path_factory):
    where = str(tmp_path_factory.mktemp("rows") / "rows.zarr")
    labels = sparse.csr_array(np.eye(2)[Y])
    opened = write_counts(X, where, block_rows=25, labels=labels)
    if request.param == "store":
        return opened
    pytest.importorskip("anndata")
    opened.to_anndata(lazy=False).write_h5ad(where.replace("rows.zarr", "rows.h5ad"))
    return dspectral.open_store(where.replace("rows.zarr", "rows.h5ad"))


@pytest.mark.parametrize("which", SELECTIONS)
def test_rows_are_those_of_the_matrix_in_their_order(store, which):
    key = SELECTIONS[which]
    numbers = np.atleast_1d(np.arange(N)[key])
    chosen = store[key]
    assert len(chosen) == chosen.shape[0] == sum(chosen.block_rows) == len(numbers)
    actual = chosen.counts.compute()
    assert actual.has_canonical_format
    assert np.array_equal(actual.toarray(), X[numbers].toarray())
    assert np.array_equal(chosen.document_frequency, (X[numbers].toarray() != 0).sum(axis=0))
    assert (chosen.nnz, chosen.n_columns) == (X[numbers].nnz, X.shape[1])
    again = chosen[::-1]
    assert np.array_equal(again.counts.compute().toarray(), X[numbers[::-1]].toarray())
    if chosen.labels is not None:
        assert np.array_equal(chosen.labels.compute().toarray().argmax(axis=1), Y[numbers])


def test_rising_rows_read_each_block_once_and_others_in_large_blocks(tmp_path, monkeypatch):
    store = write_counts(X, str(tmp_path / "cuts.zarr"), block_rows=25)
    assert store[np.arange(0, N, 2)].block_rows == [13, 12, 13, 12, 10]
    assert store[SHUFFLED].block_rows == [N]
    monkeypatch.setattr(rows_of_store, "BLOCK_BYTES", 2000)
    cut = store[SHUFFLED]
    assert len(cut.block_rows) > 3
    assert np.array_equal(cut.counts.compute().toarray(), X[SHUFFLED].toarray())


def test_estimators_and_kept_parts_take_chosen_rows(store, tmp_path):
    numbers = SHUFFLED[:70]
    of_matrix = TruncatedSVD(4).fit(X[numbers])
    known = isinstance(store, CountStore)
    with dspectral.checkpoints(str(tmp_path)) if known else nullcontext():
        of_rows = TruncatedSVD(4).fit(store[numbers])
    assert np.allclose(of_rows.components_, of_matrix.components_, atol=1e-4)
    assert np.allclose(of_rows.transform(store[numbers]).compute(), of_matrix.transform(X[numbers]), atol=1e-3)


def test_scikit_learn_splits_and_scores_stores_as_matrices(store):
    train, test, y_train, y_test = train_test_split(store, Y, random_state=0)
    of_matrix = train_test_split(X, Y, random_state=0)
    assert np.array_equal(test.counts.compute().toarray(), of_matrix[1].toarray())
    assert (len(train), len(test)) == (len(y_train), len(y_test))
    model = make_pipeline(TfidfWeighting(), TruncatedSVD(5), LogisticRegression())
    scores = [cross_val_score(model, rows, Y, cv=KFold(3, shuffle=True, random_state=1)) for rows in (store, X)]
    assert np.allclose(*scores)


def test_ids_texts_and_search_go_with_the_rows(tmp_path):
    records = [{"key": f"k{i}", "body": f"word{i % 3} and word{i % 5}"} for i in range(30)]
    store = build_store(
        Texts(records),
        str(tmp_path / "ids.zarr"),
        field="body",
        id_field="key",
        keep_texts=True,
        block_bytes=64,
    )
    chosen = store[[7, 2, 29, 11]]
    assert chosen.ids == ["k7", "k2", "k29", "k11"] == [store.ids[i] for i in (7, 2, 29, 11)]
    assert chosen.text([2, 0]) == store.text([29, 7])
    for rows in (store, chosen):
        with pytest.raises(IndexError, match="row -1"):
            rows.text(-1)
    actual = nearest(TruncatedSVD(3).fit(store), chosen, records[29]["body"], n=1)
    assert (actual[0].row, actual[0].id, actual[0].text) == (2, "k29", records[29]["body"])
