"""Dense work: bases, shrinks, merges of sketches, third moments."""

import numpy as np

from dspectral.types import FloatArray

from .data import columns_of, counts
from .limits import SIDE, multiplying
from .loops import Loop, Run, Share, kernel
from .products import KRYLOV, SKETCH, WIDTH

ROWS = 200
"""Rows of a sketch."""
STATES = 50
MOMENTS, DENSE = "many labels", "dense rows"
LIMIT = "a product of square matrices in single precision"


def normal(shape: tuple[int, int], seed: int) -> FloatArray:
    """Draw a dense matrix in single precision."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def side(size: int) -> int:
    """Return the side of the matrices whose product is the limit: smaller for toy blocks."""
    return min(SIDE, max(8, size // 16))


def basis(size: int, seed: int) -> tuple[Run, Run]:
    """Make a third block of a Krylov basis: orthogonal to two, then orthonormal."""
    d, r = columns_of(size), min(WIDTH, columns_of(size) // 4)
    space = kernel("linalg.krylov:KrylovSpace")
    orthonormal = kernel("linalg.dense:orthonormal_columns")
    both = orthonormal(normal((d, 2 * r), seed))
    before = space((np.ascontiguousarray(both[:, :r]), np.ascontiguousarray(both[:, r:])), ())
    product, work = normal((d, r), seed + 1), np.empty((d, r), dtype=np.float32)

    def call() -> None:
        np.copyto(work, product)  # it is overwritten
        before.extend(work)

    # Twice K (K'P) for 2 r columns, 4 d r each; twice Z V of Z'Z for r columns, 4 d r each; K'P once more, 2 d r.
    amount = 2 * 4.0 * d * r * 2 * r + 2 * 4.0 * d * r * r + 2.0 * d * r * r
    return Run(call, amount), multiplying(np.float32, side(size))


def stack_flops(n: int, kept: int, d: int) -> float:
    """Count what replacing n rows by fewer takes: their Gram matrix, its eigenpairs, the rows."""
    return 2.0 * n * n * d + 10.0 / 3.0 * n**3 + 2.0 * kept * n * d


def shrink(size: int, seed: int) -> tuple[Run, Run]:
    """Make a sketch of a sketch and the next rows of a dense block."""
    d, rows = max(16, size // 4), min(ROWS, max(2, size // 64))
    stack = [normal((rows, d), seed), normal((5 * rows, d), seed + 1)]
    shrink_stack = kernel("decomposition.shrinking:shrink_stack")
    amount = stack_flops(6 * rows, rows, d) if 6 * rows <= d else stack_flops(d, rows, 6 * rows)
    return Run(lambda: shrink_stack(stack, rows), amount), multiplying(np.float32, side(size))


def merge(size: int, seed: int) -> tuple[Run, Run]:
    """Make one sketch of those of two blocks."""
    d, rows = columns_of(size), min(ROWS, max(2, size // 64))
    made = kernel("decomposition.frequent_directions:FrequentDirections")
    one, other = (
        made(normal((rows, d), seed + i), rows, "full", 1000, np.zeros(d), False, 1.0, 0.0) for i in range(2)
    )
    amount = stack_flops(2 * rows, rows, d)
    return Run(lambda: one.merge(other), amount), multiplying(np.float32, side(size))


def third_moment(size: int, seed: int) -> tuple[Run, Run]:
    """Make second and third moments of words in whitened coordinates."""
    n, k = max(16, size // 16), min(STATES, max(2, size // 64))
    words = counts(n, seed)
    whitening = normal((words.shape[1], k), seed)
    of = kernel("methods.multilabel.moments:ThirdMoment").of
    occurring = len(np.unique(words.indices))
    # For each of k columns j a product of k x rows with rows x (k - j): k^2 (k + 1) a word; of documents j x rows do.
    amount = float(k * (k + 1)) * ((k + 2) / 3 * n + k * occurring)
    return (
        Run(lambda: of(words, whitening=whitening, counts=True, distinct=True), amount),
        multiplying(np.float64, side(size)),
    )


LOOPS = (
    Loop(
        "basis orthogonalization",
        "flop",
        "2 x 4 d r 2r (Gram-Schmidt, twice) + 2 x 4 d r^2 (Z'Z and Z V, twice) + 2 d r^2 (coefficients)",
        LIMIT,
        basis,
        tuple(
            Share(fit, ("linalg/krylov.py:start", "linalg/krylov.py:extend", "linalg/krylov.py:close"))
            for fit in (KRYLOV, SKETCH)
        ),
    ),
    Loop(
        "shrink",
        "flop",
        "2 n^2 d (Gram matrix) + 10/3 n^3 (eigenpairs) + 2 l n d (rows), n = 6 l rows stacked",
        LIMIT,
        shrink,
        (Share(DENSE, ("decomposition/shrinking.py:shrink_stack",)),),
    ),
    Loop(
        "merge of sketches",
        "flop",
        "2 n^2 d (Gram matrix) + 10/3 n^3 (eigenpairs) + 2 l n d (rows), n = 2 l rows stacked",
        LIMIT,
        merge,
        (Share(SKETCH, ("decomposition/frequent_directions.py:merge",)),),
    ),
    Loop(
        "whitened third moment",
        "flop",
        "k (k + 1) ((k + 2) / 3 x documents + k x words that occur): triples i <= j <= l, or i and j <= l",
        "a product of square matrices in double precision",
        third_moment,
        (Share(MOMENTS, ("multilabel/moments.py:_cubes",)),),
    ),
)
