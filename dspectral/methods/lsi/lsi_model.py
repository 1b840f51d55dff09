"""Latent semantic indexing under gensim's names, over its corpora; gensim itself is not needed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from shutil import rmtree
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, TypeAlias
from weakref import finalize

import numpy as np
from scipy import sparse

from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.inputs.parameters import check_integer
from dspectral.store.counts import CountStore
from dspectral.store.matrix import write_counts
from dspectral.types import CSRRows

Bag: TypeAlias = list[tuple[int, float]]
"""A document of gensim: pairs of the number of a word and its count or weight."""


def blocks(corpus: Iterable[Bag], n_terms: int, chunksize: int) -> Iterator[CSRRows]:
    """Yield the rows of a corpus, shape (at most chunksize, n_terms)."""
    left = iter(corpus)
    while bags := [list(bag) for bag in islice(left, chunksize)]:
        words, weights = np.fromiter(chain.from_iterable(chain.from_iterable(bags)), float).reshape(-1, 2).T
        if len(wrong := words[(words < 0) | (words >= n_terms)]):
            raise ValueError(f"the corpus has word {wrong[0]:.0f}, but id2word ends at {n_terms - 1}")
        starts = np.cumsum([0, *map(len, bags)])
        yield sparse.csr_array((weights, words.astype(np.int64), starts), shape=(len(bags), n_terms))


@dataclass(frozen=True)
class TransformedCorpus:
    """A corpus along the topics, which is read anew each time that it is iterated over."""

    model: "LsiModel"
    corpus: Iterable[Bag]

    def __iter__(self) -> Iterator[Any]:
        for block in blocks(self.corpus, self.model.num_terms, self.model.chunksize):
            for row in block @ self.model.projection.u:
                yield [(topic, float(row[topic])) for topic in np.flatnonzero(np.abs(row) > 1e-9).tolist()]

    def __len__(self) -> int:
        return len(self.corpus)  # type: ignore[arg-type]


class LsiModel:
    """Latent semantic indexing under the names of gensim's ``LsiModel``, over its corpora, exact and out of core.

    The corpus is read once, block by block, into a store, and :class:`dspectral.TruncatedSVD` is fitted on that.

    Parameters
    ----------
    corpus : iterable of lists of (int, float), optional
        Bags of words, counts or tf-idf: a list, an ``MmCorpus``, a generator, ``TfidfModel(...)[corpus]``.
    num_topics : int, default=200
        Number of topics, at most the number of words.
    id2word : gensim Dictionary or dict from int to str
        The words.
    chunksize : int, default=20_000
        Number of documents of a block.
    power_iters : int, default=2
        The singular vectors take ``2 power_iters + 1`` passes over the store.
    random_seed : int, default=0
        Seed of the singular vectors.
    store : str, optional
        Local path or fsspec URL of the store to make; by default a temporary folder.

    Attributes
    ----------
    projection : SimpleNamespace
        ``u``, shape (num_terms, n), and ``s``, shape (n,), of the n <= num_topics directions that documents have.
    svd : TruncatedSVD
        The estimator behind it, for :func:`dspectral.save`; with ``certificate_``.
    rows : CountStore
        The corpus.

    Notes
    -----
    ``add_documents`` reads the whole store again, and gives what one fit to all documents gives; gensim merges.
    Weights are kept in single precision.

    References
    ----------
    Deerwester et al. 1990, "Indexing by latent semantic analysis".

    Examples
    --------
    >>> corpus = [[(0, 2), (1, 1)], [(0, 1), (1, 2)], [(2, 1)]]
    >>> lsi = LsiModel(corpus, num_topics=2, id2word={0: "cat", 1: "purr", 2: "dog"})
    >>> lsi.print_topics(num_words=2)
    [(0, '0.707*"cat" + 0.707*"purr"'), (1, '1.000*"dog"')]
    """

    rows: CountStore

    def __init__(
        self,
        corpus: Iterable[Bag] | None = None,
        num_topics: int = 200,
        id2word: Mapping[int, str] | None = None,
        *,
        chunksize: int = 20_000,
        power_iters: int = 2,
        random_seed: int = 0,
        store: str | None = None,
    ) -> None:
        if not id2word:
            raise ValueError(f"id2word is {id2word!r}, but must be a Dictionary or a dict from int to str")
        self.id2word = dict(id2word)
        self.num_terms, self.num_topics = 1 + max(self.id2word), num_topics
        self.chunksize = check_integer("chunksize", chunksize, at_least=1)
        n_passes = 2 * check_integer("power_iters", power_iters, at_least=0) + 1
        self.svd = TruncatedSVD(min(num_topics, self.num_terms), n_passes=n_passes, random_state=random_seed)
        self._store = f"{mkdtemp()}/rows.zarr" if store is None else store
        if store is None:
            finalize(self, rmtree, self._store.removesuffix("/rows.zarr"), ignore_errors=True)
        if corpus is not None:
            self.add_documents(corpus)

    def add_documents(self, corpus: Iterable[Bag]) -> None:
        """Add documents to the store, and find the topics of all.

        Parameters
        ----------
        corpus : iterable of lists of (int, float)
            Bags of words.

        Raises
        ------
        ValueError
            If there is no document, a word is not in ``id2word``, or a weight is NaN or infinite.
        """
        for block in blocks(corpus, self.num_terms, self.chunksize):
            self.rows = write_counts(block, self._store, append=hasattr(self, "rows"), signed=True)
        if not hasattr(self, "rows"):
            raise ValueError("corpus is empty, but topics are found in documents")
        self.svd.fit(self.rows)
        there = self.svd.singular_values_ > 0
        self.projection = SimpleNamespace(u=self.svd.components_[there].T, s=self.svd.singular_values_[there])

    def __getitem__(self, bow: "Bag | Iterable[Bag]") -> Any:
        """Return a bag along the topics, pairs of a topic and a number; of a corpus these lists, lazily."""
        bag: Any = bow
        if isinstance(bag, list | tuple) and (not bag or (len(bag[0]) and np.ndim(bag[0][0]) == 0)):
            return next(iter(TransformedCorpus(self, [list(bag)])))
        return TransformedCorpus(self, bag)

    def show_topics(self, num_topics: int = -1, num_words: int = 10, *, formatted: bool = True) -> list[Any]:
        """Return the words that weigh most in each topic.

        Parameters
        ----------
        num_topics : int, default=-1
            Number of topics, the first ones; -1 for all.
        num_words : int, default=10
            Number of words of a topic.
        formatted : bool, default=True
            Whether a topic is a string, or a list of words and weights.

        Returns
        -------
        list of (int, str) or of (int, list of (str, float))
            Number and words of each topic.
        """
        topics = self.svd.top_terms(num_words, terms=self.id2word)[: len(self.projection.s)]
        topics = topics[: None if num_topics < 0 else num_topics]
        if formatted:
            topics = [" + ".join(f'{weight:.3f}*"{word}"' for word, weight in topic) for topic in topics]
        return list(enumerate(topics))

    def print_topics(self, num_topics: int = 20, num_words: int = 10) -> list[tuple[int, str]]:
        """Return the words that weigh most in each topic, as strings.

        Parameters
        ----------
        num_topics : int, default=20
            Number of topics, the first ones; -1 for all.
        num_words : int, default=10
            Number of words of a topic.

        Returns
        -------
        list of (int, str)
            Number and words of each topic.
        """
        return self.show_topics(num_topics, num_words)
