"""Latent semantic indexing under gensim's names, over its corpora; gensim itself is not needed."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from numbers import Integral
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from types import SimpleNamespace
from typing import Any, Self, TypeAlias
from warnings import warn
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.inputs.parameters import check_flag, check_integer, check_real, reject_foreign_arguments
from dspectral.persistence import models
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.draft import discard_unfinished
from dspectral.store.location import Location, StoreError
from dspectral.store.matrix import write_counts
from dspectral.store.rows import dask_array_from_blocks
from dspectral.types import CSRRows, is_sparse

Bag: TypeAlias = list[tuple[int, float]]
"""A document of gensim: pairs of the number of a word and its count or weight."""
REPLACED = {
    "print_debug": "show_topics(formatted=False)",
    "add_lifecycle_event": "the attributes of svd, which record how it was fitted",
    "lifecycle_events": "the attributes of svd, which record how it was fitted",
    "dispatcher": "a Dask client, on whose cluster add_documents then runs",
    "numworkers": "a Dask client, on whose cluster add_documents then runs",
}
"""Names of gensim that mean nothing here, and what takes their place."""
_MAPPED = "load(path), as arrays are compressed; numpy.save(path, lsi.projection.u) makes a file to map"
FILES: dict[str, tuple[Any, str]] = {
    "ignore": (frozenset(), "save(path), which writes the topics, the words and the parameters alone"),
    "mmap": (None, _MAPPED),
}
LAYOUT = {"separately", "sep_limit", "pickle_protocol"}
"""Arguments that change how a model lies in files, and nothing of the model."""
_LOG = logging.getLogger("dspectral")


def parse_bags(bags: Sequence[Bag]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the words and weights of all bags, and where each bag starts."""
    starts = np.cumsum([0, *map(len, bags)])
    try:
        flat = np.fromiter(chain.from_iterable(chain.from_iterable(bags)), float)
        words, weights = flat.reshape(starts[-1], 2).T
    except (TypeError, ValueError) as error:
        wrong = next((bag for bag in bags if any(np.shape(entry) != (2,) for entry in bag)), bags[0])
        raise ValueError(
            f"corpus holds {wrong!r:.60}, but a document must be a list of (word, weight): dictionary.doc2bow(tokens) "
            "makes one"
        ) from error
    return words, weights, starts


def iterate_chunks(corpus: Iterable[Bag], chunksize: int) -> Iterator[list[Bag]]:
    """Yield at most so many bags at a time."""
    left = iter(corpus)
    while bags := [list(bag) for bag in islice(left, chunksize)]:
        yield bags


def blocks(corpus: "Iterable[Bag] | CSRRows", n_terms: int, chunksize: int) -> Iterator[CSRRows]:
    """Yield the rows of bags, or of a sparse matrix (n_terms, n), shape (at most chunksize, n_terms)."""
    if is_sparse(corpus):
        if corpus.shape[0] != n_terms:
            raise ValueError(
                f"corpus has shape {corpus.shape}, but must have {n_terms} rows, one a word: transpose it"
            )
        rows = sparse.csr_array(corpus.T)
        yield from (rows[start : start + chunksize] for start in range(0, rows.shape[0], chunksize))
        return
    for bags in iterate_chunks(corpus, chunksize):
        words, weights, starts = parse_bags(bags)
        if len(wrong := words[~((words >= 0) & (words < n_terms) & (words == np.rint(words)))]):
            raise ValueError(f"the corpus has word {wrong[0]:g}, but id2word ends at {n_terms - 1}")
        yield sparse.csr_array((weights, words.astype(np.int64), starts), shape=(len(bags), n_terms))


def number_words(corpus: Any, chunksize: int) -> dict[int, str]:
    """Return the numbers of a corpus' words as their names."""
    if corpus is None or iter(corpus) is corpus:
        raise ValueError(
            f"id2word is None, but corpus is {corpus!r:.60}, which cannot be read twice to count its words: give "
            "id2word, a Dictionary or a dict from int to str, or a list"
        )
    if is_sparse(corpus):
        return {word: str(word) for word in range(corpus.shape[0])}
    largest = [parse_bags(bags)[0].max(initial=-1) for bags in iterate_chunks(corpus, chunksize)]
    return {word: str(word) for word in range(int(max(largest, default=-1)) + 1)}


def format_topic(topic: Sequence[tuple[str, float]]) -> str:
    """Return the words of a topic as gensim prints them."""
    return " + ".join(f'{weight:.3f}*"{word}"' for word, weight in topic)


def read_weighted(item: tuple[Any, Any, float], *, dtype: DTypeLike) -> CSRRows:
    """Read a block, ``(read, item, weight)``, and weigh its rows."""
    read, one, weight = item
    rows = read(one).astype(dtype)
    if weight != 1:
        rows.data *= weight
    return sparse.csr_array(rows)


class SavedSVD(TruncatedSVD):
    """The decomposition of a saved model, with the words and parameters that make an LsiModel of it again."""

    def attach_model(self, svd: TruncatedSVD, words: dict[int, str], facts: dict[str, Any]) -> Self:
        """Take what was fitted, and remember the model."""
        self.__dict__.update(vars(svd))
        self.words_, self.facts_ = words, facts
        return self


@dataclass(frozen=True)
class TransformedCorpus:
    """A corpus along the topics, which is read anew each time that it is iterated over."""

    model: "LsiModel"
    corpus: Iterable[Bag]
    scaled: bool = False
    chunksize: int = 512

    def __iter__(self) -> Iterator[Any]:
        projection = self.model.projection
        if projection.u is None:
            raise ValueError("the model has no topics, which documents must teach: call add_documents")
        axes = projection.u / projection.s if self.scaled else projection.u
        for block in blocks(self.corpus, self.model.num_terms, self.chunksize):
            for row in block @ axes:
                yield [(topic, float(row[topic])) for topic in np.flatnonzero(np.abs(row) > 1e-9).tolist()]

    def __len__(self) -> int:
        return self.corpus.shape[1] if is_sparse(self.corpus) else len(self.corpus)  # type: ignore[arg-type]


class LsiModel:
    """Latent semantic indexing under the names of gensim's ``LsiModel``, over its corpora, exact and out of core.

    The corpus is read once, block by block, into a store, and :class:`dspectral.TruncatedSVD` is fitted on that.

    Parameters
    ----------
    corpus : iterable of lists of (int, float), or SciPy sparse of shape (num_terms, n), optional
        Bags of words, counts or tf-idf: a list, an ``MmCorpus``, a generator, ``TfidfModel(...)[corpus]``.
    num_topics : int, default=200
        Number of topics; fewer are found where there are fewer words, or documents have fewer directions.
    id2word : gensim Dictionary or dict from int to str, optional
        The words; by default their numbers, for which a corpus that can be read twice is read once more.
    chunksize : int, default=20_000
        Number of documents of a block.
    decay : float, default=1.0
        Weight of earlier documents, relative to those that are added, with each chunk; with each call of
        ``add_documents`` where `onepass` is False.
    distributed : bool, default=False
        Must be False: where a Dask client is connected, the same call runs on its cluster.
    onepass : bool, default=True
        Whether `decay` counts chunks. The corpus itself is read once whichever it is.
    power_iters : int, default=2
        The singular vectors take ``2 power_iters + 1`` passes over the store.
    extra_samples : int, optional
        Columns of each product beside `num_topics`, by default as :class:`dspectral.TruncatedSVD` chooses.
    dtype : dtype, default=float64
        Precision of the decomposition and of its vectors, float64 or float32.
    random_seed : int or None, default=0
        Seed of the singular vectors; None draws one.
    store : str, optional
        Local path or fsspec URL of the store to make; by default a temporary folder, which goes with the model.

    Attributes
    ----------
    projection : SimpleNamespace
        ``u``, shape (num_terms, n), and ``s``, shape (n,), of the n <= num_topics directions that documents have; None
        before there are documents.
    svd : TruncatedSVD
        The estimator behind it, with ``certificate_``.
    rows : CountStore or None
        The corpus; None before there are documents, and in a loaded model whose store is gone.
    docs_processed : int
        Number of documents.
    num_terms : int
        Number of words.

    Notes
    -----
    ``add_documents`` decomposes the whole store again, and gives what one fit to all documents gives; gensim merges.
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
            raise ValueError(
                "distributed=True must be False: connect a Dask client, and its cluster does the work"
            )
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype!r} must be numpy.float32 or numpy.float64")
        self.chunksize = check_integer("chunksize", chunksize, at_least=1)
        self.num_topics = check_integer("num_topics", num_topics, at_least=1)
        self.decay, self.onepass = check_real("decay", decay, at_least=0.0), check_flag("onepass", onepass)
        self.power_iters = check_integer("power_iters", power_iters, at_least=0)
        self.extra_samples, self.dtype, self.random_seed = extra_samples, np.dtype(dtype).type, random_seed
        self.id2word = number_words(corpus, self.chunksize) if id2word is None else id2word
        if not all(isinstance(number, Integral) for number in self.id2word.keys()):  # noqa: SIM118  of gensim
            raise ValueError(
                f"id2word is {id2word!r:.60}, but must map numbers to words: token2id is its inverse"
            )
        self.num_terms = 1 + max(self.id2word.keys(), default=-1)
        if not self.num_terms:
            raise ValueError(
                f"id2word is {self.id2word!r}, but must be a Dictionary or a dict from int to str"
            )
        self.svd = TruncatedSVD(
            min(self.num_topics, self.num_terms),
            n_passes=2 * self.power_iters + 1,
            n_oversamples=extra_samples,
            random_state=random_seed,
        )
        self.projection, self.docs_processed = SimpleNamespace(u=None, s=None), 0
        self.rows: CountStore | None = None
        self._store, self._temporary, self._weights = store, store is None, list[float]()
        if store is not None and open_finished(Location.from_url(store)) is not None:
            raise StoreError(f"there is a finished store at {store} already: choose another path")
        if corpus is not None:
            self.add_documents(corpus)

    def add_documents(
        self, corpus: "Iterable[Bag] | CSRRows", chunksize: int | None = None, decay: float | None = None
    ) -> None:
        """Add documents to the store, and find the topics of all; if that fails, the model stays as it was.

        Parameters
        ----------
        corpus : iterable of lists of (int, float), or SciPy sparse of shape (num_terms, n)
            Bags of words.
        chunksize : int, optional
            Number of documents of a block, by default the model's.
        decay : float, optional
            Weight of earlier documents, by default the model's.

        Raises
        ------
        ValueError
            If there is no document, a word is not in ``id2word``, a weight is NaN or infinite, or the earlier documents
            of a loaded model are gone.
        """
        if self.docs_processed and self.rows is None:
            raise ValueError(
                f"the {self.docs_processed} documents of this model, which are decomposed again with those to add, are "
                "gone with the process that saved it: LsiModel(..., store=PATH) keeps them"
            )
        size = check_integer("chunksize", self.chunksize if chunksize is None else chunksize, at_least=1)
        decay = check_real("decay", self.decay if decay is None else decay, at_least=0.0)
        # Nothing of the model is touched before all documents are read, and decomposed with those that are there.
        with TemporaryDirectory() as scratch:
            new = None
            for block in blocks(corpus, self.num_terms, size):
                new = write_counts(
                    block, f"{scratch}/new", append=new is not None, signed=True, block_rows=size
                )
            if new is None:
                if self.rows is None:
                    raise ValueError("corpus is empty, but topics are found in documents")
                warn(
                    "corpus is empty, and the topics stay as they are: has an iterator been used up?",
                    stacklevel=2,
                )
                return
            later = range(new.n_blocks)[::-1] if self.onepass else [0] * new.n_blocks
            since = new.n_blocks if self.onepass else 1
            weights = [weight * decay**since for weight in self._weights] + [decay**one for one in later]
            rows = self._weight_blocks([new] if self.rows is None else [self.rows, new], weights)
            svd = TruncatedSVD(**self.svd.get_params()).fit(rows)
            self._append(new)
        self._weights, self.docs_processed = weights, self.rows.n_rows  # type: ignore[union-attr]
        self._set(svd)

    def _weight_blocks(self, stores: Sequence[CountStore], weights: Sequence[float]) -> Any:
        """Return the rows of stores, each block weighted, in the model's precision."""
        pieces = [store.block_reader for store in stores]
        read = [(piece.read, item) for piece in pieces for item in piece.items]
        items = [(*one, weight) for one, weight in zip(read, weights, strict=True)]
        sizes = [size for store in stores for size in store.block_rows]
        entry = 4 + np.dtype(self.dtype).itemsize
        n_bytes = [n * entry // 8 for piece in pieces for n in piece.n_bytes]
        return dask_array_from_blocks(
            partial(read_weighted, dtype=self.dtype), items, sizes, self.num_terms, n_bytes, dtype=self.dtype
        )

    def _append(self, new: CountStore) -> None:
        """Add documents to the store, all or none."""
        if self._store is None:
            self._store = f"{mkdtemp()}/rows.zarr"
            finalize(self, rmtree, self._store.removesuffix("/rows.zarr"), ignore_errors=True)
        there = open_finished(Location.from_url(self._store))
        if self.docs_processed != (0 if there is None else there.n_rows):
            raise StoreError(
                f"{self._store} is no longer the store of {self.docs_processed} documents that it was"
            )
        try:
            self.rows = write_counts(new.counts, self._store, append=there is not None, signed=True)
        except BaseException:
            # An unfinished store at a new path may be another writer's.
            if self._temporary or there is not None:
                discard_unfinished(self._store)
            raise

    def _set(self, svd: TruncatedSVD) -> None:
        there = svd.singular_values_ > 0
        self.svd, s = svd, svd.singular_values_[there].astype(self.dtype)
        self.projection = SimpleNamespace(u=svd.components_[there].T, s=s)

    def __getitem__(self, bow: "Bag | Iterable[Bag]", scaled: bool = False, chunksize: int = 512) -> Any:
        """Return a bag along the topics, pairs of a topic and a number; of a corpus these lists, lazily."""
        bag: Any = bow
        if isinstance(bag, list | tuple) and (not bag or (len(bag[0]) and np.ndim(bag[0][0]) == 0)):
            return next(iter(TransformedCorpus(self, [list(bag)], scaled)))
        return TransformedCorpus(self, bag, scaled, check_integer("chunksize", chunksize, at_least=1))

    def __getattr__(self, name: str) -> Any:
        if name in REPLACED:
            raise AttributeError(f"LsiModel has no {name}, as gensim's has: use {REPLACED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        names = "num_terms", "num_topics", "decay", "chunksize"
        shown = (f"{name}={getattr(self, name)}" for name in names)
        return f"{type(self).__name__}<{', '.join(shown)}>"

    def get_topics(self) -> NDArray[Any]:
        """Return the topics as rows of unit length.

        Returns
        -------
        ndarray, shape (n, num_terms)
            The transpose of ``projection.u``.
        """
        return np.ascontiguousarray(self.projection.u.T)

    def show_topic(self, topicno: int, topn: int = 10) -> list[tuple[str, float]]:
        """Return the words that weigh most in a topic.

        Parameters
        ----------
        topicno : int
            Number of the topic.
        topn : int, default=10
            Number of words.

        Returns
        -------
        list of (str, float)
            Words and weights; nothing where there is no such topic.
        """
        topics = self._topics(topn)
        return topics[topicno] if -len(topics) <= topicno < len(topics) else []

    def _topics(self, topn: int) -> list[list[tuple[str, float]]]:
        return self.svd.top_terms(topn, terms=dict(self.id2word))[: len(self.projection.s)]

    def print_topic(self, topicno: int, topn: int = 10) -> str:
        """Return the words that weigh most in a topic, as a string.

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
        """Return the words that weigh most in each topic.

        Parameters
        ----------
        num_topics : int, default=-1
            Number of topics, the first ones; -1 for all.
        num_words : int, default=10
            Number of words of a topic.
        log : bool, default=False
            Whether topics go to the logger ``dspectral``, too.
        formatted : bool, default=True
            Whether a topic is a string, or a list of words and weights.

        Returns
        -------
        list of (int, str) or of (int, list of (str, float))
            Number and words of each topic.
        """
        topics = self._topics(num_words)[: None if num_topics < 0 else num_topics]
        shown: list[Any] = list(enumerate(map(format_topic, topics) if formatted else topics))
        for number, topic in shown if log else ():
            _LOG.info("topic #%i(%.3f): %s", number, self.projection.s[number], topic)
        return shown

    def print_topics(self, num_topics: int = 20, num_words: int = 10) -> list[tuple[int, str]]:
        """Return the words that weigh most in each topic, as strings, and log them.

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

    def save(self, fname: str, **others: Any) -> None:
        """Save the topics, words and parameters as :func:`dspectral.save` does: no pickle is written.

        Parameters
        ----------
        fname : str
            Local path or fsspec URL of a Zarr group; a model that is there is replaced.
        **others : object
            Further arguments of gensim's: ``separately``, ``sep_limit`` and ``pickle_protocol`` change how files
            lie, which is always as Zarr has it, and ``ignore`` is refused.

        Notes
        -----
        Documents are not saved: a loaded model adds documents if the `store` was given a path that still holds them.
        """
        reject_foreign_arguments(
            "LsiModel.save", {name: others[name] for name in others.keys() - LAYOUT}, FILES
        )
        if self.projection.u is None:
            raise ValueError(
                "the model has no topics, which documents must teach: call add_documents before save"
            )
        lasting = None if self._temporary else self._store
        names = "num_topics", "chunksize", "decay", "onepass", "power_iters", "extra_samples", "random_seed"
        facts = {
            "parameters": {name: getattr(self, name) for name in names}
            | {"dtype": np.dtype(self.dtype).name},
            "documents": [self.docs_processed, self._weights, lasting],
        }
        words = {int(number): str(word) for number, word in dict(self.id2word).items()}
        models.save(SavedSVD().attach_model(self.svd, words, facts), fname, overwrite=True)

    @classmethod
    def load(cls, fname: str, **others: Any) -> Self:
        """Load a model that :meth:`save` has written.

        Parameters
        ----------
        fname : str
            Local path or fsspec URL, as given to :meth:`save`.
        **others : object
            Further arguments of gensim's: ``mmap`` must be None.

        Returns
        -------
        LsiModel
            The model, which transforms as the saved one did, to the bit.

        Raises
        ------
        ValueError
            If there is no such model.
        """
        reject_foreign_arguments("LsiModel.load", others, FILES)
        svd = models.load(fname)
        if not isinstance(svd, SavedSVD):
            raise ValueError(  # noqa: TRY004  as of every path that holds no such model
                f"the model at {fname} is a {type(svd).__name__}, but must be saved by LsiModel.save"
            )
        model = cls(id2word=svd.words_, **svd.facts_["parameters"])
        model._set(svd)
        model.docs_processed, model._weights, model._store = svd.facts_["documents"]
        model._temporary = model._store is None
        rows = open_finished(Location.from_url(model._store)) if model._store else None
        # A store that has grown since is not what the topics were found in.
        model.rows = rows if rows is not None and rows.n_rows == model.docs_processed else None
        return model
