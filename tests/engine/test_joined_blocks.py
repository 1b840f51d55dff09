"""Small blocks that one task reads together: which ones, that it is said, and that errors still name one block."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dspectral import summarize, write_counts
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import GramProduct
from dspectral.engine import map_rows
from dspectral.engine.blocks import (
    BLOCK_BYTES,
    MAX_GROUPED_BLOCKS,
    group_blocks_by_size,
    set_block_nbytes,
)
from tests.engine.recording import record

N_COLUMNS, BLOCK_ROWS = 1500, 300
SKETCH = partial(FrequentDirections.from_block, size=20, seed=1)


def counts(n_blocks, seed=0):
    rng = np.random.default_rng(seed)
    shape = (BLOCK_ROWS * n_blocks, N_COLUMNS)
    return sparse.random_array(shape, density=0.01, format="csr", dtype=np.float32, rng=rng)


@pytest.fixture
def store(tmp_path):
    """Ten blocks of 37 kB each, where a sketch of twenty rows has 132 kB."""
    return write_counts(counts(10), str(tmp_path / "store"), block_rows=BLOCK_ROWS)


def sized(sizes):
    return set_block_nbytes(da.ones((len(sizes), 2), chunks=(1, 2)), sizes)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(0, 300), st.integers(1, 20))
def test_runs_are_full_consecutive_and_the_same_for_those_who_come_before(sizes, target, n_more):
    spans = group_blocks_by_size([sized(sizes)], target)
    assert [i for span in spans for i in span] == list(range(len(sizes)))
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        total = sum(sizes[i] for i in span)
        assert len(span) == 1 or (len(span) <= MAX_GROUPED_BLOCKS and total <= target)
        if following is not None and target:
            assert len(span) == MAX_GROUPED_BLOCKS or total + sizes[following[0]] > target
    longer = group_blocks_by_size([sized([*sizes, *range(n_more)])], target)
    assert longer[: len(spans) - 1] == spans[:-1]


SEVEN = [sized([BLOCK_BYTES // 3] * 7)]


@pytest.mark.parametrize(
    ("streams", "target", "setting", "lengths"),
    [
        (SEVEN, 1 << 40, None, [3, 3, 1]),  # no more bytes than a block of an array in memory
        (SEVEN, 1 << 40, "44 MiB", [2, 2, 2, 1]),
        (SEVEN, 1 << 40, 0, [1] * 7),
        ([sized([10] * 6), sized([20] * 6)], 60, None, [2, 2, 2]),  # by their bytes together
        ([sized([10] * 6), da.ones((6, 1), chunks=1)], 60, None, [1] * 6),  # one says nothing
    ],
)
def test_block_groups_stay_below_target_and_configured_bytes(streams, target, setting, lengths):
    with dask.config.set({} if setting is None else {"dspectral.joined-bytes": setting}):
        assert [len(span) for span in group_blocks_by_size(streams, target)] == lengths


@pytest.mark.parametrize(
    "of", [SKETCH, partial(GramProduct.from_block, factor=np.ones((N_COLUMNS, 8), dtype=np.float32))]
)
def test_joined_blocks_give_the_bits_of_one_large_block(store, of):
    spans = group_blocks_by_size([store.counts], 96_000 if of.func == GramProduct.from_block else 264_000)
    assert 1 < len(spans) < 10
    matrix, ends = counts(10), [BLOCK_ROWS * span.stop for span in spans]
    large = write_counts(
        da.concatenate(
            [
                da.from_array(matrix[start:end].toarray(), chunks=-1)
                for start, end in zip([0, *ends[:-1]], ends, strict=True)
            ]
        ).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=np.float32)),
        f"memory://large-{of.func.__qualname__}",
    )
    assert large.n_blocks == len(spans)
    found, (one, *_) = record(lambda: summarize(store, summarize_block=of))
    wanted, (other, *_) = record(lambda: summarize(large, summarize_block=of))
    assert (one.n_blocks, one.n_joined, one.n_merges) == (len(spans), 10, len(spans) - 1)
    assert (other.n_blocks, other.n_joined) == (len(spans), 0)
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_what_is_refused_names_its_own_block_and_row(store, scheduler):
    def spoiled(rows):
        rows = rows.copy()
        rows.data[rows.data > largest] = np.nan
        return rows

    matrix = counts(10)
    largest = np.sort(matrix.data)[-2]
    row = int(np.searchsorted(matrix.indptr, int(np.argmax(matrix.data)), side="right") - 1)
    rows = map_rows(store, spoiled, n_columns=N_COLUMNS, dtype=np.float32, sparse_output=True)
    said = rf"^row block {row // BLOCK_ROWS}: .*row {row % BLOCK_ROWS}\b"
    with dask.config.set(scheduler=scheduler), pytest.raises(ValueError, match=said):
        summarize(rows, summarize_block=SKETCH)
