"""Findings of an exploration, as small tuples from which the page is written, and how much of them a page shows."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.types import FloatArray

Announce: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Takes the name of a stage; its context is the stage."""


class Stage(NamedTuple):
    """One finished stage: its name, the kind of data that was read, how often each block was, and the seconds."""

    name: str
    reads: str
    passes: int
    seconds: float


class Stages:
    """Record of the stages of one run, `finished` in order."""

    def __init__(self, announce: Announce | None = None) -> None:
        self.finished: list[Stage] = []
        self._announce: Announce = announce or nullcontext

    @contextmanager
    def stage(self, name: str, reads: str, passes: int = 1) -> Iterator[None]:
        """Time the body of a ``with``; a stage that raises is not recorded."""
        start = time.perf_counter()
        with self._announce(name):
            yield
        # Behind the body and not in a finally: what was not finished has no time that could be compared.
        self.finished.append(Stage(name, reads, passes, time.perf_counter() - start))

    def correct(self, passes: int) -> None:
        """Replace the passes of the last stage."""
        self.finished[-1] = self.finished[-1]._replace(passes=passes)


class Sizes(NamedTuple):
    """Largest sizes of what a page shows; a short text gets less of it, by the rule of ``reduced``.

    Attributes
    ----------
    n_words : int, default=20000
        Number of words, the most frequent ones, that are columns of documents, and have vectors and classes.
    n_components : int, default=50
        Number of topics.
    n_clusters : int, default=100
        Number of Brown classes.
    n_dimensions : int, default=100
        Length of a word's vector.
    n_listed : int, default=4000
        Number of words whose nearest words are in the page.
    n_mapped : int, default=1500
        Number of words on the map.
    n_documents : int, default=200
        Number of documents, drawn at random, that are shown beside the typical ones.

    Examples
    --------
    >>> Sizes().reduced(n_documents=100, n_words=400)
    Sizes(n_words=400, n_components=25, n_clusters=50, n_dimensions=100, n_listed=400, n_mapped=400, n_documents=100)
    """

    n_words: int = 20_000
    n_components: int = 50
    n_clusters: int = 100
    n_dimensions: int = 100
    n_listed: int = 4_000
    n_mapped: int = 1_500
    n_documents: int = 200

    def reduced(self, *, n_documents: int, n_words: int) -> Self:
        """Return what a short text allows: 4 documents and 4 words a topic, 8 words a class, 4 words a dimension.

        Parameters
        ----------
        n_documents : int
            Number of documents that hold a word.
        n_words : int
            Number of words that are frequent enough.

        Returns
        -------
        Sizes
            Sizes of which none is larger than before; 0 where the text has too little.
        """
        return self._replace(
            n_words=min(self.n_words, n_words),
            n_components=min(self.n_components, n_documents // 4, n_words // 4),
            n_clusters=min(self.n_clusters, n_words // 8),
            n_dimensions=min(self.n_dimensions, n_words // 4),
            n_listed=min(self.n_listed, n_words),
            n_mapped=min(self.n_mapped, n_words),
            n_documents=min(self.n_documents, n_documents),
        )


def least_count(n_tokens: int) -> int:
    """Return how often a word must occur to be more than a number: once in a short text, ten times in a long one.

    >>> [least_count(n) for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)]
    [1, 2, 3, 5, 10]
    """
    return next((least for least, most in ((1, 2e3), (2, 2e4), (3, 2e5), (5, 5e6)) if n_tokens < most), 10)


N_GROUPS = 12
"""Groups of classes that have a color of their own."""


@dataclass
class Branch:
    """A branch of the tree: words whose bit strings begin alike."""

    code: str
    words: NDArray[np.int64]
    n_tokens: int
    group: int = -1
    branches: "list[Branch]" = field(default_factory=list)


def class_tree(brown: SpectralBrownClustering) -> Branch:
    """Return the tree of a fitted clustering."""
    codes = brown.tree_.codes()
    labels, counts = brown.labels_[1:], np.asarray(brown.word_counts_)[1:]
    members: dict[str, NDArray[np.int64]] = {
        code: np.flatnonzero(labels == cluster) + 1 for cluster, code in enumerate(codes)
    }
    root = _branch("", {code: words for code, words in members.items() if len(words)}, counts)
    groups = [root]
    # Invariant: `groups` holds every word once, in the order of the leaves. A split replaces a branch by its two halves
    # in place, so that colors that are neighbors stay neighbors in the tree.
    while len(groups) < N_GROUPS:
        # The branch with most words that can be split, so that no color has most of the map.
        largest = max((one for one in groups if one.branches), key=lambda one: len(one.words), default=None)
        if largest is None:
            break
        place = groups.index(largest)
        groups[place : place + 1] = largest.branches
    for number, one in enumerate(groups):
        _paint(one, number)
    return root


def _branch(code: str, members: dict[str, NDArray[np.int64]], counts: NDArray[np.int64]) -> Branch:
    """Build the branch of some classes, given by their codes; a branch without a fork is its only child."""
    # Classes without a word are gone, and a fork of which one side is empty would be a branch of one branch: bits that
    # all members share are skipped.
    while len(members) > 1 and len({one[len(code)] for one in members}) == 1:
        code = next(iter(members))[: len(code) + 1]
    words = np.sort(np.concatenate(list(members.values())))
    if len(members) == 1:
        return Branch(next(iter(members)), words, int(counts[words - 1].sum()))
    sides = [{c: w for c, w in members.items() if c[len(code)] == bit} for bit in "01"]
    branches = [_branch(code + bit, side, counts) for bit, side in zip("01", sides, strict=True)]
    return Branch(code, words, int(counts[words - 1].sum()), -1, branches)


def _paint(branch: Branch, group: int) -> None:
    branch.group = group
    for one in branch.branches:
        _paint(one, group)


def groups_of(root: Branch, n_words: int) -> NDArray[np.int64]:
    """Return the group of each word, -1 for ``"<?>"``. Shapes: returns (n_words,)."""
    groups = np.full(n_words, -1, dtype=np.int64)
    for leaf in leaves(root):
        groups[leaf.words] = leaf.group
    return groups


def leaves(branch: Branch) -> list[Branch]:
    """Return the classes of a branch, from left to right."""
    return [leaf for one in branch.branches for leaf in leaves(one)] if branch.branches else [branch]


TEXT, TOKENS, ROWS = "text", "tokens", "documents' words"
"""The kinds of data that a stage reads."""


class Vocabulary(NamedTuple):
    """Frequent words by falling count, the first ``"<?>"``, and some ranks of all types on a logarithmic scale."""

    words: list[str]
    counts: NDArray[np.int64]
    ranks: NDArray[np.int64]
    rank_counts: NDArray[np.int64]
    rank_words: list[str]


class Topic(NamedTuple):
    """One topic: its words, share of the text, ten typical documents, and those whose excerpts are shown."""

    words: list[str]
    share: float
    documents: list[int]
    shown: list[int]


class Documents(NamedTuple):
    """Source and beginning of some documents by number, the nearest of some with cosines, and a random sample."""

    texts: dict[int, tuple[str, str]]
    nearest: dict[int, list[tuple[int, float]]]
    sample: list[int]


class WordSpace(NamedTuple):
    """Vectors of words, as neighbors ``near`` (n_listed, n) from word 1 on, and as a map (n_mapped, 2)."""

    near: NDArray[np.int64]
    cosines: NDArray[np.float32]
    points: FloatArray


class Classes(NamedTuple):
    """Brown classes: tree, group and bit string of each word, and mutual information of adjacent ones."""

    tree: Branch
    groups: NDArray[np.int64]
    codes: list[str]
    information: float
