"""Topics: planted ones are found in any container and cut; words and documents are those of a slow oracle."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse
from sklearn import decomposition
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from dspectral import (
    NgramHashing,
    Texts,
    Topics,
    VocabularySettings,
    build_store,
    load,
    read_vectors,
    save,
    write_coordinates,
)
from dspectral.methods.topics.rotation import compute_shares, find_varimax_rotation

K, OF_TOPIC, COMMON = 4, 12, 10
WORDS = [f"w{topic}x{i}" for topic in range(K) for i in range(OF_TOPIC)] + [f"c{i}" for i in range(COMMON)]


def planted(n, seed=0):
    """Counts of documents mostly of one topic each, and that topic."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    mixed = np.where(np.arange(K) == truth[:, None], 0.8, 0.2 / (K - 1))
    words = np.zeros((K, len(WORDS)))
    for topic in range(K):
        words[topic, topic * OF_TOPIC : (topic + 1) * OF_TOPIC] = 0.8 / OF_TOPIC
    words[:, K * OF_TOPIC :] = 0.2 / COMMON
    return np.stack([rng.multinomial(40, p) for p in mixed @ words]).astype(float), truth


def texts_of(counts):
    return [" ".join(word for word, n in zip(WORDS, row, strict=True) for _ in range(int(n))) for row in counts]


def make(**parameters):
    return Topics(**{"n_topics": K, "max_df": 1.0, "n_top_documents": 5, **parameters})


def matched(model, truth):
    """The planted topic of each found one, by its typical documents."""
    return [int(np.bincount(truth[[one.row for one in topic]]).argmax()) for topic in model.top_documents()]


def test_planted_topics_are_found_with_their_words_and_documents():
    counts, truth = planted(400)
    model = make().fit(counts, terms=WORDS)
    actual = matched(model, truth)
    assert sorted(actual) == list(range(K))
    for topic, words in zip(actual, model.top_words(8), strict=True):
        assert all(word.startswith(f"w{topic}x") for word in words)
    assert np.mean(np.take(actual, model.transform(counts).argmax(axis=1)) == truth) > 0.97
    assert (np.diff(model.topic_shares_) <= 0).all()


def test_predict_is_the_topic_of_a_mixture_of_distinct_words():
    counts, truth = planted(400)
    kept = np.random.default_rng(1).random(counts.shape) < 0.25
    short = np.vstack([np.minimum(counts, 1) * kept, np.zeros(len(WORDS))])  # few words each, and an empty document
    model = make(min_df=1).fit(short)
    groups = model.predict(short)
    assert groups[-1] == -1
    order = matched(model, np.append(truth, 0))
    by_shares = np.take(order, model.transform(short)[:-1].argmax(axis=1)) == truth
    assert np.mean(np.take(order, groups[:-1]) == truth) > max(0.8, by_shares.mean())
    np.testing.assert_array_equal(model.predict(da.from_array(short, chunks=(70, -1))).compute(), groups)
    words, mean = model.group_words_, model.group_words_.sum(axis=0)
    topics, mean = words / words.sum(axis=1, keepdims=True), mean / mean.sum()
    own = words * topics / (0.4 * topics + 0.6 * mean)
    scores = (short > 0) @ np.log(0.4 * own / own.sum(axis=1, keepdims=True) + 0.6 * mean).T
    expected = np.where(short.any(axis=1), (scores + np.log(model.group_sizes_)).argmax(axis=1), -1)
    np.testing.assert_array_equal(expected, groups)
    assert model.group_sizes_.sum() == pytest.approx(np.sum(groups >= 0))


def test_words_of_topics_come_closer_to_the_truth_as_documents_grow():
    def error(n):
        counts, truth = planted(n)
        model = make().fit(counts, terms=WORDS)
        of_topic = model.components_[np.argsort(matched(model, truth))]
        own = [row[t * OF_TOPIC : (t + 1) * OF_TOPIC] for t, row in enumerate(of_topic)]
        return np.std([row / row.mean() for row in own])  # a topic's words are equally likely

    assert error(6400) < 0.6 * error(400)


@pytest.fixture(scope="module")
def known():
    counts, _ = planted(300)
    return counts, make().fit(sparse.csr_array(counts))


def test_texts_and_their_store_give_the_same_topics(tmp_path):
    counts, _ = planted(200)
    texts = texts_of(counts)
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    of_texts = make().fit(texts)
    store = build_store(
        str(tmp_path / "texts.txt"), str(tmp_path / "s"), vocabulary=VocabularySettings(), block_bytes=4000
    )
    of_store = make().fit(store)
    assert of_store.top_words() == of_texts.top_words()
    np.testing.assert_array_equal(of_store.document_rows_, of_texts.document_rows_)
    np.testing.assert_allclose(of_store.transform(texts), of_texts.transform(texts), atol=1e-5)
    first = of_texts.top_documents(2)[0]
    assert [one.text for one in first] == [texts[one.row] for one in first]
    assert of_store.top_documents(1)[0][0].text is None
    hashed = build_store(str(tmp_path / "texts.txt"), str(tmp_path / "h"), keep_terms=1000)
    by_hash = make().fit(hashed)
    assert {*by_hash.top_words(3)[0]} & {*WORDS}
    np.testing.assert_allclose(by_hash.transform(texts), np.asarray(by_hash.transform(hashed)), atol=1e-6)


def test_documents_and_shares_are_those_of_a_slow_oracle(known):
    counts, model = known
    weighted = model.weighting.apply(sparse.csr_array(counts)).toarray()
    coordinates = weighted @ model.axes_.T
    cosines = coordinates / np.linalg.norm(coordinates, axis=1)[:, None] @ model.rotation_
    np.testing.assert_array_equal(model.document_rows_, np.argsort(-cosines, axis=0, kind="stable")[:5].T)
    squares = np.maximum(cosines, 0) ** 2
    np.testing.assert_allclose(model.transform(counts), squares / squares.sum(axis=1)[:, None], atol=1e-6)
    np.testing.assert_allclose(model.topic_shares_, model.transform(counts).mean(axis=0), atol=1e-6)
    typical = np.maximum(coordinates / model.singular_values_ @ model.rotation_, 0) ** 2
    words = typical.T @ weighted
    np.testing.assert_allclose(model.components_, words / words.sum(axis=1)[:, None], atol=1e-6)


def test_rotation_is_orthogonal_and_a_maximum_of_the_criterion():
    def criterion(scores):
        return np.var(scores**2, axis=0).sum()

    rng = np.random.default_rng(0)
    scores = rng.exponential(size=(200, 3)) * (rng.random((200, 3)) < 0.3) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotation = find_varimax_rotation(scores)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    best = criterion(scores @ rotation)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for angle in (-0.05, 0.05, 0.7):
            turn = np.eye(3)
            turn[[i, j], [i, j]], turn[i, j], turn[j, i] = np.cos(angle), -np.sin(angle), np.sin(angle)
            assert criterion(scores @ rotation @ turn) < best
    assert ((scores @ rotation) ** 3).sum(axis=0).min() > 0


def test_stop_words_limits_and_documents_without_words():
    counts, _ = planted(100)
    counts[7] = 0
    model = make(stop_words=("w0x0",), min_df=0.02).fit(counts, terms=WORDS)
    assert "w0x0" not in model.words_
    np.testing.assert_array_equal(model.transform(counts)[7], np.zeros(K))
    assert compute_shares(np.zeros((0, K))).shape == (0, K)
    with pytest.raises(ValueError, match=r"n_topics.*4.*n_features = 58.*min_df=101"):
        make(min_df=101).fit(counts)
    with pytest.raises(ValueError, match=r"X.*texts.*counts"):
        make().fit(counts).transform(["w0x1"])


PROSE = ["The sailor and the whale sank", "a gardener and the bees hummed", "The miner dug into the coal"] * 6


@pytest.mark.slow
@pytest.mark.parametrize("stop_words", ["english", {"the", "And"}])
@pytest.mark.parametrize("kind", ["texts", "vocabulary", "hashed", "named"])
def test_stop_words_are_left_out_of_texts_and_stores(stop_words, kind):
    hashing, rows = NgramHashing(2**12, (1, 1)), PROSE
    if kind != "texts":
        options = {
            "vocabulary": {"vocabulary": VocabularySettings(ngram_range=(1, 2))},
            "hashed": {"hashing": hashing},
            "named": {"hashing": hashing, "keep_terms": 50},
        }[kind]
        rows = build_store(Texts(PROSE), f"memory://stopped-{kind}-{type(stop_words).__name__}", **options)
    model = Topics(3, max_df=1.0, stop_words=stop_words).fit(rows)
    if kind != "hashed":
        assert not {"the", "and"} & {word for term in model.words_ for word in term.split()}
        assert "whale" in model.words_
    else:
        column, whale = (int(hashing.transform([word]).indices[0]) for word in ("the", "whale"))
        assert column not in model.columns_
        assert whale in model.columns_
    if rows is not PROSE:
        rows.location.try_remove("")


def test_stop_words_that_cannot_be_left_out_are_refused():
    counts, _ = planted(60)
    with pytest.raises(ValueError, match=r"stop_words.*w0x0.*terms"):
        make(stop_words=["w0x0"]).fit(counts)
    with pytest.raises(ValueError, match="stop_words='w0x0'"):
        make(stop_words="w0x0").fit(counts, terms=WORDS)
    assert make(stop_words=None).fit(counts).words_ is None
    assert ENGLISH_STOP_WORDS & set(Topics(3, max_df=1.0, stop_words=None).fit(PROSE).words_) == {
        "a",
        "the",
        "and",
        "into",
    }


def test_texts_without_known_words_are_typical_of_nothing():
    texts = ["", "oak elm", "?", "tin zinc", "oak elm", "tin zinc", "", "fern"]
    for topic in Topics(2, min_df=2, max_df=1.0).fit(texts).top_documents(5):
        assert len(topic) == 2
        assert all(one.cosine > 0.9 and one.text in ("oak elm", "tin zinc") for one in topic)


@pytest.mark.parametrize("dtype", [object, "string"])
def test_column_of_a_frame_gives_ids_and_reads_missing_cells_as_empty(dtype):
    frame = pd.DataFrame({"text": [None, "oak elm", "tin zinc", "oak elm", "tin zinc", None]}, index=[*"pqrstu"])
    model = Topics(2, min_df=2, max_df=1.0)
    with pytest.warns(UserWarning, match="2 missing text"):
        model.fit(frame["text"].astype(dtype))
    expected = [[("q", "oak elm"), ("s", "oak elm")], [("r", "tin zinc"), ("t", "tin zinc")]]
    assert sorted([(one.id, one.text) for one in topic] for topic in model.top_documents(5)) == expected
    table = model.to_frame(2)
    assert sorted(table["id"]) == ["q", "r"]
    assert sorted(table["words"]) == ["elm oak", "tin zinc"]
    np.testing.assert_array_equal(table["share"], model.topic_shares_)
    merged = model.merge(Topics(2, min_df=2, max_df=1.0).fit(frame["text"].dropna()))
    assert {document.id for topic in merged.top_documents(5) for document in topic} <= {*"qrst"}


def test_rare_name_does_not_precede_the_words_of_the_topic():
    counts, truth = planted(400)
    names = np.zeros((400, K))
    for topic in range(K):  # in six documents of the topic and nowhere else
        names[np.flatnonzero(truth == topic)[:6], topic] = 12
    columns = [*WORDS, *(f"name{topic}" for topic in range(K))]
    model = make(min_df=2).fit(np.hstack([counts, names]), terms=columns)
    assert not [word for words in model.top_words(OF_TOPIC + 3) for word in words if word.startswith("name")]


def test_merged_topics_of_parts_are_those_of_all_documents():
    counts, truth = planted(900)
    parts = (slice(500), slice(500, 600), slice(600, None))
    first, second, third = (make(min_df=1).fit(counts[part], terms=WORDS) for part in parts)
    merged, whole = first.merge(second).merge(third), make(min_df=1).fit(counts, terms=WORDS)
    assert matched(merged, truth) == matched(first, truth[:500])  # topics keep their numbers
    order, expected = (np.argsort(matched(model, truth)) for model in (merged, whole))
    np.testing.assert_allclose(merged.idf_, whole.idf_, rtol=1e-12)
    np.testing.assert_allclose(merged.topic_shares_[order], whole.topic_shares_[expected], atol=1e-3)
    np.testing.assert_allclose(merged.components_[order], whole.components_[expected], atol=1e-3)
    np.testing.assert_allclose(merged.transform(counts)[:, order], whole.transform(counts)[:, expected], atol=1e-2)
    np.testing.assert_allclose(merged.axes_ @ merged.axes_.T, np.eye(K), atol=1e-10)
    assert merged.n_documents_ == 900


def test_sums_of_matched_topics_merge_exactly_and_in_any_tree():
    counts, _ = planted(900)
    models = [make(min_df=1).fit(counts[start : start + 300], terms=WORDS) for start in (0, 300, 600)]
    left, right = models[0].merge(models[1]).merge(models[2]), models[0].merge(models[1].merge(models[2]))
    for name in ("topic_shares_", "components_", "idf_", "document_cosines_", "group_words_", "group_sizes_"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-12)
    np.testing.assert_array_equal(left.document_rows_, right.document_rows_)
    np.testing.assert_allclose(left.topic_shares_.sum(), 1.0)
    twice = models[0].merge(models[0])
    np.testing.assert_allclose(twice.components_, models[0].components_, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(twice.topic_shares_, models[0].topic_shares_, rtol=1e-12)


def test_topics_keep_their_numbers_when_other_texts_are_added():
    counts, truth = planted(400)
    texts = texts_of(counts)
    known, new = (
        [text for text, topic in zip(texts, truth, strict=True) if wanted(topic)]
        for wanted in (lambda topic: topic < 3, lambda topic: topic > 1)
    )
    model = make(n_topics=3, max_df=0.6).fit(known)
    before = [{word[:2] for word in words} for words in model.top_words(5)]
    words, n_columns = model.words_, model.n_features_in_
    model.set_params(n_topics=2).partial_fit([*new, *["z1 z2 z3"] * 6])
    assert [{word[:2] for word in words} for words in model.top_words(5)] == [*before, {"w3"}]
    assert model.words_[: len(words)] == words
    assert model.n_features_in_ == n_columns + len(model.words_) - len(words)
    documents = [
        [known, new][one.row >= len(known)][one.row - len(known) * (one.row >= len(known))] == one.text
        for topic in model.top_documents()
        for one in topic
    ]
    assert len(documents) == 20
    assert all(documents)
    assert model.transform(["w3x1 w3x2 w3x3"]).argmax() == 3


def test_models_that_count_other_words_do_not_merge():
    counts, _ = planted(200)
    model = make().fit(counts)
    with pytest.raises(ValueError, match=f"{len(WORDS) - 1} columns.*{len(WORDS)}"):
        model.merge(make().fit(counts[:, :-1]))
    with pytest.raises(ValueError, match=r"binary.*sublinear"):
        model.merge(make(tf="binary").fit(counts))


def test_columns_of_two_vocabularies_of_one_size_are_joined_by_word():
    def fit(words):
        texts = [f"{words[0]} {words[1]}", f"{words[0]} {words[1]} {words[2]}", f"{words[2]} {words[3]}"] * 5
        return Topics(2, min_df=1, max_df=0.9, stop_words=words[3:]).fit(texts)

    first, second = fit(["cat", "dog", "fox", "the"]), fit(["hen", "owl", "cat", "not"])
    second.columns_ = second.columns_ + len(first.columns_)  # no column in common, but a word
    second.n_features_in_ = first.n_features_in_
    assert sorted(first.merge(second).words_) == ["cat", "dog", "fox", "hen", "owl"]


@pytest.fixture(scope="module")
def with_vectors():
    """Counts, vectors of three topics away from the origin, and the model in memory; document 5 has none."""
    counts, truth = planted(300)
    rng = np.random.default_rng(2)
    vectors = (5 + 4 * rng.standard_normal((K, 20))[truth] + rng.standard_normal((300, 20))).astype(np.float16)
    vectors[5] = 0
    return counts, vectors, truth, make(n_topics=3).fit(sparse.csr_array(counts), terms=WORDS, vectors=vectors)


def test_topics_of_vectors_are_the_rotated_pca_of_scikit_learn(with_vectors):
    counts, vectors, truth, model = with_vectors
    unit = vectors / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True).clip(1e-9)
    pca = decomposition.PCA(3, svd_solver="full").fit(unit)
    points = pca.transform(unit) * (np.arange(300) != 5)[:, None]
    rotated = points @ (rotation := find_varimax_rotation(points / pca.singular_values_))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    shares = compute_shares(np.divide(rotated, lengths, out=np.zeros_like(points), where=lengths > 0))
    order = np.argsort(-shares.mean(axis=0))
    np.testing.assert_allclose(model.transform(vectors), shares[:, order], atol=1e-4)
    np.testing.assert_allclose(model.topic_shares_, shares.mean(axis=0)[order], atol=1e-4)
    np.testing.assert_allclose(np.abs(model.coordinates(vectors)), np.abs(points), atol=1e-4)
    typical = np.maximum(points / pca.singular_values_ @ rotation, 0) ** 2
    words = typical[:, order].T @ model.weighting.apply(sparse.csr_array(counts)).toarray()
    np.testing.assert_allclose(model.components_, words / words.sum(axis=1, keepdims=True), atol=1e-4)
    np.testing.assert_array_equal(
        model.document_rows_, np.argsort(-(rotated / lengths.clip(1e-9)), axis=0)[:5, order].T
    )
    for topic, found in zip(matched(model, truth), model.top_words(8), strict=True):
        assert all(word.startswith(f"w{topic}x") for word in found)


def write_parquet(folder, vectors):
    return write_coordinates(None, vectors, folder / "v.parquet", dtype="float16").location.url


def write_npy(folder, vectors):
    np.save(folder / "v.npy", vectors)
    return np.load(folder / "v.npy", mmap_mode="r")


SOURCES = {
    "Dask": lambda _, vectors: da.from_array(vectors, chunks=(70, -1)),
    "Parquet": write_parquet,
    "read_vectors": lambda folder, vectors: read_vectors(write_parquet(folder, vectors)),
    "memory map": write_npy,
    "Zarr": lambda folder, vectors: zarr.create_array(str(folder / "v.zarr"), data=vectors, chunks=(50, 20)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_vectors_of_every_source_give_the_same_topics(name, with_vectors, tmp_path):
    counts, vectors, _, model = with_vectors
    (tmp_path / "t.txt").write_text("\n".join(texts_of(counts)))
    store = build_store(str(tmp_path / "t.txt"), str(tmp_path / "s"), vocabulary=VocabularySettings(), block_bytes=4000)
    of_store = make(n_topics=3).fit(store, vectors=SOURCES[name](tmp_path, vectors))
    np.testing.assert_array_equal(of_store.document_rows_, model.document_rows_)
    assert of_store.top_words() == model.top_words()
    np.testing.assert_allclose(
        of_store.transform(da.from_array(vectors, chunks=(60, -1))), model.transform(vectors), atol=1e-5
    )
    np.testing.assert_array_equal(of_store.predict(store), model.predict(counts))
    assert of_store.n_passes_ == 3


def test_model_of_vectors_is_saved_and_writes_coordinates(with_vectors, tmp_path):
    _, vectors, _, model = with_vectors
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(vectors), model.transform(vectors))
    saved = write_coordinates(loaded, vectors, tmp_path / "z.zarr")
    np.testing.assert_array_equal(saved.array, model.coordinates(vectors))


def test_vectors_that_do_not_match_are_refused(with_vectors):
    counts, vectors, _, model = with_vectors
    for call, named in (
        (lambda: make(n_topics=3).fit(counts, vectors=vectors[:-1]), "vectors has 299 rows.*300"),
        (lambda: make(n_topics=21).fit(counts, vectors=vectors), "21.*20"),
        (lambda: make(n_topics=3).fit(counts, vectors=np.where(vectors == 0, np.nan, vectors)), "row 5.*nan"),
        (lambda: model.transform(counts), f"{len(WORDS)} features.*20"),
        (lambda: model.merge(make().fit(counts)), "vectors.*together"),
        (lambda: make().fit(counts).merge(model), "vectors.*together"),
    ):
        with pytest.raises(ValueError, match=named):
            call()
