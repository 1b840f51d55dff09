"""Parameters of the estimators, their seeds, and the rows that they refuse."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD
from dspectral.decomposition.spectrum import GRAM_COLUMNS
from tests.decomposition.rows import DENSE, ROWS, SOLVERS


@pytest.mark.parametrize("width", [GRAM_COLUMNS, GRAM_COLUMNS + 1])
@pytest.mark.parametrize("n_passes", [1, 3])
def test_auto_takes_the_solver_that_it_documents(width, n_passes):
    wide = sparse.random_array((60, width), density=0.01, format="csr", rng=0, dtype=np.float32)
    found = SketchedPCA(2, n_passes=n_passes).fit(wide)
    if width == GRAM_COLUMNS:
        assert (found.solver_, found.n_passes_) == ("gram", 1)
    else:
        assert found.solver_ == ("frequent_directions" if n_passes == 1 else "krylov")
        assert found.n_passes_ == n_passes


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
def test_more_components_than_columns_are_refused(face):
    X = np.random.default_rng(0).standard_normal((9, 4))
    for rows in (X, da.from_array(X, chunks=(2, -1))):
        with pytest.raises(
            ValueError, match=r"^n_components is 6, but X has only 4 column\(s\): n_features = 4$"
        ):
            face(6).fit(rows)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_named_with_its_place(solver, value):
    X = DENSE.copy()
    X[107, 3] = value
    lazy = da.from_array(X, chunks=(50, -1))
    for rows in (lazy, lazy.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))):
        with pytest.raises(ValueError, match=f"^row block 2: row 7, column 3 is {value}, but every entry"):
            SketchedPCA(2, solver=solver).fit(rows)
    with pytest.raises(ValueError, match="Input X contains NaN" if np.isnan(value) else "contains infinity"):
        SketchedPCA(2, solver=solver).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "exact"}, "solver is 'exact', but it must be one of 'auto', 'frequent_directions', "),
        ({"n_passes": 0}, "n_passes is 0, but it must be an integer of at least 1"),
        ({"n_components": 0}, "n_components is 0, but it must be an integer of at least 1"),
        ({"sketch_size": 1}, "sketch_size is 1, below n_components = 2"),
        ({"n_components": "two"}, "n_components is 'two', but it must be an integer of at least 1"),
        ({"n_components": 2.0}, "n_components is 2.0, but it must be an integer"),
        ({"n_components": None}, "n_components is None, but it must be an integer"),
        ({"sketch_size": 10.5}, "sketch_size is 10.5, but it must be an integer"),
        ({"n_passes": "1"}, "n_passes is '1', but it must be an integer"),
        ({"random_state": "0"}, "random_state is '0', but it must be None, an integer"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SketchedPCA(**{"n_components": 2, **parameters}).fit(ROWS)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_seed_gives_the_same_bits_and_another_an_answer_as_good(solver):
    one, same, other = (
        SketchedPCA(3, solver=solver, n_passes=4, random_state=seed).fit(DENSE) for seed in (0, 0, 1)
    )
    assert one.components_.tobytes() == same.components_.tobytes()
    assert (one.components_.tobytes() != other.components_.tobytes()) == (solver in ("nystrom", "krylov"))
    allowed = max(one.certificate_.absolute, other.certificate_.absolute)
    assert np.abs(one.singular_values_**2 - other.singular_values_**2).max() <= allowed
