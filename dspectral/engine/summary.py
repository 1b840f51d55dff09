"""What every summary promises."""

from typing import Protocol, Self


class Summary(Protocol):
    """What one block of rows leaves behind: a named tuple of arrays and numbers, bounded in size.

    Laws, each held by ``tests/summaries/test_laws.py``:

    - ``S.of(block)`` reads the block and changes nothing;
    - ``merge`` is pure, and merging the summaries of two blocks in row order summarises the two blocks
      together, exactly or within the bound that the summary itself states;
    - the summary of an empty block is an identity of ``merge``;
    - the same summaries in the same order give the same bits.
    """

    def merge(self, *others: Self) -> Self:
        """Return the summary of all the rows behind this and ``others``, in that order."""
        ...
