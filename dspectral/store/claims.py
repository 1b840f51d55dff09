"""One writer of a store at a time: its claim, its signs of life, and what becomes of the claim of a dead one."""

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dask
import psutil
from dask.utils import parse_timedelta

from dspectral.store.arrays import Location, StoreError
from dspectral.store.claim_files import ClaimFiles

LEASE = "30 s"
"""Time without a sign of life after which a writer on another machine is taken to be dead."""
WAIT = "0 s"
"""Time for which a writer waits for another one that is alive."""
POLL = 1.0
"""Seconds between two looks at the claim of a writer that is waited for."""
LOGGER = logging.getLogger("dspectral")
_BEATS = 6
_HELD: set[str] = set()


class Claim:
    """The claim of this process on a store, with a thread that shows that it is alive."""

    def __init__(self, where: Location, files: ClaimFiles, number: int, owner: dict[str, Any]) -> None:
        self._where = where
        self._files = files
        self._number = number
        self._owner = owner
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="dspectral-writer", daemon=True)

    def confirm(self) -> None:
        """Refuse to go on if another writer has taken the place of this one."""
        if not self._is_held():
            raise StoreError(
                f"another writer has taken over {self._where.url}, since this one gave no sign of life for "
                f"{_seconds('dspectral.writer-lease', LEASE):g} s: call it again once that one has ended"
            )

    def start(self) -> None:
        """Begin to show signs of life."""
        self._thread.start()

    def release(self) -> None:
        """Show no more signs of life, and let others write."""
        self._stop.set()
        self._thread.join()
        try:
            if self._is_held():
                self._files.remove(self._number)
        except OSError:
            # The work is done or has failed already; the claim of a process that has ended holds nobody up for long.
            LOGGER.warning("the claim on %s could not be removed", self._where.url, exc_info=True)

    def _is_held(self) -> bool:
        return self._files.numbers()[-1:] == [self._number] and self._files.read(self._number) == self._owner

    def _live(self) -> None:
        """Leave a sign of life several times within a lease, until the claim ends or is lost."""
        number, pause = 0, _seconds("dspectral.writer-lease", LEASE) / _BEATS
        while not self._stop.wait(pause):
            number += 1
            try:
                if not self._is_held():
                    return
                self._files.beat(self._number, f"{number}")
            except Exception:
                # A sign that fails is made up for by the next one; `confirm` tells whether they came too late.
                LOGGER.warning("a sign of life could not be left at %s", self._where.url, exc_info=True)


@contextmanager
def claimed(where: Location) -> Iterator[Claim]:
    """Claim a store for one writer while the context lasts.

    The claim of a writer that is dead is taken over: at once if it was a process of this machine, else after
    ``dspectral.writer-lease`` of Dask's configuration (30 s) without a sign of life. Clocks of machines are not
    compared. A writer that is alive is waited for as long as ``dspectral.writer-wait`` says (0 s).
    """
    owner = _owner()
    _HELD.add(
        owner["token"]
    )  # before the claim is there: other threads of this process look here whether it lives
    try:
        claim = _take(where, owner)
        claim.start()
        try:
            yield claim
        finally:
            claim.release()
    finally:
        _HELD.discard(owner["token"])


def _take(where: Location, owner: dict[str, Any]) -> Claim:
    """Create the highest claim of a store, all others being those of dead writers."""
    files = ClaimFiles(where)
    until = time.monotonic() + _seconds("dspectral.writer-wait", WAIT)
    while True:
        before = _snapshot(files)
        if before and not _is_dead(files, *max(before.items())):
            _wait_or_refuse(where, before[max(before)], until)
            continue
        number = max(before, default=0) + 1
        if not files.create(number, owner):
            continue
        # Others may have listed the claims when this one did: it counts if no claim is there now that was not judged.
        beside = {key: found for key, found in _snapshot(files).items() if key != number}
        if all(before.get(key) == found for key, found in beside.items()):
            files.remove(*sorted(beside))
            return Claim(where, files, number, owner)
        files.remove(number)
        time.sleep(random.uniform(0.05, 0.5))  # noqa: S311  two that met here shall not meet again


def _snapshot(files: ClaimFiles) -> dict[int, dict[str, Any]]:
    found = {number: files.read(number) for number in files.numbers()}
    return {number: owner for number, owner in found.items() if owner is not None}


def _is_dead(files: ClaimFiles, number: int, owner: dict[str, Any]) -> bool:
    """Report whether the owner of a claim is gone; False also where the claim is another one by now."""
    if owner and owner["machine"] == _machine():
        own = owner["pid"] == os.getpid()
        return owner["token"] not in _HELD if own else _started(owner["pid"]) != owner["started"]
    # Of another machine, or nothing was written yet. The time is measured here: clocks of machines differ.
    lease = _seconds("dspectral.writer-lease", LEASE)
    first, until = files.last_beat(number), time.monotonic() + lease
    while time.monotonic() < until:
        time.sleep(min(lease / _BEATS / 2, 1.0))
        if files.read(number) != owner or files.last_beat(number) != first:
            return False
    return True


def _wait_or_refuse(where: Location, owner: dict[str, Any], until: float) -> None:
    if not owner:
        return  # its content is on the way
    at_work = (
        f"another writer is at work at {where.url} (process {owner['pid']} on {owner['host']}, since "
        f"{owner['since']})"
    )
    left = until - time.monotonic()
    if left <= 0:
        raise StoreError(
            f"{at_work}: call again when it has ended, or let dspectral.writer-wait of Dask's configuration "
            "say how long to wait for it"
        )
    LOGGER.info("%s: waiting for up to %.0f s more", at_work, left)
    time.sleep(min(left, POLL))


def _owner() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "token": uuid.uuid4().hex,
        "host": socket.gethostname(),
        "machine": _machine(),
        "pid": pid,
        "started": _started(pid),
        "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    }


def _machine() -> str:
    """Return what tells this machine, since it was started, and this container from others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # no Linux
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _started(pid: int) -> str | None:
    """Return what tells a process from later ones of the same number; None if it has ended."""
    try:
        # Ticks since the machine was started: unlike a time of day they stay when the clock is set.
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if state in "ZX" else fields[18]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.0f}"
    except psutil.NoSuchProcess:
        return None


def _seconds(key: str, default: str) -> float:
    """Return a time of Dask's configuration in seconds."""
    value = dask.config.get(key, default)
    try:
        seconds = float(parse_timedelta(value))
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(
            f"{key} is {value!r}, but it must be a time such as '30 s' or '5 minutes'"
        ) from error
    if seconds < 0:
        raise ValueError(f"{key} is {value!r}, but a time is 0 or more")
    return seconds
