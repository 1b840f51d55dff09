"""Products of a block of counts with dense matrices, and what they need: rows gathered, a block transposed."""

import numpy as np
from numpy.typing import NDArray

from .data import CSRRows, columns_of, counts
from .limits import copying, gathering
from .loops import Loop, Run, Share, kernel

WIDTH = 104
"""Columns of a product of Krylov's four passes for 100 components: 3 k + 10 in three blocks."""
SIDE_WIDTH = 55
"""Columns of a product with the rows' own Gram matrix, for a sketch of 200 rows."""
PROBES = 8
LOOPS_OF = "linalg/sparse_loops.py:"
KRYLOV, SKETCH = "krylov, 4 passes", "frequent directions"
TRANSPOSED = ("linalg/sparse_products.py:transposed",)


def pieces_of(size: int, seed: int, width: int) -> tuple[list, NDArray[np.float32]]:
    """Return a block in the pieces that a product takes, and a factor with a row for each column."""
    A = counts(size, seed)
    step = max(1, kernel("linalg.sparse_products:CACHED_BYTES") // (4 * width))
    row_slice = kernel("linalg.sparse_products:row_slice")
    cuts = range(0, size, step)
    pieces = [row_slice(A, start, min(start + step, size)) for start in cuts]
    Z = np.random.default_rng(seed).standard_normal((columns_of(size), width), dtype=np.float32)
    return pieces, Z


def forward(size: int, seed: int) -> tuple[Run, Run]:
    """Make ``A Z`` from the transposed pieces."""
    pieces, Z = pieces_of(size, seed, WIDTH)
    scatter, columns = kernel("linalg.sparse_loops:scatter"), by_columns(pieces)
    out = np.zeros((pieces[0].shape[0], WIDTH), dtype=np.float32)

    def call() -> None:
        for data, rows, starts in columns:
            scatter(data, rows, starts, Z, out)

    amount = 4.0 * WIDTH * sum(piece.nnz for piece in pieces)  # a row of 4 bytes a number for each entry
    return Run(call, amount), gathering(np.concatenate([piece.indices for piece in pieces]), Z)


def backward(size: int, seed: int) -> tuple[Run, Run]:
    """Make ``A' Y`` from the transposed pieces."""
    pieces, Z = pieces_of(size, seed, WIDTH)
    gather, columns = kernel("linalg.sparse_loops:gather"), by_columns(pieces)
    Y, out = np.resize(Z, (pieces[0].shape[0], WIDTH)), np.zeros_like(Z)

    def call() -> None:
        for data, rows, starts in columns:
            gather(data, rows, starts, Y, out)

    amount = 4.0 * WIDTH * sum(piece.nnz for piece in pieces)  # a row of Y for each entry
    return Run(call, amount), gathering(np.concatenate([rows for _, rows, _ in columns]), Y)


def by_columns(pieces: list) -> list[tuple]:
    """Return the arrays of the transposed pieces."""
    room = kernel("linalg.transposition:Room")
    return [room.of(piece, piece.nnz).transposed(piece) for piece in pieces]


def transposition(size: int, seed: int) -> tuple[Run, Run]:
    """Make the transposition of a block, piece by piece."""
    pieces, _ = pieces_of(size, seed, WIDTH)
    room = kernel("linalg.transposition:Room").of(pieces[0], max(piece.nnz for piece in pieces))

    def call() -> None:
        for piece in pieces:
            room.transposed(piece)

    amount = 16.0 * sum(piece.nnz for piece in pieces)  # value and index, 8 bytes, are read and written
    return Run(call, amount), copying(int(amount / 2))


def probes(size: int, seed: int) -> tuple[Run, Run]:
    """Make ``A' (A q)`` for the 8 columns of the certificate, summed in double."""
    A = counts(size, seed)
    q = np.random.default_rng(seed).standard_normal((A.shape[1], PROBES), dtype=np.float32)
    (columns,), multiply = by_columns([A]), kernel("linalg.sparse_products:gram_times_eight")
    amount = 2 * 4.0 * PROBES * A.nnz  # a row of q for each entry, then a row of A q
    return Run(lambda: multiply(A, columns, q), amount), gathering(A.indices, q)


def few_rows(size: int, seed: int) -> CSRRows:
    """Return a block of six times as many columns as rows: the first quarter of the rows."""
    return kernel("linalg.sparse_products:row_slice")(counts(size, seed), 0, max(1, size // 4))


def row_side(size: int, seed: int) -> tuple[Run, Run]:
    """Make ``A (A' Y)`` of a block by columns."""
    A = few_rows(size, seed)
    (columns,), Y = by_columns([A]), np.ones((A.shape[0], SIDE_WIDTH), dtype=np.float32)
    multiply, out = kernel("linalg.sparse_loops:gram_gather_scatter"), np.zeros_like(Y)
    amount = 2 * 4.0 * SIDE_WIDTH * A.nnz  # a row of Y is read for each entry, and one of the result added to
    return Run(lambda: multiply(*columns, Y, out), amount), gathering(columns[1], Y)


def row_side_probes(size: int, seed: int) -> tuple[Run, Run]:
    """Make ``A (A' q)`` for the 8 columns of the certificate, in double precision."""
    A = few_rows(size, seed)
    (columns,), q = by_columns([A]), np.ones((A.shape[0], PROBES))
    multiply, out = kernel("linalg.sparse_loops:add_row_gram_of_eight"), np.zeros_like(q)
    amount = 2 * 8.0 * PROBES * A.nnz  # a row of q is read for each entry, and one of the result added to
    return Run(lambda: multiply(*columns, q, out), amount), gathering(columns[1], q)


LOOPS = (
    Loop(
        "product A Z",
        "byte",
        f"4 bytes x {WIDTH} columns x nnz: each entry adds a row of Z to one of A Z, which fits a cache",
        "rows of Z gathered in the order of the block's columns and added up, nothing else",
        forward,
        (Share(KRYLOV, (f"{LOOPS_OF}scatter",)), Share(SKETCH, (f"{LOOPS_OF}scatter",))),
    ),
    Loop(
        "product A' Y",
        "byte",
        f"4 bytes x {WIDTH} columns x nnz: each entry gathers a row of Y, which fits a cache",
        "the same rows gathered and added up, nothing else",
        backward,
        (
            Share(KRYLOV, (f"{LOOPS_OF}gather",)),
            Share(SKETCH, (f"{LOOPS_OF}gather",)),
        ),
    ),
    Loop(
        "transposition of a block",
        "byte",
        "16 bytes x nnz: value and index, 4 bytes each, are read once and written once",
        "a copy of as many bytes",
        transposition,
        (Share(KRYLOV, TRANSPOSED), Share(SKETCH, TRANSPOSED)),
    ),
    Loop(
        "probes of the certificate",
        "byte",
        f"2 x 4 bytes x {PROBES} columns x nnz: each entry gathers a row of q, then a row of A q",
        "the same rows of q gathered and added up, nothing else",
        probes,
        (Share(SKETCH, ("linalg/sparse_products.py:gram_times_eight",)),),
    ),
    Loop(
        "product A A' Y",
        "byte",
        f"2 x 4 bytes x {SIDE_WIDTH} columns x nnz: each entry gathers a row of Y, then adds to a row of the result",
        "the same rows gathered and added up, nothing else",
        row_side,
        (Share(SKETCH, (f"{LOOPS_OF}gram_gather_scatter",)),),
    ),
    Loop(
        "probes from the rows",
        "byte",
        f"2 x 8 bytes x {PROBES} columns x nnz: each entry gathers a row of q, then adds to a row of the result",
        "the same rows of q gathered and added up, nothing else",
        row_side_probes,
        (Share(SKETCH, ("linalg/sparse_loops.py:add_row_gram_of_eight",)),),
    ),
)
