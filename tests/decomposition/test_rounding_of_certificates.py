"""Certificates hold to the last bit: truth in rational numbers, on rows where each term of the bound is needed.

Rows of one column have one squared singular value, which :mod:`fractions` gives exactly. Every test fails if the term
that it is about is taken out of the bound; ``tools/mutants.toml`` takes them out one by one.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD
from dspectral.decomposition.block_sketches import sketch_large_sparse
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.linalg.block_sums import sum_rows


def exactly(values):
    """Numbers as they are in binary, without rounding."""
    return [Fraction(float(value)) for value in np.ravel(values)]


def energy(column, *, center=False):
    """Squared norm of a column, less its mean if asked for."""
    column = exactly(column)
    mean = sum(column) / len(column) if center else 0
    return sum((value - mean) ** 2 for value in column)


def equal_rows(value, n, dtype):
    """Rows that are all alike, and the exact sum of their squares."""
    return sparse.csr_array(np.full((n, 1), value, dtype=dtype)), n * energy([dtype(value)])


def test_a_direction_that_is_dropped_as_rounding_is_in_the_certificate():
    rows = np.diag([1.0, 1e-4]).astype(np.float32)
    actual = FrequentDirections.from_block(rows, size=2)
    assert len(actual.sketch) == 1
    assert 0 < energy(rows) - energy(actual.sketch) <= actual.error


@pytest.mark.parametrize(("n", "values"), [(1000, (0.1, 0.3, 0.45, 0.7)), (1_000_000, (0.15,))])
def test_certificate_covers_sums_rounded_to_one_side(n, values):
    lost = []
    for value in values:
        column, truth = equal_rows(value, n, np.float64)
        # Of eight columns, for sums entry by entry: blocks that are filled go through BLAS, which sums by parts.
        rows = sparse.csr_array((column.data, column.indices, column.indptr), shape=(n, 8))
        actual = FrequentDirections.from_block(rows, size=2)
        lost.append((truth - energy(actual.sketch)) / truth)
        assert truth - energy(actual.sketch) <= actual.error
    # More than the rounding of the decomposition, and than what sums rounded to either side would have lost.
    assert max(lost) > 32 * 2.0**-52 * (n**0.5 if n > 1000 else 1)


@pytest.mark.parametrize("value", [0.15, 1.0])
def test_a_block_that_is_iterated_on_counts_what_single_precision_cost_it(value):
    n = 3000
    column, truth = equal_rows(value, n, np.float32)
    rows = sparse.csr_array((column.data, column.indices, column.indptr), shape=(n, 1200))
    actual = sketch_large_sparse(rows, 8)
    gap = truth - energy(actual.rows[:, 0])
    assert not actual.rows[:, 1:].any()
    assert 0 < gap <= actual.error


def test_a_block_of_many_columns_counts_what_single_precision_cost_it():
    # Equal columns, of powers of two in an eighth of the rows: along the vector of ones all is rational.
    n, n_columns, gaps = 1200, 5000, []
    for seed in range(4):
        column = 2.0 ** np.random.default_rng(seed).integers(-3, 3, n) * (np.arange(n) % 8 == 0)
        rows = sparse.csr_array(np.outer(column, np.full(n_columns, np.float32(0.15))).astype(np.float32))
        actual = sketch_large_sparse(rows, 8)
        gap = (
            n_columns * energy(rows[:, [0]].toarray()) - sum(sum(exactly(row)) ** 2 for row in actual.rows) / n_columns
        )
        gaps.append(gap)
        assert gap <= actual.error
    assert max(gaps) > 0


@pytest.mark.parametrize(("kind", "offset"), [(sparse.csr_array, 1e3), (np.array, 1e3), (np.array, 0.0)])
@pytest.mark.parametrize("solver", ["gram", "frequent_directions", "nystrom"])
def test_certificate_of_far_rows_holds_after_centering(kind, offset, solver):
    for seed in range(5):
        column = offset + np.random.default_rng(seed).integers(1, 9, (60, 1)) / 3
        model = SketchedPCA(1, solver=solver, sketch_size=3).fit(kind(column))
        gap = energy(column, center=True) - exactly(model.singular_values_)[0] ** 2
        assert gap <= model.certificate_.absolute


def test_means_taken_off_a_block_are_in_its_certificate():
    gaps = []
    for seed in range(5):
        column = 1e3 + np.random.default_rng(seed).integers(1, 9, (60, 1)) / 3
        actual = FrequentDirections.from_block(sparse.csr_array(column), size=3, center=True)
        gaps.append((energy(column, center=True) - energy(actual.sketch), actual.error))
        assert gaps[-1][0] <= actual.error
    assert max(gap for gap, _ in gaps) > 0


def test_scatter_of_means_reports_the_rounding_of_the_sketch():
    # Blocks of equal rows have no scatter of their own: all of the sketch is that of their means.
    blocks = [np.full((n, 1), value, dtype=np.float32) for n, value in ((6, 1.0), (5, 3.0))]
    parts = [FrequentDirections.from_block(block, size=4, center=True) for block in blocks]
    actual = parts[0].merge(parts[1])
    gap = energy(np.concatenate(blocks), center=True) - energy(actual.sketch)
    assert 0 < gap <= actual.error


def test_the_scatter_of_means_carries_the_rounding_of_their_sums():
    gaps = []
    for value in (0.1, 0.3, 0.7):
        blocks = [np.full((n, 1), 1e3 + value * i) for i, n in enumerate((1000, 700))]
        parts = [
            FrequentDirections(np.zeros((0, 1)), 4, "full", len(b), sum_rows(sparse.csr_array(b)), True, 0.0, 0.0)
            for b in blocks
        ]
        actual = parts[0].merge(parts[1])
        gap = energy(np.concatenate(blocks), center=True) - energy(actual.sketch)
        gaps.append(gap / energy(actual.sketch))
        assert gap <= actual.error
    assert max(gaps) > 8 * 2.0**-52


@pytest.mark.parametrize(
    ("solver", "n", "dtype"),
    [("gram", 60, np.float64), ("gram", 30_000, np.float64), ("nystrom", 37, np.float32), ("nystrom", 37, np.float64)],
)
def test_certificates_count_sums_that_are_rounded_to_one_side(solver, n, dtype):
    gaps = []
    for value in (0.1, 0.15, 0.3, 0.45, 0.7):
        rows, truth = equal_rows(value, n, dtype)
        model = TruncatedSVD(1, solver=solver).fit(rows)
        gaps.append(abs(truth - exactly(model.singular_values_)[0] ** 2))
        assert gaps[-1] <= model.certificate_.absolute
    assert max(gaps) > 0


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_value_rounded_up_hides_none_rounded_down(seed):
    rng = np.random.default_rng(seed)
    n, values = int(rng.integers(2, 30)), rng.uniform(0.5, 3, 2).astype(np.float32)
    model = TruncatedSVD(2, solver="nystrom", random_state=0).fit(
        sparse.csr_array(np.repeat(np.diag(values), n, axis=0))
    )
    truth = sorted((n * energy([value]) for value in values), reverse=True)
    gaps = [abs(true - actual**2) for true, actual in zip(truth, exactly(model.singular_values_), strict=True)]
    assert 0 < max(gaps) <= model.certificate_.absolute
