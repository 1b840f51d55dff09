"""Retries: a read, a write or a task is called again after an error that may pass."""

import errno
import gzip
import os
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dspectral.configuration import get_n_retries
from dspectral.engine.around.events import TaskRetried, emit_to_all, get_current_worker
from dspectral.engine.graph import Graph, SharedFunction, guard_tasks
from dspectral.linalg.blas import aligned, blas_in_one_thread

R = TypeVar("R")
FIRST_PAUSE = 0.25
"""Seconds before the second attempt."""
GROWTH = 4.0
"""Each pause is so many times the one before it: 0.25, 1, 4, 16 seconds."""
PERMANENT = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    gzip.BadGzipFile,
)
"""Errors of the system that another attempt would meet again."""
TRANSIENT_ERRORS = (
    "EAGAIN EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH EINTR EIO ENETDOWN ENETRESET ENETUNREACH "
    "ENOBUFS EPIPE EREMOTEIO ESHUTDOWN ESTALE ETIME ETIMEDOUT"
)
TRANSIENT_NUMBERS = frozenset(getattr(errno, name, None) for name in TRANSIENT_ERRORS.split())
"""Numbers of errors that may pass; a full disk (ENOSPC), for instance, is none of them."""
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of HTTP that say: not now."""
TRANSIENT_CLASSES = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "urllib3.exceptions.HTTPError",
        "http.client.IncompleteRead",
        "http.client.RemoteDisconnected",
    }
)
"""Errors of libraries that read over a network and need not be installed, by module and name."""
N_ATTEMPTS = "dspectral_n_attempts"
"""Attribute of an error that was retried to the limit: no caller retries it again."""


def add_retries(graph: Graph) -> Graph:
    """Return the same tasks, each of which is tried again after an error that may pass."""
    n_retries = get_n_retries()  # read here: the configuration of workers is another one
    return guard_tasks(graph, call_with_retries, n_retries) if n_retries else graph


def retried(function: Callable[..., R], *arguments: object, what: str) -> R:
    """Call a function; after a transient error pause and call it again, each pause longer than the last."""
    return call_with_retries(function, what, get_n_retries(), *arguments)


def call_with_retries(
    function: Callable[..., R], what: str, n_retries: int, /, *arguments: Any, **options: Any
) -> R:
    """Call a function, and again up to ``n_retries`` times."""
    attempt, pause = 1, FIRST_PAUSE
    while True:
        try:
            return function(*arguments, **options)
        except Exception as error:
            if hasattr(error, N_ATTEMPTS) or not is_transient(error):
                raise
            if attempt > n_retries:
                if attempt > 1:
                    setattr(error, N_ATTEMPTS, attempt)
                    error.add_note(f"the same on each of {attempt} attempts")
                raise
            said = " ".join(str(error).split()) or type(error).__name__
        emit_to_all(TaskRetried(what, attempt, pause, said))
        time.sleep(pause)
        attempt, pause = attempt + 1, pause * GROWTH


def is_transient(error: BaseException) -> bool:
    """Report whether the same call may succeed a moment later.

    >>> is_transient(TimeoutError()), is_transient(OSError(5, "Input/output error"))
    (True, True)
    >>> is_transient(FileNotFoundError()), is_transient(ValueError("damaged"))
    (False, False)
    """
    if isinstance(error, PERMANENT):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    status = _get_http_status(error)
    if status is not None:
        return status in TRANSIENT_STATUSES
    if any(f"{kind.__module__}.{kind.__qualname__}" in TRANSIENT_CLASSES for kind in type(error).__mro__):
        return True
    return isinstance(error, OSError) and (error.errno is None or error.errno in TRANSIENT_NUMBERS)


def _get_http_status(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of aiohttp, gcsfs, requests or botocore holds."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = [(response.get("ResponseMetadata") or {}).get("HTTPStatusCode")]
    else:
        found = [getattr(error, name, None) for name in ("status", "code")]
        found.append(getattr(response, "status_code", None))
    return next((one for one in found if isinstance(one, int)), None)


def not_seen(path: str) -> FileNotFoundError:
    """Return the error for a path that does not exist for the process of this task."""
    worker = get_current_worker()
    who = f"process {os.getpid()}" if worker is None else f"worker {worker.address}"
    return FileNotFoundError(
        f"{path} is not there for {who} on {socket.gethostname()}: put it in a folder that every worker sees under "
        "the same path, or name it by a URL such as s3://bucket/name"
    )


def run_single_threaded(shared: SharedFunction, *arguments: Any) -> Any:
    """Call a function of a task while BLAS has one thread, and name the worker that does not see a file."""
    try:
        with blas_in_one_thread():
            return aligned(shared.function)(*arguments)
    except FileNotFoundError as error:
        if error.filename is None or get_current_worker() is None:
            raise
        raise not_seen(os.fsdecode(error.filename)) from error
