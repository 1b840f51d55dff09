"""Hot loops and what bounds them, for the program ``roofline``: each on blocks of its own, in turn with its limit.

Blocks are counts, sentences and documents, drawn by Zipf's law. A loop's function returns its run and that of its
limit, on a block of about ``size`` rows of counts or ``16 size`` tokens.
"""

import shutil
import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
from numcodecs import Blosc
from numpy.typing import NDArray

from dspectral import NgramHashing, write_counts
from dspectral.datasets import low_rank_counts
from dspectral.text import hash_documents, tokenize
from dspectral.types import CSRRows, Documents, Sentences


class Run(NamedTuple):
    """One run of a kernel, or of a limit: a call, and the bytes it moves or the floating-point operations it does."""

    call: Callable[[], object]
    amount: float


def kernel(name: str) -> Any:
    """Return a kernel of dspectral by its name: it is no public one, which a program might import."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"dspectral.{module}"), attribute)


REPEATS = 7
"""Timings of each run: an odd number, so that the median is one of them."""


class Rate(NamedTuple):
    """Bytes or operations a second over all threads: median, least and largest of the repetitions."""

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


def multiplying(dtype: type, size: int) -> Run:
    """Multiply two square matrices, smaller ones for toy blocks: a product and a sum for each of side^3 triples."""
    side = min(SIDE, max(8, size // 16))
    A = np.ones((side, side), dtype=dtype)
    B, out = A.copy(), A.copy()
    return Run(lambda: np.matmul(A, B, out=out), 2.0 * side**3)


def multiples() -> Run:
    """Add multiples of a row to another one in the first cache: two operations for each number."""
    times, row, total = 4096, np.ones(IN_CACHE), np.zeros(IN_CACHE)
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


def machine(size: int, seed: int) -> dict[str, tuple[str, Run]]:
    """Return the limits of this machine that hold for any block: unit and run, by name."""
    n_bytes = min(BEYOND_CACHES, 2048 * size)
    drawn = np.random.default_rng(seed).integers(0, 50, size=n_bytes // 4, dtype=np.int32)
    found = {
        "copy": ("byte", copying(n_bytes)),
        "new pages": ("byte", mapping(n_bytes)),
        "product of matrices, single": ("flop", multiplying(np.float32, size)),
        "product of matrices, double": ("flop", multiplying(np.float64, size)),
        "decompression": ("byte", decompressing([drawn, drawn.astype(np.float32)])),
        "multiples of a row in the cache": ("flop", multiples()),
    }
    n_rows = min(COLUMNS, size)
    order = np.random.default_rng(seed).integers(n_rows, size=16 * n_rows, dtype=np.int32)
    for width in (8, 56, 104):
        rows = np.ones((n_rows, width), dtype=np.float32)
        found[f"random rows of {width} numbers"] = ("byte", gathering(order, rows))
    return found


class Loop(NamedTuple):
    """A hot loop: its unit, the formula of its count, what bounds it on any machine, and what makes both runs."""

    unit: str
    formula: str
    limit: str
    make: Callable[[int, int], tuple[Run, Run]]


TOKENS_A_ROW = 16
LETTERS = 26


def columns_of(size: int) -> int:
    """Return the columns of a block of so many rows: 98,304 of 65,536."""
    return max(16, size * 3 // 2)


def counts(size: int, seed: int) -> CSRRows:
    """Draw a block of counts: topics over a background, about 90 entries a row."""
    n_columns = columns_of(size)
    topics = min(50, n_columns)
    return low_rank_counts(size, n_columns, topics, block_rows=size, seed=seed).compute()


def types_of(size: int) -> int:
    """Return the number of word types of sentences: 16,384 for 65,536."""
    return max(8, size // 4)


def tokens(size: int, seed: int) -> NDArray[np.int32]:
    """Draw ids of word types, the frequent ones first."""
    generator, n_types = np.random.default_rng(seed), types_of(size)
    # The inverse of the distribution whose density falls as 1 / rank.
    ranks = np.floor(np.exp(generator.random(TOKENS_A_ROW * size) * np.log(n_types + 1.0))) - 1
    return ranks.astype(np.int32)


def word(i: int) -> str:
    """Return a word for a number: frequent ones are short."""
    letters = ["wx"]
    while True:
        letters.append(chr(ord("a") + i % LETTERS))
        i //= LETTERS
        if not i:
            return "".join(letters)


def draw_texts(size: int, seed: int) -> list[str]:
    """Draw documents of 100 words."""
    names = [word(i) for i in range(types_of(size))]
    ids = tokens(size, seed).tolist()
    return [" ".join(names[i] for i in ids[start : start + 100]) for start in range(0, len(ids), 100)]


WORDS = 3
"""Most words of an n-gram."""


def hash_ngrams(size: int, seed: int) -> tuple[Run, Run]:
    """Make hashed counts of n-grams of one to three words."""
    texts, settings = Documents.of(draw_texts(size, seed)), NgramHashing(1 << 18, (1, 3)).settings
    cut = tokenize(texts)
    document = np.repeat(np.arange(len(texts.offsets) - 1), np.diff(cut.bounds))
    # The n-grams that begin at a word share their hash: the bytes of the longest pass through it.
    last = np.minimum(np.arange(len(document)) + WORDS, cut.bounds[document + 1])
    begins, ends = cut.starts[:-1], cut.starts[last] - 1
    amount = float((ends - begins).sum())
    return Run(lambda: hash_documents(texts, settings), amount), hashing(cut.text, begins, ends)


def decode(size: int, seed: int) -> tuple[Run, Run]:
    """Make the rows of one block of a store on this machine's disk, which the system has in memory."""
    rows, folder = counts(size, seed), mkdtemp(prefix="roofline-")
    store = write_counts(rows, f"{folder}/counts", block_rows=size)
    read, info = kernel("store.blocks:read_block"), store.blocks[0]

    def call() -> None:
        read(store.where, info)

    weakref.finalize(call, shutil.rmtree, folder)  # the store goes with the run that reads it
    # What is in memory then: a value and an index for each entry, and where each row begins.
    return Run(call, float(info.n_bytes)), decompressing([rows.data, rows.indices, rows.indptr])


WIDTH = 104
"""Columns of a product of Krylov's four passes for 100 components: 3 k + 10 in three blocks."""


def pieces_of(size: int, seed: int) -> list[CSRRows]:
    """Return a block in the pieces that a product takes."""
    A, row_slice = counts(size, seed), kernel("linalg.sparse_products:row_slice")
    step = max(1, kernel("linalg.sparse_products:CACHED_BYTES") // (4 * WIDTH))
    return [row_slice(A, start, min(start + step, size)) for start in range(0, size, step)]


def product(size: int, seed: int, *, forward: bool) -> tuple[Run, Run]:
    """Make ``A Z``, or ``A' Y``, from the transposed pieces."""
    pieces, room = pieces_of(size, seed), kernel("linalg.sparse_products:Room")
    Z = np.random.default_rng(seed).standard_normal((columns_of(size), WIDTH), dtype=np.float32)
    Y = np.resize(Z, (pieces[0].shape[0], WIDTH))
    columns = [room.of(piece, piece.nnz).transposed(piece) for piece in pieces]
    multiply = kernel(f"linalg.sparse_loops:{'scatter' if forward else 'gather'}")
    factor, out = (Z, np.zeros_like(Y)) if forward else (Y, np.zeros_like(Z))

    def call() -> None:
        for data, rows, starts in columns:
            multiply(data, rows, starts, factor, out)

    order = [piece.indices for piece in pieces] if forward else [rows for _, rows, _ in columns]
    amount = 4.0 * WIDTH * sum(piece.nnz for piece in pieces)  # a row of 4 bytes a number for each entry
    return Run(call, amount), gathering(np.concatenate(order), factor)


def transposition(size: int, seed: int) -> tuple[Run, Run]:
    """Make the transposition of a block, piece by piece."""
    pieces = pieces_of(size, seed)
    room = kernel("linalg.sparse_products:Room").of(pieces[0], max(piece.nnz for piece in pieces))

    def call() -> None:
        for piece in pieces:
            room.transposed(piece)

    amount = 16.0 * sum(piece.nnz for piece in pieces)  # value and index, 8 bytes, are read and written
    return Run(call, amount), copying(int(amount / 2))


STATES, SENTENCE = 12, 20
"""Of the hidden Markov model, and words of a sentence."""


def best_path(size: int, seed: int) -> tuple[Run, Run]:
    """Find the most probable path through each sentence."""
    ids, n_types, generator = tokens(size, seed), types_of(size), np.random.default_rng(seed)
    block = Sentences(ids, np.append(np.arange(0, len(ids), SENTENCE, dtype=np.int64), len(ids)))
    initial, transition, emission = (
        generator.random(shape) + 0.1 for shape in ((STATES,), (STATES, STATES), (n_types, STATES))
    )
    hidden = kernel("methods.hmm.chain:HiddenMarkov").of(
        initial / initial.sum(),
        transition / transition.sum(axis=1, keepdims=True),
        emission / emission.sum(axis=0),
    )
    viterbi = kernel("methods.hmm.inference:viterbi")
    amount = 2.0 * STATES * STATES * len(block.ids)  # a sum and a comparison for each pair of states
    return Run(lambda: viterbi(block, hidden), amount), multiples()


LOOPS = {
    "hash of n-grams": Loop(
        "byte",
        "bytes from the first letter of each word to the end of the longest n-gram that begins there",
        "MurmurHash3 of the same bytes, nothing else",
        hash_ngrams,
    ),
    "decode of a block": Loop(
        "byte",
        "bytes of the block in memory: 8 an entry, 4 a row",
        "decompression of the same arrays in memory by the same codecs",
        decode,
    ),
    "product A Z": Loop(
        "byte",
        f"4 bytes x {WIDTH} columns x nnz: each entry adds a row of Z to one of A Z, which fits a cache",
        "rows of Z gathered in the order of the block's columns and added up, nothing else",
        partial(product, forward=True),
    ),
    "product A' Y": Loop(
        "byte",
        f"4 bytes x {WIDTH} columns x nnz: each entry gathers a row of Y, which fits a cache",
        "the same rows gathered and added up, nothing else",
        partial(product, forward=False),
    ),
    "transposition of a block": Loop(
        "byte",
        "16 bytes x nnz: value and index, 4 bytes each, are read once and written once",
        "a copy of as many bytes",
        transposition,
    ),
    "Viterbi": Loop(
        "flop",
        "2 k^2 x tokens: a sum and a comparison for each pair of states",
        "multiples of a long row added to another one in the first cache",
        best_path,
    ),
}
"""By their names."""
