"""Files of labeled rows, and scikit-learn around our estimators."""

import numpy as np
from scipy import sparse

from dspectral import NgramHashing, SketchedPCA, TfidfWeighting, TruncatedSVD, write_counts
from dspectral.io import build_labelled_store, write_labelled_text
from tests.interop.rows import row
from tests.strategies import zipf_counts

ROWS = zipf_counts(40, 30, 2).astype(np.float32)
TEXTS = ["play some jazz music", "what is the weather", "play a song", "will it rain today"] * 10
LABELS = sparse.csr_array((np.random.default_rng(0).random((40, 6)) < 0.3).astype(np.float32))


@row(
    "scikit-learn",
    "from",
    "a svmlight file of `dump_svmlight_file(multilabel=True)` becomes a store",
    packages="scikit-learn",
)
def test_we_read_svmlight_of_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(
        sparse.csr_matrix(ROWS), LABELS.toarray().astype(int), str(tmp_path / "rows.svm"), multilabel=True
    )
    store = build_labelled_store(
        str(tmp_path / "rows.svm"), str(tmp_path / "store"), format="svmlight", n_columns=30, n_labels=6
    )
    assert np.allclose(store.counts.compute().toarray(), ROWS.toarray())
    assert np.array_equal(store.labels.compute().toarray() != 0, LABELS.toarray() != 0)


@row(
    "scikit-learn",
    "to",
    "`load_svmlight_file(multilabel=True)` reads our svmlight and, behind its head line, extreme format",
    packages="scikit-learn",
)
def test_scikit_learn_reads_our_svmlight(tmp_path):
    from sklearn.datasets import load_svmlight_file

    write_labelled_text(ROWS, str(tmp_path / "rows.svm"), LABELS, format="svmlight")
    check_labelled(
        load_svmlight_file(str(tmp_path / "rows.svm"), n_features=30, multilabel=True, zero_based=True)
    )
    write_labelled_text(ROWS, str(tmp_path / "rows.txt"), LABELS, format="extreme")
    with (tmp_path / "rows.txt").open("rb") as file:  # extreme classification: svmlight behind a head line
        assert file.readline().split() == [b"40", b"30", b"6"]
        check_labelled(load_svmlight_file(file, n_features=30, multilabel=True, zero_based=True))


def check_labelled(read):
    X, labels = read
    assert np.allclose(X.toarray(), ROWS.toarray())
    assert [sorted(map(int, one)) for one in labels] == [
        row.nonzero()[0].tolist() for row in LABELS.toarray()
    ]


@row(
    "scikit-learn",
    "inside",
    "`Pipeline`, `GridSearchCV` and `cross_val_score` with hashing, tf-idf and SVD",
    packages="scikit-learn",
)
def test_our_estimators_stand_in_pipelines_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(NgramHashing(2**8), TfidfWeighting(), TruncatedSVD(3), LogisticRegression())
    y = np.arange(40) % 2
    assert cross_val_score(pipeline, TEXTS, y, cv=4).mean() == 1
    found = GridSearchCV(pipeline, {"truncatedsvd__n_components": [2, 4]}, cv=2).fit(TEXTS, y)
    assert found.best_score_ == 1


@row(
    "scikit-learn",
    "both",
    'its `PCA` and our `SketchedPCA` agree; `set_output(transform="pandas")`',
    packages="scikit-learn pandas",
)
def test_pca_of_scikit_learn_and_ours_agree():
    from sklearn.decomposition import PCA

    theirs, ours = (
        PCA(3).fit(ROWS.toarray()),
        SketchedPCA(3).set_output(transform="pandas").fit(ROWS.toarray()),
    )
    assert np.allclose(theirs.explained_variance_, ours.explained_variance_, rtol=1e-4)
    frame = ours.transform(ROWS.toarray())
    assert frame.columns.tolist() == ["sketchedpca0", "sketchedpca1", "sketchedpca2"]


@row("joblib", "inside", "fitted models in `dump`/`load` files and in worker processes", packages="joblib")
def test_fitted_models_travel_with_joblib(tmp_path):
    import joblib

    model = TruncatedSVD(3).fit(ROWS)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(again.transform)(ROWS[i : i + 20]) for i in (0, 20))
    assert np.array_equal(np.concatenate(parts), model.transform(ROWS))


@row("SciPy", "both", "`save_npz`/`load_npz` of the rows of a store", packages="scipy")
def test_rows_pass_through_files_of_scipy(tmp_path):
    store = write_counts(ROWS, str(tmp_path / "store"), block_rows=15)
    sparse.save_npz(tmp_path / "rows.npz", store.counts.compute())
    again = write_counts(sparse.load_npz(tmp_path / "rows.npz"), str(tmp_path / "again"), block_rows=15)
    assert [block.energy for block in again.blocks] == [block.energy for block in store.blocks]
