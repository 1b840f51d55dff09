from functools import lru_cache
from itertools import permutations

import numpy as np
import pytest

from dspectral import AnchorHMM
from dspectral.engine import Blocks
from workflows._parts.drawn_sequences import anchor_sentences

SENTENCES = [
    ["the", "cat", "sees", "a", "dog"],
    ["a", "cat", "likes", "the", "bird"],
    ["the", "dog", "sees"],
] * 5


def distance(found, true):
    """Mean total variation between parameters, states matched as well as can be."""
    inner = true.transition / true.transition.sum(axis=1, keepdims=True)

    def gap(order):
        order = list(order)
        return (
            np.abs(found.emission[:, order] - true.emission).sum(axis=0).mean()
            + np.abs(found.transition[np.ix_(order, order)] - inner).sum(axis=1).mean()
            + np.abs(found.initial[order] - true.initial).sum()
        )

    return min(gap(order) for order in permutations(range(true.n_states)))


@lru_cache
def sampled(n_sentences, seed):
    """Sentences of an anchor HMM, drawn once for all tests."""
    stream = anchor_sentences(n_sentences, n_states=3, n_types=12, anchor_share=0.3, seed=seed)
    drawn = [stream.sentences.read(item) for item in stream.sentences.items]
    return stream._replace(sentences=Blocks(lambda block: block, drawn))


@pytest.mark.slow
def test_a_sampled_anchor_hmm_is_recovered_at_the_rate_of_a_mean():
    lengths, gaps = np.array([4_000, 16_000, 64_000]), []
    for n_sentences in lengths:
        trials = []
        for seed in range(5):
            stream = sampled(n_sentences, seed)
            hmm = AnchorHMM.as_consistent(3).fit(stream)
            assert hmm.n_passes_ == 1
            trials.append(np.log(distance(hmm.model_, stream.model)))
        gaps.append(np.mean(trials))
    assert sorted(hmm.anchors_) == ["w1", "w2", "w3"]
    slope = np.polyfit(np.log(lengths), gaps, 1)[0]
    assert -0.62 < slope < -0.4, gaps
    assert gaps[-1] < np.log(0.04)


def test_given_anchors_are_the_first_states_and_stay_there():
    hmm = AnchorHMM(3, spelling=0.0, min_count=1, anchors=["cat", "a"]).fit(SENTENCES)
    assert hmm.anchors_[:2] == ["cat", "a"]
    assert hmm.predict([["cat", "a"]])[0].tolist() == [0, 1]
    for anchor, state in zip(hmm.anchors_, range(3), strict=True):
        row = hmm.membership_[hmm.words_.index(anchor)]
        assert row[state] == row.sum() == 1.0


def test_rare_words_are_of_the_class_with_the_longest_common_ending():
    sentences = [
        [stem + "ing", "the", stem + "er"] for stem in ("jump", "walk", "talk", "read", "bak", "kick", "sing")
    ] * 3
    hmm = AnchorHMM(2, spelling=0.3, min_count=4).fit(sentences)
    assert hmm.words_ == ["<?>", "the"]
    assert hmm.spelling_classes_ == ["<a*er>", "<a*ing>"]
    assert hmm.encode([["smoking", "driver", "Xyz", "the", ""]]).ids.tolist() == [3, 2, 0, 1, 0]
    assert AnchorHMM(2).fit(sentences).spelling_classes_ == hmm.spelling_classes_
    plain = AnchorHMM(1, spelling=0.0, min_count=4).fit(sentences)
    assert plain.spelling_classes_ == []
    assert plain.encode([["smoking", "the"]]).ids.tolist() == [0, 1]


def test_words_that_look_alike_are_drawn_together_by_spelling():
    rng = np.random.default_rng(0)
    stems = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(40)]
    words = np.array([stem + ("ly" if i < 20 else "ed") for i, stem in enumerate(stems)])
    sentences = rng.choice(words, (150, 4)).tolist()

    def apart(hmm):
        states = np.array([hmm.predict([[word]])[0][0] for word in words])
        share = np.mean(states == np.repeat([0, 1], 20))
        return max(share, 1 - share)

    assert apart(AnchorHMM(2, min_count=1, spelling=1.0).fit(sentences)) == 1.0
    assert apart(AnchorHMM(2, spelling=0.0, min_count=1).fit(sentences)) < 0.9


def test_one_state_has_all_words_and_sentences_of_one_word_are_decoded():
    hmm = AnchorHMM(1, spelling=0.0, min_count=1).fit([["a"], ["b", "a"], []])
    assert [s.tolist() for s in hmm.predict([["a"], ["b", "zzz"]])] == [[0], [0, 0]]


@pytest.mark.parametrize(
    ("options", "sentences", "message"),
    [
        ({"n_states": 4}, [["a", "b"]] * 9, "n_states.*4"),
        ({"anchors": ["fish"]}, SENTENCES, "'fish'"),
        ({}, [["a"], ["b"]], "neighbor"),
        ({"n_states": 1, "anchors": ["cat", "dog"]}, SENTENCES, "2 anchors"),
        ({"anchors": ["cat", "cat"]}, SENTENCES, r"\[3, 3\].*distinct"),
    ],
)
def test_what_cannot_be_is_named(options, sentences, message):
    with pytest.raises((TypeError, ValueError), match=message):
        AnchorHMM(**{"n_states": 2, "spelling": 0.0, "min_count": 1, **options}).fit(sentences)
