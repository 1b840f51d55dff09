"""Base class of sentence representations: n-gram counts, and the vectors of a subclass."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

from dspectral.inputs.rows import RunPlanMixin, SparseOutput
from dspectral.inputs.texts import TextColumn, TextsOrCounts, as_documents, is_text_collection
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import normalize_rows
from dspectral.parameters import check_option, check_real
from dspectral.preprocessing.hashing import NgramHashing
from dspectral.store.from_text.text_files import TextFiles
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.token_rules import has_unspaced_script
from dspectral.text.tokenizers import TokenizerLike, as_tokenizer
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, Documents, Floats

HalfKind: TypeAlias = Literal["sent", "sketch", "idf", "idf+sent"]
HALF_KINDS: tuple[HalfKind, ...] = ("sent", "sketch", "idf", "idf+sent")
"""Directions weighted by IDF, unweighted directions, IDF weights alone, and the first and third together."""


def compute_half(present: CSRRows, projection: Floats, kind: HalfKind) -> CSRRows:
    """Return the second half of the representation, of one kind: rows of unit length, or zeros.

    Shapes: `present` (n_sentences, n_words), `projection` (n_words, n_components); returns (n_sentences,
    n_components).

    >>> present = sparse.csr_array(np.array([[1, 1], [0, 1]], dtype=np.float32))
    >>> P = np.array([[3, 0], [4, 0]], dtype=np.float32)
    >>> compute_half(present, P, "sent").toarray(), compute_half(present, P, "idf").toarray().round(2)
    (array([[1., 0.],
           [1., 0.]]), array([[0.6, 0.8],
           [0. , 1. ]]))
    """
    if kind == "idf+sent":
        halves = [compute_half(present, projection, half) for half in ("idf", "sent")]
        # Rows of both have unit length; the factor gives unit length to their concatenation.
        return sparse.csr_array(sparse.hstack(halves, format="csr") * np.sqrt(0.5))
    if kind == "idf":
        lengths = np.sqrt(np.einsum("ij,ij->i", projection, projection, dtype=np.float64))
        return Weighting(column_weights=lengths, norm="l2").apply(present.astype(np.float64))
    vectors = normalize_rows(projection) if kind == "sketch" else projection
    rows = normalize_rows(sparse_products.times(present, vectors))
    return sparse.csr_array(rows.astype(np.float64))


WORD_PATTERN = re.compile(r"(?u)\b\w\w+\b")
"""scikit-learn's token pattern: words of at least two characters."""


CHARACTER_RANGE, UNSPACED_CHARACTER_RANGE = (2, 4), (1, 3)
"""Smallest and largest number of characters of an n-gram within a word, and in scripts without spaces."""


def pack_once(X: Any) -> Any:
    """Pack texts in memory, since a generator can be read only once."""
    return as_documents(X) if is_text_collection(X) and not isinstance(X, TextFiles) else X


class SentenceFeatures(RunPlanMixin, SparseOutput, TransformerMixin, BaseEstimator, ABC):
    """Base class of representations: n-gram counts, then the vectors that :meth:`embed` of a subclass returns."""

    n_features: int
    ngram_range: tuple[int, int]
    weight: float
    tokenizer: TokenizerLike | None = "auto"
    half_kinds: ClassVar[tuple[HalfKind, ...]] = HALF_KINDS[:1]

    @property
    def word_hashing(self) -> HashingSettings:
        """Hashing settings for the words of unlabeled text, for example in ``build_store``."""
        tokenizer = as_tokenizer(self.tokenizer)
        return HashingSettings(self.n_features, (1, 1), lowercase=True, alternate_sign=False, tokenizer=tokenizer)

    @abstractmethod
    def embed(self, X: TextColumn) -> Floats:
        """Return the vectors of sentences, shape (n_sentences, n_components)."""

    def second_half(self, X: TextColumn, kind: str = "sent") -> CSRRows:
        """Return the second half of the representation without its weight: rows of unit length, or zeros.

        ``"sent"`` is the result of :meth:`embed`. The other kinds need fitted directions: ``"sketch"`` omits the IDF
        weights, ``"idf"`` omits the directions, and ``"idf+sent"`` concatenates ``"idf"`` and ``"sent"``.
        """
        return self._compute_half(X, check_option("kind", kind, self.half_kinds))

    def _compute_half(self, X: TextColumn, _kind: HalfKind) -> CSRRows:
        return sparse.csr_array(self.embed(X).astype(np.float64))

    @property
    @abstractmethod
    def _embedding_size(self) -> int:
        """Number of columns of the result of :meth:`embed`."""

    def fit_transform(self, X: TextsOrCounts, y: object = None, **fit_params: Any) -> CSRRows:
        """Fit to sentences, then transform them; a generator is read once."""
        texts = pack_once(X)
        rows: CSRRows = self.fit(texts, y).transform(texts)
        return rows

    def transform(self, X: TextColumn) -> CSRRows:
        """Compute the representation of sentences.

        Parameters
        ----------
        X : list of str, generator, array of strings, or column of pandas, polars or Hugging Face Datasets
            Sentences; bytes must be UTF-8.

        Returns
        -------
        csr_array of float64, shape (n_sentences, n_features + n_components)
            Scaled counts, then the second half times ``weight``.
        """
        check_real("weight", self.weight)
        texts = as_documents(X)
        second = self.weight * self.second_half(texts)
        return sparse.hstack([self.counts(texts), second], format="csr")

    def counts(self, X: TextColumn, max_words: int = 3) -> CSRRows:
        """Return the hashed n-gram counts of sentences, scaled to unit length: ``x / ||x||``. No fit is needed."""
        smallest, largest = self.ngram_range
        bounds = (smallest, max(smallest, min(largest, max_words)))
        hashing = HashingSettings(self.n_features, bounds, tokenizer=as_tokenizer(self.tokenizer))
        return Weighting(norm="l2").apply(hash_documents(as_documents(X), hashing).astype(np.float64))

    def character_counts(self, X: TextColumn, bounds: tuple[int, int] = CHARACTER_RANGE) -> CSRRows:
        """Return the hashed counts of character n-grams within the words of sentences. No fit is needed."""
        documents = as_documents(X)
        is_unspaced = has_unspaced_script(documents)[:, None]
        spaced, unspaced = (
            NgramHashing(self.n_features, bounds, alternate_sign=False, analyzer="char_wb")
            for bounds in (bounds, UNSPACED_CHARACTER_RANGE)
        )
        rows = hash_documents(documents, spaced).astype(np.float64)
        if is_unspaced.any():
            others = hash_documents(documents, unspaced).astype(np.float64)
            rows = sparse.csr_array(rows.multiply(~is_unspaced) + others.multiply(is_unspaced))
        # Swap the halves of the columns: a word of few letters and the same n-gram of characters differ.
        rows.indices ^= self.n_features // 2
        rows.has_sorted_indices = False
        rows.sort_indices()
        return rows

    def positions(self, X: TextColumn) -> CSRRows:
        """Return binary features for the first two words of sentences, hashed with their position. No fit is needed."""
        # A prefix with the position, as in "0_play", gives each position a column of its own.
        texts = as_documents(X)
        decoded = (texts.text(i).decode().lower() for i in range(texts.n_documents))
        prefixed = [
            " ".join(f"{position}_{word}" for position, word in enumerate(WORD_PATTERN.findall(text)[:2]))
            for text in decoded
        ]
        return hash_documents(Documents.from_strings(prefixed), self.word_hashing).astype(np.float64)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of :meth:`transform`: ``ngram0``, ..., then ``component0``, ..."""
        sizes = {"ngram": self.n_features, "component": self._embedding_size}
        names = [f"{kind}{i}" for kind, size in sizes.items() for i in range(size)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
