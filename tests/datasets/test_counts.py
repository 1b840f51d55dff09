import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import svds

from dspectral.datasets import low_rank_counts
from dspectral.datasets.counts import topic_parameters
from tests.schedulers import scheduled


def small(**changes):
    settings = {"row_length": 30, "block_rows": 400, "seed": 5} | changes
    return low_rank_counts(1000, 300, 6, **settings)


def test_blocks_are_counts_in_canonical_csr():
    X = small()
    assert X.chunks == ((400, 400, 200), (300,))
    for block in X.blocks:
        rows = block.compute()
        assert isinstance(rows, sparse.csr_array)
        assert (rows.dtype, rows.indices.dtype) == (np.float32, np.int32)
        assert rows.has_canonical_format
        assert rows.data.min() >= 1
        np.testing.assert_array_equal(rows.data, np.rint(rows.data))


def test_rows_have_the_length_asked_for_on_average():
    lengths = small(row_length=50).compute().sum(axis=1)
    assert lengths.min() >= 1
    assert abs(lengths.mean() - 50) < 4 * 7 / np.sqrt(1000)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_every_scheduler_draws_the_same_bits(scheduler):
    X = small()
    backwards = [X.blocks[i].compute(scheduler="sync") for i in reversed(range(3))]
    alone = sparse.vstack(backwards[::-1], format="csr")
    with scheduled(scheduler):
        together = X.compute()
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


def test_a_longer_matrix_begins_with_the_same_blocks():
    longer = low_rank_counts(1500, 300, 6, row_length=30, block_rows=400, seed=5)
    assert (longer.blocks[1].compute() != small().blocks[1].compute()).nnz == 0


def test_another_seed_draws_other_rows():
    assert (small(seed=6).compute() != small().compute()).nnz > 0


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.3])
@pytest.mark.parametrize("noise", [0.0, 0.4, 1.0])
def test_columns_are_as_frequent_as_the_true_parameters_say(exponent, noise):
    X = low_rank_counts(20_000, 40, 4, row_length=20, noise=noise, exponent=exponent, block_rows=5000, seed=1)
    expected = topic_parameters(40, 4, noise=noise, exponent=exponent).expected_columns()
    counts = X.compute().sum(axis=0)
    assert abs(expected.sum() - 1) < 1e-12
    # Three topics in a row make neighbouring words alike: at most 20 times a Poisson number's variance.
    assert np.all(np.abs(counts - counts.sum() * expected) <= 5 * np.sqrt(20 * counts.sum() * expected) + 5)


def test_without_noise_as_many_directions_stand_out_as_there_are_topics():
    X = low_rank_counts(3000, 500, 8, row_length=1000, noise=0.0, block_rows=1000, seed=2).compute()
    values = np.sort(svds(X.astype(float), k=10, return_singular_vectors=False, rng=0))[::-1]
    assert values[7] > 4 * values[8]


def test_topics_share_no_column_and_each_sums_to_one():
    topics = topic_parameters(103, 10).topics
    np.testing.assert_allclose(topics.sum(axis=1), 1)
    assert (topics.T @ topics).nnz == 10 * 10 * 10  # within topics only
    assert np.count_nonzero(topics.sum(axis=0)) == topics.nnz


def test_nothing_is_drawn_before_it_is_computed(monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("computed")

    monkeypatch.setattr(dask.base, "get_scheduler", refuse)
    assert isinstance(small(), da.Array)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_components": 301}, "n_components is 301.*from 1 to n_columns, 300"),
        ({"n_components": 0}, "n_components is 0"),
        ({"noise": 1.5}, "noise is 1.5"),
        ({"exponent": -1.0}, "exponent is -1.0"),
        ({"row_length": 0.5}, "row_length is 0.5"),
        ({"block_rows": 0}, "block_rows is 0, but it must be an integer of at least 1"),
        ({"n_rows": 0}, "n_rows is 0"),
        ({"seed": -1}, "seed is -1, but it must be an integer of at least 0"),
    ],
)
def test_a_parameter_out_of_range_is_named(changes, message):
    settings = {"n_rows": 10, "n_columns": 300, "n_components": 3} | changes
    with pytest.raises(ValueError, match=message):
        low_rank_counts(**settings)
