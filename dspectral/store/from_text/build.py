"""Build a store from text: one pass with hashing, two passes with an exact vocabulary."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias, cast
from uuid import uuid4

from dspectral.engine import run_tasks, tracked_fit
from dspectral.parameters import check_size
from dspectral.store.blocks import IDS, TEXTS, BlockInfo, find_block, write_block, write_documents
from dspectral.store.counts import CountStore, get_totals_path, open_finished
from dspectral.store.from_text.counting import count_vocabulary
from dspectral.store.from_text.lines import (
    BLOCK_BYTES,
    MAX_DOCUMENT_BYTES,
    ReadOptions,
)
from dspectral.store.from_text.readers import concatenate_documents, read_file_range, slice_documents
from dspectral.store.from_text.text_input import Read, TextInput, TextSources, build_blocks, open_text
from dspectral.store.from_text.texts import read_saved_texts
from dspectral.store.location import Location, StoreError
from dspectral.store.vocabulary import (
    KEEP_TERMS,
    VocabularySettings,
    get_term_index,
    read_term_sample,
    write_term_sample,
)
from dspectral.store.writer import StoreWriter, finish_store, open_writer
from dspectral.text.hashing import HashingSettings, HasSettings, as_settings, hash_documents
from dspectral.text.term_index import encode_documents
from dspectral.text.term_sample import TermSample, merge_samples
from dspectral.text.tokenizers import as_tokenizer, check_normalize
from dspectral.types import CSRRows, Documents

Settings: TypeAlias = HashingSettings | VocabularySettings


@tracked_fit
def build_store(  # noqa: PLR0913  keyword-only options of the text
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
    overwrite: bool = False,
    keep_terms: int | None = None,
    id_field: str | None = None,
    keep_texts: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> CountStore:
    r"""Count the n-grams of text files, or of texts in memory, and write them as a store.

    Parameters
    ----------
    sources : str, path, sequence of these, or texts
        Paths, globs, folders or fsspec URLs of txt, jsonl, csv, tsv or Parquet files, also .gz, .zst, .bz2 or .zip of
        one file; the first bytes of local files decide, not their names. Or texts: a generator, an array, a column of
        pandas, polars, Arrow or Hugging Face Datasets, a Dask Bag or a column of a Dask DataFrame (one task per
        partition), a table or records with ``field`` (lazy frames of polars, data sets and record batch readers of
        Arrow and relations of DuckDB are read in batches), or ``Texts([...])``, because a list of strings names files.
    store : str or path-like
        Local path or fsspec URL of the new store.
    unit : {"line", "file", "field", "record"}, optional
        What a document is: by default a line of a txt file, or a field of a record in other formats. "record" is a
        line of a log that begins with a date or time, and the lines after it that do not, such as a stack trace.
    field : str, optional
        Field or column with the text; required for jsonl, csv, tsv and Parquet files, and for tables.
    encoding : str, optional
        Encoding of the files, such as "latin-1" or "utf-16"; by default UTF-8. Parquet files are always UTF-8.
    delimiter : str, optional
        Field delimiter of csv files; by default comma, semicolon, tab or bar, whichever gives ``field`` in the header.
    hashing : NgramHashing or HashingSettings, optional
        Settings of the hashing; by default the default settings, unless ``vocabulary`` is given.
    vocabulary : VocabularySettings, optional
        Settings of an exact vocabulary, which takes one more pass. It excludes ``hashing``.
    block_bytes : int, default=16777216
        Largest number of bytes of text in a block of rows; a longer document is a block of its own.
    errors : {"strict", "replace"}, default="strict"
        Whether undecodable bytes raise an error, or become U+FFFD.
    max_document_bytes : int, default=16777216
        Maximum bytes of a document after decompression. A whole record may have twice as many, or 4 MiB.
    long_documents : {"error", "skip", "truncate"}, default="error"
        Treatment of longer documents: an error, an empty document, or a prefix. A warning and the provenance contain
        their number. Whole records can be skipped but not truncated; a longer record of a csv file always raises an
        error.
    missing : {"error", "empty", "skip"}, optional
        Treatment of missing texts (null, NaN, or a jsonl record without the field): an error, an empty document (the
        default with ``errors="replace"``), or no document. An empty cell of csv and tsv is an empty text; with "skip"
        it is missing. The provenance records their number as ``n_missing_texts``, and ``n_blank_lines``.
    format : {"txt", "jsonl", "csv", "tsv", "parquet"}, optional
        Format of the files. By default the name's ending decides (.ndjson is jsonl, .log and .text are txt); for other
        endings, and for .txt files with ``field``, the content does.
    append : bool, default=False
        Whether to add the documents to a finished store, which stays unchanged until all of them are written. Then
        ``hashing`` or ``vocabulary``, ``keep_terms``, ``id_field`` and ``keep_texts`` are by default those of the
        store. A vocabulary keeps its columns: other words of the new documents are not counted.
    overwrite : bool, default=False
        Whether to replace a finished store, which stays unchanged until the new one is complete.
    keep_terms : int, optional
        Number of most frequent n-grams to store as names of hashed columns, ``store.kept_terms``.
    id_field : str, optional
        Field or column with an id of each document, a string or an integer: ``store.ids``. Files are read once more
        for it. Texts in memory need a table or records with ``field``.
    keep_texts : bool, default=False
        Whether to store the compressed texts: ``store.text(rows)``.
    storage_options, source_options : dict, optional
        Options of the file systems of the store and of the sources.

    Returns
    -------
    CountStore
        The finished store; one row for each document.

    Raises
    ------
    ValueError
        If a source cannot be read, or there is no document or no word.
    FileNotFoundError
        If a source is missing, or a glob matches no file.
    StoreError
        If there is a finished store of other text or arguments, or ``append`` finds none.

    Notes
    -----
    One pass over the text with hashing; a task holds about five times ``block_bytes``. Empty lines are documents, so
    row numbers are line numbers. Repeating an interrupted call resumes the build, a call with other arguments starts
    again. A finished store of the same text and arguments is opened, with a warning.

    Lines end in LF, CR LF or CR. Blank lines of jsonl, csv and tsv files are skipped. As in a shell, patterns match
    hidden files only if they contain the dot. Links are followed.

    Texts in memory are read once and stored compressed until the store is finished; an interrupted build resumes only
    with the same texts.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://docs.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> build_store("memory://docs.txt", "memory://docs.zarr").shape
    (2, 131072)
    """
    finished = open_finished(Location.from_url(store, storage_options)) if append else None
    stored = finished.provenance if finished else {}
    if finished and hashing is None and vocabulary is None:
        hashing = finished.hashing
        vocabulary = VocabularySettings.from_record(stored["vocabulary"]) if stored.get("vocabulary") else None
    settings = _resolve_settings(hashing, vocabulary)
    keep = _resolve_keep_terms(keep_terms, finished, hashed=isinstance(settings, HashingSettings))
    id_field, keep_texts = id_field or stored.get("id_field"), keep_texts or stored.get("keep_texts", False)
    kind, limit = (unit, field, encoding, delimiter), (max_document_bytes, long_documents)
    read_options = ReadOptions(*kind, block_bytes, errors, source_options, *limit, missing, format)
    text = open_text(sources, read_options, id_field=id_field)
    # The provenance is also the manifest: a call resumes an interrupted build only if all of it is equal.
    provenance = _make_provenance(text, settings, keep)
    ids = None
    if id_field is not None:
        provenance["id_field"] = id_field
        if text.texts is None:
            id_options = read_options._replace(field=id_field, text_field=field)
            ids = open_text(sources, id_options, is_ids=True)  # split into the same byte ranges as the texts
    provenance |= {"keep_texts": True} if keep_texts else {}
    modes = {"append": append, "overwrite": overwrite}
    with open_writer(store, storage_options, provenance, content=text.content, **modes) as writer:
        return _build(writer, text, settings, keep, ids)


def _build(
    writer: StoreWriter, text: TextInput, settings: Settings, keep_terms: int | None, ids: TextInput | None
) -> CountStore:
    hashed = isinstance(settings, HashingSettings)
    writer, ranges, read = text.open_parts(writer)
    if writer.finished is not None:
        return cast(CountStore, writer.finished)
    writer, encode = _make_encoder(writer, ranges, read, settings)
    sample = None
    if keep_terms and isinstance(settings, HashingSettings):
        sample = partial(TermSample.from_block, settings=settings, size=keep_terms)
    keeps_texts, target = bool(writer.provenance.get("keep_texts")), writer.drop_history()

    def write(name: str, documents: Documents, *, is_last: bool) -> BlockInfo:
        """Write a block of rows; its texts and its term sample are written before the completion marker."""
        if keeps_texts:
            write_documents(target.location, f"{name}/{TEXTS}", documents)
        if sample is not None:
            write_term_sample(target.location, _get_sample_path(target, name), sample(documents))
        return write_block(target.location, name, encode(documents), last=is_last)

    find, name = partial(find_block, writer.location), "hash-block" if hashed else "encode-block"
    blocks = build_blocks(ranges, writer, read, write, find, name=name)
    if not any(block.n_rows for block in blocks):
        raise ValueError(f"{text.source_names} has 0 documents, but a store needs at least one")
    if not writer.existing_blocks and not any(block.nnz for block in blocks):
        n_documents = sum(block.n_rows for block in blocks)
        raise ValueError(
            f"the {n_documents} document(s) of {text.source_names} have 0 words: check the sources and the tokenizer"
        )
    if ids is not None or text.id_field is not None:
        _write_ids(writer, blocks, ranges, ids)
    writer = text.check_unchanged(writer)
    if keep_terms and isinstance(settings, HashingSettings):
        _write_kept_terms(writer, blocks, keep_terms)
    return finish_store(writer, blocks)


def _resolve_settings(hashing: HashingSettings | HasSettings | None, vocabulary: VocabularySettings | None) -> Settings:
    if vocabulary is not None and hashing is not None:
        raise ValueError("hashing and vocabulary exclude each other: pass one of them")
    if not isinstance(vocabulary, VocabularySettings | None):
        raise TypeError(f"vocabulary={vocabulary!r:.60} must be VocabularySettings(...) or None")
    settings = as_settings(hashing) if vocabulary is None else vocabulary
    check_normalize(settings.normalize)
    resolved_tokenizer = as_tokenizer(settings.tokenizer)
    return settings._replace(tokenizer=resolved_tokenizer and resolved_tokenizer.resolve())


def _make_provenance(text: TextInput, settings: Settings, keep_terms: int | None) -> dict[str, Any]:
    """Return the provenance of a store: sources and settings."""
    hashed = isinstance(settings, HashingSettings)
    return {
        "sources": text.describe(),
        "block_bytes": text.read_options.block_bytes,
        "errors": text.read_options.errors,
        **text.read_options.record(),
        "hashing": settings.record() if hashed else None,
        "vocabulary": None if hashed else settings.record(),
        **({"keep_terms": keep_terms} if keep_terms else {}),
    }


def _make_encoder(
    writer: StoreWriter, ranges: Sequence[Any], read: Read, settings: Settings
) -> tuple[StoreWriter, Callable[[Documents], CSRRows]]:
    """Return the writer with its number of columns, and the function from documents to rows."""
    if isinstance(settings, HashingSettings):
        return writer._replace(n_columns=settings.n_features), partial(hash_documents, settings=settings)
    if not writer.existing_blocks:  # an append uses the existing columns
        vocabulary = count_vocabulary(writer, ranges, read, settings)
        writer = writer._replace(n_columns=vocabulary.documents.n_documents)
    return writer, partial(
        _encode, location=writer.location, path=writer.vocabulary, call=uuid4().hex, settings=settings
    )


def _encode(documents: Documents, *, location: Location, path: str, call: str, settings: VocabularySettings) -> CSRRows:
    index = get_term_index(location, path, call)
    rule = settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
    return encode_documents(documents, index, *rule)


def _resolve_keep_terms(keep_terms: int | None, finished: CountStore | None, *, hashed: bool) -> int | None:
    """Return the number of terms to keep; an append uses the number of the store."""
    if keep_terms is not None:
        keep_terms = check_size(KEEP_TERMS, keep_terms)
        if not hashed:
            raise ValueError(
                f"keep_terms={keep_terms} must be None with a vocabulary, which stores the terms of all columns"
            )
    if finished is None or not hashed:
        return keep_terms
    stored = finished.provenance.get(KEEP_TERMS)
    if keep_terms not in (None, stored):
        raise StoreError(
            f"keep_terms={keep_terms} must be {stored}, the setting of store {finished.location.url}, or None"
        )
    return stored


def _write_ids(writer: StoreWriter, blocks: Sequence[BlockInfo], ranges: Sequence[Any], ids: TextInput | None) -> None:
    """Write the ids of all blocks: from one pass over files, or from saved texts."""
    sizes: dict[int, list[tuple[str, int]]] = {}
    for block in blocks:
        sizes.setdefault(int(block.name.split("-")[-2]), []).append((block.name, block.n_rows))
    read: Read = partial(read_saved_texts, location=writer.location, part=f"/{IDS}")
    source_name = "the texts given"
    if ids is not None:
        read_options = ids.read_options._replace(
            block_bytes=MAX_DOCUMENT_BYTES, max_document_bytes=MAX_DOCUMENT_BYTES, long_documents="error"
        )
        read = partial(read_file_range, read_options=read_options)
        ranges, source_name = ids.ranges, ids.source_names
    runs = [sizes.get(number, []) for number in range(len(ranges))]
    location = writer.location

    def write(item: tuple[Any, list[tuple[str, int]]]) -> None:
        """Write the ids of one byte range into its blocks."""
        file_range, blocks = item
        ids, n_rows = concatenate_documents([Documents.from_strings([]), *read(file_range)]), sum(n for _, n in blocks)
        if ids.n_documents != n_rows:
            raise ValueError(f"{source_name} has {ids.n_documents} ids, but must have {n_rows}, one per document")
        first = 0
        for name, size in blocks:
            write_documents(location, f"{name}/{IDS}", slice_documents(ids, first, first + size))
            first += size

    run_tasks(write, list(zip(ranges, runs, strict=True)), name="write-ids")


def _write_kept_terms(writer: StoreWriter, blocks: Sequence[BlockInfo], size: int) -> None:
    """Merge the term samples of all blocks and write them beside the column totals."""
    location = writer.location
    existing_paths = [get_totals_path(writer.generation - 1)] if writer.existing_blocks else []
    # Samples are merged in the order of the rows, because dropped terms depend on the order.
    paths = [*existing_paths, *(_get_sample_path(writer, block.name) for block in blocks if block.n_rows)]
    merged = merge_samples(read_term_sample(location, path, size) for path in paths)
    # Readers use the sample of the previous generation until the root is written.
    write_term_sample(location, get_totals_path(writer.generation), merged)


def _get_sample_path(writer: StoreWriter, name: str) -> str:
    return f"{writer.scratch}/kept-terms/{name}"
