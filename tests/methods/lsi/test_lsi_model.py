"""Latent semantic indexing under gensim's names, against the estimator behind it; tests/interop has gensim itself."""

import numpy as np
import pytest

from dspectral import LsiModel, TruncatedSVD
from tests.strategies import zipf_counts

ROWS = zipf_counts(60, 30, 3).astype(float)
BAGS = [list(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in map(ROWS.__class__, ROWS)]
WORDS = {number: f"w{number}" for number in range(30)}


@pytest.mark.parametrize("chunksize", [7, 1000])
def test_topics_of_a_stream_are_those_of_the_matrix_and_grow_to_those_of_all(chunksize):
    svd = TruncatedSVD(3, n_passes=5).fit(ROWS)
    model = LsiModel(iter(BAGS[:40]), 3, WORDS, chunksize=chunksize)
    model.add_documents(BAGS[40:])
    np.testing.assert_allclose(model.projection.s, svd.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(model.projection.u, svd.components_.T, atol=1e-5)
    coordinates = np.array([[value for _, value in bag] for bag in model[BAGS]])
    np.testing.assert_allclose(coordinates, svd.transform(ROWS), atol=1e-4)
    assert model[BAGS[5]] == list(model[BAGS])[5]
    assert len(model[BAGS]) == 60
    assert model[[]] == []
    word, weight = svd.top_terms(1, terms=WORDS)[0][0]
    assert model.show_topics(2, 1, formatted=False)[0] == (0, [(word, pytest.approx(weight))])
    assert model.print_topics(1, 2)[0][1].count("*") == 2


def test_topics_that_documents_do_not_have_are_left_out():
    with pytest.warns(UserWarning, match="independent direction"):
        model = LsiModel([[(0, 1)], [(1, 2)]], 200, WORDS)
    assert model.projection.u.shape == (30, 2)
    assert len(model.show_topics()) == 2


@pytest.mark.parametrize(
    ("corpus", "words", "message"),
    [
        ([[(30, 1)]], WORDS, "word 30, but id2word ends at 29"),
        ([], WORDS, "corpus is empty"),
        (BAGS, None, "id2word is None"),
    ],
)
def test_what_is_no_corpus_is_said(corpus, words, message):
    with pytest.raises(ValueError, match=message):
        LsiModel(corpus, 3, words)
