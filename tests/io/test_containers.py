"""Containers that first bytes or types show: compressed files of any name, columns of labels and of texts."""

import bz2
import gzip
import zipfile
from collections import deque

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from dspectral import Topics, embedder
from dspectral.io import read_conll, read_labeled_records
from dspectral.store.from_text.build import build_store
from workflows._parts.known_collections import read_newsgroups

TEXT = b"text\nab cd\nef gh\n"
TEXTS = ["the cat purrs and sleeps", "the dog barks and runs"] * 10


def zip_of(*members):
    def write(path, content):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in members:
                archive.writestr(member, content)

    return write


WRITERS = {
    "gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    "zst": lambda path, content: path.write_bytes(zstandard.compress(content)),
    "zip": zip_of("a.csv", "__MACOSX/._a.csv"),
    "parquet": lambda path, _: parquet.write_table(pa.table({"text": ["ab cd", "ef gh"]}), path),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [*((kind, "a.txt") for kind in WRITERS), ("gz", "a.csv.zst"), ("zip", "a.zip"), ("zip", "a.csv.zip"), ("gz", "a")],
)
def test_first_bytes_decide_between_compressions(tmp_path, kind, name):
    WRITERS[kind](tmp_path / name, TEXT)
    assert build_store(str(tmp_path / name), str(tmp_path / "store"), field="text", keep_texts=True).n_rows == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zip_of("a.txt", "b.txt"), "has 2 files, but a .zip"),
        (lambda path, _: path.write_bytes(TEXT), "not a .zip"),
    ],
)
def test_zip_of_other_than_one_file_is_refused(tmp_path, content, words):
    content(tmp_path / "a.txt.zip", TEXT)
    with pytest.raises(ValueError, match=words):
        build_store(str(tmp_path / "a.txt.zip"), str(tmp_path / "store"))


@pytest.mark.parametrize("block_bytes", [8, 1 << 20])
@pytest.mark.parametrize(("name", "compress"), [("a.txt.bz2", bz2.compress), ("a.txt", gzip.compress)])
def test_remote_files_are_read_by_first_bytes_or_names(name, compress, block_bytes):
    with fsspec.open(f"memory://names/{name}", "wb") as file:
        file.write(compress(b"ab\tcd\nef\tgh\n"))
    store = build_store(f"memory://names/{name}", f"memory://names/{block_bytes}{name}", block_bytes=block_bytes)
    assert store.n_rows == 2
    assert read_conll(f"memory://names/{name}").words == [["ab", "ef"]]


@pytest.mark.parametrize("source", ["a::b.txt", "*.txt", ""])
def test_two_colons_in_a_name_are_refused_by_every_source(tmp_path, source):
    (tmp_path / "a::b.txt").write_text("ab cd")
    with pytest.raises(ValueError, match=r"a::b.txt' has '::'.*rename"):
        build_store(f"{tmp_path}/{source}", str(tmp_path / "store"))


@pytest.mark.parametrize("kind", [list, deque, pa.array, lambda y: pa.chunked_array([y]), pd.Series, np.array, iter])
def test_texts_are_read_from_every_container(kind):
    words = Topics(2, min_df=2, max_df=1.0).fit(TEXTS).words_
    assert list(Topics(2, min_df=2, max_df=1.0).fit(kind(TEXTS)).words_) == list(words)
    assert embedder(2).fit_transform(kind(TEXTS)).shape == (20, 2)


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['cat', 'animal']", ("cat", "animal")),
        ("['cat' 'animal']", ("cat", "animal")),
        ("[\"it's\", 'b']", ("it's", "b")),
        ("[1, 2]", ("1", "2")),
        ("[]", ()),
        ("[cat]", ("[cat]",)),
        ("'cat', 'animal'", ("'cat', 'animal'",)),
    ],
)
def test_lists_that_pandas_writes_into_cells_are_lists(tmp_path, cell, labels):
    pd.DataFrame({"text": ["the cat"], "label": [cell]}).to_csv(tmp_path / "a.csv", index=False)
    assert next(read_labeled_records(str(tmp_path / "a.csv"))).labels == labels


def test_hidden_files_in_folders_of_classes_are_skipped(tmp_path):
    for name in ("a/1", "b/2", "a/.DS_Store", ".git/x/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("post")
    assert [post.labels for post in read_newsgroups(tmp_path)] == [("a",), ("b",)]
