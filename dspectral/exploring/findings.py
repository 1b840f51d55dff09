"""Findings of an exploration, from which the page is rendered, and their sizes."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.types import FloatArray, Floats, Int64s

StageCallback: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Function from the name of a stage to a context manager around the stage."""


class Stage(NamedTuple):
    """One finished stage: name, kind of data, passes over it, and seconds."""

    name: str
    reads: str
    n_passes: int
    seconds: float


@dataclass
class StageTimer:
    """Times the stages of one run; `finished` lists them in order."""

    callback: StageCallback = nullcontext
    finished: list[Stage] = field(default_factory=list)

    @contextmanager
    def measure(self, name: str, reads: str, n_passes: int = 1) -> Iterator[None]:
        """Time the body of a ``with`` statement; a stage that raises is not recorded."""
        start = time.perf_counter()
        with self.callback(name):
            yield
        self.finished.append(Stage(name, reads, n_passes, time.perf_counter() - start))


class Sizes(NamedTuple):
    """Maximum sizes of the parts of a page; ``limit_to`` computes those of a short text.

    Attributes
    ----------
    n_words : int, default=20000
        Number of most frequent words that are counted in documents and have vectors and classes.
    n_components : int, default=50
        Number of topics.
    n_clusters : int, default=100
        Number of Brown classes.
    n_dimensions : int, default=100
        Number of dimensions of the word vectors.
    n_listed : int, default=4000
        Number of words with a list of nearest words.
    n_mapped : int, default=1500
        Number of words on the map of words.
    n_mapped_documents : int, default=1500
        Number of documents, drawn at random, on the map of documents.
    n_documents : int, default=200
        Number of documents drawn at random, shown beside the typical ones.

    Examples
    --------
    >>> sizes = Sizes().limit_to(n_documents=100, n_words=400)
    >>> sizes.n_components, sizes.n_clusters, sizes.n_mapped
    (25, 50, 400)
    """

    n_words: int = 20_000
    n_components: int = 50
    n_clusters: int = 100
    n_dimensions: int = 100
    n_listed: int = 4_000
    n_mapped: int = 1_500
    n_mapped_documents: int = 1_500
    n_documents: int = 200

    def limit_to(self, *, n_documents: int, n_words: int) -> Self:
        """Return sizes with at least 4 documents and 4 words a topic, 8 words a class and 4 words a dimension.

        Parameters
        ----------
        n_documents : int
            Number of documents with a word.
        n_words : int
            Number of words above the minimum count.

        Returns
        -------
        Sizes
            Sizes, none of them larger; 0 where the text is too short.
        """
        few = min(n_documents // 4, n_words // 4)
        limits = (n_words, few, n_words // 8, n_words // 4, n_words, n_words, n_documents, n_documents)
        return type(self)(*map(min, self, limits))


def get_default_min_count(n_tokens: int) -> int:
    """Return the minimum count of a word: 1 in a short text, 10 in a long one.

    >>> [get_default_min_count(n) for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)]
    [1, 2, 3, 5, 10]
    """
    limits = ((1, 2e3), (2, 2e4), (3, 2e5), (5, 5e6))
    return next((min_count for min_count, max_tokens in limits if n_tokens < max_tokens), 10)


N_GROUPS = 12
"""Number of groups of classes with a color."""


@dataclass
class Branch:
    """A subtree: the words whose bit strings share the prefix `code`."""

    code: str
    words: Int64s
    n_tokens: int
    group: int = -1
    branches: "list[Branch]" = field(default_factory=list)


def build_class_tree(clustering: SpectralBrownClustering) -> Branch:
    """Return the tree of a fitted clustering, with colors for N_GROUPS of its branches."""
    codes = clustering.tree_.codes()
    labels, counts = clustering.labels_[1:], clustering.word_counts_[1:]
    members = {code: np.flatnonzero(labels == cluster) + 1 for cluster, code in enumerate(codes)}
    root = _build_branch("", {code: words for code, words in members.items() if len(words)}, counts)
    groups = [root]
    # Invariant: `groups` holds every word once, in the order of the leaves; a split replaces a branch in place.
    while len(groups) < N_GROUPS and any(group.branches for group in groups):
        # The largest branch is split, so that no color covers most of the map.
        index = max(range(len(groups)), key=lambda i: bool(groups[i].branches) * len(groups[i].words))
        groups[index : index + 1] = groups[index].branches
    for number, group in enumerate(groups):
        _set_group(group, number)
    return root


def _build_branch(code: str, members: dict[str, Int64s], counts: Int64s) -> Branch:
    """Return the subtree of classes with the prefix `code`; `members` are the words of each class by its code."""
    # Classes without words were removed: bits that all others share would be nodes with one child.
    while len(members) > 1 and len({member[len(code)] for member in members}) == 1:
        code = next(iter(members))[: len(code) + 1]
    words = np.sort(np.concatenate(list(members.values())))
    if len(members) == 1:
        return Branch(next(iter(members)), words, int(counts[words - 1].sum()))
    sides = [{c: w for c, w in members.items() if c[len(code)] == bit} for bit in "01"]
    branches = [_build_branch(code + bit, side, counts) for bit, side in zip("01", sides, strict=True)]
    return Branch(code, words, int(counts[words - 1].sum()), -1, branches)


def _set_group(branch: Branch, group: int) -> None:
    branch.group = group
    for child in branch.branches:
        _set_group(child, group)


def get_word_groups(root: Branch, n_words: int) -> Int64s:
    """Return the group of each word, -1 for ``"<?>"``. Shapes: returns (n_words,)."""
    groups = np.full(n_words, -1, dtype=np.int64)
    for leaf in get_leaves(root):
        groups[leaf.words] = leaf.group
    return groups


def get_leaves(branch: Branch) -> list[Branch]:
    """Return the classes of a branch, from left to right."""
    return [leaf for child in branch.branches for leaf in get_leaves(child)] if branch.branches else [branch]


TEXT, TOKENS, ROWS = "text", "tokens", "documents' words"
"""Kinds of data that a stage reads."""


class WordFrequencies(NamedTuple):
    """Frequent words by descending count after ``"<?>"``, and a sample of the ranks of all types."""

    words: list[str]
    counts: Int64s
    ranks: Int64s
    rank_counts: Int64s
    rank_words: list[str]


class ExploredTopic(NamedTuple):
    """One topic: number in the model, words, share of the text, and rows of typical documents and of excerpts.

    `has_subject`: whether its words are together more often than by chance.
    """

    number: int
    words: list[str]
    share: float
    documents: list[int]
    excerpts: list[int]
    has_subject: bool


class ExploredDocuments(NamedTuple):
    """Source and beginning of documents by row, nearest rows with their scores, and a random sample of rows."""

    texts: dict[int, tuple[str, str]]
    nearest: dict[int, list[tuple[int, float]]]
    sample: list[int]


class DocumentMap(NamedTuple):
    """Rows of a sample of documents (n,), positions on the map (n, 2), and the largest topic of each (n,)."""

    rows: Int64s
    points: FloatArray
    topics: Int64s


class TopicsBy(NamedTuple):
    """Mean shares (n_groups, n_topics) of topics in the documents of groups, which are periods if `is_time`.

    `n_documents`: documents of each group that have words of topics (n_groups,); where there are none, shares are 0.
    """

    column: str
    names: list[str]
    is_time: bool
    n_documents: Int64s
    shares: FloatArray


class WordSpace(NamedTuple):
    """Nearest words and cosines (n_listed, n) from word 1 on, and positions on the map (n_mapped, 2)."""

    near: Int64s
    cosines: Floats
    points: FloatArray


class Classes(NamedTuple):
    """Brown classes: tree, group and bit string of each word, and mutual information of adjacent classes."""

    tree: Branch
    groups: Int64s
    codes: list[str]
    information: float
