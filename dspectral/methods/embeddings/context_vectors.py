"""From a corpus to word vectors: contexts counted, scaled counts decomposed, a power of the singular values."""

import warnings
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dspectral.cooccurrence.contexts import Context, ContextCounts, ContextSettings, window_of
from dspectral.cooccurrence.scaling import most_entries
from dspectral.decomposition.spectrum import Certificate, Plan, Spectrum, reads_of, spectrum
from dspectral.engine import collect_rows, expect_passes, map_rows, memory_limit, numbered, summarize
from dspectral.inputs.sequences import HoldsSentences
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.registry import saved
from dspectral.store.context_counts import spill_contexts
from dspectral.store.counts import CountStore
from dspectral.types import CSRRows


@saved
class EmbeddingRecipe(NamedTuple):
    """How :class:`~dspectral.WordEmbedding` counts and decomposes contexts, beyond what a user would set.

    Attributes
    ----------
    context : {"bag", "list", "zones"}, default="bag"
        Whether a context is a word wherever it stands in the window, a word at a position, or a word within two words
        or farther: with ``"zones"`` each word is two contexts, so that what stands close by says its own.
    distance_weighting : bool, default=True
        Whether a context at distance d counts 1/d instead of 1.
    context_smoothing : float in [0, 1], default=0.75
        Exponent of the sums of contexts, for ``scaling="cca"`` and ``"ppmi"``.
    n_skipped : int, default=1
        Number of leading singular vectors that are left out. The first says little but how frequent a word is; with
        ``count_transform="none"`` and ``"cca"`` it is the trivial pair of correspondence analysis, which says
        nothing else.
    n_contexts : int, optional
        Number of columns that contexts are hashed to; by default each context has its own column.
    sketch_size : int, optional
        Columns of all products of the block Krylov solver together; by default ``4 * (n_components + n_skipped)``,
        more than :class:`~dspectral.TruncatedSVD` takes, because spectra of contexts are flat.
    n_passes : int, default=6
        Number of passes of the block Krylov solver over the counts; 1 is taken as 2, the fewest that it needs.

    Examples
    --------
    >>> EmbeddingRecipe(context="list", n_skipped=0).distance_weighting
    True
    """

    context: Context = "bag"
    distance_weighting: bool = True
    context_smoothing: float = 0.75
    n_skipped: int = 1
    n_contexts: int | None = None
    sketch_size: int | None = None
    n_passes: int = 6


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


class HasShape(Protocol):
    """Rows of a matrix, in memory or lazy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        ...


class WordVectors(NamedTuple):
    """Vectors of word types, and how they were found.

    `vectors` (n_types, k): rows of length 1, or zero; `singular_values` (k,): singular values of the scaled
    counts, without those that are skipped; `certificate`: bound on what is left of the scaled counts outside
    the space that was searched; `n_passes`: number of passes over the scaled counts.
    """

    vectors: NDArray[np.float32]
    singular_values: NDArray[np.float64]
    certificate: Certificate
    n_passes: int


def word_vectors(rows: HasShape, plan: Plan, recipe: EmbeddingRecipe, power: float) -> WordVectors:
    """Decompose scaled counts, A = U S V', and return the rows of ``U S^power``, scaled to length 1.

    Shapes: `rows` (n_types, n_contexts).

    The passes of the solver, and one for the products A V, which are U S.
    """
    # The solver returns right singular vectors V and values S^2: U S = A V takes one more pass, block by block, and
    # only blocks of it are ever in the memory of a task.
    possible = plan._replace(n_components=min(plan.n_components, *rows.shape))
    expect_passes(reads_of(rows, possible) + 1)
    found = _all_components(_leading(rows, possible), plan.n_components, recipe.n_skipped)
    values, axes = np.sqrt(found.values[recipe.n_skipped :]), found.axes[recipe.n_skipped :]
    project = partial(sparse_products.times, Z=np.ascontiguousarray(axes.T))
    with numbered(is_pass=True):
        products = map_rows(rows, project, n_columns=len(values), dtype=plan.dtype, name="vectors")
        vectors = collect_rows(products)
    # The products are U S: one power less is wanted, and 0 where there is no direction.
    weights = np.zeros_like(values)
    np.power(values, power - 1.0, out=weights, where=values > 0)
    return WordVectors(
        unit_rows(vectors * weights).astype(np.float32), values, found.certificate, found.n_passes + 1
    )


def _leading(rows: HasShape, plan: Plan) -> Spectrum:
    """Decompose, without a warning of directions that are missing: the caller has better names for them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components is", category=UserWarning)
        return spectrum(rows, plan)


def _all_components(found: Spectrum, n_wanted: int, n_skipped: int) -> Spectrum:
    """Put zeros in the place of directions that the counts do not have, and warn of them."""
    n_asked, n_found = n_wanted - n_skipped, max(0, int(np.sum(found.values > 0)) - n_skipped)
    if n_found < n_asked:
        warnings.warn(
            f"n_components is {n_asked}, but the context counts have only {n_found} direction(s) beside the first "
            f"n_skipped = {n_skipped}: the other components are zeros",
            UserWarning,
            stacklevel=4,
        )
    missing = n_wanted - len(found.values)
    values, axes = np.pad(found.values, (0, missing)), np.pad(found.axes, ((0, missing), (0, 0)))
    return found._replace(values=values, axes=axes)
