"""One error ends a pass on a cluster, and its message is a sentence that says what would help."""

from collections.abc import Mapping

import dask
from dask.utils import format_bytes

from dspectral.engine.cluster.state import WorkerSeen
from dspectral.engine.events import task_label

NEARLY_FULL = 0.5
"""A worker that was seen with this share of its limit may well have died for lack of memory."""
MEMORY_KNOBS = (
    "give each worker more memory (memory_limit of LocalCluster, --memory-limit of `dask worker`), or make blocks "
    "smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
)


class ClusterError(RuntimeError):
    """A cluster cannot compute a pass: no workers, no memory, no scheduler, or machines that do not fit together.

    Its message is one sentence that says what was seen and what would help. Nothing that the pass computed is left on
    the cluster.

    Examples
    --------
    >>> raise ClusterError("the pass sketch has no workers")
    Traceback (most recent call last):
        ...
    dspectral.engine.cluster.errors.ClusterError: the pass sketch has no workers
    """


def pause_share() -> float:
    """Return the share of its limit at which a worker pauses, 0.8 unless Dask's configuration says otherwise."""
    return float(dask.config.get("distributed.worker.memory.pause", 0.8) or 1.0)


def enough_for(held: int) -> str:
    """Return a memory limit at which a worker that holds so much would not pause, with room for its next task.

    >>> enough_for(400_000_000)
    '700 MB'
    """
    room = 1.25
    hundred = 100_000_000
    return f"{-(-int(held * room / pause_share()) // hundred) * 100} MB"


def killed(name: str, error: BaseException, held: Mapping[str, WorkerSeen]) -> str:
    """Return what distributed's ``KilledWorker`` means, with what was seen of the workers."""
    place = task_label(str(getattr(error, "task", "")))
    n_workers = int(getattr(error, "allowed_failures", 0)) + 1
    ended = f"{n_workers} workers ended, one after the other," if n_workers > 1 else "1 worker ended"
    begin = f"{ended} at {place} in the pass {name}"
    fullest = max(held.values(), key=share_held, default=None)
    if fullest is None or not fullest.limit:
        return f"{begin}, most often for lack of memory: {MEMORY_KNOBS}"
    seen = (
        f"the fullest worker was last seen with {format_bytes(fullest.held)} of its memory limit of "
        f"{format_bytes(fullest.limit)}"
    )
    if share_held(fullest) < NEARLY_FULL:
        return (
            f"{begin}; {seen}, so that either this task alone takes more memory than is left, or something else ends "
            f"its worker, which the worker's own log says: {MEMORY_KNOBS}"
        )
    return f"{begin}, most likely for lack of memory, for {seen}: {MEMORY_KNOBS}"


def share_held(worker: WorkerSeen) -> float:
    """Return the share of its memory limit that a worker holds, 0 where it has no limit."""
    return worker.held / worker.limit if worker.limit else 0.0
