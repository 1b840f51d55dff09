"""A path that the client sees and a worker does not: the error names the worker and the path."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dspectral.engine.blas import aligned, blas_in_one_thread


def not_seen(path: str) -> FileNotFoundError:
    """Return the error for a path that does not exist for the process of this task.

    >>> str(not_seen("/data/a.txt")).startswith("/data/a.txt is not there for process ")
    True
    """
    who = f"worker {address}" if (address := _worker()) else f"process {os.getpid()}"
    return FileNotFoundError(
        f"{path} is not there for {who} on {socket.gethostname()}: put it in a folder that every worker sees under "
        "the same path, or name it by a URL such as s3://bucket/name"
    )


@contextmanager
def naming_the_worker() -> Iterator[None]:
    """Let a task of a cluster that does not find a file say which worker did not see it."""
    try:
        yield
    except FileNotFoundError as error:
        if error.filename is None or _worker() is None:
            raise
        raise not_seen(os.fsdecode(error.filename)) from error


def pinned_and_named(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a task while BLAS has one thread, and name the worker that does not see a file."""
    with naming_the_worker(), blas_in_one_thread():
        return aligned(function)(*arguments)


def _worker() -> str | None:
    """Return the address of the worker whose task this is, or None."""
    # Asked for by name: a process that has not loaded it is no worker, and need not load it for this.
    module = sys.modules.get("distributed.worker")
    with suppress(ValueError):  # it is raised where no task of a worker runs
        return None if module is None else str(module.get_worker().address)
    return None
