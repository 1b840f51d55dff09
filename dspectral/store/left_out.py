"""A store without some of its blocks: damaged ones, which are left out by name."""

from collections.abc import Sequence

from dspectral.store.blocks import BlockInfo


def blocks_left(blocks: Sequence[BlockInfo], without: Sequence[str], url: str) -> tuple[BlockInfo, ...]:
    """Return blocks without those of some names."""
    if not without:
        return tuple(blocks)
    known = [block.name for block in blocks]
    if not blocks:
        raise ValueError(
            f"without is {without!r:.80}, but the blocks of {url}, an AnnData file, have no names"
        )
    if isinstance(without, str) or not set(without) <= set(known):
        raise ValueError(
            f"without is {without!r:.80}, but it must be a list of names of blocks of {url}, "
            f"which are from {known[0]!r} to {known[-1]!r}"
        )
    left = tuple(block for block in blocks if block.name not in without)
    if not left:
        raise ValueError(f"without names all {len(known)} blocks of {url}, but one at least must be left")
    return left
