"""Word vectors from a decomposition of context counts: one template for its many named variants."""

from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.cooccurrence.scaling import ContextScaling, CountTransform, Scaling
from dspectral.decomposition.spectrum import Certificate, Plan
from dspectral.engine import collect_rows, emits_events, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import RandomState, check_integer, check_real, resolve_seed
from dspectral.inputs.rows import LazyOutputMixin
from dspectral.inputs.sequences import (
    HoldsSentences,
    TokenLists,
    as_corpus,
    encode,
    is_corpus,
    token_lists,
    word_numbers,
)
from dspectral.methods.embeddings.context_vectors import EmbeddingRecipe, count_corpus, word_vectors
from dspectral.methods.embeddings.queries import WordQueries
from dspectral.registry import saved
from dspectral.types import CSRRows, Sentences


@saved
class WordEmbedding(
    FittedFactsMixin,
    LazyOutputMixin,
    WordQueries,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Vectors of words from the leading singular vectors of their transformed and scaled context counts.

    Parameters
    ----------
    n_components : int, default=300
        Length of a vector.
    window : int, default=10
        Number of words on each side that are contexts, within the sentence.
    min_count : int, default=1
        Words that occur less often become one type, ``"<?>"``.
    count_transform : {"sqrt", "log", "none"} or float, default="sqrt"
        Transform of counts before they are scaled; a float is a power above 0.
    scaling : {"cca", "ppmi", "reg", "none"}, default="cca"
        How counts are set off against the sums of their word and context; see
        :class:`~dspectral.cooccurrence.ContextScaling` for the formulas.
    power : float, default=0.7
        Power p of the singular values in the vectors ``U S^p``.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the solver's random start. The same seed and text give the same bits under every scheduler.
    recipe : EmbeddingRecipe, optional
        Settings that studies compare; see :class:`~dspectral.EmbeddingRecipe`.

    Attributes
    ----------
    words_ : list of str
        Word types in order of falling count; the first is ``"<?>"``, for rare and unknown words.
    word_counts_ : ndarray of int64, shape (n_types,)
        Number of tokens of each word type.
    vectors_ : ndarray of float32, shape (n_types, n_components)
        Rows of length 1; zeros for a word that never has a context.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the scaled counts, without those that are skipped.
    certificate_ : Certificate
        Bound on what is left of the scaled counts outside the space that was searched.
    out_of_core_ : bool
        Whether the counts went to the store.
    random_state_ : int
        Seed that was used.
    n_passes_ : int
        Number of passes over the sentences (one) and over the counts (those of the solver, one for the sums of
        columns where counts are in the store, and one for the vectors).

    Notes
    -----
    If merging the counts could take more than ``dspectral.memory-limit`` of Dask's configuration (1 GiB where it is
    not set), a corpus in a store keeps them there by row blocks, and everything after works on those, block by block.
    The bound is known before the text is read: a type has as many contexts as there are positions beside its tokens, or
    as there are types, whichever is less, and each takes 36 bytes in a merge. What is really there is fewer, the
    distinct pairs of a type and a context: the peak of a fit in memory was 32 to 58 bytes for each (47 MB for 850,000
    pairs of 10,000 types, 82 MB for 2,700,000 of 30,000, with a window of 2). Sentences in lists have no store.
    Beside the counts a task holds ``n_contexts * sketch_size / (n_passes - 1)`` numbers; the vectors are
    ``n_types * n_components``.

    References
    ----------
    Stratos, Collins and Hsu 2015, "Model-based word embeddings from decompositions of count matrices"; Levy,
    Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings".

    Examples
    --------
    >>> sentences = [["a", "red", "cat"], ["a", "blue", "cat"], ["one", "red", "dog"], ["one", "blue", "dog"]]
    >>> embedding = WordEmbedding.as_published(2, window=1).fit(sentences * 5)
    >>> embedding.most_similar("red", topn=1)
    [('blue', 1.0)]
    >>> embedding.transform([["a", "red", "dog"], ["flurb"]]).shape
    (2, 2)
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
        """Return the plain setting of Stratos et al. 2015: canonical correlation analysis of transformed counts.

        Five words on each side that all count 1, square roots of counts, sums of contexts to the power 0.75, all
        leading left singular vectors, without singular values. ``count_transform="none"``, ``2 / 3`` and ``"sqrt"``
        are the powers that the paper compares.

        Parameters
        ----------
        n_components : int, default=300
            Length of a vector.
        **parameters
            Other parameters of the constructor, which replace those of the setting.

        Returns
        -------
        WordEmbedding
            An estimator that is not fitted yet.

        Examples
        --------
        >>> WordEmbedding.as_published(100, count_transform=2 / 3).window
        5
        """
        recipe = EmbeddingRecipe(distance_weighting=False, n_skipped=0)
        return cls(n_components, **{"window": 5, "power": 0.0, "recipe": recipe, **parameters})

    @emits_events
    def fit(self, X: HoldsSentences | TokenLists, y: object = None) -> Self:
        """Count contexts, scale and decompose them.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences. Token lists may be a list, a tuple, a generator or a column of a data frame.
        y : object, optional
            Ignored.

        Returns
        -------
        WordEmbedding
            The estimator itself.

        Raises
        ------
        ValueError
            If there is no word, none with a context, or a parameter is out of its range.
        TypeError
            If X is not sentences, or a parameter is of a wrong type.

        Warns
        -----
        UserWarning
            If the counts have fewer independent directions than ``n_components``; the other components are zeros.
        """
        recipe = self._check()
        self.random_state_ = resolve_seed(self.random_state)
        corpus = as_corpus(X, min_count=self.min_count)
        if len(corpus.words) == 1:
            raise ValueError(
                f"no word occurs often enough for a vector of its own (min_count = {self.min_count})"
            )
        counted = count_corpus(corpus, self.window, recipe)
        scaling = ContextScaling.of(
            counted.column_sums,
            transform=self.count_transform,
            scaling=self.scaling,
            smoothing=recipe.context_smoothing,
        )
        if not scaling.total:
            raise ValueError("no word has a context: every sentence is one word, or none")
        how: dict[str, Any] = {"dtype": scaling.dtype, "sparse_output": True, "name": "scale"}
        rows = map_rows(counted.rows, scaling.apply, n_columns=len(counted.column_sums), **how)
        # The leading direction of scaled counts mostly tells how frequent words are: n_skipped directions are found
        # beside those asked for, and left out afterwards.
        n_wanted = self.n_components + recipe.n_skipped
        plan = Plan(
            n_wanted,
            n_passes=max(2, recipe.n_passes),
            sketch_size=recipe.sketch_size or 4 * n_wanted,
            seed=self.random_state_,
            dtype=scaling.dtype,
        )
        found = word_vectors(rows, plan, recipe, self.power)
        self.out_of_core_ = counted.out_of_core
        self.vectors_, self.singular_values_ = found.vectors, found.singular_values
        self.certificate_: Certificate = found.certificate
        self.n_passes_ = found.n_passes + 1
        self.words_, self.word_counts_ = list(corpus.words), corpus.counts
        return self

    def transform(self, X: HoldsSentences | TokenLists) -> Any:
        """Return the mean vector of the words of each sentence.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences; words that are not in ``words_`` do not count.

        Returns
        -------
        ndarray of float32, or (for a corpus in a store) Dask array, shape (n_sentences, n_components)
            Mean vectors; zeros for a sentence without a known word.

        Raises
        ------
        ValueError
            If a sentence is not a list of strings.
        TypeError
            If X is not a list of sentences.
        """
        check_is_fitted(self)
        if not is_corpus(X):
            return sentence_means(encode(token_lists(cast("TokenLists", X)), self.words_), self.vectors_)
        # Word ids of a corpus are those of its own vocabulary.
        corpus, numbers = cast("HoldsSentences", X), word_numbers(self)
        places = np.array([numbers.get(word, 0) for word in corpus.words], dtype=np.int32)
        means = map_rows(
            corpus.sentences,
            partial(renumbered_means, places=places, vectors=self.vectors_),
            n_columns=self._n_features_out,
            dtype=np.float32,
            name="means",
            n_rows=[block.n_sentences for block in corpus.sentences.items],
        )
        return collect_rows(means) if corpus.sentences.in_memory else means

    def fit_transform(self, X: HoldsSentences | TokenLists, y: object = None) -> Any:
        """Fit to sentences, and return the mean vector of the words of each.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences; a generator is read once.
        y : object, optional
            Ignored.

        Returns
        -------
        ndarray of float32, or (for a corpus in a store) Dask array, shape (n_sentences, n_components)
            Mean vectors, as :meth:`transform` returns them.
        """
        # A list, as a generator could not be read a second time.
        sentences = X if is_corpus(X) else token_lists(cast("TokenLists", X))
        return self.fit(sentences).transform(sentences)

    @property
    def _n_features_out(self) -> int:
        return int(self.vectors_.shape[1])

    def _check(self) -> EmbeddingRecipe:
        """Refuse wrong parameters, and return the recipe."""
        recipe = EmbeddingRecipe() if self.recipe is None else self.recipe
        if not isinstance(recipe, EmbeddingRecipe):
            raise TypeError(f"recipe is {self.recipe!r:.60}, but it must be an EmbeddingRecipe or None")
        for name in ("n_components", "window", "min_count"):
            check_integer(name, getattr(self, name), at_least=1)
        check_integer("n_skipped", recipe.n_skipped, at_least=0)
        check_integer("n_passes", recipe.n_passes, at_least=1)
        check_real("power", self.power)
        check_real("context_smoothing", recipe.context_smoothing)
        if recipe.sketch_size is not None:
            check_integer("sketch_size", recipe.sketch_size, at_least=1)
        return recipe


def sentence_means(sentences: Sentences, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean vector of the words of each sentence.

    Shapes: `vectors` (n_types, k); returns (n_sentences, k).

    >>> sentence_means(Sentences.of([[1, 2, 0], [0]]), np.array([[9], [1], [3]], dtype=np.float32))
    array([[2.],
           [0.]], dtype=float32)
    """
    # A matrix of sentences by words, whose entries of unknown words are 0: a sentence is then a sparse product.
    known = (sentences.ids > 0).astype(np.float32)
    shape = (sentences.n_sentences, len(vectors))
    words: CSRRows = sparse.csr_array((known, sentences.ids, sentences.offsets), shape=shape)
    n_known = np.asarray(words.sum(axis=1))
    return np.asarray(words @ vectors / np.maximum(n_known, 1.0)[:, None], dtype=np.float32)


def renumbered_means(
    sentences: Sentences, *, places: NDArray[np.int32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean vectors of sentences of another vocabulary.

    Shapes: `vectors` (n_types, k); returns (n_sentences, k).
    """
    return sentence_means(sentences._replace(ids=places[sentences.ids]), vectors)
