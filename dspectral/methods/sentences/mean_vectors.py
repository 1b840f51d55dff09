"""Averaged word vectors in the place of a sketch: the paper's comparison."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.registry import saved
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.types import Documents


@saved
class WordVectorRepresentation(SentenceRepresentation):
    """Represent a sentence by its n-grams beside the mean of given word vectors, scaled to unit length.

    Parameters
    ----------
    words : list of str, or Documents
        Distinct words, lower-case.
    vectors : ndarray of float32, shape (n_words, n_components)
    n_features : int
        Columns that n-grams are hashed to.

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

    def __init__(
        self, words: list[str] | Documents, vectors: NDArray[np.float32], *, n_features: int = 2**18
    ) -> None:
        super().__init__(vectors.shape[1], n_features=n_features)
        self.words = words
        self.vectors = vectors

    def fit(self, X: Any = None, y: Any = None) -> "WordVectorRepresentation":
        """Do nothing: the vectors are given."""
        return self

    def embed(self, X: Any) -> NDArray[np.float32]:
        """Return the mean vectors, scaled to unit length, shape (n_sentences, n_components)."""
        words = self.words if isinstance(self.words, Documents) else Documents.of(list(self.words))
        counts = encode_documents(Documents.of(list(X)), TermIndex.of(words))
        return unit_rows(sparse_products.times(counts, self.vectors))
