"""Corpora: sentences of token ids in Zarr, read block by block."""

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

from dspectral.engine import Blocks, run_tasks
from dspectral.engine.graph import ContentAddressedReader
from dspectral.store.arrays import compute_digest, read_array
from dspectral.store.counts import CORPUS_KEY, FIRST, read_root_metadata
from dspectral.store.location import Location, StoreError, damage_error, redact_urls
from dspectral.store.vocabulary import get_vocabulary_path, read_vocabulary
from dspectral.types import Int64s, Sentences


class SentenceBlock(NamedTuple):
    """Content of the completion marker of a block of sentences; names sort in the order of the text."""

    name: str
    n_sentences: int
    n_tokens: int
    last: bool
    """Whether it is the last block of its byte range of text."""
    digest: int

    def content_token(self) -> object:
        """Return a token of the block's content, independent of its name."""
        return self[1:]


def find_sentences(location: Location, name: str) -> SentenceBlock | None:
    """Read the completion marker of a block; None if the block is not complete."""
    marker = location.read_attributes(name)
    return SentenceBlock(name, **marker) if marker else None


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Sentences of token ids in Zarr, stored in blocks; only metadata is in memory.

    Attributes
    ----------
    location : Location
        Path or URL of the corpus.
    blocks : tuple of SentenceBlock
        Its blocks, in the order of the text.
    provenance : dict
        Origin of the text: sources, settings, versions.
    """

    location: Location
    blocks: tuple[SentenceBlock, ...]
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        size = f"{self.n_tokens} tokens in {self.n_sentences} sentences, {self.n_blocks} blocks"
        return f"Corpus({redact_urls(self.location.url)!r}: {size})"

    @property
    def generation(self) -> int:
        """Number of times that it was overwritten."""
        return int(self.provenance.get(FIRST, 0))

    @property
    def sentences(self) -> Blocks:
        """Lazy stream of :class:`~dspectral.types.Sentences`, one item per block."""
        return Blocks(ContentAddressedReader(read_sentences, self.location), self.blocks)

    @cached_property
    def words(self) -> list[str]:
        """Word types, sorted by falling count and then by bytes; type 0 is ``"<?>"``."""
        return read_vocabulary(self.location, get_vocabulary_path(self.generation)).terms

    @cached_property
    def counts(self) -> Int64s:
        """Number of tokens of each type, shape (n_types,)."""
        return read_array(self.location, f"{get_vocabulary_path(self.generation)}/counts")

    def check(self) -> None:
        """Verify the checksums and digests of the vocabulary and of all blocks, one task per block.

        Raises
        ------
        StoreError
            If something is missing or damaged.
        """
        _ = self.words  # reading verifies it
        location = self.location

        def verify(block: SentenceBlock) -> None:
            if find_sentences(location, block.name) != block:
                raise damage_error(location, block.name, "its completion marker differs from the root", "corpus")
            read_sentences(location, block)

        run_tasks(verify, self.blocks, name="check-block")

    @property
    def n_sentences(self) -> int:
        """Number of sentences, including empty ones."""
        return sum(block.n_sentences for block in self.blocks)

    @property
    def n_tokens(self) -> int:
        """Number of tokens, including those of rare words."""
        return sum(block.n_tokens for block in self.blocks)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)


def open_corpus(path: str | PathLike[str], *, storage_options: dict[str, Any] | None = None) -> Corpus:
    r"""Open a finished corpus; only metadata is read.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Corpus
        The corpus; sentences are read lazily.

    Raises
    ------
    StoreError
        If there is no finished corpus of this format.
    """
    location = Location.from_url(path, storage_options)
    if (corpus := find_corpus(location)) is None:
        if location.read_attributes("plans") is not None:
            raise StoreError(f"the build of the corpus at {path} is not finished, or it is not a corpus; build it")
        raise StoreError(f"no corpus at {path}: build one with build_corpus")
    return corpus


def find_corpus(location: Location) -> Corpus | None:
    """Open a finished corpus; return None if there is none."""
    # The root is written last, so a corpus with a root is complete.
    head = read_root_metadata(location, CORPUS_KEY, "corpus")
    if head is None:
        return None
    return Corpus(location, tuple(SentenceBlock(*block) for block in head["blocks"]), head["provenance"])


def read_sentences(location: Location, block: SentenceBlock) -> Sentences:
    """Read a block of sentences and verify its checksums."""
    ids, offsets = (read_array(location, f"{block.name}/{part}") for part in ("ids", "offsets"))
    if block.digest != compute_digest(ids, offsets):
        raise damage_error(location, block.name, "its content does not match its digest", "corpus")
    return Sentences(ids, offsets)
