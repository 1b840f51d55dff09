"""Context counts of a corpus, in memory or in its store."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.cooccurrence.contexts import ContextCounts, ContextSettings, window_of
from dspectral.cooccurrence.scaling import most_entries
from dspectral.engine import memory_limit, summarize
from dspectral.inputs.sequences import HoldsSentences
from dspectral.methods.embeddings.recipe import EmbeddingRecipe
from dspectral.store.context_counts import spill_contexts
from dspectral.store.counts import CountStore
from dspectral.types import CSRRows

ENTRY_BYTES = 36
"""Bytes of a count while two matrices are merged: 12 in each of them and in the result."""


class Counted(NamedTuple):
    """Context counts in memory or in a store.

    `rows` (n_types, n_contexts): counts of contexts, a row for each word type; `column_sums` (n_contexts,):
    sum of each column; `out_of_core`: whether the rows are in a store.
    """

    rows: "CSRRows | CountStore"
    column_sums: NDArray[np.float64]
    out_of_core: bool


def count_corpus(corpus: HoldsSentences, window: int, recipe: EmbeddingRecipe) -> Counted:
    """Count the contexts of each word type, in the store of the corpus if merging them may not fit memory.

    One pass over the sentences; one more over counts in a store, for their sums. The bound on memory is the entry
    ``dspectral.memory-limit`` of Dask's configuration.
    """
    # bool(), as the settings name the folder of counts in a store, and numpy.bool is no JSON.
    settings = ContextSettings(
        len(corpus.words), window, recipe.context, bool(recipe.distance_weighting), recipe.n_contexts
    )
    near = window_of(**settings._asdict())
    entries = most_entries(corpus.counts, n_positions=2 * window, n_contexts=near.n_columns)
    where, limit = getattr(corpus, "where", None), memory_limit()
    # A bound, from the counts of words alone: the sentences are not read to decide where their contexts go.
    if where is not None and ENTRY_BYTES * int(entries.sum()) > limit:
        most = max(1, limit // ENTRY_BYTES)
        store = spill_contexts(corpus.sentences, where, entries, settings, most=most)
        return Counted(store, store.column_sums, out_of_core=True)
    of = partial(ContextCounts.of, **settings._asdict())
    counts = summarize(corpus.sentences, of=of, name="contexts").counts
    return Counted(counts, np.asarray(counts.sum(axis=0), dtype=np.float64), out_of_core=False)
