"""Texts and ids of documents beside their counts, block by block."""

from collections.abc import Iterable, Sequence

import numpy as np

from dspectral.store.arrays import digest_of, read_array, write_array
from dspectral.store.blocks import BlockInfo
from dspectral.store.location import Location, StoreError
from dspectral.types import Documents, IntArray

TEXTS, IDS = "texts", "ids"


def write_documents(where: Location, block: str, part: str, documents: Documents) -> None:
    """Write the texts or ids of a block, compressed, and their digest."""
    store, offsets = where.open(read_only=False), np.ascontiguousarray(documents.offsets, dtype=np.int64)
    write_array(store, f"{block}/{part}/data", documents.data)
    write_array(store, f"{block}/{part}/offsets", offsets)
    where.mark(f"{block}/{part}", {"digest": digest_of(documents.data, offsets)})


def read_documents(where: Location, block: BlockInfo, part: str) -> Documents:
    """Read the texts or ids of a block, checksums and digest verified."""
    store, name = where.open(), f"{block.name}/{part}"
    data, offsets = (read_array(where, store, name, array) for array in ("data", "offsets"))
    if (where.attributes(name) or {}).get("digest") != digest_of(data, offsets):
        raise StoreError(f"store {where.url}, block {name} is not what was written; build the store again")
    return Documents(data, offsets)


def documents_at(where: Location, blocks: Sequence[BlockInfo], rows: Iterable[int], part: str) -> list[str]:
    """Return the texts or ids of some rows, in their order; each block that holds one is read once."""
    wanted: IntArray = np.asarray(list(rows), dtype=np.int64)
    starts = np.cumsum([0, *(block.n_rows for block in blocks)])
    if len(wrong := wanted[(wanted < 0) | (wanted >= starts[-1])]):
        raise IndexError(f"row {wrong[0]} is not among the {starts[-1]} rows of store {where.url}")
    found = [""] * len(wanted)
    numbers = np.searchsorted(starts, wanted, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else ():
        number = numbers[places[0]]
        documents = read_documents(where, blocks[number], part)
        for place in places.tolist():
            found[place] = documents.text(int(wanted[place] - starts[number])).decode()
    return found
