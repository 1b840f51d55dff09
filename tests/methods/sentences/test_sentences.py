import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.svm import LinearSVC

from dspectral import (
    IntentClassifier,
    IntentRecipe,
    SentenceRepresentation,
    Texts,
    WordVectorRepresentation,
    build_store,
    embedder,
    load,
    save,
    write_counts,
)
from dspectral.methods.sentences import intent
from dspectral.methods.sentences.cross_validation import (
    Choice,
    fit_svm,
    make_folds,
    select_choice,
)
from dspectral.methods.sentences.intent import WEIGHT_HALVING
from dspectral.text.hashing import hash_documents
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import Documents

SUBJECTS = {
    "music": ["jazz", "rock", "song", "album", "band", "singer", "guitar", "melody", "concert", "record"],
    "travel": ["flight", "hotel", "airport", "ticket", "train", "luggage", "visa", "beach", "island", "tour"],
    "food": ["pizza", "soup", "salad", "dinner", "recipe", "kitchen", "bread", "cheese", "sauce", "spice"],
}
FILLING = ["please", "show", "me", "the", "best", "new", "one", "now"]

SETTINGS = {"random_state": 1, "class_weight": None}


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


INTENT_TEXTS = ["play some jazz", "play loud rock", "book cheap flight", "book my flight"] * 6
INTENTS = np.array(["music", "music", "travel", "travel"] * 6)
FEW = SentenceRepresentation(2, n_features=256).fit(INTENT_TEXTS)


def test_first_half_is_scikit_learns_normalised_hashing():
    texts, _ = sentences(20, seed=1)
    reference = HashingVectorizer(n_features=2**12, ngram_range=(1, 3), norm="l2").transform(texts)
    np.testing.assert_allclose(SENT.transform(texts)[:, : 2**12].toarray(), reference.toarray(), atol=1e-6)


def test_second_half_follows_equation_two_written_out(monkeypatch):
    texts, _ = sentences(10, seed=2)
    rows = (hash_documents(Documents.from_strings(UNLABELLED), SENT.word_hashing).toarray() > 0).astype(float)
    frequency = rows.sum(axis=0)
    words = np.flatnonzero(frequency >= 2)
    weighted = rows[:, words] / np.sqrt(frequency[words])
    weighted /= np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-300)
    _, s, V = np.linalg.svd(weighted, full_matrices=False)
    vectors = V[:6].T * s[:6]
    vectors *= (np.log(len(rows) / frequency[words]) + 1)[:, None] / np.linalg.norm(vectors, axis=1, keepdims=True)
    present = hash_documents(Documents.from_strings(texts), SENT.word_hashing).toarray()[:, words] > 0
    expected = present @ vectors
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    monkeypatch.setattr("dspectral.methods.sentences.representation.SOLVER", "gram")
    exact = clone(SENT).fit(UNLABELLED)
    actual = exact.embed(texts)
    np.testing.assert_array_equal(exact.words_, words)
    np.testing.assert_allclose(actual @ actual.T, expected @ expected.T, atol=1e-4)  # up to the signs of directions


def test_text_counts_and_store_give_the_same_representation(tmp_path):
    counts = hash_documents(Documents.from_strings(UNLABELLED), SENT.word_hashing)
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


def test_auto_tokenizer_is_that_of_each_script():
    texts = ["I don't like \u6771\u4eac", "", "\u6771\u4eac\u90fd\u306b\u4f4f\u3080", "I don't like a \u201ctree\u201d"]
    hashed = {}
    for rule in ("auto", "characters", None):
        settings = SENT.word_hashing._replace(tokenizer=rule)
        hashed[rule] = hash_documents(Documents.from_strings(texts), settings).toarray()
    np.testing.assert_array_equal(hashed["auto"][:3], hashed["characters"][:3])
    np.testing.assert_array_equal(hashed["auto"][3], hashed[None][3])
    assert (hashed["auto"] != hashed[None])[[0, 2]].any(axis=1).all()


@pytest.mark.parametrize(("tokenizer", "weight"), [("auto", 0.5), (str.split, 1.0)])
def test_pairs_of_letters_count_half_beside_characters(tokenizer, weight):
    texts = ["\u6771\u4eac \u90fd\u306b", "\u4eac\u90fd \u6771\u306b", "a cat", "a dog"]
    model = IntentClassifier(tokenizer=tokenizer).fit(texts, [0, 1, 0, 1])
    base = SentenceRepresentation(tokenizer=tokenizer)
    words = model._make_features(texts) - model.character_weighting_.apply(base.character_counts(texts))
    expected = base.counts(texts).toarray() * [[weight], [weight], [1.0], [1.0]]
    np.testing.assert_allclose(words[:, : 2**18].toarray(), expected, atol=1e-12)


def test_first_words_are_told_apart_by_position():
    a, b = SENT.positions(["jazz rock", "rock jazz"]).toarray()
    assert a.sum() == b.sum() == 2
    assert (a != b).any()


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"4096 columns.*n_features.*1024"):
        SentenceRepresentation(2, n_features=1024).fit(sparse.csr_array((5, 4096), dtype=np.float32))
    with pytest.raises(ValueError, match="2 of the 3"):
        SentenceRepresentation(2, n_features=2**12).fit(["only one", "word each", ""])
    (tmp_path / "text.txt").write_text("\n".join(UNLABELLED))
    wrong = SENT.word_hashing._replace(ngram_range=(1, 2))
    store = build_store(str(tmp_path / "text.txt"), str(tmp_path / "s.zarr"), hashing=wrong)
    with pytest.raises(ValueError, match=r"hash.*ngram_range"):
        clone(SENT).fit(store)


@pytest.mark.parametrize("plus", [False, True])
def test_representation_helps_where_labels_are_few(plus):
    texts, labels = sentences(12, seed=3)
    test_texts, test_labels = sentences(300, seed=4)
    plain = IntentClassifier().fit(texts, labels)
    sent = IntentClassifier(SENT, plus=plus).fit(texts, labels)
    assert sent.score(test_texts, test_labels) > plain.score(test_texts, test_labels) + 0.1
    assert sent.decision_function(test_texts).shape == (300, 3)


@pytest.mark.parametrize(("n", "n_fits"), [(99, 1), (100, 4)])
def test_with_many_labels_a_penalty_is_chosen_by_default(monkeypatch, n, n_fits):
    monkeypatch.setattr(intent, "MIN_LABELS", 100)
    monkeypatch.setattr(intent, "MANY_LABELS", ({"C": 1e-6}, {"C": 0.9}))
    fitted, fit = [], LinearSVC.fit
    monkeypatch.setattr(LinearSVC, "fit", lambda model, *rows: fitted.append(model) or fit(model, *rows))
    texts, labels = sentences(n, seed=3)
    model = IntentClassifier().fit(texts, labels)
    assert (len(fitted), np.isnan(model.score_)) == (n_fits, n_fits == 1)
    assert model.choice_.C > 1e-6
    assert np.isnan(IntentClassifier(recipe=IntentRecipe(characters=False)).fit(texts, labels).score_)


@pytest.mark.parametrize("bounds", [(2, 4), (3, 5)])
def test_with_many_labels_ngrams_of_characters_are_chosen(monkeypatch, bounds):
    monkeypatch.setattr(intent, "MIN_LABELS", 30)
    select = lambda _blocks, _y, choices, *_, **__: (choices[0], float(choices[0].characters == bounds))  # noqa: E731
    monkeypatch.setattr(intent, "select_choice", select)
    texts, labels = sentences(39, seed=3)
    model = IntentClassifier().fit(texts, labels)
    assert model.choice_.characters == bounds
    present = SentenceRepresentation().character_counts(texts, bounds) != 0
    expected = inverse_document_frequency(present.sum(axis=0), 39)
    np.testing.assert_allclose(model.character_weighting_.column_weights, expected)
    assert model.score(texts, labels) == 1.0


def test_a_word_and_the_same_characters_are_different_columns():
    words, characters = SentenceRepresentation().counts(["ab"]), SentenceRepresentation().character_counts(["ab"])
    assert (words.nnz, characters.nnz) == (1, 6)
    assert not set(words.indices) & set(characters.indices)


@pytest.mark.parametrize(("unlabeled", "weight"), [(UNLABELLED, 0.3), (["no word"] * 9 + ["of them"] * 9, 0.0)])
def test_with_many_labels_the_weight_is_the_one_of_higher_accuracy(monkeypatch, unlabeled, weight):
    monkeypatch.setattr(intent, "MIN_LABELS", 30)
    texts, labels = sentences(90, seed=3)
    other = clone(SENT).set_params(n_components=2).fit(unlabeled)
    other.n_sentences_ = 90  # as if fitted to the labeled texts
    assert IntentClassifier(other).fit(texts, labels).choice_.weight == weight


def test_of_several_choices_the_first_of_highest_accuracy_is_taken():
    rows, labels = rows_and_labels()
    noise = sparse.csr_array(np.random.default_rng(0).random((rows.shape[0], 4)))
    choices = [Choice(C, weight, 0.0, 0.0) for C in (1e-4, 1.0, 3.0) for weight in (5.0, 0.5, 5.0)]
    asked = {"splits": list(make_folds(labels, 4, 0))}
    alone = [select_choice([rows, noise], labels, [one], SETTINGS, **asked)[1] for one in choices]
    assert 0 < np.argmax(alone) < 8
    assert len(set(alone)) > 2
    actual = select_choice([rows, noise], labels, choices, SETTINGS, **asked)
    assert actual == (choices[int(np.argmax(alone))], max(alone))


@pytest.mark.parametrize("n", [10, 50, 7000])
def test_folds_hold_out_every_kind_of_row_once_and_never_train_on_it(n):
    y = np.arange(n) % 7
    actual = list(make_folds(y, 3, seed=0))
    for train, test in actual:
        assert not np.intersect1d(train, test).size
        assert len(train) + len(test) == n
    if n <= 6000:
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in actual])), np.arange(n))


def test_where_nothing_can_be_held_out_the_first_choice_is_taken():
    model = IntentClassifier(SENT, C=[2.0, 1.0]).fit(["jazz", "flight"], ["music", "travel"])
    assert model.choice_.C == 2.0
    assert np.isnan(model.score_)


def rows_and_labels():
    rng = np.random.default_rng(3)
    rows = sparse.random_array((60, 4096), density=0.004, rng=rng, format="csr")
    return sparse.csr_array(rows), rng.choice(["a", "b", "c"], 60)


def usual(rows, labels):
    return LinearSVC(multi_class="crammer_singer", tol=0.01, max_iter=5000, random_state=1).fit(rows, labels)


def test_a_machine_of_the_columns_that_occur_has_the_bits_of_one_of_all():
    rows, labels = rows_and_labels()
    actual, reference = fit_svm(rows, labels, 1.0, SETTINGS), usual(rows, labels)
    assert actual.n_features_in_ == 4096
    np.testing.assert_array_equal(actual.coef_, reference.coef_)
    np.testing.assert_array_equal(actual.intercept_, reference.intercept_)
    np.testing.assert_array_equal(actual.decision_function(rows), reference.decision_function(rows))


def test_probabilities_follow_scores_and_weights_of_classes_move_them():
    texts = ["play some jazz", "play loud rock", "book a flight", "play jazz on the flight"] * 3
    intents = np.array(["music", "music", "travel", "travel"] * 3)
    words = IntentRecipe(characters=False)  # its SVM has the tighter tolerance
    plain = IntentClassifier(C=[0.3, 0.01], recipe=words).fit(texts, intents)
    actual = plain.predict_proba([*texts, "unknown words"])
    np.testing.assert_allclose(actual.sum(axis=1), 1.0)
    assert (plain.classes_[actual[:-1].argmax(axis=1)] == plain.predict(texts)).all()
    for weights in ({"music": 1.0, "travel": 20.0}, {"travel": 20.0}):
        weighted = IntentClassifier(C=[0.3, 0.01], class_weight=weights, recipe=words).fit(texts, intents)
        assert (weighted.predict_proba(texts)[:, 1] > plain.predict_proba(texts)[:, 1]).all()
    balanced = IntentClassifier(C=plain.choice_.C, class_weight="balanced", recipe=words).fit(texts, intents)
    np.testing.assert_allclose(balanced.predict_proba(texts), plain.predict_proba(texts), atol=1e-2)


def test_embedder_fits_once_and_gives_equal_vectors_from_any_source(tmp_path):
    encoder = embedder(SentenceRepresentation(6, n_features=2**12))
    vectors = encoder.encode(text for text in UNLABELLED)
    assert np.array_equal(vectors, SENT.embed(UNLABELLED))
    assert np.array_equal(encoder.encode(UNLABELLED[0]), vectors[0])
    assert encoder.encode(["jazz music"]).shape == (1, 6), "a second call does not fit"
    assert encoder.embed_documents(UNLABELLED[:2]) == vectors[:2].tolist()
    assert encoder.embed_query(UNLABELLED[1]) == vectors[1].tolist()
    store = build_store(Texts(UNLABELLED), str(tmp_path / "s"), hashing=encoder[-1].word_hashing, block_bytes=30_000)
    written = clone(encoder).encode(store, out=str(tmp_path / "z.zarr"))
    np.testing.assert_allclose(written.array.compute(), vectors, atol=1e-5)
    save(encoder, str(tmp_path / "model"))
    assert np.array_equal(load(str(tmp_path / "model")).transform(UNLABELLED), vectors)
    with pytest.raises(ValueError, match=r"model.*0"):
        embedder(0)


def test_character_ngrams_join_the_counts_and_match_misspelled_words(tmp_path):
    texts = ["transfer money", "send a transfer", "block card", "block my card"] * 4
    intents = np.array(["transfer", "transfer", "card", "card"] * 4)
    misspelled = ["tranfser", "trasnfer", "bloked", "carrd blocck"]
    model = IntentClassifier().fit(texts, intents)
    assert model.predict(misspelled).tolist() == ["transfer", "transfer", "card", "card"]
    save(model, str(tmp_path / "model"))
    assert load(str(tmp_path / "model")).predict(misspelled).tolist() == model.predict(misspelled).tolist()
    words = IntentClassifier(recipe=IntentRecipe(characters=False)).fit(texts, intents)
    assert words.character_weighting_ is None
    assert IntentClassifier(SENT, plus=True).fit(texts, intents).character_weighting_ is None


def test_the_default_weight_of_the_representation_falls_as_labels_increase():
    texts, labels = sentences(240, seed=5)
    few, many = (IntentClassifier(SENT).fit(texts[:n], labels[:n]).choice_.weight for n in (30, 240))
    assert few == pytest.approx((1 - 30 / 2000) / (1 + 10 / WEIGHT_HALVING))
    assert many == pytest.approx((1 - 240 / 2000) / (1 + 80 / WEIGHT_HALVING))
    assert IntentClassifier(clone(SENT)).fit(texts, labels).choice_.weight == 1.0 - 240 / 240, "no unlabeled text"
    recipe = IntentRecipe(characters=False)
    assert IntentClassifier(SENT, recipe=recipe).fit(texts, labels).choice_.weight == 1.0


def test_few_words_or_sentences_give_zeros_and_a_warning():
    for texts, k in ((INTENT_TEXTS[:4], 6), (["one two", "one two"], 2)):
        with pytest.warns(UserWarning, match=r"n_components is [62].*rank") as message:
            sent = SentenceRepresentation(k, n_features=256, min_df=1).fit(texts)
        assert len(message) == 1
        assert sent.projection_.shape == (len(sent.words_), k)
        rank = np.count_nonzero(sent.singular_values_ > 1e-4)
        assert rank < k
        assert not sent.projection_[:, rank:].any()
        assert np.isfinite(sent.transform(texts).data).all()


def test_clone_keeps_a_fitted_representation_and_the_original():
    model = IntentClassifier(FEW, C=1.0, weights=0.5).fit(INTENT_TEXTS, INTENTS)
    other = clone(model)
    assert other.representation.projection_ is FEW.projection_
    assert not hasattr(other, "svm_")
    other.set_params(representation__weight=3.0)
    assert FEW.weight == 1.0
    other.fit(INTENT_TEXTS[:6], INTENTS[:6])
    np.testing.assert_array_equal(other.representation_.projection_, FEW.projection_)


def test_unfitted_representation_learns_from_training_sentences():
    model = IntentClassifier(SentenceRepresentation(2, n_features=256), C=1.0, weights=1.0)
    assert not hasattr(model.fit(INTENT_TEXTS, INTENTS).representation, "projection_")
    np.testing.assert_array_equal(model.representation_.projection_, FEW.projection_)
    assert not hasattr(clone(model).representation, "projection_")


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"class_weight": {"music": 2.0, "musik": 5.0}}, INTENTS, "class_weight.*'musik'"),
        ({"plus": True, "representation": None}, INTENTS, "plus=True"),
        ({}, ["x"] * 24, "one intent"),
    ],
)
def test_wrong_parameter_or_label_is_named(parameters, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        IntentClassifier(**{"representation": FEW, **parameters}).fit(INTENT_TEXTS, labels)


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_an_intent_with_one_sentence_takes_part_in_tiny_sets(n, plus):
    texts, labels = (
        ["play jazz", "book flight", "play rock", "wake me", "book it"][:n],
        ["a", "b", "a", "c", "b"],
    )
    model = IntentClassifier(FEW, plus=plus, C=(0.3, 1.0)).fit(texts, labels[:n])
    assert model.classes_.tolist() == sorted(set(labels[:n]))
    assert set(model.predict(texts)) <= set(labels)
    assert np.isfinite(model.decision_function(texts)).all()


def test_word_vectors_are_averaged_and_checked():
    words = ["jazz", "rock"]
    vectors = np.array([[3.0, 0.0], [0.0, 4.0]], dtype=np.float32)
    for given in (words, Documents.from_strings(words)):
        model = WordVectorRepresentation(given, vectors, n_features=64)
        expected = [[6 / 52**0.5, 4 / 52**0.5], [0, 0]]
        np.testing.assert_allclose(model.embed(["Jazz rock jazz", "none"]), expected, atol=1e-6)
    assert clone(model).vectors is vectors
    assert len(model.get_feature_names_out()) == 66
    with pytest.raises(ValueError, match=r"vectors.*\(1, 2\).*2 words"):
        WordVectorRepresentation(words, vectors[:1]).fit()
    with pytest.raises(ValueError, match=r"'rock'.*NaN"):
        WordVectorRepresentation(words, np.where(vectors == 4.0, np.nan, vectors)).fit()
