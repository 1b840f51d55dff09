"""Corpora of gensim, lists of (id, count), are our stores and back."""

import numpy as np

from dspectral import TruncatedSVD, VocabularySettings, build_store, write_counts
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
    theirs = matutils.corpus2csc(corpus, num_terms=len(dictionary), num_docs=3).T
    ours = write_counts(theirs, str(tmp_path / "theirs"))
    (tmp_path / "lines.txt").write_text("\n".join(texts) + "\n")
    built = build_store(str(tmp_path / "lines.txt"), str(tmp_path / "built"), vocabulary=VocabularySettings())
    order = [dictionary.token2id[term] for term in built.vocabulary.terms]
    assert np.array_equal(ours.counts.compute().toarray()[:, order], built.counts.compute().toarray())


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


@row("gensim", "both", "`LsiModel` and `TruncatedSVD` find the same singular values on one store")
def test_lsi_of_gensim_and_ours_agree(tmp_path):
    from gensim import matutils
    from gensim.models import LsiModel

    store = write_counts(ROWS, str(tmp_path / "store"), block_rows=50)
    corpus = matutils.Sparse2Corpus(store.counts.compute(), documents_columns=False)
    theirs = LsiModel(corpus, num_topics=5, onepass=False, power_iters=8, extra_samples=40, random_seed=0)
    ours = TruncatedSVD(5).fit(store)
    assert np.allclose(theirs.projection.s, ours.singular_values_, rtol=1e-3)
