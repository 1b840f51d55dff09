import numpy as np
import pytest

from dspectral.datasets import labelled_counts, sample_labelled_documents, state_parameters


def test_words_and_labels_are_those_of_the_states():
    parameters = state_parameters(20, 8, 3, seed=1)
    words, labels, same = sample_labelled_documents(40_000, parameters=parameters, n_labels_each=0.8, seed=2)
    assert same is parameters
    expected = parameters.words @ parameters.weights
    np.testing.assert_allclose(words.sum(axis=0) / words.sum(), expected, atol=0.01)
    np.testing.assert_allclose(
        labels.sum(axis=0) / 40_000, 0.8 * parameters.labels @ parameters.weights, atol=0.01
    )
    assert set(labels.data) == {1.0}


def test_blocks_do_not_depend_on_each_other_and_share_their_states():
    words, labels = labelled_counts(900, 120, 40, 4, noise=0.0, block_rows=300, seed=3)
    again = labelled_counts(900, 120, 40, 4, noise=0.0, block_rows=300, seed=3)
    for ours, theirs in zip((words, labels), again, strict=True):
        assert (ours.blocks[1].compute() != theirs.compute()[300:600]).nnz == 0
    for block in range(3):  # without noise a document's words and labels are of its state alone
        rows = [part.blocks[block].compute() for part in (words, labels)]
        states = [np.maximum.reduceat(part.indices % 4, part.indptr[:-1]) for part in rows]
        np.testing.assert_array_equal(*states)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: state_parameters(3, 5, 4), "n_states is 4, but must be from 1 to n_words, 3"),
        (lambda: state_parameters(3, 0, 2), "n_labels is 0"),
        (lambda: labelled_counts(10, 8, 3, 4), "n_states is 4, but must be from 1 to 3"),
        (lambda: labelled_counts(10, 8, 8, 4, noise=2.0), "noise is 2.0"),
        (lambda: labelled_counts(10, 8, 8, 4, labels_each=0.5), "0.5 labels on average"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
