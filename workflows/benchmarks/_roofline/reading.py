"""Text to hashed counts, and blocks of a store to rows."""

import shutil
import weakref
from tempfile import mkdtemp

import numpy as np

from dspectral import NgramHashing, write_counts
from dspectral.text import hash_documents, tokenize

from .data import counts, documents
from .limits import decompressing, hashing
from .loops import Loop, Run, Share, kernel
from .products import KRYLOV, SKETCH

BUILD = "build_store"
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


LOOPS = (
    Loop(
        "hash of n-grams",
        "byte",
        "bytes from the first letter of each word to the end of the longest n-gram that begins there",
        "MurmurHash3 of the same bytes, nothing else",
        hash_ngrams,
        (Share(BUILD, ("text/hashing.py:hash_documents",)),),
    ),
    Loop(
        "decode of a block",
        "byte",
        "bytes of the block in memory: 8 an entry, 4 a row",
        "decompression of the same arrays in memory by the same codecs",
        decode,
        tuple(Share(fit, ("store/blocks.py:read_block",)) for fit in (KRYLOV, SKETCH)),
    ),
)
