"""Containers and numbers of other libraries: taken for what they hold, or refused by name."""

import dask.array as da
import numpy as np
import pytest

import dspectral
from dspectral import PCA, Texts, Topics, TruncatedSVD, VocabularySettings

X = np.random.default_rng(4).poisson(1.0, (24, 5)).astype(float)


def test_an_array_of_xarray_in_memory_is_an_array():
    xarray = pytest.importorskip("xarray")
    labeled = xarray.DataArray(X, dims=("time", "place"))
    np.testing.assert_array_equal(PCA(2).fit(labeled).components_, PCA(2).fit(X).components_)
    np.testing.assert_array_equal(PCA(2).fit(X).transform(labeled), PCA(2).fit(X).transform(X))
    assert dspectral.write_counts(labeled, "memory://labeled").shape == X.shape
    with pytest.raises(TypeError, match="lazy DataArray"):
        PCA(2).fit(labeled.chunk({"time": 6}))


def test_masks_are_refused_by_stores_too():
    masked = np.ma.masked_array(X, X > 2)
    for name, rows in {"array": masked, "lazy": da.from_array(masked, chunks=(6, 5))}.items():
        with pytest.raises(ValueError, match="masked"):
            dspectral.write_counts(rows, f"memory://masked-{name}")
        with pytest.raises(ValueError, match="masked"):
            TruncatedSVD(2).fit(rows)
    with pytest.raises(ValueError, match="masked"):
        dspectral.write_counts(X, "memory://masked-labels", labels=masked)


def test_short_floats_of_other_libraries_are_refused_with_a_remedy():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for rows in (X.astype(ml_dtypes.bfloat16), da.from_array(X.astype(ml_dtypes.bfloat16), chunks=(6, 5))):
        with pytest.raises(ValueError, match=r"bfloat16.*astype"):
            PCA(2).fit(rows)
        PCA(2).fit(rows.astype("float32"))


def test_numbers_of_numpy_are_numbers_everywhere():
    texts = [f"red {word} wine" for word in ("dry", "sweet", "dry", "old")] * 3
    numbers = VocabularySettings((np.int64(1), np.int64(2)), np.bool_(True), np.int64(2), np.float32(0.9), np.int64(5))
    store = dspectral.build_store(Texts(texts), "memory://numpy-settings", vocabulary=numbers)
    plain = VocabularySettings((1, 2), True, 2, 0.9, 5)
    same = dspectral.build_store(Texts(texts), "memory://plain-settings", vocabulary=plain)
    assert store.vocabulary.terms == same.vocabulary.terms
    assert dspectral.open_store("memory://numpy-settings").provenance == store.provenance
    signed = dspectral.write_counts(-X, "memory://numpy-signed", signed=np.bool_(True), block_rows=np.int32(9))
    assert signed.block_rows == [9, 9, 6]
    few = Topics(np.int64(2), min_df=np.float32(0.1), max_df=np.float32(0.95)).fit(texts)
    assert few.words_ == Topics(2, min_df=0.1, max_df=0.95).fit(texts).words_
