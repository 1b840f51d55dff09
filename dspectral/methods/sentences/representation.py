"""Sentence representations: counts beside a second half, by equation 2 of the paper that of unlabeled text."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.spectrum import Plan, Solver, Spectrum, spectrum
from dspectral.engine import emits_events, map_rows, summarize
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import (
    MOST_READS,
    RandomState,
    check_integer,
    check_option,
    check_real,
    resolve_seed,
)
from dspectral.inputs.texts import TextColumn, TextsOrCounts, as_documents, is_texts
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.registry import Array, has_arrays, saved
from dspectral.store.columns import columns_of
from dspectral.store.coordinates import write_rows
from dspectral.store.from_text.text_files import TextFiles
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.weighting import DocumentFrequencies, Weighting
from dspectral.types import CSRRows, Documents, IntArray, KeepPath, Rows, RowsLike

Half: TypeAlias = Literal["sent", "sketch", "idf", "idf+sent"]
HALVES: tuple[Half, ...] = ("sent", "sketch", "idf", "idf+sent")
"""Directions weighed by rarity, directions alone, rarity alone, and rarity beside directions weighed by it."""


def half_of(present: CSRRows, projection: NDArray[np.float32], kind: Half) -> CSRRows:
    """Return one of the second halves of sentences.

    Shapes: `present` (n_sentences, n_words), `projection` (n_words, n_components); returns (n_sentences,
    n_components).

    >>> present = sparse.csr_array(np.array([[1, 1], [0, 1]], dtype=np.float32))
    >>> P = np.array([[3, 0], [4, 0]], dtype=np.float32)
    >>> half_of(present, P, "sent").toarray(), half_of(present, P, "idf").toarray().round(2)
    (array([[1., 0.],
           [1., 0.]]), array([[0.6, 0.8],
           [0. , 1. ]]))
    """
    if kind == "idf+sent":
        sides = [half_of(present, projection, side) for side in ("idf", "sent")]
        # Each of length one, both together too.
        return sparse.csr_array(sparse.hstack(sides, format="csr") * np.sqrt(0.5))
    if kind == "idf":
        lengths = np.sqrt(np.einsum("ij,ij->i", projection, projection, dtype=np.float64))
        return Weighting(column_weights=lengths, norm="l2").apply(present.astype(np.float64))
    vectors = unit_rows(projection) if kind == "sketch" else projection
    rows = unit_rows(sparse_products.times(present, np.asarray(vectors)))
    return sparse.csr_array(rows.astype(np.float64))


WORD = re.compile(r"(?u)\b\w\w+\b")
"""scikit-learn's token pattern: words of two letters or more."""


class SentenceFeatures(FittedFactsMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of representations: n-grams beside what :meth:`embed` of a subclass returns."""

    n_features: int
    ngram_range: tuple[int, int]
    weight: float
    halves: ClassVar[tuple[Half, ...]] = HALVES[:1]

    @property
    def word_hashing(self) -> HashingSettings:
        """Hashing of the words of unlabeled text, for example by ``build_store``."""
        return HashingSettings(self.n_features, (1, 1), lowercase=True, alternate_sign=False)

    @abstractmethod
    def embed(self, X: TextColumn) -> NDArray[np.float32]:
        """Return the second half of the representation, shape (n_sentences, n_components)."""

    def second_half(self, X: TextColumn, kind: str = "sent") -> CSRRows:
        """Return the second half of the representation of one kind, without its weight: rows of unit length, or zeros.

        ``"sent"`` is what :meth:`embed` returns; where words have learned directions, ``"sketch"`` leaves out their
        rarity, ``"idf"`` the directions, and ``"idf+sent"`` puts ``"idf"`` and ``"sent"`` side by side.
        """
        return self._half(X, check_option("kind", kind, self.halves))

    def _half(self, X: TextColumn, _kind: Half) -> CSRRows:
        return sparse.csr_array(self.embed(X).astype(np.float64))

    @property
    @abstractmethod
    def _embedding_size(self) -> int:
        """Number of columns of :meth:`embed`."""

    def fit_transform(self, X: TextsOrCounts, y: object = None, **fit_params: Any) -> CSRRows:
        """Fit to sentences, then represent them; a generator is read once."""
        # Packed once: a generator would be empty when transform asks for it again.
        texts = as_documents(X) if is_texts(X) else X
        rows: CSRRows = self.fit(texts, y).transform(texts)
        return rows

    def transform(self, X: TextColumn) -> CSRRows:
        """Represent sentences.

        Parameters
        ----------
        X : list of str, generator, array of strings, or column of pandas, polars or Hugging Face Datasets
            Sentences; bytes are read as UTF-8.

        Returns
        -------
        csr_array of float64, shape (n_sentences, n_features + n_components)
            Counts, then the second half times ``weight``.
        """
        check_real("weight", self.weight)
        texts = as_documents(X)
        second = self.weight * self.second_half(texts)
        return sparse.csr_array(sparse.hstack([self.counts(texts), second], format="csr"))

    def counts(self, X: TextColumn) -> CSRRows:
        """Return the hashed n-grams of sentences, scaled to unit length, ``x / ||x||``; no fit is needed."""
        hashing = HashingSettings(self.n_features, self.ngram_range)
        rows = hash_documents(as_documents(X), hashing).astype(np.float64)
        return Weighting(norm="l2").apply(rows)

    def positions(self, X: TextColumn) -> CSRRows:
        """Return the first two words of sentences by position, hashed, as ones; no fit is needed."""
        # A word with its place before it, "0_play", is another word to the hash than "play" or "1_play".
        texts = as_documents(X)
        decoded = (texts.text(i).decode().lower() for i in range(texts.n_documents))
        marked = [
            " ".join(f"{place}_{word}" for place, word in enumerate(WORD.findall(text)[:2]))
            for text in decoded
        ]
        return hash_documents(Documents.of(marked), self.word_hashing).astype(np.float64)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return a name for each column of :meth:`transform`: ``ngram0``, ..., then ``component0``, ..."""
        sizes = {"ngram": self.n_features, "component": self._embedding_size}
        names = [f"{kind}{i}" for kind, size in sizes.items() for i in range(size)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


SOLVER: Solver = "auto"
"""Solver of the decomposition, as for :class:`~dspectral.TruncatedSVD`."""


@saved
class SentenceRecipe(NamedTuple):
    """How :class:`~dspectral.SentenceRepresentation` finds directions, for comparisons.

    Attributes
    ----------
    sketch_size : int or None, default=None
        Number of columns of all products together, or of rows of the sketch of one pass, at least ``n_components``.
        None takes ``5 n_components + 10``, and ``2 n_components + 10`` for one pass.
    n_passes : int, default=3
        How often block Krylov iteration reads the sentences for the directions where these are too many to be
        decomposed in memory; it comes closer to the exact directions with each. One pass is Frequent Directions, which
        loses by every cut and by an order of the rows that is none of chance.
    """

    sketch_size: int | None = None
    n_passes: int = 3


@has_arrays(
    {
        "words_": Array("n_words", "i", at_least=0, below="n_features", order="rising"),
        "projection_": Array("n_words k"),
        "singular_values_": Array("k", at_least=0),
    }
)
@saved
class SentenceRepresentation(TopTermsMixin, SentenceFeatures):
    """Represent a sentence by its n-grams and by what its words mean in unlabeled text.

    The result is ``x / ||x||`` beside ``weight * b P / ||b P||``: x counts hashed n-grams, b says which words
    occur, and P holds one vector a word, from the leading directions of the unlabeled sentences.

    Parameters
    ----------
    n_components : int, default=200
        Length of a word's vector.
    n_features : int, default=2**18
        Number of columns that n-grams are hashed to, a power of two; words are hashed to as many.
    ngram_range : tuple of int, default=(1, 3)
        Smallest and largest number of words of an n-gram in x, within 1 to 3.
    weight : float, default=1.0
        Factor of the second half.
    min_document_frequency : int, default=2
        Words in fewer unlabeled sentences have no vector.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the products. The same seed and blocks give the same bits under every scheduler.
    recipe : SentenceRecipe or None, default=None
        Passes and size of the sketch, for comparisons; None takes the defaults of :class:`~dspectral.SentenceRecipe`.

    Attributes
    ----------
    projection_ : ndarray of float32, shape (n_words, n_components)
        P, the vectors of the words.
    words_ : ndarray of int64, shape (n_words,)
        The hashed columns that have a vector, in ascending order.
    certificate_ : Certificate
        Bound on what lies outside the directions that were found.
    solver_ : str
        The solver that found the directions.
    n_passes_ : int
        Reads of each block: those for the directions, and one for the document frequencies where X is not a store
        that already knows them.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the weighted sentences, from below.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    Three departures from the paper, each of which its own recipe loses without (plain directions of raw
    counts lower the accuracy on public data: they are function words):

    - what is decomposed is b with columns divided by the root of their document frequency and rows scaled to
      unit length, as in canonical correlation and correspondence analysis;
    - each word's row of P, its vector times the singular values, is scaled to unit length and then by the
      word's inverse document frequency, so that no word drowns the others;
    - words alone are projected, since n-grams inherit their words' directions with more noise.

    Up to ``dspectral.in-memory-bytes`` (128 MiB) of weighted sentences are decomposed in memory, exactly. Beyond it
    products of ``2.5 n_components`` columns for each word are taken, in single precision. Neither depends on how
    sentences are cut or ordered, but for rounding. Where the sentences have fewer independent directions than
    ``n_components``, the other columns of P are zero, and a warning says how many there are.

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

    halves = HALVES

    def __init__(
        self,
        n_components: int = 200,
        *,
        n_features: int = 2**18,
        ngram_range: tuple[int, int] = (1, 3),
        weight: float = 1.0,
        min_document_frequency: int = 2,
        random_state: RandomState = 0,
        recipe: SentenceRecipe | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_features = n_features
        self.ngram_range = ngram_range
        self.weight = weight
        self.min_document_frequency = min_document_frequency
        self.random_state = random_state
        self.recipe = recipe

    @emits_events
    def fit(self, X: "TextsOrCounts | TextFiles", y: object = None, *, keep: KeepPath = None) -> Self:
        """Learn a vector for each word from unlabeled sentences.

        Parameters
        ----------
        X : list of str, generator, column of texts, TextFiles, or counts of shape (n_sentences, n_features)
            Sentences as for :meth:`transform`, or the files that hold them; or counts of words hashed with
            :attr:`word_hashing`: a store, an array, a SciPy sparse matrix or a Dask array of either.
        y : object, optional
            Ignored.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        SentenceRepresentation
            The estimator itself.

        Raises
        ------
        ValueError
            If the width is not ``n_features``, a store was hashed otherwise, no word is frequent enough for a
            vector, or a parameter is out of range.
        """
        self._check_parameters()
        self.random_state_ = resolve_seed(self.random_state)
        counts = self._words_of(X)
        frequency, n_rows, n_counted = _document_frequency(counts)
        # Words that no sentence has are among the hashed columns too, so 0 means 1.
        words = np.flatnonzero(frequency >= max(1, self.min_document_frequency))
        if not len(words):
            raise ValueError(
                f"no word is in {self.min_document_frequency} of the {n_rows} unlabeled sentences or more: give more "
                "text, or lower min_document_frequency"
            )
        found = self._directions(counts, words, frequency[words])
        # P: a word's vector times the singular values has the length that its frequency gives it. That length is
        # replaced by the inverse document frequency, so that no word drowns the others.
        vectors = unit_rows(found.axes[:, : len(words)].T * np.sqrt(found.values))
        # Plus 1, so that a word that is in every sentence keeps a weight.
        rarity = np.log(n_rows / frequency[words]) + 1.0
        self.projection_ = (vectors * rarity[:, None]).astype(np.float32)
        self.words_ = words
        self.singular_values_ = np.sqrt(found.values)
        self.certificate_, self.solver_ = found.certificate, found.solver
        self.n_passes_ = found.n_passes + n_counted
        return self

    def embed(self, X: "TextsOrCounts | TextFiles", *, out: str | None = None) -> Any:
        """Return the second half of the representation, without its weight.

        Parameters
        ----------
        X : as for :meth:`fit`
            Sentences, files, or counts of words.
        out : str, optional
            Where to write it, as :func:`dspectral.write_coordinates` does.

        Returns
        -------
        ndarray or (for lazy input) Dask array of float32, shape (n_sentences, n_components)
            ``b P / ||b P||``; zeros where no word is known. With ``out`` Coordinates.
        """
        check_is_fitted(self)
        of = partial(_embedded, weighting=self._presence, projection=self.projection_)
        Z = map_rows(self._words_of(X), of, n_columns=self._embedding_size, dtype=np.float32, name="embed")
        return Z if out is None else write_rows(Z, out)

    def _half(self, X: TextColumn, kind: Half) -> CSRRows:
        check_is_fitted(self)
        return half_of(self._presence.apply(self._words_of(X)), self.projection_, kind)

    @property
    def _presence(self) -> Weighting:
        """Whether a word is there, for each that has a vector."""
        return Weighting("binary", columns=self.words_)

    @property
    def _embedding_size(self) -> int:
        check_is_fitted(self)
        return int(self.projection_.shape[1])

    @property
    def _recipe(self) -> SentenceRecipe:
        return SentenceRecipe() if self.recipe is None else self.recipe

    def _term_weights(self) -> NDArray[np.float32]:
        return self.projection_.T

    def _term_columns(self) -> tuple[NDArray[np.int64], int]:
        return self.words_, self.n_features

    def _term_names(self) -> None:
        return None  # `words_` are columns

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, at_least=1)
        if isinstance(self.n_features, Integral) and self.n_components > self.n_features:
            raise ValueError(
                f"n_components is {self.n_components}, but it must be at most n_features, which is {self.n_features}"
            )
        check_integer("min_document_frequency", self.min_document_frequency, at_least=0)
        check_real("weight", self.weight)
        recipe = self._recipe
        if not isinstance(recipe, SentenceRecipe):
            raise TypeError(f"recipe is {recipe!r:.60}, but it must be a SentenceRecipe, or None")
        check_integer("n_passes", recipe.n_passes, at_least=1, at_most=MOST_READS)

    def _words_of(self, X: "TextsOrCounts | TextFiles") -> Any:
        """Return the counts of words of sentences, or the counts that are given after a check."""
        if isinstance(X, TextFiles):
            return X.hashed(self.word_hashing)
        if is_texts(X):
            return hash_documents(as_documents(X), self.word_hashing)
        self._check_counts(X)
        return X

    def _check_counts(self, counts: Any) -> None:
        if counts.shape[-1] != self.n_features:
            raise ValueError(
                f"the counts have {counts.shape[-1]} columns, but n_features is {self.n_features}"
            )
        # Arrays in memory do not say how they were hashed; rows of a store do, and other columns would be other words.
        columns = columns_of(counts)
        if columns is not None and columns.hashing != self.word_hashing:
            raise ValueError(
                f"the store was hashed with {columns.hashing or columns.kind}, but words are hashed with "
                f"{self.word_hashing}: build it with hashing=NgramHashing(...) of these settings"
            )

    def _directions(self, counts: RowsLike, words: NDArray[np.int64], frequency: IntArray) -> Spectrum:
        """Decompose the weighted sentences; nothing but the decomposition itself reads them."""
        # Empty columns stand for missing words, so that few words give zeros as few sentences do.
        n_components = int(self.n_components)
        width = max(len(words), n_components)
        # A sentence is its set of words, each divided by the root of its document frequency, and scaled to unit length
        # so that a long sentence counts as one.
        weighting = Weighting("binary", frequency**-0.5, words, "l2")
        weigh = partial(_weigh, weighting=weighting, n_columns=width)
        weighted = map_rows(
            counts, weigh, n_columns=width, dtype=np.float32, sparse_output=True, name="weigh"
        )
        # Single precision: words' vectors are kept so, and it takes half the memory.
        recipe = self._recipe
        plan = Plan(
            n_components,
            solver=SOLVER,
            n_passes=recipe.n_passes,
            sketch_size=recipe.sketch_size or (5 * n_components + 10 if recipe.n_passes > 1 else None),
            seed=self.random_state_,
            dtype=np.float32,
        )
        return spectrum(weighted, plan)


def _embedded(rows: Rows, *, weighting: Weighting, projection: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors of one block of sentences. Shapes: `rows` (n, d), returns (n, n_components)."""
    return unit_rows(sparse_products.times(weighting.apply(sparse.csr_array(rows)), projection))


def _weigh(rows: Rows, *, weighting: Weighting, n_columns: int) -> CSRRows:
    # The matrix has the same entries in more columns: those beyond the words are empty.
    found = weighting.apply(sparse.csr_array(rows))
    return sparse.csr_array((found.data, found.indices, found.indptr), shape=(found.shape[0], n_columns))


def _document_frequency(counts: Any) -> tuple[NDArray[np.int64], int, int]:
    """Return the frequency of each column, the number of rows, and the passes that it took to know them."""
    # A store has counted them when it was built: that pass is saved.
    known = getattr(counts, "document_frequency", None)
    if known is not None:
        return known, counts.n_rows, 0
    found = summarize(counts, of=DocumentFrequencies.of, name="count")
    return found.document_frequency, found.n_rows, 1
