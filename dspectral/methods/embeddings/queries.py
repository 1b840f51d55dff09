"""Queries of fitted word vectors: nearest words, analogies and sentence means."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, map_rows
from dspectral.inputs.rows import LazyOutputMixin
from dspectral.inputs.sequences import (
    HoldsSentences,
    ReadOnceMixin,
    TokenLists,
    as_token_lists,
    encode_sentences,
    get_word_ids,
    is_corpus,
)
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.parameters import check_integer
from dspectral.types import CSRRows, FloatArray, Floats, Int32s, Int64s, Sentences

EPSILON = 1e-3
"""Number added to the denominator of 3CosMul to avoid division by zero."""


def nearest_vectors(
    vectors: FloatArray,
    positive: Sequence[int],
    negative: Sequence[int] = (),
    *,
    n: int = 10,
    method: Literal["add", "mul"] = "add",
    hidden_ids: Sequence[int] = (),
) -> tuple[Int64s, FloatArray]:
    """Return ids and scores (n,) of the vectors nearest to a sum of vectors, without these and `hidden_ids` ones."""
    if not len(positive) and not len(negative):
        raise ValueError("positive and negative are both empty, but at least one word must be given")
    if method == "add":
        target = vectors[list(positive)].sum(axis=0) - vectors[list(negative)].sum(axis=0)
        length = float(np.linalg.norm(target))
        scores = vectors @ (target / length if length else target)
    elif method == "mul":
        # Shift cosines to [0, 1]: products of negative numbers would change the order.
        similarity = (1 + vectors @ vectors[list(positive)].T) / 2
        dissimilarity = (1 + vectors @ vectors[list(negative)].T) / 2
        scores = similarity.prod(axis=1) / (dissimilarity + EPSILON).prod(axis=1)
    else:
        raise ValueError(f"method={method!r} must be 'add' or 'mul'")
    # A stable sort returns ties in the order of the vocabulary.
    excluded = [*positive, *negative, *hidden_ids]
    scores = scores.copy()
    scores[excluded] = -np.inf
    order = np.argsort(-scores, kind="stable")[: min(n, len(vectors) - len(set(excluded)))]
    return order, scores[order]


def sentence_means(sentences: Sentences, vectors: Floats) -> Floats:
    """Return the mean vector of the words of each sentence, shape (n_sentences, k)."""
    # Multiply by the sparse matrix of sentences by words, with zeros for unknown words.
    is_known = (sentences.ids > 0).astype(np.float32)
    shape = (sentences.n_sentences, len(vectors))
    words: CSRRows = sparse.csr_array((is_known, sentences.ids, sentences.offsets), shape=shape)
    n_known = words.sum(axis=1)
    return np.asarray(words @ vectors / np.maximum(n_known, 1.0)[:, None], dtype=np.float32)


def average_by_rows(sentences: Sentences, *, word_rows: Int32s, vectors: Floats) -> Floats:
    """Return the mean vectors of sentences after mapping their word ids to those of the vectors."""
    return sentence_means(sentences._replace(ids=word_rows[sentences.ids]), vectors)


class WordQueries(LazyOutputMixin, ReadOnceMixin, TopTermsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of queries that need ``words_`` and ``vectors_``."""

    words_: list[str]
    vectors_: Floats

    def most_similar(
        self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), *, n: int = 10
    ) -> list[tuple[str, float]]:
        """Return the words nearest to a sum of word vectors by cosine similarity.

        Parameters
        ----------
        positive, negative : str or list of str, default=()
            Words whose vectors are added and subtracted; they are excluded from the result.
        n : int, default=10
            Number of words to return.

        Returns
        -------
        list of (str, float)
            Words and cosines by decreasing similarity, without ``"<?>"``.

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        ValueError
            If no word is given.
        """
        # Hide type 0, which stands for all rare words.
        query_ids = self._get_ids(positive), self._get_ids(negative)
        n = check_integer("n", n, at_least=1)
        return self._make_word_scores(*nearest_vectors(self.vectors_, *query_ids, n=n, hidden_ids=(0,)))

    def analogy(
        self, a: str, b: str, c: str, *, method: Literal["add", "mul"] = "add", n: int = 1
    ) -> list[tuple[str, float]]:
        """Answer the analogy "a is to b as c is to ...".

        Parameters
        ----------
        a, b, c : str
            Words of the question; they are excluded from the result.
        method : {"add", "mul"}, default="add"
            3CosAdd or 3CosMul (Levy and Goldberg 2014).
        n : int, default=1
            Number of words to return.

        Returns
        -------
        list of (str, float)
            Words and scores by decreasing score.

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        """
        query_ids = self._get_ids([b, c]), self._get_ids(a)
        n = check_integer("n", n, at_least=1)
        return self._make_word_scores(*nearest_vectors(self.vectors_, *query_ids, n=n, method=method, hidden_ids=(0,)))

    def __getitem__(self, words: str | Sequence[str]) -> Floats:
        """Return the vector of a word, shape (n_components,), or of each of a list, shape (n_words, n_components)."""
        ids = self._get_ids(words)
        return self.vectors_[ids[0] if isinstance(words, str) else ids]

    def __contains__(self, word: object) -> bool:
        check_is_fitted(self)
        return word in get_word_ids(self)

    def transform(self, X: HoldsSentences | TokenLists) -> Any:
        """Return the mean vector of the words of each sentence.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences; unknown words are ignored.

        Returns
        -------
        ndarray of float32, or (for a corpus in a store) Dask array, shape (n_sentences, n_components)
            Mean vectors; zeros for a sentence without a known word.
        """
        check_is_fitted(self)
        if not is_corpus(X):
            return sentence_means(encode_sentences(as_token_lists(cast("TokenLists", X)), self.words_), self.vectors_)
        # Map word ids of the corpus to those of this vocabulary.
        corpus, numbers = cast("HoldsSentences", X), get_word_ids(self)
        word_rows = np.array([numbers.get(word, 0) for word in corpus.words], dtype=np.int32)
        means = map_rows(
            corpus.sentences,
            partial(average_by_rows, word_rows=word_rows, vectors=self.vectors_),
            n_columns=self._n_features_out,
            dtype=np.float32,
            name="means",
            n_rows=[block.n_sentences for block in corpus.sentences.items],
        )
        return collect_rows(means) if corpus.sentences.in_memory else means

    @property
    def _n_features_out(self) -> int:
        return int(self.vectors_.shape[1])

    def _term_weights(self) -> Floats:
        return self.vectors_.T

    def _get_ids(self, words: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        numbers = get_word_ids(self)
        words = [words] if isinstance(words, str) else list(words)
        for word in words:
            if word not in numbers:
                raise KeyError(f"{word!r} is not one of the {len(numbers)} words: test `word in model` first")
        return [numbers[word] for word in words]

    def _make_word_scores(self, ids: Int64s, scores: FloatArray) -> list[tuple[str, float]]:
        return [(self.words_[i], round(float(s), 6)) for i, s in zip(ids.tolist(), scores, strict=True)]
