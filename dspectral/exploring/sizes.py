"""How much of each thing a page shows, and how short texts get less of it."""

from typing import NamedTuple, Self

from dspectral.inputs.parameters import check_integer


class Sizes(NamedTuple):
    """Largest sizes of what a page shows; a short text gets less of it, by the rule of ``reduced``.

    Attributes
    ----------
    n_words : int, default=20000
        Number of words, the most frequent ones, that are columns of documents, and have vectors and classes.
    n_components : int, default=48
        Number of latent directions.
    n_clusters : int, default=100
        Number of Brown classes.
    n_dimensions : int, default=100
        Length of a word's vector.
    n_listed : int, default=4000
        Number of words whose nearest words are in the page.
    n_mapped : int, default=1500
        Number of words on the map.
    n_documents : int, default=200
        Number of documents, drawn at random, that are shown beside the typical ones.

    Examples
    --------
    >>> Sizes().reduced(n_documents=100, n_words=400)
    Sizes(n_words=400, n_components=25, n_clusters=50, n_dimensions=100, n_listed=400, n_mapped=400, n_documents=100)
    """

    n_words: int = 20_000
    n_components: int = 48
    n_clusters: int = 100
    n_dimensions: int = 100
    n_listed: int = 4_000
    n_mapped: int = 1_500
    n_documents: int = 200

    def check(self) -> None:
        """Refuse a size that is no whole number of at least 1.

        Raises
        ------
        ValueError, TypeError
            If a size is not; the message names it.
        """
        for name, size in self._asdict().items():
            check_integer(name, size, at_least=1)

    def reduced(self, *, n_documents: int, n_words: int) -> Self:
        """Return what a short text allows: 4 documents and 4 words a direction, 8 words a class, 4 words a dimension.

        Parameters
        ----------
        n_documents : int
            Number of documents that hold a word.
        n_words : int
            Number of words that are frequent enough.

        Returns
        -------
        Sizes
            Sizes of which none is larger than before; 0 where the text has too little.
        """
        return self._replace(
            n_words=min(self.n_words, n_words),
            n_components=min(self.n_components, n_documents // 4, n_words // 4),
            n_clusters=min(self.n_clusters, n_words // 8),
            n_dimensions=min(self.n_dimensions, n_words // 4),
            n_listed=min(self.n_listed, n_words),
            n_mapped=min(self.n_mapped, n_words),
            n_documents=min(self.n_documents, n_documents),
        )


def least_count(n_tokens: int) -> int:
    """Return how often a word must occur to be more than a number: once in a short text, ten times in a long one.

    >>> [least_count(n) for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)]
    [1, 2, 3, 5, 10]
    """
    return next((least for least, most in ((1, 2e3), (2, 2e4), (3, 2e5), (5, 5e6)) if n_tokens < most), 10)
