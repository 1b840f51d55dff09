"""Counts of words in contexts, transformed and scaled row block by row block: the template of embeddings."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import CSRRows

TRANSFORMS = ("sqrt", "log", "none")
SCALINGS = ("cca", "ppmi", "reg", "none")


class ContextScaling(NamedTuple):
    """How a row of counts becomes a row to decompose.

    Attributes
    ----------
    transform : str or float
        ``"sqrt"``, ``"log"`` of one more, ``"none"``, or a power.
    scaling : str
        With T the transform, N the counts, r and c their sums by word and by context, n the sum of all:
        ``"cca"`` is ``T(N) / sqrt(T(r) T(c))``, ``"ppmi"`` ``max(0, log(T(N) T(n) / (T(r) T(c))) - log shift)``,
        ``"reg"`` ``T(N) / T(r)``, ``"none"`` ``T(N)``.
    columns : ndarray of float64, shape (n_contexts,)
        Sums of the columns, smoothed: ``T`` is still to be applied.
    total : float
        n.
    shift : float
        Of ``"ppmi"``.
    """

    transform: str | float
    scaling: str
    columns: NDArray[np.float64]
    total: float
    shift: float = 1.0

    @classmethod
    def of(
        cls,
        column_sums: NDArray[np.float64],
        *,
        transform: str | float = "sqrt",
        scaling: str = "cca",
        smoothing: float = 1.0,
        shift: float = 1.0,
    ) -> "ContextScaling":
        """Choose a scaling, given the sums of the columns.

        Parameters
        ----------
        column_sums : ndarray of float64, shape (n_contexts,)
        transform : {"sqrt", "log", "none"} or float
        scaling : {"cca", "ppmi", "reg", "none"}
        smoothing : float
            Exponent of the sums of the contexts, which are then scaled to their old total: 0.75 lifts rare
            contexts as word2vec's noise distribution does (Levy, Goldberg and Dagan 2015).
        shift : float
            Of ``"ppmi"``.

        Raises
        ------
        ValueError
            If one is out of its range.
        """
        power = isinstance(transform, int | float) and not isinstance(transform, bool)
        if not (float(transform) > 0 if power else transform in TRANSFORMS):
            raise ValueError(
                f"transform is {transform!r}, but it must be 'sqrt', 'log', 'none' or a power above 0"
            )
        if scaling not in SCALINGS:
            raise ValueError(f"scaling is {scaling!r}, but it must be 'cca', 'ppmi', 'reg' or 'none'")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"context_smoothing is {smoothing}, but it is an exponent from 0 to 1")
        if not shift > 0:
            raise ValueError(f"shift is {shift}, but it must be above 0")
        total = float(column_sums.sum())
        smoothed = np.where(column_sums > 0, column_sums, 0.0)
        if smoothing != 1:
            smoothed = np.where(smoothed > 0, np.power(smoothed, smoothing), 0.0)
            smoothed *= total / smoothed.sum() if total else 1.0
        return cls(transform, scaling, smoothed, total, shift)

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Double precision where nothing tames frequent words: half the digits of single would drown the rest."""
        return np.float32 if self.scaling in ("cca", "ppmi") else np.float64

    def apply(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Transform and scale whole rows of counts.

        Parameters
        ----------
        rows : csr_array, shape (n, n_contexts)
            Of counts above 0.

        Returns
        -------
        csr_array of :attr:`dtype`, shape (n, n_contexts)
            What is scaled to 0 is not stored.

        Examples
        --------
        >>> counts = sparse.csr_array([[0.0, 4.0], [4.0, 0.0]])
        >>> ContextScaling.of(np.array([4.0, 4.0])).apply(counts).toarray()
        array([[0., 1.],
               [1., 0.]], dtype=float32)
        """
        values = self.transformed(rows.data)
        sizes = np.diff(rows.indptr)
        if self.scaling in ("cca", "reg", "ppmi"):
            sums = self.transformed(np.asarray(rows.sum(axis=1, dtype=np.float64)))
            sums = np.where(sums > 0, sums, 1.0)
            values /= np.repeat(np.sqrt(sums) if self.scaling == "cca" else sums, sizes)
        if self.scaling in ("cca", "ppmi"):
            columns = self.transformed(self.columns)
            columns = np.where(columns > 0, columns, 1.0)
            values /= (np.sqrt(columns) if self.scaling == "cca" else columns)[rows.indices]
        if self.scaling == "ppmi":
            values *= float(self.transformed(np.array([self.total]))[0]) / self.shift
            values = np.maximum(np.log(values, out=values, where=values > 0), 0.0)
        scaled: CSRRows = sparse.csr_array(
            (values.astype(self.dtype), rows.indices, rows.indptr), shape=rows.shape
        )
        if self.scaling == "ppmi":
            scaled = scaled.copy()
            scaled.eliminate_zeros()
        return scaled

    def transformed(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Transform counts, or sums of them."""
        values = np.asarray(values, dtype=np.float64)
        if self.transform == "none":
            return values.copy()
        if self.transform == "sqrt":
            return np.asarray(np.sqrt(values))
        if self.transform == "log":
            return np.asarray(np.log1p(values))
        return np.asarray(np.power(values, float(self.transform)))


def most_entries(counts: NDArray[np.int64], *, n_positions: int, n_contexts: int) -> NDArray[np.int64]:
    """Bound how many contexts each word type has: as many as there are, or as its tokens see.

    Examples
    --------
    >>> most_entries(np.array([100, 2]), n_positions=4, n_contexts=50)
    array([50,  8])
    """
    return np.minimum(counts * n_positions, n_contexts)


def row_parts(entries: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Cut rows into runs of as many rows as have at most ``most`` entries together, or one row.

    Examples
    --------
    >>> row_parts(np.array([9, 1, 1, 1, 4]), 5)
    [(0, 1), (1, 4), (4, 5)]
    """
    ends = np.cumsum(entries)
    parts, start, before = [], 0, 0
    while start < len(entries):
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        parts.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return parts
