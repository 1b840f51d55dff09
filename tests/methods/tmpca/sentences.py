"""Sentences, vectors of their words, and what is compared of a fitted tree."""

import numpy as np

from dspectral.engine import Blocks
from dspectral.types import Sentences

WORDS = ["<?>", "the", "cat", "sat", "on", "a", "mat", "not", "good", "bad"]


def vectors(d=4, seed=0):
    return WORDS, np.random.default_rng(seed).standard_normal((len(WORDS), d))


def texts(n=40, most=12, seed=1):
    rng = np.random.default_rng(seed)
    return [[WORDS[i] for i in rng.integers(1, len(WORDS), size=rng.integers(0, most))] for _ in range(n)]


def arrays(n=50, length=8, d=4, seed=2):
    """Correlated neighbours, a mean that is not zero, and variances that fall."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 1, d))
    return (shared + rng.standard_normal((n, length, d))) * 0.7 ** np.arange(d) + 1.0


class Counted:
    """A corpus that counts how often each block is read."""

    def __init__(self, sentences, n_blocks):
        self.words = WORDS
        ids = [[WORDS.index(word) for word in sentence] for sentence in sentences]
        self.counts = np.bincount(Sentences.of(ids).ids, minlength=len(WORDS))
        size = -(-len(ids) // n_blocks)
        self.parts = [Sentences.of(ids[i : i + size]) for i in range(0, len(ids), size)]
        self.reads = [0] * len(self.parts)

    @property
    def sentences(self):
        return Blocks(self.read, list(range(len(self.parts))))

    def read(self, number):
        self.reads[number] += 1
        return self.parts[number]


def bits(tree, X):
    parts = (*tree.components_, *tree.means_, tree.explained_variance_, np.asarray(tree.transform(X)))
    return [part.tobytes() for part in parts]
