"""Callbacks and checkpointed fits for tests."""

from pathlib import Path

from dspectral.engine import Callback
from dspectral.engine.around.callbacks import PassStarted
from tests.strategies import zipf_counts

N_BLOCKS, BLOCK_ROWS, N_COLUMNS = 6, 40, 60


class Recorder(Callback):
    """Call a function with each event; by default append it to `events`."""

    def __init__(self, respond=None):
        self.events = []
        self._respond = respond or self.events.append

    def _on_event(self, event):
        self._respond(event)

    on_pass_started = on_blocks_done = on_task_retried = on_pass_ended = on_fit_ended = _on_event


def counts(n_blocks=N_BLOCKS, seed=0):
    return zipf_counts(BLOCK_ROWS * n_blocks, N_COLUMNS, 8, seed=seed)


def record(work):
    """The result of a function, and its events."""
    with Recorder() as recorder:
        return work(), recorder.events


def record_events(work, *kinds):
    """The events of a function, of some kinds or all."""
    return [event for event in record(work)[1] if isinstance(event, kinds or object)]


def fit_and_count(fit):
    """The result of a fit, and the blocks and the checkpointed blocks of each of its passes."""
    result, events = record(fit)
    return result, [(event.n_blocks, event.n_kept) for event in events if isinstance(event, PassStarted)]


def list_checkpoints(folder):
    return sorted(Path(folder).rglob("*.npz"))


def bits(fitted):
    """All that a decomposition has computed, as bytes and exact numbers."""
    parts = (fitted.components_, fitted.singular_values_, fitted.mean_, fitted.explained_variance_ratio_)
    return [part.tobytes() for part in parts] + [fitted.certificate_, fitted.energy_, fitted.n_passes_]
