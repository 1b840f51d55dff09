"""One writer of a store at a time: a lock of the file system, or in a bucket an object that is created once."""

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
from filelock import FileLock, Timeout

from dspectral.engine.around.retries import retried
from dspectral.store.location import Location, StoreError, is_local, named_when_full

LOCK, HOLDER = "writer.lock", "writer.json"
"""Files in a store while it is written: the lock of the file system, and who holds it."""
POLL_SECONDS = 0.05
"""Seconds between two attempts to take a lock."""
LOGGER = logging.getLogger("dspectral")
_CREATING = threading.Lock()


@contextmanager
def locked(where: Location, *, wait: float = 0.0) -> Iterator[None]:
    """Keep other writers away from a store while the context lasts; refuse if one is at work for `wait` seconds.

    A lock of the file system ends with its process; the object in a bucket stays if that is killed, and names its
    writer.
    """
    where.path(LOCK)
    system, holder = where.path(HOLDER)
    content = json.dumps(
        {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "token": uuid.uuid4().hex,
        }
    ).encode()
    if not is_local(system):
        deadline = time.monotonic() + wait
        while not (created := _try_create(system, holder, content)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if not created:
            helps = f"; if it was killed, remove {holder} to go on where it was, or discard_unfinished(force=True)"
            raise _make_locked_error(where, system, holder, helps)
        try:
            yield
        finally:
            unlock(where)
        return
    lock = FileLock(Path(holder).with_name(LOCK))
    try:
        with named_when_full(holder):
            lock.acquire(timeout=wait, poll_interval=POLL_SECONDS)
    except Timeout:
        raise _make_locked_error(where, system, holder) from None
    try:
        with named_when_full(holder):
            Path(holder).unlink(missing_ok=True)  # a pipe would be written to for ever
            Path(holder).write_bytes(content)
        yield
    finally:
        # Removed while it is held: whoever has opened it meanwhile finds that it has no name, and opens it anew.
        # Versions of filelock before 3.30 remove it once more after that, which may then be the next writer's.
        for name in (HOLDER, LOCK):
            with suppress(OSError):
                Path(holder).with_name(name).unlink()
        lock.release()


def unlock(where: Location) -> None:
    """Remove the object of a writer that has ended, or died, from a bucket."""
    system, root = fsspec.url_to_fs(where.url, **dict(where.options))
    try:
        if not is_local(system):
            retried(system.rm_file, f"{root.rstrip('/')}/{HOLDER}", what=f"removing {HOLDER} of {where.url}")
    except FileNotFoundError:
        return
    except OSError:  # the work is done or has failed already
        LOGGER.warning("%s of %s could not be removed", HOLDER, where.url, exc_info=True)


def _try_create(system: Any, holder: str, content: bytes) -> bool:
    """Create the object of a writer, unless there is one; return whether it is this one's."""
    try:
        with _CREATING:  # file systems in memory look, then write
            if _read(system, holder) is not None:
                return False
            retried(lambda: system.pipe_file(holder, content, mode="create"), what=f"writing {holder}")
    except Exception as error:
        # S3 answers 412 or 409, which s3fs may pass on.
        texts = f"{type(error).__name__} {error} {error.__cause__}"
        signs = (
            "PreconditionFailed",
            "ConditionalRequestConflict",
            "At least one of the pre-conditions",
            "412",
        )
        if not (isinstance(error, FileExistsError) or any(sign in texts for sign in signs)):
            raise
    # An attempt that seemed to fail may have written it; without an exclusive create the last of several has.
    return _read(system, holder) == content


def _read(system: Any, holder: str) -> bytes | None:
    """Return what the writer at work has written, None where there is none."""
    try:
        return bytes(retried(system.cat_file, holder, what=f"reading {holder}"))
    except FileNotFoundError:
        return None


def _make_locked_error(where: Location, system: Any, holder: str, helps: str = "") -> StoreError:
    content = _read(system, holder)  # none, or nothing yet, where it is about to be written
    who = "process {pid} on {host}, since {since}".format(**json.loads(content)) if content else "just begun"
    return StoreError(
        f"another writer is at work at {where.url} ({who}): call again when it has ended{helps}"
    )
