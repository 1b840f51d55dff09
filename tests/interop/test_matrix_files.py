"""Files of labeled rows, and scikit-learn around our estimators."""

import numpy as np
from scipy import sparse

from dspectral.io import build_labeled_store, write_labeled_text
from tests.interop.rows import row
from tests.strategies import zipf_counts

ROWS = zipf_counts(40, 30, 2).astype(np.float32)
LABELS = sparse.csr_array((np.random.default_rng(0).random((40, 6)) < 0.3).astype(np.float32))


@row("scikit-learn", "from", "a svmlight file of `dump_svmlight_file(multilabel=True)` becomes a store")
def test_we_read_svmlight_of_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(
        sparse.csr_matrix(ROWS), LABELS.toarray().astype(int), str(tmp_path / "rows.svm"), multilabel=True
    )
    store = build_labeled_store(
        str(tmp_path / "rows.svm"), str(tmp_path / "store"), format="svmlight", n_columns=30, n_labels=6
    )
    assert np.allclose(store.counts.compute().toarray(), ROWS.toarray())
    assert np.array_equal(store.labels.compute().toarray() != 0, LABELS.toarray() != 0)


@row(
    "scikit-learn",
    "to",
    "`load_svmlight_file(multilabel=True)` reads our svmlight and, behind its head line, extreme format",
)
def test_scikit_learn_reads_our_svmlight(tmp_path):
    from sklearn.datasets import load_svmlight_file

    write_labeled_text(ROWS, str(tmp_path / "rows.svm"), LABELS, format="svmlight")
    check_labeled(load_svmlight_file(str(tmp_path / "rows.svm"), n_features=30, multilabel=True, zero_based=True))
    write_labeled_text(ROWS, str(tmp_path / "rows.txt"), LABELS, format="extreme")
    with (tmp_path / "rows.txt").open("rb") as file:  # extreme classification: svmlight behind a head line
        assert file.readline().split() == [b"40", b"30", b"6"]
        check_labeled(load_svmlight_file(file, n_features=30, multilabel=True, zero_based=True))


def check_labeled(read):
    X, labels = read
    assert np.allclose(X.toarray(), ROWS.toarray())
    assert [sorted(map(int, one)) for one in labels] == [row.nonzero()[0].tolist() for row in LABELS.toarray()]
