"""A finished store of sparse counts, opened lazily."""

from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from scipy import sparse

from dspectral.graph import map_rows, run_tasks
from dspectral.kernels.hashing import NgramHashing
from dspectral.store.blocks import BlockInfo, Location, StoreError, finished, read_array, read_block
from dspectral.store.vocabulary import Vocabulary, read_vocabulary
from dspectral.weighting import Weighting

FORMAT = 1


class CountStore(NamedTuple):
    """Sparse counts in Zarr, cut into row blocks; only metadata is in memory.

    Attributes
    ----------
    where : Location
    blocks : tuple of BlockInfo
        In the order of the rows; blocks without rows are left out.
    n_columns : int
    generation : int
        How often rows were appended.
    provenance : dict
        Where the counts come from: sources, settings, versions.

    Examples
    --------
    >>> from dspectral.store.matrix import write_counts
    >>> store = write_counts(sparse.csr_array(np.eye(4, dtype=np.float32)), "memory://eye", block_rows=2)
    >>> store.shape, store.nnz, store.counts.chunks
    ((4, 4), 4, ((2, 2), (4,)))
    """

    where: Location
    blocks: tuple[BlockInfo, ...]
    n_columns: int
    generation: int
    provenance: dict[str, Any]

    @property
    def counts(self) -> da.Array:
        """The rows as a Dask array: CSR blocks of known sizes, one task a block, nothing read yet."""
        return da.map_blocks(
            partial(_load, where=self.where, blocks=self.blocks),
            chunks=(tuple(block.n_rows for block in self.blocks), (self.n_columns,)),
            dtype=np.float32,
            meta=sparse.csr_array((0, 0), dtype=np.float32),
            name=f"read-block-{uuid4().hex}",
        )

    def weighted(self, weighting: Weighting) -> da.Array:
        """Return the rows weighted as they are read, as a Dask array of CSR blocks."""
        width = self.n_columns if weighting.columns is None else len(weighting.columns)
        return map_rows(  # type: ignore[no-any-return]
            self, weighting.apply, n_columns=width, dtype=np.float32, sparse_output=True, name="weigh"
        )

    def tfidf(self) -> da.Array:
        """Return tf-idf rows of unit length, from the frequencies that the store holds: no further pass."""
        return self.weighted(Weighting.tfidf(self.document_frequency, self.n_rows))

    @property
    def n_rows(self) -> int:
        """Rows in all blocks."""
        return sum(block.n_rows for block in self.blocks)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, self.n_columns

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the counts."""
        return np.dtype(np.float32)

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return sum(block.nnz for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        """Bytes of all blocks in memory, not compressed."""
        return sum(block.n_bytes for block in self.blocks)

    @property
    def energy(self) -> float:
        """Sum of squares of all entries."""
        return float(np.sum([block.energy for block in self.blocks]))

    @property
    def column_sums(self) -> NDArray[np.float64]:
        """Sum of each column, shape (n_columns,)."""
        return read_array(self.where, self.where.open(), f"totals/{self.generation:04d}", "column_sums")

    @property
    def document_frequency(self) -> NDArray[np.int64]:
        """Rows in which each column is not zero, shape (n_columns,)."""
        return read_array(self.where, self.where.open(), f"totals/{self.generation:04d}", "document_frequency")

    @property
    def hashing(self) -> NgramHashing | None:
        """How n-grams became columns, if they were hashed."""
        settings = self.provenance.get("hashing")
        return settings and NgramHashing(**{**settings, "ngram_range": tuple(settings["ngram_range"])})

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words behind the columns, if there is a vocabulary."""
        return read_vocabulary(self.where) if self.provenance.get("vocabulary") else None

    def check(self) -> None:
        """Read every block and verify its checksums, one task each.

        Raises
        ------
        StoreError
            For the first block that is missing or damaged.
        """
        run_tasks(partial(_verify, self.where), list(self.blocks), name="check-block")


def open_store(url: str, *, storage_options: dict[str, Any] | None = None) -> CountStore:
    """Open a finished store: its metadata alone is read.

    Parameters
    ----------
    url : str
        Local path or any fsspec URL.
    storage_options : dict, optional

    Returns
    -------
    CountStore

    Raises
    ------
    StoreError
        If there is no finished store of this format, or a block's finished mark is missing.
    """
    where = Location(str(url), tuple(sorted((storage_options or {}).items())))
    head = read_head(where)
    if head is None:
        raise StoreError(f"no finished store at {url}: build it (again) with the same call, finished blocks are kept")
    blocks = tuple(BlockInfo(*block) for block in head["blocks"])
    return CountStore(where, blocks, head["n_columns"], head["generation"], head["provenance"])


def read_head(where: Location) -> dict[str, Any] | None:
    """Return the root metadata of a finished store, or None."""
    try:
        attributes = zarr.open_group(where.open(), mode="r", zarr_format=3).attrs.asdict()
    except (FileNotFoundError, zarr.errors.GroupNotFoundError):
        return None
    head: dict[str, Any] | None = attributes.get("dspectral")
    if head is not None and head["format"] != FORMAT:
        raise StoreError(f"store {where.url} has format {head['format']}, but this version reads {FORMAT}")
    return head


def _load(block_id: tuple[int, int], *, where: Location, blocks: tuple[BlockInfo, ...]) -> sparse.csr_array:
    return read_block(where, blocks[block_id[0]])


def _verify(where: Location, block: BlockInfo) -> None:
    if finished(where, block.name) is None:
        raise StoreError(f"store {where.url}, block {block.name}: its finished mark is missing; build it again")
    read_block(where, block)
    for part in ("column_sums", "document_frequency"):
        read_array(where, where.open(), block.name, part)
