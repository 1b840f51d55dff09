"""Methods of every opened matrix of counts, wherever its rows are stored."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.blockwise import BlockwiseDepDict, blockwise
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine.row_blocks import say_bytes
from dspectral.store.anndata_files import as_anndata
from dspectral.store.vocabulary import Vocabulary
from dspectral.store.weighted_rows import as_weighting, weigh_rows
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.packing import Texts, text_blocks
from dspectral.text.term_index import encode_documents
from dspectral.text.weighting import HasWeighting, Weighting
from dspectral.types import CSRRows, Documents

T = TypeVar("T")
ENTRY_BYTES = 8
"""Bytes of an entry in memory: its value, and the number of its column."""


class OpenedCounts(ABC):
    """Sparse counts that are read block by block; subclasses say where from."""

    @property
    @abstractmethod
    def counts(self) -> da.Array:
        """Dask array of the rows: CSR blocks of known sizes, one task a block, nothing read yet."""

    @property
    @abstractmethod
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    @abstractmethod
    def document_frequency(self) -> NDArray[np.int64]:
        """Number of rows in which each column is not zero, shape (n_columns,)."""

    @property
    @abstractmethod
    def hashing(self) -> HashingSettings | None:
        """How n-grams became columns; None if they were not hashed, or nothing is known of it."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary | None:
        """The n-grams behind the columns; None if there is no vocabulary, or nothing is known of it."""

    def weighted(self, weighting: Weighting | HasWeighting) -> da.Array:
        """Return the rows weighted as they are read.

        Parameters
        ----------
        weighting : Weighting or TfidfWeighting
            Weighting to apply; of a fitted ``TfidfWeighting`` the learned one, perhaps from another store.

        Returns
        -------
        Dask array of CSR blocks of float32, shape (n_rows, n_columns)
            Nothing is read yet. Estimators that were fitted on such rows refuse rows of another weighting.

        Raises
        ------
        ValueError
            If the weighting was learned from rows of another width.
        """
        known = as_weighting(weighting, self.shape[1])
        width = self.shape[1] if known.columns is None else len(known.columns)
        rows: da.Array = weigh_rows(self, known, n_columns=width)
        return rows

    def tfidf(self) -> da.Array:
        """Return tf-idf rows of unit length, by the document frequencies of these rows.

        Returns
        -------
        Dask array of CSR blocks of float32, shape (n_rows, n_columns)
            Nothing is read yet; weigh other rows alike by ``other.weighted(TfidfWeighting().fit(store))``.
        """
        return self.weighted(Weighting.tfidf(self.document_frequency, self.n_rows))

    def count(self, texts: Texts) -> CSRRows:
        """Count the n-grams of new texts as those of the rows were counted.

        Parameters
        ----------
        texts : iterable of str
            Texts in memory.

        Returns
        -------
        csr_array of float32, shape (n_texts, n_columns)
            Counts over the same columns, not weighted.

        Raises
        ------
        ValueError
            If it is not known how the rows were counted.

        Examples
        --------
        >>> from dspectral import VocabularySettings, build_store
        >>> text = (line for line in ["the cat sat", "the dog"])
        >>> store = build_store(text, "memory://counted", vocabulary=VocabularySettings())
        >>> store.count(["the dog barks at the cat"]).toarray()
        array([[2., 1., 1., 0.]], dtype=float32)
        """
        documents = next(text_blocks(texts, block_bytes=sys.maxsize), Documents.of([]))
        if self.hashing is not None:
            return hash_documents(documents, self.hashing)
        vocabulary, settings = self.vocabulary, getattr(self, "provenance", {}).get("vocabulary")
        if vocabulary is None or not settings:
            raise ValueError("it is not known how the rows were counted: give counts instead of texts")
        known = tuple(settings["ngram_range"]), settings["lowercase"], settings.get("tokenizer")
        return encode_documents(documents, vocabulary.term_index(), *known)

    def to_anndata(self, *, lazy: bool = True, weighting: Weighting | HasWeighting | None = None) -> Any:
        """Return the rows as an AnnData object, for scanpy and the other programs of that house.

        Parameters
        ----------
        lazy : bool, default=True
            Whether ``X`` is a Dask array that reads the store block by block, or in memory.
        weighting : Weighting or TfidfWeighting, optional
            Weighting of the rows; by default they are the counts.

        Returns
        -------
        AnnData
            Rows in ``X`` as ``csr_matrix`` blocks, n-grams of a vocabulary in ``var_names``, labels in
            ``obsm["labels"]``, and provenance in ``uns["dspectral"]``; names of rows take about 60 bytes each.

        Raises
        ------
        ImportError
            If AnnData is not there: the extra ``anndata`` brings it.

        Examples
        --------
        >>> from dspectral import write_counts
        >>> store = write_counts(np.eye(4), "memory://to-anndata", block_rows=2)
        >>> adata = store.to_anndata()
        >>> adata.shape, adata.X.chunks
        ((4, 4), ((2, 2), (4,)))
        """
        vocabulary = self.vocabulary
        return as_anndata(
            self.counts if weighting is None else self.weighted(weighting),
            labels=getattr(self, "labels", None),
            terms=None if vocabulary is None else vocabulary.terms,
            provenance=getattr(self, "provenance", {}),  # a field of some, a property of others
            lazy=lazy,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows in all blocks."""
        return self.shape[0]

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self.block_rows)

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the counts as they are read."""
        return np.dtype(np.float32)


def read_lazily(
    read: Callable[[T], CSRRows],
    items: Sequence[T],
    sizes: Sequence[int],
    n_columns: int,
    n_bytes: Sequence[int] | None = None,
) -> da.Array:
    """Return a Dask array whose block ``i`` is ``read(items[i])``. Shapes: returns (sum(sizes), n_columns)."""
    name = f"read-block-{uuid4().hex}"
    # A blockwise layer stays symbolic until it runs: Dask fuses what follows into the task that reads the block, and
    # a slice of the array cuts away the blocks that nobody needs.
    numbered = BlockwiseDepDict({(i, 0): item for i, item in enumerate(items)}, numblocks=(len(items), 1))
    layer = blockwise(read, name, "ij", numbered, "ij", numblocks={})
    rows = da.Array(
        HighLevelGraph.from_collections(name, layer),
        name,
        chunks=(tuple(sizes), (n_columns,)),
        meta=sparse.csr_array((0, 0), dtype=np.float32),
    )
    return say_bytes(rows, n_bytes)
