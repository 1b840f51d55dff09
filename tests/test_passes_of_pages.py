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


def store(tmp_path):
    return dspectral.write_counts(COUNTS, str(tmp_path / "store.zarr"), block_rows=10)


def text_store(tmp_path, **settings):
    (tmp_path / "text.txt").write_text("\n".join(map(" ".join, SENTENCES)), encoding="utf-8")
    return dspectral.build_store(str(tmp_path / "text.txt"), str(tmp_path / "text.zarr"), **settings)


def sentence_passes(tmp_path):
    model = dspectral.SentenceRepresentation(2, n_features=2**10)
    return model.fit(text_store(tmp_path, hashing=model.word_hashing)).n_passes_


def larger():
    model = dspectral.SentenceRepresentation(2, n_features=4096, min_df=0)
    with dask.config.set({"dspectral.in-memory-bytes": 0}):
        return model.fit(low_rank_counts(200, 4096, 4, block_rows=50)).n_passes_  # one counts frequencies


def labelled():
    X, y, _ = sample_labeled_documents(300, n_words=100, n_labels=6, n_states=4, seed=1)
    return X, y


def wide():
    return low_rank_counts(200, 2100, 4, block_rows=50)


def tree_passes():
    words = list("abcdefgh")
    sentences = [list(row) for row in np.random.default_rng(0).choice(words, size=(60, 8))]
    vectors = np.random.default_rng(1).standard_normal((8, 3))
    return dspectral.TreePCA(length=8, vectors=(words, vectors)).fit(sentences).n_passes_


STATED = {
    "`SketchedPCA`, any one-pass solver": {
        "1": lambda _: dspectral.SketchedPCA(2, solver="frequent_directions").fit(wide()).n_passes_ == 1
    },
    "`TruncatedSVD(n_passes=p)`, up to 2,048 columns": {
        '1, exact (`"gram"`)': lambda _: dspectral.TruncatedSVD(2, n_passes=4).fit(COUNTS).n_passes_ == 1
    },
    "`TruncatedSVD(n_passes=p)`, more columns, entries up to a quarter of `dspectral.in-memory-bytes` (32 MiB)": {
        '1, exact (`"in_memory"`)': lambda _: dspectral.TruncatedSVD(2, n_passes=4).fit(wide().compute()).n_passes_ == 1
    },
    "`TruncatedSVD(n_passes=p)`, more columns and entries": {
        "p": lambda _: [dspectral.TruncatedSVD(2, n_passes=p).fit(wide()).n_passes_ for p in (1, 2, 4)] == [1, 2, 4]
    },
    "`TfidfWeighting`": {
        "0 over a store, else 1": lambda path: (
            [dspectral.TfidfWeighting().fit(rows).n_passes_ for rows in (store(path), COUNTS)] == [0, 1]
        )
    },
    "`SentenceRepresentation`": {
        "1 over a store, 3 where it is larger": lambda path: (sentence_passes(path), larger()) == (1, 4)
    },
    "`WordEmbedding`": {
        "1 over the sentences, then those of the solver over the counts": lambda _: (
            dspectral.WordEmbedding(2).fit(SENTENCES).n_passes_ > 1
        )
    },
    "`SpectralBrownClustering`": {"1": lambda _: dspectral.SpectralBrownClustering(2).fit(SENTENCES).n_passes_ == 1},
    "`AnchorHMM(n_em_iter=e)`": {
        "1 + e": lambda _: (
            [dspectral.AnchorHMM(2, min_count=1, n_em_iter=e).fit(SENTENCES).n_passes_ for e in (0, 2)] == [1, 3]
        )
    },
    "`RefinementHMM(m, n_em_iter=e)`": {
        "2 + e; 1 + e for m = 1": lambda _: (
            [
                dspectral.RefinementHMM(m, n_em_iter=e).fit(refinement_sequences(500, seed=1)).n_passes_
                for m, e in ((2, 0), (2, 2), (1, 2))
            ]
            == [2, 4, 3]
        )
    },
    "`EMHMM`": {
        "1 for each iteration": lambda _: (
            (model := dspectral.EMHMM(2, n_iter=5).fit(SENTENCES)).n_passes_ == len(model.log_likelihoods_)
        )
    },
    "`MomentMultiLabelClassifier(n_em_iter=e)`": {
        "3 + e": lambda _: (
            [dspectral.MomentMultiLabelClassifier(4, n_em_iter=e).fit(*labelled()).n_passes_ for e in (0, 2)] == [3, 5]
        )
    },
    "`TreePCA`": {"2 where the second level fits in memory, else one a level": lambda _: tree_passes() == 2},
    "`HybridLSI`": {
        "1 up to 2,048 columns, else those of the solver": lambda _: (
            dspectral.HybridLSI(2, alpha=0.5).fit(*labelled()).n_passes_ == 1
        )
    },
    "`LocalLSI`": {
        '1 for the spaces (2 with `"lrw"`), and one for each gradient of the SVMs': lambda _: (
            (model := dspectral.LocalLSI(2).fit(COUNTS, np.arange(40) % 3)).n_passes_ > model.n_iter_ > 1
        )
    },
}


def table():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: passes for name, passes in rows if name != "estimator"}


def test_each_line_of_the_table_is_checked():
    assert {name: {passes} for name, passes in table().items()} == {
        name: set(passes) for name, passes in STATED.items()
    }


@pytest.mark.parametrize("name", STATED)
def test_a_fit_makes_the_passes_that_the_table_states(name, tmp_path):
    ((_, holds),) = STATED[name].items()
    assert holds(tmp_path)
