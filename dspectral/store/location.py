"""Locations of Zarr stores: groups, attributes, listings and files; redacted URLs."""

import asyncio
import json
import os
import re
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast
from uuid import uuid4

import fsspec
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore

from dspectral.engine.around.checkpoints import UnknownContentError
from dspectral.engine.around.file_systems import open_file_system
from dspectral.engine.around.retries import retry
from dspectral.paths import join_inside, name_file_in_errors, resolve_url

METADATA = "zarr.json"
"""Name of the file with the metadata of a group or array."""
ERRORS = ("strict", "replace")
"""Options for bytes that are not UTF-8."""
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_QUERY = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:key|secret|token|password|passwd|pwd|credential|signature)[\w.-]*|sig|sas|auth)=)[^&;#\s]+"
)


INVALID_CONTENT_ERRORS = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError
)  # fmt: skip
"""Errors of Zarr, JSON and decoders for invalid content; RecursionError is a RuntimeError."""


class StoreError(ValueError):
    """Raised when a store or one of its blocks is missing, unfinished or damaged."""


class _WithoutPickle:
    """Mixin of Zarr stores that rejects arrays with the pickle codec, which can run code from a file."""

    async def get(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Read a key for Zarr."""
        content: Buffer | None = await cast(Any, super()).get(key, *arguments, **options)
        if content is not None and key.endswith(".zarray") and _uses_pickle_codec(json.loads(content.to_bytes())):
            raise ValueError(f"{key} uses the pickle codec, which can run code from the file: remove the array")
        return content


class LocalFiles(_WithoutPickle, LocalStore):
    """Local folder whose files are flushed to disk before they get their names."""

    async def set(self, key: str, value: Buffer) -> None:
        """Write a file for Zarr, atomically."""
        self._check_writable()
        await asyncio.to_thread(_replace, self.root / key, value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a file for Zarr unless it exists."""
        if not await self.exists(key):
            with suppress(FileExistsError):
                await asyncio.to_thread(_replace, self.root / key, value.to_bytes(), exclusive=True)


class RemoteFiles(_WithoutPickle, FsspecStore):
    """Store on a file system of fsspec."""


NAMED_LOCATIONS: dict[str, "Location"] = {}
"""Locations that callers in this process have opened, by redacted URL; files can refer to no others."""
Files: TypeAlias = LocalFiles | RemoteFiles
"""An open Zarr store."""


class Location(NamedTuple):
    """Location of a Zarr store: a local path or fsspec URL, and storage options as pairs."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_url(cls, url: str | PathLike[str], storage_options: dict[str, Any] | None = None) -> Self:
        """Return the location of a path or URL; local paths become absolute, since workers have other folders."""
        location = cls(*resolve_url(url, storage_options))
        NAMED_LOCATIONS[redact_urls(location.url)] = location
        return location

    def content_token(self) -> object:
        """Raise UnknownContentError: the content of a location can change."""
        raise UnknownContentError(f"they are read from {redact_urls(self.url)}, which stores no content hashes")

    def open_file_system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the store in it."""
        file_system, root = open_file_system(self.url, dict(self.options))
        return file_system, root.rstrip("/")

    def path(self, key: str) -> tuple[Any, str]:
        """Return the file system, and the path of a key of the store in it."""
        file_system, root = self.open_file_system()
        return file_system, join_inside(file_system, root, key)

    def open(self, *, read_only: bool = True) -> Files:
        """Open the Zarr store; nothing is read yet."""
        if "://" in self.url or "::" in self.url:
            options = dict(self.options)
            files = RemoteFiles.from_url(self.url, storage_options=options, read_only=read_only)
            return cast(RemoteFiles, files)  # Zarr's annotation names the parent class
        return LocalFiles(self.url, read_only=read_only)

    def read_files(self, *keys: str) -> list[NDArray[np.uint8] | None]:
        """Read whole files concurrently; None for a missing file."""
        paths, store = [self.path(key)[1] for key in keys], self.open()
        if isinstance(store, LocalFiles):  # in this thread, not in the event loop of Zarr
            return [np.fromfile(path, dtype=np.uint8) if Path(path).is_file() else None for path in paths]

        async def read() -> list[Any]:
            return await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in keys))

        return [None if content is None else np.asarray(content.as_numpy_array()) for content in sync(read())]

    def write_file(self, key: str, content: bytes) -> None:
        """Write a whole file."""
        self.path(key)
        sync(self.open(read_only=False).set(key, default_buffer_prototype().buffer.from_bytes(content)))

    def has_file(self, key: str) -> bool:
        """Report whether there is a file; unlike `exists` of Zarr and fsspec, raise transient errors."""
        file_system, path = self.path(key)
        file_system.invalidate_cache()  # Zarr writes through another instance
        with suppress(FileNotFoundError, NotADirectoryError):
            return bool(file_system.info(path)["type"] == "file")
        return False

    def read_attributes(self, path: str = "", *, zarr_format: Literal[3] | None = 3) -> dict[str, Any] | None:
        """Return the attributes of a group, of any format if that is None; None where there is no group."""
        at = f"{self.url}, {path}" if path else self.url
        return retry(self._read_attributes, path, zarr_format, at, description=f"reading the metadata of {at}")

    def _read_attributes(self, path: str, zarr_format: Literal[3] | None, group_name: str) -> dict[str, Any] | None:
        self.path(path)
        try:
            # Consolidated metadata may be older than the latest completion marker.
            group = zarr.open_group(self.open(), path=path, mode="r", zarr_format=zarr_format, use_consolidated=False)
        except FileNotFoundError:
            return None
        except INVALID_CONTENT_ERRORS as error:
            raise StoreError(f"{group_name} is not a group of Zarr with readable metadata: {error}") from error
        return dict(group.attrs.asdict())

    def write_attributes(self, path: str, attributes: dict[str, Any]) -> None:
        """Add attributes to a group in one write; create the group if it is missing."""

        def write() -> None:
            # attrs.update would write once for each key.
            self._require_group(path).update_attributes(attributes)

        self.path(path)
        retry(write, description=f"writing the metadata of {self.url}, {path}")

    def list_names(self, path: str = "") -> list[str]:
        """Return the sorted names of the files and folders in a folder; empty if it does not exist."""
        # Zarr's own listing opens each member and warns about other files, such as ".partial" files.
        return retry(self._list_dir, path, description=f"listing {self.url}/{path}")

    def _list_dir(self, path: str) -> list[str]:
        file_system, folder = self.path(path)
        file_system.invalidate_cache()  # Zarr writes through another instance
        try:
            paths = file_system.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def remove(self, *paths: str) -> None:
        """Remove groups or arrays with their contents; ignore missing ones."""
        for path in paths:
            self.path(path)
            retry(lambda path=path: self._require_group().__delitem__(path), description=f"removing {self.url}/{path}")

    def try_remove(self, *paths: str) -> None:
        """Remove temporary data; ignore errors, because the result is already complete."""
        with suppress(OSError):
            self.remove(*paths)

    def _require_group(self, path: str = "") -> zarr.Group:
        """Open a group for writing; create it if it is missing."""
        return zarr.open_group(self.open(read_only=False), path=path, mode="a", zarr_format=3)


def damage_error(location: Location, path: str, reason: str, kind: str = "store") -> StoreError:
    """Return the error for a group or array of a store that is missing or damaged."""
    return StoreError(f"{kind} {location.url}, block {path}: {reason}; remove the {kind} and build it again")


def is_local(file_system: fsspec.AbstractFileSystem) -> bool:
    """Report whether an fsspec file system is the local one."""
    return "file" in ((file_system.protocol,) if isinstance(file_system.protocol, str) else file_system.protocol)


def redact_urls(value: object) -> Any:
    """Return a value whose URLs are redacted: no user, password, key, token or signature.

    Parameters
    ----------
    value : object
        A string, or dicts, lists and tuples of strings; anything else is returned unchanged.

    Returns
    -------
    object
        The same value with ``***`` in place of credentials before ``@`` and of secret query parameters.

    Examples
    --------
    >>> redact_urls("s3://KEY:SECRET@bucket/a.txt")
    's3://***@bucket/a.txt'
    """
    if isinstance(value, str):
        return _QUERY.sub(r"\g<1>***", _USER.sub("***", value)) if "://" in value else value
    if isinstance(value, dict):
        return {key: redact_urls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_urls(item) for item in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(redact_urls(item) for item in value)
    return value


def _uses_pickle_codec(metadata: object) -> bool:
    """Report whether the metadata of an array name the pickle codec."""
    parts = metadata.values() if isinstance(metadata, dict) else metadata if isinstance(metadata, list) else ()
    return metadata == "pickle" or any(map(_uses_pickle_codec, parts))


def _replace(file: Path, content: bytes, *, exclusive: bool = False) -> None:
    temporary = file.with_name(f"{file.name}.{uuid4().hex}.partial")
    with name_file_in_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Flush to disk before the rename: after a power cut no completion marker may refer to a missing chunk.
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            (os.link if exclusive else os.replace)(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
