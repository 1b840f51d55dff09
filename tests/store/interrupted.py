"""A writer that stops at a place and waits there, for a parent that kills it."""

import time
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.store import arrays, blocks
from dspectral.store.from_text import counting
from dspectral.store.from_text.build import build_store
from dspectral.store.matrix import write_counts
from dspectral.store.vocabulary import VocabularySettings
from dspectral.text.hashing import HashingSettings
from tests.strategies import zipf_counts

N_BLOCKS = 8


def generated(log):
    """Lazy rows of 8 blocks; each time that one is made a line is added to the log."""
    return da.map_blocks(
        partial(_make, log=str(log)),
        chunks=((30,) * N_BLOCKS, (50,)),
        dtype=np.float32,
        meta=sparse.csr_array((0, 0), dtype=np.float32),
    )


def _make(block_id, log):
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{block_id[0]}\n")
    return zipf_counts(30, 50, 9, seed=block_id[0])


def write(kind, store, source):
    """Write a store of one kind; the source is the log of a matrix, or a file of text."""
    with dask.config.set(scheduler="sync"):
        if kind == "matrix":
            return write_counts(generated(source), str(store))
        if kind == "hashing":
            return build_store(
                str(source), str(store), hashing=HashingSettings(n_features=64), block_bytes=400
            )
        return build_store(str(source), str(store), vocabulary=VocabularySettings((1, 2)), block_bytes=400)


def write_until(stop, reached, *arguments):
    """Write until an array is written, say so, and wait there."""

    def write_array(zarr_store, path, values):
        plain_write_array(zarr_store, path, values)
        if path == stop:
            reached.set()
            time.sleep(600)

    plain_write_array = arrays.write_array
    blocks.write_array = counting.write_array = write_array
    write(*arguments)
