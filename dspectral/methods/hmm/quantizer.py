"""Frames of numbers to codes, for models of discrete tokens."""

from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dspectral.engine import is_lazy, tracked_fit
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import RandomState, check_integer, resolve_seed
from dspectral.inputs.rows import check_lossless
from dspectral.registry import Array, register_arrays, register_class
from dspectral.types import CheckpointPath, Doubles, Int32s

BATCH_FRAMES = 4096
"""Frames of a mini-batch of k-means."""
N_KMEANS_STARTS = 3
"""Starts of k-means."""
MAX_MAGNITUDE = 1e150
"""Largest magnitude whose square, and sums of such, are finite numbers."""

Frames: TypeAlias = Sequence[ArrayLike] | NDArray[Any]
"""Sequences of frames, shape (n_frames_i, n_features) each, or all frames as one matrix."""


@register_arrays(
    {
        "mean_": Array("n_features_in_"),
        "scale_": Array("n_features_in_", at_least=5e-324),
        "centers_": Array("* n_features_in_"),
    }
)
@register_class
class VectorQuantizer(FittedFactsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Replace each frame of a sequence by the number of its nearest center (mini-batch k-means).

    Parameters
    ----------
    n_codes : int, default=256
        Number of centers.
    random_state : int, RandomState, Generator or None, default=0
        Seed of k-means.

    Attributes
    ----------
    mean_, scale_ : ndarray of float64, shape (n_features,)
        Mean and standard deviation of each feature, by which frames are first centered and scaled.
    centers_ : ndarray of float64, shape (n_codes, n_features)
        Centers of the scaled frames.
    n_features_in_ : int
        Number of features of a frame.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    ``fit`` holds all frames in memory: give it a sample of a long stream, and ``transform`` one part after the other.

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
        """Find the centers.

        Parameters
        ----------
        X : list of array-like, shape (n_frames_i, n_features), or array-like of shape (n_frames, n_features)
            Sequences of frames, or frames of no sequence in particular.
        y : ignored
            There for scikit-learn's sake.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer frames than codes, features differ in number, or an entry is not finite.
        """
        check_integer("n_codes", self.n_codes, at_least=1)
        self.random_state_ = resolve_seed(self.random_state)
        frames = self._stack(X, reset=True)
        if len(frames) < self.n_codes:
            raise ValueError(f"X has n_samples = {len(frames)} frames, too few for n_codes = {self.n_codes}")
        # Features in different units must not weigh by their unit; one that is constant stays 0.
        self.mean_, scale = frames.mean(axis=0), frames.std(axis=0)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        means = MiniBatchKMeans(
            self.n_codes, n_init=N_KMEANS_STARTS, batch_size=BATCH_FRAMES, random_state=self.random_state_
        )
        self.centers_ = means.fit((frames - self.mean_) / self.scale_).cluster_centers_
        return self

    def transform(self, X: Frames) -> list[Int32s] | Int32s:
        """Return the code of each frame; of equally near centers, the first.

        Parameters
        ----------
        X : list of array-like, shape (n_frames_i, n_features), or array-like of shape (n_frames, n_features)
            Sequences of frames, or frames of no sequence in particular.

        Returns
        -------
        list of ndarray of int32, shape (n_frames_i,), or ndarray of int32, shape (n_frames, 1)
            Codes of each sequence, or of each row of a matrix.
        """
        check_is_fitted(self)
        if is_lazy(X) or _is_matrix(X):
            return self._nearest_centers(self._stack(X, reset=False))[:, None]
        if not len(X):
            return []
        codes = self._nearest_centers(self._stack(X, reset=False))
        return list(np.split(codes, np.cumsum([len(np.asarray(frames)) for frames in X])[:-1]))

    @np.errstate(under="ignore")
    def _nearest_centers(self, frames: Doubles) -> Int32s:
        """Return the nearest center of each frame: ``|x - c|^2 = |x|^2 - 2 (x c - |c|^2 / 2)``, a matrix product."""
        scaled = (frames - self.mean_) / self.scale_
        # |x|^2 is the same for all centers and left out.
        lengths = 0.5 * np.einsum("ij,ij->i", self.centers_, self.centers_)
        return np.asarray(np.argmax(scaled @ self.centers_.T - lengths, axis=1), dtype=np.int32)

    def _stack(self, X: Frames, *, reset: bool) -> Doubles:
        """Return the frames of all sequences as one matrix, and refuse what k-means cannot take."""
        if is_lazy(X) or hasattr(X, "sentences"):
            raise TypeError(
                f"X is of type {type(X).__name__}, a corpus, a store or a lazy array, but it must be frames in "
                "memory: give some of them at a time"
            )
        for part in [X] if _is_matrix(X) else X:
            check_lossless(part)
        rows = X if _is_matrix(X) else _concatenate_frames(X)
        frames = np.asarray(validate_data(self, rows, reset=reset, dtype=np.float64))
        # Distances are sums of squares: beyond this they are infinite, and any center is as near as another.
        largest = max(frames.max(initial=0.0), -frames.min(initial=0.0))
        if largest > MAX_MAGNITUDE:
            raise ValueError(f"X holds {largest:g}, but squares of entries must be finite: divide X first")
        return frames

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are int32, whatever the frames are
        return tags

    @property
    def _n_features_out(self) -> int:
        return 1


def _is_matrix(X: Frames) -> bool:
    """Report whether X is one matrix: an array, a table, or lists of numbers; lists of arrays are sequences."""
    # Only the first entry is looked at: to turn all of a list of sequences into an array would copy it.
    if not isinstance(X, list | tuple):
        return True
    return bool(len(X)) and isinstance(X[0], list | tuple) and np.ndim(X[0]) == 1


def _concatenate_frames(X: Iterable[ArrayLike]) -> Doubles:
    """Return the frames of all sequences, one after the other."""
    try:
        parts = [np.asarray(frames, dtype=np.float64) for frames in X]
    except (TypeError, ValueError) as error:
        raise ValueError(f"sequences of frames must be arrays of numbers: {error}") from error
    if not parts:
        raise ValueError("there is no sequence of frames")
    if len({part.shape[1:] for part in parts}) > 1 or parts[0].ndim != 2:
        shapes = " and ".join(str(part.shape) for part in parts[:2])
        raise ValueError(
            f"sequences of frames have shapes such as {shapes}, but must be (n_frames, n_features)"
        )
    return np.concatenate(parts)
