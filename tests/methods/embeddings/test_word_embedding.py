"""Word embeddings against a dense reference, for any place of the counts, and on a language with known classes."""

from dataclasses import replace
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import WordEmbedding, build_corpus
from dspectral.cooccurrence.scaling import ContextScaling
from dspectral.inputs.sequences import as_corpus
from dspectral.methods.embeddings.queries import nearest_vectors
from dspectral.methods.embeddings.word_embedding import EmbeddingRecipe, count_contexts

CLASSES = [["red", "blue", "green"], ["cat", "dog", "cow"], ["runs", "sleeps", "eats"]]


def memory(limit):
    """Set the bytes that counts may take in memory."""
    return dask.config.set({"dspectral.memory-limit": limit})


def language(n, seed=0):
    """Sentences of an adjective, a noun, a verb and again, drawn at random: words of a class are alike."""
    draws = np.random.default_rng(seed).integers(3, size=(n, 6))
    return [[CLASSES[i % 3][k] for i, k in enumerate(row)] for row in draws.tolist()]


@pytest.fixture(scope="module")
def sentences():
    return language(300)


@pytest.fixture
def corpus(sentences, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(map(" ".join, sentences)))
    return build_corpus(str(tmp_path / "text.txt"), str(tmp_path / "corpus"), block_bytes=2000)


def dense(counts, transform, scaling, smoothing):
    """The template, cell by cell of a dense matrix."""
    T = {"sqrt": np.sqrt, "log": np.log1p, "none": lambda x: x}.get(transform, lambda x: x ** float(transform))
    r, c, n = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    c = c**smoothing * n / (c[c > 0] ** smoothing).sum() * (c > 0)
    out = np.zeros_like(counts)
    for i, j in np.argwhere(counts > 0):
        value = T(counts[i, j])
        if scaling == "cca":
            value /= np.sqrt(T(r[i]) * T(c[j]))
        elif scaling == "reg":
            value /= T(r[i])
        elif scaling == "ppmi":
            value = max(0.0, np.log(value * T(n) / (T(r[i]) * T(c[j]))))
        out[i, j] = value
    return out


@pytest.mark.parametrize("transform", ["sqrt", "log", "none", 2 / 3])
@pytest.mark.parametrize("scaling", ["cca", "ppmi", "reg", "none"])
def test_counts_are_scaled_as_the_template_says(transform, scaling):
    counts = np.random.default_rng(0).poisson(0.7, size=(20, 15)).astype(float)
    counts[3] = counts[:, 4] = 0
    how = ContextScaling.from_column_sums(counts.sum(axis=0), transform=transform, scaling=scaling, smoothing=0.75)
    rows = sparse.csr_array(counts)
    before = rows.data.copy()
    expected = dense(counts, transform, scaling, 0.75)
    scaled = [how.apply(rows[:7]), how.apply(rows[7:])]
    np.testing.assert_allclose(sparse.vstack(scaled).toarray(), expected, rtol=1e-5)
    np.testing.assert_array_equal(rows.data, before)


def test_vectors_are_those_of_a_dense_decomposition():
    draws = np.random.default_rng(5).zipf(1.5, size=(80, 7))
    sentences = [[f"w{i}" for i in row if i < 12] for row in draws.tolist()]
    for context, window, n_contexts in (
        ("bag", 2, None),
        ("list", 2, None),
        ("list", 2, 16),
        ("zones", 4, None),
    ):
        recipe = EmbeddingRecipe(context=context, n_contexts=n_contexts)
        model = WordEmbedding(3, window=window, power=0.5, recipe=recipe).fit(sentences)
        counts = count_contexts(as_corpus(sentences), window, recipe).rows.toarray()
        U, s, _ = np.linalg.svd(dense(counts, "sqrt", "cca", 0.75))
        np.testing.assert_allclose(model.singular_values_, s[1:4], rtol=1e-4)
        expected = U[:, 1:4] * np.sqrt(s[1:4])
        expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(model.vectors_ @ model.vectors_.T, expected @ expected.T, atol=2e-3)


def test_words_of_a_class_are_neighbours_and_more_so_with_more_text():
    spreads = []
    for n in (60, 1500):
        rng, words = np.random.default_rng(n), np.ravel(CLASSES)
        text = [[w if rng.random() < 0.7 else str(rng.choice(words)) for w in s] for s in language(n, seed=n)]
        model = WordEmbedding(3, window=1, recipe=EmbeddingRecipe(context="list")).fit(text)
        spreads.append(np.mean([1 - model[a] @ model[b] for a, b, _ in CLASSES]))
    assert 0 < spreads[1] < spreads[0] / 5
    assert spreads[1] < 0.1
    for one, *others in CLASSES:
        assert {word for word, _ in model.most_similar(one, n=2)} == set(others)


def test_counts_in_the_store_give_the_same_vectors_as_counts_in_memory(corpus, sentences):
    whole = WordEmbedding(3, window=3).fit(sentences)
    for limit, out_of_core in ((1 << 30, False), (2000, True), (1, True)):
        with memory(limit):
            model = WordEmbedding(3, window=3).fit(corpus)
        assert model.out_of_core_ is out_of_core
        assert model.words_ == whole.words_
        np.testing.assert_allclose(model.vectors_, whole.vectors_, atol=1e-4)
    rare = []
    for limit in (1, 1 << 30):
        with memory(limit):
            rare.append(WordEmbedding(3, window=3, min_count=205).fit(corpus))
    assert rare[0].words_ == rare[1].words_
    assert 3 < len(rare[0].words_) < len(whole.words_)
    np.testing.assert_allclose(rare[0].vectors_, rare[1].vectors_, atol=1e-4)


def test_counts_in_the_store_are_made_once(corpus, monkeypatch):
    with memory(1):
        first = WordEmbedding(3, window=3).fit(corpus)
        monkeypatch.setattr("dspectral.store.context_counts._spill_block", None)
        again = WordEmbedding(3, window=3, scaling="ppmi", recipe=EmbeddingRecipe(n_skipped=0)).fit(corpus)
    assert again.vectors_.shape == first.vectors_.shape


def test_counts_of_some_blocks_are_not_taken_for_those_of_all(corpus, sentences):
    with memory(1):
        WordEmbedding(3, window=3).fit(replace(corpus, blocks=corpus.blocks[:2]))
        model = WordEmbedding(3, window=3).fit(corpus)
    np.testing.assert_allclose(model.vectors_, WordEmbedding(3, window=3).fit(sentences).vectors_, atol=1e-4)


def test_a_plan_writes_nothing_into_the_corpus(corpus):
    before = sorted(Path(corpus.location.url).rglob("*"))
    with memory(1):
        actual = WordEmbedding(3, window=3).plan(corpus, workers=2)
    assert actual.phase == "count-contexts"
    assert sorted(Path(corpus.location.url).rglob("*")) == before


def test_queries_leave_out_what_is_given_and_the_rare_type(sentences):
    model = WordEmbedding(2, window=1).fit([*sentences, ["alone"]])
    assert np.allclose(np.linalg.norm(model.vectors_[1:], axis=1), [w != "alone" for w in model.words_[1:]])
    actual = [word for word, _ in model.most_similar(["cat", "red"], "dog", n=50)]
    assert sorted(actual) == sorted(set(model.words_) - {"<?>", "cat", "red", "dog"})
    for method in ("add", "mul"):
        ((word, _),) = model.analogy("red", "blue", "cat", method=method)
        assert word not in ("red", "blue", "cat")
    for ask in (model.most_similar, model.__getitem__):
        with pytest.raises(KeyError, match="'owl'"):
            ask("owl")


def test_words_are_looked_up_alone_and_in_lists(sentences):
    model = WordEmbedding(2, window=1).fit(sentences)
    assert model.most_similar(negative="red", n=1)[0][0] != "red"
    np.testing.assert_array_equal(model[["cat", "red"]], [model["cat"], model["red"]])
    assert "cat" in model
    assert "owl" not in model


def test_a_sentence_becomes_the_mean_of_its_known_words(sentences, corpus):
    model = WordEmbedding(2, window=1).fit(sentences)
    actual = model.transform([["cat", "owl", "red", "cat"], ["owl"], []])
    np.testing.assert_allclose(actual[0], (2 * model["cat"] + model["red"]) / 3, rtol=1e-6)
    assert not actual[1:].any()
    assert list(model.get_feature_names_out()) == ["wordembedding0", "wordembedding1"]
    lazy = model.set_output(transform="pandas").transform(corpus)
    model.set_output(transform="default")
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), model.transform(sentences))
    other = WordEmbedding(2, window=1).fit([[w for w in s if w != "cat"] for s in sentences])
    np.testing.assert_array_equal(other.transform(corpus).compute(), other.transform(sentences))
    with pytest.raises(ValueError, match=r"'red cat'.*strings"):
        model.transform(["red cat"])


@pytest.mark.parametrize("n_components", [2, 9])
def test_directions_that_the_counts_do_not_have_are_zeros(n_components):
    with pytest.warns(UserWarning, match="n_components is.*1 independent") as seen:
        model = WordEmbedding(n_components, window=1).fit([["a", "b"]] * 3)
    assert len(seen) == 1
    assert model.vectors_.shape == (3, n_components)
    assert not model.vectors_[:, 1:].any()
    assert not model.singular_values_[1:].any()


def test_ties_are_answered_in_the_order_of_the_vocabulary():
    assert nearest_vectors(np.eye(4)[[0, 1, 1, 0]], [0], n=3)[0].tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ([], {}, "0 sentence"),
        ([["a"], ["b"], ["c"], ["d"]], {"n_components": 2}, "context"),
        ([["a", "b"]] * 3, {"n_components": 1, "min_count": 4}, "min_count = 4"),
    ],
)
def test_what_cannot_be_fitted_is_said(text, how, message):
    with pytest.raises((ValueError, TypeError), match=message):
        WordEmbedding(**{"n_components": 1, **how}).fit(text)
