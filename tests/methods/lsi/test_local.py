"""Local LSI against the plain algorithm, class by class, and what it asks of rows and labels."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dspectral import LocalLSI, LocalRecipe, write_counts
from dspectral.methods.lsi.local import INITIAL_C

N, D, K, L = 90, 30, 4, 3
RNG = np.random.default_rng(0)
CLASSES = RNG.integers(L, size=N)
ROWS = RNG.poisson(0.3 + (np.arange(D) % L == CLASSES[:, None]), (N, D)) / 3.0
SEVERAL = (RNG.random((N, L)) < 0.4) | (np.arange(L) == CLASSES[:, None])
PLAIN = {"method": "rds", "C": 1.0}
NAMES = np.array(["red", "green", "blue"])


def lazy(rows, chunks):
    return da.from_array(rows, chunks=(chunks, -1)).map_blocks(sparse.csr_array)


RECIPE = LocalRecipe(a=3.0, b=-0.1, tol=1e-9)
EXACT = {"method": "rds", "C": 0.7, "recipe": RECIPE}
LRW = {**EXACT, "method": "lrw", "gamma": 1.5}


def svm(features, members, C):
    return LinearSVC(C=C, dual=False, tol=1e-12, max_iter=10000).fit(features, members)


def plain(method, members, new):
    """Sections 4.1 and 4.2, class by class: scores of new rows, and their coordinates."""
    scores, folded = [], []
    for j in range(members.shape[1]):
        mine = members[:, j].astype(bool)
        f, f_new, region = np.ones(N), np.ones(len(new)), ROWS[mine]
        if method == "lrw":
            first = svm(ROWS, mine, INITIAL_C)
            rs = first.decision_function(ROWS)
            f, f_new = (1 / (1 + np.exp(-RECIPE.a * (r + RECIPE.b))) for r in (rs, first.decision_function(new)))
            top = np.argsort(-rs)[: int(np.ceil(LRW["gamma"] * mine.sum()))]
            region = (f[:, None] * ROWS)[top]
        axes = np.linalg.svd(region)[2][:K]
        final = svm(f[:, None] * ROWS @ axes.T, mine, EXACT["C"])
        folded.append(f_new[:, None] * new @ axes.T)
        scores.append(final.decision_function(folded[-1]))
    return np.stack(scores, axis=1), np.concatenate(folded, axis=1)


@pytest.mark.parametrize("settings", [EXACT, LRW], ids=["rds", "lrw"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("several", [False, True])
def test_it_is_the_plain_algorithm(settings, kind, several):
    members = SEVERAL if several else np.arange(L) == CLASSES[:, None]
    local = LocalLSI(K, **settings).fit(kind(ROWS), sparse.csr_array(members) if several else CLASSES)
    new = np.random.default_rng(5).poisson(0.5, (20, D)).astype(float)
    scores, folded = plain(settings["method"], members, new)
    np.testing.assert_allclose(local.decision_function(kind(new)), scores, atol=5e-6)
    np.testing.assert_allclose(np.abs(local.transform(kind(new))), np.abs(folded), atol=1e-6)
    expected = scores > 0 if several else np.argmax(scores, axis=1)
    actual = local.predict(kind(new))
    np.testing.assert_array_equal(actual.toarray() if several else actual, expected)


def test_a_store_with_labels_fits_and_folds_in(tmp_path):
    store = write_counts(ROWS * 3, str(tmp_path / "rows.zarr"), labels=SEVERAL, block_rows=40)
    local = LocalLSI(K, **PLAIN).fit(store)
    whole = LocalLSI(K, **PLAIN).fit(ROWS * 3, SEVERAL)
    assert not local.exclusive_
    np.testing.assert_array_equal(local.predict(store).compute().toarray(), whole.predict(ROWS * 3))
    assert local.score(store) == whole.score(ROWS * 3, SEVERAL)


@pytest.mark.parametrize("method", ["rds", "lrw"])
def test_regions_are_gathered_within_the_memory_limit(tmp_path, method):
    store = write_counts(ROWS * 3, str(tmp_path / "rows.zarr"), labels=SEVERAL, block_rows=40)
    local = LocalLSI(K, method=method, recipe=LocalRecipe(tol=0.3))
    whole = clone(local).fit(store)
    largest = int(3.0 * store.n_bytes / N * whole.region_sizes_.max())
    with dask.config.set({"dspectral.memory-limit": largest + 1}):
        pieces = clone(local).fit(store)
    assert pieces.n_passes_ == whole.n_passes_ + L - 1  # a pass for each class in the place of one for all
    np.testing.assert_array_equal(pieces.coef_, whole.coef_)
    for mine, other in zip(pieces.components_, whole.components_, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("kind", ["store", "dense", "CSR", "Dask"])
def test_region_beyond_the_limit_is_refused_with_the_bytes_needed(tmp_path, kind):
    made = {
        "store": lambda: write_counts(ROWS * 3, str(tmp_path / "rows.zarr"), block_rows=40),
        "dense": lambda: ROWS,
        "CSR": lambda: sparse.csr_array(ROWS),
        "Dask": lambda: da.from_array(ROWS, chunks=(30, -1)),
    }[kind]()
    message = r"\d+ documents.*dspectral.memory-limit.*1,000.*[\d,]+"
    with dask.config.set({"dspectral.memory-limit": 1000}), pytest.raises(MemoryError, match=message):
        LocalLSI(K, **PLAIN).fit(made, SEVERAL)


def test_labels_may_be_lazy_and_documents_without_a_label_are_of_no_class():
    labels = [None if i < 20 else NAMES[c] for i, c in enumerate(CLASSES)]
    members = (np.arange(L) == CLASSES[:, None]) & (np.arange(N) >= 20)[:, None]
    by_name = LocalLSI(K, **EXACT).fit(ROWS, labels)
    assert by_name.classes_.tolist() == ["blue", "green", "red"]
    by_matrix = LocalLSI(K, **EXACT).fit(lazy(ROWS, 40), da.from_array(members, chunks=(15, -1)))
    np.testing.assert_allclose(by_name.coef_[::-1], by_matrix.coef_, atol=1e-6)


def test_a_small_class_has_the_directions_that_it_has():
    classes = np.where(np.arange(N) < 3, 7, CLASSES)
    local = LocalLSI(5, **PLAIN).fit(ROWS, classes)
    assert [len(axes) for axes in local.components_] == [5, 5, 5, 3]
    assert local.region_sizes_[3] == 3
    assert local.transform(ROWS).shape == (N, 18)


def test_large_regions_are_decomposed_without_their_gram_matrix():
    rows = sparse.random_array((1000, 900), density=0.02, rng=np.random.default_rng(3)).tocsr()
    local = LocalLSI(3, **PLAIN).fit(sparse.vstack([rows, rows[:50]]), np.repeat([0, 1], [1000, 50]))
    actual = local.components_[0]
    expected = np.linalg.svd(rows.toarray())[2][:3]
    np.testing.assert_allclose(np.abs(actual @ expected.T), np.eye(3), atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "labels", "sentence"),
    [
        ({}, ["x"] * N, "one class.*'x'"),
        ({"n_components": 31}, CLASSES, "n_components.*31"),
        ({}, CLASSES[:9], "9 documents.*X.*90"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(settings, labels, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        LocalLSI(**{"n_components": 2, **settings}).fit(ROWS, labels)


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("method", ["rds", "lrw"])
def test_a_class_that_none_or_all_are_in_has_a_constant_score(method, lazily):
    rows = lazy(ROWS, 40) if lazily else ROWS
    members = np.column_stack([SEVERAL, np.zeros(N), np.ones(N)])
    with pytest.warns(UserWarning, match=r"class [34]") as messages:
        local = LocalLSI(2, method=method).fit(rows, members)
    assert len(messages) == 2
    scores = local.decision_function(ROWS)
    np.testing.assert_array_equal(scores[:, 3:], np.tile(local.intercept_[3:], (N, 1)))
    np.testing.assert_array_equal(local.predict(ROWS)[:, 3:], np.tile([0, 1], (N, 1)))
    assert local.region_sizes_[3:].tolist() == [0, 0]
    np.testing.assert_allclose(scores[:, :3], LocalLSI(2, method=method).fit(ROWS, SEVERAL).decision_function(ROWS))


def test_defaults_weight_documents_and_limit_components():
    local = LocalLSI().fit(ROWS, CLASSES)
    assert local.relevancy_ is not None
    assert {len(axes) for axes in local.components_} == {25}
    few = LocalLSI(method="rds").fit(ROWS[:, :9], CLASSES)
    assert {len(axes) for axes in few.components_} == {9}
    pairs = LocalLSI(method="rds").fit(ROWS[:4], [0, 0, 1, 1])
    assert {len(axes) for axes in pairs.components_} == {2}


def test_predictions_are_dense_like_the_indicator_with_its_names():
    frame = pd.DataFrame(SEVERAL, columns=NAMES)
    local = LocalLSI(2, **PLAIN).fit(ROWS, frame)
    assert local.classes_.tolist() == NAMES.tolist()
    actual = local.predict(ROWS)
    assert (type(actual), actual.dtype) == (np.ndarray, np.bool_)
    assert sparse.issparse(LocalLSI(2, **PLAIN).fit(ROWS, sparse.csr_array(SEVERAL)).predict(ROWS))
    expected = np.mean((actual == SEVERAL).all(axis=1))
    assert local.score(ROWS, SEVERAL) == expected
    assert local.score(lazy(ROWS, 40), da.from_array(SEVERAL, chunks=(15, -1))) == expected


def test_too_few_passes_are_said(monkeypatch):
    monkeypatch.setattr("dspectral.methods.lsi.local.MAX_ITER", 3)
    with pytest.warns(ConvergenceWarning, match="3 passes"):
        LocalLSI(K, recipe=LocalRecipe(tol=1e-12)).fit(ROWS, CLASSES)
