"""Answers of fitted word vectors: nearest words, analogies (also under gensim's names), and means of sentences."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, map_rows
from dspectral.inputs.parameters import check_integer
from dspectral.inputs.rows import LazyOutputMixin
from dspectral.inputs.sequences import (
    HoldsSentences,
    TokenLists,
    as_token_lists,
    encode_sentences,
    get_word_ids,
    is_corpus,
)
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.types import CSRRows, FloatArray, Int32s, Int64s, Sentences

EPSILON = 1e-3
"""Number that 3CosMul adds to each denominator, so that nothing is divided by zero."""


def nearest_vectors(
    vectors: FloatArray,
    positive: Sequence[int],
    negative: Sequence[int] = (),
    *,
    n: int = 10,
    method: Literal["add", "mul"] = "add",
    hidden: Sequence[int] = (),
) -> tuple[Int64s, FloatArray]:
    """Return ids and scores (n,) of the vectors (n_types, k) nearest to those given, which are no answers."""
    if not len(positive) and not len(negative):
        raise ValueError("at least one word must be given to be near to, or far from")
    if method == "add":
        target = vectors[list(positive)].sum(axis=0) - vectors[list(negative)].sum(axis=0)
        length = float(np.linalg.norm(target))
        scores = vectors @ (target / length if length else target)
    elif method == "mul":
        # Cosines are moved to [0, 1]: products of negative ones would change the order.
        near = (1 + vectors @ vectors[list(positive)].T) / 2
        far = (1 + vectors @ vectors[list(negative)].T) / 2
        scores = near.prod(axis=1) / (far + EPSILON).prod(axis=1)
    else:
        raise ValueError(f"method is {method!r}, but it must be 'add' or 'mul'")
    # All vectors are sorted, stably: ties are answered in the order of the vocabulary on every machine.
    left_out = [*positive, *negative, *hidden]
    scores = scores.copy()
    scores[left_out] = -np.inf
    order = np.argsort(-scores, kind="stable")[: min(n, len(vectors) - len(set(left_out)))]
    return order, scores[order]


def sentence_means(sentences: Sentences, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean vector of the words of each sentence, shape (n_sentences, k)."""
    # A matrix of sentences by words, whose entries of unknown words are 0: a sentence is then a sparse product.
    known = (sentences.ids > 0).astype(np.float32)
    shape = (sentences.n_sentences, len(vectors))
    words: CSRRows = sparse.csr_array((known, sentences.ids, sentences.offsets), shape=shape)
    n_known = np.asarray(words.sum(axis=1))
    return np.asarray(words @ vectors / np.maximum(n_known, 1.0)[:, None], dtype=np.float32)


def map_and_average(
    sentences: Sentences, *, places: Int32s, vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean vectors of sentences of another vocabulary."""
    return sentence_means(sentences._replace(ids=places[sentences.ids]), vectors)


D = TypeVar("D")
_REQUIRED: Any = object()
"""Default of a word that must be in the vocabulary."""


class WordQueries(LazyOutputMixin, TopTermsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Questions that need only words and their vectors: ``words_`` and ``vectors_``."""

    words_: list[str]
    vectors_: NDArray[np.float32]

    def most_similar(
        self,
        positive: str | Sequence[str] = (),
        negative: str | Sequence[str] = (),
        topn: int | None = None,
        *,
        n: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the words nearest to a sum of word vectors, by the cosine.

        Parameters
        ----------
        positive, negative : str or list of str, default=()
            Words whose vectors are added and subtracted; they are not among the answers.
        topn : int, optional
            Another name of ``n``, as in gensim.
        n : int, default=10
            Number of answers.

        Returns
        -------
        list of (str, float)
            Words and cosines, the nearest first. ``"<?>"`` is never an answer.

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        ValueError
            If no word is given.
        """
        # Type 0 stands for all rare words together, so it is never an answer.
        given = self._ids(positive), self._ids(negative)
        n = check_integer("n", n if topn is None else topn, at_least=1)
        return self._answers(*nearest_vectors(self.vectors_, *given, n=n, hidden=(0,)))

    def analogy(
        self, a: str, b: str, c: str, *, method: Literal["add", "mul"] = "add", n: int = 1
    ) -> list[tuple[str, float]]:
        """Return the words that are to ``c`` as ``b`` is to ``a``.

        Parameters
        ----------
        a, b, c : str
            Words of the question; they are not among the answers.
        method : {"add", "mul"}, default="add"
            3CosAdd or 3CosMul (Levy and Goldberg 2014).
        n : int, default=1
            Number of answers.

        Returns
        -------
        list of (str, float)
            Words and scores, the best first.

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        """
        given = self._ids([b, c]), self._ids(a)
        n = check_integer("n", n, at_least=1)
        return self._answers(*nearest_vectors(self.vectors_, *given, n=n, method=method, hidden=(0,)))

    @overload
    def vector(self, word: str) -> NDArray[np.float32]: ...
    @overload
    def vector(self, word: str, *, default: D) -> NDArray[np.float32] | D: ...
    def vector(self, word: str, *, default: D = _REQUIRED) -> NDArray[np.float32] | D:
        """Return the vector of a word.

        Parameters
        ----------
        word : str
            Word to look up.
        default : object, optional
            Value for a word that is not in the vocabulary, such as ``model["<?>"]``; by default it is an error.

        Returns
        -------
        ndarray of float32, shape (n_components,)
            Vector of length 1, or zeros for a word that never has a context.

        Raises
        ------
        KeyError
            If the word is not in the vocabulary and no default is given.
        """
        return default if default is not _REQUIRED and word not in self else self[word]

    def get_vector(self, word: str) -> NDArray[np.float32]:
        """Return the vector of a word; gensim's name of :meth:`vector`."""
        return self[word]

    def __getitem__(self, words: str | Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of a word, shape (n_components,), or of each of a list, shape (n_words, n_components)."""
        ids = self._ids(words)
        return self.vectors_[ids[0] if isinstance(words, str) else ids]

    def __contains__(self, word: object) -> bool:
        check_is_fitted(self)
        return word in get_word_ids(self)

    @property
    def key_to_index(self) -> Mapping[str, int]:
        """Row of each word in ``vectors_``, as a read-only mapping; gensim's name."""
        check_is_fitted(self)
        return MappingProxyType(get_word_ids(self))

    @property
    def index_to_key(self) -> list[str]:
        """Word of each row of ``vectors_``; gensim's name of ``words_``."""
        check_is_fitted(self)
        return self.words_

    def transform(self, X: HoldsSentences | TokenLists) -> Any:
        """Return the mean vector of the words of each sentence.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences; words that are not in ``words_`` do not count.

        Returns
        -------
        ndarray of float32, or (for a corpus in a store) Dask array, shape (n_sentences, n_components)
            Mean vectors; zeros for a sentence without a known word.
        """
        check_is_fitted(self)
        if not is_corpus(X):
            return sentence_means(
                encode_sentences(as_token_lists(cast("TokenLists", X)), self.words_), self.vectors_
            )
        # Word ids of a corpus are those of its own vocabulary.
        corpus, numbers = cast("HoldsSentences", X), get_word_ids(self)
        places = np.array([numbers.get(word, 0) for word in corpus.words], dtype=np.int32)
        means = map_rows(
            corpus.sentences,
            partial(map_and_average, places=places, vectors=self.vectors_),
            n_columns=self._n_features_out,
            dtype=np.float32,
            name="means",
            n_rows=[block.n_sentences for block in corpus.sentences.items],
        )
        return collect_rows(means) if corpus.sentences.in_memory else means

    @property
    def _n_features_out(self) -> int:
        return int(self.vectors_.shape[1])

    def _term_weights(self) -> NDArray[np.float32]:
        return self.vectors_.T

    def _ids(self, words: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        numbers = get_word_ids(self)
        asked = [words] if isinstance(words, str) else list(words)
        for word in asked:
            if word not in numbers:
                raise KeyError(f"{word!r} is not among the {len(numbers)} words of the embedding")
        return [numbers[word] for word in asked]

    def _answers(self, ids: Int64s, scores: FloatArray) -> list[tuple[str, float]]:
        return [(self.words_[i], round(float(s), 6)) for i, s in zip(ids.tolist(), scores, strict=True)]
