"""Estimators that grow: added rows, and components that wait for them."""

import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.spectrum import GRAM_COLUMNS, summary_of
from tests.decomposition.rows import DENSE, ROWS


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
@pytest.mark.parametrize("solver", ["frequent_directions", "gram"])
def test_adding_rows_is_merging_and_agrees_with_a_fit_on_all(face, solver):
    model = face(4, solver=solver, sketch_size=12)
    first, second = ROWS[:110], ROWS[110:]
    of = summary_of(model.fit(ROWS)._plan(np.float32), solver)
    merged = of(first).merge(of(second))
    grown = face(4, solver=solver, sketch_size=12).partial_fit(first)
    assert grown.n_samples_seen_ == 110
    assert grown.partial_fit(second) is grown
    for found, expected in zip(grown.summary_, merged, strict=True):
        np.testing.assert_array_equal(found, expected)
    whole = model.fit(ROWS)
    assert grown.n_samples_seen_ == whole.n_samples_seen_ == 300
    assert grown.energy_ == pytest.approx(whole.energy_)
    np.testing.assert_allclose(grown.mean_, whole.mean_)
    allowed = grown.certificate_.absolute + whole.certificate_.absolute
    assert np.abs(grown.singular_values_**2 - whole.singular_values_**2).max() <= allowed


def test_added_rows_do_not_change_the_precision():
    model = SketchedPCA(2, solver="frequent_directions").fit(ROWS).partial_fit(DENSE)
    assert model.components_.dtype == np.float32
    assert model.n_samples_seen_ == 600


def test_only_one_pass_can_grow():
    assert not hasattr(TruncatedSVD(solver="krylov"), "partial_fit")
    assert not hasattr(TruncatedSVD(solver="nystrom"), "partial_fit")
    wide = sparse.random_array((60, GRAM_COLUMNS + 1), density=0.05, format="csr", rng=0)
    model = TruncatedSVD(2, n_passes=2).fit(wide)
    with pytest.raises(ValueError, match=r"solver 'krylov' reads all rows 2 time\(s\) and leaves nothing"):
        model.partial_fit(wide)
    assert isinstance(TruncatedSVD(2, n_passes=1).partial_fit(wide).summary_, FrequentDirections)


@pytest.mark.parametrize("solver", ["frequent_directions", "gram"])
def test_added_rows_fill_components_that_were_zero(solver):
    model = SketchedPCA(3, center=False, solver=solver)
    for rows, message in (([[4.0, 0, 0]], "only 1 ind"), ([[0, 3.0, 0]], "only 2 ind")):
        with pytest.warns(UserWarning, match=message):
            model.partial_fit(rows)
    np.testing.assert_allclose(model.partial_fit([[0, 0, 2.0]]).singular_values_, [4, 3, 2])
