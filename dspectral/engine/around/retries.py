"""Retries of reads, writes and tasks after transient errors."""

import errno
import gzip
import os
import socket
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, TypeVar

from dspectral.configuration import get_n_retries
from dspectral.engine.around.callbacks import TASK_SHARES, TaskRetried, emit_retry, get_current_worker
from dspectral.engine.graph import Graph, SharedFunction, guard_tasks
from dspectral.linalg.blas import blas_in_one_thread, copy_unaligned

R = TypeVar("R")
FIRST_PAUSE = 0.25
"""Seconds before the second attempt."""
PAUSE_FACTOR = 4.0
"""Factor between two pauses: 0.25, 1, 4, 16 seconds."""
PERMANENT_ERRORS = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    gzip.BadGzipFile,
)
"""Operating system errors that a retry cannot fix."""
TRANSIENT_ERRORS = (
    "EAGAIN EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH EINTR EIO ENETDOWN ENETRESET ENETUNREACH "
    "ENOBUFS EPIPE EREMOTEIO ESHUTDOWN ESTALE ETIME ETIMEDOUT"
)
TRANSIENT_NUMBERS = frozenset(getattr(errno, name, None) for name in TRANSIENT_ERRORS.split())
"""Numbers of transient operating system errors. A full disk (ENOSPC) is not one."""
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses of transient errors."""
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
"""Names of transient errors of optional network libraries."""
ENDPOINT_ADVICE = ": pass the address as endpoint_url, in source_options of texts and storage_options of all else"
N_ATTEMPTS = "dspectral_n_attempts"
"""Attribute of an error after the last retry: no caller retries it again."""


def add_retries(graph: Graph) -> Graph:
    """Return tasks that retry after transient errors."""
    n_retries = get_n_retries()  # read here, because workers have their own configuration
    return guard_tasks(graph, call_with_retries, n_retries) if n_retries else graph


def retry(function: Callable[..., R], *arguments: object, description: str) -> R:
    """Call a function, and retry after transient errors as often as ``dspectral.retries`` allows."""
    return call_with_retries(function, description, get_n_retries(), *arguments)


def call_with_retries(
    function: Callable[..., R], description: str, n_retries: int, /, *arguments: Any, **options: Any
) -> R:
    """Call a function, and retry up to ``n_retries`` times after transient errors, with growing pauses."""
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
                    advice = "" if type(error).__name__ != "EndpointConnectionError" else ENDPOINT_ADVICE
                    error.add_note(f"failed in each of {attempt} attempts{advice}")
                raise
            message = " ".join(str(error).split()) or type(error).__name__
        emit_retry(TaskRetried(description, attempt, pause, message))
        time.sleep(pause)
        attempt, pause = attempt + 1, pause * PAUSE_FACTOR


def is_transient(error: BaseException) -> bool:
    """Report whether an error is transient, so that a retry may succeed.

    >>> is_transient(TimeoutError()), is_transient(OSError(5, "Input/output error"))
    (True, True)
    >>> is_transient(FileNotFoundError()), is_transient(ValueError("damaged"))
    (False, False)
    """
    if isinstance(error, PERMANENT_ERRORS):
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
    """Return the HTTP status of an error of aiohttp, gcsfs, requests or botocore, or None."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        candidates = [(response.get("ResponseMetadata") or {}).get("HTTPStatusCode")]
    else:
        candidates = [getattr(error, name, None) for name in ("status", "code")]
        candidates.append(getattr(response, "status_code", None))
    return next((status for status in candidates if isinstance(status, int)), None)


def missing_on_worker_error(path: str) -> FileNotFoundError:
    """Return the error for a path that this process cannot find."""
    worker = get_current_worker()
    process = f"process {os.getpid()}" if worker is None else f"worker {worker.address}"
    return FileNotFoundError(
        f"{path} does not exist for {process} on {socket.gethostname()}: use a folder that every worker has under the "
        "same path, or a URL such as s3://bucket/name"
    )


def run_single_threaded(shared: SharedFunction, *arguments: Any) -> Any:
    """Call the function of a task with BLAS in one thread; a missing file raises an error that names the worker."""
    TASK_SHARES[get_ident()] = 0.0
    try:
        with blas_in_one_thread():
            return copy_unaligned(shared.function)(*arguments)
    except FileNotFoundError as error:
        if error.filename is None or get_current_worker() is None:
            raise
        raise missing_on_worker_error(os.fsdecode(error.filename)) from error
    finally:
        TASK_SHARES.pop(get_ident(), None)
