"""What users of scikit-learn expect of the models of sequences."""

import numpy as np
import pytest

import dspectral
from dspectral import EMHMM, AnchorHMM, RefinementHMM, RefinementRecipe
from dspectral.methods.hmm.anchor import estimator
from dspectral.methods.hmm.inference import log_likelihoods, viterbi
from workflows._parts.drawn_sequences import anchor_sentences, refinement_sequences

WORDS = [["the", "cat", "sees", "a", "dog"], ["a", "cat", "likes", "the", "bird"], ["a", "dog"]] * 6
TAGS = [["D", "N", "V", "D", "N"], ["D", "N", "V", "D", "N"], ["D", "N"]] * 6
MAKE = {
    "AnchorHMM": lambda **options: AnchorHMM(
        **{"n_states": 3, "spelling": 0.0, "min_count": 1, "n_em_iter": 1, **options}
    ),
    "EMHMM": lambda **options: EMHMM(**{"n_states": 3, "n_iter": 3, "smoothing": 0.1, **options}),
    "RefinementHMM": lambda **options: RefinementHMM(**{"n_refinements": 2, "n_em_iter": 1, **options}),
}
STATES = ["AnchorHMM", "EMHMM"]


def fitted(name, X=WORDS, y=TAGS, **options):
    return MAKE[name](**options).fit(X, y)


@pytest.mark.parametrize("name", STATES)
def test_posteriors_paths_and_scores_are_those_of_the_chain(name):
    model, new = fitted(name), [["the", "dog"], [], ["a", "zebra", "sees"]]
    block = model.encode(new)
    shares = model.predict_proba(new)
    assert [part.shape for part in shares] == [(2, 3), (0, 3), (3, 3)]
    np.testing.assert_allclose(np.concatenate(shares).sum(axis=1), 1.0)
    for states, part in zip(model.predict(new), shares, strict=True):
        np.testing.assert_array_equal(states, part.argmax(axis=1))
    log_prob, paths = model.decode(new)
    expected = viterbi(block, model.model_)
    np.testing.assert_array_equal(np.concatenate(paths), expected.states)
    np.testing.assert_array_equal(log_prob, expected.log_joint)
    assert model.score(WORDS) == pytest.approx(
        log_likelihoods(model.encode(WORDS), model.model_).sum() / sum(map(len, WORDS))
    )


@pytest.mark.parametrize("name", STATES)
def test_a_corpus_in_a_store_is_decoded_and_scored_as_lists_are(name, tmp_path):
    (tmp_path / "text").write_text("\n".join(map(" ".join, WORDS)) + "\n")
    path, store = str(tmp_path / "text"), str(tmp_path / "corpus")
    corpus = dspectral.build_corpus(path, store, block_bytes=80)
    assert corpus.n_blocks > 2
    model = fitted(name)
    for actual, expected in (
        (model.predict(corpus), model.predict(WORDS)),
        (model.predict_proba(corpus), model.predict_proba(WORDS)),
        (model.decode(corpus)[1], model.decode(WORDS)[1]),
    ):
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert model.score(corpus) == pytest.approx(model.score(WORDS))


def test_unknown_word_is_type_0_and_impossible_without_smoothing():
    model = EMHMM(2, n_iter=3).fit(WORDS)
    assert model.encode([["zebra", "the"]]).ids.tolist() == [0, model.words_.index("the")]
    assert model.score([["zebra"]]) == -np.inf
    assert np.isfinite(EMHMM(2, n_iter=3, smoothing=0.1).fit(WORDS).score([["zebra"]]))
    assert np.isfinite(EMHMM(2, n_iter=3, min_count=7).fit(WORDS).score([["zebra"]]))


def test_a_refinement_hmm_is_a_classifier_of_tokens():
    model = fitted("RefinementHMM")
    assert model.classes_.tolist() == ["D", "N", "V"]
    assert model.score(WORDS, TAGS) == 1.0
    assert model.score(WORDS, [["?"] * len(tags) for tags in TAGS]) == 0.0
    (share,) = model.predict_proba([["the", "zebra"]])
    assert model.predict([["the", "zebra"]]) == [model.classes_[share.argmax(axis=1)].tolist()]
    log_prob, labels = model.decode(WORDS)
    assert labels == TAGS
    assert np.isfinite(log_prob).all()
    with pytest.raises(ValueError, match=r"y.*None"):
        model.score(WORDS)


SENTENCES = [["a", "x", "a", "y"], ["b", "x"], ["a", "y", "b", "x"], ["b", "y", "a"]] * 10


def test_words_of_two_kinds_in_turn_get_two_states_in_turn():
    model = EMHMM(2).fit(SENTENCES)
    states = model.predict([["a", "y", "b", "x"], [], ["never"], ["x"]])
    assert states[0].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert [len(s) for s in states] == [4, 0, 1, 1]
    assert model.predict([]) == []


LONG = RefinementRecipe(tol=-1.0)


@pytest.mark.parametrize(
    ("model", "n_passes", "n_log_likelihoods"),
    [
        (EMHMM(3, n_iter=30, tol=-1.0), 30, 30),
        (AnchorHMM.as_published(3, n_em_iter=6), 17, 16),
        (RefinementHMM(3, smoothing=0.0, n_em_iter=25, recipe=LONG), 27, 25),
        (RefinementHMM(3, smoothing=0.0, start="random", n_em_iter=25, recipe=LONG), 25, 25),
        (RefinementHMM(2, recipe=LONG), 5, 3),
        (RefinementHMM(2, n_em_iter=0), 2, 0),
        (RefinementHMM(1), 1, 0),
        (RefinementHMM(2, recipe=RefinementRecipe(decoding="operators")), 2, 0),
    ],
)
def test_em_never_lowers_the_likelihood_and_each_pass_is_counted(model, n_passes, n_log_likelihoods):
    stream = refinement_sequences(300, seed=1)
    stream = stream if isinstance(model, RefinementHMM) else anchor_sentences(2000, n_states=3, n_types=20, seed=4)
    actual = model.fit(stream).log_likelihoods_
    assert (model.n_passes_, len(actual)) == (n_passes, n_log_likelihoods)
    n_fixed = 10 if isinstance(model, AnchorHMM) else 0  # emissions change before the passes for all parameters
    for part in (actual[:n_fixed], actual[n_fixed:]):
        assert np.all(np.diff(part) > -1e-7)


def test_em_ends_at_small_gains_and_transitions_alone_keep_emissions(monkeypatch):
    assert EMHMM(3, n_iter=100, tol=1e-3).fit(SENTENCES).n_passes_ < 100
    passes = AnchorHMM.as_published(3).fit(SENTENCES)
    monkeypatch.setattr(estimator, "N_TRANSITION_EM_ITER", 0)
    plain = AnchorHMM.as_published(3).fit(SENTENCES)
    np.testing.assert_array_equal(passes.model_.emission, plain.model_.emission)
    assert np.any(passes.model_.transition != plain.model_.transition)
