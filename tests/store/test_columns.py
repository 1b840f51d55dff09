"""Models and stores compare names of columns, and warn about rows without names, as scikit-learn does."""

import warnings

import anndata
import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dspectral
from dspectral import NgramHashing, TfidfWeighting, TruncatedSVD, VocabularySettings
from dspectral.io import write_embedding
from dspectral.store.columns import get_columns
from tests.contracts import CASES

TEXTS = ["plum pear fig", "fig plum", "oak elm ash", "ash oak", "pear plum oak", "elm ash fig"] * 4
OTHERS = ["rain snow hail", "fog rain", "sand loam", "loam sand", "snow hail fog", "fog loam sand"] * 4
LABELS = np.array(["fruit", "fruit", "tree", "tree", "fruit", "tree"] * 4)
TAKING_ROWS = [
    name for name, case in CASES.items() if case.kind == "rows" and name not in ("VectorQuantizer", "TreePCA")
]


@pytest.fixture
def built(tmp_path):
    def build(name, texts=TEXTS, **settings):
        settings = settings or {"vocabulary": VocabularySettings()}
        return dspectral.build_store(dspectral.Texts(texts), tmp_path / name, **settings)

    return build


@pytest.fixture
def files(tmp_path):
    """Return a file of AnnData, and one of the same cells whose genes are in another order."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(1.0, (24, 7)).astype(np.float32)
    adata = anndata.AnnData(sparse.csr_matrix(counts), var=pd.DataFrame(index=[f"gene {i}" for i in range(7)]))
    adata.raw = adata
    adata.write_h5ad(tmp_path / "a.h5ad")
    adata[:, [3, 0, 1, 2, 6, 5, 4]].copy().write_h5ad(tmp_path / "b.h5ad")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats to come
        adata[:, [3, 0, 1, 2, 6, 5, 4]].copy().write_zarr(tmp_path / "b.zarr")
    return tmp_path / "a.h5ad", tmp_path / "b.h5ad", tmp_path / "b.zarr"


def labels_of(name, n):
    y = CASES[name].data()[1]
    if y is None:
        return None
    return LABELS[:n] if np.ndim(y) == 1 else np.stack([LABELS == "fruit", LABELS == "tree"], axis=1)[:n] * 1


def fit(name, rows):
    y = labels_of(name, 24)
    return CASES[name].make().fit(rows) if y is None else CASES[name].make().fit(rows, y)


NAMELESS = {
    "computed": lambda rows: rows.compute(),
    "persisted": lambda rows: rows.persist(),
    "optimized": lambda rows: dask.optimize(rows)[0],
    "multiplied": lambda rows: rows * 1,
    "mapped": lambda rows: rows.map_blocks(abs),
    "sliced": lambda rows: rows[1:],
    "joined": lambda rows: da.concatenate([rows, rows]),
}
"""What drops the names of rows."""


@pytest.mark.parametrize("operation", NAMELESS)
def test_rows_without_names_are_taken_with_one_warning(operation, built):
    store, other = built("a"), built("b", OTHERS)
    assert store.shape[1] == other.shape[1]
    for fitted, rows in ((store, other.counts), (store.tfidf(), other.tfidf())):
        model, nameless = TruncatedSVD(2).fit(fitted), NAMELESS[operation](rows)
        assert get_columns(nameless) is None
        with pytest.raises(ValueError, match="column 0 is"):
            model.transform(rows)
        with pytest.warns(UserWarning, match="TruncatedSVD was fitted with feature names") as warned:
            model.transform(nameless)
        assert len(warned) == 1
        of_nameless = TruncatedSVD(2).fit(nameless)
        of_nameless.transform(nameless)
        assert not hasattr(of_nameless, "feature_names_in_")
        with pytest.warns(UserWarning, match="TruncatedSVD was fitted without feature names") as warned:
            of_nameless.transform(rows)
        assert len(warned) == 1


def test_weightings_are_compared_or_warned_about(tmp_path):
    store, other = (dspectral.write_counts(np.tri(6, 4, k), f"memory://columns-weighting-{k}") for k in (1, 2))
    model = TruncatedSVD(2).fit(store.tfidf())
    weigh = TfidfWeighting().fit(store).transform
    dspectral.write_counts(weigh(other), tmp_path / "weighted")
    for rows in (weigh(other), weigh(other.counts.compute()), dspectral.open_store(tmp_path / "weighted")):
        model.transform(rows)
    for rows in (other.tfidf(), TfidfWeighting().fit(other).transform(other.counts.compute())):
        with pytest.raises(ValueError, match="rows of another weighting"):
            model.transform(rows)
        with pytest.warns(UserWarning, match="no record of its weighting") as warned:
            model.transform(rows * 1)
        assert len(warned) == 1
    for rows in (other, other[:3]):
        with pytest.raises(ValueError, match="X has counts"):
            model.transform(rows)
    assert not hasattr(model.fit(store), "weighting_")


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKING_ROWS)
def test_every_estimator_of_rows_compares_the_terms_of_stores(name, built, tmp_path):
    store, same, other = built("a"), built("b", TEXTS * 2), built("c", OTHERS)
    model = fit(name, store)
    assert model.n_features_in_ == store.shape[1]
    assert list(model.feature_names_in_) == store.vocabulary.terms
    dspectral.save(model, tmp_path / "model")
    in_memory = store.counts.compute()
    for known in (model, dspectral.load(tmp_path / "model")):
        for rows in (other, other[[4, 2]], other.counts):
            with pytest.raises(ValueError, match=r"column 0.*'\w+'.*'\w+'"):
                CASES[name].result(known, rows)
        for rows in (store, store[2:5], same, same.counts):
            dask.compute(CASES[name].result(known, rows))
        with pytest.warns(UserWarning, match="was fitted with feature names"):
            dask.compute(CASES[name].result(known, in_memory))
    assert not hasattr(clone(model), "feature_names_in_")
    assert not hasattr(fit(name, in_memory), "column_identity_")


def test_genes_in_another_order_are_refused_and_aligned(files):
    store = dspectral.open_store(files[0])
    model = TruncatedSVD(2).fit(store)
    assert list(model.feature_names_in_) == [f"gene {i}" for i in range(7)]
    for file in files[1:]:
        with pytest.raises(ValueError, match=r"column 0.*'gene 3'.*'gene 0'.*align=model"):
            model.transform(dspectral.open_store(file))
        aligned = model.transform(dspectral.open_store(file, align=model))
        np.testing.assert_array_equal(aligned.compute(), model.transform(store).compute())


def test_columns_are_chosen_by_name(files, tmp_path):
    names = ["gene 5", "gene 1"]
    whole = dspectral.open_store(files[0])
    for file in files:
        some = dspectral.open_store(file, align=names)
        assert some.shape == (24, 2)
        np.testing.assert_array_equal(some.counts.compute().toarray(), whole.counts.compute().toarray()[:, [5, 1]])
        assert some.nnz == np.count_nonzero(whole.counts.compute().toarray()[:, [5, 1]])
        assert list(TruncatedSVD(1).fit(some[3:9]).feature_names_in_) == names
    assert dspectral.open_store(files[0], layer="raw").column_identity.names[6] == "gene 6"
    assert dspectral.open_store(files[1], align=pd.Index(names)).shape == (24, 2)
    model = make_pipeline(TfidfWeighting(), TruncatedSVD(2)).fit(whole)
    one, other = (model.transform(dspectral.open_store(file, align=model)).compute() for file in files[:2])
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match=r"1 of the 2 columns.*'gene 9'"):
        dspectral.open_store(files[0], align=["gene 1", "gene 9"])
    with pytest.raises(ValueError, match=r"align.*TruncatedSVD"):
        dspectral.open_store(files[0], align=TruncatedSVD(2).fit(np.eye(7)))
    dspectral.write_counts(np.eye(7), tmp_path / "plain")
    with pytest.raises(ValueError, match=r"plain.*align"):
        dspectral.open_store(tmp_path / "plain", align=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are not unique
        twice = anndata.AnnData(sparse.csr_matrix(np.eye(3, dtype="f4")), var=pd.DataFrame(index=["a", "a", "b"]))
        twice.write_h5ad(tmp_path / "twice.h5ad")
    with pytest.raises(ValueError, match="'a'"):
        dspectral.open_store(tmp_path / "twice.h5ad", align=["a"])


def test_directions_are_written_beside_their_own_variables(files):
    rows = dspectral.open_store(files[0])
    model = TruncatedSVD(2).fit(rows)
    Z = model.transform(rows).compute()
    write_embedding(files[0], model, Z)
    for other in (files[1], files[2], anndata.read_h5ad(files[1])):
        with pytest.raises(ValueError, match=r"column 0.*'gene 3'.*'gene 0'"):
            write_embedding(other, model, Z)
    some = TruncatedSVD(2).fit(dspectral.open_store(files[0], align=["gene 0", "gene 4", "gene 5"]))
    mask = np.array([True, False, False, False, True, True, False])
    write_embedding(files[0], some, Z, mask_var=mask)
    with pytest.raises(ValueError, match=r"column 0.*'gene 1'.*'gene 0'"):
        write_embedding(files[0], some, Z, mask_var=np.roll(mask, 1))
    write_embedding(files[1], TruncatedSVD(2).fit(rows.counts.compute()), Z)  # which has no names


def test_hashed_columns_are_compared_by_every_setting(built, tmp_path):
    settings = {"n_features": 64, "ngram_range": (1, 1)}
    store = built("a", hashing=NgramHashing(**settings))
    model = make_pipeline(TfidfWeighting(), TruncatedSVD(2)).fit(store)
    svd = TruncatedSVD(2).fit(store.tfidf())
    dspectral.save(svd, tmp_path / "svd")
    others = {"ngram_range": (1, 2), "lowercase": False, "alternate_sign": False, "tokenizer": str.split}
    for name, value in others.items():
        other = built(name, hashing=NgramHashing(**{**settings, name: value}))
        weighted = other.weighted(dspectral.Weighting.tfidf(store.document_frequency, len(store)))
        for known, rows in ((model, other), (svd, weighted), (dspectral.load(tmp_path / "svd"), weighted)):
            with pytest.raises(ValueError, match=f"{name} = .*NgramHashing"):
                known.transform(rows)
        with pytest.raises(ValueError, match=f"{name} = "):
            other.weighted(model[0])
    assert model.transform(built("again", hashing=NgramHashing(**settings))).shape == (24, 2)
    assert model.transform(NgramHashing(**settings).transform(TEXTS)).shape == (24, 2)
    with pytest.raises(ValueError, match=r"vocabulary.*X.*hashed"):
        TfidfWeighting().fit(store).transform(built("terms"))
    with pytest.raises(ValueError, match=r"hashed.*X.*vocabulary"):
        TfidfWeighting().fit(built("more terms")).transform(store)


def test_further_rows_have_the_columns_of_the_first_ones(built):
    store, other = built("a"), built("b", OTHERS)
    for model in (TfidfWeighting(), TruncatedSVD(2, solver="gram")):
        model.partial_fit(store).partial_fit(store[:4])
        with pytest.raises(ValueError, match="column 0"):
            model.partial_fit(other)
    provenance = {key: other.provenance[key] for key in ("hashing", "vocabulary")}
    with pytest.raises(ValueError, match=r"column 0.*CountStore"):
        dspectral.write_counts(other.counts, store.location.url, append=True, provenance=provenance)
