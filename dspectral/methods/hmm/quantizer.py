"""Frames of numbers to codes: what models of discrete tokens need before real-valued observations."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.validation import check_is_fitted

from dspectral.registry import saved


@saved
class VectorQuantizer(TransformerMixin, BaseEstimator):
    """Replace each frame of a sequence by the number of its nearest centre (mini-batch k-means).

    Parameters
    ----------
    n_codes : int
    n_init : int
        Starts of k-means.
    batch_size : int
        Frames of a mini-batch.
    random_state : int

    Attributes
    ----------
    mean_, scale_ : ndarray of float64, shape (n_features,)
        Each feature is first centred and divided by its standard deviation.
    centers_ : ndarray of float64, shape (n_codes, n_features)
        Of the scaled frames.

    Notes
    -----
    ``fit`` holds all frames in memory: give it a sample of a long stream.

    Examples
    --------
    >>> frames = [np.array([[0.0], [0.1]]), np.array([[9.0]])]
    >>> codes = VectorQuantizer(2).fit_transform(frames)
    >>> bool(codes[0][0] == codes[0][1] != codes[1][0])
    True
    """

    def __init__(
        self, n_codes: int = 256, *, n_init: int = 3, batch_size: int = 4096, random_state: int = 0
    ) -> None:
        self.n_codes = n_codes
        self.n_init = n_init
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Sequence[Any], y: Any = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X : list of ndarray, shape (n_frames_i, n_features)
        y : ignored

        Raises
        ------
        ValueError
            If there are fewer frames than codes, features differ in number, or one is not finite.
        """
        frames = stacked(X)
        if len(frames) < self.n_codes:
            raise ValueError(f"there are {len(frames)} frames, too few for n_codes = {self.n_codes}")
        self.mean_, scale = frames.mean(axis=0), frames.std(axis=0)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        means = MiniBatchKMeans(
            self.n_codes, n_init=self.n_init, batch_size=self.batch_size, random_state=self.random_state
        )
        self.centers_ = means.fit((frames - self.mean_) / self.scale_).cluster_centers_
        return self

    def transform(self, X: Sequence[Any]) -> list[NDArray[np.int32]]:
        """Return the codes of each sequence, shape (n_frames_i,); of equally near centres, the first."""
        check_is_fitted(self)
        if not len(X):
            return []
        scaled = (stacked(X) - self.mean_) / self.scale_
        lengths = 0.5 * np.einsum("ij,ij->i", self.centers_, self.centers_)
        codes = np.argmax(scaled @ self.centers_.T - lengths, axis=1).astype(np.int32)
        return list(np.split(codes, np.cumsum([len(frames) for frames in X])[:-1]))


def stacked(X: Sequence[Any]) -> NDArray[np.float64]:
    """Stack the frames of all sequences, and refuse what k-means cannot take."""
    parts = [np.asarray(frames, dtype=np.float64) for frames in X]
    if not parts:
        raise ValueError("there is no sequence of frames")
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1 or len(parts[0].shape) != 2:
        shapes = " and ".join(str(part.shape) for part in parts[:2])
        raise ValueError(
            f"sequences of frames have shapes such as {shapes}, but must be (n_frames, n_features)"
        )
    frames = np.concatenate(parts)
    bad = np.flatnonzero(~np.isfinite(frames).all(axis=1))
    if len(bad):
        raise ValueError(f"frame {bad[0]} (counted over all sequences) has an entry that is not finite")
    return frames
