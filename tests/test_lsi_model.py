"""Latent semantic indexing under gensim's names, against the estimator behind it; tests/interop has gensim itself."""

import logging
import re

import numpy as np
import pytest
from scipy import sparse

from dspectral import LsiModel, TruncatedSVD, load, open_store, save
from dspectral.store import StoreError
from tests.strategies import zipf_counts

ROWS = zipf_counts(60, 30, 3).astype(float)
BAGS = [list(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in map(ROWS.__class__, ROWS)]
WORDS = {number: f"w{number}" for number in range(30)}


@pytest.mark.parametrize("chunksize", [7, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_topics_of_a_stream_are_those_of_the_matrix(chunksize, dtype):
    svd = TruncatedSVD(3, n_passes=5).fit(ROWS)
    model = LsiModel(iter(BAGS[:40]), 3, WORDS, chunksize, dtype=dtype)
    model.add_documents(BAGS[40:])
    assert model.projection.u.dtype == model.projection.s.dtype == model.get_topics().dtype == dtype
    np.testing.assert_allclose(model.projection.s, svd.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(model.projection.u, svd.components_.T, atol=1e-5)
    np.testing.assert_array_equal(model.get_topics(), model.projection.u.T)
    coordinates = np.array([[value for _, value in bag] for bag in model[BAGS]])
    np.testing.assert_allclose(coordinates, svd.transform(ROWS), atol=1e-4)
    scaled = [value for _, value in model.__getitem__(BAGS[5], scaled=True)]
    np.testing.assert_allclose(scaled, coordinates[5] / model.projection.s, rtol=1e-6)
    assert model[BAGS[5]] == list(model[BAGS])[5]
    assert len(model[BAGS]) == model.docs_processed == model.rows.n_rows == 60
    assert model[[]] == []
    assert str(model) == f"LsiModel<num_terms=30, num_topics=3, decay=1.0, chunksize={chunksize}>"


def test_topics_are_shown_as_words_and_logged(caplog):
    model = LsiModel(BAGS, 3, WORDS)
    word, weight = model.svd.top_terms(1, terms=WORDS)[0][0]
    assert model.show_topics(2, 1, formatted=False)[0] == (0, [(word, pytest.approx(weight))])
    assert model.show_topic(0, 4) == model.show_topics(1, 4, False, False)[0][1]
    assert model.show_topic(3) == []
    with caplog.at_level(logging.INFO, "dspectral"):
        assert model.print_topics(1, 2)[0][1] == model.print_topic(0, 2)
    assert f"topic #0({model.projection.s[0]:.3f}): {model.print_topic(0, 2)}" in caplog.text
    assert model.print_topic(0, 2).count("*") == 2


def test_topics_beyond_the_rank_are_left_out():
    with pytest.warns(UserWarning, match="rank"):
        model = LsiModel([[(0, 1)], [(1, 2)]], 200, WORDS)
    assert model.projection.u.shape == (30, 2)
    assert len(model.show_topics()) == 2


@pytest.mark.parametrize("whole", [ROWS.T, sparse.csc_matrix(ROWS.T), BAGS, tuple(BAGS)])
def test_words_without_names_have_their_numbers(whole):
    model = LsiModel(whole, 3, chunksize=25)
    np.testing.assert_allclose(model.projection.s, LsiModel(BAGS, 3, WORDS).projection.s)
    assert model.id2word == {number: str(number) for number in range(30)}
    assert len(list(model[whole])) == len(model[whole]) == 60


@pytest.mark.filterwarnings("ignore:n_components is 30")
@pytest.mark.parametrize("onepass", [True, False])
def test_earlier_documents_decay_by_chunks_or_by_calls(onepass):
    model = LsiModel(BAGS[:20], 30, WORDS, 10, 0.5, onepass=onepass)
    model.add_documents(BAGS[20:50])
    model.add_documents(BAGS[50:], 10, 0.25)
    weights = [2**-6, 2**-5, 2**-4, 2**-3, 2**-2, 1] if onepass else [2**-3, 2**-3, *[2**-2] * 3, 1]
    expected = np.linalg.svd(ROWS.toarray() * np.repeat(weights, 10)[:, None], compute_uv=False)
    np.testing.assert_allclose(model.projection.s, expected[: len(model.projection.s)], rtol=1e-5)


def documents_that_break(name, patch):
    """Yield documents, and break a function once all are read."""
    yield from BAGS[20:]
    patch.setattr(name, lambda *_: 1 / 0)


FUNCTIONS = ("dspectral.TruncatedSVD.fit", "dspectral.store.matrix.finish_store")


@pytest.mark.slow
@pytest.mark.parametrize("store", [None, "rows.zarr"])
@pytest.mark.parametrize("broken", [[(99, 1.0)], [(3, np.nan)], [(3, 1, 2)], *FUNCTIONS])
def test_documents_that_fail_leave_the_model_unchanged(broken, store, tmp_path, monkeypatch):
    model = LsiModel(BAGS[:20], 3, WORDS, 8, store=store and str(tmp_path / store))
    before = model.svd, model.projection, model.docs_processed
    with monkeypatch.context() as patch:
        more = documents_that_break(broken, patch) if broken in FUNCTIONS else [*BAGS[20:55], broken, *BAGS[55:]]
        with pytest.raises((ValueError, ZeroDivisionError)):
            model.add_documents(more)
    assert (model.svd, model.projection, model.docs_processed) == before
    assert model.rows.n_rows == open_store(model.rows.location.url).n_rows == 20
    model.add_documents(BAGS[20:50])
    model.add_documents(BAGS[50:])
    assert model.docs_processed == open_store(model.rows.location.url).n_rows == 60
    np.testing.assert_allclose(model.projection.s, LsiModel(BAGS, 3, WORDS).projection.s)


def test_first_corpus_that_fails_leaves_nothing_at_the_path(tmp_path):
    place = str(tmp_path / "rows.zarr")
    with pytest.raises(ValueError, match="word 30"):
        LsiModel([*BAGS, [(30, 1)]], 3, WORDS, 10, store=place)
    model = LsiModel(BAGS, 3, WORDS, 10, store=place)
    with pytest.raises(StoreError, match=re.escape(place)):
        LsiModel(BAGS, 3, WORDS, store=place)
    other = LsiModel.load(saved(model, tmp_path))
    other.add_documents(BAGS[:5])
    with pytest.raises(StoreError, match="60 documents"):
        model.add_documents(BAGS[:5])


def saved(model, folder):
    model.save(str(folder / "model.gz"), separately=["projection"], sep_limit=0, pickle_protocol=4)
    return str(folder / "model.gz")


@pytest.mark.parametrize("store", [None, "rows.zarr"])
def test_saved_model_adds_documents_if_they_are_kept(store, tmp_path):
    place = store and str(tmp_path / store)
    model = LsiModel(iter(BAGS[:40]), 3, WORDS, 15, 0.5, store=place, dtype=np.float32, random_seed=5)
    saved(LsiModel(BAGS[:9], 2, WORDS), tmp_path)  # is replaced
    again = LsiModel.load(saved(model, tmp_path), mmap=None)
    assert list(again[BAGS]) == list(model[BAGS])
    names = "id2word num_topics num_terms chunksize decay onepass power_iters dtype random_seed docs_processed"
    assert [getattr(again, name) for name in names.split()] == [getattr(model, name) for name in names.split()]
    assert again.print_topics() == model.print_topics()
    assert again.projection.u.dtype == np.float32
    assert isinstance(load(str(tmp_path / "model.gz")), TruncatedSVD)
    if store is None:
        with pytest.raises(ValueError, match=r"40 documents.*store=PATH"):
            again.add_documents(BAGS[40:])
        return
    again.add_documents(BAGS[40:])
    assert again.docs_processed == 60
    expected = LsiModel(BAGS[:40], 3, WORDS, 15, 0.5, dtype=np.float32)
    expected.add_documents(BAGS[40:])
    np.testing.assert_allclose(again.projection.s, expected.projection.s, rtol=1e-6)


def test_load_refuses_other_models_and_mmap(tmp_path):
    save(TruncatedSVD(2).fit(ROWS), str(tmp_path / "svd"))
    for options, named in (({}, "TruncatedSVD"), ({"mmap": "r"}, "mmap='r'")):
        with pytest.raises(ValueError, match=named):
            LsiModel.load(str(tmp_path / "svd"), **options)


@pytest.mark.parametrize(
    ("corpus", "words", "options", "named"),
    [
        ([[(30, 1)]], WORDS, {}, "word 30.*29"),
        ([[(np.nan, 1)]], WORDS, {}, "word nan"),
        ([[(0, 1)], [(1, 2, 3), (4, 5, 6)]], WORDS, {}, "doc2bow"),
        (ROWS, WORDS, {}, r"\(60, 30\).*30 rows"),
        ([], WORDS, {}, "corpus.*empty"),
        (iter(BAGS), None, {}, "id2word.*None"),
        (BAGS, WORDS, {"distributed": True}, "distributed=True"),
        (BAGS, WORDS, {"dtype": np.float16}, "float32"),
        (BAGS, WORDS, {"decay": -1.0}, "decay"),
    ],
)
def test_invalid_arguments_are_refused(corpus, words, options, named):
    with pytest.raises(ValueError, match=named):
        LsiModel(corpus, **{"num_topics": 3, "id2word": words, **options})
