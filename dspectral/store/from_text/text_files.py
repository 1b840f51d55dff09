"""Text files as lazily hashed documents."""

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple

import dask.array as da
from scipy import sparse

from dspectral.engine import run_tasks
from dspectral.parameters import check_size
from dspectral.paths import expand_path
from dspectral.store.arrays import compute_digest
from dspectral.store.columns import columns_from_hashing, set_columns
from dspectral.store.from_text.lines import (
    BLOCK_BYTES,
    MAX_DOCUMENT_BYTES,
    FileRange,
    ReadCounts,
    ReadOptions,
    warn_long_documents,
)
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import split_files
from dspectral.store.location import redact_urls
from dspectral.store.rows import dask_array_from_blocks
from dspectral.text.hashing import HashingSettings, HasSettings, as_settings, hash_documents
from dspectral.text.term_sample import KeptTerms, TermSample, merge_samples


class TextBlock(NamedTuple):
    """A block of documents: its byte range, its index in the range, its size and the digest of its text."""

    file_range: FileRange
    number: int
    n_documents: int
    digest: int


class TextFiles:
    r"""Text files as input of a transformer that reads them block by block.

    :class:`dspectral.NgramHashing` accepts it in place of a list of texts and returns a lazy Dask array of hashed rows.

    Parameters
    ----------
    sources : str, path, or sequence of these
        Paths, globs, folders or fsspec URLs of txt, jsonl, csv, tsv or Parquet files, also .gz, .zst, .bz2 or .zip.
    unit : {"line", "file", "field", "record"}, default=None
        What a document is; None means a line of a txt file and a field of a record in other formats.
    field : str, default=None
        Field or column with the text; required for records.
    encoding, delimiter : str, default=None
        Encoding of the files, and field delimiter of csv files, as for :func:`dspectral.build_store`.
    block_bytes, errors, max_document_bytes, long_documents, missing, format : int or str, optional
        Size of blocks, and treatment of unreadable text, as for :func:`dspectral.build_store`; ``n_long_documents``
        counts long documents.
    storage_options : dict, default=None
        Options of the files' file system.

    Notes
    -----
    The first use counts the documents of each block in one pass. Each later pass reads and hashes the text again, a
    compressed file from its start for each block. :func:`dspectral.build_store` stores the hashed rows instead; fits
    on both are bit-identical. A task holds about five times ``block_bytes``.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two-lines.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> TextFiles("memory://two-lines.txt").n_documents
    2
    """

    def __init__(
        self,
        sources: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        unit: str | None = None,
        field: str | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        block_bytes: int = BLOCK_BYTES,
        errors: str = "strict",
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
        long_documents: str = "error",
        missing: str | None = None,
        format: str | None = None,  # noqa: A002  as fsspec, Dask and Pandas call it
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        every = [sources] if isinstance(sources, str | PathLike) else sources
        self.sources = [expand_path(source) for source in every]
        kind, limit = (unit, field, encoding, delimiter), (max_document_bytes, long_documents)
        read_options = ReadOptions(*kind, block_bytes, errors, storage_options, *limit, missing, format)
        self.read_options = read_options.validate()

    def __repr__(self) -> str:
        return f"TextFiles({', '.join(map(repr, redact_urls(self.sources)))})"

    @cached_property
    def blocks(self) -> tuple[TextBlock, ...]:
        """Blocks of documents in the order of the files, counted in one pass on first access."""
        ranges = split_files(self.sources, self.read_options)
        read_options = self.read_options

        def count(file_range: FileRange) -> tuple[list[tuple[int, int]], ReadCounts]:
            """Return size and text digest of each block of a byte range, and the counts of long documents."""
            counts = ReadCounts()
            # Later reads compare the digest to detect a changed file.
            blocks = read_file_range(file_range, read_options._replace(counts=counts))
            return [(documents.n_documents, compute_digest(*documents)) for documents in blocks], counts

        block_counts = run_tasks(count, ranges, name="count-documents")
        counts = ReadCounts.merge(counts.record() for _, counts in block_counts)
        self._n_long = counts.n_long
        if self._n_long:
            warn_long_documents(self.read_options.size_limit, counts, stacklevel=3)
        return tuple(
            TextBlock(file_range, number, *block)
            for file_range, (n_documents, _) in zip(ranges, block_counts, strict=True)
            for number, block in enumerate(n_documents)
        )

    @property
    def n_documents(self) -> int:
        """Number of documents in all files."""
        return sum(block.n_documents for block in self.blocks)

    @property
    def n_long_documents(self) -> int:
        """Number of documents that were skipped or truncated because they are too long."""
        return self._n_long if self.blocks else 0

    def hash_ngrams(self, hashing: HashingSettings | HasSettings | None = None) -> da.Array:
        """Return a lazy array of the hashed n-grams of the documents.

        Parameters
        ----------
        hashing : NgramHashing or HashingSettings, default=None
            Settings of the hashing; None means the default settings.

        Returns
        -------
        Dask array of CSR blocks of float32, shape (n_documents, n_features)
            The lazy rows.
        """
        settings = as_settings(hashing)
        if not self.blocks:
            raise ValueError(f"{', '.join(self.sources)} has 0 documents, but needs at least one")
        read = partial(_hash_block, read_options=self.read_options, hashing=settings)
        sizes = [block.n_documents for block in self.blocks]
        rows = dask_array_from_blocks(read, self.blocks, sizes, settings.n_features)
        return set_columns(rows, columns_from_hashing(settings))

    def kept_terms(self, hashing: HashingSettings | HasSettings | None = None, *, n_terms: int = 100_000) -> KeptTerms:
        """Return the most frequent n-grams with their columns, in one pass over the text.

        Parameters
        ----------
        hashing : NgramHashing or HashingSettings, default=None
            Settings of the hashing; None means the default settings.
        n_terms : int, default=100_000
            Number of n-grams to return.

        Returns
        -------
        KeptTerms
            Names of the columns.
        """
        settings, size = as_settings(hashing), check_size("n_terms", n_terms)
        # A byte range with several blocks is read once.
        ranges = list(dict.fromkeys(block.file_range for block in self.blocks))
        read_options = self.read_options

        def sample(file_range: FileRange) -> list[TermSample]:
            blocks = read_file_range(file_range, read_options)
            return [TermSample.from_block(documents, settings, size) for documents in blocks]

        range_samples = run_tasks(sample, ranges, name="sample-terms")
        return KeptTerms.from_sample(merge_samples(part for parts in range_samples for part in parts), settings)


def _hash_block(block: TextBlock, *, read_options: ReadOptions, hashing: HashingSettings) -> sparse.csr_array:
    """Read a byte range up to one block and hash this block."""
    # Text has no index, so earlier blocks of the range are read again. A compressed file is one range.
    documents = next(islice(read_file_range(block.file_range, read_options), block.number, None), None)
    if documents is None or compute_digest(*documents) != block.digest:
        raise ValueError(
            f"{block.file_range.url} has changed since its documents were counted: create TextFiles(...) again"
        )
    return hash_documents(documents, hashing)
