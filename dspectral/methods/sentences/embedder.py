"""Texts to vectors, under the names by which BERTopic, turftopic, LangChain and scikit-learn call an encoder."""

from typing import Any, Self

from sklearn.pipeline import Pipeline

from dspectral.inputs.parameters import check_integer
from dspectral.inputs.texts import TextsOrCounts, as_documents, is_fitted, is_texts
from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.registry import saved
from dspectral.store.from_text.text_files import TextFiles


def embedder(model: int | SentenceRepresentation = 200) -> "TextEmbedder":
    """Return an encoder of texts for topic models, UMAP and vector stores, which learns from the texts themselves.

    A text becomes the sum of the directions of its words, of length 1; no network, no GPU, no download. It is a
    ``Pipeline`` of one step, ``fit`` and ``transform`` of which are those of the embedding, with
    ``encode`` as in sentence-transformers and ``embed_documents`` and ``embed_query`` as in LangChain.

    Parameters
    ----------
    model : int or SentenceRepresentation, default=200
        Length of a vector; or the model of the words, fitted or not.

    Returns
    -------
    TextEmbedder
        ``encode(X, out=None)`` takes a string, texts in memory, :class:`dspectral.TextFiles`, or counts of words: a
        store that was hashed with ``embedder()[-1].word_hashing``, or any other matrix of them. It fits the model if it
        is not fitted, and returns an ndarray of float32, shape (n_texts, n_components), a Dask array for what is not in
        memory, or with ``out`` the Coordinates that :func:`dspectral.write_coordinates` writes, block by block. A text
        without any known word is zeros.

    Raises
    ------
    ValueError
        If ``model`` is an int below 1.

    Notes
    -----
    Passes and memory are those of :class:`SentenceRepresentation`, and one pass to encode. It can be saved.

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


def _packed(X: "TextsOrCounts | TextFiles") -> "TextsOrCounts | TextFiles":
    """Pack texts once, since a generator is empty when it is asked again."""
    return as_documents(X) if is_texts(X) and not isinstance(X, TextFiles) else X


@saved
class TextEmbedder(Pipeline):
    """A pipeline, since BERTopic takes these as they are, whose rows are those of its step's ``embed``."""

    def fit(self, X: "TextsOrCounts | TextFiles", y: object = None) -> Self:
        """Learn the directions of words."""
        self[-1].fit(X)
        return self

    def transform(self, X: "TextsOrCounts | TextFiles", *, out: str | None = None) -> Any:
        """Return vectors of texts, shape (n_texts, n_components)."""
        return self[-1].embed(X, out=out)

    def fit_transform(self, X: "TextsOrCounts | TextFiles", y: object = None) -> Any:
        """Fit, then return vectors of the same texts."""
        X = _packed(X)
        return self.fit(X).transform(X)

    def encode(
        self,
        sentences: "str | TextsOrCounts | TextFiles",
        *,
        out: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = True,
    ) -> Any:
        """Return vectors of texts, of one for a string; the last three change nothing: others have them."""
        if isinstance(sentences, str):
            return self.transform([sentences])[0]
        X = _packed(sentences)
        return (self if is_fitted(self[-1]) else self.fit(X)).transform(X, out=out)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return vectors of texts as lists."""
        vectors: list[list[float]] = self.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text as a list."""
        vector: list[float] = self.encode(text).tolist()
        return vector
