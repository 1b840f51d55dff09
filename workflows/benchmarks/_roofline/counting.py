"""Counts of words in context, sums of such counts, and the exchange of words between clusters."""

import numpy as np
from scipy import sparse

from dspectral.cooccurrence import ContextCounts

from .data import sentences, tokens, types_of
from .limits import adding, copying, gathering
from .loops import Loop, Run, Share, kernel

WINDOW = 5
CLUSTERS = 200
EMBEDDING, BROWN = "word embedding", "brown clusters"


def window_counts(size: int, seed: int) -> tuple[Run, Run]:
    """Make counts of contexts of five words on each side."""
    block, n_types = sentences(size, seed), types_of(size)
    lengths = np.diff(block.offsets)
    # A word at place i of n has min(i, 5) words before it, and as many follow from the other end.
    reach = np.arange(1, WINDOW + 1)
    pairs = 2 * np.maximum(0, lengths[:, None] - reach).sum()
    amount = 16.0 * pairs  # a sum of 8 bytes is read and written for each word and context
    return (
        Run(lambda: ContextCounts.of(block, n_types=n_types, window=WINDOW), amount),
        adding(block.ids, WINDOW, n_types),
    )


def merge_counts(size: int, seed: int) -> tuple[Run, Run]:
    """Make the sum of the counts of two blocks."""
    n_types = types_of(size)
    one, other = (
        ContextCounts.of(sentences(size, seed + i), n_types=n_types, window=WINDOW) for i in range(2)
    )
    # A value of 8 bytes and an index of 4 for each entry, of both and of their sum.
    entries = one.counts.nnz + other.counts.nnz + one.merge(other).counts.nnz
    return Run(lambda: one.merge(other), 12.0 * entries), copying(max(8, 6 * entries))


def exchange(size: int, seed: int) -> tuple[Run, Run]:
    """Make one sweep of all words over 200 clusters."""
    ids, n_types = tokens(size, seed), types_of(size)
    m = min(CLUSTERS, n_types // 2)
    pairs = (np.ones(len(ids) - 1), (ids[:-1], ids[1:]))
    counts = sparse.csr_array(sparse.coo_array(pairs, shape=(n_types, n_types)))
    of, pairs = kernel("methods.brown.exchange:bigrams_of"), kernel("methods.brown.pair_counts:PairCounts")
    sweep = kernel("methods.brown.exchange:exchange_sweep")
    (block,), labels = of(pairs.of(counts)), (np.arange(n_types) % m).astype(np.int32)
    # Clusters that stand beside a word, each once a side: that many rows of counts and of their worth are read.
    near = [
        np.unique(np.repeat(np.arange(n_types), np.diff(starts)) * m + labels[others]) % m
        for starts, others in ((block.starts, block.others), (block.starts_back, block.others_back))
    ]
    rows = np.concatenate(near).astype(np.int32)
    amount = 16.0 * m * len(rows)  # a count of 8 bytes and its worth of 8 bytes for each cluster
    return (
        Run(lambda: sweep([block], labels.copy(), m), amount),
        gathering(rows, np.ones((m, 2 * m))),
    )


LOOPS = (
    Loop(
        "window counts",
        "byte",
        "16 bytes x pairs of a word and a context: a sum is read and written",
        "the same sums in the order of the text, nothing else",
        window_counts,
        (Share(EMBEDDING, ("cooccurrence/windows.py:count_contexts",)),),
    ),
    Loop(
        "sparse merge of counts",
        "byte",
        "12 bytes x entries of both and of their sum: value and index are read or written",
        "a copy of as many bytes",
        merge_counts,
        (Share(EMBEDDING, ("cooccurrence/contexts.py:merge",)),),
    ),
    Loop(
        "exchange sweep",
        "byte",
        "16 bytes x clusters x neighboring clusters of all words: a row of counts and one of their worth",
        "rows of as many doubles gathered and added up, nothing else",
        exchange,
        (Share(BROWN, ("brown/exchange.py:exchange_sweep",)),),
    ),
)
