"""Sentences to vectors that know the order of words: principal components of neighbors, level by level."""

from functools import partial
from typing import Any, Self, cast
from warnings import warn

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import emits_events, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import check_flag, check_integer, check_option
from dspectral.inputs.rows import LazyOutputMixin
from dspectral.inputs.sequences import TokenLists, token_lists
from dspectral.inputs.texts import clone_sharing
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.methods.tmpca.levels import LevelSettings, find_levels, n_levels_of
from dspectral.methods.tmpca.nodes import OUTPUTS, Output, Trees, encode_trees, n_columns
from dspectral.methods.tmpca.streams import (
    SentencesLike,
    TreeSettings,
    WordVectors,
    block_of_lists,
    is_lists,
    stream_of,
)
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import KeepPath


@has_arrays(
    {
        "vectors": Array("* *", "fiu", optional=True),
        "components_": Array("k *", each=True),
        "means_": Array("*", each=True),
        "explained_variance_": Array("components_ k", at_least=0),
        "explained_variance_ratio_": Array("components_ k", at_least=0),
    }
)
@saved
class TreePCA(
    FittedFactsMixin, LazyOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Tree-structured multilinear principal component analysis (TMPCA) of sequences of vectors.

    A sentence is N = P^L vectors. At each of L levels, P neighbors are concatenated and projected on the leading
    principal components of all such concatenations, of all positions and sentences alike; after the last level one
    vector is left. Time is linear in N, where the components of the whole sentence take its cube.

    Parameters
    ----------
    n_components : int or None, default=None
        Length of the vectors of each level but the lowest, from 1 to ``arity`` times the length of a given vector.
        None takes the length of those (the paper's).
    length : int, default=64
        N, a power of ``arity``. A longer text is cut after N tokens; in the place of missing ones, at its end, are
        zero vectors.
    arity : int, default=2
        P, the number of neighbors that are joined. With ``length == arity`` this is plain PCA of the concatenated
        vectors.
    vectors : WordEmbedding, (words, matrix) or None, default=None
        Vectors of words, for texts: a fitted embedding, or words and their vectors as
        :func:`dspectral.read_word2vec` returns them. An unknown word has the vector of ``"<?>"`` where there is one,
        else zeros. With None a word is one-hot in one of ``n_components`` dimensions that it is hashed to. Clones
        share the vectors instead of copying them.
    center : bool, default=True
        Whether principal components are those of the covariance (the paper's) or, uncentered, of the second moments.
        What is projected is not shifted in either case, so that padding stays zero.
    whiten : bool, default=False
        Whether projections are scaled to unit variance, at each level.
    output : {"root", "levels", "pooled", "sliding"}, default="root"
        Numbers that a sentence becomes, with n = ``n_components``: ``"root"``, the one vector of n numbers (the
        paper's); ``"levels"``, the nodes of all levels in their places, ``n * (length - 1) / (arity - 1)`` numbers;
        ``"pooled"``, of each level, the given vectors included, the first node, the mean, the least and the largest
        over the sentence, ``4 * (n_dimensions_ + n * L)`` numbers; ``"sliding"``, the same of nodes that begin at
        every word, where those of a tree begin at each P-th, P^2-th, ...

    Attributes
    ----------
    components_ : list of ndarray, L of shape (n_components, arity * d)
        Orthonormal rows, the lowest level first; the entry largest in magnitude of each is positive. d is
        ``n_dimensions_`` in the first, ``n_components`` in the others. Rows are zero where a level has fewer
        independent directions.
    means_ : list of ndarray of float64, L of shape (arity * d,)
        Mean of the concatenated vectors of each level.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (L, n_components)
        Variance along each component about the mean, or (``center=False``) about the origin, and its share.
    n_dimensions_ : int
        D, the length of a given vector.
    n_sentences_ : int
        Number of sentences.
    n_passes_ : int
        Reads of each block: L, or fewer where a level is kept.

    Notes
    -----
    For texts and arity 2 the covariance of the first level follows from counts of neighboring tokens, 12 bytes a
    distinct pair. A task holds its block, 16 MiB of vectors a few times over, and ``(arity * d)^2`` numbers. Where
    the projected vectors of a level fit into ``dspectral.memory-limit`` (1 GiB), they are kept in this process, and
    the levels above need no other read; else each pass projects through the levels below once more. Zero vectors at
    the end of a text cost nothing.

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

    @emits_events
    def fit(self, X: SentencesLike, y: object = None, *, keep: KeepPath = None) -> Self:
        """Find the components of each level, in one pass each at most.

        Parameters
        ----------
        X : Corpus, token lists, or ndarray or Dask array of shape (n, length, n_dimensions)
            Token lists are a list, generator or column of lists of strings. Arrays may have the vectors of a sentence
            one after the other, shape (n, length * n_dimensions); Dask arrays are cut along the first axis alone.
        y : object, optional
            Ignored.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        TreePCA
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of its range, there is no sentence, X has another shape, or a number is not finite
            (its place is named).

        Warns
        -----
        UserWarning
            If levels have fewer independent directions than ``n_components``: the other components are zero.
        """
        n_levels = n_levels_of(self.length, self.arity)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, at_least=1)
        stream = stream_of(X, self._settings())
        self._check(stream.trees)
        self.n_dimensions_ = stream.trees.n_dimensions
        settings = self._level_settings()
        levels, self.n_passes_ = find_levels(stream, n_levels, settings)
        ranks = [int(np.count_nonzero(level.values)) for level in levels]
        if min(ranks) < settings.n_components:
            warn(
                f"n_components is {settings.n_components}, but the levels have only {', '.join(map(str, ranks))} "
                "independent direction(s), the lowest first: the other components are zero",
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

    def fit_transform(self, X: SentencesLike, y: object = None, **fit_params: Any) -> Any:
        """Find the components, then return what is left of each sentence.

        Parameters
        ----------
        X : Corpus, token lists, or ndarray or Dask array of shape (n, length, n_dimensions)
            Sentences as for :meth:`fit`; a generator is read once.
        y : object, optional
            Ignored.
        **fit_params : dict
            Ignored.

        Returns
        -------
        ndarray or (for a Dask array or a Corpus) Dask array, shape (n, n_components), or as ``output`` says
            As :meth:`transform` returns it.
        """
        X = token_lists(cast("TokenLists", X)) if is_lists(X) else X
        return self.fit(X, y).transform(X)

    def transform(self, X: SentencesLike) -> Any:
        """Return what is left of each sentence.

        Parameters
        ----------
        X : Corpus, token lists, or ndarray or Dask array of shape (n, length, n_dimensions)
            Sentences as for :meth:`fit`.

        Returns
        -------
        ndarray or (for a Dask array or a Corpus) Dask array, shape (n, n_components), or as ``output`` says
            Zeros for an empty text.
        """
        check_is_fitted(self)
        check_option("output", self.output, OUTPUTS)  # it may be set after the fit, which is the same for all
        axes = list(map(self._level_settings().scaled, self.components_, self.explained_variance_))
        # Token lists are numbered by their own words, so a vector is looked up once for each distinct one; and they
        # may all be empty, which a corpus may not.
        if is_lists(X):
            block, trees = block_of_lists(cast("TokenLists", X), self._settings())
            self._check_fitted(trees)
            with blas_in_one_thread():
                return encode_trees(block, trees=trees, axes=axes, output=self.output)
        stream = stream_of(X, self._settings())
        self._check_fitted(stream.trees)
        project = partial(encode_trees, trees=stream.trees, axes=axes, output=self.output)
        width = n_columns(self.output, stream.trees, axes)
        return map_rows(stream.blocks, project, n_columns=width, name="climb", n_rows=stream.n_rows)

    @property
    def _n_features_out(self) -> int:
        trees = Trees(int(self.length), int(self.arity), self.n_dimensions_)
        return n_columns(self.output, trees, self.components_)

    def __sklearn_clone__(self) -> Self:
        """Return a clone that shares the vectors, which may be those of a fitted embedding."""
        return clone_sharing(self, "vectors")

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
                f"the vectors have {trees.n_dimensions} dimensions, but TreePCA was fitted on {self.n_dimensions_}"
            )

    def _check(self, trees: Trees) -> None:
        most = trees.arity * trees.n_dimensions
        if self.n_components is not None and not 1 <= self.n_components <= most:
            raise ValueError(
                f"n_components is {self.n_components}, but it must be from 1 to {most}: arity = {self.arity} vectors "
                f"of {trees.n_dimensions} dimensions are joined"
            )
        check_option("output", self.output, OUTPUTS)
        for name in ("center", "whiten"):
            check_flag(name, getattr(self, name))
