"""Cells for tests of AnnData, and the results that are written for them."""

import numpy as np
import pytest
from scipy import sparse

from tests.strategies import zipf_counts

anndata = pytest.importorskip("anndata")
ROWS = zipf_counts(90, 40, 9).astype(np.float32)


def made(**options):
    adata = anndata.AnnData(
        sparse.csr_matrix(ROWS), layers={"counts": sparse.csr_matrix(2 * ROWS)}, **options
    )
    adata.var["chosen"] = np.arange(40) % 2 == 0
    adata.raw = anndata.AnnData(sparse.csr_matrix(3 * ROWS))
    adata.layers["by column"] = sparse.csc_matrix(ROWS)
    adata.layers["dense"] = ROWS.toarray()
    adata.obsm["before"] = np.ones((90, 2))
    return adata


def check(adata, key, model, coordinates):
    name = key.removeprefix("X_")
    assert np.array_equal(adata.obsm[key], coordinates)
    assert np.array_equal(adata.varm["PCs" if name == "pca" else name], model.components_.T)
    facts = adata.uns[name]
    assert np.array_equal(facts["singular_values"], model.singular_values_)
    assert np.array_equal(facts["variance"], model.explained_variance_)
    assert np.array_equal(facts["variance_ratio"], model.explained_variance_ratio_)
    assert facts["certificate"]["absolute"] == model.certificate_.absolute
    assert facts["certificate"]["relative"] == model.certificate_.relative
    assert facts["n_passes"] == model.n_passes_
    assert facts["params"]["n_components"] == 3
    assert facts["params"]["estimator"] == type(model).__name__
    assert facts["params"]["zero_center"] == (name == "pca")
