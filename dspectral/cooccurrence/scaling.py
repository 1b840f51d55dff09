"""Transform and scale blocks of context counts for word embeddings."""

from numbers import Real
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from dspectral.linalg.panels import split_by_size
from dspectral.linalg.sparse_products import divide_entries
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s, IntArray, format_value

CountTransform: TypeAlias = Literal["sqrt", "log", "none"] | float
"""Transform of counts: square root, ``log(1 + count)``, none, or a positive exponent."""
Scaling: TypeAlias = Literal["cca", "ppmi", "reg", "none"]
"""Scaling of transformed counts by row and column sums, see :class:`ContextScaling`."""
TRANSFORMS = ("sqrt", "log", "none")
SCALINGS = ("cca", "ppmi", "reg", "none")
CACHED_ENTRIES = 1 << 16
"""Entries per batch: half a megabyte in float64."""
LARGEST = 1e100
"""Maximum transformed sum of counts, so that squares of scaled values are finite."""


class ContextScaling(NamedTuple):
    """Scaling of rows of counts for decomposition.

    For the transform T, counts N, word sums r, smoothed context sums c (``columns``) and ``total`` n, ``"cca"`` is
    ``T(N) / sqrt(T(r) T(c))``, ``"ppmi"`` is ``max(0, log(T(N) T(n) / (T(r) T(c))))``, and ``"reg"`` is
    ``T(N) / T(r)``.
    """

    transform: CountTransform
    scaling: Scaling
    columns: Doubles
    total: float

    @classmethod
    def from_column_sums(
        cls,
        column_sums: Doubles,
        *,
        transform: CountTransform = "sqrt",
        scaling: Scaling = "cca",
        smoothing: float = 1.0,
    ) -> "ContextScaling":
        """Return the scaling for column sums, shape (n_contexts,)."""
        check_transform(transform)
        if scaling not in SCALINGS:
            raise ValueError(f"scaling={scaling!r} must be 'cca', 'ppmi', 'reg' or 'none'")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"context_smoothing={smoothing} must be from 0 to 1")
        # c'_j = c_j^a * sum(c) / sum(c^a). Contexts that never occur stay 0, also for a = 0.
        total = float(column_sums.sum())
        smoothed = np.where(column_sums > 0, column_sums, 0.0)
        if smoothing != 1:
            smoothed = np.where(smoothed > 0, np.power(smoothed, smoothing), 0.0)
            smoothed *= total / smoothed.sum() if total else 1.0
        scaling_without_norm = cls(transform, scaling, smoothed, total)
        with np.errstate(over="ignore"):
            largest = float(scaling_without_norm.transform_counts(np.array([total]))[0])
        if largest > LARGEST:
            raise ValueError(
                f"count_transform={transform!r} maps the sum of counts {total:g} to {largest:.3g}, but the result must "
                f"be at most {LARGEST:g}: use a smaller exponent"
            )
        return scaling_without_norm

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Type of the scaled counts."""
        # With "reg" and "none" frequent words dominate, and float32 would lose the others.
        return np.float32 if self.scaling in ("cca", "ppmi") else np.float64

    def apply(self, rows: CSRRows) -> CSRRows:
        """Transform and scale rows of counts, shape (n, n_contexts)."""
        sums = self.transform_counts(np.asarray(rows.sum(axis=1, dtype=np.float64)))
        by_row, by_column = np.ones(len(sums)), np.empty(0)
        # Rows and columns with sum 0 have no entries; 1 avoids NaN.
        if self.scaling in ("cca", "reg", "ppmi"):
            by_row = np.where(sums > 0, sums, 1.0)
        if self.scaling in ("cca", "ppmi"):
            columns = self.transform_counts(self.columns)
            by_column = np.where(columns > 0, columns, 1.0)
        if self.scaling == "cca":
            by_row, by_column = np.sqrt(by_row), np.sqrt(by_column)
        factor = float(self.transform_counts(np.array([self.total]))[0])
        data = np.empty(rows.nnz, dtype=self.dtype)
        # In batches of rows whose float64 entries fit the cache.
        for start, stop in split_by_size(np.diff(rows.indptr), CACHED_ENTRIES):
            first, last = int(rows.indptr[start]), int(rows.indptr[stop])
            values = self.transform_counts(rows.data[first:last])
            divide_entries(values, rows, start, by_row, by_column)
            if self.scaling == "ppmi":
                # `where` avoids log(0) at explicit zeros.
                values *= factor
                values = np.maximum(np.log(values, out=values, where=values > 0), 0.0)
            data[first:last] = values
        scaled: CSRRows = sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
        if self.scaling == "ppmi":
            # eliminate_zeros modifies indices and indptr, which are shared with the counts.
            scaled = scaled.copy()
            scaled.eliminate_zeros()
        return scaled

    def transform_counts(self, values: FloatArray | IntArray) -> Doubles:
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
    """Raise a ValueError if a transform of counts is not supported."""
    is_power = isinstance(transform, Real) and not isinstance(transform, bool) and 0 < transform <= LARGEST
    if not is_power and not (isinstance(transform, str) and transform in TRANSFORMS):
        raise ValueError(
            f"count_transform={format_value(transform)} must be 'sqrt', 'log', 'none' or a positive exponent"
        )


def bound_entries(counts: Int64s, *, n_positions: int, n_contexts: int) -> Int64s:
    """Return an upper bound on the number of distinct contexts of each word type with ``counts`` tokens."""
    return np.minimum(counts * n_positions, n_contexts)
