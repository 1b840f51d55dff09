"""The merges of a pass over the whole: how many there are, and how large their summaries are."""

import math
from typing import NamedTuple

from dspectral.engine.merge_tree import merges_of
from dspectral.engine.planning.recording import PassRecord, Took
from dspectral.engine.planning.scales import usual


def waiting_levels(n_blocks: int, fan_in: int) -> int:
    """Return how many levels of summaries wait at the most while blocks are summarized in their order.

    >>> [waiting_levels(n, 2) for n in (1, 8, 12, 16)]
    [0, 3, 3, 4]
    """
    levels = 0
    while fan_in ** (levels + 1) <= n_blocks:
        levels += 1
    return levels


class Tree(NamedTuple):
    """The merges of a pass over the whole.

    `counts`: merges on each level; `sizes`: bytes of a summary on each level, those of the blocks first;
    `seconds, rises`: time of a merge on each level, and bytes by which a process grows meanwhile; `last`:
    bytes of all summaries that the last merge takes.
    """

    counts: list[int]
    sizes: list[int]
    seconds: list[float]
    rises: list[float]
    last: int = 0

    @classmethod
    def of(cls, record: PassRecord, leaf: int, n_blocks: int, fan_in: int) -> "Tree":
        """Extend the tree of a sample."""
        if not record.fan_in:
            return cls([], [leaf], [], [])
        levels = sorted({task.level for task in record.tasks if task.level})
        known = [usual([task for task in record.tasks if task.level == level]) for level in levels]
        counts = merges_of(n_blocks, fan_in)
        if not known:  # a single block: merges are taken to cost as little as copies
            known = [Took(1, 0.0, leaf, leaf)]
        # The size of a summary of n blocks goes as n^e; e is 0 for what is dense, 1 for what is only put together.
        before = known[-2].result if len(known) > 1 else leaf
        exponent = math.log(max(1.0, known[-1].result / max(1, before)), max(2, record.fan_in))
        exponent = min(1.0, exponent)
        last, reached = known[-1], record.fan_in ** len(known)
        sizes, seconds, rises = [leaf], [], []

        def size_of(covered: int) -> int:
            return int(max(leaf, last.result * (covered / reached) ** exponent)) if covered > 1 else leaf

        for level in range(1, len(counts) + 1):
            covered = min(n_blocks, fan_in**level)
            grown = (covered / reached) ** exponent
            sizes.append(size_of(covered))
            # A merge reads all its summaries: one of f takes as long as f - 1 merges of two.
            width = (fan_in - 1) / max(1, record.fan_in - 1)
            seconds.append(last.seconds * grown * width)
            rises.append(last.rise * grown)
        each = fan_in ** max(0, len(counts) - 1)
        n_full, rest = divmod(n_blocks, each)
        return cls(counts, sizes, seconds, rises, n_full * size_of(each) + (size_of(rest) if rest else 0))
