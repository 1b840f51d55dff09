"""Sentences to vectors that know the order of words: principal components of neighbours, level by level."""

from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.moments import Moments
from dspectral.decomposition.plan import Plan
from dspectral.decomposition.spectrum import Spectrum, of_summary
from dspectral.engine import Blocks, blas_in_one_thread, map_rows, summarize
from dspectral.methods.tmpca.moments import KeptNodes, PairCounts, Trees, level_moments, roots
from dspectral.methods.tmpca.nodes import Nodes
from dspectral.methods.tmpca.streams import Stream, block_of_lists, is_text, stream_of
from dspectral.registry import saved
from dspectral.types import FloatArray


class Climb(NamedTuple):
    """Blocks, the axes of the levels that they are projected through as they are read, and whether they are kept."""

    stream: Stream
    axes: list[FloatArray]
    kept: bool


@saved
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
    memory_limit : int
        Bytes that the projected vectors of a level may take in this process: where they fit, they are kept, and the
        levels above are found without another read. 0 keeps none. (The next level, a share of 1/P, is made beside.)
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
        Reads of each block: L, or fewer where a level is kept.

    Notes
    -----
    A task holds its block, 16 MiB of vectors a few times over, and ``(arity * d)^2`` numbers; pairs of tokens take
    12 bytes for each distinct one. While no level is kept, each pass projects through the levels below once more,
    which costs a factor of up to L - 1 in time. Zero vectors at the end of a text cost nothing.

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
        memory_limit: int = 1 << 30,
        fan_in: int = 2,
    ) -> None:
        self.n_components = n_components
        self.length = length
        self.arity = arity
        self.vectors = vectors
        self.center = center
        self.whiten = whiten
        self.first_level = first_level
        self.memory_limit = memory_limit
        self.fan_in = fan_in

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of each level, in one pass each at most.

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
        stream = stream_of(X, **self._how())
        self._check(stream.trees)
        self.n_dimensions_ = stream.trees.n_dimensions
        self.n_passes_ = 0
        levels: list[Spectrum] = []
        climb = Climb(stream, [], kept=False)
        while True:
            levels.append(self._solve(self._moments(climb), stream.trees, len(levels) + 1))
            if len(levels) == n_levels:
                break
            climb = self._above(climb, levels[-1], n_levels - len(levels))
        self._set(levels)
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
        axes = [self._scaled(*of) for of in zip(self.components_, self.explained_variance_, strict=True)]
        if is_text(X) and not hasattr(X, "sentences"):
            block, trees = block_of_lists(X, **self._how())
            self._check_fitted(trees)
            with blas_in_one_thread():
                return roots(block, trees=trees, axes=axes)
        stream = stream_of(X, **self._how())
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

    def _how(self) -> dict[str, Any]:
        how = {"length": self.length, "arity": self.arity}
        return {**how, "vectors": self.vectors, "n_hashed": self.n_components}

    def _check_fitted(self, trees: Trees) -> None:
        if trees.n_dimensions != self.n_dimensions_:
            raise ValueError(
                f"the vectors have {trees.n_dimensions} dimensions, but TreePCA was fitted on {self.n_dimensions_}"
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

    def _moments(self, climb: Climb) -> Moments:
        """Read every block once, for the level above those that axes are of."""
        blocks, trees = climb.stream.blocks, climb.stream.trees
        self.n_passes_ += not climb.kept
        if not climb.axes and trees.table is not None and trees.arity == 2 and self.first_level != "vectors":
            of_pairs = partial(PairCounts.of, n_types=len(trees.table), length=trees.length)
            counted = summarize(blocks, of=of_pairs, fan_in=self.fan_in, name="pairs")
            with blas_in_one_thread():
                return counted.moments(trees.table)
        of = partial(level_moments, trees=trees, axes=climb.axes)
        return summarize(blocks, of=of, fan_in=self.fan_in, name="moments")

    def _above(self, climb: Climb, found: Spectrum, n_left: int) -> Climb:
        """Climb on with the axes of a level, below n_left others; keep the nodes if they fit."""
        stream, trees = climb.stream, climb.stream.trees
        axes = [*climb.axes, self._scaled(found.axes, self._variances(found))]
        n_trees = found.n_rows * trees.arity ** len(axes) // trees.length
        fits = 8 * len(found.axes) * stream.most_nodes(n_trees, len(axes)) <= self.memory_limit
        if not climb.kept and (n_left == 1 or not fits):
            return Climb(stream, axes, kept=False)
        self.n_passes_ += not climb.kept
        of = partial(KeptNodes.of, trees=trees, axes=axes)
        nodes = summarize(stream.blocks, of=of, fan_in=self.fan_in, name="keep").blocks
        above = Trees(trees.length // trees.arity ** len(axes), trees.arity, len(found.axes))
        return Climb(Stream(Blocks(_itself, nodes, in_memory=True), above), [], kept=True)

    def _solve(self, moments: Moments, trees: Trees, level: int) -> Spectrum:
        if not moments.n_rows:
            raise ValueError("there is no sentence, but principal components are of at least one")
        k = self.n_components or trees.n_dimensions
        plan = Plan(k, solver="gram", center=self.center)
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

    def _scaled(self, axes: FloatArray, variances: NDArray[np.float64]) -> FloatArray:
        """Return what joined vectors are multiplied by."""
        return axes / np.sqrt(variances)[:, None] if self.whiten else axes

    def _set(self, levels: list[Spectrum]) -> None:
        self.components_ = [level.axes for level in levels]
        self.means_ = [level.mean for level in levels]
        self.explained_variance_ = np.stack([self._variances(level) for level in levels])
        totals = np.array([level.energy / self._freedom(level) for level in levels])
        self.explained_variance_ratio_ = self.explained_variance_ / totals[:, None]
        self.n_sentences_ = levels[-1].n_rows


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


def _itself(block: Nodes) -> Nodes:
    return block
