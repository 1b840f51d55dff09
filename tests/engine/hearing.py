"""Events of a piece of work, and fits that are kept, heard by tests."""

from pathlib import Path

from dspectral.engine import event_listener
from dspectral.engine.around.events import PassStarted
from tests.strategies import zipf_counts

N_BLOCKS, BLOCK_ROWS, N_COLUMNS = 6, 40, 60


def counts(n_blocks=N_BLOCKS, seed=0):
    return zipf_counts(BLOCK_ROWS * n_blocks, N_COLUMNS, 8, seed=seed)


def result_and_heard(work):
    heard = []
    with event_listener(heard.append):
        return work(), heard


def heard_of(work):
    return result_and_heard(work)[1]


def of_kind(heard, *kinds):
    return [event for event in heard if isinstance(event, kinds)]


def kept_of(fit):
    """What a fit returned, and the blocks and the kept blocks of each of its passes."""
    result, heard = result_and_heard(fit)
    return result, [(event.n_blocks, event.n_kept) for event in of_kind(heard, PassStarted)]


def partials(folder):
    return sorted(Path(folder).rglob("*.npz"))
