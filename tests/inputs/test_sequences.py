import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from dspectral.inputs.sequences import as_corpus, as_labelled, cut, encode, token_lists

SENTENCES = [["the", "cat"], [], ["the", "dog", "cat"]]


KINDS = {
    "list": list,
    "tuple": lambda lists: tuple(map(tuple, lists)),
    "generator": lambda lists: (iter(one) for one in lists),
    "pandas": pd.Series,
    "pandas column of arrays": lambda lists: pd.Series([np.array(one, dtype=object) for one in lists]),
    "Arrow": lambda lists: pa.chunked_array([pa.array(lists)]),
    "array of lists": lambda lists: np.array(lists, dtype=object),
    "lists of NumPy strings": lambda lists: [np.array(one, dtype=str) for one in lists],
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_tokens_come_in_every_kind_of_collection(kind):
    corpus = as_corpus(KINDS[kind](SENTENCES))
    assert corpus.words == ["<?>", "cat", "the", "dog"]
    assert {type(word) for word in corpus.words} == {str}
    assert corpus.counts.tolist() == [0, 2, 2, 1]
    assert encode(KINDS[kind](SENTENCES), corpus.words).ids.tolist() == [2, 1, 2, 3, 1]
    labelled = as_labelled(KINDS[kind](SENTENCES), KINDS[kind](SENTENCES))
    assert labelled.words == ["<?>", "the", "cat", "dog"]
    assert labelled.labels == ["the", "cat", "dog"]
    assert labelled.sentences.items[0].offsets.tolist() == [0, 2, 2, 5]


@pytest.mark.parametrize(
    ("X", "name"),
    [
        ("the cat", "str"),
        (b"the cat", "bytes"),
        ({"tokens": SENTENCES}, "dict"),
        (pd.DataFrame({"tokens": SENTENCES}), "DataFrame"),
        (np.zeros((3, 2)), "ndarray"),
        (sparse.csr_array((3, 2)), "csr_array"),
        (da.zeros((3, 2)), "Array"),
    ],
)
def test_what_is_no_collection_of_token_lists_is_named(X, name):
    with pytest.raises(TypeError, match=f"X is of type {name}, but it must be a list of token lists"):
        as_corpus(X)
    with pytest.raises(TypeError, match=f"y is of type {name}"):
        as_labelled(SENTENCES, X)


@pytest.mark.parametrize(
    "sentence", ["the cat", b"the", None, float("nan"), 3, {"the"}, {"the": 1}, ["the", 3]]
)
def test_what_is_no_list_of_strings_is_named(sentence):
    with pytest.raises(ValueError, match=r"sentence 1 is .*must be a list of strings"):
        token_lists([["a"], sentence])


def test_tokens_of_labelled_sequences_are_anything_hashable_and_arrays_are_as_lists():
    codes = np.array([[1, 2], [2, 2]])
    corpus = as_labelled(codes, [[True, "b"], [(1, 2), True]])
    assert corpus.words == ["<?>", 1, 2]
    assert corpus.labels == [True, "b", (1, 2)]
    assert encode([[2, 7]], corpus.words).ids.tolist() == [2, 0]
    with pytest.raises(ValueError, match="sentence 0 is 'ab', but it must be a list of tokens"):
        as_labelled(["ab"], [["K", "V"]])


def test_blocks_are_cut_by_the_lengths_of_sequences_alone():
    assert cut([[1, 2], [], [3], [4, 5, 6]], 2) == [[[1, 2]], [[], [3], [4, 5, 6]]]
    assert cut([], 2) == [[]]
