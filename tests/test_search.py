"""Search: exact at any cut, for every model and kind of query."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

from dspectral import (
    NgramHashing,
    Texts,
    TfidfWeighting,
    Topics,
    TruncatedSVD,
    VocabularySettings,
    build_store,
    embedder,
    nearest,
    write_coordinates,
)

WORDS = ["cats purr sleep", "dogs bark run", "ships sail far"]
TEXTS = [f"{WORDS[i % 3]} {WORDS[i % 3].split()[i % 2]} {i % 4}x" for i in range(30)] + [""]


@pytest.fixture(scope="module", params=["hashed", "vocabulary"])
def store(request, tmp_path_factory):
    settings = VocabularySettings() if request.param == "vocabulary" else None
    where = str(tmp_path_factory.mktemp("search") / "store.zarr")
    return build_store(Texts(TEXTS), where, vocabulary=settings, block_bytes=256)


def models(store):
    yield TruncatedSVD(3).fit(store.tfidf())
    yield TruncatedSVD(3).fit(store)
    yield make_pipeline(TfidfWeighting(), TruncatedSVD(3)).fit(store)
    if store.hashing is not None:
        yield make_pipeline(NgramHashing(), TfidfWeighting(), TruncatedSVD(3)).fit(store)
    else:
        yield Topics(3, min_df=1, max_df=0.4).fit(store)


def test_text_has_rows_of_its_words_as_neighbors(store):
    assert store.n_blocks > 1
    for model in models(store):
        for number, words in enumerate(WORDS):
            actual = nearest(model, store, words, n=5)
            assert {near.row % 3 for near in actual} == {number}, model
            assert actual == sorted(actual, key=lambda near: (-near.score, near.row))


def test_row_is_not_its_own_neighbor(store):
    svd = TruncatedSVD(3).fit(store.tfidf())
    lists = nearest(svd, store, [0, 4, 30], n=40)
    assert [len(actual) for actual in lists] == [29, 29, 0]
    assert all(near.row not in (row, 30) for row, actual in zip([0, 4], lists, strict=False) for near in actual)


def test_a_query_of_zeros_only_has_rows_that_share_its_words(store):
    for model in models(store):
        assert nearest(model, store, ["quasar", ""], n=2) == [[], []]
        assert nearest(model, store, "", n=2, words=0) == []
    of_cats = TruncatedSVD(1).fit(store[0:30:12])
    assert [near.row % 3 for near in nearest(of_cats, store, "bark", n=1)] == [1]
    assert nearest(of_cats, store, "bark", n=1, words=0) == []


@pytest.mark.parametrize("n_blocks", [1, 3, 7])
def test_nearest_is_exact_for_any_blocks(n_blocks):
    points = np.random.default_rng(0).normal(size=(70, 4))
    points[40] = points[2]
    query = points[2] + 0.1
    cosines = points @ query / np.linalg.norm(points, axis=1) / np.linalg.norm(query)
    actual = nearest(None, da.from_array(points, chunks=(-(-70 // n_blocks), 4)), query, n=10)
    expected = np.lexsort((np.arange(70), -cosines))[:10]
    assert [near.row for near in actual] == expected.tolist()
    assert np.allclose([near.cosine for near in actual], cosines[expected], atol=1e-5)
    assert nearest(None, points, [2], n=1)[0][0].row == 40


@pytest.mark.parametrize(
    ("query", "named"),
    [([], "shape"), (31, "row 31"), (np.ones(5), "5"), ([-1], "row -1"), ("cats", "cats")],
)
def test_invalid_queries_are_refused(query, named):
    with pytest.raises(ValueError, match=named):
        nearest(None, np.ones((31, 4)), query)


def test_other_weightings_and_words_without_counts_are_refused(store):
    model = TruncatedSVD(3).fit(store.tfidf())
    points = model.transform(store.tfidf())
    assert nearest(None, points, 4, n=1)[0].score == nearest(None, points, 4, n=1)[0].cosine
    sublinear = TruncatedSVD(2).fit(store.weighted(TfidfWeighting(tf="sublinear").fit(store)))
    for fitted, rows, query, words, named in (
        (sublinear, store, 0, None, "Pipeline"),
        (model, points, 4, 0.5, r"words=0\.5"),
        (model, store, np.ones(3), 0.5, r"words=0\.5"),
        (model, store, 4, 1.5, r"words.*1\.5"),
    ):
        with pytest.raises(ValueError, match=named):
            nearest(fitted, rows, query, words=words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X ")
def test_sparse_row_has_the_neighbors_of_its_row_number(store):
    weighted, plain, *_ = models(store)
    for model, rows in ((weighted, store.tfidf()), (weighted, store.counts), (plain, store.counts)):
        known = [near.cosine for near in nearest(model, store, 4, n=4, words=0)]
        for query in (rows[4:5], sparse.csc_array(rows[4:5].compute()), [rows[4:5].compute()], store[4]):
            (actual,) = nearest(model, store, query, n=5, words=0)
            assert 4 in [near.row for near in actual] or actual[-1].cosine > 0.999
            np.testing.assert_allclose([near.cosine for near in actual if near.row != 4][:4], known, atol=1e-5)
    assert len(nearest(plain, store, store.counts[:2].compute(), n=2)) == 2
    with pytest.raises(ValueError, match=r"query.*7 columns.*3"):
        nearest(plain, store, sparse.csr_array(np.ones((1, 7))))


def test_points_may_be_frames_and_sparse_coordinates(store):
    model = TruncatedSVD(3).fit(store)
    points = model.transform(store).compute()
    expected = [near.row for near in nearest(None, points, points[5], n=3)]
    for query in (sparse.csr_array(points[5:6]), pd.DataFrame(points[5:6]), da.from_array(points[5:6])):
        assert [near.row for near in nearest(None, points, query, n=3)[0]] == expected
    assert [near.row for near in nearest(None, points, pd.Series(points[5]), n=3)] == expected
    texts = nearest(model, store, np.array(["cats purr", "dogs bark"]), n=1)
    assert len(texts) == 2


@pytest.mark.parametrize("alternate", [False, True])
def test_score_is_the_weighted_mean_of_both_cosines(store, tmp_path, alternate):
    model = TruncatedSVD(3).fit(store.tfidf())
    rows = store
    if alternate:  # coordinates in other chunks than the blocks of their store
        rows = write_coordinates(model, store, str(tmp_path / "coordinates.zarr"))
    counts = store.counts.compute().toarray()
    idf = np.log((1 + len(counts)) / (1 + (counts != 0).sum(axis=0))) + 1
    words = np.sign(counts) * (1 + np.log(np.maximum(np.abs(counts), 1))) * idf
    words /= np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-9)
    actual = nearest(model, rows, 4, n=40)
    cosines = {near.row: near.cosine for near in nearest(model, rows, 4, n=40, words=0)}
    expected = {row: 0.3 * cosines[row] + 0.7 * (words[row] @ words[4]) for row in cosines}
    assert [near.row for near in actual] != list(cosines)
    np.testing.assert_allclose([near.score for near in actual], [expected[near.row] for near in actual], atol=1e-5)
    assert actual == sorted(actual, key=lambda near: (-near.score, near.row))
    text = nearest(model, rows, [TEXTS[4], "zzz"], n=1, words=1.0)
    assert text[0][0].score == pytest.approx(1.0, abs=1e-5)


def test_vectors_of_an_embedder_are_combined_with_shared_words(tmp_path):
    encoder = embedder(2)
    rows = build_store(Texts(TEXTS), str(tmp_path / "words.zarr"), hashing=encoder[-1].word_hashing)
    encoder.fit(rows)
    vectors = encoder.encode(TEXTS)
    for near in nearest(encoder, rows, TEXTS[4], n=3):
        (shared,) = (actual for actual in nearest(encoder, rows, TEXTS[4], n=40, words=1.0) if actual.row == near.row)
        assert near.cosine == pytest.approx(vectors[4] @ vectors[near.row], abs=1e-5)
        assert near.score == pytest.approx(0.3 * near.cosine + 0.7 * shared.score, abs=1e-5)
