"""Stores become AnnData files, results go back into AnnData where it lies or into objects in memory."""

import hashlib
import re
from contextlib import nullcontext
from pathlib import Path

import dask.array as da
import fsspec
import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import (
    SketchedPCA,
    TruncatedSVD,
    VocabularySettings,
    Weighting,
    WordEmbedding,
    build_store,
    open_store,
    write_counts,
)
from dspectral.engine import as_dask_rows, is_lazy
from dspectral.io import write_anndata, write_embedding
from dspectral.io.anndata import FITTED_ATTRIBUTES
from dspectral.store import StoreError
from dspectral.store.blocks import read_block as original
from tests.strategies import zipf_counts

anndata = pytest.importorskip("anndata")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # AnnData announces its next defaults
ROWS = zipf_counts(90, 40, 9).astype(np.float32)


def made(**options):
    adata = anndata.AnnData(sparse.csr_matrix(ROWS), layers={"counts": sparse.csr_matrix(2 * ROWS)}, **options)
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
    facts, params = adata.uns[name], adata.uns[name]["params"]
    for fact, attribute in FITTED_ATTRIBUTES.items():
        assert fact not in facts or np.array_equal(facts[fact], getattr(model, attribute))
    assert {"singular_values", "variance", "variance_ratio", "n_passes"} <= facts.keys()
    assert facts["certificate"] == model.certificate_._asdict()
    assert [params[key] for key in ("n_components", "estimator", "zero_center")] == [
        3,
        type(model).__name__,
        name == "pca",
    ]


h5py = pytest.importorskip("h5py")
KINDS = ("h5ad", "zarr")


def write(adata, path):
    adata.write_h5ad(path) if path.suffix == ".h5ad" else adata.write_zarr(path)
    return str(path)


@pytest.fixture(params=KINDS)
def path(tmp_path, request):
    return write(made(), tmp_path / f"cells.{request.param}")


@pytest.fixture
def store(tmp_path):
    return write_counts(ROWS, str(tmp_path / "store"), block_rows=20)


def read(path):
    return anndata.read_h5ad(path) if path.endswith("h5ad") else anndata.read_zarr(path)


def values_of(model):
    return np.round(model.singular_values_, 4).tolist()


def test_layers_and_raw_open_as_stores(path):
    for layer, factor in (("by column", 1), (None, 1), ("counts", 2), ("raw", 3)):
        opened = open_store(path, layer=layer)
        assert np.array_equal(opened.counts.compute().toarray(), factor * ROWS.toarray())
        assert opened.document_frequency.sum() == ROWS.nnz
    assert "cells" in repr(opened)
    assert "raw/X" in repr(opened)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("layer", "named"),
    [
        ("nothing", r"cells.*'nothing'.*'by column', 'counts', 'dense'"),
        ("dense", r"layers/dense.*array.*csr_matrix"),
        ("counts", r"layers/counts of .*cells\..*, rows 0 to 90.*data"),
    ],
)
def test_layers_that_cannot_be_read_are_refused(kind, layer, named, tmp_path):
    path = write(made(), tmp_path / f"cells.{kind}")
    with h5py.File(path, "r+") if kind == "h5ad" else nullcontext(zarr.open_group(path)) as root:
        del root["layers/counts/data"]
    with pytest.raises(StoreError, match=named):
        open_store(path, layer=layer).counts.compute()


def test_remote_h5ad_file_is_read(tmp_path):
    content = Path(write(made(), tmp_path / "cells.h5ad")).read_bytes()
    fsspec.filesystem("memory").pipe("/far/cells.h5ad", content)
    opened = open_store("memory://far/cells.h5ad")
    assert np.array_equal(opened.counts.compute().toarray(), ROWS.toarray())


def test_estimators_take_backed_matrices(path, tmp_path):
    direct = values_of(TruncatedSVD(3).fit(ROWS))
    if path.endswith("h5ad"):
        for mode in ("r", "r+"):
            backed = anndata.read_h5ad(path, backed=mode)
            assert is_lazy(backed.X)
            assert values_of(TruncatedSVD(3).fit(backed.X)) == direct
            backed.file.close()
    group = open_group(path)
    backed = anndata.io.sparse_dataset(group["X"])
    model = TruncatedSVD(3).fit(backed)
    assert values_of(model) == direct
    assert isinstance(model.transform(backed), da.Array)
    assert as_dask_rows(backed).compute().nnz == ROWS.nnz
    with pytest.raises(TypeError, match=r"X.*csc_matrix.*X\.to_memory\(\)"):
        TruncatedSVD(3).fit(anndata.io.sparse_dataset(group["layers/by column"]))


def open_group(path):
    return h5py.File(path) if path.endswith("h5ad") else zarr.open_group(path, mode="r")


@pytest.mark.parametrize("kind", KINDS)
def test_write_anndata_reads_each_block_once(store, tmp_path, kind, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "dspectral.store.counts.read_block",
        lambda where, block: seen.append(block.name) or original(where, block),
    )
    path = str(tmp_path / f"out.{kind}")
    write_anndata(store, path)
    assert len(seen) == len(set(seen)) == store.n_blocks
    back = read(path)
    assert isinstance(back.X, sparse.csr_matrix)
    assert np.array_equal(back.X.toarray(), ROWS.toarray())
    assert np.array_equal(open_store(path).counts.compute().toarray(), ROWS.toarray())
    with pytest.raises(StoreError, match=re.escape(str(path))):
        write_anndata(store, path)
    assert [one.name for one in tmp_path.glob("out*")] == [f"out.{kind}"]


@pytest.mark.parametrize("kind", KINDS)
def test_write_anndata_leaves_no_partial_file(store, tmp_path, kind, monkeypatch):
    def full(*args, **options):
        raise OSError("no space left")

    path = str(tmp_path / f"out.{kind}")
    with monkeypatch.context() as patch:
        patch.setattr("dspectral.store.counts.read_block", full)
        with pytest.raises(OSError, match="no space"):
            write_anndata(store, path)
    assert not Path(path).exists()
    write_anndata(store, path)
    assert read(path).shape == (90, 40)


def test_write_anndata_writes_remote_zarr_and_local_hdf5(store):
    write_anndata(store, "memory://anndata/out.zarr")
    assert open_store("memory://anndata/out.zarr").nnz == ROWS.nnz
    with pytest.raises(StoreError, match=r"out\.h5ad.*HDF5.*\.zarr"):
        write_anndata(store, "memory://anndata/out.h5ad")


def digests(path):
    """Digest of each array of a file; results are left out."""
    found = {}

    def visit(name, one):
        if hasattr(one, "shape") and not name.startswith(("obsm/X_", "varm/", "uns/")):
            found[name] = hashlib.sha256(repr(one[...].tolist()).encode()).hexdigest()

    group = open_group(path)
    group.visititems(visit) if path.endswith("h5ad") else [visit(*one) for one in group.members(max_depth=None)]
    return found


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.filterwarnings("ignore:X ")
def test_write_embedding_leaves_the_rest_of_a_file_unchanged(path, lazy, monkeypatch):
    before = digests(path)
    rows = open_store(path)
    small = open_store(path).counts.rechunk({0: 20})
    model = SketchedPCA(3).fit(rows)
    coordinates = model.transform(small)  # read from the file that is written
    monkeypatch.setattr("dspectral.store.anndata_files.CPU_COUNT", 1)
    for _ in range(2):  # the second time replaces
        write_embedding(path, model, coordinates if lazy else coordinates.compute())
    assert digests(path) == before
    adata = read(path)
    check(adata, "X_pca", model, coordinates.compute())
    assert np.array_equal(adata.obsm["before"], np.ones((90, 2)))


def test_write_embedding_fills_zeros_outside_the_mask(path):
    chosen = np.arange(40) % 2 == 0
    adata = made()
    model = TruncatedSVD(3).fit(ROWS[:, chosen])
    coordinates = model.transform(ROWS[:, chosen])
    for place, mask in ((adata, chosen), (path, chosen), (adata, "chosen"), (path, "chosen")):
        write_embedding(place, model, coordinates, mask_var=mask)
        loadings = (read(path) if place is path else adata).varm["svd"]
        assert np.array_equal(loadings[chosen], model.components_.T)
        assert not loadings[~chosen].any()
    params = adata.uns["svd"]["params"]
    assert (params["mask_var"], params["use_highly_variable"]) == ("chosen", False)  # as scanpy has them


NARROW = ROWS[:, :20]


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize(
    ("rows", "options", "named"),
    [
        (ROWS[1:], {}, r"shape \(89, 3\)"),
        (NARROW, {}, "20 columns"),
        (NARROW, {"mask_var": np.arange(40) < 3}, "mask_var.*3 of 40"),
        (ROWS, {"mask_var": "none"}, "'none'.*mask_var"),
        (ROWS, {"key": "svd"}, "key.*'svd'"),
        (ROWS, {"estimator": WordEmbedding()}, "WordEmbedding.*components_"),
    ],
)
def test_write_embedding_refuses_what_does_not_fit(path, on_disk, rows, options, named):
    model = TruncatedSVD(3).fit(rows)
    options = {"estimator": model, "coordinates": model.transform(rows), **options}
    with pytest.raises(ValueError, match=named):
        write_embedding(path if on_disk else made(), **options)


@pytest.mark.filterwarnings("ignore:X ")
def test_write_embedding_refuses_other_and_open_files(store, tmp_path):
    model = TruncatedSVD(3).fit(ROWS)
    for path in (store.location.url, str(tmp_path / "none.zarr")):
        with pytest.raises(StoreError, match=re.escape(path)):
            write_embedding(path, model, model.transform(ROWS))
    made().write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(StoreError, match=r"cells\.h5ad"):
        write_embedding(tmp_path / "cells.h5ad", model, model.transform(backed.X))
    backed.file.close()
    write_embedding(tmp_path / "cells.h5ad", model, model.transform(open_store(tmp_path / "cells.h5ad")))
    assert read(str(tmp_path / "cells.h5ad")).obsm["X_svd"].shape == (90, 3)


def test_to_anndata_has_csr_matrix_blocks(tmp_path):
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


@pytest.mark.parametrize(
    ("model", "key"), [(SketchedPCA(3), "X_pca"), (TruncatedSVD(3), "X_svd"), (TruncatedSVD(3), "X_lsi")]
)
def test_write_embedding_writes_into_an_object(model, key):
    adata = made()
    coordinates = model.fit(adata.X).transform(adata.X)
    write_embedding(adata, model, coordinates, key=None if key != "X_lsi" else key)
    check(adata, key, model, coordinates)
