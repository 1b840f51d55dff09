"""Randomized range finder with sparse random signs, in one pass."""

import operator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.engine.summary import BlockSize, MemoryEstimate, add_fields, min_block_bytes
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import compute_energy, sum_rows
from dspectral.linalg.dense import fix_signs, leading_eigenpairs
from dspectral.linalg.panels import column_gram
from dspectral.types import Doubles, FloatArray, IntArray, Rows, is_sparse

N_SIGNS = 4
"""Nonzero entries per row of Omega; four are as accurate as a dense normal matrix."""
MARGIN = 64.0
"""Eigenvalues above this multiple of rounding count towards the rank; the Nystrom formula divides by small values."""


def draw_random_signs(n_rows: int, n_columns: int, seed: int) -> NDArray[np.int32]:
    """Draw columns and signs of the entries of Omega. Shapes: returns (n_rows, 4)."""
    # One integer per entry: the column in the upper bits, the sign in the lowest bit.
    return np.random.default_rng(operator.index(seed)).integers(2 * n_columns, size=(n_rows, N_SIGNS), dtype=np.int32)


@compiled
def _gather_signs(
    data: FloatArray, indices: IntArray, indptr: IntArray, signs: NDArray[np.int32], out: FloatArray
) -> None:
    """Add ``A Omega`` to ``out``: each entry of A is added to or subtracted from four entries of its row."""
    # Invariant: row i of `out` holds the sum over the entries before `entry`. The cost is `4 nnz` additions.
    for i in range(indptr.size - 1):
        row = out[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = data[entry]
            column_signs = signs[indices[entry]]
            for k in range(column_signs.size):
                position = column_signs[k]
                if position & 1:
                    row[position >> 1] -= value
                else:
                    row[position >> 1] += value


class RandomRange(NamedTuple):
    """Product ``A'(A Omega)`` with sparse random signs Omega, and the sum and the energy of the rows.

    `total` (d,): sum of the rows; `energy`: squared Frobenius norm of the rows; `product` (d, size): product, of the
    rows' dtype; `seed`: seed of Omega, the same in all summaries that are merged. Tropp, Yurtsever, Udell and Cevher
    2017, "Fixed-rank approximation of a positive-semidefinite matrix from streaming data"; sparse signs as in
    Martinsson and Tropp 2020, "Randomized numerical linear algebra", 9.2.

    >>> rows = np.outer(np.arange(20.0), [3.0, 4.0, 0.0])
    >>> found = RandomRange.from_block(rows, size=2).leading(1)
    >>> np.abs(found[0]).round(3), np.allclose(found[1], [25.0 * 2470.0])
    (array([[0.6, 0.8, 0. ]]), True)
    """

    n_rows: int
    total: Doubles
    energy: float
    product: FloatArray
    seed: int

    @classmethod
    def estimate_block_memory(cls, block: BlockSize, *, size: int, **_settings: object) -> MemoryEstimate:
        """Return the memory estimate of a block: the product, Omega, and the product of the block with Omega."""
        product = block.n_columns * size * block.itemsize
        summary = product + 8 * block.n_columns
        work_bytes = 4 * N_SIGNS * block.n_columns + block.n_rows * size * block.itemsize
        return MemoryEstimate(summary, summary + work_bytes, min_block_bytes(product), is_sketch=True)

    @classmethod
    def from_block(cls, rows: Rows, *, size: int, seed: int = 0) -> Self:
        """Summarize one block of shape (n, d) in ``2 nnz size`` flops."""
        energy = compute_energy(rows)
        # Dense rows are converted to CSR, so that one kernel serves both.
        csr = rows if is_sparse(rows) else sparse.csr_array(rows)
        signs = draw_random_signs(csr.shape[1], size, seed)
        times_signs = np.zeros((csr.shape[0], size), dtype=csr.dtype)
        data, indices, indptr = read_only(csr.data), read_only(csr.indices), read_only(csr.indptr)
        _gather_signs(data, indices, indptr, read_only(signs), times_signs)
        product = sparse_products.transpose_times(csr, times_signs)
        return cls(csr.shape[0], sum_rows(csr), energy, product, seed)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        seeds = {part.seed for part in (self, *others)}
        if len(seeds) > 1:
            raise ValueError(
                f"seeds {sorted(seeds)} of the summaries differ, but must be equal: merge summaries of one Omega"
            )
        return add_fields(self, *others)._replace(seed=self.seed)

    def leading(self, k: int, *, off_diagonal: Doubles | None = None) -> tuple[FloatArray, Doubles]:
        """Return leading eigenvectors (rows) and eigenvalues of ``C = A'A``, or of C minus a diagonal.

        The values are the positive eigenvalues of the Nystrom approximation ``C Omega (Omega'C Omega)^+ Omega'C``,
        which is exact for rank below ``size``. Shapes: `off_diagonal` (d,); returns `axes` (k', d), `values` (k',).
        """
        # With Y = C Omega and Omega'Y = V diag(v) V' the approximation is R R' for R = Y V / sqrt(v); the eigenpairs of
        # the small R'R give those of R R'.
        size, dtype = self.product.shape[1], self.product.dtype
        signs = draw_random_signs(len(self.product), size, self.seed)
        data, indptr = (
            (1 - 2 * (signs & 1)).astype(dtype).ravel(),
            N_SIGNS * np.arange(len(signs) + 1, dtype=np.int64),
        )
        Omega = sparse.csr_array((data, (signs >> 1).ravel(), indptr), shape=(len(signs), size))
        Omega.sum_duplicates()
        Y = self.product
        if off_diagonal is not None:
            Y = Y.copy()
            # (C - D) Omega = C Omega - D Omega, where D Omega has the sparsity of Omega.
            rows = np.repeat(np.arange(len(Y)), np.diff(Omega.indptr))
            Y[rows, Omega.indices] -= (Omega.data * off_diagonal[rows]).astype(dtype)
        M = np.asarray(sparse_products.transpose_times(Omega, Y), dtype=np.float64)
        values, vectors = leading_eigenpairs((M + M.T) / 2, dtype, margin=MARGIN)
        root = Y @ (vectors / np.sqrt(values)).astype(dtype)
        values, vectors = leading_eigenpairs(column_gram(root), dtype, k=k, margin=MARGIN)
        axes = root @ (vectors / np.sqrt(values)).astype(dtype)
        return fix_signs(np.ascontiguousarray(axes.T)), values
