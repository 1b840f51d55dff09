"""Pictures of scanpy of results that are ours."""

import numpy as np
from scipy import sparse

from dspectral import SketchedPCA
from dspectral.io import write_embedding
from tests.interop.rows import row
from tests.strategies import zipf_counts


@row(
    "scanpy",
    "to",
    "`sc.pl.pca`, `pca_loadings` and `pca_variance_ratio` find our results under its names",
    packages="scanpy anndata matplotlib",
)
def test_scanpy_takes_our_principal_components_for_its_own():
    import matplotlib as mpl

    mpl.use("agg")
    import scanpy as sc
    from anndata import AnnData
    from matplotlib import pyplot as plt

    adata = AnnData(sparse.csr_matrix(zipf_counts(240, 60, 3).astype(np.float32)))
    model = SketchedPCA(4).fit(adata.X)
    write_embedding(adata, model, model.transform(adata.X))
    assert sc.get.obs_df(adata, obsm_keys=[("X_pca", 3)]).shape == (240, 1)
    axes = sc.pl.pca(adata, components=["1,2"], annotate_var_explained=True, show=False)
    assert f"({100 * model.explained_variance_ratio_[0]:.2f}%)" in axes.get_xlabel()
    sc.pl.pca_loadings(adata, components="1,2", show=False)
    sc.pl.pca_variance_ratio(adata, n_pcs=4, show=False)
    shown = [text.get_text() for text in plt.gca().texts]
    assert shown == ["PC1", "PC2", "PC3", "PC4"]
    plt.close("all")
