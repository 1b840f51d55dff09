"""Labels beside counts, and labelled text read and written."""

import re

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from dspectral import write_counts
from dspectral.io import build_labeled_store, write_labeled_text
from dspectral.io.labeled_lines import parse_lines
from dspectral.store import StoreError
from dspectral.store.from_text.lines import LineChunk


def labelled(seed=0, n=25, d=8, n_labels=5):
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(rng.poisson(0.6, size=(n, d)) * rng.choice([1.0, 0.25, 1e-3], size=(n, d)))
    return X.astype(np.float32), sparse.csr_array((rng.random((n, n_labels)) < 0.3).astype(np.float32))


def same(store, X, Y):
    assert (store.counts.compute() != X).nnz == 0
    assert (store.labels.compute() != Y).nnz == 0


def test_lazy_labels_with_other_cuts_are_cut_as_the_rows_are(tmp_path):
    X, Y = labelled()
    lazy = da.from_array(Y.toarray(), chunks=(4, -1))
    same(write_counts(X, str(tmp_path / "a"), labels=lazy, block_rows=9), X, Y)


def test_appended_rows_bring_their_labels_and_must_have_some(tmp_path):
    X, Y = labelled()
    path = str(tmp_path / "a")
    write_counts(X, path, labels=Y)
    store = write_counts(X, path, labels=Y, append=True)
    assert write_counts(X, f"{path}-plain").labels is None
    same(store, sparse.vstack([X, X]), sparse.vstack([Y, Y]))
    for labels in (None, Y[:, :3]):
        with pytest.raises(StoreError, match=rf"labels.*{re.escape(path)}"):
            write_counts(X, path, labels=labels, append=True)


def test_svmlight_as_scikit_learn_writes_it(tmp_path):
    X, Y = labelled()
    path = str(tmp_path / "a.svm")
    dump_svmlight_file(X, Y, path, multilabel=True, zero_based=False, comment="made here")
    store = build_labeled_store(path, str(tmp_path / "a"), format="svmlight", zero_based=False, n_columns=8, n_labels=5)
    rows = np.flatnonzero((X != 0).sum(axis=1) + Y.sum(axis=1))  # a line with nothing is left out
    np.testing.assert_allclose(store.counts.compute().toarray(), X[rows].toarray(), rtol=1e-6)
    np.testing.assert_array_equal(store.labels.compute().toarray(), Y[rows].toarray())


def test_several_files_each_with_its_first_line(tmp_path):
    X, Y = labelled()
    for i, part in enumerate((slice(0, 11), slice(11, 25))):
        write_labeled_text(X[part], str(tmp_path / f"{i}.txt"), Y[part])
    same(build_labeled_store(str(tmp_path / "*.txt"), str(tmp_path / "a")), X, Y)


def test_a_build_that_was_stopped_goes_on_and_appending_adds(tmp_path):
    X, Y = labelled()
    path, store = str(tmp_path / "a.txt"), str(tmp_path / "a")
    write_labeled_text(X, path, Y)
    lines = (tmp_path / "a.txt").read_text().splitlines(keepends=True)
    (tmp_path / "a.txt").write_text("".join(lines).replace(lines[20], lines[20].replace(":", ";")))
    # One after the other: threads that still write would meet what is discarded below.
    with dask.config.set(scheduler="sync"), pytest.raises(ValueError, match=re.escape(path)):
        build_labeled_store(path, store, block_bytes=100)
    same(build_labelled_store_of(lines, path, store), X, Y)
    same(
        build_labeled_store(path, store, append=True, block_bytes=100),
        sparse.vstack([X, X]),
        sparse.vstack([Y, Y]),
    )


def build_labelled_store_of(lines, path, store):
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  as a user would
        file.writelines(lines)
    return build_labeled_store(path, store, block_bytes=100)


BAD = [
    ("1 2\n0 0:1\n", {}, "line 1.*'documents columns labels'"),
    ("2 3 2\n0 0:1\n", {}, "2 documents.*1"),
    ("1 3 2\n0 3:1\n", {}, "line 2.*column 3.*2"),
    ("1 3 2\n0 4:1\n", {"zero_based": False}, "line 2.*column 4.*3"),
    ("1 3 2\n5 0:1\n", {}, "line 2.*label 5.*1"),
    ("1 3 2\n0 1\n", {}, "line 2.*value"),
    ("1 3 2\n0 1:nan\n", {}, "line 2.*value.*finite"),
    ("1 3 2\n0 0:1\n", {"zero_based": False}, "line 2.*column"),
    ("0 0:1\n\n# nothing\n1 9:1\n", {"format": "svmlight", "n_columns": 3}, "line 4.*column 9"),
    ("1 3 2\n0 1:1e39\n", {}, "line 2.*value.*float32.*3.4e38"),
    ("0 0:1\n0 2147483647:1\n", {"format": "svmlight"}, "line 2.*column.*2147483646"),
]


@pytest.mark.parametrize(("text", "options", "message"), BAD)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, text, options, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises((ValueError, TypeError), match=message):
        build_labeled_store(str(tmp_path / "a.txt"), str(tmp_path / "a"), **options)


def test_a_line_may_lack_labels_columns_or_both():
    text = b"3\n 1:2\n\n0,0 1:1 1:2 # twice\r\nqid:7 0:1\n2:5\n+1.0,2 qid:3 0:1"
    parsed = parse_lines(LineChunk(text, "a.txt", 0, 1), n_labels=4)
    np.testing.assert_array_equal(
        parsed.rows.toarray(), [[0, 0, 0], [0, 2, 0], [0, 0, 0], [0, 3, 0], [1, 0, 0], [0, 0, 5], [1, 0, 0]]
    )
    np.testing.assert_array_equal(
        parsed.labels.toarray(),
        [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4, [0, 1, 1, 0]],
    )


def test_entries_that_are_zero_are_no_labels_and_repeated_ones_are_one(tmp_path):
    Y = sparse.csr_array((np.array([0.0, 1, 1]), np.array([0, 2, 2]), np.array([0, 3])), shape=(1, 3))
    write_labeled_text(np.array([[0.0, 2.0]]), tmp_path / "a.txt", Y)
    assert (tmp_path / "a.txt").read_text() == "1 2 3\n2 1:2\n"


@pytest.mark.parametrize(
    ("X", "Y", "options", "said"),
    [
        (np.eye(2), None, {}, "labels"),
        (np.eye(2), np.ones((3, 1)), {}, r"3 rows.*2|2 rows.*3"),
        (np.full((1, 1), np.nan), np.ones((1, 1)), {}, "NaN"),
        (np.ones((1, 1)), np.ones((1, 1)), {"format": "libsvm"}, "format.*'libsvm'"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, X, Y, options, said):
    with pytest.raises(ValueError, match=said):
        write_labeled_text(X, tmp_path / "a.txt", Y, **options)
    if len(X) == 2 and Y is not None:
        with pytest.raises(ValueError, match=said):
            write_counts(X, str(tmp_path / "a"), labels=Y)


@pytest.mark.parametrize("format", ["svmlight", "extreme"])
@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_labeled_text_is_read_as_it_was_written(tmp_path, format, zero_based, ending):  # noqa: A002
    X, Y = labelled()
    X, Y = (sparse.vstack([part, sparse.csr_array((2, part.shape[1]))], format="csr") for part in (X, Y))
    path, settings = str(tmp_path / f"a.{ending}"), {"format": format, "zero_based": zero_based}
    write_labeled_text(write_counts(X, str(tmp_path / "a"), labels=Y, block_rows=7), path, **settings)
    store = build_labeled_store(path, str(tmp_path / "b"), n_columns=8, n_labels=5, block_bytes=100, **settings)
    same(store, X, Y)
    assert (store.n_blocks > 3) == (ending == "txt")


def test_classes_of_minus_one_and_one_are_two_labels(tmp_path):
    path = tmp_path / "a.svm"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(f"-1 0:1{end}+1 1:2{end}1 0:3{end}-1.0{end}".encode())
        store = build_labeled_store(str(path), f"memory://classes/{ord(end[0])}{len(end)}", format="svmlight")
        assert store.labels.compute().toarray().tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    for wrong in ("0 0:1", "2 0:1", "-2 0:1", "-1,0 0:1"):
        path.write_text(f"-1 0:1\n{wrong}\n")
        with pytest.raises(ValueError, match="line 2"):
            build_labeled_store(str(path), str(tmp_path / "wrong"), format="svmlight")


@pytest.mark.parametrize("format", ["extreme", "svmlight"])
def test_integers_beyond_single_precision_are_read_and_written(tmp_path, format):  # noqa: A002
    X, Y = np.array([[16_777_217, 1], [1_700_000_001, 2**53 - 1], [3, 0]]), np.eye(3)
    text, url = tmp_path / "exact.txt", str(tmp_path / "exact.zarr")
    write_labeled_text(X, text, Y, format=format)
    store = build_labeled_store(text, url, format=format)
    assert store.counts.dtype == np.float64
    np.testing.assert_array_equal(store.counts.compute().toarray(), X)
    write_labeled_text(store, text, format=format)
    again = build_labeled_store(text, str(tmp_path / "again.zarr"), format=format)
    np.testing.assert_array_equal(again.counts.compute().toarray(), X)
    text.write_text("1 2 1\n0 0:16777216 0:1 1:0.1\n")
    actual = build_labeled_store(text, str(tmp_path / "sums.zarr")).counts.compute().toarray()
    np.testing.assert_array_equal(actual, [[16_777_217, 0.1]])
