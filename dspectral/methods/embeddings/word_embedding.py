"""Word vectors by spectral decomposition of scaled context counts."""

import warnings
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from dspectral.configuration import get_memory_limit
from dspectral.cooccurrence.contexts import Context, ContextCounts, ContextSettings, make_window
from dspectral.cooccurrence.scaling import ContextScaling, CountTransform, Scaling, bound_entries
from dspectral.decomposition.spectrum import Certificate, Spectrum, SVDOptions, n_block_reads, select_solver, spectrum
from dspectral.engine import collect_rows, count_as_pass, expect_passes, map_rows, summarize, tracked_fit
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.sequences import HoldsSentences, TokenLists, as_corpus
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.embeddings.queries import WordQueries
from dspectral.parameters import MAX_READS, RandomState, check_integer, check_real, resolve_recipe, resolve_seed
from dspectral.registry import register_class
from dspectral.store.context_counts import spill_contexts
from dspectral.store.counts import CountStore
from dspectral.types import CheckpointPath, CSRRows, Doubles, Floats

ENTRY_BYTES = 36
"""Bytes per count while two matrices are merged: 12 in each of them and in the result."""


@register_class()
class EmbeddingRecipe(NamedTuple):
    """Advanced options of :class:`~dspectral.WordEmbedding`.

    Attributes
    ----------
    context : {"bag", "list", "zones"}, default="bag"
        What counts as a context: a word in the window, a word at its position, or a word within two words or farther.
    distance_weighting : bool, default=True
        Whether a context at distance d counts 1/d instead of 1.
    context_smoothing : float in [0, 1], default=0.75
        Exponent of the context sums for ``scaling="cca"`` and ``"ppmi"``.
    n_skipped : int, default=1
        Number of leading singular vectors to drop. The first one mostly encodes word frequency.
    n_contexts : int, optional
        Number of hashed context columns; by default each context has its own column.
    sketch_size : int, optional
        Total number of columns of all products of the block Krylov solver, by default
        ``4 * (n_components + n_skipped)``.
    n_passes : int, default=6
        Number of passes of the block Krylov solver over the counts, at least 2 (1 is treated as 2).
    """

    context: Context = "bag"
    distance_weighting: bool = True
    context_smoothing: float = 0.75
    n_skipped: int = 1
    n_contexts: int | None = None
    sketch_size: int | None = None
    n_passes: int = 6


@register_class({"words_": "n_types", "word_counts_": "n_types", "vectors_": "n_types k", "singular_values_": "k"})
class WordEmbedding(RunPlanMixin, WordQueries, BaseEstimator):
    """Word vectors from the leading singular vectors of transformed and scaled context counts.

    Parameters
    ----------
    n_components : int, default=300
        Length of a vector.
    window : int, default=10
        Number of context words on each side, within the sentence.
    min_count : int, default=1
        Rarer words are replaced by the type ``"<?>"``.
    count_transform : {"sqrt", "log", "none"} or float, default="sqrt"
        Transform of counts before scaling; a float is a positive power.
    scaling : {"cca", "ppmi", "reg", "none"}, default="cca"
        Scaling of counts by word and context sums, see :class:`~dspectral.cooccurrence.ContextScaling`.
    power : float in [-16, 16], default=0.7
        Power p of the singular values in the vectors ``U S^p``.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the solver's random start. The same seed and text give the same bits under every scheduler.
    recipe : EmbeddingRecipe, optional
        Advanced options, see :class:`~dspectral.EmbeddingRecipe`.

    Attributes
    ----------
    words_ : list of str
        Word types by decreasing count; the first is ``"<?>"``, for rare and unknown words.
    word_counts_ : ndarray of int64, shape (n_types,)
        Number of tokens of each word type.
    vectors_ : ndarray of float32, shape (n_types, n_components)
        Unit vectors; zeros for a word without contexts.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the scaled counts, without the skipped ones.
    certificate_ : Certificate
        Error bound of the decomposition.
    out_of_core_ : bool
        Whether the counts were written to the store.
    random_state_ : int
        Seed that was used.
    n_passes_ : int
        Number of passes over the sentences (one) and over the counts.

    Notes
    -----
    Merging counts takes 36 bytes per pair of a type and a context. If an upper bound of this exceeds
    ``dspectral.memory-limit`` (1 GiB), the counts of a corpus in a store are written there by row blocks. A task also
    holds ``n_contexts * sketch_size / (n_passes - 1)`` numbers.

    References
    ----------
    Stratos, Collins and Hsu 2015, "Model-based word embeddings from decompositions of count matrices"; Levy,
    Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings".

    Examples
    --------
    >>> sentences = [["a", "red", "cat"], ["a", "blue", "cat"], ["one", "red", "dog"], ["one", "blue", "dog"]]
    >>> embedding = WordEmbedding.as_published(2, window=1).fit(sentences * 5)
    >>> embedding.most_similar("red", n=1)
    [('blue', 1.0)]
    """

    def __init__(
        self,
        n_components: int = 300,
        *,
        window: int = 10,
        min_count: int = 1,
        count_transform: CountTransform = "sqrt",
        scaling: Scaling = "cca",
        power: float = 0.7,
        random_state: RandomState = 0,
        recipe: EmbeddingRecipe | None = None,
    ) -> None:
        self.n_components = n_components
        self.window = window
        self.min_count = min_count
        self.count_transform = count_transform
        self.scaling = scaling
        self.power = power
        self.random_state = random_state
        self.recipe = recipe

    @classmethod
    def as_published(cls, n_components: int = 300, **parameters: Any) -> Self:
        """Return an estimator with the settings of Stratos et al. 2015: canonical correlation analysis of square roots.

        Five words on each side without distance weighting, square roots, context sums to the power 0.75, vectors
        without singular values.

        Parameters
        ----------
        n_components : int, default=300
            Length of a vector.
        **parameters
            Other parameters of the constructor, which override these settings.

        Returns
        -------
        WordEmbedding
            Unfitted estimator.
        """
        recipe = EmbeddingRecipe(distance_weighting=False, n_skipped=0)
        return cls(n_components, **{"window": 5, "power": 0.0, "recipe": recipe, **parameters})

    @tracked_fit
    def fit(self, X: HoldsSentences | TokenLists, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Count contexts, then scale and decompose the counts.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences. Token lists may be a list, a tuple, a generator or a column of a data frame.
        y : object, optional
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        WordEmbedding
            The estimator itself.

        Raises
        ------
        ValueError
            If there is no word or no context, or a parameter is out of range.

        Warns
        -----
        UserWarning
            If the rank of the counts is below ``n_components``; the other components are zero.
        """
        recipe = self._check_parameters()
        self.random_state_ = resolve_seed(self.random_state)
        corpus = as_corpus(X, min_count=self.min_count)
        if len(corpus.words) == 1:
            raise ValueError(
                f"no word occurs at least min_count = {self.min_count} times: lower min_count or pass more sentences"
            )
        contexts = count_contexts(corpus, int(self.window), recipe)
        scaling = ContextScaling.from_column_sums(
            contexts.column_sums,
            transform=self.count_transform,
            scaling=self.scaling,
            smoothing=recipe.context_smoothing,
        )
        if not scaling.total:
            raise ValueError("no word has a context, but some sentence must have at least two words")
        how: dict[str, Any] = {"dtype": scaling.dtype, "sparse_output": True, "name": "scale"}
        rows = map_rows(contexts.rows, scaling.apply, n_columns=len(contexts.column_sums), **how)
        # Compute n_skipped additional directions and drop the leading ones, which mostly encode word frequency.
        n_wanted = int(self.n_components) + recipe.n_skipped
        svd_options = SVDOptions(
            n_wanted,
            n_passes=max(2, recipe.n_passes),
            sketch_size=recipe.sketch_size or 4 * n_wanted,
            seed=self.random_state_,
            dtype=scaling.dtype,
        )
        # Not solver "in_memory": for the flat spectrum of counts Krylov passes are as accurate and faster.
        svd_options = svd_options._replace(solver=select_solver(svd_options, len(contexts.column_sums)))
        self.vectors_, result = decompose(rows, svd_options, recipe.n_skipped, self.power)
        self.out_of_core_ = contexts.out_of_core
        self.singular_values_ = np.sqrt(result.values[recipe.n_skipped :])
        self.certificate_: Certificate = result.certificate
        self.n_passes_ = result.n_passes + 2  # with that of the sentences and that of the vectors
        self.words_, self.word_counts_ = list(corpus.words), corpus.counts
        return self

    def _check_parameters(self) -> EmbeddingRecipe:
        """Validate the parameters and return the recipe."""
        recipe = resolve_recipe(self.recipe, EmbeddingRecipe)
        check_integer("n_components", self.n_components, at_least=1, at_most=MAX_COMPONENTS)
        for name in ("window", "min_count"):
            check_integer(name, getattr(self, name), at_least=1)
        n_skipped = check_integer("n_skipped", recipe.n_skipped, at_least=0, at_most=MAX_COMPONENTS)
        check_integer("n_passes", recipe.n_passes, at_least=1, at_most=MAX_READS)
        check_real("power", self.power, at_least=-MAX_POWER, at_most=MAX_POWER)
        check_real("context_smoothing", recipe.context_smoothing, at_least=0, at_most=1)
        if recipe.sketch_size is not None:
            check_integer("sketch_size", recipe.sketch_size, at_least=1)
        n_contexts = recipe.n_contexts
        if n_contexts is not None:
            n_contexts = check_integer("n_contexts", n_contexts, at_least=1, at_most=2**31 - 1)
        return recipe._replace(n_skipped=n_skipped, n_contexts=n_contexts)


MAX_COMPONENTS = 1 << 16
"""Largest number of components."""
MAX_POWER = 16.0
"""Largest magnitude of ``power``, so that powers of singular values stay in the range of single precision."""


class CountedContexts(NamedTuple):
    """Context counts (n_types, n_contexts) in memory or in a store, with column sums."""

    rows: "CSRRows | CountStore"
    column_sums: Doubles
    out_of_core: bool


def count_contexts(corpus: HoldsSentences, window: int, recipe: EmbeddingRecipe) -> CountedContexts:
    """Count the contexts of each word type, in the store of the corpus if merging may exceed the memory limit."""
    # bool(), because the settings are written as JSON, which has no numpy.bool.
    settings = ContextSettings(
        len(corpus.words), window, recipe.context, bool(recipe.distance_weighting), recipe.n_contexts
    )
    context_window = make_window(**settings._asdict())
    entries = bound_entries(corpus.counts, n_positions=2 * window, n_contexts=context_window.n_columns)
    location, limit = getattr(corpus, "location", None), get_memory_limit()
    # An upper bound from word counts, without reading the sentences.
    if location is not None and ENTRY_BYTES * int(entries.sum()) > limit:
        max_entries = max(1, limit // ENTRY_BYTES)
        store = spill_contexts(corpus.sentences, location, entries, settings, max_entries=max_entries)
        return CountedContexts(store, store.column_sums, out_of_core=True)
    summarize_block = partial(ContextCounts.from_block, **settings._asdict())
    counts = summarize(corpus.sentences, summarize_block=summarize_block, name="contexts").counts
    return CountedContexts(counts, np.asarray(counts.sum(axis=0), dtype=np.float64), out_of_core=False)


def decompose(rows: Any, svd_options: SVDOptions, n_skipped: int, power: float) -> tuple[Floats, Spectrum]:
    """Decompose scaled counts A = U S V'; return the rows of ``U S^power``, scaled to length 1, and the spectrum."""
    # The solver returns V and S^2. One more pass computes U S = A V block by block.
    possible = svd_options._replace(n_components=min(svd_options.n_components, *rows.shape))
    expect_passes(n_block_reads(rows, possible) + 1)
    leading = spectrum(rows, possible, warns=False)  # missing directions are reported below
    padded = _pad_directions(leading, svd_options.n_components, n_skipped)
    values = np.sqrt(padded.values[n_skipped:])
    project = partial(sparse_products.times, Z=np.ascontiguousarray(padded.axes[n_skipped:].T))
    with count_as_pass(is_pass=True):
        products = map_rows(rows, project, n_columns=len(values), dtype=svd_options.dtype, name="vectors")
        vectors = collect_rows(products)
    # Multiply U S by S^(power - 1), and by 0 for missing directions.
    weights = np.zeros_like(values)
    np.power(values, power - 1.0, out=weights, where=values > 0)
    return normalize_rows(vectors * weights).astype(np.float32), padded


def _pad_directions(directions: Spectrum, n_wanted: int, n_skipped: int) -> Spectrum:
    """Pad the spectrum with zeros to `n_wanted` directions, with a warning."""
    n_components, n_found = n_wanted - n_skipped, max(0, int(np.sum(directions.values > 0)) - n_skipped)
    if n_found < n_components:
        warnings.warn(
            f"n_components is {n_components}, but the context counts have only {n_found} independent direction(s) "
            f"after n_skipped = {n_skipped}: the other components are zero; reduce n_components",
            UserWarning,
            stacklevel=4,
        )
    missing = n_wanted - len(directions.values)
    values, axes = np.pad(directions.values, (0, missing)), np.pad(directions.axes, ((0, missing), (0, 0)))
    return directions._replace(values=values, axes=axes)
