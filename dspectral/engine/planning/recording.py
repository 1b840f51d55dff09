"""A run on a sample is recorded: each task, each pass, and the work between the passes."""

import pickle
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
from dask.callbacks import Callback

from dspectral.engine.events import Event, PassBegan, PassEnded
from dspectral.engine.planning.process_memory import give_back, peak_bytes, reset_peak, resident_bytes
from dspectral.engine.running import group_of
from dspectral.engine.telling import listening


@dataclass
class Took:
    """The costs of one task.

    `level`: 0 for a block, from 1 for a merge; `seconds`: wall time; `rise`: bytes by which the process grew
    at the most while the task ran, its result included; `result`: bytes of its result as it is sent.
    """

    level: int
    seconds: float
    rise: int
    result: int


@dataclass
class PassRecord:
    """The costs of one pass.

    `name`: name of the pass; `n_blocks, fan_in`: as the event of its beginning says; `is_pass`: whether it
    has a number, that is, reads the data; `read`: bytes of its blocks, where they are known; `joined`:
    whether tasks read several blocks each; `bound`: bytes that are bound to the function, and sent to each
    worker; `tasks`: its tasks, in the order in which they ended; `before`: bytes of the process when it
    began; `seconds`: wall time from graph to result.
    """

    name: str
    n_blocks: int
    fan_in: int
    is_pass: bool
    read: int | None
    before: int = 0
    joined: bool = False
    bound: int = 0
    tasks: list[Took] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class RunRecord:
    """The costs of a run.

    `passes`: the passes, in their order; `graphs`: tasks of the first pass of each name and the keys of their
    results, pickled, where they were asked for; `seconds`: wall time of the whole run; `around`: seconds that
    it took to load what the run needs, and to clean up after it; `before`: bytes of the process before it;
    `after`: bytes of the process at its end; `between`: most bytes of the process outside of passes.
    """

    passes: list[PassRecord] = field(default_factory=list)
    graphs: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    around: float = 0.0
    before: int = 0
    after: int = 0
    between: int = 0

    @property
    def serial(self) -> float:
        """Wall time between the passes, in seconds."""
        return self.seconds - sum(one.seconds for one in self.passes)


@dataclass
class Probe:
    """The costs of runs on samples.

    `runs`: one for each sample, from the smallest to the largest; `base`: bytes of a process that has all
    libraries loaded and holds no data; `bare`: bytes of a new worker before its first task; `working`: bytes
    by which the first tasks make it larger for good; `warm_up`: seconds by which the first tasks of a new
    process are slower, for libraries and for what is compiled; `used`: numbers of the calls of these runs;
    `byte_seconds`: seconds of a processor for a byte that is sent from one process to another; `seconds`:
    wall time of the probe.
    """

    runs: list[RunRecord]
    base: int
    bare: int
    working: int
    warm_up: float
    used: list[int]
    byte_seconds: float = 0.0
    seconds: float = 0.0


class Recorder(Callback):
    """Notes what each task takes that Dask runs in this thread, one after the other."""

    def __init__(self, record: RunRecord, *, keeps_graphs: bool = False) -> None:
        super().__init__()
        self._keeps_graphs = keeps_graphs
        self._record = record
        self._open: list[PassRecord] = []
        self._levels: dict[str, int] = {}
        self._began = 0.0
        self._before = 0

    def hear(self, event: Event) -> None:
        """Take the events of passes."""
        if isinstance(event, PassBegan):
            self.between()
            give_back()  # not before each task, which would then wait for the same pages again
            one = PassRecord(
                event.name,
                event.n_blocks,
                event.fan_in,
                event.number is not None,
                event.n_bytes,
                resident_bytes(),
                event.n_joined > 0,
            )
            self._open.append(one)
            self._record.passes.append(one)
            self._levels = {event.block_group: 0}
            self._levels |= {group: level for level, group in enumerate(event.merge_groups, 1)}
        elif isinstance(event, PassEnded) and self._open:
            self._open.pop().seconds = event.seconds
            reset_peak()

    def _start(self, dsk: Mapping[Hashable, Any]) -> None:
        if not self._open:
            return
        values = [node for key, node in dsk.items() if group_of(key).startswith("shared-")]
        self._open[-1].bound = sum(sent_bytes(getattr(node, "value", None)) for node in values)
        name = self._open[-1].name
        if self._keeps_graphs and name not in self._record.graphs:
            last = max(filter(None, map(self._level, dsk)), default=0)
            keys = [key for key in dsk if self._level(key) == last]
            self._record.graphs[name] = cloudpickle.dumps((dict(dsk), keys))

    def _pretask(self, key: Hashable, *_others: Any) -> None:
        if self._level(key) is None:
            return
        reset_peak()
        self._before = resident_bytes()
        self._began = time.perf_counter()

    def _posttask(self, key: Hashable, result: Any, *_others: Any) -> None:
        level = self._level(key)
        if level is None:
            return
        seconds = time.perf_counter() - self._began
        rise = max(0, peak_bytes() - self._before)
        self._open[-1].tasks.append(Took(level, seconds, rise, sent_bytes(result)))

    def between(self) -> None:
        """Note how large the process was since the last pass."""
        self._record.between = max(self._record.between, peak_bytes())

    def _level(self, key: Hashable) -> int | None:
        return self._levels.get(group_of(key)) if self._open else None


@contextmanager
def recorded(*, keeps_graphs: bool = False) -> Iterator[RunRecord]:
    """Record what the body runs, if Dask's scheduler of this thread runs it."""
    record = RunRecord(before=resident_bytes())
    recorder = Recorder(record, keeps_graphs=keeps_graphs)
    reset_peak()
    began = time.perf_counter()
    with listening(recorder.hear), recorder:
        yield record
    record.seconds = time.perf_counter() - began
    recorder.between()
    record.after = resident_bytes()


def sent_bytes(content: Any) -> int:
    """Return the bytes of an object as it travels between processes.

    >>> import numpy as np
    >>> 8000 < sent_bytes(np.zeros(1000)) < 9000
    True
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = cloudpickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    except (TypeError, AttributeError, pickle.PicklingError):
        return 0
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
