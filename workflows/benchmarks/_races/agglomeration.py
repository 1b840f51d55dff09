"""Brown's greedy agglomeration as it is printed, the least loss of mutual information first, in plain NumPy.

Words come in order of falling count. The first ``n`` are a cluster each; every further word becomes one more, and of
these ``n + 1`` the two are merged that lose least (Brown et al. 1992, section 3). The losses of all pairs are kept, and
mended for what a word or a merge changes: O(n^2) for each word.
"""

from typing import Any

import numpy as np
from scipy import sparse

Table = np.ndarray


def agglomerated(counts: "sparse.csr_array[Any]", n: int) -> Table:
    """Return the cluster of each word.

    Shapes: `counts` (n_words, n_words); returns (n_words,).

    >>> chain = sparse.csr_array([[0, 0, 5, 4], [0, 0, 4, 4], [4, 4, 0, 0], [3, 4, 0, 0]])
    >>> agglomerated(chain, 2)
    array([0, 0, 1, 1])
    """
    rows = sparse.csr_array(counts / counts.sum())
    columns = sparse.csc_array(rows)
    window, slots = Window(n + 1), np.full(rows.shape[0], -1)
    totals = np.asarray(rows.sum(axis=1)).ravel(), np.asarray(rows.sum(axis=0)).ravel()
    free = list(range(n, -1, -1))
    for word in range(rows.shape[0]):
        slot = slots[word] = free.pop()
        window.enter(slot, _beside(rows, word, slots, n + 1), _beside(columns, word, slots, n + 1))
        window.left[slot], window.right[slot] = totals[0][word], totals[1][word]
        window.count(slot)
        if not free:
            kept, gone = window.cheapest()
            window.merge(kept, gone)
            slots[slots == gone] = kept
            free.append(gone)
    return np.unique(slots, return_inverse=True)[1]


def _beside(lines: Any, word: int, slots: Table, size: int) -> Table:
    """Return the probability that each slot stands on one side of a word."""
    inside = slice(lines.indptr[word], lines.indptr[word + 1])
    where = slots[lines.indices[inside]]
    return np.bincount(where[where >= 0], lines.data[inside][where >= 0], minlength=size)


def information(p: Table, left: Table, right: Table) -> Table:
    """Return ``p log(p / (left right))``, 0 where p is."""
    known = p > 0
    return p * np.log(np.where(known, p, 1.0) / np.where(known, left * right, 1.0))


class Window:
    """Clusters between which merges are weighed.

    `p` (size, size): probability that the second cluster follows the first; `left, right` (size,):
    probability of each cluster as the first and as the second of two words, over all words; `across` (size,
    size): what merging two clusters loses of their information with all the others; `used` (size,): slots
    with a cluster.
    """

    def __init__(self, size: int) -> None:
        self.p, self.across = np.zeros((size, size)), np.zeros((size, size))
        self.left, self.right = np.zeros(size), np.zeros(size)
        self.used = np.zeros(size, dtype=bool)

    def enter(self, slot: int, following: Table, preceding: Table) -> None:
        """Put a new cluster into an empty slot."""
        self.p[slot], self.p[:, slot] = following, preceding
        self.used[slot] = True

    def count(self, slot: int) -> None:
        """Take a cluster that has changed into the losses."""
        self.across += self.part(slot)
        self.across[slot] = self.across[:, slot] = self.losses(slot)

    def merge(self, kept: int, gone: int) -> None:
        """Add one cluster to another."""
        self.across -= self.part(kept) + self.part(gone)
        for table in (self.p, self.p.T, self.left, self.right):
            table[kept] += table[gone]
            table[gone] = 0.0
        self.used[gone] = False
        self.count(kept)

    def cheapest(self) -> tuple[int, int]:
        """Return the two clusters whose merge loses least."""
        own, diagonal = information(self.p, self.left[:, None], self.right), np.diag(self.p)
        within = np.diag(own)[:, None] + np.diag(own) + own + own.T
        joined = diagonal[:, None] + diagonal + self.p + self.p.T
        loss = self.across + within
        loss -= information(joined, self.left[:, None] + self.left, self.right[:, None] + self.right)
        loss[~(self.used[:, None] & self.used) | np.tri(len(loss), dtype=bool)] = np.inf
        first, second = np.unravel_index(np.argmin(loss), loss.shape)
        return int(first), int(second)

    def part(self, k: int) -> Table:
        """Return what merging each two clusters loses of their information with cluster k."""
        total = np.zeros_like(self.across)
        for p, own, other in (
            (self.p[:, k], self.left, self.right[k]),
            (self.p[k], self.right, self.left[k]),
        ):
            alone = information(p, own, other)
            total += alone[:, None] + alone - information(p[:, None] + p, own[:, None] + own, other)
        return total

    def losses(self, slot: int) -> Table:
        """Return what merging one cluster with each loses of their information with all others."""
        total = np.zeros_like(self.left)
        others = ~np.eye(len(total), dtype=bool)
        others[:, slot] = False
        for p, own, other in ((self.p, self.left, self.right), (self.p.T, self.right, self.left)):
            alone = information(p, own[:, None], other)
            both = information(p + p[slot], (own + own[slot])[:, None], other)
            total += np.sum(alone + alone[slot] - both, axis=1, where=others)
        return total
