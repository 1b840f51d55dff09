"""A bounded sample of documents with their labels, drawn by what they say and not by where they lie."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import CSRRows

ODD = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, by which numbers in a row are sent far from each other."""


class SampleBounds(NamedTuple):
    """The most that a sample may hold.

    `n_documents`: most documents; `n_entries`: most entries of words and labels together; `share`: documents
    whose hash is beyond this share of all hashes are passed by at once, from 0 to 1.
    """

    n_documents: int
    n_entries: int
    share: float


class DocumentSample(NamedTuple):
    """The documents with the smallest hashes of their words, as many as the bounds allow, in that order.

    Which documents they are depends neither on the order of the blocks nor on where these are cut; documents with the
    same words stay together, in their own order.

    `hashes` (m,): hash of the set of words of each document, in ascending order; `words` (m, d): counts of
    the words; `labels` (m, L): ones where a document has a label; `bounds`: the :class:`SampleBounds`.
    """

    hashes: NDArray[np.uint64]
    words: CSRRows
    labels: CSRRows
    bounds: SampleBounds

    @classmethod
    def of(cls, words: CSRRows, labels: CSRRows, *, bounds: SampleBounds) -> Self:
        """Take the sample of one block.

        Shapes: `words` (n, d), `labels` (n, L).
        """
        hashes = hashes_of(words)
        # Hashes spread over all of the 64 bits; a share of 1 lets the largest through as well.
        low = np.flatnonzero(hashes.astype(np.float64) <= bounds.share * 2.0**64)
        return cls(hashes[low], words[low], labels[low], bounds).trimmed()

    def merge(self, *others: Self) -> Self:
        """Return the sample of all documents."""
        parts = [part for part in (self, *others) if len(part.hashes)] or [self]
        return type(self)(
            np.concatenate([part.hashes for part in parts]),
            sparse.csr_array(sparse.vstack([part.words for part in parts], format="csr")),
            sparse.csr_array(sparse.vstack([part.labels for part in parts], format="csr")),
            self.bounds,
        ).trimmed()

    def trimmed(self) -> Self:
        """Return the first documents in the order of their hashes, up to the bounds."""
        order = np.argsort(self.hashes, kind="stable")
        entries = np.diff(self.words.indptr)[order] + np.diff(self.labels.indptr)[order].astype(np.int64)
        # What is cut off one part here has a place no earlier in the order of all: the bounds cut it off there too.
        fits = int(np.searchsorted(np.cumsum(entries), self.bounds.n_entries, side="right"))
        kept = order[: min(fits, self.bounds.n_documents)]
        return self._replace(hashes=self.hashes[kept], words=self.words[kept], labels=self.labels[kept])

    def quarters(self) -> list[NDArray[np.bool_]]:
        """Return which documents are in each of four parts, by the hash, so that copies are in the same one."""
        part = _mixed(self.hashes + ODD) >> np.uint64(62)
        return [np.asarray(part == number) for number in range(4)]


def hashes_of(words: CSRRows) -> NDArray[np.uint64]:
    """Return a hash of the set of columns of each row, shape (n,).

    Shapes: `words` (n, d).

    >>> hashes = hashes_of(sparse.csr_array([[1.0, 0.0, 2.0], [3.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> bool(hashes[0] == hashes[1]), bool(hashes[0] == hashes[2])
    (True, False)
    """
    # A sum modulo 2^64 of mixed columns knows no order; sums of rows are differences of one running sum.
    running = np.zeros(len(words.indices) + 1, dtype=np.uint64)
    of_column = _mixed(np.arange(words.shape[1], dtype=np.uint64))
    np.cumsum(of_column[words.indices], out=running[1:])
    return _mixed(running[words.indptr[1:]] - running[words.indptr[:-1]])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the numbers as splitmix64 mixes them: each bit of the answer hangs on each bit given."""
    mixed = numbers + ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
