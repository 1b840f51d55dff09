"""Protocols say what is asked of a ``dask.distributed`` client and its scheduler, which most programs never load."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol


class Scheduler(Protocol):
    """The scheduler of a cluster, in whose process a function asks it.

    `task_groups`: groups that it knows, each with the number of its tasks in each state; `workers`: workers
    by their addresses; `worker_ttl`: seconds of silence after which a worker is given up; `extensions`:
    extensions by their names, such as ``"stealing"``.
    """

    task_groups: Mapping[str, Any]
    workers: Mapping[str, Any]
    worker_ttl: float | None
    extensions: Mapping[str, Any]

    def get_events(self, topic: str) -> Iterable[tuple[float, dict[str, Any]]]:
        """Return the messages of a topic, with their times."""
        ...


class Client(Protocol):
    """A client of a cluster.

    `loop`: loop of the thread in which it talks to its scheduler; `scheduler`: the scheduler's remote
    functions, to be awaited in that loop; `status`: ``"running"``, ``"connecting"`` after the connection was
    lost, or ``"closed"``; `direct_to_workers`: whether results come from the workers without a detour by the
    scheduler.
    """

    loop: Any
    scheduler: Any
    status: str
    direct_to_workers: bool | None

    def get(self, graph: Any, keys: Any, *, sync: bool, **options: Any) -> Any:
        """Submit a graph, and return its futures where ``sync`` is False."""
        ...

    def gather(self, futures: Any, *, direct: bool | None) -> Any:
        """Return the results of futures, to be awaited where it is called in the client's own loop."""
        ...

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function on each worker, to be awaited where this is called in the client's own loop."""
        ...

    def run_on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the scheduler's process, and wait for what it returns."""
        ...
