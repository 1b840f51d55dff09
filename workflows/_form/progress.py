"""Progress on standard error: which step runs, and how many of its tasks are done."""

import re
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TextIO, TypeAlias

from dask.callbacks import Callback
from distributed import Client

QUIET_SECONDS = 3.0
"""A step that ends sooner says nothing."""
LINE_SECONDS = 10.0
"""Between two lines where the output is no terminal."""
Counts: TypeAlias = Mapping[str, tuple[int, int]]
"""Tasks done and tasks in all, by task group, in the order of their first appearance."""


class Progress:
    """A thread that shows the running step and its task groups.

    Parameters
    ----------
    client : distributed.Client or None
        Whose scheduler to ask, besides Dask's schedulers within this process.
    stream : text stream, optional
        Standard error by default. A terminal gets one line that changes, anything else a line now and then.
    """

    def __init__(self, client: Client | None, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._client = client
        self._tasks = LocalTasks()
        self._interval = 0.5 if client is None else 2.0
        self._steps: list[tuple[str, float]] = []
        self._shown = ""
        self._last_line = -LINE_SECONDS
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._tasks.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._tasks.__exit__(*error)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what the body of a ``with`` does."""
        self._steps.append((name, time.monotonic()))
        try:
            yield
        finally:
            self._steps.pop()

    def say(self, sentence: str) -> None:
        """Print a sentence to standard output, not into the line that changes."""
        self._clear()
        print(sentence, flush=True)

    def _watch(self) -> None:
        busy_since = None
        while not self._ended.wait(self._interval):
            counts, steps = self._counts(), list(self._steps)
            now = time.monotonic()
            busy_since = (busy_since or now) if counts else None
            since = steps[-1][1] if steps else busy_since
            if since is not None and now - since >= QUIET_SECONDS:
                self._show(line_of(steps[-1][0] if steps else "", now - since, counts))
            else:
                self._clear()
        self._clear()

    def _counts(self) -> Counts:
        return {**self._tasks.counts(), **(cluster_counts(self._client) if self._client else {})}

    def _show(self, line: str) -> None:
        with self._writing:
            if self._stream.isatty():
                width = shutil.get_terminal_size().columns - 1
                line = line if len(line) <= width else line[: width - 1] + "…"
                self._stream.write("\r" + line.ljust(len(self._shown)))
            elif time.monotonic() - self._last_line >= LINE_SECONDS:
                self._stream.write(line + "\n")
                self._last_line = time.monotonic()
            self._shown = line
            self._stream.flush()

    def _clear(self) -> None:
        with self._writing:
            if self._shown and self._stream.isatty():
                self._stream.write("\r" + " " * len(self._shown) + "\r")
                self._stream.flush()
            self._shown = ""


class LocalTasks(Callback):
    """Counts the tasks of Dask's schedulers within this process, of one computation at a time as they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        super().__init__()

    def counts(self) -> Counts:
        """Return what runs now; empty if nothing does."""
        with self._lock:
            return {group: (self._done[group], total) for group, total in self._total.items()}

    def _start_state(self, _graph: Any, state: dict[str, Any]) -> None:
        with self._lock:
            self._done.clear()
            self._total = Counter(group_of(key) for key in (*state["ready"], *state["waiting"]))

    def _posttask(self, key: Any, *_others: Any) -> None:
        with self._lock:
            self._done[group_of(key)] += 1

    def _finish(self, *_others: Any) -> None:
        with self._lock:
            self._total.clear()


def cluster_counts(client: Client) -> Counts:
    """Return what runs now on a client's cluster; empty if nothing does, or if its scheduler is gone."""
    try:
        return client.run_on_scheduler(scheduler_counts)
    except (OSError, RuntimeError, TimeoutError):
        return {}  # the computation itself says what is wrong


def scheduler_counts(dask_scheduler: Any) -> dict[str, tuple[int, int]]:
    """Return tasks done and in all of each group on a scheduler that still has something to do."""
    counts: dict[str, tuple[int, int]] = {}
    for name, group in dask_scheduler.task_groups.items():
        states = group.states
        total = sum(states.values())
        done = sum(states.get(state, 0) for state in ("memory", "released", "forgotten", "erred"))
        before = counts.get(group_of(name), (0, 0))
        counts[group_of(name)] = (before[0] + done, before[1] + total)
    if all(done == total for done, total in counts.values()):
        return {}
    return counts


def group_of(key: Any) -> str:
    """Return the name of a task's group, without Dask's token.

    Examples
    --------
    >>> group_of(("merge-level-2-0123456789abcdef0123456789abcdef", 7))
    'merge-level-2'
    """
    name = key[0] if isinstance(key, tuple) else key
    return re.sub(r"-[0-9a-f]{32}$", "", str(name))


def line_of(step: str, seconds: float, counts: Counts) -> str:
    """Return one line: the step, its seconds, and the task groups at work, neither done nor yet to begin.

    Examples
    --------
    >>> line_of("fit", 12.3, {"hash-block": (80, 80), "sketch-block": (12, 80), "merge-level-1": (3, 40)})
    '[12 s] fit: sketch-block 12/80 · merge-level-1 3/40'
    """
    begun = [f"{group} {done}/{total}" for group, (done, total) in counts.items() if 0 < done < total]
    waiting = [f"{group} {done}/{total}" for group, (done, total) in counts.items() if done < total]
    groups = " · ".join(begun or waiting[:1])
    return f"[{seconds:.0f} s] " + ": ".join(part for part in (step, groups) if part)
