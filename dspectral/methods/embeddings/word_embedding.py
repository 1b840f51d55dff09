"""Word vectors from a decomposition of context counts: one template for its many named variants."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.cooccurrence.contexts import Context, ContextCounts, window_of
from dspectral.cooccurrence.scaling import ContextScaling, most_entries
from dspectral.decomposition.plan import Plan
from dspectral.decomposition.spectrum import Certificate, spectrum
from dspectral.engine import collect_rows, map_rows, summarize
from dspectral.inputs.corpora import as_corpus
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.methods.embeddings.nearest import nearest
from dspectral.methods.embeddings.out_of_core import spill_contexts
from dspectral.registry import saved
from dspectral.types import FloatArray

ENTRY_BYTES = 36
"""Of a count while two matrices are merged: 12 bytes in each of them and in the result."""


class Counted(NamedTuple):
    """Context counts, wherever they lie.

    Attributes
    ----------
    rows : csr_array, or a store of counts
        Shape (n_types, n_contexts).
    column_sums : ndarray of float64, shape (n_contexts,)
    """

    rows: Any
    column_sums: NDArray[np.float64]


@saved
class WordEmbedding(BaseEstimator):
    """Vectors of words from the leading singular vectors of their transformed and scaled context counts.

    Parameters
    ----------
    n_components : int
        Length of a vector.
    transform : {"sqrt", "log", "none"} or float
        Of the counts (a float is a power), before they are scaled.
    scaling : {"cca", "ppmi", "reg", "none"}
        See :class:`~dspectral.cooccurrence.scaling.ContextScaling`.
    window : int
        Words on each side that are contexts, within the sentence.
    context : {"bag", "list"}
        Whether a context is a word, or a word at a position.
    distance_weighting : bool
        Whether a context at distance d counts 1/d.
    context_smoothing : float
        Exponent of the sums of contexts in ``"cca"`` and ``"ppmi"``.
    shift : float
        ``"ppmi"`` subtracts its logarithm.
    power : float
        p of ``U S^p``, the vectors.
    n_skipped : int
        Leading singular vectors that are left out: the first says little but how frequent a word is (with
        ``transform="none"`` and ``"cca"`` nothing else: it is the trivial pair of correspondence analysis).
    add_contexts : bool
        Add the vectors of the same words as contexts (``"bag"`` alone).
    n_contexts : int, optional
        Hash contexts to so many columns.
    min_count : int
        Words that occur less often are one type, ``"<?>"``.
    n_passes, sketch_size
        Of the block Krylov solver, as for :class:`~dspectral.TruncatedSVD`, but ``4 n_components`` rows by
        default: spectra of contexts are flat.
    memory_limit : int
        Bytes that the merged counts may take while they are merged. Where they may take more, a corpus in a
        store writes them there by row blocks, and everything after works on those, block by block.
    random_state : int

    Attributes
    ----------
    words_ : list of str
        In order of falling count; the first is ``"<?>"``, for rare and unseen words.
    word_counts_ : ndarray of int64, shape (n_types,)
    vectors_ : ndarray of float32, shape (n_types, n_components)
        Rows of length 1; zeros for a word that never has a context.
    singular_values_ : ndarray of float64, shape (n_components,)
    certificate_ : Certificate
        What is left of the scaled counts outside the space that was searched.
    out_of_core_ : bool
        Whether the counts went to the store.
    n_passes_ : int
        Passes over the sentences (one) and over the counts (those of the solver, one for their sums of columns
        where they are in the store, and one for the vectors).

    Notes
    -----
    Beside the counts a task holds ``n_contexts * sketch_size / (n_passes - 1)`` numbers; the vectors are
    ``n_types * n_components``.

    References
    ----------
    Stratos, Collins and Hsu 2015, "Model-based word embeddings from decompositions of count matrices"; Levy,
    Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings".

    Examples
    --------
    >>> sentences = [["a", "red", "cat"], ["a", "blue", "cat"], ["one", "red", "dog"], ["one", "blue", "dog"]]
    >>> embedding = WordEmbedding(2, window=1, n_skipped=0).fit(sentences * 5)
    >>> embedding.most_similar("red", n=1)
    [('blue', 1.0)]
    """

    def __init__(  # noqa: PLR0913  each choice that the template leaves is a parameter, as scikit-learn wants
        self,
        n_components: int = 300,
        *,
        transform: Literal["sqrt", "log", "none"] | float = "sqrt",
        scaling: Literal["cca", "ppmi", "reg", "none"] = "cca",
        window: int = 10,
        context: Context = "bag",
        distance_weighting: bool = True,
        context_smoothing: float = 0.75,
        shift: float = 1.0,
        power: float = 0.7,
        n_skipped: int = 1,
        add_contexts: bool = False,
        n_contexts: int | None = None,
        min_count: int = 1,
        n_passes: int = 6,
        sketch_size: int | None = None,
        memory_limit: int = 1 << 30,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.transform = transform
        self.scaling = scaling
        self.window = window
        self.context = context
        self.distance_weighting = distance_weighting
        self.context_smoothing = context_smoothing
        self.shift = shift
        self.power = power
        self.n_skipped = n_skipped
        self.add_contexts = add_contexts
        self.n_contexts = n_contexts
        self.min_count = min_count
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.memory_limit = memory_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count contexts, scale and decompose them.

        Parameters
        ----------
        X : Corpus, or list of token lists
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no word, or none with a context, or the vocabulary (or the contexts) are fewer than
            ``n_components``, or have fewer independent directions; or a parameter is out of its range.
        """
        corpus = as_corpus(X, min_count=self.min_count)
        n_types = len(corpus.words)
        if self.add_contexts and (self.context != "bag" or self.n_contexts is not None):
            raise ValueError(
                "add_contexts is True, but contexts are words only where they are a bag, not hashed"
            )
        if self.n_skipped < 0:
            raise ValueError(f"n_skipped is {self.n_skipped}, but it must be 0 or more")
        if not 1 <= self.n_components <= n_types - self.n_skipped:
            raise ValueError(
                f"n_components is {self.n_components}, but it must be from 1 to {n_types - self.n_skipped}: there "
                f"are {n_types} word types (min_count = {self.min_count}) and n_skipped = {self.n_skipped}"
            )
        counted = self._count(corpus)
        scaling = ContextScaling.of(
            counted.column_sums,
            transform=self.transform,
            scaling=self.scaling,
            smoothing=self.context_smoothing,
            shift=self.shift,
        )
        if not scaling.total:
            raise ValueError("no word has a context: every sentence is one word, or none")
        n_columns = len(counted.column_sums)
        rows = map_rows(
            counted.rows,
            scaling.apply,
            n_columns=n_columns,
            dtype=scaling.dtype,
            sparse_output=True,
            name="scale",
        )
        self._decompose(rows, scaling.dtype)
        self.words_, self.word_counts_ = list(corpus.words), corpus.counts
        return self

    def most_similar(
        self, positive: str | Sequence[str], negative: str | Sequence[str] = (), *, n: int = 10
    ) -> list[tuple[str, float]]:
        """Return the words nearest to a sum of word vectors, by the cosine.

        Parameters
        ----------
        positive, negative : str or list of str
            Words whose vectors are added and subtracted; they are not among the answers.
        n : int

        Returns
        -------
        list of (str, float)

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        """
        given = self._ids(positive), self._ids(negative)
        return self._answers(*nearest(self.vectors_, *given, n=n, hidden=(0,)))

    def analogy(
        self, a: str, b: str, c: str, *, method: Literal["add", "mul"] = "add", n: int = 1
    ) -> list[tuple[str, float]]:
        """Return what is to ``c`` as ``b`` is to ``a``.

        Parameters
        ----------
        a, b, c : str
            They are not among the answers.
        method : {"add", "mul"}
            3CosAdd or 3CosMul (Levy and Goldberg 2014).
        n : int

        Returns
        -------
        list of (str, float)

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        """
        given = self._ids([b, c]), self._ids(a)
        return self._answers(*nearest(self.vectors_, *given, n=n, method=method, hidden=(0,)))

    def vector(self, word: str) -> NDArray[np.float32]:
        """Return the vector of a word; one that is not in the vocabulary has that of ``"<?>"``."""
        check_is_fitted(self)
        return self.vectors_[self._numbers().get(word, 0)]  # type: ignore[no-any-return]

    def _count(self, corpus: Any) -> Counted:
        n_types = len(corpus.words)
        how: dict[str, Any] = {
            "n_types": n_types,
            "window": self.window,
            "context": self.context,
            "distance_weighting": bool(self.distance_weighting),
            "n_contexts": self.n_contexts,
        }
        near = window_of(**how)
        entries = most_entries(corpus.counts, n_positions=2 * self.window, n_contexts=near.n_columns)
        where = getattr(corpus, "where", None)
        self.out_of_core_ = where is not None and ENTRY_BYTES * int(entries.sum()) > self.memory_limit
        if where is not None and self.out_of_core_:
            most = max(1, self.memory_limit // ENTRY_BYTES)
            store = spill_contexts(corpus.sentences, where, entries, most=most, **how)
            return Counted(store, store.column_sums)
        counts = summarize(corpus.sentences, of=partial(ContextCounts.of, **how), name="contexts").counts
        return Counted(counts, np.asarray(counts.sum(axis=0), dtype=np.float64))

    def _decompose(self, rows: Any, dtype: Any) -> None:
        n_wanted = self.n_components + self.n_skipped
        plan = Plan(
            n_wanted,
            n_passes=max(2, self.n_passes),
            sketch_size=self.sketch_size or 4 * n_wanted,
            seed=self.random_state,
            dtype=dtype,
        )
        try:
            found = spectrum(rows, plan)
        except ValueError as error:
            asked = f"n_components = {self.n_components} and n_skipped = {self.n_skipped} together"
            raise ValueError(f"{asked} ask for too much of the counts: {error}") from error
        values, axes = np.sqrt(found.values[self.n_skipped :]), found.axes[self.n_skipped :]
        project = partial(sparse_products.times, Z=np.ascontiguousarray(axes.T))
        vectors = collect_rows(map_rows(rows, project, n_columns=len(values), dtype=dtype, name="vectors"))
        weights = np.zeros_like(values)  # components beyond the rank stay zero
        np.power(values, self.power - 1.0, out=weights, where=values > 0)
        vectors = vectors * weights
        if self.add_contexts:
            vectors = unit_rows(vectors) + unit_rows(axes.T * (weights * values))
        self.vectors_ = unit_rows(vectors).astype(np.float32)
        self.singular_values_ = values
        self.certificate_: Certificate = found.certificate
        self.n_passes_ = found.n_passes + 2

    def _numbers(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words_)}

    def _ids(self, words: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        numbers = self._numbers()
        asked = [words] if isinstance(words, str) else list(words)
        for word in asked:
            if word not in numbers:
                raise KeyError(f"{word!r} is not among the {len(numbers)} words of the embedding")
        return [numbers[word] for word in asked]

    def _answers(self, ids: NDArray[np.int64], scores: FloatArray) -> list[tuple[str, float]]:
        return [(self.words_[i], round(float(s), 6)) for i, s in zip(ids.tolist(), scores, strict=True)]
