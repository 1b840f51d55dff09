"""Where a store is: its groups, attributes, listings and files; addresses without secrets, and checks of arguments."""

import asyncio
import atexit
import errno
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast
from uuid import uuid4

import fsspec
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import iothread, loop, sync
from zarr.storage import FsspecStore, LocalStore

from dspectral.engine.around.checkpoints import UnknownContentError
from dspectral.engine.around.retries import retried
from dspectral.paths import inner_path, place_of, refuse_endless
from dspectral.store.array_files import LARGEST, METADATA, group_metadata

GROUP_KEYS = {"attributes", "zarr_format", "node_type", "consolidated_metadata"}
"""Keys that the metadata of a group may hold."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of the system: no space left, a quota used up, a file as long as it may be."""
FULL_ADVICE = ", free some and call it again"
"""End of the message of such an error."""
MOST = 2**62
"""Largest size: sums of such still fit 64 bits."""
ERRORS = ("strict", "replace")
"""Names of the ways to treat bytes that are not UTF-8."""
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_QUERY = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:key|secret|token|password|passwd|pwd|credential|signature)[\w.-]*|sig|sas|auth)=)[^&;#\s]+"
)


@atexit.register  # later than Zarr's own, and therefore called before it
def _stop_zarr_loop() -> None:
    """Stop Zarr's event loop before Zarr closes it: Zarr waits .2 s, too short on a busy machine, and then fails."""
    if loop[0] is not None and iothread[0] is not None:
        loop[0].call_soon_threadsafe(loop[0].stop)
        iothread[0].join(timeout=10)


class StoreError(ValueError):
    """A store, or a block of one, is missing, unfinished or damaged; the message names it."""


class _CheckedKeys:
    """Refuses keys outside of the store, and makes the groups above an array in one round of requests."""

    _system: Any = None
    """File system of fsspec, None for the disks of this machine."""

    def place(self, key: str) -> str:
        """Return the path of a key."""
        return inner_path(self._system, str(cast(Any, self).root), key)

    async def get(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Let Zarr read a key that is within the store."""
        self.place(key)
        found: Buffer | None = await cast(Any, super()).get(key, *arguments, **options)
        if found is not None and key.endswith(".zarray") and _uses_pickle_codec(json.loads(found.to_bytes())):
            raise ValueError(f"{key} names the codec pickle, which runs what is in a file")
        return found

    async def exists(self, key: str) -> bool:
        """Let Zarr look for a key that is within the store."""
        self.place(key)
        return bool(await cast(Any, super()).exists(key))

    async def delete(self, key: str) -> None:
        """Let Zarr remove a key that is within the store."""
        self.place(key)
        await cast(Any, super()).delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Let Zarr remove a folder that is within the store."""
        self.place(prefix.removesuffix("/"))
        await cast(Any, super()).delete_dir(prefix)

    # A store is opened for one block or one table: nobody removes a group between two of its arrays.
    _made: frozenset[str] = frozenset()

    def make_groups(self, path: str) -> None:
        """Make the groups above a path that are not there."""
        folders = path.split("/")[:-1]
        keys = {"/".join([*folders[:depth], METADATA]) for depth in range(len(folders) + 1)} - self._made
        write, content = cast(Any, self).set_if_not_exists, group_metadata()

        async def make() -> None:
            await asyncio.gather(*(write(key, as_buffer(content)) for key in sorted(keys)))

        if keys:
            sync(make())
        self._made |= keys


class LocalFiles(_CheckedKeys, LocalStore):
    """A folder, whose files are read and written in the calling thread, and not through Zarr's one loop."""

    most: float = math.inf
    """Bytes that a chunk has at most which Zarr reads, once metadata have said so."""

    async def get(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Let Zarr read a file that ends."""
        self.place(key, LARGEST if key.endswith(METADATA) else self.most)
        return await super().get(key, *arguments, **options)

    def place(self, key: str, most: float = math.inf) -> str:
        """Return the path of a key; refuse one of another store, of no end, or of more bytes than it may have."""
        with suppress(FileNotFoundError, NotADirectoryError):
            refuse_endless(f"{self.root}/{key}", most)
        return super().place(key)

    async def set(self, key: str, value: Buffer) -> None:
        """Let Zarr write a file, a mark among them, as arrays are written."""
        self._check_writable()
        await asyncio.to_thread(_replace, Path(self.place(key)), value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Let Zarr write the metadata of a new group."""
        if not self.is_there(key):
            with suppress(FileExistsError):
                await asyncio.to_thread(_replace, Path(self.place(key)), value.to_bytes(), new=True)

    def is_there(self, key: str) -> bool:
        """Report whether there is a file."""
        return Path(self.place(key)).exists()

    def write_files(self, files: dict[str, bytes]) -> None:
        """Write files, each aside and then renamed, so that a writer who is killed leaves no half one."""
        self._check_writable()
        for key, content in files.items():
            with named_when_full(f"{self}/{key}"):
                _replace(Path(self.place(key)), content)

    def read_files(self, *keys: str) -> list[NDArray[np.uint8] | None]:
        """Read whole files; None stands for one that is not there."""
        return [self._read_file(key) for key in keys]

    def _read_file(self, key: str) -> NDArray[np.uint8] | None:
        try:
            return np.fromfile(self.place(key, LARGEST), dtype=np.uint8)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None


class RemoteFiles(_CheckedKeys, FsspecStore):
    """A place that fsspec knows."""

    @property
    def _system(self) -> Any:
        return self.fs

    @property
    def root(self) -> str:
        """Path of the store in its file system."""
        return self.path.rstrip("/")

    async def set(self, key: str, value: Buffer, *arguments: Any) -> None:
        """Let Zarr write a key that is within the store."""
        self.place(key)
        await super().set(key, value, *arguments)

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


GIVEN: dict[str, "Location"] = {}
"""Places that callers of this process have named, by addresses without secrets: the only ones that a file can name."""
Files: TypeAlias = LocalFiles | RemoteFiles
"""A store of Zarr that is open."""


class Location(NamedTuple):
    """The place of a Zarr store: a local path or a URL that fsspec knows, and storage options as pairs."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: str | PathLike[str], storage_options: dict[str, Any] | None = None) -> Self:
        """Return the place that a user named; a local path is made absolute, as workers have folders of their own."""
        place = cls(*place_of(url, storage_options))
        GIVEN[without_secrets(place.url)] = place
        return place

    def known_content(self) -> object:
        """Raise an error: a place may hold other content tomorrow."""
        raise UnknownContentError(
            f"they are read from {without_secrets(self.url)}, which keeps no digests of what it holds"
        )

    def system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the store in it."""
        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        return system, root.rstrip("/")

    def path(self, key: str) -> tuple[Any, str]:
        """Return the file system, and the path of a key of the store in it."""
        system, root = self.system()
        return system, inner_path(system, root, key)

    def open(self, *, read_only: bool = True) -> Files:
        """Open the Zarr store; nothing is read yet."""
        if "://" in self.url or "::" in self.url:
            options = dict(self.options)
            opened = RemoteFiles.from_url(self.url, storage_options=options, read_only=read_only)
            return cast(RemoteFiles, opened)  # Zarr says that it is one of its own
        return LocalFiles(self.url, read_only=read_only)

    def attributes(self, path: str = "", *, zarr_format: Literal[3] | None = 3) -> dict[str, Any] | None:
        """Return the attributes of a group, of any format if that is None; None where there is no group."""
        at = f"{self.url}, {path}" if path else self.url
        return retried(self._read_attributes, path, zarr_format, at, what=f"reading the metadata of {at}")

    def _read_attributes(self, path: str, zarr_format: Literal[3] | None, at: str) -> dict[str, Any] | None:
        store = self.open()
        written = _read_local_attributes(store, f"{path}/{METADATA}" if path else METADATA)
        if written is not None:
            return written
        # Zarr says what is wrong, and reads what other programs have written.
        try:
            # Consolidated metadata is a copy of an earlier moment, in which a mark that was written since is missing.
            group = zarr.open_group(
                store, path=path, mode="r", zarr_format=zarr_format, use_consolidated=False
            )
        except FileNotFoundError:
            return None
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:  # of Zarr and of JSON
            raise StoreError(f"{at} is not a group of Zarr with readable metadata: {error}") from error
        return dict(group.attrs.asdict())

    def mark(self, path: str, attributes: dict[str, Any]) -> None:
        """Add attributes, as JSON knows them, to a group in one write; the group is made if need be."""

        def write() -> None:
            with named_when_full(f"{self.url}/{path}"):
                # One write, where attrs.update is one for each key.
                self._require_group(path).update_attributes(attributes)

        retried(write, what=f"writing the metadata of {self.url}, {path}")

    def names(self, path: str = "") -> list[str]:
        """List the files and folders directly under a path in alphabetical order; none where there is nothing."""
        # Zarr's own listing opens every member and warns of whatever is none, such as the ".partial" files that its
        # writers leave when they are killed.
        return retried(self._list_dir, path, what=f"listing {self.url}/{path}")

    def _list_dir(self, path: str) -> list[str]:
        system, folder = self.path(path)
        system.invalidate_cache()  # Zarr writes through another instance
        try:
            found = system.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(one.rstrip("/").rsplit("/", 1)[-1] for one in found)

    def remove(self, *paths: str) -> None:
        """Remove groups or arrays, one after the other, with all that is in them; what is not there is left out."""
        for path in paths:
            retried(
                lambda path=path: self._require_group().__delitem__(path), what=f"removing {self.url}/{path}"
            )

    def clear(self, *paths: str) -> None:
        """Remove what only takes room: what it lay beside is finished, and an error would have it written again."""
        with suppress(OSError):
            self.remove(*paths)

    def _require_group(self, path: str = "") -> zarr.Group:
        """Open a group to write to it; it is made if need be."""
        return zarr.open_group(self.open(read_only=False), path=path, mode="a", zarr_format=3)


def _read_local_attributes(store: Files, key: str) -> dict[str, Any] | None:
    """Return the attributes of a group of format 3 in a folder of this machine, None for everything else."""
    if not isinstance(store, LocalFiles):
        return None
    try:
        (content,) = store.read_files(key)
        metadata = {} if content is None else json.loads(content.tobytes())
    except (ValueError, RecursionError):
        return None
    if not isinstance(metadata, dict) or not {"attributes", "node_type"} <= metadata.keys() <= GROUP_KEYS:
        return None
    of_group = metadata["node_type"] == "group" and metadata.get("zarr_format") == 3
    return metadata["attributes"] if of_group and isinstance(metadata["attributes"], dict) else None


def is_local(system: Any) -> bool:
    """Report whether a file system of fsspec is that of this machine."""
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def as_buffer(content: bytes) -> Buffer:
    """Return bytes as Zarr's stores take them."""
    return default_buffer_prototype().buffer.from_bytes(content)


@contextmanager
def named_when_full(place: str) -> Iterator[None]:
    """Name the file for which there is no room, while the body writes it.

    >>> with named_when_full("counts/zarr.json"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device, free some and call it again: 'counts/zarr.json'
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or str(error.strerror).endswith(FULL_ADVICE):
            raise
        # A full table of inodes is found when a file is made, which names it.
        raise OSError(error.errno, f"{error.strerror}{FULL_ADVICE}", error.filename or place) from error


def without_secrets(value: Any) -> Any:
    """Return a value whose addresses name no user, password, key, token or signature.

    Parameters
    ----------
    value : object
        A text, or dicts, lists and tuples with texts in them; anything else is returned as it is.

    Returns
    -------
    object
        The same with ``***`` for what stands before ``@`` in an address, and for secret parameters of its query.

    Examples
    --------
    >>> without_secrets("s3://KEY:SECRET@bucket/a.txt")
    's3://***@bucket/a.txt'
    """
    if isinstance(value, str):
        return _QUERY.sub(r"\g<1>***", _USER.sub("***", value)) if "://" in value else value
    if isinstance(value, dict):
        return {key: without_secrets(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(without_secrets(one) for one in value)
    return value


def _uses_pickle_codec(metadata: Any) -> bool:
    """Report whether a codec that runs code is anywhere in the metadata of an array."""
    parts = (
        metadata.values() if isinstance(metadata, dict) else metadata if isinstance(metadata, list) else ()
    )
    return metadata == "pickle" or any(map(_uses_pickle_codec, parts))


def _replace(file: Path, content: bytes, *, new: bool = False) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f"{file.name}.{uuid4().hex}.partial")
    try:
        # On the disk before it has its name: after a power cut no mark may vouch for a chunk that is not there.
        # Measured on one busy disk: 4 ms a file, 0.8 s of 2 for 16 MB of text in 1 MiB blocks.
        with aside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        (os.link if new else os.replace)(aside, file)
    finally:
        aside.unlink(missing_ok=True)


def check_size(name: str, value: int) -> int:
    """Return a number of bytes, rows or occurrences as an int."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.60}, but it must be an integer of 1 or more")
    if not 1 <= value <= MOST:
        most = "" if value < 1 else f", and at most {MOST}"
        raise ValueError(f"{name} is {value}, but it must be 1 or more{most}")
    return int(value)


def check_name(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuse a name that is none of a few."""
    if value not in options:
        *first, last = map(repr, options)
        raise ValueError(f"{name} is {value!r:.60}, but it must be {', '.join(first)} or {last}")
