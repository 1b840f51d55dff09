"""Files that claim a store for one writer: numbered, each created once, the highest one counts.

A claim is never rewritten. Whoever takes the place of a dead writer creates the next number, which only one can do;
a sign of life lies beside the claim in a file of its own.
"""

import errno
import inspect
import json
import threading
import time
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem

from dspectral.engine.retrying import retried
from dspectral.store.arrays import Location

FOLDER = "writer"
"""Folder in a store that holds the claim of the writer at work."""
SETTLED = 1.0
"""Seconds after which a file system without an exclusive create is asked whose claim is there."""
_IN_MEMORY = threading.Lock()


class ClaimFiles:
    """The claims of one store."""

    def __init__(self, where: Location) -> None:
        self._system, root = fsspec.url_to_fs(where.url, **dict(where.options))
        self._folder = f"{root.rstrip('/')}/{FOLDER}"

    def numbers(self) -> list[int]:
        """Return the numbers of all claims, the smallest first."""
        return retried(self._list_numbers, what=f"listing {self._folder}")

    def read(self, number: int) -> dict[str, Any] | None:
        """Return a claim."""
        content = retried(self._read_claim, number, what=f"reading the claim in {self._folder}")
        if content is None:
            return None
        try:
            found: dict[str, Any] = json.loads(content)
        except ValueError:  # the owner is about to write it, or died there
            return {}
        return found

    def create(self, number: int, content: dict[str, Any]) -> bool:
        """Create a claim, unless there is one of that number."""
        path, data = f"{self._folder}/{number:06d}.json", json.dumps(content).encode()
        try:
            known = retried(self._create, path, data, what=f"writing {path}")
        except NotADirectoryError as error:
            place = self._folder.rpartition("/")[0]
            raise FileExistsError(errno.EEXIST, "a file is where the store must be", place) from error
        except Exception as error:
            if not _is_taken(error):
                raise
            # An attempt that seemed to fail may have written it.
            return self.read(number) == content
        if not known:
            # Without an exclusive create the last of those who looked at the same time has overwritten the others.
            # Each looks again once all of them have written.
            time.sleep(SETTLED)
        return self.read(number) == content

    def beat(self, number: int, sign: str) -> None:
        """Leave a sign of life."""
        self._system.pipe_file(f"{self._folder}/{number:06d}.beat", sign.encode())

    def last_beat(self, number: int) -> bytes | None:
        """Return the last sign of life."""
        return self._read(f"{number:06d}.beat")

    def remove(self, *numbers: int) -> None:
        """Remove claims in their order, and the folder with the last of them."""
        for number in numbers:
            for ending in ("beat", "json"):  # a claim without a sign of life is one that ends
                try:
                    self._system.rm_file(f"{self._folder}/{number:06d}.{ending}")
                except FileNotFoundError:
                    continue
        if _is_local(self._system):
            try:
                self._system.rmdir(self._folder)
            except OSError:  # it is gone, or holds the claim of another writer
                return

    def _list_numbers(self) -> list[int]:
        self._system.invalidate_cache()  # others write
        try:
            found: list[str] = self._system.ls(self._folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = (one.rsplit("/", 1)[-1] for one in found)
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _read_claim(self, number: int) -> bytes | None:
        content = self._read(f"{number:06d}.json")
        if content is None and number in self._list_numbers():
            raise OSError(f"{self._folder}: claim {number} is listed, but was not found")
        return content

    def _read(self, name: str) -> bytes | None:
        path = f"{self._folder}/{name}"
        try:
            content: bytes = retried(self._system.cat_file, path, what=f"reading {path}")
        except FileNotFoundError:
            return None
        return content

    def _create(self, path: str, data: bytes) -> bool:
        """Create a file; return whether the file system makes sure that only one caller can."""
        system = self._system
        if _is_local(system):
            return self._create_locally(path, data)
        if "memory" in _protocols(system):  # threads of one process: it looks, then writes
            with _IN_MEMORY:
                system.pipe_file(path, data, mode="create")
            return True
        if _creates_once(system):
            system.pipe_file(path, data, mode="create")
            return True
        if system.exists(path):
            raise FileExistsError(path)
        system.pipe_file(path, data)
        return False

    def _create_locally(self, path: str, data: bytes) -> bool:
        while True:
            self._system.makedirs(self._folder, exist_ok=True)
            try:
                with self._system.open(path, "xb") as file:
                    file.write(data)
            except FileNotFoundError:  # the last writer removed the folder in between
                continue
            return True


def _creates_once(system: fsspec.AbstractFileSystem) -> bool:
    """Report whether a file system of a cloud knows a write on condition that nothing is there."""
    write = getattr(type(system), "_pipe_file", None)
    if write is None or write is getattr(AsyncFileSystem, "_pipe_file", None):
        return False
    return "mode" in inspect.signature(write).parameters


def _is_taken(error: BaseException) -> bool:
    """Report whether an error says that the file is there: S3 answers 412 or 409, which s3fs may pass on."""
    texts = f"{type(error).__name__} {error} {error.__cause__}"
    signs = ("PreconditionFailed", "ConditionalRequestConflict", "At least one of the pre-conditions", "412")
    return isinstance(error, FileExistsError) or any(sign in texts for sign in signs)


def _protocols(system: fsspec.AbstractFileSystem) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)


def _is_local(system: fsspec.AbstractFileSystem) -> bool:
    return "file" in _protocols(system)
