"""Exclusive write lock of a store: a file lock, or in a bucket an object that is created exclusively."""

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

import fsspec
from filelock import FileLock, Timeout

from dspectral.engine.around.retries import retry
from dspectral.paths import name_file_in_errors
from dspectral.store.location import Location, StoreError, is_local

LOCK_FILE, HOLDER_FILE = "writer.lock", "writer.json"
"""Files in a locked store: the file lock, and a description of its holder."""
POLL_SECONDS = 0.05
"""Seconds between two attempts to acquire a lock."""
LOGGER = logging.getLogger("dspectral")
_CREATING = threading.Lock()


@contextmanager
def hold_write_lock(location: Location, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the write lock of a store; raise StoreError if it is not free within `wait` seconds.

    A file lock ends with its process. The lock object in a bucket remains if the process is killed.
    """
    location.path(LOCK_FILE)
    file_system, holder = location.path(HOLDER_FILE)
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "token": uuid.uuid4().hex}
    content = json.dumps(facts).encode()
    if not is_local(file_system):
        deadline = time.monotonic() + wait
        while not (created := _try_create(file_system, holder, content)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if not created:
            helps = f"; if it was killed, remove {holder} to resume its build, or call discard_unfinished(force=True)"
            raise _make_locked_error(location, file_system, holder, helps)
        try:
            yield
        finally:
            unlock(location)
        return
    lock = FileLock(Path(holder).with_name(LOCK_FILE))
    try:
        with name_file_in_errors(holder):
            lock.acquire(timeout=wait, poll_interval=POLL_SECONDS)
    except Timeout:
        raise _make_locked_error(location, file_system, holder) from None
    try:
        with name_file_in_errors(holder):
            Path(holder).unlink(missing_ok=True)  # writing to a pipe would block
            Path(holder).write_bytes(content)
        yield
    finally:
        # The file is removed while locked: a waiting process detects the removal and creates a new file.
        # filelock < 3.30 removes it again on release, which may delete the lock file of the next writer.
        for name in (HOLDER_FILE, LOCK_FILE):
            with suppress(OSError):
                Path(holder).with_name(name).unlink()
        lock.release()


def unlock(location: Location) -> None:
    """Remove the lock object of a writer from a bucket."""
    file_system, path = location.path(HOLDER_FILE)
    try:
        if not is_local(file_system):
            retry(file_system.rm_file, path, description=f"removing {HOLDER_FILE} of {location.url}")
    except FileNotFoundError:
        return
    except OSError:  # the result of the writer does not depend on it
        LOGGER.warning("%s of %s could not be removed", HOLDER_FILE, location.url, exc_info=True)


def _try_create(file_system: fsspec.AbstractFileSystem, holder: str, content: bytes) -> bool:
    """Create the lock object of a writer unless one exists; return whether this writer owns it."""
    try:
        with _CREATING:  # in-memory file systems have no exclusive create
            if _read(file_system, holder) is not None:
                return False
            retry(lambda: file_system.pipe_file(holder, content, mode="create"), description=f"writing {holder}")
    except Exception as error:
        # S3 responds with 412 or 409, which s3fs may not translate.
        texts = f"{type(error).__name__} {error} {error.__cause__}"
        signs = ("PreconditionFailed", "ConditionalRequestConflict", "At least one of the pre-conditions", "412")
        if not (isinstance(error, FileExistsError) or any(sign in texts for sign in signs)):
            raise
    # A failed attempt may still have created it; without exclusive create the last writer wins.
    return _read(file_system, holder) == content


def _read(file_system: fsspec.AbstractFileSystem, holder: str) -> bytes | None:
    """Read the description of the lock holder; None without one."""
    try:
        return bytes(retry(file_system.cat_file, holder, description=f"reading {holder}"))
    except FileNotFoundError:
        return None


def _make_locked_error(
    location: Location, file_system: fsspec.AbstractFileSystem, holder: str, remedy: str = ""
) -> StoreError:
    content = _read(file_system, holder)  # empty if the holder has just acquired the lock
    holder_label = "process {pid} on {host}, since {since}".format(**json.loads(content)) if content else "just started"
    return StoreError(
        f"another writer holds the lock of {location.url} ({holder_label}): call again when it has finished{remedy}"
    )
