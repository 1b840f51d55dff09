"""A finished corpus, sentences of token ids in Zarr, opened lazily."""

from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from typing import Any, NamedTuple

from dspectral.engine import Blocks, run_tasks
from dspectral.engine.graph import Sealed
from dspectral.linalg.sparse_products import offset_fault
from dspectral.store.arrays import digest_of, read_array
from dspectral.store.counts import CORPUS_KEY, sealed_head
from dspectral.store.facts import corpus_card
from dspectral.store.location import Location, StoreError
from dspectral.store.vocabulary import PATH, read_vocabulary
from dspectral.types import Int64s, Sentences


class SentenceBlock(NamedTuple):
    """The content of the finished mark of a block of sentences; names sort in the order of the text."""

    name: str
    n_sentences: int
    n_tokens: int
    last: bool
    """Whether it is the last block of its span of text."""
    digest: int

    def known_content(self) -> object:
        """Return what stands for the content of the block, whatever its name and place."""
        return self[1:]


def find_sentences(where: Location, name: str) -> SentenceBlock | None:
    """Return the content of a block's mark, or None if the block is not finished."""
    mark = where.attributes(name)
    return SentenceBlock(name, **mark) if mark else None


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Sentences of token ids in Zarr, cut into blocks; only metadata is in memory.

    Attributes
    ----------
    where : Location
        The place of the corpus.
    blocks : tuple of SentenceBlock
        Its blocks, in the order of the text.
    provenance : dict
        Origin of the text: sources, settings, versions.
    """

    where: Location
    blocks: tuple[SentenceBlock, ...]
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        size = f"{self.n_tokens} tokens in {self.n_sentences} sentences, {self.n_blocks} blocks"
        return f"Corpus({self.where.url!r}: {size})"

    def _repr_html_(self) -> str:
        return corpus_card(self)

    @property
    def sentences(self) -> Blocks:
        """Stream of :class:`~dspectral.types.Sentences`, one item a block, nothing read yet."""
        read = partial(read_sentences, n_types=len(self.counts))
        return Blocks(Sealed(read, self.where), self.blocks)

    @cached_property
    def words(self) -> list[str]:
        """List of the word types in order of falling count, equal ones by their bytes; type 0 is ``"<?>"``."""
        return read_vocabulary(self.where).terms

    @cached_property
    def counts(self) -> Int64s:
        """Number of tokens of each type, shape (n_types,)."""
        return read_array(self.where, self.where.open(), PATH, "counts")

    def check(self) -> None:
        """Read the vocabulary and every block and verify checksums, digests and marks, one task each.

        Raises
        ------
        StoreError
            If something is missing, damaged, or not what was written.
        """
        # Read, and so verified; what was read before would not be read again.
        _ = self.words
        run_tasks(
            partial(_verify_block, self.where, n_types=len(self.counts)), self.blocks, name="check-block"
        )

    @property
    def n_sentences(self) -> int:
        """Number of sentences, empty ones too."""
        return sum(block.n_sentences for block in self.blocks)

    @property
    def n_tokens(self) -> int:
        """Number of tokens, those of rare types too."""
        return sum(block.n_tokens for block in self.blocks)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)


def open_corpus(path: str | PathLike[str], *, storage_options: dict[str, Any] | None = None) -> Corpus:
    r"""Open a finished corpus: metadata alone is read.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Corpus
        The corpus; sentences are read when they are asked for.

    Raises
    ------
    StoreError
        If there is no finished corpus of this format.
    """
    # The root is written last, so a corpus that has one is whole; plans without a root are those of a stopped build.
    where = Location.of(path, storage_options)
    head = sealed_head(where, CORPUS_KEY, "corpus")
    if head is None:
        unfinished = where.attributes("plans") is not None
        why = "what is there is not finished, or not a corpus" if unfinished else "build_corpus makes one"
        raise StoreError(f"no finished corpus at {path}: {why}")
    return Corpus(where, tuple(SentenceBlock(*block) for block in head["blocks"]), head["provenance"])


def read_sentences(where: Location, block: SentenceBlock, *, n_types: int | None = None) -> Sentences:
    """Read a block of sentences, its checksums verified."""
    store = where.open()
    ids, offsets = (read_array(where, store, block.name, part) for part in ("ids", "offsets"))
    # Compiled loops trust offsets and ids: whatever they would read outside of an array is refused here.
    fault = offset_fault(offsets, len(ids))
    if len(offsets) != block.n_sentences + 1 or len(ids) != block.n_tokens:
        fault = "its parts do not fit together"
    elif block.digest != digest_of(ids, offsets):
        fault = "its content is not what was written here"
    elif n_types is not None and len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        fault = f"it holds a type that is none of the {n_types} of the corpus"
    if fault:
        raise StoreError(
            f"corpus {where.url}, block {block.name}: {fault}; remove the block and build the corpus again"
        )
    return Sentences(ids, offsets)


def _verify_block(where: Location, block: SentenceBlock, *, n_types: int) -> None:
    if find_sentences(where, block.name) != block:
        raise StoreError(
            f"corpus {where.url}, block {block.name}: its mark and the root of the corpus do not agree; "
            "build the corpus again"
        )
    read_sentences(where, block, n_types=n_types)
