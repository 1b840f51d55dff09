"""A plan says what a fit or a build will take, to a person and to a program."""

from dataclasses import asdict, dataclass, field
from typing import Any

from dspectral.engine.planning.phases import Phase
from dspectral.html import card, size_of


@dataclass(frozen=True)
class RunPlan:
    """A plan of what a fit or a build will take, found by a short probe.

    Attributes
    ----------
    name : str
        Name of the estimator or function.
    n_workers, n_threads : int
        Worker processes (0: the threads of this process do the work) and threads of each.
    fan_in : int
        Number of summaries that one merge takes.
    n_blocks : int
        Blocks of the data.
    phases : list of Phase
        Passes by their names, in their order: tasks, bytes, memory and seconds of each.
    warm_up : float
        Seconds that new processes take for libraries and compiled loops, once.
    serial : float
        Seconds between the passes, in the client: solves, and what is made of results.
    worker_memory : int
        Most bytes of one worker, its libraries included; where threads do the work, of this process.
    client_memory : int
        Most bytes of this process.
    memory_limit : int or None
        Bytes that a worker, or this process, may have; None where nothing limits it.
    memory_setting : str
        Name of the setting that says so.
    best : dict of str to object
        ``fan_in`` and ``block_factor`` (how many times as large as now blocks should be) that take the least time
        within the memory there is.
    refusal : str
        Sentence that says why it cannot run and what would fit; empty if it can.
    probe_seconds : float
        Wall time of the probe.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> plan = SketchedPCA(2).plan(np.random.default_rng(0).standard_normal((500, 8)))
    >>> plan.n_passes, plan.n_tasks, plan.refusal
    (1, 1, '')
    """

    name: str
    n_workers: int
    n_threads: int
    fan_in: int
    n_blocks: int
    phases: list[Phase]
    warm_up: float
    serial: float
    worker_memory: int
    client_memory: int
    memory_limit: int | None
    memory_setting: str
    best: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    probe_seconds: float = 0.0

    @property
    def n_passes(self) -> int:
        """Number of times that the data is read."""
        return sum(phase.n_times for phase in self.phases if phase.reads)

    @property
    def n_tasks(self) -> int:
        """Number of tasks of all passes."""
        return sum(phase.n_times * (phase.n_blocks + phase.n_merges) for phase in self.phases)

    @property
    def bytes_read(self) -> int:
        """Number of bytes of all blocks that are read, as they are in memory."""
        return sum(phase.bytes_read for phase in self.phases)

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that travel between processes."""
        return sum(phase.bytes_sent for phase in self.phases)

    @property
    def seconds(self) -> float:
        """Wall time of all of it."""
        return self.warm_up + self.serial + sum(phase.seconds for phase in self.phases)

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
            All attributes, the phases as dicts, and the sums.
        """
        known = asdict(self)
        known["phases"] = [phase._asdict() for phase in self.phases]
        sums = ("n_passes", "n_tasks", "bytes_read", "bytes_sent", "seconds")
        return known | {name: getattr(self, name) for name in sums}

    @property
    def headline(self) -> str:
        """The plan as text, a line for each fact."""
        facts = [f"{name}: {value}" for name, value in self._facts() if value is not None]
        return "\n".join([f"Plan of {self.name}", *facts])

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each phase, and for what lies between and before them.

        Returns
        -------
        list of dict
            Columns of a table, in words.
        """
        rows = [
            {
                "phase": phase.name,
                "times": str(phase.n_times),
                "tasks": f"{phase.n_times * (phase.n_blocks + phase.n_merges):,}",
                "read": size_of(phase.bytes_read),
                "sent": size_of(phase.bytes_sent),
                "memory": size_of(phase.memory),
                "time": duration(phase.seconds),
            }
            for phase in self.phases
        ]
        empty = dict.fromkeys(("times", "tasks", "read", "sent", "memory"), "")
        rows.append({"phase": "between passes", **empty, "time": duration(self.serial)})
        rows.append({"phase": "start of processes", **empty, "time": duration(self.warm_up)})
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        lines = [tuple(rows[0]), *(tuple(row.values()) for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        table = [
            "  ".join([name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))])
            for name, *cells in lines
        ]
        return "\n".join([self.headline, "", *table])

    def _repr_html_(self) -> str:
        phases = [
            (
                f"{phase.name} x {phase.n_times}",
                f"{duration(phase.seconds)}, {size_of(phase.memory)} a process",
            )
            for phase in self.phases
        ]
        return card(f"Plan of {self.name}", [*self._facts(), *phases])

    def _facts(self) -> list[tuple[str, object]]:
        by = f"{self.n_workers} workers" if self.n_workers else f"{self.n_threads} threads of this process"
        whose = "a worker" if self.n_workers else "this process"
        there = "no limit" if self.memory_limit is None else f"{size_of(self.memory_limit)} there"
        return [
            ("cannot run", self.refusal or None),
            ("time", f"{duration(self.seconds)} on {by}"),
            ("passes over the data", self.n_passes),
            ("tasks", f"{self.n_tasks:,}"),
            ("bytes read", size_of(self.bytes_read)),
            ("bytes sent", size_of(self.bytes_sent)),
            ("peak memory of " + whose, f"{size_of(self.worker_memory)} ({there})"),
            ("peak memory of this process", size_of(self.client_memory) if self.n_workers else None),
            ("best fan-in", self.best.get("fan_in")),
            ("best block size", self._best_blocks()),
        ]

    def _best_blocks(self) -> str | None:
        factor = self.best.get("block_factor")
        if factor is None:
            return None
        return "as it is" if factor == 1 else f"{factor:g} times as large as now"


def duration(seconds: float) -> str:
    """Return a time in the unit that a person would choose.

    >>> duration(0.0314), duration(75), duration(9000)
    ('0.03 s', '75 s', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"
