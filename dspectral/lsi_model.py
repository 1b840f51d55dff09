"""Latent semantic indexing with gensim's interface and corpora; gensim itself is not required."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from types import SimpleNamespace
from typing import Any, Self, TypeAlias
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.parameters import check_flag, check_integer, check_option, check_real
from dspectral.persistence import models
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.location import Location, StoreError
from dspectral.store.matrix import write_counts
from dspectral.store.rows import dask_array_from_blocks
from dspectral.store.writer import discard_unfinished
from dspectral.types import AnyArray, CSRRows, Doubles, Int64s, is_sparse

Bag: TypeAlias = list[tuple[int, float]]
"""A gensim document: pairs of a word id and its count or weight."""
_LOG = logging.getLogger("dspectral")


def parse_bags(bags: Sequence[Bag]) -> tuple[Doubles, Doubles, Int64s]:
    """Return the word ids and weights of all bags, and the start of each bag."""
    starts = np.cumsum([0, *map(len, bags)])
    try:
        words, weights = np.fromiter(chain.from_iterable(chain.from_iterable(bags)), float).reshape(starts[-1], 2).T
    except (TypeError, ValueError) as error:
        raise ValueError(
            "a document of the corpus must be a list of (word id, weight): use dictionary.doc2bow(tokens)"
        ) from error
    return words, weights, starts


def iterate_chunks(corpus: Iterable[Bag], chunksize: int) -> Iterator[list[Bag]]:
    """Yield lists of at most ``chunksize`` bags."""
    remaining = iter(corpus)
    while bags := [list(bag) for bag in islice(remaining, chunksize)]:
        yield bags


def iter_blocks(corpus: "Iterable[Bag] | CSRRows", n_terms: int, chunksize: int) -> Iterator[CSRRows]:
    """Yield blocks of documents from bags or a sparse matrix (n_terms, n), shape (<= chunksize, n_terms)."""
    if is_sparse(corpus):
        if corpus.shape[0] != n_terms:
            raise ValueError(f"corpus has shape {corpus.shape}, but must have {n_terms} rows, the words: transpose it")
        rows = sparse.csr_array(corpus.T)
        yield from (rows[start : start + chunksize] for start in range(0, rows.shape[0], chunksize))
        return
    for bags in iterate_chunks(corpus, chunksize):
        words, weights, starts = parse_bags(bags)
        if len(wrong := words[~((words >= 0) & (words < n_terms) & (words == np.rint(words)))]):
            raise ValueError(f"word {wrong[0]:g} of the corpus must be an integer from 0 to {n_terms - 1}, an id")
        yield sparse.csr_array((weights, words.astype(np.int64), starts), shape=(len(bags), n_terms))


def make_id2word(corpus: Any, chunksize: int) -> dict[int, str]:
    """Return an id2word whose names are the word ids of the corpus."""
    if corpus is None or iter(corpus) is corpus:
        raise ValueError(f"id2word=None needs a corpus to read twice, but it is {corpus!r:.60}: pass id2word or a list")
    if is_sparse(corpus):
        return {word: str(word) for word in range(corpus.shape[0])}
    largest = [parse_bags(bags)[0].max(initial=-1) for bags in iterate_chunks(corpus, chunksize)]
    return {word: str(word) for word in range(int(max(largest, default=-1)) + 1)}


def format_topic(topic: Sequence[tuple[str, float]]) -> str:
    """Return the words of a topic in gensim's format."""
    return " + ".join(f'{weight:.3f}*"{word}"' for word, weight in topic)


def read_weighted(item: tuple[Any, Any, float], *, dtype: DTypeLike) -> CSRRows:
    """Read the block ``(read, block, weight)`` and multiply its rows by the weight."""
    read, block, weight = item
    rows = read(block).astype(dtype)
    if weight != 1:
        rows.data *= weight
    return sparse.csr_array(rows)


class SavedSVD(TruncatedSVD):
    """SVD of a saved LsiModel, with its words and parameters."""

    words_: dict[int, str]
    facts_: dict[str, Any]


@dataclass(frozen=True)
class TransformedCorpus:
    """Lazy projection of a corpus on the topics; each iteration reads the corpus again."""

    model: "LsiModel"
    corpus: Iterable[Bag]
    scaled: bool = False
    chunksize: int = 512

    def __iter__(self) -> Iterator[Any]:
        projection = self.model.projection
        axes = projection.u / projection.s if self.scaled else projection.u
        for block in iter_blocks(self.corpus, self.model.num_terms, self.chunksize):
            for row in block @ axes:
                yield [(topic, float(row[topic])) for topic in np.flatnonzero(np.abs(row) > 1e-9).tolist()]

    def __len__(self) -> int:
        return self.corpus.shape[1] if is_sparse(self.corpus) else len(self.corpus)  # type: ignore[arg-type]


class LsiModel:
    """Latent semantic indexing with the interface of gensim's ``LsiModel``, exact and out of core.

    The corpus is read once, block by block, into a store; :class:`dspectral.TruncatedSVD` is fitted on the store.

    Parameters
    ----------
    corpus : iterable of lists of (int, float), or SciPy sparse of shape (num_terms, n), optional
        Bags of words, counts or tf-idf: a list, an ``MmCorpus``, a generator, ``TfidfModel(...)[corpus]``.
    num_topics : int, default=200
        Number of topics; fewer if the corpus has a lower rank.
    id2word : gensim Dictionary or dict from int to str, optional
        The words. The default is their ids, which needs another read of the corpus.
    chunksize : int, default=20_000
        Number of documents of a block.
    decay : float, default=1.0
        Factor of the weights of earlier documents, applied once for each chunk that is added, or once for each call of
        ``add_documents`` if `onepass` is False.
    distributed : bool, default=False
        Must be False. With a connected Dask client the computation runs on its cluster.
    onepass : bool, default=True
        Whether `decay` is applied by chunk. The corpus is read once in either case.
    power_iters : int, default=2
        Number of power iterations; the SVD takes ``2 power_iters + 1`` passes over the store.
    extra_samples : int, optional
        Number of oversamples; the default is that of :class:`dspectral.TruncatedSVD`.
    dtype : dtype, default=float64
        Precision of the SVD and its vectors, float64 or float32.
    random_seed : int or None, default=0
        Seed of the SVD; None draws one.
    store : str, optional
        Local path or fsspec URL of the new store. The default is a temporary folder, removed with the model.

    Attributes
    ----------
    projection : SimpleNamespace
        Left singular vectors ``u``, shape (num_terms, n), and singular values ``s``, shape (n,), for n <= num_topics;
        both None before the first documents.
    svd : TruncatedSVD
        The underlying estimator, with ``certificate_``.
    rows : CountStore or None
        The corpus; None before the first documents, and in a loaded model without its store.
    docs_processed : int
        Number of documents.
    num_terms : int
        Number of words.

    Notes
    -----
    ``add_documents`` decomposes the whole store again, so the result is that of one fit to all documents; gensim
    merges decompositions. Weights are stored in single precision.

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

    def __init__(
        self,
        corpus: "Iterable[Bag] | CSRRows | None" = None,
        num_topics: int = 200,
        id2word: Mapping[int, str] | None = None,
        chunksize: int = 20_000,
        decay: float = 1.0,
        distributed: bool = False,
        onepass: bool = True,
        power_iters: int = 2,
        extra_samples: int | None = None,
        dtype: DTypeLike = np.float64,
        random_seed: int | None = 0,
        *,
        store: str | None = None,
    ) -> None:
        if check_flag("distributed", distributed):
            raise ValueError("distributed=True must be False: a connected dask.distributed.Client is used")
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype!r} must be numpy.float32 or numpy.float64")
        self.chunksize = check_integer("chunksize", chunksize, at_least=1)
        self.num_topics = check_integer("num_topics", num_topics, at_least=1)
        self.decay, self.onepass = check_real("decay", decay, at_least=0.0), check_flag("onepass", onepass)
        self.power_iters = check_integer("power_iters", power_iters, at_least=0)
        self.extra_samples, self.dtype, self.random_seed = extra_samples, np.dtype(dtype).type, random_seed
        self.id2word = make_id2word(corpus, self.chunksize) if id2word is None else id2word
        self.num_terms = 1 + max(self.id2word.keys())
        self.svd = TruncatedSVD(
            min(self.num_topics, self.num_terms),
            n_passes=2 * self.power_iters + 1,
            n_oversamples=extra_samples,
            random_state=random_seed,
        )
        self.projection, self.docs_processed = SimpleNamespace(u=None, s=None), 0
        self.rows: CountStore | None = None
        self._store, self._temporary, self._weights = store, store is None, list[float]()
        if corpus is not None:
            self.add_documents(corpus)

    def add_documents(
        self, corpus: "Iterable[Bag] | CSRRows", chunksize: int | None = None, decay: float | None = None
    ) -> None:
        """Append documents to the store and recompute the topics; the model is unchanged if that fails.

        Parameters
        ----------
        corpus : iterable of lists of (int, float), or SciPy sparse of shape (num_terms, n)
            Bags of words.
        chunksize : int, optional
            Number of documents of a block; the default is that of the model.
        decay : float, optional
            Weight of earlier documents; the default is that of the model.

        Raises
        ------
        ValueError
            If the corpus is empty, a word is not in ``id2word``, a weight is not finite, or the store of a loaded model
            does not exist.
        """
        if self.docs_processed and self.rows is None:
            raise ValueError(
                f"the {self.docs_processed} documents of this model were in a temporary store that no longer exists, "
                "but add_documents needs them: fit the model with store=PATH"
            )
        size = check_integer("chunksize", self.chunksize if chunksize is None else chunksize, at_least=1)
        decay = check_real("decay", self.decay if decay is None else decay, at_least=0.0)
        # The model is only updated after all documents are read and the SVD is done.
        with TemporaryDirectory() as scratch:
            new = None
            for block in iter_blocks(corpus, self.num_terms, size):
                new = write_counts(block, f"{scratch}/new", append=new is not None, signed=True, block_rows=size)
            if new is None:
                raise ValueError("corpus is empty, but must have at least 1 document: pass a new iterator, or a list")
            later = range(new.n_blocks)[::-1] if self.onepass else [0] * new.n_blocks
            since = new.n_blocks if self.onepass else 1
            weights = [weight * decay**since for weight in self._weights] + [decay**power for power in later]
            rows = self._weight_blocks([new] if self.rows is None else [self.rows, new], weights)
            svd = TruncatedSVD(**self.svd.get_params()).fit(rows)
            self._append(new)
        self._weights, self.docs_processed = weights, self.rows.n_rows  # type: ignore[union-attr]
        self._set(svd)

    def _weight_blocks(self, stores: Sequence[CountStore], weights: Sequence[float]) -> Any:
        """Return the rows of all stores lazily, with a weight for each block, in the precision of the model."""
        readers = [store.block_reader for store in stores]
        read = [(reader.read, item) for reader in readers for item in reader.items]
        items = [(*block, weight) for block, weight in zip(read, weights, strict=True)]
        sizes = [size for store in stores for size in store.block_rows]
        entry = 4 + np.dtype(self.dtype).itemsize
        n_bytes = [n * entry // 8 for reader in readers for n in reader.n_bytes]
        return dask_array_from_blocks(
            partial(read_weighted, dtype=self.dtype), items, sizes, self.num_terms, n_bytes, dtype=self.dtype
        )

    def _append(self, documents: CountStore) -> None:
        """Append documents to the store atomically."""
        if self._store is None:
            self._store = f"{mkdtemp()}/rows.zarr"
            finalize(self, rmtree, self._store.removesuffix("/rows.zarr"), ignore_errors=True)
        existing = open_finished(Location.from_url(self._store))
        n_rows = 0 if existing is None else existing.n_rows
        if self.docs_processed != n_rows:
            raise StoreError(
                f"the store {self._store} has {n_rows} documents, but must have the {self.docs_processed} documents of "
                "this model: choose another path"
            )
        try:
            self.rows = write_counts(documents.counts, self._store, append=existing is not None, signed=True)
        except BaseException:
            # An unfinished store at a new path may belong to another writer.
            if self._temporary or existing is not None:
                discard_unfinished(self._store)
            raise

    def _set(self, svd: TruncatedSVD) -> None:
        nonzero = svd.singular_values_ > 0
        self.svd, s = svd, svd.singular_values_[nonzero].astype(self.dtype)
        self.projection = SimpleNamespace(u=svd.components_[nonzero].T, s=s)

    def __getitem__(self, bow: "Bag | Iterable[Bag]", scaled: bool = False, chunksize: int = 512) -> Any:
        """Return the topic coordinates of a bag as (topic, value) pairs, or a lazy iterable of them for a corpus."""
        bag: Any = bow
        if isinstance(bag, list | tuple) and (not bag or (len(bag[0]) and np.ndim(bag[0][0]) == 0)):
            return next(iter(TransformedCorpus(self, [list(bag)], scaled)))
        return TransformedCorpus(self, bag, scaled, check_integer("chunksize", chunksize, at_least=1))

    def __str__(self) -> str:
        sizes = f"num_terms={self.num_terms}, num_topics={self.num_topics}"
        return f"LsiModel<{sizes}, decay={self.decay}, chunksize={self.chunksize}>"

    def get_topics(self) -> AnyArray:
        """Return the topics as unit-length rows.

        Returns
        -------
        ndarray, shape (n, num_terms)
            The transpose of ``projection.u``.
        """
        return np.ascontiguousarray(self.projection.u.T)

    def show_topic(self, topicno: int, topn: int = 10) -> list[tuple[str, float]]:
        """Return the words of largest weight in a topic.

        Parameters
        ----------
        topicno : int
            Number of the topic.
        topn : int, default=10
            Number of words.

        Returns
        -------
        list of (str, float)
            Words and weights; empty if there is no such topic.
        """
        topics = self._topics(topn)
        return topics[topicno] if -len(topics) <= topicno < len(topics) else []

    def _topics(self, topn: int) -> list[list[tuple[str, float]]]:
        return self.svd.top_terms(topn, terms=dict(self.id2word))[: len(self.projection.s)]

    def print_topic(self, topicno: int, topn: int = 10) -> str:
        """Return the words of largest weight in a topic, as a string.

        Parameters
        ----------
        topicno : int
            Number of the topic.
        topn : int, default=10
            Number of words.

        Returns
        -------
        str
            Such as ``'0.707*"cat" + 0.707*"purr"'``.
        """
        return format_topic(self.show_topic(topicno, topn))

    def show_topics(
        self, num_topics: int = -1, num_words: int = 10, log: bool = False, formatted: bool = True
    ) -> list[Any]:
        """Return the words of largest weight in each topic.

        Parameters
        ----------
        num_topics : int, default=-1
            Number of topics, the first ones; -1 for all.
        num_words : int, default=10
            Number of words of a topic.
        log : bool, default=False
            Whether to log the topics to the logger ``dspectral``.
        formatted : bool, default=True
            Whether to return a topic as a string rather than as a list of words and weights.

        Returns
        -------
        list of (int, str) or of (int, list of (str, float))
            Number and words of each topic.
        """
        topics = self._topics(num_words)[: None if num_topics < 0 else num_topics]
        formatted_topics: list[Any] = list(enumerate(map(format_topic, topics) if formatted else topics))
        for number, topic in formatted_topics if log else ():
            _LOG.info("topic #%i(%.3f): %s", number, self.projection.s[number], topic)
        return formatted_topics

    def print_topics(self, num_topics: int = 20, num_words: int = 10) -> list[tuple[int, str]]:
        """Return and log the words of largest weight in each topic, as strings.

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
        return self.show_topics(num_topics, num_words, log=True)

    def save(self, fname: str, **layout: Any) -> None:  # noqa: ARG002
        """Save the topics, words and parameters with :func:`dspectral.save`, without pickle.

        Parameters
        ----------
        fname : str
            Local path or fsspec URL of a Zarr group; an existing model is replaced.
        **layout : object
            Further arguments of gensim's ``save``, without effect.

        Notes
        -----
        Documents are not saved. A loaded model can only add documents if its `store` was given and still exists.
        """
        store = None if self._temporary else self._store
        names = "num_topics", "chunksize", "decay", "onepass", "power_iters", "extra_samples", "random_seed"
        facts = {
            "parameters": {name: getattr(self, name) for name in names} | {"dtype": np.dtype(self.dtype).name},
            "documents": [self.docs_processed, self._weights, store],
        }
        words = {int(number): str(word) for number, word in dict(self.id2word).items()}
        saved = SavedSVD()
        saved.__dict__.update(vars(self.svd), words_=words, facts_=facts)
        models.save(saved, fname, overwrite=True)

    @classmethod
    def load(cls, fname: str, mmap: None = None) -> Self:
        """Return a model written by :meth:`save`.

        Parameters
        ----------
        fname : str
            Local path or fsspec URL, as passed to :meth:`save`.
        mmap : None
            Argument of gensim's ``load``. Arrays are compressed, and cannot be mapped.

        Returns
        -------
        LsiModel
            The model, with bit-identical transforms.

        Raises
        ------
        ValueError
            If there is no such model.
        """
        check_option("mmap", mmap, (None,))
        svd = models.load(fname)
        if not isinstance(svd, SavedSVD):
            raise ValueError(f"the model at {fname} is a {type(svd).__name__}, not an LsiModel: use dspectral.load")  # noqa: TRY004
        model = cls(id2word=svd.words_, **svd.facts_["parameters"])
        model._set(svd)
        model.docs_processed, model._weights, model._store = svd.facts_["documents"]
        model._temporary = model._store is None
        rows = open_finished(Location.from_url(model._store)) if model._store else None
        # A store that has grown since does not match the topics.
        model.rows = rows if rows is not None and rows.n_rows == model.docs_processed else None
        return model
