"""Sentences of token ids in Zarr: text to a corpus in two passes, and a finished corpus opened lazily."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import zarr
from numpy.typing import NDArray

from dspectral.engine import Blocks, run_tasks
from dspectral.store.blocks import Location, StoreError, read_array, write_array
from dspectral.store.build import BLOCK_BYTES, build_span
from dspectral.store.counting import count_spans, merged_part
from dspectral.store.counts import CORPUS_KEY, FORMAT, location
from dspectral.store.draft import Draft, begin
from dspectral.store.readers import read_span
from dspectral.store.sources import Span, plan_spans
from dspectral.store.vocabulary import PATH, Vocabulary, find_vocabulary, read_vocabulary, write_vocabulary
from dspectral.text.term_bytes import take
from dspectral.text.term_index import TermIndex
from dspectral.text.terms import TermTable
from dspectral.text.words import Cut, count_words, cut_words, number_words
from dspectral.types import Documents, Sentences

RARE = "<?>"
"""Type 0: words that occur too seldom for a type of their own, and words that were never seen."""
N_PARTITIONS = 8
_INDEX_LOCK = Lock()
_INDEXES: dict[str, TermIndex] = {}
"""Of the last call alone: in each process the vocabulary is read once, as it would travel with every task."""


class SentenceBlock(NamedTuple):
    """What the finished mark of a block of sentences says.

    Attributes
    ----------
    name : str
        Path of the group in the store; names sort in the order of the text.
    n_sentences, n_tokens : int
    last : bool
        Whether it is the last block of its span of text.
    """

    name: str
    n_sentences: int
    n_tokens: int
    last: bool


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Sentences of token ids in Zarr, cut into blocks; only metadata is in memory.

    Attributes
    ----------
    where : Location
    blocks : tuple of SentenceBlock
        In the order of the text.
    provenance : dict
        Where the text comes from: sources, settings, versions.
    """

    where: Location
    blocks: tuple[SentenceBlock, ...]
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        size = f"{self.n_tokens} tokens in {self.n_sentences} sentences, {self.n_blocks} blocks"
        return f"Corpus({self.where.url!r}: {size})"

    @property
    def sentences(self) -> Blocks:
        """The blocks of :class:`~dspectral.types.Sentences`, nothing read yet."""
        return Blocks(partial(read_sentences, self.where), self.blocks)

    @cached_property
    def words(self) -> list[str]:
        """The types in order of falling count, equal ones by their bytes; type 0 is ``"<?>"``."""
        return read_vocabulary(self.where).terms

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Tokens of each type, shape (n_types,)."""
        return read_array(self.where, self.where.open(), PATH, "counts")

    @property
    def n_sentences(self) -> int:
        """Sentences, empty ones too."""
        return sum(block.n_sentences for block in self.blocks)

    @property
    def n_tokens(self) -> int:
        """Tokens, of rare types too."""
        return sum(block.n_tokens for block in self.blocks)

    @property
    def n_blocks(self) -> int:
        """Blocks of sentences."""
        return len(self.blocks)


def build_corpus(
    sources: str | Sequence[str],
    store: str,
    *,
    min_count: int = 1,
    lowercase: bool = False,
    tokens: Cut = "blanks",
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> Corpus:
    r"""Write the sentences of text files, one a line, as ids of their words.

    Parameters
    ----------
    sources : str or sequence of str
        Paths, globs or fsspec URLs of txt files, also .gz, .zst or .bz2; each line is a sentence.
    store : str
        Local path or fsspec URL of the corpus to make.
    min_count : int
        Words that occur less often become type 0, ``"<?>"``; so does that word itself.
    lowercase : bool
        Whether the case of the text is lowered first.
    tokens : {"blanks", "words"}
        How sentences are cut: see :func:`dspectral.text.words.cut_words`.
    block_bytes : int
        Bytes of text behind a block, at most (a longer sentence is a block of its own).
    errors : {"strict", "replace"}
        What to do with bytes that are not UTF-8.
    storage_options, source_options : dict, optional
        Of the store's and the sources' file systems.

    Returns
    -------
    Corpus

    Raises
    ------
    ValueError
        If a source cannot be read (the file and place are named), there is no word at all, ``min_count`` is
        below 1, or an unfinished store of another plan is in the way.
    StoreError
        If there is something at ``store`` already.

    Notes
    -----
    Two passes over the text. A task holds about ten times ``block_bytes``, or the vocabulary. A build that was
    stopped goes on where it was: call it again.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://pets.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> corpus = build_corpus("memory://pets.txt", "memory://pets.zarr", min_count=2)
    >>> corpus.words, corpus.counts
    (['<?>', 'the'], array([3, 2]))
    """
    if min_count < 1:
        raise ValueError(f"min_count is {min_count}, but it must be 1 or more")
    settings = {"min_count": min_count, "lowercase": lowercase, "tokens": tokens}
    spans = plan_spans(sources, unit="line", span_bytes=block_bytes, storage_options=source_options)
    provenance = {
        "sources": [span.describe() for span in spans],
        "block_bytes": block_bytes,
        "errors": errors,
        "corpus": settings,
    }
    draft = begin(store, storage_options, provenance, append=False)
    read = partial(read_span, block_bytes=block_bytes, errors=errors, storage_options=source_options)
    cut = partial(cut_words, cut=tokens, lowercase=lowercase)
    if find_vocabulary(draft.where) is None:
        _count_types(draft, spans, read, cut, min_count)
    write = partial(_write_sentences, where=draft.where, cut=cut, call=uuid4().hex)
    find = partial(_finished_sentences, draft.where)
    work = partial(build_span, draft=draft.for_tasks(), read=read, write=write, find=find)
    done = run_tasks(work, list(enumerate(spans)), name="number-words")
    return _finish(draft, [block for of_span in done for block in of_span])


def open_corpus(path: str, *, storage_options: dict[str, Any] | None = None) -> Corpus:
    """Open a finished corpus: metadata alone is read.

    Parameters
    ----------
    path : str
        Local path or any fsspec URL.
    storage_options : dict, optional

    Returns
    -------
    Corpus

    Raises
    ------
    StoreError
        If there is no finished corpus of this format.
    """
    where = location(path, storage_options)
    head = (where.attributes() or {}).get(CORPUS_KEY)
    if head is None:
        unfinished = where.attributes("plans") is not None
        why = "what is there is not finished, or not a corpus" if unfinished else "build_corpus makes one"
        raise StoreError(f"no finished corpus at {path}: {why}")
    if head["format"] != FORMAT:
        raise StoreError(f"corpus {path} has format {head['format']}, but this version reads {FORMAT}")
    return Corpus(where, tuple(SentenceBlock(*block) for block in head["blocks"]), head["provenance"])


def read_sentences(where: Location, block: SentenceBlock) -> Sentences:
    """Read a block, its checksums verified.

    Raises
    ------
    StoreError
        If a part is missing or damaged; the message names the store and the block.
    """
    store = where.open()
    ids, offsets = (read_array(where, store, block.name, part) for part in ("ids", "offsets"))
    if len(offsets) != block.n_sentences + 1 or not len(ids) == offsets[-1] == block.n_tokens:
        raise StoreError(
            f"corpus {where.url}, block {block.name}: its parts do not fit together; "
            "remove the block and build the corpus again"
        )
    return Sentences(ids, offsets)


def _count_types(
    draft: Draft,
    spans: list[Span],
    read: Callable[[Span], Any],
    cut: Callable[[Documents], Any],
    min_count: int,
) -> None:
    """Pass one: write the vocabulary."""
    names, _ = count_spans(draft, spans, read, partial(_table_of, cut=cut), N_PARTITIONS)
    merge = partial(_merge_types, where=draft.where, names=names, min_count=min_count)
    parts = run_tasks(merge, list(range(N_PARTITIONS)), name="merge-words")
    n_tokens = sum(tokens for _, tokens in parts)
    if not n_tokens:
        raise ValueError(f"no word at all in {', '.join(sorted({span.url for span in spans}))}")
    first, *others = (table for table, _ in parts)
    merged = first.merge(*others)  # in byte order
    order = np.argsort(-merged.counts, kind="stable")
    terms = take(merged.terms, order)
    data = np.concatenate([np.frombuffer(RARE.encode(), dtype=np.uint8), terms.data])
    offsets = np.concatenate([[0], terms.offsets + len(RARE)])
    rare = [n_tokens - int(merged.counts.sum())]
    counts = np.concatenate([rare, merged.counts[order]])
    # In how many sentences the rare words are together is not known: it is written as 0.
    frequency = np.concatenate([[0], merged.document_frequency[order]])
    write_vocabulary(draft.where, Vocabulary(Documents(data, offsets), frequency, counts))


def _table_of(documents: Documents, *, cut: Callable[[Documents], Any]) -> TermTable:
    return count_words(cut(documents))


def _merge_types(part: int, *, where: Location, names: list[str], min_count: int) -> tuple[TermTable, int]:
    """Merge a part of all blocks; return the types that are frequent enough, and the tokens of all."""
    merged = merged_part(part, where=where, names=names)
    kept = merged.counts >= min_count
    literal = [i for i in np.flatnonzero(kept).tolist() if merged.terms.text(i) == RARE.encode()]
    kept[literal] = False
    return merged.filter(kept), int(merged.counts.sum())


def _write_sentences(
    name: str,
    documents: Documents,
    *,
    last: bool,
    where: Location,
    cut: Callable[[Documents], Any],
    call: str,
) -> SentenceBlock:
    with _INDEX_LOCK:  # the other threads wait for the first one's
        if call not in _INDEXES:
            _INDEXES.clear()
            _INDEXES[call] = read_vocabulary(where).term_index()
        index = _INDEXES[call]
    ids, offsets = number_words(cut(documents), index)
    store = where.open(read_only=False)
    write_array(store, f"{name}/ids", ids)
    write_array(store, f"{name}/offsets", offsets)
    block = SentenceBlock(name, len(offsets) - 1, len(ids), last)
    where.mark(name, {"n_sentences": block.n_sentences, "n_tokens": block.n_tokens, "last": last})
    return block


def _finished_sentences(where: Location, name: str) -> SentenceBlock | None:
    mark = where.attributes(name)
    return SentenceBlock(name, mark["n_sentences"], mark["n_tokens"], mark["last"]) if mark else None


def _finish(draft: Draft, blocks: list[SentenceBlock]) -> Corpus:
    """Write the root: from then on the corpus opens."""
    head = {"format": FORMAT, "blocks": [list(block) for block in blocks], "provenance": draft.provenance}
    draft.where.mark("", {CORPUS_KEY: head})
    root = zarr.open_group(draft.where.open(read_only=False), mode="a", zarr_format=3)
    if "scratch" in root:
        del root["scratch"]
    return Corpus(draft.where, tuple(blocks), draft.provenance)
