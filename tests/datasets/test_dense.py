import numpy as np
import pytest

from dspectral.datasets import gaussian_rows, low_rank_axes, low_rank_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gaussian_rows_are_standard_normal(dtype):
    X = gaussian_rows(5000, 20, block_rows=1500, dtype=dtype, seed=3)
    assert X.chunks == ((1500, 1500, 1500, 500), (20,))
    rows = X.compute()
    assert rows.dtype == X.dtype == dtype
    assert abs(rows.mean()) < 5 / np.sqrt(rows.size)
    assert np.abs(rows.T @ rows / 5000 - np.eye(20)).max() < 0.1


def test_blocks_differ_and_schedulers_do_not():
    X = low_rank_rows(300, 40, 5, block_rows=100, seed=1)
    rows = X.compute(scheduler="sync")
    assert not np.array_equal(rows[:100], rows[100:200])
    np.testing.assert_array_equal(X.compute(scheduler="threads"), rows)


def test_low_rank_rows_lie_near_the_true_axes_by_as_much_as_the_noise():
    axes = low_rank_axes(60, 4, seed=9)
    np.testing.assert_allclose(axes @ axes.T, np.eye(4), atol=1e-12)
    rows = low_rank_rows(4000, 60, 4, noise=0.1, seed=9).compute()
    rest = rows - rows @ axes.T @ axes
    assert np.isclose(rest.std(), 0.1 * np.sqrt(56 / 60), rtol=0.02)
    strengths = np.linalg.norm(rows @ axes.T, axis=0) / np.sqrt(4000)
    np.testing.assert_allclose(strengths, np.hypot([1, 0.75, 0.5, 0.25], 0.1), rtol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_components": 61}, "n_components is 61"),
        ({"noise": -0.1}, "noise is -0.1"),
    ],
)
def test_a_parameter_out_of_range_is_named(changes, message):
    settings = {"n_rows": 10, "n_columns": 60, "n_components": 3} | changes
    with pytest.raises(ValueError, match=message):
        low_rank_rows(**settings)
