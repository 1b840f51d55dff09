import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.decomposition import block_sketches, frequent_directions
from dspectral.decomposition.frequent_directions import FrequentDirections, count_kept_rows
from tests.decomposition.test_nystrom import N_DRAWS
from tests.reference import theory_bound
from tests.strategies import cuts, matrices, split, zipf_counts


def difference(X, summary, center=False):
    """Eigenvalues of ``A'A - B'B``, smallest first."""
    X = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=float)
    X = X - X.mean(axis=0) if center else X
    B = summary.sketch.astype(float)
    return np.linalg.eigvalsh(X.T @ X - B.T @ B), X


def merged(summaries, fan_in):
    while len(summaries) > 1:
        groups = [summaries[i : i + fan_in] for i in range(0, len(summaries), fan_in)]
        summaries = [group[0].merge(*group[1:]) for group in groups]
    return summaries[0]


def assert_bounds_hold(X, summary, center=False):
    eigenvalues, A = difference(X, summary, center)
    keeps = count_kept_rows(summary.size, summary.shrink)
    rounding = 1e-9 * max(1.0, float(np.sum(np.asarray(X.todense() if sparse.issparse(X) else X) ** 2)))
    if summary.sketch.dtype == np.float32:
        rounding *= 1e4
    assert eigenvalues[0] >= -rounding  # B'B never exceeds A'A
    here = 1e-14 * float(np.sum(X.data**2) if sparse.issparse(X) else np.sum(X**2))  # of these few lines
    assert eigenvalues[-1] <= summary.error + here  # the certificate holds as it is, its own rounding and all
    assert summary.error <= theory_bound(A, keeps + 1) + rounding
    assert summary.energy == pytest.approx(np.sum(A**2), rel=1e-6, abs=rounding)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), size=st.integers(4, 9), fan_in=st.integers(2, 4))
def test_certificate_is_between_error_and_theory_for_any_blocks_and_tree(data, size, fan_in):
    X = data.draw(matrices())
    borders = data.draw(cuts(len(X)))
    shrink, center = data.draw(st.sampled_from(["full", "median"])), data.draw(st.booleans())
    as_csr = data.draw(st.booleans())
    blocks = split(sparse.csr_array(X) if as_csr else X, borders)
    parts = [FrequentDirections.from_block(block, size=size, shrink=shrink, center=center) for block in blocks]
    assert_bounds_hold(X, merged(parts, fan_in), center)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize(
    ("module", "name", "X"),
    [
        (frequent_directions, "sketch_large_sparse", zipf_counts(600, 500, 20)),
        (block_sketches, "sketch_in_row_space", zipf_counts(240, 1000, 60)),
    ],
    ids=["tall", "wide"],
)
def test_large_sparse_blocks_go_through_the_iteration_and_keep_all_bounds(
    monkeypatch, module, name, X, center, n_blocks
):
    monkeypatch.setattr(frequent_directions, "EXACT_SIDE", 40)
    seen, original = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: seen.append(1) or original(*a, **k))
    borders = np.linspace(0, X.shape[0], n_blocks + 1).astype(int)
    summary = merged([FrequentDirections.from_block(b, size=20, center=center) for b in split(X, borders)], 2)
    assert len(seen) == n_blocks
    assert_bounds_hold(X, summary, center)
    assert summary.error <= 4 * difference(X, summary, center)[0][-1]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sketch_is_the_same_from_either_side_of_a_block(monkeypatch, dtype, center):
    # A quarter of the columns occur, which the others leave zero.
    X = sparse.csr_array(zipf_counts(200, 700, 40).astype(dtype))
    X = sparse.csr_array((X.data, X.indices * 4 + 1, X.indptr), shape=(200, 2800))
    mean = np.asarray(X.sum(axis=0, dtype=np.float64)) / 200 if center else None
    actual = []
    for narrower in (1, 1e9):
        monkeypatch.setattr(block_sketches, "MIN_ASPECT_RATIO", narrower)
        actual.append(block_sketches.sketch_large_sparse(X, 30, mean=mean, n_steps=8))
    row_side, column_side = (sketch.rows.T.astype(float) @ sketch.rows for sketch in actual)
    energy = np.sum((X.toarray().astype(float) - (0 if mean is None else mean)) ** 2)
    assert np.abs(row_side - column_side).max() < 2e-4 * energy
    assert actual[0].error == pytest.approx(actual[1].error, rel=0.05)


def test_a_block_whose_entries_are_zeros_is_sketched_by_no_rows(monkeypatch):
    monkeypatch.setattr(frequent_directions, "EXACT_SIDE", 10)
    ones = sparse.random_array((50, 400), density=0.2, format="csr", rng=0, dtype=np.float32)
    actual = frequent_directions.sketch_block(sparse.csr_array(ones * np.float32(0)), 5)
    assert actual.rows.shape == (0, 400)
    assert actual.error == 0


def draw_sparse_blocks(seed):
    """Draw sparse blocks of rows that are alike, drift, are sorted by length or lack rank, in either precision."""
    rng = np.random.default_rng(seed)
    n, d, order = int(rng.integers(60, 240)), int(rng.choice([40, 700])), seed % 4
    X = sparse.random_array((n, d), density=rng.uniform(0.03, 0.2), rng=rng, format="csr")
    X = sparse.csr_array(X @ sparse.diags_array(rng.uniform(0.5 if d < 100 else 0.95, 1.0) ** rng.permutation(d)))
    if order == 1:  # each third has other columns
        X = X.multiply((np.arange(d) % 3 == (3 * np.arange(n) // n)[:, None]) + 0.05)
    elif order == 2:
        X = X[np.argsort(X.power(2).sum(axis=1))[:: rng.choice([-1, 1])]]
    elif order == 3:
        X = X[rng.integers(0, 7, n)]
    X = sparse.csr_array(X * 10.0 ** rng.uniform(-3, 3)).astype(rng.choice([np.float32, np.float64]))
    return split(X, [0, *sorted(rng.choice(np.arange(1, n), seed % 3, replace=False).tolist()), n])


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, N_DRAWS), marks=pytest.mark.slow)], ids=["40", "more"]
)
def test_certificate_of_the_iteration_is_above_the_error_of_every_draw(monkeypatch, seeds):
    monkeypatch.setattr(frequent_directions, "EXACT_SIDE", 10)
    for seed in seeds:
        blocks, size, center = draw_sparse_blocks(seed), 4 + seed % 27, seed % 2 == 0
        parts = [FrequentDirections.from_block(block, size=size, center=center, seed=seed) for block in blocks]
        whole, summary = sparse.vstack(blocks, format="csr").astype(float), merged(parts, 2)
        truth, A = difference(whole, summary, center)
        energy, formed = np.sum(A**2), np.sum(whole.data**2)
        assert truth[-1] <= summary.error + 1e-14 * formed
        assert truth[0] >= -1e-5 * energy - 1e-14 * formed
        assert summary.error <= theory_bound(A, size + 1) + 1e-4 * energy


def test_merge_tree_bound_holds_for_rows_whose_squares_underflow():
    rows = sparse.csr_array(1e-25 * sparse.eye_array(50, dtype=np.float32))
    sketch = block_sketches.BlockSketch(rows.toarray(), 0.1 * 50 * 1e-50)
    assert not frequent_directions._is_within_bound(sketch, rows, 4, None)


def test_unresolved_spectrum_falls_back_to_exact_blocks(monkeypatch):
    monkeypatch.setattr(frequent_directions, "EXACT_SIDE", 40)
    useless = frequent_directions.BlockSketch(np.zeros((0, 120), np.float32), 1e30)
    monkeypatch.setattr(frequent_directions, "sketch_large_sparse", lambda *_, **__: useless)
    X = zipf_counts(200, 120, 10)
    for center in (False, True):
        assert_bounds_hold(X, FrequentDirections.from_block(X, size=10, center=center), center)


def test_sparse_block_is_never_made_dense():
    X = sparse.random_array((20_000, 100_000), density=1e-4, format="csr", rng=0, dtype=np.float32)
    FrequentDirections.from_block(sparse.csr_array(X[:1500]), size=10)  # compiled
    tracemalloc.start()
    FrequentDirections.from_block(sparse.csr_array(X), size=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 100_000 * 4 / 50


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match=r"size.*3.*4"):
        FrequentDirections.from_block(np.eye(3), size=3, shrink="median")
    with pytest.raises(ValueError, match=r"shrink.*'half'"):
        FrequentDirections.from_block(np.eye(3), size=3, shrink="half")
