"""The memory bound of a pass, and the run plan of a fit."""

from dataclasses import asdict, dataclass
from typing import Any

from dspectral.configuration import get_fan_in, tree_depth
from dspectral.quantities import format_bytes

ENDS_AT = 0.95
"""Share of its memory limit at which Dask ends a worker."""


def estimate_memory(
    *, summary_bytes: int, n_blocks: int, work_bytes: int, fan_in: int | None = None, n_workers: int = 1
) -> int:
    """Return an upper bound on the memory of a pass, over all workers, without interpreters and libraries.

    Parameters
    ----------
    summary_bytes : int
        Bytes of one summary.
    n_blocks : int
        Number of row blocks.
    work_bytes : int
        Bytes of summarizing one block, including the block, or of merging ``fan_in`` summaries.
    fan_in : int, optional
        Number of summaries in one merge; by default that of Dask's configuration, as for :func:`summarize`.
    n_workers : int, default=1
        Number of concurrent tasks.

    Returns
    -------
    int
        Bound in bytes.

    Notes
    -----
    ``n_workers * (work + summary) + depth * (fan_in - 1) * summary``: running tasks with their summaries, and the
    summaries that wait on each level; ``depth = ceil(log(n_blocks, fan_in))``. The check before a fit on a cluster
    counts two more summaries a worker: workers that prefer neighboring blocks read ahead.

    Examples
    --------
    >>> estimate_memory(summary_bytes=10, n_blocks=8, work_bytes=100, n_workers=2)
    250
    """
    fan_in = get_fan_in() if fan_in is None else fan_in
    depth = tree_depth(n_blocks, fan_in)
    return n_workers * (work_bytes + summary_bytes) + depth * (fan_in - 1) * summary_bytes


@dataclass(frozen=True, repr=False)
class RunPlan:
    """Passes, tasks, bytes and memory of a fit or a build, from its first pass.

    Attributes
    ----------
    name : str
        Name of the estimator or function.
    phase : str
        Name of the first pass, empty if there is none.
    n_passes : int or None
        Maximum number of passes; None if earlier passes decide it.
    n_blocks, n_tasks : int
        Number of blocks, and of tasks of one pass.
    bytes_read : int or None
        Bytes of all blocks in memory (for a build: of its text); None if unknown.
    n_workers, n_threads : int
        Number of worker processes (0: threads of this process), and of threads of each.
    memory_limit : int
        Memory limit of a worker, or of this process, in bytes; 0 if there is none.
    worker_memory : int
        Maximum bytes of one worker, including its libraries, or of this process.
    refusal : str
        Why the run does not fit in memory, and changes that would make it fit; empty if it fits.
    remedies : tuple of str
        Changes that would make it fit, such as ``"with memory_limit='2000MB'"``; empty if it fits or none is known.
    before : str
        Work that must be done before, such as building a store from text; empty if none.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> plan = SketchedPCA(2).plan(np.random.default_rng(0).standard_normal((500, 8)))
    >>> plan.n_passes, plan.n_tasks, plan.refusal
    (1, 1, '')
    """

    name: str
    phase: str
    n_passes: int | None
    n_blocks: int
    n_tasks: int
    bytes_read: int | None
    n_workers: int
    n_threads: int
    memory_limit: int
    worker_memory: int
    refusal: str = ""
    remedies: tuple[str, ...] = ()
    before: str = ""

    @property
    def verdict(self) -> str:
        """``"fits"``, ``"fits with ..."`` and a change, or ``"does not fit"``: such a run does not start."""
        if self.refusal:
            return f"fits {', or '.join(self.remedies)}" if self.remedies else "does not fit"
        return "fits"

    def check(self) -> None:
        """Raise an error if the run does not fit.

        Raises
        ------
        MemoryError
            If the run does not fit in memory.
        """
        if self.refusal:
            raise MemoryError(self.refusal)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dict that can be encoded as JSON.

        Returns
        -------
        dict
            All attributes, and ``verdict``.
        """
        return {**asdict(self), "remedies": list(self.remedies), "verdict": self.verdict}

    def __repr__(self) -> str:
        return "\n".join([f"Plan of {self.name}", *(f"{name:<22} {value}" for name, value in self._get_facts())])

    def _get_facts(self) -> list[tuple[str, object]]:
        process_label = "a worker" if self.n_workers else "this process"
        limit = f"of {format_bytes(self.memory_limit)}" if self.memory_limit else "no limit"
        facts: list[tuple[str, object]] = [
            ("verdict", self.verdict),
            ("reason", self.refusal),
            ("before", self.before),
            ("passes over the data", "unknown" if self.n_passes is None else self.n_passes),
            ("blocks", f"{self.n_blocks:,}"),
            ("tasks of a pass", f"{self.n_tasks:,}"),
            ("bytes read in a pass", "unknown" if self.bytes_read is None else format_bytes(self.bytes_read)),
            (f"memory of {process_label}", f"{format_bytes(self.worker_memory)} ({limit})"),
        ]
        return [(name, value) for name, value in facts if value]
