"""Products of more columns than memory holds: groups of columns, a basis in a file, and the law of both."""

import math
import os
import tracemalloc
from functools import partial

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD
from dspectral.datasets import low_rank_counts
from dspectral.decomposition import spectrum
from dspectral.decomposition.moments import GramProduct
from dspectral.decomposition.spectrum import SVDOptions, krylov_spectrum
from dspectral.engine import count_column_groups
from dspectral.engine.around.context import ProcessMemory, override_context
from dspectral.engine.around.memory import ENDS_AT, LIBRARY_BYTES, SPILL_SHARE
from dspectral.linalg.panels import is_in_file, iter_panels, release_rows, tall_array, tall_zeros_like
from tests.temporary import nothing_left

D = 50_000
COLUMN = 4 * D
"""Bytes of a column in single precision."""


@pytest.fixture(scope="module")
def rows():
    with dask.config.set(scheduler="sync"):
        yield low_rank_counts(200, D, 12, row_length=20, block_rows=50, seed=1).persist()


def limited(n_bytes):
    return dask.config.set({"dspectral.memory-limit": n_bytes})


@settings(deadline=None, max_examples=6)
@given(n_at_once=st.integers(1, 80), in_file=st.booleans(), double=st.booleans(), seed=st.integers(0, 9))
def test_product_columns_of_sparse_rows_are_bit_identical_in_any_group(n_at_once, in_file, double, seed):
    random = np.random.default_rng(seed)
    A = sparse.random_array((300, 700), density=0.02, rng=random, format="csr").astype(np.float32)
    Z = tall_array(700, 79, np.float64 if double else np.float32, in_file=in_file)
    Z[:] = random.standard_normal(Z.shape)
    whole = GramProduct.from_block(A, factor=np.array(Z))
    summarize = lambda summarize_block: summarize_block.func(A, factor=summarize_block.keywords["factor"])  # noqa: E731
    part, n_groups = spectrum.multiply_by_column_groups(summarize, Z, n_at_once, with_sums=True)
    assert n_groups == math.ceil(79 / n_at_once)
    assert is_in_file(part.product) == in_file
    assert part.product.tobytes() == whole.product.tobytes()
    assert (part.n_rows, part.energy, part.total.tobytes()) == (
        whole.n_rows,
        whole.energy,
        whole.total.tobytes(),
    )


@pytest.mark.parametrize("estimator", [TruncatedSVD, partial(SketchedPCA, solver="krylov", n_passes=3)])
def test_fit_is_bit_identical_in_any_limit_and_within_its_estimate(rows, estimator):
    free = estimator(8).fit(rows)
    assert free.n_passes_ == (5 if estimator is TruncatedSVD else 3)
    width = math.ceil(34 / (free.n_passes_ - 1))
    # Four blocks: two products wait, one is made, two are for a merge, each with a sum of rows; and the factor.
    limit, n_groups = 25, math.ceil(width / 2)
    with limited(limit * COLUMN):
        tracemalloc.start()
        model = estimator(8).fit(rows)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert model.n_passes_ == free.n_passes_ * n_groups
    assert most <= (limit + 8 + 8) * COLUMN  # the components, and panels beside them
    assert model.components_.tobytes() == free.components_.tobytes()
    assert model.singular_values_.tobytes() == free.singular_values_.tobytes()
    assert model.certificate_ == free.certificate_


def test_a_worker_gets_as_few_groups_as_its_memory_admits(rows):
    def n_groups(limit, n_workers=1):
        with override_context(memory=ProcessMemory(n_workers, 1, limit, 0)):
            return count_column_groups(rows, spectrum.product_summarizer, (D, 78), np.float32)

    # Four blocks a worker: two products wait, one is made, two are for a merge; and two copies of the factor.
    get_nbytes = {w: (7 * w + 10) * COLUMN + 50 * 4 * w for w in (78, 39, 26, 1)}
    for n, w in ((1, 78), (2, 39), (3, 26), (78, 1)):
        assert n_groups(get_nbytes[w] / SPILL_SHARE + 1) == n
    assert n_groups(get_nbytes[39] / SPILL_SHARE - 1e5) == 3
    assert n_groups(get_nbytes[39] / SPILL_SHARE - 1e5, n_workers=2) == 2  # fewer levels of the tree wait
    with override_context(memory=ProcessMemory(2, 1, 0, 0)):  # nothing limits the workers
        assert count_column_groups(rows, spectrum.product_summarizer, (D, 78), np.float32) == 1


def test_few_columns_below_spilling_are_not_taken_at_many_times_the_passes(rows):
    room = {w: (7 * w + 10) * COLUMN + 50 * 4 * w + 1 for w in (1, 39)}
    # One column fits without spilling, 39 before the worker is ended.
    limit = (room[39] - room[1]) / (ENDS_AT - SPILL_SHARE)
    taken = SPILL_SHARE * limit - room[1]
    with override_context(memory=ProcessMemory(1, 1, limit, taken)):
        assert count_column_groups(rows, spectrum.product_summarizer, (D, 78), np.float32) == 2


def test_even_one_column_that_does_not_fit_is_refused_in_a_sentence(rows):
    with (
        limited(9 * COLUMN),
        pytest.raises(MemoryError, match=r"TruncatedSVD.*one column") as refused,
    ):
        TruncatedSVD(8).fit(rows)
    assert str(refused.value).endswith("dspectral.memory-limit=4MB")
    with (
        override_context(memory=ProcessMemory(2, 1, 9 * COLUMN, 0)),
        pytest.raises(MemoryError, match=r"memory_limit='\d+MB'"),
    ):
        TruncatedSVD(8).fit(rows)


def test_a_plan_tells_as_many_passes_as_the_fit_makes(rows):
    svd = TruncatedSVD(3, n_passes=2)  # products of 19 columns
    # Two of the four blocks a worker: one product waits, one is made, two are for a merge.
    limit = (LIBRARY_BYTES + (6 * 10 + 8) * COLUMN + 200 * 10) / SPILL_SHARE + 1
    assert svd.plan(rows, workers=2, memory_limit=limit).n_passes == 2 * 2
    with override_context(memory=ProcessMemory(2, 1, int(limit), LIBRARY_BYTES)):
        assert svd.fit(rows).n_passes_ == 2 * 2


@pytest.mark.skipif(os.name == "nt", reason="files have names there")
def test_the_file_of_a_basis_has_no_name_and_is_gone_after_an_error(tmp_path, monkeypatch):
    made = []

    def seen(*size, in_file):
        made.append(tall_array(*size, in_file=in_file))
        return made[-1]

    def fails(summarize_block):
        assert is_in_file(made[0])
        assert not list(tmp_path.iterdir())
        raise RuntimeError("no product")

    monkeypatch.setattr(spectrum, "tall_array", seen)
    with nothing_left(tmp_path), limited(1000), pytest.raises(RuntimeError, match="no product"):
        krylov_spectrum(fails, D, SVDOptions(8, n_passes=3), n_groups=2)
    monkeypatch.setattr("os.posix_fallocate", _full, raising=False)
    with pytest.raises(OSError, match=r"1 MB.*TMPDIR"):
        tall_array(1000, 250, np.float32, in_file=True)


def _full(*_):
    raise OSError(28, "No space left on device")


def test_rows_that_were_let_go_are_still_there():
    tall = tall_array(20_000, 3, np.float32, in_file=True)
    assert not tall.any()
    for panel in iter_panels(len(tall), tall):
        tall[panel] = np.arange(panel.start, panel.stop)[:, None]
    release_rows(tall, slice(0, len(tall)))
    np.testing.assert_array_equal(tall[:, 1], np.arange(20_000))
    assert [is_in_file(one) for one in (tall.T, tall_zeros_like(tall, 2), tall.copy())] == [True, True, False]
    assert not is_in_file(tall_array(3, 0, np.float32, in_file=True))
    copy = tall.copy()
    release_rows(copy, slice(0, len(copy)))
    np.testing.assert_array_equal(copy, tall)
