"""AnnData objects in memory: made of stores, refused as rows, and given results."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import (
    SketchedPCA,
    TruncatedSVD,
    Weighting,
    build_store,
    write_counts,
)
from dspectral.io import write_embedding
from dspectral.store import VocabularySettings
from tests.io.cells import ROWS, check, made


def test_a_whole_anndata_is_refused_with_the_matrices_that_it_holds():
    with pytest.raises(
        TypeError,
        match=r"X is an AnnData, .* adata\.X or adata\.layers\[\.\.\.\] \(layers: 'counts', 'by col",
    ):
        TruncatedSVD(2).fit(made())


def test_a_store_becomes_an_anndata_object_of_csr_matrix_blocks(tmp_path):
    texts = tmp_path / "lines.txt"
    texts.write_text("to be\nor not\nto be\n")
    store = build_store(str(texts), str(tmp_path / "texts"), vocabulary=VocabularySettings())
    adata = store.to_anndata()
    assert isinstance(adata.X, da.Array)
    assert isinstance(adata.X.blocks[0].compute(), sparse.csr_matrix)
    assert adata.var_names.tolist() == store.vocabulary.terms
    assert "vocabulary" in adata.uns["dspectral"]["provenance"]
    near = store.to_anndata(lazy=False, weighting=Weighting.tfidf(store.document_frequency, 3))
    assert isinstance(near.X, sparse.csr_matrix)
    assert np.array_equal(near.X.toarray(), store.tfidf().compute().toarray())


def test_labels_of_a_store_are_kept_beside_its_rows(tmp_path):
    labels = sparse.csr_array(np.eye(90, 4))
    adata = write_counts(ROWS, str(tmp_path / "s"), labels=labels, block_rows=20).to_anndata()
    assert np.array_equal(adata.obsm["labels"].compute().toarray() != 0, labels.toarray() != 0)


@pytest.mark.parametrize(
    ("model", "key"), [(SketchedPCA(3), "X_pca"), (TruncatedSVD(3), "X_svd"), (TruncatedSVD(3), "X_lsi")]
)
def test_results_go_into_an_object_in_memory(model, key):
    adata = made()
    coordinates = model.fit(adata.X).transform(adata.X)
    write_embedding(adata, model, coordinates, key=None if key != "X_lsi" else key)
    check(adata, key, model, coordinates)
