"""Vector quantization of frames, for models of discrete tokens."""

from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dspectral.engine import is_lazy, tracked_fit
from dspectral.inputs.rows import RunPlanMixin, check_lossless
from dspectral.parameters import RandomState, check_integer, resolve_seed
from dspectral.registry import register_class
from dspectral.types import AnyArray, CheckpointPath, Doubles, Int32s

BATCH_FRAMES = 4096
"""Frames of a mini-batch of k-means."""
N_KMEANS_STARTS = 3
"""Number of k-means initializations."""
MAX_MAGNITUDE = 1e150
"""Maximum magnitude of an entry; sums of squares then stay finite."""

Frames: TypeAlias = Sequence[ArrayLike] | AnyArray
"""Sequences of frames, shape (n_frames_i, n_features) each, or one matrix of frames."""


@register_class({"mean_": "n_features_in_", "scale_": "n_features_in_", "centers_": "* n_features_in_"})
class VectorQuantizer(RunPlanMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Replace each frame of a sequence by the index of its nearest center (mini-batch k-means).

    Parameters
    ----------
    n_codes : int, default=256
        Number of centers.
    random_state : int, RandomState, Generator or None, default=0
        Seed of k-means.

    Attributes
    ----------
    mean_, scale_ : ndarray of float64, shape (n_features,)
        Mean and standard deviation of each feature, for standardization.
    centers_ : ndarray of float64, shape (n_codes, n_features)
        Centers of the scaled frames.
    n_features_in_ : int
        Number of features of a frame.
    random_state_ : int
        Seed of the fit.

    Notes
    -----
    ``fit`` holds all frames in memory: fit a sample of a long stream, and call ``transform`` on one part at a time.

    Examples
    --------
    >>> frames = [np.array([[0.0], [0.1]]), np.array([[9.0]])]
    >>> codes = VectorQuantizer(2).fit_transform(frames)
    >>> bool(codes[0][0] == codes[0][1] != codes[1][0])
    True
    """

    def __init__(self, n_codes: int = 256, *, random_state: RandomState = 0) -> None:
        self.n_codes = n_codes
        self.random_state = random_state

    @tracked_fit
    def fit(self, X: Frames, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Compute the centers.

        Parameters
        ----------
        X : list of array-like, shape (n_frames_i, n_features), or array-like of shape (n_frames, n_features)
            Sequences of frames, or one matrix of frames.
        y : ignored
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer frames than codes, numbers of features differ, or an entry is not finite.
        """
        check_integer("n_codes", self.n_codes, at_least=1)
        self.random_state_ = resolve_seed(self.random_state)
        frames = self._stack_frames(X, reset=True)
        if len(frames) < self.n_codes:
            raise ValueError(
                f"n_codes={self.n_codes} must be at most n_samples = {len(frames)}, the number of frames in X"
            )
        # Standardize, so that units do not matter; constant features become 0.
        self.mean_, scale = frames.mean(axis=0), frames.std(axis=0)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        means = MiniBatchKMeans(
            self.n_codes, n_init=N_KMEANS_STARTS, batch_size=BATCH_FRAMES, random_state=self.random_state_
        )
        self.centers_ = means.fit((frames - self.mean_) / self.scale_).cluster_centers_
        return self

    def transform(self, X: Frames) -> list[Int32s] | Int32s:
        """Return the code of each frame; ties take the first center.

        Parameters
        ----------
        X : list of array-like, shape (n_frames_i, n_features), or array-like of shape (n_frames, n_features)
            Sequences of frames, or one matrix of frames.

        Returns
        -------
        list of ndarray of int32, shape (n_frames_i,), or ndarray of int32, shape (n_frames, 1)
            Codes of each sequence, or of each row of a matrix.
        """
        check_is_fitted(self)
        if not _is_matrix(X) and not len(X):
            return []
        codes = self._nearest_centers(self._stack_frames(X, reset=False))
        if _is_matrix(X):
            return codes[:, None]
        return list(np.split(codes, np.cumsum([len(np.asarray(frames)) for frames in X])[:-1]))

    @np.errstate(under="ignore")
    def _nearest_centers(self, frames: Doubles) -> Int32s:
        """Return the nearest center of each frame: ``|x - c|^2 = |x|^2 - 2 (x c - |c|^2 / 2)``, a matrix product."""
        scaled = (frames - self.mean_) / self.scale_
        # |x|^2 is the same for all centers, so it is omitted.
        lengths = 0.5 * np.einsum("ij,ij->i", self.centers_, self.centers_)
        return np.asarray(np.argmax(scaled @ self.centers_.T - lengths, axis=1), dtype=np.int32)

    def _stack_frames(self, X: Frames, *, reset: bool) -> Doubles:
        """Return the frames of all sequences as one checked matrix."""
        if is_lazy(X) or hasattr(X, "sentences"):
            raise TypeError(
                f"X is of type {type(X).__name__}, but must be frames in memory: pass some of them at a time as NumPy "
                "arrays"
            )
        for part in [X] if _is_matrix(X) else X:
            check_lossless(part)
        rows = X if _is_matrix(X) else np.concatenate([np.asarray(frames, dtype=np.float64) for frames in X])
        frames = np.asarray(validate_data(self, rows, reset=reset, dtype=np.float64))
        largest = max(frames.max(initial=0.0), -frames.min(initial=0.0))
        if largest > MAX_MAGNITUDE:
            raise ValueError(f"X contains {largest:g}, but magnitudes must be at most {MAX_MAGNITUDE:g}: rescale X")
        return frames

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are always int32
        return tags

    @property
    def _n_features_out(self) -> int:
        return 1


def _is_matrix(X: Frames) -> bool:
    """Return whether X is one matrix (an array, table or lists of numbers) rather than a list of arrays."""
    # Only the first entry is tested, which avoids a copy of all sequences.
    if not isinstance(X, list | tuple):
        return True
    return bool(len(X)) and isinstance(X[0], list | tuple) and np.ndim(X[0]) == 1
