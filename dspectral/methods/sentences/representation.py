"""Sentence representation by n-gram counts and, by equation 2 of the paper, word vectors from unlabeled text."""

from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.spectrum import Solver, Spectrum, SVDOptions, spectrum
from dspectral.engine import map_rows, summarize, tracked_fit
from dspectral.inputs.texts import TextColumn, TextsOrCounts, as_documents, is_text_collection
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.sentences.features import HALF_KINDS, HalfKind, SentenceFeatures, compute_half
from dspectral.parameters import MAX_READS, RandomState, check_integer, check_real, resolve_recipe, resolve_seed
from dspectral.registry import register_class
from dspectral.store.columns import get_columns
from dspectral.store.coordinates import write_rows
from dspectral.store.from_text.text_files import TextFiles
from dspectral.text.hashing import hash_documents
from dspectral.text.tokenizers import TokenizerLike
from dspectral.text.weighting import DocumentFrequencies, Weighting
from dspectral.types import CheckpointPath, CSRRows, Floats, Int64s, IntArray, Rows, RowsLike

SOLVER: Solver = "auto"
"""Solver of the decomposition, as for :class:`~dspectral.TruncatedSVD`."""


@register_class()
class SentenceRecipe(NamedTuple):
    """Solver settings of :class:`~dspectral.SentenceRepresentation` for comparisons.

    Attributes
    ----------
    sketch_size : int or None, default=None
        Total number of columns of the Krylov products, or rows of the one-pass sketch; at least ``n_components``.
        None takes ``5 n_components + 10``, or ``2 n_components + 10`` for one pass.
    n_passes : int, default=3
        Passes of block Krylov iteration if the sentences do not fit in memory. More passes are more accurate. One pass
        uses Frequent Directions, which depends on the block size and on the order of rows.
    """

    sketch_size: int | None = None
    n_passes: int = 3


@register_class({"words_": "n_words", "projection_": "n_words k", "singular_values_": "k"})
class SentenceRepresentation(TopTermsMixin, SentenceFeatures):
    """Represent a sentence by its n-grams and by word vectors that are fitted to unlabeled text.

    The result concatenates ``x / ||x||`` and ``weight * b P / ||b P||``. x holds hashed n-gram counts, b is 1 for each
    word that occurs, and each row of P is the vector of a word, from the leading directions of unlabeled sentences.

    Parameters
    ----------
    n_components : int, default=200
        Number of components of a word's vector.
    n_features : int, default=2**18
        Number of columns that n-grams and words are hashed to: a power of two.
    ngram_range : tuple of int, default=(1, 3)
        Smallest and largest number of words of an n-gram in x, within 1 to 3.
    weight : float, default=1.0
        Factor of the second half relative to the first.
    min_df : int, default=2
        Words in fewer unlabeled sentences get no vector.
    tokenizer : callable, str or None, default="auto"
        Tokenizer of words, as for :class:`NgramHashing`; "auto" cuts texts in scripts without spaces into pairs of
        letters.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the Krylov iteration. The same seed and blocks give the same bits under every scheduler.
    recipe : SentenceRecipe or None, default=None
        Solver settings for comparisons; None takes the defaults of :class:`~dspectral.SentenceRecipe`.

    Attributes
    ----------
    projection_ : ndarray of float32, shape (n_words, n_components)
        P: the vectors of the words.
    words_ : ndarray of int64, shape (n_words,)
        The hashed columns of words that have a vector, ascending.
    certificate_ : Certificate
        Bound on the energy outside the computed directions.
    solver_ : str
        Name of the solver.
    n_passes_ : int
        Number of times that each block was read: for the directions, and once for the document frequencies, which a
        store already has.
    n_sentences_ : int
        Number of unlabeled sentences.
    singular_values_ : ndarray of float64, shape (n_components,)
        Lower bounds of the singular values of the weighted sentences.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    Three steps differ from the paper. Without any one of them accuracy on public data is lower, because the
    directions of raw counts represent function words:

    - The decomposed matrix is b with columns divided by the root of their document frequency and rows scaled to unit
      length, as in canonical correlation and correspondence analysis.
    - Each row of P is a word's vector times the singular values. Its length is the word's inverse document frequency,
      so that frequent words do not dominate.
    - Only words are projected: the directions of longer n-grams are noisier.

    Up to a quarter of ``dspectral.in-memory-bytes`` (32 MiB) of weighted sentences are decomposed exactly in memory.
    Larger input uses block Krylov iteration with ``2.5 n_components`` columns per pass in single precision. Except for
    rounding, neither depends on the block size or on the order of sentences. If the sentences have fewer than
    ``n_components`` independent directions, the remaining columns of P are zero, and a warning states the number.

    References
    ----------
    Kim, Stratos and Sarikaya 2016, "Scalable semi-supervised query classification using matrix sketching",
    equation 2 and section 3.1; Stratos and Collins 2015, "Simple semi-supervised POS tagging".

    Examples
    --------
    >>> unlabeled = ["play some jazz music", "play loud rock music", "book one cheap flight", "book my flight"]
    >>> sent = SentenceRepresentation(2, n_features=1024).fit(unlabeled)
    >>> sent.transform(["play jazz", "cheap flight"]).shape
    (2, 1026)
    """

    half_kinds = HALF_KINDS

    def __init__(
        self,
        n_components: int = 200,
        *,
        n_features: int = 2**18,
        ngram_range: tuple[int, int] = (1, 3),
        weight: float = 1.0,
        min_df: int = 2,
        tokenizer: TokenizerLike | None = "auto",
        random_state: RandomState = 0,
        recipe: SentenceRecipe | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_features = n_features
        self.ngram_range = ngram_range
        self.weight = weight
        self.min_df = min_df
        self.tokenizer = tokenizer
        self.random_state = random_state
        self.recipe = recipe

    @tracked_fit
    def fit(self, X: "TextsOrCounts | TextFiles", y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Compute a vector for each word of unlabeled sentences.

        Parameters
        ----------
        X : list of str, generator, column of texts, TextFiles, or counts of shape (n_sentences, n_features)
            Sentences as for :meth:`transform`, text files, or word counts that were hashed with
            :attr:`word_hashing`: a store, an array, a SciPy sparse matrix, or a Dask array of either.
        y : object, optional
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        SentenceRepresentation
            The fitted estimator.

        Raises
        ------
        ValueError
            If the number of columns is not ``n_features``, a store has other hashing settings, no word reaches
            ``min_df``, or a parameter is out of range.
        """
        self._check_parameters()
        self.random_state_ = resolve_seed(self.random_state)
        counts = self._count_words(X)
        frequency, n_rows, n_counting_passes = _document_frequency(counts)
        # Hashed columns include words that never occur, so 0 means 1.
        words = np.flatnonzero(frequency >= max(1, self.min_df))
        if not len(words):
            raise ValueError(
                f"no word occurs in min_df={self.min_df} of the {n_rows} unlabeled "
                "sentences: lower it, or pass more text"
            )
        result = self._decompose(counts, words, frequency[words])
        # The length of a word's vector depends on its frequency. It is replaced by the inverse document frequency, so
        # that frequent words do not dominate.
        values = result.values
        vectors = normalize_rows(result.axes[:, : len(words)].T * np.sqrt(values))
        # Plus 1, so that a word in every sentence has a positive weight.
        idf = np.log(n_rows / frequency[words]) + 1.0
        self.projection_ = (vectors * idf[:, None]).astype(np.float32)
        self.words_, self.n_sentences_ = words, int(n_rows)
        self.singular_values_ = np.sqrt(values)
        self.certificate_, self.solver_ = result.certificate, result.solver
        self.n_passes_ = result.n_passes + n_counting_passes
        return self

    def embed(self, X: "TextsOrCounts | TextFiles", *, out: str | None = None) -> Any:
        """Return the second half of the representation without its weight.

        Parameters
        ----------
        X : as for :meth:`fit`
            Sentences, files, or counts of words.
        out : str, optional
            Path or URL to write to, as for :func:`dspectral.write_coordinates`.

        Returns
        -------
        ndarray or (for lazy input) Dask array of float32, shape (n_sentences, n_components)
            ``b P / ||b P||``; zeros for a sentence without any known word. With ``out`` Coordinates.
        """
        check_is_fitted(self)
        embed_block = partial(_embed_block, weighting=self._presence, projection=self.projection_)
        Z = map_rows(self._count_words(X), embed_block, n_columns=self._embedding_size, dtype=np.float32, name="embed")
        return Z if out is None else write_rows(Z, out)

    def _compute_half(self, X: TextColumn, kind: HalfKind) -> CSRRows:
        check_is_fitted(self)
        return compute_half(self._presence.apply(self._count_words(X)), self.projection_, kind)

    @property
    def _presence(self) -> Weighting:
        """Weighting that is 1 for each word with a vector that occurs."""
        return Weighting("binary", columns=self.words_)

    @property
    def _embedding_size(self) -> int:
        check_is_fitted(self)
        return int(self.projection_.shape[1])

    @property
    def _recipe(self) -> SentenceRecipe:
        return resolve_recipe(self.recipe, SentenceRecipe)

    def _term_weights(self) -> Floats:
        return self.projection_.T

    def _term_columns(self) -> tuple[Int64s, int]:
        return self.words_, self.n_features

    def _term_names(self) -> None:
        return None  # `words_` are columns

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, at_least=1)
        if isinstance(self.n_features, Integral) and self.n_components > self.n_features:
            raise ValueError(f"n_components={self.n_components} must be at most n_features={self.n_features}")
        check_integer("min_df", self.min_df, at_least=0)
        check_real("weight", self.weight)
        check_integer("n_passes", self._recipe.n_passes, at_least=1, at_most=MAX_READS)

    def _count_words(self, X: "TextsOrCounts | TextFiles") -> Any:
        """Count the words of sentences, or check given counts."""
        if isinstance(X, TextFiles):
            return X.hash_ngrams(self.word_hashing)
        if is_text_collection(X):
            return hash_documents(as_documents(X), self.word_hashing)
        self._check_counts(X)
        return X

    def _check_counts(self, counts: Any) -> None:
        if counts.shape[-1] != self.n_features:
            raise ValueError(f"X has {counts.shape[-1]} columns, but must have n_features={self.n_features}")
        # Only a store records its hashing settings. Other settings would assign columns to other words.
        columns = get_columns(counts)
        if columns is not None and columns.hashing != self.word_hashing:
            raise ValueError(
                f"the store was hashed with {columns.hashing or columns.kind}, but must have {self.word_hashing}: "
                "build it with hashing=word_hashing of this representation"
            )

    def _decompose(self, counts: RowsLike, words: Int64s, frequency: IntArray) -> Spectrum:
        """Compute the leading singular vectors of the weighted sentence matrix without storing it."""
        # Pad with empty columns to at least n_components, so that missing directions become zeros.
        n_components = int(self.n_components)
        width = max(len(words), n_components)
        # Each word has the weight df**-0.5, and each sentence unit length, so that long sentences do not dominate.
        weighting = Weighting("binary", frequency**-0.5, words, "l2")
        weigh = partial(_weigh, weighting=weighting, n_columns=width)
        weighted = map_rows(counts, weigh, n_columns=width, dtype=np.float32, sparse_output=True, name="weigh")
        # projection_ has single precision, so the solver needs no more.
        recipe = self._recipe
        options = SVDOptions(
            n_components,
            solver=SOLVER,
            n_passes=recipe.n_passes,
            sketch_size=recipe.sketch_size or (5 * n_components + 10 if recipe.n_passes > 1 else None),
            seed=self.random_state_,
            dtype=np.float32,
        )
        return spectrum(weighted, options)


def _embed_block(rows: Rows, *, weighting: Weighting, projection: Floats) -> Floats:
    """Return the vectors of a block of sentences. Shapes: `rows` (n, d); returns (n, n_components)."""
    return normalize_rows(sparse_products.times(weighting.apply(sparse.csr_array(rows)), projection))


def _weigh(rows: Rows, *, weighting: Weighting, n_columns: int) -> CSRRows:
    # Columns after those of the words are empty.
    weighted = weighting.apply(sparse.csr_array(rows))
    return sparse.csr_array((weighted.data, weighted.indices, weighted.indptr), shape=(rows.shape[0], n_columns))


def _document_frequency(counts: Any) -> tuple[Int64s, int, int]:
    """Return the document frequency of each column, the number of rows, and the number of passes needed."""
    # A store computed the document frequencies when it was built.
    stored = getattr(counts, "document_frequency", None)
    if stored is not None:
        return stored, counts.n_rows, 0
    summary = summarize(counts, summarize_block=DocumentFrequencies.from_block, name="count")
    return summary.document_frequency, summary.n_rows, 1
