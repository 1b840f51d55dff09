"""Transient errors are tried again after growing pauses, and events tell of them."""

import errno
import functools
import gzip
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dspectral.engine.configuration import configured_retries
from dspectral.engine.events import Retried, emit_from_worker, emit_to_all

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
NUMBERS = frozenset(
    getattr(errno, name)
    for name in (
        "EAGAIN",
        "EBUSY",
        "ECONNABORTED",
        "ECONNREFUSED",
        "ECONNRESET",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "EINTR",
        "EIO",
        "ENETDOWN",
        "ENETRESET",
        "ENETUNREACH",
        "ENOBUFS",
        "EPIPE",
        "EREMOTEIO",
        "ESHUTDOWN",
        "ESTALE",
        "ETIME",
        "ETIMEDOUT",
    )
    if hasattr(errno, name)
)
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
GAVE_UP = "the same on each of {} attempts"


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
        response = response.get("ResponseMetadata", {})
        found = response.get("HTTPStatusCode") if isinstance(response, dict) else None
    else:
        held = [getattr(error, name, None) for name in ("status", "code")]
        found = next(
            (one for one in (*held, getattr(response, "status_code", None)) if one is not None), None
        )
    return found if isinstance(found, int) else None


def retried(
    function: Callable[..., R],
    *arguments: object,
    what: str,
    transient: Callable[[BaseException], bool] = is_transient,
    n_retries: int | None = None,
) -> R:
    """Call a function; after a transient error pause and call it again, each pause longer than the last.

    >>> answers = [TimeoutError("busy"), "there"]
    >>> def read():
    ...     answer = answers.pop(0)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> retried(read, what="reading")
    'there'
    """
    n_attempts = 1 + (configured_retries() if n_retries is None else n_retries)
    attempt, pause = 1, FIRST_PAUSE
    while True:
        try:
            return function(*arguments)
        except Exception as error:
            if not transient(error) or _was_given_up(error):
                raise
            if attempt >= n_attempts:
                if attempt > 1:
                    error.add_note(GAVE_UP.format(attempt))
                raise
            said = " ".join(str(error).split()) or type(error).__name__
        tell_retry(Retried(what, attempt, pause, said))
        time.sleep(pause)
        attempt, pause = attempt + 1, pause * GROWTH


def retrying(function: Callable[P, R], what: str, n_retries: int | None = None) -> Callable[P, R]:
    """Return a function that is tried again after a transient error, as :func:`retried` does.

    >>> retrying(abs, "a magnitude")(-3)
    3
    """
    return functools.partial(_retried_with, function, what, n_retries)


def tried_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a function of :func:`retrying` tries, which is all that decides its result.

    >>> tried_by(retrying(abs, "a magnitude")) is tried_by(abs) is abs
    True
    """
    if isinstance(function, functools.partial) and function.func is _retried_with:
        return function.args[0]  # type: ignore[no-any-return]
    return function


def tell_retry(event: Retried) -> None:
    """Tell that something is tried again: those who listen in this process, and the scheduler of its worker."""
    # A thread that runs a task knows nothing of the thread that waits for it, so whoever listens is told.
    emit_to_all(event)
    emit_from_worker(event)


def _retried_with(
    function: Callable[P, R], what: str, n_retries: int | None, *arguments: P.args, **options: P.kwargs
) -> R:
    return retried(functools.partial(function, **options), *arguments, what=what, n_retries=n_retries)


def _was_given_up(error: BaseException) -> bool:
    """Whether a call within this one has tried often enough."""
    return any(note.startswith("the same on each of ") for note in getattr(error, "__notes__", ()))
