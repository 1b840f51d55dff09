"""One-pass Nystrom sketch: products of the Gram matrix with a basis found from a few rows, and with random probes."""

import math
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaincinv

from dspectral.decomposition.moments import GramProduct
from dspectral.engine.summary import BlockSize, MemoryEstimate, min_block_bytes
from dspectral.linalg.dense import leading_eigenpairs, rounding_floor
from dspectral.linalg.krylov import KrylovSpace, find_stable_pairs
from dspectral.linalg.panels import inner_products, iter_panels, multiply_from_left
from dspectral.registry import register_class
from dspectral.types import Doubles, FloatArray, Rows, is_sparse

N_PROBES = 64
"""Random columns of the certificate: more of them come closer to the true error, and take longer."""
FAILURE_PROBABILITY = 1e-8
"""Probability that one bound is below the truth; there is one for each power of two up to the number of components."""
N_PILOT_PRODUCTS = 4
"""Products with the pilot rows; each has this fraction of the columns of the basis."""
ROWS_PER_PILOT_ROW = 20
"""A pilot has one row in this many, but at least and at most the numbers of rows below."""
MIN_PILOT_ROWS, MAX_PILOT_ROWS = 8192, 65_536
MIN_PILOT_BLOCKS = 4


@register_class({"basis": "d l", "products.product": "d l", "probes.product": "d p"})
class NystromSketch(NamedTuple):
    """Products ``C V`` and ``C W`` of the Gram matrix ``C = A'A`` of rows A, for a basis V and random probes W.

    With ``Y = C V`` the Nystrom approximation ``Y (V'Y)^+ Y'`` is at most C. The error E has the product ``E W`` with
    the probes, which are independent of it, so ``E W`` bounds its norm.

    Attributes
    ----------
    basis : ndarray, shape (d, l), or None
        Orthonormal columns V; None in the summary of a block.
    seed : int
        Seed of W.
    products, probes : GramProduct
        Products with V, in its precision, and with W, in double precision.

    References
    ----------
    Tropp, Yurtsever, Udell and Cevher 2017, "Fixed-rank approximation of a positive-semidefinite matrix from streaming
    data"; Halko, Martinsson and Tropp 2011, "Finding structure with randomness", section 4.3.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((90, 8)) * [9.0, 5.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    >>> of = partial(NystromSketch.from_block, basis=np.eye(8)[:, :3], probes=draw_probes(8, 0))
    >>> sketch = of(rows[:40]).merge(of(rows[40:]))
    >>> found = sketch._replace(basis=np.eye(8)[:, :3]).approximate(2, 0.0)
    >>> bool(np.linalg.norm(rows, 2) ** 2 - found.values[0] <= found.bounds[0])
    True
    """

    basis: FloatArray | None
    seed: int
    products: GramProduct
    probes: GramProduct

    @classmethod
    def estimate_block_memory(
        cls, block: BlockSize, *, basis: FloatArray, probes: FloatArray, **_settings: object
    ) -> MemoryEstimate:
        """Return the memory estimate of a block: both products, and the larger one of the block with a factor."""
        products = basis.nbytes + probes.nbytes
        summary = products + 8 * (2 * block.n_columns + basis.shape[1] + probes.shape[1])
        work_bytes = block.n_rows * max(basis.shape[1] * basis.itemsize, probes.shape[1] * probes.itemsize)
        return MemoryEstimate(summary, summary + work_bytes, min_block_bytes(products), is_sketch=True)

    @classmethod
    def from_block(cls, rows: Rows, *, basis: FloatArray, probes: FloatArray, seed: int = 0) -> Self:
        """Summarize one block of shape (n, d), in ``4 nnz (l + p)`` flops. Shapes: `basis` (d, l), `probes` (d, p)."""
        of = partial(GramProduct.from_block, rows, center=True)
        return cls(None, seed, of(factor=basis), of(factor=probes))

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows.

        Parameters
        ----------
        *others : NystromSketch
            Summaries of other rows, with the same basis and seed.

        Returns
        -------
        NystromSketch
            Sums of the products.
        """
        parts = (self, *others)
        bases = [part.basis for part in parts if part.basis is not None]
        if len({part.seed for part in parts}) > 1 or any(not np.array_equal(bases[0], V) for V in bases[1:]):
            raise ValueError(
                f"the {len(parts)} sketches have different bases or seeds, but their products can only be added for "
                "equal ones: start with one sketch, and add rows to it by partial_fit"
            )
        products, probes = (
            getattr(self, name).merge(*(getattr(part, name) for part in others)) for name in ("products", "probes")
        )
        return type(self)(bases[0] if bases else None, self.seed, products, probes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.products.n_rows

    @property
    def total(self) -> Doubles:
        """Sum of the rows, shape (d,)."""
        return self.products.total

    @property
    def center(self) -> bool:
        """Whether the products are those of the centered rows."""
        return self.products.projected_total is not None

    @property
    def size(self) -> int:
        """Number of columns of the basis."""
        return int(self.products.product.shape[1])

    def approximate(self, k: int, mean_weight: float) -> "NystromApproximation":
        """Approximate ``C + mean_weight mean mean'`` by its Nystrom approximation, and bound the error.

        For U the first j eigenvectors of the error E by magnitude, with values s, ``s_j^2 |U'W|^2 <= |U'E W|^2``, which
        is at most the sum of the first j squared singular values of ``E W``. ``|U'W|^2`` is a chi-squared variable of
        ``64 j`` degrees of freedom. Cost: ``6 d l^2`` flops in double precision.
        """
        V: Any = self.basis
        W = draw_probes(len(V), self.seed)
        mean = self.total / max(1, self.n_rows)
        Y, probe_product = (
            part.product if not mean_weight else add_mean_term(part.product.copy(), mean, mean_weight, Z)
            for part, Z in ((self.products, V), (self.probes, W))
        )
        inner = inner_products((V,), Y)
        values, vectors = leading_eigenpairs((inner + inner.T) / 2, Y.dtype)
        # Invariant: the sums are those of the panels so far of `rows = Y R` with `R = vectors / sqrt(values)`, in
        # double precision. The approximation is `rows rows'`.
        root = vectors / np.sqrt(values)
        gram, probe_products = np.zeros((len(values),) * 2), np.zeros((len(values), W.shape[1]))
        for panel in iter_panels(len(Y)):
            rows = Y[panel].astype(np.float64) @ root
            gram += rows.T @ rows
            probe_products += rows.T @ W[panel]
        stable = find_stable_pairs(inner, vectors, gram, values, Y.dtype)
        unstable_value = float(gram.diagonal()[~stable].max(initial=0.0))
        root, gram, probe_products = root[:, stable], gram[stable][:, stable], probe_products[stable]
        error_gram, weights = np.zeros((W.shape[1],) * 2), root @ probe_products
        for panel in iter_panels(len(Y)):
            error = probe_product[panel] - Y[panel].astype(np.float64) @ weights
            error_gram += error.T @ error
        values, rotation = leading_eigenpairs(gram, Y.dtype)
        squares = np.cumsum(np.maximum(np.linalg.eigvalsh(error_gram)[::-1], 0.0))
        n = 2 ** np.arange(max(1, k).bit_length())
        quantiles = 2.0 * gammaincinv(n * W.shape[1] / 2, FAILURE_PROBABILITY)
        bounds = np.sqrt(squares[np.minimum(n, len(squares)) - 1] / quantiles)
        amplification = float(np.linalg.norm(W)) / math.sqrt(quantiles[0])
        floor = max(unstable_value, rounding_floor(values, Y.dtype))
        return NystromApproximation(Y, root @ rotation, values, np.repeat(bounds, n)[:k], amplification, floor)

    def multiply(self, scale: float) -> Self:
        """Return a sketch whose products are scaled by a power of two."""
        if scale == 1.0:
            return self
        parts = (
            gram_product._replace(product=gram_product.product * gram_product.product.dtype.type(scale))
            for gram_product in (self.products, self.probes)
        )
        return type(self)(self.basis, self.seed, *parts)


class NystromApproximation(NamedTuple):
    """Nystrom approximation of a matrix, and bounds on its error.

    `product` (d, l) and `coefficients` (l, r): factors of its rows; `values` (r,): their squared lengths, which are its
    eigenvalues, largest first; `bounds` (k,): bounds on the magnitudes of the eigenvalues of the error, each but for a
    probability of 1e-8; `amplification`: factor by which rounding of a product with the probes grows in the bounds;
    `floor`: value below which eigenvalues may be dropped as rounding.
    """

    product: FloatArray
    coefficients: Doubles
    values: Doubles
    bounds: Doubles
    amplification: float
    floor: float

    def get_axes(self, k: int) -> FloatArray:
        """Return the first k eigenvectors (k, d)."""
        weights = self.coefficients[:, :k] / np.sqrt(self.values[:k])
        return np.ascontiguousarray((self.product @ weights.astype(self.product.dtype)).T)


def add_mean_term(product: FloatArray, mean: Doubles, n_rows: float, Z: FloatArray) -> FloatArray:
    """Add ``n mean mean' Z`` to the product ``C Z`` in place and return it; a negative n subtracts it.

    Shapes: `product` (d, r), `mean` (d,), `Z` (d, r).
    """
    mean_products = n_rows * multiply_from_left(mean, Z)
    for panel in iter_panels(len(Z), product):
        product[panel] += np.outer(mean[panel], mean_products).astype(product.dtype)
    return product


def draw_probes(n_columns: int, seed: int) -> Doubles:
    """Return normal random numbers (d, 64), independent of the start of the basis."""
    return np.random.default_rng([seed, 2]).standard_normal((n_columns, N_PROBES))


def select_pilot_blocks(sizes: tuple[int, ...], seed: int) -> tuple[list[int], int]:
    """Return the blocks of the pilot, one drawn from each of as many ranges of blocks, and the step of their rows.

    >>> select_pilot_blocks((4096,) * 100, 0)
    ([10, 37, 59, 77, 93], 1)
    """
    n_pilot = max(MIN_PILOT_BLOCKS, -(-len(sizes) // ROWS_PER_PILOT_ROW))
    ranges = np.array_split(np.arange(len(sizes)), min(n_pilot, len(sizes)))
    generator = np.random.default_rng([seed, 3])
    selected_blocks = [int(generator.choice(blocks)) for blocks in ranges]
    n_rows = min(max(MIN_PILOT_ROWS, sum(sizes) // ROWS_PER_PILOT_ROW), MAX_PILOT_ROWS)
    return selected_blocks, max(1, sum(sizes[block] for block in selected_blocks) // n_rows)


def find_pilot_basis(rows: Rows, width: int, *, center: bool, seed: int, dtype: DTypeLike) -> FloatArray:
    """Return an orthonormal basis (d, width) of a Krylov space of the Gram matrix of pilot rows (n, d).

    Random columns fill the basis if the space has fewer directions, or if an entry is not finite.
    """
    n_columns, kind = rows.shape[1], np.dtype(dtype)
    generator, width = np.random.default_rng(seed), min(width, n_columns)
    peak = float(np.abs(rows.data if is_sparse(rows) else rows).max(initial=0.0))
    space = KrylovSpace((np.zeros((n_columns, 0), dtype=kind),), (), np.zeros((0, 0)))
    if 0.0 < peak < math.inf:
        # Of magnitude 1 at most: squares are within the range of single precision.
        scaled: Any = (rows.astype(np.float64) / peak).astype(kind)

        def multiply(Z: FloatArray) -> FloatArray:
            gram_product = GramProduct.from_block(scaled, factor=Z, center=True)
            added = int(gram_product.projected_total is not None) - int(center)
            mean = gram_product.total / max(1, gram_product.n_rows)
            product = (
                add_mean_term(gram_product.product, mean, added * gram_product.n_rows, Z)
                if added
                else gram_product.product
            )
            return product.astype(kind, copy=False)

        start = generator.standard_normal((n_columns, -(-width // N_PILOT_PRODUCTS)), dtype=np.float32)
        space = KrylovSpace.start(multiply(start.astype(kind)))
        for _ in range(N_PILOT_PRODUCTS - 1):
            space = space.extend(multiply(space.newest))
    missing = width - sum(block.shape[1] for block in space.basis)
    if missing > 0:
        space = space.extend(generator.standard_normal((n_columns, missing), dtype=np.float32).astype(kind))
    return np.hstack(space.basis)[:, :width]
