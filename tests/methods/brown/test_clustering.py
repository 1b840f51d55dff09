"""Brown clusters: recovery of a sampled model, and what happens at the edges."""

import dask
import numpy as np
import pytest

from dspectral import AnchorHMM
from dspectral.methods.brown.clustering import SpectralBrownClustering
from workflows._parts.drawn_sequences import brown_model_sentences

TOY = [["a", "red", "cat"], ["a", "blue", "cat"], ["one", "red", "dog"], ["one", "blue", "dog"]] * 5


def share_recovered(estimator, n_sentences):
    """The share of words whose cluster has exactly the words of their class."""
    sample = brown_model_sentences(n_sentences, n_classes=4, n_words=24, seed=3)
    estimator.fit(sample.sentences)
    found, true = {}, {}
    for word, label in zip(estimator.words_, estimator.labels_.tolist(), strict=True):
        if word in sample.classes:
            found.setdefault(label, set()).add(word)
            true.setdefault(sample.classes[word], set()).add(word)
    exact = [members for members in found.values() if members in true.values()]
    return sum(map(len, exact)) / sum(map(len, true.values()))


@pytest.mark.parametrize("power", [1.0, 0.5, 2 / 3])
@pytest.mark.parametrize("plain", [True, False])
def test_clusters_equal_the_classes_once_there_is_text_enough(power, plain):
    make = SpectralBrownClustering.as_published if plain else SpectralBrownClustering
    settings = {"count_transform": power, "n_dimensions": 4, "min_count": 1}
    shares = [share_recovered(make(4, **settings), n) for n in (10, 100, 20_000)]
    assert shares == sorted(shares)
    assert shares[0] < 1
    assert shares[-1] == 1


def test_words_seen_once_are_by_default_of_the_unseen_type():
    brown = SpectralBrownClustering(3).fit([*TOY, [TOY[0][0], "once", TOY[0][-1]]])
    assert "once" not in brown.words_
    assert brown.word_counts_[0] == 1


def test_the_history_rises_and_ends_at_the_score():
    brown = SpectralBrownClustering(3, n_dimensions=2).fit(brown_model_sentences(200, seed=1).sentences)
    assert brown.history_ == sorted(brown.history_)
    assert brown.score(brown_model_sentences(200, seed=1).sentences) == pytest.approx(brown.history_[-1])


def test_bit_strings_name_the_clusters_and_are_cut_at_any_number():
    brown = SpectralBrownClustering(6).fit(brown_model_sentences(300, seed=1).sentences)
    for n in range(1, 7):
        codes, labels = brown.codes(n), brown.cut(n)
        assert len(set(codes)) == n == len(set(labels.tolist()))
        assert len(set(zip(codes, labels.tolist(), strict=True))) == n
        assert all(long.startswith(short) for long, short in zip(brown.codes(), codes, strict=True))


def test_a_word_without_neighbours_joins_the_largest_cluster():
    brown = SpectralBrownClustering(2).fit([*TOY, ["alone"]])
    tokens = np.bincount(brown.labels_, weights=brown.word_counts_)
    assert brown.predict(["alone"])[0] == np.argmax(tokens)


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        ([["a"]], {}, "neighbor"),
        (TOY, {"n_clusters": 7}, "from 1 to 6"),
    ],
)
def test_what_cannot_be_clustered_is_said(sentences, options, message):
    with pytest.raises(ValueError, match=message):
        SpectralBrownClustering(**{"n_clusters": 2, **options}).fit(sentences)


def test_words_are_predicted_from_a_list_and_an_unknown_one_as_a_rare_one():
    brown = SpectralBrownClustering(3).fit(TOY)
    assert brown.predict(iter(["red", "flurb"])).tolist() == [
        brown.labels_[brown.words_.index("red")],
        brown.labels_[0],
    ]
    assert brown.predict([]).shape == (0,)
    assert "red" in brown
    assert "flurb" not in brown
    with pytest.raises(TypeError, match="'red'"):
        brown.predict("red")


@pytest.mark.parametrize("make", [lambda: SpectralBrownClustering(2), lambda: AnchorHMM(2, spelling=0.0, min_count=4)])
def test_pairs_beyond_the_limit_are_refused_with_the_bytes_needed(make):
    sentences = [["a", "x", "b", "y"], ["b", "x", "a", "y"]] * 3
    text = r"dspectral.memory-limit.*1,000"
    with dask.config.set({"dspectral.memory-limit": 1000}), pytest.raises(MemoryError, match=text):
        make().fit(sentences)
    with dask.config.set({"dspectral.memory-limit": "1 MB"}):
        limited = make().fit(sentences)
    assert len(limited.words_) == len(make().fit(sentences).words_)
