"""Errors of tasks: what may pass is tried again after growing pauses, and a file that is not seen names the worker."""

import errno
import functools
import gzip
import os
import socket
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dspectral.engine.blas import aligned, blas_in_one_thread
from dspectral.engine.configuration import configured_retries
from dspectral.engine.events import Retried, emit_from_worker, emit_to_all, worker_of_task

P = ParamSpec("P")
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
PASSING = (
    "EAGAIN EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH EINTR EIO ENETDOWN ENETRESET ENETUNREACH "
    "ENOBUFS EPIPE EREMOTEIO ESHUTDOWN ESTALE ETIME ETIMEDOUT"
)
NUMBERS = frozenset(getattr(errno, name, None) for name in PASSING.split())
"""Numbers of errors that may pass; a full disk (ENOSPC), for instance, is none of them."""
STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of HTTP that say: not now."""
CLASSES = frozenset(
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
GAVE_UP = "the same on each of "
"""Beginning of the note on an error that was met too often: whoever calls does not try it again."""


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
    status = _status_of(error)
    if status is not None:
        return status in STATUSES
    if any(f"{kind.__module__}.{kind.__qualname__}" in CLASSES for kind in type(error).__mro__):
        return True
    return isinstance(error, OSError) and (error.errno is None or error.errno in NUMBERS)


def _status_of(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of aiohttp, gcsfs, requests or botocore holds."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = [(response.get("ResponseMetadata") or {}).get("HTTPStatusCode")]
    else:
        found = [getattr(error, name, None) for name in ("status", "code")]
        found.append(getattr(response, "status_code", None))
    return next((one for one in found if isinstance(one, int)), None)


def retried(function: Callable[..., R], *arguments: object, what: str, n_retries: int | None = None) -> R:
    """Call a function; after a transient error pause and call it again, each pause longer than the last."""
    n_attempts = 1 + (configured_retries() if n_retries is None else n_retries)
    attempt, pause = 1, FIRST_PAUSE
    while True:
        try:
            return function(*arguments)
        except Exception as error:
            given_up = any(note.startswith(GAVE_UP) for note in getattr(error, "__notes__", ()))
            if given_up or not is_transient(error):
                raise
            if attempt >= n_attempts:
                if attempt > 1:
                    error.add_note(f"{GAVE_UP}{attempt} attempts")
                raise
            said = " ".join(str(error).split()) or type(error).__name__
        # A thread that runs a task knows nothing of the thread that waits for it, so whoever listens is told.
        event = Retried(what, attempt, pause, said)
        emit_to_all(event)
        emit_from_worker(event)
        time.sleep(pause)
        attempt, pause = attempt + 1, pause * GROWTH


def retrying(function: Callable[P, R], what: str, n_retries: int | None = None) -> Callable[P, R]:
    """Return a function that is tried again after a transient error, as :func:`retried` does."""
    return functools.partial(_retried_with, function, what, n_retries)


def tried_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a function of :func:`retrying` tries, which is all that decides its result."""
    if isinstance(function, functools.partial) and function.func is _retried_with:
        return function.args[0]  # type: ignore[no-any-return]
    return function


def _retried_with(
    function: Callable[P, R], what: str, n_retries: int | None, *arguments: P.args, **options: P.kwargs
) -> R:
    return retried(functools.partial(function, **options), *arguments, what=what, n_retries=n_retries)


def not_seen(path: str) -> FileNotFoundError:
    """Return the error for a path that does not exist for the process of this task."""
    worker = worker_of_task()
    who = f"process {os.getpid()}" if worker is None else f"worker {worker.address}"
    return FileNotFoundError(
        f"{path} is not there for {who} on {socket.gethostname()}: put it in a folder that every worker sees under "
        "the same path, or name it by a URL such as s3://bucket/name"
    )


def pinned_and_named(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a task while BLAS has one thread, and name the worker that does not see a file."""
    try:
        with blas_in_one_thread():
            return aligned(function)(*arguments)
    except FileNotFoundError as error:
        if error.filename is None or worker_of_task() is None:
            raise
        raise not_seen(os.fsdecode(error.filename)) from error
