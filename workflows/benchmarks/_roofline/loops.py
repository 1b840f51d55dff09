"""Hot loops: each a kernel on a block of its own, how much it moves or computes, and what bounds it.

Blocks are counts, sentences and documents, drawn by Zipf's law. A loop's function returns its run and that of its
limit, on a block of about ``size`` rows of counts or ``16 size`` tokens.
"""

import shutil
import weakref
from collections.abc import Callable
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral import NgramHashing, write_counts
from dspectral.cooccurrence import ContextCounts
from dspectral.datasets import low_rank_counts
from dspectral.text import hash_documents, tokenize
from dspectral.types import CSRRows, Documents, FloatArray, Sentences

from .limits import (
    SIDE,
    Run,
    adding,
    copying,
    decompressing,
    gathering,
    hashing,
    kernel,
    multiples,
    multiplying,
)


class Loop(NamedTuple):
    """A hot loop: its unit, the formula of its count, what bounds it on any machine, and what makes both runs."""

    unit: str
    formula: str
    limit: str
    make: Callable[[int, int], tuple[Run, Run]]


TOKENS_A_ROW = 16
SENTENCE = 20
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


def sentences(size: int, seed: int) -> Sentences:
    """Draw sentences of 20 words."""
    ids = tokens(size, seed)
    offsets = np.append(np.arange(0, len(ids), SENTENCE, dtype=np.int64), len(ids))
    return Sentences(ids, offsets)


def word(i: int) -> str:
    """Return a word for a number: frequent ones are short."""
    letters = ["wx"]
    while True:
        letters.append(chr(ord("a") + i % LETTERS))
        i //= LETTERS
        if not i:
            return "".join(letters)


def texts(size: int, seed: int) -> list[str]:
    """Draw documents of 100 words."""
    names = [word(i) for i in range(types_of(size))]
    ids = tokens(size, seed).tolist()
    return [" ".join(names[i] for i in ids[start : start + 100]) for start in range(0, len(ids), 100)]


def documents(size: int, seed: int) -> Documents:
    """Draw documents as a block has them."""
    return Documents.of(texts(size, seed))


WORDS = 3
"""Most words of an n-gram."""


def hash_ngrams(size: int, seed: int) -> tuple[Run, Run]:
    """Make hashed counts of n-grams of one to three words."""
    texts, settings = documents(size, seed), NgramHashing().settings
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
PROBES = 8
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
    room = kernel("linalg.sparse_products:Room")
    return [room.of(piece, piece.nnz).transposed(piece) for piece in pieces]


def transposition(size: int, seed: int) -> tuple[Run, Run]:
    """Make the transposition of a block, piece by piece."""
    pieces, _ = pieces_of(size, seed, WIDTH)
    room = kernel("linalg.sparse_products:Room").of(pieces[0], max(piece.nnz for piece in pieces))

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


ROWS = 200
"""Rows of a sketch."""
TOPICS = 50


def normal(shape: tuple[int, int], seed: int) -> FloatArray:
    """Draw a dense matrix in single precision."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def side(size: int) -> int:
    """Return the side of the matrices whose product is the limit: smaller for toy blocks."""
    return min(SIDE, max(8, size // 16))


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
    n, k = max(16, size // 16), min(TOPICS, max(2, size // 64))
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


WINDOW = 5
CLUSTERS = 200


def window_counts(size: int, seed: int) -> tuple[Run, Run]:
    """Make counts of contexts of five words on each side."""
    block, n_types = sentences(size, seed), types_of(size)
    lengths = np.diff(block.offsets)
    # A word at place i of n has min(i, 5) words before it, and as many follow from the other end.
    reach = np.arange(1, WINDOW + 1)
    pairs = 2 * np.maximum(0, lengths[:, None] - reach).sum()
    amount = 16.0 * pairs  # a sum of 8 bytes is read and written for each word and context
    return (
        Run(lambda: ContextCounts.of(block, n_types=n_types, window=WINDOW), amount),
        adding(block.ids, WINDOW, n_types),
    )


def exchange(size: int, seed: int) -> tuple[Run, Run]:
    """Make one sweep of all words over 200 clusters."""
    ids, n_types = tokens(size, seed), types_of(size)
    m = min(CLUSTERS, n_types // 2)
    pairs = (np.ones(len(ids) - 1), (ids[:-1], ids[1:]))
    counts = sparse.csr_array(sparse.coo_array(pairs, shape=(n_types, n_types)))
    of, pairs = kernel("methods.brown.exchange:bigrams_of"), kernel("methods.brown.pair_counts:PairCounts")
    sweep = kernel("methods.brown.exchange:exchange_sweep")
    (block,), labels = of(pairs.of(counts)), (np.arange(n_types) % m).astype(np.int32)
    # Clusters that stand beside a word, each once a side: that many rows of counts and of their worth are read.
    near = [
        np.unique(np.repeat(np.arange(n_types), np.diff(starts)) * m + labels[others]) % m
        for starts, others in ((block.starts, block.others), (block.starts_back, block.others_back))
    ]
    rows = np.concatenate(near).astype(np.int32)
    amount = 16.0 * m * len(rows)  # a count of 8 bytes and its worth of 8 bytes for each cluster
    return (Run(lambda: sweep([block], labels.copy(), m), amount), gathering(rows, np.ones((m, 2 * m))))


STATES = 12


def model(n_types: int, seed: int) -> Any:
    """Draw a hidden Markov model."""
    generator = np.random.default_rng(seed)
    initial, transition, emission = (
        generator.random(shape) + 0.1 for shape in ((STATES,), (STATES, STATES), (n_types, STATES))
    )
    return kernel("methods.hmm.chain:HiddenMarkov").of(
        initial / initial.sum(),
        transition / transition.sum(axis=1, keepdims=True),
        emission / emission.sum(axis=0),
    )


def best_path(size: int, seed: int) -> tuple[Run, Run]:
    """Make the search for the most probable path through each sentence."""
    block, hidden = sentences(size, seed), model(types_of(size), seed)
    viterbi = kernel("methods.hmm.inference:viterbi")
    amount = 2.0 * STATES * STATES * len(block.ids)  # a sum and a comparison for each pair of states
    return Run(lambda: viterbi(block, hidden), amount), multiples()


def expected(size: int, seed: int) -> tuple[Run, Run]:
    """Make the expected counts of each sentence."""
    block, hidden = sentences(size, seed), model(types_of(size), seed)
    of = kernel("methods.hmm.expected_counts:ExpectedCounts").of
    # A product and a sum for each pair of states: forward, backward, and for the counts of transitions.
    amount = 6.0 * STATES * STATES * len(block.ids)
    return Run(lambda: of(block, model=hidden), amount), multiples()


SQUARE = "a product of square matrices in single precision"
CACHED = "multiples of a long row added to another one in the first cache"
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
        forward,
    ),
    "product A' Y": Loop(
        "byte",
        f"4 bytes x {WIDTH} columns x nnz: each entry gathers a row of Y, which fits a cache",
        "the same rows gathered and added up, nothing else",
        backward,
    ),
    "transposition of a block": Loop(
        "byte",
        "16 bytes x nnz: value and index, 4 bytes each, are read once and written once",
        "a copy of as many bytes",
        transposition,
    ),
    "probes of the certificate": Loop(
        "byte",
        f"2 x 4 bytes x {PROBES} columns x nnz: each entry gathers a row of q, then a row of A q",
        "the same rows of q gathered and added up, nothing else",
        probes,
    ),
    "shrink": Loop(
        "flop",
        "2 n^2 d (Gram matrix) + 10/3 n^3 (eigenpairs) + 2 l n d (rows), n = 6 l rows stacked",
        SQUARE,
        shrink,
    ),
    "merge of sketches": Loop(
        "flop",
        "2 n^2 d (Gram matrix) + 10/3 n^3 (eigenpairs) + 2 l n d (rows), n = 2 l rows stacked",
        SQUARE,
        merge,
    ),
    "whitened third moment": Loop(
        "flop",
        "k (k + 1) ((k + 2) / 3 x documents + k x words that occur): triples i <= j <= l, or i and j <= l",
        "a product of square matrices in double precision",
        third_moment,
    ),
    "window counts": Loop(
        "byte",
        "16 bytes x pairs of a word and a context: a sum is read and written",
        "the same sums in the order of the text, nothing else",
        window_counts,
    ),
    "exchange sweep": Loop(
        "byte",
        "16 bytes x clusters x neighboring clusters of all words: a row of counts and one of their worth",
        "rows of as many doubles gathered and added up, nothing else",
        exchange,
    ),
    "Viterbi": Loop(
        "flop", "2 k^2 x tokens: a sum and a comparison for each pair of states", CACHED, best_path
    ),
    "forward-backward": Loop(
        "flop",
        "3 x 2 k^2 x tokens: a product and a sum for each pair of states, forward, backward and counted",
        CACHED,
        expected,
    ),
}
"""By their names."""
