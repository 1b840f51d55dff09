import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.svm import LinearSVC

from dspectral import (
    IntentClassifier,
    SentenceRepresentation,
    WordVectorRepresentation,
    build_store,
    write_counts,
)
from dspectral.methods.sentences.cross_validation import folds
from dspectral.text.hashing import hash_documents
from dspectral.types import Documents

SUBJECTS = {
    "music": ["jazz", "rock", "song", "album", "band", "singer", "guitar", "melody", "concert", "record"],
    "travel": ["flight", "hotel", "airport", "ticket", "train", "luggage", "visa", "beach", "island", "tour"],
    "food": ["pizza", "soup", "salad", "dinner", "recipe", "kitchen", "bread", "cheese", "sauce", "spice"],
}
FILLING = ["please", "show", "me", "the", "best", "new", "one", "now"]


def sentences(n, seed=0):
    """Sentences of filling and of two words of one subject; the subject is the intent."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        label = rng.choice(list(SUBJECTS))
        words = [*rng.choice(FILLING, 4), *rng.choice(SUBJECTS[label], 2, replace=False)]
        texts.append(" ".join(rng.permutation(words)))
        labels.append(str(label))
    return texts, np.array(labels)


UNLABELLED, _ = sentences(2000)
SENT = SentenceRepresentation(6, n_features=2**12).fit(UNLABELLED)


def test_first_half_is_scikit_learns_normalised_hashing():
    texts, _ = sentences(20, seed=1)
    theirs = HashingVectorizer(n_features=2**12, ngram_range=(1, 3), norm="l2").transform(texts)
    np.testing.assert_allclose(SENT.transform(texts)[:, : 2**12].toarray(), theirs.toarray(), atol=1e-6)


def test_second_half_follows_equation_two_written_out(monkeypatch):
    texts, _ = sentences(10, seed=2)
    rows = (hash_documents(Documents.of(UNLABELLED), SENT.word_hashing).toarray() > 0).astype(float)
    frequency = rows.sum(axis=0)
    words = np.flatnonzero(frequency >= 2)
    weighted = rows[:, words] / np.sqrt(frequency[words])
    weighted /= np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-300)
    _, s, V = np.linalg.svd(weighted, full_matrices=False)
    vectors = V[:6].T * s[:6]
    vectors *= (np.log(len(rows) / frequency[words]) + 1)[:, None] / np.linalg.norm(
        vectors, axis=1, keepdims=True
    )
    present = hash_documents(Documents.of(texts), SENT.word_hashing).toarray()[:, words] > 0
    expected = present @ vectors
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    monkeypatch.setattr("dspectral.methods.sentences.representation.SOLVER", "gram")
    exact = clone(SENT).fit(UNLABELLED)
    ours = exact.embed(texts)
    np.testing.assert_array_equal(exact.words_, words)
    np.testing.assert_allclose(
        ours @ ours.T, expected @ expected.T, atol=1e-4
    )  # up to the signs of directions


def test_text_counts_and_store_give_the_same_representation(tmp_path):
    counts = hash_documents(Documents.of(UNLABELLED), SENT.word_hashing)
    (tmp_path / "text.txt").write_text("\n".join(UNLABELLED))
    hashed = build_store(str(tmp_path / "text.txt"), str(tmp_path / "a.zarr"), hashing=SENT.word_hashing)
    written = write_counts(counts, str(tmp_path / "b.zarr"))
    for X, n_passes in ((counts, 2), (hashed, 1), (written, 1)):
        other = clone(SENT).fit(X)
        assert other.n_passes_ == n_passes  # a store knows the document frequencies
        np.testing.assert_array_equal(other.projection_, SENT.projection_)


def test_unknown_words_and_empty_sentences_have_a_zero_second_half():
    assert not SENT.embed(["", "qwertz", "x"]).any()
    assert np.isfinite(SENT.transform(["", "qwertz"]).data).all()


def test_first_words_are_told_apart_by_position():
    a, b = SENT.positions(["jazz rock", "rock jazz"]).toarray()
    assert a.sum() == b.sum() == 2
    assert (a != b).any()


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="4096 columns, but n_features is 1024"):
        SentenceRepresentation(2, n_features=1024).fit(sparse.csr_array((5, 4096), dtype=np.float32))
    with pytest.raises(ValueError, match="no word is in 2 of the 3 unlabeled sentences"):
        SentenceRepresentation(2, n_features=2**12).fit(["only one", "word each", ""])
    (tmp_path / "text.txt").write_text("\n".join(UNLABELLED))
    wrong = SENT.word_hashing._replace(ngram_range=(1, 2))
    store = build_store(str(tmp_path / "text.txt"), str(tmp_path / "s.zarr"), hashing=wrong)
    with pytest.raises(ValueError, match="was hashed with"):
        clone(SENT).fit(store)


@pytest.mark.parametrize("plus", [False, True])
def test_representation_helps_where_labels_are_few(plus):
    texts, labels = sentences(12, seed=3)
    test_texts, test_labels = sentences(300, seed=4)
    plain = IntentClassifier().fit(texts, labels)
    sent = IntentClassifier(SENT, plus=plus).fit(texts, labels)
    assert sent.score(test_texts, test_labels) > plain.score(test_texts, test_labels) + 0.1
    assert sent.decision_function(test_texts).shape == (300, 3)


@pytest.mark.parametrize("given", [{}, {"C": [1.0], "weights": [1.0]}])
def test_by_default_as_for_a_single_choice_one_machine_is_fitted(monkeypatch, given):
    fitted, fit = [], LinearSVC.fit
    monkeypatch.setattr(LinearSVC, "fit", lambda model, *rows: fitted.append(model) or fit(model, *rows))
    texts, labels = sentences(12, seed=3)
    model = IntentClassifier(SENT, **given).fit(texts, labels)
    assert len(fitted) == 1
    assert (model.half_, model.choice_) == ("sent", (1.0, 1.0, 0.0, 0.0))
    assert np.isnan(model.score_)


@pytest.mark.parametrize(
    ("texts", "labels", "plus", "match"),
    [
        (["a b", "c d"], ["x", "x"], False, "only one intent"),
        (["a b", "c d"], ["x"], False, "2 sentences, but 1 labels"),
        (["a b", "c d"], ["x", "y"], True, "plus=True adds to a representation"),
    ],
)
def test_bad_labels_are_refused(texts, labels, plus, match):
    with pytest.raises(ValueError, match=match):
        IntentClassifier(plus=plus).fit(texts, labels)


@pytest.mark.parametrize("n", [10, 50, 7000])
def test_folds_hold_out_every_kind_of_row_once_and_never_train_on_it(n):
    y = np.arange(n) % 7
    found = list(folds(y, 3, seed=0))
    for train, test in found:
        assert not np.intersect1d(train, test).size
        assert len(train) + len(test) == n
    if n <= 6000:
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in found])), np.arange(n))


def test_averaged_word_vectors_are_those_of_the_words():
    words = Documents.of(["jazz", "rock"])
    vectors = np.array([[3.0, 0.0], [0.0, 4.0]], dtype=np.float32)
    model = WordVectorRepresentation(words, vectors, n_features=2**10)
    np.testing.assert_allclose(
        model.embed(["Jazz rock jazz", "none"]), [[6 / 52**0.5, 4 / 52**0.5], [0, 0]], atol=1e-6
    )
