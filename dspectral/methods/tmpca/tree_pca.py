"""Order-aware sentence vectors: principal components of neighboring vectors, level by level."""

from functools import partial
from typing import Any, Self, cast
from warnings import warn

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import map_rows, tracked_fit
from dspectral.inputs.rows import LazyOutputMixin, RunPlanMixin
from dspectral.inputs.sequences import ReadOnceMixin, TokenLists, is_token_lists
from dspectral.inputs.texts import clone_with_shared
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.methods.tmpca.levels import LevelSettings, count_levels, find_levels
from dspectral.methods.tmpca.nodes import OUTPUTS, Output, Trees, encode_trees, n_columns
from dspectral.methods.tmpca.streams import SentencesLike, TreeSettings, WordVectors, encode_lists, make_stream
from dspectral.parameters import check_flag, check_integer, check_option
from dspectral.registry import register_class
from dspectral.types import CheckpointPath


@register_class({"explained_variance_": "components_ k", "explained_variance_ratio_": "components_ k"})
class TreePCA(
    RunPlanMixin, LazyOutputMixin, ReadOnceMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Tree-structured multilinear principal component analysis (TMPCA) of sequences of vectors.

    A sentence is a sequence of N = P^L vectors. Each of L levels concatenates P neighbors and projects them on their
    leading principal components, shared by all positions and sentences. The last level returns one vector. Time is
    linear in N; PCA of whole sentences is cubic.

    Parameters
    ----------
    n_components : int or None, default=None
        Length of the output vectors of each level, from 1 to ``arity`` times the length of an input vector. None is
        the length of the input vectors, as in the paper.
    length : int, default=64
        N, a power of ``arity``. Longer texts are truncated to N tokens, shorter ones padded with zero vectors.
    arity : int, default=2
        P, the number of neighbors to concatenate. ``length == arity`` is plain PCA of concatenated vectors.
    vectors : WordEmbedding, (words, matrix) or None, default=None
        Word vectors for texts: a fitted embedding, or words and vectors as returned by
        :func:`dspectral.read_word2vec`. An out-of-vocabulary word gets the vector of ``"<?>"``, or zeros. With None
        each word is hashed to one of ``n_components`` unit vectors. Clones share the vectors.
    center : bool, default=True
        Whether to use principal components of the covariance, as in the paper, or of the uncentered second moments.
        Projections are never shifted, so padding stays zero.
    whiten : bool, default=False
        Whether to scale the projections of each level to unit variance.
    output : {"root", "levels", "pooled", "sliding"}, default="root"
        Encoding of a sentence, for n = ``n_components``. ``"root"``: the root vector of n numbers, as in the paper.
        ``"levels"``: the nodes of all levels, ``n * (length - 1) / (arity - 1)`` numbers. ``"pool_levels"``: the first
        node, mean, minimum and maximum of each level and of the input vectors, ``4 * (n_dimensions_ + n * L)``
        numbers. ``"sliding"``: as ``"pooled"``, over nodes that start at every word.

    Attributes
    ----------
    components_ : list of ndarray, L of shape (n_components, arity * d)
        Orthonormal rows, lowest level first; the entry largest in magnitude of each is positive. d is
        ``n_dimensions_`` at the first level and ``n_components`` above. Rows beyond the rank of a level are zero.
    means_ : list of ndarray of float64, L of shape (arity * d,)
        Mean of the concatenated vectors of each level.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (L, n_components)
        Variance along each component about the mean (about the origin for ``center=False``), and its share.
    n_dimensions_ : int
        D, the length of an input vector.
    n_sentences_ : int
        Number of sentences.
    n_passes_ : int
        Number of passes: L, or fewer where the nodes of a level fit in memory.

    Notes
    -----
    For texts and arity 2 the covariance of the first level is computed from counts of neighboring tokens, 12 bytes
    for each distinct pair. A task holds its block, a few arrays of 16 MiB, and ``(arity * d)^2`` numbers. Where the
    nodes of a level fit in ``dspectral.memory-limit`` (1 GiB), the client process holds them and the levels above
    need no more passes. Otherwise each pass recomputes the levels below. Padding costs nothing.

    References
    ----------
    Su, Huang and Kuo 2018, "Efficient text classification using tree-structured multi-linear principal component
    analysis", section III.

    Examples
    --------
    >>> words = ["not", "good", "bad"]
    >>> vectors = np.array([[0.2, 1.0], [1.0, 0.1], [-1.0, 0.3]])
    >>> tree = TreePCA(length=4, vectors=(words, vectors))
    >>> tree.fit_transform([["not", "good"], ["good"], ["not", "bad"], ["bad", "bad", "bad"], []]).round(1)
    array([[ 0.8,  0.4],
           [ 0.6, -0.7],
           [-0.7, -1. ],
           [-1.7,  0.2],
           [ 0. ,  0. ]])
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        length: int = 64,
        arity: int = 2,
        vectors: WordVectors | None = None,
        center: bool = True,
        whiten: bool = False,
        output: Output = "root",
    ) -> None:
        self.n_components = n_components
        self.length = length
        self.arity = arity
        self.vectors = vectors
        self.center = center
        self.whiten = whiten
        self.output = output

    @tracked_fit
    def fit(self, X: SentencesLike, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Compute the components of each level, in at most one pass each.

        Parameters
        ----------
        X : Corpus, token lists, or ndarray or Dask array of shape (n, length, n_dimensions)
            Token lists are a list, generator or column of lists of strings. Arrays may also have shape
            (n, length * n_dimensions). Dask arrays must be chunked along the first axis only.
        y : object, optional
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        TreePCA
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, there is no sentence, X has the wrong shape, or an entry is not finite.

        Warns
        -----
        UserWarning
            If the rank of a level is below ``n_components``: its other components are zero.
        """
        n_levels = count_levels(self.length, self.arity)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, at_least=1)
        stream = make_stream(X, self._settings())
        self._check_parameters(stream.trees)
        self.n_dimensions_ = stream.trees.n_dimensions
        settings = self._level_settings()
        levels, self.n_passes_ = find_levels(stream, n_levels, settings)
        ranks = [int(np.count_nonzero(level.values)) for level in levels]
        if min(ranks) < settings.n_components:
            warn(
                f"n_components={settings.n_components} exceeds the rank of a level: the ranks, lowest level first, "
                f"are {', '.join(map(str, ranks))}; other components are zero; lower n_components or add data",
                UserWarning,
                stacklevel=2,
            )
        self.components_ = [level.axes for level in levels]
        self.means_ = [level.mean for level in levels]
        self.explained_variance_ = np.stack([settings.variances(level) for level in levels])
        totals = np.array([level.energy / settings.degrees_of_freedom(level) for level in levels])
        self.explained_variance_ratio_ = self.explained_variance_ / np.where(totals > 0, totals, 1.0)[:, None]
        self.n_sentences_ = levels[-1].n_rows
        return self

    def transform(self, X: SentencesLike) -> Any:
        """Return the encoding of each sentence, as ``output`` selects it.

        Parameters
        ----------
        X : Corpus, token lists, or ndarray or Dask array of shape (n, length, n_dimensions)
            Sentences as for :meth:`fit`.

        Returns
        -------
        ndarray or (for a Dask array or a Corpus) Dask array, shape (n, n_components), or as ``output`` selects
            Zeros for an empty text.
        """
        check_is_fitted(self)
        check_option("output", self.output, OUTPUTS)  # may change after the fit
        axes = list(map(self._level_settings().scale_axes, self.components_, self.explained_variance_))
        # Token lists get ids of their own, with one lookup for each distinct word; unlike a corpus they may be empty.
        if is_token_lists(X):
            block, trees = encode_lists(cast("TokenLists", X), self._settings())
            self._check_fitted(trees)
            with blas_in_one_thread():
                return encode_trees(block, trees=trees, axes=axes, output=self.output)
        stream = make_stream(X, self._settings())
        self._check_fitted(stream.trees)
        project = partial(encode_trees, trees=stream.trees, axes=axes, output=self.output)
        width = n_columns(self.output, stream.trees, axes)
        return map_rows(stream.blocks, project, n_columns=width, name="climb", n_rows=stream.n_rows)

    @property
    def _n_features_out(self) -> int:
        trees = Trees(int(self.length), int(self.arity), self.n_dimensions_)
        return n_columns(self.output, trees, self.components_)

    def __sklearn_clone__(self) -> Self:
        """Return a clone that shares the word vectors."""
        return clone_with_shared(self, "vectors")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags

    def _settings(self) -> TreeSettings:
        n_components = None if self.n_components is None else int(self.n_components)
        return TreeSettings(int(self.length), int(self.arity), self.vectors, n_components)

    def _level_settings(self) -> LevelSettings:
        k = self.n_components or self.n_dimensions_
        return LevelSettings(int(k), self.center, self.whiten)

    def _check_fitted(self, trees: Trees) -> None:
        if trees.n_dimensions != self.n_dimensions_:
            raise ValueError(
                f"the vectors of X have {trees.n_dimensions} dimensions, but must have {self.n_dimensions_}, as in the "
                "fit of TreePCA"
            )

    def _check_parameters(self, trees: Trees) -> None:
        max_components = trees.arity * trees.n_dimensions
        if self.n_components is not None and not 1 <= self.n_components <= max_components:
            raise ValueError(
                f"n_components={self.n_components} must be from 1 to {max_components}, arity={self.arity} times the "
                f"{trees.n_dimensions} dimensions of a vector"
            )
        check_option("output", self.output, OUTPUTS)
        for name in ("center", "whiten"):
            check_flag(name, getattr(self, name))
