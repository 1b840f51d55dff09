"""Text to a store: one pass when hashing, two for an exact vocabulary."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias
from uuid import uuid4

from dspectral.engine import run_tasks, tracked_fit
from dspectral.store.blocks import IDS, TEXTS, BlockInfo, find_block, write_block, write_documents
from dspectral.store.counts import CountStore, get_totals_path, open_finished
from dspectral.store.draft import StoreWriter, finish_store, open_writer
from dspectral.store.from_text.counting import count_vocabulary
from dspectral.store.from_text.lines import (
    BLOCK_BYTES,
    DEFAULT_SIZE_LIMIT,
    MAX_DOCUMENT_BYTES,
    DocumentSizeLimit,
    ReadOptions,
)
from dspectral.store.from_text.planned_text import Read, TextInput, build_blocks, open_text
from dspectral.store.from_text.readers import concatenate_documents, read_file_range, slice_documents
from dspectral.store.from_text.texts import TextSources, read_saved_ids
from dspectral.store.location import Location, StoreError, check_size
from dspectral.store.vocabulary import (
    KEEP_TERMS,
    VocabularySettings,
    get_term_index,
    read_term_sample,
    write_term_sample,
)
from dspectral.text.hashing import HashingSettings, HasSettings, as_settings, hash_documents
from dspectral.text.term_index import encode_documents
from dspectral.text.term_sample import TermSample, merge_samples
from dspectral.text.tokenizers import as_tokenizer, check_normalize
from dspectral.types import CSRRows, Documents

Settings: TypeAlias = HashingSettings | VocabularySettings


@tracked_fit
def build_store(  # noqa: PLR0913  what text may be like, by keywords
    sources: TextSources,
    store: str | PathLike[str],
    *,
    unit: str | None = None,
    field: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    hashing: HashingSettings | HasSettings | None = None,
    vocabulary: VocabularySettings | None = None,
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    long_documents: str = "error",
    missing: str | None = None,
    format: str | None = None,  # noqa: A002  as fsspec, Dask and Pandas call it
    append: bool = False,
    keep_terms: int | None = None,
    id_field: str | None = None,
    keep_texts: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> CountStore:
    r"""Count the n-grams of text files, or of texts in memory, into a store.

    Parameters
    ----------
    sources : str, path, sequence of these, or texts
        Paths, globs, folders or fsspec URLs of txt, jsonl, csv, tsv or Parquet files, also .gz, .zst or .bz2. Or texts:
        a generator, an array, a column of pandas, polars, Arrow or Hugging Face Datasets, a Dask Bag or a column of a
        Dask DataFrame (read partition by partition, a task each), a table or records with ``field`` (a lazy frame of
        polars, a data set or record batch reader of Arrow and a relation of DuckDB batch by batch), or
        ``Texts([...])``, since a list of strings names files.
    store : str or path-like
        Local path or fsspec URL of the store to make.
    unit : {"line", "file", "field"}, optional
        Unit of text that is a document: by default a line of a txt file, a field of a record elsewhere.
    field : str, optional
        Name of the field or column that holds the text; required for jsonl, csv, tsv and Parquet files, and tables.
    encoding : str, optional
        Encoding of the files, such as "latin-1" or "utf-16"; by default UTF-8, which Parquet files always hold.
    delimiter : str, optional
        Character between the fields of csv files; by default comma, semicolon, tab or bar, as the header has
        ``field``.
    hashing : NgramHashing or HashingSettings, optional
        Settings by which n-grams become columns; the default settings, unless there is a vocabulary.
    vocabulary : VocabularySettings, optional
        Settings of an exact vocabulary, counted in one pass more. It excludes ``hashing``.
    block_bytes : int, default=16777216
        Most bytes of text behind a block of rows (a longer document is a block of its own).
    errors : {"strict", "replace"}, default="strict"
        Whether bytes that cannot be decoded are an error, or become U+FFFD.
    max_document_bytes : int, default=16777216
        Most bytes of a document, decompressed; a record with all its fields may have twice as many, or 4 MiB.
    long_documents : {"error", "skip", "truncate"}, default="error"
        Treatment of a longer document: an error that names it, an empty document (so that row numbers stay line
        numbers), or its beginning. How many there were is in the provenance, and a warning says it. A record that is
        too long can be skipped, not truncated; in a csv file, where a quote may not be closed, it is an error.
    missing : {"error", "empty", "skip"}, optional
        Treatment of a text that is missing: null or NaN, in jsonl also a record without the field. An error that names
        it, an empty document (by default where ``errors`` is "replace"), or none. An empty cell of csv and tsv is an
        empty text, and missing where it is skipped. How many there were is in the provenance: ``n_missing_texts``,
        beside ``n_blank_lines``.
    format : {"txt", "jsonl", "csv", "tsv", "parquet"}, optional
        Format of the files, whatever their names end in. By default the ending says it (.ndjson is jsonl, .log and
        .text are txt), and where it is another, such as .json, or ``field`` is asked of a .txt file, the content.
    append : bool, default=False
        Whether to add the documents behind those of a finished store, which stays as it was until all are written.
    keep_terms : int, optional
        Number of n-grams to keep as names of hashed columns, those that occur most: ``store.kept_terms``.
    id_field : str, optional
        Name of the field or column that holds an id of each document, strings or whole numbers: ``store.ids``. Of files
        it is read in one pass more over the records; of texts in memory or of Dask, tables and records with ``field``
        have it.
    keep_texts : bool, default=False
        Whether the texts are kept in the store, compressed: ``store.text(rows)``.
    storage_options, source_options : dict, optional
        Options of the file systems of the store and of the sources.

    Returns
    -------
    CountStore
        The finished store; one row for each document.

    Raises
    ------
    ValueError
        If a source cannot be read, there is no document, no word, or an unfinished store of another plan in the way.
    FileNotFoundError
        If a source is missing, or a glob matches no file.
    StoreError
        If the store exists already, or ``append`` finds none.

    Notes
    -----
    One pass over the text when hashing; a task holds about five times ``block_bytes``. Empty lines are
    documents: row numbers are line numbers. A build that was stopped goes on where it was: call it again.

    Lines end in LF, CR LF or CR. Blank lines of jsonl, csv and tsv files are no records. Patterns name hidden files
    only where they spell the dot, as in a shell: ``FOLDER/*`` leaves ``.part.crc`` out, and reads Spark's ``_SUCCESS``,
    which is empty. Links are followed.

    Texts that are no files are read once, block by block, and kept compressed in the store's scratch until it is
    finished; a build that was stopped goes on with the same texts alone.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://docs.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> build_store("memory://docs.txt", "memory://docs.zarr").shape
    (2, 131072)
    """
    settings = _resolve_settings(hashing, vocabulary)
    hashed = isinstance(settings, HashingSettings)
    keep = _resolve_keep_terms(keep_terms, store, storage_options, hashed=hashed, append=append)
    size_limit = DocumentSizeLimit.checked(max_document_bytes, long_documents)
    kind = unit, field, encoding, delimiter
    read_options = ReadOptions(*kind, block_bytes, errors, source_options, size_limit, missing, format)
    text = open_text(sources, read_options, id_field=id_field)
    # The provenance is the plan: a call that finds it half done goes on only if all of it is the same.
    plan = _make_provenance(text, settings, keep)
    ids = None
    if id_field is not None:
        plan["id_field"] = id_field
        if text.texts is None:
            of_ids = read_options._replace(field=id_field, text_field=field)
            ids = open_text(sources, of_ids, ids=True)  # cut as the texts are
    plan |= {"keep_texts": True} if keep_texts else {}
    with open_writer(store, storage_options, plan, append=append, fingerprints=text.fingerprints) as writer:
        return _build(writer, text, settings, keep, ids)


def _build(
    writer: StoreWriter, text: TextInput, settings: Settings, keep: int | None, ids: TextInput | None
) -> CountStore:
    hashed = isinstance(settings, HashingSettings)
    ranges, read = text.opened(writer)
    writer, encode = _make_encoder(writer, ranges, read, settings)
    sample = None
    if keep and isinstance(settings, HashingSettings):
        sample = partial(TermSample.from_block, settings=settings, size=keep)
    texts, find = bool(writer.provenance.get("keep_texts")), partial(find_block, writer.where)
    write = partial(
        _write_document_block, encode=encode, writer=writer.without_history(), sample=sample, texts=texts
    )
    name = "hash-block" if hashed else "encode-block"
    blocks = build_blocks(ranges, writer, read, write, find, name=name)
    if not any(block.n_rows for block in blocks):
        raise ValueError(f"no document at all in {text.named}")
    if not writer.generation and not any(block.nnz for block in blocks):
        writer.restart().abort()
        n_documents = sum(block.n_rows for block in blocks)
        raise ValueError(f"no word at all in the {n_documents} document(s) of {text.named}")
    if ids is not None or text.id_field is not None:
        _write_ids(writer, blocks, ranges, ids)
    writer = text.check_unchanged(writer)
    if keep and isinstance(settings, HashingSettings):
        _write_kept_terms(writer, blocks, keep)
    return finish_store(writer, blocks)


def _resolve_settings(
    hashing: HashingSettings | HasSettings | None, vocabulary: VocabularySettings | None
) -> Settings:
    if vocabulary is not None and hashing is not None:
        raise ValueError("hashing and vocabulary are two ways to number columns: give one of them")
    if not isinstance(vocabulary, VocabularySettings | None):
        raise TypeError(f"vocabulary is {vocabulary!r:.60}, but it must be VocabularySettings(...) or None")
    settings = as_settings(hashing) if vocabulary is None else vocabulary
    check_normalize(settings.normalize)
    known = as_tokenizer(settings.tokenizer)
    return settings._replace(tokenizer=known and known.resolve())


def _make_provenance(text: TextInput, settings: Settings, keep: int | None) -> dict[str, Any]:
    """Return what a store records of its making."""
    hashed = isinstance(settings, HashingSettings)
    return {
        "sources": text.describe(),
        "block_bytes": text.read_options.block_bytes,
        "errors": text.read_options.errors,
        **text.read_options.record(),
        "hashing": settings.record() if hashed else None,
        "vocabulary": None if hashed else settings.record(),
        # Left out where no terms are kept, so that plans are equal to those of stores from before there were any.
        **({"keep_terms": keep} if keep else {}),
    }


def _make_encoder(
    writer: StoreWriter, ranges: Sequence[Any], read: Read, settings: Settings
) -> tuple[StoreWriter, Callable[[Documents], CSRRows]]:
    """Return the draft with its columns known, and the function that makes rows of documents."""
    if isinstance(settings, HashingSettings):
        return writer._replace(n_columns=settings.n_features), partial(hash_documents, settings=settings)
    if not writer.generation:  # rows that are appended have the columns of the first ones
        known = count_vocabulary(writer, ranges, read, settings)
        writer = writer._replace(n_columns=known.documents.n_documents)
    return writer, partial(_encode, where=writer.where, call=uuid4().hex, settings=settings)


def _encode(documents: Documents, *, where: Location, call: str, settings: VocabularySettings) -> CSRRows:
    index = get_term_index(where, call)
    rule = settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
    return encode_documents(documents, index, *rule)


def _write_document_block(
    name: str,
    documents: Documents,
    *,
    last: bool,
    encode: Callable[[Documents], CSRRows],
    writer: StoreWriter,
    sample: Callable[[Documents], TermSample] | None,
    texts: bool,
) -> BlockInfo:
    """Write a block of rows, and before its mark, which vouches for them, its texts and, to scratch, its terms."""
    if texts:
        write_documents(writer.where, f"{name}/{TEXTS}", documents)
    if sample is not None:
        write_term_sample(writer.where, _get_sample_path(writer, name), sample(documents))
    return write_block(writer.where, name, encode(documents), last=last)


def _resolve_keep_terms(
    keep_terms: int | None,
    store: str | PathLike[str],
    storage_options: dict[str, Any] | None,
    *,
    hashed: bool,
    append: bool,
) -> int | None:
    """Return how many terms a build keeps; one that appends keeps as many as the store does."""
    if keep_terms is not None:
        keep_terms = check_size(KEEP_TERMS, keep_terms)
        if not hashed:
            raise ValueError(
                f"keep_terms is {keep_terms}, but a vocabulary knows the terms of all columns: leave it out"
            )
    finished = open_finished(Location.from_url(store, storage_options)) if append and hashed else None
    if finished is None:
        return keep_terms
    kept = finished.provenance.get(KEEP_TERMS)
    if keep_terms not in (None, kept):
        raise StoreError(
            f"keep_terms to append with is {keep_terms}, but store {store} was built with {kept}"
        )
    return kept


def _write_ids(
    writer: StoreWriter, blocks: Sequence[BlockInfo], ranges: Sequence[Any], ids: TextInput | None
) -> None:
    """Write the ids of all blocks: of files in one pass over the records, of texts those that were kept with them."""
    sizes: dict[int, list[tuple[str, int]]] = {}
    for block in blocks:
        sizes.setdefault(int(block.name.split("-")[-2]), []).append((block.name, block.n_rows))
    read: Read = partial(read_saved_ids, where=writer.where)
    named = "the texts given"
    if ids is not None:
        read = partial(
            read_file_range,
            read_options=ids.read_options._replace(
                block_bytes=MAX_DOCUMENT_BYTES, size_limit=DEFAULT_SIZE_LIMIT
            ),
        )
        ranges, named = ids.ranges, ids.named
    runs = [sizes.get(number, []) for number in range(len(ranges))]
    work = partial(_write_range_ids, read=read, where=writer.where, named=named)
    run_tasks(work, list(zip(ranges, runs, strict=True)), name="write-ids")


def _write_range_ids(
    item: tuple[Any, list[tuple[str, int]]], *, read: Read, where: Location, named: str
) -> None:
    """Write the ids of one span of text into the blocks that it became."""
    file_range, blocks = item
    ids = concatenate_documents([Documents.from_strings([]), *read(file_range)])
    if ids.n_documents != sum(size for _, size in blocks):
        raise ValueError(
            f"{named} holds {ids.n_documents} ids for {sum(size for _, size in blocks)} documents"
        )
    first = 0
    for name, size in blocks:
        write_documents(where, f"{name}/{IDS}", slice_documents(ids, first, first + size))
        first += size


def _write_kept_terms(writer: StoreWriter, blocks: Sequence[BlockInfo], size: int) -> None:
    """Merge the terms of all blocks and write them beside the column sums."""
    where = writer.where
    earlier = [get_totals_path(writer.generation - 1)] if writer.earlier else []
    # The terms of earlier rows come first, as their rows do: what is dropped depends on the order of merging.
    paths = [*earlier, *(_get_sample_path(writer, block.name) for block in blocks if block.n_rows)]
    merged = merge_samples(read_term_sample(where, path, size) for path in paths)
    # Of a new generation: until the root names it, whoever has the store open reads the terms of the last one.
    write_term_sample(where, get_totals_path(writer.generation), merged)


def _get_sample_path(writer: StoreWriter, name: str) -> str:
    return f"{writer.scratch}/kept-terms/{name}"
