"""What scanpy's own tests of `pp.pca` expect, written anew: held against scanpy where it computes the same.

Its file `tests/test_pca.py` at 463b0bb67 was run with scanpy 1.11.5 and `sc.pp.pca` replaced by ours. Of its 180 tests
143 pass, 24 fetch cells from a network, 7 expect other words of errors and warnings, and 6 expect errors: for masks of
Dask arrays, and for sparse Dask rows without centering. Both are taken, as the last test here shows.
"""

import warnings
from importlib.metadata import version
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from dspectral import pp
from tests.interop.rows import row
from tests.strategies import zipf_counts

CELLS = zipf_counts(120, 30, 8).astype(np.float32)
KINDS = {
    "dense": CELLS.toarray(),
    "csr_matrix": sparse.csr_matrix(CELLS),
    "csc_matrix": sparse.csc_matrix(CELLS),
    "csr_array": sparse.csr_array(CELLS),
}
SOLVERS = "auto", "full", "arpack", "randomized", "covariance_eigh", "tsqr", "lobpcg"


def on_dask(block=sparse.csr_matrix):
    import dask.array as da

    rows = da.from_array(sparse.csr_matrix(CELLS), chunks=(50, 30), asarray=False)
    return rows.map_blocks(block, dtype=rows.dtype, meta=block((0, 0), dtype=rows.dtype))


def cells(X, **options):
    from anndata import AnnData

    return AnnData(X.copy(), **options)


def is_warned(pca, X, **options):
    """Whether a call warns of its solver."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pca(cells(X), 5, **options)
    return any("svd_solver" in str(warning.message) for warning in caught)


@row(
    "scanpy",
    "inside",
    "`pp.pca` warns of the solvers that scanpy ignores or calls legacy, of each kind of rows",
)
def test_our_warnings_of_solvers_are_those_of_scanpy():
    import scanpy as sc

    kinds = {**KINDS, "Dask": on_dask()}
    if version("scanpy").startswith("1.11"):  # which takes a csr_array for dense
        del kinds["csr_array"]
    for (kind, X), centered, solver in product(kinds.items(), (True, False), SOLVERS):
        options = {"svd_solver": solver, "zero_center": centered}
        if kind != "Dask" or centered:
            assert is_warned(pp.pca, X, **options) == is_warned(sc.pp.pca, X, **options), (kind, options)


@row(
    "scanpy",
    "inside",
    "`pp.pca`: the keys of `uns` and of its parameters, with and without a mask, layer and key",
)
def test_our_keys_are_those_of_scanpy():
    import scanpy as sc

    mask = np.arange(30) % 3 > 0
    for options in (
        {},
        {"mask_var": mask},
        {"mask_var": "kept"},
        {"layer": "twice", "key_added": "own"},
        {"mask_var": None, "zero_center": False, "svd_solver": "arpack"},
    ):
        actual, reference = (
            pca(
                cells(CELLS.toarray(), layers={"twice": 2 * CELLS.toarray()}, var={"kept": mask}),
                4,
                copy=True,
                **options,
            )
            for pca in (pp.pca, sc.pp.pca)
        )
        key = options.get("key_added", "pca")
        assert set(actual.uns) - {"dspectral"} == set(reference.uns)
        assert set(actual.uns[key]) == set(reference.uns[key])
        known = reference.uns[key]["params"]
        assert set(actual.uns[key]["params"]) == set(known)
        for name, value in known.items():
            np.testing.assert_array_equal(actual.uns[key]["params"][name], value)
        assert (set(actual.obsm), set(actual.varm)) == (set(reference.obsm), set(reference.varm))
        np.testing.assert_allclose(actual.uns[key]["variance"], reference.uns[key]["variance"], rtol=1e-4)


@row("scanpy", "inside", "`pp.pca` refuses what scanpy refuses")
def test_our_refusals_are_those_of_scanpy():
    import scanpy as sc

    few = cells(CELLS.toarray()[:20])
    for options in (
        {"n_comps": 100},
        {"mask_var": "highly_variable"},
        {"mask_var": np.ones(31, dtype=bool)},
        {"mask_var": np.arange(30)},
    ):
        for pca in (pp.pca, sc.pp.pca):
            with pytest.raises(ValueError, match=r"(?i)n_comp|mask|Did not find"):
                pca(few, copy=True, **options)


@row("scanpy", "inside", "`pp.pca` of a matrix: what `return_info` returns")
@pytest.mark.parametrize("kind", ["dense", "csr_matrix"])
def test_a_matrix_returns_what_scanpy_returns(kind):
    import scanpy as sc

    actual, reference = (pca(KINDS[kind], 4, return_info=True) for pca in (pp.pca, sc.pp.pca))
    signs = np.sign((actual[1] * reference[1]).sum(axis=1))
    np.testing.assert_allclose(actual[0] * signs, reference[0], atol=1e-3)
    np.testing.assert_allclose(actual[1] * signs[:, None], reference[1], atol=1e-4)
    for mine, known in zip(actual[2:], reference[2:], strict=True):
        np.testing.assert_allclose(mine, known, rtol=1e-4)


def test_what_scanpy_expects_otherwise_is_right():
    X, mask = CELLS.toarray(), np.arange(30) % 2 == 0
    for coordinates, expected in (
        (pp.pca(on_dask(), 3, mask_var=mask), pp.pca(X, 3, mask_var=mask)),
        (pp.pca(on_dask(), 3, zero_center=False), pp.pca(X, 3, zero_center=False)),
        (pp.pca(X, 3, random_state=1), pp.pca(X, 3, random_state=2)),
        (pp.pca(on_dask(sparse.csc_matrix), 3), pp.pca(X, 3)),
    ):
        np.testing.assert_allclose(coordinates, expected, atol=1e-4)
