"""Blocks for tests of passes, and a summary that knows their order."""

import itertools
import multiprocessing
import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
from dask.callbacks import Callback
from scipy import sparse

from tests.strategies import zipf_counts

N_BLOCKS, BLOCK_ROWS, N_COLUMNS = 7, 1100, 1200  # wider and longer than a Gram matrix is taken for
SIZES = (BLOCK_ROWS,) * N_BLOCKS


def rows_of(block):
    return zipf_counts(BLOCK_ROWS, N_COLUMNS, 8, seed=block)


def kill_once(block, *, marker):
    """Kill the process that reads block 4, the first time."""
    if block == 4 and not Path(marker).exists():
        assert multiprocessing.parent_process() is not None
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rows_of(block)


def lazy(read, sizes=SIZES, n_columns=N_COLUMNS, dtype=np.float32):
    """A Dask array of CSR blocks, each of them one call of ``read(number)``."""
    meta = sparse.csr_array((0, 0), dtype=dtype)
    return da.map_blocks(
        partial(call, read=read), chunks=(sizes, (n_columns,)), dtype=dtype, meta=meta, name=next(NAMES)
    )


NAMES = (f"load-{number}" for number in itertools.count())


def call(block_id, *, read):
    return read(block_id[0])


def one_by_one(n_rows, n_columns=2):
    """A Dask array of dense blocks of one row each: row i is i."""
    rows = np.repeat(np.arange(float(n_rows))[:, None], n_columns, axis=1)
    return da.from_array(rows, chunks=(1, n_columns))


def normal_rows(n_blocks, n_columns=40, block_rows=30):
    """A Dask array of dense blocks of normal numbers."""
    shape = (n_blocks * block_rows, n_columns)
    return da.random.default_rng(0).standard_normal(shape, chunks=(block_rows, -1))


def unreadable(block):
    raise AssertionError(f"block {block} was read")


class Tasks(Callback):
    """Counts tasks by group, and the results that wait at once."""

    def __init__(self):
        self.groups, self.most_waiting = Counter(), 0

    def _posttask(self, key, result, dsk, state, worker):
        name = key[0] if isinstance(key, tuple) else key
        self.groups[name.rsplit("-", 1)[0]] += 1
        self.most_waiting = max(self.most_waiting, len(state["cache"]))


class Order(tuple):
    """Which blocks were merged, in which order."""

    __slots__ = ()

    @classmethod
    def from_block(cls, rows):
        return cls([int(rows[0, 0])])

    def merge(self, *others):
        return Order(itertools.chain(self, *others))
