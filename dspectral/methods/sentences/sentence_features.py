"""Features of sentences: hashed n-grams, the first two words by their position, and the kinds of second halves."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import check_option, check_real
from dspectral.inputs.texts import TextColumn, TextsOrCounts, as_documents, is_texts
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, Documents

Half: TypeAlias = Literal["sent", "sketch", "idf", "idf+sent"]
HALVES: tuple[Half, ...] = ("sent", "sketch", "idf", "idf+sent")
"""Directions weighed by rarity, directions alone, rarity alone, and rarity beside directions weighed by it."""


def half_of(present: CSRRows, projection: NDArray[np.float32], kind: Half) -> CSRRows:
    """Return one of the second halves of sentences.

    Shapes: `present` (n_sentences, n_words), `projection` (n_words, n_components); returns (n_sentences,
    n_components).

    >>> present = sparse.csr_array(np.array([[1, 1], [0, 1]], dtype=np.float32))
    >>> P = np.array([[3, 0], [4, 0]], dtype=np.float32)
    >>> half_of(present, P, "sent").toarray(), half_of(present, P, "idf").toarray().round(2)
    (array([[1., 0.],
           [1., 0.]]), array([[0.6, 0.8],
           [0. , 1. ]]))
    """
    if kind == "idf+sent":
        sides = [half_of(present, projection, side) for side in ("idf", "sent")]
        # Each of length one, both together too.
        return sparse.csr_array(sparse.hstack(sides, format="csr") * np.sqrt(0.5))
    if kind == "idf":
        lengths = np.sqrt(np.einsum("ij,ij->i", projection, projection, dtype=np.float64))
        return Weighting(column_weights=lengths, norm="l2").apply(present.astype(np.float64))
    vectors = unit_rows(projection) if kind == "sketch" else projection
    rows = unit_rows(sparse_products.times(present, np.asarray(vectors)))
    return sparse.csr_array(rows.astype(np.float64))


WORD = re.compile(r"(?u)\b\w\w+\b")
"""scikit-learn's token pattern: words of two letters or more."""


class SentenceFeatures(FittedFactsMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of representations: n-grams beside what :meth:`embed` of a subclass returns."""

    n_features: int
    ngram_range: tuple[int, int]
    weight: float
    halves: ClassVar[tuple[Half, ...]] = HALVES[:1]

    @property
    def word_hashing(self) -> HashingSettings:
        """Hashing of the words of unlabeled text, for example by ``build_store``."""
        return HashingSettings(self.n_features, (1, 1), lowercase=True, alternate_sign=False)

    @abstractmethod
    def embed(self, X: TextColumn) -> NDArray[np.float32]:
        """Return the second half of the representation, shape (n_sentences, n_components)."""

    def second_half(self, X: TextColumn, kind: str = "sent") -> CSRRows:
        """Return the second half of the representation of one kind, without its weight: rows of unit length, or zeros.

        ``"sent"`` is what :meth:`embed` returns; where words have learned directions, ``"sketch"`` leaves out their
        rarity, ``"idf"`` the directions, and ``"idf+sent"`` puts ``"idf"`` and ``"sent"`` side by side.
        """
        return self._half(X, check_option("kind", kind, self.halves))

    def _half(self, X: TextColumn, _kind: Half) -> CSRRows:
        return sparse.csr_array(self.embed(X).astype(np.float64))

    @property
    @abstractmethod
    def _embedding_size(self) -> int:
        """Number of columns of :meth:`embed`."""

    def fit_transform(self, X: TextsOrCounts, y: object = None, **fit_params: Any) -> CSRRows:
        """Fit to sentences, then represent them; a generator is read once."""
        # Packed once: a generator would be empty when transform asks for it again.
        texts = as_documents(X) if is_texts(X) else X
        rows: CSRRows = self.fit(texts, y).transform(texts)
        return rows

    def transform(self, X: TextColumn) -> CSRRows:
        """Represent sentences.

        Parameters
        ----------
        X : list of str, generator, array of strings, or column of pandas, polars or Hugging Face Datasets
            Sentences; bytes are read as UTF-8.

        Returns
        -------
        csr_array of float64, shape (n_sentences, n_features + n_components)
            Counts, then the second half times ``weight``.
        """
        check_real("weight", self.weight)
        texts = as_documents(X)
        second = self.weight * self.second_half(texts)
        return sparse.csr_array(sparse.hstack([self.counts(texts), second], format="csr"))

    def counts(self, X: TextColumn) -> CSRRows:
        """Return the hashed n-grams of sentences, scaled to unit length, ``x / ||x||``; no fit is needed."""
        hashing = HashingSettings(self.n_features, self.ngram_range)
        rows = hash_documents(as_documents(X), hashing).astype(np.float64)
        return Weighting(norm="l2").apply(rows)

    def positions(self, X: TextColumn) -> CSRRows:
        """Return the first two words of sentences by position, hashed, as ones; no fit is needed."""
        # A word with its place before it, "0_play", is another word to the hash than "play" or "1_play".
        texts = as_documents(X)
        decoded = (texts.text(i).decode().lower() for i in range(texts.n_documents))
        marked = [
            " ".join(f"{place}_{word}" for place, word in enumerate(WORD.findall(text)[:2]))
            for text in decoded
        ]
        return hash_documents(Documents.of(marked), self.word_hashing).astype(np.float64)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return a name for each column of :meth:`transform`: ``ngram0``, ..., then ``component0``, ..."""
        sizes = {"ngram": self.n_features, "component": self._embedding_size}
        names = [f"{kind}{i}" for kind, size in sizes.items() for i in range(size)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
