"""Sentences to vectors that know the order of words: principal components of neighbours, level by level."""

from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.estimators.corpora import as_corpus, check_lists, encode
from dspectral.estimators.spectrum import Plan, Spectrum, of_summary
from dspectral.estimators.token_vectors import n_dimensions_of, token_table
from dspectral.graph import blas_in_one_thread, is_lazy, map_rows, summarize
from dspectral.summaries.moments import Moments
from dspectral.summaries.trees import PairCounts, Trees, level_moments, roots
from dspectral.types import FloatArray


class Stream(NamedTuple):
    """What is read, how it becomes trees, and how many rows each block will be (where that must be said)."""

    blocks: Any
    trees: Trees
    n_rows: list[int] | None = None


class TreePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Tree-structured multilinear principal component analysis (TMPCA) of sequences of vectors.

    A sentence is N = P^L vectors. At each of L levels, P neighbours are concatenated and projected on the leading
    principal components of all such concatenations, of all positions and sentences alike; after the last level one
    vector is left. Time is linear in N, where the components of the whole sentence take its cube.

    Parameters
    ----------
    n_components : int, optional
        Length of the vectors of each level but the lowest, from 1 to ``arity`` times the length of a given vector.
        By default as long as those (the paper's).
    length : int
        N, a power of ``arity``. A longer text is cut after N tokens; in the place of missing ones, at its end, are
        zero vectors.
    arity : int
        P. With ``length == arity`` this is plain PCA of the concatenated vectors.
    vectors : WordEmbedding, (words, matrix) or None
        For texts: a fitted embedding, or words and their vectors as :func:`dspectral.read_word2vec` returns them.
        An unknown word has the vector of ``"<?>"`` where there is one, else zeros. With None a word is one-hot in
        one of ``n_components`` dimensions that it is hashed to.
    center : bool
        Whether principal components are those of the covariance (the paper's) or, uncentred, of the second moments.
        Projections are linear in both cases, as the paper's equation: what is projected is not shifted, so that
        padding stays zero at all levels and an empty text is a row of zeros. scikit-learn's PCA subtracts the mean,
        a constant, from every row.
    whiten : bool
        Whether projections are scaled to unit variance, at each level. Of whitened neighbours, components come from
        what they have in common, not from what is large.
    first_level : {"auto", "pairs", "vectors"}
        ``"pairs"`` counts pairs of neighbouring tokens, from which with the vectors of the words the covariance of
        the first level follows: exact sums, the same bits for any blocks, in memory for the distinct pairs. For
        texts and arity 2 alone, where ``"auto"`` means it.
    fan_in : int
        Neighbours that a merge takes.

    Attributes
    ----------
    components_ : list of ndarray, L of shape (n_components, arity * d)
        Orthonormal rows, the lowest level first; the entry largest in magnitude of each is positive. d is
        ``n_dimensions_`` in the first, ``n_components`` in the others.
    means_ : list of ndarray of float64, L of shape (arity * d,)
        Of the concatenated vectors.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (L, n_components)
        About the mean, or (``center=False``) about the origin.
    n_dimensions_ : int
        D, of a given vector.
    n_sentences_ : int
    n_passes_ : int
        Reads of each block: L.

    Notes
    -----
    A task holds its block, 16 MiB of vectors a few times over, and ``(arity * d)^2`` numbers; pairs of tokens take
    12 bytes for each distinct one. Nothing is kept of a level but its components: each pass projects through the
    levels below once more, the cost of 1/P + 1/P^2 + ... of a pass.

    References
    ----------
    Su, Huang and Kuo 2018, "Efficient text classification using tree-structured multi-linear principal component
    analysis", section III.

    Examples
    --------
    >>> words = ["not", "good", "bad"]
    >>> vectors = np.array([[0.0, 1.0], [1.0, 0.1], [-1.0, 0.1]])
    >>> tree = TreePCA(length=4, vectors=(words, vectors))
    >>> tree.fit_transform([["not", "good"], ["good"], ["not", "bad"], ["bad", "bad", "bad"], []]).round(1)
    array([[ 0.8, -0.7],
           [ 0.6,  0.7],
           [-0.7,  0.7],
           [-1.7, -0.3],
           [ 0. ,  0. ]])
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        length: int = 64,
        arity: int = 2,
        vectors: Any = None,
        center: bool = True,
        whiten: bool = False,
        first_level: Literal["auto", "pairs", "vectors"] = "auto",
        fan_in: int = 2,
    ) -> None:
        self.n_components = n_components
        self.length = length
        self.arity = arity
        self.vectors = vectors
        self.center = center
        self.whiten = whiten
        self.first_level = first_level
        self.fan_in = fan_in

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of each level, in one pass each.

        Parameters
        ----------
        X : Corpus, list of token lists, ndarray or Dask array of shape (n, length, n_dimensions)
            Dask arrays are cut along the first axis alone.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If ``length`` is not a power of ``arity``, there is no sentence, a number is not finite (block, sentence,
            position and dimension are named), X has another shape, or ``n_components`` is more than
            ``arity * n_dimensions`` or than a level has independent directions (the level is named).
        """
        n_levels = n_levels_of(self.length, self.arity)
        stream = self._texts(X) if _is_text(X) else self._arrays(X)
        self._check(stream.trees)
        levels: list[Spectrum] = []
        while len(levels) < n_levels:
            axes = [level.axes for level in levels]
            below = _projections(axes, map(self._variances, levels), whiten=self.whiten)
            moments = self._moments(stream, below)
            levels.append(self._solve(moments, stream.trees, len(levels) + 1))
        self.components_ = [level.axes for level in levels]
        self.means_ = [level.mean for level in levels]
        self.explained_variance_ = np.stack([self._variances(level) for level in levels])
        totals = np.array([level.energy / self._freedom(level) for level in levels])
        self.explained_variance_ratio_ = self.explained_variance_ / totals[:, None]
        self.n_dimensions_ = stream.trees.n_dimensions
        self.n_sentences_ = levels[-1].n_rows
        self.n_passes_ = n_levels
        return self

    def transform(self, X: Any) -> Any:
        """Return the one vector that is left of each sentence.

        Parameters
        ----------
        X : as for ``fit``

        Returns
        -------
        ndarray or (for a Dask array or a Corpus) Dask array, shape (n, n_components)
            Zeros for an empty text.

        Raises
        ------
        ValueError
            If a number is not finite, or X has another shape than what was fitted.
        """
        check_is_fitted(self)
        axes = _projections(self.components_, self.explained_variance_, whiten=self.whiten)
        if _is_text(X) and not hasattr(X, "sentences"):
            return self._of_lists(X, axes)
        stream = self._texts(X) if _is_text(X) else self._arrays(X)
        self._check_fitted(stream.trees)
        project = partial(roots, trees=stream.trees, axes=axes)
        return map_rows(stream.blocks, project, n_columns=len(axes[-1]), name="climb", n_rows=stream.n_rows)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_[-1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags

    def _texts(self, X: Any) -> Stream:
        corpus = as_corpus(X)
        trees = self._trees(list(corpus.words))
        items = corpus.sentences.items
        known = all(hasattr(item, "n_sentences") for item in items)
        return Stream(corpus.sentences, trees, [item.n_sentences for item in items] if known else None)

    def _trees(self, words: list[str]) -> Trees:
        d = n_dimensions_of(self.vectors, self.n_components)
        return Trees(self.length, self.arity, d, token_table(self.vectors, words, d))

    def _of_lists(self, X: Any, axes: list[FloatArray]) -> FloatArray:
        sentences = list(X)
        check_lists(sentences)
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        trees = self._trees(words)
        self._check_fitted(trees)
        with blas_in_one_thread():
            return roots(encode(sentences, words), trees=trees, axes=axes)

    def _check_fitted(self, trees: Trees) -> None:
        if trees.n_dimensions != self.n_dimensions_:
            raise ValueError(
                f"the vectors have {trees.n_dimensions} dimensions, but TreePCA was fitted on {self.n_dimensions_}"
            )

    def _arrays(self, X: Any) -> Stream:
        lazy = is_lazy(X)
        if not lazy:
            X = np.asarray(X)
        if X.ndim != 3 or X.shape[1] != self.length or not X.shape[2]:
            raise ValueError(
                f"X has shape {X.shape}, but it must be (sentences, length = {self.length}, dimensions)"
            )
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X is an array of {X.dtype}, but it must be one of numbers")
        if lazy and any(len(sizes) > 1 for sizes in X.chunks[1:]):
            raise ValueError(
                "the Dask array is cut within sentences, but a block must hold whole ones: call "
                "X.rechunk({1: -1, 2: -1}) first"
            )
        return Stream(
            X.reshape(X.shape[0], X.shape[1] * X.shape[2]), Trees(self.length, self.arity, X.shape[2])
        )

    def _check(self, trees: Trees) -> None:
        most, asked = self.arity * trees.n_dimensions, self.n_components
        if asked is not None and not 1 <= asked <= most:
            raise ValueError(
                f"n_components is {asked}, but it must be from 1 to {most}: arity = {self.arity} vectors of "
                f"{trees.n_dimensions} dimensions are joined"
            )
        if self.first_level not in ("auto", "pairs", "vectors"):
            raise ValueError(
                f"first_level is {self.first_level!r}, but it must be 'auto', 'pairs' or 'vectors'"
            )
        if self.first_level == "pairs" and (trees.table is None or self.arity != 2):
            raise ValueError(
                f"first_level is 'pairs', but arity is {self.arity}: pairs of tokens are of texts, and of arity 2"
                if trees.table is not None
                else "first_level is 'pairs', but X is an array of vectors: pairs of tokens are of texts"
            )

    def _moments(self, stream: Stream, axes: list[FloatArray]) -> Moments:
        """Read every block once, for the level above those that axes are of."""
        trees = stream.trees
        if not axes and trees.table is not None and trees.arity == 2 and self.first_level != "vectors":
            of_pairs = partial(PairCounts.of, n_types=len(trees.table), length=trees.length)
            counted = summarize(stream.blocks, of=of_pairs, fan_in=self.fan_in, name="pairs")
            with blas_in_one_thread():
                return counted.moments(trees.table)
        of = partial(level_moments, trees=trees, axes=axes)
        return summarize(stream.blocks, of=of, fan_in=self.fan_in, name=f"level-{len(axes) + 1}")

    def _solve(self, moments: Moments, trees: Trees, level: int) -> Spectrum:
        if not moments.n_rows:
            raise ValueError("there is no sentence, but principal components are of at least one")
        k = self.n_components or trees.n_dimensions
        plan = Plan(k, "gram", 1, None, "full", self.center, self.fan_in, 0, np.float64)
        with blas_in_one_thread():
            found = of_summary(moments, plan)
        if len(found.values) < k:
            raise ValueError(
                f"n_components is {k}, but the {moments.n_rows} vectors of level {level} have only "
                f"{len(found.values)} independent direction(s): ask for at most that many components"
            )
        return found

    def _freedom(self, level: Spectrum) -> int:
        return max(1, level.n_rows - 1) if self.center else level.n_rows

    def _variances(self, level: Spectrum) -> NDArray[np.float64]:
        return level.values / self._freedom(level)


def _projections(axes: list[FloatArray], variances: Any, *, whiten: bool) -> list[FloatArray]:
    """Return what joined vectors are multiplied by at each level."""
    if not whiten:
        return list(axes)
    return [level / np.sqrt(of_level)[:, None] for level, of_level in zip(axes, variances, strict=True)]


def n_levels_of(length: int, arity: int) -> int:
    """Return L, of which ``length == arity**L``.

    Raises
    ------
    ValueError
        If there is none: the nearest lengths that have one are named.

    Examples
    --------
    >>> n_levels_of(64, 2), n_levels_of(9, 3), n_levels_of(7, 7)
    (6, 2, 1)
    """
    if arity < 2:
        raise ValueError(f"arity is {arity}, but at least 2 neighbours are joined")
    n_levels, reached = 1, arity
    while reached < length:
        n_levels, reached = n_levels + 1, reached * arity
    if reached != length:
        below = f"{reached // arity} or " if n_levels > 1 else ""
        raise ValueError(
            f"length is {length}, but it must be a power of arity = {arity}: {below}{reached}, for instance"
        )
    return n_levels


def _is_text(X: Any) -> bool:
    """Whether X is a corpus, or anything that is not an array of numbers: lists of tokens."""
    if hasattr(X, "sentences"):
        return True
    return not (is_lazy(X) or (hasattr(X, "ndim") and X.dtype.kind != "O"))
