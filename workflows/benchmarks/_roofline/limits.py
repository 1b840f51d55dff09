"""What this machine can do at best, and the clock: rates of loops and limits in turn, on one thread or several."""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numcodecs import Blosc
from numpy.typing import NDArray


class Run(NamedTuple):
    """One run of a kernel, or of a limit.

    `call`: the run, without arguments; `amount`: bytes moved or floating-point operations done by it.
    """

    call: Callable[[], object]
    amount: float


def kernel(name: str) -> Any:
    """Return a kernel of dspectral by its name: it is no public one, which a program might import."""
    module, _, path = name.partition(":")
    found: Any = import_module(f"dspectral.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return found


REPEATS = 7
"""Timings of each run: an odd number, so that the median is one of them."""


class Rate(NamedTuple):
    """Bytes or operations a second over all threads.

    `median, low, high`: over the repetitions.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Rate":
        """Return the median and the spread of some values."""
        return cls(statistics.median(values), min(values), max(values))


def measure(kinds: Sequence[Sequence[Run]], seconds: float) -> list[list[float]]:
    """Return the rates of several kinds of runs, one for each repetition."""
    rates: list[list[float]] = [[] for _ in kinds]
    with ThreadPoolExecutor(max(map(len, kinds))) as pool:
        # The first round compiles loops and maps pages; the second says how often a run fits into the time.
        for _ in range(2):
            once = [_timed(pool, runs, 1) for runs in kinds]
        loops = [max(1, round(seconds / REPEATS / max(one, 1e-9))) for one in once]
        for _ in range(REPEATS):
            for found, runs, n in zip(rates, kinds, loops, strict=True):
                found.append(n * sum(run.amount for run in runs) / _timed(pool, runs, n))
    return rates


def _timed(pool: ThreadPoolExecutor, runs: Sequence[Run], n: int) -> float:
    """Return the wall time until all threads have run n times."""
    start = time.perf_counter()
    for done in [pool.submit(_repeated, run, n) for run in runs]:
        done.result()
    return time.perf_counter() - start


def _repeated(run: Run, n: int) -> None:
    for _ in range(n):
        run.call()


compiled: Any = kernel("_compiled:compiled_with_contraction")
hash_slice: Any = kernel("text.term_bytes:hash_slice")
BEYOND_CACHES = 128 << 20
"""Bytes of an array that no cache of a core's share holds."""
SIDE = 1024
"""Of the matrices of a product: three of them stay in a core's second cache only panel by panel, as BLAS does it."""
IN_CACHE = 1024
"""Numbers of a row that stays in a core's first cache beside another."""
COLUMNS = 65536
"""Rows of a factor out of which rows are gathered."""


@compiled
def add_rows(indices: NDArray[np.int32], rows: NDArray[Any], total: NDArray[Any]) -> None:
    """Gather rows, four at a time, and add them to one that stays in the cache."""
    entry = 0
    while entry + 4 <= indices.size:
        a, b = rows[indices[entry]], rows[indices[entry + 1]]
        c, d = rows[indices[entry + 2]], rows[indices[entry + 3]]
        for k in range(total.size):
            total[k] += (a[k] + b[k]) + (c[k] + d[k])
        entry += 4


@compiled
def add_ones(ids: NDArray[np.int32], reach: int, sums: NDArray[np.float64]) -> None:
    """Add one at the place of each of the ``2 reach`` neighbors of each id."""
    for i in range(reach, ids.size - reach):
        for j in range(i - reach, i):
            sums[ids[j]] += 1.0
        for j in range(i + 1, i + reach + 1):
            sums[ids[j]] += 1.0


@compiled
def add_multiples(times: int, row: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add a multiple of a row to another one, so many times."""
    for i in range(times):
        for k in range(total.size):
            total[k] += i * row[k]


@compiled
def hash_slices(
    text: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.uint32]
) -> None:
    """Hash slices of a text by MurmurHash3, and keep nothing else."""
    for i in range(begins.size):
        out[i] = hash_slice(text, begins[i], ends[i])


def copying(n_bytes: int) -> Run:
    """Copy an array: each byte is read once and written once."""
    source, target = np.ones(n_bytes // 8), np.ones(n_bytes // 8)
    return Run(lambda: np.copyto(target, source), 2.0 * source.nbytes)


def mapping(n_bytes: int) -> Run:
    """Ask for new memory and write to each page of it, which the system maps and clears, then give it back."""
    return Run(lambda: np.full(n_bytes // 8, 1.0), float(n_bytes))


def gathering(indices: NDArray[np.int32], rows: NDArray[Any]) -> Run:
    """Gather rows of a matrix in the order of some indices, and add them up."""
    total = np.zeros(rows.shape[1], dtype=rows.dtype)
    return Run(
        lambda: add_rows(indices, rows, total), float(len(indices) // 4 * 4 * rows.shape[1] * rows.itemsize)
    )


def adding(ids: NDArray[np.int32], reach: int, n: int) -> Run:
    """Add to places of an array at the ids around each id: 8 bytes are read and written for each."""
    sums = np.zeros(n)
    return Run(lambda: add_ones(ids, reach, sums), 16.0 * 2 * reach * max(0, len(ids) - 2 * reach))


def multiplying(dtype: type, side: int = SIDE) -> Run:
    """Multiply two square matrices: a product and a sum for each of side^3 triples."""
    A = np.ones((side, side), dtype=dtype)
    B, out = A.copy(), A.copy()
    return Run(lambda: np.matmul(A, B, out=out), 2.0 * side**3)


def multiples(times: int = 4096) -> Run:
    """Add multiples of a row to another one in the first cache: two operations for each number."""
    row, total = np.ones(IN_CACHE), np.zeros(IN_CACHE)
    return Run(lambda: add_multiples(times, row, total), 2.0 * times * IN_CACHE)


def decompressing(arrays: Sequence[NDArray[Any]]) -> Run:
    """Decompress arrays from memory by the codecs of a store: bytes of the arrays, once."""
    packed = []
    for array in arrays:
        shuffle = Blosc.BITSHUFFLE if array.dtype.kind == "f" else Blosc.SHUFFLE
        codec = Blosc(cname="lz4", clevel=5, shuffle=shuffle)
        packed.append((codec, codec.encode(array), np.empty_like(array)))

    def call() -> None:
        for codec, data, out in packed:
            codec.decode(data, out)

    return Run(call, float(sum(array.nbytes for array in arrays)))


def hashing(text: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Run:
    """Hash slices of a text: the bytes of each, once."""
    out = np.empty(len(begins), dtype=np.uint32)
    return Run(lambda: hash_slices(text, begins, ends, out), float((ends - begins).sum()))


def _uniform(width: int, size: int, seed: int) -> Run:
    indices = np.random.default_rng(seed).integers(size, size=16 * size, dtype=np.int32)
    return gathering(indices, np.ones((size, width), dtype=np.float32))


def machine(size: int, seed: int) -> dict[str, tuple[str, Run]]:
    """Return the limits of this machine that hold for any block: unit and run, by name."""
    n_bytes = min(BEYOND_CACHES, 2048 * size)
    side = min(SIDE, max(8, size // 16))
    drawn = np.random.default_rng(seed).integers(0, 50, size=n_bytes // 4, dtype=np.int32)
    found = {
        "copy": ("byte", copying(n_bytes)),
        "new pages": ("byte", mapping(n_bytes)),
        "product of matrices, single": ("flop", multiplying(np.float32, side)),
        "product of matrices, double": ("flop", multiplying(np.float64, side)),
        "decompression": ("byte", decompressing([drawn, drawn.astype(np.float32)])),
        "multiples of a row in the cache": ("flop", multiples()),
        "random additions": ("byte", adding(drawn % size, 5, size)),
    }
    for width in (8, 56, 104):
        found[f"random rows of {width} numbers"] = ("byte", _uniform(width, min(COLUMNS, size), seed))
    return found
