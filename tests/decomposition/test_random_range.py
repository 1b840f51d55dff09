import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.decomposition.random_range import RandomRange


def of_rank(k, n=60, d=25, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, k)) @ rng.standard_normal((k, d))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(k=st.integers(1, 6), seed=st.integers(0, 1000))
def test_rows_of_low_rank_are_found_to_rounding(k, seed):
    A = of_rank(k, seed=seed)
    axes, values = RandomRange.from_block(A, size=18, seed=seed).leading(k)
    np.testing.assert_allclose(values, np.linalg.svd(A, compute_uv=False)[:k] ** 2, rtol=1e-6)
    np.testing.assert_allclose(A @ axes.T @ axes, A, atol=1e-6 * np.abs(A).max())


def test_a_diagonal_that_is_taken_off_leaves_what_is_below_it():
    low = of_rank(3)
    diagonal = np.linspace(1.0, 60.0, 25)
    A = np.concatenate([low, np.diag(np.sqrt(diagonal))])
    axes, values = RandomRange.from_block(A, size=15).leading(3, off_diagonal=diagonal)
    np.testing.assert_allclose(values, np.linalg.svd(low, compute_uv=False)[:3] ** 2, rtol=1e-6)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-6)


def test_blocks_multiplied_by_different_signs_cannot_be_merged():
    with pytest.raises(TypeError, match="NoneType"):
        RandomRange.from_block(of_rank(2), size=4, seed=None)  # would be another Omega in each block
    one, other = (RandomRange.from_block(of_rank(2), size=4, seed=seed) for seed in (1, 2))
    with pytest.raises(ValueError, match=r"seeds \[1, 2\]"):
        one.merge(other)


def test_fewer_directions_are_returned_where_there_are_no_more():
    assert len(RandomRange.from_block(of_rank(2), size=10).leading(5)[1]) == 2
