"""Counts of words in contexts, transformed and scaled row block by row block: the template of embeddings."""

from numbers import Real
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from dspectral.linalg.panels import cut_runs
from dspectral.linalg.sparse_products import divide_entries
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s, IntArray, format_value

CountTransform: TypeAlias = Literal["sqrt", "log", "none"] | float
"""Function that tames large counts: a square root, ``log(1 + count)``, none, or a power above 0."""
Scaling: TypeAlias = Literal["cca", "ppmi", "reg", "none"]
"""How transformed counts are set off against the sums of their row and column: see :class:`ContextScaling`."""
TRANSFORMS = ("sqrt", "log", "none")
SCALINGS = ("cca", "ppmi", "reg", "none")
CACHED_ENTRIES = 1 << 16
"""Entries that are scaled at a time: half a megabyte in double precision."""
LARGEST = 1e100
"""Largest transformed sum of counts: squares of what is scaled by it are finite."""


class ContextScaling(NamedTuple):
    """The map from a row of counts to a row to decompose.

    With T the transform, N the counts, r and c their sums by word and by context (``columns``, smoothed), and n the
    ``total``: ``"cca"`` is ``T(N) / sqrt(T(r) T(c))``, ``"ppmi"`` is ``max(0, log(T(N) T(n) / (T(r) T(c))))``, and
    ``"reg"`` is ``T(N) / T(r)``.
    """

    transform: CountTransform
    scaling: Scaling
    columns: Doubles
    total: float

    @classmethod
    def of(
        cls,
        column_sums: Doubles,
        *,
        transform: CountTransform = "sqrt",
        scaling: Scaling = "cca",
        smoothing: float = 1.0,
    ) -> "ContextScaling":
        """Choose a scaling, given the sums of the columns, shape (n_contexts,)."""
        check_transform(transform)
        if scaling not in SCALINGS:
            raise ValueError(f"scaling is {scaling!r}, but it must be 'cca', 'ppmi', 'reg' or 'none'")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"context_smoothing is {smoothing}, but it is an exponent from 0 to 1")
        # c'_j = c_j^a * sum(c) / sum(c^a): a context that never occurs stays at 0 also for a = 0, where 0^0 is 1.
        total = float(column_sums.sum())
        smoothed = np.where(column_sums > 0, column_sums, 0.0)
        if smoothing != 1:
            smoothed = np.where(smoothed > 0, np.power(smoothed, smoothing), 0.0)
            smoothed *= total / smoothed.sum() if total else 1.0
        chosen = cls(transform, scaling, smoothed, total)
        with np.errstate(over="ignore"):
            largest = float(chosen.transformed(np.array([total]))[0])
        if largest > LARGEST:
            raise ValueError(
                f"count_transform is {transform!r}, which makes {largest:.3g} of the sum {total:g} of all counts, but "
                f"it must make at most {LARGEST:g}"
            )
        return chosen

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Type of the scaled counts."""
        # Frequent words are not tamed by "reg" and "none": single precision would drown the rest.
        return np.float32 if self.scaling in ("cca", "ppmi") else np.float64

    def apply(self, rows: CSRRows) -> CSRRows:
        """Transform and scale whole rows of counts, shape (n, n_contexts)."""
        sums = self.transformed(np.asarray(rows.sum(axis=1, dtype=np.float64)))
        by_row, by_column = np.ones(len(sums)), np.empty(0)
        # Sums of 0 have no counts to divide; 1 keeps the arithmetic free of NaN.
        if self.scaling in ("cca", "reg", "ppmi"):
            by_row = np.where(sums > 0, sums, 1.0)
        if self.scaling in ("cca", "ppmi"):
            columns = self.transformed(self.columns)
            by_column = np.where(columns > 0, columns, 1.0)
        if self.scaling == "cca":
            by_row, by_column = np.sqrt(by_row), np.sqrt(by_column)
        factor = float(self.transformed(np.array([self.total]))[0])
        data = np.empty(rows.nnz, dtype=self.dtype)
        # Some rows at a time, whose entries in double precision fit the cache.
        for start, stop in cut_runs(np.diff(rows.indptr), CACHED_ENTRIES):
            first, last = int(rows.indptr[start]), int(rows.indptr[stop])
            values = self.transformed(rows.data[first:last])
            divide_entries(values, rows, start, by_row, by_column)
            if self.scaling == "ppmi":
                # Stored counts are above 0; the guard is for explicit zeros, whose logarithm would be minus infinity.
                values *= factor
                values = np.maximum(np.log(values, out=values, where=values > 0), 0.0)
            data[first:last] = values
        scaled: CSRRows = sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
        if self.scaling == "ppmi":
            # A copy, because the zeros leave indices and indptr too, which are those of the counts.
            scaled = scaled.copy()
            scaled.eliminate_zeros()
        return scaled

    def transformed(self, values: FloatArray | IntArray) -> Doubles:
        """Return transformed counts, or transformed sums of counts."""
        values = np.asarray(values, dtype=np.float64)
        if self.transform == "none":
            return values.copy()
        if self.transform == "sqrt":
            return np.asarray(np.sqrt(values))
        if self.transform == "log":
            return np.asarray(np.log1p(values))
        return np.asarray(np.power(values, float(self.transform)))


def check_transform(transform: CountTransform) -> None:
    """Raise a ValueError if a transform of counts is none that is known."""
    if isinstance(transform, Real) and not isinstance(transform, bool):
        is_known = 0 < transform <= LARGEST
    else:
        is_known = isinstance(transform, str) and transform in TRANSFORMS
    if not is_known:
        raise ValueError(
            f"count_transform is {format_value(transform)}, but it must be 'sqrt', 'log', 'none' or a power above 0"
        )


def most_entries(counts: Int64s, *, n_positions: int, n_contexts: int) -> Int64s:
    """Return a bound on the number of distinct contexts of each word type, given its tokens."""
    # A token has n_positions contexts at most, which may all be new, until every context was met.
    return np.minimum(counts * n_positions, n_contexts)
