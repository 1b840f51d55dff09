"""Merges are one tree: its tasks, what waits in it, and the order of the blocks."""

import dask
import numpy as np
import pytest
from scipy import sparse

from dspectral import estimate_memory, summarize
from dspectral.configuration import count_merges, tree_depth
from dspectral.decomposition.moments import Moments
from dspectral.engine import (
    map_rows,
)
from tests.engine.blocks import Order, Tasks, lazy, one_by_one


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 5, 8, 9, 27])
@pytest.mark.parametrize("fan_in", [2, 3, 4])
def test_a_pass_is_one_task_a_block_and_the_merges_of_one_tree(n_blocks, fan_in):
    X = lazy(lambda block: sparse.csr_array([[1.0 + block]]), (1,) * n_blocks, 1, np.float64)
    weighed = map_rows(X, lambda rows: rows * 2, n_columns=1, sparse_output=True)
    expected, left = {"sketch-block": n_blocks}, n_blocks
    for level in range(1, tree_depth(n_blocks, fan_in) + 1):
        full, rest = divmod(left, fan_in)
        expected[f"merge-level-{level}"] = full + (rest > 1)
        left = full + (rest > 0)
    assert left == 1
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        actual = summarize(weighed, summarize_block=Moments.from_block, fan_in=fan_in, name="sketch")
    assert tasks.groups == expected
    assert count_merges(n_blocks, fan_in) == list(expected.values())[1:]  # what those who watch are told beforehand
    assert actual.total.tolist() == [n_blocks * (n_blocks + 1)]


@pytest.mark.parametrize("fan_in", [2, 4])
def test_no_more_summaries_wait_than_the_memory_law_says(fan_in):
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        summarize(one_by_one(64), summarize_block=Moments.from_block, fan_in=fan_in)
    # The rows in memory are one entry of the cache too.
    allowed = estimate_memory(summary_bytes=1, n_blocks=64, work_bytes=0, fan_in=fan_in)
    assert tasks.most_waiting <= allowed + 1


@pytest.mark.parametrize("fan_in", [2, 3, 7])
def test_merges_keep_the_order_of_the_blocks(fan_in):
    with dask.config.set(scheduler="threads", num_workers=4):
        assert summarize(one_by_one(23), summarize_block=Order.from_block, fan_in=fan_in) == tuple(range(23))
