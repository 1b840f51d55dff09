"""Context counts that outgrow memory: each block's rows go to scratch in parts, then row blocks are added up."""

import json
from functools import partial
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.contexts import ContextCounts, ContextSettings
from dspectral.engine import Blocks, numbered, run_tasks, scratch_of_probe
from dspectral.linalg.runs import cut_runs
from dspectral.store.arrays import Location, read_array, write_array
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.draft import Draft, begin, finish


def spill_contexts(
    sentences: Blocks,
    corpus: Location,
    entries: NDArray[np.int64],
    settings: ContextSettings,
    *,
    most: int,
) -> CountStore:
    """Count contexts into a store of row blocks inside a corpus, however many there are.

    Parameters
    ----------
    sentences : Blocks
        Sentences of the corpus.
    corpus : Location
        Corpus that the sentences are read from. Counts that were finished there of the same blocks with the same
        settings are opened.
    entries : ndarray of int64, shape (n_types,)
        Bound on the number of contexts of each word type.
    settings : ContextSettings
        Rule by which a word counts as a context.
    most : int
        Largest number of entries of a row block of several rows.

    Returns
    -------
    CountStore
        Counts in single precision, shape (n_types, n_contexts).

    Notes
    -----
    One pass over the sentences. A task holds the counts of one block of sentences, or two times those of one row
    block. A run that is cut short continues at the first block that is not finished.
    """
    how = settings._asdict()
    # Blocks and settings name the folder: another window, or some of the blocks alone, have counts of their own, and
    # the same ones are found again.
    digest = sha256(json.dumps([how, most, sentences.items], sort_keys=True).encode()).hexdigest()[:16]
    aside = scratch_of_probe()
    home = corpus if aside is None else Location(aside)
    where = home._replace(url=f"{home.url.rstrip('/')}/contexts/{digest}")
    done = open_finished(where)
    if done is not None:
        return done
    parts = cut_runs(entries, most)
    plan = {"contexts": how, "rows": [list(part) for part in parts]}
    with begin(where.url, dict(where.options), plan, append=False) as begun:
        count = partial(_count, sentences=sentences, draft=begun.for_tasks(), parts=parts, settings=settings)
        # First pass: one task for each block of sentences, its rows cut into parts. Second pass: one task for each
        # part.
        with numbered(is_pass=True):
            widths = run_tasks(count, list(enumerate(sentences.items)), name="count-contexts")
        draft = begun._replace(n_columns=widths[0])
        merge = partial(_merge, draft=draft.for_tasks(), n_blocks=len(widths))
        blocks = run_tasks(merge, [(i, b - a) for i, (a, b) in enumerate(parts)], name="merge-contexts")
        return finish(draft, blocks)


def _count(
    item: tuple[int, object],
    *,
    sentences: Blocks,
    draft: Draft,
    parts: list[tuple[int, int]],
    settings: ContextSettings,
) -> int:
    """Write the counts of one block of sentences to scratch, cut by rows; return the number of contexts."""
    number, block = item
    path = f"{draft.scratch}/{number:06d}"
    # The mark is written last, so that a block with a mark is whole.
    if there := draft.where.attributes(path):
        return int(there["n_contexts"])
    counts = ContextCounts.of(sentences.read(block), **settings._asdict()).counts
    store = draft.where.open(read_only=False)
    for part, (a, b) in enumerate(parts):
        first, last = int(counts.indptr[a]), int(counts.indptr[b])
        write_array(store, f"{path}/{part}/data", counts.data[first:last])
        write_array(store, f"{path}/{part}/indices", counts.indices[first:last])
        write_array(store, f"{path}/{part}/indptr", counts.indptr[a : b + 1] - first)
    draft.where.mark(path, {"n_contexts": int(counts.shape[1])})
    return int(counts.shape[1])


def _merge(item: tuple[int, int], *, draft: Draft, n_blocks: int) -> BlockInfo:
    """Add up one run of rows over all blocks of sentences, in the order of the blocks."""
    part, n_rows = item
    name = draft.name(part)
    if (done := find_block(draft.where, name)) is not None:
        return done
    store = draft.where.open()
    # One block at a time: memory is that of the sum and of one part, not of all parts.
    total = sparse.csr_array((n_rows, draft.n_columns), dtype=np.float64)
    for number in range(n_blocks):
        path = f"{draft.scratch}/{number:06d}/{part}"
        data, indices, indptr = (
            read_array(draft.where, store, path, array) for array in ("data", "indices", "indptr")
        )
        piece = sparse.csr_array((data, indices, indptr), shape=total.shape)
        # The rows were cut from a matrix in canonical form: SciPy need not look for duplicates again.
        piece.has_canonical_format = True
        total = total + piece
    # The sum is in double precision, and rounded to single only when it is stored.
    return write_block(draft.where, name, total.astype(np.float32))
