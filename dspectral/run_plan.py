"""Arithmetic of a run: its merges and its memory, and the plan that a dry run reports."""

from dataclasses import asdict, dataclass
from typing import Any

from dspectral.configuration import get_fan_in, tree_depth
from dspectral.html import card, format_bytes

ENDS_AT = 0.95
"""Share of its limit at which Dask's nanny ends a worker."""


def estimate_memory(
    *, summary_bytes: int, n_blocks: int, work_bytes: int, fan_in: int | None = None, n_workers: int = 1
) -> int:
    """Bound the bytes that a pass needs, over all workers, beside the interpreters themselves.

    Parameters
    ----------
    summary_bytes : int
        Size of one summary in bytes.
    n_blocks : int
        Number of row blocks.
    work_bytes : int
        Bytes that summarizing one block or merging ``fan_in`` summaries takes, the block included.
    fan_in : int, optional
        Number of summaries that a merge takes; by default the configured one, as for :func:`summarize`.
    n_workers : int, default=1
        Number of tasks that run at once.

    Returns
    -------
    int
        Bound in bytes.

    Notes
    -----
    ``n_workers * (work + summary) + depth * (fan_in - 1) * summary``: running tasks with their summaries, and those
    that wait on each level; the depth is ``ceil(log(n_blocks, fan_in))``.

    Examples
    --------
    >>> estimate_memory(summary_bytes=10, n_blocks=8, work_bytes=100, n_workers=2)
    250
    """
    fan_in = get_fan_in() if fan_in is None else fan_in
    depth = tree_depth(n_blocks, fan_in)
    return n_workers * (work_bytes + summary_bytes) + depth * (fan_in - 1) * summary_bytes


@dataclass(frozen=True)
class RunPlan:
    """A plan of what a fit or a build will take, reckoned from its first pass.

    Attributes
    ----------
    name : str
        Name of the estimator or function.
    phase : str
        Name of the pass, empty if none is made.
    n_passes : int or None
        Number of times that the data is read, at most; None where only the passes themselves will tell.
    n_blocks, n_tasks : int
        Blocks of the data, and tasks of one pass.
    bytes_read : int or None
        Bytes of all blocks in memory (of a build: of its text); None where they are not known.
    n_workers, n_threads : int
        Worker processes (0: the threads of this process do the work) and threads of each.
    memory_limit : int
        Bytes that a worker, or this process, may have; 0 where nothing limits it.
    worker_memory : int
        Most bytes of one worker, its libraries included; where threads do the work, of this process.
    pass_seconds : float or None
        Wall time of the blocks of one pass, each as long as one took here; None where it would not fit.
    refusal : str
        Sentence that says why it cannot run and what would fit; empty if it can.
    remedies : tuple of str
        What would make it fit, such as ``"with memory_limit='2000MB'"``; empty if it can run, or nothing is known.
    before : str
        What must be done before, such as a build of text that is not counted yet; empty if nothing.

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
    pass_seconds: float | None
    refusal: str = ""
    remedies: tuple[str, ...] = ()
    before: str = ""

    @property
    def verdict(self) -> str:
        """``"fits"``, ``"fits with"`` or ``"where"`` what would make it fit, ``"does not fit"`` or ``"may not fit"``.

        The last is said where the summary of one block, measured here, is larger than was known beforehand, or a
        build is too: such a fit starts. One with a ``refusal`` does not.
        """
        if self.refusal:
            return f"fits {', or '.join(self.remedies)}" if self.remedies else "does not fit"
        return "may not fit" if 0 < self.memory_limit * ENDS_AT < self.worker_memory else "fits"

    @property
    def seconds(self) -> float | None:
        """Wall time of all passes, roughly; None where their number or time is not known."""
        if self.n_passes is None or self.pass_seconds is None:
            return None
        return self.n_passes * self.pass_seconds

    def check(self) -> None:
        """Raise the refusal, if there is one.

        Raises
        ------
        MemoryError
            If the run does not fit in the memory there is.
        """
        if self.refusal:
            raise MemoryError(self.refusal)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it.

        Returns
        -------
        dict
            All attributes, ``seconds`` and ``verdict``.
        """
        remedies = list(self.remedies)
        return {**asdict(self), "remedies": remedies, "seconds": self.seconds, "verdict": self.verdict}

    def __str__(self) -> str:
        return "\n".join(
            [f"Plan of {self.name}", *(f"{name:<22} {value}" for name, value in self._get_facts())]
        )

    def _repr_html_(self) -> str:
        return card(f"Plan of {self.name}", self._get_facts())

    def _get_facts(self) -> list[tuple[str, object]]:
        by = f"{self.n_workers} worker(s)" if self.n_workers else f"{self.n_threads} threads of this process"
        whose = "a worker" if self.n_workers else "this process"
        limit = f"of {format_bytes(self.memory_limit)}" if self.memory_limit else "no limit"
        facts: list[tuple[str, object]] = [
            ("verdict", self.verdict),
            ("because", self.refusal),
            ("before", self.before),
            ("passes over the data", "unknown" if self.n_passes is None else self.n_passes),
            ("blocks", f"{self.n_blocks:,}"),
            ("tasks of a pass", f"{self.n_tasks:,}"),
            ("bytes read in a pass", "unknown" if self.bytes_read is None else format_bytes(self.bytes_read)),
            (f"memory of {whose}", f"{format_bytes(self.worker_memory)} ({limit})"),
            ("time of a pass", _format_estimate(self.pass_seconds, by)),
            ("time", _format_estimate(self.seconds, by)),
        ]
        return [(name, value) for name, value in facts if value]


def _format_estimate(seconds: float | None, by: str) -> str:
    """Return a time in the unit that a person would choose."""
    if seconds is None:
        return "unknown"
    unit, name = (1, "s") if seconds < 100 else (60, "min") if seconds < 6000 else (3600, "h")
    return f"roughly {seconds / unit:.2g} {name} on {by}"
