"""Texts in memory, kept in the scratch of the store that is built of them: read once, however many passes follow."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from dspectral.store.arrays import Location, StoreError, read_array, write_array
from dspectral.store.draft import Draft
from dspectral.store.from_text.longest import LONGEST, LongDocuments, Longest
from dspectral.store.from_text.pieces import PIECE_BYTES
from dspectral.store.from_text.readers import pack
from dspectral.store.from_text.texts import Texts, each_partition, partitions_of
from dspectral.text.packing import text_blocks
from dspectral.types import Documents


class KeptBlock(NamedTuple):
    """A block of texts in the scratch of a store.

    `name`: path of its group in the store; `digest`: digest that tells its texts from others; `n_long`:
    number of its texts that were too long; `long_at`: which the first of them are.
    """

    name: str
    digest: str
    n_long: int = 0
    long_at: tuple[str, ...] = ()

    def listed(self) -> list[Any]:
        """Return the block as JSON gives it back, as it was before there was a limit where no text is too long."""
        return [self.name, self.digest, *([self.n_long, list(self.long_at)] if self.n_long else [])]

    @property
    def url(self) -> str:
        """Name of the texts, for messages."""
        return "the texts given"


def keep_texts(draft: Draft, texts: Texts, block_bytes: int, longest: Longest = LONGEST) -> list[KeptBlock]:
    """Write texts into the scratch of a store, block by block; a generator is never held whole.

    One pass over the texts. Nothing of a block is read back before all of them are written, so that a call that
    goes on after one that was stopped here begins anew. Later it reads the texts again, and compares digests.
    """
    where, path = draft.where, f"{draft.scratch}/texts"
    known = where.attributes(path)
    try:
        blocks = _keep_all(
            texts,
            partial(
                _keep, where=None if known else where, path=path, block_bytes=block_bytes, longest=longest
            ),
        )
    except Exception:
        if not known:  # nothing that is of use to a later call: the next one may be of other text
            draft.forget()
        raise
    # As JSON gives them back, for the comparison.
    listed = [block.listed() for block in blocks]
    if not known:
        where.mark(path, {"blocks": listed})
    elif known["blocks"] != listed:
        raise StoreError(
            f"an unfinished build at {where.url} was begun with other texts than these: finish it with the same texts, "
            "or remove it with dspectral.store.discard_unfinished"
        )
    return blocks


def _keep_all(texts: Texts, keep: Callable[[int, Any], list[KeptBlock]]) -> list[KeptBlock]:
    column = texts.column
    partitions = partitions_of(column)
    if partitions is None:
        blocks = keep(0, column)
    else:
        blocks = [block for found in each_partition(partitions, keep, name="keep-texts") for block in found]
    if not blocks:
        raise ValueError(f"no document at all in {texts!r}")
    return blocks


def read_kept(
    block: KeptBlock, *, where: Location, found: LongDocuments | None = None
) -> Iterator[Documents]:
    """Yield the documents of a block that was kept."""
    if found is not None:
        found.count += block.n_long
        found.places += block.long_at
    store = where.open()
    data, offsets = (read_array(where, store, block.name, part) for part in ("data", "offsets"))
    yield Documents(data, offsets)


def _keep(
    number: int,
    texts: Iterable[Any],
    *,
    where: Location | None,
    path: str,
    block_bytes: int,
    longest: Longest,
) -> list[KeptBlock]:
    """Pack and write the texts of a partition; without a place they are packed alone, for their digests."""
    blocks = []
    # Packed as pieces of files are: the cuts follow from the texts alone, so that a build that goes on finds the
    # blocks that it began with.
    found = LongDocuments()
    whole = text_blocks(texts, block_bytes=min(block_bytes, PIECE_BYTES))
    parts = _not_too_long(whole, f"partition {number}, document" if number else "document", longest, found)
    n_before = 0
    for part, documents in enumerate(pack(parts, block_bytes)):
        offsets = np.ascontiguousarray(documents.offsets, dtype=np.int64)
        digest = sha256(documents.data.tobytes())
        digest.update(offsets.data)
        name = f"{path}/{number:06d}-{part:06d}"
        # What was found since the block before: perhaps in this one, perhaps a few documents ahead.
        block = KeptBlock(name, digest.hexdigest()[:32], found.count - n_before, tuple(found.places))
        n_before, found.places = found.count, []
        if where is not None:
            store = where.open(read_only=False)
            write_array(store, f"{block.name}/data", documents.data)
            write_array(store, f"{block.name}/offsets", offsets)
        blocks.append(block)
    return blocks


def _not_too_long(
    parts: Iterable[Documents], named: str, longest: Longest, found: LongDocuments
) -> Iterator[Documents]:
    first = 0
    for part in parts:
        yield longest.apply(part, partial(_place, named, first), found)
        first += part.n_documents


def _place(named: str, first: int, i: int) -> str:
    return f"{named} {first + i}"
