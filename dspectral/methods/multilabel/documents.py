"""Preprocessing of count rows for the method of moments, and a bounded sample of labeled documents."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import compute_energy
from dspectral.types import CSRRows, Doubles, FloatArray, IntArray, Rows

GOLDEN_RATIO_64 = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, the increment of splitmix64."""


def word_rows(rows: Rows, *, keep_counts: bool, dtype: DTypeLike | None = None) -> CSRRows:
    """Return canonical CSR rows of counts, or of ones for words that occur.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Counts, not negative.
    keep_counts : bool
        Whether to keep counts rather than ones.
    dtype : dtype, optional
        Precision; the default is float32 for float32 rows, else float64.

    Returns
    -------
    csr_array, shape (n, d)
        The rows: duplicates summed, zeros removed.
    """
    compute_energy(rows)  # raises on NaN or infinity
    if rows.dtype == np.float16:  # not supported by SciPy's sparse arrays
        rows = rows.astype(np.float64)
    csr = sparse_products.to_canonical_csr(sparse.csr_array(rows))
    if csr.nnz and csr.data.min() < 0:
        entry = int(np.argmax(csr.data < 0))
        row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise ValueError(
            f"Negative values in data: row {row}, column {csr.indices[entry]} is {csr.data[entry]}, but counts must be "
            "at least 0"
        )
    if dtype is None:
        dtype = np.float32 if csr.dtype == np.float32 else np.float64
    data = csr.data.astype(dtype) if keep_counts else np.ones(csr.nnz, dtype=dtype)
    out = sparse.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)
    if csr.nnz and not csr.data.all():
        # Index arrays are shared with the caller's matrix, and eliminate_zeros modifies them: copy.
        data *= csr.data != 0
        out = out.copy()
        out.eliminate_zeros()
    return out


def unit_rows(rows: Rows, column_weights: Doubles, dtype: DTypeLike | None = None) -> CSRRows:
    """Return rows of word weights, scaled to unit length.

    A row with fractions, such as tf-idf, keeps its values; in other rows each word that occurs gets the weight of its
    column. Shapes: `rows` (n, d), `column_weights` (d,); returns (n, d).
    """
    words = word_rows(rows, keep_counts=True, dtype=dtype)
    data = np.empty(words.nnz, dtype=words.dtype)
    _write_unit_weights(
        read_only(words.data),
        read_only(column_weights),
        read_only(words.indices),
        read_only(words.indptr),
        data,
    )
    return sparse.csr_array((data, words.indices, words.indptr), shape=words.shape)


def linear_features(
    rows: Rows,
    column_weights: Doubles,
    own_words: IntArray,
    directions: FloatArray,
    dtype: DTypeLike,
) -> tuple[CSRRows, FloatArray]:
    """Return the features of the linear model: word weights (n, m), and directions with a column of ones (n, s + 1)."""
    unit = unit_rows(rows, column_weights, dtype)
    direction_features = np.ones((unit.shape[0], directions.shape[1] + 1), dtype=unit.dtype)
    direction_features[:, :-1] = sparse_products.times(unit, directions)
    return sparse.csr_array(unit[:, own_words]), direction_features


@compiled
def _write_unit_weights(
    values: FloatArray,
    column_weights: Doubles,
    indices: IntArray,
    indptr: IntArray,
    out: FloatArray,
) -> None:
    """Write the weight of each entry, its column's or its own value, divided by the norm of the row."""
    for i in range(indptr.size - 1):
        total, has_fractions = 0.0, False
        for entry in range(indptr[i], indptr[i + 1]):
            if values[entry] != np.rint(values[entry]):
                has_fractions = True
        for entry in range(indptr[i], indptr[i + 1]):
            weight = float(values[entry]) if has_fractions else column_weights[indices[entry]]
            total += weight * weight
        # Rows of zeros stay zero.
        scale = 1.0 / np.sqrt(total) if total > 0 else 1.0
        for entry in range(indptr[i], indptr[i + 1]):
            out[entry] = (float(values[entry]) if has_fractions else column_weights[indices[entry]]) * scale


class SampleBounds(NamedTuple):
    """Limits of a sample: documents, entries of words and labels, and share of the hash range (0 to 1)."""

    n_documents: int
    n_entries: int
    share: float


class DocumentSample(NamedTuple):
    """Documents with the smallest hashes of their words, in hash order; independent of the blocks."""

    hashes: NDArray[np.uint64]
    words: CSRRows
    labels: CSRRows
    bounds: SampleBounds

    @classmethod
    def from_block(cls, words: CSRRows, labels: CSRRows, *, bounds: SampleBounds) -> Self:
        """Return the sample of one block: words of shape (n, d), labels of shape (n, L)."""
        hashes = hash_rows(words)
        order = np.argsort(hashes, kind="stable")
        # Hashes are uniform on 64 bits; a share of 1 includes all.
        order = order[hashes[order].astype(np.float64) <= bounds.share * 2.0**64]
        entries = np.diff(words.indptr)[order] + np.diff(labels.indptr)[order].astype(np.int64)
        # A document that exceeds the limits within its block also exceeds them in the merged sample.
        fits = int(np.searchsorted(np.cumsum(entries), bounds.n_entries, side="right"))
        selected = order[: min(fits, bounds.n_documents)]
        return cls(hashes[selected], words[selected], labels[selected], bounds)

    def merge(self, *others: Self) -> Self:
        """Return the sample of all documents."""
        samples = [sample for sample in (self, *others) if len(sample.hashes)] or [self]
        if len(samples) == 1:
            return samples[0]
        words = sparse.vstack([sample.words for sample in samples], format="csr")
        labels = sparse.vstack([sample.labels for sample in samples], format="csr")
        return self.from_block(words, labels, bounds=self.bounds)


def hash_rows(words: CSRRows) -> NDArray[np.uint64]:
    """Return a hash of the words that occur in each row, shape (n,)."""
    # A sum modulo 2^64 does not depend on the order of words; row sums are differences of a cumulative sum.
    running = np.zeros(len(words.indices) + 1, dtype=np.uint64)
    column_hashes = splitmix64(np.arange(words.shape[1], dtype=np.uint64))
    np.cumsum(column_hashes[words.indices], out=running[1:])
    return splitmix64(running[words.indptr[1:]] - running[words.indptr[:-1]])


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the splitmix64 hash of each number."""
    bits = numbers + GOLDEN_RATIO_64
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
