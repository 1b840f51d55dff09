"""The numbers of passes that the page on passes and the README's words state are those that fits report."""

import re
from pathlib import Path

import dask
import numpy as np
import pytest

import dspectral
from dspectral.datasets import low_rank_counts, sample_labeled_documents
from workflows._parts.drawn_sequences import refinement_sequences

PAGE = Path(__file__).parent.parent / "docs" / "how_it_works.md"
SENTENCES = [["the", "cat", "sat"], ["a", "dog", "sat"], ["the", "dog", "ran"], ["a", "cat", "ran"]] * 10
COUNTS = np.random.default_rng(0).poisson(1.0, (40, 20)).astype(np.float32)


LABELED = sample_labeled_documents(300, n_words=100, n_labels=6, n_states=4, seed=1)[:2]
WIDE = low_rank_counts(200, 2100, 4, block_rows=50)


def passes(name, *data, **parameters):
    return getattr(dspectral, name)(**parameters).fit(*data).n_passes_


def tfidf_passes(tmp_path):
    store = dspectral.write_counts(COUNTS, str(tmp_path / "store.zarr"), block_rows=10)
    return [passes("TfidfWeighting", rows) for rows in (store, COUNTS)]


def sentence_passes(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(map(" ".join, SENTENCES)), encoding="utf-8")
    hashing = dspectral.SentenceRepresentation(2, n_features=2**10).word_hashing
    store = dspectral.build_store(str(tmp_path / "text.txt"), str(tmp_path / "text.zarr"), hashing=hashing)
    small = passes("SentenceRepresentation", store, n_components=2, n_features=2**10)
    with dask.config.set({"dspectral.in-memory-bytes": 0}):
        larger = low_rank_counts(200, 4096, 4, block_rows=50)  # one more counts frequencies
        return small, passes("SentenceRepresentation", larger, n_components=2, n_features=4096, min_df=0)


def refinement_passes(_):
    X = refinement_sequences(500, seed=1)
    return [passes("RefinementHMM", X, n_refinements=m, n_em_iter=e) for m, e in ((2, 0), (2, 2), (1, 2))]


def em_passes(_):
    model = dspectral.EMHMM(2, n_iter=5).fit(SENTENCES)
    return model.n_passes_ - len(model.log_likelihoods_)


def tree_passes(_):
    words = list("abcdefgh")
    sentences = [list(row) for row in np.random.default_rng(0).choice(words, size=(60, 8))]
    vectors = np.random.default_rng(1).standard_normal((8, 3))
    return passes("TreePCA", sentences, length=8, vectors=(words, vectors))


def local_passes(_):
    model = dspectral.LocalLSI(2).fit(COUNTS, np.arange(40) % 3)
    return model.n_passes_ > model.n_iter_ > 1


STATED = {  # an estimator and its passes, as the page has them; a function, and what it returns
    ("`SketchedPCA`, any one-pass solver", "1"): (
        lambda _: passes("SketchedPCA", WIDE, n_components=2, solver="frequent_directions"),
        1,
    ),
    ("`TruncatedSVD(n_passes=p)`, up to 2,048 columns", '1, exact (`"gram"`)'): (
        lambda _: passes("TruncatedSVD", COUNTS, n_components=2, n_passes=4),
        1,
    ),
    (
        "`TruncatedSVD(n_passes=p)`, more columns, entries up to a quarter of `dspectral.in-memory-bytes` (32 MiB)",
        '1, exact (`"in_memory"`)',
    ): (lambda _: passes("TruncatedSVD", WIDE.compute(), n_components=2, n_passes=4), 1),
    ("`TruncatedSVD(n_passes=p)`, more columns and entries", "p"): (
        lambda _: [passes("TruncatedSVD", WIDE, n_components=2, n_passes=p) for p in (1, 4)],
        [1, 4],
    ),
    ("`TfidfWeighting`", "0 over a store, else 1"): (tfidf_passes, [0, 1]),
    ("`SentenceRepresentation`", "1 over a store, 3 where it is larger"): (sentence_passes, (1, 4)),
    ("`WordEmbedding`", "1 over the sentences, then those of the solver over the counts"): (
        lambda _: passes("WordEmbedding", SENTENCES, n_components=2) > 1,
        True,
    ),
    ("`SpectralBrownClustering`", "1"): (lambda _: passes("SpectralBrownClustering", SENTENCES, n_clusters=2), 1),
    ("`AnchorHMM(n_em_iter=e)`", "1 + e"): (
        lambda _: [passes("AnchorHMM", SENTENCES, n_states=2, min_count=1, n_em_iter=e) for e in (0, 2)],
        [1, 3],
    ),
    ("`RefinementHMM(m, n_em_iter=e)`", "2 + e; 1 + e for m = 1"): (refinement_passes, [2, 4, 3]),
    ("`EMHMM`", "1 for each iteration"): (em_passes, 0),
    ("`MomentMultiLabelClassifier(n_em_iter=e)`", "3 + e"): (
        lambda _: [passes("MomentMultiLabelClassifier", *LABELED, n_states=4, n_em_iter=e) for e in (0, 2)],
        [3, 5],
    ),
    ("`TreePCA`", "2 where the second level fits in memory, else one a level"): (tree_passes, 2),
    ("`HybridLSI`", "1 up to 2,048 columns, else those of the solver"): (
        lambda _: passes("HybridLSI", *LABELED, n_components=2, alpha=0.5),
        1,
    ),
    ("`LocalLSI`", '1 for the spaces (2 with `"lrw"`), and one for each gradient of the SVMs'): (local_passes, True),
}


def test_each_line_of_the_table_is_checked():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows[1:] == list(STATED)


@pytest.mark.parametrize("line", STATED)
def test_a_fit_makes_the_passes_that_the_table_states(line, tmp_path):
    count, expected = STATED[line]
    assert count(tmp_path) == expected
