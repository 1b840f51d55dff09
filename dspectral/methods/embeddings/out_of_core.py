"""Context counts that outgrow memory: parts of each block's rows to scratch, then one row block at a time."""

import json
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.cooccurrence.scaling import row_parts
from dspectral.engine import Blocks, run_tasks
from dspectral.store.arrays import Location, read_array, write_array
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.draft import Draft, begin, finish


def spill_contexts(
    sentences: Blocks,
    corpus: Location,
    entries: NDArray[np.int64],
    *,
    most: int,
    **how: Any,
) -> CountStore:
    """Count contexts into a store of row blocks inside a corpus, no matter how many there are in all.

    Parameters
    ----------
    sentences : Blocks
    corpus : Location
        The corpus that the sentences are read from. Counts that were finished there with the same settings are
        opened.
    entries : ndarray of int64, shape (n_types,)
        A bound on the contexts of each word type.
    most : int
        Entries of a row block, at most (or one row).
    **how
        As for :meth:`~dspectral.cooccurrence.contexts.ContextCounts.of`.

    Returns
    -------
    CountStore
        Of float32, shape (n_types, n_contexts).

    Notes
    -----
    One pass over the sentences. A task holds the counts of one block of sentences, or two times those of one
    row block. Cut short, it goes on where it was.
    """
    digest = sha256(json.dumps([how, most], sort_keys=True).encode()).hexdigest()[:16]
    where = corpus._replace(url=f"{corpus.url.rstrip('/')}/contexts/{digest}")
    done = open_finished(where)
    if done is not None:
        return done
    parts = row_parts(entries, most)
    plan = {"contexts": how, "rows": [list(part) for part in parts]}
    draft = begin(where.url, dict(where.options), plan, append=False)
    count = partial(_count, sentences=sentences, draft=draft.for_tasks(), parts=parts, how=how)
    widths = run_tasks(count, list(enumerate(sentences.items)), name="count-contexts")
    draft = draft._replace(n_columns=widths[0])
    merge = partial(_merge, draft=draft.for_tasks(), n_blocks=len(widths))
    blocks = run_tasks(merge, [(i, b - a) for i, (a, b) in enumerate(parts)], name="merge-contexts")
    return finish(draft, blocks)


def _count(
    item: tuple[int, Any],
    *,
    sentences: Blocks,
    draft: Draft,
    parts: list[tuple[int, int]],
    how: dict[str, Any],
) -> int:
    """Write the counts of one block of sentences to scratch, cut by rows; return how many contexts there are."""
    number, block = item
    path = f"{draft.scratch}/{number:06d}"
    if there := draft.where.attributes(path):
        return int(there["n_contexts"])
    counts = ContextCounts.of(sentences.read(block), **how).counts
    store = draft.where.open(read_only=False)
    for part, (a, b) in enumerate(parts):
        first, last = int(counts.indptr[a]), int(counts.indptr[b])
        write_array(store, f"{path}/{part}/data", counts.data[first:last])
        write_array(store, f"{path}/{part}/indices", counts.indices[first:last])
        write_array(store, f"{path}/{part}/indptr", counts.indptr[a : b + 1] - first)
    draft.where.mark(path, {"n_contexts": int(counts.shape[1])})
    return int(counts.shape[1])


def _merge(item: tuple[int, int], *, draft: Draft, n_blocks: int) -> BlockInfo:
    """Add up one run of rows over all blocks of sentences."""
    part, n_rows = item
    name = draft.name(part)
    if (done := find_block(draft.where, name)) is not None:
        return done
    store = draft.where.open()
    total = sparse.csr_array((n_rows, draft.n_columns), dtype=np.float64)
    for number in range(n_blocks):
        path = f"{draft.scratch}/{number:06d}/{part}"
        data, indices, indptr = (
            read_array(draft.where, store, path, array) for array in ("data", "indices", "indptr")
        )
        piece = sparse.csr_array((data, indices, indptr), shape=total.shape)
        piece.has_canonical_format = True
        total = total + piece
    return write_block(draft.where, name, total.astype(np.float32))
