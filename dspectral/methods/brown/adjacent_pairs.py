"""Counts of adjacent words, which clusters and anchors are found in, in memory or in the store of the corpus."""

from functools import partial
from hashlib import sha256

import numpy as np
from scipy import sparse

from dspectral.configuration import get_explicit_memory_limit, get_memory_limit
from dspectral.cooccurrence.contexts import ContextCounts, ContextSettings
from dspectral.cooccurrence.scaling import bound_entries
from dspectral.engine import Blocks, summarize
from dspectral.methods.brown.pair_counts import AdjacentCounts, PairBlock
from dspectral.store.blocks import BlockInfo, read_block
from dspectral.store.context_counts import spill_contexts
from dspectral.store.location import Location
from dspectral.types import Int32s, Int64s

PAIR_BYTES = 260
"""Peak memory of a fit for each distinct pair: its counts from both sides, scaled, and in merges."""
ENTRY_BYTES = 100
"""Peak memory of a fit for each entry of a row block of a store, which has two for each pair of its types."""


def count_adjacent_pairs(
    sentences: Blocks, counts: Int64s, *, where: Location | None = None, numbers: Int32s | None = None
) -> AdjacentCounts:
    """Count in one pass how often each type directly follows each, given the tokens of each, shape (n_types,)."""
    if where is not None and PAIR_BYTES * int(np.minimum(counts, len(counts)).sum()) > get_memory_limit():
        pairs = _count_in_store(sentences, counts, where, numbers)
        # The bound above is that of the tokens: often there are fewer pairs, and those in memory are faster.
        return (
            pairs
            if PAIR_BYTES * pairs.nnz > get_memory_limit()
            else AdjacentCounts.from_matrix(pairs.whole())
        )
    of = partial(ContextCounts.from_block, n_types=len(counts), window=1, sides="right")
    found = summarize(sentences, of=of, name="adjacent").counts
    limit, needed = get_explicit_memory_limit(), PAIR_BYTES * found.nnz
    if where is None and limit is not None and needed > limit:
        raise MemoryError(
            f"{found.nnz:,} distinct pairs of adjacent words take {needed:,} bytes of memory, but "
            f"dspectral.memory-limit is {limit:,}: set it to {needed:,}, raise min_count, or build_corpus a store, "
            "where they are counted block by block"
        )
    return AdjacentCounts.from_matrix(found)


def _count_in_store(
    sentences: Blocks, counts: Int64s, where: Location, numbers: Int32s | None
) -> AdjacentCounts:
    n_types = len(counts)
    settings = ContextSettings(n_types, 1, "list")
    entries = bound_entries(counts, n_positions=2, n_contexts=2 * n_types)
    # In double precision: a pair may be there more often than single precision can count.
    ids = "words" if numbers is None else sha256(numbers.tobytes()).hexdigest()
    most = max(1, get_memory_limit() // ENTRY_BYTES)
    store = spill_contexts(sentences, where, entries, settings, max_entries=most, dtype=np.float64, ids=ids)
    firsts, sums = np.concatenate([[0], np.cumsum(store.block_rows)]).tolist(), store.column_sums
    items = list(zip(firsts[:-1], store.blocks, strict=True))
    # A column on the left counts what follows its type, and one on the right what comes before it.
    return AdjacentCounts(
        partial(_read_pair_block, where=store.where), items, sums[:n_types], sums[n_types:], store.nnz // 2
    )


def _read_pair_block(item: tuple[int, BlockInfo], *, where: Location) -> PairBlock:
    """Read a row block of a store, and cut each row between what comes before and what follows."""
    first, info = item
    rows = read_block(where, info)
    n_types = rows.shape[1] // 2
    left = rows.indices < n_types
    # Columns are sorted: those on the left of a row come first, and their number tells where each half begins.
    ends = np.concatenate([[0], np.cumsum(left)])[rows.indptr]
    shape, right = (rows.shape[0], n_types), ~left
    before = sparse.csr_array((rows.data[left], rows.indices[left], ends), shape=shape)
    after = sparse.csr_array(
        (rows.data[right], rows.indices[right] - n_types, rows.indptr - ends), shape=shape
    )
    return PairBlock(first, after, before)
