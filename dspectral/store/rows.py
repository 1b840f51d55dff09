"""Base class of opened count matrices, selections of their rows, and Dask arrays that read their blocks."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, NoReturn, Self, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.blockwise import BlockwiseDepDict, blockwise
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.engine import summarize
from dspectral.engine.blocks import BLOCK_BYTES, STORE_ANNOTATION, annotate, set_block_nbytes
from dspectral.linalg.block_sums import compute_energy, sum_rows
from dspectral.linalg.panels import split_by_size
from dspectral.store.anndata_files import as_anndata
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.columns import (
    Columns,
    as_weighting,
    check_columns,
    columns_from_hashing,
    set_columns,
    weigh_rows,
)
from dspectral.store.vocabulary import Vocabulary
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.packing import Texts, pack_texts
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.text.weighting import HasWeighting, Weighting
from dspectral.types import CSRRows, Documents, Doubles, Int64s, Rows

T = TypeVar("T")
ENTRY_BYTES = 8
"""Bytes of an entry in memory: a float32 value and an int32 column index."""


class BlockReader(NamedTuple):
    """Reader of the blocks of a matrix: block ``i`` is ``read(items[i])``, of ``n_bytes[i]`` bytes."""

    read: Callable[[Any], CSRRows]
    items: Sequence[Any]
    n_bytes: Sequence[int]


class CountMatrix(ABC):
    """Abstract base class of sparse counts that are read block by block."""

    n_columns: int
    __iter__ = None
    """Disabled: the default iteration would read each row separately."""

    @property
    @abstractmethod
    def block_reader(self) -> BlockReader:
        """The sources of its blocks."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "SelectedRows":
        if isinstance(rows, tuple):  # as scikit-learn indexes arrays: (rows, ...)
            rows, *others = rows
            if not all(other is ... or (isinstance(other, slice) and other == slice(None)) for other in others):
                raise IndexError("a store is indexed by rows only: select columns of store.counts")
        selected = np.atleast_1d(np.arange(len(self))[rows])
        if not len(selected):
            raise IndexError(f"the index selects none of the {len(self)} rows of {self!r}: select at least one")
        return SelectedRows(self, selected)

    def __array__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is read block by block, not as a NumPy array: use store.counts.compute()"
        )

    @property
    def counts(self) -> da.Array:
        """Lazy Dask array of the rows, one CSR block per chunk."""
        reader = self.block_reader
        shape = self.block_rows, self.shape[1]
        rows = dask_array_from_blocks(reader.read, reader.items, *shape, reader.n_bytes, dtype=self.dtype)
        return set_columns(annotate(rows, STORE_ANNOTATION, self), self)

    @property
    @abstractmethod
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""

    @property
    @abstractmethod
    def document_frequency(self) -> Int64s:
        """Number of rows in which each column is not zero, shape (n_columns,)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return sum(self.block_rows), self.n_columns

    @property
    def hashing(self) -> HashingSettings | None:
        """Settings of the hashing of n-grams; None if they were not hashed or the settings are unknown."""
        return None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """N-grams of the columns; None if there is no vocabulary."""
        return None

    @property
    def column_identity(self) -> Columns | None:
        """Column names, or the settings of hashing; None if both are unknown."""
        return columns_from_hashing(self.hashing)

    def weighted(self, weighting: Weighting | HasWeighting) -> da.Array:
        """Return a lazy array of weighted rows.

        Parameters
        ----------
        weighting : Weighting or TfidfWeighting
            Weighting to apply, or a fitted ``TfidfWeighting``, possibly fitted on another store.

        Returns
        -------
        Dask array of CSR blocks of float32, shape (n_rows, n_columns)
            The weighted rows. Estimators fitted on them reject rows of another weighting.

        Raises
        ------
        ValueError
            If the weighting was fitted on other columns.
        """
        resolved_weighting = as_weighting(weighting, self.shape[1])
        check_columns(weighting, self.column_identity, "the store")
        width = self.shape[1] if resolved_weighting.columns is None else len(resolved_weighting.columns)
        rows: da.Array = weigh_rows(self, resolved_weighting, n_columns=width, dtype=self.dtype)
        return rows

    def tfidf(self) -> da.Array:
        """Return a lazy array of tf-idf rows of unit length, with the document frequencies of these rows.

        Returns
        -------
        Dask array of CSR blocks of float32, shape (n_rows, n_columns)
            The weighted rows. ``other.weighted(TfidfWeighting().fit(store))`` applies the same weights to other rows.
        """
        return self.weighted(Weighting.tfidf(self.document_frequency, self.n_rows))

    def count(self, texts: Texts) -> CSRRows:
        """Count the n-grams of new texts with the settings of the store.

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
            If the store does not record how its rows were counted.

        Examples
        --------
        >>> from dspectral import VocabularySettings, build_store
        >>> text = (line for line in ["the cat sat", "the dog"])
        >>> store = build_store(text, "memory://counted", vocabulary=VocabularySettings())
        >>> store.count(["the dog barks at the cat"]).toarray()
        array([[2., 1., 1., 0.]], dtype=float32)
        """
        documents = next(pack_texts(texts, block_bytes=sys.maxsize), Documents.from_strings([]))
        if self.hashing is not None:
            return set_columns(hash_documents(documents, self.hashing), self)
        vocabulary, settings = self.vocabulary, getattr(self, "provenance", {}).get("vocabulary")
        if vocabulary is None or not settings:
            raise ValueError(f"{self!r} has neither hashing settings nor a vocabulary: pass counts instead of texts")
        index = TermIndex.from_terms(vocabulary.documents)
        tokenization = tuple(settings["ngram_range"]), settings["lowercase"], settings.get("tokenizer")
        return set_columns(encode_documents(documents, index, *tokenization, settings.get("normalize")), self)

    def to_anndata(self, *, lazy: bool = True, weighting: Weighting | HasWeighting | None = None) -> Any:
        """Return the rows as an AnnData object for scanpy and other scverse programs.

        Parameters
        ----------
        lazy : bool, default=True
            Whether ``X`` is a lazy Dask array; otherwise it is loaded into memory.
        weighting : Weighting or TfidfWeighting, optional
            Weighting of the rows; by default ``X`` holds counts.

        Returns
        -------
        AnnData
            Rows in ``X`` as ``csr_matrix`` blocks, n-grams of a vocabulary in ``var_names``, labels in
            ``obsm["labels"]``, and provenance in ``uns["dspectral"]``; names of rows take about 60 bytes each.

        Raises
        ------
        ImportError
            If AnnData is not installed; it is part of the extra ``anndata``.

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
            provenance=getattr(self, "provenance", {}),  # a field or a property of subclasses
            lazy=lazy,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self.block_rows)

    def documents(self, rows: Iterable[int], kind: str) -> list[str] | None:  # noqa: ARG002
        """Return the ids or texts of some rows; None if the store has none."""
        return None

    @property
    def ids(self) -> list[str] | None:
        """Ids of the rows, read on each access; None if the store was built without ``id_field``."""
        return self.documents(range(len(self)), IDS)

    def text(self, rows: "int | Iterable[int]") -> Any:
        """Return the texts of some rows; only their blocks are read.

        Parameters
        ----------
        rows : int or iterable of int
            Row indices, from 0.

        Returns
        -------
        str, or list of str
            One text for an integer, otherwise a list.

        Raises
        ------
        ValueError
            If the store was built without ``keep_texts=True``.
        IndexError
            If a row index is out of range.

        Examples
        --------
        >>> from dspectral import Texts, build_store
        >>> store = build_store(Texts(["the cat sat", "the dog"]), "memory://texts", keep_texts=True)
        >>> store.text(1), store[1:].text([0])
        ('the dog', ['the dog'])
        """
        several = not isinstance(rows, Integral)
        texts = self.documents(rows if several else [rows], TEXTS)  # type: ignore[arg-type,list-item]
        if texts is None:
            raise ValueError(f"{self!r} has no texts: build the store with keep_texts=True")
        return texts if several else texts[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the counts in memory."""
        data_type: np.dtype[Any] = getattr(getattr(self, "store", None), "dtype", np.dtype(np.float32))
        return data_type


class ColumnTotals(NamedTuple):
    """Sums over rows. Shapes: `column_sums, document_frequency` (n_columns,)."""

    column_sums: Doubles
    document_frequency: Int64s
    energy: float

    @classmethod
    def from_block(cls, rows: CSRRows) -> Self:
        """Summarize one block without stored zeros; raise ValueError for NaN and infinity."""
        frequency = np.bincount(rows.indices, minlength=rows.shape[1])
        return cls(sum_rows(rows), frequency, compute_energy(rows))

    def merge(self, *others: Self) -> Self:
        """Return the sums over all rows."""
        sums, frequencies, energies = zip(self, *others, strict=True)
        return type(self)(np.add.reduce(sums), np.add.reduce(frequencies), math.fsum(energies))


class LazyTotalsMixin(CountMatrix):
    """Counts without stored totals: the first access to a total computes all three in one pass."""

    @cached_property
    def _totals(self) -> ColumnTotals:
        return summarize(self, summarize_block=ColumnTotals.from_block, name="total")

    @property
    def column_sums(self) -> Doubles:
        """Sum of each column, shape (n_columns,): one pass."""
        return self._totals.column_sums

    @property
    def document_frequency(self) -> Int64s:
        """Number of rows in which each column is not zero, shape (n_columns,): one pass."""
        return self._totals.document_frequency

    @property
    def energy(self) -> float:
        """Sum of squares of all entries: one pass."""
        return self._totals.energy


class RowSelection(NamedTuple):
    """Selected rows of some blocks; ``order`` permutes their concatenation, None if it is already sorted."""

    parts: tuple[tuple[Any, Int64s], ...]
    order: Int64s | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(len(rows) for _, rows in self.parts)


def delegate_to_source(name: str) -> Any:
    """Return a property that reads an attribute of the underlying store."""
    return property(lambda self: getattr(self.store, name))


@dataclass(frozen=True, eq=False, repr=False)
class SelectedRows(LazyTotalsMixin):
    """Selected rows of a store in any order, such as ``store[:3]`` or ``store[rows]``.

    For ascending rows, as of ``KFold``, each block is read once and its selected rows are one block. For other orders,
    as of ``train_test_split``, each block of 64 MiB is gathered from all blocks that hold its rows.

    Attributes
    ----------
    store : CountStore or AnnDataCounts
        The store.
    rows : ndarray of int, shape (n_rows,)
        Row indices in the store.
    """

    store: CountMatrix
    rows: Int64s
    hashing, vocabulary, column_identity, provenance, kept_terms, n_labels, n_columns = map(
        delegate_to_source,
        ("hashing", "vocabulary", "column_identity", "provenance", "kept_terms", "n_labels", "n_columns"),
    )

    def __repr__(self) -> str:
        return f"{self.shape[0]} rows of {self.store!r}"

    def __getitem__(self, rows: object) -> "SelectedRows":
        selected = super().__getitem__(rows)
        return SelectedRows(self.store, self.rows[selected.rows])

    @cached_property
    def block_reader(self) -> BlockReader:
        """The sources of its blocks."""
        read, items, n_bytes = self.store.block_reader
        sizes = np.asarray(self.store.block_rows)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        row_bytes = np.asarray(n_bytes) / np.maximum(sizes, 1)
        block_numbers = np.searchsorted(starts, self.rows, side="right") - 1  # of each selected row
        if (np.diff(block_numbers) >= 0).all():
            ends = [0, *(np.flatnonzero(np.diff(block_numbers)) + 1).tolist(), len(block_numbers)]
            bounds = list(pairwise(ends))
        else:
            bounds = split_by_size(np.ceil(row_bytes[block_numbers]).astype(np.int64), BLOCK_BYTES)
        selections = []
        for start, stop in bounds:
            sources = block_numbers[start:stop]
            order = np.argsort(sources, kind="stable")
            groups = np.split(order, np.flatnonzero(np.diff(sources[order])) + 1)
            parts = tuple(
                (items[sources[group[0]]], self.rows[start + group] - starts[sources[group[0]]]) for group in groups
            )
            selections.append(RowSelection(parts, None if len(parts) == 1 else np.argsort(order)))
        selection_bytes = [int(row_bytes[block_numbers[start:stop]].sum()) for start, stop in bounds]
        return BlockReader(partial(read_selected_rows, read=read), selections, selection_bytes)

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return [selection.n_rows for selection in self.block_reader.items]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.rows), self.store.shape[1]

    @property
    def nnz(self) -> int:
        """Number of stored entries: one pass."""
        return int(self.document_frequency.sum())

    @property
    def labels(self) -> "da.Array | None":
        """Dask array of the labels, with the chunks of the rows; None if the store has no labels."""
        read = getattr(self.store, "read_labels", None)
        if read is None or self.n_labels is None:
            return None
        return dask_array_from_blocks(
            partial(read_selected_rows, read=read), self.block_reader.items, self.block_rows, self.n_labels
        )

    def documents(self, rows: Iterable[int], kind: str) -> list[str] | None:
        """Return the ids or texts of some rows; None if the store has none."""
        numbers = list(rows)
        if outside := [row for row in numbers if not 0 <= row < len(self)]:
            raise IndexError(f"row {outside[0]} must be at least 0 and below {len(self)}, the number of {self!r}")
        return self.store.documents(self.rows[numbers], kind)


def read_selected_rows(selection: RowSelection, *, read: Callable[[Any], CSRRows]) -> CSRRows:
    """Read the selected rows of some blocks. Shapes: returns (n_rows, n_columns)."""
    parts = [read(item)[rows] for item, rows in selection.parts]
    joined = sparse.csr_array(parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr"))
    gathered = joined if selection.order is None else joined[selection.order]
    gathered.has_sorted_indices = gathered.has_canonical_format = True  # true for each block
    return gathered


def dask_array_from_blocks(
    read: Callable[[T], Rows],
    items: Sequence[T],
    sizes: Sequence[int],
    n_columns: int,
    n_bytes: Sequence[int] | None = None,
    *,
    dtype: DTypeLike = np.float32,
    is_dense: bool = False,
) -> da.Array:
    """Return a lazy Dask array whose block ``i`` is ``read(items[i])``. Shapes: returns (sum(sizes), n_columns)."""
    name = f"read-block-{uuid4().hex}"
    # With a blockwise layer Dask fuses later operations into the read task and culls unused blocks.
    numbered = BlockwiseDepDict({(i, 0): item for i, item in enumerate(items)}, numblocks=(len(items), 1))
    layer = blockwise(read, name, "ij", numbered, "ij", numblocks={})
    rows = da.Array(
        HighLevelGraph.from_collections(name, layer),
        name,
        chunks=(tuple(sizes), (n_columns,)),
        meta=np.empty((0, 0), dtype) if is_dense else sparse.csr_array((0, 0), dtype=dtype),
    )
    return set_block_nbytes(rows, n_bytes)
