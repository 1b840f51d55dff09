"""Orthonormal bases of block Krylov spaces, and approximations of a symmetric matrix from them."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike
from scipy.special import gammaincinv

from dspectral.linalg.dense import (
    MARGIN,
    eigh_descending,
    gram_qr_inplace,
    leading_eigenpairs,
    multiply_inplace,
    rounding_floor,
    select_columns,
)
from dspectral.linalg.panels import (
    PANEL,
    column_gram,
    inner_products,
    is_in_file,
    iter_panels,
    orthogonalize_against,
    panel_buffer,
    release_pages,
    sum_panels,
    tall_array,
)
from dspectral.types import Bools, Doubles, FloatArray, IntArray

FAILURE_PROBABILITIES = 1e-10, 2e-12
"""Failure probability of one random bound: 12 passes compute 5,000 for norms and 250,000 for counts. Later passes have
smaller ones, so that those of any number of passes add to less than 2e-6."""
MIN_POLYNOMIAL = 10.0
"""Value above which Jensen's inequality holds for the square of a Chebyshev polynomial."""
EXHAUSTED_DEGREE = 60
"""Degree of polynomials when the space is invariant, so that any degree is exact."""
INTERVAL_STARTS = (0.0, 0.5, 0.75, 0.9)
"""Lower ends of the intervals that are tried, relative to their upper ends."""
MIN_SPREAD = 1e-4
"""Ratio to the largest value below which squares of an approximation are computed from its rows."""
MAX_CANCELLATION = 1e-2
"""Length of a remainder outside the basis, relative to its product, below which it is made orthogonal again."""
GRID_RATIO = 1.1
"""Ratio of successive interval ends; a fixed grid, so that the number of random bounds is known."""


class KrylovSpace(NamedTuple):
    """An orthonormal basis ``K = [K_1 ... K_j]`` with ``C [K_1 ... K_(j-1)] = K T``.

    `basis` (d, r_i): blocks of orthonormal columns, orthogonal to each other; `columns`: block columns of T, without
    their trailing zero blocks; `start_coefficients` (r_1, r): start columns in terms of K_1.

    >>> C = np.diag([4.0, 3.0, 2.0, 1.0])
    >>> space = KrylovSpace.start(np.ones((4, 1)))
    >>> for _ in range(3):
    ...     space = space.extend(C @ space.newest)
    >>> space.close(C @ space.newest).values.round(6)
    array([4., 3., 2., 1.])
    """

    basis: tuple[FloatArray, ...]
    columns: tuple[tuple[Doubles, ...], ...]
    start_coefficients: Doubles

    @classmethod
    def start(cls, Z: FloatArray) -> "KrylovSpace":
        """Return the space spanned by the columns of a matrix. Shapes: `Z` (d, r)."""
        gram = column_gram(Z)
        above = gram.diagonal() > 0
        if not above.all():
            Z, gram = select_columns(Z, above), gram[np.ix_(above, above)]
        first, start_coefficients = gram_qr_inplace(Z, gram)
        return cls((first,), (), start_coefficients)

    @property
    def inside(self) -> tuple[FloatArray, ...]:
        """Blocks whose products are known: all but the newest."""
        return self.basis[:-1]

    @property
    def n_columns(self) -> int:
        """Number of columns of the basis."""
        return sum(block.shape[1] for block in self.basis)

    @property
    def newest(self) -> FloatArray:
        """Block to multiply by C next, shape (d, r_j); r_j = 0 if the space is invariant."""
        return self.basis[-1]

    def extend(self, product: FloatArray) -> "KrylovSpace":
        """Return the space extended by one block, which overwrites `product` (d, r_j).

        Block Gram-Schmidt, against the last two blocks and then all: ``product - sum_i K_i K_i' product``. ``4 d r_j``
        flops for each column of the basis, twice in the last two, in three sweeps over the long side.
        """
        coefficients, gram = orthogonalize_against(product, self.basis)
        rotation = np.eye(product.shape[1])
        lengths = np.sqrt(np.where(gram.diagonal() > 0, gram.diagonal(), 1.0))
        values = eigh_descending(gram / lengths / lengths[:, None])[0]
        is_graded = bool(len(values)) and values[-1] <= 4.0 * rounding_floor(values, product.dtype)
        if is_graded:  # rotate to nearly orthogonal columns, so that short directions beside long ones are kept
            rotation = eigh_descending(gram)[1]
            product, gram = multiply_inplace(product, rotation, with_gram=True)
        norms = np.sqrt(gram.diagonal())
        # Squares of orthogonal parts add up, so the original lengths need no sweep of their own.
        inside = sum(np.einsum("ij,ij->j", part, part) for part in coefficients)
        size = np.sqrt(inside + norms**2).max(initial=0.0)
        # The remainder of a column inside the space is rounding and must not become a direction.
        outside = norms > 64.0 * np.finfo(product.dtype).eps * size
        if not outside.all():
            product, gram = select_columns(product, outside), gram[np.ix_(outside, outside)]
        # In terms of the old blocks and the new one: C K_j = sum_i K_i coefficients_i + K_(j+1) rest.
        block, outside_factor = gram_qr_inplace(product, gram)
        if is_graded or (norms[outside] < MAX_CANCELLATION * size).any():  # rounding inside the basis is long there
            block, factor = gram_qr_inplace(block, orthogonalize_against(block, self.basis)[1])
            outside_factor = factor @ outside_factor
        rest = np.zeros((len(outside_factor), len(norms)))
        rest[:, outside] = outside_factor
        column = (*coefficients, rest @ rotation.T)
        return KrylovSpace((*self.basis, block), (*self.columns, column), self.start_coefficients)

    def widen(self, Z: FloatArray) -> "KrylovSpace":
        """Return the space with the columns of Z (d, r), made orthogonal to it, added to its newest block."""
        for _ in range(2):
            Z = gram_qr_inplace(Z, orthogonalize_against(Z, self.basis)[1])[0]
        *columns, last = self.columns
        rest = np.pad(last[-1], [(0, Z.shape[1]), (0, 0)])
        newest = np.hstack([self.newest, Z])
        return KrylovSpace((*self.inside, newest), (*columns, (*last[:-1], rest)), self.start_coefficients)

    def project(self) -> Doubles:
        """Return ``[[T, R'], [R, 0]]``, which is at most the restriction of C to the basis: ``C Q = Q T + newest R``.

        Q is the basis without its newest block. Shapes: returns (m, m) for a basis of m columns.
        """
        T = _assemble_blocks(self.columns, self.basis)
        n_inside = T.shape[1]
        return _symmetrize(np.pad(T, [(0, 0), (0, len(T) - n_inside)]), n_inside)

    def combine(self, weights: Doubles) -> FloatArray:
        """Return the product of the first columns of the basis with `weights` (m, k). Shapes: returns (d, k)."""
        product, start = np.zeros((len(self.newest), weights.shape[1]), dtype=self.newest.dtype), 0
        for block in self.basis:
            part = weights[start : start + block.shape[1]].astype(block.dtype)
            product += block[:, : len(part)] @ part
            start += block.shape[1]
        return product

    def close(self, product: FloatArray, k: int = 0, n_probes: int = 0) -> "Approximation":
        """Return the best approximation of C from the space. Shapes: `product` (d, r_j).

        With `n_probes` it includes upper bounds of the first k eigenvalues, which require normal start columns.
        """
        width = product.shape[1]
        # The last product is not orthogonalized: with ``M`` the basis and this product, and
        # ``C basis = M T``, its part of T is the identity.
        last = (*(np.zeros((block.shape[1], width)) for block in self.basis), np.eye(width))
        parts, T = (*self.basis, product), _assemble_blocks((*self.columns, last), (*self.basis, product))
        # The basis is orthonormal to rounding, so only the block `M'P` of `M'M` is summed over the long side.
        inner, n_inside = np.eye(len(T)), len(T) - width
        inner[:, n_inside:] = inner_products(parts, product)
        inner[n_inside:, :n_inside] = inner[:n_inside, n_inside:].T
        best = _best_approximation(parts, T, inner)
        if not n_probes or not width:
            return best
        # P - K K'P = newest R for `R'R = P'P - (K'P)'(K'P)`, whose rounding can only increase the bounds.
        inside, squares = inner[:n_inside, n_inside:], inner[n_inside:, n_inside:]
        rounding = MARGIN * float(np.finfo(product.dtype).eps) * squares.diagonal().max(initial=0.0)
        values, vectors = eigh_descending(squares - inside.T @ inside + rounding * np.eye(width))
        H = np.zeros((len(T), len(T)))
        H[:n_inside, :n_inside] = inner[:n_inside] @ T
        H[n_inside:, n_inside - width : n_inside] = np.sqrt(values)[:, None] * vectors.T
        return best._replace(
            bounds=self._bound_eigenvalues(_symmetrize(H, n_inside), n_inside, k, n_probes, counts=False)
        )

    def approximate(self, k: int, n_probes: int) -> "Approximation":
        """Return an approximation of C from all products so far, with upper bounds of its first k eigenvalues.

        With Q the basis without its newest block K, ``C Q = Q T + K R``. Restricted to the basis, C is at least
        ``[[T, R'], [R, 0]]``, whose eigenpairs are returned, and at most ``[[T, R'], [R, s]]`` if ``P C P <= s`` for
        ``P = 1 - Q Q'``. A second bound counts large eigenvalues; the smaller one is returned. No sweep over the long
        side.

        >>> C = np.diag(1.0 / np.arange(1.0, 201.0))
        >>> space = KrylovSpace.start(np.random.default_rng(0).standard_normal((200, 30)))
        >>> for _ in range(4):
        ...     space = space.extend(C @ space.newest)
        >>> best = space.approximate(3, 12)
        >>> bounds = best.bounds.eigenvalues
        >>> best.values[:3].round(4), bool((bounds >= [1, 1 / 2, 1 / 3]).all()), bounds.round(4)
        (array([1.    , 0.5   , 0.3333]), True, array([1.    , 0.5   , 0.3333]))
        """
        T, H = _assemble_blocks(self.columns, self.basis), self.project()
        n_inside = T.shape[1]
        values, E = eigh_descending(H)
        # T is as asymmetric as its rounding, which tiny columns of the basis amplify.
        rounding = 4.0 * float(np.linalg.norm(T[:n_inside] - T[:n_inside].T))
        floor = max(rounding_floor(values, self.newest.dtype), rounding)
        rank = count_leading(values > floor)
        values, coefficients = values[:rank], E[:, :rank] * np.sqrt(values[:rank])
        outside_norms = np.linalg.norm(E[n_inside:, :rank], axis=0)
        return Approximation(
            values,
            coefficients,
            self.basis,
            rounding_factors=np.ones(rank),
            roundings=np.full(rank, rounding),
            floor=floor,
            outside_norms=outside_norms,
            bounds=self._bound_eigenvalues(H, n_inside, k, n_probes),
        )

    def ritz_values(self, k: int) -> tuple[Doubles, Doubles]:
        """Return the first k Ritz values of the products so far, and the norms of their residuals."""
        H = self.project()
        n_inside = len(H) - self.newest.shape[1]
        values, S = eigh_descending(H[:n_inside, :n_inside], k)
        return values, np.linalg.norm(H[n_inside:, :n_inside] @ S, axis=0)

    def _bound_eigenvalues(
        self, H: Doubles, n_inside: int, k: int, n_probes: int, *, counts: bool = True
    ) -> "EigenvalueBounds":
        """Return upper bounds of the first k eigenvalues of C from H of :meth:`approximate`. Shapes: `H` (m, m).

        Without `counts` the second bound, which takes as long as hundreds of products of wide blocks, is left out.
        """
        values, E = scipy.linalg.eigh(H, check_finite=False)
        n_products, width = len(self.columns) + (len(H) > self.n_columns), len(H) - n_inside
        outside = self._bound_complement_norm(H, values, E, n_inside, n_probes, n_products)
        k, H = min(k, len(self.newest)), H.copy()
        H[range(n_inside, len(H)), range(n_inside, len(H))] = outside
        bounds = np.concatenate([scipy.linalg.eigvalsh(H, check_finite=False), np.full(k, outside)])
        bounds = np.sort(bounds)[::-1][:k]
        if counts:  # if the space is invariant, polynomials of any degree can be evaluated
            q = n_products if width else EXHAUSTED_DEGREE
            bounds = np.minimum(bounds, self._bound_by_counting(values, E, k, q))
        return EigenvalueBounds(bounds, outside)

    def _bound_complement_norm(
        self, H: FloatArray, values: FloatArray, E: FloatArray, n_inside: int, n_probes: int, q: int
    ) -> float:
        """Bound the norm of C on the orthogonal complement of all blocks but the newest.

        The start columns are random normal. The last ones are probes W, independent of the space V spanned by the
        others and all their products but the last. The unit vector u orthogonal to V with the largest ``s = u'C u`` has
        ``f(s) <= |u'f(C)|`` for ``f(t) = t^q``, from ``MIN_POLYNOMIAL`` also for a Chebyshev polynomial, and
        ``s |u'f(C)| <= |P C P f(C)|`` for ``P = 1 - V V'``. The norm of a matrix is at most that of its product with W
        divided by a lower bound of ``|v'W|`` for a fixed v, the root of a chi-squared variable. Halko, Martinsson and
        Tropp 2011, "Finding structure with randomness", 4.3 and proposition 8.6. Cost with m columns of the basis:
        ``10 m^3 + 50 m^2 n_probes`` flops.
        """
        size = _round_up_to_grid(values)
        if size == 0.0 or n_inside >= len(self.newest):
            return 0.0
        start_coefficients = np.pad(self.start_coefficients, [(0, len(E) - len(self.start_coefficients)), (0, 0)])
        V = newest = np.linalg.qr(start_coefficients[:, :-n_probes])[0]
        for _ in range(q - 1):
            product = H @ newest
            product[n_inside:] = 0.0
            for _ in range(2):
                product -= V @ (V.T @ product)
            vectors, sizes, _ = np.linalg.svd(product, full_matrices=False)
            newest = vectors[:, sizes > 1e-12 * size]
            V = np.hstack([V, newest])
        complement, probes, scaled = E - V @ (V.T @ E), E.T @ start_coefficients[:, -n_probes:], values / size
        min_norm = math.sqrt(2.0 * gammaincinv(n_probes / 2, FAILURE_PROBABILITIES[0] * min(1.0, (12 / q) ** 8)))

        def norm(f: FloatArray, times: int) -> float:
            """Bound ``|P f(C)|``, or ``|P C P f(C)|`` if `times` is 1, for C divided by its size."""
            peak = np.abs(f).max()
            Y = complement @ ((f / peak)[:, None] * probes)
            for _ in range(times):
                Y = H @ Y / size
                Y -= V @ (V.T @ Y)
            norm = math.sqrt(np.linalg.eigvalsh(Y.T @ Y)[-1])
            return float(peak * (norm + _bound_rounding(f / peak, probes)) / min_norm)

        bound = min(norm(scaled ** (n - i), i) ** (1 / n) for n in range(1, q + 1) for i in range(min(n, 2)))
        for b, i in ((b, i) for b in _interval_ends(bound) for i in range(min(2, q - 1))):
            norm_bound, low = norm(_chebyshev(scaled, 0.0, b, q - i), i), b if i else 1.0
            for _ in range(3 * i):  # either s is at most `low`, or f(s) at most `norm_bound / low`
                low = math.sqrt(low * _invert_chebyshev(0.0, b, q - i, norm_bound / low))
            bound = min(bound, max(low * i, _invert_chebyshev(0.0, b, q - i, norm_bound / low)))
        return float(bound * size)

    def _bound_by_counting(self, values: FloatArray, E: FloatArray, k: int, q: int) -> Doubles:
        """Bound the first k eigenvalues of C by counting eigenvalues above a value; needs no spectral gap.

        For U the first j eigenvectors, f as above and W all start columns, ``f(s_j)^2 |U'W|^2 <= |U'f(C) W|^2``, which
        is at most the sum of the first j squared singular values of ``f(C) W``. ``|U'W|^2`` is a chi-squared variable.
        Shapes: returns (k,).
        """
        size = _round_up_to_grid(values)
        if size == 0.0:
            return np.zeros(k)
        probes, scaled = (
            E.T @ np.pad(self.start_coefficients, [(0, len(E) - len(self.start_coefficients)), (0, 0)]),
            values / size,
        )
        n = 2 ** np.arange(k.bit_length())
        min_energy = 2.0 * gammaincinv(n * probes.shape[1] / 2, FAILURE_PROBABILITIES[1] * min(1.0, (12 / q) ** 8))

        def norms(f: FloatArray) -> Doubles:
            Y, peak = (f / np.abs(f).max())[:, None] * probes, np.abs(f).max()
            squares = np.cumsum(np.linalg.eigvalsh(Y.T @ Y)[::-1])[np.minimum(n, Y.shape[1]) - 1]
            return peak * (np.sqrt(squares) + np.sqrt(n) * _bound_rounding(Y, probes)) / np.sqrt(min_energy)

        bounds = norms(scaled**q) ** (1 / q)
        last = math.floor(math.log(bounds[-1], GRID_RATIO))
        for a in INTERVAL_STARTS:
            before, b = math.inf, GRID_RATIO**last
            while True:  # while a shorter interval improves the bound by more than a thousandth
                new_bounds = [_invert_chebyshev(a * b, b, q, value) for value in norms(_chebyshev(scaled, a * b, b, q))]
                bounds = np.minimum(bounds, new_bounds)
                if new_bounds[-1] > 0.999 * before:
                    break
                before, b = new_bounds[-1], b / GRID_RATIO ** (1 / 3 if a else 1)
        return np.repeat(size * bounds, n)[:k]

    def ritz_pairs(self, product: FloatArray) -> tuple[Doubles, FloatArray]:
        """Return the Ritz pairs of C: eigenpairs of its restriction to the space.

        ``2 d r`` flops for each column of the basis. Shapes: `product` (d, r_j); returns `values` (r,), `vectors`
        (d, r).

        >>> C = np.diag([4.0, 3.0, 2.0, 1.0])
        >>> space = KrylovSpace.start(np.eye(4)[:, 1:3])
        >>> values, vectors = space.ritz_pairs(C @ space.newest)
        >>> values.round(6), np.abs(vectors.T).round(6)
        (array([3., 2.]), array([[0., 1., 0., 0.],
               [0., 0., 1., 0.]]))
        """
        last = inner_products(self.basis, product)
        ends = np.cumsum([block.shape[1] for block in self.basis])[:-1]
        T = _assemble_blocks((*self.columns, tuple(np.split(last, ends))), self.basis)
        # T is symmetric up to rounding; average both triangles.
        values, small = leading_eigenpairs((T + T.T) / 2, product.dtype)
        return values, self.combine(small)


class EigenvalueBounds(NamedTuple):
    """Upper bounds of the first `eigenvalues` (k,) of C, and of its norm on the complement of the space, `outside`."""

    eigenvalues: Doubles
    outside: float


class Approximation(NamedTuple):
    """Lower approximation ``rows' rows <= C`` with ``rows = coefficients' M'``.

    `values` (r,): eigenvalues of the approximation, largest first; `coefficients` (sum m_i, r): weights of the columns
    of M; `parts` (d, m_i): blocks of columns of M; `rounding_factors` (r,): factors by which the rounding of products
    grows in the sums of the first 1, ..., r values; `roundings` (r,): measured rounding of the first 1, ..., r values;
    `floor`: value below which eigenvalues may be dropped as rounding; `outside_norms` (r,): norms of the parts of the
    eigenvectors outside of the space whose products are known; `bounds`: None without probes.
    """

    values: Doubles
    coefficients: Doubles
    parts: tuple[FloatArray, ...]
    rounding_factors: Doubles
    roundings: Doubles
    floor: float
    outside_norms: Doubles
    bounds: EigenvalueBounds | None = None

    def rows(
        self, scale: Doubles, *, columns: IntArray | None = None, n_columns: int = 0, release_parts: bool = False
    ) -> FloatArray:
        """Return the first ``len(scale)`` rows, row i times ``scale[i]``.

        Shapes: `scale` (m,), `columns` (d,); returns (m, d).
        """
        height, dtype = len(self.parts[0]), self.parts[0].dtype
        # Convert to the precision of the parts: double weights would make each product double.
        weights = (self.coefficients[:, : len(scale)] * scale).astype(dtype)
        # Tall, so that a panel is contiguous, and its memory is touched only when it is written.
        in_file = any(map(is_in_file, self.parts))
        out = tall_array(height if columns is None else n_columns, len(scale), dtype, in_file=in_file)
        part_weights = np.split(weights, np.cumsum([part.shape[1] for part in self.parts])[:-1])

        def multiply(panels: Iterator[slice]) -> Iterator[float]:
            buffer, product = np.empty((2, PANEL, len(scale)), dtype=dtype)
            for panel in panels:
                # One part at a time: concatenating the parts would copy them.
                rows = np.matmul(self.parts[0][panel], part_weights[0], out=panel_buffer(panel, buffer))
                for part, weight in zip(self.parts[1:], part_weights[1:], strict=True):
                    rows += np.matmul(part[panel], weight, out=panel_buffer(panel, product))
                out[panel if columns is None else columns[panel]] = rows
                for part in self.parts if release_parts else ():
                    release_pages(part, panel.start, panel.stop)
                yield 0.0

        sum_panels(multiply, (), height, out, *self.parts)
        return out.T


def _symmetrize(H: Doubles, n_inside: int) -> Doubles:
    """Return H with its first n columns averaged with their rows, and zeros beyond both."""
    H[:n_inside, :n_inside] = (H[:n_inside, :n_inside] + H[:n_inside, :n_inside].T) / 2
    H[:n_inside, n_inside:] = H[n_inside:, :n_inside].T
    return H


def _best_approximation(parts: tuple[FloatArray, ...], T: Doubles, inner: Doubles) -> Approximation:
    """Return ``C K (K'C K)^+ K'C`` (Nystrom), with ``C K = M T``, M the parts and `inner` their products ``M'M``.

    M is ``[K_1 ... K_j, P]`` with ``P = C K_j``. With ``K'C K = V diag(v) V'`` the approximation is ``(M R)(M R)'`` for
    ``R = T V / sqrt(v)``; the eigenpairs of the small ``R'M'M R`` turn it into orthogonal rows.
    """
    # `K'C K` is symmetric up to rounding; average both triangles. Drop pairs below the rounding floor here, before
    # the division by `sqrt(v)` amplifies their errors.
    projected = inner[: T.shape[1]] @ T
    values, vectors = leading_eigenpairs((projected + projected.T) / 2, parts[0].dtype)
    root = T @ (vectors / np.sqrt(values))
    squares, small = root.T @ inner @ root, values < MIN_SPREAD * values[:1]
    if small.any():
        # For small values v and w, squared products divided by sqrt(v w) have an error of eps * largest^2 / sqrt(v w).
        # So compute the columns of ``M root`` for small values directly, and their products with each other.
        exact = np.split(root[:, small].astype(parts[0].dtype), np.cumsum([part.shape[1] for part in parts])[:-1])
        own_products = np.zeros((small.sum(),) * 2)
        for panel in iter_panels(len(parts[0]), *parts):
            rows = parts[0][panel] @ exact[0]
            for part, weight in zip(parts[1:], exact[1:], strict=True):
                rows += part[panel] @ weight
            own_products += rows.T @ rows
        squares[np.ix_(small, small)] = own_products
    stable = find_stable_pairs(projected, vectors, squares, values, parts[0].dtype)
    unstable_value = float(squares.diagonal()[~stable].max(initial=0.0))
    values, vectors, root, squares = values[stable], vectors[:, stable], root[:, stable], squares[stable][:, stable]
    scales, (values, rotation) = 1.0 / np.sqrt(values), leading_eigenpairs(squares, parts[0].dtype)
    # The singular vector x is ``M T z / value`` with ``z = V w sqrt(value / v)`` for an eigenvector w. Rounding E of
    # products adds at most ``|E| (2 |z| + |z|^2)`` to its value, and rounding of ``M'P`` that of z in P.
    Z = (vectors * scales) @ rotation * np.sqrt(values)
    weights = np.square(Z)
    last = weights[-parts[-1].shape[1] :].sum(axis=0) * values[:1] / values
    factors = np.square(1.0 + np.sqrt(weights.sum(axis=0))) + last
    # E is as large as the asymmetry of `K'C K`. Values below what it adds are dropped.
    added = np.linalg.norm((projected - projected.T) @ Z, axis=0) * (2.0 + np.linalg.norm(Z, axis=0))
    rank = count_leading(values > added)
    values, coefficients = values[:rank], root @ rotation[:, :rank]
    inside = (inner[: T.shape[1]] @ coefficients) / np.sqrt(values)
    return Approximation(
        values,
        coefficients,
        parts,
        rounding_factors=np.maximum.accumulate(factors[:rank]),
        roundings=np.maximum.accumulate(added[:rank]),
        floor=max(unstable_value, rounding_floor(values, parts[0].dtype), added[rank : rank + 1].sum()),
        outside_norms=np.sqrt(np.maximum(0.0, 1.0 - np.square(inside).sum(axis=0))),
    )


def count_leading(is_true: Bools) -> int:
    """Return the number of entries (n,) before the first False."""
    return int(np.argmin(np.append(is_true, False)))


def find_stable_pairs(
    projected: Doubles, vectors: Doubles, squares: Doubles, values: Doubles, dtype: DTypeLike
) -> Bools:
    """Return a mask of the eigenpairs (v, z) of ``K'C K`` that are accurate enough to divide by ``sqrt(v)``.

    The asymmetry of ``K'C K`` is as large as its rounding E, which adds up to ``|E z| |C K z|^2 / v^2`` to the
    eigenvalues of the approximation. The mask keeps additions below ``4 sqrt(eps)`` of the largest. Shapes:
    `projected` (r, r), `vectors` (r, m), `values` (m,), `squares` (m, m): inner products of the rows
    ``C K z / sqrt(v)``.
    """
    rounding = np.linalg.norm((projected - projected.T) @ vectors, axis=0)
    return rounding * squares.diagonal() <= 4.0 * math.sqrt(np.finfo(dtype).eps) * values[:1] * values


def _assemble_blocks(columns: tuple[tuple[Doubles, ...], ...], parts: tuple[FloatArray, ...]) -> Doubles:
    """Return T as one matrix."""
    heights = np.cumsum([0, *(part.shape[1] for part in parts)])
    widths = np.cumsum([0, *(column[0].shape[1] for column in columns)])
    T = np.zeros((heights[-1], widths[-1]))
    for j, column in enumerate(columns):
        for i, entry in enumerate(column):
            T[heights[i] : heights[i + 1], widths[j] : widths[j + 1]] = entry
    return T


def _round_up_to_grid(values: FloatArray) -> float:
    """Round the largest of the ascending values up to a power of ``GRID_RATIO``; return 0 if it is not positive."""
    return GRID_RATIO ** math.ceil(math.log(values[-1], GRID_RATIO)) if values[-1] > 0.0 else 0.0


def _interval_ends(bound: float) -> list[float]:
    """Return upper ends of intervals whose Chebyshev polynomials may improve a bound."""
    last = math.floor(math.log(bound, GRID_RATIO))
    return [GRID_RATIO**j for j in range(last - 12, last + 1)]


def _chebyshev(t: FloatArray, a: float, b: float, degree: int) -> FloatArray:
    """Evaluate the Chebyshev polynomial of the interval ``[a, b]``."""
    return np.polynomial.chebyshev.chebval((2.0 * t - a - b) / (b - a), [0.0] * degree + [1.0])


def _invert_chebyshev(a: float, b: float, degree: int, value: float) -> float:
    """Return the argument beyond b at which the Chebyshev polynomial of ``[a, b]`` has the value `value`."""
    return a + (b - a) * (1.0 + math.cosh(math.acosh(max(value, MIN_POLYNOMIAL)) / degree)) / 2.0


def _bound_rounding(f: FloatArray, probes: FloatArray) -> float:
    """Bound the rounding of a polynomial of C times the probes."""
    return float(np.finfo(np.float64).eps * len(f) * np.abs(f).max() * np.linalg.norm(probes))
