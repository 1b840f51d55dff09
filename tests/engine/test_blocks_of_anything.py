"""Blocks of anything are read and summarized as rows are."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from dask.callbacks import Callback

from dspectral import summarize
from dspectral.decomposition.moments import Moments
from dspectral.engine import Blocks
from tests.schedulers import scheduled


def moments_of_numbers(numbers):
    return Moments.of(np.asarray(numbers, dtype=float).reshape(-1, 1))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_blocks_of_anything_are_read_and_summarised_by_one_task_each(scheduler):
    blocks, tasks = Blocks(partial(range, 1), [2, 3, 1, 5, 4]), Counter()
    count = Callback(posttask=lambda key, *_: tasks.update([str(key).partition("-block")[0]]))
    with scheduled(scheduler), count:
        summary = summarize(blocks, of=moments_of_numbers, name="numbers")
    assert summary.n_rows == 1 + 2 + 0 + 4 + 3
    assert summary.gram == [[1 + (1 + 4) + (1 + 4 + 9 + 16) + (1 + 4 + 9)]]
    assert tasks["('numbers"] == 5


def test_blocks_may_ride_beside_rows():
    X = np.arange(6.0).reshape(3, 2)
    summary = summarize(
        Blocks(float, ["2"], in_memory=True), X[:1], of=lambda scale, rows: Moments.of(scale * rows)
    )
    assert summary.gram.tolist() == [[0.0, 0.0], [0.0, 4.0]]


def test_no_blocks_are_an_error():
    with pytest.raises(ValueError, match="no block"):
        summarize(Blocks(int, []), of=moments_of_numbers)
