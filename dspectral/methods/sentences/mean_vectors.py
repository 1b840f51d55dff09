"""Sentence representation by the mean of given word vectors: the baseline of the paper."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from dspectral.inputs.texts import TextColumn, as_documents, clone_with_shared
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.sentences.features import SentenceFeatures
from dspectral.registry import register_class
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.types import Documents, FloatArray, Floats


@register_class({"vectors": "* *"})
class WordVectorRepresentation(SentenceFeatures):
    """Represent a sentence by its n-grams and the mean of given word vectors, both scaled to unit length.

    Parameters
    ----------
    words : sequence of str
        Distinct lower-case words, for example from :func:`dspectral.read_word2vec`.
    vectors : ndarray of float32, shape (n_words, n_components)
        The vector of each word.
    n_features : int, default=2**18
        Number of columns that n-grams are hashed to: a power of two.
    weight : float, default=1.0
        Factor of the mean vector relative to the n-grams.

    Attributes
    ----------
    n_components_ : int
        Number of components of a vector.

    Notes
    -----
    No fit is needed; ``fit`` only checks the words and vectors. Clones share them instead of copying them.

    References
    ----------
    Kim, Stratos and Sarikaya 2016, section 3.6: "averaged word vectors over a sentence, normalized and
    conjoined with the original representation".

    Examples
    --------
    >>> words = ["jazz", "rock", "flight"]
    >>> vectors = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> WordVectorRepresentation(words, vectors).embed(["jazz rock"]).round(2)
    array([[1.  , 0.05]], dtype=float32)
    """

    ngram_range: tuple[int, int] = (1, 3)
    """Smallest and largest number of words of an n-gram."""

    def __init__(
        self,
        words: Sequence[str] | Documents,
        vectors: FloatArray,
        *,
        n_features: int = 2**18,
        weight: float = 1.0,
    ) -> None:
        self.words = words
        self.vectors = vectors
        self.n_features = n_features
        self.weight = weight

    def fit(self, X: TextColumn | None = None, y: object = None) -> Self:
        """Check that each word has a finite vector.

        Parameters
        ----------
        X : list of str, optional
            Sentences, which are only checked.
        y : object, optional
            Not used, present for API consistency.

        Returns
        -------
        WordVectorRepresentation
            The estimator itself.

        Raises
        ------
        ValueError
            If the numbers of words and vectors differ, or a vector is not finite.
        """
        if X is not None:
            as_documents(X)
        words, vectors = self._make_table()
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            word = words.text(int(np.argmin(is_finite))).decode()
            raise ValueError(f"the vector of {word!r} has NaN or infinity: remove the word, or pass finite numbers")
        self.n_components_ = vectors.shape[1]
        return self

    def embed(self, X: TextColumn) -> Floats:
        """Return the mean vectors of sentences, scaled to unit length.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`transform`.

        Returns
        -------
        ndarray of float32, shape (n_sentences, n_components)
            Zeros for a sentence without any known word.
        """
        words, vectors = self._make_table()
        counts = encode_documents(as_documents(X), TermIndex.from_terms(words))
        return normalize_rows(sparse_products.times(counts, vectors))

    @property
    def _embedding_size(self) -> int:
        return int(self._make_table()[1].shape[1])

    def _make_table(self) -> tuple[Documents, Floats]:
        # Words are packed in each call, since parameters may change between calls and no fit is required.
        words = as_documents(self.words)
        vectors = np.asarray(self.vectors, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != words.n_documents:
            raise ValueError(
                f"vectors has shape {vectors.shape}, but must have one row for each of {words.n_documents} words"
            )
        return words, vectors

    def __sklearn_clone__(self) -> Self:
        """Return a clone that shares the words and vectors."""
        return clone_with_shared(self, "words", "vectors")

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: the vectors are parameters."""
        return True
