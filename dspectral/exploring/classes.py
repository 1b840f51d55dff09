"""Brown classes as a tree that a person opens branch by branch."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.brown.clustering import SpectralBrownClustering

N_GROUPS = 12
"""Groups of classes that have a color of their own."""


@dataclass
class Branch:
    """A branch of the tree: words whose bit strings begin alike.

    `code`: bits that they share; `words` (n,): words by number, the most frequent first; `n_tokens`: number
    of their tokens; `group`: number of its color, -1 above the groups; `branches`: the two branches into
    which it splits.
    """

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
    """Return the group of each word, -1 for ``"<?>"``.

    Shapes: returns (n_words,).
    """
    groups = np.full(n_words, -1, dtype=np.int64)
    for leaf in leaves(root):
        groups[leaf.words] = leaf.group
    return groups


def leaves(branch: Branch) -> list[Branch]:
    """Return the classes of a branch, from left to right."""
    return [leaf for one in branch.branches for leaf in leaves(one)] if branch.branches else [branch]
