"""A rotation that makes several symmetric matrices as diagonal as possible at once."""

import math

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled


def joint_diagonalize(
    matrices: NDArray[np.float64],
    start: NDArray[np.float64] | None = None,
    *,
    tolerance: float = 1e-10,
    max_sweeps: int = 60,
) -> NDArray[np.float64]:
    """Find the rotation under which several symmetric matrices are nearly diagonal, by Jacobi sweeps.

    Shapes: `matrices` (m, k, k), `start` (k, k); returns (k, k).

    About ``4 m k^3`` operations a sweep, one copy of the matrices.

    Cardoso and Souloumiac 1996, "Jacobi angles for simultaneous diagonalization".

    >>> rotation = np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> matrices = np.stack([rotation @ np.diag(values) @ rotation.T for values in ([1.0, 2.0], [5.0, 0.5])])
    >>> np.abs(rotation.T @ joint_diagonalize(matrices)).round(6)
    array([[1., 0.],
           [0., 1.]])
    """
    k = matrices.shape[1]
    U = np.eye(k) if start is None else np.array(start)
    work = np.ascontiguousarray(matrices if start is None else U.T @ matrices @ U)
    # The sweeps rotate `work` in place, and without a start it may still be the caller's memory.
    if start is None:
        work = work.copy()
    # The axes are kept as rows: a rotation of two of them then runs through contiguous memory.
    Ut = np.ascontiguousarray(U.T)
    _sweeps(work, Ut, tolerance, max_sweeps)
    return np.ascontiguousarray(Ut.T)


@compiled
def _sweeps(work: NDArray[np.float64], Ut: NDArray[np.float64], tolerance: float, max_sweeps: int) -> None:
    """Rotate all planes in turn, in place, until no rotation brings more onto the diagonals.

    Invariant: ``work[m] = U' M_m U``, and each rotation lowers the sum of squares outside the diagonals. A sweep costs
    ``O(m k^3)``.
    """
    k = work.shape[1]
    # Each rotation changes rows and columns p and q of all matrices, and so the angles of the planes behind it: the
    # planes can only be taken one after the other, and their fixed order makes the result reproducible.
    for _ in range(max_sweeps):
        turned = False
        for p in range(k - 1):
            for q in range(p + 1, k):
                c, s = _angle(work, p, q)
                if abs(s) > tolerance:
                    turned = True
                    _turn(work, Ut, p, q, c, s)
        if not turned:
            return


@compiled
def _angle(work: NDArray[np.float64], p: int, q: int) -> tuple[float, float]:
    """Return cosine and sine of the rotation of a plane that leaves least outside the diagonals.

    The angle is that of the leading eigenvector of the 2 x 2 matrix of sums over m of ``h h'`` with
    ``h = (M_pp - M_qq, 2 M_pq)`` (Cardoso and Souloumiac, section 3).
    """
    on, off, mixed = 0.0, 0.0, 0.0
    for m in range(work.shape[0]):
        difference, twice = work[m, p, p] - work[m, q, q], 2.0 * work[m, p, q]
        on += difference * difference
        off += twice * twice
        mixed += difference * twice
    if mixed == 0.0 and off > on:  # both arguments of the angle would be 0, which is no angle
        return math.sqrt(0.5), math.sqrt(0.5)
    angle = 0.5 * math.atan2(2.0 * mixed, on - off + math.hypot(on - off, 2.0 * mixed))
    return math.cos(angle), math.sin(angle)


@compiled
def _turn(work: NDArray[np.float64], Ut: NDArray[np.float64], p: int, q: int, c: float, s: float) -> None:
    """Rotate rows p and q, then columns p and q, of each matrix, and the two axes themselves."""
    # `M <- R' M R` for the rotation R of one plane: the second loop reads rows that the first has rotated. The cost is
    # `8 k` products for each matrix.
    k = work.shape[1]
    for m in range(work.shape[0]):
        for j in range(k):
            a, b = work[m, p, j], work[m, q, j]
            work[m, p, j], work[m, q, j] = c * a + s * b, c * b - s * a
        for i in range(k):
            a, b = work[m, i, p], work[m, i, q]
            work[m, i, p], work[m, i, q] = c * a + s * b, c * b - s * a
    for j in range(k):
        a, b = Ut[p, j], Ut[q, j]
        Ut[p, j], Ut[q, j] = c * a + s * b, c * b - s * a
