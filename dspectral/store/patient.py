"""Zarr's stores, each of whose requests is tried again if it fails for a moment.

The engine's :func:`~dspectral.engine.retrying.retried` waits in the thread that calls it. Requests of all threads share
Zarr's one loop, but for the files of arrays on local disks, and that loop must not stand still. An array is several
requests: tried again one by one, all of them get through where all of them together would not.

Whoever writes looks for the groups above first, and makes those that are not there. So that the root of a finished
store is never written anew because it was not found for a moment, a listing must agree that it is absent.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore

from dspectral.engine.configuration import configured_retries
from dspectral.engine.events import Retried, emit_to_all, worker_emitter
from dspectral.engine.retrying import FIRST_PAUSE, GAVE_UP, GROWTH, is_transient, retried
from dspectral.store.array_files import group_metadata
from dspectral.store.full_disk import named_when_full

R = TypeVar("R")
ROOT = "zarr.json"
"""Key of the metadata of a store's root, which say whether it is finished."""


class _Patient:
    """The requests of a store that are tried again; the other ones are made of these."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The loop's thread is none of a worker's: who is to be told is known in the thread that opens the store.
        self._tell_worker = worker_emitter()
        self._groups: set[str] = set()

    async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
        async def request() -> Any:
            found = await plain(key, *args, **kwargs)
            if found is None and key == ROOT:
                await self._verify_absence()
            return found

        plain = super().get  # type: ignore[misc]
        return await self._again(request, "reading", key)

    async def set(self, key: str, *args: Any, **kwargs: Any) -> None:
        await self._again(partial(super().set, key, *args, **kwargs), "writing", key)  # type: ignore[misc]

    async def exists(self, key: str) -> bool:
        async def request() -> bool:
            found: bool = await plain(key)
            if not found and key == ROOT:
                await self._verify_absence()
            return found

        plain = super().exists  # type: ignore[misc]
        return await self._again(request, "looking for", key)

    async def delete(self, key: str) -> None:
        await self._again(partial(super().delete, key), "removing", key)  # type: ignore[misc]

    async def delete_dir(self, prefix: str) -> None:
        await self._again(partial(super().delete_dir, prefix), "removing", prefix)  # type: ignore[misc]

    def make_groups(self, path: str) -> None:
        """Make the groups above a path that are not there."""
        folders = path.split("/")[:-1]
        above = {"/".join([*folders[:depth], ROOT]) for depth in range(len(folders) + 1)} - self._groups
        if above:
            sync(self._make(sorted(above), group_metadata()))
        # A store is opened for one block or one table: nobody removes a group between two of its arrays.
        self._groups |= above

    async def _make(self, keys: list[str], content: bytes) -> None:
        write: Any = self
        await asyncio.gather(*(write.set_if_not_exists(key, as_buffer(content)) for key in keys))

    def is_there(self, key: str) -> bool:
        """Report whether there is a file."""
        return sync(self.exists(key))

    def write_files(self, files: dict[str, bytes]) -> None:
        """Write files at once."""

        async def write() -> None:
            await asyncio.gather(*(self.set(key, as_buffer(content)) for key, content in files.items()))

        sync(write())

    def read_files(self, *keys: str) -> list[NDArray[np.uint8] | None]:
        """Read whole files at once; None stands for one that is not there."""

        async def read() -> list[Any]:
            return await asyncio.gather(*(self.get(key, default_buffer_prototype()) for key in keys))

        return [None if one is None else np.asarray(one.as_numpy_array()) for one in sync(read())]

    async def _verify_absence(self) -> None:
        system = getattr(self, "fs", None)
        if system is not None:
            system.invalidate_cache()  # a listing of an earlier moment
        try:
            listed = [name async for name in super().list_dir("")]  # type: ignore[misc]
        except FileNotFoundError:
            return
        if ROOT in listed:
            raise OSError(f"{self}: {ROOT} is listed, but was not found")

    async def _again(self, request: Callable[[], Awaitable[R]], doing: str, key: str) -> R:
        attempt, pause, n_attempts = 1, FIRST_PAUSE, 1 + configured_retries()
        while True:
            try:
                with named_when_full(f"{self}/{key}"):
                    return await request()
            except Exception as error:
                if not is_transient(error):
                    raise
                if attempt >= n_attempts:
                    if attempt > 1:
                        error.add_note(GAVE_UP.format(attempt))
                    raise
                said = " ".join(str(error).split()) or type(error).__name__
            event = Retried(f"{doing} {key} of {self}", attempt, pause, said)
            emit_to_all(event)
            self._tell_worker(event)
            await asyncio.sleep(pause)
            attempt, pause = attempt + 1, pause * GROWTH


class PatientLocalStore(_Patient, LocalStore):
    """A folder of this machine, or one that is shared with others.

    Files of arrays are read and written in the thread that asks, as Zarr's one loop would hand each of them to a thread
    of its own and back: most of the time of a small array, and where all threads of a pass would wait.
    """

    def is_there(self, key: str) -> bool:
        """Report whether there is a file."""
        return (self.root / key).exists()

    def write_files(self, files: dict[str, bytes]) -> None:
        """Write files, each aside and then renamed, so that a writer who is killed leaves no half one."""
        self._check_writable()
        for key, content in files.items():
            with named_when_full(f"{self}/{key}"):
                retried(_replace, self.root / key, content, what=f"writing {key} of {self}")

    def read_files(self, *keys: str) -> list[NDArray[np.uint8] | None]:
        """Read whole files; None stands for one that is not there."""
        return [retried(_content, f"{self.root}/{key}", what=f"reading {key} of {self}") for key in keys]


def _replace(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f"{file.name}.{uuid4().hex}.partial")
    try:
        aside.write_bytes(content)
        aside.replace(file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _content(path: str) -> NDArray[np.uint8] | None:
    try:
        return np.fromfile(path, dtype=np.uint8)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


class PatientFsspecStore(_Patient, FsspecStore):
    """A place that fsspec knows."""


def as_buffer(content: bytes) -> Buffer:
    """Return bytes as Zarr's stores take them."""
    return default_buffer_prototype().buffer.from_bytes(content)


PatientStore = PatientLocalStore | PatientFsspecStore
