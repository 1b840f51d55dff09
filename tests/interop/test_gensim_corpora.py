"""Corpora of gensim, lists of (id, count), are our stores and back."""

import unittest
from inspect import signature

import numpy as np
import pytest

from dspectral import LsiModel, VocabularySettings, build_store, write_counts
from tests.interop.rows import row
from tests.strategies import zipf_counts

ROWS = zipf_counts(120, 50, 5).astype(np.float32)


@row("gensim", "from", "a corpus of (id, count) lists becomes a store, `matutils.corpus2csc`")
def test_a_corpus_of_gensim_becomes_a_store(tmp_path):
    from gensim import matutils
    from gensim.corpora import Dictionary

    texts = ["to be or not to be", "that is the question", "to do is to be"]
    dictionary = Dictionary([text.split() for text in texts])
    corpus = [dictionary.doc2bow(text.split()) for text in texts]
    reference = matutils.corpus2csc(corpus, num_terms=len(dictionary), num_docs=3).T
    actual = write_counts(reference, str(tmp_path / "theirs"))
    (tmp_path / "lines.txt").write_text("\n".join(texts) + "\n")
    built = build_store(str(tmp_path / "lines.txt"), str(tmp_path / "built"), vocabulary=VocabularySettings())
    order = [dictionary.token2id[term] for term in built.vocabulary.terms]
    assert np.array_equal(actual.counts.compute().toarray()[:, order], built.counts.compute().toarray())


@row("gensim", "to", "`matutils.Sparse2Corpus` streams the rows of a store as (id, count) lists")
def test_a_store_becomes_a_corpus_of_gensim(tmp_path):
    from gensim import matutils

    store = write_counts(ROWS, str(tmp_path / "store"), block_rows=50)
    documents = [
        document
        for block in store.counts.blocks
        for document in matutils.Sparse2Corpus(block.compute(), documents_columns=False)
    ]
    assert np.array_equal(matutils.corpus2dense(documents, 50, 120).T, ROWS.toarray())


@row(
    "gensim",
    "from",
    "our `LsiModel` on `Dictionary`, `MmCorpus`, `TfidfModel`: `projection`, `model[bow]`, `add_documents`, similarities as gensim's",
)
def test_our_lsi_model_gives_what_gensims_gives(tmp_path):
    from gensim import matutils
    from gensim.corpora import Dictionary, MmCorpus
    from gensim.models import LsiModel as Theirs
    from gensim.models import TfidfModel
    from gensim.similarities import MatrixSimilarity

    dictionary = Dictionary([[f"w{word}" for word in range(50)]])
    bags = list(matutils.Sparse2Corpus(ROWS, documents_columns=False))
    MmCorpus.serialize(str(tmp_path / "rows.mm"), bags)
    corpus = MmCorpus(str(tmp_path / "rows.mm"))
    for streamed in (corpus, TfidfModel(bags)[corpus]):
        reference = Theirs(streamed, 4, dictionary, onepass=False, power_iters=30, extra_samples=40, random_seed=0)
        actual = LsiModel(streamed, 4, dictionary, chunksize=50)
        assert np.allclose(actual.projection.s, reference.projection.s, rtol=1e-5)
        signs = np.sign((actual.projection.u * reference.projection.u).sum(axis=0))
        assert np.allclose(actual.projection.u * signs, reference.projection.u, atol=1e-5)
        assert np.allclose(np.array(actual[bags[3]])[:, 1] * signs, np.array(reference[bags[3]])[:, 1], atol=1e-4)
        assert [(n, text.replace("-", "")) for n, text in actual.print_topics(4, 3)] == [
            (n, text.replace("-", "")) for n, text in reference.print_topics(4, 3)
        ]
        near = [MatrixSimilarity(model[streamed], num_features=4)[model[bags[3]]] for model in (actual, reference)]
        assert np.allclose(*near, atol=1e-4)
    grown = LsiModel(bags[:70], 4, dictionary)
    grown.add_documents(iter(bags[70:]))
    assert np.allclose(grown.projection.s, LsiModel(bags, 4, dictionary).projection.s)


NOT_HERE = {"test_large_mmap": "arrays are compressed in Zarr, and cannot be mapped: load(mmap='r') is refused"}
"""Tests of gensim's own that ours does not pass, and why."""


def test_our_lsi_model_passes_gensims_own_tests(monkeypatch):
    reference = pytest.importorskip("gensim.test.test_lsimodel")

    monkeypatch.setattr(reference.lsimodel, "LsiModel", LsiModel)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(reference.TestLsiModel).run(result)
    failed = {test.id().rpartition(".")[2]: trace for test, trace in result.errors + result.failures}
    assert failed.keys() == NOT_HERE.keys(), failed
    assert result.testsRun >= 14


def test_our_lsi_model_has_the_names_of_gensims():
    Theirs = pytest.importorskip("gensim.models").LsiModel
    reference, actual = Theirs([[(0, 1)], [(1, 1)]], 1), LsiModel([[(0, 1)], [(1, 1)]], 1)
    missing = {
        name for name in {*dir(Theirs), *vars(reference)} if not name.startswith("_") and not hasattr(actual, name)
    }
    assert missing == {"print_debug", "add_lifecycle_event", "lifecycle_events", "dispatcher", "numworkers"}
    for name in (
        "__init__",
        "add_documents",
        "__getitem__",
        "show_topic",
        "show_topics",
        "print_topic",
        "print_topics",
    ):
        known = list(signature(getattr(Theirs, name)).parameters)
        assert list(signature(getattr(LsiModel, name)).parameters)[: len(known)] == known
