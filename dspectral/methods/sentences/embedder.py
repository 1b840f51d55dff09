"""Text encoder with the methods that BERTopic, turftopic, LangChain and scikit-learn call."""

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline

from dspectral.inputs.rows import LazyOutputMixin
from dspectral.inputs.texts import TextsOrCounts, is_fitted
from dspectral.methods.sentences.features import pack_once
from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.parameters import check_integer
from dspectral.registry import register_class
from dspectral.store.from_text.text_files import TextFiles


def embedder(model: int | SentenceRepresentation = 200) -> "TextEmbedder":
    """Return a text encoder for topic models, UMAP and vector stores that is fitted to the texts themselves.

    The vector of a text is the sum of its words' vectors, scaled to unit length. There is no neural network and no
    download. The encoder is a ``Pipeline`` of one step with ``encode``, as in sentence-transformers, and
    ``embed_documents`` and ``embed_query``, as in LangChain.

    Parameters
    ----------
    model : int or SentenceRepresentation, default=200
        Number of components of a vector, or the representation to use, fitted or not.

    Returns
    -------
    TextEmbedder
        ``encode(X, out=None)`` takes a string, texts in memory, :class:`dspectral.TextFiles`, or word counts that were
        hashed with ``embedder()[-1].word_hashing``, such as a store. It fits the model if needed. It returns an
        ndarray of float32, shape (n_texts, n_components), or a Dask array for lazy input. With ``out`` it writes
        Coordinates as :func:`dspectral.write_coordinates` does. A text without any known word gets zeros.

    Raises
    ------
    ValueError
        If ``model`` is an int below 1.

    Notes
    -----
    Fitting takes the passes and memory of :class:`SentenceRepresentation`, encoding one pass. The encoder can be saved.

    References
    ----------
    Kim, Stratos and Sarikaya 2016, "Scalable semi-supervised query classification using matrix sketching".

    Examples
    --------
    >>> encoder = embedder(2)
    >>> encoder.encode(["cats purr", "cats sleep", "dogs bark", "dogs sleep"]).shape, len(encoder.embed_query("a cat"))
    ((4, 2), 2)
    """
    if not isinstance(model, SentenceRepresentation):
        model = SentenceRepresentation(check_integer("model", model, at_least=1))
    return TextEmbedder([("words", model)])


@register_class()
class TextEmbedder(LazyOutputMixin, TransformerMixin, Pipeline):
    """Pipeline of one step whose ``transform`` is the ``embed`` of that step; BERTopic accepts pipelines."""

    def fit(self, X: "TextsOrCounts | TextFiles", y: object = None) -> Self:
        """Fit the vectors of words."""
        self[-1].fit(X)
        return self

    def transform(self, X: "TextsOrCounts | TextFiles", *, out: str | None = None) -> Any:
        """Return vectors of texts, shape (n_texts, n_components)."""
        return self[-1].embed(X, out=out)

    def fit_transform(self, X: "TextsOrCounts | TextFiles", y: object = None) -> Any:
        """Fit, then return vectors of the same texts."""
        X = pack_once(X)
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """Return the names of the columns of :meth:`transform`: ``component0``, ..."""
        size = self[-1]._embedding_size  # noqa: SLF001  the representation of this class
        return np.array([f"component{i}" for i in range(size)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container of the result of :meth:`transform`, as for every transformer of scikit-learn."""
        TransformerMixin.set_output(self, transform=transform)
        return self

    def encode(
        self,
        sentences: "str | TextsOrCounts | TextFiles",
        *,
        out: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = True,
    ) -> Any:
        """Return vectors of texts, or one vector for a string; the last three parameters have no effect."""
        if isinstance(sentences, str):
            return self[-1].embed([sentences])[0]
        X = pack_once(sentences)
        return (self if is_fitted(self[-1]) else self.fit(X))[-1].embed(X, out=out)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts as lists."""
        vectors: list[list[float]] = self.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text as a list."""
        vector: list[float] = self.encode(text).tolist()
        return vector
