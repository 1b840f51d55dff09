"""Counting of adjacent words, in memory or in the store of the corpus."""

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
"""Peak memory of a fit per distinct pair."""
ENTRY_BYTES = 100
"""Peak memory of a fit per entry of a row block of a store; each pair has two entries."""


def count_adjacent_pairs(
    sentences: Blocks, counts: Int64s, *, location: Location | None = None, numbers: Int32s | None = None
) -> AdjacentCounts:
    """Count in one pass how often each type follows each other one; `numbers`: type of each word."""
    if location is not None and PAIR_BYTES * int(np.minimum(counts, len(counts)).sum()) > get_memory_limit():
        pairs = _count_in_store(sentences, counts, location, numbers)
        # The condition is an upper bound. If the actual pairs fit, memory is faster.
        if PAIR_BYTES * pairs.nnz > get_memory_limit():
            return pairs
        return AdjacentCounts.from_matrix(pairs.concatenate())
    summarize_block = partial(ContextCounts.from_block, n_types=len(counts), window=1, sides="right")
    pair_counts = summarize(sentences, summarize_block=summarize_block, name="adjacent").counts
    limit, needed = get_explicit_memory_limit(), PAIR_BYTES * pair_counts.nnz
    if location is None and limit is not None and needed > limit:
        raise MemoryError(
            f"{pair_counts.nnz:,} distinct pairs of adjacent words need {needed:,} bytes, but dspectral.memory-limit "
            f"is {limit:,}: set it to {needed:,}, raise min_count, or use build_corpus, which counts them in a store"
        )
    return AdjacentCounts.from_matrix(pair_counts)


def _count_in_store(sentences: Blocks, counts: Int64s, location: Location, numbers: Int32s | None) -> AdjacentCounts:
    n_types = len(counts)
    settings = ContextSettings(n_types, 1, "list")
    entries = bound_entries(counts, n_positions=2, n_contexts=2 * n_types)
    # In double precision: counts may exceed the integers that single precision represents.
    ids = "words" if numbers is None else sha256(numbers.tobytes()).hexdigest()
    max_entries = max(1, get_memory_limit() // ENTRY_BYTES)
    store = spill_contexts(sentences, location, entries, settings, max_entries=max_entries, dtype=np.float64, ids=ids)
    firsts, sums = np.concatenate([[0], np.cumsum(store.block_rows)]).tolist(), store.column_sums
    items = list(zip(firsts[:-1], store.blocks, strict=True))
    # Left columns count the types after their type, right columns the types before it.
    read = partial(_read_pair_block, location=store.location)
    return AdjacentCounts(read, items, sums[:n_types], sums[n_types:], store.nnz // 2)


def _read_pair_block(item: tuple[int, BlockInfo], *, location: Location) -> PairBlock:
    """Read a row block of a store, and split its columns into preceding and following types."""
    first, info = item
    rows = read_block(location, info)
    n_types = rows.shape[1] // 2
    is_preceding = rows.indices < n_types
    # Columns are sorted, so the number of left columns of each row gives the split.
    ends = np.concatenate([[0], np.cumsum(is_preceding)])[rows.indptr]
    shape, right = (rows.shape[0], n_types), ~is_preceding
    before = sparse.csr_array((rows.data[is_preceding], rows.indices[is_preceding], ends), shape=shape)
    after = sparse.csr_array((rows.data[right], rows.indices[right] - n_types, rows.indptr - ends), shape=shape)
    return PairBlock(first, after, before)
