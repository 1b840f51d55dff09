"""Stores of sparse counts in Zarr, read block by block."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from dspectral.engine import run_tasks
from dspectral.engine.graph import ContentAddressedReader
from dspectral.store.aligned import align_columns
from dspectral.store.anndata import WHOLE_GROUP, open_anndata
from dspectral.store.anndata_files import is_hdf5
from dspectral.store.arrays import compute_digest, has_valid_content_hash, read_array
from dspectral.store.blocks import (
    IDS,
    TEXTS,
    BlockInfo,
    check_sums,
    find_block,
    read_block,
    read_block_as_float64,
    read_documents,
    read_labels,
    read_row_documents,
)
from dspectral.store.columns import Columns
from dspectral.store.location import Location, StoreError, damage_error, redact_urls
from dspectral.store.rows import ENTRY_BYTES, BlockReader, CountMatrix, dask_array_from_blocks
from dspectral.store.vocabulary import (
    KEEP_TERMS,
    Vocabulary,
    get_vocabulary_path,
    read_term_sample,
    read_vocabulary,
    vocabulary_columns,
)
from dspectral.text.hashing import HashingSettings
from dspectral.text.term_sample import KeptTerms
from dspectral.text.tokenizers import TokenizerLike, register_tokenizer, tokenizer_from_record, wrap_tokenizer_names
from dspectral.types import CSRRows, Doubles, Int64s

FORMAT = 2
KEY = "dspectral"
"""Attribute of the root that makes a store finished."""
CORPUS_KEY = "dspectral-corpus"
"""Attribute of the root that makes a corpus finished."""
FIRST = "first_generation"
"""Key of the provenance with the generation of the first rows of an overwritten store."""
TOTALS = ("column_sums", "document_frequency")
"""Names of the arrays of column totals, in the order of their digests."""


@dataclass(frozen=True, eq=False, repr=False)
class CountStore(CountMatrix):
    """Sparse counts in Zarr, stored in row blocks; only metadata is in memory.

    Attributes
    ----------
    location : Location
        Path or URL of the store.
    blocks : tuple of BlockInfo
        Its blocks, in the order of the rows, without empty ones.
    n_columns : int
        Number of columns.
    generation : int
        Number of times that rows were appended.
    provenance : dict
        Origin of the counts: sources, settings, versions; rows added later are under ``"appended"``.
    totals_digests : tuple of int
        Digests of ``column_sums`` and ``document_frequency``.
    left_out : tuple of str
        Names of the blocks that ``open_store`` was called to skip.

    Examples
    --------
    >>> from scipy import sparse
    >>> from dspectral import write_counts
    >>> store = write_counts(sparse.csr_array(np.eye(4, dtype=np.float32)), "memory://eye", block_rows=2)
    >>> store.shape, store.nnz, store.counts.chunks
    ((4, 4), 4, ((2, 2), (4,)))
    """

    location: Location
    blocks: tuple[BlockInfo, ...]
    n_columns: int
    generation: int
    provenance: dict[str, Any]
    totals_digests: tuple[int, int]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        size = f"{n_rows} x {n_columns}, {self.nnz} entries in {self.n_blocks} blocks"
        return f"CountStore({redact_urls(self.location.url)!r}: {size})"

    @property
    def block_reader(self) -> BlockReader:
        """The sources of its blocks."""
        as_doubles = self.dtype == np.float64
        read = read_block_as_float64 if as_doubles else read_block
        n_bytes = [block.n_bytes + 4 * block.nnz * (as_doubles and not block.is_double) for block in self.blocks]
        return BlockReader(ContentAddressedReader(read, self.location), self.blocks, n_bytes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the counts in memory: float64 if a block has integers that float32 cannot hold, else float32."""
        return np.dtype(np.float64 if any(block.is_double for block in self.blocks) else np.float32)

    @property
    def labels(self) -> da.Array | None:
        """Dask array of the labels, with the chunks of the rows: CSR blocks of ones; None without labels."""
        if self.n_labels is None:
            return None
        n_bytes = [ENTRY_BYTES * block.label_nnz for block in self.blocks]
        return dask_array_from_blocks(self.read_labels, self.blocks, self.block_rows, self.n_labels, n_bytes)

    @property
    def read_labels(self) -> Callable[[Any], CSRRows]:
        """Function that reads the labels of a block."""
        return ContentAddressedReader(read_labels, self.location)

    @property
    def n_labels(self) -> int | None:
        """Number of label columns; None without labels."""
        return self.blocks[0].n_labels

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return [block.n_rows for block in self.blocks]

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return sum(block.nnz for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        """Uncompressed size of all blocks, in bytes."""
        return sum(block.n_bytes for block in self.blocks)

    @property
    def energy(self) -> float:
        """Sum of squares of all entries."""
        return math.fsum(block.energy for block in self.blocks)

    @property
    def column_sums(self) -> Doubles:
        """Sum of each column, shape (n_columns,)."""
        return self._read_total("column_sums")

    @property
    def document_frequency(self) -> Int64s:
        """Number of rows in which each column is not zero, shape (n_columns,)."""
        return self._read_total("document_frequency")

    def _read_total(self, name: str) -> NDArray[Any]:
        # Without some blocks, the totals of the root do not apply: the totals of each block are added instead.
        path = f"{get_totals_path(self.generation)}/{name}"
        if self.left_out:
            return np.asarray(sum(read_array(self.location, f"{block.name}/{name}") for block in self.blocks))
        total = read_array(self.location, path)
        if compute_digest(total) != self.totals_digests[TOTALS.index(name)]:
            raise damage_error(self.location, path, "its content does not match its digest")
        return total

    @property
    def hashing(self) -> HashingSettings | None:
        """Settings of the hashing, equal to an ``NgramHashing`` with these parameters; None without hashing."""
        settings = self.provenance.get("hashing")
        return None if settings is None else hashing_from_record(settings)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """N-grams of the columns, read from the store on each access; None if there is no vocabulary."""
        return read_vocabulary(self.location, self._vocabulary_path) if self.provenance.get("vocabulary") else None

    @property
    def _vocabulary_path(self) -> str:
        return get_vocabulary_path(self.provenance.get(FIRST, 0))

    @property
    def column_identity(self) -> Columns | None:
        """Terms of the vocabulary, or the settings of hashing; None if both are unknown."""
        has_vocabulary = self.hashing is None and self.provenance.get("vocabulary")
        return vocabulary_columns(self.location, self._vocabulary_path) if has_vocabulary else super().column_identity

    @property
    def kept_terms(self) -> KeptTerms | None:
        """Frequent terms of hashed columns, read from the store on each access; None without ``keep_terms``."""
        if self.hashing is None or not self.provenance.get(KEEP_TERMS):
            return None
        sample = read_term_sample(self.location, get_totals_path(self.generation), self.provenance[KEEP_TERMS])
        return KeptTerms.from_sample(sample, self.hashing)

    def documents(self, rows: Iterable[int], kind: str) -> list[str] | None:
        """Return the ids or texts of some rows.

        Parameters
        ----------
        rows : iterable of int
            Row indices, from 0.
        kind : {"ids", "texts"}
            What to return.

        Returns
        -------
        list of str or None
            One string per row; None if the store has none.
        """
        is_stored = self.provenance.get({IDS: "id_field", TEXTS: "keep_texts"}[kind])
        return read_row_documents(self.location, self.blocks, rows, kind) if is_stored else None

    def check(self) -> None:
        """Verify the checksums and digests of totals, vocabulary and all blocks, one task per block.

        Raises
        ------
        StoreError
            If something is missing or damaged.
        """
        # Verify small data first, so that most damage is found quickly.
        for name in TOTALS:
            self._read_total(name)
        _ = self.vocabulary  # reading verifies it
        kinds = [kind for kind, key in ((IDS, "id_field"), (TEXTS, "keep_texts")) if key in self.provenance]
        run_tasks(partial(_verify_block, self.location, kinds), self.blocks, name="check-block")


def hashing_from_record(record: dict[str, Any]) -> HashingSettings:
    """Return the settings that ``record`` of them returned."""
    settings = {**record, "ngram_range": tuple(record["ngram_range"])}
    if "tokenizer" in settings:
        settings["tokenizer"] = tokenizer_from_record(settings["tokenizer"])
    return HashingSettings(**settings)


def open_store(
    url: str | PathLike[str],
    *,
    layer: str | None = None,
    align: object = None,
    without: Sequence[str] = (),
    tokenizer: TokenizerLike | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Any:
    """Open a finished store, or a sparse matrix of AnnData in Zarr or HDF5; only metadata is read.

    Parameters
    ----------
    url : str or path-like
        Local path or fsspec URL; a name that ends in .h5ad, .h5 or .hdf5 is an AnnData file in HDF5. A Zarr group of
        one matrix with ``data``, ``indices`` and ``indptr``, such as ``"cells.zarr/layers/counts"``, is opened as well.
    layer : str, optional
        Layer of the AnnData file, by default ``X``. ``"raw"`` is ``adata.raw.X`` unless a layer has this name.
    align : fitted estimator, Pipeline, or sequence of str, optional
        Column names, or a model with ``feature_names_in_``: only these columns are read, in this order.
    without : sequence of str, optional
        Names of blocks to skip, such as a damaged one that an error has named.
    tokenizer : callable or str, optional
        Tokenizer of the build, or its name ``"module:function"``; ``store.count`` needs it for new texts. A store
        records the name of its tokenizer, but opening it imports no module.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    CountStore, AnnDataCounts or AlignedCounts
        The counts. For AnnData, row pointers are read here, and column totals take one pass.

    Raises
    ------
    StoreError
        If there is no finished store of this format, or the AnnData file has no such CSR matrix.
    ValueError
        If the store was built with another tokenizer than ``tokenizer``, or lacks columns of ``align``.

    Examples
    --------
    >>> from dspectral import write_counts
    >>> _ = write_counts(np.eye(3), "memory://opened")
    >>> open_store("memory://opened").shape
    (3, 3)
    """
    if align is not None:
        opened = open_store(url, layer=layer, without=without, tokenizer=tokenizer, storage_options=storage_options)
        return align_columns(opened, align)
    # Usually one read of the root is enough; the later reads only select the error message.
    location = Location.from_url(url, storage_options)
    attributes = {} if is_hdf5(location) else location.read_attributes(zarr_format=None) or {}
    is_matrix = layer is None and attributes.get("encoding-type") in ("csr_matrix", "csc_matrix")
    if is_hdf5(location) or attributes.get("encoding-type") == "anndata" or is_matrix:
        exclude_blocks((), without, location.url)
        _check_tokenizer({}, tokenizer, location.url)
        return open_anndata(location, layer=layer, path=WHOLE_GROUP if is_matrix else None)
    store = open_finished(location)
    if store is not None and layer is not None:
        raise StoreError(f"layer={layer!r} must be None, because {url} is a store of dspectral and has no layers")
    if store is not None:
        _check_tokenizer(store.provenance, tokenizer, location.url)
        return replace(store, blocks=exclude_blocks(store.blocks, without, location.url), left_out=tuple(without))
    if CORPUS_KEY in attributes:
        raise StoreError(f"{url} is a corpus of sentences, not a store of counts: open it with open_corpus")
    if location.read_attributes("plans") is not None:
        raise StoreError(f"the store at {url} is not finished: repeat the call that builds it, which resumes the build")
    raise StoreError(f"no store at {url}: build one with build_store or write_counts")


def _check_tokenizer(provenance: dict[str, Any], tokenizer: TokenizerLike | None, url: str) -> None:
    """Register the caller's tokenizer; raise ValueError if the store was built with another one."""
    if tokenizer is not None:
        settings = provenance.get("hashing") or provenance.get("vocabulary") or {}
        stored_name = tokenizer_from_record(settings.get("tokenizer"))
        if (name := register_tokenizer(tokenizer, "tokenizer")) != stored_name:
            raise ValueError(f"tokenizer={name!r} must be {stored_name}, the tokenizer of {url}, or None")


def open_finished(location: Location) -> CountStore | None:
    """Open a finished store; return None if there is none."""
    head = read_root_metadata(location, KEY, "store")
    if head is None:
        return None
    blocks = tuple(BlockInfo(*block) for block in head["blocks"])
    sums = tuple(head["totals"])
    return CountStore(location, blocks, head["n_columns"], head["generation"], head["provenance"], sums)


def read_root_metadata(location: Location, key: str, kind: str) -> dict[str, Any] | None:
    """Read and verify the root metadata of a store or corpus; return None if it is not finished."""
    head: dict[str, Any] | None = (location.read_attributes() or {}).get(key)
    written = head.get("format") if isinstance(head, dict) else head
    if head is not None and (type(written) is not int or written != FORMAT):
        raise StoreError(
            f"{kind} {location.url} has format {written!r:.60}, but this version reads {FORMAT}; build the {kind} again"
        )
    if head is not None and not has_valid_content_hash(head):
        raise StoreError(f"the root of {kind} {location.url} does not match its content hash; build the {kind} again")
    return head and {**head, "provenance": wrap_tokenizer_names(head["provenance"])}


def get_totals_path(generation: int) -> str:
    """Return the path of the column totals of a generation."""
    return f"totals/{generation:04d}"


def exclude_blocks(blocks: Sequence[BlockInfo], without: Sequence[str], url: str) -> tuple[BlockInfo, ...]:
    """Return the blocks except those with the given names."""
    names = [block.name for block in blocks]
    remaining = tuple(block for block in blocks if block.name not in without)
    if without and (isinstance(without, str) or not set(without) <= set(names) or not remaining):
        available = f"from {names[0]!r} to {names[-1]!r}" if names else "which an AnnData file does not have"
        raise ValueError(
            f"without={without!r:.80} must be a list of some, but not all, names of the blocks of {url}, {available}"
        )
    return remaining


def _verify_block(location: Location, kinds: Sequence[str], block: BlockInfo) -> None:
    for kind in kinds:
        if read_documents(location, f"{block.name}/{kind}").n_documents != block.n_rows:
            reason = f"the number of {kind} must be {block.n_rows}, the number of rows"
            raise damage_error(location, block.name, reason)
    marker = find_block(location, block.name)
    if marker != block:
        fault = "is missing" if marker is None else "differs from the root"
        raise damage_error(location, block.name, f"its completion marker {fault}")
    read_block(location, block)
    if block.n_labels is not None:
        read_labels(location, block)
    # Readers of rows never read the totals of a block, so only `check()` detects damage to them.
    check_sums(location, block)
