"""Writers that stop at a place: by an error, or waiting there for a parent that kills them."""

import time

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral.store import arrays, blocks, writer
from dspectral.store.from_text import corpus_build, counting
from dspectral.store.from_text.build import build_store
from dspectral.store.vocabulary import VocabularySettings
from dspectral.text.hashing import HashingSettings
from tests.strategies import zipf_counts


def generated():
    """Lazy rows of 8 blocks."""
    meta = sparse.csr_array((0, 0), dtype=np.float32)
    return da.map_blocks(_make, chunks=((30,) * 8, (50,)), dtype=np.float32, meta=meta)


def _make(block_id):
    return zipf_counts(30, 50, 9, seed=block_id[0])


def write(kind, store, source):
    """Build a store of one kind of a file of text."""
    how = {"hashing": HashingSettings(n_features=64)} if kind == "hashing" else {}
    how = how or {"vocabulary": VocabularySettings((1, 2))}
    with dask.config.set(scheduler="sync"):
        return build_store(str(source), str(store), block_bytes=400, **how)


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


class StoppedError(Exception):
    """What ends a writer."""


def stopped_at(stop, build):
    """Call a builder, and stop it when it is about to write an array."""

    def write_array(store, path, values):
        if path.startswith(stop):
            raise StoppedError
        plain(store, path, values)

    plain = arrays.write_array
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="sync"):
        for module in (blocks, counting, corpus_build, writer):
            patch.setattr(module, "write_array", write_array)
        with pytest.raises(StoppedError):
            build()
