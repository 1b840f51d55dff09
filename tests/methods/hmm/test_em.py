import numpy as np
import pytest

from dspectral import EMHMM

SENTENCES = [["a", "x", "a", "y"], ["b", "x"], ["a", "y", "b", "x"], ["b", "y", "a"]] * 10


@pytest.mark.parametrize("seed", range(3))
def test_em_never_lowers_the_likelihood_and_each_pass_is_counted(seed):
    model = EMHMM(3, n_iter=30, tol=-1.0, random_state=seed).fit(SENTENCES)
    assert np.all(np.diff(model.log_likelihoods_) > -1e-9)
    assert model.n_passes_ == 30
    assert EMHMM(3, n_iter=100, tol=1e-3, random_state=seed).fit(SENTENCES).n_passes_ < 100


def test_words_of_two_kinds_in_turn_get_two_states_in_turn():
    model = EMHMM(2).fit(SENTENCES)
    states = model.predict([["a", "y", "b", "x"], [], ["never"], ["x"]])
    assert states[0].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert [len(s) for s in states] == [4, 0, 1, 1]
    assert model.predict([]) == []


def test_more_states_than_words_and_identical_sentences_are_fitted():
    model = EMHMM(5, n_iter=5).fit([["a", "a"]] * 4)
    assert np.isfinite(model.log_likelihoods_).all()
    assert len(model.predict([["a", "b", "a"]])[0]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"n_iter": 0}, "n_iter is 0"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        EMHMM(**options).fit(SENTENCES)


def test_sentences_without_words_are_refused():
    with pytest.raises(ValueError, match="there is no word"):
        EMHMM().fit([[], []])
