"""Text to a store: one pass when hashing, two for an exact vocabulary."""

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import uuid4

from scipy import sparse

from dspectral.engine import run_tasks
from dspectral.store.blocks import BlockInfo, Location, finished, write_block
from dspectral.store.counting import count_vocabulary
from dspectral.store.counts import CountStore
from dspectral.store.draft import Draft, begin, finish
from dspectral.store.readers import read_span
from dspectral.store.sources import Span, plan_spans
from dspectral.store.vocabulary import VocabularySettings, read_vocabulary
from dspectral.text.hashing import HashingSettings, HasSettings, as_settings, hash_documents
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.types import Documents

BLOCK_BYTES = 16 << 20
"""Bytes of text behind a block."""
Settings: TypeAlias = HashingSettings | VocabularySettings
B = TypeVar("B", bound="Marked")
_INDEX_LOCK = Lock()
_INDEXES: dict[str, TermIndex] = {}
"""Of the last call alone: in each process the vocabulary is read once, as it would travel with every task."""


class Marked(Protocol):
    """What the finished mark of a block says."""

    @property
    def last(self) -> bool:
        """Whether it is the last block of its span of text."""
        ...


def build_store(
    sources: str | Sequence[str],
    store: str,
    *,
    unit: str | None = None,
    field: str | None = None,
    hashing: HashingSettings | HasSettings | None = None,
    vocabulary: VocabularySettings | None = None,
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    append: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> CountStore:
    r"""Count the n-grams of text files into a store.

    Parameters
    ----------
    sources : str or sequence of str
        Paths, globs or fsspec URLs of txt, jsonl, csv, tsv or Parquet files, also .gz, .zst or .bz2.
    store : str
        Local path or fsspec URL of the store to make.
    unit : {"line", "file", "field"}, optional
        What a document is: by default a line of a txt file, a field of a record elsewhere.
    field : str, optional
        The record's field that holds the text.
    hashing : NgramHashing or HashingSettings, optional
        How n-grams become columns; the default settings, unless there is a vocabulary.
    vocabulary : VocabularySettings, optional
        Count an exact vocabulary instead: two passes over the text.
    block_bytes : int
        Bytes of text behind a block of rows, at most (a longer document is a block of its own).
    errors : {"strict", "replace"}
        What to do with bytes that are not UTF-8.
    append : bool
        Whether to add the documents behind those of a finished store, with its settings. Until all are
        written, and for whoever has it open, the store stays as it was.
    storage_options, source_options : dict, optional
        Of the store's and the sources' file systems.

    Returns
    -------
    CountStore

    Raises
    ------
    ValueError
        If a source cannot be read (the file and place are named), there is no document at all, or an
        unfinished store of another plan is in the way.
    StoreError
        If the store exists already, or ``append`` finds none.

    Notes
    -----
    One pass over the text when hashing; a task holds about five times ``block_bytes``. Empty lines are
    documents: row numbers are line numbers. A build that was stopped goes on where it was: call it again.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://docs.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> build_store("memory://docs.txt", "memory://docs.zarr").shape
    (2, 262144)
    """
    settings = _settings(hashing, vocabulary)
    hashed = isinstance(settings, HashingSettings)
    spans = plan_spans(
        sources, unit=unit, field=field, span_bytes=block_bytes, storage_options=source_options
    )
    provenance = {
        "sources": [span.describe() for span in spans],
        "block_bytes": block_bytes,
        "errors": errors,
        "hashing": settings._asdict() if hashed else None,
        "vocabulary": None if hashed else settings._asdict(),
    }
    draft = begin(store, storage_options, provenance, append=append)
    read = partial(read_span, block_bytes=block_bytes, errors=errors, storage_options=source_options)
    draft, encode = _encoder(draft, spans, read, settings)
    write, find = partial(_write_rows, encode=encode, where=draft.where), partial(finished, draft.where)
    work = partial(build_span, draft=draft.for_tasks(), read=read, write=write, find=find)
    done = run_tasks(work, list(enumerate(spans)), name="hash-block" if hashed else "encode-block")
    blocks = [block for of_span in done for block in of_span]
    if not any(block.n_rows for block in blocks):
        raise ValueError(f"no document at all in {sources}")
    return finish(draft, blocks)


def _settings(
    hashing: HashingSettings | HasSettings | None, vocabulary: VocabularySettings | None
) -> Settings:
    if vocabulary is None:
        return as_settings(hashing)
    if hashing is not None:
        raise ValueError("hashing and vocabulary are two ways to number columns: give one of them")
    return vocabulary


def _encoder(
    draft: Draft, spans: list[Span], read: Callable[[Span], Any], settings: Settings
) -> tuple[Draft, Callable[[Documents], sparse.csr_array]]:
    """Return the draft with its columns known, and how documents become rows."""
    if isinstance(settings, HashingSettings):
        return draft._replace(n_columns=settings.n_features), partial(hash_documents, settings=settings)
    if not draft.generation:
        known = count_vocabulary(draft, spans, read, settings)
        draft = draft._replace(n_columns=known.documents.n_documents)
    return draft, partial(_encode, where=draft.where, call=uuid4().hex, settings=settings)


def _encode(
    documents: Documents, *, where: Location, call: str, settings: VocabularySettings
) -> sparse.csr_array:
    with _INDEX_LOCK:  # the other threads wait for the first one's
        if call not in _INDEXES:
            _INDEXES.clear()
            _INDEXES[call] = read_vocabulary(where).term_index()
        index = _INDEXES[call]
    return encode_documents(documents, index, settings.ngram_range, settings.lowercase)


def _write_rows(
    name: str,
    documents: Documents,
    *,
    last: bool,
    encode: Callable[[Documents], sparse.csr_array],
    where: Location,
) -> BlockInfo:
    return write_block(where, name, encode(documents), last=last)


def build_span(
    item: tuple[int, Any],
    *,
    draft: Draft,
    read: Callable[[Any], Any],
    write: Callable[..., B],
    find: Callable[[str], B | None],
) -> list[B]:
    """Write the blocks of one span of text, but for those that are finished.

    Parameters
    ----------
    item : tuple
        Number of the span, and the span.
    draft : Draft
    read : callable
        From a span to what becomes a block each.
    write : callable
        ``write(name, what, last=...)`` writes a block and returns what its mark says.
    find : callable
        ``find(name)`` returns what the mark of a block says, or None if it is not finished.

    Returns
    -------
    list
        What the marks of all its blocks say.
    """
    number, span = item
    done = _finished_parts(draft, number, find)
    if done and done[-1].last:
        return done
    blocks: list[B] = []
    waiting: Any = None
    for what in read(span):  # one behind, so that the last is known as such
        if waiting is not None:
            blocks.append(_build_part(draft, number, len(blocks), waiting, write, done, last=False))
        waiting = what
    if waiting is not None:
        blocks.append(_build_part(draft, number, len(blocks), waiting, write, done, last=True))
    return blocks


def _build_part(
    draft: Draft,
    number: int,
    part: int,
    what: Any,
    write: Callable[..., B],
    done: list[B],
    *,
    last: bool,
) -> B:
    return done[part] if part < len(done) else write(draft.name(number, part), what, last=last)


def _finished_parts(draft: Draft, number: int, find: Callable[[str], B | None]) -> list[B]:
    parts: list[B] = []
    while (block := find(draft.name(number, len(parts)))) is not None:
        parts.append(block)
    return parts
