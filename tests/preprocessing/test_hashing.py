"""Texts and text files that a transformer hashes, in memory or block by block."""

import gzip

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from dspectral import NgramHashing, TextFiles, TfidfWeighting, TruncatedSVD, build_store, write_counts
from dspectral.store.from_text import text_files
from dspectral.text.hashing import HashingSettings
from dspectral.text.packing import pack_texts
from tests.strategies import n_tasks

WORDS = ["to", "be", "or", "not", "that", "is", "the", "question", "whether", "it"]
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 3 + i % 7)) for i in range(60)]
HASHING = NgramHashing(256, (1, 2))


def pipeline(**parameters):
    return make_pipeline(HASHING, TfidfWeighting(), TruncatedSVD(3, **parameters))


def same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert (one != other).nnz == 0


def test_many_texts_are_hashed_block_by_block(monkeypatch):
    expected = HASHING.transform(TEXTS)
    monkeypatch.setitem(pack_texts.__kwdefaults__, "block_bytes", 200)
    same(HASHING.transform(TEXTS), expected)
    assert HASHING.transform(TEXTS).indices.dtype == np.int32
    assert HASHING.transform([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a text", r"\['a text'\].*TextFiles\('a text'\)"),
        ({"text": TEXTS}, "X.*dict"),
        (pd.DataFrame({"text": TEXTS}), "X.*DataFrame.*2"),
        ([["a", "b"]], r"document 0.*\['a', 'b'\]"),
        (["a", None], "document 1.*None"),
        (pd.Series(["a", np.nan]), "document 1.*nan"),
    ],
)
def test_what_is_no_collection_of_texts_is_refused_with_a_sentence(wrong, message):
    with pytest.raises(TypeError, match=message):
        HASHING.transform(wrong)


@pytest.mark.parametrize("wrong", [["a", "\ud800"], ["a", b"\xff"]])
def test_a_text_that_is_not_utf_8_is_named(wrong):
    with pytest.raises(ValueError, match=r"document 1.*UTF-8"):
        HASHING.transform(wrong)


def test_settings_of_a_store_and_the_transformer_are_compared_by_value():
    assert HashingSettings(256, (1, 2)) == NgramHashing(256, (1, 2)).settings == clone(HASHING).settings
    assert NgramHashing(**HASHING.settings._asdict()).settings == HASHING.settings != HashingSettings(256)


@pytest.fixture
def text(tmp_path):
    """Three files of lines: blocks of 300 bytes cut them into several blocks each."""
    for i, name in enumerate(("a.txt", "b.txt", "c.txt.gz")):
        content = "".join(f"{line}\n" for line in TEXTS[20 * i : 20 * i + 20]).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return str(tmp_path / "*.txt*")


def test_files_are_hashed_lazily_into_the_blocks_of_a_store(text, tmp_path):
    files = TextFiles(text, block_bytes=300)
    rows = HASHING.transform(files)
    store = build_store(text, str(tmp_path / "store"), hashing=HASHING, block_bytes=300)
    assert isinstance(rows, da.Array)
    assert rows.chunks == store.counts.chunks
    assert n_tasks(rows) == len(files.blocks) == store.n_blocks > 6
    same(rows.compute(), HASHING.transform(TEXTS))
    assert HASHING.transform(store) is store
    assert repr(files) == f"TextFiles({text!r})"


def test_stores_of_other_columns_are_refused(text, tmp_path):
    store = build_store(text, str(tmp_path / "store"), hashing=NgramHashing(128))
    with pytest.raises(ValueError, match=r"hash.*n_features=128"):
        HASHING.transform(store)
    assert NgramHashing(**store.hashing._asdict()).transform(store) is store
    with pytest.raises(ValueError, match="NgramHashing"):
        HASHING.transform(write_counts(np.eye(4), str(tmp_path / "matrix")))


@pytest.mark.parametrize("block_bytes", [300, 1 << 20])
def test_files_and_a_store_give_one_pipeline_the_same_bits(text, tmp_path, block_bytes):
    store = build_store(text, str(tmp_path / "store"), hashing=HASHING, block_bytes=block_bytes)
    of_store = pipeline().fit(store)
    of_files = pipeline().fit(TextFiles(text, block_bytes=block_bytes))
    assert of_store[-1].components_.tobytes() == of_files[-1].components_.tobytes()
    assert of_store[-1].weighting_ == of_files[-1].weighting_
    of_list = pipeline().fit(TEXTS)
    np.testing.assert_array_equal(of_list[1].idf_, of_files[1].idf_)
    np.testing.assert_allclose(of_list[-1].components_, of_files[-1].components_, atol=1e-4)


def test_pass_hashes_each_block_once_and_one_at_a_time(text, monkeypatch):
    hashed = []

    def counted(documents, settings):
        hashed.append(len(documents.data))
        return HASHING.transform([documents.text(i) for i in range(documents.n_documents)])

    monkeypatch.setattr(text_files, "hash_documents", counted)
    files = TextFiles(text, block_bytes=300)
    model = pipeline(n_passes=3, solver="krylov").fit(files)
    assert len(hashed) == (model[1].n_passes_ + model[2].n_passes_) * len(files.blocks) == 4 * len(files.blocks)
    assert max(hashed) <= 300
