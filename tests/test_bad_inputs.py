"""Bad inputs of a seed, and a table of those that were found so."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import (
    AnchorHMM,
    HybridLSI,
    LocalLSI,
    NgramHashing,
    RefinementHMM,
    SentenceRepresentation,
    SketchedPCA,
    SpectralBrownClustering,
    Texts,
    TreePCA,
    VectorQuantizer,
    WordEmbedding,
    WordVectorRepresentation,
    build_store,
)
from dspectral.inputs.labels import as_label_matrix, encode_classes
from tests.bad_inputs import faults, outcome

EMPTY = sparse.csr_array((0, 0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_bad_inputs_end_right_or_in_one_sentence(part):
    assert [*faults(range(part * 36, part * 36 + 36))] == []


ROWS = np.random.default_rng(0).random((12, 6))
LABELS = np.arange(12) % 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NgramHashing(ngram_range=3).fit(["a b"]), "ngram_range.*3"),
        (lambda: NgramHashing(ngram_range=("a", "b")).fit(["a b"]), "ngram_range="),
        (lambda: NgramHashing(n_features="x").fit(["a b"]), "n_features.*'x'"),
        (lambda: NgramHashing(alternate_sign=np.ones(2)).fit(["a b"]), "alternate_sign="),
        (lambda: SketchedPCA(2, center=np.ones(2)).fit(ROWS), "center"),
        (lambda: WordVectorRepresentation(["a"], [[1.0]], weight="x").fit_transform(["a"]), "weight.*'x'"),
        (lambda: SentenceRepresentation(10**6).fit(["a b"]), "n_components.*1000000"),
        (lambda: SketchedPCA(2, n_passes=10**30).fit(ROWS), r"n_passes.*2\*\*100"),
        (lambda: HybridLSI(2, alpha=np.ones(2)).fit(ROWS, LABELS), "alpha.*array"),
        (lambda: LocalLSI(2, C=1e300).fit(ROWS, LABELS), "C.*1e"),
        (lambda: RefinementHMM(10**30).fit([["a"]], [["D"]]), r"n_refinements.*2\*\*100"),
        (lambda: VectorQuantizer(2).fit([["x", "y"]]), "."),
        (lambda: VectorQuantizer(2).fit([ROWS, ROWS * 1j]), "X.*complex128"),
        (lambda: VectorQuantizer(2).fit([np.ma.array(ROWS, mask=ROWS > 0.5)]), "X.*masked"),
        (lambda: WordEmbedding(2).fit([["a", "\udfff"], ["a", "b"]]), "UTF-8"),
        (lambda: AnchorHMM(2, spelling=0.0, anchors=-1, min_count=1).fit([["a", "b", "c"]] * 9), "anchors.*-1"),
        (lambda: build_store(Texts(["a"]), "memory://wide", block_bytes=10**30), r"block_bytes.*2\*\*100"),
        (lambda: SpectralBrownClustering(2, count_transform=10**9).fit([["a", "b"]] * 9), "count_transform.*1000"),
        (lambda: SpectralBrownClustering(2, count_transform=-1).fit([["a", "b"]] * 9), "count_transform.*-1"),
        (lambda: WordEmbedding(2).fit(None), "X.*NoneType"),
        (lambda: WordEmbedding(2).fit(3), "X.*int"),
        (lambda: TreePCA(length=4).fit(da.zeros((4, 8)).map_blocks(sparse.csr_array, meta=EMPTY)), "X.*Array"),
        (lambda: encode_classes([{}, {}], 2), "class.*{}"),
        (lambda: encode_classes([[1, 2], [3]], 2), "rows"),
        (lambda: as_label_matrix([[1, 2], [3]]), "rows"),
        (lambda: encode_classes(np.zeros((2, 0)), 2), "column"),
    ],
)  # fmt: skip
def test_what_bad_inputs_found_is_said_in_one_sentence(call, message):
    actual = outcome(call)
    assert actual.fault is None
    with pytest.raises((ValueError, TypeError), match=message):
        raise actual.error
