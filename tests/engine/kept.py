"""Fits that are kept, and what is heard of them."""

from pathlib import Path

from dspectral.engine import listening
from dspectral.engine.events import PassBegan
from tests.strategies import zipf_counts

N_BLOCKS, BLOCK_ROWS, N_COLUMNS = 6, 40, 60


def counts(n_blocks=N_BLOCKS, seed=0):
    return zipf_counts(BLOCK_ROWS * n_blocks, N_COLUMNS, 8, seed=seed)


def all_heard_of(fit):
    """What a fit returned, and its events."""
    heard = []
    with listening(heard.append):
        return fit(), heard


def heard_of(fit):
    """What a fit returned, and the blocks and the kept blocks of each of its passes."""
    result, heard = all_heard_of(fit)
    return result, [(event.n_blocks, event.n_kept) for event in heard if isinstance(event, PassBegan)]


def partials(folder):
    return sorted(Path(folder).rglob("*.npz"))
