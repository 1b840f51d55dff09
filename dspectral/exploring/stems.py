"""Stems of words: their first letters, as many as make the halves of a document most alike."""

import numpy as np
from scipy import sparse

from dspectral.exploring.frequent_words import FrequentWords
from dspectral.store.corpus import read_sentences
from dspectral.text.weighting import Weighting, inverse_document_frequency
from dspectral.types import Bools, CSRRows, Doubles

LENGTHS = range(2, 9)
"""Numbers of first letters that are tried."""
N_DOCUMENTS, N_BLOCKS, MIN_TOKENS, MAX_TOKENS, N_SPLITS = 1000, 8, 6, 120, 4
"""Number of documents that are split, and of their blocks; number of tokens of a document; number of splits."""
MIN_Z = 4.0
"""Standard errors by which halves with stems must be more alike than halves with whole words."""


def choose_stem_length(words: FrequentWords, is_repeated: dict[str, Bools]) -> int | None:
    """Return the number of letters of stems, or None if whole words are as good; reads a few blocks of documents.

    Tokens of a document are split at random. A number of letters is good if one half of a document is nearest to its
    other half among all documents. Of equally good numbers the largest is chosen.
    """
    sample = sample_documents(words, is_repeated)
    used, numbers = np.unique(sample.indices, return_inverse=True)
    tokens = [words.corpus.words[i] for i in used.tolist()]
    n = np.random.default_rng(0).binomial(sample.data.astype(np.int64), 0.5, size=(N_SPLITS, sample.nnz))
    scores = {}
    for length in (None, *LENGTHS):
        stems, columns = np.unique([token[:length] for token in tokens] or [""], return_inverse=True)
        indices, shape = columns[numbers], (sample.shape[0], len(stems))
        halves = (
            [sparse.csr_array((part, indices, sample.indptr), shape=shape, copy=True) for part in (first, rest)]
            for first, rest in zip(n, sample.data - n, strict=True)
        )
        scores[length] = np.mean([_rank_halves(*pair) for pair in halves], axis=0)
    best = max(LENGTHS, key=lambda length: scores[length].sum())
    if not _is_better(scores[best], scores[None], MIN_Z):
        return None
    return max(length for length in LENGTHS if not _is_better(scores[best], scores[length], 1.0))


def _is_better(first: Doubles, second: Doubles, z: float) -> bool:
    difference = first - second
    return bool(difference.sum() > z * np.linalg.norm(difference))


def _rank_halves(first: CSRRows, second: CSRRows) -> Doubles:
    """Return the reciprocal rank of the second half of each document among those of all, by cosine, shape (n,)."""
    frequency = np.bincount((first + second).indices, minlength=first.shape[1])
    weighting = Weighting("log", inverse_document_frequency(frequency, first.shape[0]) - 1, norm="l2")
    for half in (first, second):
        half.sum_duplicates()
    cosines = (weighting.apply(first) @ weighting.apply(second).T).toarray()
    own = cosines.diagonal()[:, None]
    return 1 / (1 + (cosines > own).sum(axis=1) + ((cosines == own).sum(axis=1) - 1) / 2)


def sample_documents(words: FrequentWords, is_repeated: dict[str, Bools]) -> CSRRows:
    """Return the counts of all words in the beginnings of some documents, shape (n, n_types)."""
    blocks, rng = words.corpus.blocks, np.random.default_rng(0)
    step = -(-len(blocks) // N_BLOCKS)
    samples = []
    for block in blocks[::step]:
        ids, offsets = read_sentences(words.corpus.location, block)
        rows = np.flatnonzero((np.diff(offsets) >= MIN_TOKENS) & ~is_repeated[block.name])
        rows = np.sort(rng.permutation(rows)[: N_DOCUMENTS // len(blocks[::step])])
        for start, end in zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True):
            beginning = ids[start : min(end, start + MAX_TOKENS)]
            samples.append(beginning[words.kinds.word_ids[beginning] >= 0])
    starts = np.cumsum([0, *map(len, samples)])
    indices = np.concatenate([*samples, np.zeros(0, np.int32)])
    shape = (len(samples), len(words.kinds.word_ids))
    counts = sparse.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=shape)
    counts.sum_duplicates()
    return counts
